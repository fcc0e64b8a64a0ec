"""All rules of the stack, in the order to print them, and facts judged by every one."""

from collections.abc import Sequence
from typing import Final

from steelyard.core.stack import JudgedRule
from steelyard.core.stack_facts import StackFacts
from steelyard.tuning.rules import (
    bench,
    domain_cpus,
    domain_definition,
    domain_memory,
    kubernetes_cpus,
    kubernetes_memory,
    linux_cpus,
    linux_memory,
    redis,
    storage,
)
from steelyard.tuning.rules import domain_definition as hypervisor
from steelyard.tuning.rules import kubernetes_cpus as cloudnativepg
from steelyard.tuning.rules import linux_cpus as waking
from steelyard.tuning.rules import linux_memory as page_pools
from steelyard.tuning.rules import postgres as postgres_memory
from steelyard.tuning.rules import postgres as postgres_work
from steelyard.tuning.rules.rule import Rule, judge_by


def _by_code(*groups: Sequence[Rule]) -> list[Rule]:
    return sorted((rule for group in groups for rule in group), key=lambda rule: rule.code)


RULES: Final[tuple[Rule, ...]] = (
    *_by_code(
        domain_definition.RULES, domain_cpus.RULES, domain_memory.RULES, hypervisor.HYPERVISOR_RULES
    ),
    *_by_code(page_pools.PAGE_POOL_RULES, linux_memory.RULES, linux_cpus.RULES),
    *_by_code(kubernetes_cpus.RULES, kubernetes_memory.RULES),
    *cloudnativepg.OPERATOR_RULES,
    *storage.RULES,
    *_by_code(postgres_memory.MEMORY_RULES, postgres_work.RULES),
    *redis.RULES,
    *bench.RULES,
    *waking.WAKING_RULES,
)


def judge(facts: StackFacts) -> tuple[JudgedRule, ...]:
    """Return what comes of every rule, in the catalogue's order."""
    return tuple(judge_by(rule, facts) for rule in RULES)
