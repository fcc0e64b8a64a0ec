"""Which kinds a cluster has, and under which names its API has them.

A cluster by its API: paths of the REST interface, no typed models.

Server-side apply, discovery and strict validation need no more than JSON, and what Steelyard makes
of a Cluster's specification is a manifest anyway.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

from steelyard.core.command import Completed
from steelyard.core.kubernetes import (
    NAMESPACE,
    POD,
    ContainerRef,
    Kind,
    Manifest,
    ObjectRef,
    ref_of,
)
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes import commands
from steelyard.gateways.kubernetes import requests as refusals
from steelyard.gateways.kubernetes.access import Access
from steelyard.gateways.kubernetes.requests import Answered, Asked, Request, Requests, refused
from steelyard.gateways.kubernetes.streams import Door, Forward, Stream, open_stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as the API has it.

    Attributes:
        plural: ``pods``.
        namespaced: As the cluster says.
    """

    api_version: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """Return the API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def label(self) -> str:
        """Return it as errors and `kubectl` write it: ``clusters.postgresql.cnpg.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of its objects, of one of them, or of a part such as ``log``."""
        within = ("namespaces", namespace) if self.namespaced and namespace else ()
        root = group_path(self.api_version)
        return "/".join(word for word in (root, *within, self.plural, name, part) if word)


def group_path(api_version: str) -> str:
    """Return the path of a version of an API group."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Discovery:
    """What the API says of its kinds; found kinds are kept, absent ones are asked for again."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._found: dict[tuple[str, str], Resource] = {}

    def find(self, kind: Kind) -> Resource | None:
        """Return a kind as the cluster has it; None where it has not."""
        key = (kind.api_version, kind.name)
        if key not in self._found:
            self._ask(kind.api_version)
        return self._found.get(key)

    def resource(self, kind: Kind) -> Resource:
        """Return a kind as the cluster has it.

        Raises:
            PreflightError: The cluster has no such kind.
        """
        found = self.find(kind)
        if found is None:
            raise refusals.unknown_kind(kind)
        return found

    def _ask(self, api_version: str) -> None:
        path = group_path(api_version)
        asked = Asked(what=path, verb="get", context=self._requests.access.context)
        answered = self._requests.send(Request(method="GET", path=path, asked=asked))
        if answered.status == 404:
            return
        if not answered.succeeded:
            raise refused(answered, asked)
        for each in answered.body.get("resources") or ():
            if "/" not in each["name"]:  # no part of another
                self._found[api_version, each["kind"]] = _resource(api_version, each)


def _resource(api_version: str, said: Mapping[str, Any]) -> Resource:
    return Resource(
        api_version=api_version, plural=said["name"], namespaced=bool(said["namespaced"])
    )


_STRICT: Final = (("fieldManager", "steelyard"), ("fieldValidation", "Strict"))
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_REVIEW: Final = "authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aim:
    """One object, or all of a kind, in the words of the API."""

    resource: Resource
    namespace: str
    name: str
    label: str

    def path(self, part: str = "") -> str:
        return self.resource.path(self.namespace, self.name, part)

    def asked(self, verb: str, context: str, part: str = "") -> Asked:
        return Asked(
            what=self.label,
            verb=verb,
            resource=f"{self.resource.label}/{part}" if part else self.resource.label,
            namespace=self.namespace,
            context=context,
        )


class ClusterApi:
    """One cluster under one account; any thread may use it."""

    def __init__(self, access: Access, *, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._requests = Requests(access, clock)
        self._discovery = Discovery(self._requests)

    @property
    def context(self) -> str:
        """Return the name of the context; ``in-cluster`` inside a pod."""
        return self._access.context

    @property
    def server(self) -> str:
        """Return the URL of the API."""
        return self._access.server

    @property
    def namespace(self) -> str:
        """Return the namespace of the context."""
        return self._access.namespace

    @property
    def is_inside(self) -> bool:
        """Return whether this process runs in the cluster."""
        return self._access.is_inside

    def version(self) -> str:
        """Return the version of the API server: ``v1.34.4``."""
        asked = Asked(what="/version", verb="get", context=self.context)
        body = self._requests.json(Request(method="GET", path="/version", asked=asked))
        return str(body["gitVersion"])

    def knows(self, kind: Kind) -> bool:
        """Return whether the cluster has this kind."""
        return self._discovery.find(kind) is not None

    def read(self, ref: ObjectRef) -> Manifest | None:
        """Return an object, or None where it is not there."""
        aim = self._aim(ref)
        asked = aim.asked("get", self.context)
        answered = self._requests.send(Request(method="GET", path=aim.path(), asked=asked))
        if answered.is_absent_object:
            return None
        return _body(answered, asked)

    def list(
        self, kind: Kind, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        """Return the objects with all of these labels; of all namespaces where none is given."""
        aim = _Aim(
            resource=self._discovery.resource(kind),
            namespace=namespace,
            name="",
            label=f"the objects of kind {kind.name}",
        )
        chosen = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        request = Request(
            method="GET",
            path=aim.path(),
            asked=aim.asked("list", self.context),
            query=(("labelSelector", chosen),) if chosen else (),
        )
        # Objects in a list do not say what they are.
        what = {"apiVersion": kind.api_version, "kind": kind.name}
        return tuple({**what, **item} for item in self._requests.json(request)["items"])

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Make an object as it is written, or bring it to that; return it as the server has it."""
        return self._change(
            ref_of(manifest),
            manifest,
            content_type=_APPLY,
            query=(("force", "true"), *((("dryRun", "All"),) if dry_run else ())),
        )

    def create(self, manifest: Manifest) -> Manifest | None:
        """Make an object that is not there yet; None where one of that name is."""
        ref = ref_of(manifest)
        aim = self._aim(ref)
        asked = aim.asked("create", self.context)
        path = replace(aim, name="").path()
        request = Request(method="POST", path=path, asked=asked, query=_STRICT, body=manifest)
        answered = self._requests.send(request)
        if answered.is_there_already:
            return None
        return _body(answered, asked)

    def patch(self, ref: ObjectRef, patch: Manifest) -> Manifest:
        """Change an object by a JSON merge patch, strictly validated; null removes a key."""
        return self._change(ref, patch, content_type=_MERGE)

    def delete(self, ref: ObjectRef, *, grace_s: int | None = None) -> bool:
        """Delete an object with all that it owns; return whether it was there.

        It stays readable until what it owns, and what blocks that, is gone.
        """
        aim = self._aim(ref)
        asked = aim.asked("delete", self.context)
        options = {"propagationPolicy": "Foreground"}
        grace = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        request = Request(method="DELETE", path=aim.path(), asked=asked, body={**options, **grace})
        answered = self._requests.send(request)
        if answered.is_absent_object:
            return False
        _body(answered, asked)
        return True

    def allowed(self, verb: str, kind: Kind, namespace: str = "", part: str = "") -> bool:
        """Return whether this account may do that; ``part`` is a subresource such as ``exec``."""
        resource = self._discovery.resource(kind)
        # A namespace lies in itself: a role there may allow to read it (RequestInfo of the API).
        is_inside = resource.namespaced or kind.name == NAMESPACE.name
        wanted = {
            "verb": verb,
            "group": resource.group,
            "version": kind.api_version.rpartition("/")[2],
            "resource": resource.plural,
            "subresource": part,
            "namespace": namespace if is_inside else "",
        }
        asked = Asked(what="what the account may do", verb="create", context=self.context)
        request = Request(
            method="POST",
            path=f"/apis/{_REVIEW}/selfsubjectaccessreviews",
            asked=asked,
            body={
                "apiVersion": _REVIEW,
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": wanted},
            },
        )
        return bool(self._requests.json(request)["status"].get("allowed"))

    def logs(self, where: ContainerRef, *, lines: int | None = None) -> str:
        """Return what a container printed, or its last lines."""
        aim = self._aim(_pod(where))
        container = (("container", where.container),) if where.container else ()
        tail = () if lines is None else (("tailLines", str(lines)),)
        asked = aim.asked("get", self.context, "log")
        request = Request(
            method="GET", path=aim.path("log"), asked=asked, query=(*container, *tail)
        )
        return self._requests.text(request)

    def run(
        self, where: ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Run a short command in a container; it dies with the connection.

        Raises:
            MeasurementError: It did not end in time.
            TargetError: The connection was lost, or the command could not be started.
        """
        given = stdin.encode()
        stream = self._exec(where, commands.guarded(argv, given))
        try:
            exchange = commands.Exchange(stream=stream, where=where, argv=tuple(argv), stdin=given)
            return exchange.complete(self._clock, timeout_s)
        finally:
            stream.close()

    def lines(self, where: ContainerRef, argv: Sequence[str]) -> commands.StreamedLines:
        """Start a command in a container and return what it prints, line by line."""
        stream = self._exec(where, commands.guarded(argv))
        return commands.StreamedLines(stream, where, tuple(argv))

    def forward(self, where: ContainerRef, port: int) -> AbstractContextManager[int]:
        """Make a port of a pod reachable on the loopback interface; gives the local port.

        Raises:
            TargetError: The pod is not there.
            PrivilegeError: The account may not do that.
        """
        if self.read(_pod(where)) is None:
            raise refusals.absent(_pod(where).label)
        for verb in self._verbs_of_streams():
            if not self.allowed(verb, POD, where.namespace, "portforward"):
                raise refusals.lacks_verb(verb, "pods/portforward", where.namespace)
        door = self._door(where, "portforward", (("ports", str(port)),), repeatable=True)
        return Forward(lambda: open_stream(self._access, door, self._requests.patience))

    def _verbs_of_streams(self) -> tuple[str, ...]:
        """Return what a role needs for commands and ports: one verb more since Kubernetes 1.35.

        Source: KEP-4006, "Synthetic RBAC CREATE Authorization Check". A WebSocket begins with GET.
        """
        major, minor = re.findall(r"\d+", self.version())[:2]
        return ("get", "create") if (int(major), int(minor)) >= (1, 35) else ("get",)

    def raw(self, path: str) -> str:
        """Return what the API answers at a path, such as ``/api/v1/nodes/n/proxy/configz``."""
        asked = Asked(what=path, verb="get", context=self.context)
        return self._requests.text(Request(method="GET", path=path, asked=asked))

    def _aim(self, ref: ObjectRef) -> _Aim:
        resource = self._discovery.resource(ref.kind)
        namespace = (ref.namespace or self.namespace) if resource.namespaced else ""
        return _Aim(resource=resource, namespace=namespace, name=ref.name, label=ref.label)

    def _change(
        self,
        ref: ObjectRef,
        body: Manifest,
        *,
        content_type: str,
        query: Sequence[tuple[str, str]] = (),
    ) -> Manifest:
        aim = self._aim(ref)
        request = Request(
            method="PATCH",
            path=aim.path(),
            asked=aim.asked("patch", self.context),
            query=(*_STRICT, *query),
            body=body,
            content_type=content_type,
        )
        return self._requests.json(request)

    def _exec(self, where: ContainerRef, argv: Sequence[str]) -> Stream:
        words = tuple(("command", word) for word in argv)
        channels = tuple((name, "true") for name in ("stdin", "stdout", "stderr"))
        door = self._door(where, "exec", (*channels, *words))
        return open_stream(self._access, door, self._requests.patience)

    def _door(
        self,
        where: ContainerRef,
        part: str,
        query: Sequence[tuple[str, str]],
        *,
        repeatable: bool = False,
    ) -> Door:
        aim = self._aim(_pod(where))
        named = (("container", where.container),) if where.container and part == "exec" else ()
        return Door(
            path=aim.path(part),
            query=(*named, *query),
            asked=aim.asked("get", self.context, part),
            repeatable=repeatable,
        )


def _pod(where: ContainerRef) -> ObjectRef:
    return ObjectRef(kind=POD, name=where.pod, namespace=where.namespace)


def _body(answered: Answered, asked: Asked) -> Manifest:
    if not answered.succeeded:
        raise refused(answered, asked)
    return answered.body
