"""Rules about caches, storage, durability and the work, on both sides of their thresholds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from factored import measured, with_factors
from made_records import an_experiment, compared
from watched import asking, both, found, missing, rulings, seen, watched, with_settings

from steelyard.answers.validity.work_rules import CAMPAIGN_RULES, half_change
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Layer
from steelyard.core.findings import State
from steelyard.core.measurement import Environment, Evidence, Quantity, Run, Second
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.core.target import LocalTarget

MIB = 2.0**20


@pytest.mark.parametrize(
    ("code", "quantity"),
    [
        ("checkpoints-differ", Quantity.CHECKPOINTS),
        ("autovacuum-differs", Quantity.AUTOVACUUMS),
    ],
)
@pytest.mark.parametrize(("runs", "told"), [(5, False), (6, True)])
def test_events_in_one_arm_only(code: str, quantity: Quantity, runs: int, *, told: bool) -> None:
    """Five of 60 runs against none may be chance (p = 0.057), six are not (p = 0.027)."""
    left = [runs]

    def by_run(run: Run) -> Evidence:
        happened = run.configuration == "t1" and left[0] > 0
        left[0] -= happened
        return seen({quantity: float(happened)})

    record = watched(by_run)
    finding = found(record, code)
    assert (finding is not None) is told
    if finding is not None:
        assert finding.subject == "t1"
        assert "into 6 of 60 runs, under t0 into 0 of 60 (p = 0.027, too small" in finding.message
    assert missing(both(seen(), seen({quantity: 1.0})), code)


def hits(ratio: float) -> Evidence:
    """Return a run that found a share of its pages in shared_buffers."""
    pages = {Quantity.PAGES_HIT: 1000.0 * ratio, Quantity.PAGES_READ: 1000.0 * (1 - ratio)}
    return seen(pages | {Quantity.COMMITS: 250.0})


def reads(per_transaction: float) -> Evidence:
    """Return a run with so many reads of the disk per transaction."""
    return seen({Quantity.DEVICE_READS: 1000.0 * per_transaction, Quantity.COMMITS: 1000.0})


@pytest.mark.parametrize(
    ("baseline", "other", "told"),
    [
        (hits(0.95), hits(0.91), ""),
        (hits(0.95), hits(0.89), "89.0 % of the pages were found in shared_buffers, under t0 95.0"),
        (reads(0.3), reads(0.55), ""),
        (reads(0.3), reads(0.65), "0.65 reads of the disk per transaction, under t0 0.30"),
        (reads(0.02), reads(0.09), ""),
        (reads(0.0), reads(0.2), "0.20 reads"),
    ],
)
def test_another_cache_regime(baseline: Evidence, other: Evidence, told: str) -> None:
    """Five points of the hit ratio, or twice the reads of the disk where there are any."""
    finding = found(both(baseline, other), "cache-regime-differs")
    assert (finding is not None) is bool(told)
    if finding is not None:
        assert told in finding.message
    assert missing(both(seen(), other), "cache-regime-differs")


SAFE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


@pytest.mark.parametrize(
    ("changed", "weak"),
    [
        ({}, ""),
        ({"synchronous_commit": "off"}, "synchronous_commit"),
        ({"synchronous_commit": "local"}, ""),
        ({"synchronous_commit": "local", "synchronous_standby_names": "s1"}, "synchronous_commit"),
        ({"synchronous_commit": "remote_apply"}, ""),
        ({"fsync": "off"}, "fsync"),
        ({"full_page_writes": "off"}, "full_page_writes"),
    ],
)
@pytest.mark.parametrize("side", ["t0", "t1"])
def test_durability_is_judged_by_what_is_in_force(
    changed: Mapping[str, str], weak: str, side: str
) -> None:
    """On either side, whoever asked; without a standby ``local`` keeps what ``on`` keeps."""
    settings = {"t0": SAFE, "t1": SAFE, side: {**SAFE, **changed}}
    finding = found(with_settings(compared(8), **settings), "durability-traded")
    assert (finding is not None) is bool(weak)
    if finding is not None:
        strong = "t0" if side == "t1" else "t1"
        assert finding.message == f"{side}: {weak} gives up durability that {strong} keeps"


def test_durability_of_unseen_servers_is_not_judged() -> None:
    """No settings in force, no ruling; the same trade on both sides is none."""
    assert missing(compared(8), "durability-traded") == "fsync in force"
    off = {**SAFE, "fsync": "off"}
    assert found(with_settings(compared(8), t0=off, t1=off), "durability-traded") is None


def test_durability_of_factors_is_told_of_the_factor() -> None:
    """Half of the combinations have it off, and it is the factor's second level that does it."""
    experiment = with_factors(2)
    record = measured(experiment, lambda _: 0.0)
    settings = {
        t.name: {**SAFE, "synchronous_commit": "off" if t.name[1] == "1" else "on"}
        for t in experiment.configurations
    }
    found_all = [
        ruling.message
        for ruling in rulings(with_settings(record, **settings), "durability-traded")
        if ruling.state is State.VIOLATED
    ]
    assert found_all == [
        "buffers=on: synchronous_commit gives up durability that buffers=off keeps"
    ]


