"""Rules of storage classes: on both sides of each."""

from dataclasses import replace

import pytest

from steelyard.core.stack import ClusterFacts, KubernetesFacts, StackFacts, StorageClassFacts
from support.judged_rules import HOLDS, NOTHING, said

STRICT = StorageClassFacts(
    name="fast",
    provisioner="driver.longhorn.io",
    binding="WaitForFirstConsumer",
    parameters={"numberOfReplicas": "1", "dataLocality": "strict-local"},
)
SPREAD = replace(STRICT, parameters={"dataLocality": "best-effort"})
LOCAL = StorageClassFacts(name="local", provisioner="rancher.io/local-path")


def stack(*classes: StorageClassFacts, instances: int = 3, used: str = "fast") -> StackFacts:
    """Return the facts of a cluster and these storage classes."""
    cluster = ClusterFacts(instances=instances, storage_class=used)
    return StackFacts(kubernetes=KubernetesFacts(storage_classes=classes, cluster=cluster))


def with_replicas(number: str) -> StorageClassFacts:
    """Return a strict-local class of so many replicas."""
    return replace(STRICT, parameters={**STRICT.parameters, "numberOfReplicas": number})


@pytest.mark.parametrize(
    ("code", "facts", "told"),
    [
        ("LH001", stack(STRICT), HOLDS),
        ("LH001", stack(with_replicas("2")), "fast: strict-local with 2 replicas"),
        (
            "LH001",
            stack(replace(STRICT, parameters={"dataLocality": "strict-local"})),
            "strict-local with 3 replicas",
        ),
        ("LH001", stack(SPREAD), NOTHING),
        ("LH001", stack(LOCAL), NOTHING),
        ("LH002", stack(STRICT), HOLDS),
        ("LH002", stack(SPREAD), "3 instances x 3 replicas = 9 copies"),
        ("LH002", stack(SPREAD, instances=1), HOLDS),
        ("LH002", stack(SPREAD, used="other"), NOTHING),
        ("LH002", stack(LOCAL, used="local"), NOTHING),
        ("LH002", stack(with_replicas("²")), NOTHING),
        ("LH003", stack(STRICT), HOLDS),
        ("LH003", stack(replace(STRICT, binding="Immediate")), "volumeBindingMode Immediate"),
        ("LH003", stack(LOCAL), "local: volumeBindingMode Immediate"),
        ("LH003", stack(replace(SPREAD, binding="Immediate")), NOTHING),
        ("LH004", stack(STRICT), HOLDS),
        ("LH004", stack(replace(STRICT, parameters={"dataEngine": "v2"})), "1024 pages"),
        ("LH004", stack(LOCAL), NOTHING),
    ],
)
def test_storage_rules_on_both_sides(code: str, facts: StackFacts, told: str) -> None:
    """Longhorn's default of 3 replicas counts where the class names no number."""
    assert told in said(code, facts)
