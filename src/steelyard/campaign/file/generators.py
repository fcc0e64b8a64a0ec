"""A load generator that the file names by ``generator.command``: what is wrong with it, its model.

The contract with such a program is in ``docs/generators.md``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from steelyard.campaign.file.document import Issue, KeyPath
from steelyard.campaign.file.form import Draft, GeneratorForm
from steelyard.campaign.file.form_parts import (
    LATENCY_UNITS,
    RATE_UNITS,
    CommandForm,
    MeasureForm,
    share_of,
)
from steelyard.campaign.file.systems import SYSTEMS
from steelyard.core.errors import choice
from steelyard.core.experiment import Design, Figure, LoadCommand, LogPolicy
from steelyard.core.target import TARGETS
from steelyard.systems.own_program import OF_A_RUN, OF_THE_SERVER, filled, names_in

_KEEP: Final = "Remove it."
_BEFORE: Final = ("workload", "directory")  # known when the file is read
_OF_PGBENCH: Final = (
    (("generator", "program"), "`command` names the program already"),
    (("generator", "flags"), "the flags of a command stand in `command`"),
    (("loads", "rate"), "only pgbench is known to offer a rate"),
    (("loads", "latency_limit"), "`latency_limit` is pgbench's"),
    (("loads", "generators"), "one process of the command is started for each run"),
    (("loads", "protocol"), "`protocol` is pgbench's query mode"),
    (("slo",), "`slo` needs loads at a rate, which only pgbench is known to offer"),
    (("capacity",), "the capacity is for loads at a rate, which only pgbench is known to offer"),
    (("sustain",), "a long run is judged by its seconds, of which the command tells nothing"),
    (("measure", "calibration"), "a calibration needs every second of a run"),
    (("measure", "log_sampling"), "no log of the command is read"),
)


def has_command(draft: Draft) -> bool:
    """Return whether the file names a command, sound or not."""
    return draft.document.at(("generator", "command")) is not None


def generator_issues(draft: Draft) -> Iterator[Issue]:
    """Yield what is wrong with a command, and what does not go with one."""
    if not has_command(draft):
        yield from _without_command(draft)
        return
    if draft.generator is not None:
        yield from _command(draft.generator)
    yield from _beside(draft)
    yield from _places(draft)
    for index in draft.workloads:
        yield from _workload(draft, ("workloads", index))


def _without_command(draft: Draft) -> Iterator[Issue]:
    for key in CommandForm.model_fields:
        if draft.document.at(("generator", key)) is not None:
            message = f"`{key}` is about a command, and there is none"
            hint = "Add `command`, the program that puts the load on, or remove it."
            yield Issue(path=("generator", key), message=message, hint=hint, at_key=True)


def _command(form: GeneratorForm) -> Iterator[Issue]:
    if form.rate is None:
        message = "nothing says where the command's output has its rate"
        hint = "Add `rate`, as in `rate: 'tps = (?P<rate>[0-9.]+)'`."
        yield Issue(path=("generator", "command"), message=message, hint=hint, at_key=True)
    known = (*_BEFORE, *OF_THE_SERVER)
    yield from _names("command", form.command or (), (*known, *OF_A_RUN))
    yield from _names("prepare_command", form.prepare_command or (), known)


def _names(key: str, words: Sequence[str], known: Sequence[str]) -> Iterator[Issue]:
    for name in names_in(words):
        if name in known:
            continue
        why = "is not known before a run" if name in OF_A_RUN else "is no name that is filled in"
        message = f"`{{{name}}}` {why}"
        yield Issue(path=("generator", key), message=message, hint=choice(name, known))


def _beside(draft: Draft) -> Iterator[Issue]:
    """Yield keys that only a generator of Steelyard's own choice has a use for."""
    for path, message in _OF_PGBENCH:
        if draft.document.at(path) is not None:
            yield Issue(path=path, message=message, hint=_KEEP, at_key=True)
    for home in draft.homes:
        if draft.document.at((*home, "protocol")) is not None:
            message = "`protocol` is pgbench's query mode"
            yield Issue(path=(*home, "protocol"), message=message, hint=_KEEP, at_key=True)
    if draft.document.at(("design",)) == Design.ALTERNATING:
        message = "the command tells nothing of single transactions, so turns cannot be counted"
        yield Issue(path=("design",), message=message, hint="Write `one-by-one`, or leave it out.")
    if draft.measure is not None:
        yield from _measure(draft, draft.measure)


def _measure(draft: Draft, measure: MeasureForm) -> Iterator[Issue]:
    if measure.log == LogPolicy.KEEP:
        message = "no log of the command is read, so none can be kept"
        yield Issue(path=("measure", "log"), message=message, hint=_KEEP)
    words = draft.generator.command if draft.generator else None
    if "ramp" in measure.model_fields_set and measure.ramp and "ramp" not in names_in(words or ()):
        message = "the command is not told of the ramp, so it leaves out nothing"
        hint = "Hand it over as `{ramp}` where the program can leave out its start, or remove it."
        yield Issue(path=("measure", "ramp"), message=message, hint=hint)


def _places(draft: Draft) -> Iterator[Issue]:
    """Yield targets whose load is put on by programs that a command cannot be."""
    path = ("generator", "command")
    if not SYSTEMS[draft.engine].takes_command:
        message = "a command puts load on PostgreSQL, and the targets are of another system"
        yield Issue(path=path, message=message, hint=_KEEP, at_key=True)
        return
    for home in draft.homes:
        target = draft.document.at((*home, "target"))
        kind = TARGETS.get(str(target.get("kind"))) if isinstance(target, dict) else None
        in_pods = kind is not None and "place" in {each.name for each in fields(kind)}
        if isinstance(target, dict) and ("kubernetes" in target or in_pods):
            message = "load generators run in pods there, and their image has pgbench alone"
            hint = "Name a target that is reached from this machine: `local` or `endpoint`."
            yield Issue(path=(*home, "target"), message=message, hint=hint, at_key=True)


def _workload(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    for key in ("builtin", "scripts"):
        if draft.document.at((*path, key)):
            message = f"`{key}` is for pgbench, and `generator.command` puts the load on"
            yield Issue(path=(*path, key), message=message, hint=_KEEP, at_key=True)


def load_command(form: GeneratorForm, workload: str, base: Path) -> LoadCommand | None:
    """Return the command of one workload; None where the system's own generator is used.

    Args:
        form: All checks have passed.
        workload: Its name.
        base: Directory of the file.
    """
    if form.command is None or form.rate is None:
        return None
    known = {"workload": workload, "directory": str(base)}
    factor = LATENCY_UNITS[form.latency_unit]
    latencies = {name: Figure(place=at, factor=factor) for name, at in (form.latency or {}).items()}
    return LoadCommand(
        argv=_located(filled(form.command, known), base),
        prepare=_located(filled(form.prepare_command or (), known), base),
        rate=Figure(place=form.rate, factor=RATE_UNITS[form.rate_unit]),
        mean=latencies.pop("mean", None),
        percentiles=tuple(
            sorted(((share_of(name) or 0.0, at) for name, at in latencies.items()), key=_share)
        ),
        grace_s=form.grace,
    )


def _share(pair: tuple[float, Figure]) -> float:
    return pair[0]


def _located(words: tuple[str, ...], base: Path) -> tuple[str, ...]:
    """Return a command whose program is relative to the file where it has a directory."""
    if not words or "/" not in words[0]:
        return words
    return (str(base / Path(words[0]).expanduser()), *words[1:])
