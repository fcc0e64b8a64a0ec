"""What a place gives a server, and storage that is simulated for studies of what it makes of it."""

from dataclasses import dataclass

from steelyard.core.wording import KIB, format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What the place of a server gives it, as far as that is known.

    Attributes:
        cpus: None: not known; so is ``memory_bytes``.
        storage: What the data are on, in words; empty: not known.
        limits: What that storage gives at most, in words; empty likewise.
        block_bytes: Of its file system; None: not known, as the two that follow.
        page_bytes: Of the memory of the kernel there.
        read_ahead_bytes: What the kernel reads ahead of a sequential reader, at most.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    storage: str = ""
    limits: str = ""
    block_bytes: int | None = None
    page_bytes: int | None = None
    read_ahead_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Simulated storage: XFS in a file that is slower than the disk it lies on.

    Attributes:
        latency_s: What each flush takes longer.
        iops: Reads and writes together, per second, at most; None: as the disk has them.
        bandwidth_bytes: Likewise, bytes per second.
        burst_iops: Likewise while there are credits; None: no bucket of credits.
        burst_credits: Reads and writes in a full bucket of them, which it is at first.
        block_bytes: Of the file system.
        size_bytes: Of the file; what is not written takes no space.
    """

    latency_s: float = 0.0
    iops: int | None = None
    bandwidth_bytes: int | None = None
    burst_iops: int | None = None
    burst_credits: int = 0
    block_bytes: int = 4096
    size_bytes: int = 16 << 30

    @property
    def label(self) -> str:
        """Return what it is, for people."""
        parts = [
            f"{self.latency_s * 1000:g} ms per flush" if self.latency_s else "",
            f"{self.iops:,} IOPS" if self.iops else "",
            f"{self.burst_iops:,} for {self.burst_credits:,} credits" if self.burst_iops else "",
            f"{format_bytes(self.bandwidth_bytes)}/s" if self.bandwidth_bytes else "",
            f"blocks of {format_bytes(self.block_bytes)}" if self.block_bytes != 4 * KIB else "",
        ]
        return f"simulated, {', '.join(filter(None, parts)) or 'nothing added'}"
