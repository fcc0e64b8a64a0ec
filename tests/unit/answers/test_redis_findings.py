"""Rules for Redis, on both sides of their thresholds; and why one server is faster than another."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from redis_records import CLIENTS, NO_WAITS, Does, redis_experiment, redis_record
from watched import both, found, missing, rulings, seen, watched, with_settings

from steelyard.answers.budget import Part
from steelyard.answers.campaign import analyse
from steelyard.answers.costs import Cost, costs_of
from steelyard.answers.observations import observe
from steelyard.answers.reasons.compute import Reasons, campaign_reasons
from steelyard.answers.result.cards import cards
from steelyard.answers.validity.facts import CampaignFacts
from steelyard.answers.validity.work_rules import CAMPAIGN_RULES
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Fact
from steelyard.core.measurement import Environment, Evidence, Quantity, Run
from steelyard.core.redis import promised_loss
from steelyard.core.target import (
    EngineName,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    Server,
)
from steelyard.core.wording import GIB, KIB, MIB

OFF = {"appendonly": "no", "appendfsync": "everysec", "save": ""}
EVERYSEC = OFF | {"appendonly": "yes"}
ALWAYS = EVERYSEC | {"appendfsync": "always"}
KERNEL = EVERYSEC | {"appendfsync": "no"}
SKIPPING = EVERYSEC | {"no-appendfsync-on-rewrite": "yes"}
SNAPSHOTS = OFF | {"save": "3600 1"}
SAVED_OFTEN = OFF | {"save": "1 1"}


def redis(baseline: Evidence | None, other: Evidence | None) -> CampaignRecord:
    """Return a record of two Redis servers whose runs were seen so."""
    return both(baseline, other, experiment=redis_experiment())


def on_machine(record: CampaignRecord, **facts: str) -> CampaignRecord:
    """Return it with facts of the campaign's machine."""
    environment = record.environment or Environment(facts=())
    told = tuple(Fact(name=n.replace("_", " "), value=v) for n, v in facts.items())
    return replace(record, environment=replace(environment, facts=told))


def _elsewhere(record: CampaignRecord, target: Server) -> CampaignRecord:
    """Return it as one of servers that run on this target."""
    configurations = tuple(replace(t, target=target) for t in record.experiment.configurations)
    return replace(record, experiment=replace(record.experiment, configurations=configurations))


@pytest.mark.parametrize(
    ("code", "quantities"),
    [
        ("snapshots-differ", (Quantity.RDB_SAVES, Quantity.RDB_SAVING_S)),
        ("rewrites-differ", (Quantity.AOF_REWRITES, Quantity.AOF_REWRITING_S)),
    ],
)
@pytest.mark.parametrize(("runs", "told"), [(4, False), (5, True)])
@pytest.mark.parametrize("place", [0, 1])
def test_work_in_one_arm_only(
    code: str, quantities: tuple[Quantity, ...], runs: int, place: int, *, told: bool
) -> None:
    """Begun in the run, or still at work from before: four of twelve may be chance, five not."""
    left = [runs]

    def by_run(run: Run) -> Evidence:
        happened = run.configuration == "t1" and left[0] > 0
        left[0] -= happened
        return seen({quantities[place]: float(happened), quantities[1 - place]: 0.0})

    finding = found(watched(by_run, experiment=redis_experiment()), code)
    assert (finding is not None) is told
    if finding is not None:
        assert finding.subject == "t1"
        assert f"into {runs} of 12 runs, under t0 into 0 of 12" in finding.message
        assert "runs of one start share an event: they count as independent" in finding.message
    assert missing(redis(seen(), seen({quantities[0]: 1.0})), code)


