"""Progress: plain lines elsewhere than on a terminal, a closing table on one."""

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from command_line import a_campaign
from rich.console import Console

from fakes.campaigns import Stage, an_experiment
from fakes.servers import generator_fails
from steelyard.answers.campaign import analyse
from steelyard.campaign.run.runner import Progress
from steelyard.cli.progress import (
    LiveProgress,
    PlainProgress,
    interval_text,
    progress_for,
    standing,
)
from steelyard.core.campaign import BlockOutcome
from steelyard.record.directory import read_campaign


def _watched(path: Path, progress: Progress) -> None:
    """Run a campaign with a block that is redone, told to a listener."""
    stage = Stage.new(an_experiment(loads=2), path)
    stage.world.faults = {1: generator_fails}
    campaign = stage.campaign()
    campaign.progress = progress
    campaign.run()
    stage.directory.close()


def test_plain_progress_is_lines_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is frozen, every look with its interval, and why a block is redone."""
    with PlainProgress() as progress:
        _watched(tmp_path / "one", progress)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert any("starting every configuration once ..." in line for line in lines)
    assert any("warm-up 2.0 s (declared)" in line for line in lines)
    assert any("block 1 is redone: the generator exited with 2" in line for line in lines)
    looks = [line for line in lines if line.strip().startswith("block ") and " of " in line]
    assert "no interval yet" in looks[0]
    assert "interim: faster" in looks[-1]
    assert not [line for line in looks if "faster" in line and "interim" not in line]
    assert "\x1b" not in err


def test_live_progress_draws_and_leaves_what_was_redone() -> None:
    """On a terminal the table is drawn anew; a block that is redone leaves its line."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with TemporaryDirectory() as folder, LiveProgress(console) as progress:
        _watched(Path(folder, "one"), progress)
    drawn = stream.getvalue()
    assert "block 1 is redone" in drawn
    assert "95 % interval" in drawn
    assert "pooled" in drawn
    assert "faster" in drawn


def test_words_of_a_generator_are_shown_as_they_are() -> None:
    """Brackets in them are no markup: not swallowed, and nothing that ends a campaign."""
    stream = io.StringIO()
    said = "the generator exited with 1: [local] no such file [/tmp/x]"
    with LiveProgress(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress.block_ended(BlockOutcome(index=0, attempt=0, complete=False, reason=said))
    assert said in stream.getvalue()


def test_a_pipe_gets_lines_and_a_terminal_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream decides."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert isinstance(progress_for(io.StringIO()), PlainProgress)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(progress_for(io.StringIO()), LiveProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_for(io.StringIO()), PlainProgress)


def test_silence_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--quiet`` is quiet."""
    with Progress() as progress:
        _watched(tmp_path / "one", progress)
    assert capsys.readouterr() == ("", "")


def test_a_standing_is_one_phrase(tmp_path: Path) -> None:
    """Workload, configuration, effect, interval and verdict."""
    analysis = analyse(read_campaign(a_campaign(tmp_path / "one")))
    (result,) = analysis.results
    assert interval_text(result).startswith("[+")
    phrase = standing(result)
    assert phrase.startswith("reads, fast: +")
    assert phrase.endswith("faster")
