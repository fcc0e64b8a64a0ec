"""``--gate``: exit codes, lines and files of a gate, on records of decided campaigns."""

import errno
import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
from command_line import EXPERIMENT, Shell, a_campaign

from fakes.campaigns import Killed, Stage, a_record, an_experiment, decided
from steelyard.answers.results import CampaignAnalysis
from steelyard.cli import campaigns
from steelyard.cli.campaigns import Gate
from steelyard.cli.launching import RunOptions, _finish
from steelyard.core.findings import parse_condition
from steelyard.core.wording import Interrupted, MeasurementError, RecordError

SINGLE_PASS = Path(__file__).parents[3] / "docs" / "examples" / "published-matrix"


class Gone(io.StringIO):
    """A standard output that takes nothing any more."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _: str) -> int:
        """Fail as the system does."""
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--gate", "slower > 3%"), 0),
        (("--gate", "faster > 1%"), 10),
        (("--gate", "slower > 3%", "--gate", "faster > 1%"), 10),
        (("--gate", "sluggish > 1%"), 2),
        (("--junit", "gate.xml"), 2),
        ((), 0),
    ],
)
def test_report_is_a_gate(shell: Shell, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Exit code 10 where a whole interval lies beyond; each outcome is a line of its own."""
    a_record(tmp_path / "c", speed=1.1)
    got, out, err = shell.run("report", "c", *words)
    assert got == code, err
    gated = code in (0, 10)
    assert bool(out) == gated
    assert sum(line.startswith("gate ") for line in err.splitlines()) == (
        words.count("--gate") if gated else 0
    )
    assert not (tmp_path / "gate.xml").exists()


@pytest.mark.parametrize(("undecided", "code"), [("fail", 10), ("pass", 0)])
def test_what_is_undecided_fails_unless_it_may_pass(
    shell: Shell, tmp_path: Path, undecided: str, code: int
) -> None:
    """The threshold lies inside of the interval."""
    a_record(tmp_path / "c", speed=1.1)
    effect = 0.1
    words = ("--gate", f"faster > {100 * effect:g}%", "--undecided", undecided)
    got, _, err = shell.run("compare", "c", "slow", "fast", *words, "--junit", "gate.xml")
    assert (got, "gate undecided" in err) == (code, True), err
    suite = ET.parse(tmp_path / "gate.xml").getroot()  # noqa: S314 - written by us
    assert suite.attrib["failures"] == ("1" if undecided == "fail" else "0")


@pytest.mark.parametrize("words", [("report", "c"), ("compare", "c", "slow", "fast")])
def test_a_gate_judges_what_cannot_be_printed(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A reader that goes away does not take the exit code and the file with it."""
    a_record(tmp_path / "c", speed=1.1)
    monkeypatch.setattr(sys, "stdout", Gone(errno.EPIPE))
    code = shell.run(*words, "--gate", "faster > 1%", "--junit", "gate.xml")[0]
    assert code == 10
    assert (tmp_path / "gate.xml").is_file()


def test_a_gate_judges_the_newest_campaign_where_its_name_cannot_be_told(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is named."""
    a_record(tmp_path / "campaigns" / "c", speed=1.1)
    monkeypatch.setattr(sys, "stderr", Gone(errno.ENOSPC))
    assert shell.run("report", "--gate", "faster > 1%")[0] == 10


def test_two_campaigns_are_no_gate(shell: Shell, tmp_path: Path) -> None:
    """They were measured at different times."""
    for name in ("one", "two"):
        a_campaign(tmp_path / name)
    code, _, err = shell.run("compare", "one", "two", "--gate", "slower > 3%")
    assert code == 2
    assert "different times" in err
    assert "run --gate" in err
    _, _, err = shell.run("compare", "one", "elsewhere", "--gate", "slower > 3%")
    assert "elsewhere" in err  # first what is not there
    assert "different times" not in err
    shown = " ".join(shell.run("compare", "--help")[1].split())
    assert "--junit are for two configurations of one campaign" in shown


def test_a_junit_file_that_cannot_be_written_fails(shell: Shell, tmp_path: Path) -> None:
    """A pipeline that reads it must not find an old one and a green code."""
    a_campaign(tmp_path / "c")
    words = ("--gate", "slower > 90%", "--junit", "no/such/gate.xml")
    assert shell.run("report", "c", *words)[0] not in (0, 10)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("no/such/gate.xml", "--junit: there is no directory no/such"),
        ("", "--junit: names no file"),
    ],
)
@pytest.mark.parametrize(
    "words", [("report", "c"), ("compare", "c", "slow", "fast"), ("run", "--dry-run", "small.yaml")]
)
def test_a_junit_file_without_a_place_is_refused_first(
    shell: Shell, tmp_path: Path, words: tuple[str, ...], file: str, says: str
) -> None:
    """Not when a campaign is over, in the place of what its gate says."""
    a_record(tmp_path / "c", speed=1.1)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    code, _, err = shell.run(*words, "--gate", "faster > 1%", "--junit", file)
    assert (code, says in err, "hint: " in err) == (2, True, True), err


