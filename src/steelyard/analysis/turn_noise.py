"""The noise of an A/A campaign in turns: from its blocks and their turns to the parts of it."""

import math
from collections.abc import Sequence

import numpy as np

from steelyard.analysis.observations import Observations
from steelyard.analysis.turns import block_turns
from steelyard.model.measurement import Run
from steelyard.model.noise import ALL_NAMED, TurnNoise, WorkloadNoise
from steelyard.model.turns import TurnTimes
from steelyard.stats.noise import LEAST_BLOCKS
from steelyard.stats.turn_noise import (
    TurnNoiseParts,
    TurnNoiseSample,
    Within,
    turn_noise_parts,
    within_block,
)

_NOTHING = Within(second=math.nan)


def parts_in_turns(
    seen: Observations, workload: str, times: TurnTimes, slice_s: float
) -> tuple[TurnNoiseParts | None, str]:
    """Return the parts of one workload's noise in turns, or why there are none."""
    if seen.blocks < LEAST_BLOCKS:
        return None, f"{seen.blocks} blocks; the parts need {LEAST_BLOCKS}"
    columns = seen.columns_of(workload)
    rounds = times.turns_in(slice_s)
    found = [_within(seen, column, times.sets(rounds)) for column in columns]
    second, sets, set_s = (
        np.array([[getattr(each, name) for each in cell] for cell in found]).T
        for name in ("second", "sets", "set_s")
    )
    if not np.isfinite(second).any():
        return None, "no block has turns enough to tell the noise within it"
    first, again = seen.treatments[:2]
    sample = TurnNoiseSample(
        levels=seen.log_tps[:, :2][:, :, columns],
        companions=np.delete(seen.contrasts(first, again), columns, axis=1),
        second=second,
        sets=sets,
        set_s=set_s,
        counted_s=_counted_s(seen, columns),
        number_of_sets=times.reconnections + 1,
    )
    return turn_noise_parts(sample), ""


def _within(seen: Observations, column: int, sets: Sequence[range]) -> list[Within]:
    """Return what the turns of a cell tell, block by block; NaN where they tell nothing."""
    cell = seen.cells[column]
    arms = [seen.runs[name, cell] for name in seen.treatments[:2]]
    return [_of_block(runs, sets) for runs in zip(*arms, strict=True)]


def _of_block(runs: Sequence[Run], sets: Sequence[range]) -> Within:
    turns = block_turns(runs)
    found = None if turns is None else within_block(turns, sets)
    return _NOTHING if found is None else found


def _counted_s(seen: Observations, columns: Sequence[int]) -> float:
    """Return the mean seconds that count of a run: lost rounds do not."""
    taken = [
        run.measurement.seconds
        for column in columns
        for name in seen.treatments[:2]
        for run in seen.runs[name, seen.cells[column]]
        if run.measurement is not None
    ]
    return float(np.mean(taken))


def noise_in_turns(workload: str, parts: TurnNoiseParts, block_h: float) -> WorkloadNoise:
    """Return the parts for later plans, also what they say of visits.

    What connections draw stands alone only where it is clear that they draw something, else it
    counts as the start's: more connections are advised on no guess. A run that is compared with
    one of the next block has met another start and another minute of the machine, as in visits:
    what the first does not explain becomes a drift that explains it.

    Args:
        workload: Its name.
        parts: As measured.
        block_h: From one block to the next, hours.
    """
    second = parts.second_sd.estimate
    drawn = _drawn(parts)
    moved = parts.apart_sd.estimate**2 - drawn - second**2 / parts.counted_s
    connection = parts.connection_sd if parts.connections_show else None
    return WorkloadNoise(
        workload=workload,
        second_sd=second,
        autocorrelation=0.0,
        slice_sd=0.0,
        visit_sd=math.sqrt(drawn),
        drift_sd=math.sqrt(2.0 * max(moved, 0.0) / block_h),
        unnamed=ALL_NAMED,
        turns=TurnNoise(
            start_sd=math.sqrt(drawn) if connection is None else parts.start_sd.estimate,
            connection_sd=None if connection is None else connection.estimate,
            second_sd=second,
        ),
    )


def start_share(parts: TurnNoiseParts) -> float | None:
    """Return of the variance of one cell's contrast, what starts and connections bring.

    None where there is none.
    """
    if parts.contrast_variance <= 0.0:
        return None
    return min(2.0 * _drawn(parts) / parts.contrast_variance, 1.0)


def _drawn(parts: TurnNoiseParts) -> float:
    """Return the variance that a start and its connections bring into a run."""
    connection = 0.0 if parts.connection_sd is None else parts.connection_sd.estimate**2
    return parts.start_sd.estimate**2 + connection / parts.number_of_sets
