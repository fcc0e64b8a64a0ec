"""The CloudNativePG cluster of a design.

Storage classes by name: what each says of the volumes made of it, and its manifest.

Longhorn itself was never run here: its parameters follow its documentation.

The storage class of a design's volumes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from steelyard.core.kubernetes import LATE, LOCAL_PATH, LONGHORN, OVERWRITTEN, REFUSED
from steelyard.core.stack import PodDesign, StackDesign
from steelyard.tuning.files.yaml_text import HEAD, Entry, hashed, quantity, remark, yaml_text

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


LONGHORN_CLASS: Final = "longhorn-strict-local"
LOCAL_CLASS: Final = "local-path-late"

_STRICT: Final = LonghornVolumes(replicas=1, locality="strict-local")


def storage_class(design: StackDesign) -> str:
    """Return a new class for the database's volumes: local to its node, bound when it is placed."""
    head = hashed(
        f"{HEAD} A class cannot be changed once it is there: leave this file out where the "
        "cluster has one of this name that binds as late and keeps one copy."
    )
    made = StorageClass(
        name=class_name(design),
        longhorn=_STRICT if _is_longhorn(design) else None,
        reclaim="Retain",
    )
    return class_text(made, head)


def class_name(design: StackDesign) -> str:
    """Return the name of the storage class: the cluster's that was named, else a new one's."""
    asked = design.request.storage_class or (design.pod.storage_class if design.pod else None)
    return asked or (LONGHORN_CLASS if _is_longhorn(design) else LOCAL_CLASS)


def _is_longhorn(design: StackDesign) -> bool:
    return "longhorn" in (design.request.storage or "")


_CATALOG: Final = "postgresql"


def cluster(design: StackDesign, pod: PodDesign) -> str:
    """Return the cluster; its pods are Guaranteed and its parameters texts."""
    version = design.postgres.version
    head = hashed(
        f"{HEAD} The image comes from the ClusterImageCatalog `{_CATALOG}`, which the project "
        "CloudNativePG publishes; or put `imageName` in its place.",
        f"{design.postgres.huge_pages} huge pages, by {design.postgres.counted_by}.",
    )
    return yaml_text(
        head,
        (
            Entry(key="apiVersion", value="postgresql.cnpg.io/v1"),
            Entry(key="kind", value="Cluster"),
            Entry(key="metadata", value=(Entry(key="name", value=design.request.name),)),
            Entry(key="spec", value=(*_image(version), *_spec(design, pod))),
        ),
    )


def _image(version: int) -> Iterator[Entry]:
    catalog = (
        Entry(key="apiGroup", value="postgresql.cnpg.io"),
        Entry(key="kind", value="ClusterImageCatalog"),
        Entry(key="name", value=_CATALOG),
        Entry(key="major", value=version),
    )
    yield Entry(key="imageCatalogRef", value=catalog)


def _spec(design: StackDesign, pod: PodDesign) -> Iterator[Entry]:
    yield Entry(key="instances", value=pod.instances)
    why = (
        "A budget for a single instance keeps its node from being drained; without one, two of "
        "several may go at once. Source: CloudNativePG, API reference, enablePDB."
    )
    yield Entry(key="enablePDB", value=pod.instances > 1, why=why)
    yield _resources(pod)
    yield _storage(design, pod)
    yield _affinity()
    if pod.shm_bytes:
        why = "For parallel queries: containers have 64 MB of /dev/shm by default."
        shm = (Entry(key="shm", value=quantity(pod.shm_bytes)),)
        yield Entry(key="ephemeralVolumesSizeLimit", value=shm, why=why)
    yield Entry(key="postgresql", value=(Entry(key="parameters", value=_parameters(design)),))


def _resources(pod: PodDesign) -> Entry:
    amounts = (
        Entry(key="cpu", value=str(pod.cpus)),
        Entry(key="memory", value=quantity(pod.memory_bytes)),
        Entry(key=f"hugepages-{quantity(pod.page_bytes)}", value=quantity(pod.huge_pages_bytes)),
    )
    why = (
        "Requests equal limits and CPUs are whole: Guaranteed, with CPUs of its own. Huge pages "
        "are not part of the memory; a container that asks for none may use none, and dies of "
        "SIGBUS when it does. Source: Kubernetes, 'Manage HugePages'."
    )
    both = (Entry(key="requests", value=amounts), Entry(key="limits", value=amounts))
    return Entry(key="resources", value=both, why=why)


def _storage(design: StackDesign, pod: PodDesign) -> Entry:
    asked = design.request.volume_bytes is not None
    why = "" if asked else "A guess: volumes can be made larger, never smaller."
    volume = (
        Entry(key="storageClass", value=class_name(design)),
        Entry(key="size", value=quantity(pod.volume_bytes), why=why),
    )
    return Entry(key="storage", value=volume)


def _affinity() -> Entry:
    why = "Instances on different nodes; the default only prefers that."
    told = (
        Entry(key="enablePodAntiAffinity", value=True),
        Entry(key="podAntiAffinityType", value="required", why=why),
        Entry(key="topologyKey", value="kubernetes.io/hostname"),
    )
    return Entry(key="affinity", value=told)


def _parameters(design: StackDesign) -> tuple[Entry, ...]:
    """Return what the operator takes, as texts; without decoding, its wal_level is too much."""
    taken = [
        Entry(key=each.name, value=each.value, why=remark(each))
        for each in design.postgres.settings
        if each.name not in REFUSED | OVERWRITTEN
    ]
    if "wal_level" not in {entry.key for entry in taken}:
        level = "logical" if design.request.logical_decoding else "replica"
        taken.append(Entry(key="wal_level", value=level))
    return tuple(taken)
