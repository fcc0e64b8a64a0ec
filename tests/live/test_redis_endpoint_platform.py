"""A Redis server that is there already: only an empty database is used, and all goes back."""

import http.server
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import redis

from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.experiment import RedisWork, Workload
from steelyard.core.outside import (
    Foreign,
    Guest,
    OnServer,
    SavedSetting,
    ServerAddress,
    in_undoing_order,
)
from steelyard.core.target import RedisEndpointTarget
from steelyard.core.wording import LeftBehindError, PreflightError, SteelyardError, TargetError
from steelyard.gateways import redis_client as gateway
from steelyard.gateways.doors import system_doors
from steelyard.gateways.redis import RedisDoor, RedisSession, Reply
from steelyard.systems.redis.existing.databases import MARK_KEY
from steelyard.systems.redis.existing.platform import (
    RedisEndpointOptions,
    RedisEndpointPlatform,
    undo_on_redis,
)
from steelyard.systems.redis.existing.readiness import address_of, asked_number, making
from steelyard.systems.redis.settings import rights_of
from support.redis import RedisServer, redis_started
from support.redis_endpoint import (
    await_info,
    ended,
    keys_of,
    restart,
    restart_command_of,
    setting_of,
    tls_started,
)

pytestmark = pytest.mark.live

MARK = "steelyard:night-1"
_CHANGES = ("SET", "FLUSHDB", "CONFIG SET")
_SETTINGS = ("appendfsync", "appendonly", "maxmemory")


class Died(BaseException):
    """Stands for ``kill -9`` between two commands."""


@dataclass(kw_only=True)
class DyingDoor(RedisDoor):
    """The real door, until Steelyard dies before the change of that number."""

    dies_at: int | None = None
    changes: list[str] = field(default_factory=list)

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> RedisSession:
        """Return a session that counts what changes the server."""
        return _Counting(RedisDoor().connect(address, timeout_s=timeout_s), self)


