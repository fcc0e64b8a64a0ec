"""The log of a generator that took turns, and the clock of pauses: as counted by hand."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import words_of

from steelyard.core.schedule import Stretch, TurnTimes
from steelyard.stats.histogram import from_text, histogram_of
from steelyard.systems.postgres.log_lines import LogForm, TurnClock
from steelyard.systems.postgres.transaction_log import TransactionLog, TransactionLogReader

EPOCH_S = 1_795_296_543
FORM = LogForm(scripts=("reads", "writes"), open_loop=False, retries=True)
TURN_US, PAUSE_US, SETTLING_US = 250_000, 260_000, 100_000
TURNS = 12


def stretches(*, lost: frozenset[int] = frozenset()) -> tuple[Stretch, ...]:
    """Return one in which clients connect, turns of which some count, and one of leaving."""
    made = []
    for number in range(TURNS + 2):
        begin = EPOCH_S + number * (TURN_US + PAUSE_US) / 1e6
        part = (begin + SETTLING_US / 1e6, begin + TURN_US / 1e6)
        counts = 0 < number <= TURNS and number not in lost
        made.append(
            Stretch(
                began_at=begin, ended_at=begin + TURN_US / 1e6, counted=part if counts else None
            )
        )
    return tuple(made)


@dataclass(kw_only=True)
class Drawn:
    """A log with what is in it, counted while it was written.

    Attributes:
        counted: By twice the number of the stretch, and one more in the second half.
        times: Latencies that count, without pauses, by script.
        cut: Transactions that count, by script, into which a pause of the generator alone fell.
    """

    lines: list[str] = field(default_factory=list)
    counted: Counter[int] = field(default_factory=Counter)
    times: dict[int, list[int]] = field(default_factory=dict)
    cut: Counter[int] = field(default_factory=Counter)
    succeeded: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    failed_in_turns: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> bytes:
        """Return the log."""
        return "".join(self.lines).encode()


def _running_us(us: int) -> int:
    """Return how long the generator has run at a time since its start."""
    whole, rest = divmod(us, TURN_US + PAUSE_US)
    return whole * TURN_US + min(rest, TURN_US)


def drawn(*, lost: frozenset[int] = frozenset(), seed: int = 5, alone: bool = False) -> Drawn:
    """Return a log of transactions at random times, in turns, pauses and at their very edges."""
    source, made = random.Random(seed), Drawn()  # noqa: S311 - a log, no secret
    edges = (0, SETTLING_US - 1, SETTLING_US, 175_000, TURN_US - 1, TURN_US)
    for client in range(4000):
        number = source.randrange(TURNS + 2)
        within = source.choice((*edges, source.randrange(TURN_US + PAUSE_US)))
        ended = number * (TURN_US + PAUSE_US) + within
        took, script = source.randrange(0, min(ended, 1_200_000) + 1), source.randrange(2)
        word = source.choice(("serialization", "deadlock")) if source.random() < 0.02 else ""
        when = f"{EPOCH_S + ended // 10**6} {ended % 10**6}"
        made.lines.append(f"{client % 8} {client} {word or took} {script} {when} 0\n")
        counts = 0 < number <= TURNS and number not in lost and SETTLING_US <= within < TURN_US
        if word:
            made.failed[word] += 1
            made.failed_in_turns[word] += counts
            continue
        made.succeeded += 1
        if counts:
            middle = (SETTLING_US + TURN_US) // 2
            made.counted[2 * number + (within >= middle)] += 1
            if alone and took > within:
                made.cut[script] += 1
                continue
            ran = _running_us(ended) - _running_us(ended - took)
            made.times.setdefault(script, []).append(ran)
    return made


def read(
    text: bytes, parts: tuple[Stretch, ...], *, piece: int = 10**9, alone: bool = False
) -> TransactionLog:
    """Return a log that was read in pieces of a size."""
    made = TransactionLogReader(
        FORM, started_at=float(EPOCH_S), ramp_s=0.0, stretches=parts, alone=alone
    )
    for start in range(0, len(text), piece):
        made.feed("log.1", text[start : start + piece])
    return made.finish(ramp_s=0.0)


def assert_as_drawn(log: TransactionLog, made: Drawn) -> None:
    """Every figure is what was counted by hand."""
    assert +Counter(log.counted) == made.counted
    assert log.transactions == made.succeeded
    assert words_of(log) == made.failed
    latency = log.run_latency(windows_s=None)
    assert latency.failed == {word: n for word, n in made.failed_in_turns.items() if n}
    assert [each.script for each in latency.scripts] == ["reads", "writes"]
    for script, each in enumerate(latency.scripts):
        times = made.times[script]
        assert (from_text(each.latency).counts == histogram_of(times).counts).all()
        assert each.longest_s == max(times) / 1e6
        assert each.cut == made.cut[script]


@pytest.mark.parametrize("piece", [1, 37, 4096, 10**9])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("lost", [frozenset(), frozenset({3, 7})], ids=["all", "two lost"])
def test_it_is_counted_as_by_hand(
    piece: int, lost: frozenset[int], *, wide: bool, alone: bool
) -> None:
    """However it comes, and whatever the width of its fields: turns, halves, latencies, failures.

    Latencies are without pauses; where the generator stood still alone no pause is taken off, and
    how long a transaction took is told where none fell into it. What a lost round holds counts
    nowhere, and is still a transaction that was logged.
    """
    made = drawn(lost=lost, alone=alone)
    lines = [line.replace(" 0 1795", " 00 1795", 1) if wide else line for line in made.lines]
    log = read("".join(lines).encode(), stretches(lost=lost), piece=piece, alone=alone)
    assert log.damaged == 0
    assert (made.cut.total() > 100) is alone
    assert_as_drawn(log, made)
    assert not {2 * number + half for number in lost for half in (0, 1)} & set(log.counted)


@pytest.mark.parametrize(
    "line",
    [
        "0 1 100 0 1795296544 500000\n",  # no retries
        "0 1 100 0 1795296544 500000 0 0\n",
        "0 1 -100 0 1795296544 500000 0\n",
        "0 1 nonsense! 0 1795296544 500000 0\n",
        "0 1 serialization 2 1795296544 500000 0\n",  # there is no such script
        "0 1 100 2 1795296544 500000 0\n",
        "0 1 12345678901234567 0 1795296544 500000 0\n",
        "0 1 100 0 179529654 500000 0\n",
        "\n",
    ],
)
def test_what_is_no_line_is_damaged_and_harms_no_other(line: str) -> None:
    """It is told, and everything else is counted."""
    made = drawn()
    lines = [*made.lines[:2000], line, *made.lines[2000:]]
    log = read("".join(lines).encode(), stretches())
    assert log.damaged == 1
    assert_as_drawn(log, made)


def test_a_torn_last_line_is_told() -> None:
    """A generator that was killed."""
    made = drawn()
    log = read(made.text + b"0 1 100 0 17952", stretches())
    assert log.truncated == ("log.1",)
    assert_as_drawn(log, made)


def test_what_is_stored_tells_halves_of_turns() -> None:
    """A line for each, by script: what counts and what stands apart add up to all."""
    made = drawn()
    rows = [json.loads(row) for row in read(made.text, stretches()).seconds_text().splitlines()]
    counted: Counter[int] = Counter()
    apart = 0
    for row in rows:
        counted[row["second"]] += from_text(row["counts"]).total
        apart += from_text(row["apart"]).total
    assert +counted == made.counted
    assert apart == made.succeeded - made.counted.total()


EPOCH_US = 1_795_296_543_250_000
Spans = list[tuple[int, int]]

# Lengths of stretches and of the pauses after them, in microseconds.
lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=6)


def spans_of(pairs: list[tuple[int, int]]) -> Spans:
    """Return from when to when a generator runs, since the epoch above."""
    begins = accumulate((run + pause for run, pause in pairs[:-1]), initial=0)
    return [(begin, begin + run) for begin, (run, _) in zip(begins, pairs, strict=True)]


def at(us: int) -> float:
    """Return a time as clocks tell it: in seconds."""
    return (EPOCH_US + us) / 10**6


def a_clock(spans: Spans, counted: list[tuple[int, int] | None] | None = None) -> TurnClock:
    """Return the clock of stretches, of which nothing counts unless it is said."""
    parts = counted or [None] * len(spans)
    return TurnClock.of(
        [
            Stretch(
                began_at=at(begin),
                ended_at=at(end),
                counted=None if part is None else (at(part[0]), at(part[1])),
            )
            for (begin, end), part in zip(spans, parts, strict=True)
        ]
    )


def placed(clock: TurnClock, ended: int, took: int = 0) -> tuple[int, int, bool]:
    """Return latency, place and whether it counts, of one transaction."""
    times, places, counts = clock.placed(np.array([EPOCH_US + ended]), np.array([took]))
    return int(times[0]), int(places[0]), bool(counts[0])


@given(lengths, st.data())
def test_a_latency_is_the_microseconds_in_which_it_ran(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """However many pauses lie in it, and wherever in a stretch or a pause it begins and ends."""
    spans = spans_of(pairs)
    last = spans[-1][1] + pairs[-1][1]
    began = data.draw(st.integers(0, last))
    ended = data.draw(st.integers(began, last))
    running = [any(begin <= us < end for begin, end in spans) for us in range(began, ended)]
    assert placed(a_clock(spans), ended, ended - began)[0] == sum(running)


@given(lengths)
def test_what_ends_in_a_pause_belongs_to_the_stretch_before(pairs: list[tuple[int, int]]) -> None:
    """Answers that were on their way when everything stopped; they count nowhere."""
    spans = spans_of(pairs)
    clock = a_clock(spans, list(spans))
    for number, ((_, end), (_, pause)) in enumerate(zip(spans, pairs, strict=True)):
        for us in range(end, end + pause):
            _, place, counts = placed(clock, us)
            assert (place // 2, counts) == (number, False)


@given(lengths, st.data())
def test_halves_are_of_what_counts(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    """What ended from its beginning on and before its end; the middle is in the second half."""
    spans = spans_of(pairs)
    counted = []
    for begin, end in spans:
        first = data.draw(st.integers(begin, end))
        counted.append((first, data.draw(st.integers(first, end))))
    clock = a_clock(spans, counted)
    for number, ((begin, end), (first, last)) in enumerate(zip(spans, counted, strict=True)):
        for us in range(begin, end):
            _, place, counts = placed(clock, us)
            assert counts is (first <= us < last)
            if counts:
                # The middle is that of whole microseconds since the epoch.
                middle = (EPOCH_US + first + EPOCH_US + last) // 2 - EPOCH_US
                assert place == 2 * number + (us >= middle)


def test_the_edges_of_a_turn() -> None:
    """Settling ends with its last microsecond, and the turn before the first one of its end."""
    clock = a_clock([(0, 250_000), (300_000, 550_000)], [None, (400_000, 545_000)])
    assert placed(clock, 399_999) == (0, 2, False)
    assert placed(clock, 400_000) == (0, 2, True)
    assert placed(clock, 472_499) == (0, 2, True)
    assert placed(clock, 472_500) == (0, 3, True)
    assert placed(clock, 544_999) == (0, 3, True)
    assert placed(clock, 545_000) == (0, 3, False)


@pytest.mark.parametrize("ended", [0, 100, 249_999])
def test_nothing_counts_of_a_stretch_without_a_part(ended: int) -> None:
    """While clients connect, warm up or leave."""
    assert not placed(a_clock([(0, 250_000)]), ended)[2]


def test_a_transaction_over_several_pauses() -> None:
    """By hand: it runs 2 of the first 10 µs, all 20 of the second stretch and 5 of the third."""
    clock = a_clock([(0, 10), (100, 120), (500, 530)])
    assert placed(clock, 505, 505 - 8)[0] == 2 + 20 + 5


def test_columns_are_placed_together() -> None:
    """The same as one by one, in their order."""
    clock = a_clock([(0, 10), (20, 30)], [(2, 8), (22, 28)])
    ended, took = np.array([25, 3, 29, 7]), np.array([20, 1, 4, 7])
    times, places, counts = clock.placed(EPOCH_US + ended, took)
    one_by_one = [placed(clock, int(e), int(t)) for e, t in zip(ended, took, strict=True)]
    assert list(zip(times.tolist(), places.tolist(), counts.tolist(), strict=True)) == one_by_one


def test_turns_tell_latencies_up_to_a_fifth_and_up_to_their_settling() -> None:
    """Beyond the settling a pause may have cut one; beyond a fifth few would fit."""
    assert TurnTimes(turn_s=0.25, turn_discard_s=0.1).told_to_s == pytest.approx(0.05)
    assert TurnTimes(turn_s=1.0, turn_discard_s=0.1).told_to_s == pytest.approx(0.1)


@given(lengths, st.data())
def test_what_a_pause_fell_into_is_cut_where_the_generator_stood_still_alone(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """What began in the stretch in which it ended is not; with its server nothing ever is."""
    spans = spans_of(pairs)
    number = data.draw(st.integers(0, len(spans) - 1))
    ended = data.draw(st.integers(*spans[number]))
    began = data.draw(st.integers(0, ended))
    own = max(place for place, (begin, _) in enumerate(spans) if begin <= ended)
    parts = [Stretch(began_at=at(begin), ended_at=at(end)) for begin, end in spans]
    times = np.array([EPOCH_US + ended]), np.array([ended - began])
    assert bool(TurnClock.of(parts, alone=True).cut(*times)[0]) is (began < spans[own][0])
    assert not TurnClock.of(parts).cut(*times)[0]
