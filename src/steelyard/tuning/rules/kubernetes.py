"""Rules of Kubernetes: kubelet, pods, CloudNativePG."""

from typing import Final

from steelyard.tuning.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = ()
