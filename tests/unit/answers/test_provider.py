"""What a provider counted, and what a campaign costs in money."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from fakes.analyses import quick
from fakes.campaigns import Stage, an_experiment
from fakes.clock import FakeClock
from steelyard.answers.campaign import analyse
from steelyard.answers.money import Money, _change, analyse_money, cost_words, provider_series
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.foresee.forecast import require_affordable
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment
from steelyard.core.measurement import BILLED_REQUESTS, ProviderSeries, Run
from steelyard.core.money import IO, Part, Rates
from steelyard.core.outside import Rented
from steelyard.core.target import LocalTarget
from steelyard.core.wording import PreflightError
from steelyard.gateways.aws import Aws
from steelyard.places.aws import await_counts, read_counts
from steelyard.record.directory import read_campaign
from steelyard.report.html import render_markdown
from support.aws import REGION, an_account

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "quick"
SINCE_S = 1_800_000_000.0


def a_series(metric: str, unit: str, *values: float) -> ProviderSeries:
    """Return one value a minute."""
    return ProviderSeries(
        server="steelyard-c-1",
        configurations=("small", "large"),
        metric=metric,
        unit=unit,
        period_s=60.0,
        starts_s=tuple(SINCE_S + 60.0 * place for place in range(len(values))),
        values=values,
    )


def told(*series: ProviderSeries) -> CampaignAnalysis:
    """Return an analysis that knows these."""
    return replace(quick(), answers={provider_series: series})


def test_cloudwatch_is_read_minute_by_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every metric is there; one that nobody published has no values. Late minutes are awaited."""
    with an_account(monkeypatch) as account:
        import boto3  # noqa: PLC0415 - where the emulator is there

        begun = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=9)
        metrics = boto3.client("cloudwatch", region_name=REGION)
        for minute in range(3):
            point = {
                "MetricName": "ReadIOPS",
                "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": "one"}],
                "Timestamp": begun + timedelta(minutes=minute),
                "Value": 100.0 + minute,
            }
            metrics.put_metric_data(Namespace="AWS/RDS", MetricData=[point])
        api, clock = Aws().connect(REGION), FakeClock()
        span = (begun.timestamp() + 5.0, begun.timestamp() + 180.0)
        count = partial(read_counts, Rented.CLUSTER, "one", api, span)
        asked = len(account.calls)
        found = {each.metric: each for each in await_counts(count, clock, span[1], 240.0)}
        assert len(account.calls) == asked + 1
        assert found["ReadIOPS"].values == (100.0, 101.0, 102.0)
        assert found["ReadIOPS"].starts_s[0] == begun.timestamp()
        assert found["BurstBalance"].values == ()
        assert found["VolumeReadIOPs"].period_s == 300.0
        await_counts(count, clock, begun.timestamp() + 420.0, 240.0)
        waited = len(account.calls) - asked - 1
        assert waited > 10  # the last minutes never come: it is patient, and ends
        of_instance = partial(read_counts, Rented.INSTANCE, "another", api, span)
        nothing = await_counts(of_instance, clock, begun.timestamp() + 420.0, 240.0)
        assert len(account.calls) == asked + 1 + waited + 1  # where nothing is, nothing will come
        assert not any(each.is_billed for each in nothing)


def billed_record() -> CampaignRecord:
    """Return a campaign with two runs of an hour each on a cluster, in two cells.

    The first holds 11 whole periods of 600,000 reads and 300,000 writes at 1,000 transactions a
    second, the second 11 of 150,000 and 150,000 at 500. Loading took 836.2 million.
    """
    record = read_campaign(EXAMPLE)
    rates = Rates(
        parts=(Part(name="instance", per_hour=0.164),), io_per_million=0.2, ios_at_most=30000
    )
    configurations = tuple(
        replace(each, target=replace(each.target, cost=rates))
        for each in record.experiment.configurations
    )
    name = configurations[0].name
    first, *_, second = (run for run in record.runs if run.block == 0 and run.configuration == name)
    assert first.cell != second.cell

    def of_an_hour(run: Run, started_at: float, tps: float) -> Run:
        assert run.measurement is not None
        measured = replace(
            run.measurement,
            transactions=tps * 3600,
            seconds=3600.0,
            uncounted=0.0,
            connection_s=2.0,
        )
        return replace(run, started_at=started_at, measurement=measured, turns=())

    long = {
        first.place: of_an_hour(first, SINCE_S + 90.0, 1000.0),
        second.place: of_an_hour(second, SINCE_S + 4000.0, 500.0),
    }
    runs = tuple(
        long[run.place] if run.place in long and run.configuration == name else run
        for run in record.runs
    )
    values = dict.fromkeys(range(-300, 7800, 300), (0.0, 0.0))
    values[-300] = (836.2e6, 0.0)
    values |= dict.fromkeys(range(300, 3600, 300), (600000.0, 300000.0))
    values |= dict.fromkeys(range(4200, 7500, 300), (150000.0, 150000.0))
    series = tuple(
        ProviderSeries(
            server="c",
            configurations=(name,),
            metric=metric,
            unit="",
            period_s=300.0,
            starts_s=tuple(SINCE_S + start for start in sorted(values)),
            values=tuple(values[start][place] for start in sorted(values)),
        )
        for place, metric in enumerate(BILLED_REQUESTS)
    )
    experiment = replace(record.experiment, configurations=configurations)
    return replace(record, experiment=experiment, runs=runs, provider=series)


