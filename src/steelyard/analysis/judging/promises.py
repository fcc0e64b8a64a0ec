"""What the two sides of a comparison promise by the settings in force, and which promises less."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from steelyard.analysis.contrasts import HeadlineContrast
from steelyard.analysis.judging.facts import CampaignFacts
from steelyard.model.rules import KEPT, Ruling, lacking

_Promise = TypeVar("_Promise")


def weighed(
    facts: CampaignFacts,
    asked: HeadlineContrast,
    promised: Callable[[Mapping[str, str]], _Promise | None],
    traded: Callable[[tuple[str, _Promise], tuple[str, _Promise]], Ruling],
    needed: str,
) -> Ruling:
    """Rule on one comparison by what the servers of its sides promise.

    Args:
        facts: Of the campaign.
        asked: The comparison.
        promised: By the settings in force; None where those that decide it are not known.
        traded: Rules on the names of the two sides, the treatment's first, and their promises.
        needed: What has to be known for that.
    """
    names = facts.seen.treatments
    told = [
        [promised(facts.in_force(names[place])) for place in places]
        for places in (asked.positive, asked.negative)
    ]
    mine, theirs = ({each for each in side if each is not None} for side in told)
    if any(None in side for side in told):
        return lacking(needed)
    if len(mine) > 1 or len(theirs) > 1:
        return KEPT  # with factors another one decides it, on both sides alike
    return traded((asked.treatment, mine.pop()), (asked.baseline, theirs.pop()))
