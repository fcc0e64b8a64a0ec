"""The disk below a directory, as the kernel sees it, and the memory balloon."""

import re
from dataclasses import dataclass
from typing import Final

from steelyard.gateways.host import Host
from steelyard.model.linux_facts import BlockDevice
from steelyard.model.units import KIB
from steelyard.tuning.facts.found import Found, hidden, seen, selected, unknown

BLOCK: Final = "/sys/dev/block"
VIRTIO: Final = "/sys/bus/virtio/devices"
_BALLOON: Final = "0x0005"  # virtio 1.2, section 5: device ids
_NETWORK_FILES: Final = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p", "virtiofs")
_NETWORK_DISKS: Final = ("rbd", "nbd", "drbd")
_EBS: Final = "Amazon Elastic Block Store"
_INSTANCE_STORE: Final = "Instance Storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """The file system that holds a directory.

    Attributes:
        number: Major and minor number of its device as ``254:0``; major 0 is no disk.
        kind: Such as ``ext4``.
        source: Its device, or what else it says it came from.
    """

    number: str
    kind: str
    source: str


def mount_of(host: Host, directory: str) -> Mount | None:
    """Return the file system below a directory whose links are resolved; None if not seen."""
    best: tuple[int, Mount] | None = None
    for line in (host.read("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source, *_) = before.split(), after.split()
        at = _unescaped(fields[4])
        inside = directory == at or directory.startswith(at.rstrip("/") + "/")
        if inside and (best is None or len(at) >= best[0]):  # a later mount hides an earlier one
            best = (len(at), Mount(number=fields[2], kind=kind, source=_unescaped(source)))
    return best[1] if best else None


def device_places(mount: Mount | None) -> tuple[str, ...]:
    """Return the directories of sysfs that tell of the disk, that of a partition included."""
    if mount is None:
        return ()
    if not mount.number.startswith("0:"):
        place = f"{BLOCK}/{mount.number}"
    elif re.fullmatch(r"/dev/[\w-]+", mount.source):  # btrfs has numbers of its own
        place = f"/sys/class/block/{mount.source.removeprefix('/dev/')}"
    else:
        return ()
    return (place, f"{place}/..")


def device_fact(host: Host, directory: str | None) -> Found:
    """Return the disk below a directory."""
    if directory is None:
        return unknown("no data directory was named")
    mount = mount_of(host, directory)
    if mount is None:
        return hidden(f"/proc/self/mountinfo names no file system for {directory}")
    source = f"{directory} on {mount.source} ({mount.kind})"
    if mount.kind == "tmpfs":
        return seen(BlockDevice(name="tmpfs", kind="tmpfs"), source)
    if mount.kind in _NETWORK_FILES:
        return seen(BlockDevice(name=mount.source, kind="network"), source)
    for place in device_places(mount):
        if host.read(f"{place}/queue/rotational") is not None:
            return seen(_device(host, place, mount), f"{source}, {place}")
    return hidden(f"{source}: the disk below is not visible")


def _device(host: Host, place: str, mount: Mount) -> BlockDevice:
    name = re.search(r"^DEVNAME=(\S+)$", host.read(f"{place}/uevent") or "", re.MULTILINE)
    read_ahead = _word(host, f"{place}/queue/read_ahead_kb")
    rotational = _word(host, f"{place}/queue/rotational") == "1"
    scheduler = _word(host, f"{place}/queue/scheduler")
    named = name[1] if name else mount.source.rpartition("/")[2]
    return BlockDevice(
        name=named,
        kind=_kind(host, place, mount, named) or ("hdd" if rotational else "ssd"),
        read_ahead_bytes=int(read_ahead) * KIB if read_ahead.isdecimal() else None,
        scheduler=selected(scheduler) if "[" in scheduler else scheduler or None,
        rotational=rotational,
        write_cache=_word(host, f"{place}/queue/write_cache") or None,
    )


def _kind(host: Host, place: str, mount: Mount, name: str) -> str:
    """Return what else than the rotational flag tells; empty where nothing does."""
    model, vendor = _word(host, f"{place}/device/model"), _word(host, f"{place}/device/vendor")
    if mount.source.startswith("/dev/longhorn/") or vendor == "IET" or "VIRTUAL-DISK" in model:
        return "longhorn"
    if name.startswith("nvme"):
        of_cloud = {_EBS: "ebs"}.get(model)
        return of_cloud or ("instance-store" if _INSTANCE_STORE in model else "nvme")
    if name.startswith("vd") or vendor == "QEMU":
        return "virtio"  # QEMU's disks say rotational=1 whatever is below them
    kinds = {
        "xvd": "xen",
        "dm-": "device-mapper",
        "loop": "loop",
        **dict.fromkeys(_NETWORK_DISKS, "network"),
    }
    return next((kind for prefix, kind in kinds.items() if name.startswith(prefix)), "")


def balloon_fact(host: Host) -> Found:
    """Return whether a virtio memory balloon is bound to its driver."""
    source = f"{VIRTIO}/*"
    for name in host.names(VIRTIO):
        if _word(host, f"{VIRTIO}/{name}/device") == _BALLOON:
            uevent = host.read(f"{VIRTIO}/{name}/uevent") or ""
            return seen("DRIVER=" in uevent, f"{VIRTIO}/{name}")
    return seen(False, f"{source}: no balloon among them")  # noqa: FBT003 - the fact itself


def _word(host: Host, path: str) -> str:
    return (host.read(path) or "").strip()


def _unescaped(field: str) -> str:
    """Return a field of mountinfo, where a space is written as its octal number."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
