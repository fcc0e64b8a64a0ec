"""How often a block is tried, and from when on a neighbour is borne.

A cause like a dead server ends the campaign when it comes three times in a row. A neighbour does
not: after as many redos as are allowed its runs count as suspect. Whether a block is redone may
depend on the neighbour alone, never on results or arms. Then exchanging the treatments' labels
would change nothing about which tries are kept, so between equal treatments each block's sign is
still the coin's, and the interval keeps its level however the neighbour comes and goes. A rule that
looks at the arm ("the slower one was disturbed") keeps the other arm's disturbances and is biased;
``tests/method/test_redone_blocks.py`` shows both. That is why the decision here is made before a
try begins, from the causes of earlier tries and nothing else.
"""

from collections.abc import Sequence
from typing import Final

from steelyard.model.campaign import BlockOutcome
from steelyard.model.rules import ENVIRONMENT

# Before each try of one block: a restart takes seconds, and an outage may take longer. A guess;
# without pauses all tries would meet the same moment.
_PAUSES_S: Final = (0.0, 2.0, 20.0)
MAX_TRIES: Final = len(_PAUSES_S)  # what fails three times in a row does not come from a neighbour
# Of the complete blocks so far, and at any time: a guess. On a machine that is never quiet the
# budget would else go into blocks that are thrown away.
REDONE_SHARE: Final = 0.25
REDONE_ANYHOW: Final = 2


def pause_before_s(tried: int) -> float:
    """Return the pause before a try, after so many tries of the same block."""
    return _PAUSES_S[min(tried, len(_PAUSES_S) - 1)]


def bears_neighbours(outcomes: Sequence[BlockOutcome], index: int) -> bool:
    """Return whether the next try of a block counts also beside a neighbour.

    Args:
        outcomes: Of all tries of the campaign so far.
        index: The block.
    """
    disturbed = [outcome.index for outcome in outcomes if outcome.cause in ENVIRONMENT]
    complete = sum(outcome.complete for outcome in outcomes)
    used_up = len(disturbed) >= REDONE_ANYHOW + REDONE_SHARE * complete
    return used_up or disturbed.count(index) >= MAX_TRIES - 1
