"""This machine as a place: CPUs and memory that may really be used, and storage made on it.

Simulated storage is made before the servers of a campaign and taken away after them. All of it lies
below directories that the ledger and the registry know before anything is made, so that after a
death ``clean`` unmounts and removes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.core.findings import Fact, facts_about
from steelyard.core.linux import THROTTLES, limits_of
from steelyard.core.outside import MadeDirectory
from steelyard.core.places import Provision, Store
from steelyard.core.wording import KIB, PreflightError, format_bytes
from steelyard.gateways.files import existing_parent, make_directory, remove_tree
from steelyard.gateways.host import (
    Clock,
    Host,
    cpu_limits,
    innermost,
    memory_bytes,
    memory_limits,
    parse_mounts,
)
from steelyard.gateways.stores import StorePaths, Stores, Volumes, unmounted
from steelyard.places.protocol import Ledger
from steelyard.record import registry

_FILE_SYSTEM, _BLOCK, _READ_AHEAD = "data file system", "file-system block", "read-ahead"
_OWN = "self"  # our own process
DATA_FACTS = frozenset({_FILE_SYSTEM, _BLOCK, _READ_AHEAD})  # of the disk that the data lie on


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a server may use here: the container's limits where there are any, else the machine's.

    Attributes:
        cpus: CPUs by affinity and quota; may be a fraction.
        memory_bytes: Smallest of the machine's memory and every cgroup limit above us.
    """

    cpus: float
    memory_bytes: int


def capacity(host: Host) -> Capacity:
    """Return the CPUs and memory that may really be used.

    Raises:
        PreflightError: The machine does not say how much memory it has.
    """
    memory = _memory(host)
    if not memory:
        raise PreflightError(
            "how much memory this machine has is not visible",
            hint="Mount /proc where Steelyard runs: it reads MemTotal in /proc/meminfo.",
        )
    return Capacity(cpus=_cpus(host), memory_bytes=min(memory))


def _cpus(host: Host) -> float:
    return min([float(host.cpus()), *(cpus for cpus, _ in cpu_limits(host, _OWN))])


def _memory(host: Host) -> list[int]:
    limits = (limit for limit, _ in memory_limits(host, _OWN))
    return [limit for limit in (_memory_total(host), *limits) if limit > 0]


def provision_here(host: Host, directory: Path, limits: Mapping[str, str]) -> Provision:
    """Return what this machine gives a server whose data are in a directory.

    Args:
        host: This machine.
        directory: Of the data, or where they will be.
        limits: Of its control group, by key.
    """
    cpus, asked = _cpus(host), limits_of(limits)
    place = _place(directory)
    throttles = {key: getattr(asked, key) for key in THROTTLES}
    return Provision(
        cpus=cpus if asked.cpus is None else min(asked.cpus, cpus),
        memory_bytes=min([*_memory(host), *([asked.memory] if asked.memory else [])], default=None),
        storage="" if (found := _file_system(host, place)) == "not visible" else found,
        limits=", ".join(f"{key} {value}" for key, value in throttles.items() if value is not None),
        block_bytes=_block_bytes(host, place),
        page_bytes=_page_bytes(host),
        read_ahead_bytes=_read_ahead_bytes(host, place),
    )


def _block_bytes(host: Host, place: str) -> int | None:
    space = host.space(place)
    return space.block_bytes if space is not None else None


def _page_bytes(host: Host) -> int | None:
    return _kib(_field(host, "/proc/self/smaps", "KernelPageSize"))


def _kib(text: str | None) -> int | None:
    """Return the bytes of a number of KiB, with or without its unit."""
    words = (text or "").split()
    return int(words[0]) * KIB if words and words[0].isdecimal() else None


def _read_ahead_bytes(host: Host, place: str) -> int | None:
    """Return the read-ahead of the disk below a file system; a partition has that of its disk."""
    device = host.device(place)
    if device is None:
        return None
    disk = "/sys/dev/block/{}:{}".format(*device)
    places = (f"{disk}/queue/read_ahead_kb", f"{disk}/../queue/read_ahead_kb")
    return next((found for each in places if (found := _kib(host.read(each))) is not None), None)


