"""Verbs that need no server: report, presets, schema, clean."""

import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import Shell, a_campaign

from fakes.campaigns import CAMPAIGN_ID, Killed, Stage, an_experiment
from steelyard.campaign.file.files import preset_names
from steelyard.cli import main as entry
from steelyard.cli.main import LazyGroup
from steelyard.core.wording import ExitCode, Interrupted, LeftBehindError, PrivilegeError
from steelyard.gateways.files import holding_cache

_TABLES = tuple(f"{name}.parquet" for name in ("runs", "intervals", "waits", "counters", "host"))
_DERIVED = ("report.html", "report.md", "summary.json", *_TABLES)


@pytest.mark.slow
def test_a_report_is_rebuilt_from_the_record_alone(shell: Shell) -> None:
    """The derived files are written anew, and repeated they are the same to the byte."""
    path = a_campaign(Path("one"))
    code, out, _ = shell.run("report", "one", "--write")
    assert code == 0
    assert "faster" in out
    first = {name: (path / name).read_bytes() for name in _DERIVED}
    for name in _DERIVED:
        (path / name).unlink()
    assert shell.run("report", "one", "--write") == (0, out, "")
    assert {name: (path / name).read_bytes() for name in _DERIVED} == first


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_form_is_printed_and_nothing_written(shell: Shell, form: str) -> None:
    """For pipes: the record's directory stays as it was."""
    path = a_campaign(Path("one"))
    before = sorted(entry.name for entry in path.iterdir())
    code, out, err = shell.run("report", "one", "--output", form)
    assert (code, err) == (0, "")
    assert out
    assert sorted(entry.name for entry in path.iterdir()) == before


def test_the_newest_campaign_is_the_default(shell: Shell) -> None:
    """The campaign that began last below campaigns/; standard error names it."""
    for words in (("report",), ("show",), ("explain",)):
        code, _, err = shell.run(*words)
        assert code == 2
        assert "no campaign below campaigns/" in err
    newest = a_campaign(Path("campaigns/b"))
    older = Path(shutil.copytree(newest, "campaigns/a"))
    journal = older / "journal.jsonl"
    at = json.loads(journal.read_text().splitlines()[0])["at"]
    journal.write_text(journal.read_text().replace(f"{at}", f"{at - 60}", 1))
    shutil.copytree(newest, "campaigns/c")
    Path("campaigns/c/journal.jsonl").write_text("damaged")
    for words in (("report", "-o", "json"), ("show",), ("explain",)):
        code, out, err = shell.run(*words)
        assert (code, err) == (0, "the newest campaign: campaigns/b\n")
        assert shell.run(*words, "campaigns/b")[1] == out


def test_the_default_form_is_that_of_the_terminal(shell: Shell) -> None:
    """The first screen either way, everything with --full; tables of data have no more to show."""
    a_campaign(Path("one"))
    screen, whole = (shell.run("report", "one", *full)[1] for full in ((), ("--full",)))
    assert shell.run("report", "one", "--output", "text")[1] == screen
    assert shell.run("report", "one", "--output", "text", "--full")[1] == whole
    assert "steelyard report --full one (everything)" in screen
    assert len(whole.splitlines()) > len(screen.splitlines())
    for form, mark in (("markdown", "### Machine, tools"), ("html", " open>")):
        printed = (shell.run("report", "one", "-o", form, *full)[1] for full in ((), ("--full",)))
        assert [mark in text for text in printed] == [False, True]
    code, _, err = shell.run("report", "one", "--output", "csv", "--full")
    assert code == 2
    assert "--full is for text, markdown and html" in err


def widest(text: str) -> int:
    """Return the length of the longest line."""
    return max(len(line) for line in text.splitlines())


