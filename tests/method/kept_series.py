"""A long series of alternating blocks, kept as data or still a campaign's record: what it says.

``python kept_series.py SERIES...`` tells it; ``--keep FILE`` writes it as data. A series is a file
``.json`` or ``.json.gz``, or the directory of a campaign; several are parts of one. The file holds

    {"format": 1, "name": "reads", "configurations": ["A", "B"],
     "blocks": [{"slots": {"A": 1, "B": 0},
                 "cells": {"select-only, 8 clients": {"A": [TURN, ...], "B": [TURN, ...]}}}, ...]}

the baseline first; TURN is [round, place, began_s, seconds, transactions, early] as in
``steelyard.core.schedule.Turn``. Nothing is left out and nothing is chosen: every block is told.
"""

import argparse
import gzip
import json
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from steelyard.stats.spending import FIXED_ALPHA
from steelyard.answers.turns import block_turns
from steelyard.core.experiment import Stop
from steelyard.core.schedule import Turn
from steelyard.core.findings import Verdict
from steelyard.record.directory import read_campaign
from steelyard.stats import special
from steelyard.stats.intervals import block_interval
from steelyard.stats.turns import BlockTurns
from steelyard.stats.turns import change_by_predecessor
from steelyard.stats.turns import change_over_block
from steelyard.stats.turns import change_within_turns
from steelyard.stats.turns import gain_after_itself
from steelyard.stats.turns import predecessors
from steelyard.stats.intervals import verdict_of

FORMAT = 1
GROUP = 8  # blocks, as at the first look of a result
LEVEL = 0.05
CALLED = (Verdict.FASTER, Verdict.SLOWER)


@dataclass(frozen=True, kw_only=True)
class KeptBlock:
    """One block: the slot of each configuration, and by cell the turns of each."""

    slots: dict
    cells: dict


