"""What Steelyard asks of a Kubernetes cluster.

Every method raises a SteelyardError whose message names the object: PrivilegeError where the
account lacks a verb (named, with the role that has it), PreflightError where a quota or the object
itself is refused, TargetError where the API cannot be reached. Requests that can be repeated are,
for a while, when the connection is lost.

What a cluster refuses is told as a sentence of fact and the way out; that needs no library of
Kubernetes. The statuses are those of the API's conventions (kubernetes/community,
api-conventions.md, "HTTP Status codes"). Fields of a `Status` are believed first (``reason``,
``details``); where the API says the rest only in words, the words of these sources are matched:
k8s.io/apiserver (``responsewriters/errors.go`` for roles,
``admission/plugin/resourcequota/controller.go`` for quotas), k8s.io/apimachinery and
structured-merge-diff for unknown fields. What is not recognised is told as the API said it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from steelyard.core.kubernetes import ContainerRef, Kind, Manifest, ObjectRef
from steelyard.core.outside import Completed
from steelyard.core.wording import (
    InputError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)


class Lines(Protocol):
    """What a command in a container prints while it runs."""

    def __iter__(self) -> Iterator[str]:
        """Yield lines without their ends, until the command ends or it is closed."""
        ...

    def close(self) -> None:
        """Hang up; also from another thread."""
        ...


class KubernetesApi(Protocol):
    """One cluster under one account."""

    @property
    def context(self) -> str:
        """Return the name of the context in the kubeconfig; ``in-cluster`` inside a pod."""
        ...

    @property
    def server(self) -> str:
        """Return the URL of the API: it tells clusters apart."""
        ...

    @property
    def namespace(self) -> str:
        """Return the namespace of the context."""
        ...

    @property
    def is_inside(self) -> bool:
        """Return whether this process runs in the cluster, where services are reached directly."""
        ...

    def version(self) -> str:
        """Return the version of the API server: ``v1.34.4``."""
        ...

    def knows(self, kind: Kind) -> bool:
        """Return whether the cluster has this kind."""
        ...

    def read(self, ref: ObjectRef) -> Manifest | None:
        """Return an object, or None where it is not there."""
        ...

    def list(
        self, kind: Kind, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        """Return the objects with all of these labels; of all namespaces where none is given."""
        ...

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Make an object as it is written, or bring it to that; return it as the server has it.

        Server-side apply with strict validation: an unknown field is an InputError.
        """
        ...

    def create(self, manifest: Manifest) -> Manifest | None:
        """Make an object that is not there yet; None where one of that name is, whoever made it.

        A request whose answer was lost is repeated, so the one that is there may be this one.
        """
        ...

    def patch(self, ref: ObjectRef, patch: Manifest) -> Manifest:
        """Change an object by a JSON merge patch, strictly validated; null removes a key."""
        ...

    def delete(self, ref: ObjectRef, *, grace_s: int | None = None) -> bool:
        """Delete an object with all that it owns; return whether it was there.

        Returns at once. The object can be read until it and what it owns with
        ``blockOwnerDeletion`` are gone.
        """
        ...

    def allowed(self, verb: str, kind: Kind, namespace: str = "", part: str = "") -> bool:
        """Return whether this account may do that; ``part`` is a subresource such as ``exec``.

        Commands and forwarded ports need ``get`` of their part, and ``create`` since Kubernetes
        1.35; a role that has both fits every version.
        """
        ...

    def logs(self, where: ContainerRef, *, lines: int | None = None) -> str:
        """Return what a container printed, or its last lines."""
        ...

    def run(
        self, where: ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Run a short command in a container; it and its children die with the connection.

        What it left running in the background when it ended goes on. The container needs ``sh``
        (and ``head`` where there is ``stdin``), and a process 1 that reaps, such as a shell.

        Raises:
            MeasurementError: It did not end in time, and was killed.
            TargetError: The connection was lost, or the command could not be started; it is never
                repeated.
        """
        ...

    def lines(self, where: ContainerRef, argv: Sequence[str]) -> Lines:
        """Start a command in a container and return what it prints, line by line.

        Reading raises a TargetError where the connection is lost or the command fails.
        """
        ...

    def forward(self, where: ContainerRef, port: int) -> AbstractContextManager[int]:
        """Make a port of a pod reachable on the loopback interface; gives the local port."""
        ...

    def raw(self, path: str) -> str:
        """Return what the API answers at a path, such as ``/api/v1/nodes/n/proxy/configz``."""
        ...


class Kubernetes(Protocol):
    """Finds clusters as kubectl does: ``KUBECONFIG``, ``~/.kube/config``, or the pod's account."""

    def connect(self, context: str | None = None) -> KubernetesApi:
        """Return the cluster of a context; None: the current one, or the one this pod is in.

        Raises:
            PreflightError: The extra ``kubernetes`` is not installed.
            InputError: There is no such context, or no kubeconfig.
        """
        ...


RBAC_HINT: Final = "`steelyard kubernetes rbac` prints the least role that is needed."
_REACH_HINT: Final = "Does `kubectl --context {context} version` get an answer?"


def lacks_verb(verb: str, resource: str, namespace: str = "", said: str = "") -> PrivilegeError:
    """Return that the account may not do something.

    Args:
        verb: As roles write it: ``create``.
        resource: Plural, with its group and part: ``pods/exec``, ``clusters.postgresql.cnpg.io``.
        namespace: Empty: the whole cluster.
        said: What the API said, where it adds to that.
    """
    where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
    added = f": {said}" if said else ""
    return PrivilegeError(f"the account may not {verb} {resource} {where}{added}", hint=RBAC_HINT)


def verbs_of_sessions(version: str) -> tuple[str, ...]:
    """Return what a role needs for commands and ports: one verb more since Kubernetes 1.35.

    Source: KEP-4006, "Synthetic RBAC CREATE Authorization Check". A WebSocket begins with GET.
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return ("get", "create") if numbers >= [1, 35] else ("get",)


def unknown_kind(kind: Kind) -> PreflightError:
    """Return that the cluster does not have a kind of object."""
    message = f"the cluster has no kind {kind.name} ({kind.api_version})"
    if "." in kind.api_version.split("/")[0] and not kind.api_version.startswith(_BUILT_IN):
        hint = "Its operator is not installed there, or is of another version."
    else:
        hint = "Another version of Kubernetes may have it."
    return PreflightError(message, hint=hint)


_BUILT_IN: Final = (
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "authorization.k8s.io",
    "policy",
)


def absent_namespace(namespace: str) -> PreflightError:
    """Return that there is no such namespace."""
    return PreflightError(
        f"the cluster has no namespace {namespace}",
        hint="Leave `namespace:` away, and Steelyard makes one of its own.",
    )


def absent(label: str) -> TargetError:
    """Return that an object is not there (any more)."""
    return TargetError(f"{label} is not there", hint="Did somebody delete it while it was needed?")


def unknown_field(label: str, said: str) -> InputError:
    """Return that an object was refused for fields that its kind does not have."""
    return InputError(
        f"{label} was refused by the cluster: {said}",
        hint="Check the spelling; another version of the kind may have the field.",
    )


def unreachable(server: str, context: str, why: str) -> TargetError:
    """Return that the API does not answer."""
    return TargetError(
        f"the Kubernetes API at {server} cannot be reached: {why}",
        hint=_REACH_HINT.format(context=context),
    )


_LACKS_VERB: Final = re.compile(
    r'cannot (?P<verb>\S+) (?:resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'|path "(?P<path>[^"]+)")(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_QUOTA: Final = re.compile(
    r"exceeded quota: (?P<quota>\S+), requested: (?P<requested>.+?), used: (?P<used>.+?), "
    r"limited: (?P<hard>.+)"
)
_QUOTA_NEEDS: Final = re.compile(r"failed quota: (?P<quota>\S+?): must specify (?P<what>.+)")
_NO_NAMESPACE: Final = re.compile(r'namespaces "(?P<namespace>[^"]+)" not found')
_UNKNOWN_FIELDS: Final = (
    re.compile(r'unknown field "([^"]+)"'),
    re.compile(r"(\.\S+): field not declared in schema"),
)
# An object that does not fit its schema comes as a failure of the server, status 500.
_NOT_TYPED: Final = re.compile(r"failed to create typed patch object \([^)]*\): (?P<why>.*)")
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
_SHOWN: Final = 600
_SHOWN_CAUSE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked, to say it in an error.

    Attributes:
        what: The object: ``Pod bench/p``, or the path.
        verb: As roles write it.
    """

    what: str
    verb: str
    namespace: str = ""
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the API answered.

    Attributes:
        status: Of HTTP.
        text: Body.
        retry_after_s: When to ask again, where it says so.
    """

    status: int
    text: str = field(repr=False)  # may be a Secret
    retry_after_s: float | None = None

    @property
    def succeeded(self) -> bool:
        """Return whether it did what was asked."""
        return 200 <= self.status < 300

    @property
    def said(self) -> str:
        """Return what it said in words."""
        return " ".join(str(self.body.get("message") or self.text).split())

    @property
    def passes(self) -> bool:
        """Return whether the same request may succeed in a while."""
        return self.status in _PASSING and not _NOT_TYPED.search(self.said)

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the body where it is an object of JSON, else an empty one."""
        try:
            parsed = json.loads(self.text)
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    @property
    def is_absent_object(self) -> bool:
        """Return whether the kind is there and the object is not."""
        details = self.body.get("details") or {}
        return self.status == 404 and bool(details.get("name"))

    @property
    def is_there_already(self) -> bool:
        """Return whether an object was not made because one of its name is there."""
        return self.status == 409 and self.body.get("reason") == "AlreadyExists"


def refused(answered: Answered, asked: Asked) -> SteelyardError:
    """Return what an answer that is no success means."""
    if _unknown_fields(answered.said) or _NOT_TYPED.search(answered.said):
        return _not_taken(answered, asked)
    by_status = {
        400: _not_taken if asked.verb in {"create", "patch"} else _other,
        401: _unauthorized,
        403: _forbidden,
        404: _absent,
        409: _conflict,
        422: _not_taken,
    }
    return by_status.get(answered.status, _other)(answered, asked)


def _unauthorized(answered: Answered, asked: Asked) -> SteelyardError:
    return PrivilegeError(
        f"the cluster does not accept the credentials of the context {asked.context}: "
        f"{answered.said}",
        hint="They may have expired: log in again, as for kubectl.",
    )


def _forbidden(answered: Answered, asked: Asked) -> SteelyardError:
    lacks = _LACKS_VERB.search(answered.said)
    if lacks is not None:
        return _lacking(lacks, answered, asked)
    quota = _QUOTA.search(answered.said)
    if quota is not None:
        return PreflightError(
            f"{asked.what} exceeds the quota {quota['quota']}: it requests {quota['requested']}, "
            f"in use are {quota['used']}, the limit is {quota['hard']}",
            hint="Ask for less, or for a larger quota; or use another namespace.",
        )
    needs = _QUOTA_NEEDS.search(answered.said)
    if needs is not None:
        return PreflightError(
            f"the quota {needs['quota']} wants {asked.what} to say its {needs['what']}",
            hint="Give `resources:` in the target.",
        )
    return PreflightError(
        f"the cluster does not allow {asked.what}: {_cut(answered.said, _SHOWN)}",
        hint="An admission rule of the cluster or its namespace refuses it.",
    )


def _lacking(lacks: re.Match[str], answered: Answered, asked: Asked) -> SteelyardError:
    """Return which verb is missing; what the API says of it is believed first."""
    if lacks["path"]:
        return lacks_verb(lacks["verb"], lacks["path"])
    resource = lacks["resource"]
    if lacks["group"]:
        plural, slash, part = resource.partition("/")
        resource = f"{plural}.{lacks['group']}{slash}{part}"
    # The words after the namespace say what else is wrong: a role that does not exist.
    after = answered.said[lacks.end() :].removeprefix(" at the cluster scope").strip(" :")
    namespace = lacks["namespace"] or (
        "" if "at the cluster scope" in answered.said else asked.namespace
    )
    return lacks_verb(lacks["verb"], resource, namespace, after)


def _absent(answered: Answered, asked: Asked) -> SteelyardError:
    space = _NO_NAMESPACE.search(answered.said)
    if space is not None:
        return absent_namespace(space["namespace"])
    return absent(asked.what)


def _conflict(answered: Answered, asked: Asked) -> SteelyardError:
    return TargetError(
        f"{asked.what} was changed by somebody else at the same time: {answered.said}",
        hint="Does an operator or a GitOps tool own it? Try again when it is left alone.",
    )


def _not_taken(answered: Answered, asked: Asked) -> SteelyardError:
    fields = _unknown_fields(answered.said)
    if fields:
        return unknown_field(asked.what, f"unknown field {', '.join(fields)}")
    untyped = _NOT_TYPED.search(answered.said)
    causes = (answered.body.get("details") or {}).get("causes") or ()
    # What changed in a field is shown by some kinds below the message, over many lines.
    reasons = [
        _cut(f"`{cause['field']}`: {str(cause.get('message', '')).partition(chr(10))[0]}")
        for cause in causes
        if cause.get("field")
    ]
    said = "; ".join(dict.fromkeys(reasons)) or (untyped["why"] if untyped else answered.said)
    return InputError(
        f"{asked.what} was refused by the cluster: {_cut(said, _SHOWN)}",
        hint="Change what the experiment file says of it.",
    )


def _unknown_fields(said: str) -> list[str]:
    """Return the fields that the kind does not have, each once."""
    found = [name.lstrip(".") for form in _UNKNOWN_FIELDS for name in form.findall(said)]
    return list(dict.fromkeys(found))


def _other(answered: Answered, asked: Asked) -> SteelyardError:
    said = _cut(answered.said, _SHOWN)
    return TargetError(
        f"the Kubernetes API failed at {asked.what} with status {answered.status}: {said}",
        hint="Is the cluster healthy? `kubectl get --raw /readyz?verbose` tells.",
    )


def _cut(text: str, length: int = _SHOWN_CAUSE) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
