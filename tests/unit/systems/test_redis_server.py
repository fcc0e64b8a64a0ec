"""Redis programs and their replica: where they are, when one is ready, how data grow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fakes.campaigns import an_experiment, asks_redis
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import Answer, FakeProcesses
from fakes.programs import FakeLedger
from fakes.redis_sessions import ToldDoor, ToldSession
from steelyard.core.experiment import Configuration, Experiment, KeySpace, RedisWork, Workload
from steelyard.core.outside import ServerAddress
from steelyard.core.target import RedisLocalTarget
from steelyard.core.wording import GIB, MIB, PreflightError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.redis import Reply, ReplyError
from steelyard.gateways.redis_client import connection_failure
from steelyard.systems.redis.datasets import aof_bytes, growth_bytes, growth_findings
from steelyard.systems.redis.existing import readiness
from steelyard.systems.redis.existing.platform import RedisEndpointOptions, RedisEndpointPlatform
from steelyard.systems.redis.server import (
    RedisInstallation,
    RedisProgram,
    RedisReplica,
    Refusal,
    find_redis,
    refused_of_replica,
    version_finding,
)
from steelyard.systems.redis.settings import RedisSetting

INSTALLATION = RedisInstallation(
    server=Path("/usr/bin/redis-server"), benchmark=None, version="7.0.15", flavour="redis"
)
ADDRESS = ServerAddress(host="/tmp/sockets", port=7001)  # noqa: S108 - nothing is made there
SOCKETS = Path(ADDRESS.host)
DOOR = ToldDoor(ToldSession({}))
Asked = tuple[tuple[str, str], ...]


def program(replica: Asked | None) -> RedisProgram:
    """Return a server program with or without a replica."""
    return RedisProgram(installation=INSTALLATION, redis=DOOR, replica=replica)


def lines(text: str) -> dict[str, str]:
    """Return the settings of a configuration file."""
    pairs = (line.partition(" ") for line in text.splitlines() if line and line[0] != "#")
    return {name: value for name, _, value in pairs}


def test_without_a_replica_nothing_is_beside_and_no_port_is_open() -> None:
    """The usual server is alone on its socket."""
    server = program(None)
    assert server.companion({}, ADDRESS) is None
    assert lines(server.configuration({}, ADDRESS, SOCKETS)["redis.conf"])["port"] == '"0"'


def test_a_primary_is_reached_by_its_replica() -> None:
    """Replication needs a port: open on the loopback network alone, and no sync waits."""
    made = lines(program(()).configuration({}, ADDRESS, SOCKETS)["redis.conf"])
    assert (made["port"], made["bind"]) == ('"7001"', '"127.0.0.1"')
    assert made["repl-diskless-sync-delay"] == '"0"'
    asked = {"repl-diskless-sync-delay": "3"}
    kept = lines(program(()).configuration(asked, ADDRESS, SOCKETS)["redis.conf"])
    assert kept["repl-diskless-sync-delay"] == '"3"'


def test_a_replica_has_the_servers_settings_but_its_own() -> None:
    """What it does not name it has of its server; the primary's address is two words."""
    server = program((("appendonly", "yes"), ("maxmemory", "2gb")))
    beside = server.companion({"appendonly": "no", "save": ""}, ADDRESS)
    assert beside is not None
    own = ServerAddress(host=ADDRESS.host, port=7002)
    made = lines(beside.program.configuration(beside.settings, own, SOCKETS)["redis.conf"])
    assert made["appendonly"] == '"yes"'
    assert made["save"] == '""'
    assert made["maxmemory"] == '"2gb"'
    assert made["replicaof"] == '"127.0.0.1" "7001"'
    assert (made["port"], made["unixsocket"]) == ('"0"', '"/tmp/sockets/redis-7002.sock"')
    assert beside.program.companion(beside.settings, own) is None


def arriving(replicas: int) -> dict[str, list[int]]:
    """Return the answers of a primary whose message reaches so many replicas."""
    return {"PUBLISH steelyard:arrived ": [0], "WAIT 1 500": [replicas]}


