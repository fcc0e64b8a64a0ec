"""A command of this machine as an order for a pod, and what came of it, brought back whole.

The files of a command go along, and its paths become the pod's. A log is fetched in parts, each
with its checksum, into a file of the same name with the number of its pod. It is fetched while it
grows only where the pod has no more room for it: a fetch takes CPU from the generator.
"""

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from steelyard.core.errors import MeasurementError, TargetError
from steelyard.core.outside import Command
from steelyard.core.units import MIB
from steelyard.gateways.files import free_bytes, translated
from steelyard.gateways.host import Clock
from steelyard.places.kubernetes.agent import Agent, PodFile, file_path, log_path, order_path
from steelyard.places.kubernetes.outcomes import Outcome, Printed

# The pod has its own, of a Secret: no order's file holds a password. That of a guest, who is made
# for the load alone, comes in a file of its own.
_SECRET: Final = frozenset({"PGPASSWORD", "REDISCLI_AUTH"})
_DIGITS: Final = 16
_NOT_FOUND: Final = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """A file that a command reads.

    Attributes:
        place: Where it will be in the pod; another content has another place.
    """

    place: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an agent runs.

    Attributes:
        identifier: In its pod.
        command: A shell script.
        enclosed: Files that it needs.
        logs: Where on this machine the files belong that it writes; None: it writes none.
        places: Paths of the pod and what they are here, to understand what it prints.
    """

    identifier: str
    argv: tuple[str, ...]
    command: bytes = field(repr=False)
    enclosed: tuple[Enclosed, ...] = ()
    logs: Path | None = None
    places: Mapping[str, str] = field(default_factory=dict)

    def as_here(self, text: str) -> str:
        """Return what it printed with the paths of this machine."""
        for theirs, ours in self.places.items():
            text = text.replace(theirs, ours)
        return text


def compose(command: Command, identifier: str, roots: Sequence[Path]) -> Order:
    """Return a command as an order.

    A path below one of the roots, at the beginning of an argument or after its ``=``, is another
    one in the pod: that of a copy where it is a file here, else, where its directory is there, that
    of a log whose files come back. ``@`` and what follows stay: pgbench's weight of a script.

    Args:
        command: Its account and directory mean nothing in a pod.
        identifier: Of the order.
        roots: Directories of this machine.

    Raises:
        TargetError: It asks for control groups of this machine.
    """
    if command.groups:
        raise TargetError(
            f"{command.argv[0]} cannot join a control group of this machine from a pod",
            hint="Leave `cgroup:` out; the pods' limits are `generators: {resources: ...}`.",
        )
    argv: list[str] = []
    enclosed: list[Enclosed] = []
    logs: list[Path] = []
    places: dict[str, str] = {}
    for argument in command.argv:
        head, path, tail = _split(argument, roots)
        if path is None:
            argv.append(argument)
            continue
        if path.is_file():
            enclosed.append(_enclosed(path))
            theirs = enclosed[-1].place
        else:
            logs.append(path.parent)
            theirs = log_path(identifier, path.name)
        places[theirs] = str(path)
        argv.append(f"{head}{theirs}{tail}")
    return Order(
        identifier=identifier,
        argv=command.argv,
        command=_script(argv, command, identifier),
        enclosed=(*enclosed, *_secrets(command, identifier)),
        logs=logs[0] if logs else None,
        places=places,
    )


def _split(argument: str, roots: Sequence[Path]) -> tuple[str, Path | None, str]:
    """Return what stands before a path of this machine, the path, and what follows it."""
    head, equals, text = argument.partition("=")
    if not equals or head.startswith("/"):
        head, text = "", argument
    if not any(text.startswith(f"{root}/") for root in roots):
        return argument, None, ""
    for path, tail in _readings(text):
        if path.is_file():
            return f"{head}{equals}" if head else "", path, tail
    path = Path(text)
    if path.parent.is_dir() and not path.is_dir():
        return f"{head}{equals}" if head else "", path, ""
    return argument, None, ""


def _readings(text: str) -> Iterator[tuple[Path, str]]:
    yield Path(text), ""
    name, at, weight = text.rpartition("@")
    if at:
        yield Path(name), f"{at}{weight}"


def _enclosed(path: Path) -> Enclosed:
    with translated(path, TargetError):
        content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    return Enclosed(place=file_path(digest, path.name), content=content)


def _secrets(command: Command, identifier: str) -> tuple[Enclosed, ...]:
    return tuple(
        Enclosed(place=_secret_place(identifier, number), content=secret.encode())
        for number, secret in enumerate(command.secrets.values())
    )


def _secret_place(identifier: str, number: int) -> str:
    return order_path(identifier, f"secret-{number}")


def _script(argv: Sequence[str], command: Command, identifier: str) -> bytes:
    """Return the order's file; each secret word is in one of its own, which is gone once read."""
    exports = [
        f"export {name}={shlex.quote(value)}"
        for name, value in command.environment.items()
        if name not in _SECRET
    ]
    words = shlex.join(argv)
    for number, name in enumerate(command.secrets):
        place = _secret_place(identifier, number)
        exports.append(f"secret_{number}=$(<{place}); rm -f {place}")
        words = words.replace(name, f"'\"$secret_{number}\"'")
    found = f"type -P {shlex.quote(argv[0])} >/dev/null || exit {_NOT_FOUND}"
    return "\n".join([*exports, found, f"exec {words}", ""]).encode()


