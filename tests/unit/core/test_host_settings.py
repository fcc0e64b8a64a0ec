"""Which knobs of a machine a configuration may turn, to what, and what a change costs."""

import pytest

from steelyard.core import linux as host_settings
from steelyard.core.experiment import SwitchCost
from steelyard.core.wording import InputError


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
        ("vm.swappiness", ("10",), ("`id`",)),
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
