"""Percentiles of a campaign and the latency in parts: what they are of, and when there are none."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, noise
from watched_records import CLIENTS, DEFAULT, a_watched_record, reasons_of, with_parts, with_totals

from fakes import latencies
from fakes.evidence import Seen
from fakes.latencies import Shape, logged, script_of
from steelyard.answers.budget import Part, _latencies, _split, split_latency
from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_pair
from steelyard.answers.latency.compute import (
    MAXIMUM,
    Basis,
    LatencyAnalysis,
    Pool,
    Timed,
    campaign_latency,
    compare_percentiles,
    percentile_of,
    pool_of,
)
from steelyard.answers.observations import ResultContrast, by_block, observe
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Validity
from steelyard.core.measurement import Absence, Quantity, Run, RunLatency, SustainedRun, WaitClass
from steelyard.core.schedule import CellKey, Load
from steelyard.core.wording import POSTGRES_WORDS
from steelyard.stats.histogram import histogram_of

BLOCKS = 8


def a_logged_record(
    transactions: int = 2000, *, slower: float = 1.0, rounds: int = 1
) -> CampaignRecord:
    """Return 8 blocks of two configurations in one cell, the second slower by a factor."""
    experiment = an_experiment(loads=1)
    record = a_record(
        noise(BLOCKS * rounds, 2, 1).reshape(BLOCKS, rounds, 2, 1), experiment, rounds=rounds
    )
    return replace(record, runs=tuple(_with_log(run, transactions, slower) for run in record.runs))


def _with_log(run: Run, transactions: int, slower: float) -> Run:
    assert run.measurement is not None
    run = replace(run, measurement=replace(run.measurement, transactions=float(transactions)))
    median_s = (
        0.002 * (1.0 + 0.01 * (run.block % 3)) * (slower if run.configuration == "t1" else 1.0)
    )
    return logged(run, median_s, Shape())


def latency_of(record: CampaignRecord) -> LatencyAnalysis:
    """Return the percentiles of a record that has logs."""
    found = analyse(record).answer(campaign_latency)
    assert found is not None
    return found


def test_a_level_is_the_median_over_blocks_with_its_interval() -> None:
    """Each block has a p99 of its own; not one is averaged, and the interval spans blocks."""
    level = latency_of(a_logged_record()).levels[0].at(0.99)
    assert level is not None
    assert level.value_s is not None
    assert level.basis is Basis.BLOCKS
    by_block = sorted(
        histogram_of(Shape().values_us(2000, 0.002 * (1.0 + 0.01 * (block % 3)))).quantile(0.99)
        for block in range(BLOCKS)
    )
    assert level.value_s.value == pytest.approx(np.median(by_block) / 1e6)
    assert level.value_s.low is not None
    assert by_block[0] <= 1e6 * level.value_s.low <= by_block[3]


def test_rounds_of_a_block_are_counted_together() -> None:
    """Two runs of 600 transactions tell a p99 that one of them does not."""
    for rounds, basis in ((1, Basis.TOGETHER), (2, Basis.BLOCKS)):
        level = latency_of(a_logged_record(600, rounds=rounds)).levels[0].at(0.99)
        assert level is not None
        assert (level.basis, level.there) == (basis, 600 * rounds)


@pytest.mark.parametrize(
    ("transactions", "basis", "words"),
    [
        (10_000, Basis.BLOCKS, ""),
        (9_999, Basis.TOGETHER, "a block has as few as 9,999 transactions, and it takes 10,000"),
        (1_250, Basis.TOGETHER, "without an interval"),
        (1_249, Basis.TOO_FEW, "not enough transactions: 9,992 in all blocks together"),
    ],
)
def test_a_percentile_is_told_where_enough_is_beyond_it(
    transactions: int, basis: Basis, words: str
) -> None:
    """10 / (1 - q) in every block for an interval, in all together for a number, else neither."""
    level = latency_of(a_logged_record(transactions)).levels[0].at(0.999)
    assert level is not None
    assert level.basis is basis
    assert (level.value_s is None) is (basis is Basis.TOO_FEW)
    assert (level.value_s is not None and level.value_s.low is not None) is (basis is Basis.BLOCKS)
    assert words in POSTGRES_WORDS.fill(level.reason)


def test_a_sampled_log_takes_more_transactions() -> None:
    """Of a log of a tenth, 1000 lines tell a p99: that is 10,000 transactions."""
    record = a_logged_record(600)
    runs = (
        replace(run, latency=replace(run.latency, sampled=0.1))
        for run in record.runs
        if run.latency is not None
    )
    level = latency_of(replace(record, runs=tuple(runs))).levels[0].at(0.99)
    assert level is not None
    assert (level.basis, level.there, level.needed) == (Basis.TOGETHER, 6_000, 10_000)


def test_the_maximum_is_the_longest_of_all_runs() -> None:
    """Exactly, whatever the buckets are, and without an interval."""
    record = a_logged_record()
    first, *others = record.runs
    assert first.latency is not None
    odd = replace(first.latency.scripts[0], longest_s=1.234567)
    first = replace(first, latency=replace(first.latency, scripts=(odd,)))
    levels = latency_of(replace(record, runs=(first, *others))).levels
    level = next(each for each in levels if each.configuration == first.configuration).at(MAXIMUM)
    assert level is not None
    assert level.value_s is not None
    assert (level.value_s.value, level.value_s.low) == (1.234567, None)


def test_the_maximum_is_of_the_blocks_that_count() -> None:
    """The longest of a block that is left out of the percentiles is no maximum beside them."""
    record = a_logged_record(rounds=2)

    def changed(run: Run) -> Run:
        if (run.block, run.configuration) != (3, "t0") or run.latency is None:
            return run
        if run.position > 0:
            return replace(run, latency=None)
        odd = replace(run.latency.scripts[0], longest_s=99.0)
        return replace(run, latency=replace(run.latency, scripts=(odd,)))

    runs = tuple(changed(run) for run in record.runs)
    assert sum(run.latency is None for run in runs) == 1
    level = latency_of(replace(record, runs=runs)).levels[0]
    longest = level.at(MAXIMUM)
    assert level.blocks == BLOCKS - 1
    assert longest is not None
    assert longest.value_s is not None
    assert longest.value_s.value < 99.0


def test_a_block_with_an_unusable_log_is_left_out() -> None:
    """Its other side takes part in no difference either; levels say how many blocks remain."""
    record = a_logged_record(slower=1.2)
    runs = (
        replace(run, latency=None) if (run.block, run.configuration) == (3, "t0") else run
        for run in record.runs
    )
    found = latency_of(replace(record, runs=tuple(runs)))
    assert [each.blocks for each in found.levels] == [BLOCKS - 1, BLOCKS]
    assert {each.blocks for each in found.changes if each.change is not None} == {BLOCKS - 1}


def test_a_difference_is_relative_and_called_where_it_is_clear() -> None:
    """Everything 20 % slower is 20 % higher in each percentile that is told, and no more."""
    changes = {each.share: each for each in latency_of(a_logged_record(slower=1.2)).changes}
    for share in (0.5, 0.9, 0.95, 0.99):
        estimate = changes[share].change
        assert estimate is not None
        assert estimate.value == pytest.approx(0.2, abs=0.01)
        assert changes[share].called == "higher"
    assert changes[0.999].change is None
    assert "a block has as few as 2,000, and it takes 10,000" in changes[0.999].reason


def a_cut_record(told_to_s: float, cut: int) -> CampaignRecord:
    """Return blocks in turns of a generator that stood still alone; so many were cut in each."""

    def changed(run: Run) -> Run:
        assert run.latency is not None
        scripts = tuple(replace(each, cut=cut) for each in run.latency.scripts)
        return replace(run, latency=replace(run.latency, scripts=scripts, told_to_s=told_to_s))

    record = a_logged_record(20_000, slower=1.2)
    return replace(record, runs=tuple(map(changed, record.runs)))


def test_nothing_is_told_above_what_pauses_cut() -> None:
    """Neither a level nor a difference nor a curve: with the reason, and what it is above."""
    whole = latency_of(a_logged_record(20_000, slower=1.2))
    limit_s = next(level.at(0.95) for level in whole.levels).value_s.value * 1.3  # type: ignore[union-attr]
    found = latency_of(a_cut_record(limit_s, cut=0))
    for level, before in zip(found.levels, whole.levels, strict=True):
        for now, then in zip(level.percentiles, before.percentiles, strict=True):
            assert then.value_s is not None
            highest_s = then.value_s.high or then.value_s.value
            if then.value_s.value > limit_s:
                assert (now.value_s, now.basis, now.beyond_s) == (None, Basis.BEYOND, limit_s)
                assert "cut what is longer" in now.reason
            elif highest_s < 0.9 * limit_s:
                assert now == then
    assert found.levels[0].at(0.5) == whole.levels[0].at(0.5)
    assert found.levels[0].at(0.999).value_s is None  # type: ignore[union-attr]
    changes = {each.share: each for each in found.changes}
    assert changes[0.5].change is not None
    assert changes[0.999].change is None
    assert "cut what is longer" in changes[0.999].reason
    assert max(point.latency_s for curve in found.tails for point in curve.points) <= limit_s


def test_what_was_cut_is_longer_than_all_that_is_told() -> None:
    """Ranks are of all of them: a twentieth without a latency is above all that have one."""
    whole, found = (
        latency_of(record).levels[0]
        for record in (a_logged_record(20_000), a_cut_record(10.0, 1053))
    )
    assert found.transactions == BLOCKS * 21_053
    told, higher = found.at(0.9), whole.at(0.95)
    assert told is not None
    assert higher is not None
    assert told.value_s is not None
    assert higher.value_s is not None
    assert whole.at(0.9).value_s.value < told.value_s.value <= higher.value_s.value  # type: ignore[union-attr]
    assert [found.at(share).basis for share in (0.95, 0.99, MAXIMUM)] == [Basis.BEYOND] * 3  # type: ignore[union-attr]


def test_who_skips_what_is_late_is_not_called_faster() -> None:
    """Skipped transactions are later than the limit: ranks are of all, above it nothing is told."""
    record = a_logged_record(20_000)
    cell = CellKey(workload="w", load=Load(clients=1, threads=1, latency_limit_s=0.009))
    skipping = 0.02  # a p99 in the limit is a p97 of those that ran

    def pool(configuration: str, skipped: int) -> Pool:
        runs = (each for each in record.runs if each.configuration == configuration)
        blocks = [
            (replace(run, latency=replace(run.latency, skipped=skipped)),)
            for run in runs
            if run.latency is not None
        ]
        return pool_of(blocks, skipped_after_s=cell.load.latency_limit_s)

    pools = {("t0", cell): pool("t0", 0), ("t1", cell): pool("t1", int(skipping * 20_000))}
    asked = ResultContrast(baseline="t0", configuration="t1", weights=(-1.0, 1.0))
    changes = {
        each.share: each for each in compare_percentiles(asked, ("t0", "t1"), (cell,), pools)
    }
    median = changes[0.5].change
    assert median is not None
    assert 0.0 < median.value < 0.05
    assert changes[0.99].change is None
    assert "above 9 ms nothing is told: transactions that were later" in changes[0.99].reason
    ran = pools["t1", cell]
    assert (ran.logged, ran.whole.total) == (BLOCKS * 20_000, round(BLOCKS * 20_000 * 1.02))
    told = percentile_of(ran, 0.99)
    assert (told.basis, told.value_s, told.beyond_s) == (Basis.BEYOND, None, 0.009)
    assert percentile_of(pools["t0", cell], 0.99).value_s is not None


def test_what_was_skipped_lagged_by_more_than_the_limit() -> None:
    """A share of it beyond a percentile leaves nothing to tell of the lag; it was never sent."""
    record, limit_s = a_logged_record(20_000), 0.009
    load = Load(clients=1, threads=1, rate_per_s=1000.0, latency_limit_s=limit_s)
    experiment = replace(record.experiment, loads=(load,))
    runs = tuple(
        replace(
            run,
            cell=replace(run.cell, load=load),
            latency=replace(
                run.latency,
                lag=run.latency.scripts[0].latency,
                service=run.latency.scripts[0].latency,
                skipped=400,
            ),
        )
        for run in record.runs
        if run.latency is not None
    )
    found = latency_of(replace(record, experiment=experiment, runs=runs))
    times = found.times_of("t0", CellKey(workload=runs[0].cell.workload, load=load))
    lag, service = times[Timed.LAG], times[Timed.SERVICE]
    told = {share: lag.at(share) for share in (0.5, 0.99, MAXIMUM)}
    assert [each and each.basis for each in told.values()] == [
        Basis.BLOCKS,
        Basis.BEYOND,
        Basis.LONGEST,
    ]
    assert lag.at(MAXIMUM) == service.at(MAXIMUM)
    assert [each.basis for each in service.percentiles[:2]] == [Basis.BLOCKS] * 2


def test_equals_are_called_nothing() -> None:
    """Blocks that differ from one another are no difference of configurations."""
    assert {each.called for each in latency_of(a_logged_record()).changes} == {""}


def test_a_pair_is_compared_the_other_way_round() -> None:
    """A look at two configurations of a campaign has their percentiles, turned where they are."""
    record = a_logged_record(slower=1.2)
    pair = compare_pair(record, analyse(record), reference="t1", configuration="t0")
    assert pair.campaign.answer(campaign_latency) is not None
    first = pair.campaign.answer(campaign_latency).changes[0]
    assert (first.baseline, first.configuration, first.called) == ("t1", "t0", "lower")


def test_scripts_stand_beside_the_whole() -> None:
    """All together first, then each alone; the counts of the scripts are those of the whole."""
    levels = [
        each
        for each in latency_of(latencies._tails_record()).levels
        if each.cell.workload == "orders" and each.cell.load.clients == 8
    ]
    whole, *scripts = (each for each in levels if each.configuration == "default")
    assert [each.script for each in (whole, *scripts)] == ["", "pay.sql", "order.sql"]
    assert whole.transactions == sum(each.transactions for each in scripts)


def test_without_logs_there_is_nothing() -> None:
    """A record of an older version has no percentiles."""
    assert analyse(latencies.without_logs()).answer(campaign_latency) is None


def test_an_empty_log_is_no_number() -> None:
    """A run in which nothing was answered has no percentile, and says so."""
    record = a_logged_record()
    empty = RunLatency(scripts=(script_of("one", np.empty(0, dtype=np.int64)),))
    runs = tuple(replace(run, latency=empty) for run in record.runs)
    levels = latency_of(replace(record, runs=runs)).levels[0]
    assert {each.value_s for each in levels.percentiles} == {None}


def test_curves_end_solid_where_ten_are_left() -> None:
    """Of 1000 transactions the line is told up to the 99th percentile, and rises throughout."""
    curve = latency_of(a_logged_record(125)).tails[0]
    told = [point.share for point in curve.points if point.told]
    assert max(told) == pytest.approx(0.99)
    assert len(told) < len(curve.points)
    values = [point.latency_s for point in curve.points]
    assert values == sorted(values)


def test_a_pool_of_nothing_has_no_least_block() -> None:
    """Neither blocks nor transactions."""
    pool = Pool.of([None, None])
    assert (pool.blocks, pool.least, pool.told_by_block(0.5)) == (0, 0, False)


def test_windows_of_a_part_go_on_after_the_one_before() -> None:
    """A long run that was extended is one line over the seconds since its first start."""
    record, first, further = an_extended_run()
    found = latency_of(replace(record, sustained=(first, further)))
    at = [moment.at for moment in found.windows]
    assert at == [10.0 * place for place in range(1, 121)]


def an_extended_run() -> tuple[CampaignRecord, SustainedRun, SustainedRun]:
    """Return a campaign, a long run of 600 s, and a part of as much after it."""
    record = latencies._tails_record()
    first = replace(record.sustained[0], measurement=record.runs[0].measurement)
    return record, first, replace(first, part=1, started_at=first.started_at + 600.0)


def test_windows_are_those_of_the_last_try_and_of_valid_parts() -> None:
    """A part of an earlier try, from another hour, and one that failed are not drawn."""
    record, first, further = an_extended_run()
    again = replace(first, started_at=first.started_at + 5_000.0)
    tried = replace(record, sustained=(first, further, again))
    assert [each.at for each in latency_of(tried).windows] == [10.0 * n for n in range(1, 61)]
    failed = replace(further, validity=Validity.INVALID)
    cut = replace(record, sustained=(first, failed))
    assert [each.at for each in latency_of(cut).windows] == [10.0 * n for n in range(1, 61)]
    broken = replace(first, validity=Validity.INVALID)
    assert latency_of(replace(record, sustained=(broken,))).windows == ()


def test_factors_are_compared_by_their_weights() -> None:
    """A main effect is the mean over the levels of the other factor, in logarithms."""
    cell = CellKey(workload="w", load=Load(clients=1, threads=1))
    factors = {"00": 1.0, "10": 1.3, "01": 2.0, "11": 2.6}
    pools = {
        (name, cell): Pool.of(
            [
                histogram_of(Shape().values_us(1000, 0.002 * factor * (1 + 0.01 * block)))
                for block in range(BLOCKS)
            ]
        )
        for name, factor in factors.items()
    }
    asked = ResultContrast(baseline="off", configuration="on", weights=(-0.5, 0.5, -0.5, 0.5))
    median = compare_percentiles(asked, tuple(factors), (cell,), pools)[0]
    assert median.change is not None
    assert median.change.value == pytest.approx(0.3, abs=0.01)
    assert median.called == "higher"


def test_a_side_without_logs_is_not_compared() -> None:
    """The reason says that it is no matter of numbers."""
    record = a_logged_record()
    runs = (replace(r, latency=None) if r.configuration == "t1" else r for r in record.runs)
    changes = latency_of(replace(record, runs=tuple(runs))).changes
    assert {(each.change, each.reason) for each in changes} == {(None, "not every side has a log")}


ASYNC = with_parts(DEFAULT, wal=0.0001)


def without_waits(run: Run) -> Run:
    """Return the run as a server leaves it that shows no wait events."""
    assert run.evidence is not None
    gone = Absence(subject="waits", reason="permission denied")
    return replace(run, evidence=replace(run.evidence, waits=None, absent=(gone,)))


@pytest.mark.parametrize("subject", ["wait events", "waits", "server"])
def test_the_reason_is_found_however_wide_it_is(subject: str) -> None:
    """Of the events, their series, or the whole probe; its full stop is not doubled."""
    gone = Absence(subject=subject, reason="It was not ready within 5 s.")
    record = a_watched_record(DEFAULT, DEFAULT)
    runs = []
    for run in record.runs:
        assert run.evidence is not None
        evidence = replace(run.evidence, waits=None, absent=(gone,))
        runs.append(replace(run, evidence=evidence))
    budget = reasons_of(replace(record, runs=tuple(runs))).budget
    assert budget.changes[0].missing == "It was not ready within 5 s"


def changed(record: CampaignRecord, lacking: tuple[int, ...]) -> CampaignRecord:
    """Return the record without wait events in some blocks."""
    runs = (without_waits(run) if run.block in lacking else run for run in record.runs)
    return replace(record, runs=tuple(runs))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_parts_of_a_block_sum_to_its_latency(rounds: int) -> None:
    """In every block, over all its rounds: clients / tps, to rounding."""
    seen = observe(a_watched_record(DEFAULT, ASYNC, rounds=rounds))
    split = _split(_latencies(seen, 2.0), 0)
    whole = CLIENTS / np.exp(seen.log_tps[:, :, 0])
    assert np.allclose(sum(split.parts.values()), whole, rtol=1e-12)
    assert np.allclose(split.whole, whole, rtol=1e-12)
    assert set(split.parts) == {Part.ON_CPU, Part.CPU_WAIT, Part.WAL, Part.CLIENT, Part.UNSEEN}


def test_the_part_that_changed_is_found_with_its_size() -> None:
    """4.9 ms less of WAL within its interval, first in the waterfall; the client's is not clear."""
    (change,) = reasons_of(a_watched_record(DEFAULT, ASYNC)).budget.changes
    wal, client = change.parts[0], change.part(Part.CLIENT)
    assert wal.part is Part.WAL
    assert wal.clear
    assert wal.change.low is not None
    assert wal.change.high is not None
    assert wal.change.low < -0.0049 < wal.change.high < 0.0
    assert client is not None
    assert not client.clear


