"""``steelyard stack plan``: one consistent plan for all layers."""

from pathlib import Path

import click

from steelyard.cli.cluster_facts import cluster_options
from steelyard.cli.options import OBJECT, SIZE

_FILE = click.Path(path_type=Path)


@click.command("plan")
@click.option("--cpus", type=click.IntRange(1), required=True, help="For the database.")
@click.option(
    "--memory",
    type=SIZE,
    metavar="SIZE",
    required=True,
    help="For the database, huge pages included.",
)
@click.option(
    "--shared-buffers", type=SIZE, metavar="SIZE", help="A quarter of the memory if not given."
)
@click.option("--max-connections", type=click.IntRange(1), help="100 at most if not given.")
@click.option(
    "--for",
    "place",
    type=click.Choice(("local", "kvm", "cnpg", "rds")),
    default="local",
    show_default=True,
    help="Where the database runs.",
)
@click.option("--postgres-version", type=click.IntRange(1), metavar="N", help="18 if not given.")
@click.option("--bin", "bin_", metavar="WHERE", help="Whose program counts huge pages; `formula`.")
@click.option("--facts", type=_FILE, help="Plan for the machine of this file, not for this one.")
@click.option("--host-facts", type=_FILE, help="Facts of the hypervisor, saved there.")
@click.option(
    "--domain-xml",
    type=_FILE,
    help="Of the domain that is there; of this machine's it is asked of libvirt.",
)
@click.option("--on", metavar="ssh://HOST", help="Plan for this machine, looked at by your ssh.")
@click.option("--dsn", metavar="URI", help="The server as it is now; no password in it.")
@cluster_options
@click.option("--data-directory", metavar="DIR", help="Of the database: whose disk to look at.")
@click.option(
    "--storage",
    type=click.Choice(("ssd", "hdd", "nvme", "ebs", "instance-store", "longhorn", "tmpfs")),
    help="Below the data, where it is not seen from here.",
)
@click.option("--storage-class", type=OBJECT, metavar="NAME", help="Of the cluster, there already.")
@click.option(
    "--volume-size", type=SIZE, metavar="SIZE", help="Of each volume of the cluster; 50GiB or more."
)
@click.option(
    "--disk", "disks", metavar="PATH", multiple=True, help="Of a new VM; may be repeated."
)
@click.option("--bridge", metavar="NAME", help="Of the hypervisor, for a new VM.")
@click.option("--instances", type=click.IntRange(1), default=1, help="Of the cluster; 1.")
@click.option("--page-size", type=SIZE, metavar="SIZE", default="2MiB", help="Of huge pages; 2MiB.")
@click.option("--shared-cpus", is_flag=True, help="Let other pods use the database's CPUs.")
@click.option("--logical-decoding", is_flag=True, help="It is used: wal_level = logical.")
@click.option("--name", help="Of the domain or cluster; that in --domain-xml, else postgres.")
@click.option("--out", type=_FILE, metavar="DIR", help="Write plan.json and files/ there.")
@click.option("--json", "as_json", is_flag=True, help="Print plan.json.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Make one consistent plan for all layers, with ready files; nothing is changed.

    From the real topology of this machine, or of the one whose facts are given: NUMA node, whole
    cores, huge pages, the memory line by line, each setting with reason, source, effect and what
    it takes until it is in effect. What cannot be had is refused with what would fit.
    """
    from steelyard.cli.stack.planning import (  # noqa: PLC0415 - lazy
        PlanOptions,
        plan_stack,
    )

    plan_stack(PlanOptions(**context.params))
