"""Whether two treatments share an instance: what a difference between them may be blamed on.

Two servers differ by more than their settings: host, memory layout, age, neighbours. With one
instance per side that is all in the effect, and no number of blocks takes it out (METHOD 3.8).
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.numerals import count
from steelyard.analysis.results import Comparison
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.measure import SwitchCost
from steelyard.model.plan import CampaignPlan
from steelyard.model.target import (
    AnyLocalTarget,
    CloudNativePgTarget,
    EndpointTarget,
    RedisKubernetesTarget,
    Target,
)
from steelyard.stats.two_level import LEAST_INSTANCES


def instances_per_side(one: Target, other: Target, plan: CampaignPlan, blocks: int) -> int | None:
    """Return how many instances of each side were compared; None where both share one.

    Servers of one machine in one directory share it, also of two versions. Another directory may
    be another disk, which making a server anew does not make anew. Servers that Steelyard did not
    start are as many instances as there are targets. Servers in a cluster that differ are made for
    each visit, volumes and all: each is an instance.
    """
    if isinstance(one, AnyLocalTarget) and isinstance(other, AnyLocalTarget):
        return None if one.directory == other.directory else 1
    if _identity(one) == _identity(other):
        return None
    return blocks if plan.switch is SwitchCost.REPROVISION else 1


def _identity(target: Target) -> Hashable:
    """Return what tells one server from another: how it is reached, not how it is treated."""
    if isinstance(target, EndpointTarget):
        return (target.uri, target.service, target.host, target.port, target.inside)
    if isinstance(target, CloudNativePgTarget) and not target.is_made:
        return (target.place, target.cluster)
    if isinstance(target, RedisKubernetesTarget) and target.service is not None:
        return target.service
    return target


def with_instances(
    comparisons: Sequence[Comparison], experiment: Experiment, plan: CampaignPlan
) -> tuple[Comparison, ...]:
    """Return the comparisons, each with its number of instances per side."""
    sides = {
        (asked.baseline, asked.treatment): _sides(asked, experiment)
        for asked in headline_contrasts(experiment)
    }
    return tuple(
        replace(
            each, instances=_instances(*sides[each.baseline, each.treatment], plan, each.blocks)
        )
        for each in comparisons
    )


def _sides(asked: HeadlineContrast, experiment: Experiment) -> tuple[list[Target], list[Target]]:
    targets = [treatment.target for treatment in experiment.treatments]
    return [targets[i] for i in asked.negative], [targets[i] for i in asked.positive]


def _instances(
    ones: Sequence[Target], others: Sequence[Target], plan: CampaignPlan, blocks: int
) -> int | None:
    """Return the least number of instances per side; None where both sides live on the same.

    With factors a side is a mean over treatments: where each target is on both sides alike, what
    is peculiar to it cancels.
    """
    if Counter(map(_identity, ones)) == Counter(map(_identity, others)):
        return None
    counts = [instances_per_side(one, other, plan, blocks) for one in ones for other in others]
    return min((number for number in counts if number is not None), default=None)


def pair_findings(comparisons: Sequence[Comparison]) -> Iterator[Finding]:
    """Yield a warning for each contender whose difference may be that of its instance."""
    told = {c.treatment: c for c in comparisons if c.is_of_pair and c.blocks}
    for comparison in told.values():
        yield Finding(
            code="pair-of-instances",
            severity=Severity.WARNING,
            message=(
                f"{comparison.treatment}: it lives on another instance than {comparison.baseline},"
                f" {count(comparison.instances or 0, 'instance')} per side; the effect is that of"
                " this pair of instances, whatever differs between them"
            ),
            remedy=(
                "Compare the settings on one server; or use targets that Steelyard makes, anew for"
                f" each visit (`measure.switch: reprovision`), at least {LEAST_INSTANCES} per side."
            ),
            source="METHOD 3.8: more than half of such campaigns call equal servers different",
            subject=comparison.treatment,
        )
