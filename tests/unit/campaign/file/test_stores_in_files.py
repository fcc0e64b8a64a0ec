"""Simulated storage in an experiment file."""

from experiment_texts import EVERY_KEY, SMALL, load


def at(store: str) -> str:
    """Return the small experiment on simulated storage."""
    return SMALL.replace("default: {}", f"default: {{target: {{store: {store}}}}}")


def test_a_store_is_in_the_label() -> None:
    """Of the target that has it."""
    target = load(EVERY_KEY).experiment.configuration("default").target
    assert "2 ms per flush, 900 IOPS, 3,000 for 30,000 credits" in target.label
