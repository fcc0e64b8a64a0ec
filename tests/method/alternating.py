"""Simulated alternating blocks: configurations that take turns, beside noise in four parts.

Log rate of a turn = effect + start + drift + noise of the turn, and its two halves have noise of
their own; bursts of others, carry-over and warming take shares of the rate while they last; what
is counted is Poisson. The drift is a random walk along the wall clock that all configurations
share. It begins anew in each block, since only differences within a block are ever looked at. The
start is one draw per configuration and block, and one more per load for its new generators.

Only the noise is made here. What is estimated, looked at and decided is the product's own code.
The simulator is a model, fitted by eye to the few series that were measured, not a measurement.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sequential import CHANGED, at_its_end, holds, terms_of

from steelyard.campaign.design.schedule import SQUARES, block_coin, short_lengths, slot_order
from steelyard.stats import spending
from steelyard.stats.intervals import block_interval
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.turns import BlockTurns
from steelyard.stats.turns import change_by_predecessor
from steelyard.stats.turns import change_over_block
from steelyard.stats.turns import change_within_turns
from steelyard.stats.turns import interval_of_changes
from steelyard.stats.turns import is_suspect

CELL_S = 15.0
CHANGES = {
    "over the block": change_over_block,
    "within turns": change_within_turns,
    "by predecessor": change_by_predecessor,
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where it is measured, by the noise under one workload.

    Attributes:
        per_s: Rate of one configuration while it has the load.
        turn_sd: White noise of a turn, of ln(1/s).
        half_sd: Of each half of what counts of a turn, beside it.
        walk_sd: Of the shared drift, after one second of wall clock.
        start_sd: Of one configuration in one block: where its processes and memory came to lie.
        cell_sd: The same of one load: its generators are new.
        bursts_per_minute: Of others.
        burst_s: How long one lasts, on average.
        burst_depth: Share of the rate that it takes at most; at least three tenths of that.
    """

    per_s: float
    turn_sd: float
    half_sd: float
    walk_sd: float
    start_sd: float
    cell_sd: float
    bursts_per_minute: float
    burst_s: float
    burst_depth: float


