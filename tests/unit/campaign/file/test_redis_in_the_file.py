"""What an experiment file may say of Redis, what it comes down to, and what is refused."""

from pathlib import Path

import pytest
from experiment_texts import load, only_problem, problems_of

from steelyard.campaign.file.files import allow_existing
from steelyard.core.experiment import Layer
from steelyard.core.target import (
    RedisEndpointTarget,
    RedisLocalTarget,
)
from steelyard.core.wording import InputError

# What the keys of these become is in the snapshots.
CANONICAL = """\
version: 1
engine: redis
name: AOF on local disk
baseline: aof-off
workloads:
  - {name: set, builtin: set, value_bytes: 180000, keys: 100000, loaded: 20000}
  - {name: get, builtin: get, keys: 100000, loaded: 100000}
load: {clients: [20], pipeline: 1}
generator: {program: redis-benchmark, flags: []}
configurations:
  aof-off:      {target: {kind: local}, redis: {appendonly: no, save: ""}}
  aof-everysec: {extends: aof-off, redis: {appendonly: yes, appendfsync: everysec}}
  split:        {extends: aof-off, target: {replica: {appendonly: yes, appendfsync: everysec}}}
"""
EVERY_KEY = """\
version: 1
engine: redis
name: every key
workloads:
  - {name: words, command: [HGET, 'user:__rand_int__', name]}
  - {name: line, command: 'HGET user:__rand_int__ name'}
load: {clients: [4, 8], pipeline: '1, 16'}
seed: 1
configurations:
  default: {target: {kind: local}, redis: {appendonly: true, IO-Threads: 04, save: ''}}
  heir: {extends: default, redis: {io-threads: null, appendonly: no}}
"""
EVERYWHERE = """\
version: 1
engine: redis
name: everywhere
workloads:
  - {name: sets, builtin: set}
load: {clients: 4, threads: 1}
seed: 1
configurations:
  default: {target: {kind: existing, uri: 'rediss://b@db:6380/3'}}
  keys:
    target: {kind: existing, host: db, port: 6380, user: b, db: 3, tls: true, cacert: ca.crt,
             allow_existing: true, restart_command: ssh db restart}
"""
IN_PODS = """\
version: 1
engine: redis
name: in pods
workloads:
  - {name: sets, builtin: set}
load: {clients: 4}
seed: 1
configurations:
  default:
    target: {kind: kubernetes, namespace: bench, image: 'redis:7.2', storage: 20Gi,
             storage_class: fast, resources: {limits: {cpu: 2}}}
  other: {extends: default}
"""
BEHIND_A_SERVICE = """\
version: 1
engine: redis
name: behind a service
workloads:
  - {name: sets, builtin: set}
load: {clients: 4}
seed: 1
configurations:
  default: {target: {kind: kubernetes, service: cache, secret: user, allow_existing: true}}
  other: {extends: default}
"""
REDIS = """\
version: 1
engine: redis
name: small
workloads:
  - {name: sets, builtin: set}
load: {clients: 4}
seed: 1
configurations:
  default: {target: {kind: local}}
  other: {extends: default}
"""


def with_target(keys: str, more: str = "") -> str:
    """Return the small experiment for Redis with the keys of another target."""
    return REDIS.replace("{kind: local}", f"{{{keys}}}") + more


def with_work(workload: str, more: str = "") -> str:
    """Return the small experiment for Redis with its workload replaced."""
    return REDIS.replace("{name: sets, builtin: set}", workload) + more


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("localhost", "neither `embedded`, nor a version"),
        ("redis://cache:6380/3", RedisEndpointTarget(uri="redis://cache:6380/3")),
        ("unix:///run/redis.sock", RedisEndpointTarget(uri="unix:///run/redis.sock")),
        ("valkey-server", RedisLocalTarget(server="valkey-server")),
        ("/opt/redis/bin", RedisLocalTarget(server="/opt/redis/bin")),
        ("local", RedisLocalTarget()),
        ("redis-local", "Write `engine: redis` at the top and `kind: local` here."),
        ("rds", "`rds` is no kind of target of Redis"),
        ("{kind: local, directory: /mnt}", RedisLocalTarget(directory="/mnt")),
        ("postgresql://h/d", "puts load on Redis, and the target is a server of PostgreSQL"),
        ("15", "puts load on Redis, and the target is a server of PostgreSQL"),
        ("redis://:hunter2@h", "has a password in it"),
        ("redis+sentinel://h:26379/mymaster", "begins with `redis+sentinel:` is not taken"),
        ("keydb://h:6379", "begins with `keydb:` is not taken"),
        ("tcp://h:6379", "begins with `tcp:` is not taken"),
        ("elasticache://h", "begins with `elasticache:` is not taken"),
        ("{kind: existing, uri: 'valkeys://h'}", "begins with `valkeys:` is not taken"),
    ],
)
def test_another_target_for_all(target: str, expected: object) -> None:
    """`--target` takes a URI of Redis, a program or a kind; a server of PostgreSQL is told so."""
    problems = problems_of(REDIS, f"target={target}")
    if isinstance(expected, str):
        told = [problem.located("f") for problem in problems]
        assert any(expected in each for each in told), told
        assert "hunter2" not in repr(told)
        return
    assert not problems
    experiment = load(REDIS, Path("/x"), f"target={target}").experiment
    assert {configuration.target for configuration in experiment.configurations} == {expected}


