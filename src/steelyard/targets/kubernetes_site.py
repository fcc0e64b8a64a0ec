"""The place of a campaign in a Kubernetes cluster: namespace, belongings, permissions, room.

What an account must be allowed is asked before anything is made, and so is whether volumes have
room for what a campaign puts there: data and WAL of a Cluster, dump and append-only file of Redis.

What is made there are manifests, which ``--dry-run`` prints. Each image is asked once in a process
what its programs say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from steelyard.core import kubernetes as k8s
from steelyard.core import wording
from steelyard.core.experiment import Configuration, Experiment, Workload
from steelyard.core.findings import Fact, Finding, Severity, facts_about
from steelyard.core.places import KubernetesPlace
from steelyard.core.target import CloudNativePgTarget, EngineName, RedisKubernetesTarget
from steelyard.core.wording import PreflightError
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.refusals import verbs_of_sessions
from steelyard.gateways.process import Runner
from steelyard.places.kubernetes.belongings import Belongings, job_name, object_name
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.nodes import require_node_apart
from steelyard.places.kubernetes.permissions import Permission, Purpose, needed
from steelyard.places.kubernetes.pods import image_pod
from steelyard.places.kubernetes.reaching import Knock, Reach, make_secret, superuser_secret
from steelyard.places.protocol import Ledger
from steelyard.systems.postgres.cloudnative_pg.own_cluster import cluster_manifest
from steelyard.systems.postgres.factory import CLIENTS, ImagePrograms, describe_image, find_in_image
from steelyard.systems.postgres.server import Installation, find_clients
from steelyard.systems.protocol import Dataset
from steelyard.systems.redis.datasets import datasets_of
from steelyard.systems.redis.server import configuration_text
from steelyard.systems.redis.statefulset import own_server
from steelyard.targets.endpoint import Asked

_READING: Final = ("get", "list")
Lack = tuple[Permission, tuple[str, ...]]  # and the verbs that are missing


def server_purposes(experiment: Experiment) -> tuple[Purpose, ...]:
    """Return what permissions the servers of an experiment need."""
    sets = any(target.is_made for target in experiment.targets_of(RedisKubernetesTarget).values())
    asked = {
        Purpose.CLUSTERS: bool(experiment.targets_of(CloudNativePgTarget)),
        Purpose.REDIS: sets,
    }
    return tuple(purpose for purpose, wanted in asked.items() if wanted)


def _verbs(permission: Permission, experiment: Experiment, api: KubernetesApi) -> tuple[str, ...]:
    """Return the verbs that this experiment needs of those that the purpose may need.

    A server that is there already is not made.
    """
    made = bool(experiment.made_targets)
    if permission.part in ("exec", "portforward"):
        return verbs_of_sessions(api.version())
    if permission.kind in (k8s.SECRET, k8s.CLAIM) and not made:
        return tuple(verb for verb in permission.verbs if verb in _READING)
    if permission.kind == k8s.CLUSTER and not made:
        changed = any(
            target.allow_existing for target in experiment.targets_of(CloudNativePgTarget).values()
        )
        return (*_READING, *(("patch",) if changed else ()))
    return permission.verbs


def require_allowed(missing: tuple[Lack, ...], api: KubernetesApi, namespace: str) -> None:
    """Raise when something is missing without which no campaign runs.

    Raises:
        PrivilegeError: With all of it.
    """
    grave = [lack for lack in missing if not lack[0].optional]
    if grave:
        told = "; ".join(_words(lack, namespace) for lack in grave)
        raise wording.PrivilegeError(
            f"the account of the context {api.context} may not {told}",
            hint="Have it granted: `steelyard kubernetes rbac` prints the least that is needed.",
        )


def _words(lack: Lack, namespace: str) -> str:
    permission, verbs = lack
    where = "in the whole cluster" if permission.cluster_wide else f"in namespace {namespace}"
    group = f".{permission.group}" if permission.group else ""
    return f"{', '.join(verbs)} {permission.resource}{group} {where} (to {permission.why})"


LOAD_FROM_OUTSIDE: Final = "load-from-outside"  # a finding of campaigns that run here
SERVER: Final = "API server"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The load of a campaign in a cluster, which comes from the pod of its Job.

    Attributes:
        place: Resources, node selector and tolerations of the pod, and whether it may share the
            database's node.
        image: That the programs of the load are taken from.
        away_from: Labels of the database's pods, whose nodes are avoided now and later.
        away_from_nodes: Names of nodes to avoid: those of a server that is there already.
    """

    place: KubernetesPlace
    image: str
    away_from: Mapping[str, str] = field(default_factory=dict)
    away_from_nodes: tuple[str, ...] = ()

    @property
    def is_apart(self) -> bool:
        """Return whether the pod keeps away from the database's node."""
        avoids = bool(self.away_from or self.away_from_nodes)
        return avoids and not self.place.generators.same_node


