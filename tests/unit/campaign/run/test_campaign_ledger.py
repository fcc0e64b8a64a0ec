"""What dead campaigns left behind: found, undone, and living ones left alone."""

import shutil
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import an_experiment
from fakes.cgroups import FakeCgroups
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import Answer, FakeProcess, FakeProcesses
from steelyard.campaign.cleanup import leftovers, undoing
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.core import outside
from steelyard.core.campaign import Status
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.wording import ExitCode, LeftBehindError, RecordError
from steelyard.gateways.cgroups import Families
from steelyard.gateways.doors import Doors
from steelyard.places.local.server import end_processes
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import Ended, Started
from support.left import left_groups, left_over

_ID = "night-1"


@pytest.fixture
def processes() -> FakeProcesses:
    """Return processes among which a server can be started."""
    made = FakeProcesses(FakeClock())
    made.on_start("server")
    made.on("ipcrm")
    return made


@pytest.fixture
def cgroups() -> FakeCgroups:
    """Return a machine's control groups."""
    return FakeCgroups()


@pytest.fixture
def doors(processes: FakeProcesses, cgroups: FakeCgroups) -> Doors:
    """Return doors to nothing but these processes and groups."""
    return fake_doors(processes.clock, processes=processes, cgroups=cgroups)


class _Campaign:
    """A campaign that made a live directory with a server in it."""

    def __init__(self, root: Path, processes: FakeProcesses, name: str = "night") -> None:
        self.path = root / name
        self.live = root / "live" / _ID
        self.processes = processes
        self.directory = CampaignDirectory.create(
            self.path, processes.clock, experiment_text="version: 1\n"
        )
        self.directory.journal.append(
            Started(campaign_id=_ID, experiment=an_experiment(), command="steelyard", version="0")
        )
        registry.register(_ID, self.path, an_experiment())
        self.noting = JournalLedger(self.directory.journal, _ID)
        self.noting.created(outside.MadeDirectory(path=self.live))

    def work(self) -> FakeProcess:
        """Make the directory and start a server in it."""
        data = self.live / "state" / "data"
        data.mkdir(parents=True)
        (data / "table").write_bytes(b"x" * 5000)
        command = outside.Command(argv=("server",), directory=data)
        return self.processes.start(command, output=self.path / "log")

    def die(self) -> "_Campaign":
        """Give the lock back, as the kernel does for the dead."""
        self.directory.close()
        return self


@pytest.fixture
def campaign(tmp_path: Path, processes: FakeProcesses) -> _Campaign:
    """Return one that runs."""
    return _Campaign(tmp_path, processes)


def _registered() -> list[str]:
    return sorted(entry.name for entry in registry.directory().iterdir())


def test_a_dead_campaign_is_found_and_undone(
    campaign: _Campaign, processes: FakeProcesses, doors: Doors
) -> None:
    """Its processes are ended in order, its directory removed, and both are noted."""
    server = campaign.work()
    campaign.die()
    (leftover,) = leftovers.find_leftovers(doors)
    assert (leftover.campaign_id, leftover.record) == (_ID, campaign.path)
    assert leftover.directories == (campaign.live,)
    assert leftover.processes == (server.pid,)
    assert leftover.size_bytes >= 5000
    leftovers.undo(leftover, doors)
    assert server.signals == [signal.SIGQUIT]
    assert not campaign.live.exists()
    assert left_over(campaign.path) == ()
    assert leftovers.find_leftovers(doors) == ()
    assert _registered() == [_ID]  # it may go on


def test_a_living_campaign_is_left_alone(campaign: _Campaign, doors: Doors) -> None:
    """Who holds its record is alive: nothing is found and it stays registered."""
    server = campaign.work()
    assert leftovers.find_leftovers(doors) == ()
    assert _registered() == [_ID]
    assert server.exit_status() is None
    campaign.die()


