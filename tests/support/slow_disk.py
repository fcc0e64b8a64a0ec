"""A disk whose flushes take longer: one file, served with a delay, below a loop device.

It is served as simulated storage is. ``slow_directory`` makes a file system on such a disk and
mounts it, also in the mount namespaces of others. Needs root.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from steelyard.core.places import Store
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Processes
from steelyard.gateways.stores import StorePaths, Stores, make_sparse


@contextmanager
def slow_directory(
    target: Path, *, below: Path, flush_s: float, size: int, namespaces: Sequence[int] = ()
) -> Iterator[None]:
    """Have an ext4 on a slow disk at a directory while this lasts.

    Args:
        target: Made where it is not there.
        below: An empty directory for what is needed meanwhile.
        flush_s: What a flush takes longer.
        size: Of the disk; it takes what is written to it.
        namespaces: Processes in whose mount namespaces it is mounted, instead of this one.
    """
    paths = StorePaths(image=below / "image", served=below / "served", volume=target)
    paths.served.mkdir()
    make_sparse(paths.image, size)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(paths.image))
    stores = Stores(Processes(), is_root=True)
    with ExitStack() as stack:
        stack.callback(stores.close)
        stack.callback(subprocess.run, ["umount", "-l", str(paths.served)], check=False)
        disk = stores.serve(paths, Store(latency_s=flush_s), Clock())
        loop = _run("losetup", "-f", "--show", str(disk)).strip()
        stack.callback(_run, "losetup", "-d", loop)
        for entered in [f"nsenter -t {pid} -m".split() for pid in namespaces] or [[]]:
            _run(*entered, "mkdir", "-p", str(target))
            _run(*entered, "mount", loop, str(target))
            stack.callback(subprocess.run, [*entered, "rmdir", str(target)], check=False)
            stack.callback(_run, *entered, "umount", str(target))
            _run(*entered, "chmod", "777", str(target))
        yield


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
