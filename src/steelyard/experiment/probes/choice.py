"""Which probes watch a run: the server's own account always, and what can be seen around it."""

from dataclasses import dataclass

from steelyard.engines.engine import Engine
from steelyard.experiment.probes.machine import MachineProbe
from steelyard.experiment.probes.pods import PodProbe
from steelyard.experiment.probes.probe import Probe
from steelyard.experiment.probes.server import ServerProbe
from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host
from steelyard.model.command import ServerAddress
from steelyard.model.vantage import Vantage
from steelyard.model.workload import Workload
from steelyard.platforms.kubernetes.sight import PodSight


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server in force and the workload that it is about to get.

    Attributes:
        vantage: Its processes, where it runs on this machine.
        sight: Its pod and those of the generators, where they run in a cluster.
    """

    engine: Engine
    address: ServerAddress
    workload: Workload
    vantage: Vantage | None
    sight: PodSight | None = None


def probes_for(place: Place, host: Host, clock: Clock, *, ramp_s: float) -> tuple[Probe, ...]:
    """Return new probes for one run.

    Where server and generators are pods, this machine has no part in it.
    """
    server = ServerProbe(
        open_reader=lambda: place.engine.reader(place.address, place.workload),
        ramp_s=ramp_s,
        nearby=host if place.vantage is not None else None,
    )
    if place.sight is not None:
        return (server, PodProbe(sight=place.sight, host=host, clock=clock))
    return (server, MachineProbe(host=host, vantage=place.vantage))
