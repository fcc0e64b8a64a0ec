"""What a statement and a commit cost a single client: the results of the fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from steelyard.core.findings import Estimate

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
