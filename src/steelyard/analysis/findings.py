"""What the user should know about a campaign beside its verdicts."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from steelyard.analysis.numerals import count
from steelyard.analysis.observations import Observations
from steelyard.analysis.results import StallTest, WarmupCheck
from steelyard.model.campaign import BlockOutcome, CampaignRecord
from steelyard.model.findings import Finding, Severity
from steelyard.model.plan import CampaignPlan, RoundsFor
from steelyard.model.rules import ENVIRONMENT
from steelyard.model.units import format_duration, format_percent, format_utc

_ONE_SIDED = 2  # tries under one treatment alone: beyond chance enough to be told
_ONE_SIDED_NEIGHBOURS = 6  # a neighbour does not choose: of two treatments 2^-5, 3 %, by chance
_FEW_FRACTION = 0.2
STALL_LEVEL = 0.05
WARMUP_LEVEL = 0.01
NOTABLE_DRIFT = 0.10  # a guess; contrasts within blocks stand 30 % per hour (METHOD 3.8)
NOTABLE_RESIDUAL = 0.01
_DRIFT_FROM = 9  # thirds of three blocks


def campaign_findings(
    record: CampaignRecord,
    seen: Observations,
    stalls: Sequence[StallTest],
    warmup: Sequence[WarmupCheck],
) -> tuple[Finding, ...]:
    """Return the record's own findings, then those of the analysis, gravest rules first."""
    return (
        *record.findings,
        *_single_pass(record),
        *_continued(record),
        *_holes(seen),
        *_too_few_blocks(seen, record),
        *_differing_stalls(stalls),
        *_visible_warmup(warmup, record.plan),
        *_failed_transactions(seen),
        *_discard(record.plan),
        *_drift(seen),
        *_redone(record),
    )


def _single_pass(record: CampaignRecord) -> Iterator[Finding]:
    if record.experiment.is_single_pass:
        yield Finding(
            code="single-pass",
            severity=Severity.WARNING,
            message=(
                "single unrepeated pass: no interval, no verdict; order and time are confounded "
                "with the load"
            ),
            remedy="Compare treatments by blocks: remove `design: single-pass` and add another.",
            source="METHOD 2",
            subject="campaign",
        )


def _continued(record: CampaignRecord) -> Iterator[Finding]:
    """Yield a finding when a single pass was not taken in one go."""
    if not record.experiment.is_single_pass:
        return
    parts = Counter(run.attempt for run in record.counted_runs)
    if len(parts) < 2:
        return
    begun = {run.attempt: run.started_at for run in reversed(record.counted_runs)}
    told = ", then ".join(
        f"{count(number, 'run')} from {format_utc(begun[attempt])}"
        for attempt, number in sorted(parts.items())
    )
    yield Finding(
        code="pass-continued",
        severity=Severity.WARNING,
        message=f"the pass was interrupted and continued: {told}; before each part the"
        " treatment was activated anew and the data went back to the prepared state",
        remedy="Runs of different parts met other caches and other numbers of rows: where that"
        " matters, take a whole pass anew.",
        subject="campaign",
    )


def _holes(seen: Observations) -> Iterator[Finding]:
    if seen.holes:
        numbers = ", ".join(str(index + 1) for index in seen.holes)
        yield Finding(
            code="incomplete-block",
            severity=Severity.ERROR,
            message=f"block {numbers}: called complete, but a run has no measurement; left out",
            remedy="The record may be damaged; keep it and report this.",
            source="METHOD 3.1",
            subject="campaign",
        )


def _too_few_blocks(seen: Observations, record: CampaignRecord) -> Iterator[Finding]:
    plan = record.plan
    if plan is None or not record.experiment.compares_throughput:
        return
    if seen.blocks >= plan.stopping.first_look:
        return
    yield Finding(
        code="not-enough-blocks",
        severity=Severity.WARNING,
        message=(
            f"{count(seen.blocks, 'complete block')}; "
            f"a verdict needs at least {plan.stopping.first_look}"
        ),
        remedy=(
            f"Give it a larger budget: a block takes about {format_duration(plan.block_s)}, "
            "and the preparation comes before the first."
        ),
        source="METHOD 3.2",
        subject="campaign",
    )


def _differing_stalls(stalls: Sequence[StallTest]) -> Iterator[Finding]:
    for test in stalls:
        if test.p_value < STALL_LEVEL / len(stalls):
            yield Finding(
                code="stalls-differ",
                severity=Severity.WARNING,
                message=(
                    f"{test.treatment} stalled in {test.treatment_stalled} of "
                    f"{test.treatment_runs} runs of {test.workload}, {test.baseline} in "
                    f"{test.baseline_stalled} of {test.baseline_runs} (p = {test.p_value:.2g})"
                ),
                remedy="The effect discounts stalls: weigh them beside it, and look for the cause.",
                source="METHOD 3.6, Fisher's exact test",
                subject=test.treatment,
            )


def _why_it_changes(plan: CampaignPlan | None) -> str:
    if plan is not None and plan.rounds_for is RoundsFor.CYCLE:
        return "the treatments may warm up differently, or differ over the checkpoint cycle"
    return "the treatments may warm up differently"