def stored(levels: Mapping[str, float], *, differ: str = "directory") -> CampaignRecord:
    """Return a record of data of 100 MiB, whose configurations differ in storage or not."""
    experiment = an_experiment()
    if differ == "directory":
        first, second = experiment.configurations
        moved = replace(second, target=LocalTarget(directory="/mnt/other"))
        experiment = replace(experiment, configurations=(first, moved))
    elif differ == "read_iops":
        experiment = asking(experiment, Layer.CGROUP, read_iops="200")
    elif differ:
        experiment = asking(experiment, **{differ: "200"})
    evidence = seen({}, {Quantity.DATABASE_BYTES: 100 * MIB, **levels})
    return both(evidence, evidence, experiment=experiment)


@pytest.mark.parametrize(
    ("buffers", "memory", "told"),
    [
        (101.0, 1000.0, "shared_buffers (101.0 MiB)"),
        (50.0, 101.0, "the machine's memory (101.0 MiB)"),
        (50.0, 100.0, ""),
    ],
)
def test_data_that_fit_in_memory_while_storage_is_judged(
    buffers: float, memory: float, told: str
) -> None:
    """Smaller than either, and reads never reach the storage."""
    levels = {
        Quantity.SHARED_BUFFERS_BYTES: buffers * MIB,
        Quantity.MEMORY_BYTES: memory * MIB,
    }
    finding = found(stored(levels), "fits-in-memory")
    assert (finding is not None) is bool(told)
    if finding is not None:
        assert told in finding.message
        assert "(target.directory)" in finding.message


@pytest.mark.parametrize(
    ("differ", "told"),
    [("read_iops", True), ("io_method", True), ("work_mem", False), ("", False)],
)
def test_data_in_memory_matter_only_where_storage_is_judged(differ: str, *, told: bool) -> None:
    """Throttles and settings of I/O judge storage; other differences do not."""
    levels = {Quantity.MEMORY_BYTES: 1000 * MIB}
    assert (found(stored(levels, differ=differ), "fits-in-memory") is not None) is told


def test_direct_io_goes_past_the_machines_memory() -> None:
    """Then only the server's own memory counts."""
    direct = {"debug_io_direct": "data"}
    levels = {Quantity.MEMORY_BYTES: 1000 * MIB}
    for buffers, told in ((50.0, False), (101.0, True)):
        record = stored({**levels, Quantity.SHARED_BUFFERS_BYTES: buffers * MIB})
        record = with_settings(record, t0=direct, t1=direct)
        assert (found(record, "fits-in-memory") is not None) is told


def test_storage_without_its_facts_is_not_judged() -> None:
    """Larger than shared_buffers says nothing while the memory is not known."""
    assert missing(stored({Quantity.SHARED_BUFFERS_BYTES: 50 * MIB}), "fits-in-memory")
    assert missing(stored({}), "fits-in-memory")


def with_series(record: CampaignRecord, change: float, *, seconds: int = 7) -> CampaignRecord:
    """Return it with seconds whose later half under t1 is faster by a share; 2 are the ramp."""

    def series(run: Run) -> tuple[Second, ...]:
        later = change if run.configuration == "t1" else 0.0
        return tuple(
            Second(
                end_s=end + 1.0,
                transactions=1.0 if end < 2 else 100.0 * (1 + later * (end >= 4)),
                seconds=1.0,
                latency_mean_s=None,
            )
            for end in range(seconds)
        )

    runs = tuple(
        replace(run, measurement=replace(run.measurement, series=series(run)))
        for run in record.runs
    )
    return replace(record, runs=runs)


