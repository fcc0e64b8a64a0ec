"""Small rules of a session, and what a switch between configurations costs."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.campaigns import Stage, an_experiment, asks
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.stack import Outside, a_kernel, asking
from steelyard.campaign.run import session
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    Layer,
    ManualStep,
    Measure,
    Reset,
    Setting,
    SwitchCost,
)
from steelyard.core.schedule import Mode
from steelyard.core.target import CloudNativePgTarget, EndpointTarget, EngineName, LocalTarget
from steelyard.core.wording import ExitCode, InputError, PreflightError, RecordError
from steelyard.gateways.files import holding_cache
from steelyard.record import directory as record_directory
from steelyard.record import registry
from steelyard.record.directory import read_campaign
from steelyard.record.journal import Created, read_lines
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import differing_settings, reset_for, switch_cost
from support.left import left_over
from support.stack import MemoryLedger


def test_a_default_directory_sorts_by_time_and_tells_its_experiment() -> None:
    """UTC time first, then the first words of the name without anything but letters."""
    doors = fake_doors(FakeClock(wall=1_795_297_411.0))
    name = "Huge pages & buffers: a very long title indeed, really"
    assert session.default_directory(name, doors) == Path(
        "campaigns/20261121-214331-huge-pages-buffers-a-very-long"
    )
    assert session.default_directory("../..", doors) == Path("campaigns/20261121-214331")


def test_the_command_repeats_a_campaign() -> None:
    """Seed, overrides and generator flags, quoted for a shell; approval when it was given."""
    command = session.command_line("my file.yaml", 7, ["stop.budget=20m"], ["--random-seed=1"])
    assert shlex.split(command) == [
        "steelyard",
        "run",
        "my file.yaml",
        "--seed",
        "7",
        "--override",
        "stop.budget=20m",
        "--",
        "--random-seed=1",
    ]
    assert "--yes" in session.command_line("x", 7, [], [], switches=["--yes"]).split()


def test_a_resume_changes_nothing_of_the_campaign(tmp_path: Path) -> None:
    """What was typed is named, with what is kept instead."""
    stage = Stage.new(an_experiment(), tmp_path / "c")
    session.require_resumable(stage.path, [])
    with pytest.raises(InputError, match="--budget, --seed cannot be changed") as caught:
        session.require_resumable(Path("c"), ["--budget", "--seed"])
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "c keeps its experiment" in caught.value.hint


def test_another_version_in_a_resumed_campaign_is_refused(tmp_path: Path) -> None:
    """Two versions are never mixed within a campaign; the same one goes on."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.run()
    record = read_campaign(stage.path)
    engine = stage.bench()._engine
    session._require_same_versions(record, engine)
    engine.program("fast").version = "18.7"
    with pytest.raises(PreflightError, match=r"`fast` ran .*18\.6; installed now is 18\.7"):
        session._require_same_versions(record, engine)


def test_a_resumed_campaign_checks_its_stack_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and privilege may be gone since the last session, and nothing is touched before."""
    stage = Stage.new(asking({}, {"vm.nr_hugepages": "100"}), tmp_path / "campaign")
    stage.run()
    outside = Outside(kernel=a_kernel(fits=20))
    assembly = Assembly(
        engine=stage.bench()._engine,
        platforms={},
        stack=outside.settings(stage.experiment, MemoryLedger()),
    )
    monkeypatch.setattr(session, "assemble", lambda *_, **__: assembly)
    with pytest.raises(PreflightError, match="do not fit"):
        session._require_room(read_campaign(stage.path), fake_doors(stage.clock))


def test_a_finished_campaign_is_only_shown_again(tmp_path: Path) -> None:
    """Resuming what is decided starts nothing: its record stays as it is, to the byte."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    analysis = stage.run()
    before = (stage.path / "journal.jsonl").read_bytes()
    again = session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
    assert again == analysis
    assert (stage.path / "journal.jsonl").read_bytes() == before


