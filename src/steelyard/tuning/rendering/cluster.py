"""The CloudNativePG cluster of a design."""

from collections.abc import Iterator
from typing import Final

from steelyard.model.operator_parameters import OVERWRITTEN, REFUSED
from steelyard.model.stack import PodDesign, StackDesign
from steelyard.tuning.rendering.quantities import quantity
from steelyard.tuning.rendering.remarks import HEAD, hashed, remark
from steelyard.tuning.rendering.storage import class_name
from steelyard.tuning.rendering.yaml_text import Entry, yaml_text

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
