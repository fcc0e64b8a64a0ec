"""A local server with limits: in its groups from the start, limited when ready, lifted to stop."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.cgroups import FakeCgroups
from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.outside import Command
from steelyard.core.schedule import Pausing
from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.places.local.groups import GroupPlan, ServerGroups
from steelyard.places.local.platform import LocalOptions, LocalPlatform

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
        bench.platform.groups(),
    ]
    assert bench.platform.groups() == (_QUOTA.parent,)
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
    bench.platform.run_together([Command(argv=("pgbench",))], timeout_s=5)
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
        assert bench.platform.groups() == ()
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
    assert pausing.platform.groups() == ()
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
