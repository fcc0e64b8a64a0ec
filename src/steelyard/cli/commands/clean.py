"""``steelyard clean``: undo what dead campaigns left behind."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.experiment.ledger import Leftover


@click.command("clean")
@click.argument("directories", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--cache", is_flag=True, help="Also remove prepared data, staged programs, noise profiles."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(directories: tuple[Path, ...], *, cache: bool, dry_run: bool, yes: bool) -> None:
    """Remove processes and data that dead campaigns left behind.

    Looks at the campaigns in DIRECTORIES, or at all that this account has run. Living campaigns
    and every campaign's record stay as they are.
    """
    from steelyard.experiment.doors import system_doors  # noqa: PLC0415 - lazy
    from steelyard.experiment.ledger import find_leftovers, undo_all  # noqa: PLC0415

    doors = system_doors()
    found = find_leftovers(doors, directories)
    _say(found)
    if found and not dry_run and _agreed("Remove it?", yes=yes):
        undo_all(found, doors)
        click.echo("Removed.")
    if cache:
        _clean_cache(dry_run=dry_run, yes=yes)


def _say(found: "Sequence[Leftover]") -> None:
    from steelyard.model.units import format_bytes  # noqa: PLC0415 - lazy

    if not found:
        click.echo("No campaign has left anything behind.")
    for leftover in found:
        click.echo(f"{leftover.campaign_id} ({leftover.record or 'its record is gone'}):")
        for line in _what(leftover):
            click.echo(f"  {line}")
        click.echo(f"  {format_bytes(leftover.size_bytes)} on disk")


def _what(leftover: "Leftover") -> "Iterator[str]":
    yield from (f"directory {directory}" for directory in leftover.directories)
    yield from (thing.label for thing in leftover.things)
    yield from (f"control group {group}" for group in leftover.groups)
    yield from (f"knob {knob.label}" for knob in leftover.knobs)
    for knob in leftover.foreign:
        yield f"knob {knob.label}, which this account's cache does not know: by hand; it was"
        yield f"  {knob.before}"
    yield from (f"process {pid}" for pid in leftover.processes)


def _clean_cache(*, dry_run: bool, yes: bool) -> None:
    from steelyard.experiment.ledger import refuse_while_running  # noqa: PLC0415 - lazy
    from steelyard.gateways.files import (  # noqa: PLC0415
        cache_directory,
        remove_tree,
        rename,
        tree_bytes,
    )
    from steelyard.model.units import format_bytes  # noqa: PLC0415

    root = cache_directory()
    # Lock files stay: a campaign that waits for one must not get another of the same name.
    parts = [part for name in ("prepared", "programs") for part in (root / name).glob("*/")]
    parts = [part for part in [*parts, root / "noise"] if part.is_dir()]
    size = format_bytes(sum(map(tree_bytes, parts)))
    what = "prepared data, staged programs and noise profiles"
    click.echo(f"The cache in {root} holds {size} of {what}.")
    if parts and not dry_run and _agreed("Remove the cache?", yes=yes):
        refuse_while_running()
        for part in parts:
            rename(part, part.with_name(f"{part.name}.removed"))
            remove_tree(part.with_name(f"{part.name}.removed"))
        click.echo("Removed; the next campaign prepares its data anew, plans assume their noise.")


def _agreed(question: str, *, yes: bool) -> bool:
    return yes or click.confirm(question)
