"""Objects of a Kubernetes cluster: their kinds, names, and the labels that say whose they are.

What a storage class says of where the data of its volumes lie is here as a record keeps it.

Settings that CloudNativePG keeps to itself are from ``FixedConfigurationParameters`` in
pkg/postgres/configuration.go of cloudnative-pg/cloudnative-pg at b122f632. Earlier releases fixed
more: ``huge_pages``, ``wal_level``, ``wal_log_hints``, ``full_page_writes``, ``archive_timeout``
and the names of TLS versions and ciphers.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.core.findings import Fact
from steelyard.core.stack import StorageClassFacts

Manifest = Mapping[str, Any]
"""An object as Kubernetes writes it: ``apiVersion``, ``kind``, ``metadata`` and so on."""

OF_CLUSTER: Final = "cnpg.io/cluster"  # label of everything that the operator makes for a Cluster
SERVER_CONTAINER: Final = "postgres"  # of a Cluster's pods
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "steelyard"
CAMPAIGN: Final = "steelyard/campaign"
ROLE: Final = "steelyard/role"
DATABASE: Final = "database"  # the role of pods that a generator stays away from
PROBE: Final = "probe"
RUNNER: Final = "runner"
SERVER: Final = "steelyard/server"  # label of the pod and the claim of one StatefulSet


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

    def manifest(
        self,
        name: str,
        *,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        **rest: object,
    ) -> dict[str, Any]:
        """Return an object of this kind; an empty namespace and no labels are not written.

        Args:
            name: Of the object.
            namespace: Where it goes.
            labels: That it has.
            rest: Further keys beside its metadata: ``spec``, ``data``.
        """
        where = {"namespace": namespace} if namespace else {}
        marked = {} if labels is None else {"labels": dict(labels)}
        metadata = {"name": name, **where, **marked}
        return {"apiVersion": self.api_version, "kind": self.name, "metadata": metadata, **rest}


POD: Final = Kind(api_version="v1", name="Pod")
SECRET: Final = Kind(api_version="v1", name="Secret")
CONFIG_MAP: Final = Kind(api_version="v1", name="ConfigMap")
SERVICE: Final = Kind(api_version="v1", name="Service")
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


def is_of_campaign(found: Manifest, value: str) -> bool:
    """Return whether an object carries the label of a campaign with this value."""
    labels: Mapping[str, str] = found["metadata"].get("labels") or {}
    return labels.get(CAMPAIGN) == value


# The webhook refuses a cluster that names one.
REFUSED: Final = frozenset(
    {
        "allow_system_table_mods",
        "archive_cleanup_command",
        "archive_command",
        "archive_mode",
        "bonjour",
        "bonjour_name",
        "cluster_name",
        "config_file",
        "data_directory",
        "data_sync_retry",
        "event_source",
        "external_pid_file",
        "hba_file",
        "hot_standby",
        "ident_file",
        "jit_provider",
        "listen_addresses",
        "log_destination",
        "log_directory",
        "log_file_mode",
        "log_filename",
        "log_rotation_age",
        "log_rotation_size",
        "log_truncate_on_rotation",
        "logging_collector",
        "pg_failover_slots.primary_dsn",
        "pg_failover_slots.standby_slot_names",
        "port",
        "primary_conninfo",
        "primary_slot_name",
        "promote_trigger_file",
        "recovery_end_command",
        "recovery_min_apply_delay",
        "recovery_target",
        "recovery_target_action",
        "recovery_target_inclusive",
        "recovery_target_lsn",
        "recovery_target_name",
        "recovery_target_time",
        "recovery_target_timeline",
        "recovery_target_xid",
        "restart_after_crash",
        "restore_command",
        "shared_preload_libraries",
        "ssl",
        "ssl_ca_file",
        "ssl_cert_file",
        "ssl_crl_file",
        "ssl_dh_params_file",
        "ssl_ecdh_curve",
        "ssl_key_file",
        "ssl_passphrase_command",
        "ssl_passphrase_command_supports_reload",
        "ssl_prefer_server_ciphers",
        "stats_temp_directory",
        "synchronized_standby_slots",
        "synchronous_standby_names",
        "syslog_facility",
        "syslog_ident",
        "syslog_sequence_numbers",
        "syslog_split_messages",
        "temp_tablespaces",
        "unix_socket_directories",
        "unix_socket_group",
        "unix_socket_permissions",
    }
)
# Taken and then overwritten, from PostgreSQL 17 on: by spec.postgresql.enableAlterSystem.
OVERWRITTEN: Final = frozenset({"allow_alter_system"})


LONGHORN: Final = "driver.longhorn.io"
LOCAL_PATH: Final = "rancher.io/local-path"
LATE: Final = "WaitForFirstConsumer"
# Provisioners whose volumes live on one node; those of Longhorn say so by their parameters.
_NODE_BOUND: Final = ("local-path", "no-provisioner", "openebs.io/local", "topolvm", "local.csi")
_DEFAULT_REPLICAS: Final = "3"  # Longhorn documentation, 'Storage Class Parameters'

_SUBJECT: Final = "storage class "
_PROVISIONER: Final = "provisioner"
_BINDING: Final = "volume binding"
_DEFAULT: Final = "default of the cluster"


def is_longhorn(each: StorageClassFacts) -> bool:
    """Return whether Longhorn makes the volumes."""
    return "longhorn" in each.provisioner


def is_strict(each: StorageClassFacts) -> bool:
    """Return whether Longhorn keeps the only replica on the node of the pod."""
    return is_longhorn(each) and each.parameters.get("dataLocality") == "strict-local"


def is_node_bound(each: StorageClassFacts) -> bool:
    """Return whether a volume is a directory or a disk of one node."""
    return any(name in each.provisioner for name in _NODE_BOUND)


def replicas(each: StorageClassFacts) -> str:
    """Return how many replicas a volume of Longhorn has, as its class says it."""
    return each.parameters.get("numberOfReplicas", _DEFAULT_REPLICAS)


def class_facts(each: StorageClassFacts, *, is_default: bool = False) -> tuple[Fact, ...]:
    """Return a class as facts of a record."""
    told = {
        _PROVISIONER: each.provisioner,
        _BINDING: each.binding,
        **({_DEFAULT: "yes"} if is_default else {}),
        **each.parameters,
    }
    return tuple(Fact(name=n, value=v, subject=_SUBJECT + each.name) for n, v in told.items())


def class_in(facts: Sequence[Fact], name: str | None) -> StorageClassFacts | None:
    """Return a class that a record tells of; without a name the cluster's default."""
    told: dict[str, dict[str, str]] = {}
    for fact in facts:
        if fact.subject.startswith(_SUBJECT):
            told.setdefault(fact.subject.removeprefix(_SUBJECT), {})[fact.name] = fact.value
    if name is None:
        name = next((each for each, known in told.items() if _DEFAULT in known), None)
    if name is None or _PROVISIONER not in told.get(name, {}):
        return None
    known = dict(told[name])
    known.pop(_DEFAULT, None)
    return StorageClassFacts(
        name=name,
        provisioner=known.pop(_PROVISIONER),
        binding=known.pop(_BINDING, "Immediate"),
        parameters=known,
    )