def test_the_waterfall_goes_from_start_to_end() -> None:
    """Parts and remainder lead from one median latency to the other exactly."""
    (change,) = reasons_of(a_watched_record(DEFAULT, ASYNC)).budget.changes
    assert change.baseline_s is not None
    assert change.configuration_s is not None
    moved = sum(part.change.value for part in change.parts) + change.remainder_s
    assert change.baseline_s + moved == pytest.approx(change.configuration_s, rel=1e-12)
    assert abs(change.remainder_s) < 0.05 * change.baseline_s


def _first_parts(seen: Seen) -> dict[Part, float]:
    """Return the parts of the first configuration, seconds."""
    parts = reasons_of(a_watched_record(seen, seen)).budget.cells[0].parts
    return {part: seconds.value for part, seconds in parts.items()}


def test_cpu_time_is_told_from_waiting_for_it() -> None:
    """Of 1 ms in the class 0.8 are used, so 0.2 waited, though a run queue held only 0.1."""
    seconds = _first_parts(DEFAULT)
    assert seconds[Part.ON_CPU] == pytest.approx(0.0008, rel=0.02)
    assert seconds[Part.CPU_WAIT] == pytest.approx(0.0002, rel=0.1)
    assert seconds[Part.CLIENT] == pytest.approx(0.0003, rel=0.05)


