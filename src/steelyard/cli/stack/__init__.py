"""``steelyard stack``: the tuning stack as one plan. A verb imports what it does when used."""

from pathlib import Path

import click

from steelyard.cli.grouping import LongCommand
from steelyard.cli.main import LazyGroup
from steelyard.cli.options import (
    OBJECT,
    PATH,
    SIZE,
    cluster_options,
    context_option,
    layers_option,
    namespace_option,
    output_option,
)

_VERBS = {
    "plan": "Make one consistent plan for all layers, with ready files.",
    "apply": "Put a plan into effect, one setting at a time, each verified.",
    "verify": "Check for every setting of a plan whether it is in effect.",
    "revert": "Restore exactly what was there before a plan was applied.",
}


@click.group(cls=LazyGroup, verbs=_VERBS)
def command() -> None:
    """Plan, apply, verify and revert the tuning stack, from the hypervisor to PostgreSQL."""


@command.command(
    "plan",
    cls=LongCommand,
    usual="cpus memory for shared-buffers max-connections postgres-version on dsn from"
    " storage dir output",
)
@click.option("--cpus", type=click.IntRange(1), required=True, help="For the database.")
@click.option(
    "--memory",
    type=SIZE,
    metavar="SIZE",
    required=True,
    help="For the database, huge pages included.",
)
@click.option(
    "--shared-buffers",
    type=SIZE,
    metavar="SIZE",
    help="shared_buffers (default: a quarter of the memory).",
)
@click.option(
    "--max-connections", type=click.IntRange(1), help="max_connections (default: at most 100)."
)
@click.option(
    "--for",
    "place",
    type=click.Choice(("local", "kvm", "cnpg", "rds")),
    default="local",
    show_default=True,
    help="Where the database runs.",
)
@click.option("--postgres-version", type=click.IntRange(1), metavar="N", help="18 if not given.")
@click.option(
    "--server",
    metavar="WHERE",
    help="PostgreSQL whose program computes the huge pages (default: a formula).",
)
@click.option(
    "--from", "facts", type=PATH, help="Plan for the machine whose facts are in this file."
)
@click.option(
    "--host-facts", type=PATH, help="Facts of the hypervisor, saved on it by `inspect --save`."
)
@click.option(
    "--domain-xml", type=PATH, help="XML of the existing domain (default: libvirt is asked)."
)
@click.option("--on", metavar="ssh://HOST", help="Plan for this machine, over your own ssh.")
@click.option("--dsn", metavar="URI", help="URI of the server as it is now, without a password.")
@cluster_options
@click.option(
    "--data-directory", metavar="DIR", help="Data directory of the database, to find its disk."
)
@click.option(
    "--storage",
    type=click.Choice(("ssd", "hdd", "nvme", "ebs", "instance-store", "longhorn", "tmpfs")),
    help="Kind of storage below the data, where it cannot be seen from here.",
)
@click.option(
    "--storage-class", type=OBJECT, metavar="NAME", help="Existing storage class for the Cluster."
)
@click.option(
    "--volume-size",
    type=SIZE,
    metavar="SIZE",
    help="Size of each volume of the Cluster (at least 50GiB).",
)
@click.option(
    "--disk", "disks", metavar="PATH", multiple=True, help="Disk of a new VM; may be repeated."
)
@click.option("--bridge", metavar="NAME", help="Bridge of the hypervisor, for a new VM.")
@click.option("--instances", type=click.IntRange(1), default=1, help="Of the cluster; 1.")
@click.option(
    "--page-size",
    type=SIZE,
    metavar="SIZE",
    default="2MiB",
    help="Size of huge pages (default: 2MiB).",
)
@click.option("--no-huge-pages", is_flag=True, help="Plan ordinary pages; reserve no huge pages.")
@click.option("--shared-cpus", is_flag=True, help="Let other pods use the database's CPUs.")
@click.option(
    "--logical-decoding", is_flag=True, help="Logical decoding is used: wal_level = logical."
)
@click.option(
    "--name", help="Name of the domain or Cluster (default: that in --domain-xml, else postgres)."
)
@click.option("--dir", "out", type=PATH, metavar="DIR", help="Write plan.json and files/ there.")
@output_option()
@click.pass_context
def plan(context: click.Context, /, **_: object) -> None:
    """Make one consistent plan for all layers, with ready files; nothing is changed.

    From the real topology of this machine, or of the one whose facts are given: NUMA node, whole
    cores, huge pages, the memory line by line, each setting with reason, source, effect and what
    it takes until it is in effect. What cannot be had is refused with what would fit.
    """
    from steelyard.cli.stack import planning

    planning.plan_stack(planning.PlanOptions(**context.params))


@command.command("apply")
@click.argument("directory", metavar="DIR", type=PATH)
@layers_option
@click.option(
    "--dsn", metavar="URI", help="URI of the server whose settings are changed, without a password."
)
@click.option("--remote", is_flag=True, help="The server is on another machine than this one.")
@context_option("Context of the kubeconfig: objects of this cluster are made and changed.")
@namespace_option("Namespace of the objects (default: that of the context).")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def apply(context: click.Context, /, **_: object) -> None:
    """Put the plan in DIR into effect, one knob at a time, each verified by its effect.

    Everything is checked before the first change. What was there is kept in DIR/applied.jsonl
    before each change: an application that was cut off goes on when it is repeated, and `stack
    revert` restores exactly what was there. Settings that wait for a restart are marked; apply
    again after it; the exit code is 10 while something is not in effect yet. Without the
    privilege, the commands are printed, and the exit code is 8. Objects of a Kubernetes cluster are
    made and changed where --context or -n names it.
    """
    from steelyard.cli.stack import applying

    applying.apply(applying.ApplyOptions(**context.params))


@command.command("verify")
@click.argument("directory", metavar="DIR", type=PATH)
@layers_option
@click.option(
    "--dsn",
    metavar="URI",
    help="URI of the server, if it is not the one that the plan was applied to.",
)
@context_option("Context of the kubeconfig: objects and node of this cluster are checked.")
@namespace_option("Namespace of the database (default: that of the context).")
@click.option(
    "--node-probe/--no-node-probe", default=True, help="Start a short-lived probe pod on the node."
)
@output_option()
@click.pass_context
def verify(context: click.Context, /, **_: object) -> None:
    """Say of every knob of the plan in DIR whether it is in effect, and by what that was seen.

    Exit code 10 when one is not. What cannot be seen from here is said to be so, and is no "yes".
    With --context or -n the objects of that cluster are looked at, and the database's node.
    """
    from steelyard.cli.stack import applying

    params = dict(context.params)
    form = params.pop("form")
    applying.verify(applying.ApplyOptions(**params), form=form)


@command.command("revert")
@click.argument("directory", metavar="DIR", type=PATH)
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
def revert(directory: Path, dsn: str | None, changed: str, *, adopt: bool, yes: bool) -> None:
    """Restore exactly what was there before the plan in DIR was applied, the last change first.

    It needs DIR/applied.jsonl alone. What cannot be put back yet is named with the reason; revert
    again when that is gone. What is neither the plan's nor the former is somebody's work: it is
    named and not touched, unless --changed says what becomes of it. A record may come from somebody
    else: one that this account did not write is shown, and acted on with --adopt only.
    """
    from steelyard.cli.stack import applying
    from steelyard.tuning.apply.applier import Changed

    options = applying.RevertOptions(
        directory=directory, dsn=dsn, adopt=adopt, yes=yes, changed=Changed(changed)
    )
    applying.revert(options)
