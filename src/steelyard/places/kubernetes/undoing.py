"""Undoing what a campaign made or changed in a cluster, and waiting until it is gone.

What is deleted carries the campaign's label. A namespace is deleted only when nothing else is in
it: what others put there would go with it. Names of contexts and URLs do not tell which cluster it
is: from inside every cluster has much the same URL, and one that was made anew may have the old
one's. The uid of a namespace is no other cluster's.

Somebody else's object that was changed is put back by a merge patch, in which a value that is
absent and one that is null mean the same. With every change an annotation says what the campaign
asks for by now. A field that has neither that value nor the former one was changed by somebody else
since, and stays as it is. An object without the annotation has nothing of the campaign, or was put
back already.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core.outside import InCluster
from steelyard.core.wording import (
    InputError,
    LeftBehindError,
    PrivilegeError,
    SteelyardError,
    TargetError,
    parse_quantity,
)
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.kubernetes.api import KubernetesApi

_ALWAYS_THERE: Final = "kube-system"


def identity(api: KubernetesApi, namespace: str) -> str:
    """Return what tells a cluster from others: a namespace with its uid; empty: none is seen.

    Args:
        api: The cluster.
        namespace: Of the campaign, for an account that may not read that of the cluster itself.
    """
    for name in (_ALWAYS_THERE, namespace):
        uid = _uid(api, name)
        if uid:
            return f"{name}={uid}"
    return ""


def require_same_cluster(thing: InCluster, api: KubernetesApi) -> None:
    """Look whether a cluster is the one that something is in.

    Raises:
        LeftBehindError: It is another, or nothing tells.
    """
    if thing.context and thing.server != api.server:
        raise LeftBehindError(
            f"{thing.label} was made at {thing.server}, and the context {thing.context} means"
            f" {api.server} now",
            hint="Name a kubeconfig in KUBECONFIG whose context means that cluster.",
        )
    name, _, uid = thing.cluster.partition("=")
    now = _uid(api, name) if name else ""
    if now and now != uid:
        raise LeftBehindError(
            f"{thing.label} is in another cluster than the one at {api.server} is now: there the"
            f" namespace {name} is another",
            hint="Make that cluster the current context of the kubeconfig in KUBECONFIG. Where it"
            " is gone for good, so is this: remove the record's directory and its note in the"
            " cache.",
        )
    if not now and not thing.context and not api.is_inside:
        raise LeftBehindError(
            f"{thing.label} was made from inside a cluster, and whether the one at {api.server} is"
            " that one cannot be told",
            hint="Look there with `steelyard clean --context NAME -n NAMESPACE`, which goes by the"
            " label.",
        )


def _uid(api: KubernetesApi, name: str) -> str:
    try:
        return uid_of(api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=name)))
    except PrivilegeError:
        return ""


Difference = tuple[str, object, object]


def differences(asked: object, live: object, path: str = "") -> Iterator[Difference]:
    """Yield each field that is not as asked: its path, what is asked, and what is there."""
    if isinstance(asked, Mapping):
        there = live if isinstance(live, Mapping) else {}
        for name, value in asked.items():
            yield from differences(value, there.get(name), f"{path}.{name}" if path else name)
    elif not _same(asked, live):
        yield path, asked, live


def patch_for(asked: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that brings an object to what is asked; empty where it is that."""
    patch: dict[str, Any] = {}
    for name, value in asked.items():
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            inner = patch_for(value, there)
            if inner:
                patch[name] = inner
        elif not _same(value, there):
            patch[name] = value
    return patch


