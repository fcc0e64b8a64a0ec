"""Records of real campaigns, cut anywhere, as a reader meets them."""

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
