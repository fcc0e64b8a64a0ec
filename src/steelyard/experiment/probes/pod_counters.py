"""Counters and levels of containers and their node, by the names that evidence has for them."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.experiment.probes import pod_accounts as accounts
from steelyard.experiment.probes.levels import HUGE_PAGES, MEMORY
from steelyard.experiment.probes.pod_accounts import Account
from steelyard.experiment.probes.pressure import pressure_s
from steelyard.experiment.probes.procfs import cpu_times, memory_bytes, named_number
from steelyard.experiment.probes.sources import (
    PRESSURE,
    Counted,
    of_the_device,
    of_the_machine,
    of_the_wal,
)
from steelyard.model.evidence import Absence, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices below a server's data and WAL by their numbers (``254:0``), where they have any.

    Attributes:
        wal: Only where it is another device than that of the data.
    """

    data: str | None = None
    wal: str | None = None

    @classmethod
    def of(cls, account: Account) -> "Devices":
        """Return those that the first account of a run shows."""
        data, wal = (accounts.device_numbers(account, name) for name in ("data", "wal"))
        return cls(data=data, wal=wal if wal != data else None)


def timeline_counters(account: Account, devices: Devices) -> Counted:
    """Return what a look in passing shows of a server's container and node."""
    counted = of_the_machine(cpu_times(account.host.read("/proc/stat")))
    counted |= of_the_device(accounts.device(account, devices.data))
    used_s, held_back = accounts.cpu_s(account), accounts.throttled(account)
    if used_s is not None:
        counted[Quantity.SERVER_CPU_S] = used_s
    if held_back is not None:
        counted[Quantity.QUOTA_PERIODS] = float(held_back.periods)
        counted[Quantity.THROTTLED_PERIODS] = float(held_back.throttled)
        counted[Quantity.THROTTLED_S] = held_back.throttled_s
    return counted


def server_counters(account: Account, devices: Devices) -> Counted:
    """Return all counters of a server's container and of its node."""
    counted = timeline_counters(account, devices)
    counted |= of_the_wal(accounts.device(account, devices.wal))
    read, written = accounts.device_bytes(account)
    virtual = account.host.read("/proc/vmstat")
    swapped = [named_number(virtual, name) for name in ("pswpin", "pswpout")]
    pressures = {
        quantity: pressure_s(account.host.read(f"/proc/pressure/{name}"))
        for quantity, name in PRESSURE.items()
    }
    return counted | _known(
        {
            **pressures,
            Quantity.SERVER_READ_BYTES: read,
            Quantity.SERVER_WRITTEN_BYTES: written,
            Quantity.SWAPPED_PAGES: None if None in swapped else sum(n or 0.0 for n in swapped),
        }
    )


def server_levels(account: Account) -> Counted:
    """Return what a server's container and its node have at the end of a run."""
    info = memory_bytes(account.host.read("/proc/meminfo"))
    times = cpu_times(account.host.read("/proc/stat"))
    used, working_set = accounts.memory(account)
    size, free = accounts.space(account) or (None, None)
    return _known(
        {
            **{quantity: info.get(name) for quantity, name in (MEMORY | HUGE_PAGES).items()},
            Quantity.CPUS: None if times is None else times.cpus,
            Quantity.SERVER_CPUS: accounts.usable_cpus(account),
            Quantity.SERVER_MEMORY_BYTES: used,
            Quantity.SERVER_WORKING_SET_BYTES: working_set,
            Quantity.SERVER_HUGE_BYTES: accounts.huge_bytes(account),
            Quantity.DISK_BYTES: size,
            Quantity.DISK_FREE_BYTES: free,
        }
    )


def generator_counters(account: Account) -> Counted:
    """Return the counters of a generator's container."""
    held_back = accounts.throttled(account)
    counted = _known({Quantity.GENERATOR_CPU_S: accounts.cpu_s(account)})
    if held_back is not None:
        counted[Quantity.GENERATOR_QUOTA_PERIODS] = float(held_back.periods)
        counted[Quantity.GENERATOR_THROTTLED_PERIODS] = float(held_back.throttled)
        counted[Quantity.GENERATOR_THROTTLED_S] = held_back.throttled_s
    return counted


def absent(account: Account, seen: Counted) -> tuple[Absence, ...]:
    """Return what the account of a server's container does not show, and why."""
    no_server = "no server process is visible in the container"
    reasons = {
        Quantity.SERVER_CPU_S: (
            "the server's processes",
            "the container has no control group that counts CPU time",
        ),
        Quantity.CPU_IDLE_S: ("CPU of the machine", "/proc/stat cannot be read there"),
        Quantity.CPU_PRESSURE_S: (
            "pressure",
            "the kernel counts none: /proc/pressure is absent or switched off",
        ),
        Quantity.SWAPPED_PAGES: ("swapping", "/proc/vmstat cannot be read there"),
        Quantity.SERVER_WRITTEN_BYTES: (
            "server_written_bytes",
            "control groups of version 1 do not count what the kernel writes for the container",
        ),
        Quantity.DEVICE_BUSY_S: (
            "device of the data directory",
            "its volume has no block device of the node" if account.pid else no_server,
        ),
        Quantity.SERVER_HUGE_BYTES: (
            "huge pages of the server",
            "/proc/PID/maps of the server cannot be read there" if account.pid else no_server,
        ),
        Quantity.DISK_FREE_BYTES: ("free disk", "`stat -f` of the data directory failed there"),
    }
    found = [told for quantity, told in reasons.items() if quantity not in seen]
    found.append(
        (
            "run-queue time of the server",
            "reading it of every process from a shell would cost the server too much",
        )
    )
    if len(account.host.names("/sys/devices/system/node")) > 1:
        found.append(
            (
                "memory nodes of the server",
                "reading /proc/PID/numa_maps of every process would cost the server too much",
            )
        )
    return tuple(Absence(subject=subject, reason=reason) for subject, reason in found)


def _known(values: Mapping[Quantity, float | None]) -> Counted:
    return {quantity: float(value) for quantity, value in values.items() if value is not None}
