"""How long a verdict takes, and how often it is wrong: Steelyard's designs beside the usual ones.

The table of METHOD.md, section 4. Every design gets the same minutes on the same simulated machine
(``tests/method``), two configurations under five loads. Steelyard's rows are whole campaigns of the
product: its scheduler, estimators, levels and decision. Every figure is a count over seeded
campaigns and repeats exactly. Exit code 10: Steelyard calls equal systems different too often.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "method"))

import sequential
from acceptance import false_positive_bound
from designs import blocked_repeats, published, rcb
from methods import tci, welch
from simulator import PROFILES, Simulator, log_effects

from steelyard.core.schedule import Mode
from steelyard.core.wording import ExitCode

BUDGET_S = 3600.0
PUBLISHED_S = 610.0  # ten runs of 60 s and two restarts
EFFECT = 0.03
S_PER_MIN = 60.0
MEDIAN = 0.5

Bools = npt.NDArray[np.bool_]
Machine = Any  # the simulator is kept as it was written, without types
Bounds = tuple[Any, Any, Any]


class Judged(NamedTuple):
    """What campaigns of one design said; per campaign, and per campaign and cell.

    ``seconds`` are those until the end; ``covered`` says whether the interval holds the truth.
    """

    called: Bools
    cells_called: Bools
    covered: Bools
    cells_covered: Bools
    seconds: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One row.

    Attributes:
        valid: Whether its interval is meant to be one for this design.
        judge: From a machine, the true effect and a seed to what the campaigns said.
    """

    name: str
    valid: bool
    judge: Callable[[Machine, float, int], Judged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The figures of one row; rates are shares of campaigns or of cells."""

    design: Design
    false_results: float
    false_cells: float
    false_any_cell: float
    coverage: float
    coverage_cells: float
    found: float
    minutes: float | None


def seconds_of_long_runs(budget_s: float) -> Callable[[Machine, float, int], Judged]:
    """Return design A: one long run per cell, all of one configuration first.

    T over its seconds.
    """

    def judge(machine: Machine, effect: float, _seed: int) -> Judged:
        series = published(machine, budget_s)
        logs = np.log(np.maximum(np.array(series), 1.0))  # configuration, cell, campaign, second
        cells = [welch(logs[0, cell], logs[1, cell]) for cell in range(logs.shape[1])]
        return judged(welch(*logs.mean(axis=1)), cells, effect, budget_s)

    return judge


def repeats_by_configuration(machine: Machine, effect: float, _seed: int) -> Judged:
    """Return what design B says: 60-s runs repeated, one configuration after the other; Welch."""
    runs = blocked_repeats(machine, BUDGET_S)  # configuration, campaign, repeat, cell
    cells = [welch(runs[0, :, :, cell], runs[1, :, :, cell]) for cell in range(runs.shape[3])]
    return judged(welch(*runs.mean(axis=3)), cells, effect, BUDGET_S)


def complete_blocks(machine: Machine, effect: float, _seed: int) -> Judged:
    """Return what design C says: complete blocks of 60-s runs in random order; paired t.

    A restart before every run and no warm-up, which cancels here; a block's cells are averaged.
    """
    runs = rcb(machine, BUDGET_S, warm=0)
    ratios = runs[1] - runs[0]  # campaign, block, cell
    cells = [tci(ratios[:, :, cell]) for cell in range(ratios.shape[2])]
    return judged(tci(ratios.mean(axis=2)), cells, effect, BUDGET_S)


def steelyard(mode: Mode) -> Callable[[Machine, float, int], Judged]:
    """Return the product's own campaigns."""

    def judge(machine: Machine, effect: float, seed: int) -> Judged:
        ended, seconds = sequential.campaigns(machine, mode, BUDGET_S, seed=seed, effect=effect)
        return Judged(
            called=ended.called,
            cells_called=ended.cells_called,
            covered=ended.covered,
            cells_covered=ended.cells_covered,
            seconds=seconds,
        )

    return judge


def judged(result: Bounds, cells: list[Bounds], effect: float, seconds: float) -> Judged:
    """Return what intervals of a fixed design say: (estimate, low, high), each per campaign."""
    low, high = (np.stack([cell[end] for cell in cells], axis=1) for end in (1, 2))
    truth = np.log1p(effect)
    return Judged(
        called=(result[1] > 0) | (result[2] < 0),
        cells_called=(low > 0) | (high < 0),
        covered=(result[1] <= truth) & (truth <= result[2]),
        cells_covered=(low <= truth) & (truth <= high),
        seconds=np.full(len(low), seconds),
    )


DESIGNS = (
    Design(
        name="A one 60-s run per cell (10 min in all)",
        valid=False,
        judge=seconds_of_long_runs(PUBLISHED_S),
    ),
    Design(name="A one 6-min run per cell", valid=False, judge=seconds_of_long_runs(BUDGET_S)),
    Design(
        name="B 60-s repeats by configuration, Welch", valid=False, judge=repeats_by_configuration
    ),
    Design(name="C blocks of 60-s runs, paired t", valid=True, judge=complete_blocks),
    Design(name="Steelyard, with restarts", valid=True, judge=steelyard(Mode.STARTS)),
    Design(name="Steelyard, back to back", valid=True, judge=steelyard(Mode.BACK_TO_BACK)),
)


def line_of(design: Design, profile: str, campaigns: int, seed: int) -> Line:
    """Return the figures of a design: equal systems first, then a true 3 %."""

    def judge(effect: float) -> Judged:
        effects = log_effects([0.0, effect])
        machine = Simulator(profile, effects, seed=seed, lanes=campaigns)
        return design.judge(machine, effect, seed)

    same, other = judge(0.0), judge(EFFECT)
    found = float(other.called.mean())
    until = np.where(other.called, other.seconds, np.inf)
    middle = float(np.sort(until)[int(MEDIAN * campaigns)])
    return Line(
        design=design,
        false_results=float(same.called.mean()),
        false_cells=float(same.cells_called.mean()),
        false_any_cell=float(same.cells_called.any(axis=1).mean()),
        coverage=float(other.covered.mean()),
        coverage_cells=float(other.cells_covered.mean()),
        found=found,
        minutes=middle / S_PER_MIN if np.isfinite(middle) and design.valid else None,
    )


def table(lines: list[Line]) -> str:
    """Return the table; ratios are to Steelyard with restarts."""
    ours = next(line for line in lines if line.design.name == "Steelyard, with restarts")
    heads = ("A/A", "A/A", "A/A any", "covers", "covers", f"{EFFECT:.0%}", "median", "ratios:")
    units = ("headl.", "cell", "of 5", "headl.", "cell", "called", "min", "A/A, min")
    rows = [_row("design", heads), _row("", units), *(_line(line, ours) for line in lines)]
    return "\n".join(rows)


def _line(line: Line, ours: Line) -> str:
    shares = (
        line.false_results,
        line.false_cells,
        line.false_any_cell,
        line.coverage,
        line.coverage_cells,
    )
    called = f"{line.found:.0%}" if line.design.valid else f"({line.found:.0%})"
    minutes = "invalid" if not line.design.valid else "> budget"
    longer = "–"  # noqa: RUF001 - a dash for "nothing here"
    if line.minutes is not None:
        minutes = f"{line.minutes:.0f}"
        longer = f"{line.minutes / ours.minutes:.1f}" if ours.minutes else longer
    wrong = f"{line.false_results / ours.false_results:.1f}" if ours.false_results else "–"  # noqa: RUF001
    return _row(
        line.design.name,
        (*(f"{each:.1%}" for each in shares), called, minutes, f"{wrong}, {longer}"),
    )


def _row(name: str, texts: tuple[str, ...]) -> str:
    return f"{name:<40}" + "".join(f"{text:>9}" for text in texts)


def faults(lines: list[Line], campaigns: int) -> list[str]:
    """Return a sentence per rate of Steelyard's that leaves its binomial bound."""
    bound = false_positive_bound(campaigns)
    return [
        f"{line.design.name}: {what} {rate:.1%}, at most {bound:.1%} by chance"
        for line in lines
        if line.design.name.startswith("Steelyard")
        for what, rate in (
            ("A/A result", line.false_results),
            ("A/A any of five cells", line.false_any_cell),
        )
        if rate > bound
    ]


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=400, help="per design and effect")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="typical")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    lines = [line_of(design, asked.profile, asked.campaigns, asked.seed) for design in DESIGNS]
    print(f"simulated machine: {asked.profile}; {BUDGET_S / S_PER_MIN:.0f} min; five loads")
    print(f"{asked.campaigns} campaigns per row and effect, seed {asked.seed}")
    print()
    print(table(lines))
    print()
    print("A/A: equal systems called different. In brackets: not power, as it happens without a")
    print("difference too. Ratios are to Steelyard with restarts.")
    print("Steelyard's cells share their error, so that any of them is wrong in 5 % at most.")
    wrong = faults(lines, asked.campaigns)
    for sentence in wrong:
        print(f"failed: {sentence}")
    if not wrong:
        print("passed")
    return ExitCode.GATE if wrong else ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
