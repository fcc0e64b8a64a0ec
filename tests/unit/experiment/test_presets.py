"""Presets: each loads, explains itself, and fits into fifteen minutes."""

from pathlib import Path

import pytest
from experiment_texts import FACTS

from steelyard.experiment.durations import SwitchTimes, block_s
from steelyard.experiment.files import load_experiment
from steelyard.experiment.presets import preset_names, preset_summary, preset_text
from steelyard.experiment.schedule import cells_of, schedule_of
from steelyard.model.errors import ExitCode, ExperimentFileError, InputError
from steelyard.model.experiment import Calibration, Reset, SwitchCost
from steelyard.model.load import Load
from steelyard.model.schedule import Mode


def test_the_presets_are_these() -> None:
    """The presets that the documentation names are there."""
    assert preset_names() == (
        "aa",
        "attribution",
        "aws-defaults",
        "protocol",
        "published-matrix",
        "published-maxed",
        "published-stack",
        "published-stack-factorial",
        "quick",
        "scalability",
        "statements",
        "versions",
    )


@pytest.mark.parametrize("name", [n for n in preset_names() if n != "published-matrix"])
def test_a_preset_loads_and_takes_fifteen_minutes_at_most(name: str) -> None:
    """Each preset is a valid experiment of small scale with a header that explains it."""
    loaded = load_experiment(f"preset:{name}", facts=FACTS, seed=3)
    assert loaded.text == preset_text(name)
    assert loaded.source == f"preset:{name}"
    assert loaded.experiment.stop.budget_s <= 900
    assert all((workload.scale_factor or 0) <= 10 for workload in loaded.experiment.workloads)
    assert loaded.experiment.description
    assert len(preset_summary(name)) > 30
    assert load_experiment(f"preset:{name}", facts=FACTS, seed=3).experiment == loaded.experiment


def test_quick_is_what_run_promises() -> None:
    """Default against fitted settings, reads and writes, sized for six minutes."""
    experiment = load_experiment("preset:quick", facts=FACTS).experiment
    default, fitted = experiment.treatments
    assert (default.name, default.settings, experiment.baseline) == ("default", (), "default")
    assert fitted.profiles == ("fitted",)
    assert fitted.settings
    assert [workload.builtin for workload in experiment.workloads] == [
        "select-only",
        "simple-update",
    ]
    assert experiment.loads == (Load(clients=8, threads=4),)
    assert experiment.measure.calibration == Calibration(restarts=2, run_s=10.0, at_least_s=3.0)
    assert experiment.measure.prewarm
    assert experiment.stop.budget_s == 360.0


def test_aa_compares_a_server_with_itself_across_restarts() -> None:
    """The A/A preset differs in nothing and restarts all the same."""
    experiment = load_experiment("preset:aa", facts=FACTS).experiment
    first, second = experiment.treatments
    assert (first.target, first.settings) == (second.target, second.settings)
    assert experiment.measure.switch is SwitchCost.RESTART


def test_protocol_differs_in_the_protocol_alone() -> None:
    """The protocol preset's treatments share everything but the query mode."""
    first, second = load_experiment("preset:protocol", facts=FACTS).experiment.treatments
    assert (first.protocol, second.protocol) == ("simple", "prepared")
    assert (first.target, first.settings) == (second.target, second.settings)


def test_versions_differ_in_the_server_alone() -> None:
    """The versions preset compares binaries with equal initdb options and default settings."""
    old, new = load_experiment("preset:versions", facts=FACTS).experiment.treatments
    assert (old.target.bin, new.target.bin) == ("15", "embedded")
    assert old.target.initdb == new.target.initdb != ()
    assert old.settings == new.settings == ()


def test_scalability_has_loads_for_a_curve() -> None:
    """Seven numbers of clients, doubled each time, under one workload, going on after a verdict."""
    experiment = load_experiment("preset:scalability", facts=FACTS).experiment
    assert [load.clients for load in experiment.loads] == [1, 2, 4, 8, 16, 32, 64]
    assert all(load.rate_per_s is None for load in experiment.loads)
    assert experiment.stop.precision == 0.01
    assert experiment.contenders == ("fitted",)


