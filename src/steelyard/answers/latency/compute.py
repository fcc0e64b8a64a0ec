"""Percentiles of every transaction over blocks, compared, and distributions to be drawn.

Transactions inside a slice depend on one another, so an interval from their number alone is far
too narrow (METHOD 8). Blocks are the sample here too: each gives one value of a percentile.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.latency import results
from steelyard.answers.results import Grounds
from steelyard.answers.sustained.compute import last_try, usable_parts
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import MANY
from steelyard.core.findings import Estimate, Validity
from steelyard.core.measurement import Run, RunLatency, SustainedRun
from steelyard.core.schedule import CellKey
from steelyard.core.wording import MS_PER_S, US_PER_S
from steelyard.stats.histogram import Histogram, from_text, values_needed
from steelyard.stats.intervals import FloatArray

OF_SLICES = (0.5, 0.99)
OF_WINDOWS = (0.5, 0.95, 0.99)
_STEPS = 12  # points to a decade of the share that is slower


def tail_curve(
    configuration: str, cell: CellKey, whole: Histogram, *, told_to_s: float | None = None
) -> results.TailCurve:
    """Return the distribution function of a configuration in a cell, as far as it can be told."""
    total = whole.total
    points = tuple(
        results.TailPoint(
            share=share, latency_s=whole.quantile(share) / US_PER_S, told=whole.tells(share)
        )
        for share in (_shares(total) if total else ())
    )
    if told_to_s is not None:
        points = tuple(point for point in points if point.latency_s <= told_to_s)
    return results.TailCurve(configuration=configuration, cell=cell, points=points)


def _shares(total: int) -> list[float]:
    """Return shares from 0 on; the last but the longest leaves one transaction beyond itself."""
    decades = np.log10(max(total, 2))
    beyond = 10.0 ** -np.arange(0.0, decades, 1.0 / _STEPS)
    return [float(1.0 - each) for each in beyond]


def slice_moments(seen: obs.Observations) -> Iterator[results.Moment]:
    """Yield the percentiles of each run, cell by cell in run order."""
    for cell in seen.cells:
        runs = [run for (_, of), runs in seen.runs.items() if of == cell for run in runs]
        for at, run in enumerate(
            sorted(runs, key=lambda run: (run.started_at, run.place)), start=1
        ):
            if run.latency is not None:
                yield results.Moment(
                    configuration=run.configuration,
                    cell=cell,
                    at=float(at),
                    values=_told(run.latency, OF_SLICES),
                )


def _told(latency: RunLatency, shares: Sequence[float]) -> tuple[tuple[float, float | None], ...]:
    """Return percentiles of a run; None where they are too long to be told."""
    told_to_s = latency.told_to_s
    return tuple(
        (share, None if value is None or (told_to_s is not None and value > told_to_s) else value)
        for share, value in _values(results.histogram_of_run(latency), shares)
    )


def window_moments(
    record: CampaignRecord, configurations: Sequence[str]
) -> Iterator[results.Moment]:
    """Yield the windows of the long runs, further parts going on where the first ended.

    Only parts of the last try, and none that is invalid.
    """
    for cell in dict.fromkeys(run.cell for run in record.sustained):
        for configuration in configurations:
            tried = [
                run
                for run in record.sustained
                if (run.cell, run.configuration) == (cell, configuration)
            ]
            parts = usable_parts(last_try(tried))
            for run in parts:
                if run.validity is not Validity.INVALID:
                    yield from _windows(run, run.started_at - parts[0].started_at)


def _windows(run: SustainedRun, from_s: float) -> Iterator[results.Moment]:
    for window in run.latency.windows if run.latency is not None else ():
        yield results.Moment(
            configuration=run.configuration,
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


_BRIEFLY = (0.5, 0.99)  # what is told of schedule lag and service time
_TIMED: Mapping[results.Timed, results.Counts] = {
    results.Timed.LAG: lambda latency: (from_text(latency.lag),),
    results.Timed.SERVICE: lambda latency: (from_text(latency.service),),
}

Key = tuple[str, CellKey]


def campaign_latency(grounds: Grounds) -> results.LatencyAnalysis | None:
    """Return what the logs of a campaign say; None where no run that counts has one."""
    record = grounds.record
    return analyse_latency(record, grounds.seen, obs.result_contrasts(record.experiment))


def analyse_latency(
    record: CampaignRecord, seen: obs.Observations, asked: Sequence[obs.ResultContrast]
) -> results.LatencyAnalysis | None:
    """Return what the logs say; None where no run that counts has one.

    Args:
        record: Of the campaign.
        seen: Its observations.
        asked: What is compared, with weights in the order of ``seen.configurations``.
    """
    pools = _pools(seen)
    windows = tuple(window_moments(record, seen.configurations))
    if not pools and not windows:
        return None
    cells = [cell for cell in seen.cells if any(key[1] == cell for key in pools)]
    return results.LatencyAnalysis(
        levels=tuple(each for key, pool in pools.items() for each in _levels(seen, key, pool)),
        changes=tuple(
            each
            for contrast in asked
            for each in compare_percentiles(contrast, seen.configurations, cells, pools)
        ),
        tails=tuple(
            tail_curve(*key, pool.whole, told_to_s=pool.told_to_s) for key, pool in pools.items()
        ),
        slices=tuple(slice_moments(seen)),
        windows=windows,
    )


def compare_percentiles(
    asked: obs.ResultContrast,
    configurations: Sequence[str],
    cells: Sequence[CellKey],
    pools: Mapping[Key, results.Pool],
) -> tuple[results.LatencyChange, ...]:
    """Return every percentile of every cell under one contrast.

    Of each block the weighted sum of the logarithms of its percentiles; the Hodges-Lehmann centre
    of these with its signed-rank interval. Bonferroni is over all that could be compared.
    """
    compared = [
        _difference(asked, configurations, cell, pools, s) for cell in cells for s in results.SHARES
    ]
    family = sum(len(differences) > 0 for differences, _ in compared)
    places = ((cell, share) for cell in cells for share in results.SHARES)
    return tuple(
        results.LatencyChange(
            baseline=asked.baseline,
            configuration=asked.configuration,
            workload=cell.workload,
            load=cell.load,
            share=share,
            change=obs.as_ratio(obs.change(differences)) if len(differences) else None,
            blocks=len(differences),
            clear=len(differences) > 1 and obs.is_clear(differences, family),
            reason=reason,
        )
        for (cell, share), (differences, reason) in zip(places, compared, strict=True)
    )


def _pools(seen: obs.Observations) -> dict[Key, results.Pool]:
    """Return the pools of all configurations and cells of which a run has a log."""
    return {
        (configuration, cell): results.pool_of(blocks)
        for cell in seen.cells
        for configuration in seen.configurations
        if (blocks := _blocks(seen, configuration, cell))
    }


def _blocks(seen: obs.Observations, configuration: str, cell: CellKey) -> list[Sequence[Run]]:
    """Return the runs of each block; nothing where none of them has a log."""
    runs = seen.runs.get((configuration, cell), ())
    logged = any(run.latency is not None for run in runs)
    return obs.runs_by_block(runs)[: seen.blocks] if logged else []


# --- levels ---


def _levels(
    seen: obs.Observations, key: Key, pool: results.Pool
) -> Iterator[results.LatencyLevels]:
    """Yield the latencies of a cell, then those of its scripts, then lag and service time."""
    blocks = _blocks(seen, *key)
    scripts = [each for latency in results.logged_only(blocks) for each in latency.scripts]
    names = list(dict.fromkeys(each.script for each in scripts))
    longest = [each.longest_s for each in scripts if each.longest_s is not None]
    yield _levels_of_pool(key, pool, results.Timed.LATENCY, longest_s=max(longest, default=None))
    for name in names if len(names) > 1 else ():
        longest = [s.longest_s for s in scripts if s.script == name and s.longest_s is not None]
        own = results.pool_of(blocks, results.latencies_of(name))
        yield _levels_of_pool(
            key, own, results.Timed.LATENCY, script=name, longest_s=max(longest, default=None)
        )
    for timed, counts in _TIMED.items() if key[1].load.is_open else ():
        other = results.pool_of(blocks, counts)
        if other.whole.total:
            yield _levels_of_pool(
                key, other, timed, longest_s=other.whole.quantile(results.MAXIMUM) / US_PER_S
            )


def _levels_of_pool(
    key: Key, pool: results.Pool, timed: results.Timed, *, longest_s: float | None, script: str = ""
) -> results.LatencyLevels:
    shares = results.SHARES if timed is results.Timed.LATENCY else _BRIEFLY
    return results.LatencyLevels(
        configuration=key[0],
        cell=key[1],
        timed=timed,
        script=script,
        blocks=pool.blocks,
        transactions=pool.whole.total,
        sampled=pool.sampled,
        percentiles=(*(percentile_of(pool, share) for share in shares), _longest(pool, longest_s)),
    )


def percentile_of(pool: results.Pool, share: float) -> results.PercentileLevel:
    """Return a percentile over blocks, of all blocks together, or why there is neither."""
    needed = pool.stood_for(values_needed(share))
    if _is_beyond(pool, share):
        return results.PercentileLevel(
            share=share,
            basis=results.Basis.BEYOND,
            value_s=None,
            there=pool.stood_for(pool.least),
            needed=needed,
            reason=_beyond(pool),
            beyond_s=pool.told_to_s,
        )
    if pool.told_by_block(share):
        basis, value, there = results.Basis.BLOCKS, obs.level(pool.values_of(share)), pool.least
        reason = "" if value is not None and value.low is not None else "fewer than 6 blocks"
    elif pool.whole.tells(share):
        basis, there = results.Basis.TOGETHER, pool.least
        value = Estimate(value=pool.whole.quantile(share) / US_PER_S)
        reason = (
            f"all blocks together, without an interval: a block has as few as"
            f" {pool.stood_for(there):,} {MANY}, and it takes {needed:,}"
        )
    else:
        basis, value, there = results.Basis.TOO_FEW, None, pool.whole.total
        reason = (
            f"not enough {MANY}: {pool.stood_for(there):,} in all blocks together, and it"
            f" takes {needed:,}"
        )
    return results.PercentileLevel(
        share=share,
        basis=basis,
        value_s=value,
        there=pool.stood_for(there),
        needed=needed,
        reason=reason,
    )


def _is_beyond(pool: results.Pool, share: float) -> bool:
    """Return whether a percentile that there are enough transactions for cannot be told."""
    if pool.told_by_block(share):
        return pool.is_beyond(pool.values_of(share))
    if pool.whole.tells(share):
        return pool.is_beyond(np.array([pool.whole.quantile(share) / US_PER_S]))
    return False


def _beyond(pool: results.Pool) -> str:
    told_to_ms = (pool.told_to_s or 0.0) * MS_PER_S
    return (
        f"above {told_to_ms:g} ms nothing is told: the pauses of the load generator alone cut what"
        " is longer"
    )


def _longest(pool: results.Pool, longest_s: float | None) -> results.PercentileLevel:
    everything = pool.whole.quantile(results.MAXIMUM) / US_PER_S if pool.whole.total else 0.0
    if pool.is_beyond(np.array([everything])):
        return results.PercentileLevel(
            share=results.MAXIMUM,
            basis=results.Basis.BEYOND,
            value_s=None,
            there=pool.stood_for(pool.whole.total),
            needed=1,
            reason=_beyond(pool),
            beyond_s=pool.told_to_s,
        )
    return results.PercentileLevel(
        share=results.MAXIMUM,
        basis=results.Basis.TOO_FEW if longest_s is None else results.Basis.LONGEST,
        value_s=None if longest_s is None else Estimate(value=longest_s),
        there=pool.stood_for(pool.whole.total),
        needed=1,
        reason="" if longest_s is not None else f"not enough {MANY}: there is none",
    )


# --- differences ---


def _difference(
    asked: obs.ResultContrast,
    configurations: Sequence[str],
    cell: CellKey,
    pools: Mapping[Key, results.Pool],
    share: float,
) -> tuple[FloatArray, str]:
    """Return the contrast of each block, or nothing and why."""
    sides = [(weight, configurations[at]) for at, weight in enumerate(asked.weights) if weight]
    found = [(weight, pools[name, cell]) for weight, name in sides if (name, cell) in pools]
    none = np.empty(0)
    if len(found) < len(sides):
        return none, "not every side has a log"
    rows = np.isfinite([pool.counts for _, pool in found]).all(axis=0)
    if not rows.any():
        return none, "no block in which every side has a log"
    pool, least = min(
        ((pool, float(pool.counts[rows].min())) for _, pool in found), key=lambda each: each[1]
    )
    if least < values_needed(share):
        there, needed = pool.stood_for(least), pool.stood_for(values_needed(share))
        return none, (
            f"not enough {MANY}: a block has as few as {there:,}, and it takes {needed:,}"
        )
    if beyond := [pool for _, pool in found if pool.is_beyond(pool.values_of(share)[rows])]:
        return none, _beyond(beyond[0])
    logs = [weight * np.log(pool.values_of(share)[rows]) for weight, pool in found]
    return np.asarray(np.sum(logs, axis=0)), ""
