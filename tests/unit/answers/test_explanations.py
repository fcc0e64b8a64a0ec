"""The sentence of explanation: it names what is there, nothing that is not, and no cause."""

from dataclasses import replace

import numpy as np
import pytest
from watched_records import (
    DEFAULT,
    a_watched_record,
    reasons_of,
    servers_of,
    the_experiment,
    with_parts,
    with_totals,
)

from fakes.evidence import Seen
from steelyard.answers.budget import Part
from steelyard.answers.costs import Cost
from steelyard.answers.observations import is_clear
from steelyard.answers.reasons.compute import Explanation
from steelyard.core.experiment import Layer, Setting
from steelyard.core.measurement import Quantity

ASYNC = with_totals(with_parts(DEFAULT, wal=0.0001), {Quantity.WAL_SYNCS: 0.01})


def explained(baseline: Seen, configuration: Seen, **settings: tuple[str, str]) -> Explanation:
    """Return the explanation of a comparison of such configurations."""
    record, asked = a_watched_record(baseline, configuration), the_experiment(**settings)
    record = replace(record, experiment=asked, environment=servers_of(asked))
    (found,) = reasons_of(record).explanations
    return found


def test_wal_syncs_that_are_gone_are_named() -> None:
    """The part with its size and interval, the event, the syncs of the ledger."""
    found = explained(DEFAULT, ASYNC)
    assert found.parts == (Part.WAL,)
    assert found.costs == (Cost.WAL_SYNCS,)
    assert "is WAL sync (WalSync; WAL syncs per transaction 0.9" in found.sentence
    assert "almost gone" in found.sentence
    assert found.sentence.startswith("of -4.9")


def test_throttling_is_named_with_its_periods() -> None:
    """Waiting for a CPU grew, and a quota stopped the server in that configuration."""
    quota = replace(
        with_parts(DEFAULT, cpu=0.004),
        per_second={Quantity.QUOTA_PERIODS: 10.0, Quantity.THROTTLED_PERIODS: 8.0},
    )
    found = explained(DEFAULT, quota)
    assert found.parts == (Part.CPU_WAIT,)
    assert "a CPU quota stopped the server of t1 in 80.0 % of its periods" in found.sentence


def test_waits_at_a_device_are_named_with_its_state() -> None:
    """Requests, their time, how busy it was; a queue in front of it is told from one in it."""
    parts = with_parts(DEFAULT, io=0.02)
    device = {
        Quantity.DEVICE_READS: 200.0,
        Quantity.DEVICE_WRITES: 0.0,
        Quantity.DEVICE_READ_S: 0.9,
        Quantity.DEVICE_WRITE_S: 0.0,
        Quantity.DEVICE_BUSY_S: 0.97,
    }
    busy = replace(parts, per_second={**device, Quantity.DEVICE_QUEUE_S: 6.5})
    said = explained(DEFAULT, busy).sentence
    assert "is waiting for data files (DataFileRead; under t1" in said
    assert "97.0 % busy with 200 requests/s, 4.50 ms each" in said
    assert "in front of the device" not in said
    idle = replace(parts, per_second={**device, Quantity.DEVICE_QUEUE_S: 0.9})
    assert "in front of the device" in explained(DEFAULT, idle).sentence


@pytest.mark.parametrize(("reads_per_s", "told"), [(185.0, True), (170.0, False)])
def test_reads_at_their_limit_are_named(reads_per_s: float, *, told: bool) -> None:
    """A device that is idle may stand behind a limit: nine tenths of it are taken for all."""
    device = {
        Quantity.DEVICE_READS: reads_per_s,
        Quantity.DEVICE_WRITES: 0.0,
        Quantity.DEVICE_BUSY_S: 0.02,
    }
    slow = replace(with_parts(DEFAULT, io=0.02), per_second=device)
    asked = the_experiment()
    first, second = asked.configurations
    limit = Setting(layer=Layer.CGROUP, name="read_iops", value="200")
    asked = replace(asked, configurations=(first, replace(second, settings=(limit,))))
    record = replace(
        a_watched_record(DEFAULT, slow), experiment=asked, environment=servers_of(asked)
    )
    (found,) = reasons_of(record).explanations
    assert ("all that the limit of 200 lets through" in found.sentence) is told


def test_cpu_per_transaction_is_named_at_equal_waits() -> None:
    """Only the server's CPU time grew: it is the part, and the ledger says by how much."""
    more = with_totals(with_parts(DEFAULT, cpu=0.002), {Quantity.SERVER_CPU_S: 0.0018})
    found = explained(DEFAULT, more)
    assert found.parts == (Part.ON_CPU,)
    assert Cost.SERVER_CPU in found.costs
    assert "CPU per transaction of the server +12" in found.sentence


@pytest.mark.parametrize(
    ("wait_class", "words"),
    [("lock", "locks of rows and tables (transactionid)"), ("client", "the client (round trip")],
)
def test_locks_and_the_client_are_named(wait_class: str, words: str) -> None:
    """Each by its words, locks with their event."""
    found = explained(DEFAULT, with_parts(DEFAULT, **{wait_class: 0.003}))
    assert found.parts == (Part(wait_class),)
    assert words in found.sentence


def test_several_settings_are_not_separated() -> None:
    """What differs is said, and with two of them that nothing tells them apart."""
    one = explained(DEFAULT, ASYNC, synchronous_commit=("on", "off"), fsync=("on", "on"))
    assert one.sentence.endswith("what differs is synchronous_commit")
    two = explained(DEFAULT, ASYNC, fsync=("on", "off"), synchronous_commit=("on", "off"))
    assert two.differing == ("fsync", "synchronous_commit")
    assert "fsync and synchronous_commit differ at once and are not separated" in two.sentence
    for said in (one.sentence, two.sentence):
        assert "because" not in said


def test_nothing_is_named_between_equals() -> None:
    """The same twice: no part, no cost, one plain sentence."""
    found = explained(DEFAULT, DEFAULT, shared_buffers=("1GB", "2GB"))
    assert (found.parts, found.costs) == ((), ())
    assert found.sentence == "no part of the latency changed by more than its interval"


def test_what_weighs_little_is_not_named() -> None:
    """A tenth of the change is the least: 0.2 of 4.9 ms is clear and goes unsaid."""
    found = explained(DEFAULT, with_parts(DEFAULT, wal=0.0001, lock=0.0002))
    assert found.parts == (Part.WAL,)
    assert "locks" not in found.sentence


def test_few_blocks_name_nothing() -> None:
    """Without intervals there is no naming, whatever the numbers are."""
    (found,) = reasons_of(a_watched_record(DEFAULT, ASYNC, blocks=5)).explanations
    assert found.parts == ()
    assert "too few blocks" in found.sentence


def test_between_equals_a_part_is_clear_in_at_most_five_percent() -> None:
    """Calibration: of 400 families of nine parts without a difference, within 3 sd of 4.5 %.

    Without the family's share of the level about a third of them would name a part.
    """
    rng = np.random.default_rng(5)
    families, parts = 400, 9
    shared = alone = 0
    for _ in range(families):
        differences = rng.standard_normal((parts, 12))
        shared += any(is_clear(each, parts) for each in differences)
        alone += any(is_clear(each, 1) for each in differences)
    bound = 0.045 + 3 * (0.045 * 0.955 / families) ** 0.5
    assert shared / families <= bound
    assert alone / families > 0.2
