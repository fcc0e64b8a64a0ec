"""``steelyard redis split``: a pair of servers, the primary without persistence.

Objects of a cluster become text for ``kubectl apply -f -``.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steelyard.cli.options import AMOUNT, IMAGE, NAMESPACE, OBJECT, SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.core.redis import SplitRequest, SplitServer


_FILE = click.Path(path_type=Path)


@click.command("split")
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
@click.option("--out", type=_FILE, metavar="DIR", help="Write plan.json and files/ there.")
@click.option("--json", "as_json", is_flag=True, help="Print plan.json.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Plan split persistence: a primary that writes no disk, a replica that keeps the data.

    Renders a pair of redis.conf and objects for Kubernetes, each line with its reason, and
    start.sh, which keeps a primary that comes back empty from wiping its replica. Nothing is
    changed, and no file holds a password.
    """
    from steelyard.answers.stack.plan import split_document  # noqa: PLC0415
    from steelyard.cli.campaigns import print_whole  # noqa: PLC0415 - lazy
    from steelyard.tuning.plan import redis_split as planning  # noqa: PLC0415

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
    from steelyard.core.redis import (  # noqa: PLC0415 - lazy
        SplitInCluster,
        SplitRequest,
    )
    from steelyard.core.units import parse_bytes  # noqa: PLC0415

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
    from steelyard.core.redis import (  # noqa: PLC0415 - lazy
        DEFAULT_PORT,
        SplitServer,
    )

    host, colon, port = text.rpartition(":")
    if text.endswith("]") or not colon:
        host, port = text, str(DEFAULT_PORT)
    if not port.isdigit() or not 0 < int(port) < 2**16:
        raise click.BadParameter(f"{text!r}: write HOST or HOST:PORT")
    return SplitServer(host=host.strip("[]"), port=int(port), directory=directory)
