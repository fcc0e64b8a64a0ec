"""The control groups of a campaign: limits of server and generator, and letting them stand still.

Invariant: a group is in the ledger before it is made, no file outside these groups is written,
and both are gone after ``remove``. Between ``lift`` and ``put`` they limit nothing. What is
removed is not frozen.

While another configuration has its turn a server and its load generators stand still. Invariant:
after ``pause`` either nothing of them runs or all of it does, and whatever stood still runs after
``proceed``. For a server that goes on, its generators alone stand still.

Limits are written and read in both versions. Sources: Linux, Documentation/scheduler/sched-bwc.rst,
admin-guide/cgroup-v1/cpusets.rst, memory.rst and blkio-controller.rst, admin-guide/cgroup-v2.rst.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Final

from steelyard.core import linux
from steelyard.core.experiment import EffectiveSetting, Layer
from steelyard.core.findings import Finding, Severity
from steelyard.core.outside import Command, ControlGroup
from steelyard.core.schedule import Pausing
from steelyard.core.wording import LeftBehindError, PrivilegeError, TargetError
from steelyard.gateways.cgroups import (
    FREEZE,
    STATE,
    THAWED,
    Cgroups,
    Families,
    Freezer,
    Guard,
    Guards,
)
from steelyard.gateways.host import Clock, group_cpus, group_memory, group_quota, looks, until
from steelyard.gateways.process import Processes, Together
from steelyard.places.protocol import Guarded, Ledger, Unfit

Read = Callable[[str], str]  # from the name of a file to its text, empty where it is absent

_THROTTLE_FILES: Final = {
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
    "read_bytes_per_s": "blkio.throttle.read_bps_device",
    "write_bytes_per_s": "blkio.throttle.write_bps_device",
}
_THROTTLE_WORDS: Final = {
    "read_iops": "riops",
    "write_iops": "wiops",
    "read_bytes_per_s": "rbps",
    "write_bytes_per_s": "wbps",
}


def quota_files(version: int, cpus: float | None) -> Mapping[str, str]:
    """Return the text of each file that sets a CPU quota, or takes it away."""
    quota = None if cpus is None else round(cpus * linux.PERIOD_US)
    if version == 2:
        return {"cpu.max": f"{'max' if quota is None else quota} {linux.PERIOD_US}"}
    return {
        "cpu.cfs_period_us": str(linux.PERIOD_US),
        "cpu.cfs_quota_us": "-1" if quota is None else str(quota),
    }


def cpuset_files(version: int, cpus: tuple[int, ...] | None, parent: Read) -> Mapping[str, str]:
    """Return the text of each file that binds a group to CPUs; None: to all of its parent's.

    In version 1 a group has no CPUs and no memory nodes before they are written.
    """
    if version == 2:
        return {"cpuset.cpus": "" if cpus is None else linux.cpu_list(cpus)}
    return {
        "cpuset.mems": parent("cpuset.mems"),
        "cpuset.cpus": parent("cpuset.cpus") if cpus is None else linux.cpu_list(cpus),
    }


def throttle_files(version: int, device: str, limits: linux.Limits) -> tuple[tuple[str, str], ...]:
    """Return the files that throttle a device, each with its text; no limit takes one away."""
    asked = {key: getattr(limits, key) for key in linux.THROTTLES}
    if version == 2:
        words = [f"{_THROTTLE_WORDS[key]}={value or 'max'}" for key, value in asked.items()]
        return (("io.max", " ".join([device, *words])),)
    return tuple((_THROTTLE_FILES[key], f"{device} {value or 0}") for key, value in asked.items())


def throttle_in(read: Read, device: str, key: str) -> int | None:
    """Return one throttle of a device in force; None where there is none."""
    for line in read("io.max").splitlines():
        name, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields)
        if name == device and (value := values.get(_THROTTLE_WORDS[key], "max")) != "max":
            return int(value)
    for line in read(_THROTTLE_FILES[key]).splitlines():
        name, _, value = line.partition(" ")
        if name == device and int(value):
            return int(value)
    return None


def memory_files(version: int, limit: int | None) -> Mapping[str, str]:
    """Return the text of the file that limits memory in bytes, or takes the limit away."""
    if version == 2:
        return {"memory.max": "max" if limit is None else str(limit)}
    return {"memory.limit_in_bytes": "-1" if limit is None else str(limit)}


_GRACE_S = 5.0
_REMOVAL_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Which groups a campaign has.

    Attributes:
        name: What their names begin with; no two places of one campaign have the same.
        keys: All that any configuration limits.
        place: Where the data are: its device is throttled.
        pausing: Server and generator take turns with others, and are frozen in between.
    """

    name: str
    keys: frozenset[str]
    place: Path
    pausing: bool = False


