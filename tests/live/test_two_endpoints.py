"""Two servers that are there already, weighed against each other in one campaign."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.endpoint import Server, started
from support.live import Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

PAIR = """\
version: 1
name: two endpoints
baseline: one
workloads:
  - {name: writes, builtin: simple-update, scale_factor: 1}
loads: {clients: 2, threads: 1}
measure: {slice: 1s, ramp: 0s, warm_up: 0s}
stop: {budget: 5m, precision: 99%}
seed: 7
configurations:
  one:
    target: {kind: endpoint, uri: FIRST}
  two:
    target: {kind: endpoint, uri: SECOND}
    postgres: {maintenance_work_mem: 65MB}
"""


@pytest.fixture
def other_server(programs: Path) -> Iterator[Server]:
    """A second server beside the session's own."""
    with started(programs) as made:
        yield made


def test_two_endpoints_in_one_campaign(
    steelyard: Steelyard, server: Server, other_server: Server
) -> None:
    """Each arm runs on its own server, only one of which is changed, and both are left as found."""
    servers = (server, other_server)
    before = [(each.configuration, each.databases) for each in servers]
    text = PAIR.replace("FIRST", json.dumps(server.uri)).replace(
        "SECOND", json.dumps(other_server.uri)
    )
    done = steelyard.run("run", steelyard.experiment(text), "--out", "c", "--yes")
    assert done.returncode == 0, done.stderr
    assert {run["configuration"] for run in steelyard.runs} == {"one", "two"}
    assert any(block["complete"] for block in steelyard.blocks)
    made = [e["thing"] for e in steelyard.journal if e["kind"] == "created" and e.get("thing")]
    assert {thing["host"] for thing in made if thing["resource"] == "database"} == {
        str(each.home) for each in servers
    }
    changed = [thing["host"] for thing in made if thing["resource"] == "settings"]
    assert changed == [str(other_server.home)]
    report = (steelyard.directory / "c" / "report.md").read_text()
    assert all(str(each.home) in report for each in servers)
    assert [(each.configuration, each.databases) for each in servers] == before
