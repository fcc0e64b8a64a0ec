"""The order of runs, drawn by coin before the first of them (METHOD 3.1).

The comparison is valid because of this coin, whatever the noise: never replace it by a pattern.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from steelyard.analysis.stopping import blocks_within
from steelyard.model.experiment import Experiment
from steelyard.model.measure import SwitchCost
from steelyard.model.schedule import (
    CellKey,
    Mode,
    PlannedBlock,
    PlannedRun,
    PlannedVisit,
    Schedule,
)


def mode_for(switch: SwitchCost, *, single_pass: bool = False, alternates: bool = False) -> Mode:
    """Return how blocks are made: back to back where a running server can change sides."""
    if single_pass:
        return Mode.VISITS
    if alternates:
        return Mode.ALTERNATING
    if switch in (SwitchCost.SESSION, SwitchCost.RELOAD):
        return Mode.BACK_TO_BACK
    return Mode.VISITS


def blocks_planned(experiment: Experiment, left_s: float, block_s: float) -> int:
    """Return how many blocks a campaign may take; a single pass is one, however long it takes."""
    return 1 if experiment.is_single_pass else blocks_within(left_s, block_s)


def cells_of(experiment: Experiment) -> tuple[CellKey, ...]:
    """Return every workload under every load, in file order."""
    return tuple(
        CellKey(workload=workload.name, load=load)
        for workload in experiment.workloads
        for load in experiment.loads
    )


def schedule_of(
    experiment: Experiment,
    *,
    mode: Mode,
    blocks: int,
    rounds: int = 1,
    reading: Collection[str] = (),
) -> Schedule:
    """Return the order of an experiment's runs, as its design asks.

    Workloads that only read are named in ``reading``: alternating blocks begin with them.
    """
    names = [treatment.name for treatment in experiment.treatments]
    if experiment.is_single_pass:
        return single_pass(names[0], cells_of(experiment), seed=experiment.seed)
    drawn = make_schedule(
        treatments=names,
        cells=cells_of(experiment),
        seed=experiment.seed,
        mode=mode,
        blocks=blocks,
        rounds=rounds,
    )
    if mode is not Mode.ALTERNATING:
        return drawn
    return replace(drawn, blocks=tuple(_reads_first(block, reading) for block in drawn.blocks))


def single_pass(treatment: str, cells: Sequence[CellKey], *, seed: int) -> Schedule:
    """Return one visit with every cell once, in the order given: no coin is tossed.

    It copies what is usually published, order and time confounded with the load, so that it can
    be put beside it. Nothing may be compared by it.
    """
    runs = tuple(PlannedRun(treatment=treatment, cell=cell) for cell in cells)
    visit = PlannedVisit(treatment=treatment, runs=runs)
    block = PlannedBlock(index=0, visits=(visit,))
    return Schedule(seed=seed, mode=Mode.VISITS, blocks=(block,))


def make_schedule(
    *,
    treatments: Sequence[str],
    cells: Sequence[CellKey],
    seed: int,
    mode: Mode,
    blocks: int,
    rounds: int = 1,
) -> Schedule:
    """Return complete blocks in random order, a function of the arguments alone.

    Every block holds each treatment in each cell exactly ``rounds`` times. Block i is the same
    however many blocks are asked for, so a longer campaign continues a shorter one.

    Args:
        treatments: Names, the baseline among them; with two, a coin says which goes first.
        cells: In a block's visits they come in one random order, the same in all its visits, so
            that warm-up and checkpoints meet both sides alike. Every round has an order of its own.
        seed: Not negative.
        mode: Visits: one visit per treatment. Alternating: likewise, and all of them at the same
            time, the first in the first slot. Back to back: one visit in which each cell runs all
            treatments, with a coin of its own.
        blocks: How many to plan.
        rounds: Passes over the cells in one visit.

    Raises:
        ValueError: The seed is negative, or there is no treatment, no cell or no round.
    """
    if not treatments or not cells or rounds < 1:
        raise ValueError(
            f"no block from {len(treatments)} treatments in {len(cells)} cells, {rounds} times"
        )
    draw = _back_to_back if mode is Mode.BACK_TO_BACK else _visits
    planned = tuple(
        PlannedBlock(index=index, visits=draw(treatments, cells, block_coin(seed, index), rounds))
        for index in range(blocks)
    )
    return Schedule(seed=seed, mode=mode, blocks=planned)


def _reads_first(block: PlannedBlock, reading: Collection[str]) -> PlannedBlock:
    """Return a block in whose visits what only reads comes first, else in the order drawn."""

    def place(run: PlannedRun) -> bool:
        return run.cell.workload not in reading

    visits = [replace(visit, runs=tuple(sorted(visit.runs, key=place))) for visit in block.visits]
    return replace(block, visits=tuple(visits))


def block_coin(seed: int, index: int, *further: int) -> np.random.Generator:
    """Return the random numbers of one block, or of a part of it, independent of all others."""
    sequence = np.random.SeedSequence(seed, spawn_key=(index, *further))
    return np.random.Generator(np.random.PCG64(sequence))


def _visits(
    treatments: Sequence[str], cells: Sequence[CellKey], coin: np.random.Generator, rounds: int
) -> tuple[PlannedVisit, ...]:
    first_to_last = [treatments[place] for place in coin.permutation(len(treatments))]
    order = [cells[place] for _ in range(rounds) for place in coin.permutation(len(cells))]
    return tuple(
        PlannedVisit(
            treatment=treatment,
            runs=tuple(PlannedRun(treatment=treatment, cell=cell) for cell in order),
        )
        for treatment in first_to_last
    )


def _back_to_back(
    treatments: Sequence[str], cells: Sequence[CellKey], coin: np.random.Generator, rounds: int
) -> tuple[PlannedVisit, ...]:
    runs = tuple(
        PlannedRun(treatment=treatments[side], cell=cells[place])
        for _ in range(rounds)
        for place in coin.permutation(len(cells))
        for side in coin.permutation(len(treatments))
    )
    return (PlannedVisit(treatment=runs[0].treatment, runs=runs),)
