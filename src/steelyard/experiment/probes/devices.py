"""A block device and the kernel's counters of it."""

from dataclasses import dataclass

from steelyard.experiment.probes.procfs import whole_number, whole_numbers
from steelyard.gateways.host import Host

_SECTOR_BYTES = 512  # whatever the device's own are: Documentation/block/stat.rst
_MS_PER_S = 1000.0
_FIELDS = 11  # the first eleven are there since Linux 2.6
_FIELDS_WITH_FLUSHES = 17  # since Linux 5.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCounters:
    """Since the start of the machine, or a difference.

    Attributes:
        read_s: Time that reads took, summed over requests.
        busy_s: Time in which there was any request.
        queue_s: Requests in flight, integrated over time.
        flushes: None where the kernel does not count them: before 5.5, and on partitions.
    """

    reads: float
    read_bytes: float
    read_s: float
    writes: float
    write_bytes: float
    write_s: float
    busy_s: float
    queue_s: float
    flushes: float | None

    def __sub__(self, other: "DeviceCounters") -> "DeviceCounters":
        flushes = None
        if self.flushes is not None and other.flushes is not None:
            flushes = self.flushes - other.flushes
        return DeviceCounters(
            reads=self.reads - other.reads,
            read_bytes=self.read_bytes - other.read_bytes,
            read_s=self.read_s - other.read_s,
            writes=self.writes - other.writes,
            write_bytes=self.write_bytes - other.write_bytes,
            write_s=self.write_s - other.write_s,
            busy_s=self.busy_s - other.busy_s,
            queue_s=self.queue_s - other.queue_s,
            flushes=flushes,
        )


def parse_device(text: str | None, *, is_partition: bool = False) -> DeviceCounters | None:
    """Return the counters of a device's ``stat``, or of its line in /proc/diskstats after the name.

    The kernel counts flushes of whole devices alone (Documentation/admin-guide/iostats.rst).
    """
    numbers = whole_numbers(text)
    if numbers is None or len(numbers) < _FIELDS:
        return None
    reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms = numbers[:8]
    counts_flushes = len(numbers) >= _FIELDS_WITH_FLUSHES and not is_partition
    return DeviceCounters(
        reads=reads,
        read_bytes=sectors_read * _SECTOR_BYTES,
        read_s=read_ms / _MS_PER_S,
        writes=writes,
        write_bytes=sectors_written * _SECTOR_BYTES,
        write_s=write_ms / _MS_PER_S,
        busy_s=numbers[9] / _MS_PER_S,
        queue_s=numbers[10] / _MS_PER_S,
        flushes=numbers[15] if counts_flushes else None,
    )


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
        return device if device.counters() is not None else None

    def counters(self) -> DeviceCounters | None:
        """Return what it did since the start of the machine."""
        text = self.host.read(f"{_directory(self.numbers)}/stat")
        return parse_device(text, is_partition=self.is_partition)


def _directory(numbers: tuple[int, int]) -> str:
    return f"/sys/dev/block/{numbers[0]}:{numbers[1]}"
