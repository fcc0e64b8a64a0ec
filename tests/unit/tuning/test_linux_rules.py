"""Facts of a machine, and every rule of the database's Linux on both sides."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core import stack
from steelyard.core.findings import State
from steelyard.core.linux import BlockDevice, LinuxFacts, NumaNode, PagePool, PoolUser
from steelyard.core.stack import Origin, Visibility
from steelyard.core.wording import GIB, KIB, MIB
from steelyard.gateways.placed_files import Wanted, parse_fetched, script
from steelyard.tuning.facts.linux import collect_linux, steal
from support.judged_rules import judged, require_kinds
from support.machines import metal
from support.recorded_stacks import published, recommended
from support.rule_cases import with_domain, with_linux

NOTHING = stack.StackFacts()
SMALL = 2 * MIB
NODE = NumaNode(number=0, cpus=(0, 1))
METAL = with_linux(virtualization="none").linux
REDIS = (stack.RedisFacts(name="cache", role="primary"),)
STRANGER = PoolUser(pid=77, command="postgres", held_bytes=64 * MIB)


def pool(total: int, *, free: int | None = None, page_bytes: int = SMALL) -> PagePool:
    """Return a pool, all free unless said otherwise."""
    return PagePool(page_bytes=page_bytes, total=total, free=total if free is None else free)


def disk(read_ahead_bytes: int | None) -> stack.StackFacts:
    """Return the recommended stack with another read-ahead."""
    return with_linux(
        device=BlockDevice(name="vdb", kind="virtio", read_ahead_bytes=read_ahead_bytes)
    )


def fresh(*users: PoolUser) -> stack.StackFacts:
    """Return a machine whose server does not run yet, with who holds huge pages."""
    return replace(with_linux(pool_users=users), postgres=stack.PostgresFacts(running=False))


def tenants(overcommit: int, redis: tuple[stack.RedisFacts, ...] | None) -> stack.StackFacts:
    """Return the recommended stack with Redis on its machine, or nobody having looked."""
    return replace(with_linux(overcommit_memory=overcommit), redis=redis)


def typed(name: str | None, *, compared: str | None = None) -> stack.StackFacts:
    """Return an instance of a type, and the class that it is compared with."""
    return replace(with_linux(instance_type=name), bench=stack.BenchFacts(reference_class=compared))


HOLDING = {
    "OS001": with_linux(requested_huge_pages=3328),
    "OS002": recommended(),
    "OS003": replace(published(), linux=with_linux(scaling_driver="acpi-cpufreq").linux),
    "OS004": with_linux(transparent_huge_pages="never"),
    "OS005": with_linux(swappiness=10, swap_bytes=GIB),
    "OS006": with_linux(dirty_bytes=2 * GIB),
    "OS007": with_linux(numa_balancing=1, nodes=(NODE, replace(NODE, number=1))),
    "OS008": disk(4096 * KIB),
    "OS009": with_linux(page_bytes=4096),
    "OS010": with_linux(clocksource="tsc"),
    "OS011": with_linux(steal_fraction=0.01, cpu_pressure_fraction=0.1),
    "OS012": typed("m6i.large"),
    "OS013": tenants(1, REDIS),
    "OS014": recommended(),
    "OS015": fresh(),
}
VIOLATED = {
    "OS001": (with_linux(requested_huge_pages=3329), "3329 huge pages were asked for, 3328"),
    "OS002": (with_linux(pools=(pool(8192),)), "9.7 GiB (60.3 %) lie idle"),
    "OS003": (published(), "governor performance"),
    "OS004": (with_linux(transparent_huge_pages="always"), "always"),
    "OS005": (
        with_linux(swappiness=11, swap_bytes=GIB),
        "vm.swappiness is 11 with 1.0 GiB of swap",
    ),
    "OS006": (with_linux(dirty_bytes=3 * GIB), "up to 3.0 GiB"),
    "OS007": (with_linux(numa_balancing=1, nodes=(NODE,)), "with one node"),
    "OS008": (disk(8192 * KIB), "vdb reads 8.0 MiB ahead"),
    "OS009": (with_linux(page_bytes=64 * KIB, huge_page_bytes=512 * MIB), "8 times a block"),
    "OS010": (with_linux(clocksource="hpet"), "clock source hpet"),
    "OS011": (with_linux(steal_fraction=0.011), "steal 1.1 %"),
    "OS012": (typed("t4g.medium"), "t4g.medium is burstable"),
    "OS013": (tenants(2, REDIS), "the fork for a snapshot can fail"),
    "OS014": (with_domain(memory_nodes=(0, 1)), "spans nodes 0, 1 and its guest is shown 1"),
    "OS015": (fresh(STRANGER), "hold 64.0 MiB of huge pages: postgres, such as pid 77"),
}
NOT_APPLICABLE = {
    "OS001": (with_linux(requested_huge_pages=None), ("linux.requested_huge_pages",)),
    "OS002": (with_linux(pools=None), ("linux.pools",)),
    "OS003": (NOTHING, ("linux.virtualization",)),
    "OS004": (NOTHING, ("linux.transparent_huge_pages",)),
    "OS005": (NOTHING, ("linux.swappiness", "linux.swap_bytes")),
    "OS006": (NOTHING, ("linux.dirty_ratio", "linux.memory_bytes")),
    "OS007": (with_linux(nodes=None), ("linux.nodes",)),
    "OS008": (disk(None), ("linux.device.read_ahead_bytes",)),
    "OS009": (NOTHING, ("linux.page_bytes",)),
    "OS010": (NOTHING, ("linux.clocksource",)),
    "OS011": (with_linux(steal_fraction=None), ("linux.steal_fraction",)),
    "OS012": (typed(None), ("linux.instance_type",)),
    "OS013": (tenants(2, None), ("redis",)),
    "OS014": (with_domain(memory_nodes=(), vcpu_pins={}, cells=()), ()),
    "OS015": (with_linux(pool_users=None), ("linux.pool_users",)),
}


@pytest.mark.parametrize(
    ("kib", "told"),
    [
        (0, "vdb reads 0 B ahead: sequential scans and backups wait for many small requests"),
        (127, "vdb reads 127.0 KiB ahead: sequential scans"),
        (128, State.HOLDS.value),
        (4096, State.HOLDS.value),
        (4097, "vdb reads 4.0 MiB ahead"),
    ],
)
def test_read_ahead_has_two_bounds(kib: int, told: str) -> None:
    """OS008: the kernel's default and what TuneD sets are both inside; scans suffer below."""
    found = judged("OS008", disk(kib * KIB))
    assert told in ("; ".join(found.messages) or found.state.value)


