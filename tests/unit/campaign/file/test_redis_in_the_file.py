"""What an experiment file may say of Redis, what it comes down to, and what is refused."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, only_problem, problems_of
from pydantic import TypeAdapter

from steelyard.campaign.file.files import allow_existing
from steelyard.campaign.file.form import experiment_schema
from steelyard.core.experiment import Experiment, GeneratorName, KeySpace, Layer, RedisWork, Setting
from steelyard.core.schedule import Load
from steelyard.core.target import (
    ClusterService,
    EngineName,
    KubernetesPlace,
    PodResources,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
)
from steelyard.core.wording import InputError

CANONICAL = """\
version: 1
name: AOF on local disk
baseline: aof-off
workloads:
  - {name: set, builtin: set, value_bytes: 180000, keys: 100000, loaded: 20000}
  - {name: get, builtin: get, keys: 100000, loaded: 100000}
loads: {clients: [20], pipeline: 1}
generator: {program: redis-benchmark, flags: []}
configurations:
  aof-off:      {target: {kind: redis-local}, redis: {appendonly: no, save: ""}}
  aof-everysec: {extends: aof-off, redis: {appendonly: yes, appendfsync: everysec}}
  split:        {extends: aof-off, target: {replica: {appendonly: yes, appendfsync: everysec}}}
"""
REDIS = """\
version: 1
name: small
workloads:
  - {name: sets, builtin: set}
loads: {clients: 4}
seed: 1
configurations:
  default: {target: {kind: redis-local}}
  other: {extends: default}
"""


def with_target(keys: str, more: str = "") -> str:
    """Return the small experiment for Redis with the keys of another target."""
    return REDIS.replace("{kind: redis-local}", f"{{{keys}}}") + more


def with_work(workload: str, more: str = "") -> str:
    """Return the small experiment for Redis with its workload replaced."""
    return REDIS.replace("{name: sets, builtin: set}", workload) + more


def with_settings(settings: str) -> str:
    """Return the small experiment for Redis with settings in its second configuration."""
    return REDIS.replace("{extends: default}", f"{{extends: default, redis: {settings}}}")


def test_a_misspelled_kind_is_one_problem() -> None:
    """The rest of the file is of Redis still, and is not told to be of the other system."""
    text = CANONICAL.replace("kind: redis-local", "kind: redis-locl")
    assert "configurations.aof-off.target.kind: `redis-locl` is no kind" in only_problem(text)


def test_the_canonical_file() -> None:
    """Every value is where the model has it; what is not written has the defaults of Redis."""
    experiment = load(CANONICAL).experiment
    assert experiment.engine is EngineName.REDIS
    assert experiment.generator is GeneratorName.REDIS_BENCHMARK
    assert experiment.loads == (Load(clients=20, threads=2),)
    assert experiment.measure.ramp_s == 0.0
    assert [workload.builtin for workload in experiment.workloads] == ["set", "get"]
    assert experiment.workload("set").redis == RedisWork(
        space=KeySpace(keys=100_000, loaded=20_000, value_bytes=180_000)
    )
    assert experiment.workload("get").redis == RedisWork(space=KeySpace(loaded=100_000))
    assert experiment.configuration("aof-everysec").settings == (
        Setting(layer=Layer.REDIS, name="appendfsync", value="everysec"),
        Setting(layer=Layer.REDIS, name="appendonly", value="yes"),
        Setting(layer=Layer.REDIS, name="save", value=""),
    )
    split = experiment.configuration("split")
    assert split.asked(Layer.REDIS) == {"appendonly": "no", "save": ""}
    assert split.target == RedisLocalTarget(
        replica=(("appendfsync", "everysec"), ("appendonly", "yes"))
    )


def test_the_record_keeps_redis() -> None:
    """An experiment comes back from JSON with the same targets, keys and settings."""
    adapter = TypeAdapter(Experiment)
    for text in (CANONICAL, with_target("kind: redis-endpoint, uri: 'redis://h/3'")):
        experiment = load(text).experiment
        assert adapter.validate_json(adapter.dump_json(experiment)) == experiment


def test_values_reach_redis_as_config_set_takes_them() -> None:
    """Booleans become yes and no, spellings stay, names are folded, null removes."""
    text = REDIS.replace(
        "{target: {kind: redis-local}}",
        "{target: {kind: redis-local}, redis: {appendonly: true, IO-Threads: 04, save: ''}}",
    ).replace("{extends: default}", "{extends: default, redis: {io-threads: null, appendonly: no}}")
    experiment = load(text).experiment
    asked = {t.name: t.asked(Layer.REDIS) for t in experiment.configurations}
    assert asked == {
        "default": {"appendonly": "yes", "io-threads": "04", "save": ""},
        "other": {"appendonly": "no", "save": ""},
    }


def test_an_endpoint_by_its_keys_and_by_its_uri() -> None:
    """Both ways of naming a server reach the model; files are relative to the experiment's."""
    keys = "kind: redis-endpoint, host: db, port: 6380, user: b, db: 3, tls: yes, cacert: ca.crt"
    text = with_target(f"{keys}, allow_existing: yes, restart_command: ssh db restart")
    assert load(text, Path("/x")).experiment.configuration("other").target == RedisEndpointTarget(
        host="db",
        port=6380,
        user="b",
        db=3,
        tls=True,
        cacert="/x/ca.crt",
        allow_existing=True,
        restart_command=("ssh", "db", "restart"),
    )
    text = with_target("kind: redis-endpoint, uri: 'rediss://b@db:6380/3'")
    assert load(text).experiment.configuration("default").target == RedisEndpointTarget(
        uri="rediss://b@db:6380/3"
    )


