"""What a cluster refuses, as a sentence of fact and the way out.

The statuses are those of the API's conventions (kubernetes/community, api-conventions.md, "HTTP
Status codes"); what a `Status` says in words is recognised only where no field says it.
"""

from typing import Final

from steelyard.model.errors import InputError, PreflightError, PrivilegeError, TargetError
from steelyard.model.kubernetes import Kind

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