def test_a_resumed_campaign_is_refused_a_junit_file_that_nobody_could_write(
    shell: Shell, tmp_path: Path
) -> None:
    """As a new one is: before it goes on for hours."""
    a_record(tmp_path / "c", speed=1.1)
    code, out, err = shell.run("run", "--resume", "c", "--junit", "gate.xml")
    assert (code, out, "no condition says" in err) == (2, "", True), err


@pytest.mark.parametrize("out", ["c", "c/d"])
def test_a_junit_file_may_lie_in_the_directory_that_the_campaign_makes(
    shell: Shell, tmp_path: Path, out: str
) -> None:
    """It is there when the gate is judged."""
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    words = ("--gate", "faster > 1%", "--junit", "c/gate.xml", "--dir", out)
    err = shell.run("run", "--dry-run", "small.yaml", *words)[2]
    assert "--junit" not in err


def test_a_single_pass_is_no_gate(shell: Shell) -> None:
    """It has no interval."""
    code, _, err = shell.run(
        "report", str(SINGLE_PASS), "--output", "json", "--gate", "slower > 3%"
    )
    assert code == 2
    assert "nothing for a gate to judge" in err


@pytest.mark.slow
def test_a_report_is_printed_under_the_conditions_that_it_is_given(
    shell: Shell, tmp_path: Path
) -> None:
    """Whatever the form: what is printed and what standard error says are one; files stay."""
    experiment = an_experiment(speed=1.1)
    own = (parse_condition("faster > 1.375%"),)
    Stage.new(replace(experiment, gate=own), tmp_path / "c").run()
    assert shell.run("report", "--write", "c")[0] == 10
    written = (tmp_path / "c" / "report.md").read_text()
    for form in ("text", "summary", "markdown", "json", "html"):
        words = ("report", "c", "--output", form, "--gate", "faster > 90%")
        code, out, err = shell.run(*words)
        assert code == 0, err
        assert "gate passed" in err
        assert "1.375%" not in out
        assert "90" in out
    assert shell.run("report", "c", "--gate", "faster > 90%")[0] == 0
    assert (tmp_path / "c" / "report.md").read_text() == written
    assert "1.375%" in written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (MeasurementError('relation "items" does not exist'), "error"),
        (Interrupted("interrupted by SIGINT"), "interrupted"),
        (None, ""),
    ],
)
def test_a_junit_file_is_written_at_every_end(
    tmp_path: Path, broken: MeasurementError | Interrupted | None, kind: str
) -> None:
    """Of a campaign that broke off it holds the error, and what can be said of its blocks."""
    path = tmp_path / "c"
    analysis = decided(speed=1.1)
    a_record(path, speed=1.1)
    gate = Gate(conditions=("faster > 1%",), junit=tmp_path / "gate.xml")
    options = RunOptions(
        source="e.yaml", flags=(), seed=1, out=path, dry_run=False, form="text", quiet=True,
        yes=True, gate=gate,
    )  # fmt: skip

    def work(_: object) -> CampaignAnalysis:
        if broken is not None:
            raise broken
        return analysis

    ended: list[type[BaseException]] = [click.exceptions.Exit]
    if broken is not None:
        ended = [type(broken)]
    with pytest.raises(tuple(ended)):
        _finish(work, path, options)
    suite = ET.parse(tmp_path / "gate.xml").getroot()  # noqa: S314 - written by us
    errors = list(suite.iter("error"))
    assert [each.attrib["type"] for each in errors] == ([kind] if kind else [])
    assert [each.attrib["message"] for each in errors] == ([broken.message] if broken else [])
    assert suite.attrib["errors"] == str(len(errors))
    assert len(suite.findall("testcase")) == len(errors) + len(analysis.results)


