"""The user and password of a database in a cluster: they live in Secrets and nowhere else."""

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PreflightError
from steelyard.model.kubernetes import SECRET, ObjectRef, SecretRef
from steelyard.platforms.kubernetes.belongings import Belongings

SUPERUSER: Final = "postgres"  # the only name that CloudNativePG takes for its superuserSecret
_PASSWORD_BYTES: Final = 24


def make_secret(belongings: Belongings) -> SecretRef:
    """Return the campaign's Secret with a password of its own, made now."""
    made = SecretRef(namespace=belongings.namespace, name=belongings.name())
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    belongings.make(
        {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.name,
            "metadata": {"name": made.name, "namespace": made.namespace},
            "type": "kubernetes.io/basic-auth",
            "data": {made.user_key: _encoded(SUPERUSER), made.password_key: _encoded(password)},
        }
    )
    return made


def read_secret(api: KubernetesApi, ref: SecretRef) -> tuple[str, str]:
    """Return user and password of a Secret; without a name there are none.

    A reference without a key for the user is to a Secret of a user who has no name.

    Raises:
        PreflightError: It is not there, or has no such keys.
        PrivilegeError: This account may not read it.
    """
    if not ref.name:
        return "", ""
    place = ObjectRef(kind=SECRET, name=ref.name, namespace=ref.namespace)
    found = api.read(place)
    if found is None:
        raise PreflightError(
            f"{place.label} is not there",
            hint="Name the Secret with the user and password of the database, in this namespace.",
        )
    kept: Mapping[str, str] = found.get("data") or {}
    user = _value(kept, ref.user_key, place) if ref.user_key else ""
    return user, _value(kept, ref.password_key, place)


def _value(kept: Mapping[str, str], key: str, place: ObjectRef) -> str:
    if key not in kept:
        raise PreflightError(
            f"{place.label} has no key {key}; it has {', '.join(sorted(kept)) or 'none'}",
            hint="Name the keys with `user_key:` and `password_key:`.",
        )
    try:
        return base64.b64decode(kept[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise PreflightError(
            f"the key {key} of {place.label} holds no text",
            hint="Put user and password there as UTF-8.",
        ) from error


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
