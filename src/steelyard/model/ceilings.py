"""What the place of a campaign can do at most, measured before the first block."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steelyard.model.units import MIB

LOG_WRITE_BYTES: Final = 16 * MIB  # a segment of WAL


class CeilingKind(StrEnum):
    """What was measured."""

    ROUND_TRIP = "round trip"  # an empty statement on one open connection
    PING_PONG = "ping-pong"  # two processes that wake each other up; one trip is two wake-ups
    SYNC = "sync"  # 8 KiB written and forced out, one after another
    DIRECT_READ = "direct read"  # past the page cache
    LOG_WRITE = "log write"  # LOG_WRITE_BYTES written and forced out, one after another


class CeilingsAsked(StrEnum):
    """Which ceilings an experiment asks for."""

    AUTO = "auto"  # those of the device only where they cost little of the budget
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One ceiling, or why it is not known.

    Attributes:
        subject: What it is of: the server, the CPUs, the method of forcing out, the size of a read.
        latency_s: The median; of pg_test_fsync, which prints no other, the mean. None when unknown.
        fastest_s: The 5 % quantile: nearly nothing was faster. None when not measured.
        p99_s: The 99 % quantile; None likewise.
        rate_per_s: The most per second; None where only a latency was measured, or nothing.
        samples: Measurements behind the quantiles.
        how: The source, in words.
        unknown: Why there is no value; empty when there is one.
        treatments: Those whose server it holds for; of a method of forcing out, those whose
            commits wait for it. Empty: it holds for none in particular.
    """

    kind: CeilingKind
    subject: str
    latency_s: float | None = None
    fastest_s: float | None = None
    p99_s: float | None = None
    rate_per_s: float | None = None
    samples: int = 0
    how: str = ""
    unknown: str = ""
    treatments: tuple[str, ...] = ()
