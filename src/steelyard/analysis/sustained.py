"""Long runs, each described on its own: one per treatment is no sample and supports no verdict."""

import numpy as np

from steelyard.analysis.results import SustainedSummary
from steelyard.model.campaign import CampaignRecord
from steelyard.model.measurement import SustainedRun
from steelyard.stats.consistency import consistency


def summarise_sustained(record: CampaignRecord) -> tuple[SustainedSummary, ...]:
    """Return the last try of each long run, workload by workload in treatment order."""
    last = {(run.cell, run.treatment): run for run in record.sustained}
    cells = dict.fromkeys(run.cell for run in record.sustained)
    return tuple(
        _summary(last[cell, treatment.name])
        for cell in cells
        for treatment in record.experiment.treatments
        if (cell, treatment.name) in last
    )


def _summary(run: SustainedRun) -> SustainedSummary:
    taken = run.measurement
    series = taken.series if taken is not None else ()
    rates = [
        second.transactions / second.seconds
        for second in series
        if second.end_s - second.seconds / 2 >= run.ramp_s and second.seconds > 0
    ]
    even = consistency(np.asarray(rates, dtype=np.float64))
    return SustainedSummary(
        run=run,
        tps=None if taken is None else taken.tps,
        seconds=None if taken is None else taken.seconds,
        windows=even.windows,
        variation=even.variation,
        worst_tps=even.worst,
    )
