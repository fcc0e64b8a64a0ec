"""What the noise of a set-up is made of: measured by an A/A campaign, or assumed and said so.

All deviations are of ln(tps): 0.02 means about 2 %.
"""

from dataclasses import dataclass
from enum import StrEnum

from steelyard.core.experiment import SwitchCost
from steelyard.core.schedule import Mode

# Stalls, neighbours and checkpoints are in no part of a modelled noise. Without this factor
# half-widths on the method's simulator are 8 to 11 % wider than the parts say (calm), 17 to 21 %
# (typical), 24 to 43 % (hostile). 1.1 was chosen for the minutes: tests/method/test_planning.py has
# the bounds.
UNNAMED_NOISE = 1.1
# Measured parts need none. `stats.noise` leaves out only what is five robust deviations away, which
# the interval of the ranks feels little either; neighbours, checkpoints and lesser stalls are in
# the contrasts that it takes the parts from. On the simulator the pooled deviation of 30 blocks,
# stalls included, is then +1 % (calm), +4 % (typical) and -4 % (hostile) beside the parts', that of
# a cell 0, +9 and -5 %.
ALL_NAMED = 1.0
# Of a profile in turns, for advice on seconds of turns and connections: a deviation is then known
# to about a quarter of itself.
LEAST_STARTS = 10


class NoiseOrigin(StrEnum):
    """Where the figures of a profile come from."""

    MEASURED = "measured"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNoise:
    """The parts of one workload's noise where treatments alternate, of one of them.

    Attributes:
        start_sd: What a start draws, shared by all cells of its block.
        connection_sd: What a set of connections draws; None: it is in ``start_sd``.
        second_sd: Of one second of turns that counts; it falls with the root of the seconds.
    """

    start_sd: float
    connection_sd: float | None
    second_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadNoise:
    """The parts of one workload's noise, over all its loads.

    Attributes:
        workload: Name in the experiment it was measured with.
        second_sd: Of one-second rates within a run.
        autocorrelation: Of successive seconds within a run, lag 1, between -1 and 1.
        slice_sd: What remains between runs of one visit when the seconds are averaged out.
        visit_sd: Shared by all runs of one visit: what a restart changes.
        drift_sd: Of the random walk, after one hour.
        trend_per_h: Slope of ln(tps) over the campaign; None when it was not measured.
        assumed: Names of the parts that the campaign could not show: they are those of
            ``ASSUMED_NOISE``, or halves of a sum that was measured.
        unnamed: Factor on the deviation of a contrast for what is in none of the parts.
        turns: The parts where treatments alternate; None where they were measured one by one.
    """

    workload: str
    second_sd: float
    autocorrelation: float
    slice_sd: float
    visit_sd: float
    drift_sd: float
    trend_per_h: float | None = None
    assumed: tuple[str, ...] = ()
    unnamed: float = UNNAMED_NOISE
    turns: TurnNoise | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseProfile:
    """The noise of one set-up and what switching costs there.

    Attributes:
        mode: How the blocks were made; None when assumed.
        block_s: One of its blocks, of two treatments, seconds; None when assumed.
        origin: Measured here, or assumed from METHOD's profile ``typical``.
        workloads: One per workload; an assumed profile has one that stands for any.
        switch: The switch cost at which the visits were made; None when assumed.
        start_s: One restart until the server is ready, seconds; None when assumed.
        restore_s: Bringing the data back once, seconds; None likewise.
        discard_s: Thrown away after each activation, seconds; None likewise.
        blocks: Blocks behind it; 0 when assumed.
        campaign_id: The campaign it was measured by; empty when assumed.
        measured_at: Seconds since the epoch; None when assumed.
        place: Machine and target in words; empty when assumed.
    """

    origin: NoiseOrigin
    workloads: tuple[WorkloadNoise, ...]
    mode: Mode | None = None
    switch: SwitchCost | None = None
    block_s: float | None = None
    start_s: float | None = None
    restore_s: float | None = None
    discard_s: float | None = None
    blocks: int = 0
    campaign_id: str = ""
    measured_at: float | None = None
    place: str = ""
    format: int = 2

    @property
    def is_of_turns(self) -> bool:
        """Return whether it was measured in turns."""
        return self.mode is Mode.ALTERNATING

    def of(self, workload: str) -> WorkloadNoise:
        """Return a workload's noise; where it was not measured, the noisiest one's."""
        for noise in self.workloads:
            if noise.workload == workload:
                return noise
        return max(self.workloads, key=lambda noise: noise.slice_sd + noise.visit_sd)


# METHOD 3.18, reads: measured on one busy virtual machine with 2 CPUs, 16 starts of 4 s of turns.
# The block's contrast varied by 7.9 %, of which the seconds are what blocks of 12 s show within;
# writes varied by less than half of it.
ASSUMED_TURNS = TurnNoise(start_sd=0.04, connection_sd=None, second_sd=0.065)
# METHOD.md, section 2, profile `typical`: a model, not a measurement of anybody's machine. Its
# between-run deviation of 2 % splits equally (in variance) into a restart and a slice part.
ASSUMED_NOISE = NoiseProfile(
    origin=NoiseOrigin.ASSUMED,
    workloads=(
        WorkloadNoise(
            workload="any",
            second_sd=0.05,
            autocorrelation=0.5,
            slice_sd=0.0141,
            visit_sd=0.0141,
            drift_sd=0.04,
            turns=ASSUMED_TURNS,
        ),
    ),
)