class ServerGroups:
    """The groups of one place's server and generator, made when they are first needed."""

    def __init__(self, plan: GroupPlan, cgroups: Cgroups, ledger: Ledger, clock: Clock) -> None:
        self._plan = plan
        self._cgroups = cgroups
        self._ledger = ledger
        self._clock = clock
        self._server: dict[linux.Controller, Path] = {}
        self._generator: dict[linux.Controller, Path] = {}
        self._made: list[Path] = []
        self._standstill: FrozenGroups | None = None
        self._asked = linux.Limits()

    @property
    def server(self) -> tuple[Path, ...]:
        """Return the directories of the server's group, one for each hierarchy it is in."""
        return tuple(dict.fromkeys(self._server.values()))

    @property
    def generator(self) -> tuple[Path, ...]:
        """Return the directories of the generator's group."""
        return tuple(dict.fromkeys(self._generator.values()))

    @property
    def limiting(self) -> tuple[Path, ...]:
        """Return those of the server that limit it."""
        found = [
            path for each, path in self._server.items() if each is not linux.Controller.FREEZER
        ]
        return tuple(dict.fromkeys(found))

    @property
    def freezing(self) -> tuple[Path, ...]:
        """Return the groups that are frozen in pauses, also before they are made.

        Raises:
            PrivilegeError: The freezer is gone.
        """
        if not self._plan.pausing:
            return ()
        root = self._cgroups.hierarchy(linux.Controller.FREEZER).root
        return tuple(root / f"{self._plan.name}-{role}" for role in ("generator", "server"))

    @property
    def standstill(self) -> "FrozenGroups | None":
        """Return what freezes both groups, which have been made; None: they are never paused.

        Raises:
            TargetError: The groups cannot be frozen.
        """
        if self._standstill is None and self._plan.pausing:
            generator, server = map(self._cgroups.freezer, self.freezing)
            self._standstill = FrozenGroups(
                generator=generator,
                server=server,
                clock=self._clock,
                unthrottled=self._without_quota,
            )
        return self._standstill

    @contextmanager
    def _without_quota(self) -> Iterator[None]:
        """Take the server's CPU quota away for a moment; its CPUs and its device stay limited."""
        cpus, group = self._asked.cpus, self._server.get(linux.Controller.CPU)
        if cpus is None or group is None:
            yield
            return
        version = self._cgroups.hierarchy(linux.Controller.CPU).version
        self._write(group, quota_files(version, None).items())
        try:
            yield
        finally:
            self._write(group, quota_files(version, cpus).items())

    def require_ready(self) -> None:
        """Raise when groups with these limits cannot be made here.

        Raises:
            PrivilegeError: This account is not root, or a controller is not there.
        """
        keys = " and ".join(f"`{key}`" for key in linux.KEYS if key in self._plan.keys)
        if not self._cgroups.privileged:
            why = f"configurations ask for {keys} below `cgroup:`" if keys else "servers take turns"
            raise PrivilegeError(
                f"only root can make control groups, and {why}",
                hint=f"Run Steelyard as root{', or remove `cgroup:`' if keys else ''}.",
            )
        for controller in sorted(self._controllers | self._generators):
            self._cgroups.hierarchy(controller)

    def unfit(self, asked: Mapping[str, str]) -> tuple[Unfit, ...]:
        """Return what of a configuration's limits this machine cannot have."""
        limits, there = linux.limits_of(asked), self._cgroups.cpus()
        found = []
        for key in linux.CPUSETS:
            absent = set(getattr(limits, key) or ()) - set(there)
            if absent and there:
                message = (
                    f"this machine has no CPU {linux.cpu_list(absent)}: it has"
                    f" {linux.cpu_list(there)}"
                )
                found.append(Unfit(key=key, message=message, hint="Name CPUs that are there."))
        throttled = [key for key in linux.THROTTLES if key in asked]
        if throttled and self._cgroups.device(self._plan.place) is None:
            message = f"{self._plan.place} is on a file system without a block device of its own"
            hint = "Name a `directory:` on a disk; tmpfs, overlay and Btrfs cannot be throttled."
            found += [Unfit(key=key, message=message, hint=hint) for key in throttled]
        return tuple(found)

    def findings(self) -> tuple[Finding, ...]:
        """Return what of these limits does not hold in all cases."""
        limited = sorted({"write_iops", "write_bytes_per_s"} & self._plan.keys)
        if not limited or self._cgroups.hierarchy(linux.Controller.IO).version == 2:
            return ()
        return (
            Finding(
                code="writeback-not-limited",
                severity=Severity.INFO,
                message=f"{' and '.join(limited)} holds for what the server writes and syncs"
                " itself; what the kernel writes back later is not limited in control groups of"
                " version 1",
                remedy="Judge commits and reads by it, not the writing of dirty pages.",
                source="Linux, admin-guide/cgroup-v1/blkio-controller.rst",
                subject="campaign",
            ),
        )

    @property
    def _controllers(self) -> frozenset[linux.Controller]:
        return linux.controllers_of(self._plan.keys) | self._freezers

    @property
    def _generators(self) -> frozenset[linux.Controller]:
        wanted = "generator_cpuset" in self._plan.keys
        return (frozenset({linux.Controller.CPUSET}) if wanted else frozenset()) | self._freezers

    @property
    def _freezers(self) -> frozenset[linux.Controller]:
        return frozenset({linux.Controller.FREEZER}) if self._plan.pausing else frozenset()

    def make(self) -> None:
        """Make the groups that are not there yet, without limits.

        Raises:
            TargetError: The kernel refuses.
            PrivilegeError: A controller is gone.
        """
        for role, wanted, made in (
            ("server", self._controllers, self._server),
            ("generator", self._generators, self._generator),
        ):
            for controller in sorted(wanted):
                if controller not in made:
                    root = self._cgroups.hierarchy(controller).root
                    directory = root / f"{self._plan.name}-{role}"
                    if directory not in self._made:
                        self._ledger.created(ControlGroup(path=directory))
                        self._made.append(directory)
                        self._cgroups.make(directory)
                    made[controller] = directory
        self.lift()

    def lift(self) -> None:
        """Take all limits away."""
        self.put(linux.Limits())

    def put(self, limits: linux.Limits) -> None:
        """Bring limits into force; what is None becomes unlimited.

        Raises:
            TargetError: The kernel refuses one.
        """
        self._asked = limits
        for controller, directory in self._server.items():
            self._write(directory, self._files(controller, limits, limits.cpuset))
        for controller, directory in self._generator.items():
            self._write(directory, self._files(controller, limits, limits.generator_cpuset))

    def _write(self, directory: Path, files: Iterable[tuple[str, str]]) -> None:
        for name, text in files:
            self._cgroups.write(directory, name, text)

    def _files(
        self, controller: linux.Controller, limits: linux.Limits, cpus: tuple[int, ...] | None
    ) -> tuple[tuple[str, str], ...]:
        hierarchy = self._cgroups.hierarchy(controller)
        if controller is linux.Controller.FREEZER:
            return ()  # it limits nothing
        if controller is linux.Controller.CPU:
            return tuple(quota_files(hierarchy.version, limits.cpus).items())
        if controller is linux.Controller.CPUSET:

            def parent(name: str) -> str:
                return self._cgroups.read(hierarchy.root, name)

            return tuple(cpuset_files(hierarchy.version, cpus, parent).items())
        if controller is linux.Controller.MEMORY:
            return tuple(memory_files(hierarchy.version, limits.memory).items())
        return throttle_files(hierarchy.version, self._device(), limits)

    def in_force(self) -> linux.Limits:
        """Return the limits as the groups' own files tell them."""
        read = self._read
        throttles = {}
        if linux.Controller.IO in self._server:
            device, io = self._device(), self._read(self._server, linux.Controller.IO)
            throttles = {key: throttle_in(io, device, key) for key in linux.THROTTLES}
        return linux.Limits(
            cpus=group_quota(read(self._server, linux.Controller.CPU)),
            cpuset=group_cpus(read(self._server, linux.Controller.CPUSET)),
            generator_cpuset=group_cpus(read(self._generator, linux.Controller.CPUSET)),
            memory=group_memory(read(self._server, linux.Controller.MEMORY)),
            **throttles,
        )

    def _read(self, group: Mapping[linux.Controller, Path], controller: linux.Controller) -> Read:
        directory = group.get(controller)
        return lambda name: "" if directory is None else self._cgroups.read(directory, name)

    def effective(self) -> tuple[EffectiveSetting, ...]:
        """Return what is in force of everything that any configuration limits."""
        found = self._with_all_cpus(self.in_force())
        shown = {key: linux.shown_limit(key, found) for key in linux.KEYS if key in self._plan.keys}
        return tuple(
            EffectiveSetting(
                name=Layer.CGROUP.name_of(key), value=value, unit=unit, source="control group"
            )
            for key, (value, unit) in shown.items()
        )

    def deviations(self) -> tuple[str, ...]:
        """Return a sentence for each limit that is not in force as last put."""
        asked, found = self._with_all_cpus(self._asked), self._with_all_cpus(self.in_force())
        return tuple(
            f"{Layer.CGROUP.name_of(key)} was asked to be {_words(key, asked)}"
            f" and is {_words(key, found)}"
            for key in linux.KEYS
            if key in self._plan.keys and getattr(asked, key) != getattr(found, key)
        )

    def strangers(self, processes: frozenset[int]) -> frozenset[int]:
        """Return those of the server's processes that are not in its group."""
        inside = [frozenset(self._cgroups.members(directory)) for directory in self.server]
        return processes - frozenset.intersection(*inside) if inside else frozenset()

    def remove(self) -> None:
        """Remove the groups; ``note_removed`` comes after it.

        Raises:
            LeftBehindError: Processes in one do not end.
        """
        if self._standstill is not None:
            self._standstill.close()
            self._standstill = None
        self._server.clear()
        self._generator.clear()
        for directory in self._made:
            remove_group(directory, self._cgroups, self._clock)

    def note_removed(self) -> None:
        """Note in the ledger that all groups are gone."""
        while self._made:
            self._ledger.removed(ControlGroup(path=self._made[-1]))
            self._made.pop()

    def _with_all_cpus(self, limits: linux.Limits) -> linux.Limits:
        """Return limits in which no CPU set means all CPUs, however it is written."""
        all_cpus = self._cgroups.cpus()
        return replace(
            limits,
            cpuset=limits.cpuset or all_cpus,
            generator_cpuset=limits.generator_cpuset or all_cpus,
        )

    def _device(self) -> str:
        device = self._cgroups.device(self._plan.place)
        if device is None:
            raise TargetError(f"{self._plan.place} is on no block device that can be throttled")
        return device


