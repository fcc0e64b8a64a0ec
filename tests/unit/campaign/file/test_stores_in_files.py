"""Simulated storage in an experiment file."""

import pytest
from experiment_texts import SMALL, load, problems_of

from steelyard.core.storage import Store
from steelyard.core.target import LocalTarget


def at(store: str) -> str:
    """Return the small experiment on simulated storage."""
    return SMALL.replace("default: {}", f"default: {{target: {{store: {store}}}}}")


def test_all_that_a_store_can_be() -> None:
    """Durations and sizes as elsewhere in a file."""
    text = at(
        "{latency: 2ms, iops: 900, bandwidth: 48MB, burst_iops: 3000, burst_credits: 30000,"
        " block_size: 64KiB, size: 4GiB}"
    )
    target = load(text).experiment.configuration("default").target
    assert isinstance(target, LocalTarget)
    assert target.store == Store(
        latency_s=0.002,
        iops=900,
        bandwidth_bytes=48 << 20,
        burst_iops=3000,
        burst_credits=30_000,
        block_bytes=64 << 10,
        size_bytes=4 << 30,
    )
    assert "2 ms per flush, 900 IOPS, 3,000 for 30,000 credits" in target.label


def test_an_empty_store_adds_nothing() -> None:
    """It is the control: the same path, and nothing added."""
    target = load(at("{}")).experiment.configuration("default").target
    assert isinstance(target, LocalTarget)
    assert target.store == Store()


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("{latency: 11s}", "no disk's"),
        ("{block_size: 12KiB}", "no blocks of"),
        ("{burst_iops: 3000, iops: 900}", "of no use without `burst_credits`"),
        ("{burst_iops: 900, burst_credits: 5, iops: 900}", "more than `iops`"),
        ("{burst_iops: 900, burst_credits: 5}", "more than `iops`"),
        ("{block_size: 2KiB}", "out of range"),
        ("{size: few}", "not a size"),
    ],
)
def test_what_no_store_can_be(store: str, message: str) -> None:
    """Each is told with its line."""
    assert message in str(problems_of(at(store))[0])


def test_a_server_that_is_there_has_no_store() -> None:
    """It is made for servers that Steelyard makes."""
    text = SMALL.replace("default: {}", "default: {target: {kind: endpoint, store: {iops: 9}}}")
    assert "`store` belongs to the target" in str(problems_of(text)[0])
