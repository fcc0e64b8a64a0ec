"""Rules of the load generator in one run: it must not be the limit, and its log must be whole."""

from collections.abc import Iterator
from typing import Final

from steelyard.experiment.run_facts import RunFacts
from steelyard.model.evidence import Quantity
from steelyard.model.findings import Severity
from steelyard.model.rules import (
    GENERATOR_SATURATED,
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Rule,
    Ruling,
    Threshold,
    broken,
    lacking,
)
from steelyard.model.run_needs import RUN_NEEDS
from steelyard.model.units import format_share

SATURATED_SHARE: Final = 0.95
_MORE_GENERATORS: Final = (
    "Add a generator (`loads.generators: {more}`) or threads (`loads.threads`), make the scripts"
    " simpler, or put the load generator on a machine of its own."
)


def _generator_saturated(facts: RunFacts) -> Iterator[Ruling]:
    used, cpus = facts.total(Quantity.GENERATOR_CPU_S), facts.level(Quantity.CPUS)
    if facts.evidence is None or used is None or cpus is None:
        yield lacking(", ".join(RUN_NEEDS[GENERATOR_SATURATED]))
        return
    processes = facts.load.generators
    threads = min(max(facts.load.threads, processes), max(int(cpus), 1))
    share = used / (threads * facts.evidence.seconds) if facts.evidence.seconds > 0 else 0.0
    if share < SATURATED_SHARE:
        yield KEPT
        return
    several = f" in {processes} processes" if processes > 1 else ""
    yield broken(
        f"the load generator used {format_share(share)} of what its {threads} threads{several} can"
        f" (at least {format_share(SATURATED_SHARE)}): it was measured, not the server",
        remedy=_MORE_GENERATORS.format(more=processes + 1),
    )


def _log_unusable(facts: RunFacts) -> Iterator[Ruling]:
    if facts.log_trouble is None:
        yield NOTHING_TO_JUDGE
    else:
        yield broken(facts.log_trouble) if facts.log_trouble else KEPT


SATURATED: Final[Rule[RunFacts]] = Rule(
    code=GENERATOR_SATURATED,
    judges=Judges.RUN,
    severity=Severity.ERROR,
    what="The load generator used nearly all CPU time that its threads can use.",
    why="Throughput is then the generator's, and treatments look alike.",
    thresholds=(
        Threshold(
            value=SATURATED_SHARE,
            shown=f"{format_share(SATURATED_SHARE)} of its threads' time",
            reason="a guess: the rest is what a thread needs to be woken at all",
        ),
    ),
    remedy=_MORE_GENERATORS.format(more=2),
    source="PostgreSQL's documentation, pgbench, Good Practices; threshold: a guess",
    judge=_generator_saturated,
)
LOG_UNUSABLE: Final[Rule[RunFacts]] = Rule(
    code="log-unusable",
    judges=Judges.RUN,
    severity=Severity.INFO,
    what="The log of transactions does not hold what the load generator counts: lines are"
    " missing, damaged or cut off.",
    why="Percentiles of a part of the transactions may be those of the fast or of the slow"
    " ones. The run has no latency then; its throughput does not rest on the log and counts.",
    thresholds=(
        Threshold(
            value=0.0,
            shown="no transaction and no line",
            reason="the generator counts what it logs, so that both are equal when all is well;"
            " a share of them is missing lines where chance draws so few once in a billion",
        ),
    ),
    remedy="Look whether /dev/shm or the disk of the cache is full, log a share of the"
    " transactions (`measure.log_sampling`), or none (`measure.log: off`).",
    source="PostgreSQL's documentation, pgbench, Per-Transaction Logging",
    judge=_log_unusable,
)
