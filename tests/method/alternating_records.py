"""Simulated alternating blocks as the record of a campaign."""

import numpy as np

from steelyard.stats.spending import first_look_of
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


def experiment_of(configurations, cells=1, seed=1):
    """Return an experiment of configurations c0, c1, ... under one workload."""
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
        seed=seed,
    )


def record_of(taken, campaign):
    """Return the record of one of the campaigns; the slot is the place of the start."""
    _, blocks, cells, _, configurations = taken.places.shape
    experiment = experiment_of(configurations, cells)
    return record_with(experiment, runs_of(taken, campaign, experiment), blocks, Mode.STARTS)


def record_with(experiment, runs, blocks, mode):
    """Return a record of complete blocks with these runs, under a plan as a runner freezes it."""
    plan = CampaignPlan(
        mode=mode,
        switch=SwitchCost.RESTART,
        reset=Reset.START,
        restore="copy",
        restore_s=(),
        block_s=15.0,
        stopping=stopping_rule(
            results=len(experiment.configurations) - 1,
            first_look=first_look_of(len(experiment.configurations)),
            max_blocks=blocks,
            precision=None,
        ),
        warm_up=WarmUpChoice(warm_up_s=2.0, how="declared", risk=""),
    )
    return CampaignRecord(
        campaign_id="simulated",
        experiment=experiment,
        status=Status.BUDGET,
        plan=plan,
        environment=None,
        runs=tuple(runs),
        blocks=tuple(BlockOutcome(index=n, attempt=0, complete=True) for n in range(blocks)),
        findings=(),
        started_at=0.0,
        elapsed_s=15.0 * blocks,
        command="steelyard run simulated.yaml",
    )


def run_of(place, configuration, load, counted, turns=(), sub_block=0):
    """Return a run that counts, by block, start and position, and by transactions and seconds."""
    block, start, position = place
    transactions, seconds = counted
    return Run(
        block=block,
        attempt=0,
        start=start,
        position=position,
        configuration=configuration,
        cell=CellKey(workload="w", load=load),
        started_at=0.0,
        since_start_s=2.0,
        measurement=Measurement(
            transactions=transactions,
            seconds=seconds,
            latency_mean_s=None,
            latency_stddev_s=None,
            failed=0,
            connection_s=None,
            series=(),
        ),
        validity=Validity.VALID,
        turns=turns,
        sub_block=sub_block,
    )


def runs_of(taken, campaign, experiment):
    """Yield a run of each configuration in each cell of each block, with its turns."""
    _, blocks, cells, _, configurations = taken.places.shape
    for block, cell, side in np.ndindex(blocks, cells, configurations):
        turns = turns_of(taken, (campaign, block, cell), side)
        counted = float(sum(turn.transactions for turn in turns)), sum(t.seconds for t in turns)
        place = block, int(taken.slots[campaign, block, side]), cell
        name = experiment.configurations[side].name
        yield run_of(place, name, experiment.loads[cell], counted, turns)


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
