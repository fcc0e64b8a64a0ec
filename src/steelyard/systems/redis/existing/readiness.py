"""A Redis server that is there already: its address, its refusals, and what makes it ready.

What it says of a refusal is short and names no setting, so the way out is said here. Whether it can
be measured is asked beforehand.

redis-benchmark takes a password as an argument only, where every account of its machine can read
it. So it comes as a user who is made for the campaign, may send the load and nothing else, and is
gone at its end.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal

from steelyard.core.findings import Finding, Severity
from steelyard.core.outside import Guest, ServerAddress, host_and_port
from steelyard.core.redis import DEFAULT_PORT, RedisUri, parse_redis_uri
from steelyard.core.target import RedisEndpointTarget
from steelyard.core.wording import PreflightError, TargetError, format_bytes
from steelyard.gateways import redis as redis_gateway
from steelyard.gateways.doors import Doors
from steelyard.systems.existing import server_finding, unseen

_LOCALHOST: Final = "localhost"


def address_of(target: RedisEndpointTarget, password: str) -> ServerAddress:
    """Return where a target's server is reached, in database 0: which number is used is chosen.

    Raises:
        InputError: Its URI is none.
    """
    uri = _uri(target)
    tls = {
        redis_gateway.TLS: "on" if uri.tls else None,
        redis_gateway.CACERT: target.cacert,
        redis_gateway.CERT: target.cert,
        redis_gateway.KEY: target.key,
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
        r"(?i)no permissions to access|can't access at least one of the keys",
        "{who} may not use the keys that Steelyard makes",
        "Let it: ACL SETUSER {user} ~steelyard:* and the names of the workload's keys, ~key:*.",
    ),
    (
        r"DB index is out of range",
        "the server has fewer databases",
        "Name a lower number with `db:`, or a server with more of them (`databases`).",
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


def refused(error: redis_gateway.ReplyError, *, where: str, user: str) -> PreflightError:
    """Return a refusal of the server in words of fact, with the way out for who asked."""
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


def lacking_command(error: redis_gateway.ReplyError) -> str | None:
    """Return the command that a user may not use, as ``CONFIG GET``; None: it is something else."""
    match = _NO_COMMAND.search(error.message)
    return None if match is None else match[1].upper().replace("|", " ")


_NOT_FOUND: Final = re.compile(r"Command '[^']*' not found")  # of DRYRUN
_UNKNOWN: Final = re.compile(rf"(?i:unknown (sub)?command)|{_NOT_FOUND.pattern}")
_NO_KEYS: Final = re.compile(_REFUSALS[0][0])
_FLUSH: Final = "FLUSHDB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A command that a campaign sends.

    Attributes:
        words: With its arguments.
        keys: Patterns that hold the names of its keys.
        harmless: The same command with arguments that change nothing; empty: there are no such.
    """

    words: tuple[str, ...]
    keys: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """Return the command, with what is below it: ``CONFIG GET``."""
        return " ".join(self.words[: 1 + (self.words[0] in ("ACL", "CONFIG"))]).upper()

    @property
    def rule(self) -> str:
        """Return what allows it."""
        return f"+{self.verb.lower().replace(' ', '|')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Commands that a server refuses, each with its refusal, and those that were not tried."""

    refusals: tuple[tuple[Need, redis_gateway.ReplyError], ...]
    untried: tuple[Need, ...] = ()

    def needs(self, is_such: Callable[[redis_gateway.ReplyError], object]) -> tuple[Need, ...]:
        """Return the commands that are refused for such a reason."""
        return tuple(need for need, error in self.refusals if is_such(error))


def rehearse(session: redis_gateway.RedisSession, needs: Sequence[Need], user: str) -> Rehearsal:
    """Try commands; keys and settings stay as they are.

    They are queued in a transaction, which checks each and ends with the session. A user who may
    use none asks ACL DRYRUN (Redis 7); one who may not do that sends the harmless forms.
    """
    transaction = _answer(session, ("MULTI",))
    if transaction is not None and not is_lack(transaction):
        raise transaction
    refusals, untried = list[tuple[Need, redis_gateway.ReplyError]](), list[Need]()
    for need in needs:
        error = None
        if transaction is None:
            error = _answer(session, need.words)
        elif (dry := _dry_answer(session, need, user or "default")) is not None:
            error = dry if dry.message else None
        elif need.harmless and (need.verb != _FLUSH or _is_empty(session)):
            error = _answer(session, need.harmless)
            is_refused = error is not None and (
                is_lack(error) or any(re.search(each, error.message) for each, _, _ in _REFUSALS)
            )
            error = error if is_refused else None
        else:
            untried.append(need)
        if error is not None:
            refusals.append((need, error))
    return Rehearsal(refusals=tuple(refusals), untried=tuple(untried))


