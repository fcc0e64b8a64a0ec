"""Every rule for single runs on both sides of its threshold, and without its facts."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import poisson

from steelyard.campaign.evidence.run_rules import (
    APART_S,
    CLOCK_JUMP_S,
    OFF_LENGTH,
    RUN_RULES,
    SATURATED_SHARE,
    STEAL_SHARE,
    THROTTLED_SHARE,
    RunFacts,
    generator_failed,
    judge,
    least_done,
    rule_of,
    validity_of,
)
from steelyard.core.campaign import OTHERS_IO, RUN_NEEDS, missing_for
from steelyard.core.experiment import DEFAULT_NEIGHBOURS
from steelyard.core.findings import Finding, Ruling, Severity, State, Validity
from steelyard.core.measurement import (
    SERVERS_MACHINE,
    Absence,
    Evidence,
    Measurement,
    OtherProcess,
    Quantity,
)
from steelyard.core.schedule import Load
from steelyard.core.wording import REDIS_WORDS

SECONDS, CPUS = 10.0, 4
CPU_S = SECONDS * CPUS
MIB = 2.0**20
TAR = OtherProcess(pid=3, name="tar", cpu_s=0.5, io_bytes=300 * MIB)
BZIP2 = OtherProcess(pid=2, name="bzip2", cpu_s=9.0, io_bytes=None)


def measured(transactions: float = 1000.0, failed: int = 0) -> Measurement:
    """Return a result."""
    return Measurement(
        transactions=transactions,
        seconds=SECONDS,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=failed,
        connection_s=None,
        series=(),
    )


def evidence(
    totals: Mapping[str, float],
    levels: Mapping[str, float] | None = None,
    others: tuple[OtherProcess, ...] = (),
) -> Evidence:
    """Return what was seen of a run on a machine of 4 CPUs."""
    return Evidence(
        seconds=SECONDS,
        totals=dict(totals),
        levels={Quantity.CPUS: float(CPUS), **(levels or {})},
        waits=None,
        series=(),
        others=others,
        absent=(),
    )


def beside(share: float) -> RunFacts:
    """Return a run beside others that used a share of the CPU time."""
    seen = evidence({Quantity.OTHERS_CPU_S: share * CPU_S}, others=(TAR, BZIP2))
    return RunFacts(measurement=measured(), clock_jump_s=0.0, evidence=seen)


def stolen(share: float) -> RunFacts:
    """Return a run whose machine was not given a share of its CPU time."""
    return RunFacts(evidence=evidence({Quantity.CPU_STEAL_S: share * CPU_S}))


def on_disk(
    foreign_mib: float, *, busy_s: float = SECONDS, others: tuple[OtherProcess, ...] = (TAR,)
) -> RunFacts:
    """Return a run that wrote 100 MiB while the device did that and more, or less."""
    totals = {
        Quantity.DEVICE_BUSY_S: busy_s,
        Quantity.DEVICE_READ_BYTES: 0.0,
        Quantity.DEVICE_WRITE_BYTES: (100 + foreign_mib) * MIB,
        Quantity.SERVER_READ_BYTES: 0.0,
        Quantity.SERVER_WRITTEN_BYTES: 100 * MIB,
    }
    return RunFacts(evidence=evidence(totals, others=others))


def generating(share: float, *, threads: int = 2, generators: int = 1) -> RunFacts:
    """Return a run whose generator used a share of what its threads can."""
    usable = min(max(threads, generators), CPUS) * SECONDS
    seen = evidence({Quantity.GENERATOR_CPU_S: share * usable})
    return RunFacts(load=Load(clients=8, threads=threads, generators=generators), evidence=seen)


def test_workers_elsewhere_are_named_where_their_cpus_are_the_limit() -> None:
    """Those of this machine would only share its CPUs."""
    elsewhere = {Quantity.WORKERS: 2.0, Quantity.GENERATOR_CPUS: 4.0}
    seen = evidence({Quantity.GENERATOR_CPU_S: 4.0 * SECONDS}, elsewhere)
    facts = RunFacts(load=Load(clients=8, threads=8, generators=2), evidence=seen)
    (finding,) = (one for one in judge(facts) if one.code == "generator-saturated")
    assert "`generator.workers: 3`" in finding.remedy
    (finding,) = (one for one in judge(generating(1.0)) if one.code == "generator-saturated")
    assert "(`generator.workers`)" in finding.remedy


def begun(skew_s: float) -> RunFacts:
    """Return a run whose workers began so far apart, while tasks waited for a CPU."""
    levels = {Quantity.START_SKEW_S: skew_s, Quantity.START_DOUBT_S: 0.0021}
    return RunFacts(evidence=evidence({Quantity.CPU_PRESSURE_S: 3.0}, levels))


def limited(used: float, *, limit: float = 1.0, threads: int = 2) -> RunFacts:
    """Return a run whose generator, away from the server, used so many CPUs of what it may."""
    levels = {Quantity.GENERATOR_CPUS: limit}
    seen = evidence({Quantity.GENERATOR_CPU_S: used * SECONDS}, levels)
    return RunFacts(load=Load(clients=8, threads=threads), evidence=seen)


def throttled(share: float) -> RunFacts:
    """Return a run whose generator's limit held it back in a share of the periods."""
    totals = {
        Quantity.GENERATOR_QUOTA_PERIODS: 1000.0,
        Quantity.GENERATOR_THROTTLED_PERIODS: 1000.0 * share,
        Quantity.GENERATOR_THROTTLED_S: 2.0,
    }
    return RunFacts(evidence=evidence(totals))


