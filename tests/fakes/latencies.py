"""Synthetic campaigns whose runs logged every transaction: closed loops, and open ones.

Latencies are evenly spaced quantiles of a lognormal distribution whose median moves from run to
run, so a histogram follows from its seed without drawing every transaction.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import ndtri

from fakes.scenes import STARTED_AT, Scene, record_of
from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.findings import Validity
from steelyard.core.measurement import LatencyWindow, Run, RunLatency, ScriptLatency, SustainedRun
from steelyard.core.schedule import CellKey, Load
from steelyard.stats.histogram import histogram_of, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the latencies of a run are like.

    Attributes:
        spread: Standard deviation of their logarithm.
        slow: Share of the transactions that take longer.
        times: So many times longer.
    """

    spread: float = 0.3
    slow: float = 0.0
    times: float = 8.0

    def values_us(self, transactions: int, median_s: float) -> np.ndarray:
        """Return so many latencies in whole microseconds, rising."""
        shares = (np.arange(transactions) + 0.5) / transactions
        values = 1e6 * median_s * np.exp(self.spread * ndtri(shares))
        values[transactions - round(self.slow * transactions) :] *= self.times
        return np.asarray(np.round(values), dtype=np.int64)


def script_of(name: str, values_us: np.ndarray) -> ScriptLatency:
    """Return the counts of these latencies."""
    longest = float(values_us.max()) / 1e6 if len(values_us) else None
    return ScriptLatency(script=name, latency=to_text(histogram_of(values_us)), longest_s=longest)


def logged(run: Run, median_s: float, shape: Shape, scripts: tuple[str, ...] = ("one",)) -> Run:
    """Return the run with its transactions divided evenly among the scripts."""
    assert run.measurement is not None
    each = int(run.measurement.transactions) // len(scripts)
    told = (script_of(name, shape.values_us(each, median_s)) for name in scripts)
    return replace(run, latency=RunLatency(scripts=tuple(told)))


@cache
def tails() -> CampaignAnalysis:
    """Return writes that are faster with a longer tail, and orders of two scripts, few of them."""
    return analyse(_tails_record())


def _tails_record() -> CampaignRecord:
    scene = Scene(
        name="batched commits",
        workloads=("orders", "writes"),
        configurations=("default", "batched"),
        clients=(1, 8),
        effects={("batched", "writes"): 0.4},
        noise=0.015,
        blocks=12,
        max_blocks=12,
        status=Status.BUDGET,
        budget_s=900.0,
    )
    record = replace(record_of(scene), environment=None)
    source = random.Random(scene.seed)  # noqa: S311 - a synthetic campaign, no secret
    return replace(
        record,
        runs=tuple(_with_tail(run, source) for run in record.runs),
        sustained=tuple(
            _long_run(workload, name, slow)
            for workload in scene.workloads
            for name, slow in zip(scene.configurations, (0.004, 0.02), strict=True)
        ),
    )


def _with_tail(run: Run, source: random.Random) -> Run:
    assert run.measurement is not None
    assert run.measurement.latency_mean_s is not None
    median_s = run.measurement.latency_mean_s * np.exp(source.gauss(0.0, 0.02))
    batched = run.configuration == "batched" and run.cell.workload == "writes"
    shape = Shape(slow=0.03 if batched else 0.004)
    scripts = ("pay.sql", "order.sql") if run.cell.workload == "orders" else ("simple-update",)
    return logged(run, float(median_s), shape, scripts)


def _long_run(workload: str, configuration: str, slow: float) -> SustainedRun:
    """Return ten minutes of which the last four are slower."""
    windows = tuple(
        LatencyWindow(
            start_s=10.0 * place,
            end_s=10.0 * (place + 1),
            latency=to_text(
                histogram_of(
                    Shape(slow=slow).values_us(
                        20_000, (0.004 if place < 36 else 0.007) * (1 + 0.1 * np.sin(place))
                    )
                )
            ),
        )
        for place in range(60)
    )
    return SustainedRun(
        configuration=configuration,
        cell=CellKey(workload=workload, load=Load(clients=8, threads=4)),
        started_at=STARTED_AT + 4000.0,
        ramp_s=2.0,
        measurement=None,
        validity=Validity.VALID,
        latency=RunLatency(scripts=(), windows=windows),
    )


@cache
def open_loop() -> CampaignAnalysis:
    """Return one workload at two rates with a latency limit, the higher one with some skipped."""
    scene = Scene(
        name="at a rate",
        workloads=("writes",),
        clients=(4, 16),
        noise=0.004,
        blocks=12,
        max_blocks=12,
        status=Status.BUDGET,
    )
    record = replace(record_of(scene), environment=None)
    return analyse(_with_rates(record))


def _with_rates(record: CampaignRecord) -> CampaignRecord:
    rated = {
        load.clients: replace(load, rate_per_s=100.0 * load.clients, latency_limit_s=0.05)
        for load in record.experiment.loads
    }
    source = random.Random(3)  # noqa: S311 - a synthetic campaign, no secret
    return replace(
        record,
        experiment=replace(record.experiment, loads=tuple(rated.values())),
        runs=tuple(_at_rate(run, rated[run.cell.load.clients], source) for run in record.runs),
    )


def _at_rate(run: Run, load: Load, source: random.Random) -> Run:
    assert run.measurement is not None
    assert load.rate_per_s is not None
    transactions = int(load.rate_per_s * run.measurement.seconds)
    measured = replace(run.measurement, transactions=float(transactions))
    factor = np.exp(source.gauss(0.0, 0.03))
    service = Shape().values_us(transactions, 0.004 * factor)
    lag = Shape(spread=1.2).values_us(transactions, 0.0002 * factor)
    late = int(((service + lag) > 50_000).sum())
    latency = RunLatency(
        scripts=(script_of("simple-update", service + lag),),
        lag=to_text(histogram_of(lag)),
        service=to_text(histogram_of(service)),
        skipped=40 if load.clients == 16 else 0,
        late=late + 5,
    )
    cell = replace(run.cell, load=load)
    return replace(run, cell=cell, measurement=measured, latency=latency)


def without_logs(analysis: Callable[[], CampaignRecord] = _tails_record) -> CampaignRecord:
    """Return the same campaign as an older version recorded it."""
    record = analysis()
    runs = tuple(replace(run, latency=None) for run in record.runs)
    return replace(record, runs=runs, sustained=())
