"""Which files of a machine its facts are made of: what to bring from a machine elsewhere."""

from typing import Final

from steelyard.gateways.placed_files import Wanted
from steelyard.tuning.facts.linux import CPUS, NODES, POOLS, SYSCTL_PLACES
from steelyard.tuning.facts.machine import DMI, VIRTIO
from steelyard.tuning.facts.postgres import HOLDING
from steelyard.tuning.files.machine import UNIT_PATH

_QUEUE: Final = ("rotational", "read_ahead_kb", "scheduler", "write_cache")
# What the kernel shows to everybody on its machine, in containers too.
KERNEL_FILES: Final = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/cmdline", "/proc/pressure/cpu"),
    *("/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/status", "/proc/self/smaps"),
    "/proc/self/cgroup",
    *(f"/proc/sys/kernel/{name}" for name in ("arch", "osrelease", "numa_balancing")),
    "/proc/sys/kernel/io_uring_disabled",
    *(f"/proc/sys/vm/{name}" for name in ("swappiness", "overcommit_memory", "dirty_ratio")),
    *(f"/proc/sys/vm/{name}" for name in ("dirty_bytes", "dirty_background_bytes")),
    *(f"/proc/sys/vm/{name}" for name in ("zone_reclaim_mode", "nr_overcommit_hugepages")),
    *("/sys/hypervisor/type", f"{DMI}/sys_vendor", f"{DMI}/product_name"),
    "/sys/devices/system/clocksource/clocksource0/*_clocksource",
    *(f"{CPUS}/online", f"{CPUS}/smt/active", f"{CPUS}/cpuidle/*"),
    f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list",
    *(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_{name}" for name in ("driver", "governor")),
    f"{CPUS}/cpu[0-9]*/cpufreq/energy_performance_preference",
    *(f"{CPUS}/cpu0/cpuidle/state*/{name}" for name in ("name", "latency", "disable")),
    *(f"{NODES}/node[0-9]*/{name}" for name in ("cpulist", "meminfo", "distance")),
    *(f"{NODES}/node[0-9]*/hugepages/*/*_hugepages", f"{POOLS}/*/*_hugepages"),
    *("/sys/module/kvm/parameters/halt_poll_ns", "/sys/module/haltpoll/parameters/*"),
    *("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag"),
    *(f"{VIRTIO}/*/device", f"{VIRTIO}/*/uevent"),
    *("/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers"),
)
_FILES: Final = (
    *KERNEL_FILES,
    "/proc/1/status",
    *("/etc/sysctl.conf", *(f"{place}/*.conf" for place in SYSCTL_PLACES)),
    UNIT_PATH,
    *("/run/systemd/container", "/.dockerenv", "/run/.containerenv"),
    *("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/cpu_manager_state"),
)


def wanted_at_first(directories: tuple[str, ...]) -> Wanted:
    """Return everything but what depends on it; ``directories`` of the machine are resolved."""
    return Wanted(
        files=_FILES,
        matching=(("/proc/[0-9]*/status", HOLDING),),
        numbers=("/dev/cpu_dma_latency",),
        directories=directories,
    )


def wanted_later(places: tuple[str, ...], pids: tuple[int, ...]) -> Wanted:
    """Return what is looked at a second time, with the disk's directories and some processes."""
    return Wanted(
        files=(
            "/proc/stat",
            *(f"{place}/queue/{name}" for place in places for name in _QUEUE),
            *(f"{place}/uevent" for place in places),
            *(f"{place}/device/{name}" for place in places for name in ("model", "vendor")),
            *(f"/proc/{pid}/cgroup" for pid in pids),
        )
    )
