"""How long a verdict takes, and how often it is wrong: Steelyard's designs beside the usual ones.

The first table is that of METHOD.md, section 4. Every design gets the same minutes on the same
simulated machine (``tests/method``), two configurations under five loads. Steelyard's rows are
whole campaigns of the product: its scheduler, estimators, levels and decision. Every figure is a
count over seeded campaigns and repeats exactly. Exit code 10: Steelyard calls equal systems
different too often.

``--early`` has another table: effect, noise and design against the median minutes to a verdict, the
share of campaigns that decide, and that of wrong signs (of equal systems: of false verdicts). Its
blocks are numbers: what starts differ by, and the seconds that count. Lengths of blocks, the number
of them, slots and looks are those that the product plans for such an experiment. Before it stands
at which block the median verdict comes, for a number of planned blocks and of one block's noise.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, islice, product
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

from steelyard.campaign.design.schedule import (
    StartFrame,
    SwitchTimes,
    block_s,
    blocks_planned,
    short_blocks,
)
from steelyard.core.campaign import Rounds, times_of_blocks
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    Measure,
    Reset,
    Stop,
    SwitchCost,
    Workload,
)
from steelyard.core.findings import Verdict
from steelyard.core.schedule import Load, Mode
from steelyard.core.target import LocalTarget
from steelyard.core.wording import ExitCode
from steelyard.stats.spending import first_look_of

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


class Noise(NamedTuple):
    """Of one of two configurations, ln: what its starts vary by, and one second of a run."""

    start_sd: float
    second_sd: float


NOISES = {  # the second is what plans assume for turns; visits are further apart, and vary more
    "quiet": {Mode.ALTERNATING: Noise(0.01, 0.03), Mode.STARTS: Noise(0.02, 0.05)},
    "assumed": {Mode.ALTERNATING: Noise(0.04, 0.065), Mode.STARTS: Noise(0.07, 0.1)},
    "busy": {Mode.ALTERNATING: Noise(0.06, 0.12), Mode.STARTS: Noise(0.14, 0.15)},
}
EFFECTS = (0.0, 0.05, 0.1, 0.2, 0.5)
TIMES = SwitchTimes(restore_s=0.8, start_s=0.6)
PREPARED_S = 15.0  # before the first block; a guess
WARM_UPS = {"turns": (Mode.ALTERNATING, 2.0), "visits": (Mode.STARTS, 20.0)}
SHORTER = {"visits, 3 s of warm-up": (Mode.STARTS, 3.0)}


class Plan(NamedTuple):
    """When each block ends, in seconds, and what counts of each of its runs."""

    ends_s: list[float]
    counted_s: list[float]


def plan_of(mode: Mode, warm_up_s: float, loads: int, budget_s: float, *, short: bool) -> Plan:
    """Return the blocks that the product plans, with short ones at the beginning or without."""
    here = LocalTarget()
    experiment = Experiment(
        name="simulated",
        baseline="one",
        configurations=tuple(Configuration(name=name, target=here) for name in ("one", "other")),
        workloads=(Workload(name="reads", builtin="select-only"),),
        loads=tuple(Load(clients=number + 1, threads=1) for number in range(loads)),
        measure=Measure(warm_up_s=warm_up_s),
        stop=Stop(budget_s=budget_s),
        seed=1,
    )
    frame = StartFrame(
        mode=mode,
        switch=SwitchCost.RESTART,
        reset=Reset.START,
        warm_up_s=warm_up_s,
        times=TIMES,
        cycle_s=300.0,
    )
    turns = experiment.measure.turns
    whole_s = experiment.measure.run_time_s
    whole_s *= turns.counted_s / turns.turn_s if mode is Mode.ALTERNATING else 1.0
    parts = short_blocks(experiment, frame, rounds=Rounds()) if short else ()
    times_s = times_of_blocks(parts, block_s(experiment, frame))
    number = blocks_planned(experiment, budget_s - PREPARED_S, block_s(experiment, frame), parts)
    counted_s = [part.counted_s for part in parts for _ in range(part.blocks)]
    return Plan(
        ends_s=[PREPARED_S + end for end in accumulate(islice(times_s, number))],
        counted_s=[*counted_s, *[whole_s] * number][:number],
    )


def early_row(plan: Plan, noise: Noise, loads: int, campaigns: int, seed: int) -> list[str]:
    """Return for each effect the median minutes, the share decided, and the share wrong."""
    rng = np.random.default_rng(np.random.SeedSequence([20261129, seed]))
    blocks = len(plan.ends_s)
    if blocks < first_look_of(2):
        return ["no interim result"] * len(EFFECTS)
    starts = rng.standard_normal((campaigns, blocks, 1, 1))
    seconds = rng.standard_normal((campaigns, blocks, loads, 1))
    seconds /= np.sqrt(plan.counted_s)[:, None, None]
    varied = np.sqrt(2.0) * (noise.start_sd * starts + noise.second_sd * seconds)
    rule, terms = sequential.terms_of(blocks)
    row = []
    for effect in EFFECTS:
        ended = [
            sequential.at_its_end([each[..., 0]], rule, terms)[0]
            for each in varied + np.log1p(effect)
        ]
        called = np.array([each.verdict in sequential.CHANGED for each in ended])
        wrong = np.array([each.verdict is Verdict.SLOWER for each in ended])
        wrong = called if effect == 0.0 else wrong
        until = np.array([plan.ends_s[each.blocks - 1] for each in ended])
        middle = float(np.sort(np.where(called, until, np.inf))[campaigns // 2]) / S_PER_MIN
        minutes = f"{middle:.1f}" if np.isfinite(middle) else "-"
        row.append(f"{minutes}, {called.mean():.0%}, {wrong.mean():.1%}")
    return row


class Expected(NamedTuple):
    """An effect and a block's sd, in ln, and the block by which half of the campaigns decide."""

    effect: float
    sd: float
    planned: int
    latest: int


