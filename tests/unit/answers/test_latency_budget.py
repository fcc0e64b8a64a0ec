"""The latency in parts: they sum, the one that changed is found, and what is missing is said."""

from dataclasses import replace

import numpy as np
import pytest
from watched_records import CLIENTS, DEFAULT, a_watched_record, reasons_of, with_parts, with_totals

from fakes.evidence import Seen
from steelyard.answers.budget.compute import Part, _latencies, _split, split_latency
from steelyard.answers.observations import by_block, observe
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Absence, Quantity, Run, WaitClass

ASYNC = with_parts(DEFAULT, wal=0.0001)


def without_waits(run: Run) -> Run:
    """Return the run as a server leaves it that shows no wait events."""
    assert run.evidence is not None
    gone = Absence(subject="waits", reason="permission denied")
    return replace(run, evidence=replace(run.evidence, waits=None, absent=(gone,)))


@pytest.mark.parametrize("subject", ["wait events", "waits", "server"])
def test_the_reason_is_found_however_wide_it_is(subject: str) -> None:
    """Of the events, their series, or the whole probe; its full stop is not doubled."""
    gone = Absence(subject=subject, reason="It was not ready within 5 s.")
    record = a_watched_record(DEFAULT, DEFAULT)
    runs = []
    for run in record.runs:
        assert run.evidence is not None
        evidence = replace(run.evidence, waits=None, absent=(gone,))
        runs.append(replace(run, evidence=evidence))
    budget = reasons_of(replace(record, runs=tuple(runs))).budget
    assert budget.changes[0].missing == "It was not ready within 5 s"


def changed(record: CampaignRecord, lacking: tuple[int, ...]) -> CampaignRecord:
    """Return the record without wait events in some blocks."""
    runs = (without_waits(run) if run.block in lacking else run for run in record.runs)
    return replace(record, runs=tuple(runs))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_parts_of_a_block_sum_to_its_latency(rounds: int) -> None:
    """In every block, over all its rounds: clients / tps, to rounding."""
    seen = observe(a_watched_record(DEFAULT, ASYNC, rounds=rounds))
    split = _split(_latencies(seen, 2.0), 0)
    whole = CLIENTS / np.exp(seen.log_tps[:, :, 0])
    assert np.allclose(sum(split.parts.values()), whole, rtol=1e-12)
    assert np.allclose(split.whole, whole, rtol=1e-12)
    assert set(split.parts) == {Part.ON_CPU, Part.CPU_WAIT, Part.WAL, Part.CLIENT, Part.UNSEEN}


def test_the_part_that_changed_is_found_with_its_size() -> None:
    """4.9 ms less of WAL within its interval, first in the waterfall; the client's is not clear."""
    (change,) = reasons_of(a_watched_record(DEFAULT, ASYNC)).budget.changes
    wal, client = change.parts[0], change.part(Part.CLIENT)
    assert wal.part is Part.WAL
    assert wal.clear
    assert wal.change.low is not None
    assert wal.change.high is not None
    assert wal.change.low < -0.0049 < wal.change.high < 0.0
    assert client is not None
    assert not client.clear


def test_the_waterfall_goes_from_start_to_end() -> None:
    """Parts and remainder lead from one median latency to the other exactly."""
    (change,) = reasons_of(a_watched_record(DEFAULT, ASYNC)).budget.changes
    assert change.start_s is not None
    assert change.end_s is not None
    moved = sum(part.change.value for part in change.parts) + change.remainder_s
    assert change.start_s + moved == pytest.approx(change.end_s, rel=1e-12)
    assert abs(change.remainder_s) < 0.05 * change.start_s


def _first_parts(seen: Seen) -> dict[Part, float]:
    """Return the parts of the first configuration, seconds."""
    parts = reasons_of(a_watched_record(seen, seen)).budget.cells[0].parts
    return {part: seconds.value for part, seconds in parts.items()}


def test_cpu_time_is_told_from_waiting_for_it() -> None:
    """Of 1 ms in the class 0.8 are used, so 0.2 waited, though a run queue held only 0.1."""
    seconds = _first_parts(DEFAULT)
    assert seconds[Part.ON_CPU] == pytest.approx(0.0008, rel=0.02)
    assert seconds[Part.CPU_WAIT] == pytest.approx(0.0002, rel=0.1)
    assert seconds[Part.CLIENT] == pytest.approx(0.0003, rel=0.05)


def test_what_the_kernel_knows_better_is_taken_from_the_client() -> None:
    """A woken session shows as waiting for its client until it gets a CPU; the sum stays."""
    busy = {Quantity.SERVER_CPU_S: 0.0009, Quantity.SERVER_RUN_QUEUE_S: 0.0003}
    seconds = _first_parts(with_totals(DEFAULT, busy))
    assert seconds[Part.ON_CPU] == pytest.approx(0.0009, rel=0.02)
    assert seconds[Part.CPU_WAIT] == pytest.approx(0.0003, rel=0.03)
    assert seconds[Part.CLIENT] == pytest.approx(0.0001, rel=0.2)
    known = (Part.ON_CPU, Part.CPU_WAIT, Part.CLIENT)
    assert sum(seconds[part] for part in known) == pytest.approx(0.0013, rel=0.02)


