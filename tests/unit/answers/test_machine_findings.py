"""Rules about the machine, each on both sides of its threshold and without its facts."""

import re
from dataclasses import replace
from math import inf

import pytest
from made_records import an_experiment, compared
from watched import asking, both, found, missing, rulings, seen, watched, with_settings

from steelyard.answers.campaign import analyse
from steelyard.answers.findings import collected
from steelyard.answers.validity.machine_rules import AMPLIFICATION, DISK_FREE_SHARE
from steelyard.core.campaign import BlockOutcome, CampaignRecord
from steelyard.core.experiment import Experiment, Layer
from steelyard.core.findings import NOT_JUDGED, Finding, Severity, Validity
from steelyard.core.measurement import Absence, Evidence, Quantity, Series
from steelyard.core.schedule import Turn
from steelyard.core.target import CloudNativePgTarget, EndpointTarget

MIB = 2.0**20


@pytest.mark.parametrize(("periods", "told"), [(0.0, False), (3.0, True)])
def test_throttling_under_a_quota(periods: float, *, told: bool) -> None:
    """Any period in which the quota held the server back is told, with its share."""
    totals = {
        Quantity.QUOTA_PERIODS: 60.0,
        Quantity.THROTTLED_PERIODS: periods,
        Quantity.THROTTLED_S: 0.5,
    }
    finding = found(both(seen(), seen(totals)), "quota-throttled")
    assert (finding is not None) is told
    if finding is not None:
        assert (finding.subject, finding.severity) == ("t1", Severity.WARNING)
        assert "5.0 % of the periods, 30.0 s in all" in finding.message


def test_a_quota_that_nobody_watched_is_not_judged() -> None:
    """Where no quota is asked for nothing is lacking; where one is, its counters are."""
    assert missing(both(seen(), seen()), "quota-throttled") == ""
    limited = asking(an_experiment(), Layer.CGROUP, cpus="0.6")
    assert missing(both(seen(), seen(), experiment=limited), "quota-throttled")


@pytest.mark.parametrize(("share", "told"), [(0.01, False), (0.011, True)])
def test_memory_pressure(share: float, *, told: bool) -> None:
    """Above 1 % of the time."""
    record = both(seen(), seen({Quantity.MEMORY_PRESSURE_S: share * 7.0}))
    assert (found(record, "memory-pressure") is not None) is told
    assert missing(record, "memory-pressure")


_SECOND = {
    Quantity.DEVICE_BUSY_S: 1.0,
    Quantity.DEVICE_QUEUE_S: 4.0,
    Quantity.DEVICE_READS: 600.0,
    Quantity.DEVICE_WRITES: 300.0,
    Quantity.DEVICE_READ_BYTES: 6e6,
    Quantity.DEVICE_WRITE_BYTES: 3e6,
}


def _device(spread: float = 0.0, moved: float = 0.0, **second: float) -> Evidence:
    """Return a device whose seconds are alike but for their requests and bytes."""
    rows = []
    for number in range(7):
        sign = number % 3 - 1
        row = {**_SECOND, **{Quantity(name): value for name, value in second.items()}}
        for quantity in (Quantity.DEVICE_READS, Quantity.DEVICE_WRITES):
            row[quantity] *= 1.0 + sign * spread
        for quantity in (Quantity.DEVICE_READ_BYTES, Quantity.DEVICE_WRITE_BYTES):
            row[quantity] *= 1.0 + sign * moved
        rows.append(tuple(row.values()))
    host = Series(
        subject="host",
        names=tuple(quantity.value for quantity in _SECOND),
        end_s=tuple(float(end) for end in range(1, 8)),
        rows=tuple(rows),
    )
    return replace(seen({Quantity.DEVICE_BUSY_S: 7.0}), series=(host,))


@pytest.mark.parametrize(
    ("device", "told"),
    [
        (_device(), "900 requests/s and 8.6 MiB/s"),
        (_device(moved=0.2), "900 requests/s,"),
        (_device(spread=0.2), "through 8.6 MiB/s,"),
        (_device(spread=0.01, moved=0.2), "900 requests/s,"),
        (_device(spread=0.2, moved=0.2), ""),
        (_device(device_busy_s=0.9), ""),
        (_device(device_queue_s=1.1), ""),
    ],
)
def test_a_limit_of_the_storage_shows_second_by_second(device: Evidence, told: str) -> None:
    """What is busy all the time and lets through the same; with one request at a time it may be."""
    finding = found(both(seen({Quantity.DEVICE_BUSY_S: 1.0}), device), "device-limit")
    assert (finding is not None) is bool(told)
    if finding is not None:
        assert told in finding.message
        assert finding.subject == "t1"
    assert missing(both(seen(), device), "device-limit")


