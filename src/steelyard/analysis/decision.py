"""Whether a campaign may end after a block."""

from collections.abc import Sequence

from steelyard.analysis.results import Comparison
from steelyard.analysis.stopping import PRECISION_FROM
from steelyard.model.plan import Status, StoppingRule


def decide(comparisons: Sequence[Comparison], rule: StoppingRule) -> Status | None:
    """Return why the campaign may stop now, or None to go on; the budget is the runner's.

    Args:
        comparisons: Of the blocks so far; only the headlines count.
        rule: With a precision, intervals as narrow as asked end the campaign and verdicts do
            not; without, a verdict in every headline does.
    """
    headlines = [comparison for comparison in comparisons if comparison.load is None]
    if not headlines:
        return None
    if rule.precision is None:
        decided = all(headline.verdict.decided for headline in headlines)
        return Status.DECIDED if decided else None
    narrow = all(_is_narrow(headline, rule.precision) for headline in headlines)
    return Status.PRECISION if narrow else None


def stopped_early(status: Status, rule: StoppingRule, blocks: int) -> bool:
    """Return whether the verdicts ended a campaign before its last look.

    Only then the estimates are, on average, a little too large (METHOD.md 3.4); a campaign that
    was interrupted, or that ended at the asked precision, did not stop because of its effect.
    """
    return status is Status.DECIDED and blocks < rule.max_blocks


def _is_narrow(headline: Comparison, half_width: float) -> bool:
    effect = headline.effect
    if headline.blocks < PRECISION_FROM or effect is None:
        return False
    if effect.low is None or effect.high is None:
        return False
    return (effect.high - effect.low) / 2.0 <= half_width
