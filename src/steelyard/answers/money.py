"""What transactions cost in money, where a file or a price list says what servers cost.

A level is the price of the rate that was measured, kept up for hours. Two sides are set against
each other by the effect within blocks, never by their levels.

What the provider of a server saw of it is here, too: its own counts, minute by minute, beside ours.
They are of the whole instance, with everything that ran on it: of all configurations that it had.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Annotated, ClassVar, Final

from steelyard.answers.results import CampaignAnalysis, CellSummary, Comparison, Grounds, place_name
from steelyard.core.experiment import MANY, ONE, RATE, Experiment
from steelyard.core.findings import Estimate, Finding, Severity
from steelyard.core.measurement import (
    BILLED_REQUESTS,
    BURST_BALANCES,
    ProviderSeries,
    Run,
    SustainedRun,
)
from steelyard.core.money import (
    PER_MILLION,
    Rates,
    TransactionCost,
    Use,
    format_money,
    transaction_cost,
)
from steelyard.core.quantities import INLINE, OPTIONAL, PERCENT, Computed, Named
from steelyard.core.schedule import (
    BaselineName,
    CellKey,
    ConfigurationName,
    Missing,
    WorkloadName,
)
from steelyard.core.wording import MS_PER_S, SECONDS_PER_MINUTE, format_bytes, format_duration
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.report.texts import Texts

_TEXTS: Final = Texts(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCost:
    """What a million transactions of a configuration cost in a cell.

    Attributes:
        tps: The rate behind it.
        value: With its parts; None where nothing was measured.
        low: At the upper bound of the rate; None below 6 blocks, or where a part is not known.
        high: At its lower bound, likewise.
    """

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    rates: Annotated[Rates, INLINE]
    tps: float | None
    value: TransactionCost | None
    per_million: ClassVar = Computed(
        lambda cost: cost.total,
        Annotated[
            float | None,
            "Cost of a million transactions at the measured rate; null: a part is not known.",
        ],
    )
    low: Annotated[float | None, Named("low_per_million"), "Its lower bound."] = None
    high: Annotated[float | None, Named("high_per_million"), "Its upper bound."] = None
    parts: ClassVar = Computed(
        lambda cost: {} if cost.value is None else dict(cost.value.parts),
        Annotated[Mapping[str, float | None], Named("parts_per_million"), "Its parts by name."],
    )
    unknown: ClassVar = Computed(
        lambda cost: cost.rates.missing,
        Annotated[tuple[str, ...], Named("missing"), "Prices that are not known."],
    )

    @property
    def total(self) -> float | None:
        """Return what a million cost in all; None where it is not known."""
        return None if self.value is None else self.value.total


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChange:
    """How much more or less a transaction costs under a configuration, pooled over loads.

    Attributes:
        change: With the interval of the effect; None where it is not known.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    workload: WorkloadName
    change: Annotated[Estimate | None, PERCENT, INLINE, "Relative change, %; null: not known."]
    missing: Missing = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IoBill:
    """The cost of a cluster's I/O in the whole campaign.

    Attributes:
        ios: All from its making on.
    """

    configurations: Annotated[tuple[str, ...], "Names of the configurations."]
    ios: Annotated[float, "Billed I/Os, those of loading and warm-ups too."]
    seconds: Annotated[float, "Total length of the published periods, s."]
    transactions: Annotated[float, "Transactions of the runs on it, those of warm-ups left out."]
    rates: Rates
    cost: ClassVar = Computed(
        lambda bill: bill.amount, Annotated[float, Named("amount"), "Their cost."]
    )
    currency: ClassVar = Computed(
        lambda bill: bill.rates.currency, Annotated[str, "Currency of the amounts."]
    )
    by_million: ClassVar = Computed(
        lambda bill: bill.per_million,
        Annotated[
            float | None,
            Named("per_million"),
            "Their cost for a million of the transactions; null: the cluster has no transactions.",
        ],
    )

    @property
    def amount(self) -> float:
        """Return their cost."""
        return self.ios / PER_MILLION * (self.rates.io_per_million or 0.0)

    @property
    def per_million(self) -> float | None:
        """Return their cost for a million of its transactions; None: it has no transactions."""
        return self.amount / self.transactions * PER_MILLION if self.transactions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """All costs of a campaign; empty where nothing says what a server costs."""

    cells: Annotated[
        tuple[CellCost, ...], "A row for each configuration with a price and each closed load."
    ] = ()
    changes: Annotated[
        tuple[CostChange, ...],
        "Cost of a transaction against the baseline, pooled over loads, by the effect within"
        " blocks.",
    ] = ()
    bills: Annotated[
        tuple[IoBill, ...],
        Named("io"),
        OPTIONAL,
        "A row for each Aurora cluster whose I/O is billed: all I/O of the campaign, as far as it"
        " was published.",
    ] = ()


