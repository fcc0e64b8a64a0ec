"""The agent in a pod, asked from here, and a command of this machine as an order for it.

A lost connection costs nothing but time: an order goes on without it, and every command may be
given twice. Only a pod that is lost ends the asking before its time.

The files of a command go along, and its paths become the pod's. A log is fetched in parts, each
with its checksum, into a file of the same name with the number of its pod. It is fetched while it
grows only where the pod has no more room for it: a fetch takes CPU from the generator.
"""

import base64
import binascii
import gzip
import hashlib
import shlex
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from steelyard.core.errors import MeasurementError, PreflightError, TargetError
from steelyard.core.kubernetes import POD, ContainerRef, ObjectRef
from steelyard.core.outside import Command, Completed
from steelyard.core.units import KIB, MIB, format_duration
from steelyard.gateways.files import free_bytes, translated
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import Dialogue, KubernetesApi
from steelyard.places.kubernetes.outcomes import Outcome, PodClock, Printed, read_outcome
from steelyard.places.kubernetes.pods import DELETED, PodLostError, loss

SCRIPT: Final = "/steelyard/agent/agent.sh"
WORK: Final = "/steelyard/work"
LOGS: Final = "/steelyard/logs"
PATIENCE_S: Final = 60.0  # of the API, before something runs; a guess
_ASK_S: Final = 30.0  # for a short command
_WAIT_S: Final = 60.0  # for one that waits; then it is asked again, should nobody have noticed
_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # the last one again and again
_PUT_BYTES: Final = 384 * KIB  # of a file in one command; a guess at what every API takes
_CHUNK_BYTES: Final = 4 * MIB  # likewise, before it is compressed
_NO_ORDER, _DAMAGED = 3, 4  # exit statuses of the agent
_NO_SHELL: Final = frozenset({126, 127})
_TRIPS: Final = 5
_LAST_WORD_S: Final = 2.0
_Result = TypeVar("_Result")