def _visible_warmup(warmup: Sequence[WarmupCheck], plan: CampaignPlan | None) -> Iterator[Finding]:
    for check in warmup:
        if check.p_value < WARMUP_LEVEL:
            yield Finding(
                code="warm-up-differs",
                severity=Severity.WARNING,
                message=(
                    f"{check.treatment}: its effect changes by "
                    f"{format_percent(float(np.expm1(check.slope_per_position)))} per run of a "
                    f"visit (p = {check.p_value:.2g}): {_why_it_changes(plan)}"
                ),
                remedy="Measure the warm-up (calibration), or set a longer discard.",
                source="METHOD 3.7",
                subject=check.treatment,
            )


def _failed_transactions(seen: Observations) -> Iterator[Finding]:
    for treatment in seen.treatments:
        measured = [
            run.measurement
            for (name, _), runs in seen.runs.items()
            if name == treatment
            for run in runs
            if run.measurement is not None
        ]
        failed = sum(measurement.failed for measurement in measured)
        if failed:
            yield Finding(
                code="failed-transactions",
                severity=Severity.WARNING,
                message=f"{treatment}: {count(failed, 'failed transaction')}",
                remedy="They are not counted as done; the raw output says why they failed.",
                source="the load generator's own count",
                subject=treatment,
            )


def _discard(plan: CampaignPlan | None) -> Iterator[Finding]:
    if plan is None or not plan.discard.risk:
        return
    residuals = [loss for loss in plan.discard.residual_fraction if loss is not None]
    grave = max(residuals, default=0.0) > NOTABLE_RESIDUAL
    yield Finding(
        code="discard-risk",
        severity=Severity.WARNING if grave else Severity.INFO,
        message=plan.discard.risk,
        remedy="Set a longer discard." if grave else "",
        source="METHOD 3.7",
        subject="campaign",
    )


def _drift(seen: Observations) -> Iterator[Finding]:
    """Compare the last third of the blocks with the first, over all treatments and cells."""
    seen = seen.of_closed_loops()  # an open loop holds its rate, whatever the machine does
    if seen.blocks < _DRIFT_FROM or not seen.cells:
        return
    centred = seen.log_tps - np.median(seen.log_tps, axis=0)
    by_block = centred.mean(axis=(1, 2))
    third = seen.blocks // 3
    change = float(np.expm1(np.median(by_block[-third:]) - np.median(by_block[:third])))
    if abs(change) >= NOTABLE_DRIFT:
        yield Finding(
            code="drift",
            severity=Severity.INFO,
            message=(
                f"throughput of all treatments changed by {format_percent(change)} from the "
                "first third of the blocks to the last"
            ),
            remedy="Effects are not touched, since they are taken within blocks; levels are.",
            source="METHOD 3.8",
            subject="campaign",
        )


def _redone(record: CampaignRecord) -> Iterator[Finding]:
    thrown = [block for block in record.blocks if not block.complete]
    if not thrown or record.experiment.is_single_pass:
        return
    under = Counter(block.treatment for block in thrown if block.treatment)
    advice = _advice(thrown)
    many = len(thrown) > _FEW_FRACTION * len(record.blocks)
    by_treatment = ", ".join(f"{number} under {name}" for name, number in sorted(under.items()))
    yield Finding(
        code="blocks-redone",
        severity=Severity.WARNING if many or advice else Severity.INFO,
        message=(
            f"{len(thrown)} of {len(record.blocks)} tries of a block were thrown away whole, "
            f"in all treatments{f' ({by_treatment})' if by_treatment else ''}{_causes(thrown)}"
        ),
        remedy=advice or "None needed while they are few; otherwise quieten the machine.",
        source="METHOD 3.1",
        subject="campaign",
    )


def _advice(thrown: Sequence[BlockOutcome]) -> str:
    """Return what to do where the tries fell under one treatment alone; empty where not."""
    own = [block for block in thrown if block.cause not in ENVIRONMENT]
    if _under_one(own, _ONE_SIDED):
        return (
            "They all fell under one treatment: look into its server's log in raw/, for what it "
            "brings about itself is not in the intervals."
        )
    if _under_one([b for b in thrown if b.cause in ENVIRONMENT], _ONE_SIDED_NEIGHBOURS):
        return (
            "Neighbours were met under one treatment alone: perhaps it asks for more of what they "
            "take, and then that is not in the intervals; `measure.neighbours: ignore` keeps it in."
        )
    return ""


def _under_one(blocks: Sequence[BlockOutcome], least: int) -> bool:
    under = Counter(block.treatment for block in blocks if block.treatment)
    return len(under) == 1 and sum(under.values()) >= least


def _causes(thrown: Sequence[BlockOutcome]) -> str:
    """Return how many tries which rule threw away; nothing where no record says."""
    causes = Counter(block.cause for block in thrown if block.cause)
    if not causes:
        return ""
    others = len(thrown) - sum(causes.values())
    told = [f"{code} {number}" for code, number in sorted(causes.items())]
    return f"; causes: {', '.join([*told, *([f'others {others}'] if others else [])])}"