@pytest.mark.slow
def test_columns_say_the_width_in_a_pipe(shell: Shell) -> None:
    """Of the report, of its terminal form and of a list; without them there is a usual width."""
    a_campaign(Path("one"))
    for words in (("report", "one"), ("report", "one", "--output", "text"), ("list", ".")):
        shell.monkeypatch.delenv("COLUMNS", raising=False)
        _, usual, _ = shell.run(*words)
        shell.monkeypatch.setenv("COLUMNS", "60")
        _, narrow, _ = shell.run(*words)
        assert widest(narrow) <= 60 < widest(usual)
        assert "\x1b" not in usual + narrow


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [False, True])
def test_the_terminal_form_is_that_of_the_terminal(tmp_path: Path, *, quiet: bool) -> None:
    """As wide as it is, and in colour unless NO_COLOR says otherwise."""
    a_campaign(tmp_path / "one")
    command = [sys.executable, "-m", "steelyard", "report", "one", "--output", "text"]
    unset = ("COLUMNS", "NO_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 72))
    with subprocess.Popen(
        command, stdout=theirs, cwd=tmp_path, env=environment | ({"NO_COLOR": "1"} if quiet else {})
    ) as process:
        os.close(theirs)
        text = "".join(_shown(ours))
    os.close(ours)
    assert process.returncode == 0
    assert ("\x1b[1;32mfaster\x1b[0m" in text) is not quiet
    assert 60 < widest(re.sub(r"\x1b\[[0-9;]*m", "", text)) <= 72


def _shown(terminal: int) -> Iterator[str]:
    """Yield what a program shows until it closes the terminal."""
    with os.fdopen(os.dup(terminal), encoding="utf-8", newline="") as stream, suppress(OSError):
        yield from stream


def test_the_json_form_is_the_summary(shell: Shell) -> None:
    """It parses, carries its format, and is what stands in summary.json."""
    path = a_campaign(Path("one"))
    _, out, _ = shell.run("report", "one", "--output", "json")
    summary = json.loads(out)
    assert summary["format"] == 2
    assert summary["comparisons"][0]["verdict"] == "faster"
    assert {cell["configuration"] for cell in summary["cells"]} == {"slow", "fast"}
    shell.run("report", "one", "--write")
    assert (path / "summary.json").read_text() == out


def test_an_unfinished_campaign_can_be_reported(shell: Shell) -> None:
    """What there is after a death is shown; the record is not touched."""
    stage = Stage.new(an_experiment(), Path("one")).dying(20, "torn")
    with pytest.raises(Killed):
        stage.run()
    before = Path("one", "journal.jsonl").read_bytes()
    code, out, _ = shell.run("report", "one")
    assert code == 0
    assert out
    assert Path("one", "journal.jsonl").read_bytes() == before


def test_presets_are_listed_and_printed(shell: Shell) -> None:
    """Every preset has a line, and is printed as an experiment file, with or without prefix."""
    _, listing, _ = shell.run("presets")
    for name in preset_names():
        assert any(line.startswith(f"{name} ") for line in listing.splitlines())
        code, text, _ = shell.run("presets", name)
        assert code == 0
        assert "version: 1" in text
        assert shell.run("presets", f"preset:{name}")[1] == text


def test_the_schema_is_json(shell: Shell) -> None:
    """Editors can read it."""
    code, out, _ = shell.run("schema")
    assert code == 0
    assert json.loads(out)["type"] == "object"


def _leave_something(path: Path) -> Path:
    """Return a live directory that a dead campaign left behind."""
    stage = Stage.new(an_experiment(), path).dying(4, "before")
    with pytest.raises(Killed):
        stage.run()
    live = path.with_name(f"{path.name}-outside") / "live" / "fake-1"
    live.mkdir(parents=True, exist_ok=True)
    (live / "table").write_text("rows")
    return live


def test_clean_says_when_there_is_nothing(shell: Shell) -> None:
    """On a fresh machine nothing was left, and nothing is asked."""
    assert shell.run("clean") == (0, "No campaign has left anything behind.\n", "")


@pytest.mark.parametrize("named", [True, False])
def test_clean_removes_what_a_death_left(shell: Shell, *, named: bool) -> None:
    """All campaigns that ran, or those named; the record itself stays."""
    live = _leave_something(Path("one").absolute())
    words = ["one"] if named else []
    code, out, _ = shell.run("clean", *words, "--dry-run")
    assert code == 0
    assert f"{CAMPAIGN_ID} (" in out
    assert str(live) in out
    assert live.exists()
    code, out, _ = shell.run("clean", *words, "--yes")
    assert (code, out.splitlines()[-1]) == (0, "Removed.")
    assert not live.exists()
    assert Path("one", "journal.jsonl").exists()
    assert shell.run("clean")[1] == "No campaign has left anything behind.\n"


def test_clean_says_what_stands_still(shell: Shell) -> None:
    """A server that was paused when its campaign died, and that nobody is there to continue."""
    live = _leave_something(Path("one").absolute())
    # Beside a shell's other work SIGQUIT is ignored, by children as well.
    heeding = ["env", "--default-signal=QUIT", "sleep", "60"]
    server = subprocess.Popen(heeding, cwd=live)
    try:
        code, out, _ = shell.run("clean", "--dry-run")
        assert (code, f"  process {server.pid}" in out.splitlines()) == (0, True)
        server.send_signal(signal.SIGSTOP)
        os.waitpid(server.pid, os.WUNTRACED)
        code, out, _ = shell.run("clean", "--dry-run")
        assert (code, f"  process {server.pid} (stopped)" in out.splitlines()) == (0, True)
        assert shell.run("clean", "--yes")[0] == 0
        assert server.wait(20) == -signal.SIGQUIT
    finally:
        server.kill()
        server.wait()


def test_clean_asks_before_it_removes(shell: Shell) -> None:
    """Without an answer nothing is removed, and the exit code says it was broken off."""
    live = _leave_something(Path("one").absolute())
    shell.monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, _ = shell.run("clean")
    assert code == ExitCode.INTERRUPTED
    assert live.exists()


def test_clean_removes_the_cache_on_request_alone(shell: Shell, tmp_path: Path) -> None:
    """Prepared data are kept until they are asked for by name."""
    prepared = tmp_path / "cache" / "prepared" / "abc"
    prepared.mkdir(parents=True)
    (prepared / "data").write_text("x")
    shell.run("clean", "--yes")
    shell.run("clean", "--cache", "--dry-run", "--yes")
    assert prepared.exists()
    code, out, _ = shell.run("clean", "--cache", "--yes")
    assert code == 0
    assert "prepares its data anew" in out
    assert not prepared.exists()


def test_clean_leaves_the_cache_to_a_campaign_that_has_just_begun(
    shell: Shell, tmp_path: Path
) -> None:
    """It is in no registry yet when `clean` looks for those that run."""
    prepared = tmp_path / "cache" / "prepared" / "abc"
    prepared.mkdir(parents=True)
    with holding_cache():
        code, _, err = shell.run("clean", "--cache", "--yes")
    assert code == 3
    assert "a campaign that has just begun uses the cache" in err
    assert prepared.exists()


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (LeftBehindError("m", hint="h"), 7, "error: m\nhint: h\n"),
        (PrivilegeError("m"), 8, "error: m\n"),
        (Interrupted("m"), 130, "stopped: m\n"),
    ],
)
def test_every_failure_is_its_exit_code_and_a_sentence(
    shell: Shell, error: Exception, code: int, word: str
) -> None:
    """Errors are told in one place, whichever verb raises them."""

    def fail(*_: object) -> None:
        raise error

    shell.monkeypatch.setattr(LazyGroup, "get_command", fail)
    assert shell.run("run") == (code, "", word)


