"""The tuning stack: its facts at one moment, and the plan that is made from them.

What rules judge and planners start from are facts of every layer. None means that nobody saw it.
``StackFacts.origins`` says of a fact, by its path (``linux.governor``,
``kubernetes.kubelet.cpu_manager_policy``, ``postgres.settings``), where it comes from, or why it is
not visible. A plan holds what was asked for, what was designed, and one knob per change; what came
of applying, verifying or reverting it is here too, and what came of judging the facts.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final, Self

from steelyard.core.findings import Severity, State
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
    """One NUMA cell that a virtual machine shows its guest, or a memory module in one.

    Attributes:
        number: Of the cell.
        memory_mode: How strictly its own memory is bound; None: as the domain's.
        memory_nodes: Host nodes of its own memory (``memnode``); empty: those of the domain.
        huge_page_bytes: Page size behind its own memory; None: as the domain's.
    """

    number: int
    memory_bytes: int
    cpus: tuple[int, ...] = ()
    memory_mode: str | None = None
    memory_nodes: tuple[int, ...] = ()
    huge_page_bytes: int | None = None


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
        memory_bytes: Of cells and modules together where there are cells.
        modules: Memory devices, each in the cell of its number.
        memory_mode: ``strict``, ``preferred``, ``interleave``; None without ``numatune``.
        memory_nodes: Host nodes of its memory; empty without ``numatune``.
        huge_page_bytes: Page size behind memory that has none of its own; None: ordinary pages.
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
    modules: tuple[GuestCell, ...] = ()
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

    @property
    def memory_parts(self) -> Mapping[str, GuestCell]:
        """Return its memory by name, with binding and pages of its own or else of the domain.

        Cells and modules, then what is left: all of it where the guest is shown no cells.
        """
        parts = {f"cell {cell.number}": cell for cell in self.cells}
        parts |= {f"memory module {at}": module for at, module in enumerate(self.modules)}
        rest = self.memory_bytes - sum(part.memory_bytes for part in parts.values())
        if rest > 0:
            parts["memory"] = GuestCell(number=len(self.cells), memory_bytes=rest)
        return {
            name: replace(
                part,
                memory_mode=(part.memory_nodes and part.memory_mode) or self.memory_mode
                if part.memory_nodes or self.memory_nodes
                else None,
                memory_nodes=part.memory_nodes or self.memory_nodes,
                huge_page_bytes=part.huge_page_bytes or self.huge_page_bytes,
            )
            for name, part in parts.items()
        }

    @property
    def huge_bytes(self) -> Mapping[int, int]:
        """Return how much of its memory lies on huge pages, by their size."""
        sizes = Counter[int]()
        for part in self.memory_parts.values():
            if part.huge_page_bytes is not None:
                sizes[part.huge_page_bytes] += part.memory_bytes
        return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """The configuration of a kubelet; quantities as Kubernetes writes them."""

    cpu_manager_policy: str = "none"
    cpu_manager_options: Mapping[str, str] = field(default_factory=dict)
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    memory_manager_policy: str = "None"
    reserved_system_cpus: str | None = None
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    reserved_memory: tuple[Mapping[str, str], ...] = ()
    cpu_cfs_quota: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """One container of a pod; quantities as Kubernetes writes them."""

    name: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod: its containers' requests and limits added up, quantities as Kubernetes writes them.

    Attributes:
        database: PostgreSQL runs in it.
        containers: The server's, then all others, also those that end before it starts; empty: not
            known, or there is one, which has what the pod has.
        pod_level: The pod has requests or limits of its own (``spec.resources``).
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
    containers: tuple[ContainerFacts, ...] = ()
    pod_level: bool = False
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
        usable_memory_bytes: That its processes may use: the smallest limit of the control groups
            above them, else the machine's. So ``usable_cpus``, a fraction where a quota counts.
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
    usable_memory_bytes: int | None = None
    usable_cpus: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """One Redis server, or the configuration of one.

    Attributes:
        save: Its save points as configured; empty: none.
        auto_restart: It is started again by itself.
        fenced: It starts as a replica of its replica, by the mark of the recipe in docs/redis.md.
        storage: Kind of the storage below its data: ``local``, ``longhorn``, ``nfs``, ``ceph``,
            or another over the ``network``.
        memory_limit: Of its container or control groups, as Kubernetes writes it.
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
class JourneyStep:
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
    scale: int | None = None
    repeats: int | None = None
    steps: tuple[JourneyStep, ...] | None = None
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
        """Return the paths of present domains that could not be read."""
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


class Place(StrEnum):
    """Where the database of a plan runs."""

    LOCAL = "local"
    KVM = "kvm"
    CNPG = "cnpg"
    RDS = "rds"


class Scope(StrEnum):
    """What must be begun anew before a change takes effect, least first."""

    LIVE = "live"
    RELOAD = "reload"
    SESSION = "session"
    SERVER = "server restart"
    KUBELET = "kubelet restart"
    POD = "pod recreation"
    MACHINE = "VM power cycle"
    REBOOT = "reboot"