@pytest.mark.parametrize(("keys", "told"), [(0.0, False), (1.0, True)])
def test_evicted_keys_are_told_with_the_limit(keys: float, *, told: bool) -> None:
    """One is enough: the server had reached its limit. The other side has none."""
    record = redis(seen({Quantity.EVICTED_KEYS: 0.0}), seen({Quantity.EVICTED_KEYS: keys}))
    record = with_settings(record, t0=OFF, t1=OFF | {"maxmemory": "104857600"})
    finding = found(record, "keys-evicted")
    assert (finding is not None) is told
    if finding is not None:
        assert finding.subject == "t1"
        assert "12 keys were evicted at maxmemory 104857600" in finding.message
    assert missing(redis(seen(), seen()), "keys-evicted")


@pytest.mark.parametrize(("missed", "told"), [(10.0, False), (10.2, True)])
def test_reads_of_keys_that_are_not_there(missed: float, *, told: bool) -> None:
    """One in a hundred is let through; a workload that reads nothing is not judged."""
    read = {Quantity.KEYSPACE_MISSES: missed, Quantity.KEYSPACE_HITS: 1000.0 - missed}
    read[Quantity.COMMANDS] = 1000.0
    finding = found(redis(seen(read), seen(read)), "keys-missing")
    assert (finding is not None) is told
    nothing = seen(
        {Quantity.KEYSPACE_MISSES: 0.0, Quantity.KEYSPACE_HITS: 0.0, Quantity.COMMANDS: 9.0}
    )
    assert not rulings(redis(nothing, nothing), "keys-missing")


def _moved(payload: float, executing: float) -> Evidence:
    counted = {
        Quantity.COMMANDS: 1000.0,
        Quantity.NETWORK_IN_BYTES: 1000.0 * payload,
        Quantity.NETWORK_OUT_BYTES: 0.0,
        Quantity.MAIN_THREAD_CPU_S: 1.0,
        Quantity.COMMAND_S: executing,
    }
    return seen(counted)


@pytest.mark.parametrize(
    ("payload", "executing", "told"),
    [
        (180_000.0, 0.05, True),
        (16.0 * KIB, 0.19, True),
        (16.0 * KIB - 1, 0.05, False),
        (180_000.0, 0.21, False),
    ],
)
def test_moving_bytes_is_not_executing(payload: float, executing: float, *, told: bool) -> None:
    """Large values and little execution, both: a long command with large values is work."""
    record = redis(_moved(payload, executing), _moved(100.0, 0.1))
    finding = found(record, "network-bound")
    assert (finding is not None) is told
    if finding is not None:
        assert finding.subject == "t0"
        assert "most of it moves bytes" in finding.message
    assert missing(redis(seen(), seen()), "network-bound")


@pytest.mark.parametrize(("share", "told"), [(0.8, False), (0.81, True)])
def test_a_full_link_is_told_whatever_the_values_are(share: float, *, told: bool) -> None:
    """The link of the machine that runs the generator, where it says how fast it is."""
    full = replace(_moved(100.0, 0.5), levels={Quantity.LINK_BUSIEST_FRACTION: share})
    finding = found(redis(full, full), "network-bound")
    assert (finding is not None) is told
    assert finding is None or "a network link was used to 81" in finding.message


def test_links_beside_a_cluster_are_not_those_of_its_pods() -> None:
    """Steelyard's machine carries neither the requests nor the answers of a generator in a pod."""
    full = replace(_moved(100.0, 0.5), levels={Quantity.LINK_BUSIEST_FRACTION: 1.0})
    assert found(redis(full, full), "network-bound") is not None
    assert found(_elsewhere(redis(full, full), RedisKubernetesTarget()), "network-bound") is None


@pytest.mark.parametrize(("resident", "told"), [(0.9, False), (0.89, True)])
def test_memory_that_is_swapped_out(resident: float, *, told: bool) -> None:
    """What was allocated and is not resident may be elsewhere, or was never touched."""
    levels = {Quantity.USED_MEMORY_BYTES: 1e9, Quantity.RESIDENT_BYTES: resident * 1e9}
    record = redis(seen(levels=levels), seen(levels=levels))
    finding = found(record, "data-swapped-out")
    assert (finding is not None) is told
    assert finding is None or finding.message.endswith("the rest may be swapped out")
    assert missing(redis(seen(), seen()), "data-swapped-out")


