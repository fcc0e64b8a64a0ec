"""Knobs, wake-ups and limits of a machine: what is taken, what is refused, what a record shows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core import linux
from steelyard.core import linux as host_settings
from steelyard.core.experiment import SwitchCost
from steelyard.core.findings import Fact
from steelyard.core.wording import MIB, InputError


@pytest.mark.parametrize(
    "name",
    [
        "vm.nr_hugepages",
        "vm.swappiness",
        "net.ipv4.tcp_rmem",
        "kernel.shmmax",
        *host_settings.SHORT_NAMES,
    ],
)
def test_knobs_that_a_database_can_feel_are_taken(name: str) -> None:
    """Sysctls of memory and network, and the short names."""
    host_settings.check_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kernel.core_pattern", "not for experiments"),
        ("kernel.modprobe", "not for experiments"),
        ("vm.drop_caches", "not for experiments"),
        ("vm.stat_refresh", "not for experiments"),
        ("vm.mmap_min_addr", "not for experiments"),
        ("vm.unprivileged_userfaultfd", "not for experiments"),
        ("net.ipv4.ip_forward", "not for experiments"),
        ("net.ipv4.conf.all.forwarding", "not for experiments"),
        ("net.ipv4.route.flush", "not for experiments"),
        ("net.ipv4.tcp_fastopen_key", "not for experiments"),
        ("net.core.bpf_jit_harden", "not for experiments"),
        ("kernel.shm_rmid_forced", "not for experiments"),
        ("swappiness", "no name of a kernel setting"),
        ("vm/swappiness", "no name of a kernel setting"),
        ("vm.../etc/passwd", "no name of a kernel setting"),
    ],
)
def test_what_could_take_over_the_machine_is_refused(name: str, said: str) -> None:
    """A record may come from somebody else, and `clean` as root turns back what it names."""
    with pytest.raises(InputError, match=said) as refused:
        host_settings.check_name(name)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("vm.nr_hugepages", ("auto", "0", "3200"), ("many", "-1", "1.5", "999999999999")),
        ("transparent_huge_pages", ("always", "madvise", "never"), ("on", "")),
        ("transparent_huge_pages_defrag", ("defer+madvise",), ("sometimes",)),
        ("read_ahead", ("128kB", "4MB", "0"), ("1000", "lots")),
        ("dma_latency", ("0", "20"), ("-1", "2000000000", "1.5")),
        ("net.ipv4.tcp_rmem", ("4096 131072 6291456",), ("1;reboot", "", "a\nb")),
        ("vm.swappiness", ("10", "0", "200"), ("`id`", "201", "-1", "0x10", "010", "10%", "1 201")),
        ("vm.dirty_bytes", ("536870912", "8192"), ("512MB", "0", "4096")),
        ("vm.dirty_background_bytes", ("1",), ("0", "64kB")),
        ("vm.dirty_ratio", ("0", "100"), ("101", "half")),
        ("vm.zone_reclaim_mode", ("0", "7"), ("off", "-1")),
        ("vm.overcommit_memory", ("2",), ("3", "never")),
        ("vm.lowmem_reserve_ratio", ("256 256 32 0 0",), ("256 off",)),
        ("vm.dirty_expire_centisecs", ("3000",), ("30s", "-1")),
        ("kernel.sched_rt_runtime_us", ("-1", "950000"), ("unlimited",)),
        ("kernel.timer_migration", ("1",), ("2", "on")),
        ("kernel.sem", ("250 32000 32 128",), ("250, 32000",)),
        ("net.ipv4.tcp_congestion_control", ("bbr",), ("b;r",)),
        ("net.core.default_qdisc", ("fq_codel",), ("",)),
        ("net.ipv4.ip_local_port_range", ("1024 65000",), ("1024-65000",)),
    ],
)
def test_values_are_judged_by_name(
    name: str, right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    """What a knob cannot have is told before anything is written into the kernel."""
    for text in right:
        host_settings.check_value(name, text)
    for text in wrong:
        with pytest.raises(InputError) as refused:
            host_settings.check_value(name, text)
        assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("vm.swappiness", SwitchCost.SESSION),
        ("read_ahead", SwitchCost.SESSION),
        ("dma_latency", SwitchCost.SESSION),
        ("vm.nr_hugepages", SwitchCost.RESTART),
        ("transparent_huge_pages", SwitchCost.RESTART),
        ("kernel.sched_autogroup_enabled", SwitchCost.RESTART),
    ],
)
def test_what_a_running_server_does_not_surely_feel_costs_a_restart(
    name: str, cost: SwitchCost
) -> None:
    """Live are only knobs that are known to be; the memory of a server is mapped at its start."""
    assert host_settings.switch_cost_of(name) is cost


NAMES = ("idle driver", "idle states", "guest halt polling", "wake-up limit")
C1 = linux.IdleState(name="C1", exit_latency_s=2e-6)
C6 = linux.IdleState(name="C6", exit_latency_s=133e-6)
METAL = linux.LinuxFacts(virtualization="none", idle_driver="intel_idle", idle_states=(C1, C6))
GUEST = linux.LinuxFacts(virtualization="kvm", idle_driver="haltpoll", guest_halt_poll_s=0.0)


def rows(machine: linux.LinuxFacts, *, limit_seen: bool = True) -> tuple[Fact, ...]:
    """Return a record's rows, with that of the kind of machine which every record has."""
    virtual = "none seen" if machine.virtualization == "none" else "virtual machine (KVM)"
    kind = Fact(name="virtualisation", value=virtual, subject="machine")
    return (kind, *linux.wake_up_facts(machine, limit_seen=limit_seen))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (METAL, ("enter C6, which takes 0.13 ms",)),
        (replace(METAL, idle_states=(C1, replace(C6, disabled=True))), ()),
        (replace(METAL, dma_latency_s=20e-6), ()),
        (replace(METAL, dma_latency_s=200e-6), ("enter C6",)),
        (replace(METAL, idle_driver="none", idle_states=None), ()),  # no virtual machine
        (GUEST, ("guest_halt_poll_ns = 0",)),
        (replace(GUEST, guest_halt_poll_s=200e-6), ()),
        (replace(GUEST, dma_latency_s=0.0), ()),  # it polls
        (replace(GUEST, idle_driver="none", guest_halt_poll_s=None), ("no idle driver",)),
        (linux.LinuxFacts(virtualization="kvm"), ()),  # nothing was visible
    ],
)
def test_what_is_written_is_read_back(machine: linux.LinuxFacts, words: tuple[str, ...]) -> None:
    """The suspects of the rows are those of the facts that they were made of."""
    found = linux.recorded_suspects(rows(machine))
    assert len(found) == len(words)
    assert all(word in clause for word, clause in zip(words, found, strict=True))


