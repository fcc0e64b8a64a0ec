"""What an engine's work is called: transactions of PostgreSQL, requests of Redis.

Texts that are written once for all engines hold marks where the word belongs, characters of
Unicode's private use area that nobody types; who knows the experiment fills them.
"""

from dataclasses import dataclass, fields
from typing import Final

ONE: Final = "\ue101"  # transaction
MANY: Final = "\ue102"  # transactions
MANY_FIRST: Final = "\ue103"  # Transactions, at the beginning of a sentence
RATE: Final = "\ue104"  # tps
RATE_UNIT: Final = "\ue105"  # the unit of a column of that name; empty where the name has it
GENERATOR: Final = "\ue106"  # pgbench
SERVER: Final = "\ue107"  # PostgreSQL


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkWords:
    """The words of one engine under one generator; each field fills the mark of its name."""

    one: str = "transaction"
    many: str = "transactions"
    many_first: str = "Transactions"
    rate: str = "tps"
    rate_unit: str = "1/s"
    generator: str = "pgbench"
    server: str = "PostgreSQL"

    def fill(self, text: str) -> str:
        """Return a text with these words at its marks."""
        return text.translate(
            {ord(_MARKS[each.name]): getattr(self, each.name) for each in fields(self)}
        )


_MARKS: Final = {
    "one": ONE,
    "many": MANY,
    "many_first": MANY_FIRST,
    "rate": RATE,
    "rate_unit": RATE_UNIT,
    "generator": GENERATOR,
    "server": SERVER,
}
POSTGRES_WORDS: Final = WorkWords()


def redis_words(generator: str) -> WorkWords:
    """Return the words of Redis under one of its generators."""
    return WorkWords(
        one="request",
        many="requests",
        many_first="Requests",
        rate="ops/s",
        rate_unit="",
        generator=generator,
        server="Redis",
    )
