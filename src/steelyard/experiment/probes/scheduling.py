"""Run and run-queue time of a set of tasks that come and go, from what schedstat says of each."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from steelyard.experiment.probes.processes import Scheduled, parse_scheduled
from steelyard.gateways.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSums:
    """Sums over tasks.

    Attributes:
        living_run_s: Time on a CPU of those that are there now.
        run_s: The same with those that ended.
        times: How often one of them got a CPU.
    """

    living_run_s: float
    run_s: float
    delay_s: float
    times: int


_NOTHING = Scheduled(run_s=0.0, delay_s=0.0, times=0)
_ENOUGH_SEEN = 0.5  # a guess: below that a sum over what samples saw is no answer
_NEVER_MIND_S = 0.05  # of CPU, which has no queue worth a figure


@dataclass(slots=True, kw_only=True)
class TaskSet:
    """Remembers what each task had reached when it was last seen.

    A task that ended counts with its last reading: what it did between that and its end is not
    in the sums.
    """

    host: Host
    _last: dict[str, Scheduled] = field(default_factory=dict)
    _earlier: Scheduled = _NOTHING  # of tasks whose id was given to another one
    _first_s: float | None = None
    _seen_s: float = 0.0  # run time between the first reading and the last

    def read(self, paths: Iterable[str]) -> TaskSums:
        """Return the sums with new readings of these tasks' ``schedstat``."""
        living_run_s = 0.0
        for path in paths:
            current = parse_scheduled(self.host.read(path))
            if current is None:
                continue  # it ended meanwhile
            living_run_s += current.run_s
            last = self._last.get(path, _NOTHING)
            if current.run_s < last.run_s:
                self._earlier = _sum([self._earlier, last])
            self._last[path] = current
        whole = _sum([self._earlier, *self._last.values()])
        if self._first_s is None:
            self._first_s = whole.run_s
        self._seen_s = whole.run_s - self._first_s
        return TaskSums(
            living_run_s=living_run_s,
            run_s=whole.run_s,
            delay_s=whole.delay_s,
            times=whole.times,
        )

    def saw_enough(self, cpu_s: float) -> bool:
        """Return whether readings saw the better part of the CPU time that tasks really used.

        They do not where tasks live shorter than an interval: runs below a second, a session for
        every transaction.
        """
        return cpu_s < _NEVER_MIND_S or self._seen_s >= _ENOUGH_SEEN * cpu_s


def _sum(parts: list[Scheduled]) -> Scheduled:
    return Scheduled(
        run_s=sum(part.run_s for part in parts),
        delay_s=sum(part.delay_s for part in parts),
        times=sum(part.times for part in parts),
    )
