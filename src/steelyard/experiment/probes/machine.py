"""Watches the machine during a run: CPU by who used it, devices, throttling, other processes."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from steelyard.experiment.probes.levels import machine_levels, server_levels
from steelyard.experiment.probes.links import Moved, busiest_fraction, links
from steelyard.experiment.probes.neighbours import Census, census, heaviest
from steelyard.experiment.probes.probe import Part
from steelyard.experiment.probes.sources import Counted, Sources
from steelyard.gateways.host import Host
from steelyard.model.evidence import SERVERS_MACHINE, Absence, OtherProcess, Quantity, Series
from steelyard.model.vantage import Vantage
from steelyard.record.tables import HOST_QUANTITIES

SERIES = "host"
_DIGITS = 4  # a tenth of a millisecond; counts are whole
# What is left after the last sample is a row of its own only when it is long enough for a rate.
_LEAST_ROW_S = 0.5
Reading = tuple[float, Counted]


class MachineProbe:
    """Reads this machine once a second; with a vantage also the server's part of it."""

    subject = "the machine"
    interval_s = 1.0

    def __init__(self, *, host: Host, vantage: Vantage | None) -> None:
        self._host = host
        self._vantage = vantage
        self._given_up = threading.Event()
        self._sources: Sources
        self._before: Census
        self._used: Counted
        self._links: dict[str, Moved]
        self._readings: list[Reading]

    def begin(self) -> None:
        """Take stock of all processes, then take the first reading."""
        self._sources = Sources.of(self._host, self._vantage)
        self._before = census(self._host)
        self._links = links(self._host)
        self._readings = [(0.0, self._sources.sampled())]
        self._used = self._sources.used()

    def sample(self, at_s: float) -> None:
        """Read what the timeline shows."""
        self._readings.append((at_s, self._sources.sampled()))

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Take the last reading once the generator's sessions have ended.

        A sample that was lost leaves a longer interval in the timeline, no gap.
        """
        del lost
        if self._sources.server is not None:
            self._sources.server.settle(self._given_up)
        last, used = self._sources.sampled(), self._sources.used()
        return machine_part(
            Seen(sources=self._sources, vantage=self._vantage, readings=self._readings),
            last=(at_s, last),
            used=difference(self._used, used),
            others=heaviest(self._before, census(self._host), ours=self._ours()),
            link_fraction=busiest_fraction(self._links, links(self._host), at_s),
        )

    def abandon(self) -> None:
        """Wait for nothing any more."""
        self._given_up.set()

    def _ours(self) -> tuple[int, ...]:
        own = self._sources.generator.own_pid
        if self._vantage is None:
            return (own,)
        return (own, self._vantage.pid, *self._vantage.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read of a machine during a run.

    Attributes:
        readings: For the timeline, without the last one.
    """

    sources: Sources
    vantage: Vantage | None
    readings: Sequence[Reading]


def machine_part(
    seen: Seen,
    *,
    last: Reading,
    used: Counted,
    others: tuple[OtherProcess, ...],
    link_fraction: float | None,
) -> Part:
    """Return what came of it.

    Args:
        seen: Up to the end.
        last: The last reading for the timeline.
        used: Over the run.
        others: The heaviest other processes.
        link_fraction: Of the busiest link; None where there is none.
    """
    vantage, sources = seen.vantage, seen.sources
    with_others = partial(_with_others, vantage=vantage)
    totals = with_others(used)
    unsampled = sources.unsampled(totals)
    levels, absent = machine_levels(sources.host)
    levels |= {} if link_fraction is None else {Quantity.LINK_BUSIEST_FRACTION: link_fraction}
    if vantage is not None:
        more, missing = server_levels(sources.host, vantage)
        levels, absent = levels | more, (*absent, *missing)
    readings = [*seen.readings, (last[0], _caught_up(seen.readings[0][1], last[1], totals))]
    return Part(
        totals={q.value: value for q, value in totals.items() if q not in unsampled},
        levels={quantity.value: value for quantity, value in levels.items()},
        series=timeline(readings, with_others, without=unsampled),
        others=others,
        absent=(*_unseen(vantage), *sources.absent(used), *unsampled.values(), *absent),
    )


def _with_others(used: Counted, *, vantage: Vantage | None) -> Counted:
    """Return differences with what is left for all other processes."""
    known = {Quantity.GENERATOR_CPU_S, Quantity.STEELYARD_CPU_S}
    if vantage is not None:
        known.add(Quantity.SERVER_CPU_S)
        if vantage.beside:
            known.add(Quantity.REPLICA_CPU_S)
    modes = {Quantity.CPU_USER_S, Quantity.CPU_SYSTEM_S}
    if not (known | modes) <= used.keys():
        return used
    others_s = sum(used[mode] for mode in modes) - sum(used[part] for part in known)
    return {**used, Quantity.OTHERS_CPU_S: rounded(max(others_s, 0.0))}


def _caught_up(first: Counted, last: Counted, totals: Counted) -> Counted:
    """Return the last reading with the CPU that no sample saw, so that rows add up."""
    exact: Counted = {
        quantity: first[quantity] + totals[quantity]
        for quantity in (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S)
        if quantity in first and quantity in totals
    }
    return {**last, **exact}


def _unseen(vantage: Vantage | None) -> tuple[Absence, ...]:
    if vantage is not None:
        return ()
    reason = (
        "the server's processes, devices and memory are not visible from here;"
        " CPU and other processes are those of the machine that runs the generator"
    )
    return (Absence(subject=SERVERS_MACHINE, reason=reason),)


def timeline(
    readings: Sequence[Reading],
    finished: Callable[[Counted], Counted],
    *,
    without: Collection[Quantity] = (),
) -> tuple[Series, ...]:
    """Return the series of a run; none where nothing of it was counted.

    Args:
        readings: Counters with the seconds since the run's start; the first at its start.
        finished: Adds to differences what follows from them.
        without: Quantities that samples do not show.
    """
    readings = without_short_end(readings)
    used = [finished(difference(begin, end)) for (_, begin), (_, end) in pairwise(readings)]
    known = [name for name in HOST_QUANTITIES if name not in without]
    names = [name for name in known if any(name in row for row in used)]
    if not names:
        return ()
    return (
        Series(
            subject=SERIES,
            names=tuple(name.value for name in names),
            end_s=tuple(round(at_s, 3) for at_s, _ in readings[1:]),
            rows=tuple(tuple(row.get(name) for name in names) for row in used),
        ),
    )


def difference(begin: Counted, end: Counted) -> Counted:
    """Return what went by between two readings of the same counters.

    Idle time and waiting for devices may go back a little (proc_stat(5)); so may sums over
    processes that end while they are read.
    """
    return {
        quantity: rounded(max(end[quantity] - begin[quantity], 0.0))
        for quantity in end
        if quantity in begin
    }


def rounded(value: float) -> float:
    """Return a figure as evidence keeps it."""
    return float(round(value, _DIGITS))


def without_short_end(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings without the last sample when it lies just before the end."""
    if len(readings) > 2 and readings[-1][0] - readings[-2][0] < _LEAST_ROW_S:
        return [*readings[:-2], readings[-1]]
    return list(readings)
