"""Histories of made campaigns: a step of 3 % after sixteen of them, and a newer kernel with it."""

from dataclasses import replace

import numpy as np

from fakes import analyses
from steelyard.answers.history import History, history_of
from steelyard.answers.report import Listed
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Fact

DAY_S = 86400.0
STEP_AT = 16


def with_effect(effect: float, *, day: int = 0) -> CampaignAnalysis:
    """Return a finished campaign whose results have an effect, measured on a day."""
    made = analyses.quick()
    told = Estimate(value=effect, low=effect - 0.02, high=effect + 0.02)
    comparisons = tuple(
        replace(each, effect=told) if each.load is None else each for each in made.comparisons
    )
    return replace(made, comparisons=comparisons, started_at=made.started_at + day * DAY_S)


def listed(analysis: CampaignAnalysis, name: str) -> Listed:
    """Return a campaign of its own as it is found in a directory."""
    own = replace(analysis, campaign_id=name)
    return Listed(directory=f"campaigns/{name}", size_bytes=1, analysis=own)


def on(analysis: CampaignAnalysis, **facts: str) -> CampaignAnalysis:
    """Return a campaign with other facts of its machine."""
    kept = [each for each in analysis.facts if each.name not in facts]
    made = [Fact(subject="machine", name=name, value=value) for name, value in facts.items()]
    return replace(analysis, facts=(*kept, *made))


def stepped(campaigns: int = 30) -> tuple[Listed, ...]:
    """Return campaigns whose effect falls from 8 % to 5 % with another kernel."""
    noise = 0.005 * np.random.default_rng(4).standard_normal(campaigns)
    found = []
    for day, each in enumerate(noise):
        later = day >= STEP_AT
        effect = (0.05 if later else 0.08) + float(each)
        kernel = "6.12.1 x86_64" if later else "6.1.0 x86_64"
        found.append(listed(on(with_effect(effect, day=day), kernel=kernel), f"{day:03}"))
    return tuple(found)


def history() -> History:
    """Return their history."""
    return history_of(stepped(), {})
