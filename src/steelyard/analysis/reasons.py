"""Why: what the evidence around the runs of a campaign says of its comparisons."""

from dataclasses import dataclass

from steelyard.analysis.budget import Budget, split_latency
from steelyard.analysis.explanation import Differing, Explanation, explain
from steelyard.analysis.ledger import Ledger, keep_ledger
from steelyard.analysis.observations import Observations
from steelyard.analysis.timeline import Timeline, timelines
from steelyard.analysis.watching import Watching, watching
from steelyard.model.campaign import CampaignRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Where the time of transactions goes, what they cost, and how both differ.

    Attributes:
        explanations: One per comparison and cell; empty for a single treatment.
        timelines: One block of each workload at its largest load, treatment by treatment.
        watching: What could not be seen, and what the watching cost.
    """

    ledger: Ledger
    budget: Budget
    explanations: tuple[Explanation, ...]
    timelines: tuple[Timeline, ...]
    watching: Watching


def find_reasons(
    record: CampaignRecord, seen: Observations, differing: Differing
) -> Reasons | None:
    """Return the reasons; None where no run that counts has evidence.

    Args:
        record: Of the campaign.
        seen: Its observations.
        differing: Names of the settings that separate the two sides of each comparison.
    """
    experiment = record.experiment
    ledger, budget = keep_ledger(seen, experiment), split_latency(seen, experiment)
    watched = watching(record.counted_runs)
    if ledger is None or budget is None or watched is None:
        return None
    return Reasons(
        ledger=ledger,
        budget=budget,
        explanations=explain(seen, experiment, ledger, budget, differing),
        timelines=timelines(seen, experiment),
        watching=watched,
    )
