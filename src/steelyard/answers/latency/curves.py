"""Latencies to be drawn: distributions up to their tails, and percentiles over time."""

from collections.abc import Iterator, Sequence

import numpy as np

from steelyard.answers.latency.pools import histogram_of_run
from steelyard.answers.latency.results import Moment, TailCurve, TailPoint
from steelyard.answers.observations import Observations
from steelyard.answers.sustained.compute import last_try, usable_parts
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Validity
from steelyard.core.latency import RunLatency
from steelyard.core.measurement import SustainedRun
from steelyard.core.schedule import CellKey
from steelyard.core.units import US_PER_S
from steelyard.stats.histogram import Histogram, from_text

OF_SLICES = (0.5, 0.99)
OF_WINDOWS = (0.5, 0.95, 0.99)
_STEPS = 12  # points to a decade of the share that is slower


def tail_curve(
    treatment: str, cell: CellKey, whole: Histogram, *, told_to_s: float | None = None
) -> TailCurve:
    """Return the distribution function of a treatment in a cell, as far as it can be told."""
    points = tail_points(whole)
    if told_to_s is not None:
        points = tuple(point for point in points if point.latency_s <= told_to_s)
    return TailCurve(treatment=treatment, cell=cell, points=points)


def tail_points(whole: Histogram) -> tuple[TailPoint, ...]:
    """Return a distribution function, its points evenly spaced towards the tail."""
    total = whole.total
    return tuple(
        TailPoint(share=share, latency_s=whole.quantile(share) / US_PER_S, told=whole.tells(share))
        for share in (_shares(total) if total else ())
    )


def _shares(total: int) -> list[float]:
    """Return shares from 0 on; the last but the longest leaves one transaction beyond itself."""
    decades = np.log10(max(total, 2))
    beyond = 10.0 ** -np.arange(0.0, decades, 1.0 / _STEPS)
    return [float(1.0 - each) for each in beyond]


def slice_moments(seen: Observations) -> Iterator[Moment]:
    """Yield the percentiles of each run, cell by cell in run order."""
    for cell in seen.cells:
        runs = [run for (_, of), runs in seen.runs.items() if of == cell for run in runs]
        for at, run in enumerate(
            sorted(runs, key=lambda run: (run.started_at, run.place)), start=1
        ):
            if run.latency is not None:
                yield Moment(
                    treatment=run.treatment,
                    cell=cell,
                    at=float(at),
                    values=_told(run.latency, OF_SLICES),
                )


def _told(latency: RunLatency, shares: Sequence[float]) -> tuple[tuple[float, float | None], ...]:
    """Return percentiles of a run; None where they are too long to be told."""
    told_to_s = latency.told_to_s
    return tuple(
        (share, None if value is None or (told_to_s is not None and value > told_to_s) else value)
        for share, value in _values(histogram_of_run(latency), shares)
    )


def window_moments(record: CampaignRecord, treatments: Sequence[str]) -> Iterator[Moment]:
    """Yield the windows of the long runs, further parts going on where the first ended.

    Only parts of the last try, and none that is invalid.
    """
    for cell in dict.fromkeys(run.cell for run in record.sustained):
        for treatment in treatments:
            tried = [
                run for run in record.sustained if (run.cell, run.treatment) == (cell, treatment)
            ]
            parts = usable_parts(last_try(tried))
            for run in parts:
                if run.validity is not Validity.INVALID:
                    yield from _windows(run, run.started_at - parts[0].started_at)


def _windows(run: SustainedRun, from_s: float) -> Iterator[Moment]:
    for window in run.latency.windows if run.latency is not None else ():
        yield Moment(
            treatment=run.treatment,
            cell=run.cell,
            at=from_s + window.end_s,
            values=_values(from_text(window.latency), OF_WINDOWS),
        )


def _values(
    histogram: Histogram, shares: Sequence[float]
) -> tuple[tuple[float, float | None], ...]:
    return tuple(
        (share, histogram.quantile(share) / US_PER_S if histogram.tells(share) else None)
        for share in shares
    )
