"""Negative controls: what nothing of the differences can touch, and what it says when it moves."""

from dataclasses import replace

import numpy as np
import pytest
from factored import with_factors
from made_records import a_record, an_experiment

from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_pair
from steelyard.answers.findings import is_read_only, negative_controls
from steelyard.answers.report import summary
from steelyard.answers.results import (
    CampaignAnalysis,
    SettingDifference,
    verdict_sentence,
    verdict_word,
)
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    KeySpace,
    Layer,
    ManualStep,
    RedisWork,
    Script,
    Setting,
    Workload,
)
from steelyard.core.findings import Severity
from steelyard.core.target import EngineName, LocalTarget, RedisLocalTarget, Target

BLOCKS = 20
PING = Workload(name="ping", builtin="ping", redis=RedisWork())
GET = Workload(name="get", builtin="get", redis=RedisWork(space=KeySpace(keys=1)))
SET = Workload(name="set", builtin="set", redis=RedisWork())
READS = Workload(name="reads", builtin="select-only", scale=1)
WRITES = Workload(name="writes", builtin="simple-update", scale=1)
ASYNC = {"synchronous_commit": "off"}
ON_OFF = {"t0": "on", "t1": "off"}


def asked(
    *workloads: Workload, engine: EngineName = EngineName.POSTGRES, **settings: str
) -> Experiment:
    """Return a baseline ``t0`` and ``t1`` with these settings."""
    layer = Layer.REDIS if engine is EngineName.REDIS else Layer.POSTGRES
    target: Target = RedisLocalTarget() if engine is EngineName.REDIS else LocalTarget()
    turned = tuple(
        Setting(layer=layer, name=name.replace("__", "-"), value=value)
        for name, value in settings.items()
    )
    return replace(
        an_experiment(loads=1),
        engine=engine,
        workloads=workloads,
        configurations=(
            Configuration(name="t0", target=target),
            Configuration(name="t1", target=target, settings=turned),
        ),
    )


def controls(experiment: Experiment, *settings: SettingDifference) -> list[tuple[str, str]]:
    """Return configuration and workload of each control."""
    return [(each.configuration, each.workload) for each in negative_controls(experiment, settings)]


def analysed(experiment: Experiment, *effects: float, noise: float = 0.005) -> CampaignAnalysis:
    """Return the analysis of a campaign in which ``t1`` differs so much, workload by workload."""
    rng = np.random.default_rng(5)
    log_tps = 7.0 + noise * rng.standard_normal((BLOCKS, 2, len(effects)))
    log_tps[:, 1, :] += np.log1p(effects)
    return analyse(a_record(log_tps, experiment), curves=False)


def told(analysis: CampaignAnalysis) -> dict[str, tuple[Severity, str]]:
    """Return severity and message of the findings on controls by code."""
    return {
        each.code: (each.severity, each.message)
        for each in analysis.findings
        if each.code.startswith("negative-control")
    }


@pytest.mark.parametrize("name", ["synchronous_commit", "commit_delay", "wal_sync_method", "fsync"])
def test_reads_are_a_control_of_how_the_log_is_written(name: str) -> None:
    """Select-only writes no WAL, so it is one; what writes is none."""
    assert controls(asked(READS, WRITES, **{name: "x"})) == [("t1", "reads")]


@pytest.mark.parametrize("name", ["shared_buffers", "wal_buffers", "max_wal_size", "work_mem"])
def test_what_may_touch_reads_makes_no_control(name: str) -> None:
    """One such setting is enough, also beside one of the log."""
    assert controls(asked(READS, WRITES, **{name: "x"})) == []
    assert controls(asked(READS, WRITES, **ASYNC, **{name: "x"})) == []


def test_what_differs_unasked_counts() -> None:
    """Two versions, or a setting that follows from the machine, may touch the reads."""
    experiment = asked(READS, **ASYNC)
    unasked = SettingDifference(name="jit", values=ON_OFF, requested=False)
    of_the_log = SettingDifference(name="synchronous_commit", values=ON_OFF, requested=True)
    assert controls(experiment, of_the_log) == [("t1", "reads")]
    assert controls(experiment, of_the_log, unasked) == []


def test_what_differs_around_the_server_counts() -> None:
    """Another target, another protocol, a step by hand: nobody knows what they touch."""
    experiment = asked(READS, **ASYNC)
    first, second = experiment.configurations
    for changed in (
        replace(second, target=LocalTarget(server="15")),
        replace(second, protocol="prepared"),
        replace(second, manual=ManualStep(text="move it")),
    ):
        assert controls(replace(experiment, configurations=(first, changed))) == []


def test_nothing_differs_between_a_server_and_itself() -> None:
    """Without a difference there is nothing that a control could test."""
    assert controls(asked(READS, WRITES)) == []


def test_redis_reads_none_of_its_files() -> None:
    """Neither persistence nor its directory touches PING and GET; a replica beside it does."""
    experiment = asked(
        SET, GET, PING, engine=EngineName.REDIS, appendonly="yes", appendfsync="always"
    )
    assert controls(experiment) == [("t1", "get"), ("t1", "ping")]
    first, second = experiment.configurations
    elsewhere = replace(second, target=RedisLocalTarget(directory="/mnt/slow"))
    values = {"t0": None, "t1": "/mnt/slow"}
    moved = SettingDifference(name="target: directory", values=values, requested=True)
    there = replace(experiment, configurations=(first, elsewhere))
    assert controls(there, moved) == [("t1", "get"), ("t1", "ping")]
    followed = replace(second, target=RedisLocalTarget(replica=(("appendonly", "yes"),)))
    assert controls(replace(experiment, configurations=(first, followed))) == []
    threads = asked(PING, engine=EngineName.REDIS, appendonly="yes", io__threads="4")
    assert controls(threads) == []


