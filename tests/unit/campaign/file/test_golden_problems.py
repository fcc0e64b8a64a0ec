"""All problems of very broken files, as the user reads them."""

import os
from pathlib import Path

import pytest
from experiment_texts import FACTS, SMALL, problems_of

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


def instead(lines: list[str]) -> str:
    """Return the small experiment with these lines in the place of those with the same keys."""
    keys = {line.partition(":")[0] for line in lines}
    head, mark, tail = SMALL.partition("configurations:")
    kept = [line for line in head.splitlines() if line.partition(":")[0] not in keys]
    rest = "" if keys & {"configurations", "factors", "ladder", "ablation"} else mark + tail
    return "\n".join([*kept, *lines, rest])


def test_each_mistake_in_a_small_file() -> None:
    """Behind what is written in the small experiment are its problems, each with a way out."""
    path = GOLDEN / "cases.txt"
    made = []
    for case in path.read_text("utf-8").rstrip().split("\n\n"):
        lines = [line.removeprefix("| ") for line in case.splitlines() if line.startswith("| ")]
        problems = problems_of(instead(lines))
        assert problems
        assert all(problem.hint and problem.line for problem in problems)
        located = [problem.located("").lstrip(":") for problem in problems]
        made.append("\n".join([*(f"| {line}" for line in lines), *located]))
    now = "\n\n".join(made) + "\n"
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        path.write_text(now, "utf-8")
    assert now == path.read_text("utf-8")


def test_a_password_is_not_echoed() -> None:
    """The problem about a password in a file does not show the password."""
    secret = [name for name in NAMES if "hunter2" in (GOLDEN / f"{name}.yaml").read_text("utf-8")]
    assert len(secret) >= 6
    for name in NAMES:
        assert "hunter2" not in (GOLDEN / f"{name}.txt").read_text("utf-8")
