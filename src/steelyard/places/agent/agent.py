"""The agent in a pod or on a host, asked from here, and a command of this machine as its order.

A lost connection costs nothing but time: an order goes on without it, and every command may be
given twice. Only a place that is lost ends the asking before its time.

The files of a command go along, and its paths become those there. A log is fetched in parts, each
with its checksum, into a file of the same name with the number of its place. It is fetched while it
grows only where there is no more room for it: a fetch takes CPU from the generator.
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
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Final, Protocol, TypeVar

from steelyard.core.outside import Command, Completed
from steelyard.core.wording import (
    KIB,
    MIB,
    MeasurementError,
    PreflightError,
    TargetError,
    format_duration,
)
from steelyard.gateways.files import free_bytes, translated
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Dialogue
from steelyard.places.agent.outcomes import ClockThere, Outcome, Printed, read_outcome

PATIENCE_S: Final = 60.0  # of the way there, before something runs; a guess
_ASK_S: Final = 30.0  # for a short command
_WAIT_S: Final = 60.0  # for one that waits; then it is asked again, should nobody have noticed
_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # the last one again and again
_PUT_BYTES: Final = 384 * KIB  # of a file in one command; a guess at what every API takes
_CHUNK_BYTES: Final = 4 * MIB  # likewise, before it is compressed
_NO_ORDER, _DAMAGED = 3, 4  # exit statuses of the agent
_NO_SHELL: Final = frozenset({126, 127})
_TRIPS: Final = 5
_Result = TypeVar("_Result")


class PlaceLostError(MeasurementError):
    """The place of an agent is gone, or works no more."""


class _DamagedError(TargetError):
    """An answer is not what was sent."""


def agent_script() -> str:
    """Return the agent itself."""
    return files(__package__).joinpath("agent.sh").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHome:
    """Where an agent has its files.

    Attributes:
        script: The agent itself.
        work: Orders, and the files that they read.
        logs: What they write beside their output.
        has_password: Programs there have it from elsewhere; else it goes with each order.
    """

    script: str
    work: str
    logs: str
    has_password: bool = True

    def order(self, identifier: str, name: str) -> str:
        """Return where a file of an order is."""
        return f"{self.work}/orders/{identifier}/{name}"

    def file(self, folder: str, name: str) -> str:
        """Return where a file of this machine is."""
        return f"{self.work}/files/{folder}/{name}"

    def log(self, identifier: str, name: str) -> str:
        """Return where a log of an order is."""
        return f"{self.logs}/{identifier}/{name}"


class AgentPlace(Protocol):
    """Where an agent runs. Equal ones are the same agent, with what it knows."""

    @property
    def label(self) -> str:
        """Return what it is called: ``pod x``, ``host x``."""
        ...

    @property
    def home(self) -> AgentHome:
        """Return where the agent has its files."""
        ...

    @property
    def needs(self) -> str:
        """Return what to do where it lacks a program, as a sentence."""
        ...

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command there to its end.

        Raises:
            TargetError: It cannot be reached.
            MeasurementError: The command did not end in time.
        """
        ...

    def talk(self, argv: Sequence[str]) -> Dialogue:
        """Start a command there that answers lines; its input ends with the connection."""
        ...

    def loss(self) -> str:
        """Return why it works no more; empty where it does, or where nobody can tell."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileThere:
    """A file of an agent."""

    path: str
    size_bytes: int


class Agent:
    """One place that runs orders."""

    def __init__(self, place: AgentPlace, clock: Clock) -> None:
        self.place = place
        self.clock_there = ClockThere()
        self._clock = clock

    @property
    def home(self) -> AgentHome:
        """Return where it has its files."""
        return self.place.home

    def later(self, seconds: float) -> float:
        """Return the monotonic instant after so many seconds, until which something is asked."""
        return self._clock.monotonic() + seconds

    def look_at_clock(self) -> None:
        """Measure the clock there by some round trips."""
        for _ in range(_TRIPS):
            self._ask("now", until=self.later(PATIENCE_S), answer=lambda text: text)

    def put(self, path: str, content: bytes) -> None:
        """Write a file; it has its name only when it is complete.

        Raises:
            PlaceLostError: The place is gone.
            TargetError: It cannot be written.
        """
        digest = hashlib.sha256(content).hexdigest()
        until = self.later(PATIENCE_S)
        for offset in range(0, len(content) or 1, _PUT_BYTES):
            part = base64.b64encode(content[offset : offset + _PUT_BYTES]).decode()
            last = offset + _PUT_BYTES >= len(content)
            words = ("put", path, str(offset), str(len(part)), *((digest,) if last else ()))
            self._ask(*words, stdin=part, until=until, answer=lambda text: text)

    def begin(
        self,
        identifier: str,
        command: bytes,
        *,
        instant: float | None,
        limit_s: float,
        old: Sequence[str] = (),
    ) -> float:
        """Let an order begin; return the clock there when that was understood.

        Args:
            identifier: Of the order.
            command: A shell script.
            instant: By the clock there; None: at once.
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
            PlaceLostError: The place is gone, and the outcome with it.
            MeasurementError: It did not end by then, or there was no answer.
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
                    f"what runs in {self.place.label} did not end in time",
                    hint="Is the server hanging?",
                )

    def logs(self, identifier: str, *, until: float) -> tuple[FileThere, ...]:
        """Return the log files of an order so far."""

        def listed(text: str) -> tuple[tuple[str, int], ...]:
            lines = text.splitlines()
            if not lines or lines[-1] != "complete":
                raise _DamagedError(f"{self.place.label} sent half a list of its logs")
            return tuple(_log_of(line) for line in lines[:-1])

        found = self._ask("logs", identifier, until=until, answer=listed)
        return tuple(
            FileThere(path=self.home.log(identifier, name), size_bytes=size) for name, size in found
        )

    def read(self, file: FileThere, *, until: float, offset: int = 0) -> Iterator[bytes]:
        """Yield what a file holds from an offset on, each part with a right checksum."""
        while offset < file.size_bytes:
            length = min(_CHUNK_BYTES, file.size_bytes - offset)
            yield self._ask(
                *("chunk", file.path, str(offset), str(length)),
                until=until,
                answer=partial(_content_of, length=length, path=file.path),
            )
            offset += length

    def punch(self, file: FileThere, *, until: float) -> None:
        """Give back the space of a file's first bytes, which were read."""
        words = ("punch", file.path, "0", str(file.size_bytes))
        self._ask(*words, until=until, answer=lambda text: text)

    def steer(self, identifier: str) -> "Reins":
        """Open what stops an order's program and lets it go on; the order ends when that is closed.

        Raises:
            TargetError: The place cannot be reached.
        """
        argv = ("bash", self.home.script, "steer", identifier)
        return Reins(self.place.talk(argv), self.clock_there, self._clock)

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
            PlaceLostError: The place is gone.
            PreflightError: There is no bash.
            MeasurementError: There was none by ``until``, a monotonic instant.
        """
        pauses, pause_s = iter(_PAUSES_S), 0.0
        begun = self._clock.monotonic()
        while True:
            try:
                return answer(self._said(words, stdin, timeout_s))
            except PlaceLostError:
                raise
            except PreflightError:  # as an API says it of a pod that has ended, too
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
        argv = ("bash", self.home.script, *words)
        completed = self.place.run(argv, timeout_s=timeout_s, stdin=stdin)
        answered_at = self._clock.now()
        if completed.exit_status:
            raise self._refusal(words[0], completed)
        if words[0] in {"now", "place"}:
            self.clock_there.note(asked_at, _clock_of(completed.stdout), answered_at)
        return completed.stdout

    def _refusal(self, verb: str, completed: Completed) -> Exception:
        if completed.exit_status in _NO_SHELL:
            return PreflightError(
                f"{self.place.label} has no bash: {completed.tail(1)}", hint=self.place.needs
            )
        if completed.exit_status == _NO_ORDER:
            return PlaceLostError(f"{self.place.label} knows nothing of what it was to run")
        if completed.exit_status == _DAMAGED:
            return _DamagedError(f"{self.place.label} received something damaged")
        said = completed.tail(2) or f"status {completed.exit_status}"
        return TargetError(f"{self.place.label} refused {verb!r}: {said}")

    def require_alive(self) -> None:
        """Raise where the place works no more; where nobody can tell it says nothing about that.

        Raises:
            PlaceLostError: With the reason.
        """
        reason = self.place.loss()
        if reason:
            raise PlaceLostError(
                f"the load generator's {self.place.label} {reason}",
                hint="It is made anew for the next run; keep the cluster quiet during a campaign.",
            )

    def _unanswered(
        self, verb: str, begun: float, error: TargetError | MeasurementError
    ) -> MeasurementError:
        waited = format_duration(self._clock.monotonic() - begun)
        return MeasurementError(
            f"{self.place.label} gave no answer to {verb!r} for {waited}: {error.message}",
            hint=error.hint,
        )


class Reins:
    """The program of an order, stopped and let go on by lines; used by one thread at a time.

    Attributes:
        has_ended: Whether the program had, when it was last told something.
    """

    def __init__(self, dialogue: Dialogue, clock_there: ClockThere, clock: Clock) -> None:
        self._dialogue = dialogue
        self._clock_there = clock_there
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
        self._clock_there.note(asked_at, _clock_of(f"clock {clock}\n"), self._clock.now())
        self.has_ended = word == "ended"
        return word


def _clock_of(text: str) -> float:
    for line in text.splitlines(keepends=True):
        word, _, value = line.partition(" ")
        if word == "clock" and value.endswith("\n"):
            try:
                return float(value)
            except ValueError:
                break
    raise _DamagedError("the agent did not say what time it is")


def _state_of(text: str) -> tuple[Outcome | None, str]:
    """Return the outcome of an order, or that it has none yet and why the waiting ended.

    Raises:
        TargetError: The text is damaged.
    """
    states = [line for line in text.splitlines() if line.startswith("state ")]
    if not states:
        raise _DamagedError("the agent did not say how its order stands")
    state = states[-1].removeprefix("state ")
    if state != "ended":
        return None, state
    try:
        return read_outcome(text), state
    except ValueError as error:
        raise _DamagedError(f"the agent sent half an outcome: {error}") from error


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


# A pod has its own, of a Secret: no order's file holds a password. Other places get it as they get
# that of a guest, who is made for the load alone: in a file of its own, which is gone once read.
PASSWORDS: Final = frozenset({"PGPASSWORD", "REDISCLI_AUTH"})
_DIGITS: Final = 16
_NOT_FOUND: Final = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """A file that a command reads.

    Attributes:
        place: Where it will be there; another content has another place.
    """

    place: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an agent runs.

    Attributes:
        identifier: Of its agent.
        command: A shell script.
        enclosed: Files that it needs.
        logs: Where on this machine the files belong that it writes; None: it writes none.
        places: Paths there and what they are here, to understand what it prints.
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


def compose(command: Command, identifier: str, roots: Sequence[Path], home: AgentHome) -> Order:
    """Return a command as an order.

    A path below one of the roots, at the beginning of an argument or after its ``=``, is another
    one there: that of a copy where it is a file here, else, where its directory is there, that
    of a log whose files come back. ``@`` and what follows stay: pgbench's weight of a script.

    Args:
        command: Its account and directory mean nothing elsewhere.
        identifier: Of the order.
        roots: Directories of this machine.
        home: Of the agent.

    Raises:
        TargetError: It asks for control groups of this machine.
    """
    if command.groups:
        raise TargetError(
            f"{command.argv[0]} cannot join a control group of this machine from elsewhere",
            hint="Leave `cgroup:` out; limits of pods are `generators: {resources: ...}`.",
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
            enclosed.append(_enclosed(path, home))
            theirs = enclosed[-1].place
        else:
            logs.append(path.parent)
            theirs = home.log(identifier, path.name)
        places[theirs] = str(path)
        argv.append(f"{head}{theirs}{tail}")
    return Order(
        identifier=identifier,
        argv=command.argv,
        command=_script(argv, command, identifier, home),
        enclosed=(*enclosed, *_secrets(command, identifier, home)),
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


def _enclosed(path: Path, home: AgentHome) -> Enclosed:
    with translated(path, TargetError):
        content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    return Enclosed(place=home.file(digest, path.name), content=content)


def _passwords(command: Command, home: AgentHome) -> Mapping[str, str]:
    """Return the variables of a command that go to a place that has no password of its own."""
    if home.has_password:
        return {}
    return {name: value for name, value in command.environment.items() if name in PASSWORDS}


def _secrets(command: Command, identifier: str, home: AgentHome) -> tuple[Enclosed, ...]:
    secrets = (*command.secrets.values(), *_passwords(command, home).values())
    return tuple(
        Enclosed(place=_secret_place(identifier, number, home), content=secret.encode())
        for number, secret in enumerate(secrets)
    )


def _secret_place(identifier: str, number: int, home: AgentHome) -> str:
    return home.order(identifier, f"secret-{number}")


def _script(argv: Sequence[str], command: Command, identifier: str, home: AgentHome) -> bytes:
    """Return the order's file; each secret word is in one of its own, which is gone once read."""
    lines = [
        f"export {name}={shlex.quote(value)}"
        for name, value in command.environment.items()
        if name not in PASSWORDS
    ]
    words = shlex.join(argv)
    passwords = _passwords(command, home)
    for number, name in enumerate((*command.secrets, *passwords)):
        place = _secret_place(identifier, number, home)
        lines.append(f"secret_{number}=$(<{place}); rm -f {place}")
        if name in passwords:
            lines.append(f"export {name}=$secret_{number}")
        else:
            words = words.replace(name, f"'\"$secret_{number}\"'")
    found = f"type -P {shlex.quote(argv[0])} >/dev/null || exit {_NOT_FOUND}"
    return "\n".join([*lines, found, f"exec {words}", ""]).encode()


