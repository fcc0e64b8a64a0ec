"""What an account must be allowed so that a campaign can run: asked before anything is made."""

from collections.abc import Iterator
from typing import Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PrivilegeError
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.kubernetes import CLAIM, CLUSTER, SECRET
from steelyard.platforms.kubernetes.permissions import Permission, Purpose, needed

_READING: Final = ("get", "list")
Lack = tuple[Permission, tuple[str, ...]]  # and the verbs that are missing


def purposes_of(
    experiment: Experiment, api: KubernetesApi, *, makes_namespace: bool
) -> tuple[Purpose, ...]:
    """Return what permissions an experiment needs in a cluster."""
    asked = {
        Purpose.OUTSIDE: not api.is_inside,
        Purpose.OWN_NAMESPACE: makes_namespace,
    }
    others = (purpose for purpose, wanted in asked.items() if wanted)
    return (*server_purposes(experiment), *others)


def server_purposes(experiment: Experiment) -> tuple[Purpose, ...]:
    """Return what permissions the servers of an experiment need."""
    sets = any(target.is_made for target in experiment.redis_in_kubernetes.values())
    asked = {Purpose.CLUSTERS: bool(experiment.cluster_targets), Purpose.REDIS: sets}
    return tuple(purpose for purpose, wanted in asked.items() if wanted)


def lacks(
    experiment: Experiment, api: KubernetesApi, namespace: str, *, makes_namespace: bool
) -> tuple[Lack, ...]:
    """Return every permission that the account lacks, with the verbs."""
    purposes = purposes_of(experiment, api, makes_namespace=makes_namespace)
    found = []
    for permission in needed(purposes):
        where = "" if permission.cluster_wide else namespace
        missing = tuple(
            verb
            for verb in _verbs(permission, experiment, api)
            if not api.allowed(verb, permission.kind, where, permission.part)
        )
        if missing:
            found.append((permission, missing))
    return tuple(found)


def _verbs(permission: Permission, experiment: Experiment, api: KubernetesApi) -> tuple[str, ...]:
    """Return the verbs that this experiment needs of those that the purpose may need.

    A server that is there already is not made; a session with a pod asks for `create` only from
    Kubernetes 1.35 on, and its `get` before that.
    """
    made = bool(experiment.made_targets)
    if permission.part in ("exec", "portforward"):
        return permission.verbs if _minor(api.version()) >= _CREATES_SESSIONS else ("get",)
    if permission.kind in (SECRET, CLAIM) and not made:
        return tuple(verb for verb in permission.verbs if verb in _READING)
    if permission.kind == CLUSTER and not made:
        changed = any(target.allow_existing for target in experiment.cluster_targets.values())
        return (*_READING, *(("patch",) if changed else ()))
    return permission.verbs


_CREATES_SESSIONS: Final = 35


def _minor(version: str) -> int:
    """Return the minor version of ``v1.34.4``; 0 where it is none."""
    parts = version.lstrip("v").split(".")
    digits = "".join(c for c in parts[1] if c.isdigit()) if len(parts) > 1 else ""
    return int(digits or 0)


def require_allowed(missing: tuple[Lack, ...], api: KubernetesApi, namespace: str) -> None:
    """Raise when something is missing without which no campaign runs.

    Raises:
        PrivilegeError: With all of it.
    """
    grave = [lack for lack in missing if not lack[0].optional]
    if grave:
        told = "; ".join(_words(lack, namespace) for lack in grave)
        raise PrivilegeError(
            f"the account of the context {api.context} may not {told}",
            hint="Have it granted: `steelyard kubernetes rbac` prints the least that is needed.",
        )


def _words(lack: Lack, namespace: str) -> str:
    permission, verbs = lack
    where = "in the whole cluster" if permission.cluster_wide else f"in namespace {namespace}"
    group = f".{permission.group}" if permission.group else ""
    return f"{', '.join(verbs)} {permission.resource}{group} {where} (to {permission.why})"


def findings_of(missing: tuple[Lack, ...], namespace: str) -> Iterator[Finding]:
    """Yield what the record will not say because the account may not see it."""
    for lack in missing:
        if lack[0].optional:
            yield Finding(
                code="permission-missing",
                severity=Severity.INFO,
                message=f"the account may not {_words(lack, namespace)}; the record lacks that",
                remedy="Have it granted: `steelyard kubernetes rbac`.",
                subject="kubernetes",
            )
