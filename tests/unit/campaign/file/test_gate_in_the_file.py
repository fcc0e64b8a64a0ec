"""``stop.fail_if``: conditions of a gate in the experiment file."""

import pytest
from experiment_texts import SMALL, load, only_problem


def test_the_file_may_hold_several_conditions() -> None:
    """In a list, or in one line."""
    for text in ("'slower > 3%, faster > 10%'", "[slower > 3%, faster > 10%]"):
        stop = load(SMALL + f"stop: {{fail_if: {text}}}\n").experiment.stop
        assert [str(condition) for condition in stop.fail_if] == ["slower > 3%", "faster > 10%"]


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ("stop: {fail_if: quicker}\n", "quicker"),
        ("design: single-pass\nstop: {fail_if: slower > 3%}\n", "single pass"),
    ],
)
def test_what_is_no_gate_is_refused(further: str, message: str) -> None:
    """With the place in the file."""
    assert message in only_problem(SMALL + further)
