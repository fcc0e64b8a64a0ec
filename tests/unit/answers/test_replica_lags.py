"""How far replicas were behind: which runs count, and what is said where only the primary knew."""

from dataclasses import replace

import pytest

from fakes.analyses import quick
from steelyard.answers.durability.compute import campaign_durability, measured_lags, replica_lags
from steelyard.answers.durability.results import (
    ConfigurationDurability,
    Fate,
    Loss,
    ReplicaLag,
    Survival,
)
from steelyard.answers.report import build_document
from steelyard.core.findings import Validity
from steelyard.core.measurement import Evidence, Quantity, Run
from steelyard.core.schedule import CellKey, Load
from steelyard.core.target import EngineName
from steelyard.report.html import render_markdown

SET = CellKey(workload="set", load=Load(clients=20, threads=1))


def a_run(
    levels: dict[Quantity, float] | None, *, written: float = 4e6, seconds: float = 2.0
) -> Run:
    """Return a run whose primary wrote so many bytes; None: nothing was seen of it."""
    evidence = None
    if levels is not None:
        evidence = Evidence(
            seconds=seconds,
            totals={Quantity.REPLICATION_BYTES: written},
            levels=levels,
            waits=None,
            series=(),
            others=(),
            absent=(),
        )
    return Run(
        block=0,
        attempt=0,
        start=0,
        position=0,
        configuration="split",
        cell=SET,
        started_at=0.0,
        since_start_s=1.0,
        measurement=None,
        validity=Validity.VALID,
        evidence=evidence,
    )


def lag(*bytes_: float) -> list[Run]:
    """Return runs in which both servers were asked."""
    return [a_run({Quantity.REPLICA_LAG_BYTES: each}) for each in bytes_]


def test_the_worst_and_the_usual_are_told() -> None:
    """The most of all runs, the median of their most, and what time of writing that is."""
    (found,) = replica_lags({("split", SET): lag(100_000, 20_000, 8_000_000)})
    assert (found.configuration, found.cell, found.runs, found.compared) == ("split", SET, 3, True)
    assert found.most_bytes == 8_000_000
    assert found.usual_bytes == 100_000
    assert found.usual_s == pytest.approx(0.05)  # of 2 MB a second


def test_what_both_said_goes_before_what_the_primary_heard() -> None:
    """The primary's figure has a second of the stream in it: it only stands in for the other."""
    both = {Quantity.REPLICA_LAG_BYTES: 10.0, Quantity.REPLICA_BEHIND_BYTES: 2e6}
    (found,) = replica_lags({("split", SET): [a_run(both)]})
    assert (found.most_bytes, found.compared) == (10.0, True)
    (alone,) = replica_lags({("split", SET): [a_run({Quantity.REPLICA_BEHIND_BYTES: 2e6})]})
    assert (alone.most_bytes, alone.compared) == (2e6, False)


def test_runs_that_wrote_nothing_or_were_not_seen_do_not_count() -> None:
    """Nothing is behind where nothing is written: that is no evidence of a good replica."""
    idle = a_run({Quantity.REPLICA_LAG_BYTES: 0.0}, written=0.0)
    assert replica_lags({("split", SET): [idle, a_run(None), a_run({})]}) == ()
    (found,) = replica_lags({("split", SET): [idle, *lag(5)]})
    assert found.runs == 1


LAG = ReplicaLag(
    configuration="split",
    cell=SET,
    runs=21,
    most_bytes=3 * 1024**2,
    usual_bytes=200 * 1024,
    usual_s=0.0042,
    compared=True,
)


def report_of(lag_: ReplicaLag) -> str:
    """Return a report with one replica in it."""
    base = quick()
    experiment = replace(base.experiment, engine=EngineName.REDIS)
    made = replace(base, experiment=experiment).with_answer(campaign_durability, durable())
    made = made.with_answer(measured_lags, (lag_,))
    return " ".join(render_markdown(build_document(made)).split())


def durable() -> tuple[ConfigurationDurability, ...]:
    """Return what a configuration may lose."""
    gone = tuple(Survival(loss=loss, fate=Fate.ALL, reason="so it is", source="") for loss in Loss)
    return (ConfigurationDurability(configuration="split", survivals=gone, latencies=()),)


def test_the_report_has_the_lag_beside_what_may_be_lost() -> None:
    """A row with the usual, its time and the worst; where only the primary knew, a note says so."""
    text = report_of(LAG)
    assert "How far replicas were behind under load" in text
    assert "| split | set, 20 clients | 21 | 200.0 KiB | 4.20 ms | 3.0 MiB |" in text
    assert "hears of it once a second" not in text
    assert "hears of it once a second" in report_of(replace(LAG, compared=False))