def is_lack(error: redis_gateway.ReplyError) -> bool:
    """Return whether the user may not use a command, or the server does not have it."""
    return lacking_command(error) is not None or _UNKNOWN.search(error.message) is not None


def _is_empty(session: redis_gateway.RedisSession) -> bool:
    """Return whether a form of FLUSHDB that a server takes by mistake would remove no key."""
    with suppress(redis_gateway.ReplyError):
        return session.command("DBSIZE") == 0
    return False


def _answer(
    session: redis_gateway.RedisSession, words: Sequence[str]
) -> redis_gateway.ReplyError | None:
    try:
        session.command(*words)
    except redis_gateway.ReplyError as error:
        return error
    return None


def _dry_answer(
    session: redis_gateway.RedisSession, need: Need, user: str
) -> redis_gateway.ReplyError | None:
    """Return how the server would refuse, empty if it would not; None: the user may not ask."""
    try:
        answer = session.command("ACL", "DRYRUN", user, *need.words)
    except redis_gateway.ReplyError as error:
        lacks_acl = need.words[0] == "ACL" and "unknown command" in error.message
        return error if lacks_acl or _NOT_FOUND.search(error.message) else None
    return redis_gateway.ReplyError("" if answer == b"OK" else redis_gateway.as_text(answer))


def require_allowed(
    address: ServerAddress, doors: Doors, where: str, needs: Sequence[Need]
) -> None:
    """Raise when the user or the server lacks commands or keys, with all of them.

    Raises:
        PreflightError: With the rules for ACL SETUSER, or what can be done without them.
        TargetError: The server cannot be reached.
    """
    with redis_gateway.opened(doors.redis, replace(address, database="0")) as session:
        rehearsal = rehearse(session, needs, address.user)
    unknown = _verbs(rehearsal.needs(lambda error: _UNKNOWN.search(error.message)))
    if unknown and not any(need.verb == "INFO" for need, _ in rehearsal.refusals):
        require_one_server(read_state(address, doors, where), where)  # a sentinel has few commands
    is_without_settings = "CONFIG GET" in unknown or "CONFIG SET" in unknown
    if is_without_settings and {*unknown} <= {"CONFIG GET", "CONFIG SET"}:
        raise without_settings(where, "does not let CONFIG be used (it is renamed or forbidden)")
    if unknown and unknown[0].startswith("ACL"):
        error = next(error for need, error in rehearsal.refusals if need.verb == unknown[0])
        raise refused(error, where=where, user=address.user)
    if unknown:
        raise PreflightError(
            f"{where}: the server does not have the {_commands(unknown)}, which Steelyard needs",
            hint=f"{'They' if len(unknown) > 1 else 'It'} may have been renamed (rename-command),"
            " or be forbidden by who runs the server."
            + " Without CONFIG two servers can be compared, settings cannot."
            * is_without_settings,
        )
    _require_rights(rehearsal, needs, where, address.user or "default")


def _require_rights(rehearsal: Rehearsal, needs: Sequence[Need], where: str, user: str) -> None:
    by_command = rehearsal.needs(lacking_command)
    by_key = rehearsal.needs(lambda error: _NO_KEYS.search(error.message))
    if not by_command and not by_key:
        return
    keys = dict.fromkeys(key for need in by_key for key in need.keys)
    tried = {need.verb for need in needs if need not in rehearsal.untried}
    not_seen = (*by_command, *(need for need in rehearsal.untried if need.verb not in tried))
    seen = {key for need in needs if need not in not_seen for key in need.keys}
    unclear = dict.fromkeys(key for need in not_seen for key in need.keys if key not in seen)
    verbs = _verbs(by_command)
    lacks = [
        *([f"the {_commands(verbs)}, which Steelyard needs"] if verbs else []),
        *([f"the keys that Steelyard makes ({' '.join(keys)})"] if keys else []),
    ]
    rules = [*dict.fromkeys(need.rule for need in not_seen), *keys]
    more = f" If its keys are limited, add {' '.join(unclear)}." if unclear else ""
    guest = f" {_GUEST}" if any(verb.startswith("ACL ") for verb in verbs) else ""
    raise PreflightError(
        f"the user {user} at {where} may not use {', and '.join(lacks)}",
        hint=f"Allow it: ACL SETUSER {user} {' '.join(rules)}.{more}{guest}",
    )


def _verbs(needs: Iterable[Need]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(need.verb for need in needs))


def _commands(verbs: Sequence[str]) -> str:
    return f"command{'s' * (len(verbs) > 1)} {', '.join(verbs)}"


