"""The gateways through which the facts of a stack come, on this machine."""

from steelyard.core.errors import SteelyardError
from steelyard.gateways.doors import system_doors
from steelyard.gateways.virsh import Virsh
from steelyard.tuning.facts.collecting import ClusterDoors, FactDoors
from steelyard.tuning.facts.domains import Hypervisor, collect_domains


def defined_domain(name: str) -> str | None:
    """Return a domain's XML as this machine's libvirt keeps it; None where it has none."""
    try:
        return Virsh(processes=system_doors().processes).xml(name, defined=True)
    except SteelyardError:  # there is no libvirt: the facts of domains say why
        return None


def system_cluster_doors() -> ClusterDoors:
    """Return the real ones into Kubernetes clusters."""
    doors = system_doors()
    return ClusterDoors(kubernetes=doors.kubernetes, sql=doors.sql, clock=doors.clock)


def system_fact_doors() -> FactDoors:
    """Return the real ones; virtual machines are asked of the user's libvirt."""
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
