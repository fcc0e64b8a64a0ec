"""Rules of the Linux that the database runs on."""

from typing import Final

from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = ()