@pytest.mark.parametrize(
    ("machine", "allowed", "settings", "told"),
    [
        ("always", 1.0, SNAPSHOTS, True),
        ("always", 1.0, EVERYSEC, True),
        ("always", 1.0, OFF, False),
        ("always", 0.0, EVERYSEC, False),
        ("madvise", 1.0, EVERYSEC, False),
    ],
)
def test_huge_pages_that_a_fork_copies(
    machine: str, allowed: float, settings: Mapping[str, str], *, told: bool
) -> None:
    """All three have to meet: the kernel's mode, a process that takes part, and saving."""
    watching = seen(levels={Quantity.SERVER_TRANSPARENT_HUGE: allowed})
    record = with_settings(redis(watching, watching), t0=settings, t1=settings)
    record = on_machine(record, transparent_huge_pages=machine)
    assert (found(record, "fork-on-huge-pages") is not None) is told


@pytest.mark.parametrize(
    ("threads", "others", "told"), [("4", 1.4, True), ("2", 1.4, False), ("4", 0.2, False)]
)
def test_threads_that_spin_are_the_reason(threads: str, others: float, *, told: bool) -> None:
    """More of them than CPUs, and more of their CPU time than the main thread's; 95 % slower."""
    slow = Does(queued_s=0.002, per_second={Quantity.BACKGROUND_CPU_S: others})
    quick = Does(per_second={Quantity.BACKGROUND_CPU_S: 0.0})
    settings = {"t0": OFF | {"io-threads": "1"}, "t1": OFF | {"io-threads": threads}}
    record = with_settings(redis_record(quick, slow), **settings)
    finding = found(record, "io-threads-spin")
    assert (finding is not None) is told
    (card,) = cards(analyse(record))
    assert (card.why.startswith("4 io-threads on 2 CPUs spin while they wait: ")) is told
    assert missing(with_settings(redis(seen(), seen()), **settings), "io-threads-spin")


def test_huge_pages_of_an_unknown_machine_are_not_judged() -> None:
    """An endpoint shows neither its kernel nor its process."""
    record = with_settings(redis(seen(), seen()), t0=EVERYSEC, t1=EVERYSEC)
    assert missing(on_machine(record, transparent_huge_pages="always"), "fork-on-huge-pages")
    allowed = seen(levels={Quantity.SERVER_TRANSPARENT_HUGE: 1.0})
    record = with_settings(redis(allowed, allowed), t0=EVERYSEC, t1=EVERYSEC)
    assert missing(on_machine(record, transparent_huge_pages="not visible"), "fork-on-huge-pages")


@pytest.mark.parametrize(
    ("mode", "free", "settings", "told"),
    [
        ("0", 0.9 * GIB, EVERYSEC, True),
        ("2", 0.9 * GIB, SNAPSHOTS, True),
        ("0", 1.0 * GIB, EVERYSEC, False),
        ("1", 0.1 * GIB, EVERYSEC, False),
        ("0", 0.1 * GIB, OFF, False),
    ],
)
def test_a_fork_that_may_be_refused(
    mode: str, free: float, settings: Mapping[str, str], *, told: bool
) -> None:
    """Where the kernel does not promise memory, and less is left than the server holds."""
    levels = {Quantity.USED_MEMORY_BYTES: float(GIB), Quantity.MEMORY_AVAILABLE_BYTES: free}
    watching = seen(levels=levels)
    record = with_settings(redis(watching, watching), t0=settings, t1=settings)
    record = on_machine(record, memory_overcommit=mode)
    assert (found(record, "fork-may-fail") is not None) is told
    assert missing(with_settings(record, t0={}, t1={}), "fork-may-fail")


