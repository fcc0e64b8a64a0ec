"""Facts of running Redis servers, from themselves and from their processes where they are here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.core.command import ServerAddress
from steelyard.core.stack_facts import Origin, RedisFacts
from steelyard.core.target import RedisEndpointTarget
from steelyard.gateways.host import Host
from steelyard.gateways.redis import (
    RedisDoor,
    RedisSession,
    Reply,
    ReplyError,
    own_password,
    socket_path,
)
from steelyard.systems.redis.existing.connection import address_of
from steelyard.tuning.facts.file import Finds, Found, hidden, origins_of, seen, unknown, values_of
from steelyard.tuning.facts.machine import device_fact, mount_of

_LAYER: Final = "redis"
_TITLE: Final = "proc-title-template"  # Redis 6.2, as is FAILOVER, without which there is no fence
_FENCE: Final = "by start.sh"
_ON: Final = "yes"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PROGRAMS: Final = ("redis", "valkey")
_UNIT: Final = re.compile(r"/([^/\s]+\.service)(?:/|$)", re.MULTILINE)
_UNITS: Final = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system")
_RESTART: Final = re.compile(r"^\s*Restart\s*=\s*(\S*)", re.MULTILINE)
_NEVER: Final = ("", "no")
# File systems and disks that are elsewhere, by the names that the rules know.
_REMOTE: Final = {"nfs": "nfs", "nfs4": "nfs", "ceph": "ceph", "fuse.ceph": "ceph"}
_ELSEWHERE: Final = "the server's process cannot be seen from here"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSight:
    """What a server says and shows.

    Attributes:
        directory: Where it keeps its files; None where this user may not know it.
        is_here: Its process runs on this machine.
    """

    facts: RedisFacts
    origins: Mapping[str, Origin]
    directory: str | None
    is_here: bool


def redis_address(uri: str) -> ServerAddress:
    """Return where a URI leads, with the password of the environment.

    Raises:
        InputError: It is none of Redis, or has a password in it.
    """
    return address_of(RedisEndpointTarget(uri=uri), own_password())


def collect_redis(door: RedisDoor, address: ServerAddress, host: Host) -> RedisSight:
    """Return the facts of a server, those of its process too where it runs on ``host``.

    Raises:
        TargetError: It cannot be reached, or does not let this user ask for INFO.
    """
    session = door.connect(address)
    try:
        told, asked = session.info("all"), _settings(session)
    finally:
        session.close()
    path = socket_path(address)
    name = str(path) if path is not None else f"{address.host}:{address.port}"
    process = _process(host, told) if _may_be_here(address) else None
    directory = asked.get("dir") if isinstance(asked, dict) else None
    finds = {
        "role": seen({"master": "primary"}.get(told.get("role", ""), "replica"), "INFO, role"),
        "replicas": _number(told, "connected_slaves"),
        **_from_settings(asked),
        "maxmemory": seen(told.get("maxmemory"), "INFO, maxmemory"),
        **_from_process(host, process, directory),
    }
    return RedisSight(
        facts=RedisFacts(name=name, **values_of(finds)),
        origins=origins_of(finds, f"{_LAYER}.{name}"),
        directory=directory,
        is_here=process is not None,
    )


def _settings(session: RedisSession) -> dict[str, str] | str:
    """Return the settings in force; where this user may not ask for them, why."""
    try:
        answer = session.command("CONFIG", "GET", "*")
    except ReplyError as error:
        return error.message
    words = [_text(each) for each in answer] if isinstance(answer, list) else []
    return dict(zip(words[::2], words[1::2], strict=False))


def _text(word: Reply) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


def _number(told: Mapping[str, str], name: str) -> Found:
    value = told.get(name, "")
    return seen(int(value), f"INFO, {name}") if value.isdecimal() else hidden(f"INFO has no {name}")


def _from_settings(asked: dict[str, str] | str) -> Finds:
    def setting(name: str) -> Found:
        if isinstance(asked, str):
            return unknown(asked)
        source = f"CONFIG GET {name}"
        return seen(asked[name], source) if name in asked else hidden(f"{source} says nothing")

    def switch(name: str) -> Found:
        found = setting(name)
        return found if found.value is None else seen(found.value == _ON, found.origin.source)

    least = setting("min-replicas-to-write")
    number = str(least.value) if least.value is not None else ""
    return {
        "save": setting("save"),
        "appendonly": switch("appendonly"),
        "appendfsync": setting("appendfsync"),
        "no_appendfsync_on_rewrite": switch("no-appendfsync-on-rewrite"),
        "fenced": _fenced(asked),
        "min_replicas_to_write": seen(int(number), least.origin.source)
        if number.isdecimal()
        else least,
    }


def _fenced(asked: dict[str, str] | str) -> Found:
    """Return whether ``start.sh`` started it: that alone sets this title, and no file does."""
    if isinstance(asked, str):
        return unknown(asked)
    return seen(_FENCE in asked.get(_TITLE, ""), f"CONFIG GET {_TITLE}")


def _may_be_here(address: ServerAddress) -> bool:
    """Return whether a server's process may be among ours; its name must still fit."""
    return socket_path(address) is not None or address.host in _LOOPBACK


