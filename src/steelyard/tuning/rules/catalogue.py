"""All rules of the stack, in the order to print them."""

from typing import Final

from steelyard.tuning.rules import bench, kubernetes, kvm, linux, postgres, redis, storage, waking
from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *kvm.RULES,
    *linux.RULES,
    *kubernetes.RULES,
    *storage.RULES,
    *postgres.RULES,
    *redis.RULES,
    *bench.RULES,
    *waking.RULES,
)
