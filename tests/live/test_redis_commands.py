"""The list of commands that stay in their database, against what servers say of themselves."""

from collections.abc import Mapping
from typing import Any

import pytest
import redis

from steelyard.systems.redis.settings import STAYING, stays_in_database
from support.redis import RedisServer, redis_started, require_valkey

pytestmark = pytest.mark.live

_REACHING_FAR = ("admin", "dangerous", "scripting", "pubsub", "transaction", "blocking")


@pytest.mark.parametrize("flavour", ["redis", "valkey"])
def test_what_is_allowed_has_keys_and_does_no_harm(flavour: str) -> None:
    """Of all commands that a server has: each allowed one is of keys, and of no bad category."""
    program = "redis-server" if flavour == "redis" else f"{require_valkey()}/valkey-server"
    with redis_started(program=program) as server:
        commands, harmful = _said(server)
    allowed = {name for name in commands if stays_in_database((name,))}
    assert len(allowed) > 120
    assert not allowed & harmful
    keyless = {name for name in allowed if not commands[name]["first_key_pos"]}
    assert keyless == {"ping"}
    open_ended = {name for name in allowed if "movablekeys" in commands[name]["flags"]}
    assert not open_ended  # which keys they take depends on their words, as of ... STORE
    for name in ("flushall", "eval", "copy", "move", "swapdb", "config", "restore", "function"):
        assert name in commands
        assert name not in allowed
    if flavour == "redis":
        newer = STAYING - set(commands)
        assert all(name.startswith("h") for name in newer), newer  # times to live of fields, of 7.4


def test_what_is_allowed_names_no_database() -> None:
    """No argument of an allowed command is the number of a database, as of COPY and MOVE."""
    with redis_started() as server:
        docs = server.command("COMMAND", "DOCS")
    assert isinstance(docs, list)
    told = dict(zip(docs[::2], docs[1::2], strict=True))
    naming = {name.decode() for name, said in told.items() if "db" in _words(said)}
    assert {"copy", "move"} <= naming
    assert not naming & STAYING


def _said(server: RedisServer) -> tuple[Mapping[str, Mapping[str, Any]], set[str]]:
    client = redis.Redis(unix_socket_path=str(server.socket), decode_responses=True)
    commands = client.command()
    harmful = {name for each in _REACHING_FAR for name in client.acl_cat(each)}
    client.close()
    return commands, harmful


def _words(said: object) -> set[str]:
    """Return the parts of all words in an answer: of `destination-db` both."""
    if isinstance(said, list):
        return {word for each in said for word in _words(each)}
    text = said.decode() if isinstance(said, bytes) else str(said)
    return set(text.lower().split("-")) if " " not in text else set()
