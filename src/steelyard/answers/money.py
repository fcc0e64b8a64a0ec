"""What transactions cost in money, where a file or a price list says what servers cost.

A level is the price of the rate that was measured, kept up for hours. Two sides are set against
each other by the effect within blocks, never by their levels.

What the provider of a server saw of it is here, too: its own counts, minute by minute, beside ours.
They are of the whole instance, with everything that ran on it: of all configurations that it had.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.answers.results import CampaignAnalysis, CellSummary, Comparison, Grounds, place_name
from steelyard.core.experiment import MANY, ONE, RATE, Experiment
from steelyard.core.findings import Estimate, Finding, Severity
from steelyard.core.measurement import BILLED_REQUESTS, ProviderSeries
from steelyard.core.money import (
    Rates,
    TransactionCost,
    Use,
    format_money,
    transaction_cost,
)
from steelyard.core.schedule import CellKey
from steelyard.core.wording import MS_PER_S, SECONDS_PER_MINUTE, format_bytes, format_duration
from steelyard.report import document as doc


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCost:
    """What a million transactions of a configuration cost in a cell.

    Attributes:
        tps: The rate behind it.
        value: With its parts; None where nothing was measured.
        low: At the upper bound of the rate; None below 6 blocks, or where a part is not known.
        high: At its lower bound, likewise.
    """

    configuration: str
    cell: CellKey
    rates: Rates
    tps: float | None
    value: TransactionCost | None
    low: float | None = None
    high: float | None = None

    @property
    def total(self) -> float | None:
        """Return what a million cost in all; None where it is not known."""
        return None if self.value is None else self.value.total


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChange:
    """How much more or less a transaction costs under a configuration, pooled over loads.

    Attributes:
        change: Relative, with the interval of the effect; None where it is not known.
        missing: Why not; empty where it is.
    """

    baseline: str
    configuration: str
    workload: str
    change: Estimate | None
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """All costs of a campaign; empty where nothing says what a server costs."""

    cells: tuple[CellCost, ...] = ()
    changes: tuple[CostChange, ...] = ()


def analyse_money(grounds: Grounds) -> Money:
    """Return what transactions cost."""
    analysis = grounds.analysis
    rates = rates_of(analysis.experiment)
    if not rates:
        return Money()
    uses = {name: _used(grounds, name) for name in rates}
    return Money(
        cells=tuple(
            _cell(cell, rates[cell.configuration], uses[cell.configuration])
            for cell in analysis.cells
            if cell.configuration in rates and not cell.cell.load.is_open
        ),
        changes=tuple(_change(each, rates) for each in analysis.results),
    )


def rates_of(experiment: Experiment) -> dict[str, Rates]:
    """Return what servers cost, by configuration; those without a price are left out."""
    costs = {each.name: each.target.cost for each in experiment.configurations}
    return {name: cost for name, cost in costs.items() if cost is not None}


_READ_AND_WRITTEN: Final = 2  # one without the other is not what is billed
_COVERED: Final = 0.5  # of a campaign's runs, before what was counted stands for all of it: a guess


def _used(grounds: Grounds, name: str) -> Use:
    """Return what a configuration used that is billed by use, where its provider counted it.

    Requests to the storage are counted of a whole cluster: they are of one configuration that has
    it alone, under one load of one workload. Rates over whole periods of the campaign are set
    against its transactions over the same time, warm-ups and pauses included.
    """
    record, experiment = grounds.record, grounds.record.experiment
    counted = [e for e in record.provider if e.is_billed and e.configurations == (name,)]
    is_one = len(experiment.workloads) == 1 and len(experiment.loads) == 1 and not record.sustained
    if len(counted) < _READ_AND_WRITTEN or not is_one:
        return Use()
    taken = [(run, run.measurement) for run in record.runs if run.measurement is not None]
    if not taken:
        return Use()
    begin = taken[0][0].started_at
    end = max(run.started_at + measured.seconds for run, measured in taken)
    done = sum(m.transactions + m.uncounted for run, m in taken if run.configuration == name)
    billed = [
        [
            value
            for start, value in zip(each.starts_s, each.values, strict=True)
            if begin <= start and start + each.period_s <= end
        ]
        for each in counted
    ]
    period_s = counted[0].period_s
    if period_s * min(map(len, billed)) < _COVERED * (end - begin) or not done:
        return Use()
    per_s = sum(sum(each) / (period_s * len(each)) for each in billed)
    return Use(ios_per_transaction=per_s * (end - begin) / done)


def _cell(cell: CellSummary, rates: Rates, use: Use) -> CellCost:
    measured = cell.runs > 0 and cell.tps.value > 0
    low, high = doc.bounds(cell.tps) or (None, None)
    return CellCost(
        configuration=cell.configuration,
        cell=cell.cell,
        rates=rates,
        tps=cell.tps.value if measured else None,
        value=transaction_cost(rates, cell.tps.value, use) if measured else None,
        low=transaction_cost(rates, high, use).total if measured and high else None,
        high=transaction_cost(rates, low, use).total if measured and low else None,
    )


def _change(result: Comparison, rates: Mapping[str, Rates]) -> CostChange:
    why = _unset(result, rates)
    return CostChange(
        baseline=result.baseline,
        configuration=result.configuration,
        workload=result.workload,
        change=None if why else _ratio(result, rates),
        missing=why,
    )


_UNSEEN = "surplus CPU credits are billed by use, which was not measured"


def _unset(result: Comparison, rates: Mapping[str, Rates]) -> str:
    """Return why the two sides cannot be set against each other; empty where they can."""
    sides = (result.baseline, result.configuration)
    unpriced = [name for name in sides if name not in rates]
    if unpriced:
        return f"nothing says what {doc.enumeration(tuple(unpriced))} costs"
    found = [rates[name] for name in sides]
    unknown = [told for each in found for told in each.missing]
    if unknown:
        return "; ".join(dict.fromkeys(unknown))
    if len({each.currency for each in found}) > 1:
        return "the amounts are in different currencies"
    by_use = {
        "I/O is billed by use, which differs by load: read the cells": any(
            each.io_per_million is not None for each in found
        ),
        "a serverless cluster costs what it used, which was not measured": any(
            each.is_most for each in found
        ),
        _UNSEEN: any(each.surplus_per_vcpu_hour is not None for each in found),
    }
    unseen = next((why for why, is_so in by_use.items() if is_so), "")
    no_interval = "" if doc.bounds(result.effect) is not None else "there is no interval yet"
    return unseen or no_interval


def _ratio(result: Comparison, rates: Mapping[str, Rates]) -> Estimate | None:
    """Return the relative change in cost: price over price, divided by rate over rate."""
    before, after = rates[result.baseline].per_hour, rates[result.configuration].per_hour
    pair = doc.bounds(result.effect)
    if not before or after is None or pair is None or result.effect is None or pair[0] <= -1:
        return None
    price = after / before
    return Estimate(
        value=price / (1 + result.effect.value) - 1,
        low=price / (1 + pair[1]) - 1,
        high=price / (1 + pair[0]) - 1,
    )


def money_clause(analysis: CampaignAnalysis, result: Comparison) -> str:
    """Return what a verdict comes to in money, for its card; empty where nobody knows."""
    found = analysis.answer(analyse_money) or Money()
    for each in found.changes:
        same = (each.configuration, each.workload) == (result.configuration, result.workload)
        if same and each.baseline == result.baseline and each.change is not None:
            pair = doc.bounds(each.change)
            between = "" if pair is None else f" ({doc.effect_range(*pair)})"
            price = _prices(analysis.experiment, result)
            return f"Cost of a {ONE}: {doc.effect_value(each.change)}{between}{price}"
    return ""


def _prices(experiment: Experiment, result: Comparison) -> str:
    rates = rates_of(experiment)
    before, after = rates[result.baseline], rates[result.configuration]
    if before.per_hour == after.per_hour:
        return f", at {format_money(after.per_hour, after.currency)} an hour for both"
    return (
        f", at {format_money(after.per_hour, after.currency)} an hour instead of"
        f" {format_money(before.per_hour, before.currency)}"
    )


def money_section(analysis: CampaignAnalysis) -> Sequence[doc.Section]:
    """Return the costs; nothing where nothing says what a server costs."""
    found = analysis.answer(analyse_money) or Money()
    if not found.cells:
        return ()
    blocks: tuple[doc.Block, ...] = (
        doc.Paragraph(text=_how_to_read(found)),
        _levels(analysis.experiment, found),
        *_changes(found),
    )
    return (doc.Section(anchor="money", title="Cost in money", blocks=blocks),)


def _how_to_read(found: Money) -> str:
    sources = dict.fromkeys(each.rates.source for each in found.cells)
    unknown = dict.fromkeys(told for each in found.cells for told in each.rates.missing)
    if any(each.rates.surplus_per_vcpu_hour is not None for each in found.cells):
        unknown |= {_UNSEEN: None}
    missing = f" Not known: {'; '.join(unknown)}." if unknown else ""
    return (
        f"What a million {MANY} cost where the measured rate is kept up for hours; prices from"
        f" {doc.enumeration(tuple(sources))}. A price by the month counts by its hours.{missing}"
    )


def _levels(experiment: Experiment, found: Money) -> doc.Table:
    return doc.table_of(
        found.cells,
        ("configuration", lambda each: each.configuration),
        ("cell", lambda each: place_name(experiment, each.cell)),
        (doc.number_column(RATE), lambda each: doc.rate(each.tps)),
        (
            doc.number_column("an hour"),
            lambda each: format_money(each.rates.per_hour, each.rates.currency),
        ),
        (
            doc.number_column("a million"),
            lambda each: format_money(each.total, each.rates.currency),
        ),
        (doc.number_column("95 % interval", spare=True), _between),
        (doc.Column(name="of which", spare=True), lambda each: "; ".join(_parts(each))),
        title=f"Cost per million {MANY}",
    )


def _between(cost: CellCost) -> str:
    if cost.low is None or cost.high is None:
        return doc.MISSING
    return f"{format_money(cost.low, '')} to {format_money(cost.high, '')}"


def _parts(cost: CellCost) -> Iterator[str]:
    for name, amount in () if cost.value is None else cost.value.parts:
        yield f"{name} {format_money(amount, '')}"


def _changes(found: Money) -> Iterator[doc.Table]:
    if not found.changes:
        return
    yield doc.table_of(
        found.changes,
        ("configuration", lambda each: each.configuration),
        ("workload", lambda each: each.workload),
        (doc.number_column("change"), lambda each: doc.effect_value(each.change)),
        (doc.number_column("95 % interval"), lambda each: doc.effect_interval(each.change)),
        ("why not known", lambda each: each.missing),
        title=f"Cost of a {ONE} against the baseline",
    )


def money_json(analysis: CampaignAnalysis) -> dict[str, doc.Json]:
    """Return the costs for programs; nothing where nothing says what a server costs."""
    found = analysis.answer(analyse_money) or Money()
    if not found.cells:
        return {}
    return {
        "money": {
            "cells": [_cell_json(each) for each in found.cells],
            "changes": [_change_json(each) for each in found.changes],
        }
    }


def _cell_json(cost: CellCost) -> dict[str, doc.Json]:
    parts = () if cost.value is None else cost.value.parts
    return {
        "configuration": cost.configuration,
        **doc.cell_json(cost.cell),
        "currency": cost.rates.currency,
        "prices": cost.rates.source,
        "per_hour": doc.number(cost.rates.per_hour),
        "per_million": doc.number(cost.total),
        "low_per_million": doc.number(cost.low),
        "high_per_million": doc.number(cost.high),
        "parts_per_million": {name: doc.number(amount) for name, amount in parts},
        "missing": list(cost.rates.missing),
    }


def _change_json(each: CostChange) -> dict[str, doc.Json]:
    return {
        "baseline": each.baseline,
        "configuration": each.configuration,
        "workload": each.workload,
        **doc.effect_json(each.change, "change"),
        "missing": each.missing or None,
    }


def cost_words(experiment: Experiment, seconds: float) -> str:
    """Return what the servers of a campaign cost, before it; empty where nothing says so."""
    cost = experiment.cost(seconds)
    if cost is None:
        return ""
    if cost.total is None:
        return f"not known: {'; '.join(cost.missing)}"
    missing = f"; besides, {'; '.join(cost.missing)}" if cost.missing else ""
    return (
        f"{format_money(cost.per_hour, cost.currency)} an hour, at most"
        f" {format_money(cost.total, cost.currency)} for {format_duration(seconds)}{missing}"
    )


def burst_words(experiment: Experiment, seconds: float) -> tuple[str, ...]:
    """Return what burst credits of the servers will hide in a campaign of this length."""
    told = (
        f"{each.name}: {sentence}"
        for each in experiment.configurations
        for sentence in each.target.hidden_by_burst(seconds)
    )
    return tuple(told)


def cost_json(experiment: Experiment, seconds: float) -> dict[str, doc.Json]:
    """Return the same for programs; nothing where nothing says what a server costs."""
    cost = experiment.cost(seconds)
    if cost is None:
        return {}
    return {
        "cost": {
            "per_hour": doc.number(cost.per_hour),
            "at_most": doc.number(cost.total),
            "seconds": doc.number(seconds),
            "currency": cost.currency or None,
            "missing": list(cost.missing),
        }
    }


_BALANCES: Final = ("BurstBalance", "EBSIOBalance%", "EBSByteBalance%", "CPUCreditBalance")
_SPENT: Final = 0.02  # of a balance: less is how it breathes; a guess
_SURPLUS: Final = "CPUSurplusCreditBalance"
_GUIDE: Final = '"Amazon RDS User Guide", sections "DB instance storage" and "DB instance classes"'
_SERIES_NOTE: Final = (
    "By CloudWatch, from the first run to the end, of the whole instance: all configurations on it,"
    " pauses between runs included. Averages of a minute, of credits of five. The last minutes may"
    " be missing."
)
_LOAD_NOTE: Final = (
    " db.load.avg is the mean number of active sessions by Performance Insights, all and by what"
    " they waited for: one look a second, means of a minute."
)
_BILLED_NOTE: Final = (
    f" {doc.enumeration(BILLED_REQUESTS)} are what Aurora bills, sums of five minutes: units of its"
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
                source=_GUIDE,
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
        message=f"{each.server}: {each.metric} fell from {_value_shown(each, first)} to"
        f" {_value_shown(each, least)} in {format_duration(took_s)}: the load was beyond what"
        f" lasts, and {left}",
        remedy="What was measured is burst. Add `sustain` for longer than that, or ask for fewer"
        " requests than the volume or class gives for good.",
        source=_GUIDE,
        subject="campaign",
    )


def provider_section(
    _: CampaignAnalysis, every: Sequence[ProviderSeries]
) -> tuple[doc.Section, ...]:
    """Return a row for each metric, and what was not published, which is not 0."""
    title = "What AWS saw"
    columns = (
        *(doc.Column(name=name) for name in ("instance", "configurations", "metric")),
        *(doc.number_column(name) for name in ("mean", "least", "most", "last", "minutes")),
    )
    published = [each for each in every if each.values]
    blocks: list[doc.Block] = []
    if published:
        rows = tuple(doc.Row(cells=_series_cells(each)) for each in published)
        note = _SERIES_NOTE + (_BILLED_NOTE if any(each.is_billed for each in published) else "")
        note += _LOAD_NOTE if any(each.unit == "sessions" for each in published) else ""
        blocks.append(doc.Table(title=title, columns=columns, rows=rows, note=note))
    for server in dict.fromkeys(each.server for each in every):
        missing = tuple(e.metric for e in every if e.server == server and not e.values)
        if missing:
            told = f"{server}: not published, which is not 0: {doc.enumeration(missing)}."
            blocks.append(doc.Paragraph(text=told))
    return (doc.Section(anchor="provider", title=title, blocks=tuple(blocks)),)


def _series_cells(each: ProviderSeries) -> tuple[str, ...]:
    mean = sum(each.values) / len(each.values)
    told = (mean, min(each.values), max(each.values), each.values[-1])
    return (
        each.server,
        ", ".join(each.configurations),
        each.metric,
        *(_value_shown(each, value) for value in told),
        f"{len(each.values) * each.period_s / SECONDS_PER_MINUTE:.0f}",
    )


def _value_shown(each: ProviderSeries, value: float) -> str:
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


def provider_json(every: Sequence[ProviderSeries]) -> dict[str, doc.Json]:
    """Return all points, s since the epoch and value."""
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
