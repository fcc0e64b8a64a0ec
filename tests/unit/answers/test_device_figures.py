"""The figures of a run's device, against recorded output of iostat; and read amplification."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import an_experiment
from watched import both, seen

from steelyard.answers import observations as device
from steelyard.answers.campaign import analyse
from steelyard.answers.devices import ReadCause, read_figures, read_section
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.evidence.sources import Counted
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Environment, Evidence, Quantity, ServerEnvironment
from steelyard.core.places import Provision
from steelyard.core.wording import KIB, MIB
from support.recorded_iostat import SECONDS, printed_by_iostat, used_as_recorded

_KIB = 1024
_FIGURES = (
    device.busy_fraction,
    device.queue_length,
    device.reads_per_s,
    device.requests_per_s,
    device.read_size_bytes,
    device.wait_s,
)
_COUNTS = st.integers(0, 2**40)


def _evidence(used: Counted, seconds: float) -> Evidence:
    return replace(seen(used), seconds=seconds)


def test_figures_are_those_of_iostat() -> None:
    """Its columns to the two digits it prints; of reads and writes together, their sum or mean."""
    printed, run = printed_by_iostat(), _evidence(used_as_recorded(), SECONDS)
    requests_per_s = printed["r/s"] + printed["w/s"]
    waits = printed["r_await"] * printed["r/s"] + printed["w_await"] * printed["w/s"]
    expected = (
        (device.reads_per_s(run), printed["r/s"]),
        (device.requests_per_s(run), requests_per_s),
        ((device.read_size_bytes(run) or 0) / _KIB, printed["rareq-sz"]),
        ((device.wait_s(run) or 0) * 1000, waits / requests_per_s),
        (device.queue_length(run), printed["aqu-sz"]),
        ((device.busy_fraction(run) or 0) * 100, printed["%util"]),
    )
    for place, (value, shown) in enumerate(expected):
        assert value, place
        assert value == pytest.approx(shown, abs=0.0102), place


def test_no_request_has_no_size_and_no_wait() -> None:
    """Where iostat prints 0.00: a mean over nothing is None, a rate over no time is nothing."""
    nothing = dict.fromkeys(used_as_recorded(), 0.0)
    run = _evidence(nothing, 1.0)
    assert device.reads_per_s(run) == device.requests_per_s(run) == 0
    assert device.queue_length(run) == device.busy_fraction(run) == 0
    assert device.read_size_bytes(run) is device.wait_s(run) is None
    assert [figure(_evidence(nothing, 0.0)) for figure in _FIGURES] == [None] * len(_FIGURES)


def test_without_counters_there_are_no_figures() -> None:
    """Of a device that was not visible nothing is told, least of all 0."""
    assert [figure(seen()) for figure in _FIGURES] == [None] * len(_FIGURES)


@given(reads=_COUNTS, read_bytes=_COUNTS, writes=_COUNTS, seconds=st.floats(0.01, 1e4))
def test_sizes_and_rates_belong_together(
    reads: int, read_bytes: int, writes: int, seconds: float
) -> None:
    """Rate times mean size is the rate of bytes, and reads are no more than all requests."""
    counted = (Quantity.DEVICE_READS, Quantity.DEVICE_READ_BYTES, Quantity.DEVICE_WRITES)
    used = dict(zip(counted, map(float, (reads, read_bytes, writes)), strict=True))
    run = _evidence(used_as_recorded() | used, seconds)
    size_bytes, reads_per_s = device.read_size_bytes(run), device.reads_per_s(run)
    assert reads_per_s is not None
    assert (size_bytes is None) is (reads == 0)
    if size_bytes is not None:
        assert reads_per_s * size_bytes == pytest.approx(read_bytes / seconds)
    assert reads_per_s <= (device.requests_per_s(run) or 0)


ONE_LOAD = an_experiment(loads=1)
_HERE = Provision(block_bytes=4 * KIB, page_bytes=4 * KIB, read_ahead_bytes=128 * KIB)


def reads(asked: float, read: float, request: float) -> Evidence:
    """Return evidence of a run: MiB asked for and read, and the KiB of one read."""
    return seen(
        {
            Quantity.RELATION_READ_BYTES: asked * MIB,
            Quantity.DEVICE_READ_BYTES: read * MIB,
            Quantity.DEVICE_READS: read * MIB / (request * KIB),
            Quantity.DEVICE_READ_S: 0.1,
        }
    )


def placed(record: CampaignRecord, *places: Provision | None) -> CampaignRecord:
    """Return it with what the places of its servers gave them."""
    servers = tuple(
        ServerEnvironment(configuration=f"t{n}", version="18.1", settings=(), provision=place)
        for n, place in enumerate(places)
    )
    return replace(record, environment=Environment(facts=(), servers=servers))


def analysed(
    baseline: Evidence | None,
    other: Evidence | None,
    *places: Provision | None,
    blocks: int = 8,
) -> CampaignAnalysis:
    """Return the analysis of a record in which each side read so."""
    return analyse(
        placed(
            both(baseline, other, blocks=blocks, experiment=ONE_LOAD), *(places or (_HERE, _HERE))
        )
    )


def causes(analysis: CampaignAnalysis) -> list[ReadCause]:
    """Return the cause for each configuration."""
    found = analysis.answer(read_figures)
    assert found is not None
    return [each.cause for each in found]


@pytest.mark.parametrize(
    ("read", "place", "cause"),
    [
        (reads(100, 92, 8), _HERE, ReadCause.NONE),
        (reads(100, 100, 127), _HERE, ReadCause.NONE),  # one after the other
        (reads(100, 200, 16), replace(_HERE, block_bytes=16 * KIB), ReadCause.BLOCKS),
        (reads(100, 793, 63.9), replace(_HERE, block_bytes=64 * KIB), ReadCause.BLOCKS),
        (reads(100, 380, 65), replace(_HERE, block_bytes=64 * KIB), ReadCause.BLOCKS),
        (reads(100, 793, 63.9), replace(_HERE, page_bytes=64 * KIB), ReadCause.MEMORY_PAGES),
        (reads(100, 500, 110), _HERE, ReadCause.READ_AHEAD),
        (reads(100, 500, 110), replace(_HERE, read_ahead_bytes=0), ReadCause.UNKNOWN),
        (reads(100, 500, 4), _HERE, ReadCause.UNKNOWN),  # small requests that nobody asked for
        (reads(100, 793, 63.9), Provision(), ReadCause.UNKNOWN),
        (reads(100, 90, 64), replace(_HERE, block_bytes=64 * KIB), ReadCause.NONE),
    ],
)
def test_the_cause_is_what_a_request_is_as_large_as(
    read: Evidence, place: Provision, cause: ReadCause
) -> None:
    """Blocks and pages by their size; read-ahead where requests are larger than both."""
    assert causes(analysed(reads(100, 100, 8), read, _HERE, place)) == [ReadCause.NONE, cause]


def test_the_ratio_has_an_interval_from_six_blocks_on() -> None:
    """Bytes over bytes, per block; the rates are per second of the runs."""
    for blocks, bounded in ((5, False), (6, True)):
        found = analysed(reads(100, 100, 8), reads(50, 400, 64), blocks=blocks).answer(read_figures)
        assert found is not None
        assert found[1].amplification.value == pytest.approx(8.0)
        assert (found[1].amplification.low is not None) is bounded
        assert found[1].device_bytes.value == pytest.approx(8.0 * found[1].asked_bytes.value)
        assert found[1].request_bytes.value == pytest.approx(64 * KIB)


def test_where_little_was_read_or_counted_nothing_is_said() -> None:
    """Below 16 MiB in all blocks, where all was cached, without a counter, and unwatched."""
    few = analysed(reads(1, 1, 8), reads(1, 1, 8))
    assert "read-amplification" not in [each.anchor for each in build_document(few).sections]
    assert "read_amplification" not in summary(analysed(None, None))
    assert causes(analysed(reads(1000, 50, 8), reads(1000, 50, 8))) == []  # it was cached
    only = analysed(reads(100, 100, 8), seen({Quantity.DEVICE_READ_BYTES: 100.0 * MIB}))
    found = only.answer(read_figures)
    assert found is not None
    assert [each.configuration for each in found] == ["t0"]


def test_a_place_that_is_not_known_is_told_so() -> None:
    """Records before it was kept, and servers elsewhere."""
    analysis = analysed(reads(100, 100, 8), reads(100, 793, 64), None, None)
    (section,) = read_section(analysis, analysis.answer(read_figures) or ())
    assert section.blocks[0].rows[1].cells[-3:] == ("not known",) * 3