def test_attribution_is_a_full_factorial_that_fits_its_budget() -> None:
    """Three factors, 8 combinations; 8 blocks of 8 visits are less than the budget."""
    experiment = load_experiment("preset:attribution", facts=FACTS, seed=3).experiment
    attribution = experiment.attribution
    assert attribution is not None
    assert attribution.is_full
    assert [factor.name for factor in attribution.factors] == ["huge-pages", "commit", "buffers"]
    assert len(experiment.treatments) == 8
    assert len(experiment.loads) == 2
    times = SwitchTimes(restore_s=0.5, start_s=1.0)
    block = block_s(experiment, mode=Mode.VISITS, reset=Reset.VISIT, discard_s=1.0, times=times)
    assert 9 * block < experiment.stop.budget_s
    asked = {s.name: s.value for s in experiment.treatment("huge-pages").settings}
    assert asked["huge_pages"] == "on"


def test_the_published_matrix_is_39_runs_in_ascending_order() -> None:
    """Scale 100, 13 combinations of clients and threads, three workloads, 60 s, one treatment."""
    experiment = load_experiment("preset:published-matrix", facts=FACTS, seed=3).experiment
    assert experiment.is_single_pass
    assert len(experiment.treatments) == 1
    pairs = [(load.clients, load.threads) for load in experiment.loads]
    assert pairs == [
        (clients, threads)
        for clients in (1, 10, 25, 50, 100)
        for threads in (1, 4, 8)
        if threads <= clients
    ]
    assert len(pairs) == 13
    planned = schedule_of(experiment, mode=Mode.VISITS, blocks=1)
    (block,) = planned.blocks
    (visit,) = block.visits
    assert [run.cell for run in visit.runs] == list(cells_of(experiment))
    assert len(visit.runs) == 39
    assert experiment.measure.slice_s == 60.0
    assert {workload.scale_factor for workload in experiment.workloads} == {100}
    assert "SINGLE UNREPEATED PASS" in preset_summary("published-matrix")


@pytest.mark.parametrize("name", ["aa", "protocol", "published-matrix", "published-maxed"])
def test_a_preset_runs_on_any_target(name: str) -> None:
    """`--target URI` is all it takes, where the preset neither restarts nor fits this machine."""
    overrides = ["target=postgresql://b@db/x"]
    if name == "aa":  # restarts the server between its two sides
        overrides.append("treatments.first.target.restart_command=[ssh, db, restart]")
    experiment = load_experiment(f"preset:{name}", facts=FACTS, overrides=overrides).experiment
    uris = {target.uri for target in experiment.endpoint_targets.values()}
    assert uris == {"postgresql://b@db/x"}
    assert len(experiment.endpoint_targets) == len(experiment.treatments)


@pytest.mark.parametrize("name", ["quick", "aws-defaults"])
def test_a_preset_that_fits_this_machine_stays_here(name: str) -> None:
    """Settings from this machine's memory are not put on a server somewhere else."""
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(f"preset:{name}", facts=FACTS, overrides=["target=postgresql://b@db/x"])
    (problem,) = refused.value.problems
    assert "fits this machine, not the one of an endpoint" in problem.message


def test_a_path_is_a_file_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the word `preset:NAME` is a preset; a file of that name can still be named by a path."""
    monkeypatch.chdir(tmp_path)
    Path("preset:aa").write_text(preset_text("protocol"), encoding="utf-8")
    assert load_experiment(Path("preset:aa"), facts=FACTS).experiment.baseline == "simple"
    assert load_experiment("preset:aa", facts=FACTS).experiment.baseline == "first"


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    """A misspelled preset is bad input with the way out."""
    with pytest.raises(InputError) as refused:
        load_experiment("preset:quik", facts=FACTS)
    assert refused.value.hint == "did you mean `quick`?"
    assert refused.value.exit_code is ExitCode.BAD_INPUT
