"""Rules of what was compared and how."""

from typing import Final

from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = ()
