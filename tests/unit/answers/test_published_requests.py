"""The published figures of Redis beside a campaign: which work is the same, and its table."""

from dataclasses import replace

import pytest

from fakes.analyses import quick
from steelyard.answers.latency import compute
from steelyard.answers.published import (
    RequestRow,
    published_json,
    request_section,
    requests_beside,
)
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis, CellSummary
from steelyard.campaign.file.files import load_experiment
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Validity
from steelyard.core.schedule import CellKey
from steelyard.core.wording import GIB
from steelyard.report.document import Table
from steelyard.report.html import render_markdown
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


def latencies(experiment: Experiment) -> compute.LatencyAnalysis:
    """Return percentiles of the configuration without an append-only file."""
    level = compute.PercentileLevel(
        share=0.99, basis=compute.Basis.BLOCKS, value_s=estimate(0.005), there=1, needed=1
    )
    return compute.LatencyAnalysis(
        levels=(
            compute.LatencyLevels(
                configuration="aof-off",
                cell=CellKey(workload="set", load=experiment.loads[0]),
                timed=compute.Timed.LATENCY,
                script="",
                blocks=9,
                transactions=1000,
                sampled=1.0,
                percentiles=(level,),
            ),
        ),
        changes=(),
    )


def campaign(
    experiment: Experiment,
    summaries: list[CellSummary],
    latency: compute.LatencyAnalysis | None = None,
) -> CampaignAnalysis:
    """Return the analysis of a campaign with these cells."""
    analysis = replace(quick(), experiment=experiment, cells=tuple(summaries))
    return analysis.with_answer(compute.campaign_latency, latency)


def beside(experiment: Experiment, workload: str = "set") -> list[RequestRow]:
    """Return the rows of one workload."""
    return [*requests_beside(campaign(experiment, cells(experiment, workload)))]


def test_both_sides_stand_beside_each_other() -> None:
    """Here in configuration order, then all seven published; each over its own side's AOF off."""
    experiment = preset()
    rows = [*requests_beside(campaign(experiment, cells(experiment), latencies(experiment)))]
    here = [row for row in rows if not row.published]
    assert [(row.configuration, row.of_aof_off) for row in here] == [
        ("aof-off", 1.0),
        ("everysec", 0.125),
        ("always", 0.0625),
    ]
    assert [row.latency_p99_s for row in here] == [0.005, None, None]
    assert {row.held_keys for row in here} == {1}
    there = [row for row in rows if row.published]
    assert len(there) == 7
    assert {row.command for row in rows} == {"SET"}
    slowest = there[-1]
    assert (slowest.requests_per_s, slowest.latency_p99_s) == (537.0, 0.20186)
    assert slowest.held_keys == 375_795
    assert slowest.of_aof_off == pytest.approx(1 / 14.33, rel=1e-3)
    ratio = (slowest.latency_p99_s or 0.0) / (there[0].latency_p99_s or 1.0)
    assert ratio == pytest.approx(39.4, rel=1e-3)


def test_what_was_not_printed_is_missing() -> None:
    """The publication has no p99 of GET, and three configurations of it."""
    there = [row for row in beside(preset(), "get") if row.published]
    assert len(there) == 3
    assert [row.latency_p99_s for row in there] == [None] * 3


def test_the_loaded_preset_says_how_many_keys_it_held() -> None:
    """Keys of all databases count: the server holds them all."""
    rows = beside(preset(name="redis-aof-loaded"))
    assert {row.held_keys for row in rows if not row.published} == {37_501}


@pytest.mark.parametrize(
    "override",
    [
        "workloads.set.keys=100000",
        "workloads.set.value_bytes=1024",
        "load.clients=19",
        "load.pipeline=2",
        "workloads.set.builtin=incr",
    ],
)
def test_other_work_has_nothing_beside_it(override: str) -> None:
    """Another key space, size, load or test is not the published work."""
    assert beside(preset(override)) == []


def test_without_an_own_aof_off_there_is_no_ratio() -> None:
    """A share of something that was not measured is missing, never a guess."""
    experiment = preset()
    without = [each for each in cells(experiment) if each.configuration != "aof-off"]
    rows = requests_beside(campaign(experiment, without))
    assert {row.of_aof_off for row in rows if not row.published} == {None}


def test_postgresql_has_none() -> None:
    """A campaign of PostgreSQL has no figures of Redis, in no section and for no program."""
    assert beside(preset(name="quick"), "reads") == []
    assert [*request_section(quick())] == []
    assert "published_requests" not in published_json(quick())
    assert "Beside the published" not in render_markdown(build_document(quick()))


def test_the_table_names_sides_and_source_and_says_that_it_is_no_comparison() -> None:
    """Whose figure each is, what may be laid beside the other, who published it, and what."""
    experiment = preset()
    (section,) = request_section(campaign(experiment, cells(experiment)))
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert section.title == table.title == "Beside the published figures"
    assert table.rows[1].cells[:6] == ("SET", "here", "everysec", "1", "1,000", "12.5 %")
    assert table.rows[-1].cells[1:3] == ("published", "Longhorn, AOF on, with data")
    for words in (
        "Published, other machine",
        "is no comparison",
        "of the published rows with data, too, it is over the one without any",
        "here over one that held as many keys as the row",
        'Iwan Setiawan, "Redis AOF + Distributed Storage: A Cautionary Benchmark"',
    ):
        assert words in table.note
