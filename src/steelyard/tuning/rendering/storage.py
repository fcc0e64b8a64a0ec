"""The storage class of a design's volumes."""

from collections.abc import Iterator
from typing import Final

from steelyard.model.stack import StackDesign
from steelyard.tuning.rendering.remarks import HEAD, hashed
from steelyard.tuning.rendering.yaml_text import Entry, yaml_text

LONGHORN_CLASS: Final = "longhorn-strict-local"
LOCAL_CLASS: Final = "local-path-late"

_LONGHORN: Final = "Longhorn, 'Storage Class Parameters'"


def storage_class(design: StackDesign) -> str:
    """Return a new class for the database's volumes: local to its node, bound when it is placed."""
    longhorn = _is_longhorn(design)
    late = (
        "The volume is made where the pod is placed, not before. Source: Kubernetes, 'Storage "
        "Classes'."
    )
    return yaml_text(
        hashed(
            f"{HEAD} A class cannot be changed once it is there: leave this file out where the "
            "cluster has one of this name that binds as late and keeps one copy."
        ),
        (
            Entry(key="apiVersion", value="storage.k8s.io/v1"),
            Entry(key="kind", value="StorageClass"),
            Entry(key="metadata", value=(Entry(key="name", value=class_name(design)),)),
            Entry(
                key="provisioner",
                value="driver.longhorn.io" if longhorn else "rancher.io/local-path",
            ),
            Entry(key="reclaimPolicy", value="Retain"),
            Entry(key="volumeBindingMode", value="WaitForFirstConsumer", why=late),
            *(_longhorn() if longhorn else ()),
        ),
    )


def class_name(design: StackDesign) -> str:
    """Return the name of the storage class: the cluster's that was named, else a new one's."""
    asked = design.request.storage_class or (design.pod.storage_class if design.pod else None)
    return asked or (LONGHORN_CLASS if _is_longhorn(design) else LOCAL_CLASS)


def _is_longhorn(design: StackDesign) -> bool:
    return "longhorn" in (design.request.storage or "")


def _longhorn() -> Iterator[Entry]:
    once = (
        "PostgreSQL replicates; strict-local takes exactly one replica, on the pod's own node. "
        f"Source: {_LONGHORN}."
    )
    parameters = (
        Entry(key="numberOfReplicas", value="1", why=once),
        Entry(key="dataLocality", value="strict-local"),
        Entry(key="staleReplicaTimeout", value="2880"),
        Entry(key="dataEngine", value="v1"),
    )
    yield Entry(key="allowVolumeExpansion", value=True)
    yield Entry(key="parameters", value=parameters)