class Site(StrEnum):
    """What a knob is turned on."""

    MACHINE = "machine"
    SERVER = "server"
    CLUSTER = "cluster"
    CLOUD = "cloud"


_BY_HAND: Final = "by hand"
_WHOLE: Final = "whole"


class KnobKind(StrEnum):
    """How a knob is turned; ``tuning.apply`` has a door for each.

    Attributes:
        site: What it is turned on.
        is_by_hand: The operator turns it; it is only looked at.
        is_whole: The value is a whole file, definition or object.
    """

    site: Site
    is_by_hand: bool
    is_whole: bool

    SYSCTL = "sysctl", Site.MACHINE  # place: vm.swappiness
    SYSFS = "sysfs", Site.MACHINE  # place: /sys/kernel/mm/transparent_hugepage/enabled
    HUGE_PAGES = "huge-pages", Site.MACHINE  # place: NODE/PAGE_BYTES, or all/...; value: pages
    FILE = "file", Site.MACHINE, _WHOLE  # place: path; value: content
    DOMAIN = "domain", Site.MACHINE, _WHOLE  # place: name of a libvirt domain; value: its XML
    POSTGRES = "postgres", Site.SERVER  # place: name of a setting
    MANUAL = "manual", Site.MACHINE, _BY_HAND  # place: what to do; value: what checks it, or ""
    RENDERED = "rendered", Site.CLOUD, _WHOLE  # place: name of the file; not applied here
    OBJECT = "object", Site.CLUSTER, _WHOLE  # place: name of the file; value: the object
    KUBELET = "kubelet", Site.CLUSTER, _BY_HAND, _WHOLE  # likewise; value: of a node's kubelet

    def __new__(cls, word: str, site: Site, *traits: str) -> Self:
        """Return a kind, which equals its word."""
        kind = str.__new__(cls, word)
        kind._value_, kind.site = word, site
        kind.is_by_hand, kind.is_whole = _BY_HAND in traits, _WHOLE in traits
        return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One change of one thing.

    Attributes:
        name: Unique in its plan: ``linux:vm.swappiness``, ``linux:huge-pages@1``,
            ``postgres:shared_buffers``, ``kvm:domain pg-node-1``.
        layer: ``hypervisor``, ``kvm``, ``linux``, ``kubernetes``, ``postgres``.
        place: What is turned; see ``KnobKind``.
        value: What is asked for.
        after: Names of knobs that must be in effect before it.
        scope: What it takes until it is in effect.
        reason: Why it has this value; begins with "A guess" where nothing was measured.
        source: Where the rule comes from.
        effect: Expected size of the effect with its evidence; empty where there is none.
        undo: How the operator takes back what only the operator does, in words.
    """

    name: str
    layer: str
    kind: KnobKind
    place: str
    value: str
    after: tuple[str, ...] = ()
    scope: Scope = Scope.LIVE
    reason: str = ""
    source: str = ""
    effect: str = ""
    undo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRequest:
    """What the user asks a plan for.

    Attributes:
        cpus: That the database shall have.
        memory_bytes: That the database shall have in all, huge pages included.
        shared_buffers_bytes: None: a quarter of the memory.
        max_connections: None: PostgreSQL's default.
        page_bytes: Size of huge pages.
        huge_pages: The database is planned on huge pages.
        logical_decoding: ``wal_level`` must be logical.
        name: Of what is made: domain, cluster, files.
        storage_class: Of a cluster that has it already; None: one is rendered.
        volume_bytes: Of each volume of a cluster; None: as much as the WAL asks for, 50 GiB at
            least.
        disks: Of a new virtual machine: paths of block devices or images.
        bridge: Of the hypervisor, that a new virtual machine is connected to.
    """

    cpus: int
    memory_bytes: int
    place: Place = Place.LOCAL
    shared_buffers_bytes: int | None = None
    max_connections: int | None = None
    postgres_version: int = 18
    instances: int = 1
    storage: str | None = None
    storage_class: str | None = None
    page_bytes: int = 2 * 1024 * 1024
    huge_pages: bool = True
    exclusive_cpus: bool = True
    logical_decoding: bool = False
    name: str = "postgres"
    volume_bytes: int | None = None
    disks: tuple[str, ...] = ()
    bridge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticLine:
    """One line of the memory arithmetic.

    Attributes:
        amount_bytes: Negative where it is taken away.
        total: It is a sum of the lines above it, or what is left.
    """

    label: str
    amount_bytes: int
    why: str = ""
    total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSetting:
    """One setting of any layer with its justification; fields as in ``Knob``."""

    name: str
    value: str
    reason: str
    source: str
    scope: Scope = Scope.LIVE
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDesign:
    """Huge pages to allocate; ``node`` None: spread over all nodes by the kernel."""

    page_bytes: int
    pages: int
    node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDesign:
    """How one Linux machine is to be tuned; a hypervisor or the database's own.

    Attributes:
        steps: What an operator must do: as name what to do, as value the command that checks it.
    """

    pools: tuple[PoolDesign, ...] = ()
    sysctls: tuple[PlannedSetting, ...] = ()
    sysfs: tuple[PlannedSetting, ...] = ()
    governor: str | None = None
    cpus: tuple[int, ...] = ()
    steps: tuple[PlannedSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDesign:
    """A virtual machine on one NUMA node (or one cell per node).

    Attributes:
        vcpu_pins: Host CPU of each virtual CPU, in their order: siblings side by side.
        threads: Per core, that the guest is shown.
        nodes: Host nodes of its memory, one guest cell for each.
        hard_limit_bytes: None where its memory is not locked.
        disks: Block devices; the first holds the system.
        architecture: ``x86_64`` or ``aarch64``.
        emulated: Run by TCG, without KVM.
    """

    name: str
    memory_bytes: int
    vcpu_pins: tuple[int, ...]
    emulator_pins: tuple[int, ...]
    io_thread_pins: tuple[int, ...]
    nodes: tuple[int, ...]
    threads: int = 1
    page_bytes: int = 2 * 1024 * 1024
    hard_limit_bytes: int | None = None
    disks: tuple[str, ...] = ()
    bridge: str | None = None
    architecture: str = "x86_64"
    amd: bool = False
    emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDesign:
    """The database's pod and the kubelet below it.

    Attributes:
        cpus: Whole ones; requests equal limits.
        memory_bytes: Beside the huge pages.
        huge_pages_bytes: Multiple of the page size.
        reserved_cpus: Of the node, for the system.
        reserved_memory_bytes: kubeReserved, systemReserved and evictionHard, in this order.
        shm_bytes: Limit of its /dev/shm.
        volume_bytes: Of the data.
    """

    cpus: int
    memory_bytes: int
    huge_pages_bytes: int
    page_bytes: int
    reserved_cpus: tuple[int, ...]
    reserved_memory_bytes: tuple[int, int, int]
    numa_nodes: tuple[int, ...] = (0,)
    smt: bool = False
    instances: int = 1
    storage_class: str | None = None
    shm_bytes: int = 0
    full_cores: bool = False
    volume_bytes: int = 50 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDesign:
    """Settings of the server.

    Attributes:
        huge_pages: That its shared memory takes, of the request's page size.
        counted_by: How they were counted: ``postgres -C`` of a version, or the formula.
    """

    version: int
    settings: tuple[PlannedSetting, ...]
    huge_pages: int
    counted_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDesign:
    """One consistent plan for all layers; a layer that the place lacks is None.

    Attributes:
        machine: The Linux that the database runs on.
        assumptions: What was not known and is taken for granted, in sentences.
    """

    request: StackRequest
    arithmetic: tuple[ArithmeticLine, ...]
    postgres: PostgresDesign
    hypervisor: MachineDesign | None = None
    domain: DomainDesign | None = None
    machine: MachineDesign | None = None
    pod: PodDesign | None = None
    assumptions: tuple[str, ...] = field(default=())


# Where files of a plan belong on a machine.
UNIT_PATH: Final = "/etc/systemd/system/steelyard-huge-pages.service"
SYSCTL_PATH: Final = "/etc/sysctl.d/90-steelyard.conf"
PROFILE_PATH: Final = "/etc/tuned/steelyard/tuned.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """A ready file of a plan.

    Attributes:
        name: In the plan's directory: ``kvm/postgres.xml``, ``linux/90-steelyard.conf``.
        path: Where it belongs on the machine; empty for objects of a cluster or cloud.
        layer: As in ``Knob``.
        validated_by: Command that checks it, for the reader.
    """

    name: str
    layer: str
    content: str
    path: str = ""
    validated_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What ``steelyard stack plan`` writes and ``apply``, ``verify`` and ``revert`` read.

    Attributes:
        left: Errors and warnings of rules that stay as they are, in sentences: no knob of the plan
            changes what they are about.
    """

    design: StackDesign
    knobs: tuple[Knob, ...]
    files: tuple[RenderedFile, ...]
    left: tuple[str, ...] = ()
    format: int = 1


class Outcome(StrEnum):
    """What came of one knob."""

    THERE = "in effect already"
    TURNED = "turned"
    PENDING = "pending"
    WAITING = "waiting"  # for another knob
    UNSEEN = "not visible"  # turned or not: nobody can see whether it is in effect
    FAILED = "failed"
    RENDERED = "not applied from here"
    RESTORED = "restored"
    KEPT = "left as somebody has changed it"
    YOURS = "yours to undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One knob and what came of it.

    Attributes:
        facts: Sentences: what was asked, what is there, by what it was seen.
        remedy: The way out of a failure, or what must still happen.
        commands: That would do it, where Steelyard did not.
    """

    knob: Knob
    outcome: Outcome
    facts: tuple[str, ...] = ()
    remedy: str = ""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRule:
    """One rule applied to facts.

    Attributes:
        layers: As in ``tuning.rules.rule.StackRule``, like the fields after ``missing``.
        messages: A sentence of fact per violation.
        missing: Paths of the facts that it lacked, each with the reason; of a rule that is not
            applicable none when there is nothing to judge. A rule can be violated in one place
            and lack the facts of another.
    """

    code: str
    layers: tuple[str, ...]
    severity: Severity
    title: str
    state: State
    messages: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""
    source: str = ""