@pytest.mark.parametrize(
    ("link", "rewriting", "scheduled", "fed", "ready"),
    [
        ("up", 0, 0, 1, True),
        ("down", 0, 0, 1, False),
        ("up", 1, 0, 1, False),
        ("up", 0, 1, 1, False),
        ("up", 0, 0, 0, False),
    ],
)
def test_it_is_ready_when_it_has_everything(
    link: str, rewriting: int, scheduled: int, fed: int, *, ready: bool
) -> None:
    """Linked, its append-only file rewritten, as its disk has nothing before, and sent more."""
    told = (
        f"master_link_status:{link}\r\naof_rewrite_in_progress:{rewriting}\r\n"
        f"aof_rewrite_scheduled:{scheduled}\r\n"
    )
    session = ToldSession({"INFO everything": [told.encode()], **arriving(fed)})
    replica = RedisReplica(installation=INSTALLATION, redis=ToldDoor(session), primary=ADDRESS)
    assert replica.is_ready(ADDRESS) is ready
    assert session.closed


@pytest.mark.parametrize(("fsync", "is_as_asked"), [("always", True), ("everysec", False)])
def test_what_is_in_force_is_read_back(fsync: str, *, is_as_asked: bool) -> None:
    """A replica with another value than it was asked for would be measured under a wrong name."""
    told = "master_link_status:up\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n"
    session = ToldSession(
        {
            "INFO everything": [told.encode()],
            "CONFIG GET *": [[b"appendonly", b"yes", b"appendfsync", fsync.encode()]],
            **arriving(1),
        }
    )
    server = RedisProgram(
        installation=INSTALLATION, redis=ToldDoor(session), replica=(("appendonly", "yes"),)
    )
    beside = server.companion({"AppendFsync": "always", "appendonly": "no"}, ADDRESS)
    assert beside is not None
    if is_as_asked:
        assert beside.program.is_ready(ADDRESS)
    else:
        with pytest.raises(TargetError, match="appendfsync was asked to be 'always'"):
            beside.program.is_ready(ADDRESS)


def test_one_that_is_loading_is_not_ready() -> None:
    """A refusal of INFO is an answer of a server that is not ready, not an error."""
    session = ToldSession({})
    replica = RedisReplica(installation=INSTALLATION, redis=ToldDoor(session), primary=ADDRESS)
    assert not replica.is_ready(ADDRESS)


@dataclass
class Trials:
    """A server that refuses what the test says."""

    refused: tuple[Refusal, ...] = ()
    tried: dict[str, str] = field(default_factory=dict)
    installation: RedisInstallation = INSTALLATION

    def refusals(self, settings: dict[str, str]) -> tuple[Refusal, ...]:
        """Return them, and remember what was asked."""
        self.tried = dict(settings)
        return self.refused


CATALOGUE = {
    name: RedisSetting(name=name, default="", changeable=True)
    for name in ("appendonly", "appendfsync", "replicaof")
}


def complained(replica: Asked | None, trials: Trials) -> list[str]:
    """Return what is said against a replica's settings."""
    configuration = Configuration(
        name="split", target=RedisLocalTarget(replica=replica), settings=()
    )
    return [each.message for each in refused_of_replica(configuration, trials, CATALOGUE)]


def test_what_its_program_refuses_is_told_before_the_start() -> None:
    """Unknown names, wrong values and what Steelyard sets: each is told as the replica's."""
    trials = Trials(refused=(Refusal(setting="appendfsync", words="argument must be ..."),))
    asked = (("appendfsync", "sometimes"), ("apendonly", "yes"), ("replicaof", "there 1"))
    told = complained(asked, trials)
    assert [text for text in told if "`apendonly` of the replica" in text]
    assert [text for text in told if "`replicaof` of the replica is set by Steelyard" in text]
    assert [text for text in told if "refuses `appendfsync` of the replica: argument" in text]
    assert trials.tried == {"appendfsync": "sometimes"}


