"""Facts of a machine: from a recorded virtual one, from one of metal, and from odd ones."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core.linux import BlockDevice, LinuxFacts, PoolUser
from steelyard.core.stack import Origin, Visibility
from steelyard.core.wording import GIB, KIB, MIB
from steelyard.gateways.placed_files import Wanted, parse_fetched, script
from steelyard.tuning.facts.linux import collect_linux, steal
from support.machines import metal

_INIT = {"/proc/1/status": "Name:\tinit\nHugetlbPages:\t       0 kB\n"}


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
    ("line", "asked", "others"),
    [
        ("quiet hugepages=64", 64, None),
        ("ro hugepagesz=2M hugepages=512", 512, None),  # Oracle Linux, Bottlerocket
        ("hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=1500", 1500, {GIB: 4}),
        ("default_hugepagesz=2M hugepages=5 hugepagesz=1g hugepages=4", 5, {GIB: 4}),
        ("default_hugepagesz=1G hugepages=4", None, {GIB: 4}),  # refused: the kernel has 2 MiB
        ("hugepages=0:256,1:256", 512, None),
        ("hugepagesz=1073741824 hugepages=0:1,2:3", None, {GIB: 4}),
        ("hugepages=256 hugepagesz=2048K hugepages=512", 256, None),  # hugetlbpage.rst
        ("hugepagesz=2X hugepages=512", None, None),
        ("sysctl.vm.nr_hugepages=0x40 hugepages=512", 64, None),
        ("foo.hugepages=3 quiet", None, None),
        ("quiet", None, None),
    ],
)
def test_kernel_arguments_ask_for_huge_pages(
    line: str, asked: int | None, others: dict[int, int] | None
) -> None:
    """Each size by itself, in every form that the kernel takes; nodes are added up."""
    facts, origins = facts_with({"/proc/cmdline": line})
    assert (facts.requested_huge_pages, facts.requested_other_pages) == (asked, others)
    if others:
        assert origins["linux.requested_other_pages"].source == "hugepages= in /proc/cmdline"


def test_the_default_size_is_the_kernel_s() -> None:
    """What ``default_hugepagesz`` asked for is in /proc/meminfo where the CPU can do it."""
    line = "default_hugepagesz=1G hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=512"
    files = {"/proc/cmdline": line, "/proc/meminfo": "Hugepagesize: 1048576 kB\n"}
    facts, _ = facts_with(files)
    assert (facts.requested_huge_pages, facts.requested_other_pages) == (4, {2 * MIB: 512})


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("vm.nr_hugepages = 1024\n", 1024),
        ("-vm/nr_hugepages=1024", 1024),
        ("#vm.nr_hugepages=1024\n; vm.nr_hugepages=5\n", None),
        ("\tvm.nr_hugepages\t=\t1024\r\n", 1024),
        ("vm.nr_hugepages=1\nvm.nr_hugepages=2\n", 2),
        ("vm.nr_hugepages=0x400\n", 1024),
        ("vm.nr_hugepages=0X3fF\n", 1023),
        ("vm.nr_hugepages=0100\n", 64),
        ("vm.nr_hugepages=089\n", None),
        ("vm.nr_hugepages=0\n", 0),
        ("vm.nr_hugepages=\n7\n", None),
        ("vm.nr_hugepages=64 # for the server\n", 64),
        ("vm.nr_hugepages=64k\n", None),
    ],
)
def test_a_number_of_sysctl_is_read_as_the_kernel_reads_it(text: str, asked: int | None) -> None:
    """Hexadecimal and octal too; what the kernel refuses asks for nothing."""
    files = {"/etc/sysctl.d/90-pg.conf": text}
    assert facts_with(files)[0].requested_huge_pages == asked


def _pages(*places: str) -> dict[str, str]:
    """Return files that ask for 1, 2, ... pages."""
    return {p: f"vm.nr_hugepages={n}\n" for n, p in enumerate(places, 1)}


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        (_pages("/lib/sysctl.d/a.conf"), 1),
        (_pages("/usr/lib/sysctl.d/a.conf", "/usr/local/lib/sysctl.d/a.conf"), 2),
        (_pages("/usr/local/lib/sysctl.d/b.conf", "/run/sysctl.d/a.conf"), 1),
        (_pages("/etc/sysctl.d/a.conf", "/run/sysctl.d/a.conf"), 1),
        (_pages("/run/sysctl.d/10.conf", "/etc/sysctl.d/9.conf"), 2),
        ({**_pages("/usr/lib/sysctl.d/a.conf"), "/etc/sysctl.d/a.conf": ""}, None),  # masked
        (_pages("/etc/sysctl.d/90-pg.conf", "/etc/sysctl.conf"), 1),
        (_pages("/etc/sysctl.d/a", "/etc/sysctl.conf"), None),
        (_pages("/etc/sysctl.d/90-pg.conf", "/etc/sysctl.d/99-sysctl.conf"), 2),
        (_pages("/etc/sysctl.d/z.conf", "/etc/sysctl.d/99-sysctl.conf"), 1),
        ({**_pages("/etc/sysctl.d/z.conf", "/etc/sysctl.conf"), **_INIT}, 2),
    ],
)
def test_the_file_of_sysctl_that_counts(files: dict[str, str], asked: int | None) -> None:
    """As sysctl.d(5) says; /etc/sysctl.conf by itself is read where another init runs."""
    assert facts_with(files)[0].requested_huge_pages == asked


def test_a_masked_file_is_seen_over_ssh(tmp_path: Path) -> None:
    """A link to /dev/null hides the file of that name below /usr/lib."""
    masked = tmp_path / "a.conf"
    masked.symlink_to("/dev/null")
    ended = subprocess.run(
        ["/bin/sh", "-s"],
        input=script(Wanted(files=(f"{tmp_path}/*.conf",)), "mark"),
        capture_output=True,
        text=True,
        check=False,
    )
    fetched = parse_fetched(ended.stdout, "mark")
    assert fetched is not None
    assert fetched.read(str(masked)) == ""


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