@dataclass
class _Counting:
    session: RedisSession
    door: DyingDoor
    queueing: bool = False

    def command(self, *words: str | bytes | int) -> Reply:
        self.queueing = words[0] == "MULTI" or (self.queueing and words[0] != "DISCARD")
        text = " ".join(map(str, words))
        if not self.queueing and text.startswith(_CHANGES):
            if self.door.dies_at is not None and len(self.door.changes) >= self.door.dies_at:
                raise Died
            self.door.changes.append(text)
        return self.session.command(*words)

    def pipeline(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        return [self.command(*words) for words in commands]

    def info(self, *sections: str) -> "dict[str, str]":
        return dict(self.session.info(*sections))

    def close(self) -> None:
        self.session.close()


class _Place:
    """One platform on one server."""

    def __init__(
        self,
        server: RedisServer,
        target: RedisEndpointTarget | None = None,
        *,
        settings: tuple[str, ...] = _SETTINGS,
        datasets: int = 2,
        password: str = "",
        commands: tuple[tuple[str, ...], ...] = (),
        values: tuple[tuple[str, str], ...] = (),
    ) -> None:
        asked = target or RedisEndpointTarget(host=str(server.socket))
        self.server = server
        self.door = DyingDoor()
        self.ledger = FakeLedger()
        self.means = replace(system_doors(), redis=self.door)
        self.password = password
        options = RedisEndpointOptions(
            entrance=address_of(asked, password),
            first=asked_number(asked),
            campaign_id="night-1",
            datasets=tuple((f"set{number}", 1000) for number in range(datasets)),
            settings=settings,
            allow_existing=asked.allow_existing,
            restart_command=asked.restart_command,
            clients=8,
            guest=("+select", "+set", "~key:*"),
            commands=commands,
            asked=values,
        )
        self.platform = RedisEndpointPlatform(options, self.ledger, self.means)

    def build(self, address: ServerAddress) -> None:
        """Make three keys in each database, as an engine does."""
        for name, _ in address.databases:
            session = self.means.redis.connect(address.at(name))
            for number in range(3):
                session.command("SET", f"key:{number:012}", "x")
            session.close()

    def work(self, *asked: dict[str, str]) -> None:
        """Go through a campaign's steps, a configuration after the other."""
        platform, program = self.platform, FakeProgram()
        platform.require_ready()
        state = platform.prepare(program, ["data"], self.build)
        default = ({"maxmemory": "1gb", "appendonly": "yes"}, {"appendfsync": "always"})
        for settings in asked or default:
            platform.restore(state, platform.means()[0])
            platform.start(state, program, settings)
            assert platform.is_running
            platform.stop(keep_data=False)

    @property
    def noted(self) -> list[OnServer]:
        """Return what the ledger holds and is not undone, in order."""
        undone = [thing for verb, thing in self.ledger.things if verb == "undone"]
        return [t for verb, t in self.ledger.things if verb == "changed" and t not in undone]

    def clean(self) -> None:
        """Undo what the ledger holds, as `steelyard clean` does."""
        for thing in in_undoing_order(self.noted):
            undo_on_redis(thing, self.means, password=self.password)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    """A server for the tests that leave it as it was."""
    with redis_started({"appendfsync": "no", "maxmemory": "2gb", "databases": "6"}) as made:
        yield made


@pytest.fixture
def server(shared: RedisServer) -> Iterator[RedisServer]:
    """The shared server, with what it says before and after a test compared."""

    def said() -> dict[str, str]:
        return {name: setting_of(shared, name) for name in (*_SETTINGS, "save")}

    before = said()
    assert keys_of(shared) == {}
    yield shared
    held, after = keys_of(shared), said()
    shared.command("FLUSHALL")
    for name, value in before.items():
        shared.command("CONFIG", "SET", name, value)
    assert (held, after) == ({}, before)


def test_a_whole_campaign_leaves_nothing_behind(server: RedisServer) -> None:
    """Databases are emptied, settings are as before, and the ledger says so."""
    place = _Place(server)
    place.work()
    assert keys_of(server) == {0: 4, 1: 4}
    assert setting_of(server, "appendfsync") == "always"
    assert setting_of(server, "maxmemory") == str(2 * 1024**3)
    assert setting_of(server, "appendonly") == "no"
    place.platform.destroy()
    assert place.noted == []
    assert [thing.resource for _, thing in place.ledger.things] == [
        *(Foreign.KEYS, Foreign.KEYS, Foreign.CONFIG),
        *(Foreign.CONFIG, Foreign.KEYS, Foreign.KEYS),  # the marker guards the settings
    ]


def test_a_configuration_is_in_force_and_has_the_prepared_keys(server: RedisServer) -> None:
    """What was written since is gone with the next restore, and the address names the databases."""
    place = _Place(server)
    place.work({"maxmemory": "1gb", "appendonly": "yes"})
    assert setting_of(server, "maxmemory") == str(1024**3)
    assert server.info("persistence")["aof_rewrite_in_progress"] == "0"
    server.command("SET", "key:000000000007", "written by a workload", database=1)
    state = place.platform.prepare(FakeProgram(), ["data"], place.build)
    place.platform.restore(state, "refill")
    assert keys_of(server) == {0: 1, 1: 1}
    place.platform.start(state, FakeProgram(), {})
    assert keys_of(server) == {0: 4, 1: 4}
    assert place.platform.address.databases == (("set0", "0"), ("set1", "1"))
    assert place.platform.configure({"appendfsync": "everysec"}) is False
    assert setting_of(server, "appendfsync") == "everysec"
    place.platform.destroy()


@pytest.mark.slow
def test_a_death_between_any_two_changes_can_be_undone(server: RedisServer) -> None:
    """The ledger knows everything before it is done, with all that undoing needs."""
    for step in range(100):
        place = _Place(server)
        place.door.dies_at = step
        try:
            place.work()
        except Died:
            place.door.dies_at = None
            place.clean()
            place.clean()  # a second time is no error
            assert keys_of(server) == {}
            assert setting_of(server, "appendonly") == "no"
            assert setting_of(server, "maxmemory") == str(2 * 1024**3)
            continue
        break
    assert step > 15
    place.door.dies_at = None
    place.platform.destroy()


def test_undoing_interrupted_anywhere_can_be_done_again(server: RedisServer) -> None:
    """`clean` that dies half-way is repeated."""
    place = _Place(server)
    place.work()
    for steps in range(50):
        place.door.dies_at = len(place.door.changes) + steps
        try:
            place.clean()
        except Died:
            continue
        break
    assert steps > 1
    assert keys_of(server) == {}


def test_keys_of_others_keep_a_server_from_being_used(server: RedisServer) -> None:
    """Refused with where they are; nothing was written."""
    server.command("SET", "order:1", "x", database=4)
    place = _Place(server)
    with pytest.raises(PreflightError, match="holds keys: 1 in database 4") as caught:
        place.platform.require_ready()
    assert "--allow-existing" in caught.value.hint
    assert (place.door.changes, place.ledger.things) == ([], [])
    server.command("DEL", "order:1", database=4)


def test_only_empty_databases_are_used_beside_those_of_others(server: RedisServer) -> None:
    """With permission the first empty numbers are taken, and what others have stays."""
    for number in (0, 2):
        server.command("SET", "order:1", "x", database=number)
    place = _Place(server, RedisEndpointTarget(host=str(server.socket), allow_existing=True))
    place.work()
    assert keys_of(server) == {0: 1, 1: 4, 2: 1, 3: 4}
    assert "settings-for-everyone" in {found.code for found in place.platform.findings()}
    place.platform.destroy()
    assert keys_of(server) == {0: 1, 2: 1}
    for number in (0, 2):
        server.command("DEL", "order:1", database=number)


@pytest.mark.parametrize(
    ("first", "words"), [(2, "database 2 .* holds 1 keys"), (5, "database 6 .* does not exist")]
)
def test_a_database_that_is_named_must_be_empty(
    server: RedisServer, first: int, words: str
) -> None:
    """Also with permission; and a number that the server does not have is none."""
    server.command("SET", "order:1", "x", database=2)
    target = RedisEndpointTarget(host=str(server.socket), db=first, allow_existing=True)
    with pytest.raises(PreflightError, match=words) as caught:
        _Place(server, target).platform.require_ready()
    assert "Empty are 0, 1, 3, 4, 5" in caught.value.hint
    server.command("DEL", "order:1", database=2)


def test_a_database_that_is_named_is_the_one_that_is_used(server: RedisServer) -> None:
    """Further data sets take the numbers after it."""
    place = _Place(server, RedisEndpointTarget(uri=f"unix://{server.socket}?db=3"))
    place.work({})
    assert keys_of(server) == {3: 4, 4: 4}
    place.platform.destroy()


def test_keys_without_our_marker_are_never_removed(server: RedisServer) -> None:
    """Neither at a restore nor by `clean`: they may be somebody's, and that is said."""
    place = _Place(server, settings=())
    place.work({})
    server.command("DEL", MARK_KEY, database=1)
    with pytest.raises(TargetError, match="are not Steelyard's"):
        place.platform.restore(place.platform.prepare(FakeProgram(), [], place.build), "refill")
    with pytest.raises(LeftBehindError, match="not the mark 'steelyard:night-1'"):
        place.platform.destroy()
    assert keys_of(server) == {1: 3}
    assert [thing.database for thing in place.noted] == ["1"]
    server.command("FLUSHDB", database=1)


def test_a_database_that_somebody_took_meanwhile_is_left_alone(server: RedisServer) -> None:
    """Between the check and the first key: nothing is announced, nothing is written."""
    place = _Place(server, datasets=1, settings=())
    place.platform.require_ready()
    server.command("SET", "order:1", "x", database=0)
    with pytest.raises(TargetError, match="are not Steelyard's"):
        place.platform.prepare(FakeProgram(), [], place.build)
    assert place.ledger.things == []
    assert keys_of(server) == {0: 1}
    server.command("DEL", "order:1", database=0)


def test_another_campaign_on_the_server_is_refused(server: RedisServer) -> None:
    """Its settings would be taken for the server's own; the own marker is none of others."""
    server.command("SET", MARK_KEY, "steelyard:day-2", database=3)
    target = RedisEndpointTarget(host=str(server.socket), allow_existing=True)
    with pytest.raises(PreflightError, match=r"another campaign works.*steelyard:day-2"):
        _Place(server, target).platform.require_ready()
    server.command("SET", MARK_KEY, MARK, database=3)
    _Place(server, target).platform.require_ready()
    server.command("DEL", MARK_KEY, database=3)


def test_no_note_holds_the_password() -> None:
    """What goes into the journal has everything but the password, and undoing asks for it."""
    with redis_started(password="planted-7c") as own:
        target = RedisEndpointTarget(uri=own.uri)
        place = _Place(own, target, password="planted-7c")
        place.work()
        assert len(place.noted) == 4
        assert "planted-7c" not in repr(place.ledger.things)
        with pytest.raises(TargetError, match="refuses user and password"):
            undo_on_redis(place.noted[0], place.means)
        place.platform.destroy()
        assert keys_of(own) == {}


_FORBIDDEN = (
    *(("GET", "key:1"), ("SET", "order:1", "x"), ("KEYS", "*"), ("SCAN", "0"), ("DBSIZE",)),
    *(("CONFIG", "GET", "dir"), ("CONFIG", "SET", "dir", "/srv"), ("ACL", "LIST"), ("INFO",)),
    *(("FLUSHDB",), ("FLUSHALL",), ("SHUTDOWN",), ("EVAL", "return 1", "0"), ("MONITOR",)),
    *(("SWAPDB", "0", "1"), ("REPLICAOF", "NO", "ONE"), ("PUBLISH", "a", "b"), ("DEL", "key:1")),
)


@pytest.mark.parametrize(
    ("command", "may", "may_not"),
    [
        ("HSET cart:__rand_int__ f __data__", "HSET cart:7 f x", "HSET order:7 f x"),
        ("OBJECT ENCODING cart", "OBJECT ENCODING cart", "OBJECT FREQ cart"),
        ("CONFIG GET save", "CONFIG GET save", "CONFIG SET save 1"),
    ],
)
def test_a_user_for_a_command_of_the_file_can_send_that_alone(
    server: RedisServer, command: str, may: str, may_not: str
) -> None:
    """On keys that are called like its words; nothing of what lies beside it."""
    work = Workload(name="w", redis=RedisWork(command=tuple(command.split())))
    guest = Guest(name="steelyard-guest", password="for-a-day")
    server.command(*making(guest, rights_of([work])))
    client = redis.Redis(
        unix_socket_path=str(server.socket), username=guest.name, password=guest.password
    )
    client.execute_command(*may.split())
    for words in (*_FORBIDDEN, tuple(may_not.split())):
        if words != ("CONFIG", "GET", "dir") or not may.startswith("CONFIG"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)
    client.close()
    server.command("ACL", "DELUSER", guest.name)
    server.command("DEL", "cart:7")


def test_a_generator_gets_a_user_who_can_send_the_load_only() -> None:
    """Its password may be read by anybody; it leads to nothing but the workload's keys."""
    with redis_started(password="planted-7c") as own:
        place = _Place(own, password="planted-7c", settings=())
        state = place.platform.prepare(FakeProgram(), ["data"], place.build)
        place.platform.restore(state, "refill")
        place.platform.start(state, FakeProgram(), {})
        address = place.platform.address
        guest = address.guest
        assert guest is not None
        assert guest.password not in repr(place.ledger.things)
        client = redis.Redis(
            unix_socket_path=str(own.socket), username=guest.name, password=guest.password
        )
        client.set("key:1", "x")
        for words in _FORBIDDEN:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)
        client.close()
        restart(own)  # which forgets its users
        place.platform.start(state, FakeProgram(), {})
        assert place.platform.address.guest == guest
        place.platform.destroy()
        assert own.command("ACL", "USERS") == [b"default"]


