"""Places of servers and of load: what they give, simulated storage, pods as a file says them.

Limits of pods are those of Kubernetes itself. Sources: Kubernetes, "Object Names and IDs", "Labels
and Selectors", "Quantity" and "Taints and Tolerations"; the OCI distribution specification for
names of images.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from steelyard.core.quantities import (
    LONG,
    PORT,
    SWITCH,
    TEXT,
    Quantity,
    as_text,
    duration,
    inside,
    key,
    refusal,
    required,
    several,
    shown,
    size,
    whole,
    word,
)
from steelyard.core.wording import (
    GIB,
    KIB,
    MIB,
    InputError,
    choice,
    did_you_mean,
    format_bytes,
    listed,
    page_bytes_of,
    parse_quantity,
    parse_quantity_bytes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What the place of a server gives it, as far as that is known.

    Attributes:
        cpus: None: not known; so is ``memory_bytes``.
        storage: What the data are on, in words; empty: not known.
        limits: What that storage gives at most, in words; empty likewise.
        read_ahead_bytes: Of a sequential reader.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    storage: str = ""
    limits: str = ""
    block_bytes: Annotated[int | None, "Block of the file system; null if not known."] = None
    page_bytes: Annotated[int | None, "Page of the kernel's memory; null if not known."] = None
    read_ahead_bytes: Annotated[
        int | None, "Largest read-ahead of the kernel; null if not known."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Simulated storage: XFS in a file that is slower than the disk it lies on. Takes root.

    None of a limit is that of the disk; of ``burst_iops`` it is no bucket of credits.
    """

    latency_s: float = key(0.0, duration(), "What each flush takes longer.", "2ms")
    iops: int | None = key(
        None, whole(), "Reads and writes together, per second, at most.", 900, 3000
    )
    bandwidth_bytes: int | None = key(None, size(MIB), "Bytes per second at most.", "48MB")
    burst_iops: int | None = key(None, whole(), "As `iops`, while there are credits.", 3000)
    burst_credits: int = key(
        0,
        whole(),
        "Reads and writes in a full bucket of credits, which it is at first; `iops` a second fill"
        " it.",
        5400000,
    )
    block_bytes: int = key(
        4 * KIB,
        size(4 * KIB, 64 * KIB),
        "Of the file system.",
        *("4KiB", "16KiB", "64KiB"),
        name="block_size",
    )
    size_bytes: int = key(
        16 * GIB, size(GIB), "Of the file; what is not written takes no space.", "16GiB"
    )

    @property
    def label(self) -> str:
        """Return what it is, for people."""
        parts = [
            f"{self.latency_s * 1000:g} ms per flush" if self.latency_s else "",
            f"{self.iops:,} IOPS" if self.iops else "",
            f"{self.burst_iops:,} for {self.burst_credits:,} credits" if self.burst_iops else "",
            f"{format_bytes(self.bandwidth_bytes)}/s" if self.bandwidth_bytes else "",
            f"blocks of {format_bytes(self.block_bytes)}" if self.block_bytes != 4 * KIB else "",
        ]
        return f"simulated, {', '.join(filter(None, parts)) or 'nothing added'}"


_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DNS_LABEL: Final = re.compile(_LABEL)  # RFC 1123: what a namespace is called
DNS_SUBDOMAIN: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")  # most other objects
IMAGE_REFERENCE: Final = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1035: no digit in front
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY: Final = re.compile(
    rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}"
    r"[A-Za-z0-9])?"
)
_CLUSTER_LENGTH: Final = 50  # the operator adds suffixes and refuses longer names
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi")
_HUGE: Final = "hugepages-"
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OWN_KEYS: Final = {"nodeSelector": "node_selector", "tolerations": "tolerations"}

Pairs = tuple[tuple[str, str], ...]


def _named(form: re.Pattern[str], what: str, hint: str, most: int | None = None) -> Quantity:
    """Return names of one form, of a length that editors know."""

    def read(value: object) -> str:
        name = as_text(value)
        if not form.fullmatch(name):
            raise refusal(f"{shown(name)} is no {what}", hint)
        return name

    return Quantity(read=read, schema=_TEXT if most is None else {**_TEXT, "maxLength": most})