# A guess: what reads the logs here needs room, and is waited for while there is less.
_ROOM_BYTES: Final = 16 * MIB
_ROOM_S: Final = 30.0
_LOOK_S: Final = 0.5


@dataclass(slots=True)
class Collector:
    """Brings back what one order left.

    Args:
        number: Of its place; tells files of several apart that have one name.
    """

    agent: Agent
    order: Order
    number: int
    clock: Clock
    _fetched: dict[str, int] = field(default_factory=dict)

    def printed(self, outcome: Outcome, *, until: float) -> dict[str, str]:
        """Return the text of each stream.

        Raises:
            MeasurementError: It is damaged there.
        """
        return {each.name: self._text(each, until) for each in outcome.printed}

    def _text(self, stream: Printed, until: float) -> str:
        content = stream.content
        if content is None:
            path = self.agent.home.order(self.order.identifier, stream.name)
            file = FileThere(path=path, size_bytes=stream.size_bytes)
            content = b"".join(self.agent.read(file, until=until))
            if not stream.accepts(content):
                raise MeasurementError(
                    f"{stream.name} of {self.order.argv[0]} on {self.agent.place.label} is not"
                    " what was printed: its checksum differs",
                    hint="Is something wrong with the node's memory or disk?",
                )
        return self.order.as_here(content.decode(errors="replace"))

    def logs(self, outcome: Outcome, *, until: float) -> None:
        """Bring back what is missing of all logs of an order that has ended."""
        for name, size_bytes in outcome.logs:
            path = self.agent.home.log(self.order.identifier, name)
            self._bring(FileThere(path=path, size_bytes=size_bytes), until)

    def make_room(self, *, until: float) -> None:
        """Bring back what there is of the logs of an order that goes on, and free its space."""
        for file in self.agent.logs(self.order.identifier, until=until):
            self._bring(file, until)
            self.agent.punch(file, until=until)

    def _bring(self, file: FileThere, until: float) -> None:
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
