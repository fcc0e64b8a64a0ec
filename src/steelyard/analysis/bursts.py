"""Findings about burst credits: a cliff that was seen, and credits that no run outlasted."""

import re
from collections.abc import Iterator
from typing import Final

from steelyard.analysis.long_runs import BurstCliff, SustainedSummary
from steelyard.model.campaign import CampaignRecord
from steelyard.model.findings import Finding, Severity
from steelyard.model.units import format_duration, format_percent
from steelyard.stats.cliff import LEAST_S

BURST_ONLY: Final = "burst, not sustained"
# Of Amazon EC2. Their CPU is fast on credits, and falls to 5 to 40 % of it without.
_BURSTABLE: Final = re.compile(r"\((t2|t3|t3a|t4g)\.[a-z0-9]+\)")


def burst_findings(
    record: CampaignRecord,
    sustained: tuple[SustainedSummary, ...],
    within: frozenset[tuple[str, str]],
) -> tuple[Finding, ...]:
    """Return what is to be known of bursts.

    Args:
        record: Of the campaign.
        sustained: Its long runs.
        within: Treatments and workloads that were measured within known burst credits alone.
    """
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
        *_too_short(sustained),
        *_burst_only(record, sustained, within),
        *_burstable_machine(record, sustained),
    )


def _is_dropping(long: SustainedSummary) -> bool:
    return long.cliff is not None or long.drop_beside_neighbours is not None


def _beside(long: SustainedSummary, drop: BurstCliff) -> Finding:
    run, scan = long.run, drop.scan
    return Finding(
        code="drop-beside-neighbours",
        severity=Severity.WARNING,
        message=(
            f"{run.treatment}, {run.cell.workload}: the rate fell by"
            f" {format_percent(scan.drop, signed=False)} after {drop.at_s:,.0f} s of the long run;"
            " other processes took the CPU time that the server and the generator had less, so it"
            " is no sign of burst credits"
        ),
        remedy="Repeat it on a quiet machine: what lasts there was not measured.",
        source="the machine's CPU time by who used it, second by second",
        subject=run.treatment,
    )


def _cliff(long: SustainedSummary, cliff: BurstCliff, many: str) -> Finding:
    run, scan = long.run, cliff.scan
    return Finding(
        code="burst-cliff",
        severity=Severity.WARNING,
        message=(
            f"{run.treatment}, {run.cell.workload}: the rate fell by"
            f" {format_percent(scan.drop, signed=False)} after {cliff.at_s:,.0f} s of the long run"
            f" ({cliff.at_low_s:,.0f} to {cliff.at_high_s:,.0f}),"
            f" from {scan.burst:,.0f} to {scan.sustained:,.0f} {many} a second, and stayed"
            f" there, as when burst credits have run out{_slices(cliff)}"
        ),
        remedy=(
            f"{scan.sustained:,.0f} a second is what lasts: plan with it. To confirm a bucket of"
            f" credits, idle for {format_duration(scan.refill_s)} or more and repeat."
        ),
        source="METHOD 7",
        subject=run.treatment,
    )


def _slices(cliff: BurstCliff) -> str:
    if cliff.slices_tps is None:
        return ""
    where = "within the burst" if cliff.slices_were_burst else "below the burst already"
    return f"; the slices of the blocks before ({cliff.slices_tps:,.0f}) were measured {where}"


def _unsettled(long: SustainedSummary) -> Finding:
    return Finding(
        code="late-fall",
        severity=Severity.INFO,
        message=(
            f"{long.run.treatment}, {long.run.cell.workload}: the long run ended in a fall that"
            f" {format_duration(long.length_s)} cannot tell from noise"
        ),
        remedy="Ask for a longer `sustain`.",
        source="METHOD 7",
        subject=long.run.treatment,
    )


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
    for treatment in record.experiment.treatments:
        workloads = [
            each.name
            for each in record.experiment.workloads
            if (treatment.name, each.name) in within
        ]
        lasts_s = treatment.target.burst_lasts_s
        if not workloads or lasts_s is None:
            continue
        longest = max(
            (each for each in sustained if each.run.treatment == treatment.name),
            key=lambda each: each.length_s,
            default=None,
        )
        is_open = longest is not None and longest.run.cell.load.is_open
        closed = ", a load without a `rate`" if is_open else ""
        yield Finding(
            code="burst-not-sustained",
            severity=Severity.WARNING,
            message=(
                f"{treatment.name}: {BURST_ONLY} ({', '.join(workloads)}): its burst credits last"
                f" {format_duration(lasts_s)} at full load by `burst_lasts`,"
                f" and {_longest(longest)}"
            ),
            remedy=f"Ask for `sustain: {_beyond(lasts_s)}` or longer{closed}, with full credits.",
            source="METHOD 7; `burst_lasts` of the experiment file",
            subject=treatment.name,
        )


def _longest(long: SustainedSummary | None) -> str:
    """Return what the longest run did not show; at a rate it takes less than full load does."""
    if long is None or not long.length_s:
        return "no run was long"
    load = long.run.cell.load
    rate = "" if load.rate_per_s is not None else " of the capacity"
    at = f" at {load.rate_label}{rate}, not at full load" if load.is_open else ""
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
        if kind is not None and all(each.too_short for each in sustained):
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