def test_what_the_kernel_knows_better_is_taken_from_the_client() -> None:
    """A woken session shows as waiting for its client until it gets a CPU; the sum stays."""
    busy = {Quantity.SERVER_CPU_S: 0.0009, Quantity.SERVER_RUN_QUEUE_S: 0.0003}
    seconds = _first_parts(with_totals(DEFAULT, busy))
    assert seconds[Part.ON_CPU] == pytest.approx(0.0009, rel=0.02)
    assert seconds[Part.CPU_WAIT] == pytest.approx(0.0003, rel=0.03)
    assert seconds[Part.CLIENT] == pytest.approx(0.0001, rel=0.2)
    known = (Part.ON_CPU, Part.CPU_WAIT, Part.CLIENT)
    assert sum(seconds[part] for part in known) == pytest.approx(0.0013, rel=0.02)


def test_no_more_is_taken_than_cpu_and_client_hold() -> None:
    """CPU time of background processes does not grow at the cost of disks and locks."""
    seconds = _first_parts(with_totals(DEFAULT, {Quantity.SERVER_CPU_S: 0.002}))
    assert seconds[Part.ON_CPU] == pytest.approx(0.0013, rel=0.03)
    assert Part.CPU_WAIT not in seconds
    assert Part.CLIENT not in seconds