def test_a_server_in_a_cluster_made_or_there() -> None:
    """A StatefulSet with its volume, or a Service with its Secret."""
    text = with_target(
        "kind: redis-kubernetes, namespace: bench, image: 'redis:7.2', storage: 20Gi,"
        " storage_class: fast, resources: {limits: {cpu: 2}}"
    )
    made = load(text).experiment.configuration("default").target
    assert isinstance(made, RedisKubernetesTarget)
    assert (made.image, made.storage, made.storage_class) == ("redis:7.2", "20Gi", "fast")
    assert made.resources == PodResources(requests=(("cpu", "2"),), limits=(("cpu", "2"),))
    assert made.is_made
    assert load(text).experiment.is_in_kubernetes
    text = with_target("kind: redis-kubernetes, service: cache, secret: user, allow_existing: yes")
    there = load(text).experiment.configuration("default").target
    assert isinstance(there, RedisKubernetesTarget)
    assert there.service == ClusterService(
        place=there.place, service="cache", port=6379, secret="user"
    )
    assert there.place == KubernetesPlace(generators=there.place.generators)
    assert there.allow_existing


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("localhost", "neither `embedded`, nor a version"),
        ("redis://cache:6380/3", RedisEndpointTarget(uri="redis://cache:6380/3")),
        ("unix:///run/redis.sock", RedisEndpointTarget(uri="unix:///run/redis.sock")),
        ("valkey-server", RedisLocalTarget(bin="valkey-server")),
        ("/opt/redis/bin", RedisLocalTarget(bin="/opt/redis/bin")),
        ("redis-local", RedisLocalTarget()),
        ("{kind: redis-local, directory: /mnt}", RedisLocalTarget(directory="/mnt")),
        ("postgresql://h/d", "puts load on Redis, and the target is a server of PostgreSQL"),
        ("15", "puts load on Redis, and the target is a server of PostgreSQL"),
        ("redis://:hunter2@h", "has a password in it"),
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


def test_an_experiment_of_postgresql_stays_with_postgresql() -> None:
    """`--target redis://...` for a file of pgbench is one sentence, not one for every key."""
    told = only_problem(SMALL, "target=redis://cache")
    assert "puts load on PostgreSQL, and the target is a server of Redis" in told
    assert "redis-" in told


def test_a_setting_on_the_command_line() -> None:
    """`--set` reaches a setting of Redis, also one with a dot in its name."""
    experiment = load(
        REDIS,
        Path("/x"),
        "configurations.other.redis.appendonly=yes",
        "configurations.other.redis.a.b=1",
    ).experiment
    assert experiment.configuration("other").asked(Layer.REDIS) == {"appendonly": "yes", "a.b": "1"}


