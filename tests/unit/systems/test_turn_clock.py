"""The clock of paused generators against one that counts every microsecond."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.schedule import Stretch, TurnTimes
from steelyard.systems.postgres.log_lines import TurnClock

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
    assert TurnTimes(turn_s=0.25, settling_s=0.1).told_to_s == pytest.approx(0.05)
    assert TurnTimes(turn_s=1.0, settling_s=0.1).told_to_s == pytest.approx(0.1)


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
