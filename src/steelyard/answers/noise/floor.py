"""What an A/A campaign says of its set-up: the parts of the noise, and what can be seen through it.

Deviations are of ln(tps): 0.02 means about 2 %.
"""

from dataclasses import dataclass

from steelyard.core.findings import Estimate
from steelyard.core.plan import WorkloadNoise
from steelyard.core.schedule import Load, Mode, TurnTimes

MINUTES = (10, 20, 60, 120)
EFFECTS = (0.03, 0.05)  # that both designs are asked about


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the measured experiment would see in some minutes, its preparation included.

    Attributes:
        blocks: That fit.
        half_width: Of the interval at the last look, relative; None below the first look.
        visible: Effect that it decides with 90 % power, relative; None likewise.
    """

    minutes: int
    blocks: int
    half_width: Estimate | None
    visible: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one comparison sees.

    Attributes:
        load: The cell's load, or None for the pooled result.
        contrast_sd: Of one block's contrast, as its interval shows it.
        seen: Half-width of this campaign's own interval, relative; None before the first look.
        sights: One per entry of ``MINUTES``.
    """

    load: Load | None
    contrast_sd: Estimate
    seen: float | None
    sights: tuple[Sight, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSight:
    """What one design of the experiment would see in one workload's result.

    Attributes:
        measured: It is the design that was measured; else its figures follow from the parts.
        block_s: Of one of its blocks.
        contrast_sd: Of one block's contrast.
        halves: Half-width of the interval at the last look, relative, one per entry of ``MINUTES``;
            None below the first look.
        needed_s: The least budget in which nine in ten campaigns call an effect, one per entry of
            ``EFFECTS``; None: no reachable one.
    """

    workload: str
    mode: Mode
    measured: bool
    block_s: float
    contrast_sd: float
    halves: tuple[float | None, ...]
    needed_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFloor:
    """The noise floor of one workload.

    Attributes:
        noise: The parts for later plans; None where they could not be told apart.
        second_sd: Of one-second rates within a run; in turns, of a second of turns; None likewise,
            as the next two.
        restart_sd: None also where both arms share the start, so that it cancels.
        walk_sd: Of the level's random walk, after one hour; None with too few blocks.
        trend_per_h: Slope of the level; None likewise.
        restart_share: Of the variance of one cell's contrast, what restarts bring; None likewise.
        slice_s: The length that gives the narrowest intervals; None when it is not known.
        reaches: The pooled one first, then the cells where there are several.
        missing: Why parts are None; empty when none is.
        start_sd: In turns: what a start draws.
        connection_sd: In turns: what a set of connections draws; None also where nothing tells.
        apart_sd: In turns: of a run, beside one of the next block's.
        start_share: In turns: of the variance of one cell's contrast, what starts and connections
            bring.
    """

    workload: str
    noise: WorkloadNoise | None
    second_sd: Estimate | None
    autocorrelation: Estimate | None
    slice_sd: Estimate | None
    restart_sd: Estimate | None
    walk_sd: Estimate | None
    trend_per_h: Estimate | None
    restart_share: float | None
    slice_s: float | None
    reaches: tuple[Reach, ...]
    missing: str = ""
    start_sd: Estimate | None = None
    connection_sd: Estimate | None = None
    apart_sd: Estimate | None = None
    start_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """The noise floor of a set-up.

    Attributes:
        name: The experiment whose twin was measured.
        mode: How the blocks were made.
        preparation_s: Before the first block, as it took here.
        block_s: Of one block of the experiment itself, from what a block took here.
        slice_s: Measured length of a run.
        advised_slice_s: The length that suits all workloads best; None when it is not known, and
            in turns below 10 starts.
        advised_reconnections: The number beside that length; None likewise, one by one, and where
            nothing tells what connections draw.
        turns: How turns were taken; None one by one.
        designs: What each design of the experiment would see, by workload.
        narrower: Half-width with that length over the present one's; None likewise.
        workloads: Empty when no two blocks are complete.
    """

    name: str
    mode: Mode
    preparation_s: float
    block_s: float
    slice_s: float
    workloads: tuple[WorkloadFloor, ...]
    advised_slice_s: float | None = None
    narrower: float | None = None
    advised_reconnections: int | None = None
    turns: TurnTimes | None = None
    designs: tuple[DesignSight, ...] = ()