MACHINES = {
    # select-only: within a block of 12 s a standard error of 2.4 to 3.5 %, between blocks 5 to 6 %
    "reads": Machine(
        per_s=20000,
        turn_sd=0.07,
        half_sd=0.09,
        walk_sd=0.03,
        start_sd=0.027,
        cell_sd=0.027,
        bursts_per_minute=6,
        burst_s=0.5,
        burst_depth=0.4,
    ),
    # simple-update: 3 to 4 % between blocks of 8 to 12 s, and hardly any part of the start in it
    "writes": Machine(
        per_s=3000,
        turn_sd=0.08,
        half_sd=0.10,
        walk_sd=0.03,
        start_sd=0.005,
        cell_sd=0.005,
        bursts_per_minute=6,
        burst_s=0.5,
        burst_depth=0.4,
    ),
    # reads beside other jobs: 8 to 10 % between blocks of 12 s
    "busy": Machine(
        per_s=10000,
        turn_sd=0.12,
        half_sd=0.12,
        walk_sd=0.06,
        start_sd=0.03,
        cell_sd=0.03,
        bursts_per_minute=20,
        burst_s=0.5,
        burst_depth=0.7,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """How the turns are taken: the defaults of the product, 12 s for two configurations."""

    turn_s: float = 0.25
    settling_s: float = 0.1
    rounds: int = 24
    warm_up_s: float = 2.0

    @property
    def counted_s(self):
        """Return how much of a turn counts."""
        return self.turn_s - self.settling_s

    def half(self, number):
        """Return from when to when a half lasts, in seconds since its turn began."""
        begin = self.settling_s + number * self.counted_s / 2
        return begin, begin + self.counted_s / 2


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is so, per configuration.

    Attributes:
        effects: Log effects.
        lost: Share of the rate that is missing at the begin of a turn after another one's.
        lost_s: Time constant in which that comes back; with ``step`` how long it is missing.
        step: It is missing as a whole and then not at all.
        cold: Share of the rate that is missing when the load begins.
        warming_s: Time constant in which that comes back, in seconds under load.
        slot_effect: Log effect of the second slot, of the third twice as much, and so on.
    """

    effects: tuple = (0.0, 0.0)
    lost: tuple = (0.0, 0.0)
    lost_s: float = 0.05
    step: bool = False
    cold: tuple = (0.0, 0.0)
    warming_s: tuple = (1.0, 1.0)
    slot_effect: float = 0.0

    @property
    def configurations(self):
        """Return how many there are."""
        return len(self.effects)


def equal(configurations, **more):
    """Return so many configurations that do not differ."""
    nothing = (0.0,) * configurations
    told = {
        "effects": nothing,
        "lost": nothing,
        "cold": nothing,
        "warming_s": (1.0,) * configurations,
    }
    return Truth(**{**told, **more})


class Taken(NamedTuple):
    """Turns of campaigns: arrays (campaigns, blocks, cells, rounds, configurations).

    ``slots`` is (campaigns, blocks, configurations).
    """

    transactions: np.ndarray
    early: np.ndarray
    places: np.ndarray
    began_s: np.ndarray
    slots: np.ndarray
    way: Way


def take(
    machine,
    truth,
    *,
    way=None,
    campaigns,
    blocks,
    cells=1,
    seed,
    coin=True,
    beside=None,
    drawn=True,
):
    """Return the turns of so many campaigns, beside a neighbour if there is one.

    Orders are drawn by chance, and slots by coin; without it each configuration keeps its own.
    Orders that are not ``drawn`` are the same in all rounds.
    """
    way = way or Way()
    rng = np.random.default_rng(np.random.SeedSequence([20261123, seed]))
    k = truth.configurations
    shape = (campaigns, blocks, cells, way.rounds, k)
    order = np.argsort(rng.random(shape), axis=-1)
    order = order if drawn else np.broadcast_to(np.arange(k), shape)
    places = np.argsort(order, axis=-1)
    slots = np.argsort(rng.random((campaigns, blocks, k)), axis=-1)
    slots[:, : SQUARES * k] = drawn_slots(k, campaigns, blocks, seed)[:, : SQUARES * k]
    slots = slots if coin else np.broadcast_to(np.arange(k), slots.shape)
    numbers = np.arange(way.rounds)[:, None] * k + places
    began = numbers * way.turn_s
    whole = np.log(machine.per_s) + np.asarray(truth.effects) + _starts(machine, rng, shape)
    whole = whole + truth.slot_effect * slots[:, :, None, None, :]
    whole = whole + _drift(machine, way, rng, numbers)
    whole += machine.turn_sd * rng.standard_normal(shape)
    halves = np.exp(whole[..., None] + machine.half_sd * rng.standard_normal((*shape, 2)))
    _burst(halves, machine, way, rng, began)
    if beside is not None:
        _crowd(halves, beside, way, rng, began)
    for number in (0, 1):
        span = way.half(number)
        halves[..., number] *= _carried(truth, span, order, places)
        halves[..., number] *= _warmed(truth, way, span, shape)
    # Drawn last: the same seed with another truth has the same noise.
    counts = rng.poisson(halves * way.counted_s / 2)
    return Taken(
        transactions=counts.sum(axis=-1),
        early=counts[..., 0],
        places=places,
        began_s=began,
        slots=slots,
        way=way,
    )


def block_lengths(configurations, blocks, whole_s):
    """Return what counts of a run in each block, in seconds, as the product plans it."""
    short = [s for n, s in short_lengths(configurations, whole_s) for _ in range(n)]
    return np.array([*short, *[whole_s] * blocks])[:blocks]


def drawn_slots(configurations, campaigns, blocks, seed):
    """Return the slot of each configuration as the product draws it, (campaigns, blocks, k)."""
    rows = range(seed, seed + campaigns)
    drawn = [
        [slot_order(configurations, block_coin(n, b), n, b) for b in range(blocks)] for n in rows
    ]
    order = np.array(drawn)
    return np.argsort(order, axis=-1)


def _starts(machine, rng, shape):
    campaigns, blocks, cells, _, k = shape
    start = machine.start_sd * rng.standard_normal((campaigns, blocks, 1, 1, k))
    return start + machine.cell_sd * rng.standard_normal((campaigns, blocks, cells, 1, k))


def _drift(machine, way, rng, numbers):
    """Return the shared drift of each turn, by its number in the cell."""
    steps = rng.standard_normal((*numbers.shape[:3], numbers.shape[3] * numbers.shape[4]))
    walk = np.cumsum(machine.walk_sd * np.sqrt(way.turn_s) * steps, axis=-1)
    flat = numbers.reshape(*numbers.shape[:3], -1)
    return np.take_along_axis(walk, flat, axis=-1).reshape(numbers.shape)


def _burst(halves, machine, way, rng, began):
    """Take from every half turn what bursts take that overlap with it."""
    cell_s = way.turn_s * np.prod(began.shape[3:])
    reach_s = cell_s + 5 * machine.burst_s
    expected = machine.bursts_per_minute * reach_s / 60
    there = rng.poisson(expected, began.shape[:3])
    for number in range(int(there.max(initial=0))):
        at = rng.uniform(-5 * machine.burst_s, cell_s, there.shape)
        ends = at + rng.exponential(machine.burst_s, there.shape)
        depth = machine.burst_depth * rng.uniform(0.3, 1.0, there.shape) * (number < there)
        for half in (0, 1):
            begin, end = (began + edge for edge in way.half(half))
            overlap = np.minimum(end, _over(ends)) - np.maximum(begin, _over(at))
            halves[..., half] *= 1 - _over(depth) * np.clip(overlap, 0, None) / (way.counted_s / 2)


def _crowd(halves, neighbour, way, rng, began):
    """Take from every half turn the share of the machine that a neighbour has meanwhile.

    Cells begin ``CELL_S`` apart, so that what comes in whole parts of that meets all alike.
    """
    campaigns, blocks, cells = began.shape[:3]
    cell = CELL_S * np.arange(blocks * cells).reshape(blocks, cells, 1, 1)
    for campaign in range(campaigns):
        there = neighbour.timeline(rng, CELL_S * blocks * cells)
        for half in (0, 1):
            begin, end = (began[campaign] + cell + edge for edge in way.half(half))
            halves[campaign, ..., half] *= 1 - there.share(begin, end)


def _over(of_cells):
    return of_cells[..., None, None]


def _carried(truth, span, order, places):
    """Return what is left of the rate, 1 where the turn before was its own."""
    k = order.shape[-1]
    last_before = np.full(order.shape[:-1], -1)  # nothing is known: as after another one
    last_before[..., 1:] = order[..., :-1, -1]
    itself = (places == 0) & (last_before[..., None] == np.arange(k))
    lost = np.array([share * mean_loss(truth, span) for share in truth.lost])
    return np.where(itself, 1.0, 1.0 - lost)


def mean_loss(truth, span):
    """Return the mean of the loss over a part of a turn, as a share of its first value."""
    begin, end = span
    if truth.step:
        return max(min(end, truth.lost_s) - begin, 0.0) / (end - begin)
    tau = truth.lost_s
    return tau / (end - begin) * (np.exp(-begin / tau) - np.exp(-end / tau))


def _warmed(truth, way, span, shape):
    """Return what is left of the rate, by the seconds under load so far."""
    _, _, cells, rounds, _ = shape
    number = np.arange(cells * rounds).reshape(cells, rounds, 1)
    under_load = way.warm_up_s + number * way.turn_s + np.mean(span)
    return 1.0 - np.asarray(truth.cold) * np.exp(-under_load / np.asarray(truth.warming_s))


def contrasts(taken):
    """Return ln(rate) against the first one, shape (campaigns, blocks, cells, configurations - 1).

    Ratio of totals over the rounds, as a run counts them; equal seconds cancel.
    """
    totals = np.log(np.maximum(taken.transactions.sum(axis=3), 1.0))
    return totals[..., 1:] - totals[..., :1]


class Outcomes(NamedTuple):
    """How campaigns ended: an entry per campaign, or per campaign and contender."""

    called: np.ndarray
    covered: np.ndarray
    blocks: np.ndarray


def at_fixed_n(y, effects):
    """Return what one interval over all blocks says, contenders sharing the error."""
    level = spending.FIXED_ALPHA / y.shape[-1]
    found = [[block_interval(pooled_contrasts(d), level) for d in _each(each)] for each in y]
    low = np.array([[each.low for each in row] for row in found])
    high = np.array([[each.high for each in row] for row in found])
    truth = np.asarray(effects[1:])
    return Outcomes(
        called=((low > 0) | (high < 0)).any(axis=1),
        covered=(low <= truth) & (truth <= high),
        blocks=np.full(len(y), y.shape[1]),
    )


def sequential(y, effects, configurations=None):
    """Return how campaigns end that stop as the product's do: all results decided, or budget.

    The last axis of ``y`` has the contenders; with a number of ``configurations`` of its own it has
    those of each workload.
    """
    how = {"results": y.shape[-1], "configurations": configurations, "block_s": CELL_S}
    rule, terms = terms_of(y.shape[1], **how)
    ended = [at_its_end(_each(each), rule, terms) for each in y]
    truth = np.expm1(np.asarray(effects[1:]))
    return Outcomes(
        called=np.array([any(h.verdict in CHANGED for h in row) for row in ended]),
        covered=np.array(
            [[holds(h.effect, at) for h, at in zip(row, truth, strict=True)] for row in ended]
        ),
        blocks=np.array([row[0].blocks for row in ended]),
    )


def _each(y):
    """Return (blocks, cells) of each contender."""
    return np.moveaxis(y, -1, 0)


def block_turns(taken, campaign, block, cell):
    """Return the turns of one block and cell as the product has them."""
    at = campaign, block, cell
    return BlockTurns(
        rounds=np.arange(taken.way.rounds, dtype=float),
        places=taken.places[at].astype(float),
        seconds=np.full(taken.places.shape[3:], taken.way.counted_s),
        transactions=taken.transactions[at].astype(float),
        early=taken.early[at].astype(float),
    )


def changes(taken, what, contender=1):
    """Return the product's change of every campaign and block: a list of arrays, None left out."""
    weights = np.zeros(taken.places.shape[-1])
    weights[0], weights[contender] = -1.0, 1.0
    campaigns, blocks, cells = taken.places.shape[:3]
    return [
        np.array(
            [
                np.mean(known)
                for block in range(blocks)
                if (
                    known := [
                        value
                        for cell in range(cells)
                        if (
                            value := CHANGES[what](
                                block_turns(taken, campaign, block, cell), weights
                            )
                        )
                        is not None
                    ]
                )
            ]
        )
        for campaign in range(campaigns)
    ]


def suspected(found, blocks=None):
    """Return in which campaigns a rule fires after so many blocks, all unless told."""
    return np.array([is_suspect(interval_of_changes(each[:blocks])) for each in found])


def ever_suspected(found, until):
    """Return in which campaigns it fires after any block, asked after each."""
    return np.any([suspected(found, blocks) for blocks in range(1, until + 1)], axis=0)


def quiet(machine):
    """Return the machine without anything but counting: for a bias, whose size noise hides."""
    nothing = {"turn_sd": 0.0, "half_sd": 0.0, "walk_sd": 0.0, "start_sd": 0.0, "cell_sd": 0.0}
    return replace(machine, bursts_per_minute=0, **nothing)
