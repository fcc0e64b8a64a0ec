"""Records of Redis campaigns that never ran: what the main thread did for each request is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from made_records import a_record, an_experiment

from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment, Layer, Measure, Setting
from steelyard.core.measurement import Absence, Evidence, Quantity, Run
from steelyard.core.schedule import Load
from steelyard.core.target import EngineName, RedisLocalTarget

CLIENTS = 20
NO_WAITS = Absence(subject="wait events", reason="Redis does not say what its sessions wait for.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Does:
    """What a server's main thread does for a request, in seconds, and what is counted.

    Attributes:
        idle_s: It waits for the next request.
        per_request: Totals of a request, by quantity.
        per_second: Totals of a second.
        levels: At the end of each run.
    """

    executing_s: float = 0.00002
    serving_s: float = 0.00006
    forking_s: float = 0.0
    blocked_s: float = 0.0
    queued_s: float = 0.000002
    idle_s: float = 0.00001
    per_request: Mapping[Quantity, float] = field(default_factory=dict)
    per_second: Mapping[Quantity, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)

    @property
    def whole_s(self) -> float:
        """Return the time between two answers."""
        on_cpu_s = self.executing_s + self.serving_s + self.forking_s
        return on_cpu_s + self.blocked_s + self.queued_s + self.idle_s

    @property
    def counted(self) -> dict[Quantity, float]:
        """Return the totals of a request."""
        on_cpu_s = self.executing_s + self.serving_s + self.forking_s
        return {
            Quantity.SERVER_CPU_S: 1.05 * on_cpu_s,
            Quantity.MAIN_THREAD_CPU_S: on_cpu_s,
            Quantity.COMMAND_S: self.executing_s,
            Quantity.FORK_S: self.forking_s,
            Quantity.MAIN_THREAD_BLOCKED_S: self.blocked_s,
            Quantity.MAIN_THREAD_RUN_QUEUE_S: self.queued_s,
            Quantity.GENERATOR_CPU_S: 0.00005,
            Quantity.STEELYARD_CPU_S: 1e-7,
            **self.per_request,
        }


def redis_experiment(*, pipeline: int = 1, **settings: tuple[str, str]) -> Experiment:
    """Return a baseline ``t0`` and ``t1`` on Redis; the settings have a value on each."""
    made = an_experiment(loads=1)
    configurations = tuple(
        replace(
            configuration,
            target=RedisLocalTarget(),
            settings=tuple(
                Setting(layer=Layer.REDIS, name=name.replace("_", "-"), value=values[place])
                for name, values in settings.items()
            ),
        )
        for place, configuration in enumerate(made.configurations)
    )
    return replace(
        made,
        engine=EngineName.REDIS,
        configurations=configurations,
        measure=Measure(discard_start_s=0.0),
        workloads=(replace(made.workloads[0], builtin="set"),),
        loads=(Load(clients=CLIENTS, threads=1, pipeline=pipeline),),
    )


def redis_record(
    baseline: Does,
    other: Does,
    *,
    blocks: int = 12,
    experiment: Experiment | None = None,
    lacking: frozenset[Quantity] = frozenset(),
) -> CampaignRecord:
    """Return a record in which both servers do what is said, block after block with some noise."""
    rng = np.random.default_rng(3)
    experiment = experiment or redis_experiment()
    level = np.log([1.0 / baseline.whole_s, 1.0 / other.whole_s])[np.newaxis, :, np.newaxis]
    log_tps = level + 0.01 * rng.standard_normal((blocks, 2, 1))
    record = a_record(log_tps, experiment)
    runs = (_watched(run, baseline if run.configuration == "t0" else other) for run in record.runs)
    return replace(record, runs=tuple(_without(run, lacking) for run in runs))


def _watched(run: Run, does: Does) -> Run:
    measured = run.measurement
    assert measured is not None
    stretch = (measured.seconds / measured.transactions) / does.whole_s
    seconds = measured.seconds + 0.3
    totals = {q: value * stretch * measured.transactions for q, value in does.counted.items()}
    totals |= {q: value * measured.transactions for q, value in does.per_request.items()}
    totals |= {q: value * seconds for q, value in does.per_second.items()}
    evidence = Evidence(
        seconds=seconds,
        totals=totals,
        levels={Quantity.CPUS: 2.0, **does.levels},
        waits=None,
        series=(),
        others=(),
        absent=(NO_WAITS,),
    )
    return replace(run, evidence=evidence)


def _without(run: Run, lacking: frozenset[Quantity]) -> Run:
    assert run.evidence is not None
    kept = {q: value for q, value in run.evidence.totals.items() if q not in lacking}
    return replace(run, evidence=replace(run.evidence, totals=kept))
