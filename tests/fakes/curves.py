"""A synthetic campaign with throughput over clients."""

from fakes.analyses import analysis_of
from fakes.scenes import Scene, load_of
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.scalability import ScalabilityCurve, scalability_curves
from steelyard.core.campaign import Status

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
ENOUGH = {
    ("reads", "default"): 32,
    ("reads", "fitted"): 32,
    ("writes", "default"): 16,
    ("writes", "fitted"): 32,
}


def scalability() -> CampaignAnalysis:
    """Return two configurations over seven loads with a curve for each workload."""
    scene = Scene(
        name="throughput over clients",
        clients=CLIENTS,
        effects={("fitted", "reads"): 0.05, ("fitted", "writes"): 0.04},
        noise=0.015,
        blocks=11,
        max_blocks=11,
        status=Status.BUDGET,
        budget_s=900.0,
    )
    analysis = analysis_of(scene)
    curves = tuple(
        _curve(analysis, workload, configuration)
        for workload in scene.workloads
        for configuration in scene.configurations
    )
    return analysis.with_answer(scalability_curves, curves)


def _curve(analysis: CampaignAnalysis, workload: str, configuration: str) -> ScalabilityCurve:
    return ScalabilityCurve(
        workload=workload,
        configuration=configuration,
        threads=None,
        blocks=analysis.blocks,
        measured={
            cell.cell.load: cell.tps
            for cell in analysis.cells
            if (cell.cell.workload, cell.configuration) == (workload, configuration)
        },
        enough=load_of(ENOUGH[workload, configuration]),
    )
