"""What the load generator uses: the programs that Steelyard runs during a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.experiment.probes.processes import children, own_process
from steelyard.experiment.probes.scheduling import TaskSet
from steelyard.gateways.host import Host
from steelyard.model.evidence import Absence, Quantity


@dataclass(slots=True, kw_only=True)
class GeneratorProcesses:
    """Children of Steelyard that were not there before the run.

    Their whole CPU time is known at the end, when Steelyard has waited for them; run-queue time
    is that of the last sample before.

    Attributes:
        chosen: Tells which of them it is about; None: all.
    """

    host: Host
    chosen: Callable[[], Sequence[int]] | None = None
    own_pid: int = field(init=False)
    _before: frozenset[int] = field(init=False)
    _tasks: TaskSet = field(init=False)

    def __post_init__(self) -> None:
        own = own_process(self.host)
        self.own_pid = own.pid if own else 0
        self._before = frozenset(children(self.host, self.own_pid))
        self._tasks = TaskSet(host=self.host)

    def used(self) -> dict[Quantity, float]:
        """Return what was used so far, to be compared with another reading."""
        return {**self.ended(), **self.queued()}

    def ended(self) -> dict[Quantity, float]:
        """Return the CPU time of all children that Steelyard has waited for, whosoever."""
        return {Quantity.GENERATOR_CPU_S: self.host.children_cpu_s()}

    def queued(self) -> dict[Quantity, float]:
        """Return how long they waited for a CPU so far."""
        queued = self.sampled()
        queued.pop(Quantity.GENERATOR_CPU_S, None)
        return queued

    def sampled(self) -> dict[Quantity, float]:
        """Return what a look in passing shows."""
        if self.host.read("/proc/self/schedstat") is None:
            return {}
        sums = self._tasks.read(
            f"/proc/{pid}/task/{task}/schedstat"
            for pid in self._pids()
            for task in self.host.names(f"/proc/{pid}/task")
        )
        return {
            Quantity.GENERATOR_CPU_S: sums.run_s,
            Quantity.GENERATOR_RUN_QUEUE_S: sums.delay_s,
        }

    def _pids(self) -> Iterator[int]:
        if self.chosen is not None:
            yield from self.chosen()
            return
        yield from (p for p in children(self.host, self.own_pid) if p not in self._before)

    def unsampled(self, totals: Mapping[Quantity, float]) -> tuple[Quantity, ...]:
        """Return which of the totals leave out most of what happened."""
        if self._tasks.saw_enough(totals.get(Quantity.GENERATOR_CPU_S, 0.0)):
            return ()
        return (Quantity.GENERATOR_RUN_QUEUE_S,)

    def absent(self) -> tuple[Absence, ...]:
        """Return what is not shown, and why."""
        if self.host.read("/proc/self/schedstat") is not None:
            return ()
        reason = "the kernel has no /proc/PID/schedstat"
        return (Absence(subject="run-queue time of the generator", reason=reason),)
