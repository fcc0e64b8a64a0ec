"""The transaction log: both ways of reading it against a plain one, and sums that are exact."""

import json
import math
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import words_of

from steelyard.core.wording import InputError, MeasurementError
from steelyard.stats.histogram import bucket_indices, from_text, histogram_of, merged
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLog, TransactionLogReader, merge

BEGAN = 1795296543.25
CLOSED = LogForm(scripts=("reads", "writes"), open_loop=False, retries=False)
OPEN = LogForm(scripts=("reads",), open_loop=True, retries=True, latency_limit_s=0.01)
FORMS = (
    CLOSED,
    OPEN,
    LogForm(scripts=("a", "b", "c"), open_loop=True, retries=False),
    LogForm(scripts=("a",), open_loop=False, retries=True, latency_limit_s=0.5),
)


@dataclass(kw_only=True)
class Plain:
    """A log as a loop over its lines understands it."""

    times: dict[tuple[int, int, bool], list[int]] = field(default_factory=dict)
    lags: list[int] = field(default_factory=list)
    services: list[int] = field(default_factory=list)
    words: Counter[tuple[int, int, bool, str]] = field(default_factory=Counter)
    tries: list[int] = field(default_factory=list)
    damaged: int = 0

    def ramped(self, script: int) -> list[int]:
        """Return all latencies of a script after the ramp."""
        found = [v for (_, s, after), v in self.times.items() if after and s == script]
        return [value for values in found for value in values]


