"""A kernel that is nothing but the text of its files, and behaves as the real one where it counts.

Selections are bracketed, of a pair of settings writing one zeroes the other, and a pool of huge
pages gets what memory there is: what does not fit is not given, and nobody is told.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from fakes.host import FakeHost
from steelyard.core.wording import PrivilegeError, TargetError

PAGE_BYTES = 2 * 1024 * 1024
_POOL = "hugepages-2048kB"
_PAIRS = (("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio"))


@dataclass(kw_only=True)
class FakeKernel(FakeHost):
    """A kernel with these files, which may also be written.

    Attributes:
        files: Text by path; ``with_pools`` adds those of huge pages.
        closed: Why files below these paths cannot be written.
        fits: Per node, how many huge pages there is memory for.
        held: Per node, how many a program has touched.
        written: Path and text of every write.
        before_write: Called with the path before each write; may raise, as a death would.
    """

    files: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    closed: dict[str, str] = field(default_factory=dict)
    fits: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    written: list[tuple[str, str]] = field(default_factory=list)
    before_write: Callable[[str], None] = lambda _path: None

    def with_pools(self, pages: dict[int, int], *, fits: int, surplus: int = 0) -> "FakeKernel":
        """Give it a pool on each of these nodes, and memory for ``fits`` pages on each."""
        self.fits = dict.fromkeys(pages, fits)
        self.held = dict.fromkeys(pages, 0)
        memory = f"MemFree: {fits * 2048} kB\n"
        self.files["/proc/meminfo"] = f"MemAvailable: {fits * 4096} kB\nHugepagesize: 2048 kB\n"
        self.files["/proc/sys/vm/nr_hugepages"] = "0\n"
        for node, count in pages.items():
            self.files[f"/sys/devices/system/node/node{node}/meminfo"] = memory
            self._set_node(node, count, surplus)
        self._sum()
        return self

    def hold(self, node: int, pages: int) -> None:
        """Let a program touch this many pages of a node."""
        self.held[node] = pages
        self._set_node(node, self._own(node), 0)
        self._sum()

    def pools(self) -> dict[int, int]:
        """Return the pages of each node, without surplus ones."""
        return {node: self._own(node) for node in self.fits}

    def obstacle(self, path: str) -> str | None:
        """Return why a file cannot be written, or None where it can."""
        if path not in self.files:
            return "it is not there"
        return next((why for place, why in self.closed.items() if path.startswith(place)), None)

    def write(self, path: str, text: str) -> None:
        """Write a file as a kernel does."""
        obstacle = self.obstacle(path)
        if obstacle:
            error = TargetError if path not in self.files else PrivilegeError
            raise error(f"{path} cannot be written: {obstacle}")
        self.before_write(path)
        self.written.append((path, text))
        name = path.rpartition("/")[2]
        if name == "nr_hugepages":
            self._resize(path, int(text))
        elif "[" in self.files[path]:
            self._choose(path, text)
        else:
            self._set(path, name, text)

    def _set(self, path: str, name: str, text: str) -> None:
        for pair in _PAIRS:
            if name in pair:
                if name.endswith("_bytes") and text == "0":
                    raise TargetError(f"the kernel refused {text!r} for {path}: Invalid argument")
                other = pair[1 - pair.index(name)]
                self.files[path.replace(name, other)] = "0\n"
        self.files[path] = f"{text}\n"

    def _choose(self, path: str, text: str) -> None:
        words = re.sub(r"[\[\]]", "", self.files[path]).split()
        if text not in words:
            raise TargetError(f"the kernel refused {text!r} for {path}: Invalid argument")
        self.files[path] = " ".join(f"[{w}]" if w == text else w for w in words) + "\n"

    def _resize(self, path: str, asked: int) -> None:
        match = re.search(r"/node(\d+)/", path)
        if match:
            self._set_node(int(match[1]), asked, 0)
        else:
            share, rest = divmod(asked, len(self.fits))
            for place, node in enumerate(sorted(self.fits)):
                self._set_node(node, share + (place < rest), 0)
        self._sum()

    def _set_node(self, node: int, asked: int, surplus: int) -> None:
        own = min(asked, self.fits[node])
        held = self.held[node]
        surplus = max(surplus, held - own)
        place = f"/sys/devices/system/node/node{node}/hugepages/{_POOL}"
        self.files[f"{place}/nr_hugepages"] = f"{own + surplus}\n"
        self.files[f"{place}/free_hugepages"] = f"{max(own + surplus - held, 0)}\n"
        self.files[f"{place}/surplus_hugepages"] = f"{surplus}\n"

    def _own(self, node: int) -> int:
        place = f"/sys/devices/system/node/node{node}/hugepages/{_POOL}"
        return int(self.files[f"{place}/nr_hugepages"]) - int(
            self.files[f"{place}/surplus_hugepages"]
        )

    def _sum(self) -> None:
        whole = f"/sys/kernel/mm/hugepages/{_POOL}"
        for name in ("nr_hugepages", "free_hugepages", "surplus_hugepages"):
            nodes = (
                f"/sys/devices/system/node/node{n}/hugepages/{_POOL}/{name}" for n in self.fits
            )
            self.files[f"{whole}/{name}"] = f"{sum(int(self.files[path]) for path in nodes)}\n"
        self.files[f"{whole}/resv_hugepages"] = "0\n"
        self.files["/proc/sys/vm/nr_hugepages"] = self.files[f"{whole}/nr_hugepages"]
