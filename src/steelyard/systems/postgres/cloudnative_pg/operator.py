"""The CloudNativePG operator of a cluster: whether it is there, its version, and what it takes.

PostgreSQL's settings go into a Cluster as texts, without those that the operator keeps to itself. A
Cluster has one list beside the parameters, ``shared_preload_libraries``; here it is a setting like
any other.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from steelyard.core.errors import InputError, PreflightError, PrivilegeError
from steelyard.core.kubernetes import (
    CLUSTER,
    CRD,
    DEPLOYMENT,
    OVERWRITTEN,
    REFUSED,
    Manifest,
    ObjectRef,
)
from steelyard.gateways.kubernetes.api import KubernetesApi

_DEFINITION: Final = ObjectRef(kind=CRD, name="clusters.postgresql.cnpg.io")
# As its release manifest and its Helm chart label it.
_LABELS: Final = {"app.kubernetes.io/name": "cloudnative-pg"}
_HOME: Final = "cnpg-system"
_TAG: Final = re.compile(r":v?(\d+\.\d+\.\d+[^@/]*)(?:@.*)?$")
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What is known of the operator.

    Attributes:
        version: None where it is not visible, and ``unseen`` says why.
        image: Of its container; empty where it is not visible.
        definition: Version of the Cluster's definition that is used.
        spec: The schema of a Cluster's ``spec``; empty where it may not be read, and then only the
            server finds unknown fields.
    """

    version: str | None
    unseen: str = ""
    image: str = ""
    definition: str = "v1"
    spec: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return what it is called in messages."""
        return f"CloudNativePG {self.version}" if self.version else "this CloudNativePG"

    def knows(self, *path: str) -> bool:
        """Return whether a Cluster's spec has a field; true where the schema is not visible."""
        schema: Mapping[str, Any] = self.spec
        for part in path:
            if not schema:
                return True
            if part not in schema.get("properties", {}):
                return bool(schema.get(_OPEN))
            schema = schema["properties"][part]
        return True


def require_installed(api: KubernetesApi) -> None:
    """Require that the cluster has the operator's kind.

    Raises:
        PreflightError: CloudNativePG is not installed.
    """
    if not api.knows(CLUSTER):
        raise PreflightError(
            f"CloudNativePG is not installed in the cluster {api.context}: it has no kind Cluster"
            f" ({CLUSTER.api_version})",
            hint="Install its operator (kubectl apply --server-side -f the release manifest of"
            " CloudNativePG, or its Helm chart), or name another cluster by `context:`.",
        )


def discover(api: KubernetesApi) -> Operator:
    """Return the operator of a cluster.

    Raises:
        PreflightError: CloudNativePG is not installed.
    """
    require_installed(api)
    image, version, unseen = _seen(api)
    definition, spec = _schema(api)
    return Operator(version=version, unseen=unseen, image=image, definition=definition, spec=spec)


def _seen(api: KubernetesApi) -> tuple[str, str | None, str]:
    """Return image and version of the operator's deployment, or why they are not known."""
    found: tuple[Manifest, ...] = ()
    for namespace in ("", _HOME):
        try:
            found = api.list(DEPLOYMENT, namespace, _LABELS)
        except PrivilegeError:
            continue
        break
    else:
        return "", None, "this account may not read the operator's deployment"
    for deployment in found:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            image = str(container.get("image") or "")
            named = version_of_image(image) or _labelled(deployment)
            return image, named, "" if named else f"its image {image} names no version"
    return "", None, "no deployment carries the operator's label"


