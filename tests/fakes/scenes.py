"""Synthetic campaigns: records whose runs follow from a seed, without any server.

``random.Random`` is used because its stream never changes between versions, so golden files stay
what they are.
"""

import math
import random
from dataclasses import dataclass, field

from steelyard.core import campaign, experiment, measurement
from steelyard.core.findings import Fact, Validity
from steelyard.core.measurement import Measurement, Run, Second
from steelyard.core.schedule import CellKey, Load, Mode
from steelyard.core.target import LocalTarget
from steelyard.stats.spending import stopping_rule

STARTED_AT = 1_795_269_600.0  # 2026-11-21 14:00 UTC
BASE_TPS = {"reads": 48_000.0, "writes": 2_400.0, "orders": 830.0}
FACTS = (
    Fact(
        name="CPU", value="Intel Xeon Platinum 8370C at 2.80 GHz, 4 CPUs allowed", subject="machine"
    ),
    Fact(name="memory", value="22.4 GiB, 8.0 GiB allowed", subject="machine"),
    Fact(name="kernel", value="Linux 6.1.0-28-amd64", subject="machine"),
    Fact(name="file system", value="xfs on /dev/vda1, reflink copies work", subject="machine"),
    Fact(name="transparent huge pages", value="madvise", subject="machine"),
    Fact(name="pgbench", value="18.1", subject="tools"),
    Fact(name="steelyard", value="0.1.0", subject="tools"),
    Fact(name="default", value="PostgreSQL 18.1", subject="servers"),
    Fact(name="fitted", value="PostgreSQL 18.1", subject="servers"),
)


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
    status: campaign.Status = campaign.Status.DECIDED
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


def record_of(scene: Scene) -> campaign.CampaignRecord:
    """Return the record of such a campaign; each configuration has more memory than the last."""
    runs = runs_of(scene)
    return campaign.CampaignRecord(
        campaign_id="20261121-140000-7f3a",
        experiment=_experiment(scene),
        status=scene.status,
        plan=_plan(scene),
        environment=measurement.Environment(
            facts=FACTS,
            servers=tuple(_server(name, i) for i, name in enumerate(scene.configurations)),
        ),
        runs=runs,
        blocks=tuple(
            campaign.BlockOutcome(index=block, attempt=0, complete=True)
            for block in range(scene.blocks)
        ),
        findings=(),
        started_at=STARTED_AT,
        elapsed_s=42.0 + 11.5 * len(runs),
        command=f"steelyard run preset:quick --seed {scene.seed}",
    )


def _server(configuration: str, place: int) -> measurement.ServerEnvironment:
    settings = {
        "shared_buffers": f"{2 * place}GB" if place else "128MB",
        "wal_buffers": "16MB" if place else "4MB",
    }
    return measurement.ServerEnvironment(
        configuration=configuration,
        version="18.1",
        settings=tuple(
            experiment.EffectiveSetting(name=name, value=value) for name, value in settings.items()
        ),
    )


def _experiment(scene: Scene) -> experiment.Experiment:
    changed = (
        experiment.Setting(layer=experiment.Layer.POSTGRES, name="shared_buffers", value="2GB"),
    )
    return experiment.Experiment(
        name=scene.name,
        baseline=scene.configurations[0],
        configurations=tuple(
            experiment.Configuration(name=name, target=LocalTarget(), settings=changed if i else ())
            for i, name in enumerate(scene.configurations)
        ),
        workloads=tuple(
            experiment.Workload(
                name=name,
                scale=20,
                builtin="select-only" if name.startswith("reads") else "simple-update",
            )
            for name in scene.workloads
        ),
        loads=tuple(load_of(c) for c in scene.clients),
        protocol="prepared",
        measure=experiment.Measure(warm_up_s=5.0, prewarm=True),
        stop=experiment.Stop(budget_s=scene.budget_s),
        seed=scene.seed,
        description=scene.description,
    )


def _plan(scene: Scene) -> campaign.CampaignPlan:
    starts = scene.mode is not Mode.BACK_TO_BACK
    return campaign.CampaignPlan(
        mode=scene.mode,
        switch=experiment.SwitchCost.RESTART if starts else experiment.SwitchCost.SESSION,
        reset=experiment.Reset.START if starts else experiment.Reset.BLOCK,
        restore="reflink",
        restore_s=(("reflink", 0.071), ("copy", 0.94)),
        block_s=38.0,
        stopping=stopping_rule(
            results=len(scene.workloads) * (len(scene.configurations) - 1),
            first_look=8 if len(scene.clients) > 1 else 6,
            max_blocks=scene.max_blocks,
            precision=None,
        ),
        warm_up=campaign.WarmUpChoice(
            warm_up_s=5.0,
            how="measured",
            measured_s=(3.0, 4.0),
            restarts=5,
            residual_fraction=(0.004, 0.006),
            risk="A configuration that warms up more slowly than 5 s is understated by up to 0.6"
            " %.",
        ),
    )
