"""A campaign over a server of this machine and one that is there already."""

import json

import pytest
from test_turns_of_endpoints import MAKE, NAP, ratios

from support.endpoint import Server
from support.live import Steelyard, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

# The transactions on the second server are 2 ms longer, which is most of them.
MIXED = """\
version: 1
name: this machine and another
baseline: here
workloads:
  - name: naps
    prepare: [make.sql]
    scripts: [{file: nap.sql}]
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, discard_start: 0s, warm_up: 1s, turn: 250ms}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  here:
    target: {kind: local, server: embedded}
  there:
    target: {kind: existing, uri: SERVER}
    postgres: {work_mem: 9MB}
"""


def test_they_take_turns_alike(steelyard: Steelyard, server: Server) -> None:
    """What makes one slower shows in a block; neither server stood still in pauses.

    The record has the contract, and the endpoint is left as it was found.
    """
    before = (server.configuration, server.databases)
    (steelyard.directory / "make.sql").write_text(MAKE)
    (steelyard.directory / "nap.sql").write_text(NAP)
    source = steelyard.experiment(MIXED.replace("SERVER", json.dumps(server.uri)))
    done = steelyard.until_blocks(1, "run", source, "--dir", "c", "--no-verdict")
    assert done.returncode == 130, done.stderr
    runs = steelyard.counted_runs
    found = ratios(runs, "there", "here")
    assert len(found) == steelyard.complete_blocks
    assert all(ratio < -0.1 for ratio in found)
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert (plan["mode"], plan["pausing"]) == ("alternating", "generator")
    assert plan["restores"] == [["there", "template database"]]
    told = json.loads((steelyard.directory / "c" / "summary.json").read_text())["contract"]
    assert "flush" in told["unequal"]["there"]  # the test's own server has no fsync
    assert "CPUs" in told["not_known"]
    report = whole_report(steelyard.directory / "c")
    assert "| there \N{DAGGER} |" in report
    assert "with pauses for background work" in report
    assert "some of which were there already" in report
    assert (server.configuration, server.databases) == before
