"""A Kubernetes cluster that does not exist: its objects in memory, its answers scripted.

``FakeKubernetesApi`` implements `steelyard.gateways.kubernetes.api.KubernetesApi`. A test prepares

* objects of others with ``put``, and looks at objects with ``get`` (which may be changed in place);
* what the cluster does by itself with ``react``: called with every object of a kind that was
  applied or patched, it may set a status (``run_pods`` makes pods run);
* what is refused with ``refuse`` (an account without a verb), ``reject`` (quota, admission),
  ``kinds`` (what the cluster has), ``unknown_fields``, and ``lose_connection``;
* what containers answer with ``on_run``, ``on_lines``, ``container_logs``, ``answers`` (raw paths).

It notes what was asked of it in ``calls`` (verb and object, in order), ``ran`` and ``forwards``.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from fakes.clock import FakeClock
from fakes.kubernetes_answers import FakeLines, Ran, Said, fitting
from fakes.kubernetes_objects import Object, Objects, reference
from steelyard.core import kubernetes as words
from steelyard.core.kubernetes import POD, STORAGE_CLASS, ContainerRef, Kind, Manifest, ObjectRef
from steelyard.core.outside import Completed
from steelyard.core.wording import InputError, MeasurementError, SteelyardError
from steelyard.gateways.kubernetes import refusals

__all__ = [
    "KINDS",
    "Call",
    "FakeKubernetes",
    "FakeKubernetesApi",
    "FakeLines",
    "Ran",
    "Said",
    "a_cluster",
    "plural",
    "run_pods",
]
KINDS = tuple(kind for kind in vars(words).values() if isinstance(kind, Kind))
Reaction = Callable[[Object], None]


@dataclass(frozen=True, kw_only=True)
class Call:
    """Something that was asked: ``apply``, ``delete`` and so on, of which object."""

    verb: str
    label: str
    body: Manifest | None = None


@dataclass(kw_only=True)
class FakeKubernetesApi:
    """One cluster under one account, in memory.

    Attributes:
        kinds: What the cluster knows; discard one, and it is unknown.
        unknown_fields: By the kind's name: names of fields (anywhere in it) that are refused.
        calls: What was asked, in order.
        ports: Local port that a forward gives, by pod and port; else a new number.
    """

    context: str = "lab"
    server: str = "https://127.0.0.1:6443"
    namespace: str = "default"
    is_inside: bool = False
    server_version: str = "v1.34.4"
    clock: FakeClock = field(default_factory=FakeClock)
    kinds: set[Kind] = field(default_factory=lambda: set(KINDS))
    unknown_fields: dict[str, set[str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    container_logs: dict[str, str] = field(default_factory=dict)
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    started: list[tuple[Ran, FakeLines]] = field(default_factory=list)
    forwards: list[tuple[ContainerRef, int, int]] = field(default_factory=list)
    open_forwards: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects = Objects(self.clock)
        self._reactions: list[tuple[Kind, Reaction]] = []
        self._said: list[tuple[tuple[str, ...], str, Said]] = []
        self._streams: list[tuple[tuple[str, ...], str, Callable[[], FakeLines]]] = []
        self._refused: list[tuple[str, str, str, str]] = []
        self._rejected: list[tuple[Kind, SteelyardError]] = []
        self._lost: dict[str, int] = {}
        self._numbers = count(40_001)
        for name in ("default", "kube-system", self.namespace):
            self.put(words.NAMESPACE.manifest(name))

    # What a test prepares

    def put(self, manifest: Manifest) -> Object:
        """Have somebody else's object there; return it, to be changed in place."""
        ref = reference(manifest)
        return self.objects.store(ref, self.objects.merged(ref, manifest))

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Return an object itself, which the test may change."""
        ref = ObjectRef(kind=kind, name=name, namespace=namespace)
        found = self.objects.held(ref)
        assert found is not None, f"{ref.label} is not there"
        return found

    def lose(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Let an object vanish: a drained node, somebody else's delete."""
        self.objects.remove(ObjectRef(kind=kind, name=name, namespace=namespace))

    def react(self, kind: Kind, reaction: Reaction) -> None:
        """Call this with every object of a kind that was applied or patched."""
        self._reactions.append((kind, reaction))

    def refuse(self, verb: str, kind: Kind, *, namespace: str = "", part: str = "") -> None:
        """Let the account lack a verb, in one namespace or all; ``part`` as ``exec``."""
        self._refused.append((verb, kind.name, namespace, part))

    def permit(self) -> None:
        """Let the account do everything, and reject nothing."""
        self._refused.clear()
        self._rejected.clear()

    def reject(self, kind: Kind, error: SteelyardError) -> None:
        """Refuse to make or change objects of a kind: a quota, an admission webhook."""
        self._rejected.append((kind, error))

    def lose_connection(self, times: int = 1, verb: str = "") -> None:
        """Fail the next requests (of one method, such as ``run``) as if the API were away."""
        self._lost[verb] = times

    def on_run(self, *pattern: str, said: Said | str = "", pod: str = "") -> None:
        """Answer commands with all these words somewhere in their argv; the last that fits does."""
        answer = Said(stdout=said) if isinstance(said, str) else said
        self._said.append((pattern, pod, answer))

    def on_lines(self, *pattern: str, stream: Callable[[], FakeLines], pod: str = "") -> None:
        """Answer long commands with all these words somewhere in their argv."""
        self._streams.append((pattern, pod, stream))

    def labels_of(self, verb: str) -> list[str]:
        """Return which objects a method was called for, in order."""
        return [call.label for call in self.calls if call.verb == verb]

    # What the protocol asks

    def version(self) -> str:
        """Return the version of the API server."""
        self._reached("version")
        return self.server_version

    def knows(self, kind: Kind) -> bool:
        """Return whether the cluster has this kind."""
        self._reached("knows")
        return any(_same(kind, known) for known in self.kinds)

    def read(self, ref: ObjectRef) -> Manifest | None:
        """Return a copy of an object, or None."""
        self._asked("read", "get", ref)
        return self.objects.seen(ref)

    def list(
        self, kind: Kind, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        """Return copies of the objects with these labels."""
        self._asked("list", "list", ObjectRef(kind=kind, name="*", namespace=namespace))
        return self.objects.all_of(kind, namespace, labels or {})

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Make or change an object, and let the cluster react; a dry run changes nothing."""
        ref = reference(manifest)
        self._asked("dry-run" if dry_run else "apply", "patch", ref, manifest)
        self._check(ref, manifest)
        made = self.objects.merged(ref, manifest)
        if not dry_run:
            made = self.objects.store(ref, made, manifest)
            self._react(ref.kind, made)
        return copy.deepcopy(made)

    def create(self, manifest: Manifest) -> Manifest | None:
        """Make an object, and let the cluster react; None where one is there."""
        ref = reference(manifest)
        self._asked("create", "create", ref, manifest)
        self._check(ref, manifest)
        if self.objects.held(ref) is not None:
            return None
        made = self.objects.store(ref, self.objects.merged(ref, manifest), manifest)
        self._react(ref.kind, made)
        return copy.deepcopy(made)

    def patch(self, ref: ObjectRef, patch: Manifest) -> Manifest:
        """Change an object by a merge patch, and let the cluster react."""
        self._asked("patch", "patch", ref, patch)
        if self.objects.held(ref) is None:
            raise refusals.absent(ref.label)
        self._check(ref, patch)
        made = self.objects.store(ref, self.objects.patched(ref, patch))
        self._react(ref.kind, made)
        return copy.deepcopy(made)

    def delete(self, ref: ObjectRef, *, grace_s: int | None = None) -> bool:
        """Delete an object with all that it owns; return whether it was there."""
        self._asked("delete", "delete", ref, None if grace_s is None else {"grace_s": grace_s})
        if self.objects.held(ref) is None:
            return False
        self.objects.delete(ref)
        return True

    def allowed(self, verb: str, kind: Kind, namespace: str = "", part: str = "") -> bool:
        """Return whether no refusal fits."""
        self._reached("allowed")
        return not self._refuses(verb, kind, namespace, part)

    def logs(self, where: ContainerRef, *, lines: int | None = None) -> str:
        """Return the scripted logs of a pod (``container_logs``), or their last lines."""
        self._inside("logs", "get", "log", where)
        text = self.container_logs.get(where.pod, "")
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])

    def run(
        self, where: ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Answer a command as scripted."""
        self._inside("run", "create", "exec", where)
        ran = Ran(where=where, argv=tuple(argv), stdin=stdin)
        self.ran.append(ran)
        said = fitting(self._said, ran)
        self.clock.advance(min(said.takes_s, timeout_s))
        if said.does is not None:
            said.does(ran)
        if said.raises is not None:
            raise said.raises
        if said.takes_s > timeout_s:
            raise MeasurementError(f"{argv[0]} did not end within {timeout_s:.0f} s")
        return Completed(
            argv=ran.argv,
            exit_status=said.exit_status,
            stdout=said.stdout,
            stderr=said.stderr,
        )

    def lines(self, where: ContainerRef, argv: Sequence[str]) -> FakeLines:
        """Answer a long command as scripted."""
        self._inside("lines", "create", "exec", where)
        ran = Ran(where=where, argv=tuple(argv))
        lines = fitting(self._streams, ran)()
        self.started.append((ran, lines))
        return lines

    @contextmanager
    def forward(self, where: ContainerRef, port: int) -> Iterator[int]:
        """Give a number as the local port; nothing listens there."""
        self._inside("forward", "create", "portforward", where)
        local = self.ports.get((where.pod, port)) or next(self._numbers)
        self.forwards.append((where, port, local))
        self.open_forwards.append(local)
        try:
            yield local
        finally:
            self.open_forwards.remove(local)

    def raw(self, path: str) -> str:
        """Return the scripted answer (``answers``) of a path."""
        self._reached("raw")
        self.calls.append(Call(verb="raw", label=path))
        if path not in self.answers:
            raise refusals.absent(path)
        return self.answers[path]

    # How it answers

    def _reached(self, method: str) -> None:
        for verb in (method, ""):
            if self._lost.get(verb, 0) > 0:
                self._lost[verb] -= 1
                raise refusals.unreachable(self.server, self.context, "connection refused")

    def _asked(self, method: str, verb: str, ref: ObjectRef, body: Manifest | None = None) -> None:
        self._reached(method)
        self.calls.append(Call(verb=method, label=ref.label, body=copy.deepcopy(body)))
        if not any(_same(ref.kind, kind) for kind in self.kinds):
            raise refusals.unknown_kind(ref.kind)
        if self._refuses(verb, ref.kind, ref.namespace):
            raise refusals.lacks_verb(verb, plural(ref.kind), ref.namespace)

    def _inside(self, method: str, verb: str, part: str, where: ContainerRef) -> None:
        self._reached(method)
        ref = ObjectRef(kind=words.POD, name=where.pod, namespace=where.namespace)
        self.calls.append(Call(verb=method, label=ref.label))
        for needed in dict.fromkeys(("get", verb)):  # both, as since Kubernetes 1.35
            if self._refuses(needed, words.POD, where.namespace, part):
                raise refusals.lacks_verb(needed, f"pods/{part}", where.namespace)
        if self.objects.held(ref) is None:
            raise refusals.absent(ref.label)

    def _refuses(self, verb: str, kind: Kind, namespace: str, part: str = "") -> bool:
        return any(
            (verb, kind.name, part) == (refused, name, of) and where in {"", namespace}
            for refused, name, where, of in self._refused
        )

    def _check(self, ref: ObjectRef, manifest: Manifest) -> None:
        space = ObjectRef(kind=words.NAMESPACE, name=ref.namespace)
        if ref.namespace and self.objects.held(space) is None:
            raise refusals.absent_namespace(ref.namespace)
        for kind, error in self._rejected:
            if _same(kind, ref.kind):
                raise error
        for name in sorted(_names(manifest) & self.unknown_fields.get(ref.kind.name, set())):
            raise refusals.unknown_field(ref.label, f'unknown field "{name}"')

    def _react(self, kind: Kind, made: Object) -> None:
        for wanted, reaction in self._reactions:
            if _same(wanted, kind):
                reaction(made)


@dataclass(kw_only=True)
class FakeKubernetes:
    """Contexts and the clusters they mean; the first is the current one."""

    clusters: dict[str, FakeKubernetesApi] = field(
        default_factory=lambda: {"lab": FakeKubernetesApi()}
    )

    def connect(self, context: str | None = None) -> FakeKubernetesApi:
        """Return the cluster of a context."""
        if context is not None and context not in self.clusters:
            raise InputError(f"there is no context {context!r} in the kubeconfig")
        return self.clusters[context or next(iter(self.clusters))]


def run_pods(node: str = "node1") -> Reaction:
    """Return a reaction that lets pods run: phase, node, address, started and ready containers."""
    numbers = count(2)

    def run(pod: Object) -> None:
        names = [container["name"] for container in pod["spec"]["containers"]]
        pod["spec"].setdefault("nodeName", node)
        started = {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}
        pod.setdefault("status", {}).update(
            phase="Running",
            podIP=f"10.244.1.{next(numbers)}",
            conditions=[{"type": "Ready", "status": "True"}],
            containerStatuses=[
                {"name": name, "ready": True, "restartCount": 0, "state": started} for name in names
            ],
        )

    return run


def plural(kind: Kind) -> str:
    """Return a kind as roles write it: ``clusters.postgresql.cnpg.io``."""
    name = kind.name.lower()
    many = name if name == "endpoints" else f"{name}es" if name.endswith("s") else f"{name}s"
    group = kind.api_version.rpartition("/")[0]
    return f"{many}.{group}" if group else many


def _same(one: Kind, other: Kind) -> bool:
    return (one.api_version, one.name) == (other.api_version, other.name)


def _names(value: object) -> set[str]:
    """Return the names of all fields of a manifest, however deep."""
    if isinstance(value, Mapping):
        return set(value) | {name for each in value.values() for name in _names(each)}
    if isinstance(value, list | tuple):
        return {name for each in value for name in _names(each)}
    return set()


def a_cluster() -> FakeKubernetesApi:
    """Return a cluster of two nodes with two storage classes, whose pods run."""
    api = FakeKubernetesApi()
    for name in ("node1", "node2"):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        api.put(words.NODE.manifest(name, status=ready))
    for name, default in (("fast", "true"), ("slow", "false")):
        annotations = {"storageclass.kubernetes.io/is-default-class": default}
        api.put(
            {
                "apiVersion": STORAGE_CLASS.api_version,
                "kind": "StorageClass",
                "metadata": {"name": name, "annotations": annotations},
                "provisioner": "example.com/disk",
            }
        )
    api.react(POD, run_pods())
    return api