def on_huge_pages(asked: str, *, status: str = "", used: float | None = None) -> RunFacts:
    """Return a run of a configuration that asks for huge pages."""
    levels = {} if used is None else {Quantity.SERVER_HUGE_BYTES: used}
    return RunFacts(
        asked={"huge_pages": asked},
        in_force={"huge_pages_status": status} if status else {},
        evidence=evidence({}, levels),
    )


def at_rate(
    due: float, *, done: float, skipped: int | None = None, asked_s: float | None = None
) -> RunFacts:
    """Return an open loop in which so many were due in ``SECONDS``, and so many were done."""
    load = Load(clients=1, threads=1, rate_per_s=due / SECONDS, latency_limit_s=0.1)
    taken = replace(measured(done), seconds=SECONDS)
    return RunFacts(load=load, measurement=taken, skipped=skipped, asked_s=asked_s)


def lasting(asked_s: float, factor: float) -> RunFacts:
    """Return a run of a generator that takes no time, which lasted longer by a factor."""
    taken = replace(measured(), seconds=factor * asked_s)
    return RunFacts(measurement=taken, asked_s=asked_s, takes_time=False)


KEPT = [
    ("generator-failed", RunFacts()),
    ("server-died", RunFacts()),
    ("clock-jump", RunFacts(clock_jump_s=0.0)),
    ("clock-jump", RunFacts(clock_jump_s=CLOCK_JUMP_S)),
    ("clock-jump", RunFacts(clock_jump_s=-CLOCK_JUMP_S)),
    ("not-in-force", RunFacts()),
    ("no-huge-pages", on_huge_pages("on", status="on")),
    ("no-huge-pages", on_huge_pages("on", used=MIB)),
    ("neighbour-cpu", beside(DEFAULT_NEIGHBOURS)),
    ("steal", stolen(STEAL_SHARE)),
    ("foreign-disk", on_disk(17)),  # 17 of 117 are 14.5 %
    ("foreign-disk", on_disk(300, busy_s=0.15 * SECONDS)),
    ("generator-saturated", generating(SATURATED_SHARE - 0.001)),
    ("generator-saturated", generating(0.94, threads=16)),
    ("generator-saturated", limited(0.94)),
    ("generator-saturated", limited(1.8, limit=4.0)),  # of two threads
    ("generator-throttled", throttled(THROTTLED_SHARE)),
    ("shared-cpus", RunFacts(limits={"cpuset": "0", "generator_cpuset": "0"})),
    ("log-unusable", RunFacts(log_trouble="")),
    ("workers-apart", begun(APART_S)),
    ("slice-length", lasting(5.0, OFF_LENGTH)),
    ("slice-length", lasting(5.0, 1.0 / OFF_LENGTH)),
    ("no-transactions", RunFacts(measurement=measured(1))),
    ("failed-transactions", RunFacts(measurement=measured())),
    ("rate-not-reached", at_rate(10_000, done=9_800)),
    ("rate-not-reached", at_rate(100, done=60)),  # four deviations of 10
    ("rate-not-reached", at_rate(10_000, done=9_790, skipped=0, asked_s=0.9 * SECONDS)),
]
BROKEN = [
    ("generator-failed", RunFacts(failure="client 3 aborted"), "client 3 aborted"),
    ("server-died", RunFacts(server_died=True), "pgbench still ended normally"),
    ("server-died", RunFacts(server_died=True, failure="exit 2"), "(exit 2)"),
    ("server-died", RunFacts(server_died=True, last_words="disk full"), "last words: disk full"),
    ("clock-jump", RunFacts(clock_jump_s=CLOCK_JUMP_S + 0.1), "+0.6 s"),
    ("clock-jump", RunFacts(clock_jump_s=-CLOCK_JUMP_S - 0.1), "-0.6 s"),
    (
        "not-in-force",
        RunFacts(configuration="t", deviations=("a is 1",)),
        "`t` is not in force: a is",
    ),
    ("no-huge-pages", on_huge_pages("on", status="off"), "on none"),
    ("no-huge-pages", on_huge_pages("true", used=0.0), "on none"),
    ("neighbour-cpu", beside(0.30), "30.0 % of the machine's CPU time"),
    ("neighbour-cpu", beside(0.151), "most of it bzip2 (22.5 %)"),
    ("steal", stolen(0.051), "5.1 % of the machine's CPU time"),
    (
        "foreign-disk",
        on_disk(18),
        "15.3 % of the run (more than 15.0 %), most of it tar (300.0 MiB",
    ),
    ("foreign-disk", on_disk(300, busy_s=0.21 * SECONDS), "15.8 % of the run"),
    ("generator-saturated", generating(SATURATED_SHARE), "95.0 % of what its 2 threads"),
    ("generator-saturated", generating(0.96, threads=16), "of the 4 CPUs that"),
    ("generator-saturated", limited(0.475, limit=0.5), "95.0 % of the 0.5 CPUs that it may use"),
    ("generator-saturated", limited(1.9, limit=4.0), "95.0 % of what its 2 threads can"),
    ("generator-throttled", throttled(0.06), "6.0 % of the periods (more than 5.0 %), 2.0 s"),
    ("shared-cpus", RunFacts(limits={"cpuset": "0-1"}), "the server's CPUs (0-1)"),
    ("shared-cpus", RunFacts(limits={"generator_cpuset": "1"}), "the load generator's CPUs (1)"),
    ("generator-saturated", generating(0.97, threads=1, generators=2), "2 threads in 2 processes"),
    ("log-unusable", RunFacts(log_trouble="3 lines are damaged"), "3 lines are damaged"),
    (
        "workers-apart",
        begun(0.061),
        "of which 2.1 ms are what their clocks leave in doubt; tasks of this machine waited 3.0 s",
    ),
    (
        "slice-length",
        lasting(5.0, 2.1),
        "5 s were meant (longer by a factor of 2.1): the server was slower",
    ),
    (
        "slice-length",
        lasting(5.0, 0.48),
        "5 s were meant (shorter by a factor of 2.08): the server was faster",
    ),
    ("no-transactions", RunFacts(measurement=measured(0)), "counts as a stall"),
    (
        "generator-failed",
        RunFacts(failure="a session was ended", in_force={"in_hot_standby": "on"}),
        "a session was ended (This server is a standby: if a conflict with recovery",
    ),
    (
        "generator-failed",
        RunFacts(failure="perhaps the backend died", limits={"memory": "64MB"}),
        "died (cgroup.memory is 64MB: the kernel kills a process of the server that needs more",
    ),
    ("failed-transactions", RunFacts(measurement=measured(failed=1)), "1 transactions failed"),
    ("rate-not-reached", at_rate(100_000, done=97_999), "97999 transactions were done of about"),
    ("rate-not-reached", at_rate(100, done=59), "(59.0 %): the server did not keep up; latency"),
    (
        "rate-not-reached",
        at_rate(10_000, done=9_000, skipped=1_000),
        "1000 of about 10000 transactions were skipped, because they were 100 ms late already",
    ),
]
# What a rule lacks where nobody watched, or nothing came of the run.
LACKING = {
    "clock-jump": "both clocks",
    "neighbour-cpu": "others_cpu_s",
    "steal": "cpu_steal_s",
    "foreign-disk": "device_busy_s",
    "generator-saturated": "generator_cpu_s",
    "no-transactions": "a result",
    "failed-transactions": "a result",
}
NEVER_LACKING = {"generator-failed", "server-died", "not-in-force", "no-huge-pages", "shared-cpus"}
NEVER_LACKING |= {"log-unusable"}  # a run without a log has none to judge
NEVER_LACKING |= {"generator-throttled"}  # without a limit of its own there is nothing to judge
NEVER_LACKING |= {"workers-apart"}  # this machine has the load
NEVER_LACKING |= {"slice-length"}  # pgbench is told how long to run
NEVER_LACKING |= {"rate-not-reached"}  # in a closed loop there is nothing to judge