@pytest.mark.parametrize("free", [0.1 * GIB, 10.0 * GIB])
@pytest.mark.parametrize(
    "target", [RedisEndpointTarget(uri="redis://db.example"), RedisKubernetesTarget()]
)
def test_a_server_elsewhere_is_not_judged_by_this_machine(target: Server, free: float) -> None:
    """Neither told for want of memory here, nor acquitted by it; a process seen here is judged."""
    levels = {Quantity.USED_MEMORY_BYTES: float(GIB), Quantity.MEMORY_AVAILABLE_BYTES: free}

    def judged(levels: Mapping[Quantity, float]) -> CampaignRecord:
        record = redis(seen(levels=levels), seen(levels=levels))
        record = with_settings(record, t0=EVERYSEC, t1=EVERYSEC)
        return _elsewhere(on_machine(record, memory_overcommit="0"), target)

    assert found(judged(levels), "fork-may-fail") is None
    assert missing(judged(levels), "fork-may-fail")
    assert not missing(judged(levels | {Quantity.SERVER_TRANSPARENT_HUGE: 0.0}), "fork-may-fail")


@pytest.mark.parametrize(
    ("one", "other", "weak"),
    [
        (OFF, SNAPSHOTS, "t0"),
        (SNAPSHOTS, KERNEL, "t0"),
        (EVERYSEC, KERNEL, "t1"),
        (EVERYSEC, SKIPPING, "t1"),
        (ALWAYS, EVERYSEC, "t1"),
        (SKIPPING, KERNEL, "t0"),
        (SAVED_OFTEN, KERNEL, "t1"),
        (OFF | {"save": "60 10000"}, SNAPSHOTS, "t0"),
        (SKIPPING, ALWAYS | {"no-appendfsync-on-rewrite": "yes"}, "t0"),
        (EVERYSEC, EVERYSEC, None),
        (KERNEL, KERNEL | {"no-appendfsync-on-rewrite": "yes"}, None),
    ],
)
def test_the_weaker_persistence_is_named(
    one: Mapping[str, str], other: Mapping[str, str], weak: str | None
) -> None:
    """By what a power cut may take, then a kill; what is no weaker in either is not traded."""
    record = with_settings(redis(seen(), seen()), t0=one, t1=other)
    finding = found(record, "persistence-traded")
    assert (None if finding is None else finding.subject) == weak


def test_what_may_be_lost_is_said_of_both_sides_and_both_deaths() -> None:
    """The words are those of the table of what may be lost: they cannot contradict it."""
    record = with_settings(redis(seen(), seen()), t0=SAVED_OFTEN, t1=KERNEL)
    finding = found(record, "persistence-traded")
    assert finding is not None
    saved, kernel = promised_loss(SAVED_OFTEN), promised_loss(KERNEL)
    assert finding.message == (
        f"when the power fails t1 may lose {kernel.power.words}, t0 {saved.power.words};"
        f" when the process is killed t0 may lose {saved.kill.words}, t1 nothing"
    )
    assert missing(redis(seen(), seen()), "persistence-traded")


def test_what_one_side_may_lose_is_told_once_for_all_comparisons() -> None:
    """Seven comparisons with one baseline are one sentence, and each of the others is in it."""
    record = with_settings(redis(seen(), seen()), t0=OFF, t1=KERNEL)
    base = record.experiment.configurations
    third = replace(base[1], name="t2")
    experiment = replace(record.experiment, configurations=(*base, third))
    assert record.environment is not None
    servers = record.environment.servers
    again = replace(servers[1], configuration="t2")
    environment = replace(record.environment, servers=(*servers, again))
    facts = CampaignFacts(
        record=replace(record, experiment=experiment, environment=environment),
        seen=replace(
            observe(record), configurations=("t0", "t1", "t2"), log_tps=np.zeros((0, 3, 1))
        ),
    )
    rule = next(each for each in CAMPAIGN_RULES if each.code == "persistence-traded")
    (told,) = rule.judge(facts)
    assert "t0 may lose everything, t1 and t2 35 s of writes" in told.message


