"""What an acknowledged write survives, of PostgreSQL and of Redis: both sides of every rule."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fakes.analyses import quick
from fakes.durable import CLASSES, LOCAL, TWICE
from steelyard.answers.durability.compute import durability_of
from steelyard.answers.durability.rules import (
    Fate,
    Footing,
    Keeper,
    Loss,
    Survival,
    redis_survivals,
    survivals,
)
from steelyard.core import target as targets
from steelyard.core.experiment import (
    Configuration,
    EffectiveSetting,
    Experiment,
    Layer,
    RedisWork,
    Setting,
    Workload,
)
from steelyard.core.measurement import Environment, ServerEnvironment
from steelyard.core.schedule import CellKey
from steelyard.core.stack import StorageClassFacts

MACHINE = Footing(keeper=Keeper.MACHINE)
OTHERS = Footing(keeper=Keeper.OTHERS)
CLUSTER = Footing(keeper=Keeper.CLUSTER, volumes=(LOCAL,))
LONGHORN = replace(CLUSTER, volumes=(TWICE,))
STANDBY = replace(CLUSTER, standbys=1, why_not="nobody asked", apart=True)
REQUIRED = replace(STANDBY, waits="required", why_not="")
PREFERRED = replace(REQUIRED, waits="preferred")


def with_parameters(**parameters: str) -> StorageClassFacts:
    """Return a class of Longhorn with these parameters beside or instead of its own."""
    return replace(TWICE, parameters={**TWICE.parameters, **parameters})


def what(footing: Footing, loss: Loss) -> Survival:
    """Return the answer for one failure."""
    return next(each for each in survivals(footing) if each.loss is loss)


def fates(footing: Footing) -> tuple[Fate, ...]:
    """Return what is lost when server, power, node, disk and site are lost."""
    return tuple(each.fate for each in survivals(footing))


KEPT, LAST, ALL, UNKNOWN = Fate.KEPT, Fate.LAST, Fate.ALL, Fate.UNKNOWN


@pytest.mark.parametrize(
    ("footing", "expected"),
    [
        (MACHINE, (KEPT, KEPT, ALL, ALL, ALL)),
        (OTHERS, (KEPT, KEPT, UNKNOWN, UNKNOWN, UNKNOWN)),
        (CLUSTER, (KEPT, KEPT, ALL, ALL, ALL)),
        (LONGHORN, (KEPT, KEPT, KEPT, KEPT, ALL)),
        (STANDBY, (LAST, LAST, LAST, LAST, ALL)),
        (REQUIRED, (KEPT, KEPT, KEPT, KEPT, ALL)),
        (PREFERRED, (KEPT, KEPT, LAST, LAST, ALL)),
    ],
    ids=["machine", "others", "local", "longhorn", "standby", "required", "preferred"],
)
def test_where_the_copies_are(footing: Footing, expected: tuple[Fate, ...]) -> None:
    """With PostgreSQL's defaults the copies alone decide; a site takes all that is in it."""
    assert fates(footing) == expected


@pytest.mark.parametrize("footing", [MACHINE, OTHERS, CLUSTER, LONGHORN])
def test_a_commit_that_does_not_wait_for_wal(footing: Footing) -> None:
    """synchronous_commit = off gives up the last commits wherever a server starts again."""
    lazy = replace(footing, settings={"synchronous_commit": "off", "wal_writer_delay": "150"})
    for loss in (Loss.SERVER, Loss.POWER):
        assert what(footing, loss).fate is KEPT
        assert what(lazy, loss).fate is LAST
        assert "up to 450 ms" in what(lazy, loss).reason
        assert what(lazy, loss).source == "PostgreSQL documentation, 'Asynchronous Commit'"
    for loss in (Loss.NODE, Loss.DISK):
        worse = LAST if footing is LONGHORN else what(footing, loss).fate
        assert what(lazy, loss).fate is worse


@pytest.mark.parametrize("value", ["on", "remote_apply", "remote_write", "local"])
def test_every_other_commit_waits_for_its_own_wal(value: str) -> None:
    """All values but off flush the server's own WAL before they answer."""
    asked = replace(MACHINE, settings={"synchronous_commit": value})
    assert fates(asked)[:2] == (KEPT, KEPT)