@pytest.mark.parametrize("code", HOLDING)
def test_a_rule_on_both_sides_and_without_its_facts(code: str) -> None:
    """One changed fact violates it; without one that it needs it is not applicable."""
    require_kinds(code, HOLDING[code], VIOLATED[code], NOT_APPLICABLE[code])


def test_every_rule_has_a_case_of_each_kind() -> None:
    """No rule is left out."""
    codes = {f"OS{number:03}" for number in range(1, 16)}
    assert codes == set(HOLDING) == set(VIOLATED) == set(NOT_APPLICABLE)


def test_surplus_pages_are_not_what_was_asked_for() -> None:
    """The kernel takes them away again."""
    borrowed = replace(pool(3328), surplus=1)
    found = judged("OS001", with_linux(pools=(borrowed,), requested_huge_pages=3328))
    assert found.messages == ("3328 huge pages were asked for, 3327 are there",)


@pytest.mark.parametrize(
    ("default", "others", "messages"),
    [
        (3328, {GIB: 4}, ()),
        (None, {GIB: 5}, ("5 huge pages of 1.0 GiB were asked for, 4 are there",)),
        (
            3329,
            {GIB: 4, 64 * KIB: 8},
            (
                "8 huge pages of 64.0 KiB were asked for, 0 are there",
                "3329 huge pages were asked for, 3328 are there",
            ),
        ),
    ],
)
def test_every_page_size_that_was_asked_for_is_judged(
    default: int | None, others: dict[int, int], messages: tuple[str, ...]
) -> None:
    """A size that the kernel does not have has no pages."""
    pools = (pool(3328), pool(4, page_bytes=GIB))
    facts = with_linux(pools=pools, requested_huge_pages=default, requested_other_pages=others)
    assert judged("OS001", facts).messages == messages


