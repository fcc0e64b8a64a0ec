"""Each script of a workload is a result of its own, and what they hide together is told."""

import json
import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from steelyard.answers import gate
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document, summary
from steelyard.answers.result.compute import decide
from steelyard.answers.results import CampaignAnalysis, verdict_sentence, verdict_word
from steelyard.answers.scripts.compute import execution_of, titles_of
from steelyard.answers.scripts.verdicts import Execution, ScriptResult
from steelyard.core.campaign import Status
from steelyard.core.findings import Outcome, Verdict, parse_condition
from steelyard.core.measurement import RunLatency, StatementPlan
from steelyard.report.terminal import render_terminal
from unit.answers.scripted_records import a_scripted_record

MIX = {"q18": 0.5, **{f"q{number}": -0.08 for number in range(1, 6)}}


def of(analysis: CampaignAnalysis) -> dict[str, ScriptResult]:
    """Return the scripts of the only result by their titles."""
    (result,) = analysis.results
    return {each.title: each for each in result.scripts}


def test_a_mix_of_opposite_effects_names_both() -> None:
    """One statement at +50 % and five at -8 %: the sum hides them, and no word of it does."""
    analysis = analyse(a_scripted_record(MIX))
    (result,) = analysis.results
    assert result.no_practical_weight or not result.verdict.decided
    assert verdict_word(result, 0.05) == "mixed"
    said = verdict_sentence(analysis, result)
    assert "mixed, q18 slower, time +" in said
    assert re.search(r"q[1-5] faster, time -", said)
    assert "no clear difference" not in said
    assert Counter(each.word for each in result.scripts) == {"faster": 5, "slower": 1}


def test_a_sum_that_differs_says_that_its_scripts_do_not_agree() -> None:
    """The headline keeps its verdict, which is true of the sum."""
    analysis = analyse(a_scripted_record({"long": 0.5, "short": -0.3}, executions=40))
    (result,) = analysis.results
    slower_s, faster_s = (of(analysis)[name].added_s for name in ("long", "short"))
    assert slower_s > 0 > faster_s
    assert result.is_mixed
    assert verdict_word(result, 0.05).endswith("mixed")


def test_effects_below_the_margin_are_no_mix() -> None:
    """Of no practical weight in either direction."""
    effects = {"up": 0.02, "down": -0.02}
    analysis = analyse(a_scripted_record(effects, noise=0.002, margin=0.05))
    (result,) = analysis.results
    assert not result.is_mixed
    assert all(each.no_practical_weight for each in result.scripts)


def test_the_screen_lists_scripts_by_consequence() -> None:
    """Those that differ first, the seconds that they add deciding; with the plan's change."""

    def plan(script: str, node: str) -> StatementPlan:
        statement = f"SELECT {script}"
        return StatementPlan(
            workload="reports", statement=statement, lines=(node,), script=f"{script}.sql"
        )

    plans = {
        "t0": [plan("q18", "Sort"), plan("q1", "Seq Scan")],
        "t1": [plan("q18", "HashAggregate"), plan("q1", "Seq Scan")],
    }
    analysis = analyse(a_scripted_record({"same": 0.0, **MIX}, plans=plans))
    screen = render_terminal(build_document(analysis), 100, more="steelyard report c")
    lines = screen[screen.index("reports: t1 vs t0 (baseline)\n") :].splitlines()
    lines = lines[next(at for at, line in enumerate(lines) if line.startswith("q")) :]
    assert lines[0].startswith("q18")
    assert {line.split()[0] for line in lines[1:6]} == {f"q{number}" for number in range(1, 6)}
    assert "slower" in lines[0]
    assert "changed" in lines[0]
    assert of(analysis)["q18"].plan_differs is True
    assert of(analysis)["q1"].plan_differs is False
    assert of(analysis)["q2"].plan_differs is None
    assert "its plan changed" in screen