def test_a_death_after_the_end_leaves_nothing_once_it_is_resumed(tmp_path: Path) -> None:
    """Half-written reports and the note in the registry go, though nothing is run again."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.run()
    record = read_campaign(stage.path)
    registry.register(record.campaign_id, stage.path, record.experiment)
    (stage.path / ".report.html.0f3a9c2d").write_text("<html>")
    session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
    assert [path.name for path in stage.path.rglob(".*")] == []
    assert list(registry.directory().iterdir()) == []


def test_what_the_dead_session_removed_is_noted_before_work_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between a removal and its line: the record does not list it for ever."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.directory.journal.append(Created(resource="directory", name=str(tmp_path / "gone")))
    stage.directory.close()
    listed = []
    monkeypatch.setattr(session, "_require_room", lambda *_: None)
    monkeypatch.setattr(session, "_work", lambda *_: listed.append(left_over(stage.path)))
    session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
    assert listed == [()]


class _Given:
    """A campaign that only does one thing."""

    def __init__(self, does: Callable[[], None], clears: Callable[[], None] = lambda: None) -> None:
        self._does, self._clears = does, clears

    def run(self) -> None:
        """Do it."""
        self._does()

    def close(self) -> None:
        """Clear up."""
        self._clears()


def _session(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[[], None],
    clears: Callable[[], None] = lambda: None,
) -> None:
    """Run a session of a new campaign whose work is ``does``."""
    stage_listener = Stage.new(an_experiment(), path.with_name("other")).listener
    monkeypatch.setattr(session, "assemble", lambda *_, **__: _Given(does, clears))
    monkeypatch.setattr(session, "_campaign", lambda *_: _Given(does))
    request = session.Request(
        experiment=an_experiment(), text="", command="steelyard run", campaign_id="night-1"
    )
    session.new_campaign(request, path, fake_doors(FakeClock()), stage_listener)


def test_the_end_of_a_session_reads_the_journal_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left behind is known by one reading: a journal may have megabytes."""
    read: list[Path] = []

    def listen() -> None:
        def heard(path: Path) -> object:
            read.append(path)
            return read_lines(path)

        monkeypatch.setattr(record_directory, "read_lines", heard)

    _session(tmp_path / "c", monkeypatch, listen)
    assert read == [tmp_path / "c" / "journal.jsonl"]
    assert (registry.directory() / "night-1").exists()  # it may go on


@pytest.mark.parametrize("resumed", [False, True])
def test_the_cache_stays_while_a_session_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, resumed: bool
) -> None:
    """From before its first step: who asked whether a campaign runs just before removes nothing."""
    held = []

    def look(*_: object, **__: object) -> None:
        with pytest.raises(PreflightError, match="uses the cache"), holding_cache(alone=True):
            pytest.fail("the cache could be removed")
        held.append(True)

    if resumed:
        stage = Stage.new(an_experiment(), tmp_path / "c")
        stage.directory.close()
        monkeypatch.setattr(session, "_require_room", look)
        monkeypatch.setattr(session, "_work", look)
        session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
        assert len(held) == 2
    else:
        _session(tmp_path / "c", monkeypatch, look, look)
        assert held == [True, True]  # the work, and the clearing up after it
    with holding_cache(alone=True):
        pass  # at its end it is given back


@pytest.mark.parametrize("failed", [False, True])
def test_a_campaign_whose_record_cannot_be_read_at_its_end_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """Nobody knows what it left: `clean` finds it by the registry."""

    def lose_the_record() -> None:
        (tmp_path / "c" / "journal.jsonl").unlink()
        if failed:
            raise PreflightError("the disk is gone")

    with pytest.raises(PreflightError if failed else RecordError):
        _session(tmp_path / "c", monkeypatch, lose_the_record)
    assert (registry.directory() / "night-1").exists()


def _configuration(name: str, **settings: str) -> Configuration:
    return Configuration(name=name, target=LocalTarget(), settings=asks(**settings))


