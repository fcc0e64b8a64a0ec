"""A standstill: everything in time or nothing, in order, and whatever stood still goes on."""

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.cgroups import FakeCgroups
from fakes.clock import FakeClock
from fakes.processes import FakeProcesses
from steelyard.core.linux import Controller
from steelyard.core.schedule import Pausing
from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.gateways.cgroups import SystemCgroups
from steelyard.places.local.groups import (
    PATIENCE_S,
    FrozenGroups,
    StoppedProcesses,
    is_frozen,
    pausing_of,
    start_guard,
    thaw,
)
from steelyard.places.protocol import Guarded

_GENERATOR, _SERVER, _SESSION, _WRITER, _LATE = 5, 10, 11, 12, 13


class _Groups:
    """Two groups on a fake machine, and their standstill."""

    def __init__(self, version: int) -> None:
        self.cgroups, self.clock = FakeCgroups(version=version), FakeClock()
        root = self.cgroups.hierarchy(Controller.FREEZER).root
        self.generator, self.server = root / "c-generator", root / "c-server"
        for group in (self.generator, self.server):
            self.cgroups.make(group)
        self.standstill = FrozenGroups(
            generator=self.cgroups.freezer(self.generator),
            server=self.cgroups.freezer(self.server),
            clock=self.clock,
        )

    @property
    def order(self) -> list[str]:
        """Return which groups were written, in order."""
        return [path.parent.name for path, _ in self.cgroups.written]


@pytest.fixture(params=[1, 2])
def groups(request: pytest.FixtureRequest) -> _Groups:
    """Return groups of each version in turn."""
    return _Groups(request.param)


def test_the_generator_is_frozen_first_and_thawed_last(groups: _Groups) -> None:
    """So no load reaches a server that is on its way."""
    assert groups.standstill.kind is Pausing.FREEZER
    assert groups.standstill.pause()
    assert groups.cgroups.frozen() == {groups.generator, groups.server}
    groups.standstill.proceed()
    assert groups.cgroups.frozen() == set()
    assert groups.order == ["c-generator", "c-server", "c-server", "c-generator"]


def test_a_freezer_that_takes_a_while_is_looked_at_again(groups: _Groups) -> None:
    """Without burning the CPU that it needs."""
    groups.cgroups.restless = 20
    assert groups.standstill.pause()
    assert len(groups.clock.slept) >= 20


def test_what_does_not_freeze_in_time_goes_on(groups: _Groups) -> None:
    """A process may wait for its disk: the pause counts as lost, and nothing is half frozen."""
    groups.cgroups.restless = 10**6
    begun = groups.clock.monotonic()
    assert not groups.standstill.pause()
    assert PATIENCE_S <= groups.clock.monotonic() - begun < 2 * PATIENCE_S
    assert groups.cgroups.frozen() == set()


def test_an_error_in_a_pause_leaves_nothing_frozen(groups: _Groups) -> None:
    """The group of the server is gone, say."""
    groups.cgroups.groups.remove(groups.server)
    with pytest.raises(AssertionError):
        groups.standstill.pause()
    assert groups.cgroups.frozen() == set()


def test_closing_thaws(groups: _Groups) -> None:
    """Whatever the groups are closed for."""
    groups.standstill.pause()
    groups.standstill.close()
    assert groups.cgroups.frozen() == set()


