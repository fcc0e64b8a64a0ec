"""The warning light: does the contrast still change with the time since activation?"""

from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.observations import Observations
from steelyard.analysis.results import WarmupCheck
from steelyard.model.experiment import Experiment
from steelyard.model.schedule import Mode
from steelyard.stats.warmup import position_slope

LEAST_BLOCKS = 6
LEAST_RUNS = 2


def check_warmup(seen: Observations, experiment: Experiment, mode: Mode) -> tuple[WarmupCheck, ...]:
    """Return one check per headline contrast, over all runs of closed loops in its visits.

    Back to back there is nothing to check: both sides share the server and its age.
    """
    if (
        mode is not Mode.VISITS
        or seen.blocks < LEAST_BLOCKS
        or len(seen.cells) * seen.rounds < LEAST_RUNS
    ):
        return ()
    return tuple(_check(seen, asked) for asked in headline_contrasts(experiment))


def _check(seen: Observations, asked: HeadlineContrast) -> WarmupCheck:
    # The runs come in one order in all visits of a block: any visit tells the places.
    positions = seen.places[:, :, asked.positive[0]]
    slope = position_slope(
        seen.weighted_slices(asked.weights).reshape(seen.blocks, -1),
        positions.reshape(seen.blocks, -1),
        rounds=seen.rounds,
    )
    return WarmupCheck(
        treatment=asked.treatment, slope_per_position=slope.per_position, p_value=slope.p_value
    )
