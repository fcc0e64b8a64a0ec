"""Everything of the machine that is counted during a run, read at one moment.

Pressure stall information says how long somebody waited for CPU, storage or memory. A block device
is read with the kernel's counters of it. CPU quotas are those of control groups, versions 1 and 2.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.campaign.evidence.processes import GeneratorProcesses, ServerProcesses, process, tree
from steelyard.core.measurement import Absence, Quantity, Vantage
from steelyard.gateways.host import (
    CpuTimes,
    Host,
    Throttling,
    cpu_times,
    files_of,
    group_quota,
    groups_around,
    named_number,
    parse_throttling,
    whole_number,
    whole_numbers,
)

Counted = dict[Quantity, float]
_SOME = re.compile(r"^some .*\btotal=([0-9]+)\s*$", re.MULTILINE)


def pressure_s(text: str | None) -> float | None:
    """Return the seconds in which some task waited, since the start; None where it is odd."""
    match = _SOME.search(text or "")
    total_us = whole_number(match[1]) if match else None
    return None if total_us is None else total_us / 1e6


_SECTOR_BYTES = 512  # whatever the device's own are: Documentation/block/stat.rst
_MS_PER_S = 1000.0
_FIELDS = 11  # the first eleven are there since Linux 2.6
_FIELDS_WITH_FLUSHES = 17  # since Linux 5.5


def parse_device(text: str | None, *, is_partition: bool = False) -> Counted:
    """Return the counters of a device's ``stat``, or of its line in /proc/diskstats after the name.

    Flushes are missing where the kernel does not count them: before 5.5, and on partitions
    (Documentation/admin-guide/iostats.rst). There is nothing where the text is odd.
    """
    numbers = whole_numbers(text)
    if numbers is None or len(numbers) < _FIELDS:
        return {}
    reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms = numbers[:8]
    counted = {
        Quantity.DEVICE_READS: float(reads),
        Quantity.DEVICE_READ_BYTES: float(sectors_read * _SECTOR_BYTES),
        Quantity.DEVICE_READ_S: read_ms / _MS_PER_S,
        Quantity.DEVICE_WRITES: float(writes),
        Quantity.DEVICE_WRITE_BYTES: float(sectors_written * _SECTOR_BYTES),
        Quantity.DEVICE_WRITE_S: write_ms / _MS_PER_S,
        Quantity.DEVICE_BUSY_S: numbers[9] / _MS_PER_S,
        Quantity.DEVICE_QUEUE_S: numbers[10] / _MS_PER_S,
    }
    if len(numbers) >= _FIELDS_WITH_FLUSHES and not is_partition:
        counted[Quantity.DEVICE_FLUSHES] = float(numbers[15])
        counted[Quantity.DEVICE_FLUSH_S] = numbers[16] / _MS_PER_S
    return counted


_OF_WAL: Final = {
    Quantity.DEVICE_WRITES: Quantity.WAL_DEVICE_WRITES,
    Quantity.DEVICE_WRITE_BYTES: Quantity.WAL_DEVICE_WRITE_BYTES,
    Quantity.DEVICE_WRITE_S: Quantity.WAL_DEVICE_WRITE_S,
    Quantity.DEVICE_FLUSHES: Quantity.WAL_DEVICE_FLUSHES,
    Quantity.DEVICE_FLUSH_S: Quantity.WAL_DEVICE_FLUSH_S,
    Quantity.DEVICE_BUSY_S: Quantity.WAL_DEVICE_BUSY_S,
    Quantity.DEVICE_QUEUE_S: Quantity.WAL_DEVICE_QUEUE_S,
}


def of_the_wal(counted: Counted) -> Counted:
    """Return what the counters of a device are called where it has the WAL alone."""
    return {_OF_WAL[quantity]: value for quantity, value in counted.items() if quantity in _OF_WAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """A device or partition by its numbers; its ``stat`` is its line of /proc/diskstats."""

    host: Host
    numbers: tuple[int, int]
    is_partition: bool

    @classmethod
    def of(cls, host: Host, path: str) -> "BlockDevice | None":
        """Return the device that holds a file; None where its file system has none of its own."""
        numbers = host.device(path)
        if numbers is None:
            return None
        partition = host.read(f"{_directory(numbers)}/partition")
        device = cls(
            host=host,
            numbers=numbers,
            is_partition=whole_number((partition or "").strip()) is not None,
        )
        return device if device.counters() else None

    def counters(self) -> Counted:
        """Return what it did since the start of the machine; empty where it is silent."""
        text = self.host.read(f"{_directory(self.numbers)}/stat")
        return parse_device(text, is_partition=self.is_partition)


def _directory(numbers: tuple[int, int]) -> str:
    return f"/sys/dev/block/{numbers[0]}:{numbers[1]}"


def group_with_quota(host: Host, pid: int | str, own: Sequence[Path] = ()) -> str | None:
    """Return the directory of the group around a process whose CPU quota is the smallest.

    The nearest of equal ones counts, of its ``own`` first; the groups of a container around
    everything are among them.
    """
    places = dict.fromkeys((*map(str, own), *groups_around(host, pid, "cpu")))
    quotas = {place: group_quota(files_of(host, place)) for place in places}
    limited = {place: quota for place, quota in quotas.items() if quota}
    return min(limited, key=lambda place: limited[place], default=None)


def throttling(host: Host, group: str) -> Throttling | None:
    """Return how often a group was held back so far."""
    return parse_throttling(host.read(f"{group}/cpu.stat"))


_WAL = "pg_wal"  # below the data directory: a directory, or a link to one on another device
_PRESSURE = {
    Quantity.CPU_PRESSURE_S: "cpu",
    Quantity.IO_PRESSURE_S: "io",
    Quantity.MEMORY_PRESSURE_S: "memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What can be counted here: the machine and the generator always, the rest with a vantage.

    Attributes:
        beside: First processes of replicas beside the server.
        wal: Only where it is another device than that of the data.
        quota: Directory of the control group whose CPU quota binds the server; without a vantage
            that of this process, which binds the generator.
    """

    host: Host
    generator: GeneratorProcesses
    server: ServerProcesses | None = None
    beside: tuple[int, ...] = ()
    device: BlockDevice | None = None
    wal: BlockDevice | None = None
    quota: str | None = None

    @classmethod
    def of(
        cls, host: Host, vantage: Vantage | None, generator: GeneratorProcesses | None = None
    ) -> "Sources":
        """Return what can be counted of a server, or of this machine alone."""
        generator = generator or GeneratorProcesses(host=host)
        if vantage is None:
            return cls(host=host, generator=generator, quota=group_with_quota(host, "self"))
        wal = BlockDevice.of(host, f"{vantage.data}/{_WAL}")
        device = BlockDevice.of(host, str(vantage.data))
        return cls(
            host=host,
            generator=generator,
            server=ServerProcesses(host=host, pid=vantage.pid),
            beside=vantage.beside,
            device=device,
            wal=wal if wal != device else None,
            quota=group_with_quota(host, vantage.pid, vantage.groups),
        )

    def passing(self) -> Counted:
        """Return the counters that go on while server and generator stand still.

        What is missing cannot be read.
        """
        return {**self.in_passing(), **self.generator.ended(), **of_the_kernel(self.host.read)}

    def of_the_generator(self) -> Counted:
        """Return the counters of the generator, and of what is its own here: quota, Steelyard."""
        counted = {Quantity.STEELYARD_CPU_S: self.host.own_cpu_s()}
        return counted | self.generator.ended() | self.generator.queued() | self._throttling()

    def own(self) -> Counted:
        """Return the counters of the processes of server and generator, which stand with them."""
        server = self.server.used() if self.server else {}
        return {**server, **self.generator.queued()}

    def own_sampled(self) -> Counted:
        """Return what a look in passing shows of the processes of server and generator."""
        server = self.server.sampled() if self.server else {}
        return {**server, **self.generator.sampled()}

    def device_counts(self) -> Counted:
        """Return the counters of the data's device alone, at the cost of one small file."""
        return {} if self.device is None else self.device.counters()

    def absent(self, used: Counted) -> tuple[Absence, ...]:
        """Return what a reading does not show, and why."""
        found = []
        if Quantity.CPU_IDLE_S not in used:
            found.append(("CPU of the machine", "/proc/stat cannot be read here"))
        if Quantity.CPU_PRESSURE_S not in used:
            reason = "the kernel counts none: /proc/pressure is absent or switched off"
            found.append(("pressure", reason))
        if Quantity.SWAPPED_PAGES not in used:
            found.append(("swapping", "/proc/vmstat cannot be read here"))
        found += self._absent_of_the_server(used) if self.server else ()
        absent = tuple(Absence(subject=subject, reason=reason) for subject, reason in found)
        of_server = self.server.absent(used) if self.server else ()
        return (*absent, *of_server, *self.generator.absent())

    def unsampled(self, totals: Counted) -> dict[Quantity, Absence]:
        """Return which of the totals leave out most of what happened, and why."""
        of_server = self.server.unsampled(totals) if self.server else ()
        return {
            quantity: Absence(
                subject=quantity.value.replace("_", " ").removesuffix(" s"),
                reason="most of its processes ended before a sample could see what they did",
            )
            for quantity in (*of_server, *self.generator.unsampled(totals))
            if quantity in totals
        }

    def _absent_of_the_server(self, used: Counted) -> list[tuple[str, str]]:
        found = []
        if self.device is None:
            reason = "the file system of the data directory has no block device of its own"
            found.append(("device of the data directory", reason))
        elif Quantity.DEVICE_FLUSHES not in used:
            reason = "the kernel counts those of whole devices since 5.5, not of partitions"
            found.append(("flushes of the data device", reason))
        if self.quota is not None and Quantity.THROTTLED_S not in used:
            found.append(("throttling", f"{self.quota}/cpu.stat cannot be read"))
        return found

    def in_passing(self) -> Counted:
        """Return those of them that a timeline shows, and more that come with these files."""
        counted = of_the_machine(cpu_times(self.host.read("/proc/stat")))
        counted[Quantity.STEELYARD_CPU_S] = self.host.own_cpu_s()
        if self.beside:
            counted[Quantity.REPLICA_CPU_S] = self._beside_cpu_s()
        if self.device is not None:
            counted |= self.device.counters()
        if self.wal is not None:
            counted |= of_the_wal(self.wal.counters())
        return counted | self._throttling()

    def _throttling(self) -> Counted:
        if self.quota is None:
            return {}
        held_back = throttling(self.host, self.quota)
        return of_the_quota(held_back, GENERATORS_QUOTA if self.server is None else SERVERS_QUOTA)

    def _beside_cpu_s(self) -> float:
        """Return what replicas used, with their children that ended; one that died is missing."""
        pids = [pid for first in self.beside for pid in tree(self.host, first)]
        found = [process(self.host, pid) for pid in pids]
        return sum(each.whole_cpu_s for each in found if each is not None)


