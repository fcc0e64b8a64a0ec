"""What a campaign makes and changes in a cluster, so that nothing of it stays.

Everything is announced to the ledger before it is made. What lies in the campaign's namespace
belongs to one ConfigMap, the anchor: when that is deleted, Kubernetes takes all else away, whoever
deletes it. Nothing is deleted that does not carry the campaign's label.

Names are DNS-1123 labels: small letters, digits and ``-``. Kubernetes takes 63 of them; a Cluster
of CloudNativePG has at most 50, because the operator appends to it (its admission webhook says so).
"""

import hashlib
import json
import re
from dataclasses import replace
from typing import Final

from steelyard.core import kubernetes as k8s
from steelyard.core.outside import InCluster
from steelyard.core.wording import LeftBehindError, PreflightError, SteelyardError, raise_all
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import undoing
from steelyard.places.protocol import Ledger

LONGEST: Final = 50
_BEGINNING: Final = "steelyard"
_DIGEST: Final = 8


def object_name(campaign_id: str, suffix: str = "") -> str:
    """Return the name of an object of a campaign: the same for the same campaign and suffix.

    Args:
        campaign_id: Any; what a name cannot hold or has no room for is replaced by a digest.
        suffix: Tells objects of one campaign apart; small letters, digits and ``-``.
    """
    end = f"-{suffix}" if suffix else ""
    plain = f"{_BEGINNING}-{campaign_id}"
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", plain) and len(plain + end) <= LONGEST:
        return plain + end
    digest = hashlib.sha256(campaign_id.encode()).hexdigest()[:_DIGEST]
    cleaned = re.sub(r"[^a-z0-9-]+", "-", plain.lower())
    room = LONGEST - len(end) - _DIGEST - 1
    return f"{cleaned[:room].strip('-')}-{digest}{end}"


def job_name(campaign_id: str) -> str:
    """Return the name of the Job that runs a campaign, if one does."""
    return object_name(campaign_id, "job")


_SYSTEM_CLOCK: Final = Clock()


