"""What a place gives a server, and storage that is simulated for studies of what it makes of it."""

from dataclasses import dataclass
from typing import Annotated

from steelyard.core.quantities import duration, key, size, whole
from steelyard.core.wording import GIB, KIB, MIB, format_bytes, parse_quantity, parse_quantity_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What the place of a server gives it, as far as that is known.

    Attributes:
        cpus: None: not known; so is ``memory_bytes``.
        storage: What the data are on, in words; empty: not known.
        limits: What that storage gives at most, in words; empty likewise.
        read_ahead_bytes: Of a sequential reader.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    storage: str = ""
    limits: str = ""
    block_bytes: Annotated[int | None, "Block of the file system; null if not known."] = None
    page_bytes: Annotated[int | None, "Page of the kernel's memory; null if not known."] = None
    read_ahead_bytes: Annotated[
        int | None, "Largest read-ahead of the kernel; null if not known."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Simulated storage: XFS in a file that is slower than the disk it lies on. Takes root.

    None of a limit is that of the disk; of ``burst_iops`` it is no bucket of credits.
    """

    latency_s: float = key(0.0, duration(), "What each flush takes longer.", "2ms")
    iops: int | None = key(
        None, whole(), "Reads and writes together, per second, at most.", 900, 3000
    )
    bandwidth_bytes: int | None = key(None, size(MIB), "Bytes per second at most.", "48MB")
    burst_iops: int | None = key(None, whole(), "As `iops`, while there are credits.", 3000)
    burst_credits: int = key(
        0,
        whole(),
        "Reads and writes in a full bucket of credits, which it is at first; `iops` a second fill"
        " it.",
        5400000,
    )
    block_bytes: int = key(
        4 * KIB,
        size(4 * KIB, 64 * KIB),
        "Of the file system.",
        *("4KiB", "16KiB", "64KiB"),
        name="block_size",
    )
    size_bytes: int = key(
        16 * GIB, size(GIB), "Of the file; what is not written takes no space.", "16GiB"
    )

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What a container asks for and gets at most, as Kubernetes writes it: ``cpu``, ``memory``...

    Where only one of the two is given, the other is the same: then the pod is Guaranteed.
    """

    requests: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()

    @property
    def has_cpu_quota(self) -> bool:
        """Return whether the kernel holds the container back beyond so much CPU time."""
        return "cpu" in self._most

    @property
    def _most(self) -> dict[str, str]:
        return dict(self.limits or self.requests)

    def provision(self, storage: str, storage_class: str | None) -> Provision:
        """Return what a container gets at most, on a volume of that size and class."""
        cpus, memory = self._most.get("cpu"), self._most.get("memory")
        return Provision(
            cpus=None if cpus is None else float(parse_quantity(cpus)),
            memory_bytes=None if memory is None else parse_quantity_bytes(memory),
            storage=f"{storage} on {storage_class or 'the default storage class'}",
        )