@pytest.mark.parametrize(
    ("workload", "engine", "expected"),
    [
        (READS, EngineName.POSTGRES, True),
        (WRITES, EngineName.POSTGRES, False),
        (Workload(name="own", scripts=(Script(name="a", text="SELECT 1"),)), "postgres", False),
        (PING, EngineName.REDIS, True),
        (replace(PING, builtin="ping_mbulk"), EngineName.REDIS, True),
        (SET, EngineName.REDIS, False),
        (replace(SET, builtin="lpop"), EngineName.REDIS, False),
        (replace(SET, builtin=None, redis=RedisWork(command=("GET", "a"))), "redis", True),
        (replace(SET, builtin=None, redis=RedisWork(command=("EVAL", "a"))), "redis", False),
    ],
)
def test_only_what_surely_writes_nothing_is_read_only(
    workload: Workload, engine: EngineName, *, expected: bool
) -> None:
    """Own scripts are not read, and a command that is not known may write."""
    assert is_read_only(workload, EngineName(engine)) is expected


def test_a_control_that_differs_makes_the_comparison_suspect() -> None:
    """The warning has the effect and the other explanation, and each other result the mark."""
    analysis = analysed(asked(READS, WRITES, **ASYNC), -0.2, 0.5)
    severity, message = told(analysis)["negative-control-differs"]
    assert severity is Severity.WARNING
    assert message.startswith("t1 vs t0 (baseline): the negative control reads differs by -20.")
    assert "so synchronous_commit cannot touch it" in message
    assert "the log of writes is still written in the background" in message
    assert "The other results of this comparison are suspect" in message
    reads, writes = analysis.results
    assert (reads.is_suspect, writes.is_suspect) == (False, True)
    assert verdict_word(writes, 0.01) == "faster, suspect, less durable"
    sentence = verdict_sentence(analysis, writes)
    assert sentence.endswith("; suspect: the negative control reads differs")
    shown = [each.get("suspect_by_control") for each in summary(analysis)["comparisons"]]
    assert "reads" in shown
    assert None in shown


@pytest.mark.parametrize(("one", "other"), [("t0", "t1"), ("t1", "t0"), ("t1", "t2")])
def test_two_that_are_picked_have_the_mark_too(one: str, other: str) -> None:
    """In the plan, turned, or not in the plan: the pair's own control is looked at."""
    experiment = asked(READS, WRITES, **ASYNC)
    first, second = experiment.configurations
    three = replace(experiment, configurations=(first, second, replace(first, name="t2")))
    log_tps = 7.0 + 0.005 * np.random.default_rng(5).standard_normal((BLOCKS, 3, 2))
    log_tps[:, 1, :] += np.log1p([-0.2, 0.5])
    record = a_record(log_tps, three)
    whole = analyse(record)
    pair = compare_pair(record, whole, reference=one, configuration=other)
    marks = {each.workload: each.is_suspect for each in pair.campaign.results}
    assert marks == {"reads": False, "writes": True}


def test_a_control_that_agrees_speaks_for_the_comparison() -> None:
    """Equal within the margin is one line of information, and nothing is marked."""
    analysis = analysed(asked(READS, WRITES, **ASYNC), 0.0, 0.5)
    ((code, (severity, message)),) = told(analysis).items()
    assert (code, severity) == ("negative-control-agrees", Severity.INFO)
    assert "reads, t1 vs t0 (baseline): -0." in message
    assert not any(each.is_suspect for each in analysis.results)


def test_a_difference_within_the_margin_is_none() -> None:
    """Faster by less than has any weight agrees."""
    analysis = analysed(asked(READS, WRITES, **ASYNC), 0.004, 0.5, noise=0.001)
    assert set(told(analysis)) == {"negative-control-agrees"}


def test_an_undecided_control_claims_nothing() -> None:
    """A wide interval is told as such; it is no evidence in favour."""
    analysis = analysed(asked(READS, WRITES, **ASYNC), 0.0, 0.5, noise=0.2)
    ((code, (severity, message)),) = told(analysis).items()
    assert (code, severity) == ("negative-control-undecided", Severity.INFO)
    assert "says as little as its interval is wide" in message


def test_without_a_control_nothing_is_said() -> None:
    """Where the difference may touch the reads, their difference is the answer."""
    analysis = analysed(asked(READS, WRITES, shared_buffers="1GB"), -0.2, 0.5)
    assert told(analysis) == {}
    assert not any(each.control for each in analysis.results)


def test_a_control_alone_names_no_other_writer() -> None:
    """Without writes in its starts there is no log that could still be written."""
    analysis = analysed(asked(READS, **ASYNC), -0.2)
    assert "in the background" not in told(analysis)["negative-control-differs"][1]


def test_a_factor_of_the_log_has_its_control_beside_another_factor() -> None:
    """The main effect of the commit has matched pairs; that of the buffers may touch reads."""
    made = with_factors(2)
    turned = {"huge-pages": ("shared_buffers", "1GB"), "buffers": ("synchronous_commit", "off")}
    experiment = replace(
        made,
        workloads=(READS,),
        configurations=tuple(
            replace(
                configuration,
                settings=tuple(
                    Setting(layer=Layer.POSTGRES, name=name, value=value)
                    for level, (name, value) in zip(
                        configuration.name, turned.values(), strict=True
                    )
                    if level == "1"
                ),
            )
            for configuration in made.configurations
        ),
    )
    (control,) = negative_controls(experiment, ())
    assert (control.workload, control.names) == ("reads", ("synchronous_commit",))
