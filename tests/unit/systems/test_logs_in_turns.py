"""The log of a generator that took turns: counted as by hand, whatever its lines are like."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from recorded import words_of

from steelyard.core.schedule import Stretch
from steelyard.stats.histogram import from_text, histogram_of
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import (
    SeveralLogs,
    TransactionLog,
    TransactionLogReader,
)

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
                began_at=begin,
                ended_at=begin + TURN_US / 1e6,
                counted=part if counts else None,
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


def reader(parts: tuple[Stretch, ...], *, alone: bool = False) -> TransactionLogReader:
    """Return a reader of a run in turns."""
    return TransactionLogReader(
        FORM, started_at=float(EPOCH_S), ramp_s=0.0, stretches=parts, alone=alone
    )


def read(
    text: bytes, parts: tuple[Stretch, ...], *, piece: int = 10**9, alone: bool = False
) -> TransactionLog:
    """Return a log that was read in pieces of a size."""
    made = reader(parts, alone=alone)
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


@pytest.mark.parametrize("alone", [False, True])
def test_several_generators_are_counted_together(*, alone: bool) -> None:
    """Each has its own log, and all of them have their turns at the same time; so has its cuts."""
    one, other = drawn(seed=5, alone=alone), drawn(seed=6, alone=alone)
    several = SeveralLogs([reader(stretches(), alone=alone) for _ in range(2)])
    several.feed("log.1-0.1", one.text)
    several.feed("log.2-0.1", other.text)
    log = several.finish(ramp_s=0.0)
    assert +Counter(log.counted) == one.counted + other.counted
    assert log.transactions == one.succeeded + other.succeeded
    scripts = log.run_latency(windows_s=None).scripts
    assert [each.cut for each in scripts] == [one.cut[at] + other.cut[at] for at in (0, 1)]


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
