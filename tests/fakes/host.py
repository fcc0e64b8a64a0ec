"""A machine that is nothing but the text of its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeHost:
    """A machine with these files, CPUs and kernel."""

    files: Mapping[str, str] = field(default_factory=dict)
    cpu_count: int = 4
    kernel: str = "6.1.0 x86_64"

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None where it is absent."""
        return self.files.get(path)

    def cpus(self) -> int:
        """Return how many CPUs this process may run on."""
        return self.cpu_count

    def release(self) -> str:
        """Return the kernel release and machine type."""
        return self.kernel