def test_of_many_scripts_the_screen_has_the_first_rows() -> None:
    """The report has all of two hundred; on the screen those that are equivalent are a number."""
    effects = {f"s{number:03}": 0.3 * (number < 20) for number in range(200)}
    analysis = analyse(a_scripted_record(effects, executions=3))
    differing = {each.title for each in of(analysis).values() if each.differs}
    assert differing == {f"s{number:03}" for number in range(20)}
    words = Counter(each.word for each in of(analysis).values())
    document = build_document(analysis)
    screen = render_terminal(document, 100, more="it")
    assert f"and {200 - words['equivalent'] - 12} more in the whole report" in screen
    assert f"{words['equivalent']} more scripts equivalent" in screen
    assert "s199" in render_terminal(document, 100)


def test_where_all_scripts_are_equivalent_there_are_no_more_than_them() -> None:
    """Nothing stands above the number."""
    analysis = analyse(a_scripted_record({f"s{number}": 0.0 for number in range(8)}, executions=30))
    screen = render_terminal(build_document(analysis), 100, more="it")
    assert "\n8 scripts equivalent\n" in screen


def test_of_several_configurations_the_screen_has_sentences() -> None:
    """Tables of each would fill screens; the report has them."""
    record = a_scripted_record({"a": 0.5, "b": 0.0})
    third = replace(record.experiment.configurations[1], name="t2")
    experiment = replace(
        record.experiment, configurations=(*record.experiment.configurations, third)
    )
    more = [replace(run, configuration="t2") for run in record.runs if run.configuration == "t1"]
    analysis = analyse(replace(record, experiment=experiment, runs=(*record.runs, *more)))
    document = build_document(analysis)
    screen = " ".join(render_terminal(document, 100, more="it").split())
    assert "reports, t1 vs t0 (baseline): a slower, time +" in screen
    assert "reports, t2 vs t0 (baseline): a slower, time +" in screen
    (section,) = (each for each in document.sections if each.anchor == "scripts")
    tables = [block for block in section.blocks if hasattr(block, "rows")]
    assert len(tables) == 2
    assert not any(hasattr(block, "rows") for block in section.brief)


def test_times_that_vary_too_much_are_unstable() -> None:
    """At the end only: before it more blocks may come."""
    noise = {"wild": 0.8, "calm": 0.01}
    record = a_scripted_record({"wild": 0.0, "calm": 0.0}, noise=noise)
    found = of(analyse(record))
    assert found["wild"].word == "unstable"
    assert found["calm"].word == "equivalent"
    assert found["wild"].block_sd is not None
    assert found["wild"].block_sd > 0.3
    running = replace(record, status=Status.RUNNING)
    early = replace(running, plan=replace(record.plan, stopping=_longer(record.plan.stopping)))
    assert of(analyse(early))["wild"].word == "no clear difference"
    document = build_document(analyse(record))
    assert "unstable: wild: the times vary" in render_terminal(document, 100, more="it")
    whole = " ".join(render_terminal(document, 100).split())
    assert "1 script unstable: wild" in whole
    assert "Their wait events are not known" in whole


def _longer(rule):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - a stopping rule
    return replace(rule, max_blocks=30)


def test_a_campaign_ends_when_each_script_is_decided() -> None:
    """A sum that is decided does not end it alone."""
    analysis = analyse(a_scripted_record({"a": 0.4, "b": 0.4, "c": 0.06}, noise=0.05))
    (result,) = analysis.results
    rule = analysis.plan.stopping if analysis.plan else None
    assert rule is not None
    undecided = replace(result.scripts[2], verdict=Verdict.NO_CLEAR_DIFFERENCE)
    sure = replace(result, verdict=Verdict.SLOWER)
    assert decide([replace(sure, scripts=(*result.scripts[:2], undecided))], rule) is None
    decided = tuple(replace(each, verdict=Verdict.SLOWER) for each in result.scripts)
    assert decide([replace(sure, scripts=decided)], rule) is Status.DECIDED