EXPECTED = (  # what the spending of the level was chosen for
    Expected(0.5, 0.10, 15, 4),
    Expected(0.5, 0.10, 30, 6),
    Expected(0.2, 0.07, 15, 7),
    Expected(0.2, 0.07, 30, 7),
)


def blocks_to_verdicts(campaigns: int, seed: int) -> list[str]:
    """Print by which block half of the campaigns decide, and return what comes too late."""
    late = []
    for effect, sd, planned, latest in EXPECTED:
        rng = np.random.default_rng(np.random.SeedSequence([20261129, seed, planned]))
        contrasts = np.log1p(effect) + sd * rng.standard_normal((campaigns, planned, 1))
        rule, terms = sequential.terms_of(planned)
        ended = [sequential.at_its_end([each], rule, terms)[0] for each in contrasts]
        called = [each.verdict in sequential.CHANGED for each in ended]
        blocks = np.where(called, [each.blocks for each in ended], np.inf)
        by_then = float(np.mean(blocks <= latest))
        line = f"{effect:+.0%}, sd of a block {sd:.0%}, {planned} planned: median verdict at block"
        line += f" {np.median(blocks):g}, {by_then:.0%} by block {latest}, the goal"
        print(line)
        # Half of them, but for chance: three standard deviations of a share.
        late += [line] if by_then < MEDIAN - 3.0 * np.sqrt(0.25 / campaigns) else []
    print()
    return late


def early(campaigns: int, seed: int) -> int:
    """Print the table of early verdicts and return the exit code."""
    late = blocks_to_verdicts(campaigns, seed)
    print("per effect: median minutes to a verdict, share decided, share wrong (of 0 %: false)")
    print(f"one workload, two configurations; {campaigns} campaigns a row, seed {seed}")
    heads = ("loads", "budget", "noise", "design", "blocks", *(f"{e:+.0%}" for e in EFFECTS))
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    bound, wrong = false_positive_bound(campaigns), []
    cases = product((1, 5), (300.0, 600.0), NOISES, {**WARM_UPS, **SHORTER}.items(), (False, True))
    for loads, budget_s, noise, (name, (mode, warm_up_s)), short in cases:
        plan = plan_of(mode, warm_up_s, loads, budget_s, short=short)
        if short and plan == plan_of(mode, warm_up_s, loads, budget_s, short=False):
            continue  # short blocks would save too little
        row = early_row(plan, NOISES[noise][mode], loads, campaigns, seed)
        label = f"{name}, {'short blocks first' if short else 'one length'}"
        of = f"{loads} | {budget_s / S_PER_MIN:.0f} min | {noise} | {label} | {len(plan.ends_s)}"
        print("| " + " | ".join([of, *row]) + " |")
        false = row[0].rpartition(" ")[2]
        if "%" in false and float(false.rstrip("%")) / 100.0 > bound:
            wrong.append(of)
    for sentence in wrong:
        print(f"failed: {sentence}: more than {bound:.1%} false verdicts")
    for sentence in late:
        print(f"failed: {sentence}")
    print("" if wrong or late else "passed")
    return ExitCode.GATE if wrong or late else ExitCode.DONE


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=400, help="per design and effect")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="typical")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--early", action="store_true", help="the table of early verdicts")
    asked = parser.parse_args()
    if asked.early:
        return early(asked.campaigns, asked.seed)
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