def test_rows_say_what_was_not_visible() -> None:
    """A limit that nobody could look for is not the same as none."""
    blind = {fact.name: fact.value for fact in rows(linux.LinuxFacts(), limit_seen=False)}
    assert [blind[name] for name in NAMES] == ["not visible"] * 4
    told = {fact.name: fact.value for fact in rows(replace(METAL, guest_halt_poll_s=2e-4))}
    assert [told[name] for name in NAMES] == ["intel_idle", "C1 2 µs, C6 133 µs", "200 µs", "none"]


@given(st.lists(st.sampled_from([*NAMES, "virtualisation"])), st.text(max_size=60))
def test_no_row_breaks_the_reader(names: list[str], text: str) -> None:
    """A record may come from anywhere: whatever its rows say, clauses come of it or none."""
    facts = [Fact(name=name, value=text, subject="machine") for name in names]
    assert all(isinstance(clause, str) for clause in linux.recorded_suspects(facts))


@given(st.from_regex(r"(C[0-9]{1,3} [0-9.e+]{1,12} µs( \(off\))?(, )?){1,4}", fullmatch=True))
def test_no_number_breaks_the_reader(text: str) -> None:
    """Neither two points nor an infinite power of ten."""
    facts = [Fact(name="idle states", value=text, subject="machine")]
    assert all(isinstance(clause, str) for clause in linux.recorded_suspects(facts))


