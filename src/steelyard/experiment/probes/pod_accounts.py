"""What containers and their nodes have used so far, from files that were read in them.

Control groups are those of the container, in version 1 or 2: what they count is all that runs in
it, with what is started to watch it.
"""

import re
from dataclasses import dataclass
from typing import Final

from steelyard.experiment.probes.devices import DeviceCounters, parse_device
from steelyard.experiment.probes.groups import Throttling, parse_throttling
from steelyard.experiment.probes.placement import anonymous_huge_bytes
from steelyard.experiment.probes.pod_script import BOOT
from steelyard.experiment.probes.processes import parse_scheduled
from steelyard.experiment.probes.procfs import (
    TICKS_PER_S,
    cpu_times,
    named_numbers,
    whole_number,
    whole_numbers,
)
from steelyard.gateways.fetched import FetchedHost
from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.errors import InputError
from steelyard.tuning.facts.devices import mount_of

GROUPS: Final = "/sys/fs/cgroup/"
_SCHEDULED: Final = re.compile(r"/proc/[0-9]+/schedstat")
_NS_PER_S: Final = 1e9
_US_PER_S: Final = 1e6
_READ_BYTES: Final = re.compile(r"^\S+ Read ([0-9]{1,20})$", re.MULTILINE)  # blkio of version 1
_IO_STAT: Final = re.compile(r"\b([rw])bytes=([0-9]{1,20})")
_DEVICE: Final = re.compile(r"[1-9][0-9]*:[0-9]+")  # major 0 is no disk
_IRQ_FIELDS: Final = slice(5, 7)  # irq and softirq of the line of all CPUs; proc_stat(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One reading of a container's files."""

    host: FetchedHost

    @property
    def pid(self) -> int | None:
        """Return the first process of the server, as the container counts them."""
        return self.host.number("pid")

    @property
    def uptime_s(self) -> float | None:
        """Return when it was taken, by a clock of the node that nobody sets."""
        first = (self.host.read("/proc/uptime") or "").partition(" ")[0]
        return float(first) if re.fullmatch(r"[0-9]{1,12}\.[0-9]{1,3}", first) else None

    @property
    def boot(self) -> str:
        """Return what tells its kernel from others; empty where it may not be read."""
        return (self.host.read(BOOT) or "").strip()

    @property
    def own_cost_s(self) -> float | None:
        """Return the CPU time that it took to start those who read, and to read."""
        texts = [text for path, text in self.host.files.items() if _SCHEDULED.fullmatch(path)]
        known = [each for each in map(parse_scheduled, texts) if each is not None]
        return sum(each.run_s for each in known) if known else None

    def of_group(self, name: str) -> str | None:
        """Return a file of the container's control groups."""
        path = self.path_of_group(name)
        return None if path is None else self.host.read(path)

    def path_of_group(self, name: str) -> str | None:
        """Return where that file is."""
        found = (
            path
            for path in self.host.files
            if path.startswith(GROUPS) and path.endswith(f"/{name}")
        )
        return next(found, None)


def seconds_between(before: Account, after: Account) -> float | None:
    """Return how long it was from one reading to the next, by the node's clock."""
    if before.uptime_s is None or after.uptime_s is None:
        return None
    return after.uptime_s - before.uptime_s


def cpu_s(account: Account) -> float | None:
    """Return the CPU time that everything in a container has used."""
    nanoseconds = whole_number((account.of_group("cpuacct.usage") or "").strip())
    if nanoseconds is not None:
        return nanoseconds / _NS_PER_S
    microseconds = named_numbers(account.of_group("cpu.stat")).get("usage_usec")
    return None if microseconds is None else microseconds / _US_PER_S


def quota_cpus(account: Account) -> float | None:
    """Return how many CPUs the quota of a container is worth; None without one."""
    both = (account.of_group("cpu.max") or "").split()
    if not both:
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        both = [(account.of_group(name) or "").strip() for name in files]
    quota, period = (whole_number(text) for text in (*both, "", "")[:2])
    return quota / period if quota and period else None


