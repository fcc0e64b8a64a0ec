"""Help, completion and man pages: complete, correct, and without imports that make them slow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import Shell, a_campaign

import steelyard
from steelyard.cli.grouping import GROUPS, LongCommand
from steelyard.cli.main import _VERBS, cli
from steelyard.cli.man import page, verbs

_HEAVY = (
    *("numpy", "scipy", "pydantic", "pyarrow", "rich", "psycopg", "jinja2", "ruamel", "altair"),
    *("lightkube", "httpx2", "websocket"),
)
_IMPORTS = """
import sys
from steelyard.cli.main import cli
try:
    cli.main(sys.argv[2:], standalone_mode=False)
finally:
    heavy = sorted(set(sys.argv[1].split(",")) & set(sys.modules))
    print("IMPORTED", ",".join(heavy))
"""


@pytest.mark.parametrize("verb", [*_VERBS])
def test_every_verb_has_help_with_its_options(shell: Shell, verb: str) -> None:
    """Each option and argument is explained; asking for help is no error."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    is_long = isinstance(command, LongCommand)
    code, out, _ = shell.run(verb, "--help-all" if is_long else "--help")
    assert code == 0
    assert f"steelyard {verb}" in out.splitlines()[0]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, option.name
            assert option.opts[0] in out


def test_the_usual_options_of_a_long_verb_fit_a_screen(shell: Shell) -> None:
    """Twelve lines, one for each, and where the others are; no option is in two groups."""
    shell.monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = shell.run("run", "--help")
    options = out.partition("Options:\n")[2].partition("\n\n")[0].splitlines()
    assert len(options) == 13
    assert options[-1].split(maxsplit=1) == ["--help-all", "Show all options, in groups."]
    names = " ".join(GROUPS.values()).split()
    assert len(names) == len({*names})


def test_an_option_beyond_the_usual_is_in_a_group() -> None:
    """Else `--help-all` would not show it."""
    grouped = " ".join(GROUPS.values()).split()
    long = [verb for _, verb in verbs(cli, ("steelyard",)) if isinstance(verb, LongCommand)]
    assert len(long) == 7
    for verb in long:
        for option in verb.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1].removeprefix("--") in grouped, verb.name


def test_a_verb_with_many_options_has_groups() -> None:
    """From 16 options on, a list is too long to look through."""
    for words, verb in verbs(cli, ("steelyard",)):
        assert isinstance(verb, LongCommand) or len(verb.params) <= 16, words


def test_help_needs_no_heavy_import() -> None:
    """Numbers, tables and drivers are imported by the verb that needs them."""
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTS, ",".join(_HEAVY), "run", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[-1].strip() == "IMPORTED"


_ALL = """
import sys
import click
from steelyard.cli.main import cli
def load(group):
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        if isinstance(found, click.Group):
            load(found)
load(cli)
print(*sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


def test_no_verb_is_declared_beside_what_is_slow_to_import() -> None:
    """The help of each verb is as fast as that of all, also below groups."""
    words = [sys.executable, "-c", _ALL, ",".join(_HEAVY)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


def test_what_computes_no_statistics_imports_no_distributions(tmp_path: Path) -> None:
    """They come with the first number that is asked of them."""
    listing = ["list", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTS, "scipy,numpy", *listing],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "IMPORTED numpy"


def test_the_import_check_would_see_one() -> None:
    """The check above is not blind: a verb that needs numbers shows them."""
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTS, ",".join(_HEAVY), "schema"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pydantic" in ended.stdout.splitlines()[-1]


def test_the_module_can_be_run() -> None:
    """``python -m steelyard`` is the command."""
    ended = subprocess.run(
        [sys.executable, "-m", "steelyard", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()[-1]) == (0, steelyard.__version__)


@pytest.mark.parametrize(
    "trial",
    [
        ["--set", "random_page_cost"],
        ["--dsn", "host=/nowhere", "--set", "random_page_cost=1.1"],
        ["--dsn", "postgresql://localhost/shop?schema=public", "--set", "jit=off"],
    ],
)
def test_a_refused_trial_imports_no_report(trial: list[str]) -> None:
    """Who mistyped an option hears of it within a second: charts and sections are not loaded."""
    heavy = "scipy,pyarrow,jinja2,altair,kubernetes,boto3,redis,steelyard.answers.report"
    words = [sys.executable, "-c", _IMPORTS, heavy, "try", *trial, "--dry-run"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode
    assert ended.stdout.splitlines()[-1].strip() == "IMPORTED"


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
    assert {"report"} <= {*offered("re")}
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
