"""Where the latency of a single client comes from: each statement's round trip, or the commit.

A penalty that is the same for every statement is a cost of the round trip (network, waking up the
other side), because work in the server differs from statement to statement. It is no distance of
memory, and no storage, which a transaction meets at its commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from steelyard.answers.observations import Observations, estimate_of
from steelyard.answers.published import published_latencies
from steelyard.answers.results import Grounds
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey
from steelyard.stats.intervals import FloatArray, signed_rank_interval
from steelyard.stats.scalability import StatementCosts, fit_statements

# Statements that the client waits for one by one, in all query modes, and commits that must be
# durable, by pgbench's builtin scripts: select-only is one SELECT; the others are BEGIN ... END
# around 3 and 5. Source: pgbench's documentation, "What Is the Transaction Actually Performed".
SCRIPTS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"select-only": (1, 0), "simple-update": (5, 1), "tpcb-like": (7, 1)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCost:
    """The two costs in one configuration, or in one published environment.

    Attributes:
        name: Of the configuration or the environment.
        blocks: Behind it; None of published figures, which are one run each.
        latency_s: At one client by script, in the order of ``SCRIPTS``: medians over blocks.
        residual_s: Largest miss of the fit; three scripts and two costs leave one degree of
            freedom.
    """

    name: str
    blocks: int | None
    latency_s: tuple[float, ...]
    per_statement_s: Estimate
    per_commit_s: Estimate
    residual_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDifference:
    """How both costs differ between two configurations, block by block."""

    baseline: str
    configuration: str
    per_statement_s: Estimate
    per_commit_s: Estimate

    @property
    def is_of_round_trips(self) -> bool:
        """Return whether the cost of every statement surely differs."""
        return self.per_statement_s.leaves_out_zero

    @property
    def is_of_commits(self) -> bool:
        """Return whether the cost of a commit surely differs."""
        return self.per_commit_s.leaves_out_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFit:
    """Both costs of all configurations, their differences, and the published case beside them."""

    costs: tuple[StatementCost, ...]
    differences: tuple[StatementDifference, ...]
    published: tuple[StatementCost, ...]


LEVEL = 0.05


def fit_of_statements(grounds: Grounds) -> StatementFit | None:
    """Return the fit at one client; None unless all three scripts ran with one client."""
    seen, experiment = grounds.closed, grounds.record.experiment
    columns = _columns(seen, experiment)
    if columns is None or not seen.blocks:
        return None
    fitted = {
        name: _fit(np.exp(-seen.log_tps[:, side, columns]))
        for side, name in enumerate(seen.configurations)
    }
    return StatementFit(
        costs=tuple(_cost(name, seen.blocks, *found) for name, found in fitted.items()),
        differences=tuple(
            _difference(experiment.baseline, name, fitted[experiment.baseline][1], fitted[name][1])
            for name in experiment.contenders
        ),
        published=published_costs(),
    )


def published_costs() -> tuple[StatementCost, ...]:
    """Return the same fit of the published latencies: single runs, so without intervals."""
    found = []
    for environment, latency_s in published_latencies(tuple(SCRIPTS), clients=1).items():
        fitted = _fit(np.array([latency_s]))
        found.append(_cost(environment, None, *fitted))
    return tuple(found)


def _columns(seen: Observations, experiment: Experiment) -> list[int] | None:
    """Return the column of each script at one client, on one size of data."""
    found: dict[str, tuple[int, int | None]] = {}
    for column, cell in enumerate(seen.cells):
        workload = experiment.workload(cell.workload)
        script = workload.builtin or ""
        if script in SCRIPTS and _is_alone(cell):
            found.setdefault(script, (column, workload.scale_factor))
    if set(found) != set(SCRIPTS) or len({scale for _, scale in found.values()}) > 1:
        return None
    return [found[script][0] for script in SCRIPTS]


def _is_alone(cell: CellKey) -> bool:
    return cell.load.clients == 1 and not cell.load.is_open


def _fit(latency_s: FloatArray) -> tuple[FloatArray, StatementCosts]:
    statements, commits = np.array(list(SCRIPTS.values()), dtype=float).T
    return latency_s, fit_statements(latency_s, statements, commits)


def _cost(
    name: str, blocks: int | None, latency_s: FloatArray, costs: StatementCosts
) -> StatementCost:
    return StatementCost(
        name=name,
        blocks=blocks,
        latency_s=tuple(float(value) for value in np.median(latency_s, axis=0)),
        per_statement_s=_estimate(costs.per_statement),
        per_commit_s=_estimate(costs.per_commit),
        residual_s=costs.residual,
    )


def _difference(
    baseline: str, configuration: str, before: StatementCosts, after: StatementCosts
) -> StatementDifference:
    return StatementDifference(
        baseline=baseline,
        configuration=configuration,
        per_statement_s=_estimate(after.per_statement - before.per_statement),
        per_commit_s=_estimate(after.per_commit - before.per_commit),
    )


def _estimate(blocks: FloatArray) -> Estimate:
    """Return the centre over blocks; bounds where there are blocks enough for them."""
    return estimate_of(signed_rank_interval(blocks, LEVEL))
