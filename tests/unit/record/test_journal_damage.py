"""The journal as it is meant, and after deaths, full disks and bad sectors."""

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_entries import KINDS, a_story, any_of, write_journal

from fakes.clock import FakeClock
from steelyard.core.wording import ExitCode, RecordError
from steelyard.record import journal as journals
from steelyard.record.journal import Ended, Entry, Journal, encode, read_lines


def _entries(path: Path) -> list[Entry]:
    return [line.entry for line in read_lines(path)[0]]


def _story_bytes() -> bytes:
    with TemporaryDirectory() as folder:
        return write_journal(Path(folder, "j"), a_story())


_CONTENT = _story_bytes()
_LAST_LINE = _CONTENT.rindex(b"\n", 0, -1) + 1


@pytest.mark.parametrize("cut", range(_LAST_LINE, len(_CONTENT)))
def test_a_tear_at_any_byte_of_the_last_line_loses_that_line_alone(
    tmp_path: Path, cut: int
) -> None:
    """All lines before are read; the next append stands where the torn one did."""
    path = tmp_path / "j"
    path.write_bytes(_CONTENT[:cut])
    assert _entries(path) == list(a_story()[:-1])
    journal = Journal(path, FakeClock())
    journal.append(a_story()[1])
    journal.append(a_story()[-1])
    journal.close()
    assert _entries(path) == [*a_story()[:-1], a_story()[1], a_story()[-1]]


@given(cut=st.integers(0, len(_CONTENT)))
def test_a_tear_anywhere_leaves_a_prefix(cut: int) -> None:
    """A file cut at any byte is the lines that were whole."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "j")
        path.write_bytes(_CONTENT[:cut])
        assert _entries(path) == list(a_story()[: _CONTENT[:cut].count(b"\n")])


def _read(content: bytes) -> list[Entry] | RecordError:
    """Return the entries in a journal of these bytes, or the error that it is."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "j")
        path.write_bytes(content)
        try:
            return _entries(path)
        except RecordError as error:
            return error


def _assert_error_or_last_line_lost(content: bytes) -> None:
    found = _read(content)
    if isinstance(found, RecordError):
        assert "is damaged at line" in found.message
        assert found.hint
    else:
        assert found in (list(a_story()), list(a_story()[:-1]))