def test_every_page_size_is_judged_by_its_own_consumers() -> None:
    """Idle pages of 1 GiB are found although those of 2 MiB are in use, and the other way."""
    facts = with_linux(pools=(pool(3328), pool(4, page_bytes=GIB)))
    assert judged("OS002", facts).state is State.HOLDS  # nobody is known to ask for 1 GiB
    pods = (
        stack.PodFacts(name="a", limits={"hugepages-2Mi": "6500Mi"}),
        stack.PodFacts(name="b", limits={"hugepages-1Gi": "1Gi"}),
    )
    found = judged("OS002", replace(facts, kubernetes=stack.KubernetesFacts(pods=pods)))
    assert found.messages == (
        "of 4.0 GiB in pages of 1.0 GiB 1.0 GiB are asked for or in use: 3.0 GiB (75.0 %) lie idle",
    )


def test_pages_in_use_are_not_idle_whoever_asked() -> None:
    """What a process outside of pods holds or has reserved counts."""
    held = replace(pool(8192, free=4000), reserved=3900)
    assert judged("OS002", with_linux(pools=(held,))).state is State.HOLDS


def test_a_pool_is_idle_where_the_server_uses_none() -> None:
    """With huge_pages off nothing is needed; with nobody known the rule does not apply."""
    bare = replace(with_linux(pools=(pool(1000),)), kubernetes=None)
    off = stack.PostgresFacts(settings={"huge_pages": "off"}, huge_pages_needed=900)
    assert judged("OS002", replace(bare, postgres=off)).state is State.VIOLATED
    on = stack.PostgresFacts(settings={"huge_pages": "on"}, huge_pages_needed=900)
    assert judged("OS002", replace(bare, postgres=on)).state is State.HOLDS
    found = judged("OS002", replace(bare, postgres=None))
    assert found.state is State.NOT_APPLICABLE
    assert found.missing[0].startswith("postgres.huge_pages_needed")


def test_a_server_with_pages_of_another_size_uses_that_pool() -> None:
    """With huge_page_size = 1GB the needed pages are of 1 GiB, and the others lie idle."""
    settings = {"huge_pages": "on", "huge_page_size": "1GB"}
    server = stack.PostgresFacts(settings=settings, huge_pages_needed=7)
    bare = replace(with_linux(pools=(pool(7, page_bytes=GIB),)), kubernetes=None, postgres=server)
    assert judged("OS002", bare).state is State.HOLDS
    small = replace(bare, linux=replace(bare.linux, pools=(pool(1000),)))
    assert judged("OS002", small).state is State.NOT_APPLICABLE  # who asks for them is not known


def test_virtual_machines_use_the_pool_of_their_hypervisor() -> None:
    """Where the machine looked at is the hypervisor, its domains are consumers."""
    facts = with_linux(pools=(pool(12400),))
    vm = stack.DomainFacts(name="vm", vcpus=1, memory_bytes=24 * GIB, huge_page_bytes=SMALL)
    below = replace(facts, hypervisor=facts.linux, domains=(vm,), kubernetes=None, postgres=None)
    assert judged("OS002", below).state is State.HOLDS
    found = judged("OS002", replace(below, domains=(replace(vm, memory_bytes=GIB),)))
    assert found.state is State.VIOLATED


def test_a_governor_that_nobody_looked_for_is_no_finding() -> None:
    """That the guest has no cpufreq must have been seen."""
    unseen = replace(
        published(),
        origins={"linux": stack.Origin(source="?", visibility=stack.Visibility.UNKNOWN)},
    )
    assert judged("OS003", unseen).state is State.NOT_APPLICABLE
    metal = replace(published(), linux=METAL)
    assert judged("OS003", metal).state is State.NOT_APPLICABLE


def test_one_fact_on_swap_is_enough_where_it_decides() -> None:
    """Without swap no swappiness matters, and with little of it no swap."""
    assert judged("OS005", with_linux(swappiness=None, swap_bytes=0)).state is State.HOLDS
    assert judged("OS005", with_linux(swappiness=1, swap_bytes=None)).state is State.HOLDS
    found = judged("OS005", with_linux(swappiness=60, swap_bytes=None))
    assert [each.partition(":")[0] for each in found.missing] == ["linux.swap_bytes"]


