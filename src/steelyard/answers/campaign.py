"""A whole campaign, from its record to everything that a report says."""

from collections.abc import Sequence
from dataclasses import replace

from steelyard.answers import report
from steelyard.answers.attribution import analyse_attribution
from steelyard.answers.capacity.compute import capacity_findings
from steelyard.answers.ceilings import (
    ceiling_findings,
    device_read_findings,
    log_findings,
    log_rates,
)
from steelyard.answers.cells import compare_stalls, summarise_cells
from steelyard.answers.comparison import pair_findings, with_instances
from steelyard.answers.durability.compute import durability_of, replication_unit, with_trades
from steelyard.answers.durability.results import replica_lags
from steelyard.answers.findings import (
    campaign_findings,
    check_warmup,
    control_findings,
    negative_controls,
    phase_findings,
    summarise_phases,
    with_controls,
)
from steelyard.answers.latency.compute import analyse_latency
from steelyard.answers.noise.compute import noise_findings, noise_floor
from steelyard.answers.observations import Observations, observe, result_contrasts
from steelyard.answers.published import beside_published
from steelyard.answers.reasons.compute import Reasons, find_reasons
from steelyard.answers.reasons.waits import reason_waits
from steelyard.answers.result.compute import Pair, Terms, compare, stopped_early
from steelyard.answers.result.stopping import looks_taken
from steelyard.answers.results import CampaignAnalysis, Comparison, Grounds, SettingDifference
from steelyard.answers.scalability import scalability_curves, scalability_findings
from steelyard.answers.settings import (
    differing_settings,
    differing_sides,
    without_forecasts,
)
from steelyard.answers.statements.compute import fit_of_statements
from steelyard.answers.sustained.compute import burst_findings, burst_only, summarise_sustained
from steelyard.answers.validity.work_rules import judged
from steelyard.core.campaign import CampaignRecord
from steelyard.core.plan import CampaignPlan
from steelyard.stats.drift import stalled_slices


def analyse(record: CampaignRecord, *, curves: bool = True) -> CampaignAnalysis:
    """Return the analysis of a campaign, finished or not.

    Args:
        record: Of the campaign.
        curves: Also the scalability curves, the noise floor, the reasons, the percentiles and what
            registered answers compute, which no decision needs and which take a while; a look after
            a block leaves them out, and a list of campaigns.
    """
    experiment, plan = record.experiment, record.plan
    seen = observe(record)
    stalled = stalled_slices(seen.by_slice) if seen.blocks else seen.by_slice > 0.0
    cells = summarise_cells(seen, stalled)
    # What an open loop completes was asked for: it says nothing of the configurations.
    closed = seen.of_closed_loops()
    stalls = compare_stalls(closed, experiment)
    warmup = check_warmup(closed, experiment, plan.mode) if plan is not None else ()
    scalability = scalability_curves(closed, experiment) if curves else ()
    terms = _terms(record, seen, plan) if plan is not None else None
    comparisons = _comparisons(record, closed, plan, terms) if plan and terms else ()
    ceilings = record.environment.ceilings if record.environment is not None else ()
    facts = record.environment.facts if record.environment is not None else ()
    settings = differing_settings(record.environment, experiment)
    logs = log_rates(ceilings, record.counted_runs)
    controls = negative_controls(experiment, settings)
    comparisons = with_controls(comparisons, controls)
    sustained = summarise_sustained(record)
    within = burst_only(record, sustained)
    latency = analyse_latency(record, seen, result_contrasts(experiment)) if curves else None
    statements = fit_of_statements(closed, experiment) if curves else None
    reasons = _reasons(record, seen, settings) if curves else None
    ledger = reasons.ledger if reasons is not None else None
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
            *control_findings(comparisons, controls),
            *campaign_findings(record, seen, stalls, warmup),
            *judged(record, seen),
            *phase_findings(seen, experiment),
            *ceiling_findings(ceilings, cells, experiment),
            *device_read_findings(ceilings, record.counted_runs),
            *log_findings(logs),
            *scalability_findings(scalability),
            *noise_findings(experiment, comparisons),
            *burst_findings(record, sustained, within),
            *capacity_findings(record),
        ),
        settings=settings,
        facts=facts,
        unit=replication_unit(seen, plan, experiment),
        command=record.command,
        sustained=sustained,
        burst_only=within,
        published=beside_published(experiment, cells),
        scalability=scalability,
        attribution=analyse_attribution(experiment, closed, terms) if terms is not None else None,
        noise=noise_floor(record, closed, comparisons) if curves else None,
        checkpoints=summarise_phases(seen) if experiment.system.has_checkpoints else (),
        statements=statements,
        waits=reason_waits(statements, ledger, experiment, record.counted_runs, facts),
        ceilings=ceilings,
        log_rates=logs,
        reasons=reasons,
        latency=latency,
        durability=durability_of(experiment, record.environment, cells),
        replica_lags=replica_lags(seen.runs),
        warm_ups_s=_warm_ups_s(record),
    )
    grounds = Grounds(record=record, seen=seen, closed=closed, analysis=analysis)
    return _with_answers(grounds) if curves else analysis


def _with_answers(grounds: Grounds) -> CampaignAnalysis:
    """Return the analysis with what registered answers compute, each from those before it."""
    for answer in report.ANSWERS:
        if answer.compute is not None:
            analysis, computed = grounds.analysis, answer.compute(grounds)
            answers = {**analysis.answers, answer.compute: computed}
            grounds = replace(grounds, analysis=replace(analysis, answers=answers))
    return grounds.analysis


def _reasons(
    record: CampaignRecord, seen: Observations, settings: Sequence[SettingDifference]
) -> Reasons | None:
    differing = {
        (asked.baseline, asked.configuration): differing_sides(settings, asked)
        for asked in result_contrasts(record.experiment)
    }
    return find_reasons(record, seen, differing)


def _terms(record: CampaignRecord, seen: Observations, plan: CampaignPlan) -> Terms:
    experiment = record.experiment
    return Terms(
        rule=plan.stopping,
        margin=experiment.stop.equivalence,
        decide=experiment.stop.decide,
        block_s=plan.block_s,
        stopped_early=stopped_early(record.status, plan.stopping, seen.blocks),
    )


def _comparisons(
    record: CampaignRecord, seen: Observations, plan: CampaignPlan, terms: Terms
) -> tuple[Comparison, ...]:
    experiment = record.experiment
    if not experiment.compares_throughput:
        return ()
    compared: list[Comparison] = []
    for workload in experiment.workloads:
        columns = seen.columns_of(workload.name)
        for asked in result_contrasts(experiment):
            pair = Pair(
                baseline=asked.baseline, configuration=asked.configuration, workload=workload.name
            )
            contrasts = seen.weighted(asked.weights)[:, columns]
            compared.extend(compare(contrasts, pair, experiment.closed_loads, terms))
    placed = with_instances(compared, experiment, plan)
    forecast = without_forecasts(placed, experiment, record.environment)
    return with_trades(forecast, experiment, record.environment)


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
