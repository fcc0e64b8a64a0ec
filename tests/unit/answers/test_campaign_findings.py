"""What the user should know beside the verdicts, and what was not visible."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from made_records import a_record, an_experiment, compared, noise
from watched_records import DEFAULT, a_watched_record, reasons_of, with_parts

from steelyard.answers.campaign import analyse
from steelyard.answers.observations import observe
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.answers.report import build_document
from steelyard.answers.result.cards import doubts
from steelyard.answers.results import CellSummary
from steelyard.answers.timeline import TrackName, timelines
from steelyard.core.campaign import BlockOutcome, CampaignRecord, Status
from steelyard.core.findings import Finding, Severity, Validity
from steelyard.core.measurement import Absence, Quantity
from steelyard.report.terminal import render_terminal


def found(record: CampaignRecord, code: str) -> Finding | None:
    """Return the finding of a rule, or None."""
    return next((f for f in analyse(record).findings if f.code == code), None)


def test_a_clean_campaign_has_none() -> None:
    """Enough valid blocks without stalls, failures or drift: nothing to say."""
    assert analyse(compared(12, 0.02)).findings == ()


def test_not_enough_blocks() -> None:
    """Seven blocks are one too few; the remedy says how long a block takes."""
    finding = found(compared(7), "not-enough-blocks")
    assert finding is not None
    assert finding.message == "7 complete blocks; a verdict needs at least 8"
    assert "a block takes about 2 min" in finding.remedy or "about 120 s" in finding.remedy
    assert found(compared(8), "not-enough-blocks") is None
    assert found(compared(1), "not-enough-blocks").message.startswith("1 complete block;")


def test_a_budget_that_ended_too_early_has_a_way_out() -> None:
    """How long it would have taken, as an option that can be copied; once, and no other way."""
    record = replace(compared(7), status=Status.BUDGET)
    analysis = analyse(record)
    plan = analysis.plan
    assert plan is not None
    missing = plan.stopping.first_look - analysis.blocks
    assert missing > 0
    screen = " ".join(render_terminal(build_document(analysis), 100, more="all").split())
    (minutes,) = map(int, re.findall(r"run it with --budget (\d+)m", screen))
    assert 60 * minutes >= analysis.elapsed_s + missing * plan.block_s
    assert screen.count("a verdict needs at least") == 1
    going_on = build_document(analyse(replace(record, status=Status.INTERRUPTED)))
    assert "--budget" not in render_terminal(going_on, 100, more="all")


@pytest.mark.parametrize(
    ("warm_up_s", "start_s", "words", "way"),
    [
        (40.0, 0.5, "80 s of it warm-up", "a shorter measure.warm_up (a"),
        (0.0, 0.5, "of it load", "fewer loads or a shorter measure.run_time (a"),
        (2.0, 300.0, "10 min of it starts and restoring", "fewer configurations or less data (a"),
    ],
)
def test_the_way_out_shortens_what_a_block_spends_its_time_on(
    warm_up_s: float, start_s: float, words: str, way: str
) -> None:
    """Warm-up, load or starts of two configurations: the largest part, with its own lever."""
    record = replace(compared(7), status=Status.BUDGET)
    assert record.plan is not None
    warm_up = replace(record.plan.warm_up, warm_up_s=warm_up_s)
    plan = replace(record.plan, warm_up=warm_up, start_s=start_s, data_s=0.0)
    remedy = found(replace(record, plan=plan), "not-enough-blocks").remedy
    assert words in remedy
    assert way in remedy


def test_a_single_configuration_needs_no_verdict() -> None:
    """Where nothing is compared, few blocks are no shortcoming."""
    alone = compared(2, experiment=an_experiment(configurations=1))
    assert found(alone, "not-enough-blocks") is None


def test_failed_transactions() -> None:
    """Failures are added up per configuration and named."""
    record = compared(9)
    runs = tuple(
        replace(run, measurement=replace(run.measurement, failed=2))
        if (run.configuration, run.block) == ("t1", 4)
        else run
        for run in record.runs
    )
    finding = found(replace(record, runs=runs), "failed-transactions")
    assert finding is not None
    assert (finding.message, finding.subject) == ("t1: 10 failed transactions", "t1")


@pytest.mark.parametrize("residual", [(), (0.002,), (0.002, 0.03)])
def test_warm_up_risk(residual: tuple[float, ...]) -> None:
    """A measured rest above 1 % is a warning; what was not measured is a fact of the method."""
    record = compared(9)
    warm_up = replace(record.plan.warm_up, risk="it is short", residual_fraction=residual)
    told = found(replace(record, plan=replace(record.plan, warm_up=warm_up)), "warm-up-risk")
    shown = None if told is None else (told.message, told.severity)
    assert shown == (("it is short", Severity.WARNING) if 0.03 in residual else None)


@pytest.mark.parametrize(("per_block", "told"), [(-0.03, True), (0.0, False)])
def test_drift(per_block: float, *, told: bool) -> None:
    """A machine that gets slower throughout is told of, and the effect is unharmed."""
    log_tps = noise(15) + per_block * np.arange(15)[:, None, None]
    log_tps[:, 1] += 0.05
    record = a_record(log_tps, an_experiment())
    assert (found(record, "drift") is not None) is told
    effect = analyse(record).results[0].effect
    assert effect.low < np.expm1(0.05) < effect.high


@pytest.mark.parametrize(("thrown", "severity"), [(2, Severity.INFO), (5, Severity.WARNING)])
def test_blocks_redone(thrown: int, severity: Severity) -> None:
    """Tries thrown away are counted; more than a fifth of all is a warning."""
    record = compared(12)
    tries = tuple(
        BlockOutcome(index=index, attempt=7, complete=False, reason="steal")
        for index in range(thrown)
    )
    finding = found(replace(record, blocks=(*tries, *record.blocks)), "blocks-redone")
    assert finding is not None
    assert finding.severity is severity
    assert finding.message.startswith(f"{thrown} of {12 + thrown} tries")


def test_a_block_with_a_hole() -> None:
    """A complete block without one of its measurements is an error of the record."""
    record = compared(9)
    first, *rest = record.runs
    holed = replace(record, runs=(replace(first, measurement=None), *rest))
    finding = found(holed, "incomplete-block")
    assert finding is not None
    assert finding.severity is Severity.ERROR
    assert finding.message.startswith("block 1:")


WATCHED = replace(
    DEFAULT,
    per_second={Quantity.CPU_IDLE_S: 0.4, Quantity.DEVICE_BUSY_S: 0.3, Quantity.THROTTLED_S: 0.0},
)


def test_absences_are_told_once_with_their_runs() -> None:
    """The same reason in every run of a configuration is one line."""
    gone = Absence(subject="host", reason="another machine")
    watched = reasons_of(a_watched_record(DEFAULT, replace(DEFAULT, absent=(gone,)))).watching
    (unseen,) = watched.unseen
    assert (unseen.subject, unseen.reason, unseen.runs) == ("host", "another machine", 12)
    assert watched.runs == 24
    assert watched.sources == ("pg_stat_activity at 10 Hz",)


def test_the_cost_of_watching_is_a_share_of_the_cpu_time_used() -> None:
    """19 ms per run over all that server, generator and Steelyard used; unknown parts leave none.

    In the made runs these use 0.8501 ms per transaction.
    """
    record = a_watched_record(DEFAULT, DEFAULT)
    watched = reasons_of(record).watching
    assert watched.own_cpu_s == pytest.approx(24 * 0.012)
    whole = sum(1.4 * run.measurement.transactions for run in record.runs if run.measurement)
    assert watched.share == pytest.approx(24 * 0.019 / (0.0008501 * whole), rel=0.01)
    totals = {k: v for k, v in DEFAULT.per_transaction.items() if k != Quantity.GENERATOR_CPU_S}
    lacking = replace(DEFAULT, per_transaction=totals)
    assert reasons_of(a_watched_record(lacking, lacking)).watching.share is None


def test_the_block_nearest_to_the_median_is_drawn() -> None:
    """One run of each configuration, of the same block, with its tracks and checkpoints."""
    record = a_watched_record(WATCHED, with_parts(WATCHED, wal=0.001))
    lines = analyse(record).answer(timelines)
    assert [line.configuration for line in lines] == ["t0", "t1"]
    contrasts = observe(record).contrasts("t0", "t1")[:, 0]
    nearest = int(np.argmin(np.abs(contrasts - np.median(contrasts))))
    assert {line.block for line in lines} == {nearest}
    assert [track.name for track in lines[0].tracks] == [
        TrackName.TPS,
        TrackName.WAITS,
        TrackName.CPU,
        TrackName.DEVICE,
    ]
    assert lines[0].checkpoints_s == (4.0,)
    cpu = dict(lines[0].tracks[2].lines)
    assert cpu["idle"] == (0.4,) * 7


def test_without_series_there_is_no_timeline() -> None:
    """Totals alone have no seconds to draw."""
    record = a_watched_record(DEFAULT, DEFAULT)
    runs = tuple(
        replace(run, evidence=replace(run.evidence, series=()))
        for run in record.runs
        if run.evidence
    )
    assert analyse(replace(record, runs=runs)).answer(timelines) == ()


def test_looks_and_records_of_old_have_no_reasons() -> None:
    """No decision needs them; and without evidence there are none."""
    record = a_watched_record(DEFAULT, DEFAULT)
    assert analyse(record, curves=False).answer(campaign_reasons) is None
    runs = tuple(replace(run, evidence=None) for run in record.runs)
    assert analyse(replace(record, runs=runs)).answer(campaign_reasons) is None


def test_rules_that_doubt_equally_many_cells_keep_their_order() -> None:
    """The commonest rule comes first; each cell counts once, and what only informs not at all."""

    def cell(*codes: str, validity: Validity = Validity.SUSPECT) -> CellSummary:
        findings = [Finding(code=code, severity=Severity.WARNING, message="") for code in codes]
        findings.append(Finding(code="zz", severity=Severity.INFO, message=""))
        return cast("CellSummary", SimpleNamespace(validity=validity, findings=findings))

    codes = [f"rule-{letter}" for letter in "kcahzmqe"]
    cells = [cell(*codes, codes[0]), cell("rule-b", "rule-b"), cell("rule-b")]
    told = doubts([*cells, cell("rule-x", validity=Validity.VALID)])
    assert told == (3, [("rule-b", 2), *((code, 1) for code in codes)])