def test_a_delay_that_is_not_known_is_told_by_its_name() -> None:
    """A server that was never seen has shown no delay."""
    lazy = replace(MACHINE, settings={"synchronous_commit": "off"})
    assert "up to three times wal_writer_delay" in what(lazy, Loss.SERVER).reason


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_what_damages_the_database_when_the_power_goes(name: str) -> None:
    """The server may be killed; the kernel may not, nor may the volume start on another node."""
    unsafe = replace(LONGHORN, settings={name: "off"})
    assert fates(unsafe) == (KEPT, ALL, ALL, ALL, ALL)
    assert f"{name} = off" in what(unsafe, Loss.POWER).reason
    assert fates(replace(LONGHORN, settings={name: "on"})) == fates(LONGHORN)


def test_damage_weighs_more_than_delay() -> None:
    """With fsync and synchronous_commit off the power takes everything, a kill the last."""
    both = replace(MACHINE, settings={"fsync": "off", "synchronous_commit": "off"})
    assert fates(both)[:2] == (LAST, ALL)


@pytest.mark.parametrize(
    ("volume", "expected", "why"),
    [
        (with_parameters(numberOfReplicas="1"), ALL, "has one replica"),
        (with_parameters(numberOfReplicas="3"), KEPT, "3 replicas on 3 nodes"),
        (with_parameters(replicaSoftAntiAffinity="enabled"), ALL, "may lie on one node"),
        (with_parameters(replicaSoftAntiAffinity="ignored"), KEPT, "2 replicas on 2 nodes"),
        (StorageClassFacts(name="ebs", provisioner="ebs.csi.aws.com"), UNKNOWN, "ebs.csi.aws.com"),
        (None, UNKNOWN, "not in the record"),
        (LOCAL, ALL, "one node"),
    ],
)
def test_what_a_lost_node_leaves_of_a_volume(
    volume: StorageClassFacts | None, expected: Fate, why: str
) -> None:
    """Replicas on other nodes keep it; what nobody knows is said to be unknown, never kept."""
    for loss in (Loss.NODE, Loss.DISK):
        found = what(replace(CLUSTER, volumes=(volume,)), loss)
        assert found.fate is expected
        assert why in found.reason


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ((TWICE, TWICE), KEPT),
        ((TWICE, LOCAL), ALL),
        ((LOCAL, TWICE), ALL),
        ((TWICE, None), UNKNOWN),
        ((None, LOCAL), ALL),
    ],
)
def test_data_and_wal_must_both_survive(
    volumes: tuple[StorageClassFacts | None, ...], expected: Fate
) -> None:
    """The worse of the two volumes decides."""
    assert what(replace(CLUSTER, volumes=volumes), Loss.NODE).fate is expected


def test_the_disks_cache_below_longhorn_is_told_of() -> None:
    """Power: Longhorn's replicas do not flush the disk's cache; a local volume does."""
    assert "that of the disk" in what(LONGHORN, Loss.POWER).reason
    assert "longhorn/longhorn#4504" in what(LONGHORN, Loss.POWER).source
    assert "Longhorn" not in what(CLUSTER, Loss.POWER).reason


def test_why_commits_do_not_wait_is_told() -> None:
    """An asynchronous standby takes over without what had not reached it."""
    assert "nobody asked" in what(STANDBY, Loss.SERVER).reason


@pytest.mark.parametrize("footing", [REQUIRED, PREFERRED])
def test_instances_that_may_share_a_node_may_both_be_lost(footing: Footing) -> None:
    """Where the anti-affinity is not required, a lost node or disk leaves what the volumes keep."""
    near = replace(footing, apart=False)
    for loss in (Loss.NODE, Loss.DISK):
        assert what(near, loss).fate is Fate.ALL
        assert "only prefers different nodes" in what(near, loss).reason
        assert what(footing, loss).fate is not Fate.ALL
    assert what(near, Loss.POWER) == what(footing, Loss.POWER)


def test_a_preferred_standby_is_worth_no_more_than_the_own_disk() -> None:
    """While none is ready the primary alone has the commits, as its settings keep them."""
    unsafe = replace(PREFERRED, settings={"fsync": "off"})
    assert fates(unsafe) == (KEPT, ALL, LAST, LAST, ALL)
    assert fates(replace(REQUIRED, settings={"fsync": "off"})) == fates(REQUIRED)