@dataclass(slots=True, kw_only=True)
class KubernetesSite:
    """Where in which cluster a campaign works.

    Attributes:
        namespace: Of everything that it makes.
        is_there: The namespace was there before.
        is_own: This campaign made it, or makes it.
        is_opened: The namespace is there now.
        missing: Permissions that the account lacks.
        plan: Of the load, once it is known.
        further: Facts that came about on the way: operator, storage.
    """

    experiment: Experiment
    api: KubernetesApi
    place: KubernetesPlace
    namespace: str
    is_there: bool
    is_own: bool
    belongings: Belongings
    ledger: Ledger
    clock: Clock
    is_opened: bool = False
    missing: tuple[Lack, ...] = ()
    plan: LoadPlan | None = None
    further: list[Fact] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)

    @property
    def makes_namespace(self) -> bool:
        """Return whether the namespace is made for the campaign."""
        return not self.is_there

    def open(self) -> None:
        """Make the namespace where there is none."""
        if self.makes_namespace and not self.is_opened:
            self.belongings.make_namespace()
        self.is_opened = True

    def elsewhere(self, namespace: str) -> Belongings:
        """Return what belongs to the campaign in another namespace that is there."""
        campaign_id = self.belongings.campaign_id
        return Belongings(self.api, self.ledger, campaign_id, namespace, clock=self.clock)

    def require_allowed(self) -> None:
        """Look whether the account may do what the campaign needs.

        Raises:
            PrivilegeError: With everything that it may not.
        """
        self.missing = tuple(self._lacks())
        require_allowed(self.missing, self.api, self.namespace)

    def _lacks(self) -> Iterator[Lack]:
        purposes = list(server_purposes(self.experiment))
        if not self.api.is_inside:
            purposes.append(Purpose.OUTSIDE)
        if self.makes_namespace:
            purposes.append(Purpose.OWN_NAMESPACE)
        for permission in needed(purposes):
            where = "" if permission.cluster_wide else self.namespace
            missing = tuple(
                verb
                for verb in _verbs(permission, self.experiment, self.api)
                if not self.api.allowed(verb, permission.kind, where, permission.part)
            )
            if missing:
                yield permission, missing

    def plan_load(
        self,
        image: str,
        *,
        away_from: Mapping[str, str] | None = None,
        away_from_nodes: tuple[str, ...] = (),
    ) -> LoadPlan:
        """Note where the load comes from.

        Its programs are taken from the image, if the place does not name another.
        """
        self.plan = plan = LoadPlan(
            place=self.place,
            image=self.place.generators.image or image,
            away_from=away_from or {},
            away_from_nodes=away_from_nodes,
        )
        return plan

    def require_node_for_load(self) -> None:
        """Look whether there is a node for the pod that the load comes from.

        Raises:
            PreflightError: There is none.
        """
        plan = self.plan
        if plan is not None and plan.is_apart:
            tolerant = plan.place.generators.tolerations != "[]"
            require_node_apart(self.api, plan.away_from_nodes, tolerant=tolerant)

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the cluster."""
        own = "its own" if self.is_own else "there before"
        known = {
            "context": self.api.context,
            SERVER: self.api.server,
            "version": self.api.version(),
            "namespace": f"{self.namespace} ({own})",
        }
        return (*facts_about("Kubernetes", known), *self.further)

    def findings(self) -> Iterator[Finding]:
        """Yield what is worth knowing before the start."""
        for lack in self.missing:
            if lack[0].optional:
                told = _words(lack, self.namespace)
                yield Finding(
                    code="permission-missing",
                    severity=Severity.INFO,
                    message=f"the account may not {told}; the record lacks that",
                    remedy="Have it granted: `steelyard kubernetes rbac`.",
                    subject="kubernetes",
                )
        if self.place.generators.same_node:
            yield Finding(
                code="generator-beside-database",
                severity=Severity.WARNING,
                message="the load may come from the database's node (`same_node: true`) and"
                " takes its share of the CPUs",
                remedy="Leave `same_node` out, and give the cluster a node for it.",
                subject="campaign",
            )
        if not self.api.is_inside:
            yield Finding(
                code=LOAD_FROM_OUTSIDE,
                severity=Severity.WARNING,
                message="the network of this machine is in it: the load reaches the servers in the"
                " cluster through a forwarded port",
                remedy="Compare servers of this machine among themselves, and those of the cluster"
                " by a Job there."
                if any(each.target.is_here for each in self.experiment.configurations)
                else "Run it in the cluster: `steelyard run --in-cluster`.",
                subject="campaign",
            )
        if not self.is_own:
            yield Finding(
                code="foreign-namespace",
                severity=Severity.WARNING,
                message=f"the namespace {self.namespace} of {self.api.context} was not made for"
                " this campaign: whatever else runs on its nodes shares them with the load",
                remedy="Leave `namespace` out: the campaign makes one of its own and removes it.",
                subject="campaign",
            )

    def close(self) -> None:
        """Remove what was made, in the order last made first; what is gone is no trouble.

        Raises:
            LeftBehindError: Something is still there, after everything was tried.
        """
        try:
            while self.closing:
                self.closing.pop()()
        finally:
            self.belongings.remove_all()


def find_site(
    experiment: Experiment,
    doors: Doors,
    campaign_id: str,
    ledger: Ledger,
    *,
    place: KubernetesPlace | None = None,
) -> KubernetesSite:
    """Return the place of an experiment's pods; the cluster is asked, nothing is made.

    ``place`` is that of a Job alone, whose servers are in no cluster.

    Raises:
        InputError: There is no such context.
        PreflightError: The extra is not installed, or the namespace is going away.
        TargetError: The API cannot be reached.
    """
    place = place or place_in(experiment)
    api = doors.kubernetes.connect(place.context)
    api.version()
    own = object_name(campaign_id) if experiment.makes_all_in_kubernetes else api.namespace
    namespace = place.namespace or own
    found = api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=namespace))
    if found is not None and (found.get("status") or {}).get("phase") == "Terminating":
        raise wording.PreflightError(
            f"the namespace {namespace} is being removed", hint="Wait, or name another one."
        )
    if found is None and not experiment.makes_all_in_kubernetes:
        raise wording.PreflightError(
            f"there is no namespace {namespace} in {api.context}",
            hint="Name that of the server with `namespace:`, or --namespace.",
        )
    belongings = Belongings(api, ledger, campaign_id, namespace, clock=doors.clock)
    if api.is_inside:
        _go_with_job(belongings)
    return KubernetesSite(
        experiment=experiment,
        api=api,
        place=place,
        namespace=namespace,
        is_there=found is not None,
        is_own=found is None or k8s.is_of_campaign(found, k8s.campaign_value(campaign_id)),
        belongings=belongings,
        ledger=ledger,
        clock=doors.clock,
    )


def _go_with_job(belongings: Belongings) -> None:
    """Let all that is made go with the Job that this process is, where it may be seen."""
    ref = k8s.ObjectRef(
        kind=k8s.JOB, name=job_name(belongings.campaign_id), namespace=belongings.namespace
    )
    with suppress(wording.PrivilegeError):
        job = belongings.api.read(ref)
        if job is not None:
            belongings.go_with(job)


def place_in(experiment: Experiment) -> KubernetesPlace:
    """Return the place that all configurations in Kubernetes share.

    Raises:
        InputError: They do not, or there is none.
    """
    homes = (configuration.target.home for configuration in experiment.configurations)
    places = {home for home in homes if home is not None}
    if len(places) != 1:
        raise wording.InputError(
            "the configurations are not all in one place of one Kubernetes cluster",
            hint="Write `context`, `namespace` and `generators` once, for all configurations.",
        )
    return places.pop()


def trial_namespace(site: KubernetesSite) -> str:
    """Return where an object can be tried: its own namespace may not be there yet."""
    return site.namespace if site.is_there or site.is_opened else site.api.namespace


# Prepared and measured side by side, with what grows in between: a guess.
_COPIES: Final = 2.5
# Beside data: what initdb makes, and WAL of settings that are the server's own; a guess.
_OWN_BYTES: Final = wording.GIB // 4
# WAL grows beyond max_wal_size, which is a soft limit, by what is written during a checkpoint; a
# guess. Source: PostgreSQL 18, section 28.5, WAL Configuration.
_BEYOND: Final = 1.1
_DEFAULT_WAL: Final = "1GB"  # PostgreSQL's own max_wal_size


def require_room(
    target: CloudNativePgTarget, settings: Mapping[str, str], datasets: Sequence[Dataset]
) -> None:
    """Look whether data and WAL have room in the volumes that they are put on.

    WAL beside the data is counted where a configuration sizes it; on a volume of its own always.

    Args:
        target: The Cluster.
        settings: What a configuration asks of PostgreSQL, by name in small letters.
        datasets: All that are prepared.

    Raises:
        PreflightError: A volume is too small.
    """
    data = _OWN_BYTES + int(_COPIES * sum(dataset.expected_bytes for dataset in datasets))
    asked = settings.get("max_wal_size")
    if target.wal_storage is not None:
        wal = _wal_bytes(asked or _DEFAULT_WAL, settings)
        if wal > wording.parse_quantity_bytes(target.wal_storage):
            raise wording.PreflightError(
                f"the volume of {target.wal_storage} for WAL has no room for about"
                f" {wording.format_bytes(wal)}: max_wal_size is {asked or _DEFAULT_WAL}, and a bit"
                " more"
                " may be written",
                hint="Make `wal_storage:` larger, or max_wal_size smaller.",
            )
    elif asked is not None:
        data += _wal_bytes(asked, settings)
    if data > wording.parse_quantity_bytes(target.storage):
        wal_too = "" if asked is None or target.wal_storage is not None else ", WAL"
        raise wording.PreflightError(
            f"the volume of {target.storage} has no room for about {wording.format_bytes(data)}:"
            " the"
            f" data, their prepared copy{wal_too}, and what grows",
            hint="Make `storage:` larger, or the scale factor"
            f"{' or max_wal_size' if wal_too else ''} smaller.",
        )


def _wal_bytes(most: str, settings: Mapping[str, str]) -> int:
    kept = wording.in_unit(settings.get("wal_keep_size", "0"), "MB") or 0.0
    return int(max((wording.in_unit(most, "MB") or 0.0) * _BEYOND, kept) * wording.MIB)


# A dump and an append-only file of all keys, once prepared and once live; then a rewrite of the
# latter beside it, and what a workload appends: a guess.
_REDIS_COPIES: Final = 5
_KEY_BYTES: Final = 60  # a key's name and its words in both files; a guess
_REDIS_OWN_BYTES: Final = 64 * wording.MIB


def require_redis_room(target: RedisKubernetesTarget, workloads: Sequence[Workload]) -> None:
    """Look whether the prepared keys and what grows beside them have room.

    Raises:
        PreflightError: The volume is too small.
    """
    spaces = [dataset.space for dataset in datasets_of(workloads) if dataset.space is not None]
    keys = sum(space.loaded * (space.value_bytes + _KEY_BYTES) for space in spaces)
    needed = _REDIS_OWN_BYTES + _REDIS_COPIES * keys
    if needed > wording.parse_quantity_bytes(target.storage):
        raise wording.PreflightError(
            f"the volume of {target.storage} has no room for about {wording.format_bytes(needed)}:"
            " dump and"
            " append-only file of the prepared keys, their live copies, and what grows",
            hint="Make `storage:` larger, or load fewer keys or smaller values.",
        )


# A preflight and the campaign after it ask the same: by cluster, image, and what is asked of it.
_KNOWN: Final[dict[tuple[object, ...], Any]] = {}
AnswerT = TypeVar("AnswerT")


def means_of(asked: Asked, site: KubernetesSite, knock: Knock) -> MadeMeans:
    """Return what servers in a cluster need; the ways to them close with the site."""
    reach = Reach(site.api, knock, asked.doors.clock)
    site.closing.append(reach.close)
    return MadeMeans(
        api=site.api,
        doors=asked.doors,
        reach=reach,
        belongings=site.belongings,
        told=asked.told,
    )


def secret_of(
    asked: Asked,
    site: KubernetesSite,
    manifest: Callable[[k8s.SecretRef, str], k8s.Manifest] = superuser_secret,
) -> k8s.SecretRef:
    """Return the campaign's Secret, made now for a run."""
    if asked.runs:
        return make_secret(site.belongings, manifest)
    return k8s.SecretRef(namespace=site.namespace, name=site.belongings.name())


