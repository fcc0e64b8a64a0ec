"""The doors to sysctl, /sys and huge pages, on a kernel of text."""

import pytest

from fakes.kernel import PAGE_BYTES, FakeKernel
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.wording import (
    PreflightError,
    PrivilegeError,
    RecordError,
    SteelyardError,
    TargetError,
)
from steelyard.tuning.apply.applier import put_back
from steelyard.tuning.apply.kernel import kernel_doors
from support.stack import MemoryLedger, knob, turn

_SWAPPINESS = knob(KnobKind.SYSCTL, "vm.swappiness", "1")
_THP_FILE = "/sys/kernel/mm/transparent_hugepage/enabled"
_THP = knob(KnobKind.SYSFS, _THP_FILE, "never")
_GOVERNOR = knob(
    KnobKind.SYSFS, "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", "performance"
)


def _kernel() -> FakeKernel:
    return FakeKernel(
        files={
            "/proc/sys/vm/swappiness": "60\n",
            "/proc/sys/vm/dirty_bytes": "0\n",
            "/proc/sys/vm/dirty_ratio": "20\n",
            "/proc/sys/vm/drop_caches": "0\n",
            "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
            "/proc/sys/net/ipv4/conf/eth0.1/rp_filter": "0\n",
            _THP_FILE: "always [madvise] never\n",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "ondemand\n",
            "/sys/module/kvm/parameters/halt_poll": "Y\n",
        }
    ).with_pools({0: 10, 1: 3}, fits=100)


@pytest.mark.parametrize(
    "asked",
    [
        _SWAPPINESS,
        knob(KnobKind.SYSCTL, "vm.dirty_bytes", "536870912"),
        knob(KnobKind.SYSCTL, "vm.dirty_ratio", "5"),
        knob(KnobKind.SYSCTL, "net.ipv4.tcp_rmem", "4096 87380 16777216"),
        knob(KnobKind.SYSCTL, "net.ipv4.conf.eth0/1.rp_filter", "2"),
        knob(KnobKind.SYSCTL, "vm.nr_hugepages", "40"),
        _THP,
        _GOVERNOR,
        knob(KnobKind.SYSFS, "/sys/module/kvm/parameters/halt_poll", "0"),
        knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "40"),
        knob(KnobKind.HUGE_PAGES, f"all/{PAGE_BYTES}", "40"),
        knob(KnobKind.HUGE_PAGES, f"1/{PAGE_BYTES}", "0"),
    ],
    ids=lambda asked: asked.place,
)
def test_a_knob_is_turned_and_put_back_exactly(asked: Knob) -> None:
    """Proves that every file of the kernel is as it was, also those a write changes besides."""
    kernel = _kernel()
    before = dict(kernel.files)
    door, ledger = kernel_doors(kernel, kernel)[asked.kind], MemoryLedger()
    door.require(asked)
    assert turn(asked, door, ledger).holds
    assert kernel.files != before
    assert put_back(asked, door, ledger)
    assert kernel.files == before
    assert not put_back(asked, door, ledger)


def test_what_is_in_effect_already_is_left_alone() -> None:
    """Proves that nothing is written, and nothing kept, for a knob that holds before."""
    kernel, ledger = _kernel(), MemoryLedger()
    asked = knob(KnobKind.SYSCTL, "vm.swappiness", "60")
    assert turn(asked, kernel_doors(kernel, kernel)[asked.kind], ledger).holds
    assert kernel.written == []
    assert ledger.snapshots == {}


def test_a_repeated_turn_keeps_the_first_snapshot() -> None:
    """Proves that a second configuration's value does not become what was there before."""
    kernel, ledger = _kernel(), MemoryLedger()
    door = kernel_doors(kernel, kernel)[KnobKind.SYSCTL]
    turn(_SWAPPINESS, door, ledger)
    turn(knob(KnobKind.SYSCTL, "vm.swappiness", "10"), door, ledger)
    put_back(_SWAPPINESS, door, ledger)
    assert kernel.files["/proc/sys/vm/swappiness"] == "60\n"


def test_without_a_stored_snapshot_nothing_is_turned() -> None:
    """Proves that a full disk stops a turn before it changes anything."""
    kernel = _kernel()
    ledger = MemoryLedger(full=True)
    with pytest.raises(RecordError):
        turn(_SWAPPINESS, kernel_doors(kernel, kernel)[KnobKind.SYSCTL], ledger)
    assert kernel.written == []


def test_fewer_pages_than_asked_are_a_failure_that_is_put_back() -> None:
    """Proves that 40 of 200 pages are an error with a remedy, and that the pools go back."""
    kernel, ledger = _kernel(), MemoryLedger()
    kernel.fits = {0: 30, 1: 10}
    door = kernel_doors(kernel, kernel)[KnobKind.HUGE_PAGES]
    asked = knob(KnobKind.HUGE_PAGES, f"all/{PAGE_BYTES}", "200")
    with pytest.raises(
        TargetError, match=r"200 huge pages .*30 at .*node0.* 10 at .*node1"
    ) as error:
        turn(asked, door, ledger)
    assert "compact_memory" in error.value.hint
    put_back(asked, door, ledger)
    assert kernel.pools() == {0: 10, 1: 3}