def test_cpu_time_that_no_sample_covers_is_told() -> None:
    """0.7 of 2 ms are beyond both classes; where they hold it all it is 0, unmeasured None."""
    more = with_totals(DEFAULT, {Quantity.SERVER_CPU_S: 0.002})
    there, none = (
        cell.cpu_beyond_class_s for cell in reasons_of(a_watched_record(more, DEFAULT)).budget.cells
    )
    assert there == pytest.approx(0.0007, rel=0.05)
    assert none == 0.0
    bare = replace(DEFAULT, per_transaction={})
    assert reasons_of(a_watched_record(bare, bare)).budget.cells[0].cpu_beyond_class_s is None


def test_without_a_run_queue_cpu_stays_one_part() -> None:
    """Nothing tells what of the class was waiting, so it is not split."""
    totals = {k: v for k, v in DEFAULT.per_transaction.items() if k != Quantity.SERVER_RUN_QUEUE_S}
    plain = replace(DEFAULT, per_transaction=totals)
    parts = reasons_of(a_watched_record(plain, plain)).budget.cells[0].parts
    assert list(parts) == [Part.CPU, Part.WAL, Part.CLIENT, Part.UNSEEN]


def test_more_sessions_than_clients_make_the_unseen_negative() -> None:
    """It is shown as it is, below 0."""
    record = a_watched_record(DEFAULT, DEFAULT)
    runs = []
    for run in record.runs:
        assert run.evidence is not None
        assert run.evidence.waits is not None
        waits = run.evidence.waits
        more = tuple(replace(event, sessions=1.1 * event.sessions) for event in waits.events)
        runs.append(replace(run, evidence=replace(run.evidence, waits=replace(waits, events=more))))
    parts = reasons_of(replace(record, runs=tuple(runs))).budget.cells[0].parts
    assert parts[Part.UNSEEN].high is not None
    assert parts[Part.UNSEEN].high < 0.0