def describe_images(
    experiment: Experiment,
    images: Mapping[str, str],
    site: KubernetesSite,
    told: Callable[[str], None],
) -> Mapping[str, ImagePrograms]:
    """Return what each image of the servers says of an experiment's settings.

    Raises:
        PreflightError: An image is not found, or is none of PostgreSQL.
    """
    found: dict[str, ImagePrograms] = {}
    for image in dict.fromkeys(images.values()):
        configurations = [t for t in experiment.configurations if images.get(t.name) == image]
        asked = tuple((t.name, tuple(t.asked().items())) for t in configurations)
        ask = partial(describe_image, image, configurations)
        found[image] = asked_once((image, asked), site, told, ask=ask)
    return found


def asked_once(
    question: Sequence[object],
    site: KubernetesSite,
    told: Callable[[str], None],
    *,
    ask: Callable[[Runner], AnswerT],
) -> AnswerT:
    """Return what a pod of an image answers, or answered before; it is there for a moment.

    A question begins with the image, and goes on with what tells its answer from others.
    """
    key = (site.api.server, *question)
    if key not in _KNOWN:
        belongings = _somewhere(site)
        try:
            with image_pod(belongings, str(question[0]), site.clock, told) as processes:
                _KNOWN[key] = ask(processes)
        finally:
            if belongings is not site.belongings:
                belongings.remove_all()
    answer: AnswerT = _KNOWN[key]
    return answer


