"""From journal lines to the campaign they tell of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sample_entries import a_run, a_story, an_experiment

from steelyard.core import experiment as core
from steelyard.core.campaign import BlockOutcome, ServerMade, Status
from steelyard.core.findings import Fact
from steelyard.core.measurement import Environment, ProviderSeries, ServerEnvironment
from steelyard.core.wording import RecordError
from steelyard.record import journal as entries
from steelyard.record.journal import IN_FLIGHT, Entry, Line, replay, standing

_START = entries.Started(
    campaign_id="c", experiment=an_experiment(), command="steelyard run x", version="0"
)


def _lines(*story: Entry) -> tuple[Line, ...]:
    return tuple(
        Line(sequence=n, at=100.0 + n, elapsed_s=float(n), entry=entry)
        for n, entry in enumerate(story)
    )


def _started(index: int, attempt: int = 0) -> entries.BlockStarted:
    return entries.BlockStarted(index=index, attempt=attempt)


def _ended(index: int, attempt: int = 0, reason: str = "") -> entries.BlockEnded:
    return entries.BlockEnded(
        outcome=BlockOutcome(index=index, attempt=attempt, complete=not reason, reason=reason)
    )


def test_a_story_is_told_back() -> None:
    """Experiment, command, runs, tries, findings and times are those of the entries."""
    record = replay(_lines(*a_story()))
    assert record.campaign_id == "tiny-1"
    assert record.experiment == an_experiment()
    assert record.command == "steelyard run"
    assert len(record.runs) == 3
    assert [(b.index, b.attempt, b.complete) for b in record.blocks] == [
        (0, 0, False),
        (0, 1, True),
    ]
    assert record.findings[0].code == "f"
    assert (record.started_at, record.elapsed_s) == (100.0, len(a_story()) - 1)
    assert record.status is Status.BUDGET
    assert record.plan is None


def test_only_runs_of_complete_tries_count() -> None:
    """What was measured in a try that was thrown away stays in the record and out of analysis."""
    record = replay(_lines(*a_story()))
    assert record.complete_blocks == ((0, 1),)
    assert [run.configuration for run in record.counted_runs] == ["a", "b"]
    assert all(run.measurement is not None for run in record.counted_runs)


@pytest.mark.parametrize("after", [(), (entries.Resumed(version="0"), _started(2, 1))])
def test_a_block_in_flight_at_a_death_is_thrown_away(after: Sequence[Entry]) -> None:
    """A try that never ended is incomplete with the reason, whether or not work went on."""
    story = [_START, _started(1), _ended(1), _started(2), entries.RunFinished(run=a_run(2))]
    record = replay(_lines(*story, *after))
    reasons = [(b.index, b.attempt, b.complete, b.reason) for b in record.blocks]
    assert reasons[:2] == [(1, 0, True, ""), (2, 0, False, IN_FLIGHT)]
    assert reasons[2:] == ([(2, 1, False, IN_FLIGHT)] if after else [])
    assert record.complete_blocks == ((1, 0),)


@pytest.mark.parametrize(
    ("story", "status"),
    [
        ((), Status.RUNNING),
        ((entries.Ended(status=Status.DECIDED),), Status.DECIDED),
        (
            (
                entries.Ended(status=Status.FAILED),
                entries.Removed(resource="directory", name="/x"),
            ),
            Status.FAILED,
        ),
        (
            (entries.Ended(status=Status.INTERRUPTED), entries.Resumed(version="0")),
            Status.RUNNING,
        ),
        (
            (
                entries.Ended(status=Status.INTERRUPTED),
                entries.Resumed(version="0"),
                entries.Ended(status=Status.BUDGET),
            ),
            Status.BUDGET,
        ),
    ],
)
def test_the_status_is_that_of_the_last_session(story: Sequence[Entry], status: Status) -> None:
    """Clearing up after the end changes nothing; a resumed campaign runs again."""
    assert replay(_lines(_START, *story)).status is status


def test_a_later_environment_replaces_an_earlier() -> None:
    """A resumed campaign tells the facts anew."""
    first, second = (
        Environment(facts=(Fact(name="kernel", value=value),)) for value in ("6.1", "6.2")
    )
    story = [entries.EnvironmentRead(environment=e) for e in (first, second)]
    assert replay(_lines(_START, *story)).environment == second


@pytest.mark.parametrize("story", [(), (entries.Resumed(version="0"),)])
def test_what_does_not_begin_with_a_start_is_no_campaign(story: Sequence[Entry]) -> None:
    """A journal of something else is refused with a way out."""
    with pytest.raises(RecordError, match="does not begin with the start") as caught:
        replay(_lines(*story))
    assert caught.value.hint


def test_resources_are_what_was_made_and_not_removed() -> None:
    """Last made first, so that what stands on another is removed before it."""
    made = [entries.Created(resource="directory", name=name) for name in ("/a", "/b", "/c")]
    gone = [entries.Removed(resource="directory", name=name) for name in ("/b", "/never-made")]
    left = standing(_lines(_START, *made, *gone)).left
    assert [each.name for each in left] == ["/c", "/a"]
    assert standing(_lines(*a_story())).left == ()


# What a chart library ends the process for, what steers a terminal, and what takes a minute.
_WRONG = ("x\0y", "x\x1by", "x\u009by", "x\u202ey", "x\ufffey", "x\uffffy", "", "a" * 5000)
_NAMED = ("configuration", "workload", "name")  # and levels, which are labels


def _factors(**changed: str) -> core.Experiment:
    """Return an experiment that varies one factor, with a name in it changed."""
    factor = replace(core.Factor(name="f", first="off", second="on it"), **changed)
    attribution = core.Attribution(
        kind=core.AttributionKind.FACTORS, factors=(factor,), combinations=((0,), (1,))
    )
    return replace(an_experiment(), attribution=attribution)


def _named(kind: str, name: str) -> core.Experiment:
    """Return an experiment in which something of a kind has this name."""
    experiment = an_experiment()
    if kind == "configuration":
        first, second = experiment.configurations
        return replace(experiment, configurations=(first, replace(second, name=name)))
    if kind == "workload":
        return replace(experiment, workloads=(replace(experiment.workloads[0], name=name),))
    return _factors(**{kind: name})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in (*_NAMED, "first", "second") for name in _WRONG),
        *((kind, "a b") for kind in _NAMED),
    ],
    ids=ascii,
)
def test_names_of_a_journal_are_those_that_files_may_give(kind: str, name: str) -> None:
    """A record may come from anybody; names of configurations, workloads and factors are short."""
    with pytest.raises(RecordError, match=r"line 1 of the journal: .* is not a valid name") as told:
        replay(_lines(replace(_START, experiment=_named(kind, name))))
    assert told.value.message.isprintable()
    assert len(told.value.message) < 300


@pytest.mark.parametrize("name", ["a", "huge-pages+buffers", "without-" + "x" * 40, "9_-"])
def test_names_that_files_and_factors_make_are_read(name: str) -> None:
    """Also those of combinations, which are longer than any of a file."""
    experiment = _named("configuration", name)
    assert replay(_lines(replace(_START, experiment=experiment))).experiment == experiment


def _speaking_of(name: str) -> dict[str, Any]:
    """Return an entry of each kind that names a configuration."""
    server = ServerEnvironment(configuration=name, version="18", settings=())
    made = ServerMade(block=0, attempt=0, start=0, configuration=name, facts=())
    series = ProviderSeries(
        server="s",
        configurations=(name,),
        metric="m",
        unit="%",
        period_s=60.0,
        starts_s=(),
        values=(),
    )
    outcome = BlockOutcome(index=0, attempt=0, complete=False, configuration=name)
    return {
        "environment": entries.EnvironmentRead(
            environment=Environment(facts=(), servers=(server,))
        ),
        "provisioned": entries.Provisioned(server=made),
        "provider": entries.ProviderRead(series=(series,)),
        "block": entries.BlockEnded(outcome=outcome),
        "run": entries.RunFinished(run=a_run(configuration=name)),
    }


@pytest.mark.parametrize("kind", list(_speaking_of("a")))
def test_a_journal_speaks_of_its_own_configurations_alone(kind: str) -> None:
    """No other name comes in by a later line."""
    replay(_lines(_START, _speaking_of("b")[kind]))
    with pytest.raises(RecordError, match="line 2 of the journal"):
        replay(_lines(_START, _speaking_of("x\x1by")[kind]))