def test_blocks_without_waits_are_left_out() -> None:
    """Of both sides; with none left there is no split, but the server's own reason."""
    record = a_watched_record(DEFAULT, ASYNC)
    (change,) = reasons_of(changed(record, (0, 3))).budget.changes
    assert change.blocks == 10
    bare = reasons_of(changed(record, tuple(range(12)))).budget
    assert bare.changes[0].missing == bare.cells[0].missing == "permission denied"
    assert bare.changes[0].change is None
    assert bare.cells[0].latency is None


def test_an_open_loop_is_not_split() -> None:
    """Clients that wait for their schedule make sessions / tps no latency."""
    record = a_watched_record(DEFAULT, DEFAULT)
    rated = replace(record.experiment.loads[0], rate_per_s=100.0)
    runs = tuple(replace(run, cell=replace(run.cell, load=rated)) for run in record.runs)
    experiment = replace(record.experiment, loads=(rated,))
    budget = reasons_of(replace(record, runs=runs, experiment=experiment)).budget
    assert "open loop" in budget.changes[0].missing


def test_few_blocks_have_no_interval() -> None:
    """Below 6 blocks a change is a number without bounds, and nothing is clear."""
    (change,) = reasons_of(a_watched_record(DEFAULT, ASYNC, blocks=5)).budget.changes
    assert change.change is not None
    assert change.change.low is None
    assert not any(part.clear for part in change.parts)


def test_records_without_evidence_have_no_budget() -> None:
    """Nothing was watched: there is no reason, rather than one of zeros."""
    record = a_watched_record(DEFAULT, ASYNC)
    runs = tuple(replace(run, evidence=None) for run in record.runs)
    assert split_latency(observe(replace(record, runs=runs)), record.experiment) is None


def test_a_class_lasts_as_long_as_its_sessions_say() -> None:
    """Little's law: sessions / tps, the seconds of a run as its weight."""
    seen = observe(a_watched_record(DEFAULT, DEFAULT, rounds=2))
    wal = _latencies(seen, 2.0).classes[WaitClass.WAL]
    runs = [run for run in seen.runs["t0", seen.cells[0]] if run.block == 0]
    sessions = [run.evidence.waits.sessions_in(WaitClass.WAL) for run in runs]  # type: ignore[union-attr]
    transactions = [run.measurement.transactions for run in runs]  # type: ignore[union-attr]
    seconds = [run.measurement.seconds for run in runs]  # type: ignore[union-attr]
    expected = sum(np.multiply(sessions, seconds)) / sum(transactions)
    assert wal[0, 0, 0] == pytest.approx(expected)
    assert by_block(seen, len)[0, 0, 0] == 2
