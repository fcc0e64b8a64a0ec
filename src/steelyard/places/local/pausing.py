"""Letting a server and its load generators stand still while another configuration has its turn.

Invariant: after ``pause`` either nothing of them runs or all of it does, and whatever stood still
runs after ``proceed``. For a server that goes on, its generators alone stand still.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Final

from steelyard.core.errors import PrivilegeError
from steelyard.core.linux import Controller
from steelyard.core.outside import Command
from steelyard.core.schedule import Pausing
from steelyard.gateways.cgroups import (
    FREEZE,
    STATE,
    THAWED,
    Cgroups,
    Families,
    Freezer,
    Guard,
    Guards,
    SystemFamilies,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Processes, ProcessesHere, RunningPrograms
from steelyard.places.protocol import Guarded

PATIENCE_S: Final = 0.05  # measured: it takes less than a millisecond, on a busy machine some
_POLL_S: Final = 0.0001  # a look costs some 10 us by the freezer, some milliseconds in /proc


def pausing_of(cgroups: Cgroups) -> Pausing:
    """Return how servers and generators can stand still here, as this account."""
    try:
        if cgroups.privileged:
            cgroups.hierarchy(Controller.FREEZER)
            return Pausing.FREEZER
    except PrivilegeError:
        return Pausing.SIGNALS
    return Pausing.SIGNALS


def start_guard(places: Iterable[Guarded], guards: Guards) -> Guard:
    """Return one guard for all places of a campaign; nothing may be paused without it.

    Raises:
        TargetError: It does not start.
    """
    places = tuple(places)
    groups = [group for place in places for group in place.groups]
    return guards.start(groups, [place.directory for place in places])


class FrozenGroups:
    """A standstill by the freezer of two control groups.

    Args:
        generator: Freezes the group of the load generators.
        server: Freezes the group of the server.
        clock: For the patience.
        unthrottled: While it is held, the server has all the CPU it needs to get into the freezer:
            one whose quota is used up would have to wait for the next period, up to 0.1 s.
    """

    kind: Final = Pausing.FREEZER
    ahead_s: Final = 0.0

    def __init__(
        self,
        *,
        generator: Freezer,
        server: Freezer,
        clock: Clock,
        unthrottled: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._generator = generator
        self._server = server
        self._clock = clock
        self._unthrottled = unthrottled

    def pause(self) -> bool:
        """Freeze generator and server, in this order; return whether both are within 50 ms."""
        deadline = self._clock.monotonic() + PATIENCE_S
        is_frozen = False
        try:
            self._generator.freeze()
            self._server.freeze()
            # After it: what the server gets more it uses on its way into the freezer alone.
            with self._unthrottled():
                is_frozen = self._is_frozen_by(deadline)
        finally:
            if not is_frozen:
                self.proceed()
        return is_frozen

    def _is_frozen_by(self, deadline: float) -> bool:
        while True:
            is_late = self._clock.monotonic() > deadline
            if self._server.is_frozen() and self._generator.is_frozen():
                return True
            if is_late:
                return False
            self._clock.sleep(_POLL_S)

    def proceed(self) -> None:
        """Thaw the server, then the generator."""
        try:
            self._server.thaw()
        finally:
            self._generator.thaw()

    def close(self) -> None:
        """Thaw both, and give back what is held open."""
        self._server.close()
        self._generator.close()


class StoppedProcesses:
    """A standstill by signals: of generators, of a server's first process, then of the others.

    The first process of a server is stopped before those that it starts, and looks are repeated
    until one finds nothing that runs and nobody new.

    Args:
        server: Id of the server's first process; None: the server goes on.
        generators: Returns the ids of the load generators' first processes.
        processes: To send signals.
        families: To find descendants.
        clock: For the patience.
    """

    ahead_s: Final = 0.0

    def __init__(
        self,
        *,
        server: int | None,
        generators: Callable[[], Iterable[int]],
        processes: Processes,
        families: Families,
        clock: Clock,
    ) -> None:
        self._server = server
        self._generators = generators
        self._processes = processes
        self._families = families
        self._clock = clock
        self._stopped: dict[int, None] = {}  # in the order of stopping

    @property
    def kind(self) -> Pausing:
        """Return what stands still."""
        return Pausing.GENERATOR if self._server is None else Pausing.SIGNALS

    def pause(self) -> bool:
        """Stop everything; return whether nothing ran any more within 50 ms."""
        deadline = self._clock.monotonic() + PATIENCE_S
        is_still = False
        try:
            is_still = self._is_still_by(deadline)
        finally:
            if not is_still:
                self.proceed()
        return is_still

    def _is_still_by(self, deadline: float) -> bool:
        first = (*self._generators(), *(() if self._server is None else (self._server,)))
        for pid in first:
            self._stop(pid)
        before: frozenset[int] = frozenset()
        while True:
            is_late = self._clock.monotonic() > deadline
            family = self._families.of(first)
            running = [pid for pid, runs in family.items() if runs]
            # All of the look before were stopped when this one began: none of them had children.
            if not running and family.keys() <= before:
                return True
            if is_late:
                return False
            for pid in running:
                self._stop(pid)
            if running:
                self._clock.sleep(_POLL_S)
            before = frozenset() if running else frozenset(family)

    def _stop(self, pid: int) -> None:
        if pid not in self._stopped:
            self._stopped[pid] = None  # first: an interruption between the two would forget it
            self._processes.signal(pid, SIGSTOP)

    def proceed(self) -> None:
        """Continue everything, the last one stopped first."""
        while self._stopped:
            pid = next(reversed(self._stopped))
            with suppress(PrivilegeError):  # then it was not stopped, either
                self._processes.signal(pid, SIGCONT)
            del self._stopped[pid]


def is_frozen(group: Path, cgroups: Cgroups) -> bool:
    """Return whether a control group is frozen, or about to be."""
    state = cgroups.read(group, STATE)
    return state not in ("", THAWED) or cgroups.read(group, FREEZE) == "1"


def thaw(group: Path, cgroups: Cgroups) -> None:
    """Thaw a control group if it is frozen.

    Raises:
        TargetError: The kernel refuses.
    """
    if is_frozen(group, cgroups):
        is_first = cgroups.read(group, STATE) != ""
        cgroups.write(group, *((STATE, THAWED) if is_first else (FREEZE, "0")))


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