def test_a_limit_is_told_what_the_faster_side_would_take() -> None:
    """As many requests a transaction at the rate of the fastest configuration."""
    record = both(seen({Quantity.DEVICE_BUSY_S: 1.0}), _device())
    slow = replace(
        record,
        runs=tuple(
            replace(
                run,
                measurement=replace(run.measurement, transactions=run.measurement.transactions / 4),
            )
            if run.configuration == "t1" and run.measurement is not None
            else run
            for run in record.runs
        ),
    )
    finding = found(slow, "device-limit")
    assert finding is not None
    (asked,) = re.findall(r"takes about ([\d,]+) requests/s and", finding.remedy)
    assert int(asked.replace(",", "")) == pytest.approx(3600, rel=0.1)
    assert "12,000 IOPS takes 400 GiB or more, and costs 46.00 USD a month" in finding.remedy


@pytest.mark.parametrize(("pages_per_s", "told"), [(10.0, False), (10.5, True)])
def test_swapping(pages_per_s: float, *, told: bool) -> None:
    """Above 10 pages a second."""
    record = both(seen(), seen({Quantity.SWAPPED_PAGES: pages_per_s * 7.0}))
    assert (found(record, "swapping") is not None) is told
    assert missing(record, "swapping")


@pytest.mark.parametrize(
    ("free", "told"), [(DISK_FREE_SHARE, False), (DISK_FREE_SHARE - 0.001, True)]
)
def test_a_disk_that_is_nearly_full(free: float, *, told: bool) -> None:
    """The least that was free counts."""
    levels = [
        {Quantity.DISK_BYTES: 1e12, Quantity.DISK_FREE_BYTES: 1e12 * share} for share in (0.5, free)
    ]
    finding = found(both(seen({}, levels[0]), seen({}, levels[1])), "disk-nearly-full")
    assert (finding is not None) is told
    if finding is not None:
        assert "9.9 % of the data's disk" in finding.message
    assert missing(both(seen(), seen()), "disk-nearly-full")


def test_a_small_disk_beside_a_large_one_is_not_full() -> None:
    """Configurations on two disks: what is free on one is no share of the other."""
    small, large = (
        {Quantity.DISK_BYTES: size, Quantity.DISK_FREE_BYTES: size * 0.9} for size in (6e9, 270e9)
    )
    assert found(both(seen({}, small), seen({}, large)), "disk-nearly-full") is None
    full = {**small, Quantity.DISK_FREE_BYTES: 6e9 * 0.05}
    told = found(both(seen({}, large), seen({}, full)), "disk-nearly-full")
    assert told is not None
    assert "only 5.0 % of the data's disk" in told.message


@pytest.mark.parametrize(
    ("ratio", "device_mib", "told"),
    [(AMPLIFICATION, 100.0, False), (2.1, 100.0, True), (2.1, 0.1, False)],
)
def test_read_amplification(ratio: float, device_mib: float, *, told: bool) -> None:
    """Above 2, and only where enough was read at all."""
    totals = {
        Quantity.DEVICE_READ_BYTES: device_mib * MIB,
        Quantity.RELATION_READ_BYTES: device_mib * MIB / ratio,
        Quantity.DEVICE_READ_S: 0.1,
    }
    record = both(seen(), seen(totals))
    finding = found(record, "read-amplification")
    assert (finding is not None) is told
    if finding is not None:
        assert "2.1 bytes for each" in finding.message
    assert missing(record, "read-amplification")


