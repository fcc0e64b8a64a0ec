"""Options that the crash tests of all engines share."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SHARED = (
    click.option(
        "--deaths",
        metavar="NAMES",
        default="kill,power",
        show_default=True,
        help="How it dies: kill (SIGKILL), power (its file system is cut off; needs root).",
    ),
    click.option(
        "--cuts",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Deaths of each kind for each mode.",
    ),
    click.option(
        "--longest",
        metavar="TIME",
        default="4s",
        show_default=True,
        help="It dies at a random moment after at most this long under load.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the server, in all modes.",
    ),
    click.option("--seed", type=click.IntRange(0), help="Of order and moments; else drawn."),
    click.option(
        "--directory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where data and file systems are made; the cache if not given.",
    ),
    click.option("--run-as", metavar="ACCOUNT", help="Account of the servers, when root asks."),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write report.html, report.md and crash.json there, after every death.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print crash.json, not the report."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def crash_options(command: _Command) -> _Command:
    """Add them."""
    # Decorators apply from the last to the first: so help lists them in the order written.
    return reduce(lambda decorated, part: part(decorated), reversed(_SHARED), command)
