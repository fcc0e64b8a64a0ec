"""A local server with limits, and its standstill: what stood still goes on, limits are lifted."""

import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.cgroups import FakeCgroups
from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from fakes.programs import FakeLedger, FakeProgram
from fakes.standing import FakeGuards
from steelyard.core.linux import Controller
from steelyard.core.outside import Command
from steelyard.core.schedule import Pausing
from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.gateways.cgroups import Cgroups, Families
from steelyard.places.local.groups import (
    PATIENCE_S,
    FrozenGroups,
    GroupPlan,
    ServerGroups,
    StoppedProcesses,
    is_frozen,
    pausing_of,
    start_guard,
    thaw,
)
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.places.protocol import Guarded

_QUOTA = Path("/fake/cgroup/cpu/steelyard-c-1-server/cpu.cfs_quota_us")
_KEYS = frozenset({"cpus", "generator_cpuset"})


class _Bench:
    """A platform on fake groups, with a prepared state."""

    def __init__(self, root: Path, *, limited: bool = True, keys: frozenset[str] = _KEYS) -> None:
        self.processes = FakeProcesses(FakeClock())
        self.processes.on("fake-init", answer=Answer(does=lambda c: Path(c.argv[1]).mkdir()))
        self.processes.on("cp", answer=Answer(does=lambda c: Path(c.argv[-1]).mkdir()))
        self.processes.on("sync")
        self.processes.on("pgbench")
        self.processes.on_start("fake-server")
        self.cgroups, self.ledger = FakeCgroups(within=self._members), FakeLedger()
        options = LocalOptions(root=root, campaign_id="c-1", account=None, port=None)
        plan = GroupPlan(name="steelyard-c-1", keys=keys, place=root, pausing=not keys)
        clock = self.processes.clock
        groups = ServerGroups(plan, self.cgroups, self.ledger, clock) if limited else None
        self.platform = LocalPlatform(options, self.ledger, self.processes, clock, groups)

    def _members(self, group: Path) -> tuple[int, ...]:
        started = self.processes.started
        return tuple(process.pid for process in started if group in process.command.groups)

    def start(self) -> None:
        """Prepare a state and start a server on a copy of it."""
        program = FakeProgram()
        state = self.platform.prepare(program, ("content",), lambda _: None)
        self.platform.restore(state, "copy")
        self.platform.start(state, program, {})

    @property
    def limiting(self) -> tuple[Path, ...]:
        """Return the groups in which counters of throttling are looked for."""
        seen = self.platform.vantage()
        assert seen is not None
        return seen.groups


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[_Bench]:
    """Return a platform, and remove its socket directory afterwards."""
    made = _Bench(tmp_path / "cache")
    yield made
    made.platform.destroy()


def test_the_server_starts_in_its_group_without_limits(bench: _Bench) -> None:
    """Its children inherit the group; starting and recovery are no part of what is compared.

    The server that loads the data is in no group.
    """
    bench.start()
    assert [process.command.groups for process in bench.processes.started] == [
        (),
        (_QUOTA.parent,),
    ]
    assert bench.limiting == (_QUOTA.parent,)
    assert bench.cgroups.files[_QUOTA] == "-1"


def test_limits_are_put_on_the_running_server(bench: _Bench) -> None:
    """One configuration after the other, without a restart; what is not named is unlimited."""
    bench.start()
    found = bench.platform.limit({"cpus": "0.6"})
    assert bench.cgroups.files[_QUOTA] == "60000"
    assert [(each.name, each.value) for each in found.effective] == [
        ("cgroup: cpus", "0.6"),
        ("cgroup: generator_cpuset", "0-1"),
    ]
    assert found.deviations == ()
    assert bench.platform.limit({}).effective[0].value == "unlimited"
    assert bench.cgroups.files[_QUOTA] == "-1"
    assert len(bench.processes.started) == 2


def test_the_generator_joins_its_own_group(bench: _Bench) -> None:
    """Its CPUs are set apart from the server's."""
    bench.start()
    bench.platform.limit({"generator_cpuset": "1"})
    bench.platform.begin_together([Command(argv=("pgbench",))], timeout_s=5)
    (group,) = bench.processes.ran[-1].groups
    assert group.name == "steelyard-c-1-generator"
    assert bench.cgroups.files[group / "cpuset.cpus"] == "1"


def test_a_server_process_outside_the_group_is_a_deviation(bench: _Bench) -> None:
    """It would not be limited, and nobody would see it."""
    bench.start()
    bench.cgroups.within = lambda _: ()
    (sentence,) = bench.platform.limit({"cpus": "0.6"}).deviations
    pid = bench.processes.started[-1].pid
    assert sentence == f"server processes {pid} are outside their control group"


def test_limits_are_lifted_before_the_server_stops(bench: _Bench) -> None:
    """Writing the last checkpoint under a throttle would take for ever."""
    bench.start()
    bench.platform.limit({"cpus": "0.6"})
    quotas: list[str] = []
    bench.processes.started[-1].signals = _Heard(lambda: quotas.append(bench.cgroups.files[_QUOTA]))
    bench.platform.stop(keep_data=True)
    assert quotas[0] == "-1"


class _Heard(list[int]):
    """Signals that tell when they come."""

    def __init__(self, tell: "object") -> None:
        super().__init__()
        assert callable(tell)
        self._tell = tell

    def append(self, number: int) -> None:
        """Keep a signal and tell."""
        self._tell()
        super().append(number)


def test_limits_that_cannot_be_lifted_do_not_keep_the_server(bench: _Bench) -> None:
    """It stops all the same, only more slowly."""
    bench.start()
    bench.cgroups.refuses = {"cpu.cfs_quota_us"}
    bench.platform.stop(keep_data=True)
    assert not bench.platform.is_running
    bench.cgroups.refuses = set()


