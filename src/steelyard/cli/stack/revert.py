"""``steelyard stack revert``: restore what was there before a plan was applied."""

from pathlib import Path

import click


@click.command("revert")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--dsn", metavar="URI", help="Where the same server is reached now.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(directory: Path, dsn: str | None, *, yes: bool) -> None:
    """Restore exactly what was there before the plan in DIR was applied, the last change first.

    It needs DIR/applied.jsonl alone. What cannot be put back yet is named with the reason; revert
    again when that is gone.
    """
    from steelyard.cli import stack_applying  # noqa: PLC0415 - lazy

    stack_applying.revert(directory, dsn, yes=yes)