def ruling(code: str, facts: RunFacts) -> Ruling:
    """Return what a rule says."""
    (found,) = rule_of(code).judge(facts)
    return found


@pytest.mark.parametrize(("code", "facts"), KEPT)
def test_a_rule_is_kept_up_to_its_threshold(code: str, facts: RunFacts) -> None:
    """On this side nothing is said of the run."""
    assert ruling(code, facts).state is State.HOLDS


@pytest.mark.parametrize(("code", "facts", "told"), BROKEN)
def test_a_rule_is_broken_beyond_it(code: str, facts: RunFacts, told: str) -> None:
    """On the other side the measured value is in the sentence."""
    found = ruling(code, facts)
    assert found.state is State.VIOLATED
    assert told in found.message


@pytest.mark.parametrize("rule", RUN_RULES, ids=lambda rule: rule.code)
def test_without_its_facts_a_rule_says_what_it_lacks(rule: object) -> None:
    """A missing fact never passes; only what needs no measuring is judged without it."""
    code = rule.code
    assert (code in LACKING) is not (code in NEVER_LACKING)
    if code in LACKING:
        found = ruling(code, RunFacts())
        assert found.state is State.NOT_APPLICABLE
        assert LACKING[code] in found.missing


@pytest.mark.parametrize("generators", [1, 2])
def test_a_saturated_generator_calls_for_one_more(generators: int) -> None:
    """The way out names the key and one process more than there were."""
    facts = generating(1.0, generators=generators)
    (found,) = [each for each in judge(facts) if each.code == "generator-saturated"]
    assert f"`load.generators: {generators + 1}`" in found.remedy


