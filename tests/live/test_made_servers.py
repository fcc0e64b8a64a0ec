"""Servers that every start makes, and starts with several rounds, on real PostgreSQL."""

import json
import re

import pytest

from support.live import TINY, Steelyard, lasting

pytestmark = [pytest.mark.live, pytest.mark.slow]


def _entries(steelyard: Steelyard) -> list[dict[str, object]]:
    path = steelyard.directory / "c" / "journal.jsonl"
    return [json.loads(line)["entry"] for line in path.read_text().splitlines()]


def _runs(steelyard: Steelyard) -> list[dict[str, object]]:
    return [entry["run"] for entry in _entries(steelyard) if entry["kind"] == "run"]


def test_every_start_makes_its_server_and_nothing_is_left(steelyard: Steelyard) -> None:
    """Made by initdb and load, not from prepared data; nothing is kept, and the report says so."""
    text = TINY.replace("warm_up: 0s", "warm_up: 0s, switch: reprovision, rounds: 2")
    before = set((steelyard.cache / "prepared").glob("*"))
    source = steelyard.experiment(lasting(text))
    steelyard.until_blocks(2, "run", source, "--out", "c", "--yes")
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    blocks = summary["blocks"]
    assert blocks >= 2
    assert (summary["design"]["switch"], summary["design"]["rounds"]) == ("reprovision", 2)
    assert summary["design"]["restore"] == "reprovision"
    assert re.match(rf"{blocks} newly made servers? per configuration", summary["unit"])
    assert set((steelyard.cache / "prepared").glob("*")) == before
    starts: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for run in _runs(steelyard):
        starts.setdefault((run["block"], run["attempt"], run["start"]), []).append(run)
    assert all(len(runs) <= 2 for runs in starts.values())
    for runs in starts.values():
        ages = [run["checkpoint"]["seconds"] for run in runs]
        assert all(age is not None for age in ages)
        assert ages == sorted(ages)


def test_settings_of_the_wal_are_measured_over_a_whole_cycle(steelyard: Steelyard) -> None:
    """With a cycle of 30 s a start has as many rounds as fill it, and the ages span it."""
    text = TINY.replace("shared_buffers: 64MB", "wal_compression: pglz").replace(
        "bin: embedded}", "bin: embedded}\n    postgres: {checkpoint_timeout: 30s}"
    )
    source = steelyard.experiment(lasting(text))
    steelyard.until_blocks(1, "run", source, "--out", "c", "--yes")
    plan = next(e["plan"] for e in _entries(steelyard) if e["kind"] == "planned")
    assert plan["rounds_for"] == "checkpoint cycle"
    rounds = plan["rounds"]
    runs = [run for run in _runs(steelyard) if run["block"] == 0]
    # Back to back: one start, every configuration once in every round.
    assert len(runs) == 2 * rounds
    first, last = runs[0], runs[-1]
    assert last["since_start_s"] - first["since_start_s"] >= 0.8 * 30
    phases = [run["checkpoint"]["seconds"] for run in runs]
    assert max(phases) >= 0.5 * 30
    report = (steelyard.directory / "c" / "report.md").read_text()
    assert "wal_compression changes over a checkpoint cycle" in report