def analyse_money(grounds: Grounds) -> Money:
    """Return what transactions cost."""
    analysis = grounds.analysis
    rates = rates_of(analysis.experiment)
    if not rates:
        return Money()
    return Money(
        cells=tuple(
            _cell(cell, rates[name], _use_of(grounds, name, cell.cell))
            for cell in analysis.cells
            if (name := cell.configuration) in rates and not cell.cell.load.is_open
        ),
        changes=tuple(_change(each, rates) for each in analysis.results),
        bills=tuple(_bills(grounds, rates)),
    )


def rates_of(experiment: Experiment) -> dict[str, Rates]:
    """Return what servers cost, by configuration; those without a price are left out."""
    costs = {each.name: each.target.cost for each in experiment.configurations}
    return {name: cost for name, cost in costs.items() if cost is not None}


def _billed(grounds: Grounds, name: str) -> tuple[float, Mapping[float, float]]:
    """Return the period, and the billed I/Os of a configuration's cluster by its start.

    Reads and writes are billed together, so a period counts where both are known.
    """
    series = [e for e in grounds.record.provider if e.is_billed and name in e.configurations]
    values = [dict(zip(each.starts_s, each.values, strict=True)) for each in series]
    if len(values) < len(BILLED_REQUESTS):
        return 0.0, {}
    starts = sorted(set.intersection(*map(set, values)))
    return series[0].period_s, {start: sum(each[start] for each in values) for start in starts}


def _use_of(grounds: Grounds, name: str, cell: CellKey) -> Use:
    """Return the I/O of a configuration in a cell, where its provider counted it.

    Periods count that lie wholly inside the measured part of a run. They are set against as many
    seconds of that run's rate. A run in turns has none: each of its turns is shorter.
    """
    period_s, billed = _billed(grounds, name)
    if not billed:
        return Use()
    record = grounds.record
    runs: list[tuple[Run | SustainedRun, float]] = [(run, run.ramp_s) for run in record.sustained]
    runs += [
        (run, record.experiment.measure.discard_start_s) for run in record.runs if not run.turns
    ]
    ios = transactions = 0.0
    for run, ramp_s in runs:
        measured = run.measurement
        if (run.configuration, run.cell) != (name, cell) or measured is None:
            continue
        begin = run.started_at + ramp_s + (measured.connection_s or 0.0)
        end = begin + measured.seconds
        inside = [n for start, n in billed.items() if begin <= start and start + period_s <= end]
        ios += sum(inside)
        transactions += measured.tps * period_s * len(inside)
    return Use(ios_per_transaction=ios / transactions if transactions else None)


def _bills(grounds: Grounds, rates: Mapping[str, Rates]) -> Iterator[IoBill]:
    """Yield the bill of each cluster whose I/O has a price, as far as it was published."""
    record = grounds.record
    runs: list[Run | SustainedRun] = [*record.runs, *record.sustained]
    for server in dict.fromkeys(each.server for each in record.provider if each.is_billed):
        names = next(e.configurations for e in record.provider if e.server == server)
        price = next((rates[name] for name in names if name in rates), None)
        period_s, billed = _billed(grounds, names[0]) if names else (0.0, {})
        if price is None or price.io_per_million is None or not billed:
            continue
        yield IoBill(
            configurations=names,
            ios=sum(billed.values()),
            seconds=period_s * len(billed),
            transactions=sum(
                run.measurement.transactions + run.measurement.uncounted
                for run in runs
                if run.configuration in names and run.measurement is not None
            ),
            rates=price,
        )


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
        "the effect depends on the load: read the cells": result.depends_on_load,
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
        *(doc.Paragraph(text=_bill_words(each)) for each in found.bills),
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
        doc.numbers(RATE, lambda each: doc.rate(each.tps)),
        doc.numbers("an hour", lambda each: format_money(each.rates.per_hour, each.rates.currency)),
        doc.numbers("a million", lambda each: format_money(each.total, each.rates.currency)),
        doc.numbers("95 % interval", _between, spare=True),
        (doc.Column(name="of which", spare=True), lambda each: "; ".join(_parts(each))),
        title=f"Cost per million {MANY}",
        data=row_of,
    )


def _bill_words(bill: IoBill) -> str:
    money = partial(format_money, currency=bill.rates.currency)
    return (
        f"{doc.enumeration(bill.configurations)}: this campaign made"
        f" {bill.ios / PER_MILLION:,.1f} million I/Os = {money(bill.amount)}, as far as they were"
        f" published: {format_duration(bill.seconds)}. With loading, warm-ups and pauses, a million"
        f" of its {bill.transactions / PER_MILLION:,.3g} million {MANY} cost"
        f" {money(bill.per_million)} of I/O. The cells count whole periods of five minutes inside"
        " of runs; shorter runs have no I/O of their own."
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
        doc.numbers("change", lambda each: doc.effect_value(each.change)),
        doc.numbers("95 % interval", lambda each: doc.effect_interval(each.change)),
        ("why not known", lambda each: each.missing),
        title=f"Cost of a {ONE} against the baseline",
        data=row_of,
    )


