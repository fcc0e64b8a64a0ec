"""The Job that runs a campaign in a cluster: its manifests, and how it is found again."""

import base64
import binascii
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from steelyard.core import kubernetes as k8s
from steelyard.core.places import PodResources
from steelyard.core.wording import (
    InputError,
    LeftBehindError,
    PreflightError,
    RecordError,
    SteelyardError,
    TargetError,
    parse_quantity,
    raise_all,
    troubles_of,
)
from steelyard.gateways.host import Clock, until
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import permissions as rbac
from steelyard.places.kubernetes.belongings import job_name, object_name
from steelyard.places.kubernetes.manifests import render_manifest
from steelyard.places.kubernetes.own_install import pip_options
from steelyard.places.kubernetes.permissions import Grant, Permission, Purpose, needed
from steelyard.places.kubernetes.pods import (
    ReadyWait,
    claim_spec,
    obstacle,
    waiting_pod,
    warnings_about,
)

_RECORD: Final = "record"
RECORD_SIZE: Final = "2Gi"  # records of an hour take some ten megabytes; kept logs take more


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoad:
    """What the load asks of the pod that it comes from.

    Attributes:
        image: That its programs are copied from; None: those of the Job's own image are enough.
        tolerations: As Kubernetes takes them, a JSON list.
        is_apart: The pod keeps away from the nodes of the databases.
        away_from: Labels of their pods; empty: those of the databases that the campaign makes.
        away_from_nodes: Names of nodes to avoid: those of servers that are there already.
    """

    image: str | None = None
    resources: PodResources = field(default_factory=PodResources)
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: str = "[]"
    is_apart: bool = False
    away_from: tuple[tuple[str, str], ...] = ()
    away_from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A campaign as a Job; it is kept beside it, so that it is found whole by its label.

    Attributes:
        campaign_id: Known before the campaign begins, because everything carries it.
        namespace: Of the Job, of the volume, and of what the campaign makes.
        makes_namespace: It was made for this campaign and goes with it.
        image: With Steelyard in it, or with Python.
        installs: Steelyard is sent to the pod and installed there.
        extras: Beside ``kubernetes``.
        load: None: of a plan before there was load in the pod.
        account: A ServiceAccount that is there; None: one of its own, with a role.
        purposes: What its own account is for.
        withheld: Resources whose optional permissions its account does without, because who starts
            it may not give them.
        storage: Size of the volume for the record.
        storage_class: None: the cluster's default.
        index_url: That the pod installs Steelyard from; None: pip's own.
        secrets: Whose keys are variables of the campaign; they are named, never read.
        deadline_s: After this the cluster ends the Job, whatever it does.
    """

    campaign_id: str
    namespace: str
    makes_namespace: bool = False
    image: str
    installs: bool = False
    extras: tuple[str, ...] = ()
    load: JobLoad | None = None
    account: str | None = None
    purposes: tuple[Purpose, ...] = ()
    withheld: tuple[str, ...] = ()
    storage: str = RECORD_SIZE
    storage_class: str | None = None
    index_url: str | None = None
    secrets: tuple[str, ...] = ()
    deadline_s: int

    @property
    def name(self) -> str:
        """Return the name of the Job, of its account and of their roles."""
        return job_name(self.campaign_id)

    @property
    def claim(self) -> str:
        """Return the name of the volume's claim."""
        return object_name(self.campaign_id, _RECORD)

    @property
    def request(self) -> str:
        """Return the name of the ConfigMap with the experiment and this plan."""
        return object_name(self.campaign_id, "request")

    @property
    def reader(self) -> str:
        """Return the name of the pod that reads the record when the Job's is gone."""
        return object_name(self.campaign_id, "reader")

    def ref(self, kind: k8s.Kind, name: str) -> k8s.ObjectRef:
        """Return an object of it."""
        return k8s.ObjectRef(kind=kind, name=name, namespace=self.namespace)

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Return what its own account may; nothing where it has none."""
        if self.account:
            return ()
        asked = needed((Purpose.INSIDE, *self.purposes))
        return tuple(e for e in asked if not (e.optional and e.resource in self.withheld))


_PLAN: Final = TypeAdapter(JobPlan)


def plan_text(plan: JobPlan) -> str:
    """Return a plan as it is kept."""
    return _PLAN.dump_json(plan, indent=1).decode()


def read_plan(text: str, name: str) -> JobPlan:
    """Return a plan as it was kept.

    Raises:
        RecordError: Another version kept it, or nobody.
    """
    try:
        return _PLAN.validate_json(text)
    except ValidationError as error:
        raise RecordError(
            f"what is kept of the campaign in ConfigMap {name} cannot be read",
            hint="Use the version of Steelyard that started it.",
        ) from error


CONTAINER: Final = "steelyard"
READER_ROLE: Final = "reader"
RECORD: Final = "/record/campaign"
REQUEST: Final = "/request"
REQUEST_KEY: Final = "request.json.gz"
PLAN_KEY: Final = "plan.json"
KEPT_IN: Final = "steelyard/request"  # annotation of the claim: the ConfigMap with the plan
_VOLUME: Final = "/record"
# Beside the record: the registry there says what a pod that died without a word had changed.
_CACHE: Final = "/record/cache"
INSTALLED: Final = "/record/steelyard"
_PROGRAMS: Final = "/programs"
_COPIED: Final = (
    *("pgbench", "psql", "pg_dump", "pg_restore", "pg_waldump"),
    *("redis-benchmark", "redis-cli"),
)
_LOAD: Final = {"cpu": "1", "memory": "512Mi"}
_OWN_REQUESTS: Final = {"cpu": "200m", "memory": "256Mi"}
_OWN_LIMITS: Final = {"cpu": "1", "memory": "2Gi"}
# Transaction logs that were fetched, until they are read; containers get 64 MiB otherwise. A guess.
_LOGS: Final = "512Mi"
_USER: Final = 10001  # any but root; the image's own account has this number
_KEPT_S: Final = 7 * 24 * 3600  # how long an ended Job stays to be asked; its volume stays longer
_ENDING_S: Final = 300  # for removing Clusters and their volumes in order
_READING_S: Final = 3600


def grant_of(plan: JobPlan) -> Grant:
    """Return what the campaign's own account may where."""
    return Grant(
        name=plan.name,
        account_namespace=plan.namespace,
        namespaces=(plan.namespace,),
        permissions=plan.permissions,
        labels=_labels(plan),
    )