def test_every_pipeline_and_thread_is_a_load() -> None:
    """Pipelines multiply loads; redis-benchmark has two threads unless others are asked for."""
    text = REDIS.replace("{clients: 4}", "{clients: [4, 8], pipeline: '1, 16'}")
    assert load(text).experiment.loads == tuple(
        Load(clients=clients, threads=2, pipeline=pipeline)
        for clients in (4, 8)
        for pipeline in (1, 16)
    )
    text = REDIS.replace("{clients: 4}", "{clients: 4, threads: [1, 2]}")
    assert [load.threads for load in load(text).experiment.loads] == [1, 2]
    text = REDIS.replace("{clients: 4}", "{clients: 4, generators: 2}")
    assert [load.threads for load in load(text).experiment.loads] == [4]
    text = REDIS.replace("{clients: 4}", "{clients: 1}")
    assert [load.threads for load in load(text).experiment.loads] == [1]


def test_words_for_tests_of_the_generator() -> None:
    """`ping` stands for one test, where the program takes it for two."""
    for word, test in (("ping", "ping_mbulk"), ("lrange_100", "lrange_100"), ("mset", "mset")):
        experiment = load(with_work(f"{{name: x, builtin: {word}}}")).experiment
        assert experiment.workloads[0].builtin == test


def test_a_command() -> None:
    """A command is words or one line."""
    for command in ("[HGET, 'user:__rand_int__', name]", "HGET user:__rand_int__ name"):
        experiment = load(with_work(f"{{name: x, command: {command}}}")).experiment
        work = experiment.workloads[0].redis
        assert work is not None
        assert work.command == ("HGET", "user:__rand_int__", "name")


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("{name: x}", "neither `builtin` nor `command`"),
        ("{name: x, builtin: sett}", "did you mean `set`?"),
        ("{name: x, builtin: select-only}", "redis-benchmark brings no `select-only`"),
        ("{name: x, builtin: set, command: GET a}", "`builtin` and `command` exclude each other"),
        ("{name: x, builtin: set, scale_factor: 1}", "`scale_factor` is of a workload for Postg"),
        ("{name: x, command: FLUSHALL}", "`FLUSHALL` is no load"),
        ("{name: x, command: []}", "`[]` is no command"),
        ("{name: x, command: SET a __data__, value_bytes: 180000}", "does not fit into a command"),
        ('{name: x, command: ["SET", "a\\n"]}', None),
        ('{name: x, command: ["SET", "a\\nb"]}', "has a line break"),
        ("{name: x, builtin: get}", "GET would find no key"),
        ("{name: x, builtin: spop}", "`spop` would take from an empty key"),
        ("{name: x, builtin: get, loaded: 5}", None),
        ("{name: x, builtin: set, loaded: -1}", "`-1` is out of range"),
        ("{name: x, builtin: set, keys: 0}", "`0` is out of range"),
        ("{name: x, builtin: set, value_bytes: 536870913}", "is out of range"),
        ("{name: x, command: 'SET a --password hunter2'}", "has a password in it"),
    ],
)
def test_wrong_workloads(workload: str, expected: str | None) -> None:
    """Work that redis-benchmark does not offer is refused, with the way out; the rest loads."""
    if expected is None:
        assert not problems_of(with_work(workload))
    else:
        told = only_problem(with_work(workload))
        assert expected in told
        assert "hunter2" not in told


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("loads: {clients: 4, rate: 100}", "redis-benchmark offers no rate"),
        ("loads: {clients: 4, protocol: simple}", "`protocol` is pgbench's query mode"),
        ("loads: {clients: 4, pipeline: 0}", "`0` is out of range"),
        ("measure: {ramp: 2s}", "cannot leave out the start of a run"),
        ("measure: {ramp: 0}", None),
        ("measure: {prewarm: yes}", "Redis has its data in memory"),
        ("measure: {log: keep}", "writes no log of its requests"),
        ("measure: {log_sampling: 10%}", "nothing is sampled"),
        ("generator: {program: pgbench}", "pgbench puts no load on Redis"),
        ("generator: {program: redis-bench}", "did you mean `redis-benchmark`?"),
    ],
)
def test_what_redis_benchmark_cannot_do(line: str, expected: str | None) -> None:
    """What belongs to pgbench is refused at its line."""
    base = REDIS.replace("loads: {clients: 4}\n", "") if line.startswith("loads") else REDIS
    text = base.replace("seed: 1\n", f"seed: 1\n{line}\n")
    if expected is None:
        assert not problems_of(text)
    else:
        assert expected in only_problem(text)


