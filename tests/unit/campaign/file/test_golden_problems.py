"""All problems of very broken files, as the user reads them."""

import os
from pathlib import Path

import pytest
from experiment_texts import FACTS

from steelyard.campaign.file.files import load_experiment
from steelyard.core.wording import ExitCode, ExperimentFileError

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_is_told_at_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One attempt names every mistake with line, column, fact and way out, in line order.

    ``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew.
    """
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(Path(f"{name}.yaml"), facts=FACTS)
    assert refused.value.exit_code is ExitCode.BAD_INPUT
    assert all(problem.hint for problem in refused.value.problems)
    expected = GOLDEN / f"{name}.txt"
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        expected.write_text(refused.value.message + "\n", "utf-8")
    assert refused.value.message + "\n" == expected.read_text("utf-8")


def test_a_password_is_not_echoed() -> None:
    """The problem about a password in a file does not show the password."""
    secret = [name for name in NAMES if "hunter2" in (GOLDEN / f"{name}.yaml").read_text("utf-8")]
    assert len(secret) >= 6
    for name in NAMES:
        assert "hunter2" not in (GOLDEN / f"{name}.txt").read_text("utf-8")
