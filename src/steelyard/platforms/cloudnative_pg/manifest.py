"""The Cluster that a target asks for, as a manifest; pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from steelyard.model.kubernetes import (
    CLUSTER,
    DATABASE,
    MANAGED_BY,
    MANAGER,
    ROLE,
    Manifest,
    SecretRef,
    campaign_labels,
)
from steelyard.model.target import CloudNativePgTarget
from steelyard.platforms.cloudnative_pg.parameters import postgresql_spec
from steelyard.platforms.kubernetes.resources import resources_of

_SHUTDOWN_S: Final = 10


def cluster_manifest(
    target: CloudNativePgTarget,
    *,
    name: str,
    namespace: str,
    secret: SecretRef,
    settings: Mapping[str, str],
    campaign_id: str = "",
) -> Manifest:
    """Return the Cluster of a target.

    Args:
        target: That makes its own Cluster.
        name: Of the Cluster, at most 50 characters.
        namespace: Where it goes; empty: the manifest names none.
        secret: Of the superuser, whom the operator gives its password.
        settings: Of PostgreSQL.
        campaign_id: In the labels of everything; empty: none is named.
    """
    labels = _labels(campaign_id)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels}
    return {
        "apiVersion": CLUSTER.api_version,
        "kind": CLUSTER.name,
        "metadata": metadata,
        "spec": {
            **_instances(target),
            "inheritedMetadata": {"labels": labels},
            "enableSuperuserAccess": True,
            "superuserSecret": {"name": secret.name},
            **_storage(target),
            **_placement(target),
            "postgresql": _postgresql(target, settings),
        },
    }


def _labels(campaign_id: str) -> dict[str, str]:
    if campaign_id:
        return campaign_labels(campaign_id, DATABASE)
    return {MANAGED_BY: MANAGER, ROLE: DATABASE}


def _instances(target: CloudNativePgTarget) -> dict[str, Any]:
    """Return how many pods of what image there are, and how they are restarted.

    In place of a switchover the primary restarts where it is: another node would be another
    machine. A budget for a single instance would keep its node from being drained. Nobody but us
    is connected, so a shutdown need not wait three minutes for clients to leave.
    """
    return {
        "instances": target.instances,
        **({"imageName": target.image} if target.image else {}),
        "imagePullPolicy": "IfNotPresent",
        "enablePDB": target.instances > 1,
        "primaryUpdateStrategy": "unsupervised",
        "primaryUpdateMethod": "restart",
        "smartShutdownTimeout": _SHUTDOWN_S,
    }


def _storage(target: CloudNativePgTarget) -> dict[str, Any]:
    spec: dict[str, Any] = {"storage": _volume(target.storage, target.storage_class)}
    if target.wal_storage is not None:
        wal_class = target.wal_storage_class or target.storage_class
        spec["walStorage"] = _volume(target.wal_storage, wal_class)
    return spec


def _volume(size: str, storage_class: str | None) -> dict[str, str]:
    return {"size": size, **({"storageClass": storage_class} if storage_class else {})}


def _placement(target: CloudNativePgTarget) -> dict[str, Any]:
    affinity = {
        **({"nodeSelector": dict(target.node_selector)} if target.node_selector else {}),
        **({"tolerations": tolerations} if (tolerations := json.loads(target.tolerations)) else {}),
        **json.loads(target.affinity),
    }
    resources = resources_of(target.resources)
    return {
        **({"affinity": affinity} if affinity else {}),
        **({"resources": resources} if resources else {}),
    }


def _postgresql(target: CloudNativePgTarget, settings: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"parameters": {}, **postgresql_spec(settings)}
    if target.synchronous is not None:
        spec["synchronous"] = {
            "method": target.synchronous.method,
            "number": target.synchronous.number,
            "dataDurability": target.synchronous.data_durability,
        }
    return spec
