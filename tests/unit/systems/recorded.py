"""Recorded output of real programs, by version."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.core.outside import Completed
from steelyard.core.wording import TargetError
from steelyard.systems.postgres.transaction_log import TransactionLog

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = (15, 16, 18)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One call of pgbench that really happened."""

    version: int
    name: str
    arguments: tuple[str, ...]
    exit_status: int
    started_at: float

    def __str__(self) -> str:
        return f"{self.version}-{self.name}"

    def completed(self) -> Completed:
        """Return what pgbench printed."""
        base = RECORDINGS / "pgbench" / str(self.version) / self.name
        return Completed(
            argv=("pgbench", *self.arguments),
            exit_status=self.exit_status,
            stdout=base.with_suffix(".stdout").read_text(),
            stderr=base.with_suffix(".stderr").read_text(),
        )


def words_of(log: TransactionLog) -> Counter[str]:
    """Return how many transactions had a word in place of their time, the ramp included."""
    found: Counter[str] = Counter()
    for each, number in log.unsuccessful.items():
        found[each.word] += number
    return found


def recordings() -> tuple[Recording, ...]:
    """Return all recordings of pgbench."""
    entries = json.loads((RECORDINGS / "pgbench" / "index.json").read_text())
    return tuple(Recording(**{**e, "arguments": tuple(e["arguments"])}) for e in entries)


def recorded(version: int, name: str) -> Recording:
    """Return one recording."""
    return next(r for r in recordings() if (r.version, r.name) == (version, name))


class RecordedSession:
    """A session that says again what a real server answered, statement by statement.

    It refuses whatever was not asked when it was recorded: a statement that is changed is to be
    recorded anew.
    """

    def __init__(self, name: str) -> None:
        text = (RECORDINGS / "postgres" / f"reader-{name}.json").read_text()
        told = json.loads(text)
        self.transactions: int = told["transactions"]
        self.clients: int = told["clients"]
        self._answers: dict[str, list[list[tuple[object, ...]]]] = {}
        for statement, rows in told["said"]:
            self._answers.setdefault(statement, []).append([tuple(row) for row in rows])
        self.refused: set[str] = set()
        self.closed = False

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Return the next recorded answer; the last one again and again."""
        assert len(parameters) == statement.count("%s")
        if any(part in statement for part in self.refused):
            raise TargetError("the server refused: permission denied")
        answers = self._answers[statement]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def close(self) -> None:
        """Note it."""
        self.closed = True


def catalogue_text(version: int) -> str:
    """Return the output of ``postgres --describe-config``."""
    return (RECORDINGS / "postgres" / f"describe-config-{version}.tsv").read_text()
