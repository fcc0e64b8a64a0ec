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
    "--bin",
    "bin_",
    metavar="WHERE",
    help="PostgreSQL whose program computes the huge pages (default: a formula).",
)
@click.option("--facts", type=_FILE, help="Plan for the machine whose facts are in this file.")
@click.option(
    "--host-facts", type=_FILE, help="Facts of the hypervisor, saved on it by `inspect --save`."
)
@click.option(
    "--domain-xml",
    type=_FILE,
    help="XML of the existing domain (default: libvirt is asked).",
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
@click.option("--shared-cpus", is_flag=True, help="Let other pods use the database's CPUs.")
@click.option(
    "--logical-decoding", is_flag=True, help="Logical decoding is used: wal_level = logical."
)
@click.option(
    "--name", help="Name of the domain or Cluster (default: that in --domain-xml, else postgres)."
)
@click.option("--out", type=_FILE, metavar="DIR", help="Write plan.json and files/ there.")
@click.option("--json", "as_json", is_flag=True, help="Print plan.json.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Make one consistent plan for all layers, with ready files; nothing is changed.

    From the real topology of this machine, or of the one whose facts are given: NUMA node, whole
    cores, huge pages, the memory line by line, each setting with reason, source, effect and what
    it takes until it is in effect. What cannot be had is refused with what would fit.
    """
    from steelyard.cli.stack.planning import PlanOptions, plan_stack

    plan_stack(PlanOptions(**context.params))