def test_every_answer_has_a_reason() -> None:
    """No failure is passed over, and nothing is called kept or lost without saying why."""
    for footing in (MACHINE, OTHERS, CLUSTER, LONGHORN, STANDBY, REQUIRED, PREFERRED):
        found = survivals(footing)
        assert [each.loss for each in found] == list(Loss)
        assert all(each.reason for each in found)
        assert all(each.source for each in found if each.fate in (KEPT, LAST))


OFF = {"appendonly": "no", "save": ""}
EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec"}
ALWAYS = {"appendonly": "yes", "appendfsync": "always"}
HERE = targets.RedisLocalTarget()
SPLIT = targets.RedisLocalTarget(replica=tuple(EVERYSEC.items()))


def _survival(target: targets.Server, settings: Mapping[str, str], loss: Loss) -> Survival:
    (found,) = (s for s in redis_survivals(target, settings, CLASSES) if s.loss is loss)
    return found


@pytest.mark.parametrize(
    ("settings", "server", "power"),
    [
        (OFF, (Fate.ALL, None), (Fate.ALL, None)),
        ({"save": "60 1"}, (Fate.LAST, 60.0), (Fate.LAST, 60.0)),
        ({**EVERYSEC, "appendfsync": "no"}, (Fate.KEPT, None), (Fate.LAST, 35.0)),
        (EVERYSEC, (Fate.LAST, 2.0), (Fate.LAST, 2.0)),
        (ALWAYS, (Fate.KEPT, None), (Fate.KEPT, None)),
    ],
)
def test_a_server_alone_loses_by_its_settings(
    settings: dict[str, str],
    server: tuple[Fate, float | None],
    power: tuple[Fate, float | None],
) -> None:
    """A kill and a power cut each have their fate and, where there is one, a bound in seconds."""
    killed, cut = (_survival(HERE, settings, loss) for loss in (Loss.SERVER, Loss.POWER))
    assert ((killed.fate, killed.seconds), (cut.fate, cut.seconds)) == (server, power)


def test_snapshots_lose_the_last_writes_and_say_how_many() -> None:
    """A save point by writes bounds no seconds, and what was saved before is not lost."""
    by_writes = _survival(HERE, {"save": "5 1000"}, Loss.POWER)
    assert (by_writes.fate, by_writes.seconds) == (Fate.LAST, None)
    assert by_writes.known_as.startswith("999 writes, or the writes of 5 s")
    measured = redis_survivals(HERE, {"save": "5 1000"}, CLASSES, 7652.0)
    assert {s.known_as for s in measured if s.loss in (Loss.SERVER, Loss.POWER)} == {
        "about 38,000 writes and those that come during two saves"
    }
    by_time = _survival(HERE, {"save": "60 1"}, Loss.POWER)
    assert by_time.known_as == "60 s of writes and the time of two saves"
    assert _survival(HERE, EVERYSEC, Loss.POWER).known_as == ""
    split = targets.RedisLocalTarget(replica=(("appendonly", "no"), ("save", "5 1000")))
    assert _survival(split, OFF, Loss.POWER).known_as == by_writes.known_as


def test_one_machine_is_lost_with_all_it_has() -> None:
    """Neither a log nor a replica beside the server survives its disk."""
    for target in (HERE, SPLIT):
        assert _survival(target, ALWAYS, Loss.DISK).fate is Fate.ALL


def test_a_replica_keeps_what_its_primary_does_not() -> None:
    """A replica loses the last writes at most, if the empty primary does not win."""
    killed, cut = (_survival(SPLIT, OFF, loss) for loss in (Loss.SERVER, Loss.POWER))
    assert (killed.fate, cut.fate, cut.seconds) == (Fate.LAST, Fate.LAST, 2.0)
    assert "an empty primary that comes back wipes it" in killed.reason


def test_a_replica_without_persistence_saves_nothing_from_a_power_cut() -> None:
    """Both die on one machine, and neither has written anything."""
    bare = targets.RedisLocalTarget(replica=())
    assert _survival(bare, OFF, Loss.POWER).fate is Fate.ALL


def test_a_primary_with_a_log_comes_back_by_itself() -> None:
    """Its own log is sure; what the replica has is not what the promise rests on."""
    assert _survival(SPLIT, ALWAYS, Loss.SERVER) == _survival(HERE, ALWAYS, Loss.SERVER)


