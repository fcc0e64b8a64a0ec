"""What configurations may lose, from their targets, settings and the facts of a record."""

from dataclasses import replace

import pytest

from fakes import durable
from fakes.analyses import quick
from fakes.durable import ALONE, CLASSES, PREFERRED, REPLICATED, REQUIRED
from steelyard.answers.durability.compute import (
    campaign_durability,
    durability_of,
    footing,
    with_trades,
)
from steelyard.answers.durability.rules import DurabilityTrade, Fate, Keeper, Loss
from steelyard.core.experiment import Configuration, Experiment, Layer, Setting
from steelyard.core.measurement import Environment
from steelyard.core.places import ClusterService
from steelyard.core.target import EndpointTarget, LocalTarget, RedisLocalTarget, Target

ENDPOINT = EndpointTarget(host="db.example")
IN_CLUSTER = EndpointTarget(inside=ClusterService(service="db", secret="db-user"))


def configuration(target: Target, name: str = "one", **settings: str) -> Configuration:
    """Return a configuration on a target that asks for these settings."""
    asked = tuple(Setting(layer=Layer.POSTGRES, name=n, value=v) for n, v in settings.items())
    return Configuration(name=name, target=target, settings=asked)


def experiment(*configurations: Configuration) -> Experiment:
    """Return an experiment with these configurations."""
    base = quick().experiment
    return replace(base, configurations=configurations, baseline=configurations[0].name)


def seen(name: str = "one", **settings: str) -> Environment:
    """Return what was found of a server, beside the cluster's storage classes."""
    return Environment(facts=CLASSES, servers=(durable.server(name, **settings),))


def test_a_local_comparison_of_safe_settings_says_nothing_of_it() -> None:
    """Servers of one machine with PostgreSQL's defaults lose the same: it is not the question."""
    both = experiment(
        configuration(LocalTarget()), configuration(LocalTarget(), "two", work_mem="8MB")
    )
    assert durability_of(both, None, ()) == ()
    assert durability_of(both, seen(), ()) == ()


@pytest.mark.parametrize(
    "settings", [{"synchronous_commit": "off"}, {"fsync": "off"}, {"full_page_writes": "off"}]
)
def test_local_settings_that_give_up_commits_are_told(settings: dict[str, str]) -> None:
    """Also where all configurations give them up alike: then nobody compares them, and all lose."""
    one = configuration(LocalTarget(), **settings)
    told = durability_of(experiment(one, replace(one, name="two")), None, ())
    assert [each.configuration for each in told] == ["one", "two"]
    assert Fate.KEPT not in {each.fate(Loss.POWER) for each in told}


def test_two_endpoints_are_told_only_where_their_settings_differ() -> None:
    """What is unknown of both is no difference; a commit that does not wait is one."""
    safe, lazy = configuration(ENDPOINT), configuration(ENDPOINT, "two", synchronous_commit="off")
    assert durability_of(experiment(safe, replace(safe, name="two")), None, ()) == ()
    assert durability_of(experiment(safe, lazy), None, ())


def test_a_local_server_beside_an_endpoint_is_no_difference() -> None:
    """Of the endpoint's disks nothing is known, so nothing is said to differ."""
    both = experiment(configuration(LocalTarget()), configuration(ENDPOINT, "two"))
    assert durability_of(both, None, ()) == ()


@pytest.mark.parametrize("target", [ALONE, IN_CLUSTER])
def test_in_kubernetes_it_is_always_told(target: Target) -> None:
    """Where volumes and standbys are a choice, what they keep is part of the answer."""
    (told,) = durability_of(experiment(configuration(target)), seen(), ())
    assert told.fate(Loss.SERVER) is Fate.KEPT


def test_settings_in_force_come_before_those_asked_for() -> None:
    """What the server shows counts; what was asked counts only where it was never seen."""
    lazy = configuration(LocalTarget(), synchronous_commit="OFF")
    assert footing(lazy, None).settings["synchronous_commit"] == "off"
    assert footing(lazy, seen(synchronous_commit="on")).settings["synchronous_commit"] == "on"
    assert footing(lazy, seen("another")).settings["synchronous_commit"] == "off"


