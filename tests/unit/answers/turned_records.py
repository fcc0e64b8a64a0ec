"""Made records of blocks whose configurations took turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from made_records import SLICE_S, an_experiment, compared

from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment
from steelyard.core.measurement import Run
from steelyard.core.schedule import Turn

TURN_S, COUNTED_S = 0.25, 0.15
RATE = 1000.0 / COUNTED_S
Shares = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """What happens in turns, by configuration; shares of the rate.

    Attributes:
        rounds: Of a block.
        noise: Of a half turn, of its logarithm.
        missing: At the first round, gone at the last, falling evenly.
        lost_early: In the first half of every turn that counts.
        lost_after: In turns after another configuration's.
    """

    rounds: int = 24
    noise: float = 0.02
    missing: Shares = field(default_factory=dict)
    lost_early: Shares = field(default_factory=dict)
    lost_after: Shares = field(default_factory=dict)


def in_turns(
    blocks: int = 12, *, experiment: Experiment | None = None, **ways: object
) -> CampaignRecord:
    """Return a record of equal configurations, but for what happens in their turns."""
    asked = experiment or an_experiment(loads=1)
    return with_turns(compared(blocks, experiment=asked), Ways(**ways))  # type: ignore[arg-type]


def with_turns(record: CampaignRecord, ways: Ways) -> CampaignRecord:
    """Return a record whose runs have turns: orders drawn by chance, alike in all its runs."""
    rng = np.random.default_rng(9)
    names = [configuration.name for configuration in record.experiment.configurations]
    orders: dict[tuple[object, ...], np.ndarray] = {}
    runs = []
    for run in record.runs:
        key = run.block, run.cell
        if key not in orders:
            rounds = np.tile(np.arange(len(names)), (ways.rounds, 1))
            orders[key] = rng.permuted(rounds, axis=1)
        runs.append(_turned(run, orders[key], names.index(run.configuration), ways, rng))
    return replace(record, runs=tuple(runs))


def _turned(run: Run, order: np.ndarray, side: int, ways: Ways, rng: np.random.Generator) -> Run:
    """Return a run taken in turns; ``order`` has the configuration at each place of each round."""
    rounds, configurations = order.shape
    places = np.argmax(order == side, axis=1)
    flat = order.ravel()
    at = np.arange(rounds) * configurations + places
    after_another = flat[np.maximum(at - 1, 0)] != side
    missing = ways.missing.get(run.configuration, 0.0) * np.linspace(1.0, 0.0, rounds)
    lost = np.where(after_another, ways.lost_after.get(run.configuration, 0.0), 0.0)
    halves = RATE * COUNTED_S / 2 * np.exp(ways.noise * rng.standard_normal((rounds, 2)))
    halves *= ((1.0 - missing) * (1.0 - lost))[:, None]
    halves[:, 0] *= 1.0 - ways.lost_early.get(run.configuration, 0.0)
    counts = np.rint(halves).astype(int)
    turns = tuple(
        Turn(
            round=number,
            place=int(places[number]),
            began_s=float(at[number] * TURN_S),
            seconds=COUNTED_S,
            transactions=int(counts[number].sum()),
            early=int(counts[number, 0]),
        )
        for number in range(rounds)
    )
    assert run.measurement is not None
    total = float(counts.sum())
    measured = replace(
        run.measurement, transactions=total * SLICE_S / (COUNTED_S * rounds), seconds=SLICE_S
    )
    return replace(run, turns=turns, measurement=measured)


def without_rounds(record: CampaignRecord, configuration: str, *rounds: int) -> CampaignRecord:
    """Return it with some rounds gone from one configuration's runs."""
    return replace(
        record,
        runs=tuple(
            replace(run, turns=tuple(turn for turn in run.turns if turn.round not in rounds))
            if run.configuration == configuration
            else run
            for run in record.runs
        ),
    )
