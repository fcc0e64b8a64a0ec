"""Long scripts in a given order on real servers: as often in each run, and in succession."""

import json
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from support.endpoint import Server
from support.live import Steelyard, interrupted, wait_for, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

# Times that differ by a factor of 8 and more. The first one draws its parameter, which both sides
# have alike, and finds its rows by an index.
SCRIPTS = {
    "short.sql": "\\set n random(1, 9)\nSELECT count(value) FROM facts WHERE id % 9 = :n;\n",
    "found.sql": "SELECT count(value) FROM facts WHERE id < 10;\n",
    "long.sql": "SELECT sum(sqrt(a.id * b)) FROM facts a, generate_series(1, 12) b;\n",
}
WEIGHTS = {"short.sql": 2, "found.sql": 1, "long.sql": 1}


@pytest.fixture
def facts(server: Server, steelyard: Steelyard) -> Iterator[None]:
    """A database with a table, and scripts that read it."""
    server.do("DROP DATABASE IF EXISTS facts", "CREATE DATABASE facts")
    server.do(
        "CREATE TABLE facts AS SELECT g id, g % 10 kind, md5(g::text) value"
        " FROM generate_series(1, 60000) g",
        "CREATE INDEX ON facts (id)",
        "VACUUM ANALYZE facts",
        database="facts",
    )
    for name, text in SCRIPTS.items():
        (steelyard.directory / name).write_text(text)
    yield
    server.do("DROP DATABASE facts")


def asked(steelyard: Steelyard, server: Server, clients: int, **settings: str) -> str:
    """Write an experiment that tries settings on that server with all scripts; give its name."""
    named = [{"file": name, "weight": weight} for name, weight in WEIGHTS.items()]
    target = {"kind": "existing", "uri": server.uri.replace("/postgres?", "/facts?")}
    text = json.dumps(
        {
            "version": 1,
            "name": "scripts in order",
            "baseline": "now",
            "workloads": [{"name": "scripts", "scripts": named}],
            "load": {"clients": clients, "threads": 1, "protocol": "prepared"},
            "measure": {"run_time": "1s", "warm_up": "1s"},
            "stop": {"budget": "20m", "width": "0.1%"},
            "seed": 7,
            "configurations": {
                "now": {"target": {**target, "allow_existing": True}},
                "changed": {"extends": "now", "postgres": settings},
            },
        }
    )
    (steelyard.directory / "in-order.yaml").write_text(text)
    return "in-order.yaml"


def executions(run: dict[str, Any]) -> dict[str, list[float]]:
    """Return the seconds of each execution of a run by script."""
    return {each["script"]: each["executions_s"] for each in run["latency"]["scripts"]}


def require_equal_mixes(steelyard: Steelyard, clients: int = 1) -> None:
    """Require that each run has each script as often as its weight says."""
    runs = steelyard.counted_runs
    assert len(runs) == 2 * steelyard.complete_blocks
    for run in runs:
        counts = {name: len(times) for name, times in executions(run).items()}
        rounds = counts["found.sql"]
        assert rounds >= clients
        assert rounds % clients == 0
        assert counts == {name: rounds * weight for name, weight in WEIGHTS.items()}
        took = {name: median(times) for name, times in executions(run).items()}
        whole_s = sum(WEIGHTS[name] * took_s for name, took_s in took.items())
        assert run["measurement"]["transactions"] == rounds * sum(WEIGHTS.values())
        assert run["measurement"]["seconds"] == pytest.approx(rounds / clients * whole_s, abs=1e-4)


