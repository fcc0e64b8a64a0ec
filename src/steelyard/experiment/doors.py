"""All doors to the outside in one hand, so that a test can replace any of them."""

from dataclasses import dataclass

from steelyard.gateways.cgroups import Cgroups, SystemCgroups
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.host import Host, LocalHost
from steelyard.gateways.process import Processes, SystemProcesses
from steelyard.gateways.sql import PsycopgSql, Sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The gateways a campaign uses."""

    processes: Processes
    sql: Sql
    clock: Clock
    host: Host
    cgroups: Cgroups


def system_doors() -> Doors:
    """Return the real ones."""
    return Doors(
        processes=SystemProcesses(),
        sql=PsycopgSql(),
        clock=SystemClock(),
        host=LocalHost(),
        cgroups=SystemCgroups(),
    )