def test_nobody_is_made_where_no_password_is_asked_for(server: RedisServer) -> None:
    """The generator comes as we do."""
    place = _Place(server, settings=())
    place.work({})
    assert place.platform._inside(place.platform._entrance).guest is None
    assert server.command("ACL", "USERS") == [b"default"]
    place.platform.destroy()


def test_a_secret_is_never_changed(server: RedisServer) -> None:
    """What it was would go into the record."""
    place = _Place(server, settings=("requirepass",), datasets=1)
    with pytest.raises(SteelyardError, match="is a secret"):
        place.work({"requirepass": "x"})
    place.platform.destroy()


def test_a_server_that_loses_its_keys_by_a_death_is_filled_again() -> None:
    """It does not run any more for the bench; the next start makes its keys, marked as before."""
    with redis_started() as own:
        place = _Place(own)
        place.work()
        state = place.platform.prepare(FakeProgram(), [], place.build)
        place.platform.start(state, FakeProgram(), {})
        restart(own)
        assert not place.platform.is_running
        assert keys_of(own) == {}
        place.platform.start(state, FakeProgram(), {"maxmemory": "1gb"})
        assert keys_of(own) == {0: 4, 1: 4}
        assert setting_of(own, "maxmemory") == str(1024**3)
        place.platform.destroy()
        assert keys_of(own) == {}
        assert setting_of(own, "maxmemory") == "0"


