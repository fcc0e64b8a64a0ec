"""Statements of one's own, on a real server: known effects that their sum hides, and real plans."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from support.benchmarks import load_script
from support.endpoint import Server
from support.live import Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

ORDERS = 60_000
READ = ("spills", "scattered", "keys")  # of the benchmark's
# How long each one sleeps by the value of a setting: one is half as slow again, others faster.
SLEEPS = {"q18": (0.06, 0.09), "q1": (0.06, 0.042), "q2": (0.06, 0.042), "q3": (0.06, 0.06)}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark of own statements."""
    return load_script("own_statements", monkeypatch)


@pytest.fixture
def place(server: Server, benchmark: ModuleType) -> Iterator[str]:
    """A small database of the benchmark's schema, as the experiment names it."""
    yield benchmark.make(server.uri, ORDERS)
    server.do(f"DROP DATABASE {benchmark.DATABASE}")


def scripts(directory: Path, benchmark: ModuleType) -> list[dict[str, str]]:
    """Write all scripts, and return them as an experiment names them."""
    texts = {name: benchmark.statements(ORDERS)[name] for name in READ}
    for name, (before_s, after_s) in SLEEPS.items():
        chosen = f"CASE current_setting('work_mem') WHEN '64MB' THEN {after_s} ELSE {before_s} END"
        texts[name] = f"SELECT pg_sleep({chosen})"
    for name, text in texts.items():
        (directory / f"{name}.sql").write_text(f"{text};\n")
    return [{"file": f"{name}.sql"} for name in texts]


def test_each_statement_is_an_answer(
    steelyard: Steelyard, server: Server, place: str, benchmark: ModuleType
) -> None:
    """Opposite effects are told as mixed and by name; the gate fails by the one that is slower.

    The report has the plan that changes and the bytes of the sort that no longer spills.
    """
    text = {
        "version": 1,
        "name": "own statements",
        "baseline": "now",
        "workloads": [{"name": "reports", "scripts": scripts(steelyard.directory, benchmark)}],
        "load": {"clients": 1, "threads": 1},
        "measure": {"run_time": "1s", "warm_up": "0s", "max_other_load": "ignore"},
        "stop": {"budget": "20m", "blocks": 6, "margin": "5%"},
        "seed": 7,
        "configurations": {
            "now": {
                "postgres": {"work_mem": "64kB"},
                "target": {
                    "kind": "existing",
                    "uri": server.uri.replace("/postgres?", f"/{benchmark.DATABASE}?"),
                    "allow_existing": True,
                },
            },
            "changed": {
                "extends": "now",
                "postgres": {"work_mem": "64MB", "random_page_cost": "1.1"},
            },
        },
    }
    (steelyard.directory / "own.yaml").write_text(json.dumps(text))
    gate = ("--gate", "slower > 10%", "--junit", "gate.xml")
    done = steelyard.run("run", "own.yaml", "--dir", "c", "--no-verdict", *gate)
    assert done.returncode == 10, done.stderr
    assert "failed: changed vs now (baseline), reports, q18" in done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    (result,) = (each for each in summary["comparisons"] if "scripts" in each)
    found = {Path(each["script"]).stem: each for each in result["scripts"]}
    assert set(found) == {*READ, *SLEEPS}
    assert result["is_mixed"]
    words = {name: found[name]["word"] for name in SLEEPS}
    assert words["q18"] == "slower"
    assert {words["q1"], words["q2"]} == {"faster"}
    for name, (before_s, after_s) in SLEEPS.items():
        # On a busy machine each execution takes some milliseconds more, which shrinks the ratio.
        truth = 100.0 * (after_s / before_s - 1.0)
        assert found[name]["change_percent"] == pytest.approx(truth, abs=20.0), name
        assert found[name]["plan_differs"] is False
    assert found["scattered"]["plan_differs"] is True
    used = found["spills"]["used"]
    assert used["now"]["temporary_bytes"] > 0.0
    assert used["changed"]["temporary_bytes"] == 0.0
    screen = " ".join(done.stdout.split())
    assert ": mixed, " in screen
    assert "q18 slower, time +" in screen
    suite = ET.fromstring((steelyard.directory / "gate.xml").read_text())  # noqa: S314 - our own
    cases = [case.get("name", "") for case in suite.iter("testcase")]
    assert len(cases) == 1 + len(found)
    failed = [
        case.get("name", "")
        for case in suite.iter("testcase")
        if case.find("failure") is not None and "q18" in case.get("name", "")
    ]
    assert len(failed) == 1
