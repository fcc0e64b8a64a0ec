"""``steelyard serve``: campaigns in a browser."""

from pathlib import Path

import click

_PORT = 8434


@click.command("serve")
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option(
    "--listen",
    metavar="[ADDRESS:]PORT",
    default=f"127.0.0.1:{_PORT}",
    show_default=True,
    help="Where to answer; port 0 takes a free one.",
)
def command(directory: Path | None, *, listen: str) -> None:
    """Show the campaigns below DIRECTORY, or below campaigns/, in a browser.

    The address that is printed holds a token, without which nothing is shown. There is nothing to
    press that changes anything. The page of a campaign that runs looks again every 5 s, and
    computes only when a block has ended. That takes CPU time: on the machine that is measured,
    look rarely.
    """
    from steelyard.core.wording import PreflightError

    address, _, number = listen.rpartition(":")
    if not number.isdecimal() or int(number) > 65535:
        message = f"`{listen}` is not [ADDRESS:]PORT, such as 127.0.0.1:{_PORT}."
        raise click.BadParameter(message, param_hint="--listen")
    address, port = address.strip("[]") or "127.0.0.1", int(number)
    try:
        from steelyard.cli.site import answer
    except ModuleNotFoundError as error:
        raise PreflightError(
            f"pages need Flask and waitress, and {error.name} is not installed",
            hint="Run pip install flask waitress.",
        ) from error
    answer(directory, address, port, told=lambda text: click.echo(text, err=True))
