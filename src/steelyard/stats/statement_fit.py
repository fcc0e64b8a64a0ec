"""A latency at one client, split into a cost of each statement and a cost of the commit."""

from dataclasses import dataclass

import numpy as np

from steelyard.stats.student import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCosts:
    """The fit ``latency = a x statements + b x commits``, block by block.

    Attributes:
        per_statement: a, shape (blocks,), in the unit of the latencies.
        per_commit: b, same shape; it may be negative within noise.
        residual: Largest absolute miss of the fit to the median latencies; with as many scripts
            as parameters it would be 0 whatever the latencies are.
    """

    per_statement: FloatArray
    per_commit: FloatArray
    residual: float


def fit_statements(
    latency: FloatArray, statements: FloatArray, commits: FloatArray
) -> StatementCosts:
    """Return least squares of every block's latencies on statements and commits.

    Args:
        latency: Shape (blocks, scripts), any unit of time: mean latency at one client.
        statements: Shape (scripts,): statements that a client sends and waits for, one by one.
        commits: Shape (scripts,): commits that must be durable.

    Returns:
        In the unit of the latencies; unweighted, as the source does it.

    Raises:
        ValueError: Fewer than three scripts, or they do not tell statements from commits.

    Source:
        The published latencies at one client fit it within 0.02 ms (layers, section 4.1).
    """
    design = np.column_stack([statements, commits]).astype(float)
    if len(design) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("a fit of two costs needs three scripts that differ in both")
    solved = np.linalg.lstsq(design, latency.T, rcond=None)[0]
    median = np.median(latency, axis=0)
    missed = design @ np.linalg.lstsq(design, median, rcond=None)[0] - median
    return StatementCosts(
        per_statement=solved[0], per_commit=solved[1], residual=float(np.abs(missed).max())
    )