def test_what_needs_a_restart_is_handed_to_the_restart_command() -> None:
    """It stands in the environment of the command; afterwards the server has its own again."""
    with redis_started() as own:
        command = restart_command_of(own)
        target = RedisEndpointTarget(host=str(own.socket), restart_command=command)
        title = "proc-title-template"
        place = _Place(own, target, settings=("io-threads", title, "save"))
        before = setting_of(own, title)
        try:
            place.work({"io-threads": "2", title: '{title} "one"', "save": "3600 1"})
            assert setting_of(own, title) == '{title} "one"'
            assert setting_of(own, "io-threads") == "2"
            assert setting_of(own, "save") == "3600 1"
            assert keys_of(own) == {0: 4, 1: 4}  # though the restart lost what was there
            place.platform.destroy()
            assert (setting_of(own, "io-threads"), setting_of(own, "save")) == ("1", "")
            assert setting_of(own, title) == before
            assert keys_of(own) == {}
        finally:
            ended(own)


def test_a_refused_setting_keeps_no_other_from_going_back(server: RedisServer) -> None:
    """It is named with what it was."""
    place = _Place(server, settings=("maxmemory",))
    place.work({"maxmemory": "1gb"})
    (thing,) = (each for each in place.noted if each.resource is Foreign.CONFIG)
    more = replace(thing, saved=(SavedSetting(name="appendsync", value="no"), *thing.saved))
    with pytest.raises(LeftBehindError, match="does not take back `appendsync`") as caught:
        undo_on_redis(more, place.means)
    assert 'they were: appendsync "no", maxmemory "2147483648"' in caught.value.hint
    assert setting_of(server, "maxmemory") == str(2 * 1024**3)
    place.clean()


