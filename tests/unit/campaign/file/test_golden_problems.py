"""All problems of a very broken file, as the user reads them."""

from pathlib import Path

import pytest
from experiment_texts import FACTS

from steelyard.campaign.file.files import load_experiment
from steelyard.core.wording import ExitCode, ExperimentFileError

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["broken", "redis_broken"])
def test_every_problem_is_told_at_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One attempt names every mistake with line, column, fact and way out, in line order."""
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(Path(f"{name}.yaml"), facts=FACTS)
    assert len(refused.value.problems) >= 12
    assert refused.value.exit_code is ExitCode.BAD_INPUT
    expected = (GOLDEN / f"{name}.txt").read_text("utf-8")
    assert refused.value.message + "\n" == expected


@pytest.mark.parametrize("name", ["broken", "redis_broken"])
def test_a_password_is_not_echoed(name: str) -> None:
    """The problem about a password in a file does not show the password."""
    assert "hunter2" in (GOLDEN / f"{name}.yaml").read_text("utf-8")
    assert "hunter2" not in (GOLDEN / f"{name}.txt").read_text("utf-8")