def plainly(text: bytes, form: LogForm, ramp_s: float, run_time_s: float | None = None) -> Plain:
    """Read whole lines one by one, with a regular expression."""
    end_us = None if run_time_s is None else round((ramp_s + run_time_s) * 10**6)
    pattern = (
        rb"\d+ \d+ (?P<time>\d{1,16}|[a-z][a-z_-]{0,31}) (?P<script>\d{1,4}) "
        rb"(?P<epoch>\d{10}) (?P<us>\d{1,6})"
    )
    pattern += rb" (?P<lag>\d{1,16})" if form.open_loop else b""
    pattern += rb" (?P<retries>\d{1,10})" if form.retries else b""
    plain = Plain()
    for line in text.split(b"\n")[:-1]:
        found = re.fullmatch(pattern, line)
        lag = int(found["lag"]) if found and form.open_loop else 0
        if found is None or int(found["script"]) >= len(form.scripts) or len(line) > 256:
            plain.damaged += 1
            continue
        since = int(found["epoch"]) * 10**6 + int(found["us"]) - round(BEGAN * 10**6)
        if abs(since // 10**6) > 31 * 86400:
            plain.damaged += 1
            continue
        waited = int(found["time"]) if end_us is not None and found["time"].isdigit() else 0
        counts = since - waited >= round(ramp_s * 10**6)
        counts &= end_us is None or since - waited < end_us
        place = (since // 10**6, int(found["script"]), counts)
        retries = int(found["retries"]) if form.retries else 0
        if found["time"].isdigit():
            time = int(found["time"])
            if time >= 2**53 or lag > time:
                plain.damaged += 1
                continue
            plain.times.setdefault(place, []).append(time)
            if place[2]:
                plain.lags.append(lag)
                plain.services.append(time - lag)
                plain.tries.append(retries)
        else:
            word = found["time"].decode()
            plain.words[*place, word] += 1
            if place[2] and word != "skipped":
                plain.tries.append(retries)
    return plain


def read(chunks: list[tuple[str, bytes]], form: LogForm, ramp_s: float = 2.0) -> TransactionLog:
    """Feed the reader."""
    reader = TransactionLogReader(form, started_at=BEGAN, ramp_s=ramp_s)
    for source, chunk in chunks:
        reader.feed(source, chunk)
    return reader.finish()


def assert_same(log: TransactionLog, plain: Plain, ramp_s: float) -> None:
    """Every figure is what the plain reading counted."""
    form = log.form
    latency = log.run_latency(windows_s=3.0)
    assert log.transactions == sum(map(len, plain.times.values()))
    assert log.damaged == plain.damaged
    words = words_of(log)
    assert words["skipped"] == sum(n for key, n in plain.words.items() if key[3] == "skipped")
    ran = {s for _, s, after in plain.times if after} | {s for _, s, a, _ in plain.words if a}
    assert [each.script for each in latency.scripts] == [form.scripts[n] for n in sorted(ran)]
    for number, each in zip(sorted(ran), latency.scripts, strict=True):
        values = plain.ramped(number)
        assert (from_text(each.latency).counts == histogram_of(values).counts).all()
        assert each.longest_s == (max(values) / 10**6 if values else None)
    everything = [value for n in range(len(form.scripts)) for value in plain.ramped(n)]
    windows = merged(from_text(window.latency) for window in latency.windows)
    assert (windows.counts == histogram_of(everything).counts).all()
    if form.open_loop:
        assert (from_text(latency.lag).counts == histogram_of(plain.lags).counts).all()
        assert (from_text(latency.service).counts == histogram_of(plain.services).counts).all()
    else:
        assert latency.lag == latency.service == ""
    limit = form.latency_limit_s
    late = None if limit is None else sum(v > limit * 10**6 for v in everything)
    assert latency.late == late
    failed: Counter[str] = Counter()
    for (_, _, after, word), number in plain.words.items():
        if after and word != "skipped":
            failed[word] += number
    assert latency.failed == dict(failed)
    assert latency.retries == sum(plain.tries)
    assert latency.retried == sum(n > 0 for n in plain.tries)
    seconds: dict[tuple[int, int, str], list[int]] = {}
    for (second, script, after), values in plain.times.items():
        seconds.setdefault((second, script, "counts" if after else "apart"), []).extend(values)
    rows = [json.loads(line) for line in log.seconds_text().splitlines()]
    counted = {(row["second"], form.scripts.index(row["script"])): row for row in rows}
    told = {
        (*key, kind) for key, row in counted.items() for kind in ("counts", "apart") if row[kind]
    }
    assert told == set(seconds)
    for (second, script, kind), values in seconds.items():
        counts = from_text(counted[second, script][kind]).counts
        assert (counts == histogram_of(values).counts).all()
    assert sum(row["skipped"] for row in rows) == words["skipped"]
    assert sum(row["failed"] for row in rows) == words.total() - words["skipped"]


def a_line(form: LogForm) -> st.SearchStrategy[bytes]:
    """Draw a line, most often one of pgbench's."""
    number = st.integers(0, 3) | st.integers(0, 300_000) | st.integers(0, 2**54)
    word = st.sampled_from(["skipped", "failed", "serialization", "deadlock", "other", "X", "-1"])
    time = number.map(str) | word
    script = st.integers(0, len(form.scripts)).map(str)
    # Seconds 0 to 9 mostly; a few are far away.
    epoch = st.integers(1795296542, 1795296553).map(str) | st.sampled_from(["1", "9999999999"])
    us = st.integers(0, 999_999).map(str) | st.sampled_from(["249999", "250000", "1234567"])
    fields = [st.integers(0, 99).map(str), number.map(str), time, script, epoch, us]
    fields += [st.integers(0, 9).map(str)] * (form.columns - 6)
    return st.tuples(*fields).map(lambda words: " ".join(words).encode() + b"\n")


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogForm, list[bytes]]:
    """Draw a form and lines."""
    form = draw(st.sampled_from(FORMS))
    noise = st.sampled_from([b"\n", b" \n", b"1 2 3\n", b"\xff\x00 \n", b"1  2 3 0 1795296544 5\n"])
    return form, draw(st.lists(a_line(form) | a_line(form) | noise, max_size=40))


def cut_up(text: bytes, chance: random.Random) -> list[bytes]:
    """Return the text in pieces."""
    cuts = sorted(chance.randint(0, len(text)) for _ in range(chance.randint(0, 6)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    logs(),
    st.sampled_from([0.0, 2.0, 2.5]),
    st.none() | st.sampled_from([1.0, 2.25, 5.0]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_blocks_say_what_single_lines_say(
    drawn: tuple[LogForm, list[bytes]],
    ramp_s: float,
    run_time_s: float | None,
    is_known: bool,  # noqa: FBT001 - drawn
    chance: random.Random,
) -> None:
    """Every figure is that of a loop over the lines, wherever the ramp was thought to end.

    Whatever the chunks; of an open loop with a slice what was scheduled in it counts.
    """
    form, lines = drawn
    run_time_s = run_time_s if form.open_loop else None
    text = b"".join(lines)
    reader = TransactionLogReader(
        form, started_at=BEGAN, ramp_s=ramp_s if is_known else 4.0, run_time_s=run_time_s
    )
    for piece in cut_up(text, chance):
        reader.feed("log", piece)
    log = reader.finish(ramp_s=None if is_known else ramp_s)
    assert_same(log, plainly(text, form, ramp_s, run_time_s), ramp_s)
    if run_time_s is not None:
        windows = log.run_latency(windows_s=3.0).windows
        assert all(window.end_s <= math.ceil(ramp_s + run_time_s) for window in windows)
        assert all(window.end_s - window.start_s > 1.4 for window in windows[1:])  # no stub


def test_what_waits_at_the_end_of_a_slice_counts_with_all_its_waiting() -> None:
    """A stall over the end: all that was due before is there; what was due in the tail is not."""
    form = LogForm(scripts=("reads",), open_loop=True, retries=False)
    began, after_us = 1795296543, 6_500_000  # ramp 1 s, slice 5 s; nothing ends from 5.5 to 6.5 s
    due_us = [n * 10_000 for n in range(700)]
    ends_us = [after_us if 5_500_000 <= due < after_us else due + 100 for due in due_us]
    lines = [
        f"0 {n} {end - due} 0 {began + end // 10**6} {end % 10**6} {end - due - 100}\n"
        for n, (due, end) in enumerate(zip(due_us, ends_us, strict=True))
        if end > due + 50
    ]
    reader = TransactionLogReader(form, started_at=float(began), ramp_s=1.0, run_time_s=5.0)
    reader.feed("log", "".join(lines).encode())
    log = reader.finish()
    (script,) = log.run_latency(windows_s=None).scripts
    counted = from_text(script.latency)
    assert counted.total == 500
    assert script.longest_s == 1.0
    assert counted.value_at(450) < 500_000 < counted.value_at(451)
    assert log.transactions == 700


def test_a_long_open_loop_counts_alike_in_blocks() -> None:
    """What lies inside for certain goes to the workers, its ends are settled at last."""
    lines = [
        b"0 %d 300000 0 %d %d 5\n" % (n, 1795296543 + n // 10_000, n % 10_000 * 100)
        for n in range(300_000)
    ]
    text = b"".join(lines)
    form = LogForm(scripts=("a",), open_loop=True, retries=False)
    reader = TransactionLogReader(form, started_at=1795296543.0, ramp_s=12.0, run_time_s=20.0)
    for begin in range(0, len(text), 1 << 20):
        reader.feed("log", text[begin : begin + (1 << 20)])
    (script,) = reader.finish(ramp_s=5.0).run_latency(windows_s=None).scripts
    assert from_text(script.latency).total == 200_000


def test_a_long_log_holds_back_what_may_be_its_ramp() -> None:
    """The workers count what lies beyond for certain; the cut is where it is told at the end."""
    lines = [b"0 %d %d 0 %d 0\n" % (n, n, 1795296544 + n // 10_000) for n in range(300_000)]
    text = b"".join(lines)
    reader = TransactionLogReader(CLOSED, started_at=1795296543.0, ramp_s=12.0)
    for begin in range(0, len(text), 1 << 20):
        reader.feed("log", text[begin : begin + (1 << 20)])
    log = reader.finish(ramp_s=5.0)
    (script,) = log.run_latency(windows_s=None).scripts
    assert from_text(script.latency).total == 300_000 - 40_000
    assert log.transactions == 300_000


def test_a_ramp_that_ended_too_late_is_told() -> None:
    """Nothing of the ramp slips into the percentiles unseen."""
    reader = TransactionLogReader(CLOSED, started_at=BEGAN, ramp_s=4.0)
    with pytest.raises(MeasurementError, match=r"ramp ended after 4\.5 s"):
        reader.finish(ramp_s=4.5)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FORMS), st.binary(max_size=300), st.randoms(use_true_random=False))
def test_no_bytes_raise(form: LogForm, text: bytes, chance: random.Random) -> None:
    """Anything is read; each line that is none of pgbench's is counted as damaged."""
    log = read([("log", piece) for piece in cut_up(text, chance)], form)
    assert_same(log, plainly(text[: text.rfind(b"\n") + 1], form, 2.0), 2.0)
    assert log.truncated == (() if text.endswith(b"\n") or not text else ("log",))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_merged_percentiles_are_those_of_all_raw_values(data: st.DataObject) -> None:
    """In any split over files and generators: within 0.4 % of the pooled transactions."""
    seed = data.draw(st.integers(0, 2**32))
    shape = np.random.default_rng(seed)
    values = np.exp(shape.normal(7.0, data.draw(st.floats(0.1, 4.0)), 3000)).astype(np.int64)
    ends = 1795296546 + shape.integers(0, 9, len(values))
    generators = shape.integers(0, 3, len(values))
    readers = [TransactionLogReader(CLOSED, started_at=BEGAN, ramp_s=2.0) for _ in range(3)]
    for value, end, generator in zip(values, ends, generators, strict=True):
        line = f"0 1 {value} {value % 2} {end} 5\n".encode()
        readers[generator].feed(f"log.{value % 3}", line)
    parts = [reader.finish() for reader in readers]
    order = data.draw(st.permutations(parts))
    scripts = merge(order).run_latency(windows_s=None).scripts
    whole = merged(from_text(script.latency) for script in scripts)
    assert whole.total == len(values)
    for share in (0.5, 0.9, 0.95, 0.99, 0.999, 1.0):
        raw = np.sort(values)[max(math.ceil(share * len(values)), 1) - 1]
        assert whole.quantile(share) == pytest.approx(max(raw, 1), rel=0.004)
    longest = [script.longest_s for script in scripts]
    assert max(value for value in longest if value is not None) == values.max() / 10**6


def test_a_large_log_takes_the_same_way() -> None:
    """Several megabytes go to the workers in blocks: not a line is lost or counted twice."""
    shape = np.random.default_rng(5)
    values = np.exp(shape.normal(7.0, 2.0, 120_000)).astype(np.int64)
    lines = [
        b"%d %d %d %d %d %d\n" % (n % 8, n, value, n % 2, 1795296543 + n // 9000, n % 10**6)
        for n, value in enumerate(values)
    ]
    lines[70_000] = b"0 1 failed 0 1795296547 5\n"
    lines[70_001] = b"0 1 2 3\n"
    text = b"".join(lines)
    pieces = [("log", text[n : n + 700_001]) for n in range(0, len(text), 700_001)]
    assert_same(read(pieces, CLOSED), plainly(text, CLOSED, 2.0), 2.0)


def test_files_that_alternate_keep_their_lines_apart() -> None:
    """Half a line of one file is not continued by another; the cut one is named."""
    log = read(
        [
            ("a", b"0 1 100 0 17952"),
            ("b", b"1 1 200 1 1795296549 5\n2 1 30"),
            ("a", b"96549 7\n"),
            ("b", b"0 1 1795296549 8"),
        ],
        CLOSED,
    )
    assert (log.transactions, log.damaged, log.truncated) == (2, 0, ("b",))


def test_a_value_keeps_its_bucket_up_to_the_largest() -> None:
    """Table and formula meet without a seam, and 2^53 is damaged, not wrong."""
    values = [0, 1, 255, 256, 2**17 - 1, 2**17, 2**17 + 1, 2**53 - 1]
    lines = b"".join(b"0 1 %d 0 1795296549 5\n" % value for value in (*values, 2**53))
    log = read([("log", lines)], CLOSED)
    (script,) = log.run_latency(windows_s=None).scripts
    found = np.flatnonzero(from_text(script.latency).counts)
    assert set(found) == set(bucket_indices(np.array(values)))
    assert log.damaged == 1
    assert script.longest_s == (2**53 - 1) / 10**6


def test_windows_have_no_gap() -> None:
    """A stall is an empty window, not a missing one; the ramp is in none."""
    ends = (1, 3, 4, 30)
    lines = b"".join(b"0 1 5 0 %d 300000\n" % (1795296543 + end) for end in ends)
    latency = read([("log", lines)], CLOSED).run_latency(windows_s=10.0)
    spans = [(w.start_s, w.end_s, from_text(w.latency).total) for w in latency.windows]
    assert spans == [(2.0, 12.0, 2), (12.0, 22.0, 0), (22.0, 31.0, 1)]


def test_logs_of_other_columns_do_not_merge() -> None:
    """Counts of different things have no sum; neither has nothing."""
    with pytest.raises(InputError, match="same scripts"):
        merge([read([], CLOSED), read([], OPEN)])
    with pytest.raises(InputError):
        merge([])


RECORDINGS = Path(__file__).parents[2] / "recordings" / "pgbench_log"
VERSIONS = ("15", "18")
READS = LogForm(scripts=("reads",), open_loop=False, retries=False)
RECORDED_FORMS = {
    "plain": READS,
    "scripts": LogForm(scripts=("reads", "writes"), open_loop=False, retries=False),
    "rate": LogForm(scripts=("reads",), open_loop=True, retries=False),
    "skipped": LogForm(scripts=("nap",), open_loop=True, retries=False, latency_limit_s=0.05),
    "failed": LogForm(scripts=("conflict",), open_loop=False, retries=False),
    "retried": LogForm(scripts=("conflict",), open_loop=False, retries=True),
    "detailed": LogForm(scripts=("conflict",), open_loop=True, retries=True, latency_limit_s=0.5),
    "sampled": LogForm(scripts=("reads",), open_loop=False, retries=False, sampled=0.3),
    "killed": LogForm(scripts=("reads",), open_loop=True, retries=False),
}
everywhere = pytest.mark.parametrize("version", VERSIONS)


def recorded(version: str, name: str) -> list[Path]:
    """Return the files of the threads."""
    return sorted((RECORDINGS / version).glob(f"{name}.log.*"))


def read_recording(version: str, name: str) -> TransactionLog:
    """Return a recording, fed by 100 bytes from each file in turn."""
    contents = {path.name: path.read_bytes() for path in recorded(version, name)}
    first = next(iter(contents.values())).split()[4]
    reader = TransactionLogReader(RECORDED_FORMS[name], started_at=float(first), ramp_s=0.0)
    for start in range(0, max(map(len, contents.values())), 100):
        for source, content in contents.items():
            reader.feed(source, content[start : start + 100])
    return reader.finish()


def told(version: str, name: str, what: str) -> int:
    """Return a number of pgbench's summary, 0 where it has no such line."""
    summary = (RECORDINGS / version / f"{name}.stdout").read_text()
    found = re.search(rf"^{what}: (\d+)", summary, re.MULTILINE)
    return int(found[1]) if found else 0


@everywhere
@pytest.mark.parametrize("name", sorted(set(RECORDED_FORMS) - {"sampled", "killed"}))
def test_the_log_says_what_the_summary_says(version: str, name: str) -> None:
    """Transactions, skipped, failed, retried, retries and late: pgbench counted the same."""
    log = read_recording(version, name)
    latency = log.run_latency(windows_s=None)
    assert log.transactions == told(version, name, "number of transactions actually processed")
    assert words_of(log)["skipped"] == told(version, name, "number of transactions skipped")
    assert sum(latency.failed.values()) == told(version, name, "number of failed transactions")
    assert latency.retried == told(version, name, "number of transactions retried")
    assert latency.retries == told(version, name, "total number of retries")
    assert (log.damaged, log.truncated) == (0, ())
    summary = (RECORDINGS / version / f"{name}.stdout").read_text()
    above = re.search(r"above the [\d.]+ ms latency limit: (\d+)", summary)
    assert latency.late == (int(above[1]) if above else None)


@everywhere
def test_failures_have_their_kind_where_it_was_asked_for(version: str) -> None:
    """Serialization failures and deadlocks apart with --failures-detailed, else together."""
    assert set(words_of(read_recording(version, "failed"))) == {"failed"}
    assert set(words_of(read_recording(version, "retried"))) == {"failed"}
    told_apart = {
        "serialization": told(version, "detailed", "number of serialization failures"),
        "deadlock": told(version, "detailed", "number of deadlock failures"),
    }
    assert words_of(read_recording(version, "detailed")) == {
        k: n for k, n in told_apart.items() if n
    }


@everywhere
def test_under_a_rate_time_counts_from_the_scheduled_start(version: str) -> None:
    """A nap of 20 ms and more took no longer than that; its time held the wait for its turn."""
    log = read_recording(version, "skipped").run_latency(windows_s=None)
    service, lag = from_text(log.service), from_text(log.lag)
    latency = merged(from_text(script.latency) for script in log.scripts)
    assert service.total == lag.total == latency.total > 0
    assert lag.quantile(0.5) > 15_000
    assert latency.quantile(0.5) > service.quantile(0.5) + 15_000
    assert service.quantile(0.0) > 20_000


@everywhere
def test_pgbench_that_was_killed_leaves_half_a_line(version: str) -> None:
    """What was written before is counted; the half line is named, and is no damage."""
    (path,) = recorded(version, "killed")
    log = read_recording(version, "killed")
    assert log.truncated == (path.name,)
    assert log.damaged == 0
    assert log.transactions == path.read_bytes().count(b"\n")


@everywhere
def test_a_sample_is_not_scaled(version: str) -> None:
    """The counts are those of the log; what share they are stands beside them."""
    log = read_recording(version, "sampled")
    assert 60 < log.transactions < 180  # 120 of 400 expected
    assert log.run_latency(windows_s=None).sampled == 0.3