@given(place=st.integers(0, len(_CONTENT) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_an_error_or_costs_the_last_line(place: int, bit: int) -> None:
    """No bit that turns over lets a wrong entry pass or takes an acknowledged line in silence."""
    damaged = bytearray(_CONTENT)
    damaged[place] ^= 1 << bit
    _assert_error_or_last_line_lost(bytes(damaged))


@pytest.mark.parametrize(
    "place", [i for i, byte in enumerate(_CONTENT) if byte == 0x0A], ids=lambda i: f"byte-{i}"
)
def test_a_damaged_newline_does_not_hide_two_lines(place: int) -> None:
    """Lines that were merged are an error; only the very last newline costs one line."""
    damaged = bytearray(_CONTENT)
    damaged[place] = 0x0B
    _assert_error_or_last_line_lost(bytes(damaged))


@given(
    start=st.integers(0, len(_CONTENT)), length=st.integers(1, 600), patch=st.binary(max_size=40)
)
def test_overwritten_bytes_are_an_error_or_cost_the_last_line(
    start: int, length: int, patch: bytes
) -> None:
    """A stretch that was lost or overwritten never becomes other entries."""
    found = _read(_CONTENT[:start] + patch + _CONTENT[start + length :])
    assert isinstance(found, RecordError) or found == list(a_story()[: len(found)])


class _PassingClock(FakeClock):
    """A clock that lets other threads go first."""

    def now(self) -> float:
        """Return the time, a moment later."""
        time.sleep(0.001)
        return super().now()


def test_servers_that_start_side_by_side_lose_no_line(tmp_path: Path) -> None:
    """Several threads note what they make: each line has its own place and number."""
    path = tmp_path / "j"
    journal = Journal(path, _PassingClock())
    entries = a_story() * 4
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(journal.append, entries))
    journal.close()
    lines, _ = read_lines(path)
    assert sorted(written, key=lambda line: line.sequence) == list(lines)
    assert len(lines) == len(entries)


def test_a_line_of_another_format_is_said_to_be_so(tmp_path: Path) -> None:
    """A record of another version is not taken for damage."""
    path = tmp_path / "j"
    body = b'{"format":1,"sequence":0,"at":1.0,"elapsed_s":1.0,"entry":{}'
    tail = journals._CHECKSUM.format(journals.zlib.crc32(body)).encode()
    path.write_bytes(body + tail + b"\n")
    with pytest.raises(
        RecordError, match="is a record of format 1, and this version of Steelyard reads 2"
    ):
        read_lines(path)


def test_a_missing_line_is_an_error(tmp_path: Path) -> None:
    """Lines are numbered: one that was taken out is missed."""
    lines = _CONTENT.splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(RecordError, match="line 3: it is number 3, expected 2"):
        read_lines(tmp_path / "j")


class _Interruption(BaseException):
    """What a signal handler raises in the middle of anything."""


@pytest.mark.parametrize("step", ["ftruncate", "write", "fsync"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_append_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool
) -> None:
    """Ctrl-C before or after any step of an append: the next one stands where it would have."""
    journal = Journal(tmp_path / "j", FakeClock())
    journal.append(a_story()[0])
    real = getattr(os, step)

    def interrupted(*arguments: object) -> object:
        if after:
            real(*arguments)
        raise _Interruption

    with monkeypatch.context() as patched:
        patched.setattr(os, step, interrupted)
        with pytest.raises(_Interruption):
            journal.append(a_story()[1])
    journal.append(a_story()[-1])
    journal.close()
    assert _entries(tmp_path / "j") == [a_story()[0], a_story()[-1]]


_FILL = """
import resource, signal, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from fakes.clock import FakeClock
from sample_entries import a_story
from steelyard.core.wording import RecordError
from steelyard.record.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = 4000
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
journal = Journal(Path(sys.argv[1]), FakeClock())
acknowledged = 0
try:
    while True:
        journal.append(a_story()[acknowledged % 12])
        acknowledged += 1
except RecordError as error:
    print(acknowledged, error.exit_code, error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (2 * limit, hard))
journal.append(a_story()[-1])
"""


def test_a_full_file_is_a_record_error_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """A write that fits only in part is cut off again; what follows it can be read."""
    path = tmp_path / "j"
    tests = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", _FILL, str(path), str(tests), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    acknowledged, code, message = ended.stdout.split(" ", 2)
    assert int(code) == ExitCode.RECORD
    assert "File too large" in message
    entries = _entries(path)
    assert len(entries) == int(acknowledged) + 1
    assert entries[-1] == a_story()[-1]


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that fits only in part says where there is no space, and is cut off by the next."""
    journal = Journal(tmp_path / "j", FakeClock())
    real = os.write
    room = [100]

    def full(descriptor: int, content: memoryview) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, content[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(RecordError, match="no space is left on the device") as caught:
            journal.append(a_story()[0])
    assert str(tmp_path / "j") in caught.value.message
    assert (tmp_path / "j").stat().st_size == 100
    journal.append(a_story()[0])
    journal.close()
    assert _entries(tmp_path / "j") == [a_story()[0]]


def test_a_journal_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    """A directory in its place, or nothing at all, is no traceback."""
    with pytest.raises(RecordError):
        read_lines(tmp_path)
    with pytest.raises(RecordError, match="No such file"):
        read_lines(tmp_path / "absent")


def test_no_journal_grows_beyond_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that does not fit is refused with the way out; the end still fits, and all is read."""
    path = tmp_path / "j"
    story = a_story()
    with monkeypatch.context() as limited:
        limited.setattr(journals, "_LARGEST_BYTES", 16_000)
        limited.setattr(journals, "_ROOM_FOR_THE_END", 2_000)
        journal = Journal(path, FakeClock())
        journal.append(story[0])
        written = 1
        while path.stat().st_size < 13_500:
            journal.append(story[3])
            written += 1
        with pytest.raises(RecordError, match="is full: a journal has at most") as refused:
            journal.append(story[3])
        journal.append(story[-2])
        journal.append(story[-1])
        journal.close()
        assert "steelyard report" in refused.value.hint
        assert path.stat().st_size <= 16_000
        entries = _entries(path)
    assert written > 3
    assert entries == [story[0], *[story[3]] * (written - 1), *story[-2:]]


def test_a_journal_of_two_gibibytes_takes_no_more(tmp_path: Path) -> None:
    """Of a file with holes: the limit is that of the reader, and nothing is written beyond it."""
    journal = Journal(tmp_path / "j", FakeClock())
    first = journal.append(a_story()[0])
    journal._next = (first.sequence + 1, journals._LARGEST_BYTES)
    os.truncate(tmp_path / "j", journals._LARGEST_BYTES)
    with pytest.raises(RecordError, match=r"is full: a journal has at most 2.0 GiB"):
        journal.append(a_story()[-1])
    journal.close()
    assert (tmp_path / "j").stat().st_size == journals._LARGEST_BYTES


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