@pytest.mark.parametrize(("change", "told"), [(0.04, ""), (0.06, "+6.0 %"), (-0.2, "-20.0 %")])
def test_a_trend_inside_the_runs(change: float, told: str) -> None:
    """The ramp is left out; 5 % between the halves, in block after block, are told."""
    finding = found(with_series(compared(12), change), "trend-in-runs")
    assert (finding is not None) is bool(told)
    if finding is not None:
        assert (finding.subject, told in finding.message) == ("t1", True)


def test_a_trend_that_is_only_noise_is_none() -> None:
    """Runs that change by 20 % now up, now down, have no trend."""
    up, down = (with_series(compared(12), change) for change in (0.2, -0.2))
    runs = tuple(a if a.block % 2 else b for a, b in zip(up.runs, down.runs, strict=True))
    assert found(replace(up, runs=runs), "trend-in-runs") is None


def test_short_runs_and_few_blocks_have_no_trend() -> None:
    """Three seconds after the ramp have no two halves; seven blocks are too few."""
    assert found(with_series(compared(12), 0.5, seconds=5), "trend-in-runs") is None
    assert found(with_series(compared(7), 0.5), "trend-in-runs") is None
    assert half_change(compared(8).runs[0], 2.0) is None


@pytest.mark.parametrize(("transactions", "told"), [(100.0, False), (99.0, True)])
def test_few_transactions(transactions: float, *, told: bool) -> None:
    """Below 100 in the median run of a cell."""
    record = compared(8)
    poor = record.runs[0].cell
    runs = tuple(
        replace(run, measurement=replace(run.measurement, transactions=transactions))
        if run.configuration == "t1" and run.cell == poor
        else run
        for run in record.runs
    )
    finding = found(replace(record, runs=runs), "few-transactions")
    assert (finding is not None) is told
    if finding is not None:
        assert finding.subject == "t1"
        assert f"runs of w0, {poor.load.label}, have at most 99 transactions" in finding.message


def test_an_idle_server_skips_its_checkpoints() -> None:
    """They are counted, and nothing is written: no finding."""
    due = {Quantity.CHECKPOINTS: 1.0, Quantity.WAL_BYTES: 0.0}
    none = {Quantity.CHECKPOINTS: 0.0, Quantity.WAL_BYTES: 0.0}
    assert found(both(seen(none), seen(due)), "checkpoints-differ") is None
    written = {**due, Quantity.WAL_BYTES: 1e6}
    assert found(both(seen(none), seen(written)), "checkpoints-differ") is not None


def _with_trips(*trips_s: float | None) -> CampaignRecord:
    """Return a record with the round trip of each configuration's server."""
    ceilings = tuple(
        Ceiling(
            kind=CeilingKind.ROUND_TRIP,
            subject="SELECT 1",
            latency_s=trip_s,
            configurations=(f"t{place}",),
        )
        for place, trip_s in enumerate(trips_s)
    )
    environment = Environment(facts=(), ceilings=ceilings)
    return replace(both(seen(), seen()), environment=environment)


@pytest.mark.parametrize(
    ("baseline_s", "other_s", "told"),
    [
        (100e-6, 140e-6, False),  # 1.4 times
        (100e-6, 160e-6, True),
        (47e-6, 96e-6, False),  # less than 0.05 ms
    ],
)
def test_round_trips_that_differ(baseline_s: float, other_s: float, *, told: bool) -> None:
    """Half as long again and 0.05 ms, as measured before the first block."""
    finding = found(_with_trips(baseline_s, other_s), "round-trip-differs")
    assert (finding is not None) is told
    if finding is not None:
        assert "t1: an empty statement came back after 0.160 ms, under t0" in finding.message
        assert "each statement takes 0.060 ms more" in finding.message
    assert missing(_with_trips(baseline_s, None), "round-trip-differs")


def test_a_campaign_without_runs_has_no_findings() -> None:
    """Before the first block nothing is judged, and nothing is lacking."""
    assert all(found(compared(0), rule.code) is None for rule in CAMPAIGN_RULES)


def test_every_rule_for_campaigns_is_tried() -> None:
    """Each code stands in one of the test files of its kind."""
    here = Path(__file__).parent
    kinds = ("machine_findings", "work_findings", "redis_findings", "turn_findings", "turn_traces")
    texts = "".join((here / f"test_{kind}.py").read_text() for kind in kinds)
    assert [rule.code for rule in CAMPAIGN_RULES if f'"{rule.code}"' not in texts] == []