class _DamagedError(TargetError):
    """An answer is not what was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFile:
    """A file in a pod."""

    path: str
    size_bytes: int


class Agent:
    """One pod that runs orders.

    Args:
        api: The cluster.
        where: The container.
        uid: Of the pod, so that another one of its name is not taken for it.
        clock: Ours.
    """

    def __init__(self, api: KubernetesApi, where: ContainerRef, uid: str, clock: Clock) -> None:
        self.where = where
        self.pod_clock = PodClock()
        self._api = api
        self._uid = uid
        self._clock = clock

    def later(self, seconds: float) -> float:
        """Return the monotonic instant after so many seconds, until which something is asked."""
        return self._clock.monotonic() + seconds

    def look_at_clock(self) -> None:
        """Measure the pod's clock by some round trips."""
        for _ in range(_TRIPS):
            self._ask("now", until=self.later(PATIENCE_S), answer=lambda text: text)

    def put(self, path: str, content: bytes) -> None:
        """Write a file; it has its name only when it is complete.

        Raises:
            PodLostError: The pod is gone.
            TargetError: It cannot be written.
        """
        digest = hashlib.sha256(content).hexdigest()
        until = self.later(PATIENCE_S)
        for offset in range(0, len(content) or 1, _PUT_BYTES):
            part = base64.b64encode(content[offset : offset + _PUT_BYTES]).decode()
            last = offset + _PUT_BYTES >= len(content)
            words = ("put", path, str(offset), str(len(part)), *((digest,) if last else ()))
            self._ask(*words, stdin=part, until=until, answer=lambda text: text)

    def place(
        self,
        identifier: str,
        command: bytes,
        *,
        instant: float | None,
        limit_s: float,
        old: Sequence[str] = (),
    ) -> float:
        """Let an order begin; return the pod's clock when that was understood.

        Args:
            identifier: Of the order.
            command: A shell script.
            instant: By the pod's clock; None: at once.
            limit_s: After so long it is ended.
            old: Orders to forget.
        """
        text = base64.b64encode(command).decode()
        words = (
            *("place", identifier, str(round((instant or 0.0) * 1e6)), str(max(round(limit_s), 1))),
            *(str(len(text)), hashlib.sha256(command).hexdigest(), *old),
        )
        until = self.later(PATIENCE_S)
        return self._ask(*words, stdin=text, until=until, answer=_clock_of)

    def wait(
        self,
        identifier: str,
        *,
        until: float,
        spare_kib: int = 0,
        scarce: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Return what came of an order, once it has ended.

        Args:
            identifier: Of the order.
            until: Monotonic instant after which nobody waits any more.
            spare_kib: Room for logs below which ``scarce`` is called.
            scarce: Makes room.

        Raises:
            PodLostError: The pod is gone, and the outcome with it.
            MeasurementError: It did not end by then, or the API did not answer.
        """
        while True:
            words = ("wait", identifier, f"{_WAIT_S:.0f}", str(spare_kib))
            outcome, state = self._ask(
                *words, until=until, answer=_state_of, timeout_s=_WAIT_S + _ASK_S
            )
            if outcome is not None:
                return outcome
            if state == "full":
                scarce()
            if self._clock.monotonic() > until:
                raise MeasurementError(
                    f"what runs in pod {self.where.pod} did not end in time",
                    hint="Is the server hanging?",
                )

    def logs(self, identifier: str, *, until: float) -> tuple[PodFile, ...]:
        """Return the log files of an order so far."""

        def listed(text: str) -> tuple[tuple[str, int], ...]:
            lines = text.splitlines()
            if not lines or lines[-1] != "complete":
                raise _DamagedError(f"pod {self.where.pod} sent half a list of its logs")
            return tuple(_log_of(line) for line in lines[:-1])

        found = self._ask("logs", identifier, until=until, answer=listed)
        return tuple(
            PodFile(path=log_path(identifier, name), size_bytes=size) for name, size in found
        )

    def read(self, file: PodFile, *, until: float, offset: int = 0) -> Iterator[bytes]:
        """Yield what a file holds from an offset on, each part with a right checksum."""
        while offset < file.size_bytes:
            length = min(_CHUNK_BYTES, file.size_bytes - offset)
            yield self._ask(
                *("chunk", file.path, str(offset), str(length)),
                until=until,
                answer=partial(_content_of, length=length, path=file.path),
            )
            offset += length

    def punch(self, file: PodFile, *, until: float) -> None:
        """Give back the space of a file's first bytes, which were read."""
        words = ("punch", file.path, "0", str(file.size_bytes))
        self._ask(*words, until=until, answer=lambda text: text)

    def steer(self, identifier: str) -> "Reins":
        """Open what stops an order's program and lets it go on; the order ends when that is closed.

        Raises:
            TargetError: The pod cannot be reached.
        """
        argv = ("bash", SCRIPT, "steer", identifier)
        return Reins(self._api.talk(self.where, argv), self.pod_clock, self._clock)

    def end(self, identifier: str, *, patience_s: float) -> None:
        """End an order and all that it started; nothing happens where it has ended."""
        self._ask("end", identifier, until=self.later(patience_s), answer=lambda text: text)

    def _ask(
        self,
        *words: str,
        until: float,
        answer: Callable[[str], _Result],
        stdin: str = "",
        timeout_s: float = _ASK_S,
    ) -> _Result:
        """Ask until there is an answer.

        Raises:
            PodLostError: The pod is gone.
            PreflightError: The image has no shell.
            MeasurementError: There was none by ``until``, a monotonic instant.
        """
        pauses, pause_s = iter(_PAUSES_S), 0.0
        begun = self._clock.monotonic()
        while True:
            try:
                return answer(self._said(words, stdin, timeout_s))
            except PodLostError:
                raise
            except PreflightError:  # as the API says it of a pod that has ended, too
                self.require_alive()
                raise
            except (TargetError, MeasurementError) as error:
                self.require_alive()
                if self._clock.monotonic() >= until:
                    raise self._unanswered(words[0], begun, error) from error
            pause_s = next(pauses, pause_s)
            self._clock.sleep(pause_s)

    def _said(self, words: Sequence[str], stdin: str, timeout_s: float) -> str:
        asked_at = self._clock.now()
        argv = ("bash", SCRIPT, *words)
        completed = self._api.run(self.where, argv, timeout_s=timeout_s, stdin=stdin)
        answered_at = self._clock.now()
        if completed.exit_status:
            raise self._refusal(words[0], completed)
        if words[0] in {"now", "place"}:
            self.pod_clock.note(asked_at, _clock_of(completed.stdout), answered_at)
        return completed.stdout

    def _refusal(self, verb: str, completed: Completed) -> Exception:
        if completed.exit_status in _NO_SHELL:
            return PreflightError(
                f"the image of pod {self.where.pod} has no bash: {completed.tail(1)}",
                hint="Name an image with bash, psql and pgbench: `generators: {image: ...}`.",
            )
        if completed.exit_status == _NO_ORDER:
            return PodLostError(f"pod {self.where.pod} knows nothing of what it was to run")
        if completed.exit_status == _DAMAGED:
            return _DamagedError(f"pod {self.where.pod} received something damaged")
        said = completed.tail(2) or f"status {completed.exit_status}"
        return TargetError(f"pod {self.where.pod} refused {verb!r}: {said}")

    def require_alive(self) -> None:
        """Raise where the pod works no more; an API that does not answer says nothing about that.

        Raises:
            PodLostError: With the reason.
        """
        reason = self._loss()
        if reason:
            # A container ends before the cluster says why; and an evicted pod is deleted soon.
            self._clock.sleep(_LAST_WORD_S)
            again = self._loss()
            last = again if again not in {"", DELETED} else reason
            raise PodLostError(
                f"the load generator's pod {self.where.pod} {last}",
                hint="It is made anew for the next run; keep the cluster quiet during a campaign.",
            )

    def _loss(self) -> str:
        ref = ObjectRef(kind=POD, name=self.where.pod, namespace=self.where.namespace)
        try:
            return loss(self._api.read(ref), uid=self._uid)
        except TargetError:
            return ""

    def _unanswered(
        self, verb: str, begun: float, error: TargetError | MeasurementError
    ) -> MeasurementError:
        waited = format_duration(self._clock.monotonic() - begun)
        return MeasurementError(
            f"pod {self.where.pod} gave no answer to {verb!r} for {waited}: {error.message}",
            hint=error.hint,
        )


class Reins:
    """The program of an order, stopped and let go on by lines; used by one thread at a time.

    Attributes:
        has_ended: Whether the program had, when it was last told something.
    """

    def __init__(self, dialogue: Dialogue, pod_clock: PodClock, clock: Clock) -> None:
        self._dialogue = dialogue
        self._pod_clock = pod_clock
        self._clock = clock
        self.has_ended = False

    def stop(self) -> bool:
        """Stop it; return whether it stands still, which one does that has ended: else it goes on.

        Raises:
            TargetError: The connection was lost: then the program is ended.
            MeasurementError: There was no answer.
        """
        return self._tell("stop") != "late"

    def go(self) -> None:
        """Let it go on."""
        self._tell("go")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._tell(f"signal {number}")

    def close(self) -> None:
        """Let go of it: the order is ended where it has not."""
        self._dialogue.close()

    def _tell(self, line: str) -> str:
        asked_at = self._clock.now()
        answer = self._dialogue.ask(line, timeout_s=_ASK_S)
        word, _, clock = answer.partition(" ")
        self._pod_clock.note(asked_at, _clock_of(f"clock {clock}\n"), self._clock.now())
        self.has_ended = word == "ended"
        return word


def order_path(identifier: str, name: str) -> str:
    """Return where a file of an order is in the pod."""
    return f"{WORK}/orders/{identifier}/{name}"


def file_path(folder: str, name: str) -> str:
    """Return where a file of this machine is in the pod."""
    return f"{WORK}/files/{folder}/{name}"


def log_path(identifier: str, name: str) -> str:
    """Return where a log of an order is in the pod."""
    return f"{LOGS}/{identifier}/{name}"


def _clock_of(text: str) -> float:
    for line in text.splitlines(keepends=True):
        word, _, value = line.partition(" ")
        if word == "clock" and value.endswith("\n"):
            try:
                return float(value)
            except ValueError:
                break
    raise _DamagedError("the pod did not say what time it is")


def _state_of(text: str) -> tuple[Outcome | None, str]:
    """Return the outcome of an order, or that it has none yet and why the waiting ended.

    Raises:
        TargetError: The text is damaged.
    """
    states = [line for line in text.splitlines() if line.startswith("state ")]
    if not states:
        raise _DamagedError("the pod did not say how its order stands")
    state = states[-1].removeprefix("state ")
    if state != "ended":
        return None, state
    try:
        return read_outcome(text), state
    except ValueError as error:
        raise _DamagedError(f"the pod sent half an outcome: {error}") from error


def _log_of(line: str) -> tuple[str, int]:
    word, _, rest = line.partition(" ")
    size, _, name = rest.partition(" ")
    if word != "log" or not size.isdecimal() or not name:
        raise _DamagedError(f"{line!r} names no log")
    return name, int(size)


def _content_of(text: str, length: int, path: str) -> bytes:
    """Return the bytes in an answer to ``chunk``.

    Raises:
        TargetError: They are not those that were in the file.
    """
    said = dict(line.partition(" ")[::2] for line in text.splitlines())
    try:
        if "gzip" in said:
            content = gzip.decompress(base64.b64decode(said["gzip"], validate=True))
        else:
            content = base64.b64decode(said.get("plain", ""), validate=True)
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise _DamagedError(f"{path} did not arrive whole: {error}") from error
    if len(content) != length or hashlib.sha256(content).hexdigest() != said.get("sha256"):
        raise _DamagedError(f"{path} did not arrive as it was sent")
    return content


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
