"""Long runs, each described on its own: one per treatment is no sample and supports no verdict."""

from collections.abc import Sequence

import numpy as np

from steelyard.analysis.long_neighbours import taken_by_neighbours
from steelyard.analysis.long_runs import (
    BurstCliff,
    LongSeries,
    SustainedSummary,
    joined,
    last_try,
    scan_of,
    usable_parts,
)
from steelyard.model.campaign import CampaignRecord
from steelyard.model.findings import Validity
from steelyard.model.measurement import SustainedRun
from steelyard.stats.cliff import CliffScan
from steelyard.stats.consistency import consistency

_WORST_FIRST = (Validity.INVALID, Validity.SUSPECT, Validity.VALID)


def summarise_sustained(record: CampaignRecord) -> tuple[SustainedSummary, ...]:
    """Return the last try of each long run, workload by workload in treatment order."""
    cells = dict.fromkeys(run.cell for run in record.sustained)
    of_treatment = {
        (cell, treatment.name): tuple(
            run for run in record.sustained if (run.cell, run.treatment) == (cell, treatment.name)
        )
        for cell in cells
        for treatment in record.experiment.treatments
    }
    return tuple(_summary(record, last_try(runs)) for runs in of_treatment.values() if runs)


def burst_only(
    record: CampaignRecord, sustained: Sequence[SustainedSummary]
) -> frozenset[tuple[str, str]]:
    """Return the treatments and workloads that no run outlasted the target's burst credits of."""
    outlasted = {
        (each.run.treatment, each.run.cell.workload)
        for each in sustained
        if each.tps is not None and not each.burst_only
    }
    return frozenset(
        (treatment.name, workload.name)
        for treatment in record.experiment.treatments
        if treatment.target.burst_lasts_s is not None
        for workload in record.experiment.workloads
        if (treatment.name, workload.name) not in outlasted
    )


def _summary(record: CampaignRecord, tried: Sequence[SustainedRun]) -> SustainedSummary:
    parts = usable_parts(tried)
    series = joined(parts)
    scan = scan_of(series)
    even = consistency(series.rates)
    measured = [part.measurement for part in parts if part.measurement is not None]
    seconds = sum(each.seconds for each in measured)
    drop = _drop(record, parts[0], series, scan) if scan is not None and scan.found else None
    beside = drop is not None and taken_by_neighbours(parts, drop.at_s, drop.scan)
    lasts_s = record.experiment.treatment(parts[0].treatment).target.burst_lasts_s
    return SustainedSummary(
        run=parts[0],
        parts=parts,
        broken=tried[len(parts)] if len(tried) > len(parts) else None,
        validity=min((part.validity for part in parts), key=_WORST_FIRST.index),
        length_s=series.end_s,
        tps=sum(each.transactions for each in measured) / seconds if measured else None,
        seconds=seconds if measured else None,
        windows=even.windows,
        variation=even.variation,
        worst_tps=even.worst,
        cliff=None if beside else drop,
        drop_beside_neighbours=drop if beside else None,
        too_short=bool(measured) and scan is None,
        unsettled=scan is not None and scan.calls_for_more,
        burst_only=lasts_s is not None and (series.end_s < lasts_s or parts[0].cell.load.is_open),
    )


def _drop(
    record: CampaignRecord, run: SustainedRun, series: LongSeries, scan: CliffScan
) -> BurstCliff:
    slices = [
        each.measurement.tps
        for each in record.counted_runs
        if (each.treatment, each.cell) == (run.treatment, run.cell) and each.measurement is not None
    ]
    return BurstCliff(
        scan=scan,
        at_s=series.time_of(scan.at_s),
        at_low_s=series.time_of(scan.at_low_s),
        at_high_s=series.time_of(scan.at_high_s),
        slices_tps=float(np.median(slices)) if slices else None,
    )
