"""The example campaigns: real records from which today's code makes the reports shown."""

import json

import pytest

from steelyard.cli.campaigns import rendered
from steelyard.core.findings import Verdict
from steelyard.record.directory import read_campaign
from support.examples import CAMPAIGNS, EXAMPLES, analysis_of
from support.snapshots import differences

LONGEST_S = 16 * 60  # a quarter of an hour, and the block that had begun
# Each block of it makes Clusters and volumes anew, three times.
ON_KUBERNETES, LONGEST_ON_KUBERNETES_S = "published-storage", 2 * 3600


def test_the_examples_are_there() -> None:
    """The campaigns that the project promises."""
    promised = {"aa", "fitted", "protocol", "versions", "published-matrix"}
    promised |= {"noise", "attribution", "scalability"}
    assert set(CAMPAIGNS) >= promised


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_record_gives_the_report_that_is_shown(name: str) -> None:
    """A journal of an earlier day is still read, and gives the stored report to the byte.

    Figures may differ in the last digits, which depend on the CPU.
    """
    path, analysis = EXAMPLES / name, analysis_of(name)
    assert (path / "report.md").read_text() == rendered(analysis, "markdown")
    stored = json.loads((path / "summary.json").read_text())
    written = json.loads(rendered(analysis, "json"))
    assert differences(stored, written, rel=1e-9) == []


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_an_example_takes_at_most_fifteen_minutes(name: str) -> None:
    """Whoever repeats one need not wait longer, a long run and Kubernetes apart."""
    record = read_campaign(EXAMPLES / name)
    long_s = sum(run.measurement.seconds for run in record.sustained if run.measurement is not None)
    longest_s = LONGEST_ON_KUBERNETES_S if name == ON_KUBERNETES else LONGEST_S
    assert record.elapsed_s - long_s <= longest_s
    assert round(long_s) <= LONGEST_S


def test_the_published_matrix_is_the_whole_of_it() -> None:
    """39 runs at scale 100, shorter than the published ones, and the report says so."""
    record = read_campaign(EXAMPLES / "published-matrix")
    assert len(record.counted_runs) == 39
    assert {workload.scale_factor for workload in record.experiment.workloads} == {100}
    report = (EXAMPLES / "published-matrix" / "report.md").read_text()
    assert "Here: 8 s per cell, not 60 s, one run per cell" in report


def test_all_three_factors_are_decided() -> None:
    """A large, a middle and a small effect, in less than a quarter of an hour."""
    analysis = analysis_of("attribution")
    verdicts = {result.configuration: result.verdict for result in analysis.results}
    assert verdicts == dict.fromkeys(
        ("huge-pages=on", "statements=prepared", "buffers=512MB"), Verdict.FASTER
    )


def test_an_effect_that_depends_on_load_has_no_other_word() -> None:
    """One client gains by a CPU that stays awake, eight lose by half of the CPUs."""
    lines = (EXAMPLES / "published-stack-factorial" / "report.md").read_text().splitlines()
    main = [line for line in lines if line.startswith("| reads | main effect |")]
    assert [line.rsplit(" | ", 1)[1] for line in main] == [
        "depends on load |",
        "depends on load |",
        "no clear difference |",
    ]
    cells = {
        (each.configuration, each.load.clients): each.effect
        for each in analysis_of("published-stack-factorial").comparisons
        if each.load is not None and each.effect is not None
    }
    exclusive, awake = "exclusive-cpus=exclusive", "wake-ups=awake"
    assert (cells[exclusive, 8].high or 0.0) < 0.0 < (cells[exclusive, 1].high or 0.0)
    assert (cells[awake, 1].low or 0.0) > (cells[awake, 8].high or 0.0)


def test_a_slower_flush_costs_one_client_and_not_fifty() -> None:
    """On classes made slower on purpose; what only reads does not see them."""
    effects = {
        (each.workload, each.configuration, each.load.clients): each.effect
        for each in analysis_of(ON_KUBERNETES).comparisons
        if each.load is not None and each.effect is not None
    }
    for script in ("simple-update", "tpcb-like"):
        one, three = (effects[script, name, 1] for name in ("1r", "2r"))
        assert three.value < one.value
        assert max(one.high or 0.0, three.high or 0.0) < 0.0
        for name in ("1r", "2r"):
            many = effects[script, name, 50]
            assert (many.low or 0.0) < 0.0 < (many.high or 0.0)
    report = (EXAMPLES / ON_KUBERNETES / "report.md").read_text()
    ranked = [line for line in report.splitlines() if line.startswith("| 2\N{EN DASH}3 |")]
    assert len(ranked) == 4
    assert all("| depends on load: -" in line for line in ranked)
    assert all(
        (each.low or 0.0) < 0.0 < (each.high or 0.0)
        for (script, _, _), each in effects.items()
        if script == "select-only"
    )


def test_every_example_has_its_command_in_the_index() -> None:
    """The index names each campaign and the command that repeats it."""
    index = (EXAMPLES / "README.md").read_text()
    for name in CAMPAIGNS:
        assert f"({name}/report.md)" in index
        assert read_campaign(EXAMPLES / name).command in index
