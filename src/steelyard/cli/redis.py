"""``steelyard redis``: crash tests of Redis."""

import click

from steelyard.cli.main import LazyGroup
from steelyard.cli.options import crash_options

_VERBS = {"crash-test": "Count what is lost of acknowledged writes when the server dies."}


@click.group(cls=LazyGroup, verbs=_VERBS)
def command() -> None:
    """Do what is for Redis alone; campaigns are `steelyard run`."""


_MODES = "off,rdb,no,everysec,always,split"


@command.command("crash-test")
@click.option(
    "--bin",
    "bin_",
    metavar="PROGRAM",
    default="redis-server",
    show_default=True,
    help="redis-server or valkey-server, its path, or a directory with it.",
)
@click.option(
    "--modes",
    metavar="NAMES",
    default=_MODES,
    show_default=True,
    help="off (no persistence), rdb (a snapshot every 1 s), appendfsync of an append-only file, or "
    "split (off, and a replica with everysec takes over; it is only killed).",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Connections that write.",
)
@click.option(
    "--pipeline",
    type=click.IntRange(1, 10_000),
    default=16,
    show_default=True,
    help="Writes under way on each connection; they count when all are answered.",
)
@crash_options
@click.pass_context
def crash_test(context: click.Context, /, **_: object) -> int:
    """Count what is lost of acknowledged writes when a Redis dies under load.

    Starts servers of its own, writes numbered keys, lets the server die at a random moment, starts
    it again and asks for every number. A killed process loses next to nothing with any append-only
    file, because the kernel keeps what was written; only a power cut shows what was not flushed.
    Cuts need root, XFS and a loop device, which behaves like a disk that never lies about a flush.

    Exit code 10 when a mode that promises to lose nothing lost something. What a killed test leaves
    is removed by `steelyard clean`.
    """
    from steelyard.cli.crash_testing import CrashOptions, run_crash_test
    from steelyard.crash.testing import REDIS_MODES, redis_subject

    return run_crash_test(CrashOptions(**context.params), REDIS_MODES, redis_subject)
