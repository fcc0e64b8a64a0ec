"""``steelyard redis``: crash tests of Redis, and split persistence."""

from typing import TYPE_CHECKING, Any

import click

from steelyard.cli.main import LazyGroup
from steelyard.cli.options import AMOUNT, IMAGE, NAMESPACE, OBJECT, PATH, SIZE, crash_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.core.redis import SplitRequest, SplitServer

_VERBS = {
    "crash-test": "Count what is lost of acknowledged writes when the server dies.",
    "split": "Plan a primary without persistence and a replica that keeps the data.",
}


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


@command.command("split")
@click.option(
    "--memory", type=SIZE, metavar="SIZE", required=True, help="For each of the two servers."
)
@click.option("--primary", metavar="HOST[:PORT]", default="redis-primary", show_default=True)
@click.option("--replica", metavar="HOST[:PORT]", default="redis-replica", show_default=True)
@click.option(
    "--primary-directory",
    metavar="DIR",
    default="/var/lib/redis",
    show_default=True,
    help="Of its files, which are of no worth.",
)
@click.option(
    "--replica-directory",
    metavar="DIR",
    default="/var/lib/redis",
    show_default=True,
    help="Of the data.",
)
@click.option(
    "--fsync",
    type=click.Choice(("everysec", "always")),
    default="everysec",
    show_default=True,
    help="How the replica flushes.",
)
@click.option(
    "--max-lag",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Seconds without a sign of the replica after which no write is taken; 0: never mind.",
)
@click.option("--policy", default="noeviction", show_default=True, help="maxmemory-policy.")
@click.option("--name", default="redis", show_default=True, help="Of the objects in a cluster.")
@click.option("--namespace", type=NAMESPACE, metavar="NAME", help="Of these objects.")
@click.option(
    "--image", type=IMAGE, default="redis:7", show_default=True, help="Redis 7 or Valkey."
)
@click.option(
    "--cpus", type=AMOUNT, metavar="AMOUNT", default="1", show_default=True, help="Of each pod."
)
@click.option("--storage-class", type=OBJECT, metavar="NAME", help="Of the replica's volume.")
@click.option(
    "--storage",
    type=SIZE,
    metavar="SIZE",
    help="Of that volume; four times maxmemory if not given.",
)
@click.option("--secret", type=OBJECT, metavar="NAME", default="redis-auth", show_default=True)
@click.option("--account", type=click.IntRange(1), default=999, show_default=True, help="UID.")
@click.option("--out", type=PATH, metavar="DIR", help="Write plan.json and files/ there.")
@click.option("--json", "as_json", is_flag=True, help="Print plan.json.")
@click.pass_context
def split(context: click.Context, /, **_: object) -> None:
    """Plan split persistence: a primary that writes no disk, a replica that keeps the data.

    Renders a pair of redis.conf and objects for Kubernetes, each line with its reason, and
    start.sh, which keeps a primary that comes back empty from wiping its replica. Nothing is
    changed, and no file holds a password.
    """
    from steelyard.answers.stack.plan import split_document
    from steelyard.cli.campaigns import print_whole
    from steelyard.tuning.plan import redis_split as planning

    given = context.params
    plan = planning.make_split(_request(given))
    out: Path | None = given["out"]
    if out is not None:
        planning.write_split(out, plan)
    if given["as_json"]:
        click.echo(planning.split_json(plan), nl=False)
    else:
        print_whole(split_document(plan, None if out is None else str(out)))


def _request(given: "Mapping[str, Any]") -> "SplitRequest":
    from steelyard.core.redis import SplitInCluster, SplitRequest
    from steelyard.core.wording import parse_bytes

    storage = given["storage"]
    return SplitRequest(
        name=given["name"],
        memory_bytes=parse_bytes(given["memory"]),
        policy=given["policy"],
        fsync=given["fsync"],
        most_lag_s=given["max_lag"],
        primary=_server(given["primary"], given["primary_directory"]),
        replica=_server(given["replica"], given["replica_directory"]),
        cluster=SplitInCluster(
            namespace=given["namespace"],
            image=given["image"],
            cpus=given["cpus"],
            secret=given["secret"],
            storage_class=given["storage_class"],
            storage_bytes=None if storage is None else parse_bytes(storage),
            account=given["account"],
        ),
    )


def _server(text: str, directory: str) -> "SplitServer":
    """Return a server from ``HOST`` or ``HOST:PORT``; an IPv6 address stands in brackets."""
    from steelyard.core.redis import DEFAULT_PORT, SplitServer

    host, colon, port = text.rpartition(":")
    if text.endswith("]") or not colon:
        host, port = text, str(DEFAULT_PORT)
    if not port.isdigit() or not 0 < int(port) < 2**16:
        raise click.BadParameter(f"{text!r}: write HOST or HOST:PORT")
    return SplitServer(host=host.strip("[]"), port=int(port), directory=directory)