_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
OBJECT_NAME: Final = _named(
    DNS_SUBDOMAIN,
    "name of an object in Kubernetes",
    "Use small letters, digits, hyphens and dots, with a letter or digit at both ends.",
)
NAMESPACE: Final = _named(
    DNS_LABEL, "name of a namespace", "Use up to 63 small letters, digits and hyphens.", 63
)
IMAGE: Final = _named(
    IMAGE_REFERENCE, "reference of an image", "Write it as registry.example.com/name:tag."
)
SERVICE: Final = _named(
    _SERVICE,
    "name of a Service",
    "Use up to 63 small letters, digits and hyphens, a letter first.",
    63,
)
SECRET_KEY: Final = _named(
    re.compile(r"[-._A-Za-z0-9]{1,253}"),
    "key of a Secret",
    "Use letters, digits, hyphens, underscores and dots.",
)


def _cluster(value: object) -> str:
    name = str(OBJECT_NAME.read(value))
    if len(name) > _CLUSTER_LENGTH or "." in name:
        hint = f"Names of Clusters have up to {_CLUSTER_LENGTH} characters and no dot."
        raise refusal(f"{shown(name)} is no name of a Cluster", hint)
    return name


CLUSTER: Final = Quantity(read=_cluster, schema={**_TEXT, "maxLength": _CLUSTER_LENGTH})


def quantity(value: object) -> str:
    """Return an amount as written; one that is not above zero is refused."""
    text = as_text(value)
    try:
        amount = parse_quantity(text)
    except InputError as error:
        raise refusal(f"{shown(value)} is no quantity of Kubernetes", error.hint) from None
    if not amount:
        raise refusal(f"{shown(value)} is nothing", "Write more than 0.")
    return text


def volumes(unit: int = 1, trouble: str = "{} is no size of a volume") -> Quantity:
    """Return sizes of volumes as they are written, in whole units of so many bytes."""

    def read(value: object) -> str:
        text = quantity(value)
        if parse_quantity(text) % unit:
            raise refusal(trouble.format(shown(value)), "Write it as 20Gi.")
        return text

    return Quantity(read=read, schema=_AMOUNT)


_AMOUNT: Final[Mapping[str, Any]] = {"type": ["string", "number"], "examples": ["500m", "8Gi", 2]}


def _amounts(value: object) -> Pairs:
    """Return amounts by resource, as Kubernetes names them."""
    if not isinstance(value, dict) or not value:
        hint = "Write it as in `{cpu: 2, memory: 4Gi}`."
        raise refusal(f"{shown(value)} names no resources", hint)
    for name in value:
        if name in _RESOURCES or _is_extended(name):
            continue
        hint = did_you_mean(name, _RESOURCES) or f"known: {listed(_RESOURCES)}"
        raise refusal(f"{shown(name)} is no resource of a container", hint)
    return tuple(sorted((name, quantity(amount)) for name, amount in value.items()))


def _is_extended(name: str) -> bool:
    """Return whether a resource is of a device plugin, or huge pages of another size."""
    if name.startswith(_HUGE):
        return page_bytes_of(name) is not None
    return "/" in name and _LABEL_KEY.fullmatch(name) is not None


AMOUNTS: Final = Quantity(
    read=_amounts,
    schema={"type": "object", "additionalProperties": dict(_AMOUNT), "minProperties": 1},
)


def _labels(value: object) -> Pairs:
    """Return labels that a node must have, as Kubernetes takes them: text by text."""
    if not isinstance(value, dict):
        raise refusal(f"{shown(value)} is no mapping of labels", "Write it as {disk: nvme}.")
    found = {}
    for name, given in value.items():
        if not _LABEL_KEY.fullmatch(name):
            hint = "Write it as `disk` or `example.com/disk`."
            raise refusal(f"{shown(name)} is no key of a label", hint)
        found[name] = "" if given == "" else _label_value(name, given)
    return tuple(sorted(found.items()))


def _label_value(name: str, given: object) -> str:
    if isinstance(given, bool):  # YAML's true; a label is text
        given = "true" if given else "false"
    text = as_text(given)
    if not _LABEL_VALUE.fullmatch(text):
        hint = "Labels have up to 63 letters, digits, hyphens, underscores and dots."
        raise refusal(f"{shown(given)} is no value of the label `{name}`", hint)
    return text