def test_ctrl_c_anywhere_is_exit_code_130(shell: Shell) -> None:
    """Also where no campaign runs."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    shell.monkeypatch.setattr(LazyGroup, "get_command", interrupted)
    assert shell.run("schema")[0] == ExitCode.INTERRUPTED


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_traceback(closed: str) -> None:
    """Python has no object for it then; the exit code is that of the verb."""
    command = f"{sys.executable} -m steelyard presets {closed}"
    ended = subprocess.run(  # noqa: S602 - our own words
        command, shell=True, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-", "<&- >&- 2>&-", ">&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path, closed: str) -> None:
    """Libraries print there, whatever it is: a journal would be damaged."""
    code = (
        "import os, sys; from steelyard.cli import main as verbs;"
        " verbs._outcome = lambda: os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT); verbs.main()"
    )
    command = f'{sys.executable} -c "{code}" {tmp_path / "journal"} {closed}'
    ended = subprocess.run(command, shell=True, capture_output=True, check=False)  # noqa: S602 - our own words
    assert ended.returncode > 2


def test_an_error_that_cannot_be_told_has_its_exit_code() -> None:
    """The disk that takes the messages is full, or whoever read them is gone."""
    command = f"{sys.executable} -m steelyard nonsense 2>/dev/full"
    ended = subprocess.run(command, shell=True, capture_output=True, check=False)  # noqa: S602 - our own words
    assert ended.returncode == ExitCode.BAD_INPUT


def test_a_second_signal_does_not_disturb_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one raises in order; from then on all three are ignored."""
    handlers: dict[int, object] = {}
    monkeypatch.setattr(entry.signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(entry.sys, "unraisablehook", entry.sys.unraisablehook)
    monkeypatch.setattr(entry.signal, "getsignal", lambda _: entry.signal.SIG_DFL)
    entry._stop_in_order()
    assert set(handlers) == {entry.signal.SIGINT, entry.signal.SIGTERM, entry.signal.SIGHUP}
    stop = handlers[entry.signal.SIGTERM]
    assert callable(stop)
    with pytest.raises(Interrupted, match="SIGTERM"):
        stop(entry.signal.SIGTERM, None)
    assert set(handlers.values()) == {entry.signal.SIG_IGN}


def test_what_is_ignored_on_purpose_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under nohup a hang-up ends nothing: only the others are taken."""
    handlers: dict[int, object] = {}
    before = {entry.signal.SIGHUP: entry.signal.SIG_IGN}
    monkeypatch.setattr(entry.signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(entry.sys, "unraisablehook", entry.sys.unraisablehook)
    monkeypatch.setattr(entry.signal, "getsignal", before.get)
    entry._stop_in_order()
    assert set(handlers) == {entry.signal.SIGINT, entry.signal.SIGTERM}