def test_every_key_is_read_in_its_own_way() -> None:
    """A quota is a number, CPUs are a list, throttles are whole numbers, bytes are sizes."""
    asked = {
        "cpus": "0.6",
        "cpuset": "0,2-3",
        "generator_cpuset": "1",
        "memory": "600MB",
        "read_iops": "200",
        "write_iops": "100",
        "read_bytes_per_s": "20MB",
        "write_bytes_per_s": "4096",
    }
    assert set(asked) == set(linux.KEYS)
    assert linux.limits_of(asked) == linux.Limits(
        cpus=0.6,
        cpuset=(0, 2, 3),
        generator_cpuset=(1,),
        memory=600 * MIB,
        read_iops=200,
        write_iops=100,
        read_bytes_per_s=20 * MIB,
        write_bytes_per_s=4096,
    )


def test_nothing_asked_for_is_no_limit() -> None:
    """A configuration without the layer limits nothing."""
    assert linux.limits_of({}) == linux.Limits()
    assert [linux.shown_limit(key, linux.Limits()) for key in linux.KEYS] == [
        ("unlimited", None)
    ] * len(linux.KEYS)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cpus", "0"),
        ("cpus", "-1"),
        ("cpus", "0.009"),
        ("cpus", "10001"),
        ("cpus", "half"),
        ("cpus", "inf"),
        ("cpuset", ""),
        ("cpuset", "1-0"),
        ("cpuset", "0,"),
        ("cpuset", "a"),
        ("cpuset", "99999"),
        ("generator_cpuset", "-1"),
        ("memory", "63MB"),
        ("memory", "much"),
        ("read_iops", "0"),
        ("read_iops", "1.5"),
        ("write_iops", "10000000000"),
        ("read_bytes_per_s", "0"),
        ("write_bytes_per_s", "20MB/s"),
    ],
)
def test_what_is_no_limit_is_refused(key: str, text: str) -> None:
    """With the text in the message, and the way out."""
    with pytest.raises(InputError) as caught:
        linux.limits_of({key: text})
    assert text in caught.value.message
    assert caught.value.hint


def test_the_least_quota_is_the_kernels() -> None:
    """1 ms in a period of 100 ms is taken, and less is not."""
    assert linux.limits_of({"cpus": "0.01"}).cpus == 0.01


@given(st.sets(st.integers(min_value=0, max_value=9999), min_size=1))
def test_lists_of_cpus_come_back(cpus: set[int]) -> None:
    """What is written from a set of CPUs is read as the same set, in order."""
    assert linux.parse_cpu_list(linux.cpu_list(cpus)) == tuple(sorted(cpus))


@given(st.text(max_size=20))
def test_any_text_is_a_list_or_refused(text: str) -> None:
    """No text does anything else than being read or refused."""
    try:
        found = linux.parse_cpu_list(text)
    except InputError:
        return
    assert found == tuple(sorted(set(found)))


@pytest.mark.parametrize(
    ("limits", "key", "shown"),
    [
        (linux.Limits(cpus=0.6), "cpus", ("0.6", None)),
        (linux.Limits(cpuset=(0, 1, 3)), "cpuset", ("0-1,3", None)),
        (linux.Limits(read_iops=200), "read_iops", ("200", None)),
        (linux.Limits(read_bytes_per_s=20 * MIB), "read_bytes_per_s", ("20480", "kB")),
        (linux.Limits(read_bytes_per_s=1000), "read_bytes_per_s", ("1000", "B")),
    ],
)
def test_limits_are_shown_with_their_unit(
    limits: linux.Limits, key: str, shown: tuple[str, str | None]
) -> None:
    """As the table of settings takes them: bytes in kB where they are whole kB."""
    assert linux.shown_limit(key, limits) == shown


def test_only_what_is_asked_for_needs_a_controller() -> None:
    """The generator's CPUs are no matter of the server's group; the freezer limits nothing."""
    assert linux.controllers_of({"cpus"}) == {linux.Controller.CPU}
    assert linux.controllers_of({"generator_cpuset"}) == set()
    assert linux.controllers_of(linux.KEYS) == set(linux.Controller) - {linux.Controller.FREEZER}
