"""How far a replica is behind: the most of all looks, until the server is dead."""

import threading
from collections.abc import Sequence

import pytest

from steelyard.core.wording import TargetError
from steelyard.crash.testing import Lag
from steelyard.systems.redis.engine import OffsetWatch


class Watch(OffsetWatch):
    """Says one distance after the other, then that the server is gone."""

    def __init__(self, told: Sequence[int | None]) -> None:
        self._told = list(told)
        self.said = threading.Event()
        self.closed = False

    def behind_bytes(self) -> int | None:
        """Return the next."""
        if not self._told:
            self.said.set()
            raise TargetError("connection closed")
        return self._told.pop(0)

    def close(self) -> None:
        """Note that it is over."""
        self.closed = True


@pytest.mark.parametrize(
    ("told", "most"), [((0, 70, 20), 70), ((0,), 0), ((None, 5), 5), ((None,), None), ((), None)]
)
def test_the_most_counts(told: Sequence[int | None], most: int | None) -> None:
    """Not the last: the lag at a death is that of a moment nobody chose; never seen is None."""
    watch = Watch(told)
    with Lag(watch) as lag:
        assert watch.said.wait(30)
    assert lag.most_bytes == most
    assert watch.closed
