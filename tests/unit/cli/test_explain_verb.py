"""``steelyard explain`` on records made for it, and on a record of a campaign without probes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fakes import reasons
from fakes.campaigns import a_record
from steelyard.answers.costs import campaign_ledger
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.answers.report import Listed
from steelyard.answers.results import CampaignAnalysis
from steelyard.cli import campaigns
from steelyard.cli.main import cli
from steelyard.core.wording import InputError, RecordError


def invoke(*words: str | Path) -> Result:
    """Return the outcome of a command line."""
    return CliRunner().invoke(cli, ["explain", *map(str, words)])


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a campaign's directory whose analysis is that of the watched campaign."""
    show(reasons.explained(), monkeypatch)
    return a_record(tmp_path / "campaign")


def show(analysis: CampaignAnalysis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the verb find this analysis in every directory."""
    found = Listed(directory="campaign", size_bytes=1, analysis=analysis)
    monkeypatch.setattr(campaigns, "listed_campaign", lambda _: found)


def test_every_comparison_has_verdict_reason_waterfall_and_costs(watched: Path) -> None:
    """Both loads of both workloads, each with its bars and its ledger; the cost of watching."""
    text = invoke(watched).output
    for cell in ("reads, 1 client", "reads, 8 clients", "writes, 1 client", "writes, 8 clients"):
        assert f"{cell}: async vs default (baseline)" in text
    assert "async vs default (baseline): faster" in text
    assert "is WAL sync (WalSync" in " ".join(text.split())
    assert "what differs is synchronous_commit" in " ".join(text.split())
    assert "no part of the latency changed by more than its interval" in text
    assert "█" in text
    assert "CPU of the server" in text
    assert "Watching 96 runs cost" in text
    assert "may not read /proc/PID/smaps" in text


def test_a_cell_can_be_chosen(watched: Path) -> None:
    """A workload, or one load of it."""
    both = invoke(watched, "--cell", "writes").output
    assert all(f"writes, {load}: async vs" in both for load in ("1 client", "8 clients"))
    assert "reads," not in both
    one = invoke(watched, "--cell", "writes/8").output
    assert "writes, 8 clients" in one
    assert "writes, 1 client" not in one
    assert "reads," not in one


@pytest.mark.parametrize("cell", ["orders", "writes/9", "/8", "writes/x"])
def test_an_unknown_cell_is_answered_with_the_known_ones(watched: Path, cell: str) -> None:
    """A sentence with what there is, exit code 2."""
    error = invoke(watched, "--cell", cell).exception
    assert isinstance(error, InputError)
    assert "reads, writes" in error.hint
    assert "1, 8" in error.hint


def test_programs_get_the_same(watched: Path) -> None:
    """Per comparison: verdict, sentence, waterfall in seconds, costs; and how it was watched."""
    made = json.loads(invoke(watched, "--cell", "writes/8", "--json").output)
    (comparison,) = made["comparisons"]
    assert comparison["parts"] == ["wal"]
    assert comparison["differing"] == ["synchronous_commit"]
    waterfall = comparison["waterfall"]
    moved = sum(part["change_s"]["estimate"] for part in waterfall["parts"])
    reached = waterfall["baseline_s"] + moved + waterfall["remainder_s"]
    assert reached == pytest.approx(waterfall["configuration_s"])
    assert comparison["ledger"]["costs"]["wal_syncs"]["change_percent"] < -99
    assert made["watching"]["absent"][0]["subject"] == "huge pages"


def test_a_record_without_evidence_says_so(
    watched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reason is made up; the exit code is that of a campaign that could be read."""
    show(reasons.explained().with_answer(campaign_reasons, None), monkeypatch)
    shown = invoke(watched)
    assert shown.exit_code == 0
    assert "No reason can be told: no run of a complete block" in " ".join(shown.output.split())
    made = json.loads(invoke(watched, "--json").output)
    assert (made["comparisons"], made["watching"]) == ([], None)
    assert made["missing"].startswith("No reason can be told: no run of a complete block")
    assert isinstance(invoke(tmp_path).exception, RecordError)


def test_without_a_comparison_the_cells_are_shown(
    watched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single configuration has parts and costs, though nothing to compare them with."""
    analysis = reasons.explained()
    assert analysis.answer(campaign_reasons) is not None
    alone = replace(
        analysis.answer(campaign_reasons),
        explanations=(),
        budget=replace(analysis.answer(campaign_reasons).budget, changes=()),
        ledger=replace(analysis.answer(campaign_reasons).ledger, changes=()),
    )
    made = analysis.with_answer(campaign_reasons, alone)
    show(made.with_answer(campaign_ledger, alone.ledger), monkeypatch)
    text = invoke(watched).output
    assert "Latency and its parts in all cells" in text
    assert "What a transaction costs" in text
