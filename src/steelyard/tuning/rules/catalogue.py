"""All rules of the stack, in the order to print them, and facts judged by every one."""

from collections.abc import Sequence
from typing import Final

from steelyard.core.stack import JudgedRule, StackFacts
from steelyard.tuning.rules import (
    bench,
    cluster,
    domains,
    kubernetes_memory,
    linux,
    postgres,
    redis,
)
from steelyard.tuning.rules.rule import StackRule, judge_by


def _by_code(*groups: Sequence[StackRule]) -> tuple[StackRule, ...]:
    return tuple(sorted((each for group in groups for each in group), key=lambda rule: rule.code))


VIRTUAL_MACHINES: Final = _by_code(
    domains.DEFINITION_RULES,
    domains.CPU_RULES,
    domains.MEMORY_RULES,
    domains.HYPERVISOR_RULES,
)
LINUX: Final = _by_code(linux.PAGE_POOL_RULES, linux.RULES, linux.CPU_RULES)
KUBERNETES: Final = (
    *_by_code(cluster.RULES, kubernetes_memory.RULES),
    *cluster.OPERATOR_RULES,
)
POSTGRES: Final = _by_code(postgres.MEMORY_RULES, postgres.RULES)
RULES: Final[tuple[StackRule, ...]] = (
    *VIRTUAL_MACHINES,
    *LINUX,
    *KUBERNETES,
    *cluster.STORAGE_RULES,
    *POSTGRES,
    *redis.RULES,
    *bench.RULES,
    *bench.WAKING_RULES,
)


def judge(facts: StackFacts) -> tuple[JudgedRule, ...]:
    """Return what comes of every rule, in the catalogue's order."""
    return tuple(judge_by(rule, facts) for rule in RULES)