def of_the_kernel(read: Callable[[str], str | None]) -> Counted:
    """Return what its files say of swapping, and of who waited for what."""
    virtual = read("/proc/vmstat")
    swapped_in, swapped_out = named_number(virtual, "pswpin"), named_number(virtual, "pswpout")
    swapped = None
    if swapped_in is not None and swapped_out is not None:
        swapped = swapped_in + swapped_out
    pressures = {
        quantity: pressure_s(read(f"/proc/pressure/{name}")) for quantity, name in _PRESSURE.items()
    }
    return known({Quantity.SWAPPED_PAGES: swapped, **pressures})


SERVERS_QUOTA: Final = (
    Quantity.QUOTA_PERIODS,
    Quantity.THROTTLED_PERIODS,
    Quantity.THROTTLED_S,
)
GENERATORS_QUOTA: Final = (
    Quantity.GENERATOR_QUOTA_PERIODS,
    Quantity.GENERATOR_THROTTLED_PERIODS,
    Quantity.GENERATOR_THROTTLED_S,
)


def of_the_quota(
    held_back: Throttling | None, names: Sequence[Quantity] = SERVERS_QUOTA
) -> Counted:
    """Return how a CPU quota held the server, or the generator, back."""
    if held_back is None:
        return {}
    values = map(float, (held_back.periods, held_back.throttled, held_back.throttled_s))
    return dict(zip(names, values, strict=True))


def of_the_machine(times: CpuTimes | None) -> Counted:
    """Return the counters of all CPUs."""
    if times is None:
        return {}
    return known(
        {
            Quantity.CPU_USER_S: times.user_s,
            Quantity.CPU_SYSTEM_S: times.system_s,
            Quantity.CPU_IOWAIT_S: times.iowait_s,
            Quantity.CPU_IDLE_S: times.idle_s,
            Quantity.CPU_STEAL_S: times.steal_s,
            Quantity.CONTEXT_SWITCHES: times.context_switches,
        }
    )


def known(values: Mapping[Quantity, float | None]) -> Counted:
    """Return what could be read."""
    return {quantity: float(value) for quantity, value in values.items() if value is not None}