def remove_group(directory: Path, cgroups: Cgroups, clock: Clock) -> None:
    """Remove a group whose processes have ended; the last may take a moment to be gone.

    It is thawed first: in version 1 a frozen process does not even die.

    Raises:
        LeftBehindError: Processes are still in it.
    """
    with suppress(TargetError):  # then its processes are named below
        thaw(directory, cgroups)
    if not until(lambda: cgroups.remove(directory), clock, _GRACE_S, _REMOVAL_POLL_S):
        pids = ", ".join(map(str, cgroups.members(directory))) or "unknown to this account"
        raise LeftBehindError(
            f"the control group {directory} has processes in it: {pids}",
            hint="End them, then run `steelyard clean`.",
        )


def _words(key: str, limits: linux.Limits) -> str:
    value, unit = linux.shown_limit(key, limits)
    return f"{value} {unit}" if unit else value


PATIENCE_S: Final = 0.05  # measured: it takes less than a millisecond, on a busy machine some
_POLL_S: Final = 0.0001  # a look costs some 10 us by the freezer, some milliseconds in /proc


def pausing_of(cgroups: Cgroups) -> Pausing:
    """Return how servers and generators can stand still here, as this account."""
    try:
        if cgroups.privileged:
            cgroups.hierarchy(linux.Controller.FREEZER)
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


