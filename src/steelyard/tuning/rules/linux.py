"""Rules of the Linux that the database runs on."""

from typing import Final

from steelyard.tuning.rules import linux_cpus, linux_memory, page_pools
from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted((*page_pools.RULES, *linux_memory.RULES, *linux_cpus.RULES), key=lambda rule: rule.code)
)
