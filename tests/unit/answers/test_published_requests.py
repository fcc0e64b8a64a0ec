"""The published figures of Redis beside a campaign: which work is the same, and what is told."""

import pytest

from steelyard.answers.latency.results import (
    Basis,
    LatencyAnalysis,
    LatencyLevels,
    PercentileLevel,
    Timed,
)
from steelyard.answers.published import requests_beside_published
from steelyard.answers.results import CellSummary
from steelyard.campaign.file.files import load_experiment
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Validity
from steelyard.core.schedule import CellKey
from steelyard.core.wording import GIB
from steelyard.tuning.profiles import MachineFacts

FACTS = MachineFacts(cpus=2.0, memory_bytes=8 * GIB)
RATES = {"aof-off": 8000.0, "everysec": 1000.0, "always": 500.0}


def preset(*overrides: str, name: str = "redis-aof") -> Experiment:
    """Return the preset's experiment, changed."""
    return load_experiment(f"preset:{name}", facts=FACTS, seed=1, overrides=overrides).experiment


def estimate(value: float) -> Estimate:
    """Return a value without an interval."""
    return Estimate(value=value, low=None, high=None)


def cells(experiment: Experiment, workload: str = "set") -> list[CellSummary]:
    """Return one cell of each configuration that has a rate."""
    return [
        CellSummary(
            configuration=name,
            cell=CellKey(workload=workload, load=experiment.loads[0]),
            runs=9,
            tps=estimate(tps),
            latency_mean_s=20.0 / tps,
            validity=Validity.VALID,
            stalled=0,
        )
        for name, tps in RATES.items()
    ]


def latencies(experiment: Experiment) -> LatencyAnalysis:
    """Return percentiles of the configuration without an append-only file."""
    level = PercentileLevel(
        share=0.99, basis=Basis.BLOCKS, value_s=estimate(0.005), there=1, needed=1
    )
    return LatencyAnalysis(
        levels=(
            LatencyLevels(
                configuration="aof-off",
                cell=CellKey(workload="set", load=experiment.loads[0]),
                timed=Timed.LATENCY,
                script="",
                blocks=9,
                transactions=1000,
                sampled=1.0,
                percentiles=(level,),
            ),
        ),
        changes=(),
    )


def test_both_sides_stand_beside_each_other() -> None:
    """Here in configuration order, then all seven published; each over its own side's AOF off."""
    experiment = preset()
    found = requests_beside_published(experiment, cells(experiment), latencies(experiment))
    here = [row for row in found if not row.published]
    assert [(row.configuration, row.of_off) for row in here] == [
        ("aof-off", 1.0),
        ("everysec", 0.125),
        ("always", 0.0625),
    ]
    assert [row.p99_s for row in here] == [0.005, None, None]
    assert {row.held_keys for row in here} == {1}
    there = [row for row in found if row.published]
    assert len(there) == 7
    assert {row.command for row in found} == {"SET"}
    slowest = there[-1]
    assert (slowest.per_s, slowest.p99_s, slowest.held_keys) == (537.0, 0.20186, 375_795)
    assert slowest.of_off == pytest.approx(1 / 14.33, rel=1e-3)
    ratio = (slowest.p99_s or 0.0) / (there[0].p99_s or 1.0)
    assert ratio == pytest.approx(39.4, rel=1e-3)


def test_what_was_not_printed_is_missing() -> None:
    """The publication has no p99 of GET, and three configurations of it."""
    experiment = preset()
    found = requests_beside_published(experiment, cells(experiment, "get"), None)
    there = [row for row in found if row.published]
    assert len(there) == 3
    assert [row.p99_s for row in there] == [None] * 3


def test_the_loaded_preset_says_how_many_keys_it_held() -> None:
    """Keys of all databases count: the server holds them all."""
    experiment = preset(name="redis-aof-loaded")
    found = requests_beside_published(experiment, cells(experiment), None)
    assert {row.held_keys for row in found if not row.published} == {37_501}


@pytest.mark.parametrize(
    "override",
    [
        "workloads.set.keys=100000",
        "workloads.set.value_bytes=1024",
        "loads.clients=19",
        "loads.pipeline=2",
        "workloads.set.builtin=incr",
    ],
)
def test_other_work_has_nothing_beside_it(override: str) -> None:
    """Another key space, size, load or test is not the published work."""
    experiment = preset(override)
    assert requests_beside_published(experiment, cells(experiment), None) == ()


def test_without_an_own_aof_off_there_is_no_ratio() -> None:
    """A share of something that was not measured is missing, never a guess."""
    experiment = preset()
    without = [each for each in cells(experiment) if each.configuration != "aof-off"]
    found = requests_beside_published(experiment, without, None)
    assert {row.of_off for row in found if not row.published} == {None}


def test_postgresql_has_none() -> None:
    """A campaign of PostgreSQL never gets figures of Redis."""
    experiment = preset(name="quick")
    assert requests_beside_published(experiment, cells(experiment, "reads"), None) == ()