def _cost(experiment: Experiment, tmp_path: Path) -> SwitchCost:
    stage = Stage.new(experiment, tmp_path / "c")
    return switch_cost(experiment, stage.bench()._engine)


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({}, {}, ()),
        ({"a": "1"}, {"a": "1"}, ()),
        ({"a": "1"}, {"a": "2"}, ("a",)),
        ({"a": "1"}, {}, ("a",)),
        ({"b": "1", "a": "1"}, {"c": "1", "a": "2"}, ("a", "b", "c")),
    ],
)
def test_settings_differ_by_value_or_absence(
    one: dict[str, str], other: dict[str, str], names: tuple[str, ...]
) -> None:
    """The names come sorted, whichever side asks."""
    assert differing_settings(_configuration("x", **one), _configuration("y", **other)) == names
    assert differing_settings(_configuration("y", **other), _configuration("x", **one)) == names


def test_equal_configurations_cost_a_session(tmp_path: Path) -> None:
    """An A/A experiment, or one that varies the protocol alone, restarts nothing."""
    experiment = an_experiment()
    same = replace(experiment.configurations[0], name="same")
    alone = replace(experiment, configurations=(experiment.configurations[0], same))
    assert _cost(alone, tmp_path) is SwitchCost.SESSION


@pytest.mark.parametrize(
    ("one", "other", "cost", "anew"),
    [
        ({}, {}, SwitchCost.SESSION, False),
        ({"burst_lasts_s": 60.0}, {"burst_lasts_s": None}, SwitchCost.SESSION, False),
        ({}, {"storage_class": "slow"}, SwitchCost.REPROVISION, True),
        ({"instances": 1}, {"instances": 2}, SwitchCost.REPROVISION, True),
        ({"cluster": "a"}, {"cluster": "b"}, SwitchCost.RESTART, False),
    ],
)
def test_clusters_that_differ_are_made_anew(
    one: dict[str, Any], other: dict[str, Any], cost: SwitchCost, *, anew: bool, tmp_path: Path
) -> None:
    """Equal Clusters are one for the campaign; those that differ are made for each start."""
    experiment = an_experiment()
    configurations = (
        Configuration(name="slow", target=CloudNativePgTarget(**one)),
        Configuration(name="fast", target=CloudNativePgTarget(**other)),
    )
    pair = replace(experiment, configurations=configurations)
    assert _cost(pair, tmp_path) is cost
    assert pair.is_made_anew is anew
    kept = reset_for(pair, Mode.STARTS, writes=True)
    assert kept is Reset.START
    asked = replace(pair, measure=replace(pair.measure, reset=Reset.BLOCK))
    assert reset_for(asked, Mode.STARTS, writes=True) is (Reset.START if anew else Reset.BLOCK)


def test_different_targets_cost_a_restart(tmp_path: Path) -> None:
    """Two versions cannot share a server."""
    experiment = an_experiment()
    other = replace(experiment.configurations[0], name="other", target=LocalTarget(server="15"))
    pair = replace(experiment, configurations=(experiment.configurations[0], other))
    assert _cost(pair, tmp_path) is SwitchCost.RESTART


def test_the_dearest_pair_decides(tmp_path: Path) -> None:
    """One configuration that needs a restart makes every block one of starts."""
    experiment = an_experiment(restart=False)
    assert _cost(experiment, tmp_path) is SwitchCost.RELOAD
    third = _configuration("third", needs_restart="on")
    three = replace(experiment, configurations=(*experiment.configurations, third))
    assert _cost(three, tmp_path / "three") is SwitchCost.RESTART


