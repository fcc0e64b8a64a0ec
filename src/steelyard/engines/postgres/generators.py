"""Several pgbench processes as one generator: a load divided among them, their results merged.

One process may be too slow for a server: its threads share what it keeps of all clients.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.engines.engine import RunRequest
from steelyard.engines.postgres import pgbench
from steelyard.model.command import Completed
from steelyard.model.errors import MeasurementError
from steelyard.model.measurement import Measurement, Second


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What one process measured, and how many transactions its means are of."""

    processed: int
    taken: Measurement


def divided(request: RunRequest) -> tuple[RunRequest, ...]:
    """Return what each process is asked for: clients and threads as even as can be.

    The rate follows the clients. A process has at least one client and one thread, so there are
    never more processes than clients.
    """
    load = request.load
    number = max(min(load.generators, load.clients), 1)
    if number == 1:
        return (request,)
    clients = _shares(load.clients, number)
    threads = [max(share, 1) for share in _shares(load.threads, number)]
    return tuple(
        replace(
            request,
            load=replace(
                load,
                generators=1,
                clients=own,
                threads=own_threads,
                rate_per_s=load.rate_per_s and load.rate_per_s * own / load.clients,
            ),
            flags=tuple(_seeded(request.flags, place)),
            log=request.log and request.log.with_name(f"{request.log.name}-{place}"),
        )
        for place, (own, own_threads) in enumerate(zip(clients, threads, strict=True))
    )


def _seeded(flags: Sequence[str], place: int) -> Iterator[str]:
    """Yield flags with a random seed of its own for each process.

    Under one seed all would go for the same rows at the same time.
    """
    is_seed = False
    for flag in flags:
        word, equals, value = flag.partition("=")
        named = len(word) > len("--ra") and "--random-seed".startswith(word)
        if named and equals and value.isdecimal():
            yield f"{word}={int(value) + place}"
        elif is_seed and flag.isdecimal():
            yield str(int(flag) + place)
        else:
            yield flag
        is_seed = named and not equals


def _shares(whole: int, parts: int) -> list[int]:
    return [whole // parts + (place < whole % parts) for place in range(parts)]


def parse_run(
    completed: Sequence[Completed],
    *,
    ramp_s: float,
    started_at: float,
    slice_s: float | None = None,
) -> Measurement:
    """Return what all processes of a run measured together.

    Args:
        completed: Of each process.
        ramp_s: Thrown away at the start, whole seconds.
        started_at: Wall clock at the start.
        slice_s: So long after the ramp the tail of an open loop begins; None: there is none.

    Raises:
        MeasurementError: One failed, or its output is not understood.
    """
    # Those that were ended because of another have a signal as their status, which is negative.
    for each in sorted(completed, key=lambda one: one.exit_status, reverse=True):
        if not each.succeeded:
            raise MeasurementError(f"pgbench exited with {each.exit_status}: {each.tail(3)}")
    parts = [
        _Part(
            processed=pgbench.processed_of(each),
            taken=pgbench.parse_run(
                each,
                ramp_s=ramp_s,
                # By its own clock, where it ran elsewhere: its time stamps are.
                started_at=started_at if each.began_at is None else each.began_at,
                slice_s=slice_s,
            ),
        )
        for each in completed
    ]
    return parts[0].taken if len(parts) == 1 else _merged(parts)


def _merged(parts: Sequence[_Part]) -> Measurement:
    taken = [part.taken for part in parts]
    mean_s = _mean_s(parts)
    connections = [one.connection_s for one in taken if one.connection_s is not None]
    return Measurement(
        transactions=sum(one.transactions for one in taken),
        seconds=max(one.seconds for one in taken),
        latency_mean_s=mean_s,
        latency_stddev_s=_stddev_s(parts, mean_s),
        failed=sum(one.failed for one in taken),
        connection_s=max(connections) if len(connections) == len(taken) else None,
        series=_series([one.series for one in taken]),
        tail_transactions=sum(one.tail_transactions for one in taken),
        skipped=sum(one.skipped for one in taken),
    )


def _mean_s(parts: Sequence[_Part]) -> float | None:
    """Return the mean over all transactions; None where a process does not say its own."""
    known = [
        part.processed * part.taken.latency_mean_s
        for part in parts
        if part.processed and part.taken.latency_mean_s is not None
    ]
    counted = [part.processed for part in parts if part.processed]
    return sum(known) / sum(counted) if counted and len(known) == len(counted) else None


def _stddev_s(parts: Sequence[_Part], mean_s: float | None) -> float | None:
    """Return the standard deviation over all transactions: within and between the processes.

    pgbench divides by the number of transactions, not by one less (pgbench.c, printSimpleStats).
    """
    squares = [
        part.processed
        * (part.taken.latency_stddev_s**2 + (part.taken.latency_mean_s - mean_s) ** 2)
        for part in parts
        if part.processed
        and mean_s is not None
        and part.taken.latency_mean_s is not None
        and part.taken.latency_stddev_s is not None
    ]
    counted = [part.processed for part in parts if part.processed]
    if not counted or len(squares) < len(counted):
        return None
    return math.sqrt(sum(squares) / sum(counted))


def _series(all_series: Sequence[tuple[Second, ...]]) -> tuple[Second, ...]:
    """Return the intervals of all processes added up, by whole seconds after each one's first."""
    by_place: dict[int, list[Second]] = {}
    for series in all_series:
        for second in series:
            by_place.setdefault(round(second.end_s - series[0].end_s), []).append(second)
    return tuple(_sum(by_place[place]) for place in sorted(by_place))


def _sum(seconds: Sequence[Second]) -> Second:
    timed = [one for one in seconds if one.latency_mean_s is not None]
    weights = sum(one.transactions for one in timed)
    latency_s = sum(one.transactions * (one.latency_mean_s or 0.0) for one in timed)
    return Second(
        end_s=max(one.end_s for one in seconds),
        transactions=round(sum(one.transactions for one in seconds), 3),
        seconds=max(one.seconds for one in seconds),
        latency_mean_s=latency_s / weights if weights else None,
        failed=sum(one.failed for one in seconds),
    )
