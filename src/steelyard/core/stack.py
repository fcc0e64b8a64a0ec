"""The tuning stack as a plan: what is asked for, what was designed, and one knob per change.

What came of applying, verifying or reverting a plan is here too, knob by knob, and what came of
judging the facts of a stack by its rules.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from steelyard.core.findings import Severity, State


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
