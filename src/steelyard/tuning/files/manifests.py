"""Files of a design for Kubernetes and for one Linux machine, filled into templates.

For Kubernetes: the CloudNativePG cluster, the storage class of its volumes, the kubelet's
configuration. For the machine: huge pages at boot, sysctls, the tuned profile. Longhorn itself was
never run here: its parameters follow its documentation.

The templates are the files in ``templates``. A text in YAML is always quoted, so that no reader
takes ``on`` for a truth or ``2`` for a number; a comment above a setting says why it has its value.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import wrap
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from steelyard.core.kubernetes import LATE, LOCAL_PATH, LONGHORN, OVERWRITTEN, REFUSED
from steelyard.core.linux import cpu_list
from steelyard.core.stack import (
    MachineDesign,
    PlannedSetting,
    PodDesign,
    PoolDesign,
    RenderedFile,
    StackDesign,
)
from steelyard.core.units import GIB, KIB, MIB

_WIDTH: Final = 98


def rendered(template: str, **values: object) -> str:
    """Return a template of this package, filled; a value that it lacks is an error."""
    return _environment().get_template(f"{template}.j2").render(values)


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - no HTML: values go into YAML, units and settings
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = {
        "comment": _comment,
        "pool_path": pool_path,
        "quantity": quantity,
        "quoted": _quoted,
        "remark": remark,
    }
    environment.filters.update(filters)
    return environment


def _comment(text: str, depth: int = 0) -> str:
    """Return a text as lines of comment; those after the first are indented to their depth."""
    return f"\n{' ' * depth}".join(f"# {line}" for line in wrap(text, _WIDTH - depth))


def _quoted(value: str) -> str:
    """Return a text as YAML writes it between quotes; what no reader takes as it is, by number."""
    plain = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in plain)


def remark(setting: PlannedSetting) -> str:
    """Return why a setting has its value, what it is expected to bring and where that is from."""
    parts = [
        setting.reason.rstrip(" ."),
        f"Expected: {setting.effect.rstrip(' .')}" if setting.effect else "",
        f"Source: {setting.source.rstrip(' .')}" if setting.source else "",
    ]
    return " ".join(f"{part}." for part in parts if part)


def quantity(count: int) -> str:
    """Return bytes as Kubernetes writes them, exactly, in the largest unit: ``6500Mi``, ``2Gi``."""
    for suffix, size in (("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if count and count % size == 0:
            return f"{count // size}{suffix}"
    return str(count)


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
    return rendered(
        "storage-class.yaml",
        head=head or each.summary,
        name=each.name,
        provisioner=LONGHORN if each.longhorn else LOCAL_PATH,
        reclaim=each.reclaim,
        binding=LATE,
        longhorn=each.longhorn,
    )


LONGHORN_CLASS: Final = "longhorn-strict-local"
LOCAL_CLASS: Final = "local-path-late"

_STRICT: Final = LonghornVolumes(replicas=1, locality="strict-local")


def storage_class(design: StackDesign) -> str:
    """Return a new class for the database's volumes: local to its node, bound when it is placed."""
    made = StorageClass(
        name=class_name(design),
        longhorn=_STRICT if _is_longhorn(design) else None,
        reclaim="Retain",
    )
    head = (
        "Made by `steelyard stack plan`. A class cannot be changed once it is there: leave this"
        " file out where the cluster has one of this name that binds as late and keeps one copy."
    )
    return class_text(made, head)


def class_name(design: StackDesign) -> str:
    """Return the name of the storage class: the cluster's that was named, else a new one's."""
    asked = design.request.storage_class or (design.pod.storage_class if design.pod else None)
    return asked or (LONGHORN_CLASS if _is_longhorn(design) else LOCAL_CLASS)


def _is_longhorn(design: StackDesign) -> bool:
    return "longhorn" in (design.request.storage or "")


def cluster(design: StackDesign, pod: PodDesign) -> str:
    """Return the cluster; its pods are Guaranteed and its parameters texts.

    It has the parameters that the operator takes; without decoding, its wal_level is too much.
    """
    settings = [s for s in design.postgres.settings if s.name not in REFUSED | OVERWRITTEN]
    level = "logical" if design.request.logical_decoding else "replica"
    return rendered(
        "cluster.yaml",
        request=design.request,
        postgres=design.postgres,
        pod=pod,
        storage_class=class_name(design),
        settings=settings,
        level="" if any(each.name == "wal_level" for each in settings) else level,
    )


