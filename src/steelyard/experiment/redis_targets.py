"""What only a whole Redis target shows: programs and URIs of another system, TLS by halves."""

from collections.abc import Iterator

from steelyard.experiment.form_target import (
    REDIS_SERVERS,
    REDIS_TARGETS,
    TargetForm,
    is_version,
)
from steelyard.experiment.suggestions import listed
from steelyard.model.redis_uri import is_redis_uri, parse_redis_uri

_Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
_FILES = ("cacert", "cert", "key")


def redis_target_problems(target: TargetForm) -> Iterator[_Told]:
    """Yield what is of the wrong database system, and what is wrong with the way to the server."""
    kind = target.kind or "local"
    redis = kind in REDIS_TARGETS
    if target.bin is not None and redis == _is_postgres(target.bin):
        hint = f"Write {listed(REDIS_SERVERS)}, or a directory with a `/`."
        if not redis:
            hint = "Use `kind: redis-local`, or a version of PostgreSQL."
        yield "bin", f"`{target.bin}` names no programs of the target `{kind}`", hint
    if target.uri is not None and redis != is_redis_uri(target.uri):
        other = "endpoint" if redis else "redis-endpoint"
        message = f"the URI is one of the target `{other}`, and this is `{kind}`"
        yield "uri", message, f"Use `kind: {other}`, or correct the URI."
    elif kind == "redis-endpoint":
        yield from _tls(target)


def _is_postgres(programs: str) -> bool | None:
    """Return whose programs these are; None: a directory does not say."""
    if programs in REDIS_SERVERS:
        return False
    return True if programs == "embedded" or is_version(programs) else None


def _tls(target: TargetForm) -> Iterator[_Told]:
    encrypted = bool(target.tls)
    if target.uri is not None:
        encrypted = parse_redis_uri(target.uri).tls
    for key in _FILES:
        if getattr(target, key) is not None and not encrypted:
            hint = "Add `tls: true`, or write the URI with rediss://."
            yield key, f"`{key}` is for a connection with TLS, and this one has none", hint
    if (target.cert is None) != (target.key is None):
        there, lacking = ("cert", "key") if target.cert is not None else ("key", "cert")
        message = f"`{there}` is of no use without `{lacking}`"
        yield there, message, f"Add `{lacking}`."
    if target.tls and target.host is not None and target.host.startswith("/"):
        yield "tls", "a Unix socket is not encrypted", "Remove `tls`, or name a host."
