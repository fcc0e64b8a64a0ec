"""Load generators of this machine for a server that goes on while they stand still."""

from collections.abc import Sequence

from steelyard.gateways.clock import Clock
from steelyard.gateways.families import Families, SystemFamilies
from steelyard.gateways.process import ProcessesHere, RunningPrograms
from steelyard.model.command import Command
from steelyard.platforms.local.pausing import StoppedProcesses


class PausedGenerators:
    """Starts the generators of one server, and stops them between its turns.

    Args:
        processes: Of this machine.
        clock: For the patience.
        families: To find what a generator has started.
    """

    def __init__(
        self, processes: ProcessesHere, clock: Clock, families: Families | None = None
    ) -> None:
        self._processes = processes
        self._running: list[RunningPrograms] = []
        self.standstill = StoppedProcesses(
            server=None,
            generators=self._pids,
            processes=processes,
            families=families or SystemFamilies(),
            clock=clock,
        )

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> RunningPrograms:
        """Start generators and return them while they run."""
        running = self._processes.begin_together(commands, timeout_s=timeout_s)
        self._running = [each for each in self._running if each.all_run()] + [running]
        return running

    def _pids(self) -> tuple[int, ...]:
        return tuple(pid for running in self._running for pid in running.pids)
