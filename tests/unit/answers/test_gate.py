"""A gate: only a whole interval fails or passes, and only where it may be believed."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import analyses
from steelyard.answers import gate
from steelyard.answers.campaign import analyse
from steelyard.answers.result.compute import decide
from steelyard.answers.results import Comparison
from steelyard.core.campaign import Status
from steelyard.core.findings import Condition, Direction, Estimate, Outcome, parse_condition, worst
from steelyard.core.wording import InputError
from unit.answers.scripted_records import a_scripted_record

SLOWER = parse_condition("slower > 3%")
FASTER = parse_condition("faster > 3%")


@pytest.mark.parametrize(
    ("text", "direction", "beyond"),
    [
        ("slower > 3%", Direction.SLOWER, 0.03),
        ("faster>12.5 %", Direction.FASTER, 0.125),
        ("faster > 250%", Direction.FASTER, 2.5),
        ("slower > 0%", Direction.SLOWER, 0.0),
    ],
)
def test_a_condition_is_read_and_written(text: str, direction: Direction, beyond: float) -> None:
    """What it says of itself is read as the same."""
    condition = parse_condition(text)
    assert condition == Condition(direction=direction, beyond=beyond)
    assert parse_condition(str(condition)) == condition


@pytest.mark.parametrize(
    "text",
    ["", "slower", "slower > 3", "slower < 3%", "slower > -3%", "slower > 100%", "p99 > 5%", "3%"],
)
def test_what_is_no_condition_is_refused_with_the_way_out(text: str) -> None:
    """One that could never come true likewise."""
    with pytest.raises(InputError) as refused:
        parse_condition(text)
    assert "slower > 3%" in refused.value.hint


BOUNDS = st.floats(-0.99, 5.0)


@given(bounds=st.tuples(BOUNDS, BOUNDS), beyond=st.floats(0.0, 0.9))
def test_an_interval_fails_where_all_of_it_lies_beyond(
    bounds: tuple[float, float], beyond: float
) -> None:
    """It passes where nothing of it does, and never both ways at once."""
    low, high = sorted(bounds)
    effect = Estimate(value=(low + high) / 2.0, low=low, high=high)
    slower = Condition(direction=Direction.SLOWER, beyond=beyond).judge(effect)
    faster = Condition(direction=Direction.FASTER, beyond=beyond).judge(effect)
    assert (slower is Outcome.FAILED) == (high < -beyond)
    assert (slower is Outcome.PASSED) == (low >= -beyond)
    assert (faster is Outcome.FAILED) == (low > beyond)
    assert (faster is Outcome.PASSED) == (high <= beyond)
    assert [slower, faster].count(Outcome.FAILED) <= 1


def test_without_bounds_nothing_is_decided() -> None:
    """Below six blocks there is an estimate and no interval."""
    assert SLOWER.judge(None) is Outcome.UNDECIDED
    assert SLOWER.judge(Estimate(value=-0.5)) is Outcome.UNDECIDED


def test_one_that_failed_outweighs_one_undecided() -> None:
    """And that one all that passed."""
    order = (Outcome.PASSED, Outcome.UNDECIDED, Outcome.FAILED)
    assert [worst(order[: n + 1]) for n in range(3)] == list(order)


def _one(effect: tuple[float, float], **changed: object) -> tuple[Comparison, ...]:
    """Return the comparisons of a campaign, the first result with another interval."""
    first, *rest = analyses.quick().comparisons
    low, high = effect
    there = replace(first, effect=Estimate(value=(low + high) / 2.0, low=low, high=high))
    return (replace(there, **changed), *rest)  # type: ignore[arg-type]  # any field of it


def test_results_are_judged_and_loads_only_where_they_disagree() -> None:
    """A pooled effect would hide what it averages."""
    comparisons = _one((-0.09, -0.05))
    results = [c for c in comparisons if c.load is None]
    judged = gate.judge_results(comparisons, (SLOWER,))
    assert [each.comparison for each in judged] == results
    assert judged[0].outcome is Outcome.FAILED
    divided = _one((-0.09, -0.05), depends_on_load=True)
    cells = [c for c in divided if c.load is not None and c.workload == divided[0].workload]
    loads = [each.comparison for each in gate.judge_results(divided, (SLOWER,))]
    assert loads == [*cells, *results[1:]]


def test_scripts_are_judged_where_their_result_depends_on_the_load_too() -> None:
    """They hang on the result; a faster one may hide a slower one at every load."""
    analysis = analyse(a_scripted_record({"q1": 0.45, "q2": -0.6}))
    result, *cells = analysis.comparisons
    divided = (replace(result, depends_on_load=True), *cells)
    judged = gate.judge_results(divided, (SLOWER,))
    assert [each.comparison.load for each in judged if each.script is None] == [
        cell.load for cell in cells
    ]
    outcomes = {each.script.title: each.outcome for each in judged if each.script is not None}
    assert outcomes == {"q1": Outcome.FAILED, "q2": Outcome.PASSED}


def test_an_effect_without_an_interval_says_so() -> None:
    """Before the first interim result; a dash would be no word."""
    (first, *_) = _one((-0.09, -0.05))
    assert first.effect is not None
    early = replace(first, effect=replace(first.effect, low=None, high=None))
    (judged,) = gate.judge_results([early], (SLOWER,))
    assert judged.outcome is Outcome.UNDECIDED
    assert "without an interval yet; the gate fails where" in judged.line


def test_a_suspect_result_neither_fails_nor_passes() -> None:
    """A negative control that differs says that something else did it."""
    suspect = gate.judge_results(_one((-0.09, -0.05), control="reads-of-another"), (SLOWER,))[0]
    assert suspect.outcome is Outcome.UNDECIDED
    assert "reads-of-another" in suspect.line


@pytest.mark.parametrize("status", [Status.INTERRUPTED, Status.FAILED, Status.RUNNING])
def test_a_campaign_that_did_not_end_passes_nothing(status: Status) -> None:
    """It may fail: an interval holds at whatever block it stopped."""
    for effect, outcome in (((0.01, 0.05), Outcome.UNDECIDED), ((-0.09, -0.05), Outcome.FAILED)):
        analysis = replace(analyses.quick(), status=status, comparisons=_one(effect))
        judged = gate.judge(analysis, (SLOWER,))
        assert judged[0].outcome is outcome
        assert all(each.outcome is not Outcome.PASSED for each in judged)


def test_a_campaign_ends_when_its_gate_has_an_outcome() -> None:
    """Before a verdict or after one, by its conditions alone."""
    plan = analyses.quick().plan
    assert plan is not None
    rule = replace(plan.stopping, precision=None)
    (open_one,) = _one((-0.05, -0.01))[:1]
    (passed,) = _one((-0.02, 0.02))[:1]
    assert decide([open_one], rule, (SLOWER,)) is None
    assert decide([passed], rule, (SLOWER,)) is Status.DECIDED
    assert decide([passed, open_one], rule, (SLOWER, FASTER)) is None
    assert decide([], rule, (SLOWER,)) is None


def test_a_report_says_what_the_file_asks_for() -> None:
    """Where it asks for nothing there is no section and no key."""
    analysis = analyses.quick()
    assert (gate.gate_section(analysis), gate.gate_json(analysis)) == ((), {})
    asked = replace(analysis, experiment=replace(analysis.experiment, gate=(SLOWER,)))
    rows = gate.gate_json(asked)["gate"]
    assert isinstance(rows, list)
    assert len(rows) == len([c for c in asked.comparisons if c.load is None])
    (section,) = gate.gate_section(asked)
    assert section.first
    assert len(section.blocks) == len(rows)


@pytest.mark.parametrize("undecided_fails", [True, False])
def test_junit_has_a_case_for_each_outcome(*, undecided_fails: bool) -> None:
    """Hostile names are text; what is undecided fails or is skipped."""
    hostile = "]]><x/>\x00\x1b"
    comparisons = (
        *_one((-0.09, -0.05), workload=hostile)[:1],
        *_one((-0.05, -0.01))[:1],
        *_one((-0.01, 0.01))[:1],
    )
    judged = gate.judge_results(comparisons, (SLOWER,))
    suite = ET.fromstring(gate.junit(hostile, judged, undecided_fails=undecided_fails))  # noqa: S314 - ours
    cases = suite.findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True, undecided_fails, False]
    skipped = [case.find("skipped") is not None for case in cases]
    assert skipped == [False, not undecided_fails, False]
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "skipped")}
    failures = 2 if undecided_fails else 1
    assert counts == {"tests": 3, "failures": failures, "skipped": 2 - failures}
    assert "]]><x/>" in cases[0].attrib["name"]


def test_junit_has_times_and_the_rates_of_both_sides() -> None:
    """Beside each case, a line for each load; the suite took what the campaign did."""
    analysis = analyses.quick()
    judged = gate.judge(analysis, (SLOWER,))
    suite = ET.fromstring(  # noqa: S314 - ours
        gate.junit("quick", judged, undecided_fails=True, analysis=analysis)
    )
    assert float(suite.attrib["time"]) == pytest.approx(analysis.elapsed_s, abs=1e-3)
    for each, case in zip(judged, suite.findall("testcase"), strict=True):
        compared = each.comparison
        loads = {
            cell.cell.load
            for cell in analysis.cells
            if cell.cell.workload == compared.workload and compared.load in (None, cell.cell.load)
        }
        said = [line for line in (case.findtext("system-out") or "").splitlines() if "->" in line]
        assert len(said) == len(loads)
        assert {line.partition(":")[0] for line in said} == {load.label for load in loads}
        sides = (compared.baseline, compared.configuration)
        assert all(f"{side} " in line and " tps" in line for line in said for side in sides)
        failed = case.find("failure")
        assert failed is None or failed.attrib["message"] != case.findtext("system-out")
        measured_s = sum(
            run.measurement.seconds
            for run in analysis.runs
            if run.measurement is not None
            and run.cell.workload == compared.workload
            and run.configuration in sides
        )
        assert float(case.attrib.get("time", "0")) == pytest.approx(measured_s, abs=1e-3)


def test_what_ended_a_campaign_is_an_error_of_junit() -> None:
    """Beside what can be said all the same; where nothing was measured it stands alone."""
    broken = gate.Broken(kind="error", message='relation "items" does not exist')
    alone = ET.fromstring(gate.junit("shop", (), undecided_fails=True, broken=broken))  # noqa: S314 - ours
    assert (alone.attrib["tests"], alone.attrib["errors"], alone.attrib["failures"]) == (
        *("1", "1"),
        "0",
    )
    assert "time" not in alone.attrib
    (error,) = alone.iter("error")
    assert error.attrib == {"type": "error", "message": broken.message}
    judged = gate.judge_results(_one((-0.09, -0.05)), (SLOWER,))
    both = ET.fromstring(gate.junit("shop", judged, undecided_fails=True, broken=broken))  # noqa: S314 - ours
    assert int(both.attrib["tests"]) == len(judged) + 1
    assert len(list(both.iter("error"))) == 1


def test_a_report_shows_the_conditions_that_it_is_given() -> None:
    """In place of the run's own; and no campaign that broke off has passed."""
    analysis = replace(analyses.quick(), comparisons=_one((-0.09, -0.05)))
    own = gate.under_conditions(analysis, (SLOWER,))
    wide = gate.under_conditions(own, (parse_condition("slower > 90%"),))
    outcomes = [
        {(row["condition"], row["outcome"]) for row in gate.gate_json(each)["gate"]}  # type: ignore[union-attr, index, call-overload]
        for each in (own, wide)
    ]
    assert ("slower > 3%", "failed") in outcomes[0]
    assert outcomes[1] == {("slower > 90%", "passed")}
    broken = replace(wide, status=Status.INTERRUPTED)
    assert {row["outcome"] for row in gate.gate_json(broken)["gate"]} == {"undecided"}  # type: ignore[union-attr, index, call-overload]
