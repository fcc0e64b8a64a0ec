"""Synthetic campaigns: runs from a seed, and what an analysis might say about them.

``random.Random`` is used because its stream never changes between versions, so golden files stay
what they are. The intervals are simple stand-ins, not the method's.
"""

import math
import random
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev

from steelyard.answers.results import CellSummary, Comparison, StallTest, WarmupCheck
from steelyard.core.campaign import Status
from steelyard.core.findings import Estimate, Validity, Verdict
from steelyard.core.measurement import Measurement, Run, Second
from steelyard.core.schedule import CellKey, Load, Mode

STARTED_AT = 1_795_269_600.0  # 2026-11-21 14:00 UTC
BASE_TPS = {"reads": 48_000.0, "writes": 2_400.0, "orders": 830.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a synthetic campaign is like.

    Attributes:
        effects: True relative effect by (configuration, workload); missing means none.
        load_slope: Added to the effect at the last load, falling to 0 at the first.
        noise: Standard deviation of a run's log rate.
    """

    name: str = "huge pages and buffers"
    workloads: tuple[str, ...] = ("reads", "writes")
    clients: tuple[int, ...] = (8,)
    configurations: tuple[str, ...] = ("default", "fitted")
    effects: dict[tuple[str, str], float] = field(default_factory=dict)
    load_slope: float = 0.0
    noise: float = 0.02
    blocks: int = 9
    max_blocks: int = 24
    status: Status = Status.DECIDED
    mode: Mode = Mode.STARTS
    seed: int = 20_261_121
    budget_s: float = 360.0
    description: str = ""


def _rate_of(scene: Scene, configuration: str, cell: CellKey) -> float:
    base = next((v for k, v in BASE_TPS.items() if cell.workload.startswith(k)), 1000.0)
    clients = cell.load.clients
    place = scene.clients.index(clients) / max(1, len(scene.clients) - 1)
    effect = scene.effects.get((configuration, cell.workload), 0.0)
    if configuration == scene.configurations[-1] and len(scene.clients) > 1:
        effect += scene.load_slope * place
    saturation = clients / (1 + 0.09 * (clients - 1) + 0.0008 * clients * (clients - 1))
    return base / 5 * saturation * (1 + effect)


def runs_of(scene: Scene) -> tuple[Run, ...]:
    """Return all runs in run order, with drift, noise and a ramp."""
    source = random.Random(scene.seed)  # noqa: S311 - a synthetic campaign, no secret
    runs: list[Run] = []
    drift = 0.0
    for block in range(scene.blocks):
        drift += source.gauss(0.0, scene.noise)
        order = source.sample(scene.configurations, len(scene.configurations))
        cells = [
            CellKey(workload=w, load=load_of(c)) for w in scene.workloads for c in scene.clients
        ]
        source.shuffle(cells)
        for start, configuration in enumerate(order):
            for position, cell in enumerate(cells):
                rate = _rate_of(scene, configuration, cell)
                rate *= math.exp(drift + source.gauss(0.0, scene.noise))
                runs.append(_run(source, (block, start, position), configuration, cell, rate))
    return tuple(runs)


def load_of(clients: int) -> Load:
    """Return so many clients with up to four threads."""
    return Load(clients=clients, threads=min(clients, 4))


def _run(
    source: random.Random,
    place: tuple[int, int, int],
    configuration: str,
    cell: CellKey,
    rate: float,
) -> Run:
    series = tuple(
        Second(
            end_s=float(second),
            seconds=1.0,
            transactions=round(
                rate * min(1.0, 0.4 + 0.3 * second) * math.exp(source.gauss(0, 0.04))
            ),
            latency_mean_s=cell.load.clients / rate,
        )
        for second in range(1, 8)
    )
    measurement = Measurement(
        transactions=round(rate * 5.0),
        seconds=5.0,
        latency_mean_s=cell.load.clients / rate,
        latency_stddev_s=None,
        failed=0,
        connection_s=0.02,
        series=series,
    )
    block, start, position = place
    return Run(
        block=block,
        attempt=0,
        start=start,
        position=position,
        configuration=configuration,
        cell=cell,
        started_at=STARTED_AT + 42.0 + 38.0 * block + 17.0 * start + 7.5 * position,
        since_start_s=5.0 + 7.5 * position,
        measurement=measurement,
        validity=Validity.VALID,
    )


def _contrasts(runs: tuple[Run, ...], arms: tuple[str, str], cell: CellKey) -> list[float]:
    rates = {
        (r.block, r.configuration): r.measurement.log_tps
        for r in runs
        if r.cell == cell and r.measurement is not None
    }
    blocks = sorted({block for block, _ in rates})
    return [rates[b, arms[1]] - rates[b, arms[0]] for b in blocks]


def _effect(contrasts: list[float], width: float) -> Estimate | None:
    if not contrasts:
        return None
    centre = math.exp(fmean(contrasts)) - 1
    if len(contrasts) < 6:
        return Estimate(value=centre)
    half = width * stdev(contrasts) / math.sqrt(len(contrasts))
    mean = fmean(contrasts)
    return Estimate(value=centre, low=math.exp(mean - half) - 1, high=math.exp(mean + half) - 1)


def _verdict(effect: Estimate | None, margin: float) -> Verdict:
    if effect is None or effect.low is None or effect.high is None:
        return Verdict.NO_CLEAR_DIFFERENCE
    if effect.low > 0:
        return Verdict.FASTER
    if effect.high < 0:
        return Verdict.SLOWER
    inside = -margin < effect.low and effect.high < margin
    return Verdict.EQUIVALENT if inside else Verdict.NO_CLEAR_DIFFERENCE


def _comparison(
    scene: Scene, arms: tuple[str, str], workload: str, load: Load | None, contrasts: list[float]
) -> Comparison:
    effect = _effect(contrasts, 2.6 if load is None or len(scene.clients) == 1 else 3.1)
    verdict = _verdict(effect, 0.01)
    ranged = effect is not None and effect.low is not None
    small = verdict is Verdict.FASTER and effect is not None and (effect.high or 1) < 0.01
    return Comparison(
        baseline=arms[0],
        configuration=arms[1],
        workload=workload,
        load=load,
        effect=effect,
        verdict=verdict,
        no_practical_weight=small,
        blocks=scene.blocks,
        level=0.0123 if ranged else None,
        contrasts=tuple(contrasts),
        minutes_to_decide=None if verdict.decided or not ranged else 14.2,
        note=_note(scene, verdict, load, ranged=ranged),
    )


def _note(scene: Scene, verdict: Verdict, load: Load | None, *, ranged: bool) -> str:
    if not ranged:
        return f"{scene.blocks} blocks; the first interim result is at 6"
    early = scene.status is Status.DECIDED and scene.blocks < scene.max_blocks
    if load is None and early and verdict.decided:
        return "stopped early: the estimate is a little too large"
    return ""


def comparisons_of(scene: Scene, runs: tuple[Run, ...]) -> tuple[Comparison, ...]:
    """Return every result, followed by its cells."""
    found = []
    for workload in scene.workloads:
        for configuration in scene.configurations[1:]:
            arms = (scene.configurations[0], configuration)
            by_load = [
                (load_of(c), _contrasts(runs, arms, CellKey(workload=workload, load=load_of(c))))
                for c in scene.clients
            ]
            pooled = [fmean(block) for block in zip(*(d for _, d in by_load), strict=True)]
            pooled_result = _comparison(scene, arms, workload, None, pooled)
            cells = [_comparison(scene, arms, workload, load, d) for load, d in by_load]
            found += [replace(pooled_result, depends_on_load=_differ(cells)), *cells]
    return tuple(found)


def _differ(cells: list[Comparison]) -> bool:
    pairs = [
        (c.effect.low, c.effect.high)
        for c in cells
        if c.effect is not None and c.effect.low is not None and c.effect.high is not None
    ]
    return bool(pairs) and max(low for low, _ in pairs) > min(high for _, high in pairs)


def cells_of(scene: Scene, runs: tuple[Run, ...]) -> tuple[CellSummary, ...]:
    """Return a summary of each configuration in each cell that has runs."""
    result = []
    for workload in scene.workloads:
        for clients in scene.clients:
            cell = CellKey(workload=workload, load=load_of(clients))
            for configuration in scene.configurations:
                rates = [
                    r.measurement.tps
                    for r in runs
                    if r.cell == cell
                    and r.configuration == configuration
                    and r.measurement is not None
                ]
                if rates:
                    result.append(_cell(configuration, cell, rates))
    return tuple(result)


def _cell(configuration: str, cell: CellKey, rates: list[float]) -> CellSummary:
    centre = median(rates)
    half = 2.6 * stdev(rates) / math.sqrt(len(rates)) if len(rates) >= 6 else None
    return CellSummary(
        configuration=configuration,
        cell=cell,
        runs=len(rates),
        tps=Estimate(
            value=centre,
            low=None if half is None else centre - half,
            high=None if half is None else centre + half,
        ),
        latency_mean_s=cell.load.clients / centre,
        validity=Validity.VALID,
        stalled=0,
    )


def stalls_of(scene: Scene) -> tuple[StallTest, ...]:
    """Return one stalled run of each contender and workload."""
    runs = scene.blocks * len(scene.clients)
    return tuple(
        StallTest(
            baseline=scene.configurations[0],
            configuration=configuration,
            workload=workload,
            baseline_stalled=0,
            baseline_runs=runs,
            configuration_stalled=min(1, runs),
            configuration_runs=runs,
            p_value=1.0,
        )
        for workload in scene.workloads
        for configuration in scene.configurations[1:]
    )


def warmup_of(scene: Scene) -> tuple[WarmupCheck, ...]:
    """Return a warning light that is off, where there is one."""
    if scene.blocks < 6 or scene.mode is Mode.BACK_TO_BACK:
        return ()
    return tuple(
        WarmupCheck(configuration=name, slope_per_position=0.0013, p_value=0.43)
        for name in scene.configurations[1:]
    )
