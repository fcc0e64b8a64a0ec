"""What a file may say of the ceilings."""

from experiment_texts import SMALL, only_problem
from pydantic import TypeAdapter

from steelyard.core.experiment import Measure


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
