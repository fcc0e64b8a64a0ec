"""The address of a Redis server that is there already, and what its refusals mean.

Its words are short and name no setting, so the way out is said here.
"""

import re
from dataclasses import dataclass
from typing import Final

from steelyard.core.errors import PreflightError
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import DEFAULT_PORT, RedisUri, parse_redis_uri
from steelyard.core.target import RedisEndpointTarget
from steelyard.gateways.redis import CACERT, CERT, KEY, TLS, RedisDoor, ReplyError
from steelyard.places.elsewhere import RestartMeans

_LOCALHOST: Final = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisMeans(RestartMeans):
    """The gateways that work on a Redis server needs."""

    redis: RedisDoor


def address_of(target: RedisEndpointTarget, password: str) -> ServerAddress:
    """Return where a target's server is reached, in database 0: which number is used is chosen.

    Raises:
        InputError: Its URI is none.
    """
    uri = _uri(target)
    tls = {
        TLS: "on" if uri.tls else None,
        CACERT: target.cacert,
        CERT: target.cert,
        KEY: target.key,
    }
    is_socket = uri.host.startswith("/")
    return ServerAddress(
        host=uri.host,
        port=0 if is_socket else uri.port or DEFAULT_PORT,
        user=uri.user or "",
        password=password,
        parameters=tuple((name, value) for name, value in tls.items() if value),
    )


def asked_number(target: RedisEndpointTarget) -> int | None:
    """Return the number of the database that a target names; None: any that is empty."""
    return _uri(target).db


def _uri(target: RedisEndpointTarget) -> RedisUri:
    if target.uri is not None:
        return parse_redis_uri(target.uri)
    host = target.host or _LOCALHOST
    return RedisUri(host=host, port=target.port, user=target.user, db=target.db, tls=target.tls)


# "User bench has no permissions to run the 'config|get' command" (7.0), "this user has no
# permissions to run the 'config' command or its subcommand" (6.0).
_NO_COMMAND: Final = re.compile(r"no permissions to run the '([^']+)' command", re.IGNORECASE)
_GUEST: Final = (
    "The load generator shows its password to everybody, so it comes as a user made for it; or name"
    " a user who needs none."
)
_REFUSALS: Final = (
    (
        r"no permissions to access|can't access at least one of the keys",
        "{who} may not use the keys that Steelyard makes",
        "Let it: ACL SETUSER {user} ~steelyard:* and the names of the workload's keys, ~key:*.",
    ),
    (
        r"MISCONF",
        "the server takes no writes, because it could not save: {text}",
        "Look into its log: its disk may be full, or its directory not writable.",
    ),
    (
        r"read only replica|READONLY",
        "the server is a replica and takes no writes",
        "Name the primary.",
    ),
    (
        r"not enough good replicas|NOREPLICAS",
        "the server takes no writes while it has too few replicas (min-replicas-to-write)",
        "Start its replicas, or set min-replicas-to-write to 0.",
    ),
    (
        r"used memory|OOM\b",
        "the server has no memory left for a key (maxmemory)",
        "Raise maxmemory there, or let it have fewer keys.",
    ),
    (
        r"MOVED|CLUSTERDOWN|CROSSSLOT|Hash slot|cluster mode",
        "the server is a node of a cluster: it has only part of the keys, and only database 0",
        "Name a server that is not in cluster mode.",
    ),
    (
        r"unknown (sub)?command '?ACL",
        "the server has no users (ACL, Redis 6), and a load generator shows its password to all",
        "Measure a server without a password, or a newer one.",
    ),
    (
        r"unknown (sub)?command",
        "the server does not have a command that Steelyard needs: {text}",
        "It may have been renamed (rename-command), or be forbidden by who runs the server.",
    ),
)


def refused(error: ReplyError, *, where: str, user: str) -> PreflightError:
    """Return a refusal of the server in words of fact, with the way out.

    Args:
        error: What it answered.
        where: The server.
        user: Who asked; empty: the default user.
    """
    named = user or "default"
    who = f"the user {named}"
    if (command := lacking_command(error)) is not None:
        allow = f"Allow it: ACL SETUSER {named} +{command.lower().replace(' ', '|')}."
        return PreflightError(
            f"{who} at {where} may not use the command {command}, which Steelyard needs",
            hint=f"{allow} {_GUEST}" if command.startswith("ACL ") else allow,
        )
    for pattern, message, hint in _REFUSALS:
        if re.search(pattern, error.message):
            said = message.format(who=who, text=error.message)
            return PreflightError(f"{where}: {said}", hint=hint.format(user=named))
    return PreflightError(error.message, hint=error.hint)


def lacking_command(error: ReplyError) -> str | None:
    """Return the command that a user may not use, as ``CONFIG GET``; None: it is something else."""
    match = _NO_COMMAND.search(error.message)
    return None if match is None else match[1].upper().replace("|", " ")
