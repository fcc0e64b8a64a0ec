"""Synthetic campaigns with factors, judged by the real analysis."""

from dataclasses import replace

from fakes import analyses
from fakes.scenes import STARTED_AT, Scene, runs_of
from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import BlockOutcome, CampaignRecord, Status
from steelyard.core.experiment import Attribution, AttributionKind, Experiment, Factor
from steelyard.stats import factorial

LEVELS = {
    "huge-pages": ("off", "on", 0.06),
    "buffers": ("128MB", "2GB", 0.03),
    "commit": ("on", "off", 0.40),
    "wal": ("plain", "packed", 0.0),
    "jit": ("on", "off", 0.0),
}
SYNERGY = 0.12  # of huge pages and buffers, on writes


def factored(
    factors: int,
    kind: AttributionKind = AttributionKind.FACTORS,
    *,
    clients: tuple[int, ...] = (8, 32),
    blocks: int = 12,
) -> CampaignAnalysis:
    """Return a campaign of so many factors, of which the first two help each other on writes."""
    attribution = _attribution(factors, kind)
    names = tuple(
        "+".join(f.name for f, x in zip(attribution.factors, levels, strict=True) if x) or "default"
        for levels in attribution.combinations
    )
    effects = {
        (name, workload): _truth(attribution, levels, synergy)
        for name, levels in zip(names, attribution.combinations, strict=True)
        for workload, synergy in (("reads", 0.0), ("writes", SYNERGY))
    }
    scene = Scene(
        name="what three settings buy",
        configurations=names,
        clients=clients,
        effects=effects,
        noise=0.02,
        blocks=blocks,
        max_blocks=16,
        status=Status.BUDGET,
        budget_s=3600.0,
    )
    return _analysed(scene, attribution)


def _truth(attribution: Attribution, levels: tuple[int, ...], synergy: float) -> float:
    rate = 1.0
    for factor, level in zip(attribution.factors, levels, strict=True):
        rate *= 1 + LEVELS[factor.name][2] * level
    return rate * (1 + synergy * levels[0] * levels[1]) - 1 if len(levels) > 1 else rate - 1


def _attribution(factors: int, kind: AttributionKind) -> Attribution:
    named = tuple(
        Factor(name=name, first=first, second=second)
        for name, (first, second, _) in list(LEVELS.items())[:factors]
    )
    design = factorial.factorial_design(factors)
    if kind is AttributionKind.FACTORS:
        return Attribution(
            kind=kind,
            factors=named,
            combinations=design.combinations,
            resolution=design.resolution,
            words=design.words,
        )
    chosen = factorial.ladder if kind is AttributionKind.LADDER else factorial.ablation
    return Attribution(kind=kind, factors=named, combinations=chosen(factors))


def _analysed(scene: Scene, attribution: Attribution) -> CampaignAnalysis:
    template = analyses.analysis_of(replace(scene, blocks=1))
    experiment: Experiment = replace(template.experiment, attribution=attribution)
    plan = template.plan
    assert plan is not None
    assert experiment.attribution is not None
    results = len(experiment.workloads) * len(experiment.attribution.factors)
    rule = replace(plan.stopping, alpha=0.04 / results, results=results)
    record = CampaignRecord(
        campaign_id=template.campaign_id,
        experiment=experiment,
        status=scene.status,
        plan=replace(plan, stopping=rule),
        environment=None,
        runs=runs_of(scene),
        blocks=tuple(
            BlockOutcome(index=index, attempt=0, complete=True) for index in range(scene.blocks)
        ),
        findings=(),
        started_at=STARTED_AT,
        elapsed_s=3000.0,
        command=template.command,
    )
    settings = tuple(
        replace(difference, values=tuple(factor.second if x else factor.first for x in levels))
        for difference, factor, levels in zip(
            template.settings,
            attribution.factors,
            zip(*attribution.combinations, strict=True),
            strict=False,
        )
    )
    return replace(analyse(record), settings=settings, facts=template.facts)
