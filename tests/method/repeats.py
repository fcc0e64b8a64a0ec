"""One check of acceptance.py again, with any number of campaigns.

A Monte-Carlo check fails now and then by chance alone. It may be repeated once with ten times
the campaigns, and then it counts; the bound of a false-positive rate tightens accordingly.
"""

import functools
import re
from dataclasses import dataclass

import acceptance
import numpy as np
from simulator import Simulator, log_effects

BUDGET_S = 3600.0
TRUE_RATE = 0.05
_FIXED = {  # name after the profile: effect, campaigns as a share of R, seed, row, column
    "A/A false positives, per cell, fixed n": (0.0, 1, 101, 0, 0),
    "A/A false positives, pooled, fixed n": (0.0, 1, 101, 1, 0),
    "coverage, per cell": (0.0, 1, 101, 0, 1),
    "coverage, pooled": (0.0, 1, 101, 1, 1),
    "median half-width, per cell, 60 min": (0.0, 1, 101, 0, 2),
    "median half-width, pooled, 60 min": (0.0, 1, 101, 1, 2),
    "power at 3 %, per cell, 60 min": (0.03, 0.5, 102, 0, 0),
    "power at 3 %, pooled, 60 min": (0.03, 0.5, 102, 1, 0),
    "power at 5 %, per cell, 60 min": (0.05, 0.5, 103, 0, 0),
}
_END_TO_END = re.compile(r"end-to-end (\w+) ([+-]\d+)%: (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of acceptance.py."""

    name: str
    value: float
    relation: str
    bound: float

    @property
    def passed(self):
        return self.value <= self.bound if self.relation == "<=" else self.value >= self.bound

    def __str__(self):
        return f"{self.name}: {self.value:.4f} must be {self.relation} {self.bound}"


def is_random(name):
    """Return whether more campaigns can change the outcome of a check."""
    return not name.startswith(("unit:", "order:"))


def repeated(impl, check, fixed_campaigns, full_campaigns):
    """Return the check with a new value, from so many campaigns at fixed n or end to end."""
    match = _END_TO_END.fullmatch(check.name)
    if match:
        profile, effect, what = match[1], int(match[2]) / 100, match[3]
        value = end_to_end(impl, profile, effect, full_campaigns)[what]
        tests = full_campaigns
    else:
        profile, what = check.name.split(": ", 1)
        effect, share, seed, row, column = _FIXED[what]
        campaigns = int(fixed_campaigns * share)
        value = float(fixed(impl, profile, effect, campaigns, seed)[row][column])
        tests = campaigns * (2 if row == 0 else 1)  # cells of a campaign are not independent
    bound = check.bound
    if "false" in what:
        bound = false_positive_bound(tests)
    return Check(name=check.name, value=value, relation=check.relation, bound=bound)


def false_positive_bound(tests):
    """Return 5 % plus three Monte-Carlo standard deviations."""
    return round(TRUE_RATE + 3 * float(np.sqrt(TRUE_RATE * (1 - TRUE_RATE) / tests)), 4)


@functools.lru_cache(maxsize=8)
def fixed(impl, profile, effect, campaigns, seed):
    """Return (rejected, covered, half-width) per cell and pooled, from acceptance.py."""
    return acceptance.stats_fixed(impl, profile, effect, campaigns, seed)


@functools.lru_cache(maxsize=8)
def end_to_end(impl, profile, effect, campaigns):
    """Return the figures of acceptance.py's end-to-end checks by their names."""
    out = [
        impl.compare(Simulator(profile, log_effects([0, effect]), seed=20000 + i), BUDGET_S)
        for i in range(campaigns)
    ]
    told = [o["verdict"] for o in out if o["verdict"] in ("faster", "slower")]
    right = "faster" if effect > 0 else "slower"
    decided = len(told) / campaigns
    return {
        "interval covers the truth at the stop": np.mean(
            [o["lo"] <= effect <= o["hi"] for o in out]
        ),
        "budget kept (max minutes)": max(o["seconds"] for o in out) / 60,
        "false verdicts faster/slower": decided,
        "verdict reached": decided,
        "wrong direction": sum(word != right for word in told) / campaigns,
        "median minutes to verdict": np.median([o["seconds"] for o in out]) / 60,
    }
