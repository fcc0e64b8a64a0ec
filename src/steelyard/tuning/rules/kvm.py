"""Rules of virtual machines and the hypervisor below them."""

from typing import Final

from steelyard.tuning.rules import domain_cpus, domain_definition, domain_memory, hypervisor
from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (*domain_definition.RULES, *domain_cpus.RULES, *domain_memory.RULES, *hypervisor.RULES),
        key=lambda rule: rule.code,
    )
)
