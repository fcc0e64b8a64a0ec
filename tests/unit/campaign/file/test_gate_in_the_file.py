"""``stop.fail_if``: conditions of a gate in the experiment file."""

import pytest
from experiment_texts import SMALL, only_problem


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