@pytest.mark.parametrize("facts", [limited(0.5, limit=0.5), throttled(0.5)])
def test_a_generator_at_its_limit_calls_for_a_higher_one(facts: RunFacts) -> None:
    """The way out names the key of the target; at its limit it is invalid, below it suspect."""
    (found,) = [each for each in judge(facts) if each.code.startswith("generator-")]
    assert "`target.generators.resources`" in found.remedy
    assert found.severity is (
        Severity.ERROR if found.code == "generator-saturated" else Severity.WARNING
    )


def test_neighbours_of_a_pod_are_kept_off_its_node() -> None:
    """The way out is one that a cluster has."""
    seen = beside(0.2).evidence
    assert seen is not None
    inside = replace(seen, levels={**seen.levels, Quantity.SERVER_CPUS: 2.0})
    (found,) = judge(RunFacts(measurement=measured(), clock_jump_s=0.0, evidence=inside))
    assert "node of its own" in found.remedy


def test_a_run_without_a_usable_log_stays_valid() -> None:
    """Throughput does not rest on the log: it is told, and nothing is thrown away."""
    found = judge(RunFacts(measurement=measured(), log_trouble="a part is missing"))
    assert [each.code for each in found] == ["log-unusable"]
    assert validity_of(found) is Validity.VALID


