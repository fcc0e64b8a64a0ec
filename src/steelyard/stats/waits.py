"""How three latencies at one client changed: alike at every wait, or otherwise."""

from dataclasses import dataclass
from typing import Final

from steelyard.stats.student import FloatArray

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
