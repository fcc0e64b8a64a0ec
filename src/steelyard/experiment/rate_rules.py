"""The rule for open loops: was done what was due?"""

import math
from collections.abc import Iterator
from typing import Final

from steelyard.experiment.run_facts import RunFacts
from steelyard.model.findings import Severity
from steelyard.model.measurement import Measurement
from steelyard.model.rules import (
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Rule,
    Ruling,
    Threshold,
    broken,
    lacking,
)
from steelyard.model.units import MS_PER_S, format_share

DONE_SHARE: Final = 0.98
POISSON_DEVIATIONS: Final = 4.0


def least_done(due: float) -> float:
    """Return how many transactions are done at least where a server keeps up.

    Args:
        due: Transactions due on average; how many there are is a Poisson number.
    """
    return min(DONE_SHARE * due, due - POISSON_DEVIATIONS * math.sqrt(due))


def _failed(taken: Measurement) -> float:
    """Return about how many failed in the measured part: they were tried, and nothing waited.

    The generator counts them over the whole run; they are taken as spread evenly over it.
    """
    whole_s = sum(second.seconds for second in taken.series)
    return taken.failed * min(taken.seconds / whole_s, 1.0) if whole_s else taken.failed


def _rate_not_reached(facts: RunFacts) -> Iterator[Ruling]:
    taken, due = facts.measurement, facts.offered
    if not facts.load.is_open:
        yield NOTHING_TO_JUDGE
    elif taken is None or due is None:
        yield lacking("a result" if taken is None else "the rate that the load's share became")
    elif taken.transactions + (facts.skipped or 0) + _failed(taken) < least_done(due):
        yield broken(
            f"{taken.transactions:.0f} transactions were done of about {due:.0f} that were due"
            f" ({format_share(taken.transactions / due)}): the server did not keep up; latency then"
            " grows with the length of the run"
        )
    elif facts.skipped and taken.transactions < least_done(due):
        limit_s = facts.load.latency_limit_s or 0.0
        yield broken(
            f"{facts.skipped} of about {due:.0f} transactions were skipped, because they were"
            f" {limit_s * MS_PER_S:g} ms late already: the server did not keep up"
        )
    else:
        yield KEPT


RATE_NOT_REACHED: Final[Rule[RunFacts]] = Rule(
    code="rate-not-reached",
    judges=Judges.RUN,
    severity=Severity.WARNING,
    what="In an open loop fewer transactions were done (with those skipped) than were due by"
    " its rate, or fewer without them because many were skipped. It stays in: the treatment"
    " may be the cause.",
    why="What is not done waits: latency then grows with the length of the run, and its"
    " percentiles are those of this length alone.",
    thresholds=(
        Threshold(
            value=DONE_SHARE,
            shown=f"{format_share(DONE_SHARE)} of rate times length",
            reason="a guess: a queue that grows by 2 % of the rate adds 100 ms to the latency"
            " in 5 s",
        ),
        Threshold(
            value=POISSON_DEVIATIONS,
            shown="4 standard deviations of a Poisson number below it, where that is less",
            reason="pgbench schedules a Poisson process, whose number has the deviation of its"
            " root; fewer by 4 of them is seen in at most 1 of 30,000 runs that keep up"
            " (exact probabilities)",
        ),
    ),
    remedy="Lower the rate, add clients (all of them were busy), or read it as what this"
    " treatment does at this rate.",
    source="PostgreSQL's documentation, pgbench --rate; thresholds as above",
    judge=_rate_not_reached,
)