@pytest.mark.parametrize(
    ("status", "registered"),
    [(Status.BUDGET, []), (Status.PASSED, []), (Status.FAILED, [_ID]), (Status.RUNNING, [_ID])],
)
def test_a_campaign_that_left_nothing_is_forgotten_when_it_is_finished(
    campaign: _Campaign, doors: Doors, *, status: Status, registered: list[str]
) -> None:
    """What was announced and never made is nothing; what may go on stays this account's."""
    campaign.directory.journal.append(Ended(status=status))
    campaign.die()
    assert leftovers.find_leftovers(doors) == ()
    assert _registered() == registered
    shutil.rmtree(campaign.path)
    assert leftovers.find_leftovers(doors) == ()
    assert _registered() == []


@pytest.mark.parametrize("undone", [True, False])
def test_what_is_undone_is_not_undone_again_when_the_record_was_moved(
    campaign: _Campaign, tmp_path: Path, doors: Doors, *, undone: bool
) -> None:
    """Others may have come to what it had made; what it did not undo stays known."""
    thing = outside.OnServer(
        resource=outside.Foreign.DATABASE,
        host="db",
        port=5432,
        user="bench",
        database="steelyard_s1",
        entrance="postgres",
        mark="steelyard campaign night-1",
    )
    campaign.noting.created(thing)
    if undone:
        campaign.noting.removed(thing)
        campaign.noting.removed(outside.MadeDirectory(path=campaign.live))
    campaign.directory.journal.append(Ended(status=Status.INTERRUPTED))
    leftovers.settle(_ID, campaign.path)
    campaign.die()
    assert registry.began(_ID, campaign.path, an_experiment())  # it may go on
    campaign.path.rename(tmp_path / "moved")
    found = leftovers.find_leftovers(doors)
    assert [leftover.things for leftover in found] == ([] if undone else [(thing,)])


@pytest.mark.parametrize("damage", ["deleted", "damaged"])
def test_a_record_that_is_gone_does_not_hide_its_leftovers(
    campaign: _Campaign, doors: Doors, damage: str
) -> None:
    """The registry knows what was made, whatever became of the journal."""
    server = campaign.work()
    campaign.die()
    journal = campaign.path / "journal.jsonl"
    if damage == "deleted":
        journal.unlink()
    else:
        journal.write_bytes(journal.read_bytes().replace(_ID.encode(), b"night-2", 1))
    (leftover,) = leftovers.find_leftovers(doors)
    assert leftover.directories == (campaign.live,)
    leftovers.undo(leftover, doors)
    assert server.exit_status() is not None
    assert not campaign.live.exists()
    # One that cannot be read may be mended, and go on.
    assert _registered() == ([] if damage == "deleted" else [_ID])


