"""The A/A twin: the baseline against itself, otherwise the experiment as it is."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiment_texts import SMALL, load

from steelyard.campaign.design.schedule import mode_for
from steelyard.campaign.file.files import LoadedExperiment
from steelyard.campaign.foresee.forecast import (
    LEAST_BUDGET_S,
    Forecast,
    aa_twin,
    default_budget_s,
    with_budget,
)
from steelyard.core.experiment import Design, OtherDesign, Reset, Stop, SwitchCost
from steelyard.core.schedule import Mode
from steelyard.stats.spending import stopping_rule


def given(text: str = SMALL, *overrides: str) -> LoadedExperiment:
    """Return an experiment to make a twin of."""
    return load(text, Path("/nonexistent"), *overrides)


def test_both_arms_are_the_baseline() -> None:
    """Target, settings and protocol are equal; only the name differs."""
    loaded = given()
    twin = aa_twin(loaded, switch=SwitchCost.RESTART, budget_s=600.0).experiment
    first, second = twin.configurations
    assert first == loaded.experiment.configuration(loaded.experiment.baseline)
    assert second == replace(first, name="again")
    assert twin.baseline == first.name
    assert twin.contenders == ("again",)


def test_work_and_loads_stay() -> None:
    """The noise is that of the same work in the same slices, at the asked switch."""
    loaded = given()
    twin = aa_twin(loaded, switch=SwitchCost.SESSION, budget_s=600.0).experiment
    assert (twin.workloads, twin.loads) == (loaded.experiment.workloads, loaded.experiment.loads)
    assert twin.measure == replace(loaded.experiment.measure, switch=SwitchCost.SESSION)
    assert twin.seed == loaded.experiment.seed
    assert twin.sustained_s is None


def test_the_design_is_that_of_the_experiment() -> None:
    """Also where the twin could alternate, because it has none of the differences."""
    loaded = given()
    other = OtherDesign(mode=Mode.STARTS, block_s=60.0)
    turns, starts = (
        aa_twin(
            loaded, switch=SwitchCost.RESTART, budget_s=600.0, alternates=alternates, other=other
        ).experiment
        for alternates in (True, False)
    )
    assert (turns.design, starts.design) == (Design.AUTO, Design.ONE_BY_ONE)
    assert (turns.measure.switch, starts.measure.switch) == (None, SwitchCost.RESTART)
    assert turns.twin_of is not None
    assert turns.twin_of.other == other


def test_the_experiment_behind_it_is_remembered() -> None:
    """How many configurations and which stopping rules it has decide at what level it will look."""
    loaded = given(SMALL, "stop.width=1%")
    twin = aa_twin(loaded, switch=SwitchCost.RESTART, budget_s=700.0).experiment
    assert twin.twin_of is not None
    assert twin.twin_of.configurations == len(loaded.experiment.configurations)
    assert twin.twin_of.stop == loaded.experiment.stop
    assert (twin.stop.budget_s, twin.stop.width) == (700.0, None)


def test_a_baseline_called_again_gets_another_twin() -> None:
    """Names stay different."""
    text = SMALL.replace("default", "again").replace("seed: 1", "seed: 1\nbaseline: again")
    twin = aa_twin(given(text), switch=SwitchCost.RESTART, budget_s=600.0).experiment
    assert [configuration.name for configuration in twin.configurations] == ["again", "again-2"]


def test_a_problem_of_the_twin_is_found_in_the_file() -> None:
    """What its second arm inherits is pointed at where the baseline has it."""
    text = SMALL.replace("default: {}", "default: {postgres: {work_mem: 1TB}}")
    loaded = aa_twin(given(text), switch=SwitchCost.RESTART, budget_s=600.0)
    problem = loaded.problem(("configurations", "again", "postgres", "work_mem"), "too much")
    assert problem.line is not None


def expected(block_s: float, twin: LoadedExperiment) -> Forecast:
    """Return a forecast with so long a block after a minute of preparation."""
    return Forecast(
        mode=mode_for(SwitchCost.RESTART),
        switch=SwitchCost.RESTART,
        reset=Reset.START,
        preparation_s=60.0,
        block_s=block_s,
        max_blocks=1,
        stopping=stopping_rule(results=1, first_look=6, max_blocks=1, precision=None),
        warm_up_s=20.0,
        disk_bytes={},
        cached=0,
    )


@pytest.mark.parametrize(
    ("block_s", "own_s", "budget_s"),
    [
        (30.0, 3600.0, LEAST_BUDGET_S),  # twelve blocks fit into ten minutes
        (120.0, 3600.0, 1500.0),  # a minute and twelve blocks
        (121.0, 3600.0, 1560.0),  # whole minutes
        (600.0, 3600.0, 3600.0),  # no longer than the experiment itself
        (600.0, 300.0, LEAST_BUDGET_S),  # but ten minutes also for a shorter one
    ],
)
def test_the_budget_is_ten_minutes_or_twelve_blocks(
    block_s: float, own_s: float, budget_s: float
) -> None:
    """Enough blocks to know a deviation to about a fifth, at no more than the experiment costs."""
    loaded = given()
    own = replace(loaded, experiment=replace(loaded.experiment, stop=Stop(budget_s=own_s)))
    twin = aa_twin(own, switch=SwitchCost.RESTART, budget_s=LEAST_BUDGET_S)
    assert default_budget_s(expected(block_s, twin), twin.experiment) == budget_s
    assert with_budget(twin, budget_s).experiment.stop.budget_s == budget_s


def test_factors_are_remembered_as_results() -> None:
    """Three factors make eight configurations and three results: the level is shared by three."""
    text = SMALL[: SMALL.index("configurations:")] + (
        "factors:\n"
        "  a: {postgres: {work_mem: [1MB, 2MB]}}\n"
        "  b: {postgres: {jit: [false, true]}}\n"
        "  c: {postgres: {enable_sort: [false, true]}}\n"
    )
    twin = aa_twin(given(text), switch=SwitchCost.RESTART, budget_s=600.0).experiment
    assert twin.attribution is None
    assert twin.twin_of is not None
    assert (twin.twin_of.configurations, twin.twin_of.results) == (8, 3)
    # A main effect over eight combinations: eight weights of a quarter.
    assert twin.twin_of.squares == 0.5