def test_the_length_of_a_slice_needs_a_result() -> None:
    """Nothing is claimed of a run without one, nor of one of no length; pgbench is not judged."""
    for facts, fact in (
        (replace(lasting(5.0, 3.0), measurement=None), "a result"),
        (replace(lasting(5.0, 3.0), asked_s=None), "the length that was asked for"),
        (replace(lasting(5.0, 3.0), takes_time=True), ""),
    ):
        found = ruling("slice-length", facts)
        assert (found.state, found.missing) == (State.NOT_APPLICABLE, fact)


def test_rules_speak_of_requests_where_the_server_is_redis() -> None:
    """A run of Redis has no transactions, and pgbench took no part in it."""
    dead = ruling("server-died", RunFacts(server_died=True, words=REDIS_WORDS))
    assert "redis-benchmark still ended normally" in dead.message
    none = ruling("no-transactions", RunFacts(measurement=measured(0), words=REDIS_WORDS))
    assert "no request ended in" in none.message


def test_every_rule_is_tried_on_both_sides() -> None:
    """No rule is without its two tests."""
    codes = {rule.code for rule in RUN_RULES}
    assert {code for code, _ in KEPT} == {code for code, _, _ in BROKEN} == codes


@pytest.mark.parametrize("asked", ["try", "off", ""])
def test_huge_pages_that_nobody_insists_on_are_no_fault(asked: str) -> None:
    """Only ``on`` is a promise; of ``try`` the campaign is told."""
    assert ruling("no-huge-pages", on_huge_pages(asked, used=0.0)).state is not State.VIOLATED


def test_huge_pages_of_an_unseen_server_are_not_judged() -> None:
    """Neither an old server's settings nor its memory tell: then nothing is claimed."""
    found = ruling("no-huge-pages", on_huge_pages("on"))
    assert (found.state, "huge_pages_status" in found.missing) == (State.NOT_APPLICABLE, True)


@pytest.mark.parametrize("others", [(), (BZIP2,)])
def test_a_disk_is_foreign_only_by_processes_that_are_seen(
    others: tuple[OtherProcess, ...],
) -> None:
    """A device writes its journal and what was dirty before: without a culprit nothing is said."""
    assert ruling("foreign-disk", on_disk(300, others=others)).missing


def test_what_a_server_cannot_have_asked_for_hides_no_neighbour() -> None:
    """A server counted with more bytes than its device moved: the rule says so and stands aside."""
    assert ruling("foreign-disk", on_disk(0.0)).state is State.HOLDS
    found = ruling("foreign-disk", on_disk(-0.1))
    assert found.state is State.NOT_APPLICABLE
    assert "more are counted than it moved" in found.missing


def test_a_disk_is_no_more_foreign_than_others_used_it() -> None:
    """Where others did 5 MiB of the 300 that the server did not ask for, 5 MiB are theirs."""
    small = OtherProcess(pid=4, name="cron", cpu_s=0.0, io_bytes=5 * MIB)
    assert ruling("foreign-disk", on_disk(300, others=(small,))).state is State.HOLDS


def findings_of(facts: RunFacts, **how: bool) -> tuple[Validity, tuple[Finding, ...]]:
    """Return what becomes of a run, and why."""
    found = judge(facts, **how)
    return validity_of(found), found


def test_a_neighbour_makes_a_run_invalid() -> None:
    """The remedy says that the block is redone and which key allows more."""
    validity, (finding,) = findings_of(beside(0.2))
    assert (validity, finding.code) == (Validity.INVALID, "neighbour-cpu")
    assert finding.remedy.startswith("The block is redone in all arms.")
    assert "measure.max_other_load" in finding.remedy


