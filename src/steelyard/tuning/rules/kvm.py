"""Rules of virtual machines and the hypervisor below them."""

from typing import Final

from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = ()
