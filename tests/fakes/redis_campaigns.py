"""A synthetic campaign of Redis under redis-benchmark: AOF off against always, and a single key."""

from dataclasses import replace
from functools import cache

from fakes.latencies import Shape as Latencies
from fakes.latencies import script_of
from fakes.scenes import Scene, record_of
from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.core import experiment as model
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.measurement import Run, RunLatency
from steelyard.core.schedule import Mode, Pausing, Turn, TurnTimes, WorkloadTurns
from steelyard.core.target import EngineName, RedisLocalTarget

_LONGEST_US = 3_000_319  # what redis-benchmark prints for whatever took longer


@cache
def aof() -> CampaignAnalysis:
    """Return writes that the AOF slows down, reads that it does not, and a stall above 3 s."""
    return analyse(aof_record())


@cache
def aof_record() -> CampaignRecord:
    """Return the record of the same."""
    scene = Scene(
        name="AOF on local disk",
        workloads=("writes", "reads"),
        configurations=("aof-off", "aof-always"),
        clients=(1, 20),
        effects={("aof-always", "writes"): -0.6},
        noise=0.015,
        blocks=12,
        max_blocks=12,
        status=Status.BUDGET,
        budget_s=900.0,
    )
    record = record_of(scene)
    return replace(
        record,
        environment=None,
        experiment=_of_redis(record.experiment),
        runs=tuple(_timed(run) for run in record.runs),
    )


@cache
def in_turns() -> CampaignAnalysis:
    """Return the same of turns, which the server counted: nobody knows a latency."""
    record = aof_record()
    assert record.plan is not None
    times = TurnTimes()
    plan = replace(
        record.plan,
        mode=Mode.ALTERNATING,
        pausing=Pausing.SIGNALS,
        turns=tuple(
            WorkloadTurns(workload=w.name, times=times) for w in record.experiment.workloads
        ),
    )
    runs = tuple(_counted(run, times) for run in record.runs)
    return analyse(replace(record, plan=plan, runs=runs))


def _counted(run: Run, times: TurnTimes) -> Run:
    assert run.measurement is not None
    taken = round(run.measurement.tps * times.counted_s)
    turns = tuple(
        Turn(
            round=number,
            place=(number + run.start) % 2,
            began_s=number * 2 * times.turn_s,
            seconds=times.counted_s,
            transactions=taken,
            early=taken // 2,
        )
        for number in range(20)
    )
    untimed = replace(run.measurement, latency_mean_s=None, latency_stddev_s=None)
    return replace(run, latency=None, measurement=untimed, turns=turns)


def _of_redis(experiment: model.Experiment) -> model.Experiment:
    off = (
        model.Setting(layer=model.Layer.REDIS, name="appendonly", value="no"),
        model.Setting(layer=model.Layer.REDIS, name="save", value=""),
    )
    always = (
        model.Setting(layer=model.Layer.REDIS, name="appendfsync", value="always"),
        model.Setting(layer=model.Layer.REDIS, name="appendonly", value="yes"),
        model.Setting(layer=model.Layer.REDIS, name="save", value=""),
    )
    spaces = {
        "writes": model.KeySpace(keys=100_000, loaded=20_000, value_bytes=180_000),
        "reads": model.KeySpace(keys=1, loaded=1, value_bytes=180_000),
    }
    return replace(
        experiment,
        engine=EngineName.REDIS,
        generator=model.GeneratorName.REDIS_BENCHMARK,
        configurations=tuple(
            model.Configuration(name=name, target=RedisLocalTarget(), settings=settings)
            for name, settings in (("aof-off", off), ("aof-always", always))
        ),
        workloads=tuple(
            model.Workload(name=name, builtin=test, redis=model.RedisWork(space=spaces[name]))
            for name, test in (("writes", "set"), ("reads", "get"))
        ),
        measure=model.Measure(discard_start_s=0.0, warm_up_s=5.0),
    )


def _timed(run: Run) -> Run:
    assert run.measurement is not None
    assert run.measurement.latency_mean_s is not None
    values = Latencies(slow=0.004).values_us(
        int(run.measurement.transactions), run.measurement.latency_mean_s
    )
    if run.configuration == "aof-always" and run.block == 0:
        values[-1] = _LONGEST_US
    test = "set" if run.cell.workload == "writes" else "get"
    return replace(run, latency=RunLatency(scripts=(script_of(test, values),)))
