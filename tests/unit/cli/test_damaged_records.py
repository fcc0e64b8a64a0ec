"""Records of real campaigns, cut anywhere or with bits turned over, as a reader meets them."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.answers.campaign import analyse
from steelyard.cli.campaigns import rendered
from steelyard.core.wording import ExitCode, RecordError
from steelyard.record.directory import read_campaign
from steelyard.record.journal import RunFinished, read_lines

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


@pytest.mark.parametrize("name", _NAMES)
@_FEW
@given(data=st.data())
def test_turned_bits_are_told_or_cost_the_last_line_alone(name: str, data: st.DataObject) -> None:
    """Several bits anywhere: an error with its line, or nothing but the end is lost."""
    damaged = bytearray(_journal(name))
    places = st.integers(0, len(damaged) - 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=3, unique=True)):
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    found = _told(bytes(damaged))
    if isinstance(found, RecordError):
        assert "is damaged at line" in found.message
        assert found.hint
    else:
        assert found == _runs(name)


def _told(content: bytes) -> list[str] | RecordError:
    try:
        return _reported(content)
    except RecordError as error:
        return error


@cache
def _runs(name: str) -> list[str]:
    lines, _ = read_lines(_EXAMPLES / name / "journal.jsonl")
    return [repr(line.entry.run) for line in lines if isinstance(line.entry, RunFinished)]