@dataclass(frozen=True, kw_only=True)
class Series:
    """Blocks in run order; the first configuration is the baseline."""

    name: str
    configurations: tuple
    blocks: tuple


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An estimate of a log ratio.

    Attributes:
        error: Standard error; the variance divides by ``degrees``.
        degrees: Of freedom of it.
    """

    what: str
    value: float
    error: float
    degrees: int

    @property
    def p_value(self):
        """Return the two-sided p value of zero, by Student's t."""
        if self.error == 0.0:
            return float(self.value == 0.0)
        return float(2 * special.stdtr(self.degrees, -abs(self.value) / self.error))

    @property
    def is_zero(self):
        """Return whether it is within two standard errors of zero."""
        return abs(self.value) <= 2 * self.error

    def __str__(self):
        told = "" if self.is_zero else ", not within two standard errors of zero"
        return (
            f"{self.what}: {100 * self.value:+.2f} % (se {100 * self.error:.2f}, "
            f"p {self.p_value:.2g}{told})"
        )


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a series says of one configuration against the baseline in one cell.

    Attributes:
        mean: Of the blocks' log ratios.
        block_sd: Of a block's log ratio, and its 95 % interval by chi-squared.
        regression: Slot and predecessor, of the log ratio over blocks; empty where nothing varies.
        turns: What turns show within blocks: by predecessor, within turns, over the block.
        verdicts: Of disjoint groups of 8 blocks, by word.
        without: Blocks at the end that fill no group.
        chance: Of so many groups or more that are called different, if each is at the level.
    """

    cell: str
    configuration: str
    blocks: int
    mean: Figure
    block_sd: float
    block_sd_low: float
    block_sd_high: float
    regression: tuple
    turns: tuple
    verdicts: dict
    without: int
    chance: float

    @property
    def called(self):
        """Return how many groups are called different."""
        return sum(self.verdicts.get(str(word), 0) for word in CALLED)


def load_all(paths):
    """Return one series of what several files or directories hold, in their order."""
    parts = [load(path) for path in paths]
    if len({part.configurations for part in parts}) > 1:
        raise ValueError("parts of a series have the same configurations")
    blocks = tuple(block for part in parts for block in part.blocks)
    return Series(name=parts[0].name, configurations=parts[0].configurations, blocks=blocks)


def load(path):
    """Return a series from a file, or from the directory of a campaign."""
    path = Path(path)
    if path.is_dir():
        return of_record(read_campaign(path))
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    kept = json.loads(text)
    if kept["format"] != FORMAT:
        raise ValueError(f"{path} has format {kept['format']}; this reads format {FORMAT}")
    return Series(
        name=kept["name"],
        configurations=tuple(kept["configurations"]),
        blocks=tuple(_block(each) for each in kept["blocks"]),
    )


def _block(kept):
    return KeptBlock(
        slots=kept["slots"],
        cells={
            cell: {side: tuple(map(_turn, turns)) for side, turns in sides.items()}
            for cell, sides in kept["cells"].items()
        },
    )


def _turn(row):
    number, place, began_s, seconds, transactions, early = row
    return Turn(
        round=number,
        place=place,
        began_s=began_s,
        seconds=seconds,
        transactions=transactions,
        early=early,
    )


def keep(series, path):
    """Write a series as data; ``.gz`` packs it, the same bytes each time."""
    kept = {
        "format": FORMAT,
        "name": series.name,
        "configurations": list(series.configurations),
        "blocks": [
            {
                "slots": block.slots,
                "cells": {
                    cell: {side: [astuple(turn) for turn in turns] for side, turns in sides.items()}
                    for cell, sides in block.cells.items()
                },
            }
            for block in series.blocks
        ],
    }
    text = json.dumps(kept, separators=(",", ":")).encode()
    path = Path(path)
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def of_record(record):
    """Return a campaign's complete blocks that were taken in turns; a slot is a run's start."""
    names = [configuration.name for configuration in record.experiment.configurations]
    baseline = record.experiment.baseline
    taken = {}
    for run in record.counted_runs:
        if run.turns:
            block = taken.setdefault(run.block, KeptBlock(slots={}, cells={}))
            block.slots[run.configuration] = run.start
            sides = block.cells.setdefault(_cell_name(run.cell), {})
            sides[run.configuration] = run.turns
    return Series(
        name=record.experiment.name,
        configurations=(baseline, *(name for name in names if name != baseline)),
        blocks=tuple(taken[index] for index in sorted(taken)),
    )


def _cell_name(cell):
    clients = cell.load.clients
    return f"{cell.workload}, {clients} client{'' if clients == 1 else 's'}"


def describe(series):
    """Return what a series says, cell by cell and contender by contender."""
    cells = dict.fromkeys(cell for block in series.blocks for cell in block.cells)
    return tuple(
        _told(series, cell, place)
        for cell in cells
        for place in range(1, len(series.configurations))
    )


def _told(series, cell, place):
    blocks = [block for block in series.blocks if cell in block.cells]
    turns = [_arrays(block.cells[cell], series.configurations) for block in blocks]
    y = np.array([_log_ratio(each, place) for each in turns])
    n = len(y)
    sd = float(y.std(ddof=1))
    low, high = (
        sd * np.sqrt((n - 1) / special.chdtri(n - 1, tail)) for tail in (LEVEL / 2, 1 - LEVEL / 2)
    )
    verdicts = group_verdicts(y)
    called = sum(verdicts.get(str(word), 0) for word in CALLED)
    return Told(
        cell=cell,
        configuration=series.configurations[place],
        blocks=n,
        mean=_mean("mean", y),
        block_sd=sd,
        block_sd_low=float(low),
        block_sd_high=float(high),
        regression=regress(y, *_regressors(blocks, turns, series.configurations, place)),
        turns=tuple(_within(turns, place)),
        verdicts=verdicts,
        without=n % GROUP,
        chance=1.0 if not called else float(1 - special.bdtr(called - 1, n // GROUP, FIXED_ALPHA)),
    )


def _arrays(sides, configurations):
    """Return the turns as arrays; the product's way from runs to arrays, which reads turns only."""
    found = block_turns([_Turned(sides[name]) for name in configurations])
    if found is None:
        raise ValueError("a block has no round that every configuration was in")
    return found


@dataclass(frozen=True)
class _Turned:
    turns: tuple


def _log_ratio(turns: BlockTurns, place):
    rates = np.log(np.maximum(turns.transactions.sum(axis=0), 1.0) / turns.seconds.sum(axis=0))
    return float(rates[place] - rates[0])


def _mean(what, values):
    n = len(values)
    error = float(values.std(ddof=1) / np.sqrt(n))
    return Figure(what=what, value=float(values.mean()), error=error, degrees=n - 1)


