"""Transactions over an edge of a long turn count by their share of it."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from steelyard.core.schedule import Stretch
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLogReader

_BEGUN_S = 1_800_000_000.0
_TURN_S, _SETTLING_S, _PAUSE_S = 1.0, 0.1, 1.3
FORM = LogForm(scripts=("report.sql",), open_loop=False, retries=False)


def stretches(turns: int) -> list[Stretch]:
    """Return turns of a second with pauses between them."""
    begins = [_BEGUN_S + number * (_TURN_S + _PAUSE_S) for number in range(turns)]
    return [
        Stretch(began_at=at, ended_at=at + _TURN_S, counted=(at + _SETTLING_S, at + _TURN_S))
        for at in begins
    ]


def wall_at(ran_s: float) -> float:
    """Return when a generator had run for so long."""
    turn, within_s = divmod(ran_s, _TURN_S)
    return _BEGUN_S + turn * (_TURN_S + _PAUSE_S) + within_s


def lines(turns: int, latency_s: float, clients: int, *, alone: bool, seed: int) -> Iterator[str]:
    """Yield the log of clients whose transactions take so long, each from its own beginning.

    Where the generator stands still ``alone`` the server has done in the pause what was in flight,
    and its answer is read when the generator goes on.
    """
    coin = np.random.default_rng(seed)
    for client in range(clients):
        ran_s = coin.uniform(0.0, latency_s)
        while ran_s < turns * _TURN_S:
            turn_end_s = (math.floor(ran_s / _TURN_S) + 1) * _TURN_S
            took_s = latency_s * coin.uniform(0.98, 1.02)
            end_s = ran_s + took_s
            if alone and end_s > turn_end_s:
                end_s = turn_end_s + 1e-5
            if end_s >= turns * _TURN_S:
                break
            took_us = round(1e6 * (wall_at(end_s) - wall_at(ran_s)))
            seconds, us = divmod(round(1e6 * wall_at(end_s)), 1_000_000)
            yield f"{client} 1 {took_us} 0 {seconds} {us}\n"
            ran_s = end_s


def rates(latency_s: float, *, alone: bool, seed: int = 1) -> tuple[float, float]:
    """Return transactions a second of what ended in turns, and by their shares."""
    turns, clients = 12, 2
    reader = TransactionLogReader(
        FORM, started_at=_BEGUN_S, ramp_s=0.0, stretches=stretches(turns), alone=alone
    )
    text = "".join(lines(turns, latency_s, clients, alone=alone, seed=seed))
    reader.feed("log", text.encode())
    log = reader.finish()
    # The last turn lacks what had not ended when the log did.
    halves = range(2 * (turns - 1))
    counted_s = (turns - 1) * (_TURN_S - _SETTLING_S)
    return tuple(
        sum(by_half.get(half, 0) for half in halves) / counted_s / clients
        for by_half in (log.counted, log.shared)
    )


@pytest.mark.parametrize("alone", [False, True])
def test_shares_show_a_longer_latency_that_counts_of_ends_do_not(*, alone: bool) -> None:
    """A turn holds twenty; one that takes 3 % longer shows as 3 %, and so does each rate."""
    found = []
    for seed in range(4):
        before, after = (rates(s, alone=alone, seed=seed)[1] for s in (0.05, 0.0515))
        assert before == pytest.approx(1 / 0.05, rel=0.012)
        found.append(math.log(after / before))
    assert np.mean(found) == pytest.approx(-math.log(1.03), abs=0.006)


def test_a_pause_of_the_generator_alone_makes_counts_of_ends_jump() -> None:
    """All clients begin with the turn: a little longer, and one fewer ends in it."""
    just, longer = (rates(latency_s, alone=True) for latency_s in (0.0485, 0.0515))
    true = math.log(0.0485 / 0.0515)
    by_ends, by_shares = (math.log(longer[each] / just[each]) for each in (0, 1))
    assert abs(by_shares - true) < 0.005
    assert abs(by_shares - true) < abs(by_ends - true)


def test_the_halves_of_a_turn_share_a_transaction() -> None:
    """One that lies over the middle counts in both, and its parts add up."""
    (stretch,) = stretches(1)
    reader = TransactionLogReader(FORM, started_at=_BEGUN_S, ramp_s=0.0, stretches=[stretch])
    seconds, us = divmod(round(1e6 * (_BEGUN_S + 0.8)), 1_000_000)
    reader.feed("log", f"0 1 400000 0 {seconds} {us}\n".encode())
    shared = reader.finish().shared
    assert shared == pytest.approx({0: 0.15 / 0.4, 1: 0.25 / 0.4})