def _somewhere(site: KubernetesSite) -> Belongings:
    """Return where a pod can be made now.

    Before a campaign its own namespace is not there; then the context's serves, as for
    `kubectl run`, where the account may use it.
    """
    if site.is_opened or not site.makes_namespace:
        return site.belongings
    if not site.api.allowed("create", k8s.POD, site.api.namespace):
        site.open()
        return site.belongings
    return site.elsewhere(site.api.namespace)


def programs_of(
    plan: LoadPlan,
    known: Mapping[str, ImagePrograms],
    asked: Asked,
    site: KubernetesSite,
    *,
    tls: bool,
) -> Installation:
    """Return the client programs that drive the servers: those of this machine.

    Where this machine has none, a look at a campaign that will run in the cluster takes those of
    the image that its pod gets them from.

    Args:
        plan: With that image.
        known: What is known of images.
        asked: What is assembled.
        site: The cluster.
        tls: They have to speak it.

    Raises:
        PreflightError: There are none.
    """
    try:
        return find_clients(asked.doors.processes, tls=tls)
    except PreflightError:
        if asked.runs:
            raise
    if plan.image not in known:
        return asked_once(
            (plan.image, CLIENTS),
            site,
            asked.told,
            ask=lambda inside: find_in_image(plan.image, inside, CLIENTS),
        )
    return known[plan.image].installation


