"""``stack apply``, ``verify`` and ``revert``: a plan into effect, whether it is, and back."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final

import click

from steelyard.cli.options import at_terminal
from steelyard.core import stack, wording
from steelyard.core.outside import OnServer, ServerAddress, host_and_port
from steelyard.gateways.doors import Doors, system_doors
from steelyard.record.journal import StackBegun
from steelyard.tuning.apply import applier
from steelyard.tuning.apply.door import Check, KnobDoor
from steelyard.tuning.apply.doors import (
    FILES,
    HYPERVISOR,
    Selection,
    beginning,
    doors,
    doors_of,
    inside,
    inside_again,
    reached,
    read_plan,
    require_same_machine,
    require_same_server,
    selection_of,
    with_node,
)
from steelyard.tuning.apply.huge_pages import find_process

_MOST_SHOWN = 60  # of a value, on a line
_NOT_YET = frozenset({stack.Outcome.PENDING, stack.Outcome.WAITING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """What the command line says; see its help."""

    directory: Path
    layers: tuple[str, ...]
    dsn: str | None
    dry_run: bool = False
    yes: bool = False
    remote: bool = False
    context: str | None = None
    namespace: str | None = None
    node_probe: bool = True


def apply(options: ApplyOptions, outside: Doors | None = None) -> None:
    """Put a plan into effect, and say what came of every knob; leaves with a code when one waits.

    Raises:
        SteelyardError: It was refused, or a knob failed.
    """
    outside = outside or system_doors()
    plan = read_plan(options.directory)
    require_same_machine(begun_here(options.directory), outside.host)
    server, address = _server(plan, options, outside)
    cluster = inside(plan, outside, options.context, options.namespace)
    selection = _selection(plan, options, address, outside)
    chosen = [knob for knob in plan.knobs if selection.wants(knob)]
    doors = doors_of(
        plan, options.directory, outside, address, remote=options.remote, inside=cluster
    )
    if options.dry_run:
        _show(chosen, doors, address)
        return
    try:
        applier.require_all(chosen, doors)
    except applier.UnprivilegedError as error:
        for line in error.commands:
            click.echo(line)
        raise
    todo = [k for k in chosen if (check := _looked_at(k, doors[k.kind])) and not check.holds]
    if todo and not options.yes:
        _show(todo, doors, address)
        ask(f"Turn {counted(len(todo), 'knob')}?")
    beginning_ = beginning(plan, server, address, outside, cluster)
    where = wording.quoted(options.directory)
    hint = (
        f"`steelyard stack apply {where}` goes on, and `steelyard stack revert {where}` restores"
        " what was there."
    )
    with (
        applier.opened(options.directory, outside.clock) as record,
        telling_how_to_go_on("applied", hint),
    ):
        record.begin(beginning_)
        steps = applier.apply_all(
            plan.knobs,
            doors,
            record,
            selection=selection,
            told=say,
            # Without a terminal nobody can say so.
            confirmed=lambda knob: (
                not options.yes
                and at_terminal()
                and click.confirm(f"To be done by you: {knob.place}. Is it done?", default=False)
            ),
        )
    _conclude(steps, options.directory)


@contextmanager
def telling_how_to_go_on(done: str, hint: str) -> Iterator[None]:
    """Give an interruption its ways out.

    Raises:
        Interrupted: It came while knobs were turned.
    """
    try:
        yield
    except (wording.Interrupted, KeyboardInterrupt, click.Abort) as error:
        message = error.message if isinstance(error, wording.Interrupted) else "interrupted"
        raise wording.Interrupted(f"{message}, with the plan {done} in part", hint=hint) from error


def _selection(
    plan: stack.StackPlan, options: ApplyOptions, address: ServerAddress | None, outside: Doors
) -> Selection:
    """Return what of the plan is turned from here.

    Raises:
        InputError: That would be knobs of two machines.
    """
    is_inside = options.context is not None or options.namespace is not None
    local_server = is_here(address, outside) and not is_inside
    selection = selection_of(plan.knobs, options.layers, local_server=local_server)
    of_server = [k for k in plan.knobs if selection.wants(k) and k.layer == "linux"]
    if is_inside and any(
        selection.wants(k) and k.kind.site is stack.Site.MACHINE for k in plan.knobs
    ):
        raise wording.InputError(
            "--context and -n name a cluster, and the plan has knobs of its nodes, which would be"
            " turned on this machine",
            hint="Say --only kubernetes here, and --only linux on the node.",
        )
    if options.remote and of_server:
        raise wording.InputError(
            "--remote says that the server runs on another machine, and the plan has knobs of that"
            " machine, which would be turned on this one",
            hint="Say --only postgres here, and --only linux there.",
        )
    return selection


def _server(
    plan: stack.StackPlan, options: ApplyOptions, outside: Doors
) -> tuple[OnServer | None, ServerAddress | None]:
    """Return the server whose settings are turned; none where no setting is.

    A dry run needs none: it says that it did not look at the settings.

    Raises:
        InputError: There are settings, and no server is named, now or before.
    """
    if not any(
        knob.kind.site is stack.Site.SERVER and (not options.layers or knob.layer in options.layers)
        for knob in plan.knobs
    ):
        return None, None
    if options.dsn is not None:
        return reached(options.dsn, outside.sql)
    server = read_applied_server(options.directory)
    if server is None and options.dry_run:
        return None, None
    if server is None:
        raise wording.InputError(
            "the plan has PostgreSQL settings, and no server is named",
            hint="Name it with --dsn postgresql://USER@HOST:PORT/DATABASE, or leave them out"
            f" {_without_settings(plan)}.",
        )
    return server, server.address()


def _without_settings(plan: stack.StackPlan) -> str:
    """Return the options that leave the settings out, on each machine of a plan."""
    layers = dict.fromkeys(k.layer for k in plan.knobs if k.kind.site is not stack.Site.SERVER)
    there = " ".join(f"--only {layer}" for layer in layers if layer in HYPERVISOR)
    here = " ".join(f"--only {layer}" for layer in layers if layer not in HYPERVISOR)
    if there and here:
        return f"with {there} on the hypervisor, with {here} in the virtual machine"
    return f"with {there or here or '--only linux'}"


def is_here(address: ServerAddress | None, outside: Doors) -> bool:
    """Return whether a server is seen to run on this machine, or there is none."""
    return address is None or find_process(address, outside.sql, outside.host) is not None


def read_applied_server(directory: Path) -> OnServer | None:
    """Return the server that the plan of a directory was applied to, if there is one.

    Raises:
        PreflightError: Somebody else says so.
    """
    begun = begun_here(directory)
    return None if begun is None else begun.server


def begun_here(directory: Path) -> StackBegun | None:
    """Return what was begun in a plan's directory; None where nothing was.

    Raises:
        PreflightError: This account did not write the record.
    """
    applied = applier.read_applied(directory)
    if not applier.is_ours(applied):
        raise wording.PreflightError(
            f"{directory / applier.NAME} was not written by this account here, and so its server"
            " and what"
            " it says was there before may be anything",
            hint="Go on as the account that applied the plan; or revert what it says, when you have"
            f" looked at it: steelyard stack revert --adopt {wording.quoted(directory)}",
        )
    return applied.begun


def ask(question: str) -> None:
    """Ask the operator whether to go on, and leave where the answer is no.

    Raises:
        PreflightError: Nobody can be asked.
    """
    if not at_terminal():
        raise wording.PreflightError(
            f"there is no terminal to ask at: {question}",
            hint="Nothing was changed. Say --yes to go on without being asked.",
        )
    click.confirm(question, abort=True)


def _show(
    knobs: Sequence[stack.Knob],
    doors: Mapping[stack.KnobKind, KnobDoor],
    address: ServerAddress | None,
) -> None:
    """Say what every knob is and would become, and the commands that do the same."""
    for knob in knobs:
        door = doors[knob.kind]
        check = _looked_at(knob, door)
        if check is not None and check.holds:
            click.echo(f"{knob.name}: in effect already")
            continue
        change: str = stack.Outcome.RENDERED
        if check is not None:
            seen = door.seen(knob)
            now = _short(seen.value) if seen.value is not None else seen.reason
            is_later = knob.scope is not stack.Scope.LIVE
            later = f" (takes effect with a {knob.scope})" if is_later else ""
            change = f"{now} -> {_short(knob.value)}{later}"
        click.echo(f"{knob.name}: {change}")
        for line in door.commands(knob):
            click.echo(f"    {wording.printable(line)}")
    if address is None and any(knob.kind.site is stack.Site.SERVER for knob in knobs):
        click.echo(
            "PostgreSQL's settings were not looked at, because no server is named: say"
            " --dsn postgresql://USER@HOST:PORT/DATABASE to see which of them would change."
        )


def _looked_at(knob: stack.Knob, door: KnobDoor) -> Check | None:
    """Return whether a knob is in effect; None where it is not turned from here.

    The check of an operator's step is a command of the plan: it is not run.
    """
    return None if knob.kind.is_by_hand or door.only_names else door.verify(knob)


def _short(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}..."


def say(step: stack.Step) -> None:
    """Print what came of a knob."""
    click.echo(f"{step.knob.name}: {step.outcome}")
    for fact in step.facts:
        click.echo(f"    {fact}")
    if step.remedy and step.outcome is not stack.Outcome.FAILED:
        click.echo(f"    {step.remedy}")
    for line in step.commands:
        click.echo(f"    {line}")


def _conclude(steps: Sequence[stack.Step], directory: Path) -> None:
    """Say what came of all.

    Raises:
        TargetError: A knob failed.
        Exit: Something is not in effect yet.
    """
    came = Counter(step.outcome for step in steps)
    others = (
        f", {count} {what}" for what, count in came.items() if what is not stack.Outcome.TURNED
    )
    click.echo(f"{counted(came[stack.Outcome.TURNED], 'knob')} turned now{''.join(others)}.")
    _require_none_failed(steps, directory)
    left = [step for step in steps if step.outcome in _NOT_YET]
    if left:
        click.echo(
            f"{counted(len(left), 'knob')} not in effect: do what is said there, then run"
            f" `steelyard stack apply {wording.quoted(directory)}` again."
        )
    elif came[stack.Outcome.TURNED] or came[stack.Outcome.THERE]:
        words = "All that is visible is in effect." if came[stack.Outcome.UNSEEN] else "In effect."
        click.echo(
            f"{words} `steelyard stack revert {wording.quoted(directory)}` restores what was there."
        )
    if count := came[stack.Outcome.RENDERED]:
        click.echo(
            f"{counted(count, 'object')} {'is' if count == 1 else 'are'} yours to apply, with the"
            " commands above: Steelyard neither applies nor sees them. Those of a Kubernetes"
            " cluster it does where --context or -n names it."
        )
    if left:
        raise click.exceptions.Exit(wording.ExitCode.GATE)


def _require_none_failed(steps: Sequence[stack.Step], directory: Path) -> None:
    failed = [step for step in steps if step.outcome is stack.Outcome.FAILED]
    if failed:
        step = failed[0]
        raise wording.TargetError(
            f"{step.knob.name} failed: {' '.join(step.facts)}",
            hint=f"{step.remedy} Then `steelyard stack apply {wording.quoted(directory)}` goes on,"
            f" and `steelyard stack revert {wording.quoted(directory)}` restores what was there.",
        )


def counted(count: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_FORMAT = 1  # of what --json prints


def verify(options: ApplyOptions, *, form: str, outside: Doors | None = None) -> None:
    """Say of every knob of a plan whether it is in effect; leaves with a code when one is not."""
    outside = outside or system_doors()
    plan = read_plan(options.directory)
    server = read_applied_server(options.directory)
    address = None
    if options.dsn is not None:
        _, address = reached(options.dsn, outside.sql)
    elif server is not None:
        address = server.address()
    cluster = inside(plan, outside, options.context, options.namespace)
    local_server = cluster is None and is_here(address, outside)
    selection = selection_of(plan.knobs, options.layers, local_server=local_server)
    knobs = [knob for knob in plan.knobs if selection.wants(knob)]
    doors = doors_of(plan, options.directory, outside, address, inside=cluster)
    if cluster is not None:
        name, probe = plan.design.request.name, options.node_probe
        doors = with_node(doors, knobs, name, cluster, outside, probe=probe)
    checked = applier.verify_all(knobs, doors, applier.read_applied(options.directory))
    if form == "text":
        for knob, check in sorted(checked, key=lambda pair: _ORDER.index(pair[1].holds)):
            _say_check(knob, check)
        number = Counter(check.holds for _, check in checked)
        parts = (f"{number[holds]} {_IN_EFFECT[holds].lower()}" for holds in _ORDER)
        click.echo(f"{len(checked)} settings of the plan: {', '.join(parts)}.")
    else:
        _print_checks(form, options.directory, [_as_json(*each) for each in checked])
    if any(check.holds is False for _, check in checked):
        raise click.exceptions.Exit(wording.ExitCode.GATE)


_ORDER: Final = (False, None, True)  # problems come first
_IN_EFFECT: Final = {False: "NOT IN EFFECT", None: "NOT VISIBLE", True: "OK"}


def _print_checks(form: str, directory: Path, checks: Sequence[Mapping[str, object]]) -> None:
    """Print the checks of all knobs: as JSON, or as a table with the same keys."""
    from steelyard.cli.campaigns import print_answer
    from steelyard.report import document as doc

    keys = ("name", "layer", "kind", "place", "asked", "in_effect", "pending", "remedy")
    table = doc.table_of(
        checks,
        *(doc.column(key.replace("_", " "), itemgetter(key), key=key) for key in keys),
        doc.column("facts", lambda check: "; ".join(check["facts"])),
        title="Knobs",
    )
    document = doc.Document(
        title=f"The plan in {directory}",
        subtitle="Each knob, and whether it is in effect",
        sections=(doc.Section(anchor="knobs", title="Knobs", blocks=(table,)),),
    )
    content = {"format": _FORMAT, "knobs": list(checks)}
    print_answer(form, lambda: document, lambda: content)


def _as_json(knob: stack.Knob, check: Check) -> dict[str, object]:
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


def _say_check(knob: stack.Knob, check: Check) -> None:
    click.echo(f"[{_IN_EFFECT[check.holds]}] {knob.name}")
    for fact in check.facts:
        click.echo(f"    {fact}")
    remedy = applier.still_to_do(check.pending) if check.pending else check.remedy
    if remedy and not check.holds:
        click.echo(f"    {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertOptions:
    """What the command line says; see its help."""

    directory: Path
    dsn: str | None = None
    adopt: bool = False
    yes: bool = False
    changed: applier.Changed = applier.Changed.ASK


def revert(options: RevertOptions, outside: Doors | None = None) -> None:
    """Restore what was there before a plan was applied, and say what came of every knob.

    Raises:
        LeftBehindError: Something could not be put back yet.
        PreflightError: This account did not write the record, and was not told to trust it.
    """
    outside = outside or system_doors()
    directory = options.directory
    applied = applier.read_applied(directory)
    if applied.begun is None and not directory.is_dir():
        raise wording.InputError(
            f"there is no directory {directory}", hint="Name that of the plan."
        )
    knobs = applier.to_put_back(applied)
    if applied.begun is None or not knobs:
        click.echo(f"Nothing is applied from {directory}.")
        return
    _require_ours(applied, options)
    sites = {knob.kind.site for knob in knobs}
    if stack.Site.MACHINE in sites:
        require_same_machine(applied.begun, outside.host)
    address = None
    if stack.Site.SERVER in sites:
        address = _address(applied.begun, options.dsn, outside)  # None: all else goes back anyway
    if not options.yes:
        click.echo("\n".join(knob.name for knob in knobs))
        ask(f"Put back {counted(len(knobs), 'knob')}?")
    cluster = inside_again(applied.begun, outside) if stack.Site.CLUSTER in sites else None
    found = doors(outside, rendered=directory / FILES, paths={}, server=address, inside=cluster)
    hint = f"`steelyard stack revert {wording.quoted(directory)}` goes on."
    with applier.opened(directory, outside.clock) as record, telling_how_to_go_on("reverted", hint):
        if record.applied != applied:
            raise wording.PreflightError(
                "the record was changed while it was looked at",
                hint="Revert again, and look again.",
            )
        steps = applier.revert_all(found, record, changed=options.changed, told=say)
    _conclude_revert(steps, directory)


def _require_ours(applied: applier.Applied, options: RevertOptions) -> None:
    """Show what a record of somebody else says, and refuse it unless it was adopted."""
    if not applier.is_ours(applied):
        _show_claims(applied)
        if not options.adopt:
            raise wording.PreflightError(
                f"the record in {options.directory} was not written by this account here: its cache"
                " does not know it, and what it would put back may be anything",
                hint="Revert as the account that applied the plan. If the lines above are what was"
                " there before: steelyard stack revert --adopt"
                f" {wording.quoted(options.directory)}",
            )


def _show_claims(applied: applier.Applied) -> None:
    """Show what a record from anywhere would put back, exactly."""
    server = applied.begun.server if applied.begun else None
    if server is not None:
        further = "".join(f", {name} {value}" for name, value in server.parameters)
        place = host_and_port(server.host, server.port)
        click.echo(wording.printable(f"on the server {place}, as user {server.user}{further}:"))
    for kept in applied.snapshots.values():
        click.echo(wording.printable(f"{kept.knob.kind} {kept.knob.place} back to {kept.snapshot}"))
    for knob in applied.begun.knobs if applied.begun else ():
        if knob.kind.is_by_hand and knob.value:
            click.echo(wording.printable(f"checked by: {knob.value}"))


def _conclude_revert(steps: Sequence[stack.Step], directory: Path) -> None:
    left = [step for step in steps if step.outcome not in applier.GONE]
    if left:
        raise _left_behind(left, directory)
    kept = [step for step in steps if step.outcome is stack.Outcome.KEPT]
    yours = [step for step in steps if step.outcome is stack.Outcome.YOURS]
    later = [step for step in steps if step.outcome is stack.Outcome.RESTORED and step.remedy]
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


def _address(begun: StackBegun, dsn: str | None, outside: Doors) -> ServerAddress | None:
    """Return where the server of an application is, None where it cannot be reached now."""
    try:
        if dsn is not None:
            _, address = reached(dsn, outside.sql)
        elif begun.server is not None:
            address = begun.server.address()
        else:
            return None
        require_same_server(begun, address, outside.sql)
    except wording.TargetError as error:
        click.echo(f"warning: {error.message}", err=True)
        return None
    return address


def _left_behind(left: Sequence[stack.Step], directory: Path) -> wording.LeftBehindError:
    reasons = [f"{step.knob.name}: {' '.join(step.facts) or step.remedy}" for step in left]
    hints = dict.fromkeys(step.remedy for step in left if step.facts and step.remedy)
    again = f"Then run `steelyard stack revert {wording.quoted(directory)}` again."
    return wording.LeftBehindError(
        "\n    ".join([f"{counted(len(left), 'knob')} could not be put back:", *reasons]),
        hint="\n    ".join([*hints, again]),
    )
