"""Campaigns that were kept: docs/methods.md has what they say, told again by the product's code.

``kept/against-itself.json.gz`` holds every turn of a long series of alternating blocks:

    {"format": 1, "name": "reads", "configurations": ["A", "B"],
     "blocks": [{"slots": {"A": 1, "B": 0},
                 "cells": {"select-only, 8 clients": {"A": [TURN, ...], "B": [TURN, ...]}}}, ...]}

TURN is [round, place, began_s, seconds, transactions, early] as in ``steelyard.core.schedule.Turn``.
"""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from steelyard.answers.turns import block_turns
from steelyard.core.schedule import Turn
from steelyard.stats.intervals import block_interval
from steelyard.stats.spending import FIXED_ALPHA
from steelyard.stats.turns import change_by_predecessor
from steelyard.stats.turns import change_over_block
from steelyard.stats.turns import change_within_turns
from steelyard.stats.turns import interval_of_changes
from steelyard.stats.turns import is_suspect

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "kept"
METHODS = " ".join((ROOT / "docs" / "methods.md").read_text("utf-8").split())
GROUP = 8  # blocks, as at the first look of a result


def turns_of(sides, names):
    """Return the turns of one block as the product has them, a column per configuration."""
    runs = [
        SimpleNamespace(turns=[Turn(**dict(zip(Turn.__slots__, turn))) for turn in sides[name]])
        for name in names
    ]
    return block_turns(runs)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("reads, 8 clients", "differed by -0.15 % (standard error 0.60) and"),
        (
            "writes, 8 clients",
            "and -0.69 % (0.39); none of the thirty groups of 8 blocks was called",
        ),
    ],
)
def test_a_configuration_differs_from_itself_in_no_way(cell, told):
    """125 real blocks: neither the mean, groups of blocks, slots nor the order of turns stand out."""
    kept = json.loads(gzip.decompress((KEPT / "against-itself.json.gz").read_bytes()))
    assert kept["format"] == 1
    names, blocks = kept["configurations"], kept["blocks"]
    turns = [turns_of(block["cells"][cell], names) for block in blocks]
    rates = np.log([t.transactions.sum(axis=0) / t.seconds.sum(axis=0) for t in turns])
    y = rates[:, 1] - rates[:, 0]
    error = y.std(ddof=1) / np.sqrt(len(y))
    assert f"{100 * y.mean():.2f} % (" in told
    assert f"{100 * error:.2f})" in told
    assert told in METHODS
    assert abs(y.mean()) <= 2 * error
    for begin in range(0, len(y) - GROUP + 1, GROUP):
        group = block_interval(y[begin : begin + GROUP], FIXED_ALPHA)
        assert group.low <= 0.0 <= group.high
    later = np.array([block["slots"][names[1]] == 1 for block in blocks])
    apart = y[later].mean() - y[~later].mean()
    assert abs(apart) <= 2.6 * np.hypot(
        *(y[s].std(ddof=1) / np.sqrt(s.sum()) for s in (later, ~later))
    )
    for change in (change_by_predecessor, change_within_turns, change_over_block):
        changes = [change(block, np.array([-1.0, 1.0])) for block in turns]
        known = np.array([value for value in changes if value is not None])
        assert len(known) > 100
        assert not is_suspect(interval_of_changes(known))


def retold(benchmark, *kept, series=()):
    """Return the lines of a benchmark that tells what is kept; the goals hold, or it fails."""
    argv = [sys.executable, ROOT / "benchmarks" / benchmark, *series]
    argv += ["--read", KEPT.joinpath(*kept)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_alternating_takes_fewer_minutes_in_the_kept_campaigns():
    """Both designs side by side on one machine, as docs/methods.md has it; the goals hold."""
    for line in retold("minutes_to_verdict.py"):
        if "times fewer minutes" in line:
            assert line.partition(": ")[2].partition(" (")[0] in METHODS


def test_both_designs_say_the_same_of_known_effects_in_the_kept_campaigns():
    """Each difference holds zero within 5 %, and docs/methods.md has its interval."""
    told = [line for line in retold("known_effects.py", "known-effects") if "minus" in line]
    assert len(told) == 5
    for line in told:
        assert line.partition("minus starts ")[2] in METHODS


@pytest.mark.slow
def test_three_percent_is_decided_in_minutes_in_the_kept_campaigns():
    """With and without a restart, as docs/methods.md has it; the goals hold, and none is wrong."""
    told = retold("three_percent.py", "three-percent.jsonl")
    assert len(told) == 2
    for line in told:
        assert "5 of 5 decided, 0 wrong" in line
        median = line.rpartition("median ")[2].removesuffix(" min")
        assert f"of {median} minutes [" in METHODS


def test_three_ways_say_the_same_of_a_known_effect_beside_a_neighbour():
    """By hand, by visits and in turns, quiet and beside one, as docs/methods.md has it."""
    told = retold("neighbours.py", "neighbours", series=["effect"])
    effects = [line for line in told if "writes, " in line]
    assert len(effects) == 6
    for line in effects:
        assert line.partition(": ")[2].partition(", mean")[0] in METHODS
    between = [line.partition("minus ")[2] for line in told if " minus " in line]
    assert len(between) == 6
    for line in between:
        assert line[line.index("[") : line.index("]") + 1] in METHODS


def test_a_configuration_against_itself_is_itself_with_other_programs():
    """Reads and writes in six pieces, as docs/methods.md has them; each interval holds zero."""
    told = retold("neighbours.py", "neighbours", series=["aa"])
    assert len(told) == 12
    for line in told:
        interval = line.partition(": ")[2].partition(", mean")[0]
        assert f"{interval}, 20" in METHODS
        low, high = (float(end) for end in interval.partition("[")[2].rstrip("]").split(", "))
        assert low < 0 < high
    kept = (KEPT / "neighbours" / "aa.jsonl").read_text().splitlines()
    means = {
        way: weighted(
            [c for p in map(json.loads, kept) if p["way"] == way for c in p["contrasts"].values()]
        )
        for way in ("alternating", "one-by-one")
    }
    turns, starts = (
        f"{100 * mean:.1f} % ({{}}{100 * error:.1f})" for mean, error in means.values()
    )
    assert turns.format("standard error ") in METHODS
    assert starts.format("") in METHODS
    assert all(abs(mean) <= 2 * error for mean, error in means.values())


def weighted(samples):
    """Return the mean of the samples' means by their precision, and its standard error."""
    precision = np.array([len(each) / np.var(each, ddof=1) for each in samples])
    means = np.array([np.mean(each) for each in samples])
    return float(precision @ means / precision.sum()), float(precision.sum() ** -0.5)
