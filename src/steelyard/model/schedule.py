"""The order of a campaign: drawn from a seed and stored before the first run."""

from dataclasses import dataclass
from enum import StrEnum

from steelyard.model.load import Load


class Mode(StrEnum):
    """How a block brings its treatments together (METHOD.md 3.1)."""

    VISITS = "visits"  # a visit per treatment: activate, discard, one run per cell
    # A visit per treatment, all up at the same time; in each cell the load takes turns.
    ALTERNATING = "alternating"
    BACK_TO_BACK = "back-to-back"  # one visit; in each cell all treatments one after another


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CellKey:
    """A workload under a load; with a treatment it is a cell of the design."""

    workload: str
    load: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One timed slice to take: which treatment, in which cell."""

    treatment: str
    cell: CellKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVisit:
    """One activation and the runs in it, in order.

    Attributes:
        treatment: The treatment that is activated first (in back-to-back mode the runs switch).
    """

    treatment: str
    runs: tuple[PlannedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBlock:
    """One complete block: every treatment equally often in every cell. ``index`` counts from 0."""

    index: int
    visits: tuple[PlannedVisit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All blocks a campaign may take.

    Attributes:
        seed: What the order was drawn from.
        blocks: In order; a campaign may stop before the last.
    """

    seed: int
    mode: Mode
    blocks: tuple[PlannedBlock, ...]
    format: int = 1
