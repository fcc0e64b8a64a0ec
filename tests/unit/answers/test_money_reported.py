"""What a campaign costs in money, from its file to its card, its section and its summary."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from steelyard.answers.campaign import analyse
from steelyard.answers.money import analyse_money, cost_words
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.foresee.forecast import require_affordable
from steelyard.core.experiment import Experiment
from steelyard.core.money import Part, Rates
from steelyard.core.target import LocalTarget
from steelyard.core.wording import PreflightError
from steelyard.record.directory import read_campaign
from steelyard.report.html import render_markdown


def rates(per_hour: float | None, **given: object) -> Rates:
    """Return what a machine costs."""
    missing = "" if per_hour is not None else "the price of a db.x"
    return Rates(parts=(Part(name="machine", per_hour=per_hour, missing=missing),), **given)  # type: ignore[arg-type]


def priced(*costs: Rates | None) -> Experiment:
    """Return an experiment whose configurations cost so much, each on a machine of its own."""
    experiment = an_experiment(speed=1.25)
    return replace(
        experiment,
        configurations=tuple(
            replace(each, target=LocalTarget(cost=cost))
            for each, cost in zip(experiment.configurations, costs, strict=True)
        ),
    )


def run(experiment: Experiment, path: Path) -> CampaignAnalysis:
    """Run it, and return the analysis of what was written."""
    Stage.new(experiment, path).run()
    return analyse(read_campaign(path))


def test_a_faster_server_at_the_same_price_costs_less_per_transaction(tmp_path: Path) -> None:
    """A quarter faster: a fifth cheaper, with the interval of the effect turned over."""
    analysis = run(priced(rates(0.36), rates(0.36)), tmp_path / "c")
    found = analysis.answer(analyse_money)
    assert found is not None
    (change,) = found.changes
    (result,) = analysis.results
    assert result.effect is not None
    assert change.change is not None
    assert change.change.value == pytest.approx(1 / (1 + result.effect.value) - 1)
    assert change.change.value == pytest.approx(-0.2, abs=0.01)
    assert (change.change.low or 0) <= change.change.value <= (change.change.high or 0)
    for cost in found.cells:
        assert cost.value is not None
        assert cost.tps is not None
        assert cost.value.total == pytest.approx(0.36 / 3600 / cost.tps * 1e6)
        assert (cost.low or 0) <= (cost.value.total or 0) <= (cost.high or 0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (None, "nothing says what fast costs"),
        (rates(None), "the price of a db.x"),
        (rates(0.36, currency="EUR"), "the amounts are in different currencies"),
        (rates(0.36, io_per_million=0.2), "I/O is billed by use"),
        (rates(0.36, surplus_per_vcpu_hour=0.075), "surplus CPU credits are billed by use"),
    ],
)
def test_what_is_not_known_is_not_compared(tmp_path: Path, other: Rates | None, why: str) -> None:
    """It says why; the levels that are known stay."""
    analysis = run(priced(rates(0.36), other), tmp_path / "c")
    found = analysis.answer(analyse_money)
    assert found is not None
    (change,) = found.changes
    assert change.change is None
    assert why in change.missing
    assert "Cost of a transaction:" not in render_markdown(build_document(analysis))
    assert found.cells[0].value is not None


def test_a_plan_says_what_an_hour_and_the_campaign_cost() -> None:
    """One machine is paid for once; what is missing is named; without a price nothing is said."""
    assert cost_words(priced(rates(0.36), rates(0.36)), 5400) == (
        "0.3600 USD an hour, at most 0.5400 USD for 90 min"
    )
    assert cost_words(priced(rates(0.36), rates(None)), 5400) == "not known: the price of a db.x"
    assert cost_words(priced(None, None), 3600) == ""


BESIDE = ("data transfer", "taxes")


def test_at_most_holds_what_is_billed_by_use_or_names_it() -> None:
    """10,000 I/Os a second for 50 h are 1,800 million; without a limit they are named."""
    limited = rates(0.36, io_per_million=0.2, ios_at_most=10000, not_counted=BESIDE)
    assert cost_words(priced(rates(0.36), limited), 180_000) == (
        "0.3600 USD an hour, at most 378.00 USD for 50 h, with 360.00 USD for I/O;"
        " not counted: data transfer and taxes"
    )
    unlimited = rates(0.36, io_per_million=0.2, not_counted=BESIDE)
    assert cost_words(priced(rates(0.36), unlimited), 180_000) == (
        "0.3600 USD an hour, 18.00 USD for 50 h; not counted: I/O at 0.2000 USD a million, which"
        " no `io_at_most` limits, data transfer and taxes"
    )


@pytest.mark.parametrize(
    ("given", "most", "told", "way_out"),
    [
        ({"ios_at_most": 10000}, 378.01, "", ""),
        ({"ios_at_most": 10000}, 377.99, "may cost 378.00 USD", "a larger --max-cost"),
        ({}, 1e6, "which no `io_at_most` limits", "io_at_most: 30000"),
        (
            {"missing_io": "the price of I/O in x", "io_per_million": None},
            1e6,
            "I/O in x",
            "--prices",
        ),
    ],
)
def test_a_limit_of_the_cost_holds_io(
    given: dict[str, object], most: float, told: str, way_out: str
) -> None:
    """It is kept with the I/O, or refused with the way out."""
    of_aurora = rates(0.36, **{"io_per_million": 0.2, **given})
    experiment = priced(rates(0.36), of_aurora)
    with pytest.raises(PreflightError) if told else nullcontext() as raised:
        require_affordable(experiment, 180_000, most=most, ttl_s=None)
    if raised is not None:
        assert told in raised.value.message
        assert way_out in raised.value.hint