def job(plan: JobPlan) -> k8s.Manifest:
    """Return the Job.

    Its pod has the programs of the load beside Steelyard: they are processes of it.
    """
    load = plan.load or JobLoad()
    return render_manifest(
        __package__,
        "job",
        name=plan.name,
        namespace=plan.namespace,
        labels=_labels(plan),
        deadline_s=plan.deadline_s,
        kept_s=_KEPT_S,
        ending_s=_ENDING_S,
        account=plan.account or plan.name,
        node_selector=dict(load.node_selector) or None,
        tolerations=json.loads(load.tolerations) or None,
        affinity=_affinity(load, plan.campaign_id),
        user=_USER,
        programs_image=load.image,
        copying=("sh", "-c", _script("programs"), "sh", _PROGRAMS, *_COPIED),
        container=CONTAINER,
        image=plan.image,
        running=_running(plan),
        cache=_CACHE,
        variables=[{"secretRef": {"name": name}} for name in plan.secrets] or None,
        resources=_beside(load.resources),
        volume=_VOLUME,
        request_at=REQUEST,
        claim=plan.claim,
        request=plan.request,
        logs=_LOGS,
    )


def _running(plan: JobPlan) -> tuple[str, ...]:
    """Return what the pod runs; an image without Steelyard gets it before."""
    extras = ",".join(("kubernetes", *plan.extras))
    words = (INSTALLED, extras, *pip_options(plan.index_url)) if plan.installs else ()
    before = _script("install") if plan.installs else ""
    script = (
        f'{before}export PATH="{_PROGRAMS}/bin:$PATH"\n'
        "exec python3 -m steelyard kubernetes campaign\n"
    )
    return ("sh", "-c", script, "sh", *words)


def _script(name: str) -> str:
    return (files(__package__) / f"{name}.sh").read_text()


