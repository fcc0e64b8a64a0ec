"""How runs are taken: lengths, what is thrown away, when data go back."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from steelyard.model.ceilings import CeilingsAsked
from steelyard.model.latency import LogPolicy
from steelyard.model.turns import TurnTimes

DEFAULT_NEIGHBOURS: Final = 0.15  # a guess; docs/validity.md says why


class SwitchCost(StrEnum):
    """What it takes to go from one treatment to another, cheapest first."""

    SESSION = "session"
    RELOAD = "reload"
    RESTART = "restart"
    REPROVISION = "reprovision"

    @property
    def rank(self) -> int:
        """Return the place in the order of cost, 0 for the cheapest."""
        return list(SwitchCost).index(self)


class Reset(StrEnum):
    """When the data go back to the prepared state."""

    VISIT = "visit"
    BLOCK = "block"
    CAMPAIGN = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How the discard after a restart is measured.

    Attributes:
        restarts: Activations per treatment.
        run_s: Length of the run after each.
        at_least_s: The discard is never shorter than this.
    """

    restarts: int = 5
    run_s: float = 90.0
    at_least_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a run is taken.

    Attributes:
        slice_s: Measured length of a run.
        ramp_s: Thrown away at the start of each run, while connections open.
        discard_s: Thrown away after each activation, the same for all treatments; None: auto.
        calibration: Measures the discard before the first block; None: it is declared, or the
            floor of METHOD 3.7.
        reset: When the data are restored; None: auto.
        switch: Least switch cost to assume; None: what the differences need.
        rounds: Runs of each cell in a visit; None: auto.
        prewarm: Load the data into memory after each activation, before the discard.
        ceilings: What the place can do at most is measured before the first block.
        neighbours: Share of the machine's CPU and disk time that other processes may use in a run;
            None: as much as they like, and it is noted.
        turns: Lengths inside a block whose treatments alternate.
        log: What becomes of the generator's log of every transaction.
        log_sampling: Share of the transactions that are logged.
    """

    slice_s: float = 5.0
    ramp_s: float = 2.0
    discard_s: float | None = None
    calibration: Calibration | None = None
    reset: Reset | None = None
    switch: SwitchCost | None = None
    prewarm: bool = False
    rounds: int | None = None
    ceilings: CeilingsAsked = CeilingsAsked.AUTO
    neighbours: float | None = DEFAULT_NEIGHBOURS
    turns: TurnTimes = field(default_factory=TurnTimes)
    log: LogPolicy = LogPolicy.HISTOGRAMS
    log_sampling: float = 1.0
