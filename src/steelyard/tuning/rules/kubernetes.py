"""Rules of Kubernetes: kubelet, pods, CloudNativePG."""

from typing import Final

from steelyard.tuning.rules import cloudnativepg, kubernetes_cpus, kubernetes_memory
from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *sorted((*kubernetes_cpus.RULES, *kubernetes_memory.RULES), key=lambda rule: rule.code),
    *cloudnativepg.RULES,
)
