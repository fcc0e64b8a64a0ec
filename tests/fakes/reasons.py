"""A synthetic campaign whose runs were watched: asynchronous commit against the default."""

from dataclasses import replace
from functools import cache

from fakes.evidence import Seen, watched
from fakes.scenes import FACTS, Scene, record_of
from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.experiment import EffectiveSetting, Layer, Setting
from steelyard.core.measurement import Absence, Environment, Quantity, ServerEnvironment, WaitClass

_CPU = {
    Quantity.SERVER_CPU_S: 0.00042,
    Quantity.SERVER_RUN_QUEUE_S: 0.0001,
    Quantity.GENERATOR_CPU_S: 0.00006,
    Quantity.STEELYARD_CPU_S: 1e-7,
}
_SECONDS = {
    Quantity.OTHERS_CPU_S: 0.03,
    Quantity.CPU_IDLE_S: 1.7,
    Quantity.DEVICE_READS: 12.0,
    Quantity.DEVICE_WRITES: 310.0,
    Quantity.DEVICE_READ_S: 0.01,
    Quantity.DEVICE_WRITE_S: 0.5,
    Quantity.DEVICE_BUSY_S: 0.42,
    Quantity.DEVICE_QUEUE_S: 0.6,
}
_HIDDEN = Absence(subject="huge pages", reason="the role may not read /proc/PID/smaps")
_READS = Seen(
    parts_s={WaitClass.CPU: 0.0001, WaitClass.CLIENT: 0.00006},
    per_transaction={
        Quantity.SERVER_CPU_S: 0.00003,
        Quantity.SERVER_RUN_QUEUE_S: 0.00005,
        Quantity.GENERATOR_CPU_S: 0.00001,
        Quantity.STEELYARD_CPU_S: 1e-9,
        Quantity.PAGES_HIT: 4.1,
        Quantity.WAL_SYNCS: 0.0,
    },
    per_second=_SECONDS,
    absent=(_HIDDEN,),
)
_WRITES = Seen(
    parts_s={
        WaitClass.CPU: 0.0006,
        WaitClass.IO: 0.0001,
        WaitClass.WAL: 0.0023,
        WaitClass.LWLOCK: 0.0001,
        WaitClass.CLIENT: 0.0004,
    },
    per_transaction={
        **_CPU,
        Quantity.PAGES_HIT: 23.0,
        Quantity.WAL_BYTES: 640.0,
        Quantity.WAL_SYNCS: 0.31,
        Quantity.FULL_PAGE_IMAGES: 0.012,
    },
    per_second=_SECONDS,
    absent=(_HIDDEN,),
)
_ASYNC = replace(
    _WRITES,
    parts_s=_WRITES.parts_s | {WaitClass.WAL: 0.00004},
    per_transaction=_WRITES.per_transaction | {Quantity.WAL_SYNCS: 0.002},
)


@cache
def explained() -> CampaignAnalysis:
    """Return two workloads over two loads: writes no longer wait for the WAL, reads stay equal."""
    scene = Scene(
        name="asynchronous commit",
        configurations=("default", "async"),
        clients=(1, 8),
        effects={("async", "writes"): 1.5},
        noise=0.015,
        blocks=12,
        max_blocks=12,
        status=Status.BUDGET,
        budget_s=900.0,
    )
    return analyse(_record(scene))


def _record(scene: Scene) -> CampaignRecord:
    made = record_of(scene)
    asked = (Setting(layer=Layer.POSTGRES, name="synchronous_commit", value="off"),)
    experiment = replace(
        made.experiment,
        configurations=tuple(
            replace(each, settings=asked if place else ())
            for place, each in enumerate(made.experiment.configurations)
        ),
    )
    return replace(
        made,
        experiment=experiment,
        environment=Environment(
            facts=FACTS,
            servers=tuple(
                ServerEnvironment(
                    configuration=name,
                    version="18.1",
                    settings=(EffectiveSetting(name="synchronous_commit", value=value),),
                )
                for name, value in zip(scene.configurations, ("on", "off"), strict=True)
            ),
        ),
        runs=tuple(watched(run, _seen(run.cell.workload, run.configuration)) for run in made.runs),
    )


def _seen(workload: str, configuration: str) -> Seen:
    if workload == "reads":
        return _READS
    return _ASYNC if configuration == "async" else _WRITES
