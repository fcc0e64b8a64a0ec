"""The logs of several pgbench processes whose clocks differ, as one: each is read by its own."""

import re
from collections.abc import Sequence
from typing import Final

from steelyard.engines.engine import LogReader
from steelyard.engines.postgres.log_counts import TransactionLog, merge

_PLACE: Final = re.compile(r"^.*?-([0-9]+)\.")  # `generators.divided` names each one's logs so


class SeveralLogs:
    """Reads the logs of generators that were started together on different machines.

    Args:
        readers: Of each generator, in the order of their commands.
    """

    def __init__(self, readers: Sequence[LogReader]) -> None:
        self._readers = tuple(readers)

    def feed(self, source: str, chunk: bytes) -> None:
        """Take the next bytes of a file of one of them."""
        found = _PLACE.match(source)
        place = int(found[1]) if found else 0
        self._readers[min(place, len(self._readers) - 1)].feed(source, chunk)

    def finish(self, *, ramp_s: float | None = None) -> TransactionLog:
        """Return what all of them wrote.

        Raises:
            MeasurementError: The ramp of one was over later than was told at first.
        """
        logs = [reader.finish(ramp_s=ramp_s) for reader in self._readers]
        return merge([log for log in logs if isinstance(log, TransactionLog)])
