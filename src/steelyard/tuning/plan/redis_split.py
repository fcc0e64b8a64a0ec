"""Split persistence of Redis as a plan: designed, judged by the rules, rendered, written.

The design has the memory line by line, every setting of both servers, and every risk.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from steelyard.core.findings import Severity, State
from steelyard.core.redis import MOST_LAG_S, Risk, SplitDesign, SplitPlan, SplitRequest, SplitServer
from steelyard.core.stack import (
    ArithmeticLine,
    PlannedSetting,
    RedisFacts,
    RenderedFile,
    StackFacts,
)
from steelyard.core.wording import GIB, MIB, InputError, PreflightError, format_bytes
from steelyard.tuning.files.files import START, render_split
from steelyard.tuning.plan.arithmetic import DoesNotFitError
from steelyard.tuning.plan.foreseen import write_files
from steelyard.tuning.rules.redis import MOST_OF_LIMIT, RULES
from steelyard.tuning.rules.rule import judge_by

LEAST_MEMORY_BYTES: Final = 128 * MIB  # below it the buffers are most of it; a guess
_BUFFERS: Final = 1 / 16  # of the memory, for what the replica has not taken yet; a guess
_SOFT_S: Final = 60
# An append-only file doubles before it is rewritten, the rewrite writes the data once more, and a
# full sync is received into a file of its own. As much on disk as in memory is the worst guess.
_COPIES_ON_DISK: Final = 4
_REWRITE_FROM: Final = 64 * MIB
_STOP_S: Final = 10
POLICIES: Final = (
    "noeviction",
    *(f"{who}-{how}" for how in ("lru", "lfu", "random") for who in ("allkeys", "volatile")),
    "volatile-ttl",
)
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}")
_PATH: Final = re.compile(r"/[A-Za-z0-9._/-]*")
_CONF: Final = "Redis 7.0, redis.conf, comments on {}"
_REPLICATION: Final = "Redis documentation, 'Redis replication'"
_PERSISTENCE: Final = "Redis documentation, 'Redis persistence'"
_SEEN: Final = "seen on Redis 7.0.15"


def design_split(request: SplitRequest) -> SplitDesign:
    """Return both servers with all settings, and what they may lose.

    Raises:
        InputError: A name, an address or a path cannot stand in the files.
        PreflightError: The memory or the volume is too small; the hint says what would do.
    """
    _require_writable(request)
    buffers = _whole_mib(request.memory_bytes * _BUFFERS)
    largest = _whole_mib(request.memory_bytes * MOST_OF_LIMIT)
    needed = -(-_COPIES_ON_DISK * largest // GIB) * GIB
    given = request.cluster.storage_bytes
    if given is not None and given < needed:
        raise DoesNotFitError(
            f"a volume of {format_bytes(given)} may be full before a rewrite ends:"
            f" {_COPIES_ON_DISK} times maxmemory, {format_bytes(largest)}, are needed",
            hint=f"Ask for {format_bytes(needed)}, or for less memory.",
        )
    return SplitDesign(
        request=request,
        arithmetic=_arithmetic(request.memory_bytes, buffers, largest),
        primary=(*_primary(request), *_both(request, buffers, largest)),
        replica=(*_replica(request), *_both(request, buffers, largest)),
        storage_bytes=given or needed,
        risks=tuple(_risks(request)),
    )


def _require_writable(request: SplitRequest) -> None:
    """Check what goes into files that a shell and redis-server read."""
    if request.memory_bytes < LEAST_MEMORY_BYTES:
        raise DoesNotFitError(
            f"{format_bytes(request.memory_bytes)} are too little for a Redis with a replica",
            hint=f"Ask for {format_bytes(LEAST_MEMORY_BYTES)} or more.",
        )
    _require(_LABEL, request.name, "a name of objects", "Lower case, digits and -: redis.")
    for server in (request.primary, request.replica):
        _require(_HOST, server.host, "a host", "Write a name or an address: redis-1, 10.0.0.5.")
        _require(_PATH, server.directory, "a directory", "Write a path: /var/lib/redis.")
    if _same(request.primary, request.replica):
        raise InputError(
            f"primary and replica are both {request.primary.host}:{request.primary.port}",
            hint="Name two servers, on two machines.",
        )
    if request.policy not in POLICIES:
        hint = f"It is one of {', '.join(POLICIES)}."
        raise InputError(f"`maxmemory-policy {request.policy}` is unknown", hint=hint)


def _require(form: re.Pattern[str], text: str, what: str, hint: str) -> None:
    if not form.fullmatch(text):
        raise InputError(f"{text!r} cannot be written as {what}", hint=hint)


def _same(one: SplitServer, other: SplitServer) -> bool:
    return (one.host, one.port) == (other.host, other.port)


def _whole_mib(count: float) -> int:
    return int(count // MIB) * MIB


def _mib(count: int) -> str:
    return f"{count // MIB}mb"


def _arithmetic(memory: int, buffers: int, largest: int) -> tuple[ArithmeticLine, ...]:
    return (
        ArithmeticLine(label="memory of each server", amount_bytes=memory, why="as asked"),
        ArithmeticLine(
            label="buffers of replication",
            amount_bytes=-buffers,
            why="what the replica has not taken yet, beside maxmemory; a sixteenth, a guess",
        ),
        ArithmeticLine(
            label="copies of pages and fragments",
            amount_bytes=-(memory - buffers - largest),
            why="a full sync and a rewrite fork, and writes then copy pages (RED004)",
        ),
        ArithmeticLine(
            label="maxmemory",
            amount_bytes=largest,
            why=f"{MOST_OF_LIMIT:.0%} of the memory",
            total=True,
        ),
    )


def _line(name: str, value: str, reason: str, source: str = "") -> PlannedSetting:
    told = source or _CONF.format(name)
    return PlannedSetting(name=name, value=value, reason=reason, source=told)


def _primary(request: SplitRequest) -> Iterator[PlannedSetting]:
    yield _line(
        "appendonly",
        "no",
        "No write waits for a disk: that is what the split is for. The replica keeps the data",
        _PERSISTENCE,
    )
    yield _line(
        "save",
        '""',
        "No snapshots: each would fork, and an old one would come back as the data, and wipe what"
        " the replica got since",
        f"{_REPLICATION}, on safety when the primary has persistence turned off; {_SEEN}",
    )
    yield _line(
        "rdb-del-sync-files",
        "yes",
        "The file of a full sync, which it receives when it comes back from its replica, is not"
        " left to be loaded at a later start",
    )
    yield _line(
        "replica-serve-stale-data",
        "no",
        "While it fetches the data back from its replica it answers an error, not that nothing is"
        " there",
    )
    yield from _bounded(request)


def _bounded(request: SplitRequest) -> Iterator[PlannedSetting]:
    if request.most_lag_s == 0:
        return
    yield _line(
        "min-replicas-to-write",
        "1",
        "Without the replica nobody keeps what is written: writes are refused then",
    )
    yield _line(
        "min-replicas-max-lag",
        str(request.most_lag_s),
        f"So long may the replica be silent, in seconds: the most that is written without it."
        f" {'A guess. ' if request.most_lag_s == MOST_LAG_S else ''}It counts silence,"
        " not bytes: a replica that answers may still be behind",
    )


def _replica(request: SplitRequest) -> Iterator[PlannedSetting]:
    always = request.fsync == "always"
    yield _line("appendonly", "yes", "It alone keeps the data on a disk", _PERSISTENCE)
    yield _line(
        "appendfsync",
        request.fsync,
        "Every write is flushed before it is acknowledged to the primary; clients do not wait for"
        " that"
        if always
        else "A power cut here loses about a second, and only if the primary dies with it",
        _CONF.format("appendfsync"),
    )
    yield _line(
        "no-appendfsync-on-rewrite",
        "no",
        "It is flushed during a rewrite, too: nobody waits for its disk",
    )
    yield _line("save", '""', "The append-only file holds all; a snapshot would fork once more")
    yield _line(
        "auto-aof-rewrite-percentage", "100", "Rewritten when it has doubled; sets the disk's size"
    )
    yield _line(
        "auto-aof-rewrite-min-size", _mib(_REWRITE_FROM), "Small files are not worth a fork"
    )
    yield _line(
        "repl-diskless-load",
        "disabled",
        "A full sync is received whole before the old data go: a primary that dies in its middle"
        " leaves them",
    )
    yield _line(
        "replica-read-only", "yes", "What somebody wrote here would be gone with the next full sync"
    )


def _both(request: SplitRequest, buffers: int, largest: int) -> Iterator[PlannedSetting]:
    """Yield what is the same in both, because each takes the other's part for a while."""
    yield _line(
        "maxmemory", _mib(largest), f"{MOST_OF_LIMIT:.0%} of the memory: room to fork", "RED004"
    )
    yield _line(
        "maxmemory-policy",
        request.policy,
        "The same in both; the replica follows the primary's evictions and makes none of its own",
    )
    yield _line(
        "repl-backlog-size",
        _mib(buffers // 2),
        "A replica that was away comes back without a full sync, which forks; half of the buffers,"
        " a guess",
    )
    yield _line(
        "client-output-buffer-limit",
        f"replica {_mib(buffers)} {_mib(buffers // 2)} {_SOFT_S}",
        "A replica that cannot follow is cut off before its buffers take the memory",
        _CONF.format("client-output-buffer-limit"),
    )
    yield _line(
        "repl-diskless-sync", "yes", "A full sync goes to the network, not to the sender's disk"
    )
    yield _line(
        "repl-diskless-sync-delay",
        "0",
        "There is no second replica to wait for: until the sync has ended nothing is kept",
    )
    yield _line(
        "shutdown-timeout",
        str(_STOP_S),
        "An orderly stop waits, in seconds, until the replica has everything: it loses nothing",
    )


def _risks(request: SplitRequest) -> Iterator[Risk]:
    lag = request.most_lag_s
    bound = (
        f"; without a sign of it for {lag} s no write is taken"
        if lag
        else "; nothing bounds it while the replica is away"
    )
    yield Risk(
        event="the primary dies, killed or with its machine",
        loss=f"what the replica had not received yet{bound}",
        remedy="Nothing to do where it comes back by start.sh: it fetches the data from the"
        " replica. Where it stays away: first see to it that it does (kubectl scale to 0, systemctl"
        " stop), then REPLICAOF NO ONE on the replica, and clients go there.",
        source=_REPLICATION,
    )
    yield Risk(
        event="the replica was promoted by hand, and its process is started again",
        loss="nothing, but it comes back as a copy of the absent primary: it takes no writes",
        remedy="REPLICAOF NO ONE again, as long as the primary is kept from starting.",
        source=_SEEN,
    )
    yield Risk(
        event="the replica dies",
        loss=f"nothing; after {lag} s writes are refused until it is back"
        if lag
        else "nothing yet; what is written until it is back is in one memory alone",
        remedy="Bring it back: it copies everything, for which the primary forks.",
        source=_CONF.format("min-replicas-to-write"),
    )
    flush = "nothing that it had received" if request.fsync == "always" else "up to 2 s of writes"
    yield Risk(
        event="both lose their power",
        loss=f"what the replica had not flushed: {flush}",
        remedy="Keep them on machines that do not die together.",
        source=_PERSISTENCE,
    )
    yield Risk(
        event="the replica dies after a full sync, before its rewrite has ended",
        loss="nothing while the primary lives; with it, all since that sync: its disk still holds"
        " the data of before",
        remedy="Wait for aof_rewrite_in_progress:0 after a sync before you rely on it.",
        source=_SEEN,
    )
    yield Risk(
        event="the primary is started empty past start.sh",
        loss="everything: the replica copies the nothing, on its disk, too",
        remedy="Start it by start.sh alone. RED001 of `steelyard inspect` tells of one that was"
        " not, where it sees that it would be started again by itself; who starts it by hand, it"
        " cannot know.",
        source=f"{_REPLICATION}, on safety when the primary has persistence turned off; {_SEEN}",
    )


_MARK: Final = 'by start.sh"\n'  # as the script sets the title that RED001 looks for
_ADAPTER: Final = TypeAdapter(SplitPlan)


def make_split(request: SplitRequest) -> SplitPlan:
    """Return a plan, judged by the rules of Redis.

    Raises:
        InputError: A name, an address or a path cannot stand in the files.
        PreflightError: The memory or the volume is too small, or the plan would break a rule.
    """
    design = design_split(request)
    files = render_split(design)
    return SplitPlan(design=design, files=files, left=_left(foreseen_pair(design, files)))


def _left(facts: StackFacts) -> tuple[str, ...]:
    judged = [judge_by(rule, facts) for rule in RULES]
    violated = [rule for rule in judged if rule.state is State.VIOLATED]
    for rule in violated:
        if rule.severity is Severity.ERROR:
            raise PreflightError(
                f"this plan would break rule {rule.code}, {rule.title!r}: {rule.messages[0]}",
                hint=rule.remedy,
            )
    return tuple(f"{rule.code}: {message}" for rule in violated for message in rule.messages)


def foreseen_pair(design: SplitDesign, files: tuple[RenderedFile, ...]) -> StackFacts:
    """Return what the rules will see once a design is in effect.

    The primary does come back by itself, but not empty: its fence stands before it, as far as it
    is started by the rendered script.
    """
    request = design.request
    primary = {each.name: each.value for each in design.primary}
    replica = {each.name: each.value for each in design.replica}
    memory = str(request.memory_bytes)
    return StackFacts(
        redis=(
            RedisFacts(
                name=f"{request.name}-primary",
                role="primary",
                save=primary["save"],
                appendonly=primary["appendonly"] == "yes",
                replicas=1,
                auto_restart=True,
                fenced=any(_MARK in f.content for f in files if f.name == f"redis/{START}"),
                maxmemory=primary["maxmemory"],
                memory_limit=memory,
                min_replicas_to_write=int(primary.get("min-replicas-to-write", "0")),
            ),
            RedisFacts(
                name=f"{request.name}-replica",
                role="replica",
                save=replica["save"],
                appendonly=replica["appendonly"] == "yes",
                appendfsync=replica["appendfsync"],
                no_appendfsync_on_rewrite=replica["no-appendfsync-on-rewrite"] == "yes",
                replicas=0,
                storage=None,
                maxmemory=replica["maxmemory"],
                memory_limit=memory,
            ),
        )
    )


def split_json(plan: SplitPlan) -> str:
    """Return a plan as ``plan.json`` has it."""
    return _ADAPTER.dump_json(plan, indent=2).decode() + "\n"


def write_split(directory: Path, plan: SplitPlan) -> None:
    """Write ``plan.json`` and every rendered file below ``files``.

    Raises:
        InputError: Something else is there.
    """
    write_files(directory, plan.files, split_json(plan))
