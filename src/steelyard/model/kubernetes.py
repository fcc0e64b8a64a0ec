"""Objects of a Kubernetes cluster: their kinds, names, and the labels that say whose they are."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Manifest = Mapping[str, Any]
"""An object as Kubernetes writes it: ``apiVersion``, ``kind``, ``metadata`` and so on."""

LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DNS_LABEL: Final = re.compile(LABEL)  # RFC 1123: what a namespace is called
DNS_SUBDOMAIN: Final = re.compile(rf"(?=.{{1,253}}$){LABEL}(\.{LABEL})*")  # most other objects
IMAGE_REFERENCE: Final = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "steelyard"
CAMPAIGN: Final = "steelyard/campaign"
ROLE: Final = "steelyard/role"
DATABASE: Final = "database"  # the role of pods that a generator stays away from
GENERATOR: Final = "generator"
PROBE: Final = "probe"
RUNNER: Final = "runner"
SERVER: Final = "steelyard/server"  # label of the pod and the claim of one StatefulSet
KEPT_UNTIL: Final = "steelyard/kept-until"  # annotation: when nobody needs it any more, in UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object.

    Attributes:
        name: As in a manifest: ``Pod``.
        namespaced: Whether its objects live in a namespace.
    """

    api_version: str
    name: str
    namespaced: bool = True


POD: Final = Kind(api_version="v1", name="Pod")
SECRET: Final = Kind(api_version="v1", name="Secret")
CONFIG_MAP: Final = Kind(api_version="v1", name="ConfigMap")
SERVICE: Final = Kind(api_version="v1", name="Service")
ENDPOINTS: Final = Kind(api_version="v1", name="Endpoints")
EVENT: Final = Kind(api_version="v1", name="Event")
CLAIM: Final = Kind(api_version="v1", name="PersistentVolumeClaim")
QUOTA: Final = Kind(api_version="v1", name="ResourceQuota")
ACCOUNT: Final = Kind(api_version="v1", name="ServiceAccount")
VOLUME: Final = Kind(api_version="v1", name="PersistentVolume", namespaced=False)
NAMESPACE: Final = Kind(api_version="v1", name="Namespace", namespaced=False)
NODE: Final = Kind(api_version="v1", name="Node", namespaced=False)
JOB: Final = Kind(api_version="batch/v1", name="Job")
STATEFUL_SET: Final = Kind(api_version="apps/v1", name="StatefulSet")
DEPLOYMENT: Final = Kind(api_version="apps/v1", name="Deployment")
ROLE_KIND: Final = Kind(api_version="rbac.authorization.k8s.io/v1", name="Role")
ROLE_BINDING: Final = Kind(api_version="rbac.authorization.k8s.io/v1", name="RoleBinding")
CLUSTER_ROLE: Final = Kind(
    api_version="rbac.authorization.k8s.io/v1", name="ClusterRole", namespaced=False
)
CLUSTER_ROLE_BINDING: Final = Kind(
    api_version="rbac.authorization.k8s.io/v1", name="ClusterRoleBinding", namespaced=False
)
STORAGE_CLASS: Final = Kind(api_version="storage.k8s.io/v1", name="StorageClass", namespaced=False)
CRD: Final = Kind(
    api_version="apiextensions.k8s.io/v1", name="CustomResourceDefinition", namespaced=False
)
CLUSTER: Final = Kind(api_version="postgresql.cnpg.io/v1", name="Cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """One object.

    Attributes:
        namespace: Empty for a kind without namespaces.
    """

    kind: Kind
    name: str
    namespace: str = ""

    @property
    def label(self) -> str:
        """Return what it is called in lists: ``Pod bench/generator-0``."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRef:
    """One container of a pod."""

    namespace: str
    pod: str
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """A Secret that holds a user and a password, and below which keys."""

    namespace: str
    name: str
    user_key: str = "username"
    password_key: str = "password"  # noqa: S105 - the name of a key


def ref_of(manifest: Manifest) -> ObjectRef:
    """Return which object a manifest is of."""
    metadata = manifest["metadata"]
    namespace = str(metadata.get("namespace") or "")
    kind = Kind(
        api_version=str(manifest["apiVersion"]),
        name=str(manifest["kind"]),
        namespaced=bool(namespace),
    )
    return ObjectRef(kind=kind, name=str(metadata["name"]), namespace=namespace)


def owned_by(owner: Manifest) -> list[dict[str, str]]:
    """Return the owner references of what goes with an object that is there, in its namespace."""
    metadata = owner["metadata"]
    return [
        {
            "apiVersion": str(owner["apiVersion"]),
            "kind": str(owner["kind"]),
            "name": str(metadata["name"]),
            "uid": str(metadata["uid"]),
        }
    ]


def campaign_value(campaign_id: str) -> str:
    """Return the label's value for a campaign: its id, or what Kubernetes takes of it.

    A value has at most 63 letters, digits, ``-``, ``_`` and ``.``, and begins and ends with one of
    the first two kinds. What is cut or replaced gets a digest, so that two ids stay two.
    """
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", campaign_id):
        return campaign_id
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "-", campaign_id)[:50].strip("-_.")
    digest = hashlib.sha256(campaign_id.encode()).hexdigest()[:8]
    return "-".join(filter(None, (kept, digest)))


def campaign_labels(campaign_id: str, role: str = "") -> dict[str, str]:
    """Return the labels of everything that a campaign makes in a cluster."""
    labels = {MANAGED_BY: MANAGER, CAMPAIGN: campaign_value(campaign_id)}
    return {**labels, ROLE: role} if role else labels
