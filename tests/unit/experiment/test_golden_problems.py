"""All problems of a very broken file, as the user reads them."""

from pathlib import Path

import pytest
from experiment_texts import FACTS

from steelyard.experiment.files import load_experiment
from steelyard.model.errors import ExitCode, ExperimentFileError

GOLDEN = Path(__file__).parent / "golden"


def test_every_problem_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt names every mistake with line, column, fact and way out, in line order."""
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(Path("broken.yaml"), facts=FACTS)
    assert len(refused.value.problems) >= 12
    assert refused.value.exit_code is ExitCode.BAD_INPUT
    expected = (GOLDEN / "broken.txt").read_text("utf-8")
    assert refused.value.message + "\n" == expected


def test_a_password_is_not_echoed() -> None:
    """The problem about a password in a file does not show the password."""
    assert "hunter2" in (GOLDEN / "broken.yaml").read_text("utf-8")
    assert "hunter2" not in (GOLDEN / "broken.txt").read_text("utf-8")
