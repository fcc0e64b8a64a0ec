"""How one Linux machine of a plan is tuned: kernel settings, governor, huge pages."""

from collections.abc import Iterator
from typing import Final

from steelyard.core.linux import IdleState, LinuxFacts
from steelyard.core.stack import MachineDesign, PlannedSetting, PoolDesign, Scope
from steelyard.core.stack_facts import StackFacts
from steelyard.core.units import KIB, MIB, format_bytes
from steelyard.tuning.plan.assumptions import old_requests
from steelyard.tuning.rules.linux_memory import LEAST_READ_AHEAD_BYTES, MOST_READ_AHEAD_BYTES

READ_AHEAD: Final = "/sys/class/block/{device}/queue/read_ahead_kb"
THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
IDLE: Final = "/sys/devices/system/cpu/cpu*/cpuidle/state{number}/disable"
GOVERNOR: Final = "performance"

_TUNED: Final = "tuned, profile postgresql"
_KERNEL: Final = "Linux documentation, 'sysctl/vm'"
_DIRTY_BYTES: Final = 512 * MIB
_DIRTY_BACKGROUND: Final = 64 * MIB


def hypervisor_design(
    linux: LinuxFacts, facts: StackFacts, pools: tuple[PoolDesign, ...]
) -> MachineDesign:
    """Return how the machine below the virtual machine is tuned."""
    return MachineDesign(
        pools=pools,
        sysctls=tuple(_of_every_machine(linux, bound=True)),
        sysfs=(_thp(), *idle_settings(linux)),
        governor=governor_of(linux),
        steps=tuple(old_requests(linux, pools, facts, "hypervisor")),
    )


def machine_design(
    linux: LinuxFacts, facts: StackFacts, pools: tuple[PoolDesign, ...], cpus: tuple[int, ...]
) -> MachineDesign:
    """Return how the machine that the database runs on is tuned.

    A virtual machine has no governor and no idle states worth turning: they are the host's.
    """
    real = linux.virtualization == "none"
    return MachineDesign(
        pools=pools,
        sysctls=(*_of_every_machine(linux, bound=False), *_of_databases(facts)),
        sysfs=(_thp(), *(idle_settings(linux) if real else ()), *_read_ahead(linux)),
        governor=governor_of(linux) if real else None,
        cpus=cpus,
        steps=tuple(old_requests(linux, pools, facts, "linux")),
    )


def deep_states(linux: LinuxFacts) -> tuple[tuple[int, IdleState], ...]:
    """Return the idle states from which a CPU wakes up late, with their numbers (rule KVM013)."""
    states = enumerate(linux.idle_states or ())
    return tuple((number, state) for number, state in states if state in linux.deep_states)


def governor_of(linux: LinuxFacts) -> str | None:
    """Return the governor to set; None where there is none to be seen."""
    return GOVERNOR if linux.governor else None


def idle_settings(linux: LinuxFacts) -> tuple[PlannedSetting, ...]:
    """Return the settings that keep CPUs out of deep idle states."""
    return tuple(
        PlannedSetting(
            name=IDLE.format(number=number),
            value="1",
            reason=f"{state.name} is left in {1e6 * state.exit_latency_s:.0f} µs, paid at every"
            " wake-up of an idle CPU",
            source="Linux, intel_idle; tuned, profile latency-performance",
            effect="17 to 20 µs per wake-up in a virtual machine, 85 to 170 µs of C6 on hosts; at"
            " one client a statement has 2 to 4 of them, under load it has none",
        )
        for number, state in deep_states(linux)
    )


def _thp() -> PlannedSetting:
    return PlannedSetting(
        name=THP,
        value="madvise",
        reason="`always` gives huge pages to whoever did not ask: bloat, and long forks",
        source=_TUNED,
    )


def _of_every_machine(linux: LinuxFacts, *, bound: bool) -> Iterator[PlannedSetting]:
    yield PlannedSetting(
        name="vm.swappiness",
        value="1",
        reason="A server's memory is not to be swapped for page cache",
        source=_TUNED,
    )
    if linux.numa_balancing is not None and (bound or len(linux.nodes or ()) <= 1):
        yield PlannedSetting(
            name="kernel.numa_balancing",
            value="0",
            reason="Scanning faults without any gain where memory is bound, or on one node",
            source="tuned, profile network-latency",
        )


def _of_databases(facts: StackFacts) -> Iterator[PlannedSetting]:
    dirty = "20 % of a large memory is a flush of gigabytes"
    yield PlannedSetting(
        name="vm.dirty_bytes", value=str(_DIRTY_BYTES), reason=dirty, source=_TUNED
    )
    yield PlannedSetting(
        name="vm.dirty_background_bytes",
        value=str(_DIRTY_BACKGROUND),
        reason="Writing begins early and in small pieces",
        source=_TUNED,
    )
    linux = facts.linux or LinuxFacts()
    if linux.zone_reclaim_mode:
        yield PlannedSetting(
            name="vm.zone_reclaim_mode",
            value="0",
            reason="The page cache may use other nodes' memory",
            source=_KERNEL,
        )
    if linux.overcommit_memory == 2 and facts.redis:
        yield PlannedSetting(
            name="vm.overcommit_memory",
            value="0",
            reason="With 2 a fork of the Redis on this machine can fail",
            source="Redis documentation, 'Redis administration'",
        )


def _read_ahead(linux: LinuxFacts) -> Iterator[PlannedSetting]:
    """Yield the bound that a disk's read-ahead is beyond, as rule OS008 has them."""
    device = linux.device
    if device is None or device.read_ahead_bytes is None:
        return
    there = device.read_ahead_bytes
    bound = min(max(there, LEAST_READ_AHEAD_BYTES), MOST_READ_AHEAD_BYTES)
    if there == bound:
        return
    why = "more rarely helps a scan" if there > bound else "sequential scans and backups want more"
    yield PlannedSetting(
        name=READ_AHEAD.format(device=device.name),
        value=str(bound // KIB),
        reason=f"It is {format_bytes(there)}: {why}; where single rows are read, weigh it"
        " against 128 KiB, the kernel's default",
        source="TuneD, profile throughput-performance: 4096 KiB; rule OS008",
        scope=Scope.LIVE,
    )