class _Standing(ABC):
    """What stands still as a whole, or goes on."""

    def announce(self) -> None:  # noqa: B027 - there is nothing to agree on
        """Return: all of it is on this machine."""

    def pause(self) -> bool:
        """Stop all; return whether it did within 50 ms."""
        is_still = False
        try:
            is_still = self._comes_to_rest()
        finally:
            if not is_still:
                self.proceed()
        return is_still

    @abstractmethod
    def _comes_to_rest(self) -> bool:
        """Stop everything; return whether nothing ran any more in time."""

    @abstractmethod
    def proceed(self) -> None:
        """Let everything go on, in the opposite order."""


class FrozenGroups(_Standing):
    """A standstill by the freezer of two control groups, first of the generator's.

    Args:
        generator: Freezes the group of the load generators.
        server: Freezes the group of the server.
        unthrottled: While it is held, the server has all the CPU it needs to get into the freezer:
            one whose quota is used up would have to wait for the next period, up to 0.1 s.
    """

    kind: Final = Pausing.FREEZER

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

    def _comes_to_rest(self) -> bool:
        self._generator.freeze()
        self._server.freeze()
        # After it: what the server gets more it uses on its way into the freezer alone.
        with self._unthrottled():
            return until(
                lambda: self._server.is_frozen() and self._generator.is_frozen(),
                self._clock,
                PATIENCE_S,
                _POLL_S,
            )

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


