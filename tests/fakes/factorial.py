"""Synthetic campaigns with factors, judged by the real analysis."""

from dataclasses import replace

from fakes.scenes import FACTS, Scene, record_of
from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis, SettingDifference
from steelyard.core.campaign import Status
from steelyard.core.experiment import Attribution, AttributionKind, Factor
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
    return attribution_of(
        kind,
        tuple(
            Factor(name=name, first=first, second=second)
            for name, (first, second, _) in list(LEVELS.items())[:factors]
        ),
    )


def attribution_of(kind: AttributionKind, factors: tuple[Factor, ...]) -> Attribution:
    """Return the design of a kind for these factors."""
    if kind is not AttributionKind.FACTORS:
        chosen = factorial.ladder if kind is AttributionKind.LADDER else factorial.ablation
        return Attribution(kind=kind, factors=factors, combinations=chosen(len(factors)))
    design = factorial.factorial_design(len(factors))
    return Attribution(
        kind=kind,
        factors=factors,
        combinations=design.combinations,
        resolution=design.resolution,
        words=design.words,
    )


def _analysed(scene: Scene, attribution: Attribution) -> CampaignAnalysis:
    record = record_of(scene)
    assert record.plan is not None
    results = len(scene.workloads) * len(attribution.factors)
    rule = replace(record.plan.stopping, alpha=0.04 / results, results=results)
    settings = tuple(
        SettingDifference(
            name=name,
            values={
                each.name: factor.second if level else factor.first
                for each, level in zip(record.experiment.configurations, levels, strict=True)
            },
            requested=requested,
        )
        for name, requested, factor, levels in zip(
            ("shared_buffers", "wal_buffers"),
            (True, False),
            attribution.factors,
            zip(*attribution.combinations, strict=True),
            strict=False,
        )
    )
    made = replace(
        record,
        experiment=replace(record.experiment, attribution=attribution),
        plan=replace(record.plan, stopping=rule),
        environment=None,
        elapsed_s=3000.0,
    )
    return replace(analyse(made), settings=settings, facts=FACTS)
