"""Long runs with a cliff, with neighbours, in parts, and within known burst credits."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fakes.campaigns import Stage, an_experiment
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.compute import (
    SustainedSummary,
    joined,
    last_try,
    long_runs,
    within_bursts,
)
from steelyard.answers.sustained.section import what_lasts
from steelyard.core import measurement
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Fact, Finding, Validity
from steelyard.core.schedule import CellKey, Load
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.record.directory import read_campaign
from steelyard.report.document import bounds
from steelyard.report.html import render_markdown

CELL = CellKey(workload="reads", load=Load(clients=1, threads=1))
RAMP_S = 1.0
FALLS_AT_S = 300
CLIFF, BESIDE = "burst-cliff", "drop-beside-neighbours"


def a_measurement(rates: Sequence[float]) -> measurement.Measurement:
    """Return a run with one second per rate, the ramp first."""
    return measurement.Measurement(
        transactions=float(sum(rates[1:])),
        seconds=float(len(rates) - 1),
        latency_mean_s=0.001,
        latency_stddev_s=None,
        failed=0,
        connection_s=0.0,
        series=tuple(
            measurement.Second(end_s=end, transactions=rate, seconds=1.0, latency_mean_s=0.001)
            for end, rate in enumerate(rates, start=1)
        ),
    )


def a_long_run(rates: Sequence[float], **changes: object) -> measurement.SustainedRun:
    """Return a long run of the baseline."""
    run = measurement.SustainedRun(
        configuration="slow",
        cell=CELL,
        started_at=10_000.0,
        ramp_s=RAMP_S,
        measurement=a_measurement(rates),
        validity=Validity.VALID,
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def falling(seconds: int = 900, at_s: int = FALLS_AT_S, left: float = 0.6) -> list[float]:
    """Return rates of 1000 a second that fall to a share, with noise."""
    noise = np.random.default_rng(3).normal(1.0, 0.03, seconds)
    return [1000.0 * n * (1.0 if s < at_s else left) for s, n in enumerate(noise)]


def host_series(
    own: tuple[float, float],
    others: tuple[float, float],
    *,
    throttled: tuple[float, float] = (0.0, 0.0),
    at_s: int = FALLS_AT_S,
) -> measurement.Series:
    """Return who used the CPUs before and after a drop, in CPUs."""
    names = (
        *(measurement.Quantity.SERVER_CPU_S, measurement.Quantity.GENERATOR_CPU_S),
        *(measurement.Quantity.OTHERS_CPU_S, measurement.Quantity.THROTTLED_S),
    )
    rows = tuple(
        (own[side] * 0.7, own[side] * 0.3, others[side], throttled[side])
        for side in (int(second >= at_s) for second in range(900))
    )
    return measurement.Series(subject="host", names=names, end_s=tuple(range(1, 901)), rows=rows)


def waiting(sessions: tuple[float, float]) -> measurement.Series:
    """Return mean sessions that waited for data files before and after the drop."""
    rows = tuple((sessions[int(second >= FALLS_AT_S)], 0.0) for second in range(900))
    names = (measurement.WaitClass.IO, measurement.WaitClass.WAL)
    return measurement.Series(subject="waits", names=names, end_s=tuple(range(1, 901)), rows=rows)


def evidence(*series: measurement.Series) -> measurement.Evidence:
    """Return evidence of these series alone."""
    nothing = {"totals": {}, "levels": {}, "waits": None, "others": (), "absent": ()}
    return measurement.Evidence(seconds=900.0, series=series, **nothing)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> CampaignRecord:
    """Return a campaign without long runs; its slices make about 1000 a second."""
    path = tmp_path_factory.mktemp("campaign") / "c"
    Stage.new(an_experiment(), path).run()
    return read_campaign(path)


def analysed(record: CampaignRecord, *runs: measurement.SustainedRun) -> CampaignAnalysis:
    """Return the analysis of the campaign with these long runs."""
    return analyse(replace(record, sustained=runs))


def only(analysis: CampaignAnalysis) -> SustainedSummary:
    """Return its one long run."""
    (long,) = analysis.answer(long_runs)
    return long


def finding(analysis: CampaignAnalysis, code: str) -> Finding | None:
    """Return the finding of a code, None where there is none."""
    return next((each for each in analysis.findings if each.code == code), None)


def test_a_cliff_is_found_with_its_bounds(record: CampaignRecord) -> None:
    """When it fell, how much was spent at least, what is left and how long a refill takes."""
    analysis = analysed(record, a_long_run(falling()))
    cliff = only(analysis).cliff
    assert cliff is not None
    for truth, estimate in ((1.0, cliff.at), (400.0, cliff.least_capacity)):
        low, high = bounds(estimate) or (0.0, 0.0)
        assert low <= truth * FALLS_AT_S <= high
    told = finding(analysis, "burst-cliff")
    assert told is not None
    assert "METHOD 7" in told.source
    long = summary(analysis)["sustained"][0]  # type: ignore[index, call-overload]
    assert long["cliff"]["sustained_tps_low"] <= 600.0 <= long["cliff"]["sustained_tps_high"]  # type: ignore[index]
    assert long["cliff"]["refill_s_low"] <= 200.0 <= long["cliff"]["refill_s_high"]  # type: ignore[index]


@pytest.mark.parametrize(("scale", "where"), [(1.0, "within the burst"), (4.0, "below the burst")])
def test_it_is_said_whether_the_blocks_were_in_the_burst(
    record: CampaignRecord, scale: float, where: str
) -> None:
    """The slices are nearer to one of the two rates."""
    slices = np.median([r.measurement.tps for r in record.counted_runs if r.measurement])
    rates = [rate * scale * slices / 1000.0 for rate in falling()]
    told = finding(analysed(record, a_long_run(rates)), "burst-cliff")
    assert told is not None
    assert where in told.message


def test_nobody_is_told_to_plan_with_an_invalid_run(record: CampaignRecord) -> None:
    """Its drop is told, and that it is to be repeated; where it is read first it is called so."""
    analysis = analysed(record, a_long_run(falling(), validity=Validity.INVALID))
    told = finding(analysis, "burst-cliff")
    assert told is not None
    assert told.remedy.startswith("This run is invalid: repeat it")
    (first,) = what_lasts(analysis)
    assert "the run is invalid" in str(first.blocks[0])


def test_a_few_a_second_keep_their_digits(record: CampaignRecord) -> None:
    """What lasts of slow transactions is neither 0 nor 1 a second."""
    rng = np.random.default_rng(1)
    rates = [float(rng.poisson(3.0 if second < FALLS_AT_S else 0.3)) for second in range(900)]
    told = finding(analysed(record, a_long_run(rates)), "burst-cliff")
    assert told is not None
    assert 0.15 < float(told.remedy.split()[0]) < 0.45


def test_a_steady_run_says_nothing(record: CampaignRecord) -> None:
    """No cliff, no finding, no second table."""
    analysis = analysed(record, a_long_run(falling(left=1.0)))
    assert only(analysis).cliff is None
    assert finding(analysis, "burst-cliff") is None
    assert "Burst cliffs" not in render_markdown(build_document(analysis))


@pytest.mark.parametrize(
    ("series", "code"),
    [
        # Others took 0.4 of the 0.5 CPUs that server and generator had less.
        ((host_series((1.0, 0.5), (0.9, 1.3)),), BESIDE),
        # They took a fifth of it.
        ((host_series((1.0, 0.5), (0.9, 1.0)),), CLIFF),
        # They took what a quota had freed.
        ((host_series((1.0, 0.5), (0.9, 1.4), throttled=(0.0, 0.6)),), CLIFF),
        # They took what a server had freed that waited for its disk.
        ((host_series((1.0, 0.5), (0.9, 1.4)), waiting((0.1, 0.8))), CLIFF),
        ((host_series((1.0, 0.5), (0.9, 1.4)), waiting((0.1, 0.1))), BESIDE),
        # Nobody saw.
        ((), CLIFF),
    ],
)
def test_neighbours_who_came_are_no_cliff(
    record: CampaignRecord, series: tuple[measurement.Series, ...], code: str
) -> None:
    """The larger part of the lost CPU time decides, and what else explains the drop."""
    analysis = analysed(record, a_long_run(falling(), evidence=evidence(*series)))
    assert (only(analysis).cliff is not None) == (code == CLIFF)
    assert [each.code for each in analysis.findings if each.code in (CLIFF, BESIDE)] == [code]
    came = "no: neighbours came" in render_markdown(build_document(analysis))
    assert came == (code == BESIDE)


def test_parts_are_joined_by_the_times_they_began() -> None:
    """The gap of connecting is in the time and in no rate, and neither is a later ramp."""
    first = a_long_run([5.0] + [100.0] * 10)
    second = a_long_run([5.0] + [50.0] * 4, started_at=10_014.0, part=1)
    series = joined((first, second))
    assert list(series.rates) == [100.0] * 10 + [50.0] * 4
    assert series.time_of(0) == 1.0
    assert series.time_of(10) == 15.0
    assert series.end_s == 19.0
    assert series.time_of(1000) == 19.0


def test_the_last_try_counts() -> None:
    """Parts of an earlier try are not joined to a later one."""
    old, further, new = (
        a_long_run([1.0]),
        a_long_run([1.0], part=1),
        a_long_run([2.0]),
    )
    assert last_try([old, further, new]) == (new,)
    assert last_try([old, further]) == (old, further)
    assert last_try([]) == ()


def test_a_short_run_says_that_it_is_too_short(record: CampaignRecord) -> None:
    """Silence must not be taken for steadiness."""
    analysis = analysed(record, a_long_run(falling(seconds=100)))
    assert only(analysis).too_short
    assert finding(analysis, "too-short-for-a-cliff") is not None
    assert "too short to tell" in render_markdown(build_document(analysis))


def with_credits(record: CampaignRecord, lasts_s: float) -> CampaignRecord:
    """Return the campaign with a baseline whose platform has known burst credits."""
    first, *others = record.experiment.configurations
    first = replace(first, target=LocalTarget(burst_lasts_s=lasts_s))
    experiment = replace(record.experiment, configurations=(first, *others))
    return replace(record, experiment=experiment)


def test_what_no_run_outlasted_is_marked(record: CampaignRecord) -> None:
    """Without a long run, or with one that is shorter: in the cells, by a finding, in JSON."""
    known = with_credits(record, 1800.0)
    for runs in ((), (a_long_run(falling(left=1.0)),)):
        analysis = analysed(known, *runs)
        assert analysis.answer(within_bursts) == {("slow", "reads")}
        told = finding(analysis, "burst-not-sustained")
        assert told is not None
        assert "sustain: 46m" in told.remedy
        assert "burst, not sustained" in render_markdown(build_document(analysis))
        assert summary(analysis)["burst_only"] == [{"configuration": "slow", "workload": "reads"}]
    outlasted = analysed(with_credits(record, 600.0), a_long_run(falling(left=1.0)))
    assert outlasted.answer(within_bursts) == frozenset()
    assert finding(outlasted, "burst-not-sustained") is None
    assert "burst, not sustained" not in render_markdown(build_document(outlasted))


def test_a_long_run_of_another_workload_is_not_the_one_that_was_too_short(
    record: CampaignRecord,
) -> None:
    """That of the reads outlasted the credits, that of the writes failed: it is not 15 minutes."""
    (reads,) = record.experiment.workloads
    known = with_credits(record, 600.0)
    writes = replace(reads, name="writes")
    two = replace(known, experiment=replace(known.experiment, workloads=(reads, writes)))
    failed = a_long_run(
        [1.0],
        cell=replace(CELL, workload="writes"),
        measurement=None,
        validity=Validity.INVALID,
    )
    told = finding(analysed(two, a_long_run(falling(left=1.0)), failed), "burst-not-sustained")
    assert told is not None
    assert "(writes)" in told.message
    assert "no run that counts was long" in told.message


def test_an_invalid_run_does_not_clear_the_mark(record: CampaignRecord) -> None:
    """What took its seconds need not have been the server, so it outlasted nothing."""
    long = a_long_run(falling(left=1.0), validity=Validity.INVALID)
    analysis = analysed(with_credits(record, 600.0), long)
    assert analysis.answer(within_bursts) == {("slow", "reads")}
    told = finding(analysis, "burst-not-sustained")
    assert told is not None
    assert "no run that counts was long" in told.message
    suspect = replace(long, validity=Validity.SUSPECT)
    assert not analysed(with_credits(record, 600.0), suspect).answer(within_bursts)


def test_an_open_loop_does_not_clear_the_mark(record: CampaignRecord) -> None:
    """Credits that last at a rate may still run out at full load, however long it went on."""
    at_a_rate = CellKey(workload="reads", load=Load(clients=1, threads=1, rate_per_s=200.0))
    long = a_long_run(falling(left=1.0), cell=at_a_rate)
    analysis = analysed(with_credits(record, 600.0), long)
    assert analysis.answer(within_bursts) == {("slow", "reads")}
    told = finding(analysis, "burst-not-sustained")
    assert told is not None
    assert "at 200/s, not at full load" in told.message
    assert "a load without a `rate`" in told.remedy
    assert only(analysis).burst_only


def test_known_credits_make_no_other_target() -> None:
    """A configuration that differs in them alone needs no server of its own."""
    assert LocalTarget(burst_lasts_s=60.0) == LocalTarget()
    assert EndpointTarget(host="a", burst_lasts_s=60.0) == EndpointTarget(host="a")


@pytest.mark.parametrize(
    ("fact", "named"),
    [
        ("virtual machine (t3.large)", "t3.large"),
        ("virtual machine (t4g.medium)", "t4g.medium"),
        ("virtual machine (m7i.large)", ""),
        ("none seen", ""),
    ],
)
def test_a_machine_on_credits_is_named(record: CampaignRecord, fact: str, named: str) -> None:
    """By the facts of the machine alone; a run that is long enough answers it, no failed one."""
    facts = (Fact(name="virtualisation", value=fact, subject="machine"),)
    known = replace(record, environment=measurement.Environment(facts=facts, servers=()))
    told = finding(analysed(known), "burstable-machine")
    assert (told is not None) is bool(named)
    assert told is None or named in told.message
    assert finding(analysed(known, a_long_run(falling())), "burstable-machine") is None
    failed = a_long_run([1.0], measurement=None, validity=Validity.INVALID)
    assert (finding(analysed(known, failed), "burstable-machine") is not None) is bool(named)


@pytest.mark.parametrize(
    ("share", "seconds", "differs"),
    [(0.4, 480, True), (2.5, 480, True), (0.95, 480, False), (1.0, 480, False), (0.4, 3, False)],
)
def test_short_and_long_runs_that_disagree_are_named(
    record: CampaignRecord, share: float, seconds: int, *, differs: bool
) -> None:
    """All short runs beside all windows of their length: apart, by more than 10 %, or not."""
    slices = [r.measurement for r in record.counted_runs if r.measurement]
    middle = np.median([each.tps for each in slices])
    rates = [share * middle * rate / 1000.0 for rate in falling(seconds, left=1.0)]
    analysis = analysed(record, a_long_run(rates))
    apart = only(analysis).apart
    assert (apart is not None) is differs
    told = finding(analysis, "long-and-short-differ")
    assert (told is not None) is differs
    page = render_markdown(build_document(analysis))
    assert ("no, but short runs differ" in page) is differs
    if apart is not None:
        assert apart.long[0] <= share * middle <= apart.long[1]
        assert f"{apart.short[0]:,.0f}" in told.message  # type: ignore[union-attr]


def test_a_drop_that_only_a_discarded_try_showed_is_named(record: CampaignRecord) -> None:
    """It stands in a finding and in the table; neighbours who explain it, and a drop in both, not.

    The try that counts may have begun on a bucket that the discarded one had emptied.
    """
    code = "cliff-of-a-discarded-try"
    bad = a_long_run(falling(), validity=Validity.INVALID)
    even = a_long_run(falling(left=1.0), started_at=20_000.0)
    analysis = analysed(record, bad, even)
    assert only(analysis).run == even
    assert only(analysis).cliff is None
    told = finding(analysis, code)
    assert told is not None
    assert "fell by 4" in told.message or "fell by 3" in told.message
    assert "only in a discarded try" in render_markdown(build_document(analysis))
    beside = evidence(host_series((1.0, 0.5), (0.9, 1.3)))
    assert finding(analysed(record, replace(bad, evidence=beside), even), code) is None
    again = a_long_run(falling(), started_at=20_000.0)
    assert finding(analysed(record, bad, again), code) is None