@pytest.mark.usefixtures("facts")
def test_settings_of_a_session_alternate_script_by_script(
    steelyard: Steelyard, server: Server
) -> None:
    """One session has both in succession: an index that is left out shows in its script.

    Each side has each script as often, nothing of the server is altered, and the record says so.
    """
    before = server.configuration
    settings = {"enable_indexscan": "off", "enable_bitmapscan": "off", "work_mem": "5MB"}
    file = asked(steelyard, server, 1, **settings)
    process = steelyard.start("run", file, "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 2, process)
    done = interrupted(process)
    assert done.returncode == 130, done.stderr
    require_equal_mixes(steelyard)
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["mode"] == "alternating"
    (order,) = plan["in_order"]
    assert order["sessions"] == [
        [["enable_bitmapscan", on], ["enable_indexscan", on]] for on in ("on", "off")
    ]  # what both have alike is not set
    found_s: dict[str, list[float]] = {"now": [], "changed": []}
    for run in steelyard.counted_runs:
        found_s[run["configuration"]] += executions(run)["found.sql"]
    assert median(found_s["changed"]) > 2.0 * median(found_s["now"])
    assert server.configuration == before
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    (told,) = summary["design"]["in_order"]
    assert told["in_succession"]
    assert told["round_s"] > 0.0
    assert "one session runs each script under all of them" in summary["design"]["reason"]
    # Few executions are what was meant, and no finding.
    assert not any(finding["code"] == "few-transactions" for finding in summary["findings"])


@pytest.mark.usefixtures("facts")
def test_configurations_that_are_up_together_have_equal_mixes(
    steelyard: Steelyard, server: Server
) -> None:
    """Two clients: runs of their own have each script as often, and each client its own order."""
    file = asked(steelyard, server, 2, enable_indexscan="off")
    process = steelyard.start("run", file, "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    done = interrupted(process)
    assert done.returncode == 130, done.stderr
    require_equal_mixes(steelyard, clients=2)
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["mode"] == "alternating"
    assert plan["in_order"][0]["sessions"] == []


LOCAL = """\
version: 1
name: scripts in order on two servers
baseline: small
DESIGN
workloads:
  - name: scripts
    prepare: [make.sql]
    scripts: [{file: short.sql, weight: 2}, {file: found.sql}, {file: long.sql}]
load: {clients: 1, threads: 1, protocol: prepared}
measure: {run_time: 1s, warm_up: 1s, discard_start: 0s, machine_limits: off, max_other_load: ignore}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  small:
    target: {kind: local, server: embedded}
    postgres: {shared_buffers: 16MB, huge_pages: "off"}
  large:
    extends: small
    postgres: {shared_buffers: 64MB}
"""


def test_servers_that_differ_in_settings_of_a_session_have_one(steelyard: Steelyard) -> None:
    """The first of those that are up together has the session; the others stand still."""
    settings = '{enable_indexscan: "off", enable_bitmapscan: "off"}'
    text = LOCAL.replace("DESIGN", "").replace("{shared_buffers: 64MB}", settings)
    process = steelyard.start("run", prepared(steelyard, text), "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 2, process)
    done = interrupted(process)
    assert done.returncode == 130, done.stderr
    require_equal_mixes(steelyard)
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["in_order"][0]["sessions"] == [
        [["enable_bitmapscan", on], ["enable_indexscan", on]] for on in ("on", "off")
    ]
    found_s: dict[str, list[float]] = {"small": [], "large": []}
    for run in steelyard.counted_runs:
        found_s[run["configuration"]] += executions(run)["found.sql"]
    assert median(found_s["large"]) > 2.0 * median(found_s["small"])


def prepared(steelyard: Steelyard, text: str) -> str:
    """Write an experiment with all that it needs; give its name."""
    for name, script in SCRIPTS.items():
        (steelyard.directory / name).write_text(script)
    make = "CREATE TABLE facts AS SELECT g id, md5(g::text) value FROM generate_series(1, 60000) g;"
    (steelyard.directory / "make.sql").write_text(f"{make}\nCREATE INDEX ON facts (id);\n")
    return steelyard.experiment(text, "two.yaml")


@pytest.mark.parametrize("design", ["alternating", "one-by-one"])
def test_servers_of_this_machine_have_equal_mixes(steelyard: Steelyard, design: str) -> None:
    """Up together one stands still while the other runs its scripts; else one after another.

    In a block both run them in the same order.
    """
    file = prepared(steelyard, LOCAL.replace("DESIGN", f"design: {design}"))
    process = steelyard.start("run", file, "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    done = interrupted(process)
    assert done.returncode == 130, done.stderr
    require_equal_mixes(steelyard)
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert plan["mode"] == {"alternating": "alternating", "one-by-one": "starts"}[design]
    for run in steelyard.counted_runs:
        assert run["evidence"]["totals"]["server_cpu_s"] > 0.0
    report = whole_report(steelyard.directory / "c")
    assert "rounds a run, each script as often as its weight" in report