def test_without_a_restart_command_the_server_says_what_it_refuses(server: RedisServer) -> None:
    """With the way out; whatever was done before goes back."""
    place = _Place(server, settings=("io-threads",))
    with pytest.raises(TargetError, match="`io-threads` cannot be changed on a running") as caught:
        place.work({"io-threads": "2"})
    assert "STEELYARD_SETTINGS" in caught.value.hint
    place.platform.destroy()


def _refusal(place: _Place) -> SteelyardError:
    with pytest.raises(SteelyardError) as caught:
        place.platform.require_ready()
    assert place.door.changes == []
    assert caught.value.hint
    return caught.value


def test_a_node_of_a_cluster_is_refused() -> None:
    """It has one database, and answers MOVED."""
    with redis_started({"cluster-enabled": "yes"}) as own:
        error = _refusal(_Place(own))
    assert isinstance(error, PreflightError)
    assert "is a node of a cluster" in error.message
    assert "MOVED" in error.message


def test_a_replica_is_refused(server: RedisServer) -> None:
    """The primary is the way out."""
    with redis_started({"replicaof": f"127.0.0.1 {server.port}"}) as own:
        error = _refusal(_Place(own))
    assert f"is a replica of 127.0.0.1:{server.port}" in error.message
    assert f"127.0.0.1:{server.port}" in error.hint