def _labelled(deployment: Manifest) -> str | None:
    """Return the version that the Helm chart writes into a label."""
    return (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/version")


def version_of_image(image: str) -> str | None:
    """Return the version in an image's tag, or None."""
    found = _TAG.search(image)
    return found[1] if found else None


def _schema(api: KubernetesApi) -> tuple[str, Mapping[str, Any]]:
    """Return the version of the definition in use, and the schema of a Cluster's spec."""
    wanted = CLUSTER.api_version.partition("/")[2]
    try:
        definition = api.read(_DEFINITION)
    except PrivilegeError:
        return wanted, {}
    for version in (definition or {}).get("spec", {}).get("versions", ()):
        if version.get("name") == wanted:
            schema = version.get("schema", {}).get("openAPIV3Schema", {})
            return wanted, schema.get("properties", {}).get("spec", {})
    return wanted, {}


def require_known(manifest: Manifest, operator: Operator) -> None:
    """Raise when a Cluster has fields that the operator's definition has not.

    Raises:
        InputError: With all of them, and what may have been meant.
        PreflightError: The operator is too old for synchronous replication as it is asked for.
    """
    spec = manifest["spec"]
    if "synchronous" in spec.get("postgresql", {}) and not operator.knows(
        "postgresql", "synchronous"
    ):
        raise PreflightError(
            f"{operator.label} has no spec.postgresql.synchronous (it came with 1.24), only"
            " minSyncReplicas and maxSyncReplicas, which say neither method nor durability",
            hint="Upgrade the operator, or leave `synchronous:` out.",
        )
    unknown = tuple(_unknown(spec, operator.spec, "spec"))
    if unknown:
        raise InputError(
            f"{operator.label} does not know {'; '.join(unknown)}",
            hint="Correct the target; `kubectl explain cluster.spec` lists the fields.",
        )


def _unknown(value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield a phrase for each field that a schema does not have."""
    if not schema or schema.get(_OPEN):
        return
    if isinstance(value, Mapping):
        yield from _unknown_keys(value, schema, path)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _unknown(item, schema.get("items", {}), f"{path}[{number}]")


def _unknown_keys(
    value: Mapping[str, object], schema: Mapping[str, Any], path: str
) -> Iterator[str]:
    known = schema.get("properties")
    if known is None:  # a map: any key, and perhaps a schema of its values
        inner = schema.get("additionalProperties")
        for key, each in value.items():
            yield from _unknown(each, inner if isinstance(inner, Mapping) else {}, f"{path}.{key}")
        return
    for key, each in value.items():
        if key in known:
            yield from _unknown(each, known[key], f"{path}.{key}")
        else:
            meant = get_close_matches(key, known, n=1)
            yield f"{path}.{key}" + (f" (did you mean {meant[0]}?)" if meant else "")


LIBRARIES: Final = "shared_preload_libraries"
CHANGE: Final = "steelyard.change"  # ours: what the server read last, see rollout.py
_WAY_OUT: Final = {
    "synchronous_standby_names": "`synchronous:` of the target says it",
    "allow_alter_system": "the operator writes it from spec.postgresql.enableAlterSystem",
}


def require_taken(names: Iterable[str]) -> None:
    """Raise when the operator keeps one of these settings to itself.

    Raises:
        PreflightError: With all of them.
    """
    kept = sorted({name.lower() for name in names} & ((REFUSED | OVERWRITTEN) - {LIBRARIES}))
    if not kept:
        return
    ways = [f"{name}: {_WAY_OUT[name]}" for name in kept if name in _WAY_OUT]
    raise PreflightError(
        f"CloudNativePG sets {', '.join(kept)} itself and takes no other value",
        hint="; ".join(["Leave them out of `postgres:`", *ways]) + ".",
    )


def postgresql_spec(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """Return settings as keys of ``spec.postgresql``; None removes one in a merge patch."""
    named = {name.lower(): value for name, value in settings.items()}
    spec: dict[str, Any] = {}
    if LIBRARIES in named:
        libraries = named.pop(LIBRARIES)
        spec[LIBRARIES] = None if libraries is None else _listed(libraries)
    if named:
        spec["parameters"] = named
    return spec


def settings_in(spec: Mapping[str, Any], names: Iterable[str]) -> dict[str, str | None]:
    """Return what a Cluster's spec says of each setting; None where it says nothing."""
    postgresql = spec.get("postgresql") or {}
    parameters = {
        name.lower(): value for name, value in (postgresql.get("parameters") or {}).items()
    }
    libraries = postgresql.get(LIBRARIES)
    known = {**parameters, LIBRARIES: None if libraries is None else ", ".join(libraries)}
    return {name: known.get(name) for name in dict.fromkeys(n.lower() for n in names)}


def _listed(libraries: str) -> list[str]:
    return [each.strip().strip('"') for each in libraries.split(",") if each.strip()]