def test_no_more_is_taken_than_cpu_and_client_hold() -> None:
    """CPU time of background processes does not grow at the cost of disks and locks."""
    seconds = _first_parts(with_totals(DEFAULT, {Quantity.SERVER_CPU_S: 0.002}))
    assert seconds[Part.ON_CPU] == pytest.approx(0.0013, rel=0.03)
    assert Part.CPU_WAIT not in seconds
    assert Part.CLIENT not in seconds


def test_cpu_time_that_no_sample_covers_is_told() -> None:
    """0.7 of 2 ms are beyond both classes; where they hold it all it is 0, unmeasured None."""
    more = with_totals(DEFAULT, {Quantity.SERVER_CPU_S: 0.002})
    there, none = (
        cell.beyond_s for cell in reasons_of(a_watched_record(more, DEFAULT)).budget.cells
    )
    assert there == pytest.approx(0.0007, rel=0.05)
    assert none == 0.0
    bare = replace(DEFAULT, per_transaction={})
    assert reasons_of(a_watched_record(bare, bare)).budget.cells[0].beyond_s is None


def test_without_a_run_queue_cpu_stays_one_part() -> None:
    """Nothing tells what of the class was waiting, so it is not split."""
    totals = {k: v for k, v in DEFAULT.per_transaction.items() if k != Quantity.SERVER_RUN_QUEUE_S}
    plain = replace(DEFAULT, per_transaction=totals)
    parts = reasons_of(a_watched_record(plain, plain)).budget.cells[0].parts
    assert list(parts) == [Part.CPU, Part.WAL, Part.CLIENT, Part.UNSEEN]


def test_more_sessions_than_clients_make_the_unseen_negative() -> None:
    """It is shown as it is, below 0."""
    record = a_watched_record(DEFAULT, DEFAULT)
    runs = []
    for run in record.runs:
        assert run.evidence is not None
        assert run.evidence.waits is not None
        waits = run.evidence.waits
        more = tuple(replace(event, sessions=1.1 * event.sessions) for event in waits.events)
        runs.append(replace(run, evidence=replace(run.evidence, waits=replace(waits, events=more))))
    parts = reasons_of(replace(record, runs=tuple(runs))).budget.cells[0].parts
    assert parts[Part.UNSEEN].high is not None
    assert parts[Part.UNSEEN].high < 0.0


def test_blocks_without_waits_are_left_out() -> None:
    """Of both sides; with none left there is no split, but the server's own reason."""
    record = a_watched_record(DEFAULT, ASYNC)
    (change,) = reasons_of(changed(record, (0, 3))).budget.changes
    assert change.blocks == 10
    bare = reasons_of(changed(record, tuple(range(12)))).budget
    assert bare.changes[0].missing == bare.cells[0].missing == "permission denied"
    assert bare.changes[0].change is None
    assert bare.cells[0].latency is None


def test_an_open_loop_is_not_split() -> None:
    """Clients that wait for their schedule make sessions / tps no latency."""
    record = a_watched_record(DEFAULT, DEFAULT)
    rated = replace(record.experiment.loads[0], rate_per_s=100.0)
    runs = tuple(replace(run, cell=replace(run.cell, load=rated)) for run in record.runs)
    experiment = replace(record.experiment, loads=(rated,))
    budget = reasons_of(replace(record, runs=runs, experiment=experiment)).budget
    assert "open loop" in budget.changes[0].missing


def test_few_blocks_have_no_interval() -> None:
    """Below 6 blocks a change is a number without bounds, and nothing is clear."""
    (change,) = reasons_of(a_watched_record(DEFAULT, ASYNC, blocks=5)).budget.changes
    assert change.change is not None
    assert change.change.low is None
    assert not any(part.clear for part in change.parts)


def test_records_without_evidence_have_no_budget() -> None:
    """Nothing was watched: there is no reason, rather than one of zeros."""
    record = a_watched_record(DEFAULT, ASYNC)
    runs = tuple(replace(run, evidence=None) for run in record.runs)
    assert split_latency(observe(replace(record, runs=runs)), record.experiment) is None


def test_a_class_lasts_as_long_as_its_sessions_say() -> None:
    """Little's law: sessions / tps, the seconds of a run as its weight."""
    seen = observe(a_watched_record(DEFAULT, DEFAULT, rounds=2))
    wal = _latencies(seen, 2.0).classes[WaitClass.WAL]
    runs = [run for run in seen.runs["t0", seen.cells[0]] if run.block == 0]
    sessions = [run.evidence.waits.sessions_in(WaitClass.WAL) for run in runs]  # type: ignore[union-attr]
    transactions = [run.measurement.transactions for run in runs]  # type: ignore[union-attr]
    seconds = [run.measurement.seconds for run in runs]  # type: ignore[union-attr]
    expected = sum(np.multiply(sessions, seconds)) / sum(transactions)
    assert wal[0, 0, 0] == pytest.approx(expected)
    assert by_block(seen, len)[0, 0, 0] == 2
