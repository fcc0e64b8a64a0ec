"""All rules of the stack, in the order to print them, and facts judged by every one."""

from collections.abc import Sequence
from typing import Final

from steelyard.core.stack import JudgedRule
from steelyard.core.stack_facts import StackFacts
from steelyard.tuning.rules import (
    bench,
    cloudnativepg,
    domain_cpus,
    domain_definition,
    domain_memory,
    hypervisor,
    kubernetes_cpus,
    kubernetes_memory,
    linux_cpus,
    linux_memory,
    page_pools,
    postgres_memory,
    postgres_work,
    redis,
    storage,
    waking,
)
from steelyard.tuning.rules.judging import judge_by
from steelyard.tuning.rules.rule import Rule


def _by_code(*groups: Sequence[Rule]) -> list[Rule]:
    return sorted((rule for group in groups for rule in group), key=lambda rule: rule.code)


RULES: Final[tuple[Rule, ...]] = (
    *_by_code(domain_definition.RULES, domain_cpus.RULES, domain_memory.RULES, hypervisor.RULES),
    *_by_code(page_pools.RULES, linux_memory.RULES, linux_cpus.RULES),
    *_by_code(kubernetes_cpus.RULES, kubernetes_memory.RULES),
    *cloudnativepg.RULES,
    *storage.RULES,
    *_by_code(postgres_memory.RULES, postgres_work.RULES),
    *redis.RULES,
    *bench.RULES,
    *waking.RULES,
)


def judge(facts: StackFacts) -> tuple[JudgedRule, ...]:
    """Return what comes of every rule, in the catalogue's order."""
    return tuple(judge_by(rule, facts) for rule in RULES)
