"""Who may do what on a Redis server that a campaign makes.

redis-benchmark takes a password only as an argument, where others could read it. So the generators
come without one, as the default user: they may use keys, and not administer the server. Steelyard
itself has a user with a password that was drawn for the campaign; of that the server's own pod gets
the digest only. Source: Redis documentation, "ACL".
"""

import base64
import secrets
from hashlib import sha256
from typing import Final

from steelyard.model.kubernetes import SECRET, Manifest, SecretRef
from steelyard.platforms.kubernetes.belongings import Belongings

USER: Final = "steelyard"
USERS_KEY: Final = "users.acl"
_PASSWORD_BYTES: Final = 24
# redis-benchmark prints two settings, and gives up where it may not read them.
_GENERATORS_MAY: Final = "~* &* +@all -@admin +config|get"


def make_redis_secret(belongings: Belongings) -> SecretRef:
    """Return the campaign's Secret with a password of its own, made now."""
    made = SecretRef(namespace=belongings.namespace, name=belongings.name())
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    readable = secret_manifest(made, password)
    coded = {
        name: base64.b64encode(str(text).encode()).decode()
        for name, text in readable["stringData"].items()
    }
    belongings.make({**{k: v for k, v in readable.items() if k != "stringData"}, "data": coded})
    return made


def secret_manifest(ref: SecretRef, password: str) -> Manifest:
    """Return the Secret with a user, its password, and the server's file of users, readable."""
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.name,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "type": "Opaque",
        "stringData": {
            ref.user_key: USER,
            ref.password_key: password,
            USERS_KEY: users_text(password),
        },
    }


def users_text(password: str) -> str:
    """Return the file of users: what generators may, and who administers by this password."""
    digest = sha256(password.encode()).hexdigest()
    return f"user default on nopass {_GENERATORS_MAY}\nuser {USER} on #{digest} ~* &* +@all\n"
