"""What the provider of a server saw of it: its own counts, minute by minute, beside ours.

They are of the whole instance, with everything that ran on it: of all configurations that it had.
"""

from collections.abc import Iterator
from typing import Final

from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.findings import Finding, Severity
from steelyard.core.measurement import BILLED_REQUESTS, ProviderSeries
from steelyard.core.units import MS_PER_S, SECONDS_PER_MINUTE, format_bytes, format_duration
from steelyard.report.document import (
    Align,
    Block,
    Column,
    Json,
    Paragraph,
    Row,
    Section,
    Table,
    enumeration,
)

_BALANCES: Final = ("BurstBalance", "EBSIOBalance%", "EBSByteBalance%", "CPUCreditBalance")
_SPENT: Final = 0.02  # of a balance: less is how it breathes; a guess
_SURPLUS: Final = "CPUSurplusCreditBalance"
_SOURCE: Final = '"Amazon RDS User Guide", sections "DB instance storage" and "DB instance classes"'
_NOTE: Final = (
    "By CloudWatch, from the first run to the end, of the whole instance: all configurations on it,"
    " pauses between runs included. Averages of a minute, of credits of five. The last minutes may"
    " be missing."
)
_LOAD_NOTE: Final = (
    " db.load.avg is the mean number of active sessions by Performance Insights, all and by what"
    " they waited for: one look a second, means of a minute."
)
_BILLED_NOTE: Final = (
    f" {enumeration(BILLED_REQUESTS)} are what Aurora bills, sums of five minutes: units of its"
    " own, no requests of a volume."
)


def provider_series(grounds: Grounds) -> tuple[ProviderSeries, ...]:
    """Return what providers counted; empty where no server has one that does."""
    return grounds.record.provider


def provider_findings(grounds: Grounds) -> Iterator[Finding]:
    """Yield balances that were spent: what was measured then is burst; and what is billed of it."""
    for each in grounds.record.provider:
        if each.metric in _BALANCES and each.values:
            yield from _spent(each)
        if each.metric == _SURPLUS and max(each.values, default=0.0) > 0.0:
            yield Finding(
                code="surplus-credits",
                severity=Severity.WARNING,
                message=f"{each.server}: up to {max(each.values):,.0f} CPU credits were spent"
                " beyond what its class earns, and are billed",
                remedy="Take a class whose CPUs are there at all times, or count them in its cost.",
                source=_SOURCE,
                subject="campaign",
            )


def _spent(each: ProviderSeries) -> Iterator[Finding]:
    """Yield the fall of a balance from its first value to its least."""
    first, least = each.values[0], min(each.values)
    took_s = each.starts_s[each.values.index(least)] - each.starts_s[0]
    if first - least <= _SPENT * first or took_s <= 0.0:
        return
    left = "it was used up"
    if least > _SPENT * first:
        left_s = least * took_s / (first - least)
        left = f"at that pace the rest is gone in about {format_duration(left_s)}"
    yield Finding(
        code="credits-spent",
        severity=Severity.WARNING,
        message=f"{each.server}: {each.metric} fell from {_shown(each, first)} to"
        f" {_shown(each, least)} in {format_duration(took_s)}: the load was beyond what lasts, and"
        f" {left}",
        remedy="What was measured is burst. Add `sustain` for longer than that, or ask for fewer"
        " requests than the volume or class gives for good.",
        source=_SOURCE,
        subject="campaign",
    )


def provider_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return a row for each metric, and what was not published, which is not 0."""
    every: tuple[ProviderSeries, ...] = analysis.answer(provider_series) or ()
    if not every:
        return ()
    title = "What AWS saw"
    columns = (
        *(Column(name=name) for name in ("instance", "configurations", "metric")),
        *(Column(name=name, align=Align.RIGHT) for name in ("mean", "least", "most", "last")),
        Column(name="minutes", align=Align.RIGHT),
    )
    published = [each for each in every if each.values]
    blocks: list[Block] = []
    if published:
        rows = tuple(Row(cells=_cells(each)) for each in published)
        note = _NOTE + (_BILLED_NOTE if any(each.is_billed for each in published) else "")
        note += _LOAD_NOTE if any(each.unit == "sessions" for each in published) else ""
        blocks.append(Table(title=title, columns=columns, rows=rows, note=note))
    for server in dict.fromkeys(each.server for each in every):
        missing = tuple(e.metric for e in every if e.server == server and not e.values)
        if missing:
            told = f"{server}: not published, which is not 0: {enumeration(missing)}."
            blocks.append(Paragraph(text=told))
    return (Section(anchor="provider", title=title, blocks=tuple(blocks)),)


def _cells(each: ProviderSeries) -> tuple[str, ...]:
    mean = sum(each.values) / len(each.values)
    told = (mean, min(each.values), max(each.values), each.values[-1])
    return (
        each.server,
        ", ".join(each.configurations),
        each.metric,
        *(_shown(each, value) for value in told),
        f"{len(each.values) * each.period_s / SECONDS_PER_MINUTE:.0f}",
    )


def _shown(each: ProviderSeries, value: float) -> str:
    match each.unit:
        case "%":
            return f"{value:.1f} %"
        case "B" | "B/s":
            return format_bytes(value) + each.unit.removeprefix("B")
        case "s":
            return f"{MS_PER_S * value:.3g} ms"
        case "sessions":
            return f"{value:.2f}"
        case unit:
            return f"{value:,.1f} {unit}".rstrip()


def provider_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return all points, s since the epoch and value; nothing where no provider counts."""
    every: tuple[ProviderSeries, ...] = analysis.answer(provider_series) or ()
    if not every:
        return {}
    return {
        "provider": [
            {
                "server": each.server,
                "configurations": list(each.configurations),
                "metric": each.metric,
                "unit": each.unit,
                "period_s": each.period_s,
                "points": [list(point) for point in zip(each.starts_s, each.values, strict=True)],
            }
            for each in every
        ]
    }