class Belongings:
    """What one campaign has in one namespace of a cluster, and outside of namespaces.

    Args:
        campaign_id: Value of the label, and part of the names.
        namespace: Where the campaign works.
    """

    def __init__(
        self,
        api: KubernetesApi,
        ledger: Ledger,
        campaign_id: str,
        namespace: str,
        *,
        clock: Clock = _SYSTEM_CLOCK,
    ) -> None:
        self.api = api
        self.campaign_id = campaign_id
        self.namespace = namespace
        self._ledger = ledger
        self._clock = clock
        self._made: dict[k8s.ObjectRef, InCluster] = {}
        self._altered: dict[k8s.ObjectRef, InCluster] = {}
        self._asked: dict[k8s.ObjectRef, k8s.Manifest] = {}
        self._anchor: k8s.Manifest | None = None
        self._job: k8s.Manifest | None = None
        self._cluster = ""

    def name(self, suffix: str = "") -> str:
        """Return the name of an object of this campaign."""
        return object_name(self.campaign_id, suffix)

    def go_with(self, job: k8s.Manifest) -> None:
        """Let everything in the namespace go with the Job that runs the campaign.

        It is a dead-man's switch: a Job that ended is removed by the cluster after a while.
        """
        self._job = job

    def make_namespace(self) -> None:
        """Make the namespace itself; it goes last, when nothing of others is in it.

        Raises:
            PreflightError: Somebody else made it meanwhile.
        """
        self._found(self.completed(k8s.NAMESPACE.manifest(self.namespace)))

    def anchor(self) -> k8s.ObjectRef:
        """Return the object that all others in the namespace belong to, made when first asked."""
        if self._anchor is None:
            made = k8s.CONFIG_MAP.manifest(
                self.name(),
                namespace=self.namespace,
                labels=k8s.campaign_labels(self.campaign_id),
                data={"campaign": self.campaign_id},
            )
            if self._job is not None:
                made["metadata"]["ownerReferences"] = k8s.owned_by(self._job)
            self._anchor = self._found(made)
        return k8s.ref_of(self._anchor)

    def make(self, manifest: k8s.Manifest, *, role: str = "") -> k8s.Manifest:
        """Make an object, or bring it to what a changed manifest says; return it as it is there.

        It gets the campaign's labels and, in the campaign's namespace, the anchor as its owner. A
        manifest without a namespace is put there, except a Namespace.

        Args:
            manifest: Complete but for that. One of a kind without namespaces names an empty one.
            role: Value of the label that tells the campaign's pods apart.
        """
        return self._place(self.completed(manifest, role=role))

    def completed(self, manifest: k8s.Manifest, *, role: str = "") -> k8s.Manifest:
        """Return a manifest with labels, namespace and owner, as ``make`` makes it."""
        metadata = dict(manifest["metadata"])
        if manifest["kind"] != k8s.NAMESPACE.name:
            metadata.setdefault("namespace", self.namespace)
        if not metadata.get("namespace"):
            metadata.pop("namespace", None)
        labels = {**metadata.get("labels", {}), **k8s.campaign_labels(self.campaign_id, role)}
        metadata["labels"] = labels
        if metadata.get("namespace") == self.namespace:
            self.anchor()
            assert self._anchor is not None  # noqa: S101 - anchor() made it
            metadata["ownerReferences"] = k8s.owned_by(self._anchor)
        return {**manifest, "metadata": metadata}

    def _place(self, manifest: k8s.Manifest) -> k8s.Manifest:
        ref = k8s.ref_of(manifest)
        if ref not in self._made:
            thing = self._thing(ref)
            self._ledger.created(thing)
            self._made[ref] = thing
        return self.api.apply(manifest)

    def _found(self, manifest: k8s.Manifest) -> k8s.Manifest:
        """Make what all else depends on, and never take over what another made."""
        ref = k8s.ref_of(manifest)
        is_new = ref not in self._made
        thing = self._made.setdefault(ref, self._thing(ref))
        if is_new:
            self._ledger.created(thing)
        made = self.api.create(manifest)
        if made is not None:
            return made
        found = self.api.read(ref)
        if found is None or undoing.belongs_to(found, thing):
            return self.api.apply(manifest)
        self._forget(thing)
        raise PreflightError(
            f"{thing.label} is there, and this campaign did not make it",
            hint="Somebody made it meanwhile: start again, or name another namespace.",
        )

    def alter(
        self, ref: k8s.ObjectRef, patch: k8s.Manifest, *, before: k8s.Manifest
    ) -> k8s.Manifest:
        """Change somebody else's object by a merge patch; return it as it is then.

        Args:
            ref: Of the object.
            patch: As ``KubernetesApi.patch`` takes it.
            before: The merge patch that puts back what was there before the first change; that of
                later changes is not looked at, so the first one covers all fields ever changed.
        """
        if ref not in self._altered:
            thing = self._thing(ref, before=json.dumps(before, sort_keys=True))
            thing = replace(thing, uid=undoing.uid_of(self.api.read(ref)))
            self._ledger.created(thing)
            self._altered[ref] = thing
        asked = undoing.merged(self._asked.get(ref, {}), patch)
        changed = self.api.patch(ref, undoing.marked(patch, asked))
        self._asked[ref] = asked
        return changed

    def put_back(self, ref: k8s.ObjectRef) -> LeftBehindError | None:
        """Bring an altered object back to what it was; nothing happens where it is.

        Returns what somebody else has changed meanwhile: that is left as it is.
        """
        thing = self._altered.get(ref)
        if thing is None:
            return None
        trouble = undoing.put_back(thing, self.api)
        del self._altered[ref]
        self._asked.pop(ref, None)
        self._ledger.removed(thing)
        return trouble

    def _thing(self, ref: k8s.ObjectRef, *, before: str = "") -> InCluster:
        return InCluster(
            context="" if self.api.is_inside else self.api.context,
            server=self.api.server,
            ref=ref,
            campaign_id=k8s.campaign_value(self.campaign_id),
            before=before,
            cluster=self._identity(),
        )

    def _identity(self) -> str:
        if not self._cluster:  # the namespace may come later than the first thing
            self._cluster = undoing.identity(self.api, self.namespace)
        return self._cluster

    def remove(self, ref: k8s.ObjectRef, *, grace_s: int | None = None) -> None:
        """Remove an object and wait until it is gone; one that was never made is no trouble.

        Raises:
            LeftBehindError: It does not go away, or is not the campaign's.
        """
        thing = self._made.get(ref) or self._thing(ref)
        undoing.undo(thing, self.api, clock=self._clock, grace_s=grace_s)
        self._forget(thing)

    def _forget(self, thing: InCluster) -> None:
        if self._made.pop(thing.ref, None) is not None:
            self._ledger.removed(thing)
        if self._anchor is not None and k8s.ref_of(self._anchor) == thing.ref:
            self._anchor = None

    def remove_all(self) -> None:
        """Put back what was altered and remove what was made, each whatever became of others.

        Raises:
            LeftBehindError: Something is still there, after everything was tried.
        """
        troubles = [self._tried(ref) for ref in list(self._altered)]
        for thing in reversed(self._made.values()):
            # All are told to go before one is waited for; what fails here fails below, and is told.
            undoing.delete_quietly(thing, self.api)
        troubles += [self._tried(ref) for ref in reversed(list(self._made))]
        raise_all([trouble for trouble in troubles if trouble is not None])

    def _tried(self, ref: k8s.ObjectRef) -> SteelyardError | None:
        try:
            if ref in self._altered:
                return self.put_back(ref)
            self.remove(ref)
        except SteelyardError as error:
            return error
        return None
