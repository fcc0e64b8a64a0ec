"""What the user should know beside the verdicts, each as data with a remedy."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, compared, noise

from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document
from steelyard.core.campaign import BlockOutcome, CampaignRecord, Status
from steelyard.core.findings import Finding, Severity
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
        (0.0, 0.5, "of it load", "fewer loads or a shorter measure.slice (a"),
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


@pytest.mark.parametrize(
    ("residual", "severity"), [((), Severity.INFO), ((0.002, 0.03), Severity.WARNING)]
)
def test_warm_up_risk(residual: tuple[float, ...], severity: Severity) -> None:
    """What the warm-up may have missed is told; a measured rest above 1 % is a warning."""
    record = compared(9)
    warm_up = replace(record.plan.warm_up, risk="not measured", residual_fraction=residual)
    told = found(replace(record, plan=replace(record.plan, warm_up=warm_up)), "warm-up-risk")
    assert told is not None
    assert (told.message, told.severity) == ("not measured", severity)


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