def _within(turns, place):
    """Yield what turns show, as means over the blocks that can say."""
    weights = np.zeros(turns[0].places.shape[1])
    weights[0], weights[place] = -1.0, 1.0
    gains = np.array([gain_after_itself(each)[[0, place]].mean() for each in turns])
    changes = {
        "a turn after itself, both": gains[np.isfinite(gains)],
        "a turn after itself, difference": [change_by_predecessor(each, weights) for each in turns],
        "second half of turns, difference": [change_within_turns(each, weights) for each in turns],
        "over the block, difference": [change_over_block(each, weights) for each in turns],
    }
    for what, found in changes.items():
        known = np.array([value for value in found if value is not None])
        if len(known) > 1:
            yield _mean(f"{what} ({len(known)} blocks)", known)


def _regressors(blocks, turns, configurations, place):
    """Return names and columns: each slot but the first, and how often another one was before."""
    name, baseline = configurations[place], configurations[0]
    names, columns = [], []
    for slot in range(1, len(configurations)):
        names.append(f"slot {slot} against slot 0")
        columns.append([(b.slots[name] == slot) - (b.slots[baseline] == slot) for b in blocks])
    names.append("all turns after another one against none")
    another = np.array([_after_another(each)[[0, place]] for each in turns])
    columns.append(another[:, 1] - another[:, 0])
    return names, np.array(columns, dtype=float).T


def _after_another(turns):
    """Return the share of each configuration's turns that came after another one's."""
    before = predecessors(turns)
    known = before >= 0
    return ((before != np.arange(before.shape[1])) & known).sum(axis=0) / known.sum(axis=0)


def regress(y, names, columns):
    """Return least-squares coefficients of the log ratio over blocks, with a constant.

    Columns that do not vary are left out; the variance of the residuals divides by blocks minus
    coefficients.
    """
    varying = np.flatnonzero(columns.std(axis=0) > 0)
    x = np.column_stack([np.ones(len(y)), columns[:, varying]])
    degrees = len(y) - x.shape[1]
    if not len(varying) or degrees < 1 or np.linalg.matrix_rank(x) < x.shape[1]:
        return ()
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    residuals = y - x @ coefficients
    covariance = np.linalg.inv(x.T @ x) * float(residuals @ residuals) / degrees
    return tuple(
        Figure(
            what=names[column],
            value=float(coefficients[at]),
            error=float(np.sqrt(covariance[at, at])),
            degrees=degrees,
        )
        for at, column in enumerate(varying, start=1)
    )


def group_verdicts(y):
    """Return how often each word is the verdict of a disjoint group of 8 blocks, in run order."""
    margin = Stop().equivalence
    words = Counter()
    for begin in range(0, len(y) - GROUP + 1, GROUP):
        found = block_interval(y[begin : begin + GROUP], FIXED_ALPHA)
        low, high = np.expm1(found.low), np.expm1(found.high)
        words[str(verdict_of(float(low), float(high), margin))] += 1
    return dict(words)


def tell(series):
    """Return the lines about a series."""
    lines = [f"{series.name}: {len(series.blocks)} blocks"]
    for told in describe(series):
        words = ", ".join(f"{word} {times}" for word, times in sorted(told.verdicts.items()))
        rest = f"; {told.without} blocks fill no group" if told.without else ""
        lines += [
            f"{told.cell}: {told.configuration} against {series.configurations[0]}, "
            f"{told.blocks} blocks",
            f"  {told.mean}",
            f"  sd of a block: {100 * told.block_sd:.2f} % "
            f"({100 * told.block_sd_low:.2f} to {100 * told.block_sd_high:.2f})",
            *(f"  {figure}" for figure in (*told.regression, *told.turns)),
            f"  groups of {GROUP} blocks: {words or 'none'} (so many called, or more, by chance:"
            f" {told.chance:.2g}){rest}",
        ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series", type=Path, nargs="+")
    parser.add_argument("--keep", type=Path, help="write it as data (.json or .json.gz)")
    asked = parser.parse_args()
    series = load_all(asked.series)
    if asked.keep:
        keep(series, asked.keep)
    print(tell(series))


if __name__ == "__main__":
    main()
