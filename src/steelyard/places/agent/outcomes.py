"""What a program elsewhere did: when, with how much CPU, and how far apart several began.

How far a clock there is from ours is known by Cristian's method: it was read somewhere between our
question and the answer, so the offset is known to half of the time between; the shortest round trip
says it best.

Source: F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989).
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import Final

_KEPT_S: Final = 600.0  # quartz drifts by some ten millionths: 10 ms in that time
_MOST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How much later it is on a clock there than on ours.

    Attributes:
        seconds: Best guess.
        half_width_s: The truth is no farther from it, however the network delays.
    """

    seconds: float
    half_width_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trip:
    asked_at: float
    theirs: float
    answered_at: float

    @property
    def seconds(self) -> float:
        return self.answered_at - self.asked_at


class ClockThere:
    """What is known of one clock there."""

    def __init__(self) -> None:
        self._trips: list[_Trip] = []

    def note(self, asked_at: float, theirs: float, answered_at: float) -> None:
        """Take a round trip: our wall clock before, theirs between, ours after."""
        if answered_at < asked_at:  # our clock was set back meanwhile
            self._trips.clear()
            return
        self._trips.append(_Trip(asked_at=asked_at, theirs=theirs, answered_at=answered_at))
        self._trips = [each for each in self._trips if answered_at - each.asked_at < _KEPT_S]
        self._trips = self._trips[-_MOST:]

    @property
    def offset(self) -> Offset | None:
        """Return how far it is; None where it was never asked."""
        if not self._trips:
            return None
        best = min(self._trips, key=lambda trip: trip.seconds)
        return Offset(
            seconds=best.theirs - (best.asked_at + best.answered_at) / 2,
            half_width_s=best.seconds / 2,
        )

    @property
    def slowest_s(self) -> float:
        """Return the longest of the last round trips; 0.0 where there is none."""
        return max((trip.seconds for trip in self._trips[-5:]), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """One program that an agent ran.

    Attributes:
        where: What the agent's place is called.
        began_at: By the wall clock there.
        program_s: CPU seconds of the program itself.
        offset: Of that clock to ours; None: not measured.
    """

    where: str
    began_at: float
    program_s: float
    offset: Offset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSkew:
    """How far apart several programs began.

    Attributes:
        seconds: Between the first and the last.
        half_width_s: The truth is no farther from it: the clocks are known to so much only.
    """

    seconds: float
    half_width_s: float


def start_skew(runs: tuple[AgentRun, ...]) -> StartSkew | None:
    """Return how far apart programs began; None for one, or where a clock is not known."""
    begins = [
        (run.began_at - run.offset.seconds, run.offset.half_width_s)
        for run in runs
        if run.offset is not None
    ]
    if len(begins) < len(runs) or len(begins) < 2:
        return None
    first, last = min(begins), max(begins)
    return StartSkew(seconds=last[0] - first[0], half_width_s=first[1] + last[1])


_SIGNALS: Final = 64  # a shell says 128 + n of a program that signal n ended
_LIMIT: Final = 124  # coreutils' timeout says it of a program that its time was over
_KILLED: Final = 128 + 9  # and this where it had to be killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A stream of a program.

    Attributes:
        content: None where it is too much for the answer, and has to be fetched.
    """

    name: str
    size_bytes: int
    sha256: str
    content: bytes | None = None

    def accepts(self, content: bytes) -> bool:
        """Return whether this is what the program printed."""
        right = hashlib.sha256(content).hexdigest() == self.sha256
        return right and len(content) == self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An order that has ended.

    Attributes:
        status: As a shell says it.
        began_at: By the wall clock there; so the next.
        program_s: CPU seconds of the program itself.
        logs: Names and sizes of the files that it wrote beside its output.
    """

    status: int
    began_at: float
    ended_at: float
    program_s: float
    printed: tuple[Printed, ...]
    logs: tuple[tuple[str, int], ...] = field(default=())

    @property
    def exit_status(self) -> int:
        """Return the status as a process has it: negative where a signal ended it."""
        signal = self.status - 128
        return -signal if 0 < signal <= _SIGNALS else self.status

    def took_too_long(self, limit_s: float) -> bool:
        """Return whether it was ended because its time was over."""
        took_s = self.ended_at - self.began_at
        return self.status == _LIMIT or (self.status == _KILLED and took_s >= limit_s)


def read_outcome(text: str) -> Outcome:
    """Return what the agent printed of an order that has ended.

    Raises:
        ValueError: Something is missing or damaged.
    """
    lines = [line for line in text.splitlines() if line != "beat"]
    if "complete" not in lines:
        raise ValueError("it has no end")
    words = [line.partition(" ")[::2] for line in lines]
    said = dict(words)
    inline = dict(rest.partition(" ")[::2] for word, rest in words if word == "inline")
    try:
        return Outcome(
            status=int(said["status"]),
            began_at=float(said["began"]),
            ended_at=float(said["ended"]),
            program_s=sum(map(_seconds, said["program"].split())),
            printed=tuple(_printed(rest, inline) for word, rest in words if word == "file"),
            logs=tuple(_log(rest) for word, rest in words if word == "log"),
        )
    except (KeyError, binascii.Error) as error:
        raise ValueError(f"{error} is missing or damaged") from error


def _seconds(text: str) -> float:
    """Return a time as bash writes it: ``1m2.345s``."""
    minutes, _, seconds = text.removesuffix("s").partition("m")
    return 60.0 * int(minutes) + float(seconds)


def _printed(text: str, inline: dict[str, str]) -> Printed:
    name, size, digest = text.split()
    content = base64.b64decode(inline[name], validate=True) if name in inline else None
    printed = Printed(name=name, size_bytes=int(size), sha256=digest, content=content)
    if content is not None and not printed.accepts(content):
        raise ValueError(f"{name} has another checksum")
    return printed


def _log(text: str) -> tuple[str, int]:
    size, _, name = text.partition(" ")
    if not name:
        raise ValueError(f"{text!r} names no log")
    return name, int(size)


def unknown_skew() -> StartSkew | None:
    """Return None: nobody knows how far apart generators began, or there is only one."""
    return None
