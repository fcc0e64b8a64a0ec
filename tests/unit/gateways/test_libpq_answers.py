"""The loop that takes an answer from libpq."""

import select
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from steelyard.gateways.sql import last_result


@dataclass
class _Connection:
    """A connection of libpq that has something to send, and is busy before each result."""

    results: list[str]
    unsent: int = 2
    steps: list[str] = field(default_factory=list)
    _consumed: bool = False

    def flush(self) -> int:
        self.unsent -= 1
        return int(self.unsent >= 0)

    def is_busy(self) -> int:
        return int(not self._consumed)

    def consume_input(self) -> None:
        self.steps.append("consume")
        self._consumed = True

    def get_result(self) -> str | None:
        self._consumed = False
        return self.results.pop(0) if self.results else None


def _answer(results: Sequence[str]) -> tuple[object, list[str]]:
    connection: Any = _Connection(list(results))
    names = {select.POLLIN: "in", select.POLLOUT: "out"}
    found = last_result(connection, lambda events: connection.steps.append(names[events]))
    return found, connection.steps


def test_the_last_result_comes_back_when_all_was_taken() -> None:
    """Everything is sent first; input is taken only after the socket had some."""
    found, steps = _answer(["first", "last"])
    assert found == "last"
    assert steps == ["out", "out", *["in", "consume"] * 3]


def test_no_result_is_an_error() -> None:
    """None is not an empty answer."""
    with pytest.raises(psycopg.OperationalError, match="the server gave no answer"):
        _answer([])
