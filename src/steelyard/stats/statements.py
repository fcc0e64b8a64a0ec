"""What a statement and a commit cost a client that waits for each of them.

A latency at one client, split into a cost of each statement and a cost of the commit; and whether
three such latencies changed alike at every wait.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from steelyard.stats.intervals import FloatArray


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


# A guess: how far the read-only statement may be from the others and still be called alike. The
# published case is within 4 %.
ALIKE_FRACTION: Final = 0.25
# More than an access to memory of the own node. Source: 40 to 100 ns (layers, section 4.2).
REMOTE_ACCESS_S: Final = 100e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChange:
    """What vanished from each wait, or was added to it, in the unit of the latencies.

    Attributes:
        per_statement: Of a statement of the writing scripts, which differ in two statements only.
        per_commit: Of what else a writing script does, its commit.
        read_only: Of the read-only script, one statement: independent of the other two.
    """

    per_statement: float
    per_commit: float
    read_only: float

    @property
    def is_alike(self) -> bool:
        """Return whether the read-only statement changed as those of the writing scripts.

        Work differs from statement to statement (BEGIN does next to none), waiting for the other
        side does not.
        """
        return self.per_statement * self.read_only > 0.0 and (
            abs(self.read_only - self.per_statement) < ALIKE_FRACTION * abs(self.per_statement)
        )


def change_of_waits(before: FloatArray, after: FloatArray, statements: FloatArray) -> WaitChange:
    """Return how the waits of three scripts changed; single values, so without an interval.

    Args:
        before: Shape (3,), any unit of time: mean latency at one client of a read-only script of
            one statement and of two writing scripts with one commit each.
        after: The same later.
        statements: Shape (3,): statements that each script waits for, one by one.

    Returns:
        After minus before.

    Raises:
        ValueError: The writing scripts have equally many statements.

    Source:
        The published latencies (layers, section 4.1).
    """
    change = after - before
    further = statements[2] - statements[1]
    if further == 0:
        raise ValueError("two writing scripts of equally many statements tell no cost of one")
    per_statement = float((change[2] - change[1]) / further)
    return WaitChange(
        per_statement=per_statement,
        per_commit=float(change[1]) - float(statements[1]) * per_statement,
        read_only=float(change[0]),
    )
