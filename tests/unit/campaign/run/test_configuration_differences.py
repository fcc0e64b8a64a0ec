"""What differs between configurations, what it costs to switch, and when data are restored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.campaigns import Stage, an_experiment, asks
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
from steelyard.core.wording import ExitCode, InputError
from steelyard.targets.differences import differing_settings, reset_for, switch_cost


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
    other = replace(experiment.configurations[0], name="other", target=LocalTarget(bin="15"))
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
