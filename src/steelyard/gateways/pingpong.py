"""What it costs to wake up another process: one byte back and forth over two pipes.

A round trip holds two wake-ups, as a statement does: the server's and the generator's. As a program
(``python -m steelyard.gateways.pingpong same|across SECONDS MOST [CPU CPU]``) it prints JSON.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from steelyard.gateways.process import Processes, answer_of

_BEYOND_S = 10.0  # start and end of a program on a busy machine
_ONE_CPU = "only one CPU may be used here"


class Where(StrEnum):
    """Which CPUs the two processes have."""

    SAME = "same"
    ACROSS = "across"


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPong:
    """Round trips between two processes, each pinned to a CPU."""

    cpus: tuple[int, int]
    trips_s: tuple[float, ...]


def ping_pong(
    where: Where,
    *,
    processes: Processes,
    directory: Path,
    most_s: float,
    most: int,
    cpus: tuple[int, int] | None = None,
) -> PingPong:
    """Return the round trips of a ping-pong on this machine.

    Args:
        where: On one CPU or across two, the first ones that we may use, or those in ``cpus``.
        processes: Runs it.
        directory: Working directory of the two processes.
        most_s: Seconds after which no other round trip is begun.
        most: Round trips to take.
        cpus: Which two, the same one twice for one; None: the first ones.

    Raises:
        MeasurementError: There is no second CPU, or it failed.
    """
    found = answer_of(
        "steelyard.gateways.pingpong",
        where.value,
        str(most_s),
        str(most),
        *map(str, cpus or ()),
        processes=processes,
        directory=directory,
        timeout_s=most_s + _BEYOND_S,
    )
    first, second = found["cpus"]
    return PingPong(cpus=(first, second), trips_s=tuple(ns / 1e9 for ns in found["trips_ns"]))


def take(cpus: tuple[int, int], *, most_s: float, most: int) -> list[int]:
    """Return nanoseconds of each round trip; forks, so the caller must have one thread."""
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _echo(cpus[1], (ours, theirs))
    os.close(ours[0])
    os.close(theirs[1])
    os.sched_setaffinity(0, {cpus[0]})
    trips: list[int] = []
    begun = time.perf_counter_ns()
    while len(trips) < most and time.perf_counter_ns() - begun < most_s * 1e9:
        served = time.perf_counter_ns()
        os.write(ours[1], b"x")
        os.read(theirs[0], 1)
        trips.append(time.perf_counter_ns() - served)
    os.close(ours[1])  # which ends the other one
    os.close(theirs[0])
    os.waitpid(child, 0)
    return trips[1:]  # the first one waits for the other process to be there


def _echo(cpu: int, pipes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Send every byte back until the other side is gone; never returns."""
    (receive, not_ours), (neither, send) = pipes
    try:
        os.close(not_ours)
        os.close(neither)
        os.sched_setaffinity(0, {cpu})
        while ball := os.read(receive, 1):
            os.write(send, ball)
    finally:
        os._exit(0)


def main(arguments: list[str]) -> None:
    """Print the round trips as JSON, or why there are none."""
    where, most_s, most, *chosen = arguments
    ours = sorted(os.sched_getaffinity(0))
    if not chosen and where == Where.ACROSS and len(ours) < 2:
        sys.stdout.write(json.dumps({"unknown": _ONE_CPU}))
        return
    first, second = map(int, chosen) if chosen else (ours[0], ours[where == Where.ACROSS])
    cpus = (first, second)
    trips = take(cpus, most_s=float(most_s), most=int(most))
    sys.stdout.write(json.dumps({"cpus": cpus, "trips_ns": trips}))


if __name__ == "__main__":
    main(sys.argv[1:])
