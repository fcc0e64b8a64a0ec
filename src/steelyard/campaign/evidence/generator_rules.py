"""Rules of the load generator in one run: it must not be the limit, and its log must be whole.

What generators in pods can use is their own limit, not the CPUs of the server's machine. Of what is
known of a run, None is what nobody measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.core.campaign import RUN_NEEDS
from steelyard.core.experiment import DEFAULT_NEIGHBOURS
from steelyard.core.findings import (
    GENERATOR_SATURATED,
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Ruling,
    Severity,
    Threshold,
    ValidityRule,
    broken,
    lacking,
)
from steelyard.core.measurement import Evidence, Measurement, Quantity
from steelyard.core.schedule import Load
from steelyard.core.target import POSTGRES_WORDS, WorkWords
from steelyard.core.units import format_share


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of a run when it is judged.

    Attributes:
        measurement: None when the generator gave none; then ``failure`` says why.
        clock_jump_s: How far the wall clock moved against the monotonic one.
        log_trouble: Why its log of transactions cannot be used; empty where it can; None: there is
            none.
        server_died: It was not there any more after the run.
        last_words: Of the server that died, by its log; empty where it logged nothing.
        deviations: A sentence for each setting that is not in force as asked.
        asked: Settings of the configuration's server, by name.
        limits: Control group limits that the configuration asks for, by name.
        in_force: Settings as the running server reports them, by name.
        asked_s: Length of the measured part as it was asked for; None: as long as it took.
        skipped: Transactions that were never started, after the ramp; None: no result.
        words: What the work is called.
        takes_time: The generator was told how long to run, not how many requests to send.
        neighbours: Share of CPU and disk that others may use; None: whatever they like.
    """

    configuration: str = ""
    load: Load = field(default_factory=lambda: Load(clients=1, threads=1))
    measurement: Measurement | None = None
    evidence: Evidence | None = None
    clock_jump_s: float | None = None
    failure: str = ""
    log_trouble: str | None = None
    server_died: bool = False
    last_words: str = ""
    deviations: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    in_force: Mapping[str, str] = field(default_factory=dict)
    asked_s: float | None = None
    skipped: int | None = None
    neighbours: float | None = DEFAULT_NEIGHBOURS
    words: WorkWords = POSTGRES_WORDS
    takes_time: bool = True

    @property
    def offered(self) -> float | None:
        """Return how many transactions were due after the ramp, on average, or None."""
        rate_per_s = self.load.rate_per_s
        if rate_per_s is None or self.measurement is None:
            return None
        # What is still running at the end may take longer; nothing new is due then.
        took_s = self.measurement.seconds
        return rate_per_s * (took_s if self.asked_s is None else min(self.asked_s, took_s))

    @property
    def allowance(self) -> float:
        """Return the share from which on a neighbour is told of."""
        return DEFAULT_NEIGHBOURS if self.neighbours is None else self.neighbours

    def total(self, quantity: Quantity) -> float | None:
        """Return a difference over the run, or None."""
        return None if self.evidence is None else self.evidence.total(quantity)

    def level(self, quantity: Quantity) -> float | None:
        """Return a reading at its end, or None."""
        return None if self.evidence is None else self.evidence.level(quantity)

    @property
    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds that the machine had during the run, or None."""
        cpus = self.level(Quantity.CPUS)
        seconds = self.evidence.seconds if self.evidence is not None else 0.0
        return cpus * seconds if cpus and seconds > 0 else None


SATURATED_SHARE: Final = 0.95
THROTTLED_SHARE: Final = 0.05
_LEAST_S: Final = 1e-3  # of a run, as far as a generator's clock tells
OFF_LENGTH: Final = 2.0  # between the length that was meant and that of the run
APART_SHARE: Final = 0.02
_MORE_GENERATORS: Final = (
    "Add a generator (`loads.generators: {more}`) or threads (`loads.threads`), make the scripts"
    " simpler, or put the load generator on a machine of its own."
)


_MORE_CPU: Final = (
    "Raise the CPU limit of its pods (`target.generators.resources`), or add a generator"
    " (`loads.generators: {more}`)."
)


def _generator_saturated(facts: RunFacts) -> Iterator[Ruling]:
    if facts.level(Quantity.GENERATOR_CPUS) is not None:
        yield _saturated_pods(facts)
        return
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


def _saturated_pods(facts: RunFacts) -> Ruling:
    """Judge all pods together by what their threads can use, and the busiest by its own limit."""
    used, cpus = facts.total(Quantity.GENERATOR_CPU_S), facts.level(Quantity.GENERATOR_CPUS)
    seconds = facts.evidence.seconds if facts.evidence is not None else 0.0
    if used is None or not cpus or seconds <= 0:
        return lacking(", ".join(RUN_NEEDS[GENERATOR_SATURATED]))
    processes = facts.load.generators
    usable = min(float(max(facts.load.threads, processes)), cpus)
    busiest = facts.level(Quantity.GENERATOR_BUSIEST_FRACTION) or 0.0
    share = max(used / (usable * seconds), busiest)
    if share < SATURATED_SHARE:
        return KEPT
    whose = "it" if processes == 1 else "one of its pods"
    limited = busiest >= SATURATED_SHARE or usable == cpus
    what = "the CPUs that its limit allows" if limited else f"what its {usable:g} threads can"
    remedy = _MORE_CPU if limited else _MORE_GENERATORS
    return broken(
        f"the load generator was the limit: {whose} used {format_share(share)} of {what} (at least"
        f" {format_share(SATURATED_SHARE)})",
        remedy=remedy.format(more=processes + 1),
    )


def _generator_throttled(facts: RunFacts) -> Iterator[Ruling]:
    periods = facts.total(Quantity.GENERATOR_QUOTA_PERIODS)
    times = facts.total(Quantity.GENERATOR_THROTTLED_PERIODS)
    waited_s = facts.total(Quantity.GENERATOR_THROTTLED_S)
    if times is None or not periods:
        yield NOTHING_TO_JUDGE  # no limit of its own
        return
    share = times / periods
    if share <= THROTTLED_SHARE:
        yield KEPT
        return
    waiting = "" if waited_s is None else f", {waited_s:.1f} s in all"
    yield broken(
        f"the CPU limit of the load generator's pods held them back in {format_share(share)} of the"
        f" periods (more than {format_share(THROTTLED_SHARE)}){waiting}",
        remedy=_MORE_CPU.format(more=facts.load.generators + 1),
    )


def _generators_apart(facts: RunFacts) -> Iterator[Ruling]:
    if facts.load.generators < 2:
        yield NOTHING_TO_JUDGE
        return
    apart_s, asked_s = facts.level(Quantity.GENERATORS_APART_S), facts.asked_s
    if apart_s is None or not asked_s:
        yield NOTHING_TO_JUDGE  # programs of one machine are started at once
        return
    if apart_s <= APART_SHARE * asked_s:
        yield KEPT
        return
    yield broken(
        f"the generators began {apart_s:.2f} s apart at least (more than"
        f" {format_share(APART_SHARE)} of the {asked_s:g} s that were measured): so long not all"
        " clients were there"
    )


def _slice_length(facts: RunFacts) -> Iterator[Ruling]:
    taken, asked_s = facts.measurement, facts.asked_s
    if facts.takes_time:
        yield NOTHING_TO_JUDGE
    elif taken is None or not asked_s:
        yield lacking("a result" if taken is None else "the length that was asked for")
    elif asked_s / OFF_LENGTH <= taken.seconds <= asked_s * OFF_LENGTH:
        yield KEPT
    else:
        long = taken.seconds > asked_s
        factor = taken.seconds / asked_s if long else asked_s / max(taken.seconds, _LEAST_S)
        yield broken(
            f"the run took {taken.seconds:.3g} s, and {asked_s:g} s were meant"
            f" ({'longer' if long else 'shorter'} by a factor of {factor:.3g}): the server was"
            f" {'slower' if long else 'faster'} than in the runs before"
        )


def _log_unusable(facts: RunFacts) -> Iterator[Ruling]:
    if facts.log_trouble is None:
        yield NOTHING_TO_JUDGE
    else:
        yield broken(facts.log_trouble) if facts.log_trouble else KEPT


SATURATED: Final[ValidityRule[RunFacts]] = ValidityRule(
    code=GENERATOR_SATURATED,
    judges=Judges.RUN,
    severity=Severity.ERROR,
    what="The load generator used nearly all CPU time that its threads can use; in pods, that"
    " their CPU limits allow.",
    why="Throughput is then the generator's, and configurations look alike.",
    thresholds=(
        Threshold(
            value=SATURATED_SHARE,
            shown=f"{format_share(SATURATED_SHARE)} of its threads' time, or of one pod's limit",
            reason="a guess: the rest is what a thread needs to be woken at all",
        ),
    ),
    remedy=_MORE_GENERATORS.format(more=2),
    source="PostgreSQL's documentation, pgbench, Good Practices; threshold: a guess",
    judge=_generator_saturated,
)
THROTTLED: Final[ValidityRule[RunFacts]] = ValidityRule(
    code="generator-throttled",
    judges=Judges.RUN,
    severity=Severity.WARNING,
    what="The pods of the load generator had used up their own CPU limit in a share of the periods"
    " (nr_throttled of their control groups).",
    why="A thread that is stopped for the rest of a period sends nothing and sees answers late:"
    " throughput and latency are then the generator's in part, also where it is idle on average.",
    thresholds=(
        Threshold(
            value=THROTTLED_SHARE,
            shown=f"{format_share(THROTTLED_SHARE)} of the periods",
            reason="a guess: the start of a run, when all clients connect, is held back sooner",
        ),
    ),
    remedy=_MORE_CPU.format(more=2),
    source="the kernel's cgroup cpu.stat; threshold: a guess",
    judge=_generator_throttled,
)
APART: Final[ValidityRule[RunFacts]] = ValidityRule(
    code="generators-apart",
    judges=Judges.RUN,
    severity=Severity.WARNING,
    what="Several load generators on other machines did not begin together.",
    why="In the time between only some of the clients were there: the run was one of a smaller"
    " load for so long.",
    thresholds=(
        Threshold(
            value=APART_SHARE,
            shown=f"{format_share(APART_SHARE)} of the measured part",
            reason="a guess: a share of clients was missing for that share of the time at most",
        ),
    ),
    remedy="Let the nodes of the generators keep time (NTP), give their pods enough CPU, or make"
    " the slice longer (`measure.slice`).",
    source="the agents in the pods; threshold: a guess",
    judge=_generators_apart,
)
SLICE_LENGTH: Final[ValidityRule[RunFacts]] = ValidityRule(
    code="slice-length",
    judges=Judges.RUN,
    severity=Severity.WARNING,
    what="A generator that takes no time (redis-benchmark) took much longer or shorter than the"
    " slice: the number of requests comes from the runs before.",
    why="Runs of different lengths see different parts of what comes in intervals (an AOF rewrite,"
    " an fsync each second), and weigh the same.",
    thresholds=(
        Threshold(
            value=OFF_LENGTH,
            shown=f"a factor of {OFF_LENGTH:g}",
            reason="a guess: a burst or a neighbour moves a slice by less",
        ),
    ),
    remedy="If it stays so, the server's speed changes from run to run: set a longer slice.",
    source="the generator's own clock; threshold: a guess",
    judge=_slice_length,
)
LOG_UNUSABLE: Final[ValidityRule[RunFacts]] = ValidityRule(
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
