"""Undoing what a campaign made or changed in a cluster: by the label, and never what others have.

What is deleted carries the campaign's label. A namespace is deleted only when nothing else is in
it: what others put there would go with it.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import LeftBehindError, PrivilegeError, SteelyardError, TargetError
from steelyard.model.kubernetes import (
    ACCOUNT,
    CAMPAIGN,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    MANAGED_BY,
    MANAGER,
    NAMESPACE,
    POD,
    ROLE_BINDING,
    ROLE_KIND,
    SECRET,
    SERVER,
    SERVICE,
    STATEFUL_SET,
    Manifest,
    ref_of,
)
from steelyard.model.outside import InCluster
from steelyard.platforms.cloudnative_pg.state import OF_CLUSTER
from steelyard.platforms.kubernetes.identity import require_same_cluster
from steelyard.platforms.kubernetes.putting_back import left_alone, put_back

_GONE_S: Final = 180.0  # a guess: a namespace with volumes takes half a minute here
_GOING_S: Final = 30.0  # a guess: what the cluster clears up after an owner that is gone
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)  # the last one again and again
_SHOWN: Final = 5
_SYSTEM_CLOCK: Final = SystemClock()
# Kinds that run or keep something. Whoever made a workload that may not be listed has pods.
_KEEPING: Final = (CLUSTER, DEPLOYMENT, STATEFUL_SET, JOB, POD, CLAIM)
_SEEN: Final = (POD, CLAIM)  # every campaign may list these
# By which pods and claims are found that go with a workload after it is gone itself.
_PART_LABELS: Final = {CLUSTER.name: OF_CLUSTER, STATEFUL_SET.name: SERVER}
_LABELLED: Final = (SERVICE, SECRET, ROLE_BINDING, ROLE_KIND, ACCOUNT, CONFIG_MAP)


def undo(
    thing: InCluster,
    api: KubernetesApi,
    *,
    clock: Clock = _SYSTEM_CLOCK,
    grace_s: int | None = None,
) -> None:
    """Remove what a campaign made, or put back what it changed; twice is no error.

    Args:
        thing: As the ledger has it.
        api: The cluster of its context.
        clock: Waits until it is gone.
        grace_s: Seconds that a pod has for its end; None: as it says itself.

    Raises:
        LeftBehindError: It is in another cluster, does not carry the campaign's label, does not go
            away; or somebody else has changed what would go back, which is told once.
    """
    require_same_cluster(thing, api)
    if not api.knows(thing.ref.kind):
        return  # objects go with their kind: somebody removed the operator
    if thing.before:
        if left := put_back(thing, api):
            raise left_alone(thing, left)
        return
    found = api.read(thing.ref)
    if found is None:
        _await_parts(thing, api, clock)
        return
    require_label(found, thing)
    if thing.ref.kind.name == NAMESPACE.name:
        _require_nothing_of_others(thing, api, clock)
    api.delete(thing.ref, grace_s=grace_s)
    _await_end(found, thing, api, clock)
    _await_parts(thing, api, clock)


def _require_nothing_of_others(thing: InCluster, api: KubernetesApi, clock: Clock) -> None:
    """Look for what would go with a namespace and is not the campaign's.

    Raises:
        LeftBehindError: There is something, or the account may not look.
    """
    deadline = clock.monotonic() + _GOING_S
    while True:
        try:
            others = list(dict.fromkeys(_of_others(thing, api)))
        except PrivilegeError as error:
            raise LeftBehindError(
                f"{thing.label} is kept: who else has something in it cannot be seen, because"
                f" {error.message}",
                hint=error.hint,
            ) from error
        if not others:
            return
        if clock.monotonic() > deadline:
            break
        clock.sleep(_PAUSES_S[-1])
    shown = ", ".join(others[:_SHOWN]) + (
        f" and {len(others) - _SHOWN} more" * (len(others) > _SHOWN)
    )
    raise LeftBehindError(
        f"{thing.label} is kept, because others have something in it: {shown}",
        hint="When that is gone, `steelyard clean` removes the namespace.",
    )


def _of_others(thing: InCluster, api: KubernetesApi) -> Iterator[str]:
    """Yield what is in a namespace without the campaign's label; what is going is passed over."""
    for kind in (*_KEEPING, *_LABELLED):
        if not api.knows(kind):
            continue
        # Of the small kinds the cluster itself has some in every namespace.
        labels = {MANAGED_BY: MANAGER} if kind in _LABELLED else {}
        try:
            found = api.list(kind, thing.ref.name, labels)
        except PrivilegeError:
            if kind in _SEEN:
                raise
            continue
        for each in found:
            if not belongs_to(each, thing) and not each["metadata"].get("deletionTimestamp"):
                yield ref_of(each).label


