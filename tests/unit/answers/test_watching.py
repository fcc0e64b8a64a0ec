"""What was not visible, what the watching cost, and the seconds that are drawn."""

from dataclasses import replace

import numpy as np
import pytest
from watched_records import DEFAULT, a_watched_record, reasons_of, with_parts

from steelyard.answers.campaign import analyse
from steelyard.answers.observations import observe
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.answers.timeline import TrackName, timelines
from steelyard.core.measurement import Absence, Quantity

WATCHED = replace(
    DEFAULT,
    per_second={Quantity.CPU_IDLE_S: 0.4, Quantity.DEVICE_BUSY_S: 0.3, Quantity.THROTTLED_S: 0.0},
)


def test_absences_are_told_once_with_their_runs() -> None:
    """The same reason in every run of a configuration is one line."""
    gone = Absence(subject="host", reason="another machine")
    watched = reasons_of(a_watched_record(DEFAULT, replace(DEFAULT, absent=(gone,)))).watching
    (unseen,) = watched.unseen
    assert (unseen.subject, unseen.reason, unseen.runs) == ("host", "another machine", 12)
    assert watched.runs == 24
    assert watched.sources == ("pg_stat_activity at 10 Hz",)


def test_the_cost_of_watching_is_a_share_of_the_cpu_time_used() -> None:
    """19 ms per run over all that server, generator and Steelyard used; unknown parts leave none.

    In the made runs these use 0.8501 ms per transaction.
    """
    record = a_watched_record(DEFAULT, DEFAULT)
    watched = reasons_of(record).watching
    assert watched.own_cpu_s == pytest.approx(24 * 0.012)
    whole = sum(1.4 * run.measurement.transactions for run in record.runs if run.measurement)
    assert watched.share == pytest.approx(24 * 0.019 / (0.0008501 * whole), rel=0.01)
    totals = {k: v for k, v in DEFAULT.per_transaction.items() if k != Quantity.GENERATOR_CPU_S}
    lacking = replace(DEFAULT, per_transaction=totals)
    assert reasons_of(a_watched_record(lacking, lacking)).watching.share is None


def test_the_block_nearest_to_the_median_is_drawn() -> None:
    """One run of each configuration, of the same block, with its tracks and checkpoints."""
    record = a_watched_record(WATCHED, with_parts(WATCHED, wal=0.001))
    lines = analyse(record).answer(timelines)
    assert [line.configuration for line in lines] == ["t0", "t1"]
    contrasts = observe(record).contrasts("t0", "t1")[:, 0]
    nearest = int(np.argmin(np.abs(contrasts - np.median(contrasts))))
    assert {line.block for line in lines} == {nearest}
    assert [track.name for track in lines[0].tracks] == [
        TrackName.TPS,
        TrackName.WAITS,
        TrackName.CPU,
        TrackName.DEVICE,
    ]
    assert lines[0].checkpoints_s == (4.0,)
    cpu = dict(lines[0].tracks[2].lines)
    assert cpu["idle"] == (0.4,) * 7


def test_without_series_there_is_no_timeline() -> None:
    """Totals alone have no seconds to draw."""
    record = a_watched_record(DEFAULT, DEFAULT)
    runs = tuple(
        replace(run, evidence=replace(run.evidence, series=()))
        for run in record.runs
        if run.evidence
    )
    assert analyse(replace(record, runs=runs)).answer(timelines) == ()


def test_looks_and_records_of_old_have_no_reasons() -> None:
    """No decision needs them; and without evidence there are none."""
    record = a_watched_record(DEFAULT, DEFAULT)
    assert analyse(record, curves=False).answer(campaign_reasons) is None
    runs = tuple(replace(run, evidence=None) for run in record.runs)
    assert analyse(replace(record, runs=runs)).answer(campaign_reasons) is None