def test_a_service_level_needs_a_rate() -> None:
    """`slo` and `capacity` are refused where the generator offers no rate."""
    told = problems_of(REDIS + "slo: p99 < 10ms\ncapacity: {rounds: 3}\n")
    assert {problem.path for problem in told} >= {"slo", "capacity"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("{port: 6380}", "Steelyard sets `port` itself (Use `target: {port: ...}`.)"),
        ("{RequirePass: x}", "the password comes from REDISCLI_AUTH"),
        ("{replicaof: h 6379}", "Use `target: {replica: {...}}`."),
        ("{save: [900 1]}", "Write it as one text: '900 1 300 10'."),
        ('{save: "1\\n2"}', "has a line break"),
        ("{'append only': yes}", "is no name of a Redis setting"),
        ("{save: 1, Save: 2}", "`Save` is given twice"),
        ("{save: null}", "there is no inherited `save` to remove"),
    ],
)
def test_wrong_settings(settings: str, expected: str) -> None:
    """Names that are Steelyard's, forms that CONFIG SET does not take, and nothing to remove."""
    assert expected in only_problem(with_settings(settings))


def test_the_settings_of_a_replica_are_settings() -> None:
    """What cannot be set on the server cannot be set on its replica; an empty replica is one."""
    told = only_problem(with_target("kind: redis-local, replica: {port: 1}"))
    assert "Steelyard sets `port` itself" in told
    text = with_target("kind: redis-local, replica: {}")
    assert load(text).experiment.configuration("other").target == RedisLocalTarget(replica=())
    told = only_problem(with_target("kind: redis-local, replica: {masterauth: hunter2}"))
    assert "`masterauth` is a password" in told
    assert "hunter2" not in told
    told = only_problem(with_target("kind: redis-local, replica: {save: null}"))
    assert "`save` of the replica is empty" in told


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("kind: redis-local, bin: embedded", "names no programs of the target `redis-local`"),
        ("kind: redis-local, bin: '15'", "names no programs of the target `redis-local`"),
        ("kind: redis-local, bin: redis-sever", "did you mean `redis-server`?"),
        ("kind: redis-local, restore: template", "cannot restore by template"),
        ("kind: redis-local, host: h", "`host` belongs to the target `redis-endpoint`"),
        ("kind: redis-local, initdb: [-k]", "`initdb` belongs to the target `local`"),
        (
            "kind: redis-endpoint, uri: 'postgresql://h/d'",
            "the URI is one of the target `endpoint`",
        ),
        ("kind: redis-endpoint, uri: 'redis://h/x'", "names no database by its number"),
        ("kind: redis-endpoint, uri: 'redis://h', db: 1", "`uri` and `db` exclude each other"),
        ("kind: redis-endpoint, host: h, cacert: x", "`cacert` is for a connection with TLS"),
        ("kind: redis-endpoint, tls: yes, cert: x", "`cert` is of no use without `key`"),
        ("kind: redis-endpoint, host: /x.sock, tls: yes", "a Unix socket is not encrypted"),
        ("kind: redis-endpoint, password: hunter2", "use REDISCLI_AUTH"),
        ("kind: redis-endpoint, uri: 'redis://u:hunter2@h'", "put it into REDISCLI_AUTH"),
        ("kind: redis-kubernetes, secret: x", "`secret` is for one that is there"),
        ("kind: redis-kubernetes, service: x, image: y", "`image` is for one that is made"),
        ("kind: redis-kubernetes, service: X", "`X`"),
    ],
)
def test_wrong_targets(keys: str, expected: str) -> None:
    """Keys of another kind, halves of TLS, and URIs of another system are told at their places."""
    problems = problems_of(with_target(keys))
    told = [problem.located("f") for problem in problems]
    assert any(expected in each for each in told), told
    assert "hunter2" not in repr(told)
    assert all(problem.line for problem in problems)


