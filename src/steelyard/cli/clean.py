"""``steelyard clean``: undo what dead campaigns left behind."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steelyard.cli.options import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.campaign.cleanup.leftovers import Leftover
    from steelyard.campaign.cleanup.undoing import Labelled
    from steelyard.core.wording import LeftBehindError
    from steelyard.gateways.doors import Doors


@click.command("clean")
@click.argument("directories", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--cache", is_flag=True, help="Also remove prepared data, staged programs, noise profiles."
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over records of another account or machine: what they list counts as dealt with.",
)
@click.option("--context", metavar="NAME", help="Also look into this Kubernetes cluster.")
@click.option(
    "-n", "--namespace", type=NAMESPACE, metavar="NAME", help="Look into this namespace of it only."
)
@click.option("--aws", "region", metavar="REGION", help="Also look into this region of AWS.")
@click.option(
    "--account", metavar="NUMBER", help="Of AWS: only where the credentials are this account's."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(
    directories: tuple[Path, ...],
    *,
    cache: bool,
    adopt: bool,
    context: str | None,
    namespace: str | None,
    region: str | None,
    account: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove processes, data and objects in clusters that dead campaigns left behind.

    Looks at the campaigns in DIRECTORIES, or at all that this account has run. Living campaigns
    and every campaign's record stay as they are. What a record lists and this account's campaigns
    did not make here is shown, with the SQL and the commands that undoing it would take, and left
    alone; --adopt notes in the record that it was dealt with, so that the campaign can go on here.
    With --context or --namespace also at what carries
    Steelyard's label in a Kubernetes cluster and stands in no record here: that may be a campaign
    that somebody else runs now, so each is asked for, and --yes leaves those that run. What runs
    as a Job keeps its record in the cluster and is left to `steelyard attach NAME --remove`.
    With --aws and --account at what carries Steelyard's tag in an account of AWS: of each campaign
    that no record here knows the name has to be typed, and --yes does not do.
    """
    trouble = _clean_records(directories, adopt=adopt, dry_run=dry_run, yes=yes)
    if context is not None or namespace is not None:
        _clean_cluster(context, namespace or "", dry_run=dry_run, yes=yes)
    if region is not None:
        _clean_aws(region, account, dry_run=dry_run)
    if cache:
        _clean_cache(dry_run=dry_run, yes=yes)
    if trouble is not None:
        raise trouble


def _clean_records(
    directories: tuple[Path, ...], *, adopt: bool, dry_run: bool, yes: bool
) -> "LeftBehindError | None":
    """Show and undo what campaigns left behind; return what would not go."""
    from steelyard.campaign.cleanup.leftovers import find_leftovers, undo_all
    from steelyard.core.wording import LeftBehindError
    from steelyard.gateways.doors import system_doors

    if adopt and not directories:
        raise click.UsageError("--adopt needs the directory of a record.")
    doors = system_doors()
    found = find_leftovers(doors, directories)
    _say(found)
    if adopt:
        found = tuple(replace(each, foreign=()) for each in found if each.things)
    ours = any(leftover.things for leftover in found)
    trouble = None
    if not dry_run and found and (not ours or _agreed("Remove it?", yes=yes)):
        try:
            undo_all(found, doors)
            if ours:
                click.echo("Removed.")
        except LeftBehindError as error:
            trouble = error
    if adopt and trouble is None:
        _adopt(directories, doors, dry_run=dry_run, yes=yes)
    return trouble


def _adopt(directories: tuple[Path, ...], doors: "Doors", *, dry_run: bool, yes: bool) -> None:
    from steelyard.campaign.cleanup.undoing import adopt, does
    from steelyard.core.wording import printable
    from steelyard.record.directory import read_campaign

    for path in directories:
        record = read_campaign(path)
        if not record.status.is_finished:
            click.echo(f"Going on with {path} would use and run, with your rights:")
            for line in does(record):
                click.echo(f"  {printable(line)}")
        if not dry_run and _agreed(f"Take over {path}?", yes=yes):
            adopt(path, record, doors)
            click.echo("Taken over; nothing outside the record was touched.")


def _clean_cluster(context: str | None, namespace: str, *, dry_run: bool, yes: bool) -> None:
    from steelyard.campaign.cleanup.undoing import look_for_labels, undo_all_of
    from steelyard.core.wording import LeftBehindError, raise_all
    from steelyard.gateways.doors import system_doors

    doors = system_doors()
    api = doors.kubernetes.connect(context)
    where = f"{namespace} of {api.context}" if namespace else api.context
    look = look_for_labels(api, namespace)
    if not look.found:
        click.echo(f"Nothing in {where} carries the label of a campaign that no record here knows.")
    if look.unseen:
        click.echo(f"Not looked at, as the account may not list them: {', '.join(look.unseen)}.")
    troubles = []
    for labelled in look.found:
        click.echo(f"{labelled.campaign} in {where}, since {labelled.since}:")
        for thing in labelled.things:
            note = " (its record)" if thing.ref == labelled.record else ""
            click.echo(f"  {thing.ref.label}{note}")
        if _is_for_clean(labelled, api.context, yes=yes) and not dry_run:
            if not _agreed("Remove it?", yes=yes):
                continue
            try:
                undo_all_of(labelled.things, doors)
                click.echo("Removed.")
            except LeftBehindError as error:
                troubles.append(error)
    raise_all(troubles)