class StoppedProcesses(_Standing):
    """A standstill by signals: of generators, of a server's first process, then of the others.

    The first process of a server is stopped before those that it starts, and looks are repeated
    until one finds nothing that runs and nobody new.

    Args:
        server: Id of the server's first process; None: the server goes on.
        generators: Returns the ids of the load generators' first processes.
    """

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

    def _comes_to_rest(self) -> bool:
        first = (*self._generators(), *(() if self._server is None else (self._server,)))
        for pid in first:
            self._stop(pid)
        before: frozenset[int] = frozenset()
        for _ in looks(self._clock, PATIENCE_S, _POLL_S):
            family = self._families.of(first)
            running = [pid for pid, runs in family.items() if runs]
            # All of the look before were stopped when this one began: none of them had children.
            if not running and family.keys() <= before:
                return True
            for pid in running:
                self._stop(pid)
            before = frozenset() if running else frozenset(family)
        return False

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
    """Starts the generators of one server on this machine, and stops them between its turns."""

    def __init__(
        self, processes: Processes, clock: Clock, families: Families | None = None
    ) -> None:
        self.processes = processes
        self._clock = clock
        self._families = families or Families()
        self._running: list[Together] = []
        self.standstill = self.with_server(None)

    def with_server(self, pid: int | None) -> StoppedProcesses:
        """Return what stops them together with a server; None: it goes on."""
        return StoppedProcesses(
            server=pid,
            generators=self._pids,
            processes=self.processes,
            families=self._families,
            clock=self._clock,
        )

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> Together:
        """Start generators and return them while they run."""
        running = self.processes.begin_together(commands, timeout_s=timeout_s)
        self._running = [each for each in self._running if each.all_run()] + [running]
        return running

    def _pids(self) -> tuple[int, ...]:
        return tuple(pid for running in self._running for pid in running.pids)
