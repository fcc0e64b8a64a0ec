"""Files of a design for Kubernetes and for one Linux machine.

For Kubernetes: the CloudNativePG cluster, the storage class of its volumes, the kubelet's
configuration. For the machine: huge pages at boot, sysctls, the tuned profile. Longhorn itself was
never run here: its parameters follow its documentation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

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
from steelyard.core.units import KIB, MIB
from steelyard.tuning.files.yaml_text import HEAD, Entry, hashed, quantity, remark, yaml_text

_PARAMETERS: Final = "Source: Longhorn, 'Storage Class Parameters'."
_TAGS: Final = "Source: Longhorn, 'Storage Tags'."
_PRACTICES: Final = "Source: Longhorn, 'Best Practices'."
_LATE: Final = (
    "The volume is made where the pod is placed, not before. Source: Kubernetes, 'Storage Classes'."
)
_RECLAIM: Final = {
    "Delete": "Every start makes its volumes anew; the last one's go with their claims.",
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


_CPUS: Final = "Kubernetes, 'Control CPU Management Policies on the Node'"
_MEMORY: Final = "Kubernetes, 'Utilizing the NUMA-aware Memory Manager'"


def kubelet_configuration(pod: PodDesign, *, exclusive: bool) -> str:
    """Return the part of a kubelet's configuration that the plan says.

    ``reservedMemory`` is exactly kubeReserved + systemReserved + evictionHard, without which the
    kubelet does not start, and names no huge pages, which none of these can reserve.
    """
    head = hashed(
        f"{HEAD} Merge it into the node's configuration: a file such as "
        "/etc/kubernetes/kubelet.conf.d/90-steelyard.conf with `kubelet --config-dir` (1.30 or "
        "later), else by hand.",
        "Drain the node, stop the kubelet, remove /var/lib/kubelet/cpu_manager_state and "
        "memory_manager_state, start it. It counts huge pages once, when it starts: allocate them "
        "before.",
    )
    kube, system, eviction = pod.reserved_memory_bytes
    return yaml_text(
        head,
        (
            Entry(key="apiVersion", value="kubelet.config.k8s.io/v1beta1"),
            Entry(key="kind", value="KubeletConfiguration"),
            *(_policies(pod) if exclusive else ()),
            *_reserved_cpus(pod),
            Entry(key="kubeReserved", value=_memory(kube)),
            Entry(key="systemReserved", value=_memory(system)),
            _eviction(eviction),
            *(_reserved_memory(pod) if exclusive else ()),
        ),
    )


def _memory(count: int) -> tuple[Entry, ...]:
    return (Entry(key="memory", value=quantity(count)),)


def _policies(pod: PodDesign) -> Iterator[Entry]:
    why = (
        "Whole CPUs of a Guaranteed pod are its own; with the default, none, they are a quota. "
        f"Source: {_CPUS}."
    )
    yield Entry(key="cpuManagerPolicy", value="static", why=why)
    if pod.full_cores:
        why = "No other pod gets the sibling thread of a core of the database."
        options = (Entry(key="full-pcpus-only", value="true", why=why),)
        yield Entry(key="cpuManagerPolicyOptions", value=options)
    why = "CPUs, memory and huge pages of a pod come from one NUMA node, or it is not admitted."
    yield Entry(key="topologyManagerPolicy", value="single-numa-node", why=why)
    yield Entry(key="topologyManagerScope", value="pod")
    yield Entry(key="memoryManagerPolicy", value="Static")


def _reserved_cpus(pod: PodDesign) -> Iterator[Entry]:
    if pod.reserved_cpus:
        why = f"For the system and the kubelet; static needs a reservation. Source: {_CPUS}."
        yield Entry(key="reservedSystemCPUs", value=cpu_list(pod.reserved_cpus), why=why)


def _eviction(memory_bytes: int) -> Entry:
    """Return all thresholds: naming one takes the defaults of the others away."""
    thresholds = {
        "memory.available": quantity(memory_bytes),
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
    }
    why = (
        "All but memory are the kubelet's defaults, said again because naming one takes them away. "
        "Source: Kubernetes, 'Node-pressure Eviction'."
    )
    told = tuple(Entry(key=key, value=value) for key, value in thresholds.items())
    return Entry(key="evictionHard", value=told, why=why)


def _reserved_memory(pod: PodDesign) -> Iterator[Entry]:
    parts = pod.reserved_memory_bytes
    told = " + ".join(quantity(part) for part in parts)
    why = f"Exactly {told}: the kubelet does not start otherwise. Source: {_MEMORY}."
    shares = _shares(sum(parts), len(pod.numa_nodes))
    nodes = tuple(
        (Entry(key="numaNode", value=node), Entry(key="limits", value=_memory(share)))
        for node, share in zip(pod.numa_nodes, shares, strict=True)
    )
    yield Entry(key="reservedMemory", value=nodes, why=why)


def _shares(count: int, parts: int) -> list[int]:
    """Return bytes as equal parts of whole MiB; the first has what is left over."""
    each = count // parts // MIB * MIB
    return [count - each * (parts - 1), *[each] * (parts - 1)]


UNIT_PATH: Final = "/etc/systemd/system/steelyard-huge-pages.service"
SYSCTL_PATH: Final = "/etc/sysctl.d/90-steelyard.conf"
PROFILE_PATH: Final = "/etc/tuned/steelyard/tuned.conf"

_THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
_COMPACT: Final = "/proc/sys/vm/compact_memory"
_USERS: Final = (
    "kubelet.service libvirtd.service virtqemud.service postgresql.service sysinit.target"
)


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
    head = hashed(
        f"{HEAD} Belongs in {UNIT_PATH}; then `systemctl enable steelyard-huge-pages`.",
        "The kernel gives fewer pages than it is asked for, and reports no error (measured: 82 of "
        "200); this unit fails then. Source: Linux, admin-guide/mm/hugetlbpage.rst.",
    )
    commands = "".join(
        f"ExecStart=/bin/sh -ec '{_allocation(pool)}'\n"
        f"ExecStartPost=/bin/sh -ec '{_reading_back(pool)}'\n"
        for pool in pools
    )
    return (
        f"{head}\n"
        "[Unit]\n"
        "Description=Allocate huge pages before their users start, and fail when there are fewer\n"
        "DefaultDependencies=no\n"
        "After=systemd-modules-load.service\n"
        f"Before={_USERS}\n"
        "\n[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"{commands}"
        "\n[Install]\n"
        "WantedBy=sysinit.target\n"
    )


def pool_path(pool: PoolDesign) -> str:
    """Return the file that holds the number of pages of a pool."""
    above = "/sys/kernel/mm" if pool.node is None else f"/sys/devices/system/node/node{pool.node}"
    return f"{above}/hugepages/hugepages-{pool.page_bytes // KIB}kB/nr_hugepages"


def _allocation(pool: PoolDesign) -> str:
    """Return the command that asks for pages; systemd reads ``$$`` as ``$``."""
    path = pool_path(pool)
    ask = f"echo 1 >{_COMPACT}; echo {pool.pages} >{path}"
    return f'have=$$(cat {path}); if [ "$$have" -lt {pool.pages} ]; then {ask}; fi'


def _reading_back(pool: PoolDesign) -> str:
    where = "the machine" if pool.node is None else f"node {pool.node}"
    asked = f"{where}: {pool.pages} huge pages of {pool.page_bytes // KIB} kB asked for"
    failure = f'echo "{asked}, $$got given: free memory is too scattered or too small" >&2; exit 1'
    return f'got=$$(cat {pool_path(pool)}); [ "$$got" -ge {pool.pages} ] || {{ {failure}; }}'


def sysctl_file(settings: Sequence[PlannedSetting]) -> str:
    """Return a file for ``/etc/sysctl.d`` with the reason above every setting.

    Huge pages are not in it: ``vm.nr_hugepages`` spreads them over all nodes.
    """
    head = hashed(f"{HEAD} Belongs in {SYSCTL_PATH}; then `sysctl --system`.")
    lines = (f"{hashed(remark(each))}{each.name} = {each.value}\n" for each in settings)
    return "\n".join((head, *lines))


def tuned_profile(design: MachineDesign, *, hypervisor: bool) -> str:
    """Return a tuned profile on top of the one that tuned recommends for such a machine."""
    below = _profile_below(design, hypervisor=hypervisor)
    main = f"[main]\nsummary=Latency of a database, by steelyard stack plan\ninclude={below}\n"
    sections = (_cpu(design), _vm(design.sysfs), _sysctl(design.sysctls), _sysfs(design.sysfs))
    head = hashed(f"{HEAD} Belongs in {PROFILE_PATH}; then `tuned-adm profile steelyard`.")
    return "\n".join((head, main, *(section for section in sections if section)))


def _profile_below(design: MachineDesign, *, hypervisor: bool) -> str:
    if hypervisor:
        return "virtual-host"
    return "virtual-guest" if design.governor is None else "throughput-performance"


def _cpu(design: MachineDesign) -> str:
    """Return what only a machine that sees its CPUs' clock can set."""
    if design.governor is None:
        return ""
    why = hashed(
        "A deep idle state costs 85 to 170 us at each wake-up, which a single client waits for at "
        "every statement. Source: Linux, intel_idle.c; tuned, latency-performance."
    )
    epp = "energy_performance_preference=performance\n" if design.governor == "performance" else ""
    return f"[cpu]\ngovernor={design.governor}\n{epp}{why}force_latency=cstate.id_no_zero:1|3\n"


def _vm(settings: Sequence[PlannedSetting]) -> str:
    lines = [
        f"{hashed(remark(each))}transparent_hugepages={each.value}\n"
        for each in settings
        if each.name == _THP
    ]
    return f"[vm]\n{''.join(lines)}" if lines else ""


def _sysctl(settings: Sequence[PlannedSetting]) -> str:
    """Return the sysctls once more: the profile below sets some of them otherwise."""
    lines = "".join(f"{each.name}={each.value}\n" for each in settings)
    why = hashed(f"As in {SYSCTL_PATH}; said again, because the included profile differs.")
    return f"[sysctl]\n{why}{lines}" if lines else ""


def _sysfs(settings: Sequence[PlannedSetting]) -> str:
    lines = [
        f"{hashed(remark(each))}{each.name}={each.value}\n"
        for each in settings
        if each.name != _THP
    ]
    return f"[sysfs]\n{''.join(lines)}" if lines else ""
