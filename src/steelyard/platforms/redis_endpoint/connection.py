"""From what an experiment says of a Redis server that is there already to its address."""

from dataclasses import dataclass
from typing import Final

from steelyard.gateways.redis import CACERT, CERT, KEY, TLS, RedisDoor
from steelyard.model.command import ServerAddress
from steelyard.model.redis_uri import DEFAULT_PORT, RedisUri, parse_redis_uri
from steelyard.model.target import RedisEndpointTarget
from steelyard.platforms.restart_command import RestartMeans

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