def found_money(record: CampaignRecord) -> Money:
    """Return what the analysis says of money."""
    money = analyse(record).answer(analyse_money)
    assert money is not None
    return money


def io_costs(record: CampaignRecord) -> dict[tuple[str, str], float | None]:
    """Return what the I/O of a million transactions costs, by configuration and workload."""
    cells = (each for each in found_money(record).cells if each.value is not None)
    return {
        (each.configuration, each.cell.workload): dict(each.value.parts)[IO]
        for each in cells
        if each.value is not None
    }


def test_long_runs_have_the_io_of_their_own_periods() -> None:
    """3 I/Os for each transaction of one load, 2 of the other: 0.60 and 0.40 USD a million."""
    record = billed_record()
    (name, other) = (each.name for each in record.experiment.configurations)
    (first, second) = (each.name for each in record.experiment.workloads)
    costs = io_costs(record)
    assert costs[name, first] == pytest.approx(0.60)
    assert costs[name, second] == pytest.approx(0.40)
    assert costs[other, first] is None  # another server, which counts no I/O
    both = tuple(replace(each, configurations=(name, other)) for each in record.provider)
    shared = io_costs(replace(record, provider=both))
    assert shared[name, first] == pytest.approx(0.60)  # in its own run nothing else went on


def test_short_runs_have_no_io_of_their_own() -> None:
    """Nor has a run in turns, nor one of which reads or writes alone are known."""
    record = billed_record()
    name, workload = record.experiment.configurations[0].name, record.experiment.workloads[0].name
    long = next(run for run in record.runs if run.started_at == SINCE_S + 90.0)
    assert long.measurement is not None
    short = replace(long, measurement=replace(long.measurement, seconds=500.0, transactions=5e5))
    turned = replace(long, turns=next(run.turns for run in record.runs if run.turns))
    for instead in (short, turned):
        runs = tuple(instead if run is long else run for run in record.runs)
        assert io_costs(replace(record, runs=runs))[name, workload] is None
    half = replace(record, provider=record.provider[:1])
    assert io_costs(half)[name, workload] is None
    assert found_money(half).bills == ()


def test_a_campaign_says_what_its_io_cost() -> None:
    """849.4 million I/Os are 169.88 USD, in all and for a million of its transactions."""
    record = billed_record()
    (bill,) = found_money(record).bills
    done = sum(
        run.measurement.transactions + run.measurement.uncounted
        for run in record.runs
        if run.measurement is not None and run.configuration == bill.configurations[0]
    )
    assert (bill.ios, bill.amount) == (pytest.approx(849.4e6), pytest.approx(169.88))
    assert bill.seconds == 27 * 300.0  # 2 h 15 min
    assert bill.per_million == pytest.approx(169.88 / (done / 1e6))
    analysis = analyse(record)
    text = render_markdown(build_document(analysis))
    assert "this campaign made 849.4 million I/Os = 169.88 USD" in text
    (row,) = summary(analysis)["money"]["io"]  # type: ignore[index, call-overload]
    assert (row["ios"], row["amount"]) == (pytest.approx(849.4e6), pytest.approx(169.88))
    # 849.4 million in 8,100 s are 104,864 a second.
    (found,) = (each for each in analysis.findings if each.code == "io-beyond-limit")
    assert "104,864 I/Os a second" in found.message


def test_all_but_the_bill_begins_with_the_first_run() -> None:
    """The period in which it began stays."""
    series = a_series("ReadIOPS", "1/s", 1.0, 2.0, 3.0).since(SINCE_S + 60.0)
    assert (series.starts_s[0], series.values) == (SINCE_S + 60.0, (2.0, 3.0))


@pytest.mark.parametrize(
    ("values", "left"),
    [
        ((100.0, 90.0, 80.0), "about 8 min"),
        ((100.0, 0.0, 60.0), "it was used up"),  # and filled again in a pause
        ((100.0, 99.5), None),
        ((80.0, 100.0), None),
    ],
)
def test_a_balance_that_falls_is_found(values: tuple[float, ...], left: str | None) -> None:
    """With how long the rest lasts at that pace; one that breathes or fills is none."""
    record = replace(
        read_campaign(EXAMPLE),
        provider=(a_series("BurstBalance", "%", *values), a_series("ReadIOPS", "1/s", 9.0, 1.0)),
    )
    found = [f for f in analyse(record).findings if f.code == "credits-spent"]
    assert len(found) == (left is not None)
    assert all(left in finding.message for finding in found if left)


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
        if cost.low is not None and cost.high is not None:  # a rate has no bounds below 6 blocks
            assert cost.low <= cost.value.total <= cost.high


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


def test_a_cost_that_depends_on_the_load_is_no_one_number() -> None:
    """One load is dearer and the other cheaper: the cells say which, the pooled rate neither."""
    analysis = quick()
    costs = {
        each.name: Rates(parts=(Part(name="machine", per_hour=1.0),))
        for each in analysis.experiment.configurations
    }
    results = [
        replace(each, depends_on_load=divided)
        for each in analysis.results[:1]
        for divided in (False, True)
    ]
    pooled, divided = (_change(each, costs) for each in results)
    assert pooled.change is not None
    assert (divided.change, "depends on the load" in divided.missing) == (None, True)
