"""Why one Redis server is faster than another: by the account of the thread that serves all."""

import pytest
from redis_records import CLIENTS, Does, redis_experiment, redis_record

from steelyard.answers.budget.compute import Part
from steelyard.answers.campaign import analyse
from steelyard.answers.costs import Cost, costs_of
from steelyard.answers.reasons.compute import Reasons, campaign_reasons
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Quantity
from steelyard.core.wording import MIB

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
