"""What the turns of a campaign say of its comparisons: is one still warming up, or carried over to?

One value per block, workload and comparison: the mean over the workload's loads. It is a plain
mean, because a start that warms up shows in the block's first load, which a trimmed one would drop.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.observations import Observations, observe
from steelyard.model.campaign import CampaignRecord
from steelyard.model.experiment import Experiment
from steelyard.model.measurement import Run
from steelyard.model.schedule import CellKey
from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.turns import (
    BlockTurns,
    Weights,
    change_by_predecessor,
    change_over_block,
    change_within_turns,
    interval_of_changes,
    is_suspect,
)


class TurnChange(StrEnum):
    """In what a comparison may change where nothing should."""

    OVER_BLOCK = "over the block"  # warming up
    WITHIN_TURNS = "within turns"  # carry-over: second halves against first ones
    BY_PREDECESSOR = "by predecessor"  # carry-over: after itself against after another one


_CHANGES: Final[dict[TurnChange, Callable[[BlockTurns, Weights], float | None]]] = {
    TurnChange.OVER_BLOCK: change_over_block,
    TurnChange.WITHIN_TURNS: change_within_turns,
    TurnChange.BY_PREDECESSOR: change_by_predecessor,
}
CARRIED_OVER: Final = (TurnChange.WITHIN_TURNS, TurnChange.BY_PREDECESSOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCheck:
    """One such change of one comparison.

    Attributes:
        change: Of the log ratio, with its interval at level 1 %; None with too few blocks.
        blocks: That have a value.
        of: Blocks that were taken in turns.
    """

    what: TurnChange
    workload: str
    baseline: str
    treatment: str
    change: Interval | None
    blocks: int
    of: int

    @property
    def is_suspect(self) -> bool:
        """Return whether the interval lies wholly beyond plus or minus 1 %."""
        return is_suspect(self.change)


def check_turns(
    seen: Observations,
    experiment: Experiment,
    changes: Sequence[TurnChange] = tuple(TurnChange),
    *,
    since: int = 0,
) -> tuple[TurnCheck, ...]:
    """Return the checks of every workload and headline; none where no block was taken in turns.

    Args:
        seen: The observations; open loops are left out, for they hold their rate.
        experiment: Names the workloads and what is compared under each.
        changes: Which of them to check.
        since: First block that is looked at.
    """
    closed = seen.of_closed_loops()
    checks: list[TurnCheck] = []
    for workload in experiment.workloads:
        blocks = turns_by_block(closed, workload.name, since=since)
        if blocks:
            checks.extend(
                _check(blocks, what, workload.name, asked)
                for asked in headline_contrasts(experiment)
                for what in changes
            )
    return tuple(checks)


def still_warming(record: CampaignRecord, *, since: int = 0) -> bool:
    """Return whether the next block must warm up longer, for all configurations alike.

    To be asked after each block. Exchanging the labels of two configurations in the whole campaign
    changes nothing about the answer, and no coin that is still to be tossed depends on it.

    Args:
        record: Of the blocks so far.
        since: First block that had the present warm-up: blocks that had a shorter one say nothing
            of this one. Six blocks are needed for an answer; before, it is no.
    """
    warming = (TurnChange.OVER_BLOCK,)
    checks = check_turns(observe(record), record.experiment, warming, since=since)
    return any(check.is_suspect for check in checks)


def turns_by_block(
    seen: Observations, workload: str, *, since: int = 0
) -> tuple[tuple[BlockTurns, ...], ...]:
    """Return the turns of a workload's cells, block by block; blocks without turns are left out.

    Of a cell only rounds in which every configuration has its turn are taken: the runner drops a
    round that was lost for one of them for all.
    """
    taken: dict[int, dict[CellKey, dict[str, list[Run]]]] = {}
    for (name, cell), runs in seen.runs.items():
        for run in runs if cell.workload == workload else ():
            if run.block >= since:
                sides = taken.setdefault(run.block, {}).setdefault(cell, {})
                sides.setdefault(name, []).append(run)
    blocks = [_cells_in_turns(taken[index], seen.treatments) for index in sorted(taken)]
    return tuple(cells for cells in blocks if cells)


def _cells_in_turns(
    cells: Mapping[CellKey, Mapping[str, Sequence[Run]]], treatments: Sequence[str]
) -> tuple[BlockTurns, ...]:
    """Return the turns of one block's cells; an alternating block has one run per treatment."""
    whole = [
        [run for name in treatments for run in sides.get(name, ())]
        for sides in cells.values()
        if all(len(sides.get(name, ())) == 1 for name in treatments)
    ]
    found = [block_turns(runs) for runs in whole]
    return tuple(turns for turns in found if turns is not None)


def block_turns(runs: Sequence[Run]) -> BlockTurns | None:
    """Return the turns of a block's runs in one cell, a column per run; None without a round."""
    by_round = [{turn.round: turn for turn in run.turns} for run in runs]
    common = sorted(set.intersection(*map(set, by_round))) if by_round else []
    if not common:
        return None
    rows = [[turns[number] for turns in by_round] for number in common]
    return BlockTurns(
        rounds=np.array(common, dtype=np.float64),
        places=np.array([[turn.place for turn in row] for row in rows], dtype=np.float64),
        seconds=np.array([[turn.seconds for turn in row] for row in rows]),
        transactions=np.array([[turn.transactions for turn in row] for row in rows], dtype=float),
        early=np.array([[turn.early for turn in row] for row in rows], dtype=np.float64),
    )


def _check(
    blocks: Sequence[Sequence[BlockTurns]],
    what: TurnChange,
    workload: str,
    asked: HeadlineContrast,
) -> TurnCheck:
    values = _values(blocks, _CHANGES[what], asked.weights)
    return TurnCheck(
        what=what,
        workload=workload,
        baseline=asked.baseline,
        treatment=asked.treatment,
        change=interval_of_changes(values),
        blocks=len(values),
        of=len(blocks),
    )


def _values(
    blocks: Sequence[Sequence[BlockTurns]],
    change: Callable[[BlockTurns, Weights], float | None],
    weights: Weights,
) -> FloatArray:
    """Return one mean per block over the cells that have a value, for blocks that have any."""
    found = [[change(turns, weights) for turns in cells] for cells in blocks]
    known = [[value for value in values if value is not None] for values in found]
    return np.array([np.mean(values) for values in known if values], dtype=np.float64)