@pytest.mark.parametrize("replica", [None, (), (("appendonly", "yes"),)])
def test_good_settings_are_not_complained_about(replica: Asked | None) -> None:
    """Neither without a replica nor with one that is as its server."""
    assert complained(replica, Trials()) == []


def _programs(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch(mode=0o755)
    return directory


def _processes(directory: Path, stdout: str, name: str = "redis-server") -> FakeProcesses:
    made = FakeProcesses(FakeClock())
    made.on(name, "--version", answer=Answer(stdout=stdout))
    return made


def test_a_directory_holds_the_server_and_its_generator(tmp_path: Path) -> None:
    """The programs beside the server come before those of PATH; `bin` below it is looked into."""
    place = _programs(tmp_path / "x" / "bin", "valkey-server", "valkey-benchmark")
    said = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n"
    found = find_redis(str(tmp_path / "x"), _processes(place, said, "valkey-server"))
    assert found.server == place / "valkey-server"
    assert found.benchmark == place / "valkey-benchmark"
    assert (found.label, found.version_key) == ("Valkey 8.0.1", (8, 0, 1))
    assert version_finding(found) is None


def test_what_is_no_server_is_told_with_what_it_says(tmp_path: Path) -> None:
    """A program of another kind is not taken for Redis of an unknown version."""
    place = _programs(tmp_path, "redis-server")
    with pytest.raises(PreflightError, match="is no Redis server") as caught:
        find_redis(str(place), _processes(place, "postgres (PostgreSQL) 15.3\n"))
    assert "PostgreSQL" in caught.value.message


@pytest.mark.parametrize(
    ("bin_", "hint"),
    [
        ("no-such-redis-server", "apt-get install redis-server"),
        ("no-such-valkey-server", "apt-get install valkey-server"),
    ],
)
def test_a_program_that_is_absent_is_told_with_its_package(bin_: str, hint: str) -> None:
    """The way out names the package of what was asked for."""
    with pytest.raises(PreflightError, match=f"there is no {bin_}") as caught:
        find_redis(bin_, FakeProcesses(FakeClock()))
    assert hint in caught.value.hint


def test_what_the_set_up_brought_is_found_after_the_systems_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server and generator beside this Python are taken where PATH has none."""
    brought = _programs(tmp_path / "environment", "redis-server", "redis-benchmark")
    installed = _programs(tmp_path / "system", "redis-server")
    processes = _processes(brought, "Redis server v=7.0.15 sha=00000000:0\n")
    monkeypatch.setattr("sys.executable", str(brought / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    found = find_redis("redis-server", processes)
    assert (found.server, found.benchmark) == (
        brought / "redis-server",
        brought / "redis-benchmark",
    )
    monkeypatch.setenv("PATH", str(installed))
    assert find_redis("redis-server", processes).server == installed / "redis-server"


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    """It has neither of the two servers."""
    with pytest.raises(PreflightError, match="neither redis-server nor valkey-server"):
        find_redis(str(tmp_path), FakeProcesses(FakeClock()))


def test_a_version_that_no_test_runs_is_told() -> None:
    """An unknown major version is a finding of no weight."""
    installation = RedisInstallation(
        server=Path("/x"), benchmark=None, version="9.1", flavour="redis"
    )
    finding = version_finding(installation)
    assert finding is not None
    assert "Redis 9.1" in finding.message


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 0),
        ({"appendonly": "no"}, 0),
        ({"appendonly": "yes"}, 2 * 2 * 100 * MIB),
        ({"appendonly": "yes", "auto-aof-rewrite-min-size": "1gb"}, 2 * 2 * GIB),
        ({"appendonly": "yes", "auto-aof-rewrite-percentage": "0"}, GIB),
        ({"appendonly": "yes", "auto-aof-rewrite-percentage": "²"}, GIB),
    ],
)
def test_the_room_of_an_append_only_file(settings: dict[str, str], expected: int) -> None:
    """It grows to a share of the data before it is rewritten, and without rewriting for ever."""
    assert aof_bytes(settings, 100 * MIB) == expected


@pytest.mark.parametrize(
    ("answers", "is_ready"), [({"DBSIZE": [37_501]}, True), ({"PING": [b"PONG"]}, False)]
)
def test_a_server_that_loads_its_data_is_not_ready(
    answers: Mapping[str, Sequence[Reply]], *, is_ready: bool
) -> None:
    """Redis 7.0 answers PING while it loads and refuses what asks for keys; no session stays."""
    session = ToldSession(answers)
    program = RedisProgram(installation=INSTALLATION, redis=ToldDoor(session))
    assert program.is_ready(ServerAddress(host="/tmp/x", port=1)) is is_ready  # noqa: S108
    assert session.closed


@pytest.mark.parametrize(
    ("told", "is_loading"),
    [
        (b"loading:1\r\n", True),
        (b"loading:0\r\nmaster_sync_in_progress:1\r\n", True),
        (b"loading:0\r\naof_rewrite_in_progress:1\r\n", True),
        (b"loading:0\r\nmaster_sync_in_progress:0\r\n", False),
        (None, False),
    ],
)
def test_a_server_says_that_it_comes_nearer(told: bytes | None, *, is_loading: bool) -> None:
    """Reading its files, a sync and the rewrite after it take as long as the data are large."""
    session = ToldSession({} if told is None else {"INFO everything": [told]})
    program = RedisProgram(installation=INSTALLATION, redis=ToldDoor(session))
    assert program.is_loading(ServerAddress(host="/tmp/x", port=1)) is is_loading  # noqa: S108


@pytest.mark.parametrize(("datasets", "databases"), [(1, None), (16, None), (17, "17")])
def test_a_server_that_is_filled_has_a_database_for_each_set_of_keys(
    datasets: int, databases: str | None
) -> None:
    """One that has too few by itself would refuse the keys that they have room for."""
    door = ToldDoor(ToldSession({}))
    program = RedisProgram(installation=INSTALLATION, redis=door, datasets=datasets)
    assert program.while_preparing.get("databases") == databases
    assert program.while_preparing["save"] == ""


def _growth(command: str = "", *, builtin: str | None = None) -> int | None:
    space = KeySpace(keys=1000, loaded=10, value_bytes=50_000)
    work = RedisWork(space=space, command=tuple(command.split()))
    return growth_bytes(Workload(name="x", builtin=builtin, redis=work))


def test_every_key_that_may_be_set_is_counted() -> None:
    """Not the loaded ones only: a thousand values of 50 kB, and something for each key."""
    for growth in (_growth(builtin="set"), _growth("SET k:__rand_int__ __data__")):
        assert growth is not None
        assert 50_000_000 < growth < 51_000_000
    ten = _growth(builtin="mset")
    assert ten is not None
    assert ten > 10 * 50_000_000


@pytest.mark.parametrize("builtin", ["get", "ping", "lrange_100", "lpop", "spop"])
def test_what_reads_or_removes_takes_nothing(builtin: str) -> None:
    """No key comes into being, or one goes."""
    assert _growth(builtin=builtin) == 0


@pytest.mark.parametrize("command", ["LPUSH l __data__", "RPUSH l x", "APPEND k x", "XADD s * f v"])
def test_what_grows_has_no_bound(command: str) -> None:
    """Each request makes more, whatever the number of keys; so does what is not known."""
    assert _growth(command) is None
    assert _growth(builtin="lpush") is None
    assert _growth("SETRANGE k 500000000 x") is None


def test_members_are_counted_for_each_key() -> None:
    """A thousand keys with one field, one key with a thousand, a thousand with a thousand each."""
    one = _growth("HSET k:__rand_int__ f v")
    other = _growth("HSET k f:__rand_int__ v")
    both = _growth("HSET k:__rand_int__ f:__rand_int__ v")
    assert one is not None
    assert other is not None
    assert both is not None
    assert 100_000 < one < 200_000
    assert 100_000 < other < 200_000
    assert both > 900 * one
    assert _growth("ZADD z __rand_int__ m") == _growth("ZADD z __rand_int__ m")
    fixed = _growth("ZADD z __rand_int__ m")
    assert fixed is not None
    assert fixed < 1000


SPACE = KeySpace(keys=100_000, loaded=20_000, value_bytes=180_000)


def weighing(work: Workload, **settings: str) -> Experiment:
    """Return an experiment on one workload whose configurations ask for these settings."""
    plain = an_experiment()
    arms = [
        replace(each, target=RedisLocalTarget(), settings=asks_redis(**settings))
        for each in plain.configurations
    ]
    return replace(plain, workloads=(work,), configurations=tuple(arms))


@pytest.mark.parametrize(
    ("builtin", "space", "said"),
    [
        ("set", SPACE, "SET may write up to 16.8 GiB"),
        ("lpush", KeySpace(keys=1, value_bytes=3), "LPUSH makes its data larger"),
        ("get", SPACE, ""),
        ("incr", SPACE, ""),
        ("set", replace(SPACE, loaded=100_000), ""),
        ("set", replace(SPACE, value_bytes=3), ""),
    ],
)
def test_what_grows_beyond_what_is_loaded_is_told(builtin: str, space: KeySpace, said: str) -> None:
    """A load that writes fills the server up to its keys, a list without end; others do not."""
    work = Workload(name="w", builtin=builtin, redis=RedisWork(space=space))
    found = [each.message for each in growth_findings(weighing(work))]
    assert len(found) == bool(said)
    assert all(message.startswith(said) for message in found)
    assert not list(growth_findings(weighing(work, maxmemory="1gb")))


class Refusing(ToldSession):
    """A server that refuses some commands in the words of its version, and queues the others."""

    def __init__(self, refused: dict[str, str], mode: str = "standalone") -> None:
        super().__init__({})
        self._refused = refused
        self._mode = mode

    def command(self, *words: str | bytes | int) -> Reply:
        """Return that it is queued, or raise."""
        asked = " ".join(map(str, words))
        for begin, text in self._refused.items():
            if asked.startswith(begin):
                raise ReplyError(f"h:6379 refuses a command: {text}")
        if asked == "INFO everything":
            return f"redis_version:7.2.4\r\nredis_mode:{self._mode}\r\n".encode()
        return b"QUEUED"


_NEEDS = (
    readiness.Need(words=("INFO",)),
    readiness.Need(words=("SET", "steelyard:campaign", "x"), keys=("~steelyard:*",)),
    readiness.Need(words=("CONFIG", "SET", "save", "")),
)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (
            {"CONFIG": "this user has no permissions to run the 'config' command or its own"},
            "may not use the command CONFIG SET, |ACL SETUSER bench +config|set.",
        ),
        (
            {
                "INFO": "User bench has no permissions to run the 'info' command",
                "SET": "No permissions to access a key",
            },
            "the command INFO, which Steelyard needs, and the keys|bench +info ~steelyard:*.",
        ),
        (
            {"SET": "this user has no permissions to access one of the keys used as arguments"},
            "may not use the keys that Steelyard makes (~steelyard:*)|bench ~steelyard:*.",
        ),
        (
            {"CONFIG": "unknown command `CONFIG`, with args beginning with: `SET`, `save`, "},
            "does not let CONFIG be used|compare two servers",
        ),
        (
            {"CONFIG": "unknown command 'config', with args beginning with: 'set' 'save' "},
            "does not let CONFIG be used|compare two servers",
        ),
        ({"INFO": "unknown command 'INFO'"}, "does not have the command INFO|It may have been r"),
        (
            {"INFO": "unknown command 'INFO'", "CONFIG": "unknown command 'CONFIG'"},
            "the commands INFO, CONFIG SET, which|They may|two servers can be compared",
        ),
    ],
)
def test_refusals_in_the_words_of_any_version(refused: dict[str, str], words: str) -> None:
    """Of Redis 6.0 to 7.4 and Valkey, and of managed servers that forbid commands."""
    address = ServerAddress(host="h", port=6379, user="bench")
    with pytest.raises(PreflightError) as caught:
        readiness.require_allowed(address, _means(Refusing(refused)), "h:6379", _NEEDS)
    for word in words.replace("config|set", "config/set").split("|"):
        assert word.replace("/", "|") in f"{caught.value.message} {caught.value.hint}"


def test_a_sentinel_is_said_to_be_one_not_to_lack_commands() -> None:
    """It has INFO and few others, and knows where the server is."""
    lacks = {name: f"unknown command '{name}'" for name in ("SET", "CONFIG")}
    address = ServerAddress(host="h", port=26379)
    with pytest.raises(PreflightError, match="is a sentinel") as caught:
        readiness.require_allowed(address, _means(Refusing(lacks, "sentinel")), "h:26379", _NEEDS)
    assert "GET-MASTER-ADDR-BY-NAME" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Error 2 connecting to h:6379. No such file or directory.", "files for TLS cannot be"),
        ("Error 116 connecting to h:6379. [X509: KEY_VALUES_MISMATCH] key va", "files for TLS"),
        ("Error 2 connecting to /tmp/a.sock. No such file or directory.", "cannot be reached"),
    ],
)
def test_a_file_that_is_not_there_is_not_taken_for_a_server(text: str, words: str) -> None:
    """Hosts are connected to without files but those of TLS; sockets are files."""
    assert words in connection_failure(text, where="h:6379").message


def test_an_empty_answer_is_no_knowledge() -> None:
    """A server that shows no settings has some; one that says nothing of itself may hold keys."""
    address = ServerAddress(host="h", port=6379)
    told = {"INFO everything": [b"redis_version:7.2.4\r\n"], "CONFIG GET *": [[]]}
    state = readiness.read_state(address, _means(ToldSession(told)), "h:6379")
    assert state.settings is None
    proxy = ToldSession({"INFO everything": [b""], "CONFIG GET *": [[]]})
    with pytest.raises(PreflightError, match="does not describe itself"):
        readiness.read_state(address, _means(proxy), "h:6379")


class Hiding(Refusing):
    """A server that describes itself and shows no settings."""

    def command(self, *words: str | bytes | int) -> Reply:
        """Return a description, no setting, or that a command is queued."""
        answers: dict[str | bytes | int, Reply] = {"INFO": b"redis_version:7.2.4\r\n"}
        return [] if words[-1] == "*" else answers.get(words[0], b"QUEUED")


def test_settings_that_a_server_hides_cannot_be_compared() -> None:
    """They could not go back to what they were."""
    options = RedisEndpointOptions(
        entrance=ServerAddress(host="h", port=6379),
        campaign_id="night-1",
        datasets=(("keys", 1),),
        settings=("save",),
        clients=1,
    )
    with pytest.raises(PreflightError, match="shows no settings"):
        _ = RedisEndpointPlatform(options, FakeLedger(), _means(Hiding({}))).state


@pytest.mark.parametrize(
    ("host", "primary"), [("10.0.0.1", "10.0.0.1:6379"), ("::1", "[::1]:6379")]
)
def test_a_replica_names_its_primary(host: str, primary: str) -> None:
    """In a form that another target can take: an IPv6 address stands in brackets."""
    lines = f"redis_version:7.2.4\r\nrole:slave\r\nmaster_host:{host}\r\nmaster_port:6379\r\n"
    told = {"INFO everything": [lines.encode()], "CONFIG GET *": [[]]}
    address = ServerAddress(host="h", port=6379)
    state = readiness.read_state(address, _means(ToldSession(told)), "h:6379")
    with pytest.raises(PreflightError) as caught:
        readiness.require_one_server(state, "h:6379")
    assert caught.value.hint == f"Name the primary: {primary}."


def _means(session: ToldSession) -> Doors:
    return fake_doors(redis=ToldDoor(session))
