"""The journal as it is meant: what was appended is read back, and time adds up."""

import json
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_entries import KINDS, a_story, any_of, write_journal

from fakes.clock import FakeClock
from steelyard.record.journal import Ended, Entry, Journal, Started, encode, read_lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(content=st.data())
def test_every_kind_of_entry_comes_back_equal(kind: type, content: st.DataObject) -> None:
    """Whatever an entry of a kind holds, the journal gives it back, type and all."""
    entry = content.draw(any_of(kind))
    with TemporaryDirectory() as folder:
        path = Path(folder, "journal.jsonl")
        write_journal(path, [entry])
        (line,), _ = read_lines(path)
    assert line.entry == entry
    assert type(line.entry) is kind


def test_lines_come_back_in_order_with_time(tmp_path: Path) -> None:
    """Number, wall clock and seconds of work of every line are as they were written."""
    clock = FakeClock(wall=1000.0)
    write_journal(tmp_path / "j", a_story(), clock)
    lines, size = read_lines(tmp_path / "j")
    assert [line.entry for line in lines] == list(a_story())
    assert [line.sequence for line in lines] == list(range(len(lines)))
    assert [line.at for line in lines] == [1001.0 + n for n in range(len(lines))]
    assert [line.elapsed_s for line in lines] == [1.0 + n for n in range(len(lines))]
    assert size == (tmp_path / "j").stat().st_size


def test_append_returns_what_is_on_disk(tmp_path: Path) -> None:
    """The acknowledged line is the stored line, and it is on disk when append returns."""
    journal = Journal(tmp_path / "j", FakeClock())
    for entry in a_story():
        line = journal.append(entry)
        assert (tmp_path / "j").read_bytes().endswith(encode(line))
    journal.close()
    journal.close()


def test_elapsed_time_is_of_work_and_adds_up_over_sessions(tmp_path: Path) -> None:
    """The pause between a death and a resume does not count against the budget."""
    clock = FakeClock()
    write_journal(tmp_path / "j", a_story(), clock)
    clock.advance(86_400.0)
    journal = Journal(tmp_path / "j", clock)
    assert journal.elapsed_s == len(a_story())
    clock.advance(2.5)
    line = journal.append(a_story()[-1])
    journal.close()
    assert line.elapsed_s == len(a_story()) + 2.5
    assert line.sequence == len(a_story())


def test_a_stepped_wall_clock_does_not_touch_elapsed_time(tmp_path: Path) -> None:
    """The budget runs on the clock that never jumps."""
    clock = FakeClock()
    journal = Journal(tmp_path / "j", clock)
    clock.step_wall(-3600.0)
    clock.advance(1.0)
    assert journal.append(a_story()[0]).elapsed_s == 1.0
    journal.close()


def test_an_absent_journal_is_begun(tmp_path: Path) -> None:
    """Opening a new one leaves an empty file without lines."""
    Journal(tmp_path / "j", FakeClock()).close()
    assert read_lines(tmp_path / "j") == ((), 0)


@given(entries=st.lists(st.sampled_from(a_story()), max_size=6), splits=st.integers(0, 6))
def test_sessions_leave_one_journal(entries: list[Entry], splits: int) -> None:
    """However often it was closed and opened again, it reads as if it had been written in one."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "j")
        for part in (entries[:splits], entries[splits:]):
            write_journal(path, part)
        lines, _ = read_lines(path)
    assert [line.entry for line in lines] == entries


def test_entries_are_one_line_of_json_each(tmp_path: Path) -> None:
    """Newlines in texts do not break lines: tools that read line by line can follow."""
    content = write_journal(tmp_path / "j", a_story())
    assert content.count(b"\n") == len(a_story())
    assert content.endswith(b"}\n")
    assert isinstance(read_lines(tmp_path / "j")[0][-1].entry, Ended)


@pytest.mark.parametrize("policy", [None, "histograms", "keep", "off"])
def test_a_campaign_of_a_version_without_logs_goes_on_without(
    tmp_path: Path, policy: str | None
) -> None:
    """Later blocks are logged only where earlier ones were; what a journal says is kept."""
    content = write_journal(tmp_path / "new.jsonl", a_story()[:1])
    body = json.loads(content)
    measure = body["entry"]["experiment"]["measure"]
    measure.pop("log")
    if policy is not None:
        measure["log"] = policy
    del body["crc32"]
    text = json.dumps(body, separators=(",", ":"))[:-1]
    line = f'{text},"crc32":"{zlib.crc32(text.encode()):08x}"}}\n'
    (tmp_path / "journal.jsonl").write_text(line)
    (started,), _ = read_lines(tmp_path / "journal.jsonl")
    assert isinstance(started.entry, Started)
    assert started.entry.experiment.measure.log == (policy or "off")