def merged(live: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object becomes by a merge patch."""
    made = dict(live)
    for name, value in patch.items():
        there = made.get(name)
        is_inside = isinstance(value, Mapping) and isinstance(there, Mapping)
        made[name] = merged(there or {}, value) if is_inside else value
    return made


def before(patch: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that puts back what a patch is about to change; null removes."""
    kept: dict[str, Any] = {}
    for name, value in patch.items():
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            kept[name] = before(value, there)
        else:
            kept[name] = there
    return kept


def strange(
    asked: Mapping[str, Any], former: Mapping[str, Any], live: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the fields that have neither what is asked nor what they had before."""
    unlike = [path for path, _, _ in differences(former, live)]
    return tuple(
        path
        for path, _, _ in differences(asked, live)
        if any(path == each or path.startswith(f"{each}.") for each in unlike)
    )


def without(patch: Mapping[str, Any], paths: Collection[str], path: str = "") -> dict[str, Any]:
    """Return a merge patch that leaves fields at these paths alone."""
    kept: dict[str, Any] = {}
    for name, value in patch.items():
        here = f"{path}.{name}" if path else name
        if here in paths:
            continue
        kept[name] = without(value, paths, here) if isinstance(value, Mapping) else value
    return kept


def _same(asked: object, live: object) -> bool:
    """Return whether two values mean the same to Kubernetes: 1 and "1", 1Gi and 1024Mi."""
    if isinstance(asked, list):
        return (
            isinstance(live, list)
            and len(live) == len(asked)
            and not any(any(differences(a, b)) for a, b in zip(asked, live, strict=True))
        )
    if _word(asked) == _word(live) or isinstance(asked, bool) or isinstance(live, bool):
        return _word(asked) == _word(live)
    try:
        return live is not None and parse_quantity(str(asked)) == parse_quantity(str(live))
    except InputError:
        return False


def _word(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


ASKED: Final = "steelyard/asked"  # annotation: the merge patch of all that the campaign changed


def marked(patch: k8s.Manifest, asked: k8s.Manifest) -> dict[str, Any]:
    """Return a merge patch that also says what the campaign asks for, all changes together."""
    return merged(patch, _annotation(json.dumps(asked, sort_keys=True)))


def uid_of(manifest: k8s.Manifest | None) -> str:
    """Return what tells an object from another of its name; empty where there is none."""
    return "" if manifest is None else str(manifest["metadata"].get("uid") or "")


def put_back(thing: InCluster, api: KubernetesApi) -> LeftBehindError | None:
    """Bring an altered object back to what it was; twice is no error.

    Returns what somebody else has changed since: that is left as it is.
    """
    live = api.read(thing.ref)
    if live is None or (thing.uid and uid_of(live) != thing.uid):  # its successor is not ours
        return None
    asked = (live["metadata"].get("annotations") or {}).get(ASKED)
    if asked is None:
        return None
    former = json.loads(thing.before)
    left = strange(_read(str(asked)), former, live)
    api.patch(thing.ref, merged(without(former, left), _annotation(None)))
    if not left:
        return None
    return LeftBehindError(
        f"somebody has changed {', '.join(left)} of {thing.ref.label} since the campaign did; that"
        " is left as it is, and the rest was put back",
        hint=f"Look whether it is meant so; before the campaign it was: {thing.before}.",
    )


def _annotation(value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {ASKED: value}}}


def _read(text: str) -> dict[str, Any]:
    """Return what an annotation says; of one that somebody broke, that nothing is strange."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


_GONE_S: Final = 180.0  # a guess: a namespace with volumes takes half a minute here
_GOING_S: Final = 30.0  # a guess: what the cluster clears up after an owner that is gone
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)  # the last one again and again
_SHOWN: Final = 5
_SYSTEM_CLOCK: Final = Clock()
# Kinds that run or keep something. Whoever made a workload that may not be listed has pods.
_KEEPING: Final = (k8s.CLUSTER, k8s.DEPLOYMENT, k8s.STATEFUL_SET, k8s.JOB, k8s.POD, k8s.CLAIM)
_SEEN: Final = (k8s.POD, k8s.CLAIM)  # every campaign may list these
# By which pods and claims are found that go with a workload after it is gone itself.
_PART_LABELS: Final = {k8s.CLUSTER.name: k8s.OF_CLUSTER, k8s.STATEFUL_SET.name: k8s.SERVER}
_LABELLED: Final = (
    k8s.SERVICE,
    k8s.SECRET,
    k8s.ROLE_BINDING,
    k8s.ROLE_KIND,
    k8s.ACCOUNT,
    k8s.CONFIG_MAP,
)


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
    if thing.before and not thing.context and not api.is_inside:
        # What has no label cannot be told from its like in another cluster.
        raise LeftBehindError(
            f"{thing.label} are not as they were; they were changed from inside that cluster",
            hint=f"Put them back there: kubectl patch --type merge -p '{thing.before}'.",
        )
    require_same_cluster(thing, api)
    if not api.knows(thing.ref.kind):
        return  # objects go with their kind: somebody removed the operator
    if thing.before:
        if trouble := put_back(thing, api):
            raise trouble
        return
    found = api.read(thing.ref)
    if found is None:
        _await_parts(thing, api, clock)
        return
    require_label(found, thing)
    if thing.ref.kind.name == k8s.NAMESPACE.name:
        _require_nothing_of_others(thing, api, clock)
    api.delete(thing.ref, grace_s=grace_s)
    _await_end(found, thing, api, clock)
    _await_parts(thing, api, clock)


def _require_nothing_of_others(thing: InCluster, api: KubernetesApi, clock: Clock) -> None:
    """Look for what would go with a namespace and is not the campaign's."""
    for _ in looks(clock, _GOING_S, _PAUSES_S[-1]):
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
        labels = {k8s.MANAGED_BY: k8s.MANAGER} if kind in _LABELLED else {}
        try:
            found = api.list(kind, thing.ref.name, labels)
        except PrivilegeError:
            if kind in _SEEN:
                raise
            continue
        for each in found:
            if not belongs_to(each, thing) and not each["metadata"].get("deletionTimestamp"):
                yield k8s.ref_of(each).label


def delete_quietly(thing: InCluster, api: KubernetesApi) -> None:
    """Tell what carries the label to go; whoever waits for it tells what went wrong.

    A namespace is never told so: it goes after what is in it.
    """
    with suppress(SteelyardError):
        found = api.read(thing.ref)
        if found and belongs_to(found, thing) and thing.ref.kind.name != k8s.NAMESPACE.name:
            api.delete(thing.ref)


def require_label(found: k8s.Manifest, thing: InCluster) -> None:
    """Look whether an object carries the campaign's label.

    Raises:
        LeftBehindError: It does not.
    """
    if not belongs_to(found, thing):
        raise LeftBehindError(
            f"{thing.label} does not carry the label {k8s.CAMPAIGN}={thing.campaign_id}, so it is"
            " left as it is",
            hint="Look at it, and delete it by hand if it is not needed.",
        )


def belongs_to(found: k8s.Manifest, thing: InCluster) -> bool:
    """Return whether an object carries the campaign's label."""
    return k8s.is_of_campaign(found, thing.campaign_id)


def _await_parts(thing: InCluster, api: KubernetesApi, clock: Clock) -> None:
    """Wait for a Cluster's or a set's pods and claims: claims do not block its own end."""
    if thing.ref.kind.name not in _PART_LABELS:
        return
    for _ in looks(clock, _GONE_S, _PAUSES_S[-1]):
        left = list(_parts(thing, api))
        if not left:
            return
    raise LeftBehindError(
        f"{', '.join(left)} of {thing.label} does not go away",
        hint="Look at it with `kubectl describe`; who holds it? Then run `steelyard clean`.",
    )


def _parts(thing: InCluster, api: KubernetesApi) -> Iterator[str]:
    labels = {_PART_LABELS[thing.ref.kind.name]: thing.ref.name}
    for kind in _SEEN:
        with suppress(PrivilegeError):  # what may not be seen is not waited for
            found = api.list(kind, thing.ref.namespace, labels)
            yield from (k8s.ref_of(each).label for each in found)


def _await_end(found: k8s.Manifest, thing: InCluster, api: KubernetesApi, clock: Clock) -> None:
    """Wait until an object is gone, or another has its name."""
    uid, now = found["metadata"].get("uid"), found
    for _ in looks(clock, _GONE_S, *_PAUSES_S):
        with suppress(TargetError):  # the API is away for a moment
            there = api.read(thing.ref)
            if there is None or there["metadata"].get("uid") != uid:
                return
            now = there
    holders = ", ".join(now["metadata"].get("finalizers") or ()) or "nothing that it says"
    raise LeftBehindError(
        f"{thing.label} does not go away; it waits for {holders}",
        hint="Look at it with `kubectl describe`, then run `steelyard clean`.",
    )


_SERVER_GONE_S: Final = 300.0  # a disk of a cloud is detached first; a guess
_PAUSE_S: Final = 0.5
_RETAIN: Final = "Retain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A volume that a server held.

    Attributes:
        storage_class: That made it.
        stays: Its reclaim policy keeps it when nobody claims it any more.
    """

    ref: k8s.ObjectRef
    storage_class: str
    stays: bool


def held_by(api: KubernetesApi, claims: Iterable[k8s.Manifest]) -> Iterator[Held]:
    """Yield the volumes behind claims; none where this account may not see volumes."""
    for claim in claims:
        name = claim["spec"].get("volumeName")
        if not name:
            continue
        volume = k8s.ObjectRef(kind=k8s.VOLUME, name=str(name))
        try:
            found = api.read(volume)
        except PrivilegeError:
            continue
        if found is not None:
            spec = found["spec"]
            yield Held(
                ref=volume,
                storage_class=str(spec.get("storageClassName") or ""),
                stays=spec.get("persistentVolumeReclaimPolicy") == _RETAIN,
            )


def await_volumes(api: KubernetesApi, clock: Clock, volumes: Sequence[Held]) -> list[Held]:
    """Wait until the volumes that go are gone; return those that stay.

    Raises:
        LeftBehindError: One is there after five minutes.
    """
    for _ in looks(clock, _SERVER_GONE_S, _PAUSE_S):
        left = [v.ref.label for v in volumes if not v.stays and api.read(v.ref) is not None]
        if not left:
            return [volume for volume in volumes if volume.stays]
    raise LeftBehindError(
        f"{', '.join(left)} did not go away within {_SERVER_GONE_S:.0f} s",
        hint="Look at it with `kubectl describe`; who holds it? Then run `steelyard clean`.",
    )