LABELS: Final = Quantity(
    read=_labels,
    schema={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
)


def canonical(value: object) -> str:
    """Return YAML's plain values as JSON whose text is the same wherever the meaning is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _fragment(value: object) -> object:
    """Return a fragment as plain values; one that was read already is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        hint = "Write it as in a manifest."
        raise refusal(f"{shown(value)} is no YAML of a manifest", hint) from None


def _tolerations(value: object) -> str:
    """Return tolerations as Kubernetes takes them, a JSON list."""
    items = _fragment(value)
    if not isinstance(items, list):
        hint = "Write it as in `[{key: dedicated, operator: Exists}]`."
        raise refusal(f"{shown(value)} is no list of tolerations", hint)
    for item in items:
        _check_toleration(item)
    return canonical(items)


def _check_toleration(item: object) -> None:
    if not isinstance(item, dict):
        hint = "Write it as in `[{key: dedicated, operator: Exists}]`."
        raise refusal(f"{shown(item)} is no toleration", hint)
    for name in item:
        if name not in _TOLERATION:
            raise refusal(f"a toleration has no key {shown(name)}", choice(name, _TOLERATION))
    operator, effect = item.get("operator", "Equal"), item.get("effect")
    if operator not in ("Exists", "Equal"):
        hint = "Use `Exists` or `Equal`."
        raise refusal(f"{shown(operator)} is no operator of a toleration", hint)
    if operator == "Equal" and not item.get("key"):
        hint = "Name the `key` of the taint, or write `operator: Exists`."
        raise refusal("a toleration without `key` fits no taint", hint)
    if effect is not None and effect not in _EFFECTS:
        hint = choice(str(effect), _EFFECTS)
        raise refusal(f"{shown(effect)} is no effect of a taint", hint)


TOLERATIONS: Final = Quantity(
    read=_tolerations, schema={"type": "array", "items": {"type": "object"}}
)


def _affinity(value: object) -> str:
    """Return further keys of a Cluster's ``spec.affinity``, a JSON object."""
    keys = _fragment(value)
    if not isinstance(keys, dict):
        hint = "Write it as below `spec.affinity` of a Cluster."
        raise refusal(f"{shown(value)} is no mapping", hint)
    for theirs, ours in _OWN_KEYS.items():
        if theirs in keys:
            hint = f"Write it below `{ours}` of the target."
            raise refusal(f"`{theirs}` has a key of its own", hint)
    return canonical(keys)


AFFINITY: Final = Quantity(read=_affinity, schema={"type": "object"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What a container asks for and gets at most; where one is given, the other is the same.

    Then the pod is Guaranteed.
    """

    requests: Pairs = key(
        (),
        AMOUNTS,
        "What is set aside for it.",
        {"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "1Gi"},
    )
    limits: Pairs = key((), AMOUNTS, "What it gets at most.", {"cpu": "2", "memory": "4Gi"})

    def __post_init__(self) -> None:
        """Give both where one is given."""
        object.__setattr__(self, "requests", self.requests or self.limits)
        object.__setattr__(self, "limits", self.limits or self.requests)

    @property
    def has_cpu_quota(self) -> bool:
        """Return whether the kernel holds the container back beyond so much CPU time."""
        return "cpu" in dict(self.limits)

    def provision(self, storage: str, storage_class: str | None) -> Provision:
        """Return what a container gets at most, on a volume of that size and class."""
        most = dict(self.limits)
        cpus, memory = most.get("cpu"), most.get("memory")
        return Provision(
            cpus=None if cpus is None else float(parse_quantity(cpus)),
            memory_bytes=None if memory is None else parse_quantity_bytes(memory),
            storage=f"{storage} on {storage_class or 'the default storage class'}",
        )


# A guess: pgbench keeps one CPU busy with a few clients, and its logs of a slice fit into memory.
_OF_A_GENERATOR: Final = PodResources(limits=(("cpu", "1"), ("memory", "512Mi")))


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorPods:
    """The pod that the load comes from, that of the campaign's Job; equal in all configurations."""

    image: str | None = key(
        None,
        IMAGE,
        "Image that pgbench and psql are taken from; the database's when left out.",
        "ghcr.io/cloudnative-pg/postgresql:18",
    )
    resources: PodResources = key(
        PodResources(),
        PodResources,
        "CPU and memory for the load.",
        {"limits": {"cpu": "2"}},
        unwritten=_OF_A_GENERATOR,
    )
    node_selector: Pairs = key((), LABELS, "Labels of the nodes it may run on.", {"role": "load"})
    tolerations: str = key(
        "[]",
        TOLERATIONS,
        "Taints it tolerates, as in a manifest.",
        [{"key": "load", "operator": "Exists"}],
    )
    same_node: bool = key(False, SWITCH, "It may share a node with the database.", False)

    @property
    def cpus(self) -> int:
        """Return how many threads of one of them have a CPU of their own, at least 1."""
        return max(1, math.floor(self.resources.provision("", None).cpus or 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPlace:
    """Where in which cluster."""

    context: str | None = key(
        None, TEXT, "Context of the kubeconfig; the current one when left out.", "lab"
    )
    namespace: str | None = key(
        None,
        NAMESPACE,
        "Where the Cluster is made, or is; when left out one of the campaign's own, and of what is"
        " there the context's.",
        "bench",
    )
    generators: GeneratorPods = key(
        GeneratorPods(),
        GeneratorPods,
        "The pod that the load comes from.",
        {"same_node": True},
        unwritten=GeneratorPods(resources=_OF_A_GENERATOR),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronous:
    """Synchronous replication as CloudNativePG takes it: ``spec.postgresql.synchronous``."""

    method: str = key(
        "any", word(("any", "first")), "`any` of the standbys, or the `first` of a list."
    )
    number: int = key(1, whole(), "How many standbys a commit waits for.", 1)
    data_durability: str = key(
        "required",
        word(("required", "preferred")),
        "`required` stops writes where standbys are missing, `preferred` goes on.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterService:
    """A server in a Kubernetes cluster, whoever runs it there.

    Without a Secret, which has user and password below two keys, it asks for none.
    """

    place: KubernetesPlace = inside(KubernetesPlace)
    service: str = required(SERVICE, "Name of its Service.", "db", unwritten="")
    port: int = key(5432, PORT, "Port of the Service.", 5432)
    secret: str = required(
        OBJECT_NAME, "Name of the Secret with user and password.", "db-user", unwritten=""
    )
    user_key: str = key("username", SECRET_KEY, "Key of the user in it.", "username")
    password_key: str = key("password", SECRET_KEY, "Key of the password in it.", "password")


def _as_scheduler(value: object) -> str:
    address = as_text(value)
    if not re.fullmatch(r"tls://[^\s/@]+:[0-9]{1,5}", address):
        hint = "Write `tls://HOST:PORT`: whoever reaches a scheduler runs any code on its workers."
        raise refusal(f"{shown(value)} is not the address of a scheduler with TLS", hint)
    return address


_SCHEDULER: Final = Quantity(
    read=_as_scheduler, schema={"type": "string", "pattern": "^tls://[^\\s/@]+:[0-9]{1,5}$"}
)


def _as_host(value: object) -> str:
    name = as_text(value)
    if not re.fullmatch(_HOST_FORM, name):
        hint = "Write `host`, `user@host` or `user@host:22`, as ssh takes it."
        raise refusal(f"{shown(value)} is not a host of ssh", hint)
    return name


_HOST_FORM: Final = r"([A-Za-z0-9_][^\s/@:,]*@)?[A-Za-z0-9_][^\s/@:,]*(:[0-9]{1,5})?"
_HOST: Final = Quantity(read=_as_host, schema={"type": "string", "pattern": f"^{_HOST_FORM}$"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersAsked:
    """Dask workers that have the load generators.

    Attributes:
        number: As many as ``hosts``, if there are hosts.
        at_least: After a loss so many are enough; None: all of them are needed.
        scheduler: None: workers and scheduler are started by Steelyard.
        hosts: Of the workers, reached over ssh; empty: this machine, or those of the scheduler.
        wait_s: So long a scheduler with so many workers is waited for, or lost hosts.
    """

    number: int = key(
        1,
        whole(1, 1000),
        "Dask workers that the load comes from: each runs `load.generators` generators; clients,"
        " threads and rate are divided among all of them.",
        4,
        name="workers",
    )
    at_least: int | None = key(
        None,
        whole(1, 1000),
        "After the loss of a worker so many are enough to go on; if left out, all are waited for.",
        3,
        name="workers_at_least",
    )
    hosts: tuple[str, ...] = key(
        (),
        several(_HOST, 1),
        "Hosts with a worker each, which Steelyard starts over ssh and reaches through its tunnel.",
        ["load1", "admin@load2"],
    )
    scheduler: str | None = key(
        None,
        _SCHEDULER,
        "Scheduler with these workers, on other machines; if left out, both are started on this"
        " one.",
        "tls://10.0.0.5:8786",
    )
    wait_s: float = key(
        300.0,
        LONG,
        "How long that scheduler with its workers is waited for, at first and when it is lost;"
        " and so are lost `hosts`.",
        "5m",
        name="wait",
    )

    def __post_init__(self) -> None:
        """Take as many as there are hosts."""
        if self.hosts:
            object.__setattr__(self, "number", len(self.hosts))

    @property
    def are_here(self) -> bool:
        """Return whether they are programs of this machine."""
        return self.scheduler is None and not self.hosts