# A guess: pulling images, and Clusters that come up slowly, are no part of the budget.
_MARGIN_S: Final = 3600.0
_BUDGETS: Final = 1.5
PLACEHOLDER: Final = "drawn-when-the-campaign-starts"


def deadline_s(experiment: Experiment, long_runs_s: float | None = None) -> int:
    """Return after how long the cluster ends a campaign's pods by itself: well after its end.

    Args:
        experiment: With its budget.
        long_runs_s: What the runs after the last block may take; None: their least length.
    """
    runs = len(experiment.configurations) * len(experiment.workloads)
    long_s = runs * (experiment.sustained_s or 0.0) if long_runs_s is None else long_runs_s
    return round(_BUDGETS * (experiment.stop.budget_s + long_s) + _MARGIN_S)


def redis_set_of(
    configuration: Configuration,
    target: RedisKubernetesTarget,
    campaign_id: str,
    namespace: str,
    *,
    suffix: str = "",
) -> tuple[k8s.Manifest, ...]:
    """Return the Services and, last, the StatefulSet of a configuration, with its settings."""
    asked = own_server.ServerAsked(
        target=target,
        name=object_name(campaign_id, suffix),
        namespace=namespace,
        secret=k8s.SecretRef(namespace=namespace, name=object_name(campaign_id)),
        campaign_id=campaign_id,
    )
    start = own_server.ServerStart(
        change="first",
        configuration=own_server.pod_configuration(configuration_text(configuration.asked())),
        restore=False,
    )
    return (*own_server.service_manifests(asked), own_server.set_manifest(asked, start))


