"""What a file may say of neighbours."""

import pytest
from experiment_texts import SMALL, load, only_problem
from pydantic import TypeAdapter

from steelyard.core.campaign import BlockOutcome
from steelyard.core.experiment import DEFAULT_NEIGHBOURS, Experiment
from support.live import TINY, beside_anybody


@pytest.mark.parametrize("written", ["0", "150%", "some", "true", "[1]"])
def test_what_is_no_share(written: str) -> None:
    """Told at its place."""
    assert "measure.neighbours: `" in only_problem(f"{SMALL}measure: {{neighbours: {written}}}\n")


def test_journals_of_before_are_read() -> None:
    """They know neither of neighbours nor of causes; what they say stays what it was."""
    adapter = TypeAdapter(Experiment)
    written = adapter.dump_python(load(SMALL).experiment, mode="json")
    del written["measure"]["neighbours"]
    assert adapter.validate_python(written).measure.neighbours == DEFAULT_NEIGHBOURS
    old = {"index": 0, "attempt": 0, "complete": False, "reason": "steal"}
    assert TypeAdapter(BlockOutcome).validate_python(old).cause == ""


@pytest.mark.parametrize("text", [SMALL, TINY, f"{SMALL}measure:\n  slice: 1s\n"])
def test_the_live_tests_take_the_machine_as_it_is(text: str) -> None:
    """However their text says `measure`, neighbours are only noted."""
    assert load(beside_anybody(text)).experiment.measure.neighbours is None
