"""Campaigns that run in a cluster: found by their labels, how they stand, files of their records.

A record is read in the container of the Job while it runs, else in that of a reader. Files are
listed with checksums and read in pieces by the container's Python without any package, so that an
image of another version of Steelyard can be read, too.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from steelyard.core.errors import InputError, PreflightError, RecordError, TargetError
from steelyard.core.kubernetes import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    JOB,
    MANAGED_BY,
    MANAGER,
    POD,
    ROLE,
    RUNNER,
    ContainerRef,
    Manifest,
    ObjectRef,
    campaign_labels,
    ref_of,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.job import manifests
from steelyard.places.job.manifests import (
    CONTAINER,
    KEPT_IN,
    PLAN_KEY,
    JobPlan,
    read_plan,
    remove_one,
)
from steelyard.places.kubernetes.pods import ReadyWait, obstacle

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
    """The record in one directory of one container.

    Args:
        api: The cluster.
        where: A container that sees the record.
        directory: Of the record, there.
    """

    def __init__(self, api: KubernetesApi, where: ContainerRef, directory: str) -> None:
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
_RUNNERS: Final = {MANAGED_BY: MANAGER, ROLE: RUNNER}


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
        pod: Its container, while it runs.
        last: Its container, also when it has ended, as long as its log is there.
        exit_code: Of Steelyard in the pod that ended; None: not known.
        reason: Why it waits or failed, in words; empty where there is nothing to tell.
    """

    stand: Stand
    pod: ContainerRef | None = None
    last: ContainerRef | None = None
    exit_code: int | None = None
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether no pod of it works, or will."""
        return self.stand in {Stand.DONE, Stand.FAILED, Stand.GONE}


def find(api: KubernetesApi, namespace: str = "") -> tuple[JobPlan, ...]:
    """Return the campaigns with a record in a namespace, or in all, oldest first.

    Raises:
        RecordError: All that are there were started by another version of Steelyard.
    """
    found = api.list(CLAIM, namespace, _RUNNERS)
    ordered = sorted(found, key=lambda each: str(each["metadata"].get("creationTimestamp")))
    plans, unreadable = [], []
    for each in ordered:
        try:
            plan = _plan_of(each, api)
        except RecordError as error:
            unreadable.append(error)
        else:
            plans += [] if plan is None else [plan]
    if unreadable and not plans:
        raise unreadable[0]
    return tuple(plans)


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
    job = api.read(ObjectRef(kind=JOB, name=plan.name, namespace=plan.namespace))
    pod = _newest_pod(plan, api)
    last, exit_code = _container(pod), _exit_code(pod)
    if job is None:
        return Standing(stand=Stand.GONE, last=last, exit_code=exit_code)
    said = {
        each["type"]: each
        for each in (job.get("status") or {}).get("conditions") or ()
        if each["status"] == "True"
    }
    if "Complete" in said:
        return Standing(stand=Stand.DONE, last=last, exit_code=exit_code)
    if "Failed" in said:
        reason = _why(said["Failed"])
        return Standing(stand=Stand.FAILED, last=last, exit_code=exit_code, reason=reason)
    if pod is not None and not said and (pod.get("status") or {}).get("phase") == "Running":
        return Standing(stand=Stand.RUNNING, pod=last, last=last)
    # One that is about to end says so before it has.
    return Standing(stand=Stand.WAITING, reason="" if said else _waits_for(job, pod, api))


def _waits_for(job: Manifest, pod: Manifest | None, api: KubernetesApi) -> str:
    """Return what keeps a Job from running; empty where the cluster does not say."""
    if pod is None:
        return _last_event(job, api)
    found = obstacle(pod)
    if found is None:
        return _last_event(pod, api)
    return f"pod {pod['metadata']['name']}: {found.message}"


def _container(pod: Manifest | None) -> ContainerRef | None:
    if pod is None:
        return None
    metadata = pod["metadata"]
    return ContainerRef(namespace=metadata["namespace"], pod=metadata["name"], container=CONTAINER)


def _plan_of(claim: Manifest, api: KubernetesApi) -> JobPlan | None:
    metadata = claim["metadata"]
    name = (metadata.get("annotations") or {}).get(KEPT_IN, "")
    place = ObjectRef(kind=CONFIG_MAP, name=name, namespace=metadata["namespace"])
    kept = api.read(place) if name else None
    return None if kept is None else read_plan(kept["data"][PLAN_KEY], name)


def _newest_pod(plan: JobPlan, api: KubernetesApi) -> Manifest | None:
    found = api.list(POD, plan.namespace, campaign_labels(plan.campaign_id, RUNNER))
    pods = sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    return pods[-1] if pods else None


def _exit_code(pod: Manifest | None) -> int | None:
    status: Mapping[str, Any] = (pod or {}).get("status") or {}
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return int(ended["exitCode"])
    return None


def _why(condition: Mapping[str, str]) -> str:
    if condition.get("reason") == _DEADLINE:
        return "it took longer than its deadline allows"
    return condition.get("message") or condition.get("reason") or ""


def _last_event(of: Manifest, api: KubernetesApi) -> str:
    """Return the last warning about an object; empty where there is none, or it may not be seen."""
    metadata = of["metadata"]
    if not api.allowed("list", EVENT, metadata["namespace"]):
        return ""
    said = [
        event
        for event in api.list(EVENT, metadata["namespace"])
        if event.get("involvedObject", {}).get("uid") == metadata["uid"]
        and event.get("type") == "Warning"
    ]
    said.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
    return str(said[-1].get("message") or "") if said else ""


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
        yield RecordFiles(api, running, manifests.RECORD)
        return
    place = ObjectRef(kind=POD, name=plan.reader, namespace=plan.namespace)
    remove_one(place, plan, api, clock)  # one of an attach that was killed has little time left
    try:
        yield RecordFiles(api, _reader(plan, api, clock, told), manifests.RECORD)
    finally:
        remove_one(place, plan, api, clock)


def _reader(
    plan: JobPlan, api: KubernetesApi, clock: Clock, told: Callable[[str], None]
) -> ContainerRef:
    claim = ObjectRef(kind=CLAIM, name=plan.claim, namespace=plan.namespace)
    owner = api.read(claim)
    if owner is None:
        raise PreflightError(
            f"{claim.label} is not there: the record is gone with it",
            hint="Start the campaign anew.",
        )
    place = ref_of(api.apply(manifests.owned(manifests.reader(plan), owner)))
    ReadyWait(api, clock, told).until_ready([place])
    return ContainerRef(namespace=plan.namespace, pod=plan.reader, container=manifests.CONTAINER)