def test_the_gate_names_the_scripts_that_fail_it() -> None:
    """A test case for each of 200 beside that of their sum; one fails."""
    effects = {f"s{number:03}": 0.4 * (number == 7) for number in range(200)}
    analysis = analyse(a_scripted_record(effects, executions=3, noise=0.005))
    judged = gate.judge(analysis, (parse_condition("slower > 3%"),))
    failed = [each for each in judged if each.outcome is Outcome.FAILED]
    assert [each.script.title for each in failed if each.script] == ["s007"]
    assert "reports, s007, 1 client: +" in failed[0].line
    told = gate.junit("test", judged, undecided_fails=False, analysis=analysis)
    suite = ET.fromstring(told)  # noqa: S314 - our own
    names = [case.get("name", "") for case in suite.iter("testcase")]
    assert len(names) == len(set(names)) == 201
    (failure,) = (case for case in suite.iter("testcase") if case.find("failure") is not None)
    assert "s007" in failure.get("name", "")
    assert float(failure.get("time", "0")) > 0.0


def test_scripts_are_called_by_their_files() -> None:
    """Without directory and suffix, unless two are then the same."""
    assert titles_of(("q/one.sql", "two.sql")) == {"q/one.sql": "one", "two.sql": "two"}
    assert titles_of(("a/q.sql", "b/q.sql"))["a/q.sql"] == "a/q.sql"


def test_one_script_alone_is_the_result_itself() -> None:
    """Nor is there anything without logs."""
    assert not of(analyse(a_scripted_record({"only": 0.3})))
    record = a_scripted_record({"a": 0.3, "b": 0.0})
    unlogged = replace(record, runs=tuple(replace(run, latency=None) for run in record.runs))
    assert not of(analyse(unlogged))


def test_blocks_without_an_execution_are_said() -> None:
    """A rare script is compared over the blocks in which both sides completed it."""
    record = a_scripted_record({"a": 0.0, "rare": 0.0})

    def without(latency: RunLatency) -> RunLatency:
        return replace(latency, scripts=latency.scripts[:1])

    runs = tuple(
        replace(run, latency=without(run.latency)) if run.block < 3 and run.latency else run
        for run in record.runs
    )
    found = of(analyse(replace(record, runs=runs)))
    assert (found["a"].blocks, found["rare"].blocks) == (12, 9)
    assert found["rare"].reason == "a side did not complete it in 3 blocks of 12"


def test_blocks_without_a_log_are_not_called_incomplete() -> None:
    """Of three blocks of one side nobody knows whether the script was completed."""
    record = a_scripted_record({"a": 0.1, "b": 0.0})
    runs = tuple(
        replace(run, latency=None) if run.configuration == "t1" and run.block < 3 else run
        for run in record.runs
    )
    (result,) = analyse(replace(record, runs=runs)).results
    assert {each.reason for each in result.scripts} == {"a side was not logged in 3 blocks of 12"}


def test_before_the_first_interim_result_there_is_no_verdict() -> None:
    """An estimate is shown, without an interval and without a word for it."""
    early = a_scripted_record({"a": 0.3, "b": 0.0}, blocks=3, status=Status.RUNNING)
    found = of(analyse(early))["a"]
    assert found.word == "no verdict yet"
    assert found.change is not None
    assert found.level is None
    screen = render_terminal(build_document(analyse(early)), 100, more="it")
    assert screen.count("no verdict yet") >= 2


def test_what_turns_have_cut_counts_as_long() -> None:
    """The median is right as long as less than half were cut, and else it is not told."""
    record = a_scripted_record({"a": 0.0, "b": 0.0}, executions=5, noise=0.001)

    def cut(number: int) -> ScriptResult:
        def longer(latency: RunLatency) -> RunLatency:
            return replace(
                latency, scripts=tuple(replace(each, cut=number) for each in latency.scripts)
            )

        runs = (replace(run, latency=run.latency and longer(run.latency)) for run in record.runs)
        return of(analyse(replace(record, runs=tuple(runs))))["a"]

    assert cut(2).medians_s[0] == pytest.approx(0.05, rel=0.01)
    assert cut(2).executions == (84, 84)
    assert cut(6).medians_s == (None, None)
    assert cut(6).reason == "its median is too long for turns"


