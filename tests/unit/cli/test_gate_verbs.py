"""``--fail-if``: exit codes, lines and files of a gate, on records of decided campaigns."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_line import EXPERIMENT, Shell, a_campaign

from fakes.campaigns import Stage, an_experiment

SINGLE_PASS = Path(__file__).parents[3] / "docs" / "examples" / "published-matrix"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--fail-if", "slower > 3%"), 0),
        (("--fail-if", "faster > 1%"), 10),
        (("--fail-if", "slower > 3%", "--fail-if", "faster > 1%"), 10),
        (("--fail-if", "sluggish > 1%"), 2),
        (("--junit", "gate.xml"), 2),
        ((), 0),
    ],
)
def test_report_is_a_gate(shell: Shell, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Exit code 10 where a whole interval lies beyond; each outcome is a line of its own."""
    Stage.new(an_experiment(speed=1.1), tmp_path / "c").run()
    got, out, err = shell.run("report", "c", *words)
    assert got == code, err
    gated = code in (0, 10)
    assert bool(out) == gated
    assert sum(line.startswith("gate ") for line in err.splitlines()) == (
        words.count("--fail-if") if gated else 0
    )
    assert not (tmp_path / "gate.xml").exists()


@pytest.mark.parametrize(("undecided", "code"), [("fail", 10), ("pass", 0)])
def test_what_is_undecided_fails_unless_it_may_pass(
    shell: Shell, tmp_path: Path, undecided: str, code: int
) -> None:
    """The threshold lies inside of the interval."""
    Stage.new(an_experiment(speed=1.1), tmp_path / "c").run()
    effect = 0.1
    words = ("--fail-if", f"faster > {100 * effect:g}%", "--undecided", undecided)
    got, _, err = shell.run("compare", "c", "slow", "fast", *words, "--junit", "gate.xml")
    assert (got, "gate undecided" in err) == (code, True), err
    suite = ET.parse(tmp_path / "gate.xml").getroot()  # noqa: S314 - written by us
    assert suite.attrib["failures"] == ("1" if undecided == "fail" else "0")


def test_two_campaigns_are_no_gate(shell: Shell, tmp_path: Path) -> None:
    """They were measured at different times."""
    for name in ("one", "two"):
        a_campaign(tmp_path / name)
    code, _, err = shell.run("compare", "one", "two", "--fail-if", "slower > 3%")
    assert code == 2
    assert "different times" in err
    assert "run --fail-if" in err


def test_a_junit_file_that_cannot_be_written_fails(shell: Shell, tmp_path: Path) -> None:
    """A pipeline that reads it must not find an old one and a green code."""
    a_campaign(tmp_path / "c")
    words = ("--fail-if", "slower > 90%", "--junit", "no/such/gate.xml")
    assert shell.run("report", "c", *words)[0] not in (0, 10)


def test_run_refuses_a_condition_before_anything_starts(shell: Shell, tmp_path: Path) -> None:
    """Also inside of a cluster, where its exit code is not known."""
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    assert shell.run("run", "e.yaml", "--fail-if", "slow")[0] == 2
    code, _, err = shell.run("run", "e.yaml", "--in-cluster", "--fail-if", "slower > 3%")
    assert code == 2
    assert "steelyard report" in err


def test_a_single_pass_is_no_gate(shell: Shell) -> None:
    """It has no interval."""
    code, _, err = shell.run(
        "report", str(SINGLE_PASS), "--format", "json", "--fail-if", "slower > 3%"
    )
    assert code == 2
    assert "nothing for a gate to judge" in err
