"""A machine that is nothing but the text of its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.gateways.host import Space


@dataclass(kw_only=True)
class FakeHost:
    """A machine with these files, CPUs and kernel.

    Attributes:
        files: Text by path; a test may replace it to let time pass.
        numbers: What device files hold, by path.
        devices: Major and minor number of what lies below these paths, the longest one first.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, tuple[int, int]] = field(default_factory=lambda: {"/": (8, 1)})
    numbers: Mapping[str, int] = field(default_factory=dict)
    cpu_count: int = 4
    kernel: str = "6.1.0 x86_64"
    own_s: float = 0.0
    children_s: float = 0.0

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None where it is absent."""
        return self.files.get(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return what comes next below a path in the names of the files."""
        above = path.rstrip("/") + "/"
        below = [name[len(above) :] for name in self.files if name.startswith(above)]
        return tuple(dict.fromkeys(name.partition("/")[0] for name in below))

    def number(self, path: str) -> int | None:
        """Return the number of a device file, or None where it is absent."""
        return self.numbers.get(path)

    def device(self, path: str) -> tuple[int, int] | None:
        """Return the numbers of the nearest path above that has any."""
        if not self._exists(path):
            return None
        above = [place for place in self.devices if f"{path}/".startswith(place)]
        return self.devices[max(above, key=len)] if above else None

    def space(self, path: str) -> Space | None:
        """Return one file system for all."""
        return (
            Space(total_bytes=1000, free_bytes=400, block_bytes=4096)
            if self._exists(path)
            else None
        )

    def cpus(self) -> int:
        """Return how many CPUs this process may run on."""
        return self.cpu_count

    def release(self) -> str:
        """Return the kernel release and machine type."""
        return self.kernel

    def own_cpu_s(self) -> float:
        """Return what a test says."""
        return self.own_s

    def children_cpu_s(self) -> float:
        """Return what a test says."""
        return self.children_s

    def _exists(self, path: str) -> bool:
        return path in self.files or bool(self.names(path))
