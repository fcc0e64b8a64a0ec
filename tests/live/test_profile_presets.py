"""Presets whose settings follow a formula: in force on a real server as the formula says."""

import json

import pytest

from steelyard.core.wording import GIB
from steelyard.gateways.host import LocalHost
from steelyard.places.local.machine import capacity
from support.live import Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

# Tiny data and runs: what is in force does not depend on them.
_WORKLOADS = {
    "aws-defaults": ("reads", "writes"),
    "published-maxed": ("reads",),
}
_TINY = (
    "loads.clients=2",
    "measure.slice=1s",
    "measure.ramp=0s",
    "measure.prewarm=false",
    "measure.calibration=",
    "measure.warm_up=0s",
    "measure.neighbours=ignore",
    "stop.budget=20m",
)
_PAGE = 8192


def _in_force(steelyard: Steelyard, preset: str, *changes: str) -> dict[str, str]:
    """Run a preset in little time; return the settings in force of its second configuration."""
    scales = [f"workloads.{name}.scale_factor=1" for name in _WORKLOADS[preset]]
    words = [word for each in (*_TINY, *scales, *changes) for word in ("--set", each)]
    steelyard.until_blocks(1, "run", f"preset:{preset}", "--out", "c", "--yes", *words)
    record = steelyard.directory / "c"
    assert json.loads((record / "summary.json").read_text())["blocks"] >= 1
    environment = json.loads((record / "environment.json").read_text())
    (server,) = [each for each in environment["servers"] if each["configuration"] == preset]
    return {setting["name"]: setting["value"] for setting in server["settings"]}


def test_aws_defaults_are_in_force_as_rds_computes_them(steelyard: Steelyard) -> None:
    """The three formulas over this machine's memory, in the server's own units (8 kB pages)."""
    left = capacity(LocalHost()).memory_bytes * 931 // 1000
    found = _in_force(steelyard, "aws-defaults")
    assert int(found["max_connections"]) == min(left // 9_531_392, 5000)
    assert int(found["shared_buffers"]) == left // 32_768
    assert int(found["effective_cache_size"]) == left // 16_384


def test_published_maxed_is_in_force_as_printed(steelyard: Steelyard) -> None:
    """Every value as printed; on a small machine the 6 GB are scaled down by `--set`."""
    fits = capacity(LocalHost()).memory_bytes >= 8 * GIB
    smaller = ("configurations.published-maxed.postgres.shared_buffers=256MB",)
    found = _in_force(steelyard, "published-maxed", *(() if fits else smaller))
    expected = {
        "shared_buffers": str((6 * GIB if fits else GIB // 4) // _PAGE),
        "max_connections": "200",
        "work_mem": "4096",
        "maintenance_work_mem": "524288",
        "wal_buffers": "8192",
        "random_page_cost": "1.1",
        "effective_io_concurrency": "200",
        "checkpoint_completion_target": "0.9",
    }
    assert {name: found[name] for name in expected} == expected