def test_only_a_difference_is_told() -> None:
    """Always and everysec without flushes during a rewrite lose alike when the power fails."""
    always = ALWAYS | {"no-appendfsync-on-rewrite": "yes"}
    finding = found(
        with_settings(redis(seen(), seen()), t0=SKIPPING, t1=always), "persistence-traded"
    )
    assert finding is not None
    assert "power" not in finding.message


def test_waits_that_no_server_of_its_kind_names_are_no_finding() -> None:
    """Where the main thread is accounted for nothing is lacking; where it is not, they are."""
    known = seen({Quantity.MAIN_THREAD_CPU_S: 1.0}, absent=(NO_WAITS,))
    assert found(redis(known, known), "not-measured") is None
    unknown = seen(absent=(NO_WAITS,))
    finding = found(redis(known, unknown), "not-measured")
    assert finding is not None
    assert "12 of 24 runs" in finding.message


def test_a_campaign_is_judged_by_the_rules_of_its_engine() -> None:
    """No rule of PostgreSQL is told to lack a fact that Redis cannot have, nor the other way."""
    of_redis = found(redis(seen(), seen()), "not-judged")
    of_postgres = found(both(seen(), seen()), "not-judged")
    assert of_redis is not None
    assert of_postgres is not None
    for rule in CAMPAIGN_RULES:
        if rule.engine is EngineName.REDIS:
            assert rule.code not in of_postgres.message
        if rule.engine is EngineName.POSTGRES:
            assert rule.code not in of_redis.message
    assert "keys-missing" in of_redis.message
    assert "autovacuum-differs" in of_postgres.message


PLAIN = Does(per_request={Quantity.AOF_BYTES: 0.0, Quantity.AOF_DELAYED_FSYNCS: 0.0})
LOGGED = {Quantity.AOF_BYTES: 180_040.0, Quantity.AOF_DELAYED_FSYNCS: 0.001}
_BY_PROC = frozenset({Quantity.MAIN_THREAD_BLOCKED_S, Quantity.MAIN_THREAD_RUN_QUEUE_S})


def _reasons(record: CampaignRecord) -> Reasons:
    found = analyse(record).answer(campaign_reasons)
    assert found is not None
    return found


def test_the_parts_are_what_the_thread_did_times_the_clients() -> None:
    """Each request waits for the others, so a part is as many times the thread's as clients are."""
    does = Does(blocked_s=0.00003, forking_s=0.000004)
    budget = _reasons(redis_record(does, PLAIN)).budget
    cell = next(each for each in budget.cells if each.configuration == "t0")
    found = {part: seconds.value for part, seconds in cell.parts.items()}
    assert found == {
        Part.EXECUTING: pytest.approx(CLIENTS * does.executing_s, rel=0.02),
        Part.SERVING: pytest.approx(CLIENTS * does.serving_s, rel=0.02),
        Part.FORKING: pytest.approx(CLIENTS * does.forking_s, rel=0.02),
        Part.CPU_WAIT: pytest.approx(CLIENTS * does.queued_s, rel=0.02),
        Part.BLOCKED: pytest.approx(CLIENTS * does.blocked_s, rel=0.02),
        Part.CLIENT: pytest.approx(CLIENTS * does.idle_s, rel=0.02),
    }
    assert cell.latency is not None
    assert cell.latency.value == pytest.approx(CLIENTS * does.whole_s, rel=0.02)


def test_a_pipeline_holds_more_in_flight() -> None:
    """A client that sends ten at once waits ten times as long as the rate alone would say."""
    record = redis_record(PLAIN, PLAIN, experiment=redis_experiment(pipeline=10))
    cell = _reasons(record).budget.cells[0]
    assert cell.latency is not None
    assert cell.latency.value == pytest.approx(10 * CLIENTS * PLAIN.whole_s, rel=0.02)