def _process(host: Host, told: Mapping[str, str]) -> int | None:
    """Return the server's process; None where it is not here."""
    pid = told.get("process_id", "")
    name = host.read(f"/proc/{pid}/comm") if pid.isdecimal() else None
    return int(pid) if name is not None and name.startswith(_PROGRAMS) else None


def _from_process(host: Host, process: int | None, directory: str | None) -> Finds:
    if process is None:
        names = ("auto_restart", "storage", "memory_limit")
        return dict.fromkeys(names, hidden(_ELSEWHERE))
    groups = host.read(f"/proc/{process}/cgroup") or ""
    return {
        "auto_restart": _restarts(host, groups),
        "storage": _storage(host, directory),
        "memory_limit": _memory_limit(host, groups),
    }


def _restarts(host: Host, groups: str) -> Found:
    """Return whether systemd starts it again, by the files of its service."""
    units = _UNIT.findall(groups)
    if not units or units[-1].startswith("user@"):
        return hidden("no service of systemd holds its process: who starts it again is not visible")
    unit = units[-1]
    found = ""
    for directory in _UNITS:
        for place in _files(host, directory, unit):
            for value in _RESTART.findall(host.read(place) or ""):
                found = f"{value} {place}"
    if not found:
        return hidden(f"the files of {unit} do not say whether it is restarted")
    value, _, place = found.partition(" ")
    return seen(value not in _NEVER, f"{place}, Restart={value}")


def _files(host: Host, directory: str, unit: str) -> tuple[str, ...]:
    """Return the files that may say something of a unit, in the order in which they count."""
    template = re.sub(r"@[^@]*\.service$", "@.service", unit)
    names = tuple(dict.fromkeys((template, unit)))
    added = [f"{directory}/{name}.d" for name in names]
    more = (f"{place}/{name}" for place in added for name in sorted(host.names(place)))
    return (*(f"{directory}/{name}" for name in names), *more)


def _storage(host: Host, directory: str | None) -> Found:
    """Return the kind of the storage below its data, in the words of the rules."""
    if directory is None:
        return unknown("CONFIG GET dir is refused, so nobody knows where its data are")
    mount, device = mount_of(host, directory), device_fact(host, directory)
    if mount is not None and mount.kind in _REMOTE:
        return seen(_REMOTE[mount.kind], device.origin.source)
    if device.value is None:
        return device
    name, kind = device.value.name, device.value.kind
    told = "ceph" if name.startswith("rbd") else kind
    return seen(told if told in ("ceph", "longhorn", "network") else "local", device.origin.source)


def _memory_limit(host: Host, groups: str) -> Found:
    """Return the limit of the nearest control group that has one, version 2 alone."""
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    if own is None:
        return hidden("its control group is none of version 2")
    parts = [part for part in own.split("/") if part]
    for depth in range(len(parts), 0, -1):
        place = f"/sys/fs/cgroup/{'/'.join(parts[:depth])}/memory.max"
        text = (host.read(place) or "").strip()
        if text.isdecimal():
            return seen(text, place)
    return hidden("no control group above its process limits its memory")
