"""Facts of a machine: from a recorded virtual one, from one of metal, and from odd ones."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core.linux import BlockDevice, LinuxFacts, PoolUser
from steelyard.core.stack import Origin, Visibility
from steelyard.core.wording import KIB, MIB
from steelyard.tuning.facts.linux import collect_linux, steal
from support.machines import metal


def facts_with(files: Mapping[str, str]) -> tuple[LinuxFacts, Mapping[str, Origin]]:
    """Return the facts of the server of metal with other files."""
    host = metal()
    return collect_linux(replace(host, files={**host.files, **files}))


def test_the_vendor_of_the_cpu_is_not_that_of_the_machine() -> None:
    """A server of Dell has a CPU of AMD; Arm names no vendor there, which is told."""
    flags = "flags\t\t: fpu vme\n"
    facts, _ = facts_with({"/proc/cpuinfo": f"vendor_id\t: AuthenticAMD\n{flags}"})
    assert (facts.vendor, facts.cpu_vendor, facts.has_amd_cpu) == (
        "Dell Inc.",
        "AuthenticAMD",
        True,
    )
    assert facts_with({"/proc/cpuinfo": "vendor_id : GenuineIntel\n"})[0].has_amd_cpu is False
    arm, origins = facts_with({"/proc/cpuinfo": "CPU implementer\t: 0x41\n"})
    assert arm.has_amd_cpu is None
    assert origins["linux.cpu_vendor"].visibility is Visibility.NO


def test_the_request_for_huge_pages_is_read_where_it_is_configured() -> None:
    """The kernel gave 82 and does not say of how many: the file of sysctl that comes last does."""
    facts, origins = facts_with(
        {
            "/usr/lib/sysctl.d/50-pages.conf": "vm.nr_hugepages = 10\n",
            "/etc/sysctl.d/90-pages.conf": "# vm.nr_hugepages = 7\nvm/nr_hugepages=200\n",
            "/proc/cmdline": "quiet hugepages=64\n",
        }
    )
    assert facts.requested_huge_pages == 200
    assert origins["linux.requested_huge_pages"].source == "/etc/sysctl.d/90-pages.conf"


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("quiet hugepages=64", 64),
        ("default_hugepagesz=1G hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=512", 4),
        ("hugepagesz=1G hugepages=4", None),
        ("quiet", None),
    ],
)
def test_kernel_arguments_ask_for_huge_pages(line: str, asked: int | None) -> None:
    """Only those of the default size count; of another size they are another pool's."""
    assert facts_with({"/proc/cmdline": line})[0].requested_huge_pages == asked


def test_who_holds_huge_pages_is_told() -> None:
    """Processes with HugetlbPages above 0, by name, size and id; without the field nobody knows."""
    held = "Name:\tpostgres\nHugetlbPages:\t   53248 kB\n"
    facts, _ = facts_with({"/proc/6208/status": held})
    assert facts.pool_users == (PoolUser(pid=6208, command="postgres", held_bytes=52 * MIB),)
    facts, origins = facts_with({"/proc/self/status": "Name:\tcat\n"})
    assert facts.pool_users is None
    assert origins["linux.pool_users"].visibility is Visibility.NO


@pytest.mark.parametrize(
    ("directory", "name", "kind"),
    [
        ("/srv/data", "nvme0n1", "nvme"),
        ("/srv/net/data", "filer:/export", "network"),
        ("/srv/fast", "tmpfs", "tmpfs"),
    ],
)
def test_the_disk_is_that_of_the_nearest_mount(directory: str, name: str, kind: str) -> None:
    """The longest mount point above counts, and a partition's queue is that of its disk."""
    device = collect_linux(metal(), directory)[0].device
    assert device is not None
    assert (device.name, device.kind) == (name, kind)
    if kind == "nvme":
        assert (device.scheduler, device.read_ahead_bytes) == ("none", 128 * KIB)


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"device/model": "Amazon Elastic Block Store"}, "ebs"),
        ({"device/model": "Amazon EC2 NVMe Instance Storage"}, "instance-store"),
        ({"device/vendor": "IET     "}, "longhorn"),
        ({"uevent": "DEVNAME=dm-3"}, "device-mapper"),
        ({"uevent": "DEVNAME=sda"}, "ssd"),
        ({"uevent": "DEVNAME=sda", "queue/rotational": "1"}, "hdd"),
        ({"uevent": "DEVNAME=sda", "queue/rotational": "1", "device/vendor": "QEMU"}, "virtio"),
        ({"uevent": "DEVNAME=rbd0"}, "network"),
    ],
)
def test_kinds_of_disks(files: Mapping[str, str], kind: str) -> None:
    """Model, vendor and name tell more than the rotational flag, which only they can overrule."""
    host = metal()
    changed = {f"/sys/dev/block/259:2/../{name}": text for name, text in files.items()}
    device = collect_linux(replace(host, files={**host.files, **changed}), "/srv")[0].device
    assert isinstance(device, BlockDevice)
    assert device.kind == kind


