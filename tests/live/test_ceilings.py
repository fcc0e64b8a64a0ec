"""What a place can do at most, measured on real servers and on this machine's device."""

import json
from pathlib import Path

import pytest

from support.live import TINY, Steelyard, living_servers, wait_for, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]
LOCAL = TINY.replace("warm_up: 0s}", "warm_up: 0s, machine_limits: on}")


def test_a_short_campaign_measures_its_place(steelyard: Steelyard) -> None:
    """Every ceiling has a plausible value in order or a reason, and nothing is left behind."""
    options = ("--dir", "c", "--no-verdict", "--override", "stop.budget=20s")
    done = steelyard.run("run", steelyard.experiment(LOCAL), *options)
    assert done.returncode == 0, done.stderr
    environment = json.loads((steelyard.directory / "c" / "environment.json").read_text())
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    found = environment["ceilings"]
    assert len(summary["machine_limits"]) == len(found)
    assert {c["kind"] for c in found} == {
        "round trip",
        "ping-pong",
        "sync",
        "direct read",
        "log write",
    }
    for ceiling in found:
        if ceiling["latency_s"] is None:
            assert ceiling["unknown"]
            assert ceiling["rate_per_s"] is None
            continue
        assert not ceiling["unknown"]
        assert ceiling["latency_s"] > 0
        if ceiling["samples"]:
            assert 0 < ceiling["fastest_s"] <= ceiling["latency_s"] <= ceiling["p99_s"]
    (trip,) = [c for c in found if c["kind"] == "round trip"]
    assert trip["latency_s"] is not None  # the one that every server has
    assert trip["configurations"] == ["default", "buffers"]
    syncs = [c for c in found if c["kind"] == "sync" and c["rate_per_s"]]
    in_force = [c for c in syncs if c["configurations"]]
    assert not syncs or [c["subject"] for c in in_force] == ["fdatasync"]  # Linux's default
    report = whole_report(steelyard.directory / "c")
    assert "Ceilings of this place" in report


def test_a_death_in_the_sync_test_leaves_nothing(steelyard: Steelyard) -> None:
    """Killed while pg_test_fsync writes: it ends with Steelyard, and `clean` removes its file."""
    text = LOCAL.replace("name: tiny", "name: killed")
    process = steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")

    def written() -> list[Path]:
        return list(steelyard.cache.glob("live/*/scripts/ceilings/sync-test"))

    wait_for(lambda: written() or process.poll() is not None)
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert written()
    cleaned = steelyard.run("clean", "c", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert written() == []
    assert living_servers(steelyard.cache) == []
