"""Whether a run may be believed: only causes from outside the configurations make it invalid.

What a configuration brings about itself stays in; the rules for that are in ``answers.validity``.
Of an open loop it is asked whether it did what was due. The load generator must not be the limit,
and its log must be whole; what it can use where the server is elsewhere is its own limit, not the
CPUs of the server's machine.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.core.campaign import RUN_NEEDS
from steelyard.core.experiment import DEFAULT_NEIGHBOURS
from steelyard.core.findings import (
    ENVIRONMENT,
    FOREIGN_DISK,
    GENERATOR_SATURATED,
    KEPT,
    NEIGHBOUR_CPU,
    NOTHING_TO_JUDGE,
    STEAL,
    Finding,
    Judges,
    Ruling,
    Severity,
    State,
    Validity,
    ValidityRule,
    broken,
    lacking,
)
from steelyard.core.measurement import (
    Evidence,
    Measurement,
    OtherProcess,
    Quantity,
)
from steelyard.core.schedule import Load
from steelyard.core.wording import MS_PER_S, POSTGRES_WORDS, WorkWords, format_bytes, format_share


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of a run when it is judged; None is what nobody measured.

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
        in_turns: It took turns with others, which met the same neighbours.
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
    in_turns: bool = False

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRule(ValidityRule[RunFacts]):
    """A rule that judges a run."""

    judges: Judges = Judges.RUN


SATURATED_SHARE: Final = 0.95
THROTTLED_SHARE: Final = 0.05
LEAST_PERIODS: Final = 10  # of a quota, of 100 ms each by default
_LEAST_S: Final = 1e-3  # of a run, as far as a generator's clock tells
OFF_LENGTH: Final = 2.0  # between the length that was meant and that of the run
_MORE_GENERATORS: Final = (
    "Add a generator (`load.generators: {more}`) or threads (`load.threads`), make the scripts"
    " simpler, or take the load from other machines (`generator.workers`)."
)

_MORE_WORKERS: Final = "Add a worker (`generator.workers: {workers}`), or make the scripts simpler."


_MORE_CPU: Final = (
    "Give the load generator more CPUs: in a cluster raise the limit of its pod"
    " (`target.generators.resources`)."
)


def _generator_saturated(facts: RunFacts) -> Iterator[Ruling]:
    used = facts.total(Quantity.GENERATOR_CPU_S)
    own_cpus = facts.level(Quantity.GENERATOR_CPUS)  # where the server is elsewhere
    cpus = own_cpus or facts.level(Quantity.CPUS)
    if facts.evidence is None or used is None or not cpus:
        yield lacking(", ".join(RUN_NEEDS[GENERATOR_SATURATED]))
        return
    processes = facts.load.generators
    threads = max(facts.load.threads, processes)
    usable = min(float(threads), cpus)
    share = used / (usable * facts.evidence.seconds) if facts.evidence.seconds > 0 else 0.0
    if share < SATURATED_SHARE:
        yield KEPT
        return
    several = f" in {processes} processes" if processes > 1 else ""
    limit = (
        f"what its {threads} threads{several} can"
        if threads <= cpus
        else f"the {cpus:g} CPUs that it may use"
    )
    workers = facts.level(Quantity.WORKERS)
    remedy = _MORE_CPU if own_cpus and threads > cpus else _MORE_GENERATORS
    if own_cpus and workers:
        remedy = _MORE_WORKERS
    yield broken(
        f"the load generator used {format_share(share)} of {limit} (at least"
        f" {format_share(SATURATED_SHARE)}): it was measured, not the server",
        remedy=remedy.format(more=processes + 1, workers=round(workers or 0) + 1),
    )


def _generator_throttled(facts: RunFacts) -> Iterator[Ruling]:
    periods = facts.total(Quantity.GENERATOR_QUOTA_PERIODS)
    times = facts.total(Quantity.GENERATOR_THROTTLED_PERIODS)
    waited_s = facts.total(Quantity.GENERATOR_THROTTLED_S)
    if times is None or not periods:
        yield NOTHING_TO_JUDGE  # no limit of its own
        return
    share = times / periods
    if share <= THROTTLED_SHARE or periods < LEAST_PERIODS:
        yield KEPT
        return
    waiting = "" if waited_s is None else f", {waited_s:.1f} s in all"
    yield broken(
        f"the CPU limit of the load generator held it back in {format_share(share)} of the periods"
        f" (more than {format_share(THROTTLED_SHARE)}){waiting}",
    )


APART_S: Final = 0.05  # a guess: half of what a turn throws away at least


def _workers_apart(facts: RunFacts) -> Iterator[Ruling]:
    skew_s = facts.level(Quantity.START_SKEW_S)
    if skew_s is None:
        yield NOTHING_TO_JUDGE  # this machine has the load
        return
    if skew_s <= APART_S:
        yield KEPT
        return
    doubt_s, pressure_s = facts.level(Quantity.START_DOUBT_S), facts.total(Quantity.CPU_PRESSURE_S)
    waited = (
        "" if pressure_s is None else f"; tasks of this machine waited {pressure_s:.1f} s for a CPU"
    )
    yield broken(
        f"the workers of the load began up to {MS_PER_S * skew_s:.0f} ms apart (more than"
        f" {MS_PER_S * APART_S:.0f} ms), of which {MS_PER_S * (doubt_s or 0.0):.1f} ms are what"
        f" their clocks leave in doubt{waited}"
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


SATURATED: Final = RunRule(
    code=GENERATOR_SATURATED,
    severity=Severity.ERROR,
    remedy=_MORE_GENERATORS.format(more=2),
    source="PostgreSQL's documentation, pgbench, Good Practices; threshold: a guess",
    judge=_generator_saturated,
)
THROTTLED: Final = RunRule(
    code="generator-throttled",
    severity=Severity.WARNING,
    remedy=_MORE_CPU,
    source="the kernel's cgroup cpu.stat; threshold: a guess",
    judge=_generator_throttled,
)
WORKERS_APART: Final = RunRule(
    code="workers-apart",
    severity=Severity.ERROR,
    remedy="Give the workers CPUs of their own, or a quicker network.",
    source="the workers' clocks, by round trips; threshold: a guess",
    judge=_workers_apart,
)
SLICE_LENGTH: Final = RunRule(
    code="slice-length",
    severity=Severity.WARNING,
    remedy="If it stays so, the server's speed changes from run to run: set a longer `run_time`.",
    source="the generator's own clock; threshold: a guess",
    judge=_slice_length,
)
LOG_UNUSABLE: Final = RunRule(
    code="log-unusable",
    severity=Severity.INFO,
    remedy="Look whether /dev/shm or the disk of the cache is full, log a share of the"
    " transactions (`measure.log_sampling`), or none (`measure.log: off`).",
    source="PostgreSQL's documentation, pgbench, Per-Transaction Logging",
    judge=_log_unusable,
)


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


RATE_NOT_REACHED: Final = RunRule(
    code="rate-not-reached",
    severity=Severity.WARNING,
    remedy="Lower the rate, add clients (all of them were busy), or read it as what this"
    " configuration does at this rate.",
    source="PostgreSQL's documentation, pgbench --rate; thresholds as above",
    judge=_rate_not_reached,
)


CLOCK_JUMP_S: Final = 0.5  # wall against monotonic clock over one run; NTP slews by far less
STEAL_SHARE: Final = 0.05
_ON: Final = frozenset({"on", "true", "yes", "1"})
_OWN_NODE: Final = (
    "Give the database a node of its own (a taint, `node_selector` and `tolerations`), or allow"
    " more with `measure.max_other_load`."
)
_LOG: Final = "Look into the server's log, in raw/; an existing server keeps its own."


def _generator_failed(facts: RunFacts) -> Iterator[Ruling]:
    if not facts.failure or facts.server_died:
        yield KEPT
        return
    is_standby = facts.in_force.get("in_hot_standby") == "on"
    hint = _RECOVERY if is_standby else ""
    if (memory := facts.limits.get("memory")) and any(said in facts.failure for said in _LOST):
        hint = _OUT_OF_MEMORY.format(memory)
    yield broken(f"{facts.failure}{hint}")


_LOST: Final = ("backend died", "server closed the connection")  # libpq's and pgbench's words
_OUT_OF_MEMORY: Final = (
    " (cgroup.memory is {}: the kernel kills a process of the server that needs more, as its log"
    " says with `terminated by signal 9`. Raise it, or lower shared_buffers and clients.)"
)
_RECOVERY: Final = (
    " (This server is a standby: if a conflict with recovery ended a session, raise"
    " max_standby_streaming_delay there, or set hot_standby_feedback = on.)"
)


def _server_died(facts: RunFacts) -> Iterator[Ruling]:
    if facts.server_died:
        how = facts.failure or f"{facts.words.generator} still ended normally"
        said = f"; its last words: {facts.last_words}" if facts.last_words else ""
        yield broken(f"the server died or was out of reach during the run ({how}){said}")
    else:
        yield KEPT


def _clock_jump(facts: RunFacts) -> Iterator[Ruling]:
    jump_s = facts.clock_jump_s
    if jump_s is None:
        yield lacking("both clocks")
    elif abs(jump_s) > CLOCK_JUMP_S:
        yield broken(
            f"the clock was set by {jump_s:+.1f} s during the run (more than {CLOCK_JUMP_S} s)"
        )
    else:
        yield KEPT


def _not_in_force(facts: RunFacts) -> Iterator[Ruling]:
    if facts.deviations:
        told = "; ".join(facts.deviations)
        yield broken(f"configuration `{facts.configuration}` is not in force: {told}")
    else:
        yield KEPT


def _no_huge_pages(facts: RunFacts) -> Iterator[Ruling]:
    if facts.asked.get("huge_pages", "").lower() not in _ON:
        yield NOTHING_TO_JUDGE
        return
    status = facts.in_force.get("huge_pages_status", "")
    used = facts.level(Quantity.SERVER_HUGE_BYTES)
    if status not in ("on", "off") and used is None:
        yield lacking("huge_pages_status or server_huge_bytes")
    elif status == "off" or used == 0:
        yield broken("huge_pages = on was asked for, and the server's memory is on none")
    else:
        yield KEPT


def _neighbour_cpu(facts: RunFacts) -> Iterator[Ruling]:
    had = facts.cpu_seconds
    if facts.evidence is None or facts.total(Quantity.OTHERS_CPU_S) is None or had is None:
        yield _unmeasured(NEIGHBOUR_CPU)
        return
    used = facts.evidence.foreign_cpu_s
    if used is None:
        yield lacking("the server's processes")
        return
    share = used / had
    if share <= facts.allowance:
        yield KEPT
        return
    others = [other for other in facts.evidence.others if not other.name.startswith("[")]
    heaviest = max(others, key=lambda other: other.cpu_s, default=None)
    named = (
        f", most of it {heaviest.name} ({format_share(heaviest.cpu_s / had)})" if heaviest else ""
    )
    yield broken(
        f"other processes used {format_share(share)} of the machine's CPU time"
        f" (more than {format_share(facts.allowance)}){named}",
        remedy=_OWN_NODE if facts.level(Quantity.SERVER_CPUS) is not None else "",
    )


def _steal(facts: RunFacts) -> Iterator[Ruling]:
    stolen, had = facts.total(Quantity.CPU_STEAL_S), facts.cpu_seconds
    if stolen is None or had is None:
        yield _unmeasured(STEAL)
        return
    share = stolen / had
    if share <= STEAL_SHARE:
        yield KEPT
        return
    yield broken(
        f"the hypervisor gave {format_share(share)} of the machine's CPU time to others"
        f" (more than {format_share(STEAL_SHARE)})"
    )


def _foreign_disk(facts: RunFacts) -> Iterator[Ruling]:
    busy_s, device, own = (
        facts.total(Quantity.DEVICE_BUSY_S),
        _sum(facts, Quantity.DEVICE_READ_BYTES, Quantity.DEVICE_WRITE_BYTES),
        _sum(facts, Quantity.SERVER_READ_BYTES, Quantity.SERVER_WRITTEN_BYTES),
    )
    visible = _with_known_io(facts.evidence)
    if facts.evidence is None or busy_s is None or device is None or own is None or not visible:
        yield _unmeasured(FOREIGN_DISK)
        return
    if own > device:  # nobody asked the device for more than it did; see server_written_bytes
        yield lacking("bytes that the server asked of the device: more are counted than it moved")
        return
    # A device also writes its file system's journal, and what was dirty before the run: what no
    # other process asked for is nobody's neighbour.
    foreign = min(max(device - own, 0.0), sum(io for _, io in visible))
    share = foreign / device * busy_s / facts.evidence.seconds if device > 0 else 0.0
    if share <= facts.allowance:
        yield KEPT
        return
    heaviest, io_bytes = max(visible, key=lambda each: each[1])
    yield broken(
        f"other processes kept the data's disk busy for {format_share(share)} of the run"
        f" (more than {format_share(facts.allowance)}), most of it {heaviest.name}"
        f" ({format_bytes(io_bytes)})"
    )


def _unmeasured(code: str) -> Ruling:
    return lacking(", ".join(RUN_NEEDS[code]))


def _sum(facts: RunFacts, one: Quantity, other: Quantity) -> float | None:
    first, second = facts.total(one), facts.total(other)
    return None if first is None or second is None else first + second


def _with_known_io(evidence: Evidence | None) -> list[tuple[OtherProcess, float]]:
    others = () if evidence is None else evidence.others
    return [(other, other.io_bytes) for other in others if other.io_bytes is not None]


def _shared_cpus(facts: RunFacts) -> Iterator[Ruling]:
    mine, theirs = (facts.limits.get(name) for name in ("generator_cpuset", "cpuset"))
    if mine is None and theirs is None:
        yield NOTHING_TO_JUDGE
    elif mine is None:
        yield broken(f"the load generator may run on the server's CPUs ({theirs}), unasked")
    elif theirs is None:
        yield broken(f"the server may run on the load generator's CPUs ({mine}), unasked")
    else:
        yield KEPT  # where they overlap, the configuration asks for it


def _no_transactions(facts: RunFacts) -> Iterator[Ruling]:
    taken = facts.measurement
    if taken is None:
        yield lacking("a result")
    elif taken.transactions < 1:
        yield broken(f"no {facts.words.one} ended in {taken.seconds:.1f} s; it counts as a stall")
    else:
        yield KEPT


def _failed_transactions(facts: RunFacts) -> Iterator[Ruling]:
    taken = facts.measurement
    if taken is None:
        yield lacking("a result")
    elif taken.failed:
        yield broken(f"{taken.failed} {facts.words.many} failed; they are not counted")
    else:
        yield KEPT


_QUIETEN: Final = "Quieten the machine, or allow more with `measure.max_other_load`."

RUN_RULES: Final[tuple[RunRule, ...]] = (
    RunRule(
        code="generator-failed",
        severity=Severity.ERROR,
        remedy=_LOG,
        source="METHOD 3.1",
        judge=_generator_failed,
    ),
    RunRule(
        code="server-died",
        severity=Severity.ERROR,
        remedy=_LOG,
        source="METHOD 3.1",
        judge=_server_died,
    ),
    RunRule(
        code="clock-jump",
        severity=Severity.ERROR,
        remedy="Let the clock be slewed, not stepped.",
        source="METHOD 3.1",
        judge=_clock_jump,
    ),
    RunRule(
        code="not-in-force",
        severity=Severity.ERROR,
        remedy="Correct the setting, or what keeps the server from taking it.",
        source="METHOD 3.1",
        judge=_not_in_force,
    ),
    RunRule(
        code="no-huge-pages",
        severity=Severity.ERROR,
        remedy="Reserve the pages (vm.nr_hugepages).",
        source="PostgreSQL's documentation, huge_pages and huge_pages_status",
        judge=_no_huge_pages,
    ),
    RunRule(
        code=NEIGHBOUR_CPU,
        severity=Severity.ERROR,
        remedy=_QUIETEN,
        source="METHOD 3.1; threshold: a guess",
        judge=_neighbour_cpu,
    ),
    RunRule(
        code=STEAL,
        severity=Severity.ERROR,
        remedy="Use a host that is not overcommitted.",
        source="METHOD 3.1; threshold: a guess",
        judge=_steal,
    ),
    RunRule(
        code=FOREIGN_DISK,
        severity=Severity.ERROR,
        remedy=_QUIETEN,
        source="METHOD 3.1; threshold: a guess",
        judge=_foreign_disk,
    ),
    SATURATED,
    THROTTLED,
    LOG_UNUSABLE,
    WORKERS_APART,
    SLICE_LENGTH,
    RunRule(
        code="shared-cpus",
        severity=Severity.ERROR,
        remedy="Give both `cgroup: {cpuset: ..., generator_cpuset: ...}`: the same CPUs where"
        " sharing is what you want to measure.",
        source="PostgreSQL's documentation, pgbench, Good Practices",
        judge=_shared_cpus,
    ),
    RunRule(
        code="no-transactions",
        severity=Severity.WARNING,
        remedy="If both arms do it, `run_time` is too short for this workload.",
        source="METHOD 3.6",
        judge=_no_transactions,
    ),
    RunRule(
        code="failed-transactions",
        severity=Severity.WARNING,
        remedy="See pgbench's --max-tries, or lower the isolation of the script; on a standby raise"
        " max_standby_streaming_delay, or set hot_standby_feedback = on.",
        source="the load generator's own count",
        judge=_failed_transactions,
    ),
    RATE_NOT_REACHED,
)


_REDONE: Final = "The block is redone in all arms."
_BORNE: Final = (
    "It counts and is suspect: redone as often as is allowed. Quieten the machine for the next"
    " campaign."
)
_ASKED_FOR: Final = "None: `measure.max_other_load: ignore` asks for it."
_ALIKE: Final = "None: in turns all configurations meet it alike"


def validity_of(findings: Sequence[Finding]) -> Validity:
    """Return what the findings of a run make of it."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return Validity.INVALID
    return Validity.SUSPECT if Severity.WARNING in severities else Validity.VALID


