"""A control group that limits the huge pages a process touches, in either version.

The kernel lends the controller to one hierarchy at a time. Version 2 has it by default; who mounts
a version 1 hierarchy of it takes it away, and that hierarchy outlives its mounts where it had
groups: it goes when it is mounted and unmounted once more, some time after its last group was
removed (seen on Linux 6.18). Source: cgroups(7).
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.endpoint import run

_UNIFIED = Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")
_CONTROLLER = "hugetlb"
_ATTEMPTS, _PAUSE_S = 10, 0.5


@contextmanager
def limited(pid: int, limit_bytes: int, *, version: int = 2) -> Iterator[int]:
    """Put a process into a group that may touch so many bytes, and out again.

    Yields the version it is of: 1 where another hierarchy holds on to the controller.
    """
    root = _unified() if version == 2 else None
    if root is None:
        with _mounted() as first, _group(first, "limit_in_bytes", pid, limit_bytes):
            yield 1
    else:
        control = root / "cgroup.subtree_control"
        enabled = _CONTROLLER in control.read_text().split()
        control.write_text(f"+{_CONTROLLER}")
        try:
            with _group(root, "max", pid, limit_bytes):
                yield 2
        finally:
            if not enabled:
                control.write_text(f"-{_CONTROLLER}")


def _unified() -> Path | None:
    """Return the hierarchy of version 2 if it has the controller, or soon gets it back."""
    for _ in range(_ATTEMPTS):
        for root in _UNIFIED:
            controllers = root / "cgroup.controllers"
            if controllers.exists() and _CONTROLLER in controllers.read_text().split():
                return root
        with _mounted():
            pass  # what holds the controller without using it gives it back
        time.sleep(_PAUSE_S)
    return None


@contextmanager
def _mounted() -> Iterator[Path]:
    """Yield the controller's version 1 hierarchy, mounted for that long."""
    with tempfile.TemporaryDirectory(prefix="steelyard-hugetlb-") as directory:
        run(["mount", "-t", "cgroup", "-o", _CONTROLLER, "none", directory])
        try:
            yield Path(directory)
        finally:
            run(["umount", directory])


@contextmanager
def _group(root: Path, limit: str, pid: int, limit_bytes: int) -> Iterator[None]:
    group = root / f"steelyard-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / f"hugetlb.2MB.{limit}").write_text(str(limit_bytes))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it ended
                (root / "cgroup.procs").write_text(member)
        group.rmdir()
