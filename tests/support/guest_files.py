"""Files of /proc of a QEMU, as one of libvirt's had them on Linux 6.18 (QEMU 7.2, TCG)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from steelyard.core.linux import cpu_list
from steelyard.core.wording import KIB, MIB

_MAPS = (
    "55d0c2600000 default file=/usr/bin/qemu-system-x86_64 mapped=9 N0=9 kernelpagesize_kB=4\n"
    "7f5833e00000 {policy} file=/dev/hugepages/libvirt/qemu/1-guest/qemu_back_mem.ram-node0.0tjbgy"
    "\\040(deleted) huge anon={pages} dirty={pages} N{node}={pages} kernelpagesize_kB={page_kib}\n"
    "7ffd1b0c4000 default stack anon=4 dirty=4 N0=4 kernelpagesize_kB=4\n"
)


@dataclass(frozen=True, kw_only=True)
class Guest:
    """What a QEMU of two virtual CPUs has; tests change one thing with ``but``."""

    name: str = "guest"
    pid: int = 4711
    vcpus: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {0: (0,), 1: (1,)})
    emulator: tuple[int, ...] = (1,)
    io_threads: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {1: (0,)})
    memory_bytes: int = 256 * MIB
    page_bytes: int = 2 * MIB
    policy: str = "bind:0"
    node: int = 0
    locked_bytes: int = 0
    balloon: bool = False
    maps: bool = True

    def but(self, **changes: object) -> "Guest":
        """Return a guest that differs in these."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def files(self) -> dict[str, str]:
        """Return its files, and what the host says of itself."""
        proc = f"/proc/{self.pid}"
        device = '-device {"driver":"virtio-balloon-pci"}' if self.balloon else ""
        files = {
            f"/run/libvirt/qemu/{self.name}.pid": str(self.pid),
            f"{proc}/status": _status(self.emulator)
            + f"VmLck:\t{self.locked_bytes // KIB:8d} kB\n",
            f"{proc}/cmdline": f"/usr/bin/qemu-system-x86_64\0-name\0guest={self.name}\0{device}",
            "/sys/devices/system/cpu/online": "0-3\n",
            "/sys/devices/system/node/online": "0-1\n",
            "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "128\n",
            "/proc/mounts": "hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n",
        }
        if self.maps:
            files[f"{proc}/numa_maps"] = self._numa_maps()
        for number, (name, cpus) in enumerate(self._threads()):
            files[f"{proc}/task/{self.pid + number}/comm"] = f"{name}\n"
            files[f"{proc}/task/{self.pid + number}/status"] = _status(cpus)
        return files

    def _numa_maps(self) -> str:
        return _MAPS.format(
            policy=self.policy,
            node=self.node,
            pages=self.memory_bytes // self.page_bytes,
            page_kib=self.page_bytes // KIB,
        )

    def _threads(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return (
            ("qemu-system-x86", self.emulator),
            ("TC tc-ram-node0", (0, 1, 2, 3)),
            ("IO mon_iothread", self.emulator),
            *((f"IO iothread{number}", cpus) for number, cpus in self.io_threads.items()),
            *((f"CPU {number}/TCG", cpus) for number, cpus in self.vcpus.items()),
        )


def _status(cpus: tuple[int, ...]) -> str:
    return f"Name:\tqemu-system-x86\nCpus_allowed:\tf\nCpus_allowed_list:\t{cpu_list(cpus)}\n"
