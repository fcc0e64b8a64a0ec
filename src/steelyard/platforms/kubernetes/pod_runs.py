"""What a program in a pod did: when, with how much CPU, and how far apart several began."""

from dataclasses import dataclass

from steelyard.model.kubernetes import ContainerRef
from steelyard.platforms.kubernetes.clocks import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """Counters of a container's control group at an instant; None: not shown there.

    Attributes:
        usage_s: CPU seconds.
        periods: Of its quota.
        throttled_periods: Of them, in which it had to wait.
        throttled_s: How long it had to, summed over CPUs.
    """

    usage_s: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRun:
    """One program in one pod.

    Attributes:
        began_at: By the pod's wall clock.
        ended_at: Likewise.
        offset: Of the pod's clock to ours; None: not measured.
        before: Counters when it began.
        after: When it ended.
    """

    pod: ContainerRef
    node: str
    began_at: float
    ended_at: float
    offset: Offset | None
    before: CpuUse
    after: CpuUse

    @property
    def cpu_s(self) -> float | None:
        """Return the CPU seconds that it took."""
        return _difference(self.before.usage_s, self.after.usage_s)

    @property
    def throttled_s(self) -> float | None:
        """Return how long it had to wait for the next period of its quota."""
        return _difference(self.before.throttled_s, self.after.throttled_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSkew:
    """How far apart several programs began.

    Attributes:
        seconds: Between the first and the last.
        half_width_s: The truth is no farther from it: the clocks are known to so much only.
    """

    seconds: float
    half_width_s: float


def start_skew(runs: tuple[PodRun, ...]) -> StartSkew | None:
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


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
