"""The door to PostgreSQL's settings: huge pages refused with the number that would do, SIGBUS."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from fakes.kernel import PAGE_BYTES, FakeKernel
from fakes.settings import FakeSettings
from steelyard.core.outside import ServerAddress
from steelyard.core.stack import KnobKind
from steelyard.core.wording import MIB, PreflightError, PrivilegeError
from steelyard.gateways.sql import Row
from steelyard.tuning.apply.applier import put_back
from steelyard.tuning.apply.huge_pages import (
    HugePageNeed,
    MemoryMapping,
    find_process,
    huge_page_mapping,
)
from steelyard.tuning.apply.servers import PostgresDoor
from support.stack import MemoryLedger, knob, turn

_ON = knob(KnobKind.POSTGRES, "huge_pages", "on")
_NEED = HugePageNeed(pages=80, page_bytes=PAGE_BYTES, counted_by="counted by the test")
_SMAPS = """\
7f0000000000-7f0001000000 rw-s 00000000 00:01 1024 /dev/zero (deleted)
Size:              16384 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
7f1000000000-7f100aa00000 rw-s 00000000 00:10 34 /anon_hugepage (deleted)
Size:             174080 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
Rss:                   0 kB
VmFlags: rd wr sh mr mw me ms de ht sd
"""


def _kernel(pages: int = 100, *, smaps: str = "", version: int = 1) -> FakeKernel:
    kernel = FakeKernel().with_pools({0: pages}, fits=1000)
    kernel.files |= {
        "/data/postmaster.pid": "42\n/data\n1700000000\n5432\n",
        "/proc/42/comm": "postgres\n",
        "/proc/42/smaps": smaps,
        "/proc/42/cgroup": "5:hugetlb:/pod/c1\n" * (version == 1) + "0::/pod/c1\n",
        "/proc/self/mountinfo": (
            "31 24 0:27 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n"
            "32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        ),
    }
    return kernel


def _door(kernel: FakeKernel, need: HugePageNeed = _NEED) -> PostgresDoor:
    server = FakeSettings(process=("/data", 1700000000.7))
    return PostgresDoor(
        sql=server, clock=FakeClock(), address=server.reach({}), host=kernel, need=need
    )


def _server(door: PostgresDoor) -> FakeSettings:
    assert isinstance(door.sql, FakeSettings)
    return door.sql


def test_a_pool_too_small_is_refused_with_the_number_that_would_do() -> None:
    """Proves the refusal just below the need, and none at it."""
    _door(_kernel(80)).require(_ON)
    with pytest.raises(PreflightError, match=r"80 huge pages .* 79 are there") as error:
        _door(_kernel(79)).require(_ON)
    assert "larger by 1 pages, so that 80" in error.value.hint


def test_pages_that_the_plan_makes_count_before_and_not_after() -> None:
    """Proves that a plan may make its pool first, and is refused when the pool did not come."""
    kernel = _kernel(0)
    pool = knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "80")
    door = _door(kernel, replace(_NEED, pools=(pool,)))
    door.require(_ON)
    with pytest.raises(PreflightError, match="0 are there"):
        door.apply(_ON)
    assert _server(door).file == {}


def test_pages_that_the_server_holds_are_its_own() -> None:
    """Proves that a server on huge pages is not refused because it uses them."""
    kernel = _kernel(85, smaps=_SMAPS)  # a mapping of 85 pages
    kernel.hold(0, 85)
    _door(kernel).require(_ON)
    kernel.files["/proc/42/smaps"] = ""
    with pytest.raises(PreflightError, match="0 are there"):
        _door(kernel).require(_ON)


@pytest.mark.parametrize(
    "prefix", ["/sys/fs/cgroup/hugetlb", "/sys/fs/cgroup/unified"], ids=["v1", "v2"]
)
@pytest.mark.parametrize("value", ["on", "try"])
def test_a_limit_on_touched_pages_alone_is_refused_as_sigbus(prefix: str, value: str) -> None:
    """Proves that the killing limit is told from one on reservations, in both versions."""
    names = (
        ("max", "rsvd.max") if "unified" in prefix else ("limit_in_bytes", "rsvd.limit_in_bytes")
    )
    faults, reserved = (f"{prefix}/pod/hugetlb.2MB.{name}" for name in names)
    asked = replace(_ON, value=value)
    kernel = _kernel(version=2 if "unified" in prefix else 1)
    kernel.files[faults] = f"{80 * 2 * MIB}\n"
    kernel.files[reserved] = "max\n" if "unified" in prefix else "9223372036852678656\n"
    _door(kernel).require(asked)
    kernel.files[faults] = f"{79 * 2 * MIB}\n"
    with pytest.raises(PreflightError, match="SIGBUS") as error:
        _door(kernel).require(asked)
    assert str(80 * 2 * MIB) in error.value.hint
    kernel.files[reserved] = f"{79 * 2 * MIB}\n"
    with pytest.raises(PreflightError, match="would not start on them"):
        _door(kernel).require(asked)


def test_a_server_elsewhere_is_not_judged_by_this_machine() -> None:
    """Proves that another process of that number, or a later start, is no local server."""
    kernel = _kernel(0)
    door = _door(kernel, replace(_NEED, elsewhere=True))
    _server(door).process = ("/data", 1700000100.0)
    door.require(_ON)
    assert find_process(door.address, door.sql, kernel) is None
    _server(door).process = ("/data", 1700000001.0)
    assert find_process(door.address, door.sql, kernel) == 42


def test_the_mapping_is_told_by_its_page_size() -> None:
    """Proves that the large mapping on huge pages is found, and no other one."""
    kernel = _kernel(smaps=_SMAPS)
    expected = MemoryMapping(size_bytes=170 * MIB, page_bytes=PAGE_BYTES)
    assert huge_page_mapping(42, kernel) == expected
    kernel.files["/proc/42/smaps"] = _SMAPS.replace("/anon_hugepage", "/SYSV00000000")
    assert huge_page_mapping(42, kernel) is None


@pytest.mark.parametrize(
    ("status", "smaps", "holds"),
    [("on", "", True), ("off", _SMAPS, False), (None, _SMAPS, True), (None, "", False)],
)
def test_huge_pages_are_verified_by_their_use(
    status: str | None, smaps: str, *, holds: bool
) -> None:
    """Proves that the setting alone is not enough: the status decides, before 17 the memory map."""
    door = _door(_kernel(smaps=smaps))
    turn(_ON, door, MemoryLedger())
    _server(door).restart()
    _server(door).status = status
    assert door.verify(_ON).holds is holds


def test_a_setting_goes_back_to_what_stood_in_the_file() -> None:
    """Proves that both a former line and its absence come back, and a restart is pending."""
    for file in ({}, {"shared_buffers": "64MB"}):
        door, ledger = _door(_kernel()), MemoryLedger()
        _server(door).file = dict(file)
        _server(door).restart()
        asked = knob(KnobKind.POSTGRES, "shared_buffers", "2GB")
        assert turn(asked, door, ledger).pending
        _server(door).restart()
        assert door.verify(asked).holds
        put_back(asked, door, ledger)
        assert _server(door).file == file
        assert door.seen(asked).pending


class _InPages(FakeSettings):
    """A server that counts shared_buffers in pages of 8 kB and shows them as a size."""

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Answer as pg_settings and SHOW do."""
        if "FROM pg_settings" in statement:
            found = ("16384", "8kB", "configuration file", "postmaster", False)
            return [("shared_buffers", *found)]
        if "current_setting" in statement:
            return [("128MB",)]
        return super().rows(address, statement, parameters)


