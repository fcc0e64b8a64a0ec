"""A Linux guest of a kernel and busybox, small enough to boot under emulation in a test."""

import os
import stat
from pathlib import Path

from support.lacking import lacking

# Where .ci/run unpacks the kernel of a package; it is not installed.
KERNEL = Path(os.environ.get("STEELYARD_GUEST_KERNEL", "/var/cache/steelyard-guest/vmlinuz"))
BUSYBOX = Path("/bin/busybox")
UP = "=== GUEST UP"
DONE = "=== GUEST DONE"
FILE = "=== FILE "  # and the path; its text follows
# What of /proc and /sys tells topology, memory and tuning. Without fields that only root may read.
_TOLD = """
/proc/cpuinfo /proc/meminfo /proc/mounts /proc/stat /proc/swaps /proc/version
/proc/pressure/cpu /proc/sys/kernel/osrelease /proc/sys/kernel/numa_balancing
/proc/sys/vm/nr_hugepages /proc/sys/vm/nr_overcommit_hugepages /proc/sys/vm/swappiness
/proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes /proc/sys/vm/dirty_ratio
/proc/sys/vm/overcommit_memory /proc/sys/vm/zone_reclaim_mode
/sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name
/sys/devices/system/clocksource/clocksource0/current_clocksource
/sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag
/proc/cmdline /proc/1/status /proc/1/cgroup /proc/self/status /proc/self/mounts
/proc/self/smaps /proc/self/cgroup /sys/module/haltpoll/parameters/guest_halt_poll_ns
/sys/fs/cgroup/cgroup.controllers
"""
_NODE_POOL = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
_TOLD_BELOW = """
/sys/devices/system/node /sys/devices/system/cpu /sys/kernel/mm/hugepages
"""
_INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/hugepages; mount -t hugetlbfs hugetlbfs /dev/hugepages
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "{UP}"
tell() {{ echo "{FILE}$1"; cat "$1" 2>/dev/null; }}
@PAGES@
for f in @TOLD@; do [ -e $f ] && tell $f; done
for d in @BELOW@; do
  find $d -type f -not -path '*/power/*' -not -path '*/vulnerabilities/*' \\
    -not -path '*/hotplug/*' -not -path '*/microcode/*' -not -name uevent -not -name crash_notes* \\
    -not -path '*/cache/index[012]/*' -not -name 'vmstat' -not -path '*/accessN/*' | sort |
    while read f; do [ -r $f ] && tell $f; done
done
echo "{DONE}"
while :; do sleep 1; done
"""


def kernel() -> Path:
    """Return the kernel of the guest."""
    if not KERNEL.is_file():
        lacking(f"there is no kernel for a guest at {KERNEL}; STEELYARD_GUEST_KERNEL names one")
    return KERNEL


def write_initrd(path: Path, *, huge_pages: tuple[int, ...] = (), told: bool = False) -> None:
    """Write the guest's memory disk.

    Args:
        path: Of the file.
        huge_pages: That it reserves on each of its NUMA nodes.
        told: Whether it prints its /proc and /sys.
    """
    if not BUSYBOX.is_file():
        lacking(f"there is no {BUSYBOX} for a guest (package busybox-static)")
    pages = "\n".join(
        f"echo {count} > {_NODE_POOL.format(node)}" for node, count in enumerate(huge_pages)
    )
    init = _INIT.replace("@PAGES@", pages)
    init = init.replace("@TOLD@", " ".join(_TOLD.split()) if told else "")
    init = init.replace("@BELOW@", " ".join(_TOLD_BELOW.split()) if told else "")
    entries = (
        ("bin", stat.S_IFDIR | 0o755, b""),
        ("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes()),
        ("init", stat.S_IFREG | 0o755, init.encode()),
        ("TRAILER!!!", 0, b""),
    )
    path.write_bytes(b"".join(_entry(*entry) for entry in entries))
    path.chmod(0o644)


def told_files(console: str) -> dict[str, str]:
    """Return the files by path that a guest printed on its console."""
    _, _, told = console.replace("\r", "").partition(UP)
    told, _, _ = told.partition(DONE)
    files = {}
    for piece in told.split(FILE)[1:]:
        path, _, text = piece.partition("\n")
        files[path] = text
    return files


def _entry(name: str, mode: int, content: bytes) -> bytes:
    """Return one entry of a cpio archive in the form that the kernel reads (newc)."""
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