def test_a_disk_that_cannot_be_seen_has_a_reason() -> None:
    """An overlay has no disk of its own, and without a directory nobody looked."""
    facts, origins = collect_linux(metal(), "/srv/layers/data")
    assert facts.device is None
    assert origins["linux.device"].visibility is Visibility.NO
    assert "overlay" in origins["linux.device"].source
    assert collect_linux(metal())[1]["linux.device"].visibility is Visibility.UNKNOWN


def test_a_file_that_is_not_understood_is_unknown_and_shown() -> None:
    """A text that no parser expects is no fact and no crash; nor is one that is absent."""
    facts, origins = facts_with({"/proc/sys/vm/swappiness": "plenty\n"})
    assert facts.swappiness is None
    assert origins["linux.swappiness"].visibility is Visibility.UNKNOWN
    assert "plenty" in origins["linux.swappiness"].source
    assert origins["linux.zone_reclaim_mode"].visibility is Visibility.NO


@given(junk=st.dictionaries(st.sampled_from(sorted(metal().files)), st.text(max_size=60)))
def test_no_text_of_a_file_is_too_odd(junk: dict[str, str]) -> None:
    """Whatever the files hold, facts come back, and every fact has an origin."""
    host = metal()
    facts, origins = collect_linux(replace(host, files={**host.files, **junk}), "/srv/data")
    assert {path.removeprefix("linux.") for path in origins} == set(LinuxFacts.__slots__)
    assert all(origin.source for origin in origins.values())
    assert facts.kernel == "6.1.0-13-amd64"


def test_a_machine_without_files_is_all_unknown() -> None:
    """Nothing but what is known without files is a fact; None is never 0 or an empty text."""
    facts, origins = collect_linux(FakeHost())
    told = {name for name in LinuxFacts.__slots__ if getattr(facts, name) is not None}
    assert told == {"container", "architecture", "kernel", "balloon"}
    assert origins["linux.virtualization"].visibility is Visibility.NO


def test_steal_is_a_share_of_the_time_between_two_looks() -> None:
    """30 of 100 ticks went to others; guests' time is not counted twice; no time is no share."""
    before = "cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 100 0 100 800 0 0 0 0 50 0\n"
    after = "cpu  140 0 110 820 0 0 0 30 90 0\ncpu0 140 0 110 820 0 0 0 30 90 0\n"
    assert steal(before, after).value == pytest.approx(0.3)
    assert steal(before, before).value is None
    assert steal(None, after).value is None


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"/sys/class/dmi/id/product_name": "m6i.large", "sys_vendor": "Amazon EC2"}, "kvm"),
        ({"/sys/class/dmi/id/product_name": "VMware7,1"}, "vmware"),
        ({"/sys/hypervisor/type": "xen\n"}, "xen"),
        ({}, "unknown"),
    ],
)
def test_the_kind_of_hypervisor(files: dict[str, str], kind: str) -> None:
    """The flag says that there is one; clocks, Xen and DMI say which."""
    vendor = {"/sys/class/dmi/id/sys_vendor": files.pop("sys_vendor", "Somebody")}
    flags = {"/proc/cpuinfo": "flags\t: fpu hypervisor\n"}
    facts, _ = facts_with({**flags, **vendor, **files})
    assert facts.virtualization == kind
    assert facts.instance_type == ("m6i.large" if "Amazon" in facts.vendor else None)
