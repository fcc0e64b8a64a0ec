"""Simulated alternating blocks as the record of a campaign."""

import numpy as np

from steelyard.stats.spending import stopping_rule
from steelyard.core.campaign import BlockOutcome
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment
from steelyard.core.experiment import Stop
from steelyard.core.experiment import Configuration
from steelyard.core.findings import Validity
from steelyard.core.schedule import Load
from steelyard.core.experiment import Reset
from steelyard.core.experiment import SwitchCost
from steelyard.core.measurement import Measurement
from steelyard.core.measurement import Run
from steelyard.core.campaign import CampaignPlan
from steelyard.core.campaign import WarmUpChoice
from steelyard.core.campaign import Status
from steelyard.core.schedule import CellKey
from steelyard.core.schedule import Mode
from steelyard.core.target import LocalTarget
from steelyard.core.schedule import Turn
from steelyard.core.experiment import Workload


def experiment_of(taken):
    """Return the experiment behind simulated turns: configurations c0, c1, ... under one workload."""
    cells, _, configurations = taken.places.shape[2:]
    return Experiment(
        name="simulated",
        baseline="c0",
        configurations=tuple(
            Configuration(name=f"c{number}", target=LocalTarget())
            for number in range(configurations)
        ),
        workloads=(Workload(name="w", builtin="select-only"),),
        loads=tuple(Load(clients=number + 1, threads=1) for number in range(cells)),
        stop=Stop(),
        seed=1,
    )


def record_of(taken, campaign):
    """Return the record of one of the campaigns; the slot is the place of the start."""
    experiment = experiment_of(taken)
    blocks = taken.places.shape[1]
    return CampaignRecord(
        campaign_id="simulated",
        experiment=experiment,
        status=Status.BUDGET,
        plan=plan_of(experiment, blocks),
        environment=None,
        runs=tuple(runs_of(taken, campaign, experiment)),
        blocks=tuple(BlockOutcome(index=n, attempt=0, complete=True) for n in range(blocks)),
        findings=(),
        started_at=0.0,
        elapsed_s=15.0 * blocks,
        command="steelyard run simulated.yaml",
    )


def plan_of(experiment, blocks):
    """Return a plan as a runner would freeze it."""
    return CampaignPlan(
        mode=Mode.STARTS,
        switch=SwitchCost.RESTART,
        reset=Reset.START,
        restore="copy",
        restore_s=(),
        block_s=15.0,
        stopping=stopping_rule(
            results=len(experiment.configurations) - 1,
            cells_per_result=len(experiment.loads),
            max_blocks=blocks,
            precision=None,
        ),
        warm_up=WarmUpChoice(warm_up_s=2.0, how="declared", risk=""),
    )


def runs_of(taken, campaign, experiment):
    """Yield a run of each configuration in each cell of each block, with its turns."""
    _, blocks, cells, _, configurations = taken.places.shape
    for block, cell, side in np.ndindex(blocks, cells, configurations):
        turns = turns_of(taken, (campaign, block, cell), side)
        yield Run(
            block=block,
            attempt=0,
            start=int(taken.slots[campaign, block, side]),
            position=cell,
            configuration=experiment.configurations[side].name,
            cell=CellKey(workload="w", load=experiment.loads[cell]),
            started_at=0.0,
            since_start_s=2.0,
            measurement=Measurement(
                transactions=float(sum(turn.transactions for turn in turns)),
                seconds=sum(turn.seconds for turn in turns),
                latency_mean_s=None,
                latency_stddev_s=None,
                failed=0,
                connection_s=None,
                series=(),
            ),
            validity=Validity.VALID,
            turns=turns,
        )


def turns_of(taken, at, side):
    """Return the turns of one configuration in a block and cell."""
    return tuple(
        Turn(
            round=number,
            place=int(taken.places[at][number, side]),
            began_s=float(taken.began_s[at][number, side]),
            seconds=taken.way.counted_s,
            transactions=int(taken.transactions[at][number, side]),
            early=int(taken.early[at][number, side]),
        )
        for number in range(taken.way.rounds)
    )
