"""Twelve scripts share the error of a result: false alarms, coverage of effects, and looks.

Each block gives a log ratio of medians for each script. All scripts of a block share a part of its
noise, as those of one machine do; some have heavy tails, and one is missing in some blocks.
"""

import math

import numpy as np

from steelyard.answers.result.compute import Terms
from steelyard.answers.scripts.compute import JudgedTime, judge_times
from steelyard.core.findings import Verdict
from steelyard.stats.spending import stopping_rule

SCRIPTS = 12
CAMPAIGNS = 1000
BLOCKS = 16
FIRST_LOOK = 4
MARGIN = 0.05
ERROR = 0.05


def terms(*, is_over: bool) -> Terms:
    """Return what a campaign of 16 blocks at most is judged by."""
    rule = stopping_rule(results=1, first_look=FIRST_LOOK, max_blocks=BLOCKS, precision=None)
    return Terms(rule=rule, margin=MARGIN, detect=MARGIN, block_s=20.0, time_is_up=is_over)


def ratios(random: np.random.Generator, effects: np.ndarray) -> np.ndarray:
    """Return the log ratios of a campaign, shape (blocks, scripts)."""
    shared = 0.02 * random.standard_normal((BLOCKS, 1))
    own = 0.03 * random.standard_normal((BLOCKS, SCRIPTS))
    own[:, :4] = 0.03 * random.standard_t(3.0, (BLOCKS, 4))
    found = np.log1p(effects) + shared + own
    found[random.random(BLOCKS) < 0.2, -1] = np.nan
    return np.asarray(found)


def looked_at(found: np.ndarray) -> list[tuple[JudgedTime, ...]]:
    """Return what each look says, from the first to the last."""
    looks = range(FIRST_LOOK, BLOCKS + 1)
    return [judge_times(found[:look], terms(is_over=look == BLOCKS)) for look in looks]


def most(rate: float) -> float:
    """Return the largest share that so many campaigns allow: 3 Monte Carlo deviations above it."""
    return rate + 3.0 * math.sqrt(rate * (1.0 - rate) / CAMPAIGNS)


def test_no_difference_is_seldom_called_one() -> None:
    """Over twelve equal scripts and all looks at most 5 % of campaigns call any different."""
    random = np.random.default_rng(20261129)
    nothing = np.zeros(SCRIPTS)
    false = sum(
        any(
            each.verdict in (Verdict.FASTER, Verdict.SLOWER)
            for look in looked_at(ratios(random, nothing))
            for each in look
        )
        for _ in range(CAMPAIGNS)
    )
    assert false / CAMPAIGNS <= most(ERROR)


def test_a_mix_is_told_and_nothing_wrong_with_it() -> None:
    """One at +50 % and five at -8 % are found, and the six equal ones are not called different."""
    random = np.random.default_rng(20261130)
    effects = np.array([0.5, *([-0.08] * 5), *([0.0] * 6)])
    campaigns = CAMPAIGNS // 4
    mixed = wrong = missed = 0
    for _ in range(campaigns):
        last = looked_at(ratios(random, effects))[-1]
        words = [each.verdict for each in last]
        mixed += words[0] is Verdict.SLOWER and Verdict.FASTER in words[1:6]
        wrong += any(word in (Verdict.FASTER, Verdict.SLOWER) for word in words[6:])
        wrong += words[0] is Verdict.FASTER or Verdict.SLOWER in words[1:6]
        for each, effect in zip(last, effects, strict=True):
            assert each.change is not None
            low, high = each.change.low, each.change.high
            missed += low is None or high is None or not low <= effect <= high
    assert mixed / campaigns >= 0.95
    assert wrong / campaigns <= most(ERROR)
    assert missed / (campaigns * SCRIPTS) <= ERROR


def test_each_step_has_a_larger_level() -> None:
    """Of eleven large effects the last one called has two to share the error with, not twelve."""
    random = np.random.default_rng(7)
    effects = np.array([*([0.6] * (SCRIPTS - 1)), 0.0])
    found = judge_times(ratios(random, effects), terms(is_over=True))
    levels = sorted(each.level or 0.0 for each in found[:-1])
    assert levels == sorted(set(levels))
    assert levels[-1] > 5.0 * levels[0]
    assert found[-1].level == levels[0]
