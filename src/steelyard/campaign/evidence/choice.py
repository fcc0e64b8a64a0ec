"""Which probes watch a run: the server's own account always, and what can be seen around it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from steelyard.campaign.evidence.machine import MachineInTurns, MachineProbe
from steelyard.campaign.evidence.neighbours import Crowd
from steelyard.campaign.evidence.pods import PodProbe
from steelyard.campaign.evidence.processes import own_process
from steelyard.campaign.evidence.server import ServerProbe
from steelyard.campaign.evidence.turn_watch import TurnWatch
from steelyard.campaign.evidence.watch import Probe
from steelyard.core.command import ServerAddress
from steelyard.core.evidence import Absence, Vantage
from steelyard.core.experiment import Workload
from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host
from steelyard.places.kubernetes.outcomes import PodSight
from steelyard.systems.protocol import Engine


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


_PACE_IN_TURNS = "in turns"
_OF_ALL_SESSIONS = Absence(
    subject="server",
    reason="Sessions of other treatments are on the same server, which counts what all of them do.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInTurns:
    """One of several servers that are up together, and where its generators will be.

    Attributes:
        place: None where its server is gone.
        generators: Returns the ids of its load generators' processes.
        is_shared: Others of them are sessions of the same server.
    """

    place: Place | None
    generators: Callable[[], Sequence[int]]
    is_shared: bool = False


def turn_watches(places: Sequence[PlaceInTurns], host: Host, clock: Clock) -> tuple[TurnWatch, ...]:
    """Return what watches runs that take turns with one another, one per place.

    To none of them the others' processes are neighbours.
    """
    vantages = [one.place.vantage for one in places if one.place is not None]
    own = own_process(host)
    ours = {pid for each in vantages if each is not None for pid in (each.pid, *each.beside)}
    crowd = Crowd(host=host, clock=clock, ours=frozenset(ours | ({own.pid} if own else set())))
    return tuple(_turn_watch(one, crowd, host, clock) for one in places)


def _turn_watch(one: PlaceInTurns, crowd: Crowd, host: Host, clock: Clock) -> TurnWatch:
    place = one.place
    if place is None:
        return TurnWatch(clock=clock)
    server = ServerProbe(
        open_reader=lambda: place.engine.reader(place.address, place.workload),
        ramp_s=0.0,
        nearby=host if place.vantage is not None else None,
        pace=_PACE_IN_TURNS,
        clock=clock,
    )
    return TurnWatch(
        clock=clock,
        server=None if one.is_shared else server,
        absent=(_OF_ALL_SESSIONS,) if one.is_shared else (),
        machine=partial(
            MachineInTurns,
            host=host,
            vantage=place.vantage,
            crowd=crowd,
            generators=one.generators,
            clock=clock,
        ),
    )
