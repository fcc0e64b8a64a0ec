"""Facts of running PostgreSQL and Redis servers.

They come from the servers themselves, and from their processes where these are here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core.outside import ServerAddress, host_and_port
from steelyard.core.stack import Origin, PostgresFacts, RedisFacts
from steelyard.core.target import RedisEndpointTarget
from steelyard.core.wording import KIB, TargetError, in_unit, is_secret_setting, redacted
from steelyard.gateways import redis as redis_gateway
from steelyard.gateways.host import (
    Host,
    cpu_limits,
    groups_around,
    memory_bytes,
    memory_limits,
    mount_of,
)
from steelyard.gateways.sql import Row, Sql, SqlSession
from steelyard.systems.redis.existing.readiness import address_of, refused
from steelyard.tuning.facts.file import (
    Finds,
    Found,
    hidden,
    origins_of,
    read_fact,
    seen,
    unknown,
    values_of,
)
from steelyard.tuning.facts.machine import device_fact

IDENTITY: Final = """
SELECT current_setting('server_version_num')::int, pg_backend_pid(),
       coalesce(host(inet_server_addr()), '')
"""
SETTINGS: Final = """
SELECT name, CASE source WHEN 'session' THEN reset_val ELSE current_setting(name) END,
       pending_restart
FROM pg_settings
"""
IO_METHODS: Final = "SELECT 'io_uring' = ANY (enumvals) FROM pg_settings WHERE name = 'io_method'"
CHECKPOINTS: Final = "SELECT num_requested, num_timed FROM pg_stat_checkpointer"
OLD_CHECKPOINTS: Final = "SELECT checkpoints_req, checkpoints_timed FROM pg_stat_bgwriter"
_CHECKPOINTER_FROM: Final = 17
_PATIENCE_S: Final = 20.0
_MAPPING: Final = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ", re.MULTILINE)
_SIZES: Final = re.compile(r"^(Size|KernelPageSize):\s+(\d+) kB$", re.MULTILINE)
_STAT: Final = re.compile(r"^\d+ \(postgres\b.*\) \S (\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSight:
    """What a server says and shows.

    Attributes:
        data_directory: None where this user may not know it.
        is_here: Its processes run on this machine.
    """

    facts: PostgresFacts
    origins: Mapping[str, Origin]
    data_directory: str | None
    is_here: bool


def collect_postgres(sql: Sql, address: ServerAddress, host: Host) -> ServerSight:
    """Return the facts of a server, those of its processes too where it runs on ``host``.

    Raises:
        TargetError: It cannot be reached.
    """
    session = sql.session(address, "steelyard inspect", patience_s=_PATIENCE_S)
    try:
        ((version_num, pid, own),) = session.rows(IDENTITY)
        rows = session.rows(SETTINGS)
        settings = {str(name): str(value) for name, value, _ in rows}
        version = int(str(version_num)) // 10_000
        # Its processes may be among ours; their ids must still fit.
        may_be_here = address.host.startswith(("/", "@")) or str(own) in _LOOPBACK
        postmaster = _postmaster(host, int(str(pid))) if may_be_here else None
        finds = {
            "version": seen(version, "server_version_num"),
            **_from_settings(settings, rows),
            "running": seen(True, f"the server at {address.host}"),  # noqa: FBT003 - the fact
            "io_uring_available": _io_uring(session, host, here=postmaster is not None),
            **_checkpoints(session, version),
            **_from_processes(host, postmaster),
        }
    finally:
        session.close()
    return ServerSight(
        facts=PostgresFacts(**values_of(finds)),
        origins=origins_of(finds, "postgres"),
        data_directory=settings.get("data_directory"),
        is_here=postmaster is not None,
    )


def _from_settings(settings: Mapping[str, str], rows: list[Row]) -> Finds:
    # No rule asks for what may hold a secret, nor for what extensions keep (`a.b`).
    kept = {
        name: redacted(value)
        for name, value in settings.items()
        if "." not in name and not is_secret_setting(name)
    }
    pending = tuple(sorted(str(name) for name, _, waits in rows if waits))
    status = settings.get("huge_pages_status", "")
    size_kib = in_unit(settings.get("huge_page_size", "0"), "kB")
    name = "shared_memory_size_in_huge_pages"
    needed = hidden(f"{name} is told by PostgreSQL 15 and later")
    if name in settings:
        pages = int(settings[name])
        needed = seen(pages, name) if pages >= 0 else hidden(f"{name} is not known there")
    return {
        "settings": seen(kept, "pg_settings"),
        "pending_restart": seen(pending, "pg_settings.pending_restart"),
        "huge_pages_needed": needed,
        # None: the kernel's default.
        "huge_page_bytes": seen(int(size_kib) * KIB if size_kib else None, "huge_page_size"),
        "huge_pages_status": seen(status, "huge_pages_status")
        if status in ("on", "off")
        else hidden("huge_pages_status is told by PostgreSQL 17 and later"),
    }


def _io_uring(session: SqlSession, host: Host, *, here: bool) -> Found:
    rows = session.rows(IO_METHODS)
    source = "enumvals of io_method"
    if not rows or not rows[0][0]:
        return seen(False, f"{source}: the server was built without it")  # noqa: FBT003 - the fact
    disabled = read_fact(host, "/proc/sys/kernel/io_uring_disabled", int).value if here else None
    return seen(not disabled, f"{source}, kernel.io_uring_disabled" if here else source)


def _checkpoints(session: SqlSession, version: int) -> Finds:
    statement = CHECKPOINTS if version >= _CHECKPOINTER_FROM else OLD_CHECKPOINTS
    source = statement.rpartition(" ")[2]
    try:
        ((requested, timed),) = session.rows(statement)
    except TargetError as error:
        missing = unknown(error.message)
        return {"checkpoints_requested": missing, "checkpoints_timed": missing}
    return {
        "checkpoints_requested": seen(int(str(requested)), source),
        "checkpoints_timed": seen(int(str(timed)), source),
    }


def _postmaster(host: Host, backend: int) -> int | None:
    """Return the first process of a server by one of its sessions; None where it is not here."""
    own = _STAT.match(host.read(f"/proc/{backend}/stat") or "")
    parent = _STAT.match(host.read(f"/proc/{own[1]}/stat") or "") if own else None
    return int(own[1]) if own and parent else None


def _from_processes(host: Host, postmaster: int | None) -> Finds:
    if postmaster is None:
        names = ("shared_memory_directory_bytes", "huge_page_mapping_bytes", "processes", *USABLE)
        return dict.fromkeys(names, hidden("the server's processes cannot be seen from here"))
    place = f"/proc/{postmaster}/root/dev/shm"
    space = host.space(place)
    smaps = host.read(f"/proc/{postmaster}/smaps")
    closed = unknown(f"/proc/{postmaster} may be read by its own account or root alone")
    return {
        "shared_memory_directory_bytes": seen(space.total_bytes, place) if space else closed,
        "huge_page_mapping_bytes": seen(huge_mapping_bytes(smaps), f"/proc/{postmaster}/smaps")
        if smaps
        else closed,
        "processes": seen(processes_of(host, postmaster), "/proc/*/stat"),
        **usable_by(host, postmaster),
    }


USABLE: Final = ("usable_memory_bytes", "usable_cpus")


def usable_by(host: Host, process: int) -> Finds:
    """Return the memory and CPUs that a process may use: those of the machine, or its limits."""
    unseen = _unseen_groups(host, process, "memory") or _unseen_groups(host, process, "cpu")
    if unseen is not None:
        return dict.fromkeys(USABLE, unseen)
    there = memory_bytes(host.read("/proc/meminfo")).get("MemTotal")
    memory = [] if there is None else [(there, "MemTotal in /proc/meminfo")]
    limits: tuple[Sequence[tuple[float, str]], ...] = (
        [*memory, *memory_limits(host, process)],
        cpu_limits(host, process),
    )
    return {
        name: seen(*min(of_name)) if of_name else hidden("neither /proc nor its groups say it")
        for name, of_name in zip(USABLE, limits, strict=True)
    }


def _unseen_groups(host: Host, process: int, controller: str) -> Found | None:
    """Return why the limits of a process are not visible; None where its groups are."""
    text = host.read(f"/proc/{process}/cgroup") or ""
    has_one = re.search(rf"^\d+:(?:[^:]*\b{controller}\b[^:]*)?:", text, re.MULTILINE)
    if not has_one or any(groups_around(host, process, controller)):
        return None
    return hidden(f"the control groups ({controller}) above its process are not mounted here")


def processes_of(host: Host, postmaster: int) -> tuple[int, ...]:
    """Return the first process of a server and all that it has started."""
    pids = sorted(int(name) for name in host.names("/proc") if name.isdecimal())
    parents = {pid: _STAT.match(host.read(f"/proc/{pid}/stat") or "") for pid in pids}
    own = (pid for pid, parent in parents.items() if parent and int(parent[1]) == postmaster)
    return (postmaster, *own)


def huge_mapping_bytes(smaps: str) -> int:
    """Return the size of all mappings whose pages are larger than those of the others."""
    sizes: list[tuple[int, int]] = []
    for part in _MAPPING.split(smaps)[1:]:
        found = dict(_SIZES.findall(part))
        if len(found) == 2:
            sizes.append((int(found["KernelPageSize"]), int(found["Size"])))
    ordinary = min((page for page, _ in sizes), default=0)
    return sum(size for page, size in sizes if page > ordinary) * KIB


_LAYER: Final = "redis"
_TITLE: Final = "proc-title-template"  # Redis 6.2, as is FAILOVER, which the recipe needs
_FENCE: Final = "starts-as-replica"
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
    return address_of(RedisEndpointTarget(uri=uri), redis_gateway.own_password())


def collect_redis(door: redis_gateway.RedisDoor, address: ServerAddress, host: Host) -> RedisSight:
    """Return the facts of a server, those of its process too where it runs on ``host``.

    Raises:
        TargetError: It cannot be reached.
        PreflightError: It does not let this user ask for INFO.
    """
    path = redis_gateway.socket_path(address)
    name = str(path) if path is not None else host_and_port(address.host, address.port)
    try:
        with redis_gateway.opened(door, address) as session:
            told = session.info("all")
            asked: dict[str, str] | str  # why this user may not ask for the settings
            try:
                asked = redis_gateway.settings_like(session, "*")
            except redis_gateway.ReplyError as error:
                asked = error.message
    except redis_gateway.ReplyError as error:
        raise refused(error, where=name, user=address.user) from error
    may_be_here = path is not None or address.host in _LOOPBACK  # the process' name must still fit
    pid, process = told.get("process_id", ""), None
    if may_be_here and pid.isdecimal():
        command = host.read(f"/proc/{pid}/comm") or ""
        process = int(pid) if command.startswith(_PROGRAMS) else None
    replicas = told.get("connected_slaves", "")
    directory = asked.get("dir") if isinstance(asked, dict) else None
    finds = {
        "role": seen({"master": "primary"}.get(told.get("role", ""), "replica"), "INFO, role"),
        "replicas": seen(int(replicas), "INFO, connected_slaves")
        if replicas.isdecimal()
        else hidden("INFO has no connected_slaves"),
        **_from_redis_settings(asked),
        "maxmemory": seen(told.get("maxmemory"), "INFO, maxmemory"),
        **_from_process(host, process, directory),
    }
    return RedisSight(
        facts=RedisFacts(name=name, **values_of(finds)),
        origins=origins_of(finds, f"{_LAYER}.{name}"),
        directory=directory,
        is_here=process is not None,
    )


def _from_redis_settings(asked: dict[str, str] | str) -> Finds:
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
        # Whether its file is that of the recipe in docs/redis.md.
        "fenced": unknown(asked)
        if isinstance(asked, str)
        else seen(_FENCE in asked.get(_TITLE, ""), f"CONFIG GET {_TITLE}"),
        "min_replicas_to_write": seen(int(number), least.origin.source)
        if number.isdecimal()
        else least,
    }


def _from_process(host: Host, process: int | None, directory: str | None) -> Finds:
    if process is None:
        names = ("auto_restart", "storage", "memory_limit")
        return dict.fromkeys(names, hidden(_ELSEWHERE))
    limit, group = min(memory_limits(host, process), default=(None, ""))
    none = hidden("no control group above its process limits its memory")
    return {
        "auto_restart": _restarts(host, host.read(f"/proc/{process}/cgroup") or ""),
        "storage": _storage(host, directory),
        "memory_limit": seen(str(limit), group)
        if limit is not None
        else _unseen_groups(host, process, "memory") or none,
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
    if mount is not None and (remote := _REMOTE.get(mount.file_system)):
        return seen(remote, device.origin.source)
    if device.value is None:
        return device
    name, kind = device.value.name, device.value.kind
    told = "ceph" if name.startswith("rbd") else kind
    return seen(told if told in ("ceph", "longhorn", "network") else "local", device.origin.source)
