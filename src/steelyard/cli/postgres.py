"""``steelyard postgres``: crash tests of PostgreSQL."""

import click

from steelyard.cli.main import LazyGroup
from steelyard.cli.options import crash_options

_VERBS = {"crash-test": "Count what is lost of acknowledged commits when the server dies."}


@click.group(cls=LazyGroup, verbs=_VERBS)
def command() -> None:
    """Do what is for PostgreSQL alone; campaigns are `steelyard run`."""


_MODES = "sync,async,no-fsync,neither"


@command.command("crash-test")
@click.option(
    "--bin",
    "bin_",
    metavar="PLACE",
    default="embedded",
    show_default=True,
    help="A version such as 15, a directory of programs, or `embedded` for the wheel's.",
)
@click.option(
    "--modes",
    metavar="NAMES",
    default=_MODES,
    show_default=True,
    help="sync, async (synchronous_commit off), no-fsync (fsync off), neither.",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 90),
    default=8,
    show_default=True,
    help="Connections that commit.",
)
@crash_options
@click.pass_context
def crash_test(context: click.Context, /, **_: object) -> int:
    """Count what is lost of acknowledged commits when a PostgreSQL dies under load.

    Starts servers of its own, commits numbered rows one by one, lets the server die at a random
    moment, starts it again and asks for every number. A killed server loses next to nothing,
    because the kernel keeps what was written; only a power cut shows what was not flushed. Cuts
    need root, XFS and a loop device, which behaves like a disk that never lies about a flush.

    Exit code 10 when a mode that promises to lose nothing lost something. What a killed test leaves
    is removed by `steelyard clean`.
    """
    from steelyard.cli.crash_testing import CrashOptions, run_crash_test
    from steelyard.crash.testing import POSTGRES_MODES, postgres_subject

    return run_crash_test(CrashOptions(**context.params), POSTGRES_MODES, postgres_subject)