@pytest.mark.parametrize(
    ("status", "used", "told"),
    [("on", None, False), ("off", None, True), ("", 4 * MIB, False), ("", 0.0, True)],
)
def test_huge_pages_that_are_tried_in_vain(status: str, used: float | None, *, told: bool) -> None:
    """By the server's own word, or by its memory; what is free and what would do is said."""
    levels = {Quantity.HUGE_PAGES_FREE: 3.0}
    levels |= {} if used is None else {Quantity.SERVER_HUGE_BYTES: used}
    record = both(seen(), seen({}, levels), experiment=asking(an_experiment(), huge_pages="try"))
    settings = {"shared_memory_size_in_huge_pages": "71", "huge_pages": "try"}
    settings |= {"huge_pages_status": status} if status else {}
    finding = found(with_settings(record, t0={}, t1=settings), "huge-pages-not-in-effect")
    assert (finding is not None) is told
    if finding is not None:
        assert finding.message.endswith("3 huge pages were free of the 71 that it needs")
        assert "vm.nr_hugepages=71" in finding.remedy


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("huge_page_size", "1GB", "echo 2 > /sys/kernel/mm/hugepages/hugepages-1048576kB/"),
        ("shared_memory_type", "sysv", "Set `shared_memory_type: mmap`"),
    ],
)
def test_the_advice_is_for_the_mapping_that_was_asked_for(
    setting: str, value: str, remedy: str
) -> None:
    """Pages of another size are reserved elsewhere; System V memory is never on huge pages."""
    levels = {Quantity.HUGE_PAGES_FREE: 3.0}
    record = both(seen(), seen({}, levels), experiment=asking(an_experiment(), huge_pages="try"))
    settings = {"shared_memory_size_in_huge_pages": "2", "huge_pages_status": "off"}
    settings[setting] = value
    finding = found(with_settings(record, t0={}, t1=settings), "huge-pages-not-in-effect")
    assert finding is not None
    assert remedy in finding.remedy
    assert "vm.nr_hugepages" not in finding.remedy


def test_huge_pages_that_nobody_asked_for_are_no_matter() -> None:
    """``try`` is PostgreSQL's default: only who asks for it is told; without facts nothing is."""
    record = with_settings(both(seen(), seen()), t0={}, t1={"huge_pages_status": "off"})
    assert found(record, "huge-pages-not-in-effect") is None
    asked = asking(an_experiment(), huge_pages="try")
    assert missing(both(seen(), seen(), experiment=asked), "huge-pages-not-in-effect")


def generating(**how: Experiment) -> CampaignRecord:
    """Return a record whose generator used 3.5 of 14 CPU seconds in each run."""
    used = seen({Quantity.GENERATOR_CPU_S: 3.5}, {Quantity.CPUS: 2.0})
    return both(used, used, **how)


def test_a_shared_machine_is_told_of_with_the_generators_share() -> None:
    """On a local target without CPU sets; there it is the user who decided."""
    finding = found(generating(), "shared-machine")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "ran on the server's 2 CPUs and used 25.0 %" in finding.message
    bound = asking(an_experiment(), Layer.CGROUP, cpuset="0", generator_cpuset="1")
    assert found(generating(experiment=bound), "shared-machine") is None
    assert missing(both(seen(), seen()), "shared-machine")
    endless = seen({Quantity.GENERATOR_CPU_S: 3.5}, {Quantity.CPUS: inf})  # a damaged record
    assert missing(both(endless, endless), "shared-machine")


def test_an_endpoint_shares_nothing_that_is_known() -> None:
    """Where its server runs is not this machine's to say."""
    local = an_experiment()
    away = tuple(replace(t, target=EndpointTarget(host="db")) for t in local.configurations)
    record = generating(experiment=replace(local, configurations=away))
    assert found(record, "shared-machine") is None


def test_generators_on_the_databases_node_are_told_of() -> None:
    """In how many runs, with their share of its CPUs; where they were elsewhere nothing is said."""
    totals = {Quantity.GENERATOR_CPU_S: 3.5}
    here, there = (
        seen(totals, {Quantity.CPUS: 2.0, Quantity.GENERATORS_BESIDE: number})
        for number in (1.0, 0.0)
    )
    local = an_experiment()
    inside = replace(
        local,
        configurations=tuple(
            replace(t, target=CloudNativePgTarget()) for t in local.configurations
        ),
    )
    finding = found(both(there, here, experiment=inside), "shared-machine")
    assert finding is not None
    assert "the load generator shared the database's machine" in finding.message
    assert "in 60 of 120 runs" in finding.message
    assert "25.0 % of its CPU time" in finding.message
    assert found(both(there, there, experiment=inside), "shared-machine") is None


def disturbed(severity: Severity, runs: int) -> CampaignRecord:
    """Return a record of 12 blocks in whose first runs a neighbour was found."""
    record = both(seen(), seen())
    beside = Finding(code="neighbour-cpu", severity=severity, message="others used 40 %")
    suspect = Validity.SUSPECT if severity is Severity.WARNING else Validity.VALID
    marked = tuple(
        replace(run, findings=(beside,), validity=suspect) if number < runs else run
        for number, run in enumerate(record.runs)
    )
    return replace(record, runs=marked)