@pytest.mark.parametrize(
    ("target", "settings", "waits", "why"),
    [
        (REQUIRED, {}, "required", ""),
        (PREFERRED, {"synchronous_commit": "remote_write"}, "preferred", ""),
        (replace(REQUIRED, synchronous=None), {}, "", "is not asked for"),
        (REQUIRED, {"synchronous_commit": "off"}, "", "synchronous_commit = off"),
        (REQUIRED, {"synchronous_commit": "local"}, "", "synchronous_commit = local"),
        (PREFERRED, {"synchronous_standby_names": ""}, "", "is empty on the server"),
        (PREFERRED, {"synchronous_standby_names": "ANY 1 (b)"}, "preferred", ""),
    ],
)
def test_whether_commits_wait_for_a_standby(
    target: Target, settings: dict[str, str], waits: str, why: str
) -> None:
    """Asked for, in force on the server, and not given up by synchronous_commit."""
    found = footing(configuration(target), seen(**settings))
    assert found.waits == waits
    assert why in found.why_not
    assert bool(found.why_not) == bool(why)


def test_classes_are_looked_up_in_the_record() -> None:
    """By name, by the cluster's default where none is named, and for WAL apart."""
    named = footing(configuration(REPLICATED), seen())
    assert [each.name for each in named.volumes if each] == ["longhorn-2r"]
    unnamed = footing(configuration(replace(ALONE, storage_class=None)), seen())
    assert [each.name for each in unnamed.volumes if each] == ["local-path"]
    apart = replace(REPLICATED, wal_storage="1Gi", wal_storage_class="local-path")
    found = footing(configuration(apart), seen())
    assert [each.name for each in found.volumes if each] == ["longhorn-2r", "local-path"]
    along = footing(configuration(replace(apart, wal_storage_class=None)), seen())
    assert [each.name for each in along.volumes if each] == ["longhorn-2r"]
    assert footing(configuration(ALONE), None).volumes == (None,)


def test_whose_server_it_is() -> None:
    """Of what Steelyard did not make it knows the settings, and no more."""
    assert footing(configuration(LocalTarget()), None).keeper is Keeper.MACHINE
    assert footing(configuration(ALONE), None).keeper is Keeper.CLUSTER
    existing = replace(ALONE, cluster="pg", storage_class=None)
    for target in (existing, ENDPOINT, IN_CLUSTER):
        assert footing(configuration(target), None).keeper is Keeper.OTHERS


@pytest.mark.parametrize(
    ("affinity", "apart"),
    [
        ("{}", False),
        ('{"podAntiAffinityType": "preferred"}', False),
        ('{"podAntiAffinityType": "required"}', True),
    ],
)
def test_whether_instances_may_share_a_node(affinity: str, *, apart: bool) -> None:
    """Only a required anti-affinity keeps them apart."""
    found = footing(configuration(replace(REQUIRED, affinity=affinity)), None)
    assert found.apart is apart


def test_latencies_are_those_of_writes_with_the_fewest_clients() -> None:
    """Workloads that only read are left out; what was not measured is None."""
    analysis = durable.high_availability()
    told = analysis.answer(campaign_durability)[0]
    assert [latency.cell.workload for latency in told.latencies] == ["writes", "tpcb-like"]
    assert {latency.cell.load.clients for latency in told.latencies} == {1}
    cell = next(
        c for c in analysis.cells if (c.configuration, c.cell) == ("local", told.latencies[0].cell)
    )
    assert told.latencies[0].mean_s == cell.latency_mean_s
    unmeasured = durability_of(analysis.experiment, None, ())
    assert {latency.mean_s for latency in unmeasured[0].latencies} == {None}


def traded(both: Experiment, environment: Environment | None = None) -> tuple[DurabilityTrade, ...]:
    """Return what the result of two configurations is bought with."""
    compared = replace(quick().results[0], baseline=both.baseline, configuration="two")
    (told,) = with_trades([compared], both, environment)
    return told.trades