@pytest.mark.parametrize("broken", [None, MeasurementError("the server is gone")])
@pytest.mark.parametrize(
    ("number", "condition", "ends"),
    [
        (errno.EPIPE, "faster > 1%", 10),
        (errno.ENOSPC, "faster > 1%", 10),
        (errno.EPIPE, "slower > 3%", 0),
        (errno.ENOSPC, "slower > 3%", OSError),
    ],
)
def test_a_campaign_that_cannot_be_printed_is_kept_and_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    condition: str,
    ends: int | type[OSError],
    broken: MeasurementError | None,
) -> None:
    """The reader went away, or the disk is full: files and the exit code are there all the same."""
    path = a_record(tmp_path / "c", speed=1.1)
    gate = Gate(conditions=(condition,), junit=tmp_path / "gate.xml")
    options = RunOptions(
        source="e.yaml", flags=(), seed=1, out=path, dry_run=False, form="text", quiet=True,
        yes=True, gate=gate,
    )  # fmt: skip

    def work(_: object) -> CampaignAnalysis:
        if broken is not None:
            raise broken
        return decided(speed=1.1)

    monkeypatch.setattr(sys, "stdout", Gone(number))
    try:
        _finish(work, path, options)
        ended: object = 0
    except click.exceptions.Exit as error:
        ended = error.exit_code
    except (OSError, MeasurementError) as error:
        ended = OSError if isinstance(error, OSError) else error
    assert ended == (broken or ends)
    assert (path / "report.html").is_file()
    assert (tmp_path / "gate.xml").is_file()


@pytest.mark.parametrize(
    ("text", "message"),
    [(EXPERIMENT.replace("clients: 1", "clients: none"), "clients"), (None, "e.yaml")],
)
def test_what_cannot_begin_is_in_the_junit_file(
    shell: Shell, tmp_path: Path, text: str | None, message: str
) -> None:
    """A file with a mistake, or none: the pipeline shows why instead of an old outcome."""
    (tmp_path / "gate.xml").write_text("old")
    if text is not None:
        (tmp_path / "e.yaml").write_text(text)
    words = ("--gate", "slower > 3%", "--junit", "gate.xml")
    assert shell.run("run", "e.yaml", *words)[0] == 2
    (error,) = ET.parse(tmp_path / "gate.xml").getroot().iter("error")  # noqa: S314 - written by us
    assert message in error.attrib["message"]


def test_a_report_of_a_campaign_that_broke_off_has_its_error(shell: Shell, tmp_path: Path) -> None:
    """Its conditions are undecided for want of an end."""
    stage = Stage.new(an_experiment(speed=1.1), tmp_path / "c")
    with pytest.raises(Killed):
        stage.dying(16, "torn").run()
    words = ("--gate", "slower > 90%", "--junit", "gate.xml")
    assert shell.run("report", "c", *words)[0] == 10
    (error,) = ET.parse(tmp_path / "gate.xml").getroot().iter("error")  # noqa: S314 - written by us
    assert "did not come to its end" in error.attrib["message"]


@pytest.mark.parametrize(("may_write", "code"), [(False, 8), (True, 6)])
def test_a_record_that_may_only_be_read_is_shown(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, may_write: bool, code: int
) -> None:
    """It names no file that was not written, tells the way, and does not say that it is damaged.

    A full disk stays what it was.
    """

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise RecordError(f"{path} may not be written")

    a_campaign(tmp_path / "c")
    monkeypatch.setattr(campaigns, "may_write", lambda _: may_write)
    monkeypatch.setattr(campaigns, "write_text", refuse)
    for words in ((), ("--full",)):
        got, out, err = shell.run("report", "c", "--write", *words, "--gate", "slower > 90%")
        assert (got, "fast" in out) == (code, True)
        assert "report.html" not in out
        assert "gate passed" in err
        assert ("steelyard report c" in err) is not may_write
    got, out, _ = shell.run("report", "c", "--output", "text")
    assert (got, "report.html" in out) == (0, False)


def test_a_report_names_the_page_that_it_wrote(shell: Shell, tmp_path: Path) -> None:
    """Also later, when nothing is written."""
    a_campaign(tmp_path / "c")
    for words in (("--write",), ()):
        code, out, _ = shell.run("report", "c", *words)
        assert (code, "c/report.html" in out) == (0, True)