def _clean_aws(region: str, account: str | None, *, dry_run: bool) -> None:
    """Show what campaigns have in a region, and delete what its name is typed for."""
    from steelyard.campaign.cleanup.undoing import look_for_tags, undo_all_of
    from steelyard.core.wording import LeftBehindError, raise_all
    from steelyard.gateways.doors import system_doors

    if account is None:
        raise click.UsageError("--aws needs --account: nothing is deleted in another one.")
    doors = system_doors()
    look = look_for_tags(region, account, doors)
    if not look:
        click.echo(f"Nothing in {region} carries the tag of a campaign that no record here knows.")
    troubles: list[LeftBehindError] = []
    for campaign, things in look.items():
        click.echo(f"{campaign} in {region}, account {account}:")
        for thing in things:
            click.echo(f"  {thing.resource} {thing.name}")
        if dry_run:
            continue
        click.echo("  It may be a campaign that somebody else runs now.")
        _require_somebody()
        typed = click.prompt(
            "Type its name to delete all of it", default="", show_default=False, err=True
        )
        if typed.strip() != campaign:
            trouble = f"{campaign} is left as it is, and billed: its name was not typed"
            again = "Run `steelyard clean` with the same words again."
            troubles.append(LeftBehindError(trouble, hint=again))
            continue
        try:
            undo_all_of(things, doors)
        except LeftBehindError as error:
            troubles.append(error)
    raise_all(troubles)


def _is_for_clean(labelled: "Labelled", context: str, *, yes: bool) -> bool:
    """Return whether a campaign may be removed here, and say why not."""
    if labelled.record is not None:
        command = (
            f"steelyard attach {labelled.campaign} --context {context}"
            f" -n {labelled.record.namespace}"
        )
        click.echo("  left as it is: it ran in the cluster, and its only record is there;")
        click.echo(f"  fetch it with `{command}`, remove it with `{command} --remove`")
        return False
    if labelled.running:
        click.echo(f"  running: {', '.join(labelled.running)}; somebody may be using it")
        if yes:
            click.echo("  left as it is; without --yes it is asked for")
            return False
    return True


def _say(found: "Sequence[Leftover]") -> None:
    from steelyard.campaign.cleanup.undoing import claim
    from steelyard.core.wording import format_bytes, printable

    if not found:
        click.echo("No campaign has left anything behind.")
    for leftover in found:
        click.echo(f"{leftover.campaign_id} ({leftover.record or 'its record is gone'}):")
        for line in _what(leftover):
            click.echo(f"  {printable(line)}")
        click.echo(f"  {format_bytes(leftover.size_bytes)} on disk")
        if leftover.foreign:
            click.echo("  not made by this account here, and left alone; undoing it would be:")
        for line in (line for made in leftover.foreign for line in claim(made)):
            click.echo(f"    {printable(line)}")


def _what(leftover: "Leftover") -> "Iterator[str]":
    """Yield what is undone, with the commands and the values that undoing it takes."""
    from steelyard.campaign.cleanup.undoing import claim
    from steelyard.core.outside import ControlGroup, InAws, MadeDirectory
    from steelyard.record.journal import Created

    yield from (f"directory {directory}" for directory in leftover.directories)
    yield from (f"file system mounted at {place}" for place in leftover.mounts)
    for group in leftover.groups:
        yield f"control group {group}{' (frozen)' if group in leftover.frozen else ''}"
    for thing in leftover.things:
        if isinstance(thing, InAws):
            yield thing.label
        elif not isinstance(thing, MadeDirectory | ControlGroup):
            yield from claim(Created.of(thing))
    for pid in leftover.processes:
        yield f"process {pid}{' (stopped)' if pid in leftover.stopped else ''}"


def _clean_cache(*, dry_run: bool, yes: bool) -> None:
    from steelyard.campaign.cleanup.leftovers import refuse_while_running
    from steelyard.core.wording import format_bytes
    from steelyard.gateways.files import (
        cache_directory,
        holding_cache,
        remove_tree,
        rename,
        tree_bytes,
    )

    root = cache_directory()
    # Lock files stay: a campaign that waits for one must not get another of the same name.
    parts = [part for name in ("prepared", "programs") for part in (root / name).glob("*/")]
    parts = [part for part in [*parts, root / "noise"] if part.is_dir()]
    size = format_bytes(sum(map(tree_bytes, parts)))
    what = "prepared data, staged programs and noise profiles"
    click.echo(f"The cache in {root} holds {size} of {what}.")
    if parts and not dry_run and _agreed("Remove the cache?", yes=yes):
        refuse_while_running()  # it names the campaign
        with holding_cache(alone=True):
            for part in parts:
                rename(part, part.with_name(f"{part.name}.removed"))
                remove_tree(part.with_name(f"{part.name}.removed"))
        click.echo("Removed; the next campaign prepares its data anew, plans assume their noise.")


def _agreed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    _require_somebody()
    return click.confirm(question)


def _require_somebody() -> None:
    """Raise where standard input is closed; answers of a pipe are heard."""
    from steelyard.core.wording import InputError

    if sys.stdin is None:
        raise InputError("nothing was removed: nobody was there to ask", hint="Say --yes.")
