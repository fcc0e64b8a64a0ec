"""Whose stack is asked for: a database in a Kubernetes cluster, or this machine."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from steelyard.cli.options import NAMESPACE

if TYPE_CHECKING:
    from steelyard.core.stack import StackFacts
    from steelyard.tuning.facts.collecting import FactDoors
    from steelyard.tuning.facts.kubernetes import AskedCluster


Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS: Final = (
    click.option(
        "--cluster", metavar="NAME", help="Check the primary of this CloudNativePG Cluster."
    ),
    click.option("--pod", metavar="NAME", help="Check this pod of a database."),
    click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig (default: the current one)."
    ),
    click.option(
        "-n",
        "--namespace",
        type=NAMESPACE,
        metavar="NAME",
        help="Namespace of the Cluster or pod (default: that of the context).",
    ),
    click.option(
        "--node-probe/--no-node-probe",
        default=True,
        help="Start a short-lived probe pod on the database's node.",
    ),
)


def cluster_options(command: Command) -> Command:
    """Add what names a database in a cluster."""
    return reduce(lambda decorated, part: part(decorated), reversed(_OPTIONS), command)


def looking_inside(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options that name a database in a cluster, or its cluster, with their values."""
    names = ("cluster", "pod", "context", "namespace")
    found: dict[str, object] = {f"--{name}": options[name] for name in names if options[name]}
    return found if options["node_probe"] else {**found, "--no-node-probe": True}


def asked_cluster(
    options: Mapping[str, Any], *, elsewhere: Mapping[str, object]
) -> "AskedCluster | None":
    """Return which database in which cluster is asked for; None where none is.

    Args:
        options: Of the command line, with ``dsn``.
        elsewhere: Options that look at a machine instead, falsy where they were not given.

    Raises:
        InputError: Both were given.
    """
    from steelyard.core.errors import InputError
    from steelyard.tuning.facts.kubernetes import AskedCluster

    inside = looking_inside(options)
    if not inside:
        return None
    other = next((option for option, value in elsewhere.items() if value), None)
    if other is not None:
        raise InputError(
            f"{next(iter(inside))} looks into a cluster, and {other} at a machine",
            hint="Save the facts of one of them to a file with --save.",
        )
    return AskedCluster(
        context=options["context"],
        namespace=options["namespace"],
        cluster=options["cluster"],
        pod=options["pod"],
        dsn=options["dsn"],
        node_probe=options["node_probe"],
    )


def collected_inside(asked: "AskedCluster") -> "StackFacts":
    """Return what can be seen of a database in a cluster."""
    from steelyard.gateways.doors import system_doors
    from steelyard.tuning.facts.collecting import ClusterDoors, collect_in_cluster

    doors = system_doors()
    gateways = ClusterDoors(kubernetes=doors.kubernetes, sql=doors.sql, clock=doors.clock)
    return collect_in_cluster(asked, gateways)


def place_inside(facts: "StackFacts", asked: "AskedCluster") -> str:
    """Return where facts of a cluster were collected, in words."""
    named = asked.pod or f"Cluster {asked.cluster}"
    node = facts.kubernetes.node if facts.kubernetes is not None else None
    where = f" on {node}" if node else ""
    return f"{named}{where}" + (f" in {asked.context}" if asked.context else "")


def defined_domain(name: str) -> str | None:
    """Return a domain's XML as this machine's libvirt keeps it; None where it has none."""
    from steelyard.core.errors import SteelyardError
    from steelyard.gateways.doors import system_doors
    from steelyard.gateways.virsh import Virsh

    try:
        return Virsh(processes=system_doors().processes).xml(name, defined=True)
    except SteelyardError:  # there is no libvirt: the facts of domains say why
        return None


def system_fact_doors() -> "FactDoors":
    """Return the gateways for facts of this machine; virtual machines are the user's libvirt's."""
    from steelyard.gateways.doors import system_doors
    from steelyard.gateways.virsh import Virsh
    from steelyard.tuning.facts.collecting import FactDoors
    from steelyard.tuning.facts.domains import Hypervisor, collect_domains

    doors = system_doors()
    libvirt = Virsh(processes=doors.processes)
    hypervisor = Hypervisor(domains=libvirt, host=doors.host, clock=doors.clock)
    return FactDoors(
        host=doors.host,
        processes=doors.processes,
        sql=doors.sql,
        clock=doors.clock,
        redis=doors.redis,
        domains=lambda: collect_domains(hypervisor),
    )