def test_without_a_server_there_is_nothing_to_limit(bench: _Bench) -> None:
    """A server that died meanwhile is told as that."""
    bench.start()
    bench.processes.started[-1].finish(1)
    with pytest.raises(TargetError, match="not running"):
        bench.platform.limit({"cpus": "0.6"})


def test_destroying_removes_the_groups(bench: _Bench) -> None:
    """After the processes, and noted at the very end."""
    bench.start()
    made = set(bench.cgroups.groups)
    assert len(made) == 2
    bench.platform.destroy()
    assert bench.cgroups.groups == set()
    assert {path for verb, path in bench.ledger.groups if verb == "removed"} == made
    assert bench.ledger.open == set()


def test_a_place_that_cannot_limit_is_not_ready(bench: _Bench) -> None:
    """Also when a campaign is resumed by another account."""
    bench.platform.require_ready()
    bench.cgroups.privileged = False
    with pytest.raises(PrivilegeError, match="only root"):
        bench.platform.require_ready()


def test_without_limits_nothing_is_made(tmp_path: Path) -> None:
    """An experiment without the layer needs no group, no root and no controller."""
    bench = _Bench(tmp_path / "cache", limited=False)
    try:
        bench.start()
        assert bench.platform.limit({}).effective == ()
        assert bench.platform.unfit({}) == bench.platform.findings() == ()
        assert bench.limiting == ()
        assert bench.processes.started[-1].command.groups == ()
        assert bench.cgroups.groups == set()
    finally:
        bench.platform.destroy()


@pytest.fixture
def pausing(tmp_path: Path) -> Iterator[_Bench]:
    """Return a platform that takes turns and limits nothing."""
    made = _Bench(tmp_path / "cache", keys=frozenset())
    yield made
    made.platform.destroy()


def test_a_server_that_takes_turns_starts_where_it_can_be_frozen(pausing: _Bench) -> None:
    """It is no group that limits, so no counter of throttling is looked for there."""
    pausing.start()
    (group,) = pausing.processes.started[-1].command.groups
    assert group == pausing.platform.guarded.groups[1]
    assert pausing.limiting == ()
    assert pausing.platform.limit({}).deviations == ()
    pausing.cgroups.within = lambda _: ()
    (sentence,) = pausing.platform.limit({}).deviations
    assert "outside their control group" in sentence


def test_stopping_and_destroying_thaw_before_any_signal(pausing: _Bench) -> None:
    """A frozen server hears none; a server that is started afterwards has a standstill anew."""
    for end in (lambda: pausing.platform.stop(keep_data=True), pausing.platform.destroy):
        pausing.start()
        frozen: list[set[Path]] = []
        server = pausing.processes.started[-1]
        server.signals = _Heard(lambda seen=frozen: seen.append(pausing.cgroups.frozen()))
        assert pausing.platform.standstill.pause()
        assert len(pausing.cgroups.frozen()) == 2
        end()
        assert frozen
        assert not any(frozen)
        assert pausing.cgroups.frozen() == set()
    assert pausing.cgroups.groups == set()


def test_a_group_that_is_gone_does_not_keep_the_server_from_stopping(pausing: _Bench) -> None:
    """Somebody removed it, so there is nothing to thaw."""
    pausing.start()
    pausing.platform.standstill.pause()
    pausing.cgroups.refuses = {"freezer.state"}
    pausing.platform.stop(keep_data=True)
    assert not pausing.platform.is_running
    pausing.cgroups.refuses = set()


def test_without_groups_the_standstill_is_by_signals(tmp_path: Path) -> None:
    """Of the server that runs, and not of the one before it."""
    bench = _Bench(tmp_path / "cache", limited=False)
    try:
        with pytest.raises(TargetError, match="not running"):
            _ = bench.platform.standstill
        bench.start()
        first = bench.platform.standstill
        assert first.kind is Pausing.SIGNALS
        assert first.pause()
        server = bench.processes.started[-1]
        assert server.signals == [signal.SIGSTOP]
        bench.platform.stop(keep_data=True)
        assert server.signals[:2] == [signal.SIGSTOP, signal.SIGCONT]
        bench.start()
        assert bench.platform.standstill is not first
        assert bench.platform.guarded.groups == ()
        assert bench.processes.started[-1].command.directory is not None
        data = bench.processes.started[-1].command.directory
        assert data.is_relative_to(bench.platform.guarded.directory)
    finally:
        bench.platform.destroy()


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
class _Tree(Families):
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
    "cgroups", [FakeCgroups(privileged=False), FakeCgroups(lacks=frozenset({Controller.FREEZER}))]
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
    assert is_frozen(tmp_path, Cgroups())
    thaw(tmp_path, Cgroups())
    assert (tmp_path / "freezer.state").read_text() == "THAWED\n"


def test_a_group_that_does_not_thaw_is_told() -> None:
    """With the kernel's word."""
    made = _Groups(1)
    made.standstill.pause()
    made.cgroups.refuses = {"freezer.state"}
    with pytest.raises(TargetError, match="kernel refuses `THAWED`"):
        thaw(made.server, made.cgroups)


def test_one_guard_is_for_all_places() -> None:
    """With every group and every directory."""
    guards = FakeGuards()
    places = [
        Guarded(groups=(Path("/g/1"), Path("/g/2")), directory=Path("/live/1")),
        Guarded(groups=(), directory=Path("/live/2")),
    ]
    assert start_guard(iter(places), guards) is guards.started[0]
    assert guards.groups == [Path("/g/1"), Path("/g/2")]
    assert guards.directories == [Path("/live/1"), Path("/live/2")]
