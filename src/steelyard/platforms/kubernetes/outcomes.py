"""What the agent of a pod says of an order that has ended."""

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import Final

from steelyard.model.units import US_PER_S
from steelyard.platforms.kubernetes.pod_runs import CpuUse

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
        began_at: By the pod's wall clock; so the next.
        logs: Names and sizes of the files that it wrote beside its output.
    """

    status: int
    began_at: float
    ended_at: float
    before: CpuUse
    after: CpuUse
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
        cpu = said["cpu"].split()
        return Outcome(
            status=int(said["status"]),
            began_at=float(said["began"]),
            ended_at=float(said["ended"]),
            before=_cpu_use(cpu[:4]),
            after=_cpu_use(cpu[4:]),
            printed=tuple(_printed(rest, inline) for word, rest in words if word == "file"),
            logs=tuple(_log(rest) for word, rest in words if word == "log"),
        )
    except (KeyError, binascii.Error) as error:
        raise ValueError(f"{error} is missing or damaged") from error


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


def _cpu_use(words: list[str]) -> CpuUse:
    usage, periods, throttled, stopped = (None if word == "-" else int(word) for word in words)
    return CpuUse(
        usage_s=None if usage is None else usage / US_PER_S,
        periods=periods,
        throttled_periods=throttled,
        throttled_s=None if stopped is None else stopped / US_PER_S,
    )
