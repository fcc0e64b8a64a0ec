"""What a provider counted: read from an emulated CloudWatch, kept, told, never taken for 0."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from fakes.analyses import quick
from fakes.clock import FakeClock
from steelyard.answers.campaign import analyse
from steelyard.answers.money import analyse_money, provider_series
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import BILLED_REQUESTS, ProviderSeries
from steelyard.core.money import IO, Part, Rates
from steelyard.core.outside import Rented
from steelyard.gateways.aws import Aws
from steelyard.places.aws import await_counts, read_counts
from steelyard.record.directory import read_campaign
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


def test_billed_requests_are_in_the_cost_of_a_transaction() -> None:
    """Of a cluster that one configuration has alone, with one workload; else nobody knows."""
    record = read_campaign(EXAMPLE)
    rates = Rates(
        parts=(Part(name="instance", per_hour=0.164),), io_per_million=0.2, currency="USD"
    )
    configurations = tuple(
        replace(each, target=replace(each.target, cost=rates))
        for each in record.experiment.configurations
    )
    (one, other), (reads, *_) = configurations, record.experiment.workloads
    alone = replace(record.experiment, configurations=configurations, workloads=(reads,))
    runs = tuple(run for run in record.runs if run.cell.workload == reads.name)
    ends = [run.started_at + run.measurement.seconds for run in runs if run.measurement]
    span_s = max(ends) - runs[0].started_at
    done = sum(
        run.measurement.transactions + run.measurement.uncounted
        for run in runs
        if run.measurement is not None and run.configuration == one.name
    )
    # Four periods in the runs count; one while the data were made and one at the end do not.
    period_s = span_s / 4.5
    starts = tuple(runs[0].started_at + period_s * place for place in range(-1, 5))
    each_s = done / span_s
    billed = [
        ProviderSeries(
            server="c",
            configurations=(one.name,),
            metric=name,
            unit="",
            period_s=period_s,
            starts_s=starts,
            values=(1e9, *4 * (2.0 * each_s * period_s,), 1e9),
        )
        for name in BILLED_REQUESTS
    ]
    record = replace(record, experiment=alone, runs=runs, provider=tuple(billed))

    def costs(record: CampaignRecord) -> dict[str, float | None]:
        money = analyse(record).answer(analyse_money)
        assert money is not None
        return {each.configuration: dict(each.value.parts)[IO] for each in money.cells}

    assert costs(record)[one.name] == pytest.approx(4 * 0.2)  # two reads, two writes
    assert costs(record)[other.name] is None
    assert costs(replace(record, provider=tuple(billed[:1])))[one.name] is None
    shared = tuple(replace(each, configurations=(one.name, other.name)) for each in billed)
    assert costs(replace(record, provider=shared))[one.name] is None
    few = tuple(replace(e, starts_s=e.starts_s[:2], values=e.values[:2]) for e in billed)
    assert costs(replace(record, provider=few))[one.name] is None


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