def cluster_of(
    configuration: Configuration,
    target: CloudNativePgTarget,
    campaign_id: str,
    namespace: str,
    *,
    suffix: str = "",
) -> k8s.Manifest:
    """Return the Cluster of one configuration, with its settings in it."""
    return cluster_manifest(
        target,
        name=object_name(campaign_id, suffix),
        namespace=namespace,
        secret=k8s.SecretRef(namespace=namespace, name=object_name(campaign_id)),
        settings=configuration.asked(),
        campaign_id=campaign_id,
    )


def campaign_manifests(
    experiment: Experiment, campaign_id: str, *, namespace: str | None
) -> Iterator[k8s.Manifest]:
    """Yield what a campaign makes, in the order in which it does; of servers one per configuration.

    Args:
        experiment: Whose servers are made.
        campaign_id: In names and labels.
        namespace: That is there already; None: one of the campaign's own is made, too.
    """
    name = object_name(campaign_id)
    makes, namespace = namespace is None, namespace or name
    if makes:
        yield _labelled(k8s.NAMESPACE.manifest(namespace), campaign_id)
    data = {"campaign": campaign_id}
    anchor = k8s.CONFIG_MAP.manifest(name, namespace=namespace, data=data)
    yield _labelled(anchor, campaign_id)
    if experiment.made_targets:
        secret = k8s.SecretRef(namespace=namespace, name=name)
        yield _labelled(_secret(secret, experiment.engine), campaign_id)
    for number, (configuration, target) in enumerate(experiment.made_targets.items(), 1):
        asked, suffix = experiment.configuration(configuration), f"configuration-{number}"
        if isinstance(target, RedisKubernetesTarget):
            yield from redis_set_of(asked, target, campaign_id, namespace, suffix=suffix)
        elif isinstance(target, CloudNativePgTarget):
            yield cluster_of(asked, target, campaign_id, namespace, suffix=suffix)


def _secret(ref: k8s.SecretRef, engine: EngineName) -> k8s.Manifest:
    if engine is EngineName.REDIS:
        return own_server.secret_manifest(ref, PLACEHOLDER)
    return superuser_secret(ref, PLACEHOLDER)


def _labelled(manifest: k8s.Manifest, campaign_id: str) -> k8s.Manifest:
    labels = k8s.campaign_labels(campaign_id)
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
