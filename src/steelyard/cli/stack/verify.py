"""``steelyard stack verify``: whether a plan is in effect."""

from pathlib import Path

import click

from steelyard.cli.stack.apply import LAYERS


@click.command("verify")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--only", type=click.Choice(LAYERS), multiple=True, help="Only knobs of this layer.")
@click.option("--dsn", metavar="URI", help="Server, if it is not the one of the application.")
@click.option("--json", "as_json", is_flag=True, help="Print it for programs.")
def command(directory: Path, only: tuple[str, ...], dsn: str | None, *, as_json: bool) -> None:
    """Say of every knob of the plan in DIR whether it is in effect, and by what that was seen.

    Exit code 10 when one is not. What cannot be seen from here is said to be so, and is no "yes".
    """
    from steelyard.cli.stack_applying import ApplyOptions  # noqa: PLC0415 - lazy
    from steelyard.cli.stack_verifying import verify  # noqa: PLC0415 - lazy

    options = ApplyOptions(directory=directory, layers=only, dsn=dsn)
    verify(options, as_json=as_json)
