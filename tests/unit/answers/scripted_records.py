"""Records of campaigns that never ran, of a workload of several scripts, made from their times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.experiment import Script, Stop, Workload
from steelyard.core.measurement import (
    Environment,
    Run,
    RunLatency,
    ScriptLatency,
    ServerEnvironment,
    StatementPlan,
)
from steelyard.stats.histogram import histogram_of, to_text
from unit.answers.made_records import a_record, an_experiment

BASE_S = 0.05  # of each script in the baseline
CLIENTS = 2


def a_scripted_record(
    effects: Mapping[str, float],
    *,
    blocks: int = 12,
    noise: float | Mapping[str, float] = 0.02,
    executions: int = 5,
    margin: float = 0.05,
    status: Status = Status.BUDGET,
    max_blocks: int = 12,
    seed: int = 1,
    plans: Mapping[str, Sequence[StatementPlan]] | None = None,
    in_order: bool = False,
) -> CampaignRecord:
    """Return a record of two configurations at one load, of scripts with these effects on times.

    Args:
        effects: Relative change of the time of each script.
        blocks: Complete ones.
        noise: Standard deviation of ln(time) of an execution, of all scripts or of each.
        executions: Of each script in a run.
        margin: Of equivalence, and the effect to detect.
        status: How the campaign ended.
        max_blocks: Of its plan.
        seed: Of the noise.
        plans: Of each configuration's server.
        in_order: The scripts ran in a given order, so that each execution is known.
    """
    random = np.random.default_rng(seed)
    stop = Stop(budget_s=300.0, detect=margin, margin=margin)
    experiment = an_experiment(loads=1, stop=stop)
    scripts = tuple(Script(name=f"{name}.sql", text="SELECT 1;") for name in effects)
    experiment = replace(experiment, workloads=(Workload(name="reports", scripts=scripts),))

    def drawn(side: int) -> dict[str, np.ndarray]:
        spread = {name: noise if isinstance(noise, float) else noise[name] for name in effects}
        return {
            name: BASE_S
            * (1.0 + side * effect)
            * np.exp(spread[name] * random.standard_normal(executions))
            for name, effect in effects.items()
        }

    times = [[drawn(side) for side in (0, 1)] for _ in range(blocks)]
    rates = np.array(
        [[[np.log(CLIENTS / _round_s(of_run))] for of_run in block] for block in times]
    )
    record = a_record(rates, experiment, status=status, max_blocks=max_blocks)

    def with_logs(run: Run) -> Run:
        of_run = times[run.block][int(run.configuration.removeprefix("t"))]
        logs = tuple(
            ScriptLatency(
                script=f"{name}.sql",
                latency=to_text(histogram_of(1e6 * each)),
                longest_s=None,
                executions_s=tuple(each) if in_order else (),
            )
            for name, each in of_run.items()
        )
        return replace(run, latency=RunLatency(scripts=logs))

    servers = tuple(
        ServerEnvironment(configuration=name, version="18.0", settings=(), plans=tuple(told))
        for name, told in (plans or {}).items()
    )
    return replace(
        record,
        runs=tuple(map(with_logs, record.runs)),
        environment=Environment(facts=(), servers=servers) if servers else None,
    )


def _round_s(of_run: Mapping[str, np.ndarray]) -> float:
    return float(np.mean([each.mean() for each in of_run.values()]))
