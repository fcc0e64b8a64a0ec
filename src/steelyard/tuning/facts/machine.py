"""What kind of machine this is, its disk and balloon.

Containers hide virtual machines from whoever asks "what is around me", so the two are looked for
apart, and each from the kernel's own files.
"""

import re
from typing import Final

from steelyard.core.linux import BlockDevice
from steelyard.core.wording import KIB
from steelyard.gateways.host import GROUPS, Host, Mount, mount_of
from steelyard.tuning.facts.file import Finds, Found, hidden, read_fact, seen, selected, unknown

BLOCK: Final = "/sys/dev/block"
VIRTIO: Final = "/sys/bus/virtio/devices"
_BALLOON: Final = "0x0005"  # virtio 1.2, section 5: device ids
_NETWORK_FILES: Final = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p", "virtiofs")
_WITHOUT_DISK: Final = {"tmpfs": "tmpfs", **dict.fromkeys(_NETWORK_FILES, "network")}
_NETWORK_DISKS: Final = ("rbd", "nbd", "drbd")
_EBS: Final = "Amazon Elastic Block Store"
_INSTANCE_STORE: Final = "Instance Storage"


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
        return unknown("the data directory is not known: name it with --data-directory")
    mount = mount_of(host, directory)
    if mount is None:
        return hidden(f"/proc/self/mountinfo names no file system for {directory}")
    source = f"{directory} on {mount.source} ({mount.file_system})"
    kind = _WITHOUT_DISK.get(mount.file_system)
    if kind is not None:
        name = mount.source if kind == "network" else kind
        return seen(BlockDevice(name=name, kind=kind), source)
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
        if model == _EBS:
            return "ebs"
        return "instance-store" if _INSTANCE_STORE in model else "nvme"
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


DMI: Final = "/sys/class/dmi/id"
_CLOCKS: Final = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
_BY_CLOCK: Final = {"kvm-clock": "kvm", "hyperv_clocksource": "microsoft", "xen": "xen"}
# Vendor or product of DMI, by which the hypervisors name themselves; so do systemd and virt-what.
_BY_DMI: Final = {
    "QEMU": "qemu",
    "KVM": "kvm",
    "Amazon EC2": "amazon",
    "Google Compute Engine": "google",
    "OpenStack": "kvm",
    "VMware": "vmware",
    "VirtualBox": "oracle",
    "Virtual Machine": "microsoft",
    "Xen": "xen",
    "Parallels": "parallels",
    "bhyve": "bhyve",
}
_METAL: Final = ".metal"  # EC2's machines without a hypervisor; their DMI says Amazon EC2, too
_CONTAINER_FILES: Final = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
_CONTAINER_GROUPS: Final = {"kubepods": "kubernetes", "docker": "docker", "lxc": "lxc"}


def identity_facts(host: Host) -> Finds:
    """Return what kind of machine this is."""
    release, _, machine = host.release().partition(" ")
    no_dmi = "" if host.names(DMI) else f"there is no {DMI}: this machine has no DMI"
    return {
        "virtualization": virtualization(host),
        "container": _container(host),
        "vendor": read_fact(host, f"{DMI}/sys_vendor", str, absent=no_dmi),
        "cpu_vendor": _cpu_vendor(host),
        "instance_type": _instance_type(host),
        "architecture": _of_kernel(host, "arch", machine),
        "kernel": _of_kernel(host, "osrelease", release),
        "cgroup_version": _cgroups(host),
        "io_uring_disabled": read_fact(
            host,
            "/proc/sys/kernel/io_uring_disabled",
            int,
            absent="there is no /proc/sys/kernel/io_uring_disabled: the kernel is older than 6.6",
        ),
    }


def virtualization(host: Host) -> Found:
    """Return the kind of hypervisor below this kernel, ``none`` on bare metal."""
    told = _by_kernel(host) or _by_dmi(host)
    flags = re.search(r"^flags\s*:(.*)$", host.read("/proc/cpuinfo") or "", re.MULTILINE)
    if flags is not None:  # of x86: others say `Features`, and hypervisors set none there
        if "hypervisor" not in flags[1].split():
            return seen("none", "no flag `hypervisor` in /proc/cpuinfo")
        return told or seen("unknown", "flag `hypervisor` in /proc/cpuinfo")
    if told:
        return told
    if host.read(f"{DMI}/sys_vendor"):
        return seen("none", f"{DMI} names no hypervisor")
    return hidden("neither /proc/cpuinfo nor DMI says whether this machine is virtual")


def _by_kernel(host: Host) -> Found | None:
    kind = (host.read("/sys/hypervisor/type") or "").strip()
    if kind:
        return seen(kind, "/sys/hypervisor/type")
    clocks = host.read(_CLOCKS) or ""
    for clock, name in _BY_CLOCK.items():
        if clock in clocks:
            return seen(name, _CLOCKS)
    return None


def _by_dmi(host: Host) -> Found | None:
    for file in ("product_name", "sys_vendor"):
        text = host.read(f"{DMI}/{file}") or ""
        if _METAL in text:
            return None
        for word, name in _BY_DMI.items():
            if word in text:
                return seen("kvm" if name == "amazon" else name, f"{DMI}/{file}")
    return None


def _cpu_vendor(host: Host) -> Found:
    path = "/proc/cpuinfo"
    found = re.search(r"^vendor_id\s*:\s*(\S+)$", host.read(path) or "", re.MULTILINE)
    return seen(found[1], path) if found else hidden(f"{path} has no vendor_id, as only x86 has")


def _instance_type(host: Host) -> Found:
    vendor = (host.read(f"{DMI}/sys_vendor") or "").strip()
    if "Amazon" in vendor:
        return read_fact(host, f"{DMI}/product_name", str)
    return hidden("DMI tells it on Amazon EC2 only; `--instance-metadata` asks the cloud")


def _container(host: Host) -> Found:
    kind = (host.read("/run/systemd/container") or "").strip()
    if kind:
        return seen(kind, "/run/systemd/container")
    groups = host.read("/proc/self/cgroup") or ""
    for word, name in _CONTAINER_GROUPS.items():
        if f"/{word}" in groups:
            return seen(name, "/proc/self/cgroup")
    for path, name in _CONTAINER_FILES.items():
        if host.read(path) is not None:
            return seen(name, path)
    return seen("none", "no mark of a container")


def _of_kernel(host: Host, file: str, otherwise: str) -> Found:
    found = read_fact(host, f"/proc/sys/kernel/{file}", str)
    return found if found.value else seen(otherwise, "uname")


def _cgroups(host: Host) -> Found:
    if host.read(f"{GROUPS}/cgroup.controllers") is not None:
        return seen("v2", f"{GROUPS}/cgroup.controllers")
    if host.read(f"{GROUPS}/unified/cgroup.controllers") is not None:
        return seen("hybrid", f"{GROUPS}/unified")
    if " cgroup " in (host.read("/proc/self/mounts") or ""):
        return seen("v1", "/proc/self/mounts")
    return hidden(f"no control groups are mounted at {GROUPS}")