def kubelet_configuration(pod: PodDesign, *, exclusive: bool) -> str:
    """Return the part of a kubelet's configuration that the plan says.

    ``reservedMemory`` is exactly kubeReserved + systemReserved + evictionHard, without which the
    kubelet does not start, and names no huge pages, which none of these can reserve.
    """
    kube, system, eviction = pod.reserved_memory_bytes
    shares = _shares(kube + system + eviction, len(pod.numa_nodes)) if exclusive else []
    return rendered(
        "kubelet.yaml",
        pod=pod,
        exclusive=exclusive,
        reserved_cpus=cpu_list(pod.reserved_cpus),
        kube=kube,
        system=system,
        eviction=eviction,
        shares=list(zip(pod.numa_nodes, shares, strict=exclusive)),
    )


def _shares(count: int, parts: int) -> list[int]:
    """Return bytes as equal parts of whole MiB; the first has what is left over."""
    each = count // parts // MIB * MIB
    return [count - each * (parts - 1), *[each] * (parts - 1)]


UNIT_PATH: Final = "/etc/systemd/system/steelyard-huge-pages.service"
SYSCTL_PATH: Final = "/etc/sysctl.d/90-steelyard.conf"
PROFILE_PATH: Final = "/etc/tuned/steelyard/tuned.conf"

_THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"


def machine_files(design: MachineDesign, layer: str) -> Iterator[RenderedFile]:
    """Yield the files of a machine whose layer is ``hypervisor`` or ``linux``."""
    if design.pools:
        yield _file(layer, UNIT_PATH, huge_page_unit(design.pools), "systemd-analyze verify")
    if design.sysctls:
        yield _file(layer, SYSCTL_PATH, sysctl_file(design.sysctls), "sysctl --dry-run --load")
    if design.governor is not None or design.sysfs or design.sysctls:
        content = tuned_profile(design, hypervisor=layer == "hypervisor")
        yield RenderedFile(
            name=f"{layer}/tuned.conf",
            layer=layer,
            content=content,
            path=PROFILE_PATH,
            validated_by="tuned-adm profile steelyard && tuned-adm verify",
        )


def _file(layer: str, path: str, content: str, check: str) -> RenderedFile:
    name = f"{layer}/{path.rpartition('/')[2]}"
    return RenderedFile(
        name=name, layer=layer, content=content, path=path, validated_by=f"{check} {name}"
    )


def huge_page_unit(pools: Sequence[PoolDesign]) -> str:
    """Return a systemd unit that allocates huge pages at boot and reads back what it got.

    It never lowers a count: pages that somebody else asked for at boot stay. It comes before all
    ordinary services, because memory is whole then and nobody has taken pages yet.
    """
    return rendered("huge-pages.service", pools=pools)


def pool_path(pool: PoolDesign) -> str:
    """Return the file that holds the number of pages of a pool."""
    above = "/sys/kernel/mm" if pool.node is None else f"/sys/devices/system/node/node{pool.node}"
    return f"{above}/hugepages/hugepages-{pool.page_bytes // KIB}kB/nr_hugepages"


def sysctl_file(settings: Sequence[PlannedSetting]) -> str:
    """Return a file for ``/etc/sysctl.d`` with the reason above every setting.

    Huge pages are not in it: ``vm.nr_hugepages`` spreads them over all nodes.
    """
    return rendered("sysctl.conf", settings=settings)


def tuned_profile(design: MachineDesign, *, hypervisor: bool) -> str:
    """Return a tuned profile on top of the one that tuned recommends for such a machine.

    The governor is set only by a machine that sees its CPUs' clock.
    """
    return rendered(
        "tuned.conf",
        below=_profile_below(design, hypervisor=hypervisor),
        governor=design.governor,
        huge_pages=[each for each in design.sysfs if each.name == _THP],
        sysctls=design.sysctls,
        sysfs=[each for each in design.sysfs if each.name != _THP],
    )


def _profile_below(design: MachineDesign, *, hypervisor: bool) -> str:
    if hypervisor:
        return "virtual-host"
    return "virtual-guest" if design.governor is None else "throughput-performance"