def test_the_share_of_dirty_memory_leaves_out_huge_pages() -> None:
    """20 % of 24 GiB are too much, of the 8 GiB beside the pool they are not."""
    ratio = with_linux(dirty_bytes=0, dirty_ratio=20, pools=())
    assert "vm.dirty_ratio 20 lets up to 4.8 GiB" in judged("OS006", ratio).messages[0]
    pooled = with_linux(dirty_bytes=0, dirty_ratio=20, pools=(pool(8192),))
    assert judged("OS006", pooled).state is State.HOLDS


def test_one_disturbance_is_told_though_the_other_was_not_seen() -> None:
    """Steal is a finding also where the kernel has no pressure figures."""
    found = judged("OS011", with_linux(steal_fraction=0.2, cpu_pressure_fraction=None))
    assert found.state is State.VIOLATED
    assert found.missing[0].startswith("linux.cpu_pressure_fraction")


@pytest.mark.parametrize(
    ("name", "burstable"),
    [
        *((name, True) for name in ("t1.micro", "t2.small", "t3.large", "t3a.nano", "t4g.2xlarge")),
        *((name, True) for name in ("db.t3.large", "cache.t4g.micro")),
        *((name, False) for name in ("m6i.large", "db.r6g.large", "trn1.2xlarge", "c7gn.medium")),
        ("Standard PC (Q35 + ICH9, 2009)", False),
    ],
)
def test_burstable_types_are_told_by_their_name(name: str, burstable: bool) -> None:  # noqa: FBT001
    """The t families, as instances of EC2, RDS and ElastiCache; nothing that only looks alike."""
    assert judged("OS012", typed(name)).state is (State.VIOLATED if burstable else State.HOLDS)
    compared = judged("OS012", typed(None, compared=name))
    assert compared.state is (State.VIOLATED if burstable else State.NOT_APPLICABLE)


def test_metal_has_no_type() -> None:
    """What is no instance cannot be burstable: nothing is to be judged, nothing is missing."""
    found = judged("OS012", replace(typed(None), linux=METAL))
    assert (found.state, found.missing) == (State.NOT_APPLICABLE, ())


def test_overcommit_is_an_error_only_where_somebody_forks() -> None:
    """PostgreSQL alone is well served with 2; with Redis the conflict is told."""
    assert judged("OS013", tenants(2, ())).state is State.HOLDS
    assert "PostgreSQL is advised this value" in judged("OS013", tenants(2, REDIS)).messages[0]
    alone = replace(tenants(2, REDIS), postgres=None)
    assert "PostgreSQL" not in judged("OS013", alone).messages[0]


def test_pins_on_two_nodes_are_hidden_nodes_too() -> None:
    """Without any numatune, CPUs of both nodes make the guest span them."""
    found = judged("OS014", with_domain(memory_nodes=(), vcpu_pins={0: (0,), 1: (8,)}))
    assert found.messages == ("pg-node-1: it spans nodes 0, 1 and its guest is shown 1",)


def test_holders_of_pages_are_strangers_only_if_one_can_tell() -> None:
    """The named ones and QEMU under a domain on huge pages may; a running server may be the one."""
    named = replace(fresh(STRANGER), intent=stack.Intent(huge_page_pids=(77,)))
    assert judged("OS015", named).state is State.HOLDS
    others = replace(named, intent=stack.Intent(huge_page_pids=(78,)))
    assert judged("OS015", others).state is State.VIOLATED
    server = stack.PostgresFacts(running=True, processes=(77,))
    assert judged("OS015", replace(fresh(STRANGER), postgres=server)).state is State.HOLDS
    beside = replace(fresh(STRANGER), postgres=replace(server, processes=(70, 71)))
    assert "such as pid 77" in judged("OS015", beside).messages[0]
    running = replace(with_linux(pool_users=(STRANGER,)), intent=stack.Intent())
    assert [each.partition(":")[0] for each in judged("OS015", running).missing] == [
        "intent.huge_page_pids"
    ]
    emulator = replace(STRANGER, command="qemu-system-x86")
    assert judged("OS015", fresh(emulator)).state is State.HOLDS
    assert judged("OS015", replace(fresh(emulator), domains=None)).state is State.VIOLATED
    gone = stack.Origin(source="no XML", visibility=stack.Visibility.UNKNOWN)
    unread = replace(fresh(emulator), domains=(), origins={"domains.broken": gone})
    assert judged("OS015", unread).missing == ("domains.broken: no XML",)  # it may be its QEMU


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