def delete_quietly(thing: InCluster, api: KubernetesApi) -> None:
    """Tell what carries the label to go; whoever waits for it tells what went wrong.

    A namespace is never told so: it goes after what is in it.
    """
    if thing.ref.kind.name == NAMESPACE.name:
        return
    try:
        found = api.read(thing.ref)
        if found is not None and belongs_to(found, thing):
            api.delete(thing.ref)
    except SteelyardError:
        return


def require_label(found: Manifest, thing: InCluster) -> None:
    """Look whether an object carries the campaign's label.

    Raises:
        LeftBehindError: It does not.
    """
    if not belongs_to(found, thing):
        raise LeftBehindError(
            f"{thing.label} does not carry the label {CAMPAIGN}={thing.campaign_id}, so it is left"
            " as it is",
            hint="Look at it, and delete it by hand if it is not needed.",
        )


def belongs_to(found: Manifest, thing: InCluster) -> bool:
    """Return whether an object carries the campaign's label."""
    labels: dict[str, str] = found["metadata"].get("labels") or {}
    return labels.get(CAMPAIGN) == thing.campaign_id


def _await_parts(thing: InCluster, api: KubernetesApi, clock: Clock) -> None:
    """Wait for a Cluster's or a set's pods and claims: claims do not block its own end.

    Raises:
        LeftBehindError: One is still there.
    """
    if thing.ref.kind.name not in _PART_LABELS:
        return
    deadline = clock.monotonic() + _GONE_S
    while left := list(_parts(thing, api)):
        if clock.monotonic() > deadline:
            raise LeftBehindError(
                f"{', '.join(left)} of {thing.label} does not go away",
                hint="Look at it with `kubectl describe`; who holds it? Then run `steelyard"
                " clean`.",
            )
        clock.sleep(_PAUSES_S[-1])


def _parts(thing: InCluster, api: KubernetesApi) -> Iterator[str]:
    labels = {_PART_LABELS[thing.ref.kind.name]: thing.ref.name}
    for kind in _SEEN:
        with suppress(PrivilegeError):  # what may not be seen is not waited for
            found = api.list(kind, thing.ref.namespace, labels)
            yield from (ref_of(each).label for each in found)


def _await_end(found: Manifest, thing: InCluster, api: KubernetesApi, clock: Clock) -> None:
    """Wait until an object is gone, or another has its name.

    Raises:
        LeftBehindError: It is still there.
    """
    uid, deadline = found["metadata"].get("uid"), clock.monotonic() + _GONE_S
    pauses = iter(_PAUSES_S)
    pause_s = 0.0
    while True:
        try:
            now = api.read(thing.ref)
        except TargetError:  # the API is away for a moment
            now = found
        if now is None or now["metadata"].get("uid") != uid:
            return
        if clock.monotonic() > deadline:
            break
        pause_s = next(pauses, pause_s)
        clock.sleep(pause_s)
    holders = ", ".join(now["metadata"].get("finalizers") or ()) or "nothing that it says"
    raise LeftBehindError(
        f"{thing.label} does not go away; it waits for {holders}",
        hint="Look at it with `kubectl describe`, then run `steelyard clean`.",
    )
