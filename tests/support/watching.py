"""A piece of work that is watched as a run in one piece."""

from collections.abc import Callable
from typing import TypeVar

from steelyard.campaign.evidence.machine import MachineProbe
from steelyard.campaign.evidence.probe import Probe
from steelyard.campaign.evidence.watch import Watch
from steelyard.core.measurement import Evidence
from steelyard.gateways.host import Clock

_Result = TypeVar("_Result")


def seen_by(
    work: Callable[[], _Result], *probes: Probe, machine: MachineProbe | None = None
) -> tuple[_Result, Evidence]:
    """Return what the work returns, and what the probes saw of it."""
    watch = Watch(clock=Clock(), probes=probes, machine=machine)
    watch.begin()
    watch.resume()
    watch.begin_turn(None)
    result = work()
    watch.end_turn()
    watch.settle()
    watch.halt()
    watch.take_stock()
    watch.finish()
    evidence = watch.evidence()
    assert evidence is not None
    return result, evidence
