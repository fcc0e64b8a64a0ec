"""The manifests behind presets for Kubernetes: storage classes, and a Cluster per configuration."""

from typing import Any

from ruamel.yaml import YAML

from steelyard.campaign.file.files import load_experiment
from steelyard.core.kubernetes import Manifest, SecretRef
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import GIB
from steelyard.systems.postgres.cloudnative_pg.own_cluster import cluster_manifest
from steelyard.tuning.files.files import MATRIX, class_text
from steelyard.tuning.profiles import MachineFacts

PRESETS = ("high-availability", "published-storage", "storage-locality")
_CAMPAIGN = "20261122-140000-7f3a"


def class_manifests() -> dict[str, Manifest]:
    """Return the storage classes that users are given, by name."""
    read: dict[str, Any] = {each.name: YAML(typ="safe").load(class_text(each)) for each in MATRIX}
    return read


def preset_manifests(preset: str, namespace: str) -> list[Manifest]:
    """Return what a preset needs and makes: classes, then a Cluster for each."""
    facts = MachineFacts(cpus=2, memory_bytes=8 * GIB)
    experiment = load_experiment(f"preset:{preset}", facts=facts, seed=1).experiment
    known = class_manifests()
    targets = experiment.targets_of(CloudNativePgTarget)
    classes = dict.fromkeys(target.storage_class or "" for target in targets.values())
    clusters = [
        cluster_manifest(
            target,
            name=f"steelyard-{name}",
            namespace=namespace,
            secret=SecretRef(namespace=namespace, name="steelyard-superuser"),
            settings=experiment.configuration(name).asked(),
            campaign_id=_CAMPAIGN,
        )
        for name, target in targets.items()
    ]
    return [*(known[name] for name in classes), *clusters]
