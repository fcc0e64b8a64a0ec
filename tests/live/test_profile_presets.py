"""A preset whose settings follow a formula: in force on a real server as the formula says."""

import json

import pytest

from steelyard.gateways.host import LocalHost
from steelyard.places.local.machine import capacity
from support.live import Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

_TINY = (
    "workloads.reads.scale=1",
    "workloads.writes.scale=1",
    "load.clients=2",
    "measure.run_time=1s",
    "measure.discard_start=0s",
    "measure.prewarm=false",
    "measure.calibration=",
    "measure.warm_up=0s",
    "measure.max_other_load=ignore",
    "stop.budget=20m",
)


def test_aws_defaults_are_in_force_as_rds_computes_them(steelyard: Steelyard) -> None:
    """The three formulas over this machine's memory, in the server's own units (8 kB pages)."""
    left = capacity(LocalHost()).memory_bytes * 931 // 1000
    words = [word for each in _TINY for word in ("--override", each)]
    steelyard.until_blocks(1, "run", "preset:aws-defaults", "--dir", "c", "--no-verdict", *words)
    environment = json.loads((steelyard.directory / "c" / "environment.json").read_text())
    (server,) = [each for each in environment["servers"] if each["configuration"] == "aws-defaults"]
    found = {setting["name"]: setting["value"] for setting in server["settings"]}
    assert int(found["max_connections"]) == min(left // 9_531_392, 5000)
    assert int(found["shared_buffers"]) == left // 32_768
    assert int(found["effective_cache_size"]) == left // 16_384
