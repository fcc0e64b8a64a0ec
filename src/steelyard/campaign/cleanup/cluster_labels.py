"""What carries Steelyard's label in a Kubernetes cluster and stands in no record here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.campaign.cleanup.leftovers import raise_all, trouble_of
from steelyard.core.errors import PrivilegeError
from steelyard.core.kubernetes import (
    ACCOUNT,
    CAMPAIGN,
    CLAIM,
    CLUSTER,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    JOB,
    MANAGED_BY,
    MANAGER,
    NAMESPACE,
    POD,
    ROLE,
    ROLE_BINDING,
    ROLE_KIND,
    RUNNER,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
    ObjectRef,
    campaign_value,
    ref_of,
)
from steelyard.core.outside import InCluster
from steelyard.gateways.doors import Doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.undoing import undo
from steelyard.record import registry

# In the order in which they go: what makes others first, the anchor and the namespace last.
_KINDS: Final = (
    *(JOB, CLUSTER, STATEFUL_SET, POD, CLAIM, SERVICE, SECRET, ROLE_BINDING, ROLE_KIND, ACCOUNT),
    *(CLUSTER_ROLE_BINDING, CLUSTER_ROLE, CONFIG_MAP, NAMESPACE),
)
_LABELS: Final = {MANAGED_BY: MANAGER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """What carries the label of one campaign that no record here knows.

    Attributes:
        campaign: Value of the label.
        things: In the order in which they go.
        since: When the oldest of them was made, as the cluster says it.
        running: Its pods that run and its Jobs that are active.
        record: The claim of the volume that holds its record, where it ran as a Job.
    """

    campaign: str
    things: tuple[InCluster, ...]
    since: str
    running: tuple[str, ...] = ()
    record: ObjectRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found in a cluster.

    Attributes:
        unseen: Names of the kinds that this account may not list there.
    """

    found: tuple[Labelled, ...]
    unseen: tuple[str, ...]


def look_for_labels(api: KubernetesApi, namespace: str = "") -> Look:
    """Return what campaigns have in a cluster of which no record here knows, by campaign.

    Args:
        api: The cluster.
        namespace: Where to look; empty: everywhere. The namespace itself belongs to it, and of
            kinds without namespaces what is of a campaign that has something there.

    Raises:
        PrivilegeError: The account may list nothing of it.
    """
    search = _Search(api=api, namespace=namespace)
    for kind in _KINDS:
        if kind.namespaced or not namespace:
            search.list(kind)
    if not search.seen:
        raise PrivilegeError(
            f"the account may not list anything of Steelyard's in {search.where}",
            hint="Name a namespace that it may look into with -n; `steelyard kubernetes rbac"
            " --clean` prints the role.",
        )
    if namespace:
        search.list_around()
    known = {campaign_value(name) for name, _ in registry.records() if _has_objects(name)}
    by_campaign: dict[str, list[Manifest]] = {}
    for manifest in sorted(search.found, key=_turn):
        campaign = _labels(manifest).get(CAMPAIGN)
        if campaign and campaign not in known:
            by_campaign.setdefault(campaign, []).append(manifest)
    found = (_labelled(api, campaign, by_campaign[campaign]) for campaign in sorted(by_campaign))
    return Look(found=tuple(found), unseen=tuple(search.unseen))


def _has_objects(campaign_id: str) -> bool:
    """Return whether a campaign of this account made something in a cluster."""
    return any(made.placed is not None for made in registry.made(campaign_id))


@dataclass(slots=True, kw_only=True)
class _Search:
    """Lists kinds, and keeps which of them may not be."""

    api: KubernetesApi
    namespace: str
    found: list[Manifest] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Return the place in words."""
        name = self.api.context
        return f"the namespace {self.namespace} of {name}" if self.namespace else f"all of {name}"

    def list(self, kind: Kind) -> None:
        """Find what carries the label of one kind."""
        if not self.api.knows(kind):
            return
        try:
            self.found += self.api.list(kind, self.namespace, _LABELS)
        except PrivilegeError:
            self.unseen.append(kind.name)
            return
        self.seen.append(kind.name)

    def list_around(self) -> None:
        """Find the namespace itself, and what has none and is of a campaign that was found."""
        try:
            space = self.api.read(ObjectRef(kind=NAMESPACE, name=self.namespace))
        except PrivilegeError:
            self.unseen.append(NAMESPACE.name)
            space = None
        if space is not None and _LABELS.items() <= _labels(space).items():
            self.found.append(space)
        campaigns = {_labels(each).get(CAMPAIGN) for each in self.found}
        for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE):
            try:
                listed = self.api.list(kind, "", _LABELS)
            except PrivilegeError:
                if campaigns:
                    self.unseen.append(kind.name)
                continue
            self.found += [each for each in listed if _labels(each).get(CAMPAIGN) in campaigns]


def _turn(manifest: Manifest) -> int:
    return [kind.name for kind in _KINDS].index(manifest["kind"])


def _labelled(api: KubernetesApi, campaign: str, manifests: Sequence[Manifest]) -> Labelled:
    things = (
        InCluster(
            context="" if api.is_inside else api.context,
            server=api.server,
            ref=ref_of(manifest),
            campaign_id=campaign,
        )
        for manifest in manifests
    )
    return Labelled(
        campaign=campaign,
        things=tuple(things),
        since=min(str(each["metadata"].get("creationTimestamp") or "") for each in manifests),
        running=tuple(ref_of(each).label for each in manifests if _is_running(each)),
        record=next((ref_of(each) for each in manifests if _is_record(each)), None),
    )


def _is_running(manifest: Manifest) -> bool:
    status = manifest.get("status") or {}
    is_pod = manifest["kind"] == POD.name and status.get("phase") in {"Pending", "Running"}
    return is_pod or (manifest["kind"] == JOB.name and bool(status.get("active")))


def _is_record(manifest: Manifest) -> bool:
    return manifest["kind"] == CLAIM.name and _labels(manifest).get(ROLE) == RUNNER


def _labels(manifest: Manifest) -> Mapping[str, str]:
    labels: Mapping[str, str] = manifest["metadata"].get("labels") or {}
    return labels


def undo_labelled(found: Labelled, api: KubernetesApi, doors: Doors) -> None:
    """Remove what a campaign has in a cluster; one that fails does not keep the others.

    Raises:
        LeftBehindError: Something is still there.
    """
    tried = [
        trouble_of(lambda thing=thing: undo(thing, api, clock=doors.clock))  # type: ignore[misc]
        for thing in found.things
    ]
    raise_all([trouble for trouble in tried if trouble is not None])
