"""What is doubtful about the capacity and the rates made from it: derived from the plan.

The plan is written once. A finding noted while the capacity is looked for would stay behind where
the search was interrupted and repeated.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from steelyard.analysis.numerals import count
from steelyard.model.campaign import CampaignRecord
from steelyard.model.capacity import Capacity, CapacityPoint
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.load import Load
from steelyard.stats.capacity import find_capacity
from steelyard.stats.confidence import FloatArray

_RISES = "capacity-still-rises"


def capacity_findings(record: CampaignRecord) -> Iterator[Finding]:
    """Yield where more clients may reach more, and where a load may not reach its rate."""
    noted = {finding.code for finding in record.findings}
    for capacity in record.plan.capacities if record.plan is not None else ():
        if _RISES not in noted:  # the first records of capacities noted it themselves
            yield from _rising(capacity)
        yield from _narrow(record.experiment, capacity)


def log_slices(points: Sequence[CapacityPoint]) -> FloatArray:
    """Return ln(1/s), shape (rounds, numbers of clients)."""
    return np.log(np.array([point.slices for point in points], dtype=np.float64)).T


def _rising(capacity: Capacity) -> Iterator[Finding]:
    """Yield that the most clients that were tried were clearly the best."""
    if not find_capacity(log_slices(capacity.points)).rising:
        return
    yield Finding(
        code=_RISES,
        severity=Severity.WARNING,
        message=f"{capacity.workload}: throughput still rises at {capacity.clients} clients,"
        " the most that were tried; the capacity may be more than what the rates are shares of",
        remedy="Try more clients: `capacity: {clients: [...]}`.",
        subject=capacity.treatment,
    )


def _narrow(experiment: Experiment, capacity: Capacity) -> Iterator[Finding]:
    """Yield which loads have fewer clients or threads than it takes to reach the capacity."""
    reached = next(point for point in capacity.points if point.clients == capacity.clients)
    shares = [load for load in experiment.loads if load.share is not None]
    narrow = [
        load
        for load in shares
        if load.clients < reached.clients or load.threads < min(reached.threads, load.clients)
    ]
    if narrow:
        told = ", ".join(dict.fromkeys(map(_pool, narrow)))
        yield Finding(
            code="capacity-of-more-clients",
            severity=Severity.WARNING,
            message=(
                f"{capacity.workload}: the capacity takes {_pool(reached)}, and shares of it are"
                f" offered with {told}, too, which may never complete as much"
            ),
            remedy="Give these loads rates of their own: `loads.rate: 500/s`, or leave them out.",
            subject=capacity.treatment,
        )


def _pool(load: Load | CapacityPoint) -> str:
    return f"{count(load.clients, 'client')} on {count(load.threads, 'thread')}"
