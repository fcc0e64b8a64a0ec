"""Facts of a machine: from a recorded virtual one, from one of metal, and from odd ones."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core.linux import BlockDevice, IdleState, LinuxFacts, PagePool, PoolUser
from steelyard.core.stack import Origin, Visibility
from steelyard.core.wording import GIB, KIB, MIB
from steelyard.gateways.host import LocalHost
from steelyard.tuning.facts.linux import collect_linux, steal
from support.machines import metal, small_vm
from support.recorded_host import RECORDINGS


def facts_with(files: Mapping[str, str]) -> tuple[LinuxFacts, Mapping[str, Origin]]:
    """Return the facts of the server of metal with other files."""
    host = metal()
    return collect_linux(replace(host, files={**host.files, **files}))


def test_a_recorded_virtual_machine_is_recognised_inside_its_container() -> None:
    """The container does not hide the hypervisor: both are told, each from its own file."""
    facts, origins = collect_linux(small_vm(), "/var/tmp")  # noqa: S108 - only a name
    assert (facts.virtualization, facts.container) == ("kvm", "docker")
    assert "clocksource" in origins["linux.virtualization"].source
    assert origins["linux.container"].source == "/.dockerenv"
    assert facts.cpus == (0, 1)
    assert facts.kernel is not None
    assert facts.kernel.startswith("6.18.")
    assert facts.page_bytes == 4 * KIB
    assert facts.huge_page_bytes == 2 * MIB
    assert facts.cgroup_version == "hybrid"


def test_virtios_rotational_flag_is_no_evidence_of_a_disk() -> None:
    """The recorded disk says rotational=1, and its kind is virtio, not hdd."""
    facts, _ = collect_linux(small_vm(), "/var/lib/postgresql")
    assert facts.device is not None
    assert facts.device.rotational is True
    assert facts.device.kind == "virtio"
    assert facts.device.read_ahead_bytes == 8 * MIB


def test_a_governor_in_a_virtual_machine_is_not_visible() -> None:
    """It is neither a value nor unknown: nobody can see it from there, and the reason is told."""
    facts, origins = collect_linux(small_vm())
    for name in ("scaling_driver", "governor", "energy_preference", "halt_poll_s"):
        assert getattr(facts, name) is None
        assert origins[f"linux.{name}"].visibility is Visibility.NO
        assert "hypervisor" in origins[f"linux.{name}"].source


def test_the_balloon_of_the_recorded_machine_is_bound() -> None:
    """A virtio device 5 with a driver; on metal there is none, which is a fact, too."""
    assert collect_linux(small_vm())[0].balloon is True
    assert collect_linux(metal())[0].balloon is False


def test_metal_shows_what_a_virtual_machine_cannot() -> None:
    """No flag `hypervisor`: governor, idle states and polling are those of this machine."""
    facts, origins = collect_linux(metal())
    assert facts.virtualization == "none"
    assert facts.scaling_driver == "intel_pstate"
    assert facts.governor == "performance,powersave"
    assert origins["linux.energy_preference"].visibility is Visibility.NO
    assert facts.idle_states == (
        IdleState(name="POLL", exit_latency_s=0.0),
        IdleState(name="C1", exit_latency_s=2e-6),
        IdleState(name="C6", exit_latency_s=133e-6, disabled=True),
    )
    assert facts.halt_poll_s == pytest.approx(200e-6)
    assert facts.dma_latency_s == pytest.approx(10e-6)


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


def test_topology_has_nodes_cores_and_distances() -> None:
    """Two nodes with their CPUs, memory and pages; four cores of two threads."""
    facts, _ = collect_linux(metal())
    assert facts.siblings == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert facts.smt is True
    assert facts.allowed_cpus == tuple(range(8))
    assert facts.nodes is not None
    first, second = facts.nodes
    assert (first.cpus, second.cpus) == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert (first.distances, second.distances) == ((10, 21), (21, 10))
    assert first.memory_bytes == 16 * GIB
    assert first.pools == (PagePool(page_bytes=2 * MIB, total=53, free=43),)
    assert facts.pool() == PagePool(page_bytes=2 * MIB, total=82, free=62, reserved=12)
    assert facts.pool().available == 50


def test_a_recorded_guest_of_two_nodes_has_its_real_topology() -> None:
    """Files of a booted guest: CPUs, threads, distances and pages of each node."""
    facts, _ = collect_linux(LocalHost(root=RECORDINGS / "two-nodes"))
    assert facts.virtualization == "qemu"
    assert facts.siblings == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert facts.nodes is not None
    assert [node.cpus for node in facts.nodes] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [node.distances for node in facts.nodes] == [(10, 21), (21, 10)]
    assert [pool.total for node in facts.nodes for pool in node.pools] == [2, 6]
    assert facts.pool() == PagePool(page_bytes=2 * MIB, total=8, free=8, reserved=0)
    assert facts.memory_bytes == sum(node.memory_bytes or 0 for node in facts.nodes)


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
