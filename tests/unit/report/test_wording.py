"""The verdict words of METHOD 3.6, each in the sentence that a reader sees first."""

from dataclasses import replace

import pytest

from fakes import analyses
from steelyard.answers import results
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.core.campaign import Status
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.schedule import Load

FASTER = Comparison(
    baseline="default",
    configuration="fitted",
    workload="reads",
    load=None,
    effect=Estimate(value=0.123, low=0.081, high=0.169),
    verdict=Verdict.FASTER,
    blocks=9,
    level=0.01,
    contrasts=(),
)
SLOWER = replace(
    FASTER, verdict=Verdict.SLOWER, effect=Estimate(value=-0.04, low=-0.051, high=-0.029)
)
EQUAL = replace(
    FASTER, verdict=Verdict.EQUIVALENT, effect=Estimate(value=0.002, low=-0.006, high=0.008)
)
TINY = replace(
    FASTER, no_practical_weight=True, effect=Estimate(value=0.006, low=0.002, high=0.009)
)
OPEN = replace(
    FASTER,
    verdict=Verdict.NO_CLEAR_DIFFERENCE,
    effect=Estimate(value=0.006, low=-0.011, high=0.024),
    minutes_to_decide=14.2,
)


@pytest.fixture
def full() -> CampaignAnalysis:
    """Return a campaign that used its whole budget."""
    return replace(analyses.quick(), status=Status.BUDGET)


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (
            FASTER,
            "reads: fitted is faster than default by +12.3 % [+8.1 %, +16.9 %] (95 %), 9 blocks",
        ),
        (
            SLOWER,
            "reads: fitted is slower than default: -4.0 % [-5.1 %, -2.9 %] (95 %), 9 blocks",
        ),
        (
            EQUAL,
            (
                "reads: fitted and default are equivalent within 1 %: "
                "+0.20 % [-0.60 %, +0.80 %] (95 %), 9 blocks"
            ),
        ),
        (
            TINY,
            (
                "reads: fitted is faster than default, but by less than 1 %, of no practical "
                "weight: +0.60 % [+0.20 %, +0.90 %] (95 %), 9 blocks"
            ),
        ),
        (
            OPEN,
            (
                "reads: no clear difference between fitted and default: the effect is between"
                " -1.1 % and +2.4 % (95 %), estimate +0.60 %; about 14 more minutes would decide 3"
                " %, 9 blocks"
            ),
        ),
    ],
)
def test_a_verdict_is_one_sentence(
    full: CampaignAnalysis, comparison: Comparison, sentence: str
) -> None:
    """Word, effect, interval, confidence and blocks stand in one sentence."""
    assert results.verdict_sentence(full, comparison) == sentence


@pytest.mark.parametrize("status", [Status.INTERRUPTED, Status.PRECISION, Status.BUDGET])
def test_only_a_verdict_stops_early(status: Status) -> None:
    """An end that did not depend on the effect does not bias it."""
    assert not results.stopped_early(replace(analyses.quick(), status=status))


def test_a_decision_at_the_last_look_is_not_early() -> None:
    """A campaign that used all its blocks did not stop early."""
    analysis = analyses.quick()
    assert analysis.plan is not None
    assert not results.stopped_early(replace(analysis, blocks=analysis.plan.stopping.max_blocks))


def test_an_effect_that_depends_on_load_without_cells_points_to_them() -> None:
    """Even when no cell has an interval yet, no single number stands for all."""
    analysis = replace(analyses.many_loads(), comparisons=())
    sentence = results.verdict_sentence(analysis, replace(FASTER, depends_on_load=True))
    assert "read the cells" in sentence


def test_before_the_first_look_there_is_no_verdict(full: CampaignAnalysis) -> None:
    """An estimate without interval is called what it is."""
    early = replace(
        FASTER, effect=Estimate(value=0.1), note="3 blocks; the first interim result is at 6"
    )
    assert results.verdict_sentence(full, early) == (
        "reads: no verdict yet on fitted against default: 3 blocks; the first interim result is at"
        " 6; "
        "+10.0 % so far, without an interval"
    )
    assert results.verdict_word(early, 0.01) == "no verdict yet"


def test_before_any_block_nothing_is_measured(full: CampaignAnalysis) -> None:
    """No block, no number."""
    assert results.pending(replace(FASTER, effect=None)) == "no block is complete"


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (14.2, "about 14 more minutes would decide 3 %"),
        (0.4, "about 1 more minute would decide 3 %"),
        (200.0, "about 3 h 20 min more would decide 3 %"),
        (1061.0, "about 18 h more would decide 3 %"),
        (None, ""),
    ],
)
def test_more_time(minutes: float | None, text: str) -> None:
    """The time that would decide is said in minutes, from two hours on in hours."""
    assert results.more_minutes(replace(OPEN, minutes_to_decide=minutes), 0.03) == text


@pytest.mark.parametrize(
    ("status", "blocks", "text"),
    [
        (Status.DECIDED, 9, "decided, stopped early, after 9 of at most 24 blocks"),
        (Status.DECIDED, 24, "decided, after all 24 blocks"),
        (Status.BUDGET, 20, "budget of 6 min used up, after 20 blocks"),
        (Status.INTERRUPTED, 3, "interrupted, after 3 of at most 24 blocks"),
        (Status.RUNNING, 3, "not finished, after 3 of at most 24 blocks"),
        (Status.FAILED, 0, "failed before the first block was complete"),
    ],
)
def test_how_it_ended(status: Status, blocks: int, text: str) -> None:
    """Every way to end has its words."""
    assert results.ending(replace(analyses.quick(), status=status, blocks=blocks)) == text


def test_the_asked_precision_is_named() -> None:
    """A campaign that ended at its half-width says which."""
    analysis = analyses.quick()
    stop = replace(analysis.experiment.stop, precision=0.015)
    experiment = replace(analysis.experiment, stop=stop)
    ended = replace(analysis, status=Status.PRECISION, experiment=experiment)
    assert results.ending(ended).startswith("asked half-width of ±1.5 % reached, after 9")


def test_threads_are_named_only_where_clients_do_not_tell_loads_apart() -> None:
    """Two loads with as many clients differ by their threads."""
    experiment = analyses.quick().experiment
    both = replace(experiment, loads=(Load(clients=8, threads=1), Load(clients=8, threads=4)))
    assert results.cell_name(experiment, experiment.loads[0]) == "8 clients"
    assert results.cell_name(both, both.loads[1]) == "8 clients, 4 threads"
    assert results.short_load(both, both.loads[0]) == "8 (1 thread)"
    assert results.short_load(both, Load(clients=2, threads=1, rate_per_s=500.0)) == "2 at 500/s"