@dataclass
class _Tree:
    """Processes that stop when they are told to, and start others when a test wants them to.

    Attributes:
        stubborn: Those that no signal stops.
        closed: Those that may not be signalled.
        born: By the number of the look after which they are there: a child of the first session.
    """

    parents: dict[int, int] = field(
        default_factory=lambda: {_GENERATOR: 1, _SERVER: 1, _SESSION: _SERVER, _WRITER: _SERVER}
    )
    asleep: set[int] = field(default_factory=set)
    stubborn: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)
    born: dict[int, int] = field(default_factory=dict)
    sent: list[tuple[int, int]] = field(default_factory=list)
    looks: int = 0

    def of(self, first: Iterable[int]) -> Mapping[int, bool]:
        """Return who is there now; who is born afterwards comes too late for this look."""
        wanted = set(first)
        found = {
            pid: pid not in self.asleep
            for pid, parent in self.parents.items()
            if pid in wanted or parent in wanted or self.parents.get(parent) in wanted
        }
        self.looks += 1
        if self.looks in self.born:
            self.parents[self.born[self.looks]] = _SESSION
        return found

    def stopped(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return those that are stopped."""
        return tuple(pid for pid in pids if pid in self.asleep)

    def signal(self, pid: int, number: int) -> None:
        """Stop or continue one."""
        self.sent.append((pid, number))
        if pid in self.closed:
            raise PrivilegeError(f"process {pid} belongs to another account")
        if number == signal.SIGCONT:
            self.asleep.discard(pid)
        elif pid not in self.stubborn:
            self.asleep.add(pid)

    def to(self, number: int) -> list[int]:
        """Return whom a signal was sent to, in order."""
        return [pid for pid, sent in self.sent if sent == number]


class _Signals(FakeProcesses):
    """Processes of a tree."""

    def __init__(self, tree: _Tree, clock: FakeClock) -> None:
        super().__init__(clock)
        self.signal = tree.signal  # type: ignore[method-assign]


def _stopping(tree: _Tree, clock: FakeClock | None = None) -> StoppedProcesses:
    clock = clock or FakeClock()
    return StoppedProcesses(
        server=_SERVER,
        generators=lambda: (_GENERATOR,),
        processes=_Signals(tree, clock),
        families=tree,
        clock=clock,
    )


def test_who_may_start_others_is_stopped_before_them() -> None:
    """The generators, the first process of the server, the rest; continued the other way round."""
    tree = _Tree()
    standstill = _stopping(tree)
    assert standstill.kind is Pausing.SIGNALS
    assert standstill.pause()
    everybody = [_GENERATOR, _SERVER, _SESSION, _WRITER]
    assert tree.to(signal.SIGSTOP) == everybody
    assert tree.asleep == set(everybody)
    standstill.proceed()
    assert tree.to(signal.SIGCONT) == everybody[::-1]
    assert tree.asleep == set()
    standstill.proceed()
    assert len(tree.sent) == 2 * len(everybody)


def test_where_the_server_goes_on_the_generators_alone_are_stopped() -> None:
    """With whatever they have started; nobody of the server hears of it."""
    tree, clock = _Tree(), FakeClock()
    tree.parents[_LATE] = _GENERATOR  # a shell with the generator below it
    standstill = StoppedProcesses(
        server=None,
        generators=lambda: (_GENERATOR,),
        processes=_Signals(tree, clock),
        families=tree,
        clock=clock,
    )
    assert standstill.kind is Pausing.GENERATOR
    assert standstill.pause()
    assert tree.asleep == {_GENERATOR, _LATE}
    standstill.proceed()
    assert tree.asleep == set()
    assert {pid for pid, _ in tree.sent} == {_GENERATOR, _LATE}


@pytest.mark.parametrize("look", [1, 2])
def test_a_process_that_is_started_meanwhile_is_stopped_too(look: int) -> None:
    """Also one that comes after the first look that found everything still."""
    tree = _Tree(born={look: _LATE})
    assert _stopping(tree).pause()
    assert _LATE in tree.asleep


def test_what_does_not_stop_in_time_goes_on() -> None:
    """Those that had stopped are continued."""
    tree, clock = _Tree(stubborn={_WRITER}), FakeClock()
    begun = clock.monotonic()
    assert not _stopping(tree, clock).pause()
    assert PATIENCE_S <= clock.monotonic() - begun < 2 * PATIENCE_S
    assert tree.asleep == set()
    assert tree.to(signal.SIGSTOP).count(_WRITER) == 1


def test_one_that_may_not_be_stopped_is_told_and_the_others_go_on() -> None:
    """It belongs to another account."""
    tree = _Tree(closed={_WRITER})
    with pytest.raises(PrivilegeError, match="another account"):
        _stopping(tree).pause()
    assert tree.asleep == set()


def test_each_pause_asks_anew_who_there_is() -> None:
    """Generators are started anew, and sessions with them; those of before are left alone."""
    tree = _Tree()
    standstill = _stopping(tree)
    assert standstill.pause()
    standstill.proceed()
    del tree.parents[_SESSION]
    tree.parents[_LATE] = _SERVER
    tree.sent.clear()
    assert standstill.pause()
    standstill.proceed()
    assert _SESSION not in {pid for pid, _ in tree.sent}
    assert _LATE in tree.to(signal.SIGSTOP)


def test_root_has_the_freezer() -> None:
    """Who can make groups that freeze uses them."""
    assert pausing_of(FakeCgroups()) is Pausing.FREEZER


@pytest.mark.parametrize(
    "cgroups",
    [FakeCgroups(privileged=False), FakeCgroups(lacks=frozenset({Controller.FREEZER}))],
)
def test_who_cannot_freeze_stops_by_signals(cgroups: FakeCgroups) -> None:
    """Another account than root, and root where no hierarchy has the freezer."""
    assert pausing_of(cgroups) is Pausing.SIGNALS


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_is_thawed_by_whoever_finds_it(version: int) -> None:
    """After a death nobody holds its files open; one that is not frozen is not written."""
    made = _Groups(version)
    assert not is_frozen(made.server, made.cgroups)
    thaw(made.server, made.cgroups)
    assert made.cgroups.written == []
    made.standstill.pause()
    assert is_frozen(made.server, made.cgroups)
    thaw(made.server, made.cgroups)
    assert not is_frozen(made.server, made.cgroups)


@pytest.mark.parametrize("state", ["FREEZING", "FROZEN"])
def test_a_group_on_its_way_counts_as_frozen(tmp_path: Path, state: str) -> None:
    """It would be frozen a moment later, when nobody looks any more."""
    (tmp_path / "freezer.state").write_text(f"{state}\n")
    assert is_frozen(tmp_path, SystemCgroups())
    thaw(tmp_path, SystemCgroups())
    assert (tmp_path / "freezer.state").read_text() == "THAWED\n"


def test_a_group_that_does_not_thaw_is_told() -> None:
    """With the kernel's word."""
    made = _Groups(1)
    made.standstill.pause()
    made.cgroups.refuses = {"freezer.state"}
    with pytest.raises(TargetError, match="kernel refuses `THAWED`"):
        thaw(made.server, made.cgroups)


class _Guards:
    """Guards that remember what for."""

    def __init__(self) -> None:
        self.started: list[tuple[list[Path], list[Path]]] = []

    def start(self, groups: Iterable[Path], directories: Iterable[Path]) -> "_Guards":
        """Note it."""
        self.started.append((list(groups), list(directories)))
        return self

    def stands(self) -> bool:
        """Return that it does."""
        return True

    def close(self) -> None:
        """Do nothing."""


def test_one_guard_is_for_all_places() -> None:
    """With every group and every directory."""
    guards = _Guards()
    places = [
        Guarded(groups=(Path("/g/1"), Path("/g/2")), directory=Path("/live/1")),
        Guarded(groups=(), directory=Path("/live/2")),
    ]
    assert start_guard(iter(places), guards) is guards
    assert guards.started == [
        ([Path("/g/1"), Path("/g/2")], [Path("/live/1"), Path("/live/2")]),
    ]
