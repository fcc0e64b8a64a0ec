"""Long runs, each described on its own: one per configuration is no sample and supports no verdict.

A long run and the parts that went on right after it are one series of seconds. Between two parts
the generator connects anew, and the ramp of the later one holds sessions with cold caches. These
seconds count in the time, where they passed, and in no rate.

A lasting drop may be that of burst credits that ran out, or of neighbours who came: both look alike
in the rates. Beside a long run stands what used the machine second by second: who took the CPU time
that the server and the generator no longer had.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.answers.results import BURST_ONLY, Grounds
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Estimate, Finding, Severity, Validity
from steelyard.core.measurement import Measurement, Quantity, SustainedRun, WaitClass
from steelyard.core.quantities import BOUNDS, SECONDS, Computed, Named
from steelyard.core.schedule import CLIENTS, THREADS, ConfigurationName, WorkloadName
from steelyard.core.wording import format_duration, format_share
from steelyard.report.document import between, rate
from steelyard.stats.capacity import (
    LEAST_DROP,
    LEAST_S,
    SKIPPED_S,
    CliffScan,
    consistency,
    scan_for_cliff,
)
from steelyard.stats.intervals import FloatArray

_TIME_DIGITS: Final = 3  # clocks of records are no better


@dataclass(frozen=True, slots=True, kw_only=True)
class LongSeries:
    """The seconds of a long run after the ramps of its parts.

    Attributes:
        rates: Shape (seconds,), 1/s, in order.
        starts_s: Shape (seconds,), when each began, from the start of the first part.
        end_s: When the last one ended; 0 where there is none.
    """

    rates: FloatArray
    starts_s: FloatArray
    end_s: float

    def time_of(self, second: float) -> float:
        """Return when a place in the series was, in seconds from the start of the first part."""
        if not len(self.rates):
            return 0.0
        times = np.append(self.starts_s, self.end_s)
        return round(float(np.interp(second, np.arange(len(times)), times)), _TIME_DIGITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstCliff:
    """A lasting drop within a long run, as of credits that have run out (METHOD 7).

    Attributes:
        at: From the start of the run.
        runs_tps: Median of the same cell's slices in the blocks before; None without any.
    """

    at: Annotated[Estimate, SECONDS, BOUNDS, "When, s from the start."]
    drop: Annotated[float, "How much the rate fell, a fraction."]
    burst_tps: Annotated[Estimate, BOUNDS, "Rate before, 1/s."]
    sustained_tps: Annotated[Estimate, BOUNDS, "Rate after, 1/s."]
    least_capacity: Annotated[Estimate, BOUNDS, "Transactions that the bucket held at least."]
    refill_s: Annotated[Estimate, BOUNDS, "Time to refill it, s."]
    runs_tps: Annotated[float | None, "Rate of the short runs, 1/s."]
    runs_were_burst: ClassVar = Computed(
        lambda cliff: (
            None
            if cliff.runs_tps is None
            else cliff.runs_tps > math.sqrt(cliff.burst_tps.value * cliff.sustained_tps.value)
        ),
        Annotated[bool | None, "The short runs were within the burst; null without any."],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesApart:
    """Rates of one cell that do not overlap, 1/s: least and most of each.

    Attributes:
        short: Of the short runs.
        long: Of all windows of the long run that are as long as a short one.
        window_s: Their length.
    """

    short: tuple[float, float]
    long: tuple[float, float]
    window_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedSummary:
    """One long run with its parts; never compared with another by a test.

    Attributes:
        run: Its first part.
        parts: All that count, the first among them.
        broken: A further part that failed; None where none did.
        windows: Whole windows of 10 s in it.
        unsettled: It still ended in what may be a cliff when it was not extended any more.
        burst_only: It is shorter than the burst credits of its target last at full load, or an
            open loop, which takes less out of them than full load.
        apart: Rates of short runs of the same cell that disagree with it; None beside a drop, too.
        discarded: A lasting drop of an earlier try, which the last one does not show.
    """

    run: SustainedRun
    workload: ClassVar = Computed(lambda long: long.run.cell.workload, WorkloadName)
    clients: ClassVar = Computed(lambda long: long.run.cell.load.clients, Annotated[int, CLIENTS])
    threads: ClassVar = Computed(lambda long: long.run.cell.load.threads, Annotated[int, THREADS])
    configuration: ClassVar = Computed(lambda long: long.run.configuration, ConfigurationName)
    seconds: Annotated[float | None, "Seconds that were measured; null if not."]
    tps: Annotated[float | None, "Rate of all parts after their ramps, 1/s; null if not measured."]
    windows: int
    variation: Annotated[
        float | None,
        Named("variation_10s"),
        "Coefficient of variation of the means of 10 s; null below two of them.",
    ]
    worst_tps: Annotated[
        float | None, Named("worst_10s_tps"), "Least of these means, 1/s; null without any."
    ]
    validity: Annotated[Validity, "valid, suspect or invalid: the worst of the parts that count."]
    findings: ClassVar = Computed(
        lambda long: tuple(finding for part in long.parts for finding in part.findings),
        Annotated[tuple[Finding, ...], "Facts to know before relying on it, gravest first."],
    )
    parts: tuple[SustainedRun, ...]
    pieces: ClassVar = Computed(
        lambda long: len(long.parts),
        Annotated[int, Named("parts"), "In how many pieces it was measured."],
    )
    broken: SustainedRun | None
    length_s: Annotated[float, "From its start to the end of its last second; 0 without seconds."]
    too_short: Annotated[
        bool, Named("too_short_for_a_cliff"), "Too few seconds for a cliff to show."
    ]
    unsettled: Annotated[
        bool, Named("ends_in_a_fall"), "The rate fell at the end, too late to judge it."
    ]
    burst_only: Annotated[bool, "It lies within burst credits."]
    drop_beside_neighbours: Annotated[
        BurstCliff | None,
        Named("drop_beside_other_load"),
        "A lasting drop while other processes took the machine; null: none seen.",
    ]
    cliff: Annotated[BurstCliff | None, "Drop as of an empty bucket of credits; null: none seen."]
    apart: RatesApart | None
    discarded: BurstCliff | None

    @property
    def is_invalid(self) -> bool:
        """Return whether a part that counts is invalid."""
        return self.validity is Validity.INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinBurst:
    """A configuration whose burst credits no run of a workload outlasted."""

    configuration: ConfigurationName
    workload: WorkloadName


def last_try(runs: Sequence[SustainedRun]) -> tuple[SustainedRun, ...]:
    """Return the parts of the last try, of the runs of one cell, in order."""
    first = max((place for place, run in enumerate(runs) if run.part == 0), default=0)
    return tuple(runs[first:])


def usable_parts(parts: Sequence[SustainedRun]) -> tuple[SustainedRun, ...]:
    """Return the first part, and those after it up to one that is invalid."""
    usable: list[SustainedRun] = list(parts[:1])
    for part in parts[1:]:
        if part.measurement is None or part.validity is Validity.INVALID:
            break
        usable.append(part)
    return tuple(usable)


def joined(parts: Sequence[SustainedRun]) -> LongSeries:
    """Return the seconds of the parts, joined by the times they started at."""
    rates: list[float] = []
    starts: list[float] = []
    end_s = 0.0
    for part in parts:
        series = part.measurement.series if part.measurement is not None else ()
        later_s = part.started_at - parts[0].started_at
        for second in series:
            if second.end_s - second.seconds / 2 >= part.ramp_s and second.seconds > 0:
                rates.append(second.transactions / second.seconds)
                starts.append(later_s + second.end_s - second.seconds)
                end_s = later_s + second.end_s
    return LongSeries(
        rates=np.asarray(rates, dtype=np.float64),
        starts_s=np.asarray(starts, dtype=np.float64),
        end_s=end_s,
    )


def scan_of(series: LongSeries) -> CliffScan | None:
    """Return the likeliest lasting drop; None where the series is too short to tell."""
    return scan_for_cliff(series.rates) if len(series.rates) >= LEAST_S else None


def calls_for_more(parts: Sequence[SustainedRun]) -> bool:
    """Return whether the parts so far end in what may be a cliff."""
    found = scan_of(joined(parts))
    return found is not None and found.calls_for_more


# Of Amazon EC2. Their CPU is fast on credits, and falls to 5 to 40 % of it without.
_BURSTABLE: Final = re.compile(r"\((t2|t3|t3a|t4g)\.[a-z0-9]+\)")


def burst_findings(grounds: Grounds) -> tuple[Finding, ...]:
    """Return what is to be known of bursts."""
    record, sustained = grounds.record, grounds.analysis.answer(long_runs) or ()
    within = grounds.analysis.answer(within_bursts) or frozenset()
    return (
        *(
            _cliff(each, each.cliff, record.experiment.words.many)
            for each in sustained
            if each.cliff is not None
        ),
        *(
            _beside(each, each.drop_beside_neighbours)
            for each in sustained
            if each.drop_beside_neighbours is not None
        ),
        *(_unsettled(each) for each in sustained if each.unsettled and not _is_dropping(each)),
        *(
            _apart(each, each.apart, record.experiment.words.many)
            for each in sustained
            if each.apart
        ),
        *(_discarded(each, each.discarded) for each in sustained if each.discarded is not None),
        *_too_short(sustained),
        *_burst_only(record, sustained, within),
        *_burstable_machine(record, sustained),
    )


def _is_dropping(long: SustainedSummary) -> bool:
    return long.cliff is not None or long.drop_beside_neighbours is not None


def _warning(long: SustainedSummary, code: str, message: str, remedy: str) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARNING,
        message=f"{long.run.configuration}, {long.run.cell.workload}: {message}",
        remedy=remedy,
        source="METHOD 7",
        subject=long.run.configuration,
    )


def _beside(long: SustainedSummary, drop: BurstCliff) -> Finding:
    finding = _warning(
        long,
        "drop-beside-neighbours",
        f"the rate fell by {format_share(drop.drop)} after {drop.at.value:,.0f} s of the long run;"
        " other processes took the CPU time that the server and the generator had less, so it is"
        " no sign of burst credits",
        "Repeat it on a quiet machine: what lasts there was not measured.",
    )
    return replace(finding, source="the machine's CPU time by who used it, second by second")


def _cliff(long: SustainedSummary, cliff: BurstCliff, many: str) -> Finding:
    at, lasts = cliff.at, _told(cliff.sustained_tps.value)
    remedy = (
        f"{lasts} a second is what lasts: plan with it. To confirm a bucket of"
        f" credits, idle for {format_duration(cliff.refill_s.value)} or more and repeat."
    )
    if long.is_invalid:
        remedy = "This run is invalid: repeat it before you plan with what it shows."
    return _warning(
        long,
        "burst-cliff",
        f"the rate fell by {format_share(cliff.drop)} after {at.value:,.0f} s of the long run"
        f" ({between(at, '{:,.0f}'.format)}), from {_told(cliff.burst_tps.value)} to"
        f" {lasts} {many} a second, and stayed there, as when burst credits have run"
        f" out{_slices(cliff)}",
        remedy,
    )


def _apart(long: SustainedSummary, rates: RatesApart, many: str) -> Finding:
    return _warning(
        long,
        "long-and-short-differ",
        f"the short runs made {_range(rates.short)} {many} a second, and the long run of the same"
        f" load {_range(rates.long)} in every {rates.window_s} s of it",
        "Plan with the lower one. Burst credits that were spent before the long run began look so,"
        " and other processes do: repeat it with full credits on a quiet machine.",
    )


def _told(per_s: float) -> str:
    """Return a rate in whole numbers; a small one with its digits, which are what it is."""
    return f"{per_s:,.0f}" if per_s >= _WHOLE_FROM else rate(per_s)


_WHOLE_FROM: Final = 10.0  # 1/s


def _range(rates: tuple[float, float]) -> str:
    least, most = map(_told, rates)
    return least if least == most else f"{least} to {most}"


def _discarded(long: SustainedSummary, drop: BurstCliff) -> Finding:
    return _warning(
        long,
        "cliff-of-a-discarded-try",
        f"the rate fell by {format_share(drop.drop)} after {drop.at.value:,.0f} s of a try of the"
        f" long run that was discarded, from {_told(drop.burst_tps.value)} to"
        f" {_told(drop.sustained_tps.value)} a second, and in the try that counts it did not fall",
        "It may have begun after the burst: repeat it with full credits on a quiet machine.",
    )


def _slices(cliff: BurstCliff) -> str:
    if cliff.runs_tps is None:
        return ""
    where = "within the burst" if cliff.runs_were_burst else "below the burst already"
    return f"; the slices of the blocks before ({_told(cliff.runs_tps)}) were measured {where}"


def _unsettled(long: SustainedSummary) -> Finding:
    finding = _warning(
        long,
        "late-fall",
        f"the long run ended in a fall that {format_duration(long.length_s)} cannot tell from"
        " noise",
        "Ask for a longer `sustain`.",
    )
    return replace(finding, severity=Severity.INFO)


def _too_short(sustained: tuple[SustainedSummary, ...]) -> Iterator[Finding]:
    short = [each for each in sustained if each.too_short]
    if short:
        longest = max(each.seconds or 0.0 for each in short)
        yield Finding(
            code="too-short-for-a-cliff",
            severity=Severity.INFO,
            message=(
                f"the long runs of {format_duration(longest)} are too short for a burst cliff to"
                f" show: it takes {LEAST_S} s"
            ),
            remedy="Ask for a longer `sustain`: 15 minutes or more.",
            source="METHOD 7",
            subject="campaign",
        )


def _burst_only(
    record: CampaignRecord,
    sustained: tuple[SustainedSummary, ...],
    within: frozenset[tuple[str, str]],
) -> Iterator[Finding]:
    for configuration in record.experiment.configurations:
        workloads = [
            each.name
            for each in record.experiment.workloads
            if (configuration.name, each.name) in within
        ]
        lasts_s = configuration.target.burst_lasts_s
        if not workloads or lasts_s is None:
            continue
        longest = max(
            (
                each
                for each in sustained
                if each.run.configuration == configuration.name
                and each.workload in workloads
                and not each.is_invalid
            ),
            key=lambda each: each.length_s,
            default=None,
        )
        is_open = longest is not None and longest.run.cell.load.is_open
        closed = ", a load without a `rate`" if is_open else ""
        yield Finding(
            code="burst-not-sustained",
            severity=Severity.WARNING,
            message=(
                f"{configuration.name}: {BURST_ONLY} ({', '.join(workloads)}): its burst credits"
                f" last {format_duration(lasts_s)} at full load by `burst_lasts`, and"
                f" {_longest(longest)}"
            ),
            remedy=f"Ask for `sustain: {_beyond(lasts_s)}` or longer{closed}, with full credits.",
            source="METHOD 7; `burst_lasts` of the experiment file",
            subject=configuration.name,
        )


def _longest(long: SustainedSummary | None) -> str:
    """Return what the longest run did not show; at a rate it takes less than full load does."""
    if long is None or not long.length_s:
        return "no run that counts was long"
    load = long.run.cell.load
    share = "" if load.rate_per_s is not None else " of the capacity"
    at = f" at {load.rate_label}{share}, not at full load" if load.is_open else ""
    return f"the longest run took {format_duration(long.length_s)}{at}"


def _beyond(lasts_s: float) -> str:
    """Return a length with room for what is left after the burst, as the file takes it."""
    return f"{int(lasts_s * 1.5 / 60.0) + 1}m"


def _burstable_machine(
    record: CampaignRecord, sustained: tuple[SustainedSummary, ...]
) -> Iterator[Finding]:
    """Name a burstable machine type, where the machine's facts tell it and no run was long."""
    facts = record.environment.facts if record.environment is not None else ()
    for fact in facts:
        kind = _BURSTABLE.search(fact.value) if fact.name == "virtualisation" else None
        if kind is not None and all(map(_tells_no_cliff, sustained)):
            yield Finding(
                code="burstable-machine",
                severity=Severity.WARNING,
                message=(
                    f"this machine is a {kind[0][1:-1]}, whose CPU runs on credits: what is"
                    " measured while there are some need not last"
                ),
                remedy="Ask for `sustain`, and say in `burst_lasts` how long full credits last.",
                source="Amazon EC2 User Guide, burstable performance instances",
                subject="machine",
            )


