"""Read amplification: the ratio, its cause by sizes, and where nothing may be said."""

from dataclasses import replace

import pytest
from made_records import an_experiment
from watched import both, seen

from steelyard.answers.campaign import analyse
from steelyard.answers.devices import ReadCause, read_figures, read_section
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Environment, Evidence, Quantity, ServerEnvironment
from steelyard.core.storage import Provision
from steelyard.core.wording import KIB, MIB

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