@pytest.mark.parametrize(
    ("loads", "threads"),
    [
        ("clients: 4, threads: [1, 2]", [1, 2]),
        ("clients: 4, generators: 2", [4]),
        ("clients: 1", [1]),
    ],
)
def test_threads_of_redis_benchmark(loads: str, threads: list[int]) -> None:
    """Two unless others are asked for, or fewer clients, or more generators."""
    found = load(REDIS.replace("clients: 4", loads)).experiment.loads
    assert [each.threads for each in found] == threads


def test_words_for_tests_of_the_generator() -> None:
    """`ping` stands for one test, where the program takes it for two."""
    for word, test in (("ping", "ping_mbulk"), ("lrange_100", "lrange_100"), ("mset", "mset")):
        experiment = load(with_work(f"{{name: x, builtin: {word}}}")).experiment
        assert experiment.workloads[0].builtin == test


def test_a_replica_needs_no_settings() -> None:
    """An empty replica is one."""
    text = with_target("kind: local, replica: {}")
    assert load(text).experiment.configuration("other").target == RedisLocalTarget(replica=())


def test_a_factor_of_redis() -> None:
    """The short form takes a setting of Redis."""
    head = REDIS.partition("configurations:")[0]
    base = "configurations:\n  base: {target: {kind: local}, redis: {appendonly: yes}}\n"
    factors = "factors:\n  fsync: {redis: {appendfsync: [everysec, always]}}\n"
    factors += "  aof: {redis: {no-appendfsync-on-rewrite: [false, true]}}\n"
    experiment = load(head + base + factors).experiment
    assert {t.name for t in experiment.configurations} == {"base", "fsync", "aof", "fsync+aof"}
    assert experiment.attribution is not None
    assert [f.second for f in experiment.attribution.factors] == ["always", "yes"]
    assert experiment.configuration("fsync+aof").asked(Layer.REDIS) == {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "yes",
    }


def test_limits_of_this_machine_are_for_servers_of_this_machine() -> None:
    """Control groups and kernel settings go with a server of this machine."""
    limited = "{extends: default, cgroup: {cpus: 1}, linux: {vm.swappiness: 1}}"
    assert not problems_of(REDIS.replace("{extends: default}", limited))


def test_the_flag_allows_servers_that_are_there() -> None:
    """`--allow-existing` is for endpoints and Services, and for nothing that Steelyard makes."""
    for keys in ("kind: existing", "kind: kubernetes, service: x"):
        allowed = allow_existing(load(with_target(keys))).experiment
        assert all(t.allow_existing for t in allowed.targets_of(RedisEndpointTarget).values())
    for keys in ("kind: local", "kind: kubernetes"):
        with pytest.raises(InputError, match="has none"):
            allow_existing(load(with_target(keys)))


def test_keys_must_fit_into_the_memory_of_this_machine() -> None:
    """16 GiB hold 90,000 values of 180,000 bytes and not 100,000; elsewhere nobody knows."""
    fits = "{name: x, builtin: set, value_bytes: 180000, loaded: 90000}"
    assert not problems_of(with_work(fits))
    beyond = with_work(fits.replace("90000", "100000"))
    assert not problems_of(beyond.replace("kind: local", "kind: existing"))


_FOREIGN = Path(__file__).parents[3] / "recordings" / "foreign" / "redis"
_POINTS = '"900 1 300 10"'


@pytest.mark.parametrize(
    ("name", "points"),
    [
        *((name, _POINTS) for name in ("s2", "s3", "samp", "samp2", "save", "set")),
        *(("save", points) for points in ("[900 1, 300 10]", "{900: 1}", "[[900, 1]]")),
    ],
)
def test_files_that_others_wrote_for_redis(name: str, points: str) -> None:
    """They are taken, several save points as one text; lists are refused where they stand."""
    text = (_FOREIGN / f"{name}.yaml").read_text().replace(_POINTS, points)
    if points == _POINTS:
        assert not problems_of(text)
        return
    assert "is a list or mapping, not a setting's value (Write it as one text" in only_problem(text)


OTHERS = """\
version: 1
engine: redis
name: small
workloads:
  - {name: x, command: COMMAND}
load: {clients: 4}
seed: 1
configurations:
  default: {target: {TARGET}}
  other: {extends: default}
"""
ENDPOINT = "kind: existing, host: db1"
SERVICE = "kind: kubernetes, service: cache"


def _sending(command: str, target: str = ENDPOINT) -> str:
    return OTHERS.replace("COMMAND", command).replace("TARGET", target)


@pytest.mark.parametrize(
    "command",
    ["PING", "GET a", "hset h f __data__", "MGET a b", "ZADD z 1 __rand_int__", "MSET a 1 b 2"],
)
def test_what_stays_with_its_keys_is_sent(command: str) -> None:
    """The usual reads and writes, in whichever case, to both kinds of servers."""
    assert not problems_of(_sending(command))
    assert not problems_of(_sending(command, SERVICE))


def test_own_servers_get_scripts() -> None:
    """A server that Steelyard starts holds nothing of others; a ramp may be left out there."""
    text = _sending("EVAL 'return 1' 0", "kind: local") + "measure: {discard_start: 0}\n"
    assert not problems_of(text)
