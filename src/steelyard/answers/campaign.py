"""A whole campaign, from its record to everything that a report says."""

from dataclasses import replace

from steelyard.answers import findings
from steelyard.answers.ceilings import (
    ceiling_findings,
    device_read_findings,
    log_findings,
    log_rates,
)
from steelyard.answers.cells import (
    compare_stalls,
    differing_settings,
    summarise_cells,
)
from steelyard.answers.comparison import comparisons_of, pair_findings
from steelyard.answers.durability.compute import (
    replication_unit,
)
from steelyard.answers.observations import observe
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.answers.validity.work_rules import judged
from steelyard.core.campaign import CampaignRecord
from steelyard.core.schedule import Mode
from steelyard.stats.drift import stalled_slices
from steelyard.stats.spending import looks_taken


def analyse(record: CampaignRecord, *, curves: bool = True) -> CampaignAnalysis:
    """Return the analysis of a campaign, finished or not.

    Args:
        record: Of the campaign.
        curves: Also what no decision needs and what takes a while, as percentiles and reasons; a
            look after a block leaves it out, and a list of campaigns.
    """
    experiment, plan = record.experiment, record.plan
    seen = observe(record)
    stalled = stalled_slices(seen.by_slice) if seen.blocks else seen.by_slice > 0.0
    in_turns = plan is not None and plan.mode is Mode.ALTERNATING
    cells = summarise_cells(seen, stalled, in_turns=in_turns)
    # What an open loop completes was asked for: it says nothing of the configurations.
    closed = seen.of_closed_loops()
    stalls = compare_stalls(closed, experiment)
    warmup = findings.check_warmup(closed, experiment, plan.mode) if plan is not None else ()
    comparisons = comparisons_of(record, closed)
    ceilings = record.environment.ceilings if record.environment is not None else ()
    facts = record.environment.facts if record.environment is not None else ()
    settings = differing_settings(record.environment, experiment)
    controls = findings.negative_controls(experiment, settings)
    comparisons = findings.with_controls(comparisons, controls)
    analysis = CampaignAnalysis(
        campaign_id=record.campaign_id,
        experiment=experiment,
        status=record.status,
        plan=plan,
        blocks=seen.blocks,
        blocks_redone=_blocks_redone(record),
        looks=looks_taken(plan.stopping, seen.blocks) if plan is not None else 0,
        measured_s=_measured_s(record),
        elapsed_s=record.elapsed_s,
        started_at=record.started_at,
        comparisons=comparisons,
        cells=cells,
        stalls=stalls,
        warmup=warmup,
        runs=record.counted_runs,
        findings=(
            *pair_findings(comparisons),
            *findings.control_findings(comparisons, controls),
            *findings.campaign_findings(record, seen, stalls, warmup),
            *judged(record, seen, tuple(c for c in comparisons if c.load is None)),
            *findings.phase_findings(seen, experiment),
            *ceiling_findings(ceilings, cells, experiment),
            *device_read_findings(ceilings, record.counted_runs),
            *log_findings(log_rates(ceilings, record.counted_runs)),
        ),
        settings=settings,
        facts=facts,
        unit=replication_unit(seen, plan, experiment),
        command=record.command,
        ceilings=ceilings,
        warm_ups_s=_warm_ups_s(record),
    )
    grounds = Grounds(record=record, seen=seen, closed=closed, analysis=analysis)
    return _with_answers(grounds, all_of_them=curves)


def _with_answers(grounds: Grounds, *, all_of_them: bool) -> CampaignAnalysis:
    """Return the analysis with what registered answers compute and find, each from those before.

    Args:
        grounds: What they are computed from.
        all_of_them: Also those compute that no look needs; findings are looked for in any case.
    """
    from steelyard.answers import report  # noqa: PLC0415 - all answers, which no refusal needs

    for answer in report.ANSWERS:
        analysis = grounds.analysis
        if answer.compute is not None and (all_of_them or answer.at_looks):
            analysis = analysis.with_answer(answer.compute, answer.compute(grounds))
            grounds = replace(grounds, analysis=analysis)
        if found := tuple(answer.findings(grounds)):
            analysis = replace(analysis, findings=(*analysis.findings, *found))
            grounds = replace(grounds, analysis=analysis)
    return grounds.analysis


def _blocks_redone(record: CampaignRecord) -> tuple[str, ...]:
    return tuple(
        f"block {block.index + 1}, try {block.attempt + 1}: {block.reason}"
        for block in record.blocks
        if not block.complete
    )


def _warm_ups_s(record: CampaignRecord) -> tuple[float, ...]:
    """Return the lengths that complete blocks warmed up for, in the order of their first use."""
    known = (block.warm_up_s for block in record.blocks if block.complete)
    return tuple(dict.fromkeys(each for each in known if each is not None))


def _measured_s(record: CampaignRecord) -> float:
    return sum(
        run.measurement.seconds for run in record.counted_runs if run.measurement is not None
    )
