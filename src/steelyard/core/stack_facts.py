"""Facts of every layer of the stack at one moment: what rules judge and planners start from.

None means that nobody saw it. ``StackFacts.origins`` says of a fact, by its path
(``linux.governor``, ``kubernetes.kubelet.cpu_manager_policy``, ``postgres.settings``), where it
comes from, or why it is not visible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from steelyard.core.linux import LinuxFacts


class Visibility(StrEnum):
    """Whether a fact can be seen from where one looks."""

    YES = "yes"
    NO = "no"  # it cannot be seen from here, whatever one does
    UNKNOWN = "unknown"  # nobody looked, or looking failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a fact comes from.

    Attributes:
        source: File, command or query; of an invisible fact the reason why.
        assumed: Nobody measured it: somebody filled it in.
    """

    source: str
    visibility: Visibility = Visibility.YES
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCell:
    """One NUMA cell that a virtual machine shows its guest.

    Attributes:
        memory_mode: How strictly its own memory is bound; None: as the domain's.
        memory_nodes: Host nodes of its own memory (``memnode``); empty: those of the domain.
    """

    number: int
    memory_bytes: int
    cpus: tuple[int, ...] = ()
    memory_mode: str | None = None
    memory_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDisk:
    """One disk of a virtual machine."""

    device: str
    cache: str | None = None
    io: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFacts:
    """One libvirt domain, as defined or as running.

    Attributes:
        vcpu_pins: Host CPUs of each virtual CPU that is pinned.
        emulator_pins: Host CPUs of the emulator's threads; empty: not pinned.
        io_thread_pins: Likewise of all I/O threads together.
        memory_mode: ``strict``, ``preferred``, ``interleave``; None without ``numatune``.
        memory_nodes: Host nodes of its memory; empty without ``numatune``.
        huge_page_bytes: Page size behind its memory; None: ordinary pages.
        balloon: Model of its memory balloon; libvirt adds ``virtio`` where none is named.
        threads_per_core: That the guest is shown.
        lost_elements: Of the XML that was asked for, what libvirt did not keep; None: not compared.
        vcpu_delay_fraction: Largest share of wall time in which a virtual CPU waited for a CPU.
    """

    name: str
    vcpus: int
    running: bool = False
    autostart: bool | None = None
    vcpu_pins: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    emulator_pins: tuple[int, ...] = ()
    io_thread_pins: tuple[int, ...] = ()
    memory_bytes: int
    cells: tuple[GuestCell, ...] = ()
    memory_mode: str | None = None
    memory_nodes: tuple[int, ...] = ()
    huge_page_bytes: int | None = None
    locked: bool = False
    hard_limit_bytes: int | None = None
    balloon: str = "virtio"
    cpu_mode: str | None = None
    threads_per_core: int = 1
    features: tuple[str, ...] = ()
    disks: tuple[DomainDisk, ...] = ()
    lost_elements: tuple[str, ...] | None = None
    vcpu_delay_fraction: float | None = None

    @property
    def pinned_cpus(self) -> frozenset[int]:
        """Return all host CPUs that its virtual CPUs are pinned to."""
        return frozenset(cpu for cpus in self.vcpu_pins.values() for cpu in cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """The configuration of a kubelet; quantities as Kubernetes writes them."""

    cpu_manager_policy: str = "none"
    cpu_manager_options: Mapping[str, str] = field(default_factory=dict)
    topology_manager_policy: str = "none"
    memory_manager_policy: str = "None"
    reserved_system_cpus: str | None = None
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    reserved_memory: tuple[Mapping[str, str], ...] = ()
    cpu_cfs_quota: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod: its containers' requests and limits added up, quantities as Kubernetes writes them.

    Attributes:
        database: PostgreSQL runs in it.
        qos_class: ``Guaranteed``, ``Burstable`` or ``BestEffort``, as the cluster says; None: by
            requests and limits.
        cpus: That its container may really run on; None: not seen.
        quota_cpus: CPUs that the quota of its container is worth; None: it has none, or not seen.
        throttled_periods: Since it started.
        charged_huge_bytes: Of huge pages, to its container's control group, reserved or touched.
    """

    name: str
    database: bool = False
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    qos_class: str | None = None
    cpus: tuple[int, ...] | None = None
    quota_cpus: float | None = None
    throttled_periods: int | None = None
    charged_huge_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassFacts:
    """One storage class."""

    name: str
    provisioner: str
    binding: str = "Immediate"
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """A CloudNativePG cluster.

    Attributes:
        parameters: Of ``spec.postgresql``; a value that is no text stays what it was.
    """

    instances: int = 1
    disruption_budget: bool = True
    anti_affinity: str = "preferred"
    parameters: Mapping[str, object] = field(default_factory=dict)
    storage_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesFacts:
    """What Kubernetes says of the node and of the pods on it.

    Attributes:
        version: Of the node's kubelet.
        node: Its name.
        shared_cpus: The pool that containers without exclusive CPUs run on.
        non_pod_huge_pages: Of the default size, held by processes outside of pods.
    """

    version: str | None = None
    node: str | None = None
    kubelet: Kubelet | None = None
    shared_cpus: tuple[int, ...] | None = None
    pods: tuple[PodFacts, ...] | None = None
    capacity: Mapping[str, str] | None = None
    allocatable: Mapping[str, str] | None = None
    non_pod_huge_pages: int | None = None
    cluster: ClusterFacts | None = None
    storage_classes: tuple[StorageClassFacts, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFacts:
    """One PostgreSQL server, or the configuration of one.

    Attributes:
        version: Major version.
        settings: By name, as a person writes them (``6GB``, ``on``).
        huge_pages_needed: What ``shared_memory_size_in_huge_pages`` says.
        huge_page_bytes: Size of these pages where ``huge_page_size`` names one; None: it names
            none, so they are of the kernel's default size.
        huge_pages_status: ``on`` or ``off``, of a running server.
        shared_memory_directory_bytes: Size of its ``/dev/shm``.
        io_uring_available: Whether program and kernel take ``io_method = io_uring``.
        checkpoints_requested: Since the statistics were reset; so the next.
        huge_page_mapping_bytes: Size of its mapping on huge pages, from ``/proc/PID/smaps``.
        processes: Ids of its processes on the machine of ``linux``, the first of them first.
    """

    version: int | None = None
    settings: Mapping[str, str] | None = None
    pending_restart: tuple[str, ...] | None = None
    huge_pages_needed: int | None = None
    huge_page_bytes: int | None = None
    huge_pages_status: str | None = None
    running: bool | None = None
    shared_memory_directory_bytes: int | None = None
    io_uring_available: bool | None = None
    checkpoints_requested: int | None = None
    checkpoints_timed: int | None = None
    huge_page_mapping_bytes: int | None = None
    processes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """One Redis server, or the configuration of one.

    Attributes:
        save: Its save points as configured; empty: none.
        auto_restart: It is started again by itself.
        fenced: ``start.sh`` of a split pair started it, which lets it serve only with the data.
        storage: Kind of the storage below its data: ``local``, ``longhorn``, ``nfs``, ``ceph``,
            or another over the ``network``.
        memory_limit: Of its container, as Kubernetes writes it.
    """

    name: str
    role: str
    save: str | None = None
    appendonly: bool | None = None
    appendfsync: str | None = None
    no_appendfsync_on_rewrite: bool | None = None
    replicas: int | None = None
    auto_restart: bool | None = None
    fenced: bool | None = None
    storage: str | None = None
    maxmemory: str | None = None
    memory_limit: str | None = None
    min_replicas_to_write: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLatencies:
    """Mean latencies at one client, in seconds, of pgbench's three builtin scripts."""

    select_only_s: float
    simple_update_s: float
    tpcb_like_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a tuning journey and the knobs that it turns."""

    name: str
    knobs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFacts:
    """What was compared and how.

    Attributes:
        reference_class: The instance class compared with, such as ``db.t3.large``.
        reference_cpus: Its CPUs, as PostgreSQL there sees them; so the next.
        reference_memory_bytes: Its memory.
        repeats: Of each measurement.
    """

    reference_class: str | None = None
    reference_cpus: int | None = None
    reference_memory_bytes: int | None = None
    scale_factor: int | None = None
    repeats: int | None = None
    steps: tuple[Step, ...] | None = None
    before: ScriptLatencies | None = None
    after: ScriptLatencies | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the operator wants of the stack, which no machine can tell.

    Attributes:
        exclusive_cpus: The database shall have CPUs of its own.
        guest_governor: A CPU governor that somebody wants to set inside the virtual machine.
        logical_decoding: Is used, so that ``wal_level`` must be logical.
        huge_page_pids: Processes that may hold huge pages beside those of the server.
    """

    exclusive_cpus: bool | None = None
    guest_governor: str | None = None
    logical_decoding: bool | None = None
    huge_page_pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """Everything that is known of a stack; each part may be missing.

    Attributes:
        hypervisor: The machine below the virtual machine; on bare metal the same as ``linux``.
        linux: The machine whose kernel the database runs on.
        storage: Kind of the storage below the data, as in ``BlockDevice.kind``.
        origins: Of facts, by path; the longest path that begins a fact's own counts.
    """

    hypervisor: LinuxFacts | None = None
    domains: tuple[DomainFacts, ...] | None = None
    linux: LinuxFacts | None = None
    kubernetes: KubernetesFacts | None = None
    postgres: PostgresFacts | None = None
    redis: tuple[RedisFacts, ...] | None = None
    storage: str | None = None
    bench: BenchFacts | None = None
    intent: Intent = field(default_factory=Intent)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    format: int = 1

    @property
    def unread_domains(self) -> tuple[str, ...]:
        """Return the paths of domains that are there and could not be read."""
        known = {f"domains.{domain.name}" for domain in self.domains or ()}
        known |= {f"domains.{each.name}" for each in fields(DomainFacts)}
        return tuple(
            path
            for path, origin in self.origins.items()
            if path.startswith("domains.") and path not in known
            if origin.visibility is not Visibility.YES
        )

    def origin(self, path: str) -> Origin:
        """Return where the fact at a path comes from, or that nobody looked."""
        while path:
            if path in self.origins:
                return self.origins[path]
            path = path.rpartition(".")[0]
        return Origin(source="nobody looked", visibility=Visibility.UNKNOWN)
