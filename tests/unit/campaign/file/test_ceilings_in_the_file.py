"""What a file may say of the ceilings."""

import pytest
from experiment_texts import SMALL, load, only_problem
from pydantic import TypeAdapter

from steelyard.core.experiment import Experiment, Measure
from steelyard.core.schedule import CeilingsAsked


@pytest.mark.parametrize("written", list(CeilingsAsked))
def test_ceilings(written: CeilingsAsked) -> None:
    """One of three words, which the record keeps; left out it is `auto`."""
    experiment = load(f"{SMALL}measure: {{ceilings: {written.value}}}\n").experiment
    assert experiment.measure.ceilings is written
    adapter = TypeAdapter(Experiment)
    assert adapter.validate_json(adapter.dump_json(experiment)) == experiment
    assert load(SMALL).experiment.measure.ceilings is CeilingsAsked.AUTO


def test_what_is_no_such_word() -> None:
    """Told at its place with what would do."""
    told = only_problem(f"{SMALL}measure: {{ceilings: sometimes}}\n")
    assert "measure.ceilings: `sometimes` is not known" in told
    assert "auto, on, off" in told or "`auto`" in told


def test_a_record_from_before_has_the_default() -> None:
    """An experiment in a journal that does not know the key is read as `auto`."""
    adapter = TypeAdapter(Measure)
    stored = adapter.dump_python(Measure(), mode="json")
    del stored["ceilings"]
    assert adapter.validate_python(stored) == Measure()
