"""The log of a program that the experiment names: what its lines mean, and what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import words_of

from steelyard.core.experiment import CommandLog
from steelyard.core.schedule import Stretch
from steelyard.core.wording import MeasurementError
from steelyard.systems.postgres.load_programs import BACKWARDS_S, NamedLogReader
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLog, TransactionLogReader

_AT = 1_795_000_000.0
_TIMED = CommandLog(columns=("time", "latency"))
_PGBENCH = CommandLog()


def _reader(
    log: CommandLog = _TIMED, ramp_s: float = 0.0, stretches: tuple[Stretch, ...] = ()
) -> NamedLogReader:
    form = LogForm(
        scripts=("own",), open_loop=False, retries=False, has_latencies=log.has_latencies
    )
    counts = TransactionLogReader(form, started_at=_AT, ramp_s=ramp_s, stretches=stretches)
    return NamedLogReader(log, counts, stretches)


def _read(text: bytes, log: CommandLog = _TIMED, ramp_s: float = 0.0) -> TransactionLog:
    reader = _reader(log, ramp_s)
    reader.feed("log.0", text)
    return reader.finish(ramp_s=ramp_s)


def _line(after_s: float, latency_ms: float = 2.0) -> bytes:
    return b"%.6f %.3f\n" % (_AT + after_s, latency_ms)


def test_what_ended_after_the_ramp_counts_by_its_second() -> None:
    """The ramp is told apart; times and latencies are those of the lines."""
    found = _read(_line(0.5) + _line(1.25, 4.0) + _line(1.5, 4.0) + _line(2.0, 4.0), ramp_s=1.0)
    assert dict(found.counted) == {1: 2, 2: 1}
    assert dict(found.ended) == {0: 1, 1: 2, 2: 1}
    latency = found.run_latency(windows_s=None)
    assert latency is not None
    assert latency.scripts[0].longest_s == 0.004


@pytest.mark.parametrize(
    ("columns", "units", "line"),
    [
        (("time", "latency"), (1.0, 1e-3), b"1795000001.5 2.5"),
        (("latency", "time"), (1e-3, 1e-6), b"2500,1795000001500.0"),
        (("skip", "time", "skip", "latency"), (1e-6, 1.0), b"a; 1795000001500000;;0.0025;more"),
        (("time", "latency"), (1e-9, 1e-3), b"  1795000001500000000\t2.5\r"),
        ((), (1.0, 1e-3), b"0 1 2500 3 1795000001 500000"),
    ],
)
def test_columns_and_units_say_what_a_line_means(
    columns: tuple[str, ...], units: tuple[float, float], line: bytes
) -> None:
    """Blanks, commas and semicolons part columns; what follows the last is passed over."""
    log = CommandLog(columns=columns, time_unit_s=units[0], latency_unit_s=units[1])
    found = _read(line + b"\n", log)
    assert dict(found.counted) == {1: 1}
    latency = found.run_latency(windows_s=None)
    assert latency is not None
    assert latency.scripts[0].longest_s == 0.0025


def test_a_log_without_latencies_tells_none() -> None:
    """It counts; nobody makes a latency of 0 of what was not measured."""
    found = _read(b"1795000001.5\n1795000001.6 x\n", CommandLog(columns=("time",)))
    assert dict(found.counted) == {1: 2}
    assert found.run_latency(windows_s=None) is None


def test_a_failed_transaction_of_pgbench_does_not_count() -> None:
    """Its word stands for the latency, as in pgbench's own runs."""
    text = b"0 1 failed 0 1795000001 500000\n0 2 2500 0 1795000001 600000\n"
    found = _read(text, _PGBENCH)
    assert (found.transactions, words_of(found)) == (1, {"failed": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_line(1) + b"what?\n" + _line(2) + b"\n", "2 lines of the log cannot be read, of 4"),
        (_line(1) + b"what?\n", r"the first is in log.0, line 2: 'what\?'"),
        (b"1795000001500 2.5\n", "1 lines of the log have a time that is not since the epoch"),
        (_line(5) + _line(5 - 2 * BACKWARDS_S), "1 lines of the log go back in time, of 2"),
        (_line(1) + b"17950000", "log.0 of the log ends inside line 2"),
        (b"x" * 200_000 + b"\n", "1 lines of the log cannot be read, of 1"),
    ],
)
def test_what_cannot_be_is_told_with_its_line(text: bytes, said: str) -> None:
    """A part of the lines would be a wrong rate; the number and the first of them are told."""
    with pytest.raises(MeasurementError, match=said) as caught:
        _read(text)
    assert caught.value.hint


def test_threads_may_write_a_little_out_of_order() -> None:
    """A time is taken before its line is written; two files have nothing to do with each other."""
    reader = _reader()
    reader.feed("log.0", _line(5) + _line(5 - BACKWARDS_S / 2))
    reader.feed("log.0.1", _line(1))
    assert reader.finish().transactions == 3


def test_who_stood_still_may_be_late_by_the_pause() -> None:
    """A line whose time was taken before a pause of 3 s is written after it."""
    stretches = (
        Stretch(began_at=_AT, ended_at=_AT + 2, counted=(_AT + 1, _AT + 2)),
        Stretch(began_at=_AT + 5, ended_at=_AT + 7, counted=(_AT + 6, _AT + 7)),
    )
    reader = _reader(stretches=stretches)
    reader.feed("log.0", _line(1.25) + _line(5.5) + _line(1.75) + _line(6.25, 5000) + _line(6.75))
    found = reader.finish()
    assert dict(found.counted) == {0: 1, 1: 1, 2: 1, 3: 1}
    latency = found.run_latency(windows_s=None)
    assert latency is not None
    assert latency.scripts[0].longest_s == 2.0  # of 5 s, without the pause


@given(st.lists(st.integers(1, 60)), st.binary(max_size=200))
def test_pieces_may_end_anywhere_and_nothing_breaks_the_reading(
    cuts: list[int], odd: bytes
) -> None:
    """Whole lines give the same counts however they come; bytes of any kind are read or told."""
    text = b"".join(_line(n / 7) for n in range(20))
    reader, at = _reader(), 0
    for cut in cuts:
        reader.feed("log.0", text[at : at + cut])
        at += cut
    reader.feed("log.0", text[at:])
    assert reader.finish().counted == _read(text).counted
    reader = _reader()
    reader.feed("log.0", odd)
    try:
        reader.finish()
    except MeasurementError as error:
        assert "log.0" in error.message  # noqa: PT017 - most bytes are no log, some are