def test_values_are_told_as_the_server_shows_them() -> None:
    """Proves that no count of pages stands where a size was asked for."""
    door = _door(_kernel())
    door = replace(door, sql=_InPages())
    asked = knob(KnobKind.POSTGRES, "shared_buffers", "256MB")
    fact = "shared_buffers is '128MB'; the plan sets '256MB'."
    assert door.verify(asked).facts == (fact,)
    assert door.verify(replace(asked, value="128MB")).facts == ("shared_buffers is '128MB'.",)
    assert door.seen(asked).value == "128MB"


def test_a_value_that_the_server_chooses_is_in_effect() -> None:
    """Proves that -1 is honoured by any value, once it is in the file, and by none before."""
    door, ledger = _door(_kernel()), MemoryLedger()
    _server(door).file = {"wal_buffers": "64"}
    _server(door).restart()
    asked = knob(KnobKind.POSTGRES, "wal_buffers", "-1")
    assert door.verify(asked).holds is False
    assert turn(asked, door, ledger).holds
    put_back(asked, door, ledger)
    assert door.verify(asked).holds is False


def test_who_may_not_change_settings_is_told_before() -> None:
    """Proves that an ordinary user and an unknown setting are refused by the check."""
    door = _door(_kernel())
    with pytest.raises(PreflightError, match="no setting nonsense"):
        door.require(knob(KnobKind.POSTGRES, "nonsense", "1"))
    _server(door).superuser = False
    with pytest.raises(PrivilegeError, match="no superuser"):
        door.require(knob(KnobKind.POSTGRES, "work_mem", "8MB"))