def test_blocks_beside_a_neighbour_are_counted() -> None:
    """Eleven runs lie in two blocks; without any nothing is said."""
    finding = found(disturbed(Severity.WARNING, 11), "measured-beside-neighbour")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "2 of 12 blocks were measured beside a neighbour (CPU time of other processes: 11 runs),"
        " the first time: others used 40 %"
    )
    assert found(disturbed(Severity.WARNING, 0), "measured-beside-neighbour") is None


def test_neighbours_that_are_only_noted_are_information() -> None:
    """As ``measure.max_other_load: ignore`` asks."""
    finding = found(disturbed(Severity.INFO, 3), "measured-beside-neighbour")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert finding.message.startswith(
        "neighbours were there in 3 of 120 runs (CPU time of other processes: 3 runs)"
    )


@pytest.mark.parametrize(
    ("runs", "severity"), [(60, Severity.INFO), (61, Severity.WARNING), (120, Severity.WARNING)]
)
def test_neighbours_of_most_runs_are_a_warning(runs: int, severity: Severity) -> None:
    """Noted only is too little where most of what was measured had them beside it."""
    record = disturbed(Severity.INFO, runs)
    finding = found(record, "measured-beside-neighbour")
    assert finding is not None
    assert finding.severity is severity
    assert finding.remedy.startswith("None:") is (severity is Severity.INFO)
    first = collected(analyse(record))[0]
    assert severity is Severity.INFO or first.code == finding.code


def test_neighbours_of_turns_are_information_however_many() -> None:
    """All configurations meet them alike."""
    record = disturbed(Severity.INFO, 120)
    turn = Turn(round=0, place=0, began_s=0.0, seconds=0.25, transactions=9.0, early=4.0)
    record = replace(record, runs=tuple(replace(run, turns=(turn,)) for run in record.runs))
    finding = found(record, "measured-beside-neighbour")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "foreign-load-differs" in finding.remedy


def test_a_report_tells_of_neighbours_once() -> None:
    """The cells are suspect; their own lines would repeat what the campaign says."""
    told = collected(analyse(disturbed(Severity.WARNING, 30)))
    assert [f.code for f in told if "neighbour" in f.code] == ["measured-beside-neighbour"]


def test_absent_probes_are_told_once_each() -> None:
    """In one line, with the number of runs; no probe absent, nothing told."""
    gone = Absence(subject="host", reason="/proc was not readable")
    record = both(seen(absent=(gone, gone)), seen())
    finding = found(record, "not-measured")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert finding.message == "not measured: host (/proc was not readable; 60 of 120 runs)"
    assert len(rulings(record, "not-measured")) == 1
    assert found(both(seen(), seen()), "not-measured") is None


def test_what_could_not_be_judged_is_one_line() -> None:
    """Of watched runs without facts; records without evidence say nothing at all."""
    finding = found(both(seen(), seen()), NOT_JUDGED)
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "swapping (swapped_pages)" in finding.message
    assert "steal (cpu_steal_s, cpus; 120 of 120 runs)" in finding.message
    assert found(watched(lambda _: None), NOT_JUDGED) is None


@pytest.mark.parametrize(("tries", "told"), [(5, False), (6, True)])
def test_neighbours_under_one_configuration_alone_are_told(tries: int, *, told: bool) -> None:
    """Five of five under one of two configurations are chance (6 %), six of six hardly (3 %)."""
    record = compared(30)
    thrown = tuple(
        BlockOutcome(
            index=number, attempt=7, complete=False, reason="r", cause="steal", configuration="t1"
        )
        for number in range(tries)
    )
    findings = analyse(replace(record, blocks=(*thrown, *record.blocks))).findings
    redone = next(finding for finding in findings if finding.code == "blocks-redone")
    assert (redone.severity is Severity.WARNING) is told
    assert ("asks for more of what" in redone.remedy) is told


def test_redone_blocks_are_counted_by_cause() -> None:
    """Also those that no rule threw away."""
    record = compared(12)
    tries = tuple(
        BlockOutcome(index=number, attempt=7, complete=False, reason="r", cause=cause)
        for number, cause in enumerate(["steal", "steal", "server-died", ""])
    )
    findings = analyse(replace(record, blocks=(*tries, *record.blocks))).findings
    told = next(finding for finding in findings if finding.code == "blocks-redone")
    assert told.message.endswith(
        "; causes: server died (1), CPU time taken by the hypervisor (2), others (1)"
    )