def machine_facts(host: Host, directory: Path) -> tuple[Fact, ...]:
    """Return what a reader must know of the machine, in the order to print it."""
    usable = capacity(host)
    place = _place(directory)
    facts = {
        "cpus": f"{usable.cpus:g} usable of {host.cpus()} by affinity",
        "cpu model": _field(host, "/proc/cpuinfo", "model name") or "not visible",
        "memory": f"{format_bytes(usable.memory_bytes)} usable"
        f" of {format_bytes(_memory_total(host))}",
        "kernel": host.release(),
        "virtualisation": _virtualisation(host),
        "governor": _shown(host, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent huge pages": _selected(host, "/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory overcommit": _shown(host, "/proc/sys/vm/overcommit_memory"),
        "memory page": _size(_page_bytes(host)),
        _FILE_SYSTEM: _file_system(host, place),
        _BLOCK: _size(_block_bytes(host, place)),
        _READ_AHEAD: _size(_read_ahead_bytes(host, place)),
        "load average at the start": _load_average(host),
    }
    return facts_about("machine", facts)


def _size(value: int | None) -> str:
    return "not visible" if value is None else format_bytes(value)


def _memory_total(host: Host) -> int:
    return memory_bytes(host.read("/proc/meminfo")).get("MemTotal", 0)


def _field(host: Host, path: str, name: str) -> str | None:
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", host.read(path) or "", re.MULTILINE)
    return match[1].strip() if match else None


def _virtualisation(host: Host) -> str:
    if " hypervisor" not in (_field(host, "/proc/cpuinfo", "flags") or ""):
        return "none seen"
    product = (host.read("/sys/class/dmi/id/product_name") or "").strip()
    return f"virtual machine{f' ({product})' if product else ''}"


def _shown(host: Host, path: str) -> str:
    return (host.read(path) or "").strip() or "not visible"


def _load_average(host: Host) -> str:
    """Return the mean number of running and waiting tasks over the last minute."""
    fields = (host.read("/proc/loadavg") or "").split()
    return fields[0] if fields else "not visible"


def _selected(host: Host, path: str) -> str:
    match = re.search(r"\[(\w+)\]", host.read(path) or "")
    return match[1] if match else "not visible"


def _place(directory: Path) -> str:
    """Return the path of a directory that may not be made yet, as far as it is there."""
    return str(existing_parent(directory).resolve())


def _file_system(host: Host, place: str) -> str:
    """Return type and device of the file system that holds a place."""
    mount = innermost(parse_mounts(host.read("/proc/self/mounts")), place)
    return "not visible" if mount is None else f"{mount.file_system} on {mount.source}"


class MadeStores:
    """Simulated storage, one for each place and kind that is asked for."""

    def __init__(
        self, campaign_id: str, ledger: Ledger, stores: Stores, volumes: Volumes, clock: Clock
    ) -> None:
        self._campaign_id = campaign_id
        self._ledger = ledger
        self._stores = stores
        self._volumes = volumes
        self._clock = clock
        self._made: dict[tuple[Path, Store], StorePaths] = {}
        self._directories: list[Path] = []

    def volume(self, root: Path, store: Store) -> Path:
        """Return where a store below a directory is mounted; it is made when first asked for.

        Raises:
            PrivilegeError: Only root may.
            PreflightError: A program is not here.
            TargetError: The kernel or a program refuses.
        """
        if (root, store) not in self._made:
            self._stores.require()
            paths = self._paths(root / "stores" / "live" / self._campaign_id)
            for place in (paths.served, paths.volume):
                registry.note_mount(self._campaign_id, place)
                make_directory(place)
            self._made[root, store] = paths
            self._stores.make(paths, store, self._clock)
        return self._made[root, store].volume

    def refill(self, volume: Path) -> bool:
        """Fill the burst credits of a store; return whether one is mounted there."""
        if volume not in {paths.volume for paths in self._made.values()}:
            return False
        self._stores.refill()
        return True

    def _paths(self, directory: Path) -> StorePaths:
        if directory not in self._directories:
            self._ledger.created(MadeDirectory(path=directory))
            self._directories.append(directory)
            make_directory(directory)
        number = len(self._made) + 1
        return StorePaths(
            image=directory / f"image-{number}",
            served=directory / f"served-{number}",
            volume=directory / f"volume-{number}",
        )

    def remove(self) -> None:
        """Unmount and remove all of it; a second time changes nothing.

        Raises:
            LeftBehindError: Somebody uses it; ``clean`` goes on from there.
        """
        for paths in reversed(self._made.values()):
            for place in (paths.volume, paths.served):
                unmounted(place, self._volumes, self._clock)
        self._made.clear()
        while self._directories:
            remove_tree(self._directories[-1])
            self._ledger.removed(MadeDirectory(path=self._directories.pop()))
