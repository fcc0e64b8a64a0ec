"""Records of real campaigns, cut anywhere, as a reader meets them."""

import json
import shutil
import zlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from command_line import Shell
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.answers.campaign import analyse
from steelyard.cli.campaigns import rendered
from steelyard.core.wording import ExitCode, RecordError
from steelyard.record.directory import read_campaign

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
        for form in ("terminal", "markdown", "json"):
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
    code, _, err = shell.run("report", str(path))
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
    code, _, err = shell.run("report", str(path))
    assert code == ExitCode.RECORD, err
    assert "Traceback" not in err
