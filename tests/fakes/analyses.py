"""Synthetic analyses: everything a report can be made from, without any server or statistics.

The numbers look like a real campaign's but follow from a seed; ``random.Random`` is used because
its stream never changes between versions, so golden files stay what they are.
"""

import math
import random
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev

from steelyard.analysis.results import (
    CampaignAnalysis,
    CellSummary,
    Comparison,
    SettingDifference,
    StallTest,
    WarmupCheck,
)
from steelyard.model.environment import Fact
from steelyard.model.experiment import (
    Experiment,
    Layer,
    Load,
    LocalTarget,
    Measure,
    Reset,
    Setting,
    Stop,
    SwitchCost,
    Treatment,
    Workload,
)
from steelyard.model.findings import Finding, Severity, Validity
from steelyard.model.measurement import Measurement, Run, Second
from steelyard.model.plan import CampaignPlan, DiscardChoice, Status, StoppingRule
from steelyard.model.schedule import CellKey, Mode
from steelyard.model.verdicts import Estimate, Verdict

STARTED_AT = 1_795_269_600.0  # 2026-11-21 14:00 UTC
BASE_TPS = {"reads": 48_000.0, "writes": 2_400.0, "orders": 830.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a synthetic campaign is like.

    Attributes:
        effects: True relative effect by (treatment, workload); missing means none.
        load_slope: Added to the effect at the last load, falling to 0 at the first.
        noise: Standard deviation of a run's log rate.
    """

    name: str = "huge pages and buffers"
    workloads: tuple[str, ...] = ("reads", "writes")
    clients: tuple[int, ...] = (8,)
    treatments: tuple[str, ...] = ("default", "fitted")
    effects: dict[tuple[str, str], float] = field(default_factory=dict)
    load_slope: float = 0.0
    noise: float = 0.02
    blocks: int = 9
    max_blocks: int = 24
    status: Status = Status.DECIDED
    mode: Mode = Mode.VISITS
    seed: int = 20_261_121
    budget_s: float = 360.0
    description: str = ""


def quick() -> CampaignAnalysis:
    """Return a decided two-workload campaign, the first thing a newcomer sees."""
    scene = Scene(
        name="quick: default against fitted",
        description="PostgreSQL as it comes against settings fitted to this machine.",
        effects={("fitted", "reads"): 0.12, ("fitted", "writes"): 0.31},
        noise=0.03,
    )
    return with_evidence(analysis_of(scene))


def many_loads() -> CampaignAnalysis:
    """Return three treatments over five loads, one of them with an effect that grows with load."""
    effects = {
        ("buffers", "reads"): 0.02,
        ("huge-pages", "reads"): 0.05,
        ("buffers", "writes"): 0.0,
    }
    scene = Scene(
        name="shared buffers and huge pages",
        clients=(1, 4, 16, 64, 128),
        treatments=("default", "buffers", "huge-pages"),
        effects=effects,
        load_slope=0.12,
        noise=0.012,
        blocks=14,
        max_blocks=20,
        status=Status.BUDGET,
        budget_s=3600.0,
    )
    return analysis_of(scene)


def same_twice() -> CampaignAnalysis:
    """Return a comparison of a configuration with itself: nothing to distinguish."""
    scene = Scene(
        name="the same twice",
        treatments=("first", "second"),
        workloads=("writes",),
        noise=0.05,
        blocks=12,
        max_blocks=12,
        status=Status.BUDGET,
        mode=Mode.BACK_TO_BACK,
    )
    return analysis_of(scene)


def interrupted() -> CampaignAnalysis:
    """Return what is there after Ctrl-C in the fourth block."""
    scene = Scene(effects={("fitted", "reads"): 0.12}, blocks=3, status=Status.INTERRUPTED)
    return analysis_of(scene)


def failed_early() -> CampaignAnalysis:
    """Return a campaign that failed before its first block, without a plan."""
    scene = Scene(blocks=0, status=Status.FAILED)
    finding = Finding(
        code="server-did-not-start",
        severity=Severity.ERROR,
        message='PostgreSQL refused to start: invalid value for parameter "shared_buffers": "2TB"',
        remedy="Lower shared_buffers of treatment fitted below the machine's memory of 22.4 GiB.",
        source="server log",
        subject="fitted",
    )
    return replace(
        analysis_of(scene),
        plan=None,
        comparisons=(),
        cells=(),
        stalls=(),
        warmup=(),
        settings=(),
        findings=(finding,),
        measured_s=0.0,
        elapsed_s=4.2,
    )


def hostile() -> CampaignAnalysis:
    """Return names and values that would break a careless page or table."""
    bad = "<script>alert('x')</script>"
    scene = Scene(
        name=f'{bad} & "quotes" | pipes',
        treatments=("default", "a|b<b>`c`"),
        workloads=("reads & <i>writes</i>",),
        blocks=6,
        status=Status.BUDGET,
    )
    finding = Finding(code="hostile", severity=Severity.WARNING, message=f"{bad} | `x` *y* _z_")
    return replace(
        analysis_of(scene),
        findings=(finding,),
        facts=(Fact(name="CPU | <b>", value=f"{bad}\nsecond line"),),
        settings=(SettingDifference(name="search_path", values=("a|b", bad), requested=True),),
        command=f"steelyard run '{bad}.yaml' --seed 1",
    )


def analysis_of(scene: Scene) -> CampaignAnalysis:
    """Return the analysis that a campaign of this kind might end with."""
    runs = _runs(scene)
    comparisons = _comparisons(scene, runs)
    return CampaignAnalysis(
        campaign_id="20261121-140000-7f3a",
        experiment=_experiment(scene),
        status=scene.status,
        plan=_plan(scene),
        blocks=scene.blocks,
        blocks_redone=(),
        looks=max(0, scene.blocks - 5),
        measured_s=5.0 * len(runs),
        elapsed_s=42.0 + 11.5 * len(runs),
        started_at=STARTED_AT,
        comparisons=comparisons,
        cells=_cells(scene, runs),
        stalls=_stalls(scene),
        warmup=_warmup(scene),
        runs=runs,
        findings=(),
        settings=(
            SettingDifference(
                name="shared_buffers",
                requested=True,
                values=tuple(
                    "128MB" if not i else f"{2 * i}GB" for i in range(len(scene.treatments))
                ),
            ),
            SettingDifference(
                name="wal_buffers",
                requested=False,
                values=tuple("4MB" if not i else "16MB" for i in range(len(scene.treatments))),
            ),
        ),
        facts=_facts(),
        unit=_unit(scene),
        command=f"steelyard run preset:quick --seed {scene.seed}",
    )


def with_evidence(analysis: CampaignAnalysis) -> CampaignAnalysis:
    """Return the analysis with a thrown-away block, a suspect cell and findings of all kinds."""
    first, *others = analysis.cells
    suspect = Finding(
        code="slow-connections",
        severity=Severity.INFO,
        message="opening the connections took 0.41 s of a 2 s ramp",
        source="pgbench",
        subject=f"{first.treatment}, {first.cell.workload}, 8 clients",
    )
    steal = Finding(
        code="steal-time",
        severity=Severity.WARNING,
        message="the hypervisor took 3.2 % of the CPU time of 2 runs; they were repeated",
        remedy="Measure while the neighbours rest, or on a dedicated host.",
        source="/proc/stat",
        subject="campaign",
    )
    return replace(
        analysis,
        cells=(replace(first, validity=Validity.SUSPECT, findings=(suspect,)), *others),
        findings=(steal,),
        blocks_redone=("block 4, try 1: steal time 3.2 % in 2 runs",),
    )


def _experiment(scene: Scene) -> Experiment:
    changed = (Setting(layer=Layer.POSTGRES, name="shared_buffers", value="2GB"),)
    return Experiment(
        name=scene.name,
        baseline=scene.treatments[0],
        treatments=tuple(
            Treatment(name=name, target=LocalTarget(), settings=changed if i else ())
            for i, name in enumerate(scene.treatments)
        ),
        workloads=tuple(
            Workload(
                name=name,
                scale_factor=20,
                builtin="select-only" if name.startswith("reads") else "simple-update",
            )
            for name in scene.workloads
        ),
        loads=tuple(Load(clients=c, threads=min(c, 4)) for c in scene.clients),
        protocol="prepared",
        measure=Measure(discard_s=5.0, prewarm=True),
        stop=Stop(budget_s=scene.budget_s),
        seed=scene.seed,
        description=scene.description,
    )


def _plan(scene: Scene) -> CampaignPlan:
    headlines = len(scene.workloads) * (len(scene.treatments) - 1)
    visits = scene.mode is Mode.VISITS
    return CampaignPlan(
        mode=scene.mode,
        switch=SwitchCost.RESTART if visits else SwitchCost.SESSION,
        reset=Reset.VISIT if visits else Reset.BLOCK,
        restore="reflink",
        restore_s=(("reflink", 0.071), ("copy", 0.94)),
        block_s=38.0,
        stopping=StoppingRule(
            max_blocks=scene.max_blocks,
            alpha=0.04 / headlines,
            headlines=headlines,
            first_look=6 if len(scene.clients) == 1 else 8,
            cell_first_look=6,
            spending_power=2.0,
        ),
        discard=DiscardChoice(
            discard_s=5.0,
            how="measured",
            measured_s=(3.0, 4.0),
            restarts=5,
            residual_fraction=(0.004, 0.006),
            risk="A treatment that warms up more slowly than 5 s is understated by up to 0.6 %.",
        ),
    )


def _rate_of(scene: Scene, treatment: str, cell: CellKey) -> float:
    base = next((v for k, v in BASE_TPS.items() if cell.workload.startswith(k)), 1000.0)
    clients = cell.load.clients
    place = scene.clients.index(clients) / max(1, len(scene.clients) - 1)
    effect = scene.effects.get((treatment, cell.workload), 0.0)
    if treatment == scene.treatments[-1] and len(scene.clients) > 1:
        effect += scene.load_slope * place
    saturation = clients / (1 + 0.09 * (clients - 1) + 0.0008 * clients * (clients - 1))
    return base / 5 * saturation * (1 + effect)


def _runs(scene: Scene) -> tuple[Run, ...]:
    source = random.Random(scene.seed)  # noqa: S311 - a synthetic campaign, no secret
    runs: list[Run] = []
    drift = 0.0
    for block in range(scene.blocks):
        drift += source.gauss(0.0, scene.noise)
        order = source.sample(scene.treatments, len(scene.treatments))
        cells = [CellKey(workload=w, load=_load(c)) for w in scene.workloads for c in scene.clients]
        source.shuffle(cells)
        for visit, treatment in enumerate(order):
            for position, cell in enumerate(cells):
                rate = _rate_of(scene, treatment, cell)
                rate *= math.exp(drift + source.gauss(0.0, scene.noise))
                runs.append(_run(source, (block, visit, position), treatment, cell, rate))
    return tuple(runs)


def _load(clients: int) -> Load:
    return Load(clients=clients, threads=min(clients, 4))


def _run(
    source: random.Random, place: tuple[int, int, int], treatment: str, cell: CellKey, rate: float
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
    block, visit, position = place
    return Run(
        block=block,
        attempt=0,
        visit=visit,
        position=position,
        treatment=treatment,
        cell=cell,
        started_at=STARTED_AT + 42.0 + 38.0 * block + 17.0 * visit + 7.5 * position,
        since_activation_s=5.0 + 7.5 * position,
        measurement=measurement,
        validity=Validity.VALID,
    )


def _contrasts(runs: tuple[Run, ...], arms: tuple[str, str], cell: CellKey) -> list[float]:
    rates = {
        (r.block, r.treatment): r.measurement.log_tps
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
        return Verdict.NOT_DISTINGUISHABLE
    if effect.low > 0:
        return Verdict.FASTER
    if effect.high < 0:
        return Verdict.SLOWER
    inside = -margin < effect.low and effect.high < margin
    return Verdict.EQUIVALENT if inside else Verdict.NOT_DISTINGUISHABLE


def _comparison(
    scene: Scene, arms: tuple[str, str], workload: str, load: Load | None, contrasts: list[float]
) -> Comparison:
    effect = _effect(contrasts, 2.6 if load is None or len(scene.clients) == 1 else 3.1)
    verdict = _verdict(effect, 0.01)
    ranged = effect is not None and effect.low is not None
    small = verdict is Verdict.FASTER and effect is not None and (effect.high or 1) < 0.01
    return Comparison(
        baseline=arms[0],
        treatment=arms[1],
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
        return f"{scene.blocks} blocks; the first look is at 6"
    early = scene.status is Status.DECIDED and scene.blocks < scene.max_blocks
    if load is None and early and verdict.decided:
        return "stopped early: the estimate is a little too large"
    return ""


def _unit(scene: Scene) -> str:
    if not scene.blocks:
        return "nothing was replicated: there is no complete block"
    if scene.mode is Mode.BACK_TO_BACK:
        return (
            f"{scene.blocks} visits to one server on this machine, in which each cell ran the "
            "treatments back to back, with the prepared data restored before each block; not "
            "restarts of it, not two machines"
        )
    return (
        f"{scene.blocks} restarts of one server per treatment on this machine, each from the same "
        "prepared data; not two machines, not two storage products"
    )


def _comparisons(scene: Scene, runs: tuple[Run, ...]) -> tuple[Comparison, ...]:
    result = []
    for workload in scene.workloads:
        for treatment in scene.treatments[1:]:
            arms = (scene.treatments[0], treatment)
            by_load = [
                (_load(c), _contrasts(runs, arms, CellKey(workload=workload, load=_load(c))))
                for c in scene.clients
            ]
            pooled = [fmean(block) for block in zip(*(d for _, d in by_load), strict=True)]
            headline = _comparison(scene, arms, workload, None, pooled)
            cells = [_comparison(scene, arms, workload, load, d) for load, d in by_load]
            result += [replace(headline, depends_on_load=_differ(cells)), *cells]
    return tuple(result)


def _differ(cells: list[Comparison]) -> bool:
    pairs = [
        (c.effect.low, c.effect.high)
        for c in cells
        if c.effect is not None and c.effect.low is not None and c.effect.high is not None
    ]
    return bool(pairs) and max(low for low, _ in pairs) > min(high for _, high in pairs)


def _cells(scene: Scene, runs: tuple[Run, ...]) -> tuple[CellSummary, ...]:
    result = []
    for workload in scene.workloads:
        for clients in scene.clients:
            cell = CellKey(workload=workload, load=_load(clients))
            for treatment in scene.treatments:
                rates = [
                    r.measurement.tps
                    for r in runs
                    if r.cell == cell and r.treatment == treatment and r.measurement is not None
                ]
                if rates:
                    result.append(_cell(treatment, cell, rates))
    return tuple(result)


def _cell(treatment: str, cell: CellKey, rates: list[float]) -> CellSummary:
    centre = median(rates)
    half = 2.6 * stdev(rates) / math.sqrt(len(rates)) if len(rates) >= 6 else None
    return CellSummary(
        treatment=treatment,
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


def _stalls(scene: Scene) -> tuple[StallTest, ...]:
    runs = scene.blocks * len(scene.clients)
    return tuple(
        StallTest(
            baseline=scene.treatments[0],
            treatment=treatment,
            workload=workload,
            baseline_stalled=0,
            baseline_runs=runs,
            treatment_stalled=min(1, runs),
            treatment_runs=runs,
            p_value=1.0,
        )
        for workload in scene.workloads
        for treatment in scene.treatments[1:]
    )


def _warmup(scene: Scene) -> tuple[WarmupCheck, ...]:
    if scene.blocks < 6 or scene.mode is Mode.BACK_TO_BACK:
        return ()
    return tuple(
        WarmupCheck(treatment=name, slope_per_position=0.0013, p_value=0.43)
        for name in scene.treatments[1:]
    )


def _facts() -> tuple[Fact, ...]:
    machine = (
        ("CPU", "Intel Xeon Platinum 8370C at 2.80 GHz, 4 CPUs allowed"),
        ("memory", "22.4 GiB, 8.0 GiB allowed"),
        ("kernel", "Linux 6.1.0-28-amd64"),
        ("file system", "xfs on /dev/vda1, reflink copies work"),
        ("transparent huge pages", "madvise"),
    )
    tools = (("pgbench", "18.1"), ("steelyard", "0.1.0"))
    servers = (("default", "PostgreSQL 18.1"), ("fitted", "PostgreSQL 18.1"))
    return (
        *(Fact(name=n, value=v, subject="machine") for n, v in machine),
        *(Fact(name=n, value=v, subject="tools") for n, v in tools),
        *(Fact(name=n, value=v, subject="servers") for n, v in servers),
    )