def test_what_is_of_postgresql_is_refused_beside_redis() -> None:
    """Settings, profiles and query modes of PostgreSQL are told, all at once."""
    text = REDIS.replace(
        "{extends: default}",
        "{extends: default, postgres: {work_mem: 1MB}, profile: fitted, protocol: prepared}",
    )
    told = [problem.message for problem in problems_of(text)]
    assert len(told) == 3
    assert all("the targets are of Redis" in message for message in told)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SMALL.replace("select-only, scale_factor: 1", "set"), "it is a test of redis-benchmark"),
        (SMALL.replace("scale_factor: 1", "scale_factor: 1, keys: 5"), "`keys` is of a workload"),
        (SMALL.replace("{clients: 1}", "{clients: 1, pipeline: 2}"), "`pipeline` is for Redis"),
        (SMALL + "generator: {program: redis-benchmark}\n", "puts no load on PostgreSQL"),
        (SMALL.replace("default: {}", "default: {target: {bin: redis-server}}"), "`kind: redis-lo"),
        (
            SMALL.replace("default: {}", "default: {target: {kind: endpoint, uri: 'redis://h'}}"),
            "the URI is one of the target `redis-endpoint`",
        ),
    ],
)
def test_what_is_of_redis_is_refused_beside_postgresql(text: str, expected: str) -> None:
    """The other way round, with the kind of target that is meant."""
    told = [problem.located("f") for problem in problems_of(text)]
    assert any(expected in each for each in told), told


def test_the_two_systems_are_not_mixed() -> None:
    """PostgreSQL and Redis in one experiment are refused."""
    text = REDIS.replace("{extends: default}", "{target: {kind: local}}")
    assert "targets of different kinds: `local` or `redis-local`" in only_problem(text)


def test_a_factor_of_redis() -> None:
    """The short form takes a setting of Redis; two factors cannot set the same one."""
    head = REDIS.partition("configurations:")[0]
    base = "configurations:\n  base: {target: {kind: redis-local}, redis: {appendonly: yes}}\n"
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
    again = "  again: {redis: {AppendFsync: [everysec, no]}}\n"
    assert "is set by the factor `again`" in only_problem(head + base + factors + again)


def test_limits_of_this_machine_are_for_servers_of_this_machine() -> None:
    """Control groups and kernel settings go with redis-local, and with no other kind."""
    limited = "{extends: default, cgroup: {cpus: 1}, linux: {vm.swappiness: 1}}"
    text = REDIS.replace("{extends: default}", limited)
    assert not problems_of(text)
    away = text.replace("redis-local", "redis-endpoint")
    assert {problem.path for problem in problems_of(away)} == {
        "configurations.other.cgroup",
        "configurations.other.linux",
    }


def test_servers_that_are_there_are_not_made_anew() -> None:
    """`switch: reprovision` and `restart` are refused where Steelyard did not make the server."""
    for keys in ("kind: redis-endpoint", "kind: redis-kubernetes, service: x"):
        for switch, words in (("reprovision", "cannot make it anew"), ("restart", "be restarted")):
            told = problems_of(with_target(keys, f"measure: {{switch: {switch}}}\n"))
            assert told
            assert all(words in problem.message for problem in told)
            assert not any("cloudnative" in problem.hint for problem in told)


def test_the_flag_allows_servers_that_are_there() -> None:
    """`--allow-existing` is for endpoints and Services, and for nothing that Steelyard makes."""
    for keys in ("kind: redis-endpoint", "kind: redis-kubernetes, service: x"):
        allowed = allow_existing(load(with_target(keys))).experiment
        assert all(t.allow_existing for t in allowed.redis_targets.values())  # type: ignore[union-attr]
    for keys in ("kind: redis-local", "kind: redis-kubernetes"):
        with pytest.raises(InputError, match="has none"):
            allow_existing(load(with_target(keys)))


def test_the_schema_knows_the_words() -> None:
    """Editors are told the kinds of target, the generators and the tests."""
    text = repr(experiment_schema())
    for word in ("redis-kubernetes", "redis-benchmark", "zpopmin", "value_bytes", "pipeline"):
        assert f"'{word}'" in text


def test_keys_must_fit_into_the_memory_of_this_machine() -> None:
    """16 GiB hold 90,000 values of 180,000 bytes and not 100,000; elsewhere nobody knows."""
    fits = "{name: x, builtin: set, value_bytes: 180000, loaded: 90000}"
    assert not problems_of(with_work(fits))
    beyond = with_work(fits.replace("90000", "100000"))
    assert "take 16.8 GiB, and this machine has 16.0 GiB of memory" in only_problem(beyond)
    assert not problems_of(beyond.replace("redis-local", "redis-endpoint"))
