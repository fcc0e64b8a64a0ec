"""Storage classes by name: what each says of the volumes made of it, and its manifest.

Longhorn itself was never run here: its parameters follow its documentation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from steelyard.model.storage_classes import LATE, LOCAL_PATH, LONGHORN
from steelyard.tuning.rendering.remarks import hashed
from steelyard.tuning.rendering.yaml_text import Entry, yaml_text

_PARAMETERS: Final = "Source: Longhorn, 'Storage Class Parameters'."
_TAGS: Final = "Source: Longhorn, 'Storage Tags'."
_PRACTICES: Final = "Source: Longhorn, 'Best Practices'."
_LATE: Final = (
    "The volume is made where the pod is placed, not before. Source: Kubernetes, 'Storage Classes'."
)
_RECLAIM: Final = {
    "Delete": "Every visit makes its volumes anew; the last one's go with their claims.",
}
_LOCALITY: Final = {
    "disabled": f"The replicas may be on any node, also without one on the pod's. {_PARAMETERS}",
    "best-effort": "A replica is kept on the pod's own node where that is possible: reads stay"
    f" there, writes go to every replica. {_PRACTICES}",
    "strict-local": "PostgreSQL replicates; strict-local takes exactly one replica, on the pod's"
    f" own node. {_PARAMETERS}",
}
_DISKS: Final = {
    "dedicated": "Only disks with this tag in Longhorn's settings of the node: those that hold"
    f" nothing else. {_TAGS}",
    "shared": f"Only disks with this tag: those that something else uses, too. {_TAGS}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LonghornVolumes:
    """What Longhorn is told of the volumes of a class.

    Attributes:
        locality: ``disabled``, ``best-effort`` or ``strict-local``.
        disks: A tag of disks; empty: any.
    """

    replicas: int
    locality: str
    disks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A storage class to be made.

    Attributes:
        summary: What it is for, in a sentence or two.
        longhorn: None: directories of the node, by the local-path provisioner.
        reclaim: What becomes of a volume whose claim is gone.
    """

    name: str
    summary: str = ""
    longhorn: LonghornVolumes | None = None
    reclaim: str = "Delete"


MATRIX: Final = (
    StorageClass(
        name="local-path",
        summary="A directory of the node's own disk. Leave it out where the cluster has it:"
        " the local-path provisioner brings a class of this name.",
    ),
    StorageClass(
        name="longhorn-1r",
        summary="One replica, near the pod, on a disk of its own.",
        longhorn=LonghornVolumes(replicas=1, locality="best-effort", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-2r",
        summary="Two replicas on two nodes, one of them near the pod, on disks of their own.",
        longhorn=LonghornVolumes(replicas=2, locality="best-effort", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-2r-shared",
        summary="As longhorn-2r, on disks that something else uses, too.",
        longhorn=LonghornVolumes(replicas=2, locality="best-effort", disks="shared"),
    ),
    StorageClass(
        name="longhorn-1r-no-locality",
        summary="As longhorn-1r, with the replica on any node: often across the network.",
        longhorn=LonghornVolumes(replicas=1, locality="disabled", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-1r-strict-local",
        summary="As longhorn-1r, with the replica on the pod's node or none at all.",
        longhorn=LonghornVolumes(replicas=1, locality="strict-local", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-2r-no-locality",
        summary="As longhorn-2r, with the replicas on any two nodes.",
        longhorn=LonghornVolumes(replicas=2, locality="disabled", disks="dedicated"),
    ),
)
"""The classes that the presets for Kubernetes name, and those that differ in locality alone."""


def class_text(each: StorageClass, head: str = "") -> str:
    """Return a class as YAML with the reason for each parameter, below a head of comment lines."""
    return yaml_text(
        head or hashed(each.summary),
        (
            Entry(key="apiVersion", value="storage.k8s.io/v1"),
            Entry(key="kind", value="StorageClass"),
            Entry(key="metadata", value=(Entry(key="name", value=each.name),)),
            Entry(key="provisioner", value=LONGHORN if each.longhorn else LOCAL_PATH),
            Entry(key="reclaimPolicy", value=each.reclaim, why=_RECLAIM.get(each.reclaim, "")),
            Entry(key="volumeBindingMode", value=LATE, why=_LATE),
            *(_longhorn(each.longhorn) if each.longhorn else ()),
        ),
    )


def _longhorn(volumes: LonghornVolumes) -> Iterator[Entry]:
    why = _LOCALITY[volumes.locality]
    strict = volumes.locality == "strict-local"
    parameters = (
        Entry(key="numberOfReplicas", value=str(volumes.replicas), why=why if strict else ""),
        Entry(key="dataLocality", value=volumes.locality, why="" if strict else why),
        *_disks(volumes),
        *_apart(volumes),
        Entry(key="staleReplicaTimeout", value="2880"),
        Entry(key="dataEngine", value="v1"),
    )
    yield Entry(key="allowVolumeExpansion", value=True)
    yield Entry(key="parameters", value=parameters)


def _disks(volumes: LonghornVolumes) -> Iterator[Entry]:
    if volumes.disks:
        yield Entry(key="diskSelector", value=volumes.disks, why=_DISKS[volumes.disks])


def _apart(volumes: LonghornVolumes) -> Iterator[Entry]:
    if volumes.replicas > 1:
        why = f"Two replicas on one node would be lost with it. {_PRACTICES}"
        yield Entry(key="replicaSoftAntiAffinity", value="disabled", why=why)
