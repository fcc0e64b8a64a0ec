"""Servers that every start makes, with several rounds, on real PostgreSQL."""

import json
import re

import pytest

from support.live import TINY, Steelyard, lasting

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_every_start_makes_its_server_and_nothing_is_left(steelyard: Steelyard) -> None:
    """Made by initdb and load, not from prepared data; nothing is kept, and the report says so."""
    text = TINY.replace("warm_up: 0s", "warm_up: 0s, switch: reprovision, runs_per_start: 2")
    before = set((steelyard.cache / "prepared").glob("*"))
    source = steelyard.experiment(lasting(text))
    steelyard.until_blocks(1, "run", source, "--dir", "c", "--no-verdict")
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    blocks = summary["blocks"]
    assert blocks >= 1
    assert (summary["design"]["switch"], summary["design"]["runs_per_start"]) == ("reprovision", 2)
    assert summary["design"]["restore"] == "reprovision"
    assert re.match(rf"{blocks} newly made servers? per configuration", summary["unit"])
    assert set((steelyard.cache / "prepared").glob("*")) == before
    starts: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for run in steelyard.runs:
        starts.setdefault((run["block"], run["attempt"], run["start"]), []).append(run)
    assert all(len(runs) <= 2 for runs in starts.values())
    for runs in starts.values():
        ages = [run["checkpoint"]["seconds"] for run in runs]
        assert all(age is not None for age in ages)
        assert ages == sorted(ages)