def test_more_pages_than_memory_are_refused_with_what_would_fit() -> None:
    """Proves that the refusal comes before anything is touched and names a number that fits."""
    kernel = _kernel()
    door = kernel_doors(kernel, kernel)[KnobKind.HUGE_PAGES]
    with pytest.raises(PreflightError, match="103 would"):
        door.require(knob(KnobKind.HUGE_PAGES, f"1/{PAGE_BYTES}", "104"))
    door.require(knob(KnobKind.HUGE_PAGES, f"1/{PAGE_BYTES}", "103"))


def test_a_pool_is_told_by_its_node() -> None:
    """Proves that facts and refusals name the node in words, not the place of the plan."""
    kernel = _kernel()
    door = kernel_doors(kernel, kernel)[KnobKind.HUGE_PAGES]
    of_node = knob(KnobKind.HUGE_PAGES, f"1/{PAGE_BYTES}", "104")
    of_all = knob(KnobKind.HUGE_PAGES, f"all/{PAGE_BYTES}", "104")
    (fact,) = door.verify(of_node).facts
    assert fact.startswith("104 huge pages of 2.0 MiB were asked for on node 1; the kernel has 3")
    assert "on all nodes; the kernel has" in door.verify(of_all).facts[0]
    with pytest.raises(PreflightError, match="free on node 1: 103 would"):
        door.require(of_node)


def test_a_pool_is_not_made_smaller_than_what_is_in_use() -> None:
    """Proves that a plan does not take pages from a program that it does not know."""
    kernel = _kernel()
    kernel.hold(0, 8)
    door = kernel_doors(kernel, kernel)[KnobKind.HUGE_PAGES]
    with pytest.raises(PreflightError, match="8 are in use"):
        door.require(knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "7"))
    door.require(knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "8"))


def test_pages_in_use_at_the_end_are_told_and_the_snapshot_stays() -> None:
    """Proves that a pool in use is not called restored, and that a later revert finishes it."""
    kernel, ledger = _kernel(), MemoryLedger()
    kernel.files["/proc/77/status"] = "Name:\tpostgres\nHugetlbPages:\t61440 kB\n"
    door = kernel_doors(kernel, kernel)[KnobKind.HUGE_PAGES]
    asked = knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "40")
    turn(asked, door, ledger)
    kernel.hold(0, 30)
    with pytest.raises(TargetError, match=r"20 huge pages .*postgres \(process 77"):
        put_back(asked, door, ledger)
    kernel.hold(0, 0)
    assert put_back(asked, door, ledger)
    assert kernel.pools() == {0: 10, 1: 3}


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (knob(KnobKind.SYSCTL, "vm.nonsense", "1"), PreflightError, "not there"),
        (knob(KnobKind.SYSCTL, "vm.drop_caches", "3"), PreflightError, "take it back"),
        (knob(KnobKind.SYSCTL, "../etc/passwd", "1"), PreflightError, "no name"),
        (knob(KnobKind.SYSFS, "/etc/passwd", "1"), PreflightError, "no file of /sys"),
        (knob(KnobKind.SYSFS, "/sys/../etc/passwd", "1"), PreflightError, "no file of /sys"),
        (knob(KnobKind.SYSFS, "/sys/nothing/here*", "1"), PreflightError, "there is no"),
        (knob(KnobKind.HUGE_PAGES, "0/4096", "1"), PreflightError, "no huge pages of"),
        (knob(KnobKind.HUGE_PAGES, "7/2097152", "1"), PreflightError, "no huge pages of"),
        (knob(KnobKind.HUGE_PAGES, "0", "1"), PreflightError, "names no pool"),
        (knob(KnobKind.HUGE_PAGES, "0/2097152", "many"), PreflightError, "no number"),
    ],
    ids=lambda value: getattr(value, "place", None),
)
def test_what_cannot_be_turned_is_refused_before_anything_is_touched(
    asked: Knob, error: type[SteelyardError], words: str
) -> None:
    """Proves that a wrong place or value is an error of the check, not of the change."""
    kernel = _kernel()
    with pytest.raises(error, match=words):
        kernel_doors(kernel, kernel)[asked.kind].require(asked)
    assert kernel.written == []


@pytest.mark.parametrize(
    "asked", [_SWAPPINESS, _THP, knob(KnobKind.SYSCTL, "vm.nr_hugepages", "20")]
)
def test_read_only_files_are_a_lack_of_privilege(asked: Knob) -> None:
    """Proves that /proc/sys and /sys of a container are told as what they are."""
    kernel = _kernel()
    kernel.closed = {"/": "its file system is read-only here, as in a container"}
    with pytest.raises(PrivilegeError, match="read-only"):
        kernel_doors(kernel, kernel)[asked.kind].require(asked)


def test_commands_do_the_same_for_those_without_the_privilege() -> None:
    """Proves that the commands name every file and the value that the door would write."""
    kernel = _kernel()
    doors = kernel_doors(kernel, kernel)
    assert doors[KnobKind.SYSCTL].commands(_SWAPPINESS) == ("sysctl -w vm.swappiness=1",)
    assert doors[KnobKind.SYSFS].commands(_GOVERNOR) == (
        "echo performance > /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "echo performance > /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
    )
    pool = doors[KnobKind.HUGE_PAGES].commands(knob(KnobKind.HUGE_PAGES, f"1/{PAGE_BYTES}", "5"))
    assert pool[0].startswith("echo 5 > /sys/devices/system/node/node1/")