def test_what_is_no_redis_is_said(server: RedisServer) -> None:
    """A web server answers, but not as Redis does."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        target = RedisEndpointTarget(host="127.0.0.1", port=web.server_port)
        error = _refusal(_Place(server, target))
    finally:
        web.shutdown()
        web.server_close()
    assert isinstance(error, TargetError)
    assert "cannot be reached as a Redis server" in error.message


@pytest.mark.parametrize("password", ["", "wrong"])
def test_a_wrong_or_missing_password_is_said(password: str) -> None:
    """Where it comes from is the way out, and it is not repeated."""
    with redis_started(password="planted-7c") as own:
        error = _refusal(_Place(own, RedisEndpointTarget(uri=own.uri), password=password))
    assert "refuses user and password" in error.message
    assert "REDISCLI_AUTH" in error.hint
    assert "wrong" not in error.message.replace("WRONGPASS", "")


_NEEDED = "info dbsize time get set flushdb select config|get config|set acl|setuser acl|deluser"
_LACKS = (
    *((rule, "") for rule in _NEEDED.split()),
    *((rule, "-multi") for rule in _NEEDED.split()),  # asked of by ACL DRYRUN
    *((rule, "-multi -acl|dryrun") for rule in _NEEDED.split()),  # by harmless forms
    ("info config|get set", "-client -echo"),
    ("info dbsize time config|get", "-multi -acl|dryrun"),
    (_NEEDED, "-client -echo -multi"),
    (_NEEDED.replace(" flushdb", ""), "-client -echo -multi -acl|dryrun"),
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """A server whose users the tests make."""
    with redis_started() as made:
        yield made


def _bench(server: RedisServer, *rules: str) -> RedisEndpointTarget:
    server.command("ACL", "SETUSER", "bench", "reset", "on", *rules)
    return RedisEndpointTarget(host=str(server.socket), user="bench")


@pytest.mark.parametrize(("lacking", "beside"), _LACKS)
def test_all_commands_that_a_user_lacks_are_named(
    guarded: RedisServer, lacking: str, beside: str
) -> None:
    """At once, before anything is done; the rules that the hint names are enough."""
    without = [f"-{rule}" for rule in lacking.split()]
    target = _bench(guarded, ">planted-7c", "~*", "+@all", *without, *beside.split())
    error = _refusal(_Place(guarded, target, password="planted-7c"))
    assert f"the user bench at {guarded.socket} may not use the command" in error.message
    listed = error.message.partition(" the command")[2].removeprefix("s").partition(", which")[0]
    names = {rule.upper().replace("|", " ") for rule in lacking.split()}
    assert set(listed.strip().split(", ")) == names
    line = error.hint.partition("ACL SETUSER bench ")[2].partition(".")[0].split()
    untried = ["+flushdb"] if "dbsize" in lacking and "dryrun" in beside else []
    assert {*line, *untried} == {*(f"+{rule}" for rule in lacking.split()), *untried}
    guarded.command("ACL", "SETUSER", "bench", *line)
    _Place(guarded, target, password="planted-7c").platform.require_ready()


@pytest.mark.parametrize("beside", ["", "-multi"])
@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("~order:* +@all", "the keys that Steelyard makes (~steelyard:* ~key:*)"),
        ("~steelyard:* +@all", "the keys that Steelyard makes (~key:*)"),
        ("%R~* +@all", "the keys that Steelyard makes (~steelyard:* ~key:*)"),
        ("~key:* +@all -info", "command INFO, which Steelyard needs, and the keys that Steelyard"),
        ("~order:* +@all -set -get -lpush", "commands GET, SET, LPUSH, which Steelyard needs"),
        ("~* +@all -lpush", "may not use the command LPUSH"),
    ],
)
def test_a_user_who_may_not_use_our_keys_is_told(
    guarded: RedisServer, rules: str, words: str, beside: str
) -> None:
    """Patterns of keys are part of what a user may, and so is the load where it needs no guest."""
    target = _bench(guarded, "nopass", *rules.split(), *beside.split())
    error = _refusal(_Place(guarded, target, commands=(("LPUSH", "key:list", "x"),)))
    assert words in error.message
    line = error.hint.partition("ACL SETUSER bench ")[2].partition(".")[0].split()
    more = error.hint.partition("add ")[2].partition(".")[0].split()
    guarded.command("ACL", "SETUSER", "bench", *line, *more)
    _Place(guarded, target, commands=(("LPUSH", "key:list", "x"),)).platform.require_ready()


def test_a_user_with_little_more_than_the_needed_can_work(guarded: RedisServer) -> None:
    """The commands that the manual names are enough, without ECHO, CLIENT and transactions."""
    rules = "+info +config|get +config|set +dbsize +time +get +set +flushdb +select"
    place = _Place(guarded, _bench(guarded, "nopass", "~*", *rules.split()))
    place.work()
    place.platform.destroy()
    assert keys_of(guarded) == {}
    assert setting_of(guarded, "maxmemory") == "0"


@pytest.mark.parametrize(
    ("renamed", "settings", "words"),
    [
        (("CONFIG",), _SETTINGS, "does not let CONFIG be used|compare two servers"),
        (
            ("CONFIG", "INFO"),
            _SETTINGS,
            "the commands INFO, CONFIG GET, CONFIG SET|two servers can",
        ),
        (("CONFIG", "CLIENT", "ECHO", "LATENCY", "SLOWLOG", "MEMORY", "COMMAND"), (), ""),
        (("INFO", "TIME"), (), "does not have the commands INFO, TIME, which|rename-command"),
        (("ACL",), (), "has no users (ACL, Redis 6)|without a password"),
        (("MULTI", "ACL"), (), "has no users (ACL, Redis 6)|without a password"),
        (("MULTI", "FLUSHDB"), (), "does not have the command FLUSHDB, which"),
    ],
)
def test_what_is_renamed_or_forbidden_is_no_knowledge(
    renamed: tuple[str, ...], settings: tuple[str, ...], words: str
) -> None:
    """Such a server does not say that it has no settings; what can do without them goes on."""
    forbidden = "\nrename-command ".join(f'{name} ""' for name in renamed)
    password = "planted-7c" if "ACL" in renamed else ""
    with redis_started({"rename-command": forbidden}, password=password) as own:
        target = RedisEndpointTarget(uri=own.uri)
        place = _Place(own, target, settings=settings, password=password)
        if words:
            error = _refusal(place)
            for word in words.split("|"):
                assert word in f"{error.message} {error.hint}"
            return
        place.work({})
        facts = {fact.name: fact.value for fact in place.platform.facts()}
        assert facts["database"] == "0, 1"  # how many there are is not shown
        assert "settings-unseen" in {finding.code for finding in place.platform.findings()}
        place.platform.destroy()


def test_a_server_that_cannot_save_is_refused() -> None:
    """MISCONF: its own words, and where to look."""
    with redis_started({"save": "3600 1"}) as own:
        gone = own.home / "gone"
        gone.mkdir()
        restart(own, dir=str(gone))
        gone.rmdir()
        own.command("BGSAVE")
        await_info(own, "persistence", "rdb_last_bgsave_status", "err")
        error = _refusal(_Place(own))
    assert "MISCONF" in error.message
    assert "disk" in error.hint


@pytest.mark.parametrize("password", ["a:b@c#d%e/f", "näh?&=+ ;", "%2F%00"])
def test_any_password_lets_the_user_in(guarded: RedisServer, password: str) -> None:
    """It comes from the environment, and no part of it is read as one of a URI."""
    _bench(guarded, f">{password}", "~*", "+@all")
    target = RedisEndpointTarget(uri=f"redis://bench@localhost:{guarded.port}/2")
    place = _Place(guarded, target, password=password)
    place.platform.require_ready()
    assert place.platform.facts()


@pytest.mark.parametrize(
    ("settings", "target", "words"),
    [
        ({"min-replicas-to-write": "1"}, {}, "too few replicas (min-replicas-to-write)"),
        ({"databases": "1"}, {}, "2 empty databases are needed, and the server at"),
        ({}, {"db": 99}, "database 99 of the server at 127.0.0.1:"),
        ({}, {"db": 15}, "database 16 of the server at 127.0.0.1:"),
        ({"bind": "127.0.0.1 ::1"}, {"host": "::1"}, ""),
        ({"bind": "127.0.0.1 ::1"}, {"host": "::1", "db": 14}, ""),
    ],
)
def test_what_a_server_is_set_to_decides(
    settings: dict[str, str], target: dict[str, object], words: str
) -> None:
    """Too few databases or replicas are told; an address of version 6 is as good as any."""
    with redis_started(settings) as own:
        place = _Place(
            own, RedisEndpointTarget(**{"host": "127.0.0.1", "port": own.port, **target})
        )
        if words:
            assert words in _refusal(place).message
        else:
            place.platform.require_ready()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((("maxmemory", "800kb"),), " to 800.0 KiB: it uses "),
        ((("maxmemory", "1gb"),), ""),
        ((("maxmemory", "800kb"), ("maxmemory-policy", "volatile-lru")), "would refuse writes"),
        ((("maxmemory", "800kb"), ("maxmemory-policy", "allkeys-lru")), ""),  # it makes room
    ],
)
def test_the_keys_must_fit_into_the_memory_of_each_configuration(
    guarded: RedisServer, values: tuple[tuple[str, str], ...], words: str
) -> None:
    """Whatever the server may use now."""
    place = _Place(guarded, values=values)
    if not words:
        place.platform.require_ready()
        return
    assert words in _refusal(place).message


@pytest.fixture(scope="module")
def secure() -> Iterator[tuple[RedisServer, dict[str, Path]]]:
    """A server whose port speaks TLS only and asks for a client's certificate."""
    with tls_started() as started:
        yield started