def without_settings(where: str, why: str) -> PreflightError:
    """Return that settings of a server are to be compared, and why they cannot be."""
    return PreflightError(
        f"the server at {where} {why}: its settings cannot be compared",
        hint="Remove them from the configurations, or compare two servers: give each"
        " configuration a target of its own.",
    )


_OUR_SESSIONS: Final = 3  # one for our own checks, one that samples, one to spare
_DATABASES: Final = 16  # what redis.conf has, and what a server has that does not show it
_BUSY_PER_S: Final = 20.0  # a guess: some times what our own questions are
_ROOM: Final = 0.9  # of the machine's memory that keys may take, a guess: a fork needs some, too


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What a server says of itself before a campaign.

    Attributes:
        version: Of the program; ``flavour`` is whose it is.
        settings: By name, as it shows them; None where the user may not ask.
        mode: ``standalone``, ``cluster`` or ``sentinel``.
        primary: Host and port of the server that this one follows; empty: it follows none.
        run_id: Of this start of it.
        keys: How many keys each database has that has any, by number.
        databases: How many there are.
        connections: Of others.
        connections_left: None where it is not shown.
        most_bytes: Memory that it may use: maxmemory, or the machine's; None where not shown.
        limit_bytes: Of maxmemory; 0: it has none.
        policy: By which it removes keys when that is reached.
        evicts: The policy where it removes keys that have no time to live; empty: it removes none.
        saves: It keeps what it has on disk: an AOF, or dumps.
    """

    version: str
    flavour: Literal["redis", "valkey"]
    settings: Mapping[str, str] | None
    mode: str
    primary: str
    replicas: int
    run_id: str
    keys: tuple[tuple[int, int], ...]
    databases: int
    connections: int
    connections_left: int | None
    used_bytes: int
    most_bytes: int | None
    limit_bytes: int
    policy: str
    evicts: str
    operations_per_s: float
    saves: bool


def read_state(address: ServerAddress, doors: Doors, where: str) -> ServerState:
    """Return what a server says of itself.

    Raises:
        TargetError: It cannot be reached.
        PreflightError: The user may not ask.
    """
    try:
        with redis_gateway.opened(doors.redis, address) as session:
            lines, settings = session.info(), _settings(session)
    except redis_gateway.ReplyError as error:
        raise refused(error, where=where, user=address.user) from error
    if "redis_version" not in lines:  # nor would it have said which databases hold keys
        raise PreflightError(
            f"the server at {where} does not describe itself (INFO)",
            hint="Name the server itself, not a proxy before it.",
        )
    return _state(lines, settings)


def started_at(address: ServerAddress, doors: Doors) -> str:
    """Return what tells one start of the server from another.

    Raises:
        TargetError: It cannot be reached, or loads its data yet: then it answers INFO alone.
    """
    with redis_gateway.opened(doors.redis, address) as session:
        if session.info("persistence").get("loading") == "1":
            raise TargetError("it loads its data")
        return session.info("server").get("run_id", "")


def _settings(session: redis_gateway.RedisSession) -> Mapping[str, str] | None:
    try:
        return redis_gateway.settings_like(session, "*") or None
    except redis_gateway.ReplyError:
        return None


def _state(told: Mapping[str, str], settings: Mapping[str, str] | None) -> ServerState:
    asked = settings or {}
    most = [int(told.get(n, "0") or 0) for n in ("maxmemory", "total_system_memory")]
    clients = told.get("maxclients") or asked.get("maxclients")
    others = int(told.get("connected_clients", "1")) - 1
    follows = told.get("role") == "slave"
    policy = told.get("maxmemory_policy", asked.get("maxmemory-policy", ""))
    in_cluster = told.get("cluster_enabled") == "1"
    mode = told.get("redis_mode") or told.get("server_mode") or "standalone"
    valkey = told.get("server_name") == "valkey"
    return ServerState(
        version=told.get("valkey_version" if valkey else "redis_version", "unknown"),
        flavour="valkey" if valkey else "redis",
        settings=settings,
        mode="cluster" if in_cluster else mode,
        primary=host_and_port(told.get("master_host", ""), told.get("master_port", ""))
        if follows
        else "",
        replicas=int(told.get("connected_slaves", "0")),
        run_id=told.get("run_id", ""),
        keys=keys_by_database(told),
        databases=int(asked.get("databases", _DATABASES)),
        connections=others,
        connections_left=int(clients) - others if clients else None,
        used_bytes=int(told.get("used_memory", "0")),
        most_bytes=most[0] or round(_ROOM * most[1]) or None,
        limit_bytes=most[0],
        policy=policy,
        evicts=policy if most[0] and policy.startswith("allkeys") else "",
        operations_per_s=float(told.get("instantaneous_ops_per_sec", "0")),
        saves=told.get("aof_enabled") == "1" or bool(asked.get("save")),
    )


def keys_by_database(told: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """Return number and keys of each database that has some: ``db3:keys=12,expires=0,...``."""
    return tuple(
        (int(name.removeprefix("db")), int(value.removeprefix("keys=").partition(",")[0]))
        for name, value in told.items()
        if name.removeprefix("db").isdigit() and value.startswith("keys=")
    )


def require_one_server(state: ServerState, where: str) -> None:
    """Raise when the server is not one that holds all its keys and takes writes.

    Raises:
        PreflightError: It is a node of a cluster, a sentinel, or a replica.
    """
    if state.mode == "cluster":
        raise PreflightError(
            f"the server at {where} is a node of a cluster: it has only database 0, and answers"
            " MOVED for keys that are elsewhere",
            hint="Name a server that is not in cluster mode (cluster-enabled no).",
        )
    if state.mode != "standalone":
        raise PreflightError(
            f"the server at {where} is a {state.mode} and holds no keys",
            hint="Name the server itself; SENTINEL GET-MASTER-ADDR-BY-NAME has its address.",
        )
    if state.primary:
        raise PreflightError(
            f"the server at {where} is a replica of {state.primary}: it takes no writes, so no keys"
            " can be made",
            hint=f"Name the primary: {state.primary}.",
        )


def require_no_keys(state: ServerState, where: str) -> None:
    """Raise when the server holds anybody's keys.

    Raises:
        PreflightError: With how many, and where.
    """
    if state.keys:
        held = ", ".join(f"{count} in database {number}" for number, count in state.keys)
        raise PreflightError(
            f"the server at {where} holds keys: {held}; under load, and with other settings, it"
            " serves whoever uses them worse, and may lose them",
            hint="Name a server of your own, or allow it by `allow_existing: true` or"
            " --allow-existing: then an empty database is used, and only that is emptied.",
        )


def require_nothing_lost(state: ServerState, where: str) -> None:
    """Raise when a restart would lose what others have.

    Raises:
        PreflightError: There are keys of others: what a configuration does not save is gone.
    """
    if state.keys:
        raise PreflightError(
            f"the server at {where} holds keys of others and would be restarted under the settings"
            " of the configurations: what they do not save is lost",
            hint="Leave out `restart_command` and what needs it, or name a server of your own.",
        )


def require_connections(state: ServerState, clients: int, where: str) -> None:
    """Raise when the largest load does not fit into what is left.

    Raises:
        PreflightError: With both numbers.
    """
    needed = clients + _OUR_SESSIONS
    if state.connections_left is not None and needed > state.connections_left:
        raise PreflightError(
            f"the server at {where} has {state.connections_left} connections left;"
            f" {clients} clients need {needed}, with {_OUR_SESSIONS} for Steelyard",
            hint="Lower `load.clients`, close other connections, or raise maxclients there.",
        )


def require_room(state: ServerState, needed_bytes: int, where: str) -> None:
    """Raise when the keys that are loaded do not fit into the server's memory.

    Raises:
        PreflightError: With both sizes.
    """
    if state.most_bytes is None or state.used_bytes + needed_bytes <= state.most_bytes:
        return
    left = max(state.most_bytes - state.used_bytes, 0)
    raise PreflightError(
        f"the keys take about {format_bytes(needed_bytes)}, and the server at {where} has"
        f" {format_bytes(left)} of memory left for them",
        hint="Load fewer or smaller ones (`loaded`, `value_bytes`), or raise maxmemory there.",
    )


def state_findings(state: ServerState, where: str) -> Iterator[Finding]:
    """Yield what is worth knowing of a server that can be measured."""
    yield unseen(where)
    if state.settings is None:
        yield server_finding(
            "settings-unseen",
            f"the server at {where} does not show its settings to this user (CONFIG GET); whether"
            " it dumps by itself (save) is not known, and a dump may fall into a slice",
            where,
            remedy="If the server has CONFIG, allow it: ACL SETUSER USER +config|get.",
            severity=Severity.WARNING,
        )
    if state.replicas:
        yield server_finding(
            "replicas-follow",
            f"{state.replicas} replicas follow the server at {where}: what is written here is sent"
            " to them, too",
            where,
        )
    if state.evicts:
        yield server_finding(
            "marker-may-go",
            f"the server at {where} evicts any key when its memory is full ({state.evicts}), also"
            " the one that marks the campaign's keys as Steelyard's: then they are left behind",
            where,
            remedy="Load less than maxmemory, or choose a policy that evicts volatile keys only.",
            severity=Severity.WARNING,
        )
    if state.operations_per_s > _BUSY_PER_S:
        yield server_finding(
            "other-load",
            f"others made {state.operations_per_s:.0f} requests per second on the server at"
            f" {where}",
            where,
            remedy="Measure when nobody else does; what they take is missing here.",
            severity=Severity.WARNING,
        )


def changed_for_all(names: tuple[str, ...], state: ServerState, where: str) -> Iterator[Finding]:
    """Yield what the change of settings means beyond the campaign's own keys."""
    if names and state.keys:
        yield server_finding(
            "settings-for-everyone",
            f"{', '.join(names)} of the server at {where} are what the configurations ask for, also"
            " for the keys that were there: what a configuration can lose, they can lose",
            where,
            remedy="Measure on a server that holds nothing of worth.",
            severity=Severity.WARNING,
        )
    if not state.saves and {"save", "appendonly"} & set(names):
        yield server_finding(
            "files-stay",
            f"the server at {where} kept nothing on disk; what a configuration has it write stays"
            " in"
            f" {(state.settings or {}).get('dir', 'its directory')} (dump.rdb, appendonlydir)",
            where,
            remedy="Remove the files when the campaign is over: a restart would load them.",
            severity=Severity.WARNING,
        )


