"""``steelyard stack revert``: restore what was there before a plan was applied."""

from pathlib import Path

import click


@click.command("revert")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--dsn", metavar="URI", help="Where the same server is reached now.")
@click.option(
    "--changed",
    type=click.Choice(("ask", "keep", "replace")),
    default="ask",
    help="What somebody has changed since: tell it and touch nothing, leave it so, or replace it.",
)
@click.option(
    "--adopt", is_flag=True, help="Also by a record that this account's cache does not know."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(directory: Path, dsn: str | None, changed: str, *, adopt: bool, yes: bool) -> None:
    """Restore exactly what was there before the plan in DIR was applied, the last change first.

    It needs DIR/applied.jsonl alone. What cannot be put back yet is named with the reason; revert
    again when that is gone. What is neither the plan's nor the former is somebody's work: it is
    named and not touched, unless --changed says what becomes of it. A record may come from somebody
    else: one that this account did not write is shown, and acted on with --adopt only.
    """
    from steelyard.cli.stack.reverting import RevertOptions, revert
    from steelyard.tuning.apply.applier import Changed

    options = RevertOptions(
        directory=directory, dsn=dsn, adopt=adopt, yes=yes, changed=Changed(changed)
    )
    revert(options)
