"""All rules of the stack, in the order to print them, and facts judged by every one."""

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

_FAMILIES: Final = ("KVM", "OS", "K8S", "CNPG", "LH", "PG", "RED", "BEN", "WAK")
_MODULES: Final = (domains, linux, cluster, kubernetes_memory, postgres, redis, bench)
RULES: Final[tuple[StackRule, ...]] = tuple(
    sorted(
        (rule for module in _MODULES for rule in module.RULES),
        key=lambda rule: (_FAMILIES.index(rule.code[:-3]), rule.code),
    )
)


def judge(facts: StackFacts) -> tuple[JudgedRule, ...]:
    """Return what comes of every rule, in the catalogue's order."""
    return tuple(judge_by(rule, facts) for rule in RULES)
