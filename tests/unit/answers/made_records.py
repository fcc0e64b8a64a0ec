"""Records of campaigns that never ran, made from arrays of throughput."""

from dataclasses import replace

import numpy as np

from steelyard.answers.observations import result_count
from steelyard.campaign.design.schedule import make_schedule, mode_for
from steelyard.core.campaign import BlockOutcome, CampaignPlan, CampaignRecord, Status, WarmUpChoice
from steelyard.core.experiment import Configuration, Experiment, Reset, Stop, SwitchCost, Workload
from steelyard.core.findings import Validity
from steelyard.core.measurement import Measurement, Run
from steelyard.core.schedule import CellKey, Load
from steelyard.core.target import LocalTarget
from steelyard.stats.spending import stopping_rule

SLICE_S = 5.0


def an_experiment(
    configurations: int = 2, workloads: int = 1, loads: int = 5, stop: Stop | None = None
) -> Experiment:
    """Return an experiment with a baseline ``t0`` and contenders ``t1`` and on."""
    return Experiment(
        name="test",
        baseline="t0",
        configurations=tuple(
            Configuration(name=f"t{i}", target=LocalTarget()) for i in range(configurations)
        ),
        workloads=tuple(Workload(name=f"w{i}", builtin="select-only") for i in range(workloads)),
        loads=tuple(Load(clients=i + 1, threads=1) for i in range(loads)),
        stop=stop or Stop(),
        seed=7,
    )


def a_plan(experiment: Experiment, switch: SwitchCost, max_blocks: int) -> CampaignPlan:
    """Return a plan as the runner would freeze it."""
    return CampaignPlan(
        mode=mode_for(switch),
        switch=switch,
        reset=Reset.START,
        restore="copy",
        restore_s=(),
        block_s=120.0,
        stopping=stopping_rule(
            results=result_count(experiment),
            first_look=8 if len(experiment.loads) > 1 else 6,
            max_blocks=max_blocks,
            precision=experiment.stop.width,
        ),
        warm_up=WarmUpChoice(warm_up_s=20.0, how="floor", risk=""),
    )


def a_record(
    log_tps: np.ndarray,
    experiment: Experiment,
    *,
    switch: SwitchCost = SwitchCost.RESTART,
    status: Status = Status.BUDGET,
    max_blocks: int = 30,
    rounds: int = 1,
) -> CampaignRecord:
    """Return a record of ``log_tps`` in scheduled order.

    Its shape is (blocks, configurations, cells), or with several rounds (blocks, rounds,
    configurations, cells).
    """
    by_round = log_tps.reshape(len(log_tps), rounds, *log_tps.shape[-2:])
    cells = [
        CellKey(workload=workload.name, load=load)
        for workload in experiment.workloads
        for load in experiment.loads
    ]
    names = [configuration.name for configuration in experiment.configurations]
    schedule = make_schedule(
        configurations=names,
        cells=cells,
        seed=7,
        mode=mode_for(switch),
        blocks=len(log_tps),
        rounds=rounds,
    )
    runs = [
        a_run(
            float(
                by_round[
                    block.index,
                    position * rounds // len(planned.runs),
                    names.index(run.configuration),
                    cells.index(run.cell),
                ]
            ),
            configuration=run.configuration,
            cell=run.cell,
            place=(block.index, start, position),
        )
        for block in schedule.blocks
        for start, planned in enumerate(block.starts)
        for position, run in enumerate(planned.runs)
    ]
    return CampaignRecord(
        campaign_id="test",
        experiment=experiment,
        status=status,
        plan=replace(a_plan(experiment, switch, max_blocks), rounds=rounds),
        environment=None,
        runs=tuple(runs),
        blocks=tuple(
            BlockOutcome(index=index, attempt=0, complete=True) for index in range(len(log_tps))
        ),
        findings=(),
        started_at=0.0,
        elapsed_s=120.0 * len(log_tps),
        command="steelyard run test.yaml",
    )


def a_run(log_tps: float, *, configuration: str, cell: CellKey, place: tuple[int, int, int]) -> Run:
    """Return a valid run at a place (block, start, position)."""
    block, start, position = place
    return Run(
        block=block,
        attempt=0,
        start=start,
        position=position,
        configuration=configuration,
        cell=cell,
        started_at=0.0,
        since_start_s=20.0,
        measurement=Measurement(
            transactions=SLICE_S * float(np.exp(log_tps)),
            seconds=SLICE_S,
            latency_mean_s=0.001,
            latency_stddev_s=None,
            failed=0,
            connection_s=None,
            series=(),
        ),
        validity=Validity.VALID,
    )


def noise(blocks: int, configurations: int = 2, cells: int = 5, seed: int = 1) -> np.ndarray:
    """Return log throughput of 1000/s with 2 % noise and a block effect of 5 %."""
    rng = np.random.default_rng(seed)
    level = np.log(1000.0) + 0.05 * rng.standard_normal((blocks, 1, 1))
    return level + 0.02 * rng.standard_normal((blocks, configurations, cells))


def compared(
    blocks: int, effect: float = 0.0, *, experiment: Experiment | None = None, **options: object
) -> CampaignRecord:
    """Return a record in which every contender is faster than the baseline by ``effect``."""
    asked = experiment or an_experiment()
    cells = len(asked.workloads) * len(asked.loads)
    log_tps = noise(blocks, len(asked.configurations), cells)
    log_tps[:, 1:] += np.log1p(effect)
    return a_record(log_tps, asked, **options)
