"""Everything that ``plan`` says of an experiment before it runs."""

from dataclasses import dataclass

from steelyard.analysis.outlook import MOST, ScopeOutlook
from steelyard.analysis.stopping import has_many_cells
from steelyard.model.experiment import Experiment
from steelyard.model.measure import SwitchCost
from steelyard.model.noise import NoiseProfile, WorkloadNoise
from steelyard.model.schedule import Mode
from steelyard.model.turns import Pausing, SharedMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOutlook:
    """The slice of the file beside the best one.

    Attributes:
        slice_s: In the file.
        overhead_s: Per run, not measured: its share of switch and discard, and its ramp.
        single_s: The best for a single cell without drift.
        best_s: The best for the headline, drift and pooling included.
        cost: Time that the headline takes with ``best_s``, over that with the file's.
        advised: Whether the best may be said: in turns not below ten starts.
        reconnections: In turns: the best number, beside ``best_s``; None where it is not known.
    """

    slice_s: float
    overhead_s: float
    single_s: float
    best_s: float
    cost: float
    advised: bool = True
    reconnections: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOutlook:
    """Workloads of the same noise, whose minutes are therefore the same.

    Attributes:
        names: Of the workloads.
        cells: Of each cell; None where the headline is the only cell. Where they are many, of one
            that differs alone: the others it differs with only make it sooner.
        synergies: Of each synergy of two factors; None where the design tells none.
        precision_s: When a headline is expected to be as narrow as asked; None: not asked.
    """

    names: tuple[str, ...]
    noise: WorkloadNoise
    pooled: ScopeOutlook
    cells: ScopeOutlook | None
    slices: SliceOutlook
    precision_s: float | None
    synergies: ScopeOutlook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperDesign:
    """A way to a decision that the budget does not allow as the file stands.

    Attributes:
        pooled: Whether it decides the headlines, or the single cells.
        change: What to change, in words.
        needed_s: Budget in which nine in ten campaigns call the effect of ``stop.decide``.
        campaigns: How many of such campaigns replace the one.
    """

    pooled: bool
    change: str
    needed_s: float
    campaigns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNeed:
    """Room that a directory must have."""

    directory: str
    needed_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOutlook:
    """What a campaign would take and what it could say.

    Attributes:
        noise: Measured or assumed; it says which.
        workloads: Empty where nothing is compared.
        cheaper: Where the budget does not decide ``stop.decide``: what would, cheapest first.
        cached: Treatments whose data are prepared already.
        sustained_most_s: What all long runs take when each falls near its end and is extended.
        rounds: Of each visit; the reason says why not one.
        capacity_s: Of finding the capacity, which is a part of the preparation.
        design_reason: Why the treatments alternate or not, as a clause.
        pausing: What stands still between turns; None where none are taken.
        memory: Of the servers that are up together; None likewise, and where it is not known.
    """

    experiment: Experiment
    noise: NoiseProfile
    mode: Mode
    switch: SwitchCost
    discard_s: float
    preparation_s: float
    block_s: float
    max_blocks: int
    first_look: int
    first_look_s: float
    sustained_s: float
    cached: int
    disk: tuple[DiskNeed, ...]
    workloads: tuple[WorkloadOutlook, ...] = ()
    cheaper: tuple[CheaperDesign, ...] = ()
    sustained_most_s: float = 0.0
    rounds: int = 1
    rounds_reason: str = ""
    capacity_s: float = 0.0
    design_reason: str = ""
    pausing: Pausing | None = None
    memory: SharedMemory | None = None

    @property
    def decides_headlines(self) -> bool:
        """Return whether nine in ten campaigns call ``stop.decide`` in every headline."""
        return all(self._decided(each.pooled) for each in self.workloads)

    @property
    def decides_cells(self) -> bool:
        """Return whether nine in ten campaigns call ``stop.decide`` in any given cell."""
        return all(each.cells is None or self._decided(each.cells) for each in self.workloads)

    @property
    def has_many_cells(self) -> bool:
        """Return whether cells that differ together are called sooner than is said here."""
        return has_many_cells(len(self.experiment.closed_loads))

    def _decided(self, scope: ScopeOutlook) -> bool:
        return scope.at(self.experiment.stop.decide).within_budget >= MOST
