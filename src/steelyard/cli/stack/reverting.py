"""``steelyard stack revert``: restore what was there before a plan was applied."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from steelyard.cli.stack.applying import ask, counted, say, telling_how_to_go_on
from steelyard.core.command import ServerAddress, quoted
from steelyard.core.errors import (
    InputError,
    LeftBehindError,
    PreflightError,
    TargetError,
)
from steelyard.core.stack import Outcome, Site, Step
from steelyard.core.units import printable
from steelyard.record.journal import StackBegun
from steelyard.tuning.apply.applier import GONE, Changed, revert_all, to_put_back
from steelyard.tuning.apply.doors import Outside, doors
from steelyard.tuning.apply.plans import (
    FILES,
    inside_again,
    reached,
    require_same_machine,
    require_same_server,
)
from steelyard.tuning.apply.record import Applied, AppliedRecord, is_ours, opened, read_applied


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertOptions:
    """What the command line says; see its help."""

    directory: Path
    dsn: str | None = None
    adopt: bool = False
    yes: bool = False
    changed: Changed = Changed.ASK


def revert(options: RevertOptions, outside: Outside | None = None) -> None:
    """Restore what was there before a plan was applied, and say what came of every knob.

    Raises:
        LeftBehindError: Something could not be put back yet.
        PreflightError: This account did not write the record, and was not told to trust it.
    """
    outside = outside or Outside()
    directory = options.directory
    applied = read_applied(directory)
    if applied.begun is None and not directory.is_dir():
        raise InputError(f"there is no directory {directory}", hint="Name that of the plan.")
    knobs = to_put_back(applied)
    if applied.begun is None or not knobs:
        click.echo(f"Nothing is applied from {directory}.")
        return
    _require_ours(applied, options)
    sites = {knob.kind.site for knob in knobs}
    if Site.MACHINE in sites:
        require_same_machine(applied.begun, outside.host)
    address = None
    if Site.SERVER in sites:
        address = _address(applied.begun, options.dsn, outside)  # None: all else goes back anyway
    if not options.yes:
        click.echo("\n".join(knob.name for knob in knobs))
        ask(f"Put back {counted(len(knobs), 'knob')}?")
    cluster = inside_again(applied.begun, outside) if Site.CLUSTER in sites else None
    found = doors(outside, rendered=directory / FILES, paths={}, server=address, inside=cluster)
    hint = f"`steelyard stack revert {quoted(directory)}` goes on."
    with opened(directory, outside.clock) as record, telling_how_to_go_on("reverted", hint):
        _require_unchanged(record, applied)
        steps = revert_all(found, record, changed=options.changed, told=say)
    _conclude(steps, directory)


def _require_ours(applied: Applied, options: RevertOptions) -> None:
    """Show what a record of somebody else says, and refuse it unless it was adopted.

    Raises:
        PreflightError: It was not.
    """
    if not is_ours(applied):
        _show_claims(applied)
        if not options.adopt:
            raise PreflightError(
                f"the record in {options.directory} was not written by this account here: its cache"
                " does not know it, and what it would put back may be anything",
                hint="Revert as the account that applied the plan. If the lines above are what was"
                f" there before: steelyard stack revert --adopt {quoted(options.directory)}",
            )


def _require_unchanged(record: AppliedRecord, applied: Applied) -> None:
    """Look whether the record that is held is the one that was agreed to.

    Raises:
        PreflightError: It is not.
    """
    if record.applied != applied:
        raise PreflightError(
            "the record was changed while it was looked at", hint="Revert again, and look again."
        )


def _show_claims(applied: Applied) -> None:
    """Show what a record from anywhere would put back, exactly."""
    server = applied.begun.server if applied.begun else None
    if server is not None:
        further = "".join(f", {name} {value}" for name, value in server.parameters)
        where = f"on the server {server.host}:{server.port}, as user {server.user}{further}:"
        click.echo(printable(where))
    for kept in applied.snapshots.values():
        click.echo(printable(f"{kept.knob.kind} {kept.knob.place} back to {kept.snapshot}"))
    for knob in applied.begun.knobs if applied.begun else ():
        if knob.kind.is_by_hand and knob.value:
            click.echo(printable(f"checked by: {knob.value}"))


def _conclude(steps: Sequence[Step], directory: Path) -> None:
    left = [step for step in steps if step.outcome not in GONE]
    if left:
        raise _left_behind(left, directory)
    kept = [step for step in steps if step.outcome is Outcome.KEPT]
    yours = [step for step in steps if step.outcome is Outcome.YOURS]
    later = [step for step in steps if step.outcome is Outcome.RESTORED and step.remedy]
    subject = "All else" if kept or yours else "Everything"
    if kept:
        click.echo(f"{counted(len(kept), 'knob')} left as somebody has changed it.")
    if yours:
        click.echo(f"{counted(len(yours), 'step')} to be undone by you, as said above.")
    if not later:
        click.echo(f"{subject} is as it was.")
        return
    verb = "is" if len(later) == 1 else "are"
    names = ", ".join(step.knob.name for step in later)
    click.echo(f"{subject} is put back; {counted(len(later), 'knob')} {verb} not as before yet:")
    click.echo(f"    {names}")
    for remedy in dict.fromkeys(step.remedy for step in later):
        click.echo(f"    {remedy}")


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
    """Return what is told of all that is left: a line for each knob, and for each way out."""
    reasons = [f"{step.knob.name}: {' '.join(step.facts) or step.remedy}" for step in left]
    hints = dict.fromkeys(step.remedy for step in left if step.facts and step.remedy)
    again = f"Then run `steelyard stack revert {quoted(directory)}` again."
    return LeftBehindError(
        "\n    ".join([f"{counted(len(left), 'knob')} could not be put back:", *reasons]),
        hint="\n    ".join([*hints, again]),
    )