def _tells_no_cliff(long: SustainedSummary) -> bool:
    """Return whether it failed, or is too short."""
    return long.tps is None or long.too_short


# A guess, and in each of the three questions the same: the larger part decides.
LARGER_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """Means per second before and after a drop, by name; what was not seen is not there."""

    before: dict[str, float]
    after: dict[str, float]

    def rise(self, *names: str) -> float:
        """Return how much more there is of them after the drop; 0 of what was not seen."""
        return sum(self.after.get(name, 0.0) - self.before.get(name, 0.0) for name in names)

    def has(self, *names: str) -> bool:
        """Return whether all of them were seen on both sides."""
        return all(name in self.before and name in self.after for name in names)


def taken_by_neighbours(parts: Sequence[SustainedRun], drop: BurstCliff) -> bool:
    """Return whether other processes took what server and generator have less after a drop.

    Yes, when they use more CPU time by the larger part of it, the server was not held back by a
    quota or by the hypervisor instead (which leaves the CPUs to others, too), and waiting for data
    files and the WAL is not the larger part of what a transaction takes longer. No, where this was
    not seen: then the drop stands.

    Args:
        parts: Of the long run, with their evidence.
        drop: In the run.
    """
    host = _sides(parts, "host", drop.at.value)
    own = (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S)
    if not host.has(*own, Quantity.OTHERS_CPU_S):
        return False
    lost = -host.rise(*own)
    held_back = host.rise(Quantity.THROTTLED_S, Quantity.CPU_STEAL_S)
    return (
        lost > 0.0
        and host.rise(Quantity.OTHERS_CPU_S) >= LARGER_PART * lost
        and held_back < LARGER_PART * lost
        and not _waits_for_devices(parts, drop)
    )