# A guess: what reads the logs here needs room, and is waited for while there is less.
_ROOM_BYTES: Final = 16 * MIB
_ROOM_S: Final = 30.0
_LOOK_S: Final = 0.5


@dataclass(slots=True)
class Collector:
    """Brings back what one order left.

    Args:
        agent: Of its pod.
        order: The order.
        number: Of the pod; tells files of several apart that have one name.
        clock: Ours.
    """

    agent: Agent
    order: Order
    number: int
    clock: Clock
    _fetched: dict[str, int] = field(default_factory=dict)

    def printed(self, outcome: Outcome, *, until: float) -> dict[str, str]:
        """Return the text of each stream.

        Raises:
            MeasurementError: It is damaged in the pod itself.
        """
        return {each.name: self._text(each, until) for each in outcome.printed}

    def _text(self, stream: Printed, until: float) -> str:
        content = stream.content
        if content is None:
            path = order_path(self.order.identifier, stream.name)
            file = PodFile(path=path, size_bytes=stream.size_bytes)
            content = b"".join(self.agent.read(file, until=until))
            if not stream.accepts(content):
                raise MeasurementError(
                    f"{stream.name} of {self.order.argv[0]} in pod {self.agent.where.pod} is not"
                    " what was printed: its checksum differs",
                    hint="Is something wrong with the node's memory or disk?",
                )
        return self.order.as_here(content.decode(errors="replace"))

    def logs(self, outcome: Outcome, *, until: float) -> None:
        """Bring back what is missing of all logs of an order that has ended."""
        for name, size_bytes in outcome.logs:
            path = log_path(self.order.identifier, name)
            self._bring(PodFile(path=path, size_bytes=size_bytes), until)

    def make_room(self, *, until: float) -> None:
        """Bring back what there is of the logs of an order that goes on, and free its space."""
        for file in self.agent.logs(self.order.identifier, until=until):
            self._bring(file, until)
            self.agent.punch(file, until=until)

    def _bring(self, file: PodFile, until: float) -> None:
        if self.order.logs is None:
            return
        name = PurePosixPath(file.path).name
        target = self.order.logs / (f"{name}.{self.number}" if self.number else name)
        for part in self.agent.read(file, until=until, offset=self._fetched.get(file.path, 0)):
            self._await_room(target.parent, len(part))
            with translated(target, MeasurementError), target.open("ab") as here:
                here.write(part)
            self._fetched[file.path] = self._fetched.get(file.path, 0) + len(part)

    def _await_room(self, directory: Path, size_bytes: int) -> None:
        """Wait until what reads the logs here has given back the space of others."""
        deadline = self.clock.monotonic() + _ROOM_S
        while free_bytes(directory) < size_bytes + _ROOM_BYTES:
            if self.clock.monotonic() > deadline:
                raise MeasurementError(
                    f"{directory} has no room for the logs of the load generators",
                    hint="Log a share of the transactions (`measure.log_sampling`).",
                )
            self.clock.sleep(_LOOK_S)