def _affinity(load: JobLoad, campaign_id: str) -> dict[str, Any] | None:
    """Return the rule that keeps the pod from the database's nodes; None where it need not."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if load.away_from_nodes:
        # By name, of which each requirement takes one.
        avoided = [
            {"key": "metadata.name", "operator": "NotIn", "values": [node]}
            for node in dict.fromkeys(load.away_from_nodes)
        ]
        terms = {"nodeSelectorTerms": [{"matchFields": avoided}]}
        return {"nodeAffinity": {required: terms}}
    if load.is_apart:
        labels = dict(load.away_from) or k8s.campaign_labels(campaign_id, k8s.DATABASE)
        selector = {"matchLabels": labels}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        return {"podAntiAffinity": {required: [term]}}
    return None


def _beside(load: PodResources) -> dict[str, dict[str, str]]:
    """Return what the pod asks for: what the load does, and what Steelyard needs beside it.

    Steelyard's own is a guess, measured neither on large nor on long campaigns: between two runs
    the analysis takes a CPU for a moment; during a run it only waits. What of the load is given in
    one place alone is the same in the other.
    """
    requests = {**_LOAD, **dict(load.limits), **dict(load.requests)}
    limits = {**_LOAD, **dict(load.requests), **dict(load.limits)}
    return {"requests": _added(requests, _OWN_REQUESTS), "limits": _added(limits, _OWN_LIMITS)}


def _added(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    sums = {
        key: parse_quantity(one.get(key, "0")) + parse_quantity(other.get(key, "0"))
        for key in {**one, **other}
    }
    return {
        key: f"{math.ceil(amount * 1000)}m" if key == "cpu" else str(math.ceil(amount))
        for key, amount in sums.items()
    }


def reader(plan: JobPlan) -> k8s.Manifest:
    """Return a pod that waits, with the record before it."""
    return waiting_pod(
        CONTAINER,
        plan.image,
        lasts_s=_READING_S,
        user=_USER,
        claim=plan.claim,
        read_only=True,
        volume_at=_VOLUME,
        name=plan.reader,
        namespace=plan.namespace,
        labels=k8s.campaign_labels(plan.campaign_id, READER_ROLE),
        requests={"cpu": "10m", "memory": "64Mi"},
        limits={"cpu": "1", "memory": "512Mi"},
    )


def owned(manifest: k8s.Manifest, owner: k8s.Manifest | None) -> k8s.Manifest:
    """Return an object that goes with the claim, where it can: in the claim's namespace."""
    metadata = dict(manifest["metadata"])
    if owner is not None and metadata.get("namespace") == owner["metadata"]["namespace"]:
        metadata["ownerReferences"] = k8s.owned_by(owner)
    return {**manifest, "metadata": metadata}


_GONE_S: Final = 600.0  # a Job's pod may need its whole time of grace to clear up
_PAUSE_S: Final = 1.0


def make(plan: JobPlan, packed: str, api: KubernetesApi) -> None:
    """Make everything, the Job last; what fails half-way is removed again.

    Raises:
        SteelyardError: Something was refused, and nothing is left.
    """
    names = {k8s.JOB: plan.name, k8s.CLAIM: plan.claim, k8s.CONFIG_MAP: plan.request}
    for ref in (plan.ref(kind, name) for kind, name in names.items()):
        if api.read(ref) is not None:
            raise PreflightError(f"{ref.label} is there already", hint="Start it again.")
    owner: k8s.Manifest | None = None
    try:
        for manifest in manifests_of(plan, packed):
            made = api.apply(owned(manifest, owner))
            owner = made if k8s.ref_of(manifest).kind.name == k8s.CLAIM.name else owner
    except BaseException:
        # What the API does not delete here is found by its label later.
        for ref in _all(plan):
            with suppress(SteelyardError):
                if _is_there(ref, plan, api):
                    api.delete(ref)
        raise


def manifests_of(plan: JobPlan, packed: str) -> Iterator[k8s.Manifest]:
    """Yield everything in the order to make it; what comes after the claim goes with it.

    ``packed`` is the experiment as a ConfigMap takes it.
    """
    if plan.makes_namespace:
        labels = k8s.campaign_labels(plan.campaign_id)
        yield k8s.NAMESPACE.manifest(plan.namespace, labels=labels)
    here: dict[str, Any] = {
        "namespace": plan.namespace,
        "labels": _labels(plan),
    }
    spec = claim_spec(plan.storage, plan.storage_class)
    claim = k8s.CLAIM.manifest(plan.claim, **here, spec=spec)
    claim["metadata"]["annotations"] = {KEPT_IN: plan.request}
    yield claim
    kept = {PLAN_KEY: plan_text(plan)}
    yield k8s.CONFIG_MAP.manifest(plan.request, **here, data=kept, binaryData={REQUEST_KEY: packed})
    if not plan.account:
        grant = grant_of(plan)
        yield rbac.account(grant)
        yield from rbac.grants(grant)
    yield job(plan)


