"""Doors to a world in memory, as campaigns are handed them."""

from dataclasses import replace
from typing import Any

from fakes.cgroups import FakeCgroups
from fakes.clock import FakeClock
from fakes.host import FakeHost
from fakes.processes import FakeProcesses
from fakes.sql import FakeSql
from steelyard.gateways.doors import Doors


def fake_doors(clock: FakeClock | None = None, **others: Any) -> Doors:
    """Return doors to nothing but what is handed in."""
    clock = clock or FakeClock()
    doors = Doors(
        processes=FakeProcesses(clock),
        sql=FakeSql(),
        clock=clock,
        host=FakeHost(),
        cgroups=FakeCgroups(),
    )
    return replace(doors, **others)