def test_a_neighbour_that_is_borne_makes_it_suspect() -> None:
    """The same fact, and the run stays."""
    validity, (finding,) = findings_of(beside(0.2), bearing=True)
    assert (validity, finding.severity) == (Validity.SUSPECT, Severity.WARNING)


@pytest.mark.parametrize("bearing", [False, True])
def test_a_neighbour_of_turns_is_noted(*, bearing: bool) -> None:
    """All configurations meet it alike: the run is valid, and nothing is redone."""
    facts = replace(beside(0.2), in_turns=True)
    validity, (finding,) = findings_of(facts, bearing=bearing)
    assert (validity, finding.severity) == (Validity.VALID, Severity.INFO)
    assert "foreign-load-differs" in finding.remedy


def test_the_kernels_threads_are_no_neighbours() -> None:
    """What works in brackets may work for the server: it is taken off the others' share."""
    seen = beside(0.2).evidence
    assert seen is not None
    kernel = OtherProcess(pid=9, name="[kworker/0:1]", cpu_s=0.1 * CPU_S, io_bytes=None)
    facts = RunFacts(
        measurement=measured(), clock_jump_s=0.0, evidence=replace(seen, others=(kernel,))
    )
    assert findings_of(facts)[0] is Validity.VALID


@pytest.mark.parametrize(("visible", "state"), [(0.02, State.HOLDS), (0.2, State.VIOLATED)])
def test_time_that_no_process_used_is_no_neighbours(visible: float, state: State) -> None:
    """Interrupts and going to sleep cost what nobody has; where all can be seen, theirs counts."""
    shares = {Quantity.OTHERS_CPU_S: 0.3, Quantity.VISIBLE_OTHERS_CPU_S: visible}
    seen = evidence({quantity: share * CPU_S for quantity, share in shares.items()}, others=(TAR,))
    facts = RunFacts(measurement=measured(), clock_jump_s=0.0, evidence=seen)
    assert ruling("neighbour-cpu", facts).state is state


def test_a_server_that_may_be_on_this_machine_is_no_neighbour() -> None:
    """An endpoint's processes cannot be told from others', so the rule does not apply."""
    seen = beside(0.9).evidence
    assert seen is not None
    absent = (Absence(subject=SERVERS_MACHINE, reason="not visible from here"),)
    facts = RunFacts(
        measurement=measured(), clock_jump_s=0.0, evidence=replace(seen, absent=absent)
    )
    assert judge(facts) == ()


def test_what_is_no_neighbour_is_never_borne() -> None:
    """A saturated generator stays invalid whatever the try."""
    assert findings_of(generating(0.99), bearing=True)[0] is Validity.INVALID


@pytest.mark.parametrize(("allowed", "validity"), [(0.25, "invalid"), (0.35, "valid")])
def test_more_may_be_allowed(allowed: float, validity: str) -> None:
    """``measure.max_other_load: 35%`` lets others use 30 %."""
    seen = beside(0.3).evidence
    facts = RunFacts(measurement=measured(), clock_jump_s=0.0, evidence=seen, neighbours=allowed)
    assert findings_of(facts)[0] == validity


def test_ignored_neighbours_are_noted() -> None:
    """``measure.max_other_load: ignore`` leaves the run valid, and the fact in the record."""
    seen = beside(0.9).evidence
    facts = RunFacts(measurement=measured(), clock_jump_s=0.0, evidence=seen, neighbours=None)
    validity, (finding,) = findings_of(facts)
    assert (validity, finding.severity, finding.code) == (
        Validity.VALID,
        Severity.INFO,
        "neighbour-cpu",
    )


