"""What a cluster refuses, told as a sentence of fact and the way out.

The statuses are those of the API's conventions (kubernetes/community,
api-conventions.md, "HTTP Status codes"). Fields of a `Status` are believed first (``reason``,
``details``); where the API says the rest only in words, the words of these sources are matched:
k8s.io/apiserver (``responsewriters/errors.go`` for roles,
``admission/plugin/resourcequota/controller.go`` for quotas), k8s.io/apimachinery and
structured-merge-diff for unknown fields. What is not recognised is told as the API said it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from steelyard.core.kubernetes import Kind
from steelyard.core.wording import (
    InputError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)

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
class Request:
    """One request, and how it is named in an error.

    Attributes:
        what: The object: ``Pod bench/p``, or the path.
        verb: As roles write it.
        query: Pairs, so that a name may come twice.
        body: JSON; None: no body.
    """

    method: str
    path: str
    what: str
    verb: str
    namespace: str = ""
    context: str = ""
    query: Sequence[tuple[str, str]] = ()
    body: Mapping[str, Any] | None = field(default=None, repr=False)  # may be a Secret
    content_type: str = "application/json"

    @property
    def target(self) -> str:
        """Return path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


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


def refused(answered: Answered, request: Request) -> SteelyardError:
    """Return what a refusing answer means."""
    if _unknown_fields(answered.said) or _NOT_TYPED.search(answered.said):
        return _not_taken(answered, request)
    by_status = {
        400: _not_taken if request.verb in {"create", "patch"} else _other,
        401: _unauthorized,
        403: _forbidden,
        404: _absent,
        409: _conflict,
        422: _not_taken,
    }
    return by_status.get(answered.status, _other)(answered, request)


def _unauthorized(answered: Answered, request: Request) -> SteelyardError:
    return PrivilegeError(
        f"the cluster does not accept the credentials of the context {request.context}: "
        f"{answered.said}",
        hint="They may have expired: log in again, as for kubectl.",
    )


def _forbidden(answered: Answered, request: Request) -> SteelyardError:
    lacks = _LACKS_VERB.search(answered.said)
    if lacks is not None:
        return _lacking(lacks, answered, request)
    quota = _QUOTA.search(answered.said)
    if quota is not None:
        return PreflightError(
            f"{request.what} exceeds the quota {quota['quota']}: it requests {quota['requested']}, "
            f"in use are {quota['used']}, the limit is {quota['hard']}",
            hint="Ask for less, or for a larger quota; or use another namespace.",
        )
    needs = _QUOTA_NEEDS.search(answered.said)
    if needs is not None:
        return PreflightError(
            f"the quota {needs['quota']} wants {request.what} to say its {needs['what']}",
            hint="Give `resources:` in the target.",
        )
    return PreflightError(
        f"the cluster does not allow {request.what}: {_cut(answered.said, _SHOWN)}",
        hint="An admission rule of the cluster or its namespace refuses it.",
    )


def _lacking(lacks: re.Match[str], answered: Answered, request: Request) -> SteelyardError:
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
        "" if "at the cluster scope" in answered.said else request.namespace
    )
    return lacks_verb(lacks["verb"], resource, namespace, after)


def _absent(answered: Answered, request: Request) -> SteelyardError:
    space = _NO_NAMESPACE.search(answered.said)
    if space is not None:
        return absent_namespace(space["namespace"])
    return absent(request.what)


def _conflict(answered: Answered, request: Request) -> SteelyardError:
    return TargetError(
        f"{request.what} was changed by somebody else at the same time: {answered.said}",
        hint="Does an operator or a GitOps tool own it? Try again when it is left alone.",
    )


def _not_taken(answered: Answered, request: Request) -> SteelyardError:
    fields = _unknown_fields(answered.said)
    if fields:
        return unknown_field(request.what, f"unknown field {', '.join(fields)}")
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
        f"{request.what} was refused by the cluster: {_cut(said, _SHOWN)}",
        hint="Change what the experiment file says of it.",
    )


def _unknown_fields(said: str) -> list[str]:
    """Return the fields that the kind does not have, each once."""
    found = [name.lstrip(".") for form in _UNKNOWN_FIELDS for name in form.findall(said)]
    return list(dict.fromkeys(found))


def _other(answered: Answered, request: Request) -> SteelyardError:
    said = _cut(answered.said, _SHOWN)
    return TargetError(
        f"the Kubernetes API failed at {request.what} with status {answered.status}: {said}",
        hint="Is the cluster healthy? See `kubectl get --raw /readyz?verbose`.",
    )


def _cut(text: str, length: int = _SHOWN_CAUSE) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