@pytest.mark.parametrize(
    ("storage_class", "fate"), [("local-path", Fate.ALL), ("longhorn-2r", Fate.LAST)]
)
def test_a_volume_elsewhere_holds_no_more_than_was_flushed(storage_class: str, fate: Fate) -> None:
    """A replicated volume survives its node with what a power cut would leave; a local one not."""
    target = targets.RedisKubernetesTarget(storage_class=storage_class)
    assert _survival(target, EVERYSEC, Loss.NODE).fate is fate


def test_servers_of_others_are_judged_by_their_settings_alone() -> None:
    """What is below them nobody here sees."""
    target = targets.RedisEndpointTarget(uri="redis://db.example")
    assert _survival(target, ALWAYS, Loss.POWER).fate is Fate.KEPT
    assert _survival(target, ALWAYS, Loss.DISK).fate is Fate.UNKNOWN


@pytest.mark.parametrize("loss", list(Loss))
def test_a_server_of_others_that_shows_no_settings_promises_nothing(loss: Loss) -> None:
    """A managed one refuses CONFIG: that it has Redis' defaults would be made up."""
    target = targets.RedisEndpointTarget(uri="redis://db.example")
    service = targets.RedisKubernetesTarget(
        service=targets.RedisService(service="redis", secret="")
    )
    for each in (target, service):
        assert _survival(each, {}, loss).fate is Fate.UNKNOWN
    assert _survival(HERE, {}, loss).fate is not Fate.UNKNOWN


def _configuration(name: str, settings: Mapping[str, str]) -> Configuration:
    asked = tuple(Setting(layer=Layer.REDIS, name=n, value=v) for n, v in settings.items())
    return Configuration(name=name, target=HERE, settings=asked)


def _experiment(*workloads: Workload) -> Experiment:
    return replace(
        quick().experiment,
        engine=targets.EngineName.REDIS,
        workloads=workloads or (Workload(name="set", builtin="set", redis=RedisWork()),),
        configurations=(_configuration("one", ALWAYS), _configuration("two", ALWAYS)),
        baseline="one",
    )


def test_every_report_of_redis_says_it() -> None:
    """Also where all configurations keep everything: who reads a speed reads what it risks."""
    found = durability_of(_experiment(), None, ())
    assert [each.fate(Loss.POWER) for each in found] == [Fate.KEPT, Fate.KEPT]


def test_the_server_is_believed_before_the_file() -> None:
    """What was in force counts, not what was asked."""
    shown = tuple(EffectiveSetting(name=n, value=v) for n, v in OFF.items())
    server = ServerEnvironment(configuration="one", version="7.0.15", settings=shown)
    found = durability_of(_experiment(), Environment(facts=(), servers=(server,)), ())
    assert [each.fate(Loss.POWER) for each in found] == [Fate.ALL, Fate.KEPT]


@pytest.mark.parametrize(
    ("workload", "writes"),
    [
        (Workload(name="w", builtin="set", redis=RedisWork()), True),
        (Workload(name="w", builtin="get", redis=RedisWork()), False),
        (Workload(name="w", builtin="lrange_300", redis=RedisWork()), False),
        (Workload(name="w", redis=RedisWork(command=("GET", "key:__rand_int__"))), False),
        (Workload(name="w", redis=RedisWork(command=("HSET", "h", "f", "v"))), True),
        *(
            (Workload(name="w", redis=RedisWork(command=(word, "key:__rand_int__"))), False)
            for word in ("HGET", "mget", "EXISTS", "ZRANGE", "SMEMBERS", "TTL")
        ),
        (Workload(name="w", redis=RedisWork(command=("GETDEL", "key:__rand_int__"))), True),
    ],
)
def test_speed_stands_beside_it_where_something_is_written(
    workload: Workload,
    writes: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Reads lose nothing, so only what may write has its throughput there."""
    experiment = _experiment(workload)
    cell = quick().cells[0]
    key = CellKey(workload="w", load=min(experiment.loads, key=lambda load: load.size))
    seen = replace(cell, configuration="one", cell=key)
    found = durability_of(experiment, None, (seen,))[0].latencies
    assert [each.per_s for each in found] == ([seen.tps.value] if writes else [])