def test_the_group_that_limits_reservations_is_named() -> None:
    """Proves that a parent's limit on reservations is told with the parent's name."""
    kernel = _kernel(version=2)
    group = "/sys/fs/cgroup/unified/pod"
    kernel.files |= {
        f"{group}/c1/hugetlb.2MB.max": f"{90 * 2 * MIB}\n",
        f"{group}/hugetlb.2MB.max": "max\n",
    }
    kernel.files |= {
        f"{group}/c1/hugetlb.2MB.rsvd.max": "max\n",
        f"{group}/hugetlb.2MB.rsvd.max": f"{79 * 2 * MIB}\n",
    }
    with pytest.raises(PreflightError, match="would not start on them") as error:
        _door(kernel).require(_ON)
    assert f"the limits of {group} to" in error.value.hint


def test_an_unseen_server_gets_no_huge_pages_without_a_word() -> None:
    """Proves the refusal where no process is visible, the way out, and what is told then."""
    door = _door(_kernel(0))
    _server(door).process = None
    with pytest.raises(PreflightError, match="not visible from here") as error:
        door.require(_ON)
    assert "--remote" in error.value.hint
    with pytest.raises(PreflightError):
        door.apply(_ON)
    assert _server(door).file == {}
    for harmless in ("try", "off"):
        door.require(replace(_ON, value=harmless))
    told = replace(door, need=replace(_NEED, elsewhere=True))
    told.require(_ON)
    check = turn(_ON, told, MemoryLedger())
    assert check.pending
    assert "is not visible from here" in check.facts[-1]


def test_the_word_does_not_hide_a_server_that_is_seen_here() -> None:
    """Proves that --remote about a server of this machine does not pass too small a pool."""
    with pytest.raises(PreflightError, match="79 are there"):
        _door(_kernel(79), replace(_NEED, elsewhere=True)).require(_ON)


def test_a_value_that_the_next_restart_replaces_is_not_in_effect() -> None:
    """Proves that after a revert without a restart the plan is not said to be in effect."""
    door, ledger = _door(_kernel()), MemoryLedger()
    asked = knob(KnobKind.POSTGRES, "shared_buffers", "2GB")
    turn(asked, door, ledger)
    _server(door).restart()
    put_back(asked, door, ledger)
    check = door.verify(asked)
    assert (check.holds, check.pending) == (False, "")
    assert "another value waits" in check.facts[0]
    assert turn(asked, door, ledger).holds  # it is in the file again


def test_another_value_that_waits_is_not_called_ours() -> None:
    """Proves that pending means: the restart brings the value of the plan."""
    door = _door(_kernel())
    asked = knob(KnobKind.POSTGRES, "shared_buffers", "2GB")
    _server(door).file["shared_buffers"] = "1GB"
    check = door.verify(asked)
    assert (check.holds, check.pending) == (False, "")
    assert "not that of the plan" in check.facts[-1]
    _server(door).file["shared_buffers"] = "2GB"
    assert door.verify(asked).pending