@pytest.mark.parametrize("code", RUN_NEEDS)
def test_what_a_rule_needs_is_what_the_campaign_says_that_it_needs(code: str) -> None:
    """Without any of its facts it does not judge, and the campaign says so; with all it does."""
    whole = evidence(dict.fromkeys(RUN_NEEDS[code], 1.0), others=(TAR,))
    for dropped in (None, *RUN_NEEDS[code]):
        totals = {name: value for name, value in whole.totals.items() if name != dropped}
        levels = {name: value for name, value in whole.levels.items() if name != dropped}
        each = replace(whole, totals=totals, levels=levels)
        is_judged = ruling(code, RunFacts(evidence=each)).state is not State.NOT_APPLICABLE
        assert is_judged is (missing_for(code, each) == ()) is (dropped is None)


def test_a_foreign_disk_needs_processes_whose_bytes_are_seen() -> None:
    """The campaign says so, too."""
    seen = on_disk(300, others=(BZIP2,)).evidence
    assert seen is not None
    assert missing_for("foreign-disk", seen) == (OTHERS_IO,)


def test_a_server_that_keeps_up_is_hardly_ever_accused() -> None:
    """Of a Poisson schedule at most one run in 30,000 falls below the bound, at any rate."""
    due = np.concatenate([np.arange(1.0, 2000.0), np.geomspace(2000.0, 1e7, 300)])
    least = np.array([least_done(each) for each in due])
    chance = poisson.cdf(np.ceil(least) - 1.0, due)
    assert chance.max() < 1.0 / 30_000
    assert chance.max() > 1.0 / 100_000  # the bound is not idle


def test_a_rate_is_judged_where_it_is_known() -> None:
    """A share of the capacity needs the rate that it became; a closed loop has none."""
    share = Load(clients=1, threads=1, share=0.7)
    unknown = ruling("rate-not-reached", RunFacts(load=share, measurement=measured()))
    assert (unknown.state, "share became" in unknown.missing) == (State.NOT_APPLICABLE, True)
    became = replace(share, share=None, rate_per_s=1e6)
    known = RunFacts(load=became, measurement=measured(10))
    assert ruling("rate-not-reached", known).state is State.VIOLATED
    closed = ruling("rate-not-reached", RunFacts(measurement=measured(1)))
    assert (closed.state, closed.missing) == (State.NOT_APPLICABLE, "")


def test_failed_transactions_were_tried() -> None:
    """What failed did not wait in a queue: the server kept up with the rate."""
    asked = at_rate(10_000, done=9_400)
    assert asked.measurement is not None
    failing = replace(asked, measurement=replace(asked.measurement, failed=600))
    assert ruling("rate-not-reached", asked).state is State.VIOLATED
    assert ruling("rate-not-reached", failing).state is State.HOLDS
    assert ruling("failed-transactions", failing).state is State.VIOLATED


def test_what_the_configuration_may_have_caused_stays_in() -> None:
    """A run whose server did not keep up is suspect, not invalid."""
    findings = judge(at_rate(1000, done=10), bearing=False)
    assert "rate-not-reached" in {finding.code for finding in findings}
    assert validity_of(findings) is Validity.SUSPECT


@pytest.mark.parametrize(
    ("severities", "validity"),
    [
        ([], Validity.VALID),
        ([Severity.INFO], Validity.VALID),
        ([Severity.WARNING, Severity.INFO], Validity.SUSPECT),
        ([Severity.WARNING, Severity.ERROR], Validity.INVALID),
    ],
)
def test_the_gravest_finding_decides(severities: list[Severity], validity: Validity) -> None:
    """Information leaves a run valid, a warning makes it suspect, an error invalid."""
    findings = [Finding(code="x", severity=severity, message="m") for severity in severities]
    assert validity_of(findings) is validity


def test_a_dead_server_is_told_from_a_failed_generator() -> None:
    """Both make the run invalid; the code and the sentence say which."""
    failed = generator_failed("pgbench exited with 2", server_died=False)
    died = generator_failed("pgbench exited with 2", server_died=True)
    assert (failed.code, died.code) == ("generator-failed", "server-died")
    assert "server died" in died.message
    assert "pgbench exited with 2" in died.message
    assert validity_of([failed]) is validity_of([died]) is Validity.INVALID
