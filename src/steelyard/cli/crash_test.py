"""``steelyard crash-test``: acknowledged writes that a database loses in a crash."""

import click

from steelyard.cli.main import LazyGroup
from steelyard.cli.options import crash_options

_VERBS = {
    "redis": "Count what a Redis loses of acknowledged writes when it dies.",
    "postgresql": "Count what a PostgreSQL loses of acknowledged commits when it dies.",
}


@click.group(cls=LazyGroup, verbs=_VERBS)
def command() -> None:
    """Count what a database loses of acknowledged writes in a crash.

    Servers are Steelyard's own; campaigns are `steelyard run`.
    """


@command.command("redis")
@click.option(
    "--server",
    metavar="PROGRAM",
    default="redis-server",
    show_default=True,
    help="redis-server or valkey-server, its path, or a directory with it.",
)
@click.option(
    "--modes",
    metavar="NAMES",
    default="off,rdb,no,everysec,always,split",
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
def redis(context: click.Context, /, **_: object) -> int:
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


@command.command("postgresql")
@click.option(
    "--server",
    metavar="PLACE",
    default="embedded",
    show_default=True,
    help="A version such as 15, a directory of programs, or `embedded` for the wheel's.",
)
@click.option(
    "--modes",
    metavar="NAMES",
    default="sync,async,no-fsync,neither",
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
def postgresql(context: click.Context, /, **_: object) -> int:
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
