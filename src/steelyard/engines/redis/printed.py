"""What a generator of Redis printed about a run, in base units, and what that measures.

Both generators tell counts of requests below rising latencies. Counts add up exactly over
processes and runs, as those of a log do; a latency is known no finer than the generator's steps and
is rounded up to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.model.latency import RunLatency, ScriptLatency
from steelyard.model.measurement import Measurement, Second
from steelyard.stats.histogram import Histogram, bucket_indices, histogram_of, merged, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How many requests took no longer than a latency.

    Attributes:
        latency_us: Whole microseconds.
        requests: Cumulative, so that steps rise in both.
    """

    latency_us: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One process of a generator, one test.

    Attributes:
        test: Its name in the output: ``SET``.
        requests: Answered.
        seconds: From when all clients were connected to the last answer.
        mean_s: Mean latency; None if not reported.
        longest_s: The longest latency, as exact as it is printed; None if not reported.
        series: By whole seconds.
        steps: The distribution of latencies.
    """

    test: str
    requests: int
    seconds: float
    mean_s: float | None
    longest_s: float | None
    series: tuple[Second, ...]
    steps: tuple[Step, ...]


def measurement(printed: Sequence[Printed]) -> Measurement:
    """Return what all processes of a run measured together.

    They begin together. The run lasts as long as the last of them, so what one that ended early did
    not do counts against it.
    """
    timed = [each for each in printed if each.mean_s is not None]
    requests = sum(each.requests for each in timed)
    total_s = sum(each.requests * (each.mean_s or 0.0) for each in timed)
    return Measurement(
        transactions=float(sum(each.requests for each in printed)),
        seconds=max(each.seconds for each in printed),
        latency_mean_s=total_s / requests if requests and len(timed) == len(printed) else None,
        latency_stddev_s=None,  # neither generator tells it
        failed=0,  # an error of the server ends the generator
        connection_s=None,
        series=_series([each.series for each in printed]),
    )


def latency(printed: Sequence[Printed], script: str) -> RunLatency | None:
    """Return the latencies of all processes of a run under one name; None where one tells none."""
    if not printed or not all(each.steps for each in printed):
        return None
    longest = [each.longest_s for each in printed if each.longest_s is not None]
    counts = merged(_histogram(each.steps) for each in printed)
    return RunLatency(
        scripts=(
            ScriptLatency(
                script=script,
                latency=to_text(counts),
                longest_s=max(longest) if len(longest) == len(printed) else None,
            ),
        )
    )


def rising(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return steps in order of latency, each with at least the requests of those before it.

    Of one latency that with the most requests is kept; a step that adds no request is dropped.
    """
    kept: list[Step] = []
    for step in sorted(steps, key=lambda each: (each.latency_us, -each.requests)):
        if step.requests > (kept[-1].requests if kept else 0):
            kept.append(step)
    return tuple(kept)


def _histogram(steps: Sequence[Step]) -> Histogram:
    counts = histogram_of([]).counts
    values = np.array([step.latency_us for step in steps], dtype=np.int64)
    numbers = np.diff(np.array([step.requests for step in steps], dtype=np.int64), prepend=0)
    np.add.at(counts, bucket_indices(values), numbers)
    return Histogram(counts=counts)


def _series(all_series: Sequence[tuple[Second, ...]]) -> tuple[Second, ...]:
    """Return the intervals of all processes added up by their place."""
    if len(all_series) == 1:
        return all_series[0]
    places = range(max((len(series) for series in all_series), default=0))
    return tuple(
        _together([series[place] for series in all_series if place < len(series)])
        for place in places
    )


def _together(seconds: Sequence[Second]) -> Second:
    return Second(
        end_s=max(one.end_s for one in seconds),
        transactions=round(sum(one.transactions for one in seconds), 3),
        seconds=max(one.seconds for one in seconds),
        latency_mean_s=mean_latency_s(seconds),
    )


def mean_latency_s(seconds: Sequence[Second]) -> float | None:
    """Return the mean over all requests of some intervals; None where none ended in them."""
    timed = [one for one in seconds if one.latency_mean_s is not None and one.transactions > 0]
    weight = sum(one.transactions for one in timed)
    total_s = sum(one.transactions * (one.latency_mean_s or 0.0) for one in timed)
    return total_s / weight if weight > 0 else None
