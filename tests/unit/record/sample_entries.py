"""Entries of every kind: a strategy for any of them, and a small journal."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from fakes.clock import FakeClock
from steelyard.core.campaign import BlockOutcome, Status
from steelyard.core.experiment import Configuration, Experiment, Workload
from steelyard.core.findings import Finding, Severity, Validity
from steelyard.core.measurement import Measurement, Run, Second
from steelyard.core.schedule import CellKey, Load
from steelyard.core.target import TARGETS, LocalTarget, Server
from steelyard.record import journal as entries
from steelyard.record.journal import Entry, Journal

KINDS: tuple[type, ...] = get_args(entries.Entry)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=20),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}


@cache
def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type made of dataclasses, tuples, unions, enums and scalars."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind is Server:
        return st.one_of([_class(each) for kinds in TARGETS.values() for each in kinds.values()])
    return _generic(kind) if get_args(kind) else _class(kind)


def _generic(kind: Any) -> st.SearchStrategy[Any]:
    arguments = get_args(kind)
    if get_origin(kind) in (types.UnionType, Union):
        return st.one_of(*map(any_of, arguments))
    if get_origin(kind) is Literal:
        return st.sampled_from(arguments)
    if arguments[-1] is Ellipsis or get_origin(kind) is Sequence:
        return st.lists(any_of(arguments[0]), max_size=2).map(tuple)
    if get_origin(kind) is Mapping:
        return st.dictionaries(*map(any_of, arguments), max_size=2)
    return st.tuples(*map(any_of, arguments))


def _class(kind: type) -> st.SearchStrategy[Any]:
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    hints = get_type_hints(kind)
    return st.builds(kind, **{f.name: any_of(hints[f.name]) for f in dataclasses.fields(kind)})


def an_experiment() -> Experiment:
    """Return the smallest experiment with two configurations."""
    return Experiment(
        name="tiny",
        baseline="a",
        configurations=tuple(Configuration(name=n, target=LocalTarget()) for n in ("a", "b")),
        workloads=(Workload(name="reads", builtin="select-only", scale=1),),
        loads=(Load(clients=2, threads=1),),
        seed=7,
    )


def a_run(
    block: int = 0, attempt: int = 0, *, configuration: str = "a", measured: bool = True
) -> Run:
    """Return a run with one interval, or one without a result."""
    second = Second(end_s=1.0, transactions=0.0, seconds=1.0, latency_mean_s=None)
    measurement = Measurement(
        transactions=5000.0,
        seconds=5.0,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=0.01,
        series=(second,),
    )
    return Run(
        block=block,
        attempt=attempt,
        start=0,
        position=0,
        configuration=configuration,
        cell=CellKey(workload="reads", load=Load(clients=2, threads=1)),
        started_at=1_795_000_000.0,
        since_start_s=3.5,
        measurement=measurement if measured else None,
        validity=Validity.VALID if measured else Validity.INVALID,
        raw="0000-0-0-00.txt.gz",
    )


def a_story() -> tuple[Entry, ...]:
    """Return the entries of a short campaign with a block that was thrown away."""
    return (
        entries.Started(
            campaign_id="tiny-1", experiment=an_experiment(), command="steelyard run", version="0"
        ),
        entries.Created(resource="directory", name="/run/sockets"),
        entries.BlockStarted(index=0, attempt=0),
        entries.RunFinished(run=a_run(measured=False)),
        entries.BlockEnded(
            outcome=BlockOutcome(index=0, attempt=0, complete=False, reason="the server died")
        ),
        entries.BlockStarted(index=0, attempt=1),
        entries.RunFinished(run=a_run(attempt=1)),
        entries.RunFinished(run=a_run(attempt=1, configuration="b")),
        entries.BlockEnded(outcome=BlockOutcome(index=0, attempt=1, complete=True)),
        entries.Noted(
            finding=Finding(code="f", severity=Severity.INFO, message="für\nzwei Zeilen")
        ),
        entries.Removed(resource="directory", name="/run/sockets"),
        entries.Ended(status=Status.BUDGET),
    )


def write_journal(path: Path, story: Sequence[Entry], clock: FakeClock | None = None) -> bytes:
    """Write a journal, a second of work per entry, and return its bytes."""
    clock = clock or FakeClock()
    journal = Journal(path, clock)
    for entry in story:
        clock.advance(1.0)
        journal.append(entry)
    journal.close()
    return path.read_bytes()