def _waits_for_devices(parts: Sequence[SustainedRun], drop: BurstCliff) -> bool:
    waits = _sides(parts, "waits", drop.at.value)
    devices = (WaitClass.IO, WaitClass.WAL)
    if not waits.has(*devices):
        return False
    burst, sustained = drop.burst_tps.value, drop.sustained_tps.value
    clients = parts[0].cell.load.clients
    longer_s = clients / sustained - clients / burst
    waiting_s = (
        sum(waits.after[name] for name in devices) / sustained
        - sum(waits.before[name] for name in devices) / burst
    )
    return waiting_s >= LARGER_PART * longer_s


def _sides(parts: Sequence[SustainedRun], subject: str, at_s: float) -> _Sides:
    """Return the means of a subject's columns on both sides, without the settling at the start."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for part in parts:
        later_s = part.started_at - parts[0].started_at
        for series in part.evidence.series if part.evidence is not None else ():
            for end_s, row in zip(series.end_s, series.rows, strict=True):
                for name, value in zip(series.names, row, strict=True):
                    if series.subject == subject and value is not None:
                        seen.setdefault(name, []).append((later_s + end_s, value))
    before = {
        name: [v for end_s, v in pairs if SKIPPED_S < end_s <= at_s] for name, pairs in seen.items()
    }
    after = {name: [v for end_s, v in pairs if end_s > at_s] for name, pairs in seen.items()}
    return _Sides(
        before={name: float(np.mean(values)) for name, values in before.items() if values},
        after={name: float(np.mean(values)) for name, values in after.items() if values},
    )


_WORST_FIRST = (Validity.INVALID, Validity.SUSPECT, Validity.VALID)


def long_runs(grounds: Grounds) -> tuple[SustainedSummary, ...]:
    """Return the last try of each long run, workload by workload in configuration order."""
    record = grounds.record
    cells = dict.fromkeys(run.cell for run in record.sustained)
    of_configuration = {
        (cell, configuration.name): tuple(
            run
            for run in record.sustained
            if (run.cell, run.configuration) == (cell, configuration.name)
        )
        for cell in cells
        for configuration in record.experiment.configurations
    }
    return tuple(_summary(record, runs) for runs in of_configuration.values() if runs)


def within_bursts(grounds: Grounds) -> frozenset[tuple[str, str]]:
    """Return the configurations and workloads whose burst credits no run outlasted."""
    record = grounds.record
    outlasted = {
        (each.run.configuration, each.run.cell.workload)
        for each in grounds.analysis.answer(long_runs) or ()
        if not each.is_invalid and not each.burst_only
    }
    return frozenset(
        (configuration.name, workload.name)
        for configuration in record.experiment.configurations
        if configuration.target.burst_lasts_s is not None
        for workload in record.experiment.workloads
        if (configuration.name, workload.name) not in outlasted
    )


def _summary(record: CampaignRecord, runs: Sequence[SustainedRun]) -> SustainedSummary:
    tried = last_try(runs)
    parts = usable_parts(tried)
    series = joined(parts)
    scan = scan_of(series)
    even = consistency(series.rates)
    measured = [part.measurement for part in parts if part.measurement is not None]
    seconds = sum(each.seconds for each in measured)
    slices = _slices_of(record, parts[0])
    drop = _drop(parts, slices)
    beside = drop is not None and taken_by_neighbours(parts, drop)
    lasts_s = record.experiment.configuration(parts[0].configuration).target.burst_lasts_s
    return SustainedSummary(
        run=parts[0],
        parts=parts,
        broken=tried[len(parts)] if len(tried) > len(parts) else None,
        validity=min((part.validity for part in parts), key=_WORST_FIRST.index),
        length_s=round(series.end_s, _TIME_DIGITS),
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
        apart=None if drop is not None else _rates_apart(series.rates, slices),
        discarded=None if drop is not None else _discarded_drop(runs[: -len(tried)], slices),
    )


def _slices_of(record: CampaignRecord, run: SustainedRun) -> tuple[Measurement, ...]:
    """Return the short runs of the same cell that count."""
    return tuple(
        each.measurement
        for each in record.counted_runs
        if (each.configuration, each.cell) == (run.configuration, run.cell)
        and each.measurement is not None
    )


def _drop(parts: Sequence[SustainedRun], slices: Sequence[Measurement]) -> BurstCliff | None:
    """Return the lasting drop of one try, if it has one."""
    series = joined(parts)
    scan = scan_of(series)
    if scan is None or not scan.found:
        return None
    at_s, low_s, high_s = map(series.time_of, (scan.at_s, scan.at_low_s, scan.at_high_s))
    return BurstCliff(
        at=_bounded(at_s, (low_s, high_s)),
        drop=scan.drop,
        burst_tps=_bounded(scan.burst, scan.burst_bounds),
        sustained_tps=_bounded(scan.sustained, scan.sustained_bounds),
        least_capacity=_bounded(scan.least_capacity, scan.capacity_bounds),
        refill_s=_bounded(scan.refill_s, scan.refill_bounds_s),
        runs_tps=float(np.median([each.tps for each in slices])) if slices else None,
    )


def _bounded(value: float, bounds: tuple[float, float]) -> Estimate:
    return Estimate(value=value, low=bounds[0], high=bounds[1])


def _discarded_drop(
    runs: Sequence[SustainedRun], slices: Sequence[Measurement]
) -> BurstCliff | None:
    """Return the drop of the last of some tries; None where other processes explain it."""
    parts = usable_parts(last_try(runs))
    drop = _drop(parts, slices) if parts else None
    beside = drop is not None and taken_by_neighbours(parts, drop)
    return None if beside else drop


_APART_CHANCE: Final = 0.05


def _rates_apart(rates: FloatArray, slices: Sequence[Measurement]) -> RatesApart | None:
    """Return the rates of short and long runs where all of the ones lie on one side of the others.

    Were they alike, that came about with a chance of 2 in all ways to choose the short runs among
    them and the windows: at most 5 %. As with a drop, 10 % count between their medians.
    """
    if not slices:
        return None
    window_s = max(1, round(float(np.median([each.seconds for each in slices]))))
    windows = np.asarray(rates[: len(rates) // window_s * window_s]).reshape(-1, window_s).mean(1)
    short = np.asarray([each.tps for each in slices])
    if 2 / math.comb(len(short) + len(windows), len(short)) > _APART_CHANCE:
        return None
    middles = sorted((float(np.median(short)), float(np.median(windows))))
    overlap = short.min() <= windows.max() and windows.min() <= short.max()
    if overlap or middles[0] > (1.0 - LEAST_DROP) * middles[1]:
        return None
    return RatesApart(
        short=(float(short.min()), float(short.max())),
        long=(float(windows.min()), float(windows.max())),
        window_s=window_s,
    )