def test_one_campaign_can_be_named(
    campaign: _Campaign, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its directory, as ``.`` too; others are not looked at."""
    campaign.work()
    campaign.die()
    monkeypatch.chdir(campaign.path)
    (leftover,) = leftovers.find_leftovers(doors, [Path()])
    assert leftover.campaign_id == _ID
    leftovers.undo(leftover, doors)
    assert not campaign.live.exists()
    assert _registered() == [_ID]


def test_a_directory_that_is_no_campaign_is_refused(tmp_path: Path, doors: Doors) -> None:
    """Naming the wrong directory is said, not passed over."""
    with pytest.raises(RecordError, match="holds no campaign"):
        leftovers.find_leftovers(doors, [tmp_path])


def test_without_a_registry_there_is_nothing(doors: Doors) -> None:
    """A first run of clean on a fresh machine finds nothing."""
    assert leftovers.find_leftovers(doors) == ()


def test_a_stubborn_process_is_killed(
    campaign: _Campaign, processes: FakeProcesses, doors: Doors
) -> None:
    """What heeds no request is ended by force, and continued in case it was suspended."""
    server = campaign.work()
    server.ends_by = frozenset({signal.SIGKILL})
    end_processes(campaign.live, doors.processes, doors.clock)
    assert server.signals == [signal.SIGQUIT, signal.SIGCONT, signal.SIGKILL]
    campaign.die()


def test_a_process_that_cannot_be_ended_is_left_behind(campaign: _Campaign, doors: Doors) -> None:
    """The error names it, with exit code 7; its directory stays, and stays registered."""
    server = campaign.work()
    server.ends_by = frozenset()
    campaign.die()
    (leftover,) = leftovers.find_leftovers(doors)
    with pytest.raises(LeftBehindError, match=str(server.pid)) as caught:
        leftovers.undo(leftover, doors)
    assert caught.value.exit_code is ExitCode.LEFT_BEHIND
    assert campaign.live.exists()
    assert _registered() == [_ID]


@pytest.mark.parametrize("freed", [True, False])
def test_the_memory_of_a_killed_server_is_freed(
    campaign: _Campaign, processes: FakeProcesses, doors: Doors, *, freed: bool
) -> None:
    """The segment of its postmaster.pid; a failure to free it is no reason to stop."""
    campaign.work()
    campaign.die()
    pid_file = campaign.live / "state" / "data" / "postmaster.pid"
    pid_file.write_text("77\n/data\n1\n5433\n/run\n127.0.0.1\n  5433001   98305\n")
    if not freed:
        processes.on("ipcrm", answer=Answer(takes_s=99.0))
    leftovers.undo(leftovers.find_leftovers(doors)[0], doors)
    assert [command.argv[1:] for command in processes.ran] == [("--shmem-id", "98305")]
    assert not campaign.live.exists()


def test_a_finished_campaign_that_left_something_says_so(campaign: _Campaign) -> None:
    """The directories are named, the way out is clean."""
    campaign.work()
    campaign.die()
    with pytest.raises(LeftBehindError, match=str(campaign.live)) as caught:
        leftovers.require_nothing_left(campaign.path)
    assert "steelyard clean" in caught.value.hint


def test_a_clean_campaign_leaves_nothing(tmp_path: Path, processes: FakeProcesses) -> None:
    """What is listed but does not exist is not left; without a record nobody can say."""
    campaign = _Campaign(tmp_path, processes).die()
    leftovers.require_nothing_left(campaign.path)
    with pytest.raises(RecordError, match="holds no campaign"):
        leftovers.require_nothing_left(tmp_path / "absent")


def test_slots_of_a_dead_campaign_go_with_it(
    campaign: _Campaign, processes: FakeProcesses, doors: Doors
) -> None:
    """Their servers are ended and counted once, in each; nothing is left, whichever was noted."""
    servers = []
    for number in (1, 2, 12):
        slot = campaign.live / f"slot-{number}"
        campaign.noting.created(outside.MadeDirectory(path=slot))
        data = slot / "state" / "data"
        data.mkdir(parents=True)
        (data / "table").write_bytes(b"x" * 5000)
        command = outside.Command(argv=("server",), directory=data)
        servers.append(processes.start(command, output=campaign.path / "log"))
    campaign.die()
    (leftover,) = leftovers.find_leftovers(doors)
    slots = {campaign.live / f"slot-{number}" for number in (1, 2, 12)}
    assert set(leftover.directories) == {campaign.live, *slots}
    assert set(leftover.processes) == {server.pid for server in servers}
    # The bytes of a slot are those of the campaign's directory, too.
    assert leftover.size_bytes == leftovers.tree_bytes(campaign.live) > 3 * 5000
    leftovers.undo(leftover, doors)
    assert all(server.exit_status() is not None for server in servers)
    assert not campaign.live.exists()
    assert left_over(campaign.path) == ()


@pytest.mark.parametrize(
    "name",
    [
        f"live/{_ID}/slot-",
        f"live/{_ID}/slot-1a",
        f"live/{_ID}/slot-one",
        f"live/{_ID}/slot-1/state",
        f"live/{_ID}/other",
        f"live/{_ID}/slot-1/slot-1",
        "live/night-2/slot-1",
        f"precious/{_ID}/slot-1",
        "live/slot-1",
        "home/user/precious",
        "var/x/live/else",
    ],
)
def test_what_is_not_of_this_campaign_is_left_alone(
    campaign: _Campaign, name: str, tmp_path: Path, doors: Doors
) -> None:
    """A journal cannot name it to have it removed."""
    foreign = tmp_path / "else" / name
    foreign.mkdir(parents=True)
    campaign.noting.created(outside.MadeDirectory(path=foreign))
    campaign.directory.close()
    assert leftovers.find_leftovers(doors, [campaign.path]) == ()
    assert foreign.exists()


def test_a_slot_behind_a_link_is_left_alone(
    campaign: _Campaign, tmp_path: Path, doors: Doors
) -> None:
    """Neither it nor the directory of its campaign may lead elsewhere."""
    precious = tmp_path / "precious" / "slot-1"
    precious.mkdir(parents=True)
    links = [tmp_path / "a" / "live" / _ID, tmp_path / "b" / "live" / _ID / "slot-1"]
    for link, to in zip(links, (precious.parent, precious), strict=True):
        link.parent.mkdir(parents=True)
        link.symlink_to(to)
    for name in (links[0] / "slot-1", links[1]):
        campaign.noting.created(outside.MadeDirectory(path=name))
    campaign.directory.close()
    assert leftovers.find_leftovers(doors, [campaign.path]) == ()
    assert precious.exists()


@pytest.mark.parametrize(("name", "ours"), [("steelyard-0f3a9c2d", True), ("PostgreSQL.17", False)])
def test_logs_in_memory_are_found_and_removed(
    tmp_path: Path,
    processes: FakeProcesses,
    doors: Doors,
    monkeypatch: pytest.MonkeyPatch,
    *,
    name: str,
    ours: bool,
) -> None:
    """What a dead campaign logged goes with it; segments of servers beside it do not."""
    monkeypatch.setattr(undoing, "MEMORY", tmp_path / "memory")
    campaign = _Campaign(tmp_path, processes)
    logs = tmp_path / "memory" / name
    campaign.noting.created(outside.MadeDirectory(path=logs))
    logs.mkdir(parents=True)
    (logs / "log.17").write_text("0 1 2\n")
    campaign.die()
    found = leftovers.find_leftovers(doors)
    assert [path for each in found for path in each.directories] == ([logs] if ours else [])
    for each in found:
        leftovers.undo(each, doors)
    assert logs.exists() is not ours


def test_a_half_written_note_is_no_campaign_and_goes_when_the_campaign_goes_on(
    tmp_path: Path, processes: FakeProcesses, doors: Doors
) -> None:
    """A death while it was registered: nothing is listed twice, nothing stays for ever."""
    campaign = _Campaign(tmp_path, processes).die()
    note = registry.directory() / f".{_ID}.0f3a9c2d"
    note.write_text(f"{campaign.path}\n")
    campaign.live.mkdir(parents=True)
    assert [found.campaign_id for found in leftovers.find_leftovers(doors)] == [_ID]
    registry.register(_ID, campaign.path)
    assert _registered() == [_ID]


def test_what_a_dead_session_removed_without_a_word_is_noted(
    campaign: _Campaign, tmp_path: Path
) -> None:
    """A death between a removal and its line; what is still there stays listed."""
    there = tmp_path / "there"
    there.mkdir()
    campaign.noting.created(outside.MadeDirectory(path=there))
    assert set(left_over(campaign.path)) == {str(campaign.live), str(there)}
    leftovers.note_gone(campaign.directory)
    assert left_over(campaign.path) == (str(there),)
    campaign.die()


_GROUP = Path("/fake/cgroup/cpu") / f"steelyard-{_ID}-server"


@pytest.mark.parametrize("record", ["whole", "deleted"])
def test_control_groups_of_a_dead_campaign_are_removed(
    campaign: _Campaign, doors: Doors, cgroups: FakeCgroups, record: str
) -> None:
    """After its processes have ended, by the journal or by the registry, and that is noted."""
    server = campaign.work()
    campaign.noting.created(outside.ControlGroup(path=_GROUP))
    cgroups.make(_GROUP)
    cgroups.within = lambda _: () if server.exit_status() is not None else (server.pid,)
    campaign.die()
    if record == "deleted":
        (campaign.path / "journal.jsonl").unlink()
    (leftover,) = leftovers.find_leftovers(doors)
    assert leftover.groups == (_GROUP,)
    assert leftover.directories == (campaign.live,)
    leftovers.undo(leftover, doors)
    assert cgroups.groups == set()
    assert leftovers.find_leftovers(doors) == ()
    assert record == "deleted" or left_groups(campaign.path) == ()
    assert _registered() == ([] if record == "deleted" else [_ID])


_FREEZER = Path("/fake/cgroup/freezer") / f"steelyard-{_ID}-101-server"


class _Frozen:
    """A dead campaign whose server is frozen: it hears of no signal before it is thawed."""

    def __init__(self, root: Path, processes: FakeProcesses, cgroups: FakeCgroups) -> None:
        self.campaign = _Campaign(root, processes)
        self.server = self.campaign.work()
        self.cgroups = cgroups
        self.campaign.noting.created(outside.ControlGroup(path=_FREEZER))
        cgroups.make(_FREEZER)
        cgroups.within = self._members
        cgroups.freezer(_FREEZER).freeze()
        self.hears = self.server.signal
        self.server.signal = self._hear  # type: ignore[method-assign]
        self.campaign.die()

    def _members(self, _: Path) -> tuple[int, ...]:
        return () if self.server.exit_status() is not None else (self.server.pid,)

    def _hear(self, number: int) -> None:
        if _FREEZER not in self.cgroups.frozen():
            self.hears(number)


@pytest.fixture
def frozen(tmp_path: Path, processes: FakeProcesses, cgroups: FakeCgroups) -> _Frozen:
    """Return what a kill of campaign and guard leaves."""
    return _Frozen(tmp_path, processes, cgroups)


def test_what_is_frozen_is_thawed_before_it_is_ended(frozen: _Frozen, doors: Doors) -> None:
    """In version 1 it would survive even SIGKILL."""
    (leftover,) = leftovers.find_leftovers(doors)
    assert leftover.groups == leftover.frozen == (_FREEZER,)
    leftovers.undo(leftover, doors)
    assert frozen.server.signals == [signal.SIGQUIT]
    assert not frozen.campaign.live.exists()
    assert frozen.cgroups.groups == frozen.cgroups.frozen() == set()
    assert leftovers.find_leftovers(doors) == ()


def test_what_does_not_thaw_is_told_by_its_processes(frozen: _Frozen, doors: Doors) -> None:
    """It stays listed."""
    frozen.cgroups.refuses = {"freezer.state"}
    (leftover,) = leftovers.find_leftovers(doors)
    with pytest.raises(LeftBehindError, match=f"{frozen.server.pid} .*do not end"):
        leftovers.undo(leftover, doors)
    assert leftovers.find_leftovers(doors) == (leftover,)


def test_the_next_campaign_ends_what_is_frozen_and_leaves_the_rest(
    frozen: _Frozen, doors: Doors
) -> None:
    """It is named before it is touched; data are for ``clean``, and a second time is silent."""
    told: list[str] = []

    def tell(what: str) -> None:
        assert frozen.cgroups.frozen() == {_FREEZER}
        told.append(what)

    leftovers.release_frozen(doors, tell)
    (sentence,) = told
    assert f"control group {_FREEZER}" in sentence
    assert _ID in sentence
    assert frozen.server.signals == [signal.SIGQUIT]
    assert frozen.cgroups.groups == set()
    assert left_groups(frozen.campaign.path) == ()
    assert frozen.campaign.live.exists()
    leftovers.release_frozen(doors, tell)
    assert len(told) == 1
    (leftover,) = leftovers.find_leftovers(doors)
    assert (leftover.directories, leftover.frozen) == ((frozen.campaign.live,), ())


def test_a_server_that_a_signal_stopped_is_named_and_ended(
    campaign: _Campaign, doors: Doors
) -> None:
    """Where there was no freezer: nobody is there to continue it."""
    server = campaign.work()
    campaign.die()
    doors = replace(doors, families=_AllStopped())
    (leftover,) = leftovers.find_leftovers(doors)
    assert (leftover.frozen, leftover.stopped) == ((), (server.pid,))
    told: list[str] = []
    leftovers.release_frozen(doors, told.append)
    assert f"process {server.pid}" in told[0]
    assert server.exit_status() is not None


class _AllStopped(Families):
    """Families in which everybody was stopped."""

    def of(self, first: Iterable[int]) -> Mapping[int, bool]:
        """Return them, as still as they are."""
        return dict.fromkeys(first, False)

    def stopped(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return all."""
        return tuple(pids)


def test_what_runs_or_is_somebody_elses_is_not_released(
    tmp_path: Path, processes: FakeProcesses, doors: Doors, cgroups: FakeCgroups
) -> None:
    """A dead campaign that runs on is ``clean``'s; a living one and a stranger's are nobody's."""
    dead = _Campaign(tmp_path, processes)
    server = dead.work()
    stranger = Path("/fake/cgroup/freezer/steelyard-other-1-server")
    dead.noting.created(outside.ControlGroup(path=stranger))
    dead.noting.created(outside.ControlGroup(path=_FREEZER))
    for group in (stranger, _FREEZER):
        cgroups.make(group)
        cgroups.freezer(group).freeze()
    leftovers.release_frozen(doors, pytest.fail)  # it lives
    cgroups.freezer(_FREEZER).thaw()
    dead.die()
    leftovers.release_frozen(doors, pytest.fail)
    assert cgroups.frozen() == {stranger}
    assert server.exit_status() is None


def test_a_group_alone_is_a_leftover(
    campaign: _Campaign, doors: Doors, cgroups: FakeCgroups
) -> None:
    """A death between the removal of the directories and that of the groups leaves just them."""
    campaign.noting.created(outside.ControlGroup(path=_GROUP))
    cgroups.make(_GROUP)
    campaign.die()
    (leftover,) = leftovers.find_leftovers(doors)
    assert (leftover.groups, leftover.directories) == ((_GROUP,), ())
    leftovers.undo(leftover, doors)
    assert cgroups.groups == set()


def test_a_group_with_processes_stays_listed(
    campaign: _Campaign, doors: Doors, cgroups: FakeCgroups
) -> None:
    """A program that the server left behind is told by its number, and clean finds it again."""
    campaign.noting.created(outside.ControlGroup(path=_GROUP))
    cgroups.make(_GROUP)
    cgroups.busy, cgroups.within = 10**6, lambda _: (77,)
    campaign.die()
    (leftover,) = leftovers.find_leftovers(doors)
    with pytest.raises(LeftBehindError, match="77") as caught:
        leftovers.undo(leftover, doors)
    assert caught.value.exit_code is ExitCode.LEFT_BEHIND
    assert leftovers.find_leftovers(doors) == (leftover,)


@pytest.mark.parametrize(
    "path",
    [
        "/fake/cgroup/cpu/system.slice",
        "/fake/cgroup/cpu/steelyard-other-1-server",
        f"/fake/elsewhere/steelyard-{_ID}-server",
        f"/fake/cgroup/cpu/deeper/steelyard-{_ID}-server",
    ],
)
def test_a_journal_cannot_name_groups_of_others(
    campaign: _Campaign, doors: Doors, cgroups: FakeCgroups, path: str
) -> None:
    """A record may come from somebody else: only this campaign's own groups are removed."""
    campaign.noting.created(outside.ControlGroup(path=Path(path)))
    cgroups.make(Path(path))
    campaign.die()
    assert leftovers.find_leftovers(doors) == ()
    assert cgroups.exists(Path(path))


def test_groups_that_are_gone_are_noted(campaign: _Campaign, doors: Doors) -> None:
    """A restart of the machine takes all groups away; a resume notes it and goes on."""
    campaign.noting.created(outside.ControlGroup(path=_GROUP))
    assert left_groups(campaign.path) == (str(_GROUP),)
    leftovers.note_gone(campaign.directory)
    assert left_groups(campaign.path) == ()
    leftovers.require_nothing_left(campaign.path)
    campaign.die()


def test_what_does_not_end_keeps_its_directory_and_nothing_else(
    frozen: _Frozen, doors: Doors
) -> None:
    """A setting of the kernel is put back although a process waits for a disk that hangs."""
    frozen.cgroups.refuses = {"freezer.state"}
    (leftover,) = leftovers.find_leftovers(doors)
    knob = outside.TurnedKnob(
        knob=Knob(name="n", layer="linux", kind=KnobKind.SYSCTL, place="vm.swappiness", value="1"),
        snapshot="60",
    )
    undone: list[outside.Outside] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undoing, "undo_thing", lambda thing, _: undone.append(thing))
        with pytest.raises(LeftBehindError, match="do not end"):
            leftovers.undo(replace(leftover, things=(*leftover.things, knob)), doors)
    assert undone == [knob]
    assert frozen.campaign.live.exists()