def _over_tls(secure: tuple[RedisServer, dict[str, Path]], **keys: str) -> RedisEndpointTarget:
    own, files = secure
    given = {"cacert": "ca.crt", "cert": "client.crt", "key": "client.key", **keys}
    paths = {name: str(files[file]) for name, file in given.items() if file}
    return RedisEndpointTarget(uri=f"rediss://localhost:{own.port}", **paths)


def test_tls_with_an_authority_and_a_client_certificate(
    secure: tuple[RedisServer, dict[str, Path]],
) -> None:
    """The whole way of a campaign goes over it, and what is noted leads back there."""
    place = _Place(secure[0], _over_tls(secure))
    place.work()
    facts = {fact.name: fact.value for fact in place.platform.facts()}
    assert facts["TLS"] == "yes"
    place.clean()
    assert keys_of(secure[0]) == {}
    place.platform.destroy()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda target: replace(target, cert=None, key=None), "certificate of the client"),
        (lambda target: replace(target, cacert=None), "certificate verify failed"),
        (lambda target: replace(target, cacert="/nowhere/ca"), "the files for TLS cannot be used"),
        (lambda target: replace(target, key=target.cacert), "the files for TLS cannot be used"),
        (lambda target: replace(target, uri=target.uri.replace("localhost", "127.0.0.1")), "match"),
        (lambda target: replace(target, uri=target.uri.replace("rediss", "redis")), "wants TLS"),
    ],
)
def test_tls_that_does_not_come_about_is_said(
    secure: tuple[RedisServer, dict[str, Path]],
    change: Callable[[RedisEndpointTarget], RedisEndpointTarget],
    words: str,
) -> None:
    """No client certificate, no authority, another name, no TLS at all: none of them works."""
    error = _refusal(_Place(secure[0], change(_over_tls(secure))))
    assert isinstance(error, TargetError)
    text = f"{error.message} {error.hint}"
    assert any(word in text for word in words.split("|")), text


def test_tls_to_a_server_without_it_is_said(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a server waits for more; however long its commands may take, nobody waits for ever."""
    monkeypatch.setattr(gateway, "_GREETING_TIMEOUT_S", 0.5)
    error = _refusal(_Place(server, RedisEndpointTarget(port=server.port, tls=True)))
    assert "does not answer" in error.message
    assert "TLS" in error.hint
    session = RedisDoor().connect(server.address, timeout_s=60)
    session.command("BLPOP", "no-such-list", "1")  # longer than the greeting may take
    session.close()


def test_more_clients_than_connections_are_refused() -> None:
    """With both numbers."""
    with redis_started({"maxclients": "10"}) as own:
        error = _refusal(_Place(own))
    assert "8 clients need 11" in error.message


def test_keys_that_do_not_fit_are_refused(server: RedisServer) -> None:
    """Before a server of somebody else runs out of memory."""
    server.command("CONFIG", "SET", "maxmemory", "3mb")
    place = _Place(server, settings=())
    place.platform._options = replace(place.platform._options, datasets=(("a", 5_000_000),))
    error = _refusal(place)
    assert "of memory left" in error.message
    server.command("CONFIG", "SET", "maxmemory", "2gb")
