"""Rules of PostgreSQL."""

from typing import Final

from steelyard.tuning.rules import postgres_memory, postgres_work
from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted((*postgres_memory.RULES, *postgres_work.RULES), key=lambda rule: rule.code)
)