def throttled(account: Account) -> Throttling | None:
    """Return how often the quota of a container held it back; None without a quota.

    The kernel counts periods only while there is one.
    """
    found = parse_throttling(account.of_group("cpu.stat"))
    return found if found and (found.periods or quota_cpus(account)) else None


def usable_cpus(account: Account) -> float | None:
    """Return how many CPUs a container can use: its quota, its CPU set, or those of its node."""
    known = [quota_cpus(account), _cpus_of_set(account)]
    times = cpu_times(account.host.read("/proc/stat"))
    known.append(None if times is None else float(times.cpus))
    return min((each for each in known if each), default=None)


def _cpus_of_set(account: Account) -> float | None:
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus")
    text = next((found for name in names if (found := account.of_group(name))), "")
    try:
        return float(len(parse_cpu_list(text.strip()))) if text.strip() else None
    except InputError:
        return None


def interrupts_s(account: Account) -> float | None:
    """Return the time that the CPUs of the node spent in interrupts."""
    line = (account.host.read("/proc/stat") or "").partition("\n")[0]
    ticks = whole_numbers(line.removeprefix("cpu "))
    return None if ticks is None else sum(ticks[_IRQ_FIELDS]) / TICKS_PER_S


def memory(account: Account) -> tuple[int | None, int | None]:
    """Return what a container is charged for, and its working set as the kubelet counts it."""
    names = ("memory.current", "memory.usage_in_bytes")
    text = next((found for name in names if (found := account.of_group(name))), "")
    used = whole_number(text.strip())
    stat = named_numbers(account.of_group("memory.stat"))
    inactive = stat.get("total_inactive_file", stat.get("inactive_file"))
    if used is None or inactive is None:
        return used, None
    return used, max(used - inactive, 0)


def device_bytes(account: Account) -> tuple[float | None, float | None]:
    """Return what a container had read from and written to devices.

    Version 1 counts no write that the kernel does later in its place, so there is no figure.
    """
    text = account.of_group("io.stat")
    if text is not None:
        sums = {"r": 0.0, "w": 0.0}
        for kind, number in _IO_STAT.findall(text):
            sums[kind] += float(number)
        return sums["r"], sums["w"]
    old = account.of_group("blkio.throttle.io_service_bytes_recursive")
    return (None if old is None else float(sum(map(int, _READ_BYTES.findall(old))))), None


def device_numbers(account: Account, directory: str) -> str | None:
    """Return the numbers of the device below ``data`` or ``wal``: ``254:0``; None without one."""
    path = account.host.resolved.get(directory)
    try:
        mount = None if path is None else mount_of(account.host, path)
    except (ValueError, LookupError):  # mountinfo is torn
        return None
    if mount is None or not _DEVICE.fullmatch(mount.number):
        return None
    return mount.number


def device(account: Account, numbers: str | None) -> DeviceCounters | None:
    """Return the counters of a device of the node."""
    if numbers is None:
        return None
    place = f"/sys/dev/block/{numbers}"
    partition = account.host.read(f"{place}/partition") is not None
    text = account.host.read(f"{place}/stat") or _disk_line(account, numbers)
    return parse_device(text, is_partition=partition)


def _disk_line(account: Account, numbers: str) -> str | None:
    major, _, minor = numbers.partition(":")
    for line in (account.host.read("/proc/diskstats") or "").splitlines():
        fields = line.split(None, 3)
        if fields[:2] == [major, minor] and len(fields) > 3:
            return fields[3]
    return None


def huge_bytes(account: Account) -> int | None:
    """Return how much of the server's shared memory is on huge pages; None where unseen."""
    place = f"/proc/{account.pid}"
    return anonymous_huge_bytes(
        account.host.read(f"{place}/maps"), account.host.read(f"{place}/smaps_rollup")
    )


def space(account: Account) -> tuple[float, float] | None:
    """Return size and free bytes of the file system with the data; None where unseen."""
    numbers = whole_numbers(account.host.read("space"))
    if numbers is None or len(numbers) != 3:
        return None
    size, blocks, free = numbers
    return float(size * blocks), float(size * free)