def known(analysis: CampaignAnalysis) -> Money | None:
    """Return the costs, if a price list or the file says what a server costs."""
    found = analysis.answer(analyse_money)
    return found if found is not None and found.cells else None


def cost_words(experiment: Experiment, seconds: float) -> str:
    """Return what the servers of a campaign cost, before it; empty where nothing says so."""
    cost = experiment.cost(seconds)
    if cost is None:
        return ""
    if cost.standing is None:
        return f"not known: {'; '.join(cost.missing)}"
    money = partial(format_money, currency=cost.currency)
    used = doc.enumeration(tuple(f"{money(e)} for {name}" for name, e in cost.by_use.items() if e))
    bound = "" if cost.at_most is None else "at most "
    amount = money(cost.standing if cost.at_most is None else cost.at_most)
    beside = doc.enumeration((*cost.missing, *cost.not_counted))
    return (
        f"{money(cost.per_hour)} an hour, {bound}{amount} for {format_duration(seconds)}"
        + (f", with {used}" if used and bound else "")
        + (f"; not counted: {beside}" if beside else "")
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
            "at_most": doc.number(cost.at_most),
            "standing": doc.number(cost.standing),
            "by_use": {name: doc.number(amount) for name, amount in cost.by_use.items()},
            "seconds": doc.number(seconds),
            "currency": cost.currency or None,
            "missing": list(cost.missing),
            "not_counted": list(cost.not_counted),
        }
    }


_BALANCES: Final = (*BURST_BALANCES, "EBSByteBalance%", "CPUCreditBalance")
_SPENT: Final = 0.02  # of a balance: less is how it breathes; a guess
_LEAST_BALANCE = 1.0  # a credit, or a percent of a bucket: less was spent before
_SURPLUS: Final = "CPUSurplusCreditBalance"
_GUIDE: Final = '"Amazon RDS User Guide", sections "DB instance storage" and "DB instance classes"'


def provider_series(grounds: Grounds) -> tuple[ProviderSeries, ...]:
    """Return what providers counted; empty where no server has one that does."""
    return grounds.record.provider


def provider_findings(grounds: Grounds) -> Iterator[Finding]:
    """Yield balances that were spent: what was measured then is burst; and what is billed of it."""
    for bill in _bills(grounds, rates_of(grounds.record.experiment)):
        most = bill.rates.ios_at_most
        if most is not None and bill.ios > most * bill.seconds:
            yield Finding(
                code="io-beyond-limit",
                severity=Severity.WARNING,
                message=f"{doc.enumeration(bill.configurations)}: {bill.ios / bill.seconds:,.0f}"
                f" I/Os a second were billed in the mean, and `io_at_most` is {most:,.0f}: the"
                " campaign cost more than its ceiling has for I/O",
                remedy="Write a larger `io_at_most`, or take `io_optimized: true`.",
                source=_GUIDE,
                subject="campaign",
            )
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
    if first - least <= _SPENT * first or first < _LEAST_BALANCE or took_s <= 0.0:
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
    published = [each for each in every if each.values]
    blocks: list[doc.Block] = []
    if published:
        note = _TEXTS.series(
            is_billed=any(each.is_billed for each in published),
            has_load=any(each.unit == "sessions" for each in published),
        )
        blocks.append(_series_table(published, title, note))
    for server in dict.fromkeys(each.server for each in every):
        missing = tuple(e.metric for e in every if e.server == server and not e.values)
        if missing:
            told = f"{server}: not published, which is not 0: {doc.enumeration(missing)}."
            blocks.append(doc.Paragraph(text=told))
    return (doc.Section(anchor="provider", title=title, blocks=tuple(blocks)),)


_OF_SERIES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": fmean,
    "least": min,
    "most": max,
    "last": lambda values: values[-1],
}


def _series_table(published: Sequence[ProviderSeries], title: str, note: str) -> doc.Table:
    def shown(of: Callable[[Sequence[float]], float], series: ProviderSeries) -> str:
        return _value_shown(series, of(series.values))

    def minutes(series: ProviderSeries) -> float:
        return len(series.values) * series.period_s / SECONDS_PER_MINUTE

    return doc.table_of(
        published,
        ("instance", lambda each: each.server),
        doc.column("configurations", lambda each: ", ".join(each.configurations)),
        ("metric", lambda each: each.metric),
        *(doc.numbers(name, partial(shown, of)) for name, of in _OF_SERIES.items()),
        doc.column("minutes", minutes, doc.Form(show="{:.0f}".format)),
        title=title,
        note=note,
        data=lambda each: (
            *row_of(each),
            *((name, doc.number(of(each.values))) for name, of in _OF_SERIES.items()),
        ),
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