def rule_of(code: str) -> RunRule:
    """Return the rule for runs of that code."""
    return next(rule for rule in RUN_RULES if rule.code == code)


def judge(facts: RunFacts, *, bearing: bool = False) -> tuple[Finding, ...]:
    """Return what the rules find in a run; what they lack is told once for the whole campaign.

    Args:
        facts: Of the run. Of one without a result only why there is none is judged.
        bearing: Count it also beside a neighbour: then it is suspect, not invalid. In turns it
            always counts, and is not even suspect for that.
    """
    if facts.failure or facts.server_died:
        return _found(rule_of("server-died" if facts.server_died else "generator-failed"), facts)
    return tuple(
        _borne(finding, facts, bearing=bearing)
        for rule in RUN_RULES
        for finding in _found(rule, facts)
    )


def _found(rule: RunRule, facts: RunFacts) -> tuple[Finding, ...]:
    rulings = [ruling for ruling in rule.judge(facts) if ruling.state is State.VIOLATED]
    return tuple(_told(rule.finding(ruling)) for ruling in rulings)


def _told(finding: Finding) -> Finding:
    """Return a run's finding with what is done about it, where something is."""
    if finding.severity is not Severity.ERROR:
        return finding
    return replace(finding, remedy=f"{_REDONE} {finding.remedy}")


def _borne(finding: Finding, facts: RunFacts, *, bearing: bool) -> Finding:
    """Return a neighbour's finding as it weighs here, every other as it is."""
    if finding.code not in ENVIRONMENT:
        return finding
    if facts.in_turns or facts.neighbours is None:
        checked = "." if finding.code == FOREIGN_DISK else "; foreign-load-differs checks that."
        remedy = f"{_ALIKE}{checked}" if facts.in_turns else _ASKED_FOR
        return replace(finding, severity=Severity.INFO, remedy=remedy)
    return replace(finding, severity=Severity.WARNING, remedy=_BORNE) if bearing else finding


def generator_failed(message: str, *, server_died: bool, last_words: str = "") -> Finding:
    """Return the finding that a run has no result."""
    (finding,) = judge(RunFacts(failure=message, server_died=server_died, last_words=last_words))
    return finding


def not_in_force(configuration: str, deviations: tuple[str, ...]) -> Finding | None:
    """Return the finding that a configuration is not what is measured; None when it is."""
    facts = RunFacts(configuration=configuration, deviations=deviations)
    return next(iter(_found(rule_of("not-in-force"), facts)), None)