def test_executions_in_order_are_compared_in_pairs() -> None:
    """What drifts inside a block hits both executions of a pair, and the ratio has nothing of it.

    Sides of different numbers of executions have no pairs.
    """
    record = a_scripted_record({"a": 0.1, "b": 0.0}, noise=0.002, in_order=True)
    drift = np.array([1.0, 4.0, 0.5, 2.0, 3.0])

    def drifted(latency: RunLatency, drift: np.ndarray) -> RunLatency:
        return replace(
            latency,
            scripts=tuple(
                replace(each, executions_s=tuple(drift * each.executions_s[: len(drift)]))
                for each in latency.scripts
            ),
        )

    runs = [
        replace(run, latency=run.latency and drifted(run.latency, drift)) for run in record.runs
    ]
    found = of(analyse(replace(record, runs=tuple(runs))))["a"]
    assert found.block_sd is not None
    assert found.block_sd < 0.003
    assert found.change is not None
    assert found.change.value == pytest.approx(0.1, abs=0.003)
    fewer = [
        replace(run, latency=run.latency and drifted(run.latency, drift[:3]))
        if run.configuration == "t1"
        else run
        for run in runs
    ]
    unpaired = of(analyse(replace(record, runs=tuple(fewer))))["a"]
    assert unpaired.change is not None
    assert unpaired.change.value == pytest.approx(0.1, abs=0.01)


def test_programs_read_the_same() -> None:
    """``summary.json`` has each script below the result of all loads, and CSV a row."""
    analysis = analyse(a_scripted_record(MIX))
    result = json.loads(json.dumps(summary(analysis)))["comparisons"][0]
    assert result["is_mixed"] is True
    first = result["scripts"][0]
    assert (first["script"], first["word"]) == ("q18.sql", "slower")
    assert first["low_percent"] < first["change_percent"] < first["high_percent"]
    assert np.isclose(first["medians_s"][1] / first["medians_s"][0], 1.5, rtol=0.03)
    section = next(each for each in build_document(analysis).sections if each.anchor == "scripts")
    (table,) = (block for block in section.blocks if hasattr(block, "rows"))
    assert dict(table.data[0])["script"] == "q18.sql"
    assert dict(table.data[0])["workload"] == "reports"


EXPLAINED = """\
Sort (actual time=41.1..41.2 rows=10 loops=1)
  Sort Key: (sum(a))
  Buffers: shared hit=5 read=3, temp read=10 written=20
  ->  Seq Scan on a (actual time=0.1..20.0 rows=1000 loops=1)
        Buffers: shared hit=5 read=2, temp written=7
Planning:
  Buffers: shared hit=100 read=99
Planning Time: 0.2 ms
JIT:
  Functions: 7
  Options: Inlining false, Optimization false, Expressions true, Deforming true
  Timing: Generation 0.5 ms (Deform 0.1 ms), Inlining 0.0 ms, Optimization 3.0 ms, Total 12.5 ms
Execution Time: 41.5 ms"""


def test_what_an_execution_used_is_that_of_its_topmost_node() -> None:
    """Planning is not in it; of several statements it is the sum; without a time nothing is."""
    lines = EXPLAINED.splitlines()
    used = Execution(execution_s=0.0415, pages_read=3.0, temporary_bytes=20 * 8192.0, jit_s=0.0125)
    assert execution_of([lines]) == used
    assert execution_of([lines, lines]).temporary_bytes == 40 * 8192.0
    assert execution_of([lines, ["Seq Scan"]]) == Execution()
    plain = ["Result (actual rows=1 loops=1)", "Execution Time: 0.02 ms"]
    assert execution_of([plain]).jit_s == 0.0