def test_a_thread_that_waits_for_storage_is_named_with_what_was_asked_of_it() -> None:
    """The largest part is the blocked one; rewriting and delayed fsyncs stand beside it."""
    slow = Does(
        blocked_s=0.0005,
        per_request=LOGGED,
        per_second={Quantity.AOF_REWRITING_S: 0.4, Quantity.RDB_SAVING_S: 0.0},
        levels={Quantity.WORST_AOF_WRITE_S: 0.8},
    )
    experiment = redis_experiment(appendonly=("no", "yes"))
    (told,) = _reasons(redis_record(PLAIN, slow, experiment=experiment)).explanations
    assert told.parts == (Part.BLOCKED,)
    assert "per request" in told.sentence
    assert "the main thread blocked by storage" in told.sentence
    assert "delayed fsyncs per request 0 to 0.001" in told.sentence
    assert "under t1 the append-only file was being rewritten in 40.0 % of" in told.sentence
    assert "the longest write of the log under t1 took 800 ms" in told.sentence
    assert "snapshot" not in told.sentence
    assert {Cost.AOF_BYTES, Cost.AOF_DELAYED_FSYNCS} <= set(told.costs)


def test_a_log_that_only_costs_the_cpu_is_named_by_its_bytes() -> None:
    """The kernel takes what is written at once: then it is CPU time of the main thread."""
    logging = Does(serving_s=0.00012, per_request=LOGGED)
    (told,) = _reasons(redis_record(PLAIN, logging)).explanations
    assert told.parts == (Part.SERVING,)
    assert "bytes of the append-only file per request 0 to 180,040" in told.sentence


def test_forks_are_named_with_their_length_and_copies() -> None:
    """A process of some size takes long to fork, and every client waits for it."""
    saving = Does(
        forking_s=0.00005,
        per_second={Quantity.FORKS: 0.6},
        levels={Quantity.COPIED_BYTES: 64.0 * MIB},
    )
    (told,) = _reasons(redis_record(PLAIN, saving)).explanations
    assert told.parts == (Part.FORKING,)
    assert "t1 forked" in told.sentence
    assert "up to 64.0 MiB copied" in told.sentence


def test_without_a_view_of_the_process_the_rest_is_not_split() -> None:
    """On an endpoint nobody sees the thread: what it does off the CPU may be either."""
    slow = Does(blocked_s=0.0005)
    reasons = _reasons(redis_record(PLAIN, slow, lacking=_BY_PROC))
    (told,) = reasons.explanations
    assert told.parts == (Part.OFF_CPU,)
    assert "storage, or waiting for requests" in told.sentence
    assert set(reasons.budget.cells[0].parts) == {Part.EXECUTING, Part.SERVING, Part.OFF_CPU}


def test_a_server_that_does_not_tell_its_threads_apart_has_no_split() -> None:
    """Before 6.2: the latency has no parts, and the reason is told."""
    record = redis_record(PLAIN, PLAIN, lacking=frozenset({Quantity.MAIN_THREAD_CPU_S}))
    budget = _reasons(record).budget
    assert all(not cell.parts for cell in budget.cells)
    assert "Redis does not say" in budget.changes[0].missing


def test_the_ledger_has_the_costs_of_a_redis_server() -> None:
    """None of the WAL, none of the pages; what is missing is told with its reason."""
    costs = costs_of(redis_experiment())
    assert Cost.AOF_BYTES in costs
    assert not {Cost.WAL_BYTES, Cost.PAGES_HIT, Cost.ROUND_TRIPS} & set(costs)
    (change,) = _reasons(redis_record(PLAIN, Does(per_request=LOGGED))).ledger.changes
    log = change.cost(Cost.AOF_BYTES)
    assert (log.baseline, log.clear, log.relative) == (0.0, True, False)
    assert log.configuration == pytest.approx(180_040)
    assert change.cost(Cost.REPLICATION_BYTES).missing
