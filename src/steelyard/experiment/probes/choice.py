"""Which probes watch a run: the server's own account always, the machine's where it is this one."""

from dataclasses import dataclass

from steelyard.engines.engine import Engine
from steelyard.experiment.probes.machine import MachineProbe
from steelyard.experiment.probes.probe import Probe
from steelyard.experiment.probes.server import ServerProbe
from steelyard.gateways.host import Host
from steelyard.model.command import ServerAddress
from steelyard.model.experiment import Workload
from steelyard.model.vantage import Vantage


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server in force and the workload that it is about to get.

    Attributes:
        vantage: Its processes, where it runs on this machine.
    """

    engine: Engine
    address: ServerAddress
    workload: Workload
    vantage: Vantage | None


def probes_for(place: Place, host: Host, *, ramp_s: float) -> tuple[Probe, ...]:
    """Return new probes for one run."""
    server = ServerProbe(
        open_reader=lambda: place.engine.reader(place.address, place.workload),
        ramp_s=ramp_s,
        nearby=host if place.vantage is not None else None,
    )
    return (server, MachineProbe(host=host, vantage=place.vantage))
