"""Machines as the text of their files: a small virtual one that was recorded, a server of metal."""

from fakes.host import FakeHost
from steelyard.gateways.host import LocalHost
from support.recorded_host import RECORDINGS

SMALL_VM = RECORDINGS / "small-vm"  # a Firecracker guest of two CPUs, in a container
_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
_SELF = "Name:\tcat\nCpus_allowed_list:\t0-7\nHugetlbPages:\t       0 kB\n"


def small_vm() -> LocalHost:
    """Return the recorded virtual machine."""
    return LocalHost(root=SMALL_VM)


def metal() -> FakeHost:
    """Return a server of two NUMA nodes and four cores of two threads, without a hypervisor."""
    return FakeHost(
        files={**_identity(), **_cpus(), **_memory(), **_disk()},
        numbers={"/dev/cpu_dma_latency": 10},
        kernel="6.1.0-13-amd64 x86_64",
    )


def _identity() -> dict[str, str]:
    return {
        "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme de sse2 ht\n",
        "/sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
        "/sys/class/dmi/id/product_name": "PowerEdge R650\n",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
        "/proc/self/cgroup": "0::/user.slice\n",
        "/proc/self/status": _SELF,
        "/proc/1/status": "Name:\tsystemd\nHugetlbPages:\t       0 kB\n",
        "/proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\n",
    }


def _cpus() -> dict[str, str]:
    files = {
        f"{_CPU}/online": "0-7\n",
        f"{_CPU}/smt/active": "1\n",
        f"{_CPU}/cpuidle/current_driver": "intel_idle\n",
        f"{_CPU}/cpuidle/current_governor": "menu\n",
        "/sys/module/kvm/parameters/halt_poll_ns": "200000\n",
    }
    for cpu in range(8):
        place = f"{_CPU}/cpu{cpu}"
        files[f"{place}/topology/thread_siblings_list"] = f"{cpu % 4},{cpu % 4 + 4}\n"
        files[f"{place}/cpufreq/scaling_driver"] = "intel_pstate\n"
        files[f"{place}/cpufreq/scaling_governor"] = "powersave\n" if cpu else "performance\n"
    for number, (name, latency) in enumerate((("POLL", 0), ("C1", 2), ("C6", 133))):
        state = f"{_CPU}/cpu0/cpuidle/state{number}"
        files |= {f"{state}/name": name, f"{state}/latency": str(latency)}
        files[f"{state}/disable"] = "1\n" if name == "C6" else "0\n"
    return files


def _memory() -> dict[str, str]:
    files = {
        "/proc/meminfo": "MemTotal: 33554432 kB\nSwapTotal: 1048576 kB\nHugepagesize: 2048 kB\n",
        "/proc/self/mounts": "hugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n",
        "/proc/sys/vm/swappiness": "60\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    }
    for number, total in ((0, 53), (1, 29)):
        place = f"{_NODE}/node{number}"
        first = number * 2
        files |= {
            f"{place}/cpulist": f"{first}-{first + 1},{first + 4}-{first + 5}\n",
            f"{place}/meminfo": f"Node {number} MemTotal:       16777216 kB\n",
            f"{place}/distance": "10 21\n" if number == 0 else "21 10\n",
            **_pool(f"{place}/hugepages/hugepages-2048kB", total, total - 10),
        }
    pool = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    return {**files, **_pool(pool, 82, 62), f"{pool}/resv_hugepages": "12\n"}


def _pool(place: str, total: int, free: int) -> dict[str, str]:
    return {
        f"{place}/nr_hugepages": f"{total}\n",
        f"{place}/free_hugepages": f"{free}\n",
        f"{place}/surplus_hugepages": "0\n",
    }


def _disk() -> dict[str, str]:
    place = "/sys/dev/block/259:2"
    return {
        "/proc/self/mountinfo": (
            "20 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"
            "21 20 259:2 / /srv rw shared:1 - xfs /dev/nvme0n1p2 rw\n"
            "22 20 0:40 / /srv/net rw - nfs4 filer:/export rw\n"
            "23 20 0:41 / /srv/fast rw - tmpfs tmpfs rw\n"
            "24 20 0:42 / /srv/layers rw - overlay overlay rw\n"
            "25 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        ),
        f"{place}/../queue/rotational": "0\n",
        f"{place}/../queue/scheduler": "[none] mq-deadline\n",
        f"{place}/../queue/read_ahead_kb": "128\n",
        f"{place}/../queue/write_cache": "write through\n",
        f"{place}/../uevent": "MAJOR=259\nDEVNAME=nvme0n1\nDEVTYPE=disk\n",
        f"{place}/../device/model": "SAMSUNG MZ7L3\n",
    }
