"""Applying, verifying and reverting a stack plan on the command line."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from steelyard.model.command import ServerAddress
from steelyard.model.errors import (
    ExitCode,
    InputError,
    LeftBehindError,
    TargetError,
)
from steelyard.model.outside import OnServer
from steelyard.model.stack import Knob, KnobKind, Scope, StackPlan
from steelyard.model.stack_progress import Outcome, Step
from steelyard.record.entries import StackBegun
from steelyard.tuning.applying.applier import (
    UnprivilegedError,
    apply_all,
    require_all,
    revert_all,
    verify_all,
)
from steelyard.tuning.applying.door import Check, KnobDoor
from steelyard.tuning.applying.doors import Outside
from steelyard.tuning.applying.local_server import find_process
from steelyard.tuning.applying.plans import (
    beginning,
    doors_of,
    doors_of_knobs,
    identifier,
    reached,
    read_plan,
    require_same_machine,
    require_same_server,
)
from steelyard.tuning.applying.record import opened, read_applied
from steelyard.tuning.applying.selection import selection_of

_MOST_SHOWN = 60  # of a value, on a line
_NOT_TURNED = frozenset({KnobKind.MANUAL, KnobKind.RENDERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """What the command line says; see its help."""

    directory: Path
    layers: tuple[str, ...]
    dsn: str | None
    dry_run: bool = False
    yes: bool = False


def apply(options: ApplyOptions, outside: Outside | None = None) -> None:
    """Put a plan into effect, and say what came of every knob.

    Raises:
        SteelyardError: It was refused, or a knob failed.
    """
    outside = outside or Outside()
    plan = read_plan(options.directory)
    require_same_machine(read_applied(options.directory).begun, outside.host)
    server, address = _server(plan, options, outside)
    selection = selection_of(plan.knobs, options.layers, local_server=_is_here(address, outside))
    chosen = [knob for knob in plan.knobs if selection.wants(knob)]
    doors = doors_of(plan, options.directory, outside, address)
    if options.dry_run:
        _show(chosen, doors)
        return
    _require(chosen, doors)
    todo = [k for k in chosen if k.kind not in _NOT_TURNED and not doors[k.kind].verify(k).holds]
    if todo and not options.yes:
        _show(todo, doors)
        click.confirm(f"Turn {_counted(len(todo), 'knob')}?", abort=True)
    identified = identifier(address, outside.sql) if address else ""
    with opened(options.directory, outside.clock) as record:
        record.begin(beginning(plan, server, identified, outside.host))
        steps = apply_all(
            plan.knobs,
            doors,
            record,
            selection=selection,
            told=_say,
            confirmed=lambda knob: not options.yes and _is_done(knob),
        )
    _conclude(steps, options.directory)


def _server(
    plan: StackPlan, options: ApplyOptions, outside: Outside
) -> tuple[OnServer | None, ServerAddress | None]:
    """Return the server whose settings are turned; none where no setting is.

    Raises:
        InputError: There are settings, and no server is named, now or before.
    """
    if not any(
        knob.kind is KnobKind.POSTGRES and (not options.layers or knob.layer in options.layers)
        for knob in plan.knobs
    ):
        return None, None
    if options.dsn is not None:
        return reached(options.dsn, outside.sql)
    server = read_applied_server(options.directory)
    if server is None:
        raise InputError(
            "the plan has PostgreSQL settings, and no server is named",
            hint="Name it with --dsn postgresql://USER@HOST:PORT/DATABASE, or leave them out"
            " with --only linux.",
        )
    return server, server.address()


def _is_here(address: ServerAddress | None, outside: Outside) -> bool:
    return address is None or find_process(address, outside.sql, outside.host) is not None


def read_applied_server(directory: Path) -> OnServer | None:
    """Return the server that the plan of a directory was applied to, if there is one."""
    begun = read_applied(directory).begun
    return None if begun is None else begun.server


def _require(chosen: Sequence[Knob], doors: Mapping[KnobKind, KnobDoor]) -> None:
    try:
        require_all(chosen, doors)
    except UnprivilegedError as error:
        for line in error.commands:
            click.echo(line)
        raise


def _is_done(knob: Knob) -> bool:
    return click.confirm(f"To be done by you: {knob.place}. Is it done?", default=False)


def _show(knobs: Sequence[Knob], doors: Mapping[KnobKind, KnobDoor]) -> None:
    """Say what every knob is and would become, and the commands that do the same."""
    for knob in knobs:
        door = doors[knob.kind]
        check = door.verify(knob)
        state = "in effect already" if check.holds else _change(knob, door)
        click.echo(f"{knob.name}: {state}")
        for line in () if check.holds else door.commands(knob):
            click.echo(f"    {line}")


def _change(knob: Knob, door: KnobDoor) -> str:
    if knob.kind in _NOT_TURNED:
        return f"{Outcome.RENDERED}"
    seen = door.seen(knob)
    now = _short(seen.value) if seen.value is not None else seen.reason
    later = "" if knob.scope is Scope.LIVE else f" (takes effect with a {knob.scope})"
    return f"{now} -> {_short(knob.value)}{later}"


def _short(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}..."


def _say(step: Step) -> None:
    click.echo(f"{step.knob.name}: {step.outcome}")
    for fact in step.facts:
        click.echo(f"    {fact}")
    if step.remedy and step.outcome is not Outcome.FAILED:
        click.echo(f"    {step.remedy}")
    for line in step.commands:
        click.echo(f"    {line}")


def _conclude(steps: Sequence[Step], directory: Path) -> None:
    failed = [step for step in steps if step.outcome is Outcome.FAILED]
    if failed:
        step = failed[0]
        raise TargetError(
            f"{step.knob.name} failed: {' '.join(step.facts)}",
            hint=f"{step.remedy} Then `steelyard stack apply {directory}` goes on, and `steelyard"
            f" stack revert {directory}` restores what was there.",
        )
    left = [step for step in steps if step.outcome in (Outcome.PENDING, Outcome.WAITING)]
    if left:
        click.echo(
            f"{_counted(len(left), 'knob')} not in effect yet: do what is said there, then run"
            f" `steelyard stack apply {directory}` again."
        )
    else:
        click.echo(f"In effect. `steelyard stack revert {directory}` restores what was there.")


def verify(options: ApplyOptions, *, as_json: bool, outside: Outside | None = None) -> None:
    """Say of every knob of a plan whether it is in effect; leaves with a code when one is not."""
    outside = outside or Outside()
    plan = read_plan(options.directory)
    server = read_applied_server(options.directory)
    address = None
    if options.dsn is not None:
        _, address = reached(options.dsn, outside.sql)
    elif server is not None:
        address = server.address()
    selection = selection_of(plan.knobs, options.layers, local_server=_is_here(address, outside))
    doors = doors_of(plan, options.directory, outside, address)
    checked = verify_all([knob for knob in plan.knobs if selection.wants(knob)], doors)
    if as_json:
        click.echo(json.dumps([_as_json(knob, check) for knob, check in checked], indent=2))
    else:
        for knob, check in checked:
            _say_check(knob, check)
    if any(check.holds is False for _, check in checked):
        raise click.exceptions.Exit(ExitCode.GATE)


def _as_json(knob: Knob, check: Check) -> dict[str, object]:
    return {
        "name": knob.name,
        "layer": knob.layer,
        "kind": knob.kind,
        "place": knob.place,
        "asked": knob.value,
        "in_effect": check.holds,
        "facts": list(check.facts),
        "pending": check.pending,
        "remedy": check.remedy,
    }


def _say_check(knob: Knob, check: Check) -> None:
    words = {True: "OK", False: "NOT IN EFFECT", None: "NOT VISIBLE"}
    click.echo(f"[{words[check.holds]}] {knob.name}")
    for fact in check.facts:
        click.echo(f"    {fact}")
    remedy = f"It takes effect with {check.pending}." if check.pending else check.remedy
    if remedy and not check.holds:
        click.echo(f"    {remedy}")


def revert(directory: Path, dsn: str | None, *, yes: bool, outside: Outside | None = None) -> None:
    """Restore what was there before a plan was applied, and say what came of every knob.

    Raises:
        LeftBehindError: Something could not be put back yet.

    """
    outside = outside or Outside()
    applied = read_applied(directory)
    if applied.begun is None and not directory.is_dir():
        raise InputError(f"there is no directory {directory}", hint="Name that of the plan.")
    if applied.begun is None or not applied.snapshots:
        click.echo(f"Nothing is applied from {directory}.")
        return
    kept = [entry.knob for entry in applied.snapshots.values()]
    if any(knob.kind is not KnobKind.POSTGRES for knob in kept):
        require_same_machine(applied.begun, outside.host)
    address = None
    if any(knob.kind is KnobKind.POSTGRES for knob in kept):
        address = _address(applied.begun, dsn, outside)  # None: all else goes back anyway
    if not yes:
        click.echo("\n".join(knob.name for knob in kept))
        click.confirm(f"Put back {_counted(len(kept), 'knob')}?", abort=True)
    with opened(directory, outside.clock) as record:
        steps = revert_all(doors_of_knobs(directory, outside, address), record, told=_say)
    left = [step for step in steps if step.outcome is not Outcome.RESTORED]
    if left:
        raise _left_behind(left, directory)
    click.echo("Everything is as it was.")


def _address(begun: StackBegun, dsn: str | None, outside: Outside) -> ServerAddress | None:
    """Return where the server of an application is, None where it cannot be reached now."""
    try:
        if dsn is not None:
            _, address = reached(dsn, outside.sql)
        elif begun.server is not None:
            address = begun.server.address()
        else:
            return None
        require_same_server(begun, address, outside.sql)
    except TargetError as error:
        click.echo(f"warning: {error.message}", err=True)
        return None
    return address


def _left_behind(left: Sequence[Step], directory: Path) -> LeftBehindError:
    reasons = [f"{step.knob.name}: {' '.join(step.facts)}" for step in left if step.facts]
    hints = dict.fromkeys(step.remedy for step in left if step.remedy)
    return LeftBehindError(
        f"{_counted(len(left), 'knob')} could not be put back: {'; '.join(reasons)}",
        hint=f"{' '.join(hints)} Then run `steelyard stack revert {directory}` again.",
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