def growing(workloads: tuple[str, ...], where: str) -> Iterator[Finding]:
    """Yield that what some workloads write is not in the memory that was counted."""
    if workloads:
        yield server_finding(
            "data-grow",
            f"{', '.join(workloads)} make data that grow for as long as they run: how much memory"
            f" they take at {where} is not foreseen",
            where,
            remedy="Shorten the slices, or set maxmemory there.",
            severity=Severity.WARNING,
        )


def unsettled(commands: tuple[str, ...], where: str) -> Iterator[Finding]:
    """Yield that what a refill leaves to do may fall into a slice."""
    if commands:
        yield server_finding(
            "refill-unsettled",
            f"the user may not use {' and '.join(commands)} at {where}: a dump or a rewrite of the"
            " AOF that the making of the keys makes due may fall into a slice",
            where,
            remedy="Allow it: ACL SETUSER USER +bgsave +bgrewriteaof.",
            severity=Severity.WARNING,
        )


_NAME_BYTES: Final = 4
_PASSWORD_BYTES: Final = 18


class Guests:
    """The guest of one campaign on one server; its name is announced before the user is made."""

    def __init__(
        self, rules: tuple[str, ...], doors: Doors, announce: Callable[[str], None]
    ) -> None:
        self._rules = rules
        self._doors = doors
        self._announce = announce
        self._guest: Guest | None = None

    def invite(self, entrance: ServerAddress) -> Guest | None:
        """Return the guest, made now where the server has lost it; None where nobody has to hide.

        Raises:
            ReplyError: The user may make no other.
        """
        if not entrance.password:
            return None
        if self._guest is None:
            guest = Guest(
                name=f"steelyard-{secrets.token_hex(_NAME_BYTES)}",
                password=secrets.token_urlsafe(_PASSWORD_BYTES),
            )
            self._announce(guest.name)
            self._guest = guest
        with redis_gateway.opened(self._doors.redis, entrance) as session:
            session.command(*making(self._guest, self._rules))
        return self._guest

    def findings(self, entrance: ServerAddress, where: str) -> tuple[Finding, ...]:
        """Return what a guest leaves in the server's own books, where one comes."""
        if not entrance.password:
            return ()
        found = Finding(
            code="guest-in-acl-log",
            severity=Severity.INFO,
            message=f"the ACL LOG of the server at {where} will hold entries of the load"
            " generator: redis-benchmark asks for settings, which its user may not see",
            remedy="Leave them; ACL LOG RESET would remove those of others, too.",
            subject=where,
        )
        return (found,)

    def needed(self, entrance: ServerAddress) -> tuple[Need, ...]:
        """Return the commands that making one takes and removing it, for a rehearsal."""
        if not entrance.password:
            return ()
        nobody = Guest(name="steelyard-rehearsal", password="")
        made, removed = making(nobody, self._rules), ("ACL", "DELUSER", nobody.name)
        no_rule = ("ACL", "SETUSER", nobody.name, "no-rule")
        return (Need(words=made, harmless=no_rule), Need(words=removed, harmless=removed))


def making(guest: Guest, rules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that makes a user who may do this alone."""
    return ("ACL", "SETUSER", guest.name, "reset", "on", f">{guest.password}", *rules)