@pytest.mark.parametrize(
    ("setting", "value", "what", "when"),
    [
        ("fsync", "off", "the whole database", "when the power fails or the system crashes"),
        (
            "full_page_writes",
            "off",
            "the whole database",
            "when the power fails or the system crashes",
        ),
        ("synchronous_commit", "off", "committed transactions", "after a crash"),
    ],
)
@pytest.mark.parametrize("weak", ["one", "two"])
@pytest.mark.parametrize("target", [LocalTarget(), ENDPOINT, ALONE])
def test_a_setting_that_gives_up_durability_is_a_trade_of_the_comparison(
    target: Target, weak: str, setting: str, value: str, what: str, when: str
) -> None:
    """On either side, on every kind of server: who may lose what, when, and by which setting."""
    both = experiment(configuration(target), configuration(target, "two"))
    strong = "two" if weak == "one" else "one"
    servers = (durable.server(strong), durable.server(weak, **{setting: value}))
    (told,) = traded(both, Environment(facts=CLASSES, servers=servers))
    assert (told.weaker, told.stronger, told.what, told.when) == (weak, strong, what, when)
    assert told.because == f"{setting} = {value}"


@pytest.mark.parametrize("commit", ["local", "remote_write"])
def test_a_commit_that_does_not_wait_for_its_standby_is_a_trade(commit: str) -> None:
    """Where a standby is named; without one the disk of the server decides alone."""
    both = experiment(configuration(ENDPOINT), configuration(ENDPOINT, "two"))
    for names, expected in (("standby", [f"synchronous_commit = {commit}"]), ("", [])):
        servers = (
            durable.server("one", synchronous_standby_names=names),
            durable.server("two", synchronous_standby_names=names, synchronous_commit=commit),
        )
        told = traded(both, Environment(facts=(), servers=servers))
        assert [each.because for each in told] == expected


def test_equal_settings_and_settings_that_only_were_asked_for() -> None:
    """The same on both sides is no trade; before a server was seen, what is asked for counts."""
    lazy = {"synchronous_commit": "off"}
    alike = experiment(
        configuration(LocalTarget(), **lazy), configuration(LocalTarget(), "two", **lazy)
    )
    assert traded(alike) == ()
    one = experiment(configuration(LocalTarget()), configuration(LocalTarget(), "two", **lazy))
    assert [each.weaker for each in traded(one)] == ["two"]


def test_several_settings_with_the_same_loss_are_one_trade() -> None:
    """Nobody has to read twice that the whole database may be lost."""
    both = experiment(
        configuration(LocalTarget()),
        configuration(LocalTarget(), "two", fsync="off", full_page_writes="off"),
    )
    assert [each.because for each in traded(both)] == ["fsync = off, full_page_writes = off"]


def test_a_standby_that_commits_wait_for_is_the_other_sides_price() -> None:
    """With it neither a node nor a disk takes commits: the server alone may lose everything."""
    both = experiment(configuration(ALONE), configuration(REQUIRED, "two"))
    servers = tuple(
        durable.server(n, synchronous_standby_names="ANY 1 (s)") for n in ("one", "two")
    )
    (told,) = traded(both, Environment(facts=CLASSES, servers=servers))
    assert (told.weaker, told.what) == ("one", "everything")
    assert told.when == "when its node is lost or its disk is lost"
    assert "no instance is elsewhere" in told.because


@pytest.mark.parametrize(
    ("settings", "what", "because", "instead"),
    [
        ({"appendonly": "no", "save": ""}, "everything", "appendonly no, no save points", ""),
        (
            {"appendonly": "no", "save": "60 1"},
            "60 s of writes and the time of two saves",
            "appendonly no, save 60 1",
            "",
        ),
        ({"appendfsync": "everysec"}, "the last 2 s of writes", "appendfsync everysec", ""),
    ],
)
def test_what_a_redis_does_not_persist_is_a_trade(
    settings: dict[str, str], what: str, because: str, instead: str
) -> None:
    """No log, snapshots alone, a log that is flushed later: beside one that is flushed at once."""
    safe = {"appendonly": "yes", "appendfsync": "always"}
    both = replace(
        experiment(configuration(LocalTarget()), configuration(LocalTarget(), "two")),
        configurations=(redis("one", **safe), redis("two", **{**safe, **settings})),
    )
    (told,) = traded(both)
    assert (told.weaker, told.what) == ("two", what)
    assert (told.because, told.instead) == (because, instead)
    assert told.when == "when the server is killed or the power fails"


def redis(name: str, **settings: str) -> Configuration:
    """Return a configuration on a Redis of this machine."""
    asked = tuple(Setting(layer=Layer.REDIS, name=n, value=v) for n, v in settings.items())
    return Configuration(name=name, target=RedisLocalTarget(), settings=asked)
