"""Work of the server that falls into some runs: whether one side of a comparison had more of it."""

from collections.abc import Callable, Iterator
from typing import Final

from steelyard.analysis.judging.facts import CampaignFacts, Runs
from steelyard.analysis.numerals import count
from steelyard.model.evidence import Evidence
from steelyard.model.rules import KEPT, Ruling, Threshold, broken, lacking
from steelyard.stats.stalls import stalls_p_value

EVENT_LEVEL: Final = 0.05
BY_RUNS: Final = (
    Threshold(
        value=EVENT_LEVEL,
        shown=f"p < {EVENT_LEVEL}, shared by the comparisons (Fisher's exact test over runs)",
        reason="the usual level, as for stalls; runs of one visit count as independent",
    ),
)


def events_differ(
    facts: CampaignFacts, what: str, happened: Callable[[Evidence], bool | None], needed: str
) -> Iterator[Ruling]:
    """Compare how many runs of the sides held an event.

    Args:
        facts: Of the campaign.
        what: The event, as the subject of a sentence.
        happened: Whether it did in a run; None where nobody counted it.
        needed: What has to be counted for that.
    """
    every = tuple(facts.sides())
    for sides in every:
        (mine, my_runs), (theirs, their_runs) = (
            _with_event(runs, happened) for runs in (sides.mine, sides.theirs)
        )
        if not my_runs or not their_runs:
            yield lacking(needed)
            continue
        p_value = stalls_p_value((mine, theirs), (my_runs, their_runs))
        if p_value < EVENT_LEVEL / len(every):
            yield broken(
                f"{sides.name}: {what} fell into {mine} of {count(my_runs, 'run')}, under"
                f" {sides.other} into {theirs} of {their_runs} (p = {p_value:.2g}, too small"
                " where runs of one visit share an event: they count as independent)",
                subject=sides.name,
            )
        else:
            yield KEPT


def _with_event(runs: Runs, happened: Callable[[Evidence], bool | None]) -> tuple[int, int]:
    """Return in how many runs it happened, and in how many it was counted."""
    seen = [happened(run.evidence) for run in runs if run.evidence is not None]
    known = [each for each in seen if each is not None]
    return sum(known), len(known)
