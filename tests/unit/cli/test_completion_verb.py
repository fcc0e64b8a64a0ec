"""Completion: the scripts, and what they offer; man pages: one for each verb, without warnings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import Shell, a_campaign

from steelyard.cli.main import cli
from steelyard.cli.man import page, verbs

_ASK = "from steelyard.cli.main import cli; cli.main(prog_name='steelyard')"


def offered(*words: str) -> list[str]:
    """Return what the shell is offered for the last of the words, by the program itself."""
    told = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={
            **os.environ,
            "_STEELYARD_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("steelyard", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.partition(",")[2] for line in told.stdout.splitlines() if line]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: Shell, shell_name: str) -> None:
    """The script asks the program by the variable that it listens to."""
    code, out, _ = shell.run("completion", shell_name)
    assert code == 0
    assert f"_STEELYARD_COMPLETE={shell_name}_complete" in out


def test_bash_takes_the_script(shell: Shell) -> None:
    """Bash reads it, and knows the function of the command afterwards."""
    _, script, _ = shell.run("completion", "bash")
    told = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p steelyard; echo $COMP_WORDBREAKS"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_steelyard_completion" in told.stdout
    assert ":" not in told.stdout.splitlines()[-1]


@pytest.mark.slow
def test_verbs_presets_campaigns_cells_and_configurations_are_offered(shell: Shell) -> None:
    """What a person would type next, from what is there."""
    a_campaign(Path("campaigns/one"))
    assert {"report", "redis"} <= {*offered("re")}
    assert "preset:quick" in offered("run", "preset:qu")
    assert offered("report", "campaigns/") == ["campaigns/one"]
    assert "fast" in offered("compare", "campaigns/one", "")
    cells = offered("explain", "campaigns/one", "--cell", "")
    assert cells
    assert any("/" in cell for cell in cells)


def test_what_is_not_there_is_no_error(shell: Shell) -> None:
    """A word that names no campaign offers directories, and no cells."""
    assert offered("report", "elsewhere") == ["elsewhere"]
    assert offered("explain", "elsewhere", "--cell", "") == []


def test_there_is_a_man_page_for_every_verb(shell: Shell) -> None:
    """Also for verbs below verbs; every option is in its page."""
    code, _, err = shell.run("man", "man1")
    assert (code, err) == (0, "")
    written = {path.name for path in Path("man1").iterdir()}
    assert {"steelyard.1", "steelyard-run.1", "steelyard-stack-plan.1"} <= written
    for words, verb in verbs(cli, ("steelyard",)):
        text = Path("man1", f"{'-'.join(words)}.1").read_text("utf-8")
        for option in verb.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0].replace("-", "\\-") in text, (words, option.name)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_man_pages_have_no_warnings() -> None:
    """Groff reads each with all warnings on, and says nothing; the text is readable."""
    pages = [page(words, verb) for words, verb in verbs(cli, ("steelyard",))]
    told = subprocess.run(
        ["groff", "-man", "-ww", "-Kutf8", "-Tutf8"],  # noqa: S607
        input="".join(pages),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stderr == ""
    assert "--budget" in told.stdout