def make_again(plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Make the Job anew, in place of one that ended; it goes on with the record.

    Raises:
        PreflightError: The volume is gone.
    """
    owner = _claim_of(plan, api)
    # What goes with the old Job goes before the new.
    for ref in (plan.ref(k8s.JOB, plan.name), _anchor(plan)):
        remove_one(ref, plan, api, clock)
    api.apply(owned(job(plan), owner))


def _claim_of(plan: JobPlan, api: KubernetesApi) -> k8s.Manifest:
    ref = plan.ref(k8s.CLAIM, plan.claim)
    claim = api.read(ref)
    if claim is None:
        raise PreflightError(
            f"{ref.label} is not there: the record is gone with it",
            hint="Start the campaign anew.",
        )
    return claim


def remove(plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Remove everything of the campaign, the record on its volume too, each whatever of others.

    Raises:
        LeftBehindError: Something is still there.
    """
    raise_all(troubles_of(lambda ref: remove_one(ref, plan, api, clock), _all(plan)))


def remove_one(ref: k8s.ObjectRef, plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Remove one object of the campaign, and wait until it is gone with its pods.

    Raises:
        LeftBehindError: It does not go away.
    """
    if not _is_there(ref, plan, api):
        return
    api.delete(ref)

    def is_gone() -> bool:
        pods = api.list(k8s.POD, plan.namespace, _labels(plan)) if ref.kind == k8s.JOB else ()
        return api.read(ref) is None and not pods

    if not until(is_gone, clock, _GONE_S, _PAUSE_S):
        raise LeftBehindError(
            f"{ref.label} does not go away",
            hint="Look at it with `kubectl describe`, then run `steelyard clean`.",
        )


def _all(plan: JobPlan) -> Iterator[k8s.ObjectRef]:
    """Yield what does not go with something before it, in the order to remove it."""
    yield plan.ref(k8s.JOB, plan.name)
    yield plan.ref(k8s.POD, plan.reader)
    yield _anchor(plan)
    if any(each.cluster_wide for each in plan.permissions):
        name = grant_of(plan).cluster_name
        yield k8s.ObjectRef(kind=k8s.CLUSTER_ROLE_BINDING, name=name)
        yield k8s.ObjectRef(kind=k8s.CLUSTER_ROLE, name=name)
    yield plan.ref(k8s.CLAIM, plan.claim)
    if plan.makes_namespace:
        yield k8s.ObjectRef(kind=k8s.NAMESPACE, name=plan.namespace)


def _anchor(plan: JobPlan) -> k8s.ObjectRef:
    """Return what all that the campaign itself made goes with, if it could not clear up."""
    return plan.ref(k8s.CONFIG_MAP, object_name(plan.campaign_id))


def _labels(plan: JobPlan) -> dict[str, str]:
    return k8s.campaign_labels(plan.campaign_id, k8s.RUNNER)


def _is_there(ref: k8s.ObjectRef, plan: JobPlan, api: KubernetesApi) -> bool:
    """Return whether an object is there with the campaign's label; nothing else is deleted."""
    found = api.read(ref)
    return found is not None and k8s.is_of_campaign(found, k8s.campaign_value(plan.campaign_id))


JOURNAL: Final = "journal.jsonl"
_LIST_S: Final = 600.0  # checksums of some gigabytes of kept logs, on a slow volume
_READ_S: Final = 120.0

# The journal first: what it tells of was in place before. It is still growing, so the checksum is
# of what was there when its size was taken.
_LIST: Final = """
import hashlib, json, os, sys
root = sys.argv[1]
names = []
for place, _, files in os.walk(root):
    names += [os.path.relpath(os.path.join(place, name), root) for name in files]
names.sort(key=lambda name: (name != "journal.jsonl", name))
for name in names:
    if name == "lock" or os.path.basename(name).startswith("."):
        continue
    digest, size = hashlib.sha256(), 0
    try:
        with open(os.path.join(root, name), "rb") as file:
            left = os.fstat(file.fileno()).st_size
            while left and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left, size = left - len(piece), size + len(piece)
    except FileNotFoundError:
        continue
    print(json.dumps([name, size, digest.hexdigest()]))
"""
# A piece that is not there any more is empty.
_READ: Final = """
import base64, json, os, sys, zlib
for name, offset, size in json.loads(sys.argv[2]):
    try:
        with open(os.path.join(sys.argv[1], name), "rb") as file:
            file.seek(offset)
            piece = file.read(size)
    except FileNotFoundError:
        piece = b""
    print(base64.b64encode(zlib.compress(piece, 1)).decode())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a record; ``name`` is relative to it."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a file: from its byte ``offset`` on, at most so many."""

    name: str
    offset: int
    size_bytes: int


class RecordFiles:
    """The record in one directory of a container that sees it."""

    def __init__(self, api: KubernetesApi, where: k8s.ContainerRef, directory: str) -> None:
        self._api = api
        self._where = where
        self._directory = directory

    def listed(self) -> tuple[RecordFile, ...]:
        """Return all files but locks and half-written ones, the journal first.

        Raises:
            TargetError: The container cannot be reached, or does not answer as it should.
        """
        printed = self._run(_LIST, timeout_s=_LIST_S)
        try:
            entries = [json.loads(line) for line in printed.splitlines()]
            return tuple(_checked(*entry) for entry in entries)
        except (ValueError, TypeError) as error:
            raise self._odd(error) from error

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces of files; what is beyond an end is missing.

        Raises:
            TargetError: As of ``listed``.
        """
        asked = json.dumps([[each.name, each.offset, each.size_bytes] for each in pieces])
        printed = self._run(_READ, asked, timeout_s=_READ_S).splitlines()
        try:
            found = tuple(zlib.decompress(base64.b64decode(line)) for line in printed)
        except (binascii.Error, zlib.error) as error:
            raise self._odd(error) from error
        if len(found) != len(pieces):
            raise self._odd(ValueError(f"{len(found)} of {len(pieces)} pieces came"))
        return found

    def _run(self, script: str, *arguments: str, timeout_s: float) -> str:
        # Isolated and without site packages it starts in a third of the time, beside a measurement.
        argv = ("python3", "-I", "-S", "-c", script, self._directory, *arguments)
        ended = self._api.run(self._where, argv, timeout_s=timeout_s)
        if not ended.succeeded:
            raise TargetError(
                f"the record cannot be read in pod {self._where.pod}: {ended.tail(1)}",
                hint="Is the image one with Steelyard and Python in it?",
            )
        return ended.stdout

    def _odd(self, error: Exception) -> TargetError:
        return TargetError(
            f"pod {self._where.pod} answers something else than the record: {error}",
            hint="Try again.",
        )


def _checked(name: str, size: int, digest: str) -> RecordFile:
    """Return an entry of a list.

    Raises:
        RecordError: It would be written elsewhere than below the record.
    """
    if name.startswith("/") or ".." in name.split("/"):
        raise RecordError(f"the record in the cluster names a file {name}", hint="Look at it.")
    return RecordFile(name=name, size_bytes=int(size), sha256=str(digest))


_DEADLINE: Final = "DeadlineExceeded"
_RUNNERS: Final = {k8s.MANAGED_BY: k8s.MANAGER, k8s.ROLE: k8s.RUNNER}


class Stand(StrEnum):
    """How the Job of a campaign stands."""

    WAITING = "waiting"  # no pod of it runs yet
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"  # there is only the volume with the record


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a campaign in the cluster stands.

    Attributes:
        last: The container of its newest pod, as long as that is there.
        exit_code: Of Steelyard in the pod that ended; None: not known.
        reason: Why it waits or failed, in words; empty where there is nothing to tell.
    """

    stand: Stand
    last: k8s.ContainerRef | None = None
    exit_code: int | None = None
    reason: str = ""

    @property
    def pod(self) -> k8s.ContainerRef | None:
        """Return the container while it runs."""
        return self.last if self.stand is Stand.RUNNING else None

    @property
    def is_over(self) -> bool:
        """Return whether no pod of it works, or will."""
        return self.stand in {Stand.DONE, Stand.FAILED, Stand.GONE}


def find(api: KubernetesApi, namespace: str = "") -> tuple[JobPlan, ...]:
    """Return the campaigns with a record in a namespace, or in all, oldest first.

    Raises:
        RecordError: All that are there were started by another version of Steelyard.
    """
    found = api.list(k8s.CLAIM, namespace, _RUNNERS)
    plans: list[JobPlan] = []
    unreadable: list[RecordError] = []
    for each in sorted(found, key=_made_at):
        name = (each["metadata"].get("annotations") or {}).get(KEPT_IN, "")
        place = k8s.ObjectRef(
            kind=k8s.CONFIG_MAP, name=name, namespace=each["metadata"]["namespace"]
        )
        try:
            if name and (kept := api.read(place)):
                plans.append(read_plan(kept["data"][PLAN_KEY], name))
        except RecordError as error:
            unreadable.append(error)
    if unreadable and not plans:
        raise unreadable[0]
    return tuple(plans)


def _made_at(thing: k8s.Manifest) -> str:
    return str(thing["metadata"].get("creationTimestamp"))


def choose(plans: tuple[JobPlan, ...], name: str | None) -> JobPlan:
    """Return the campaign that is meant: by its id, or a part of it that no other has.

    Raises:
        InputError: There is none, or more than one.
    """
    meant = [plan for plan in plans if name is None or name == plan.campaign_id]
    if not meant and name is not None:
        meant = [plan for plan in plans if name in plan.campaign_id]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        known = ", ".join(plan.campaign_id for plan in plans)
        wanted = "no campaign runs" if name is None else f"no campaign {name} runs"
        hint = f"There is {known}." if known else "Name its namespace with -n."
        raise InputError(f"{wanted} in the cluster", hint=hint)
    listed = "\n".join(f"  {plan.campaign_id} in {plan.namespace}" for plan in meant)
    raise InputError(
        f"{len(meant)} campaigns are meant:\n{listed}", hint="Name one: steelyard attach NAME"
    )


def standing(plan: JobPlan, api: KubernetesApi) -> Standing:
    """Return how a campaign stands now."""
    job = api.read(plan.ref(k8s.JOB, plan.name))
    pod = max(api.list(k8s.POD, plan.namespace, _labels(plan)), key=_made_at, default=None)
    last = None if pod is None else _container(pod["metadata"]["name"], plan)
    status: Mapping[str, Any] = (pod or {}).get("status") or {}
    ended = [
        int(state["terminated"]["exitCode"])
        for container in status.get("containerStatuses") or ()
        if (state := container.get("state") or {}).get("terminated")
    ]
    said = {
        each["type"]: each
        for each in ((job or {}).get("status") or {}).get("conditions") or ()
        if each["status"] == "True"
    }
    stand, reason = Stand.WAITING, ""
    if job is None:
        stand = Stand.GONE
    elif "Complete" in said:
        stand = Stand.DONE
    elif failed := said.get("Failed"):
        stand = Stand.FAILED
        late = failed.get("reason") == _DEADLINE
        reason = failed.get("message") or failed.get("reason") or ""
        reason = "it took longer than its deadline allows" if late else reason
    elif not said and status.get("phase") != "Succeeded":
        # One that is about to end says so before it has.
        if status.get("phase") == "Running":
            stand = Stand.RUNNING
        elif pod is not None and (found := obstacle(pod)):
            reason = f"pod {pod['metadata']['name']}: {found.message}"
        else:
            waiting = pod or job
            uid = str(waiting["metadata"]["uid"])
            warnings = warnings_about(api, k8s.ref_of(waiting), uid)
            reason = str(warnings[0].get("message") or "") if warnings else ""
    exit_code = ended[0] if ended else None
    return Standing(stand=stand, last=last, exit_code=exit_code, reason=reason)


def _container(pod: str, plan: JobPlan) -> k8s.ContainerRef:
    return k8s.ContainerRef(namespace=plan.namespace, pod=pod, container=CONTAINER)


@contextmanager
def record_files(
    plan: JobPlan, api: KubernetesApi, clock: Clock, told: Callable[[str], None]
) -> Iterator[RecordFiles]:
    """Give the files of a campaign's record; a pod made for that is removed afterwards.

    Raises:
        PreflightError: The volume is gone, or no pod comes up.
    """
    running = standing(plan, api).pod
    if running is not None:
        yield RecordFiles(api, running, RECORD)
        return
    place = plan.ref(k8s.POD, plan.reader)
    remove_one(place, plan, api, clock)  # one of an attach that was killed has little time left
    try:
        api.apply(owned(reader(plan), _claim_of(plan, api)))
        ReadyWait(api, clock, told).until_ready([place])
        yield RecordFiles(api, _container(plan.reader, plan), RECORD)
    finally:
        # One that cannot be removed now has its deadline, and goes with the volume.
        with suppress(SteelyardError):
            remove_one(place, plan, api, clock)
