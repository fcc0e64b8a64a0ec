"""A synthetic campaign with scalability curves of every kind: a peak, none, a misfit, a fall."""

from dataclasses import dataclass, replace

from fakes.analyses import analysis_of
from fakes.scenes import Scene, load_of
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.scalability import (
    CurvePoint,
    FallingLoad,
    ScalabilityCurve,
    scalability_curves,
    scalability_findings,
)
from steelyard.core.campaign import Status
from steelyard.core.findings import Estimate

CLIENTS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one curve is like.

    Attributes:
        gamma: Throughput of one client, 1/s.
        bend: Relative miss of the point at 4 clients.
        falling: Relative change at 64 clients against 32; 0 where it is not seen to fall.
    """

    workload: str
    configuration: str
    gamma: float
    alpha: float
    beta: float
    bend: float = 0.0
    falling: float = 0.0


SHAPES = (
    Shape(workload="reads", configuration="default", gamma=9600.0, alpha=0.05, beta=9e-4),
    Shape(workload="reads", configuration="fitted", gamma=9700.0, alpha=0.04, beta=0.0),
    Shape(
        workload="writes",
        configuration="default",
        gamma=520.0,
        alpha=0.02,
        beta=6e-4,
        falling=-0.072,
    ),
    Shape(workload="writes", configuration="fitted", gamma=560.0, alpha=0.03, beta=5e-4, bend=0.11),
)


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
    curves = tuple(_curve(shape, scene.blocks) for shape in SHAPES)
    analysis = analysis_of(scene).with_answer(scalability_curves, curves)
    return replace(analysis, findings=tuple(scalability_findings(analysis)))


def _curve(shape: Shape, blocks: int) -> ScalabilityCurve:
    grid = tuple(64.0 ** (step / 24) for step in range(25))
    peak = (1 - shape.alpha) / shape.beta if shape.beta else None
    fits = not shape.bend
    told = peak is not None and fits
    return ScalabilityCurve(
        workload=shape.workload,
        configuration=shape.configuration,
        threads=None,
        blocks=blocks,
        measured=tuple(
            CurvePoint(
                clients=float(clients),
                load=load_of(clients),
                tps=_around(_rate(shape, clients) * (1 + shape.bend * (clients == 4)), 0.02),
            )
            for clients in CLIENTS
        ),
        fitted=tuple(
            CurvePoint(clients=clients, tps=_around(_rate(shape, clients), 0.03))
            for clients in grid
        ),
        alpha=_around(shape.alpha, 0.1),
        beta=_around(shape.beta, 0.15) if shape.beta else Estimate(value=0.0, low=0.0),
        peak_clients=_around(peak**0.5, 0.08) if peak is not None and told else None,
        peak_tps=_around(_rate(shape, peak**0.5), 0.02) if peak is not None and told else None,
        peak_in_range=peak is not None,
        max_error=shape.bend or 0.012,
        lack_of_fit_p=0.41 if fits else 0.00002,
        fits=fits,
        refuted=not fits,
        falling=_falling(shape.falling) if shape.falling else None,
    )


def _falling(change: float) -> FallingLoad:
    return FallingLoad(
        load=load_of(64),
        best=load_of(32),
        change=Estimate(value=change, low=change - 0.02, high=change + 0.02),
    )


def _rate(shape: Shape, clients: float) -> float:
    slowed = 1 + shape.alpha * (clients - 1) + shape.beta * clients * (clients - 1)
    return shape.gamma * clients / slowed


def _around(value: float, share: float) -> Estimate:
    return Estimate(value=value, low=value * (1 - share), high=value * (1 + share))
