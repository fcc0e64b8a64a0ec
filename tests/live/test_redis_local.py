"""Whole campaigns on Redis servers that Steelyard starts on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.campaign.run.runner import Progress
from steelyard.campaign.run.session import Request, new_campaign
from steelyard.core import experiment as model
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.schedule import Load, Mode
from steelyard.core.target import EngineName, RedisLocalTarget
from steelyard.gateways.doors import system_doors
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor
from steelyard.record.directory import read_campaign
from steelyard.systems.redis.server import Refusal, Trial, find_redis
from steelyard.systems.redis.settings import read_catalogue
from support.redis import require_redis, require_valkey

pytestmark = pytest.mark.live

_SET = model.Workload(
    name="set",
    builtin="set",
    redis=model.RedisWork(space=model.KeySpace(keys=200, loaded=100, value_bytes=2000)),
)
_GET = model.Workload(
    name="get",
    builtin="get",
    redis=model.RedisWork(space=model.KeySpace(keys=50, loaded=50, value_bytes=10)),
)
_QUIET = {"appendonly": "no", "save": ""}


@pytest.fixture
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep prepared states in the cache of the session, and nothing else.

    What interrupted campaigns of other tests may go on with is there, too.
    """
    require_redis()
    monkeypatch.setenv("STEELYARD_CACHE", str(cache))
    before = _left_in(cache)
    yield cache
    assert _left_in(cache) == before


def _configuration(
    name: str, settings: dict[str, str], program: str = "redis-server"
) -> model.Configuration:
    return model.Configuration(
        name=name,
        target=RedisLocalTarget(server=program),
        settings=tuple(
            model.Setting(layer=model.Layer.REDIS, name=key, value=value)
            for key, value in sorted(settings.items())
        ),
    )


def _experiment(
    *configurations: model.Configuration, workloads: tuple[model.Workload, ...] = (_SET,)
) -> model.Experiment:
    return model.Experiment(
        name="redis here",
        baseline=configurations[0].name,
        engine=EngineName.REDIS,
        generator=model.GeneratorName.REDIS_BENCHMARK,
        workloads=workloads,
        loads=(Load(clients=4, threads=1),),
        measure=model.Measure(
            run_time_s=1.0, discard_start_s=0.0, warm_up_s=0.0, max_other_load=None
        ),
        stop=model.Stop(budget_s=600.0, blocks=3),
        seed=5,
        configurations=configurations,
    )


def _run(experiment: model.Experiment, path: Path) -> CampaignRecord:
    request = Request(experiment=experiment, text="version: 1\n", command="steelyard run x")
    new_campaign(request, path, system_doors(), Progress())
    return read_campaign(path)


def _left_in(cache: Path) -> set[str]:
    """Return what campaigns left beside their prepared states."""
    return {
        str(path) for part in ("live", "campaigns", "programs") for path in (cache / part).glob("*")
    }


@pytest.mark.slow
def test_servers_that_persist_differently_are_weighed(own_cache: Path, tmp_path: Path) -> None:
    """AOF off and on need a restart of Valkey; every start begins with the keys.

    Each reads them its way. The server that loads only its dump and the one that loads only its
    append-only file find the same number of keys in both databases: else the campaign would have
    failed. Requests fill about the slice in both, though one of them is much slower.
    """
    always, program = {"appendonly": "yes", "appendfsync": "always", "save": ""}, require_valkey()
    experiment = _experiment(
        _configuration("off", _QUIET, program),
        _configuration("always", always, program),
        workloads=(_SET, _GET),
    )
    record = _run(experiment, tmp_path / "c")
    assert record.status in (Status.DECIDED, Status.COMPLETE)
    assert record.plan is not None
    assert (record.plan.mode, record.plan.switch) == (Mode.STARTS, model.SwitchCost.RESTART)
    assert record.environment is not None
    shown = {
        server.configuration: {s.name: s.value for s in server.settings}
        for server in record.environment.servers
    }
    assert [shown[name]["appendonly"] for name in ("off", "always")] == ["no", "yes"]
    assert shown["always"]["appendfsync"] == "always"
    runs = record.runs
    assert all(run.measurement is not None and run.latency is not None for run in runs)
    assert {run.cell.workload for run in runs} == {"set", "get"}


@pytest.mark.slow
def test_what_can_be_set_at_run_time_is_switched_on_one_server(
    own_cache: Path, tmp_path: Path
) -> None:
    """Configurations that differ in appendfsync share a start; each run has its own value in force.

    A configuration that names no value gets the server's default back, not that of the one before.
    """
    everysec = {"appendonly": "yes", "save": ""}
    experiment = _experiment(
        _configuration("default", everysec),
        _configuration("always", {**everysec, "appendfsync": "always"}),
    )
    record = _run(experiment, tmp_path / "c")
    assert record.plan is not None
    assert (record.plan.mode, record.plan.switch) == (Mode.BACK_TO_BACK, model.SwitchCost.RELOAD)
    assert record.status in (Status.DECIDED, Status.COMPLETE)
    runs = record.runs
    assert {run.configuration for run in runs} == {"default", "always"}


def _trial() -> Trial:
    require_redis()
    processes = Processes()
    account = "nobody" if os.geteuid() == 0 else None
    return Trial(
        installation=find_redis("redis-server", processes),
        redis=RedisDoor(),
        processes=processes,
        account=account,
    )


def test_a_server_is_asked_which_settings_it_has() -> None:
    """The program itself tells its settings, their defaults, and what can be changed."""
    with _trial().session() as session:
        found = read_catalogue(session, ["appendfsync", "io-threads", "databases", "save"])
    assert found["appendfsync"].default == "everysec"
    assert found["save"].default == "3600 1 300 100 60 10000"
    changeable = {name for name, entry in found.items() if entry.changeable}
    assert changeable == {"appendfsync", "save"}


def test_a_server_tells_every_value_that_it_would_refuse() -> None:
    """Two wrong values are told together, in the server's words; the good one is not."""
    asked = {"appendfsync": "sometimes", "save": "60 1", "Maxmemory": "much"}
    refused = _trial().refusals(asked)
    assert {each.setting.lower() for each in refused} == {"appendfsync", "maxmemory"}
    assert "everysec, always, no" in next(e.words for e in refused if e.setting == "appendfsync")
    assert _trial().refusals({"save": ""}) == ()


def test_a_server_that_is_none_is_told_apart(tmp_path: Path) -> None:
    """A program that ends at once gives its last words."""
    script = tmp_path / "redis-server"
    script.write_text("#!/bin/sh\ncase $1 in --version) echo 'Redis server v=9.9 sha=0';; *)"
                      " echo cannot; exit 1;; esac\n")  # fmt: skip
    script.chmod(0o755)
    processes = Processes()
    installation = find_redis(str(tmp_path), processes)
    assert installation.label == "Redis 9.9"
    trial = Trial(installation=installation, redis=RedisDoor(), processes=processes, account=None)
    assert trial.refusals({"save": ""}) == (Refusal(setting="", words="cannot"),)