def test_a_dearer_switch_may_be_asked_for_and_a_cheaper_may_not(tmp_path: Path) -> None:
    """The file can only err on the safe side."""
    dearer = an_experiment(restart=False, measure=Measure(switch=SwitchCost.RESTART))
    assert _cost(dearer, tmp_path / "dearer") is SwitchCost.RESTART
    cheaper = an_experiment(restart=True, measure=Measure(switch=SwitchCost.SESSION))
    with pytest.raises(InputError, match="needs a restart") as caught:
        _cost(cheaper, tmp_path / "cheaper")
    assert caught.value.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("asked", "cost"),
    [
        ({"vm.swappiness": "1", "read_ahead": "128kB"}, SwitchCost.SESSION),
        ({"vm.swappiness": "1", "vm.nr_hugepages": "auto"}, SwitchCost.RESTART),
        ({"net.core.somaxconn": "9"}, SwitchCost.RESTART),
    ],
)
def test_kernel_settings_cost_what_a_server_needs_to_feel_them(
    tmp_path: Path, asked: dict[str, str], cost: SwitchCost
) -> None:
    """Live knobs go back to back; what a server takes at its start costs a restart."""
    bare = an_experiment(restart=False)
    own = tuple(Setting(layer=Layer.LINUX, name=n, value=v) for n, v in sorted(asked.items()))
    other = replace(bare.configurations[0], name="other", settings=own)
    assert _cost(replace(bare, configurations=(bare.configurations[0], other)), tmp_path) is cost


def test_manual_steps_cost_a_restart(tmp_path: Path) -> None:
    """Nobody makes a server anew, and nobody knows what a step does to a running one."""
    bare = an_experiment(restart=False)
    first = bare.configurations[0]
    by_hand = replace(first, name="other", manual=ManualStep(text="Do it."))
    assert _cost(replace(bare, configurations=(first, by_hand)), tmp_path) is SwitchCost.RESTART


def test_one_command_for_all_configurations_costs_a_restart_too(tmp_path: Path) -> None:
    """It is run for each of them, and does what its configuration's name says."""
    bare = an_experiment(restart=False)
    first = replace(bare.configurations[0], manual=ManualStep(command=("hook",)))
    pair = replace(bare, configurations=(first, replace(first, name="other")))
    assert _cost(pair, tmp_path) is SwitchCost.RESTART


def test_a_redis_that_is_restarted_is_reset_for_every_start() -> None:
    """It keeps what it persists: other resets are refused where anything is written."""
    asked = an_experiment(measure=Measure(reset=Reset.BLOCK))
    redis = replace(asked, engine=EngineName.REDIS)
    with pytest.raises(InputError, match="configurations would run on different keys"):
        reset_for(redis, Mode.STARTS, writes=True)
    assert reset_for(redis, Mode.STARTS, writes=False) is Reset.BLOCK
    assert reset_for(redis, Mode.BACK_TO_BACK, writes=True) is Reset.BLOCK
    assert reset_for(asked, Mode.STARTS, writes=True) is Reset.BLOCK


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("writes", [True, False])
def test_the_reset_asked_for_counts(mode: Mode, *, writes: bool) -> None:
    """Automatic means every start, but once where nothing changes the data and nobody leaves."""
    asked = an_experiment(measure=Measure(reset=Reset.BLOCK))
    assert reset_for(asked, mode, writes=writes) is Reset.BLOCK
    automatic = reset_for(an_experiment(), mode, writes=writes)
    once = mode is Mode.BACK_TO_BACK and not writes
    assert automatic is (Reset.CAMPAIGN if once else Reset.START)


@pytest.mark.parametrize(
    ("hosts", "writes", "reset"),
    [
        ("aa", False, Reset.CAMPAIGN),
        ("aa", True, Reset.START),
        ("ab", False, Reset.START),
        ("ab", True, Reset.START),
    ],
)
def test_sessions_of_one_server_that_read_need_no_reset(
    hosts: str, reset: Reset, *, writes: bool
) -> None:
    """They read the same data; who writes, or has a server of its own, has fresh ones."""
    experiment = an_experiment()
    configurations = tuple(
        replace(each, target=EndpointTarget(host=host))
        for each, host in zip(experiment.configurations, hosts, strict=True)
    )
    experiment = replace(experiment, configurations=configurations)
    assert bool(experiment.shared_servers) is (hosts == "aa")
    assert reset_for(experiment, Mode.ALTERNATING, writes=writes) is reset
    assert reset_for(experiment, Mode.STARTS, writes=writes) is Reset.START
