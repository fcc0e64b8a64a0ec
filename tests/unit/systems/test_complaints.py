"""What both engines complain of before anything is started, in the same words."""

from pathlib import Path

import pytest

from fakes.campaigns import asks, asks_redis
from fakes.processes import Answer, FakeProcesses
from steelyard.core.experiment import Configuration, Setting
from steelyard.core.schedule import Load
from steelyard.core.target import LocalTarget, RedisLocalTarget, Target
from steelyard.systems.postgres import settings as postgres
from steelyard.systems.postgres.server import Installation
from steelyard.systems.postgres.settings import SettingEntry
from steelyard.systems.redis import server as redis


def _with(settings: tuple[Setting, ...], target: Target | None = None) -> Configuration:
    return Configuration(name="few", target=target or LocalTarget(), settings=settings)


def _of_redis(**settings: str) -> Configuration:
    return _with(asks_redis(**settings), RedisLocalTarget())


@pytest.mark.parametrize("name", ["max_connections", "MAX_Connections"])
def test_clients_of_postgresql_must_fit_however_the_limit_is_spelled(name: str) -> None:
    """PostgreSQL's names have no case; five connections are not for clients."""
    configuration = _with(asks(**{name: "25"}))
    assert not list(postgres.too_few_connections(configuration, (Load(clients=20, threads=1),)))
    (found,) = postgres.too_few_connections(configuration, (Load(clients=21, threads=1),))
    assert found.message == "21 clients do not fit into max_connections = 25 of configuration `few`"
    assert found.hint == "Set `max_connections` to at least 26 in every configuration."


@pytest.mark.parametrize("name", ["maxclients", "MaxClients"])
def test_clients_of_redis_must_fit_however_the_limit_is_spelled(name: str) -> None:
    """The same of Redis, whose limit has another name."""
    configuration = _of_redis(**{name: "25"})
    assert not list(redis.too_few_connections(configuration, (Load(clients=20, threads=1),)))
    (found,) = redis.too_few_connections(configuration, (Load(clients=21, threads=1),))
    assert found.message == "21 clients do not fit into maxclients = 25 of configuration `few`"


def test_the_defaults_limit_where_nothing_is_asked() -> None:
    """100 connections and 10,000 clients, of which five are not for clients."""
    nothing, nothing_of_redis = _with(()), _of_redis()
    for clients, crowded in ((95, False), (96, True)):
        found = postgres.too_few_connections(nothing, (Load(clients=clients, threads=1),))
        assert bool(list(found)) is crowded
    for clients, crowded in ((9_995, False), (9_996, True)):
        found = redis.too_few_connections(nothing_of_redis, (Load(clients=clients, threads=1),))
        assert bool(list(found)) is crowded


def test_settings_that_are_fixed_are_named_as_they_were_given() -> None:
    """Of both engines, in capitals or not."""
    (found,) = postgres.fixed_settings(_with(asks(Data_Directory="/elsewhere")))
    assert (found.setting, found.message) == (
        "Data_Directory",
        "`Data_Directory` is set by Steelyard",
    )
    (found,) = redis.fixed_settings(_of_redis(Dir="/elsewhere"))
    assert (found.setting, found.message) == ("Dir", "`Dir` is set by Steelyard")


@pytest.mark.parametrize("name", ["timezone", "TimeZone"])
def test_a_value_is_tried_however_its_setting_is_spelled(name: str, tmp_path: Path) -> None:
    """The server spells it `TimeZone` and takes both: what it refuses is said before the start."""
    processes = FakeProcesses()
    processes.on("postgres", answer=Answer(exit_status=1, stderr="FATAL:  no such zone"))
    installation = Installation(programs=tmp_path, root=tmp_path, version="15.18")
    known = {"TimeZone": SettingEntry(name="TimeZone", context="user", group="", kind="STRING")}
    asked = _with(asks(**{name: "nowhere"}))
    (found,) = postgres.refused_values(asked, installation, known, tmp_path, processes)
    assert found.setting == name
    assert found.message == "PostgreSQL 15.18 refuses this value: no such zone"
