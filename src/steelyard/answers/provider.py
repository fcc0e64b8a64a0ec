"""What the provider of a server saw of it: its own counts, minute by minute, beside ours.

They are of the whole instance, with everything that ran on it: of all configurations that it had.
"""

from collections.abc import Iterator
from typing import Final

from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.campaign import BILLED_REQUESTS, ProviderSeries
from steelyard.core.findings import Finding, Severity
from steelyard.core.units import MS_PER_S, format_bytes, format_duration
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
_MINUTE_S: Final = 60.0
_SPENT: Final = 0.02  # of a balance: less is how it breathes; a guess
_NOTE: Final = (
    "Averages of a minute by CloudWatch, from the first run to the end, of the whole instance: all"
    " configurations on it, pauses between runs included. The last minutes may be missing. Of"
    f" Aurora's {enumeration(BILLED_REQUESTS)}, which are billed, sums of five minutes: units of"
    " its own, no requests of a volume."
)


def provider_series(grounds: Grounds) -> tuple[ProviderSeries, ...]:
    """Return what providers counted; empty where no server has one that does."""
    return grounds.record.provider


def provider_findings(grounds: Grounds) -> Iterator[Finding]:
    """Yield balances that were spent: what was measured then is burst, and how long they last."""
    for each in grounds.record.provider:
        if each.metric not in _BALANCES or len(each.values) < 2:
            continue
        first, last = each.values[0], each.values[-1]
        took_s = each.starts_s[-1] - each.starts_s[0]
        if first - last <= _SPENT * first or took_s <= 0.0:
            continue
        left_s = last * took_s / (first - last)
        yield Finding(
            code="credits-spent",
            severity=Severity.WARNING,
            message=f"{each.server}: {each.metric} fell from {_shown(each, first)} to"
            f" {_shown(each, last)} in {format_duration(took_s)}: the load was beyond what lasts,"
            f" and at that pace the rest is gone in about {format_duration(left_s)}",
            remedy="What was measured is burst. Add `sustain` for longer than that, or ask for"
            " fewer requests than the volume or class gives for good.",
            source='"Amazon RDS User Guide", sections "DB instance storage" and "DB instance'
            ' classes"',
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
        blocks.append(Table(title=title, columns=columns, rows=rows, note=_NOTE))
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
        f"{len(each.values) * each.period_s / _MINUTE_S:.0f}",
    )


def _shown(each: ProviderSeries, value: float) -> str:
    match each.unit:
        case "%":
            return f"{value:.1f} %"
        case "B" | "B/s":
            return format_bytes(value) + each.unit.removeprefix("B")
        case "s":
            return f"{MS_PER_S * value:.3g} ms"
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
