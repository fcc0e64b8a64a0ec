"""Checks of claims that compare configurations: changes, sameness, controls, order, columns."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from steelyard.answers.claims.grounds import (
    LEVEL,
    Case,
    Check,
    Grade,
    Note,
    apart,
    asserted,
    by_configuration,
    contrast,
    halved,
    named,
    noise_levels,
    rounded,
    spread_of,
)
from steelyard.answers.claims.statements import (
    Change,
    Constant,
    Control,
    LackingError,
    Noise,
    Order,
    Same,
    Series,
    figure_of,
)
from steelyard.core.published import (
    Metric,
    Printed,
    PublishedRow,
    exactly,
    metric_of,
    parse_printed,
    parse_ratio,
)
from steelyard.core.wording import format_percent
from steelyard.report.document import count, effect_range


def _sides(
    case: Case, change: Change | Same, names: Sequence[str]
) -> list[tuple[PublishedRow, ...]]:
    return [
        case.rows(workload=change.workload, clients=change.clients, configuration=name or "-")
        for name in names
    ]


def _ratio(ours: Sequence[PublishedRow], theirs: Sequence[PublishedRow], metric: str) -> Printed:
    """Return one side over the other: by means, as wide as by medians and geometric means."""
    mean, *others = (
        _centre(ours, metric, centre) / _centre(theirs, metric, centre) for centre in _CENTRES
    )
    return Printed(
        value=mean.value,
        low=min(each.low for each in (mean, *others)),
        high=max(each.high for each in (mean, *others)),
    )


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if min(values) > 0.0 else float(np.mean(values))


_CENTRES: Final[tuple[Callable[[Sequence[float]], float], ...]] = (
    lambda values: float(np.mean(values)),
    lambda values: float(np.median(values)),
    _geometric,
)


def _centre(
    rows: Sequence[PublishedRow],
    metric: str,
    centre: Callable[[Sequence[float]], float] = _CENTRES[0],
) -> Printed:
    found = [figure for row in rows if (figure := row.figure(metric)) is not None]
    if not found:
        raise LackingError(f"the tables hold no {metric_of(metric).title} of it")
    return Printed(
        value=centre([each.value for each in found]),
        low=centre([each.low for each in found]),
        high=centre([each.high for each in found]),
    )


# --- a stated change ---


def _delta(case: Case, change: Change) -> Iterator[Note]:
    ours, theirs = _sides(case, change, (change.of, change.against))
    metric = metric_of(change.metric)
    given = _ratio(ours, theirs, change.metric)
    levels = [_centre(side, change.metric).value for side in (ours, theirs)]
    told = f"{_pair(levels, ' against ', metric)} is {_change(given)}"
    numbers = {"change_percent": 100.0 * (given.value - 1.0), "ratio": given.value}
    for stated in change.stated:
        follows = given.may_be(parse_ratio(stated))
        where = "" if follows else _elsewhere(case, change, stated)
        text = f"{told}, as stated" if follows else f"{told}, not {stated}{where}"
        grade = Grade.FOLLOWS if follows else Grade.CONTRADICTS
        yield case.note("stated-change", grade, text, numbers)


def _pair(levels: Sequence[float], between: str, metric: Metric) -> str:
    """Return two figures with one unit."""
    told = between.join(rounded(level * metric.per_shown) for level in levels)
    return f"{told} {metric.in_words}".strip()


def _change(ratio: Printed) -> str:
    if ratio.value >= 3.0:
        return f"{rounded(float(halved(ratio.value, 1)))} times as much"
    return format_percent(ratio.value - 1.0)


def _elsewhere(case: Case, change: Change, stated: str) -> str:
    """Return which other reading of the same table gives the stated figure, if one does."""
    ratio = parse_ratio(stated)
    size = ratio - exactly(1.0)
    found = by_configuration(case.rows(workload=change.workload, clients=change.clients))
    ours, theirs = (found[name] for name in (change.of, change.against))
    back = _ratio(theirs, ours, change.metric)
    if size.may_be(exactly(1.0) - back) or size.may_be(back - exactly(1.0)):
        return (
            f": that is the same difference seen from {change.of}"
            f" ({format_percent(back.value - 1.0)})"
        )
    if size.may_be(back):
        share = f"{100.0 * back.value:.1f} %"
        return f": {share} is what {change.against} has of {change.of}, not how much it lacks"
    for name, rows in found.items():
        for one, two in ((ours, rows), (rows, theirs)):
            if name not in (change.of, change.against):
                other = _ratio(one, two, change.metric)
                if other.may_be(ratio):
                    whom = "against" if one is ours else "of"
                    metric = metric_of(change.metric)
                    level = rounded(_centre(rows, change.metric).value * metric.per_shown)
                    return f": that holds only {whom} the {level} of {name} ({_change(other)})"
    return ": no pair of this table gives it"


def _several_figures(case: Case, change: Change) -> Iterator[Note]:
    if len(change.stated) > 1:
        told = named(change.stated)
        text = f"one quantity, {len(change.stated)} figures: {told}; one at most can be right"
        yield case.note("two-figures", Grade.CONTRADICTS, text)


def _within_noise(case: Case, change: Change) -> Iterator[Note]:
    ours, theirs = _sides(case, change, (change.of, change.against))
    interval = contrast(ours, theirs, LEVEL, change.metric)
    if interval is not None:
        low, high = (float(np.expm1(each)) for each in (interval.low, interval.high))
        inside = low <= 0.0 <= high
        text = (
            f"the interval from {count(min(len(ours), len(theirs)), 'run')} is"
            f" {effect_range(low, high)} (95 %)"
        )
        text += ", which includes no change" if inside else ""
        grade = Grade.UNDECIDED if inside else Grade.FOLLOWS
        yield case.note("within-noise", grade, text)
        return
    given = _ratio(ours, theirs, change.metric)
    yield case.note("one-run", Grade.LIMIT, _one_run(ours, theirs))
    if apart(given.value) <= case.floor.spread:
        text = f"{format_percent(given.value - 1.0)} is below the noise floor of {case.floor.words}"
        yield case.note("within-noise", Grade.UNDECIDED, text)


def _one_run(ours: Sequence[PublishedRow], theirs: Sequence[PublishedRow]) -> str:
    fewest = min(len(ours), len(theirs))
    averaged = ours[0].clients is None and fewest == 1
    runs = "one run in each of the cells of an average" if averaged else "one run on a side"
    return f"{runs}: n = 1, no interval"


# --- noise, sameness, controls ---


def _noise(case: Case, noise: Noise) -> Iterator[Note]:
    levels = noise_levels(case.publication, case.claim.article, noise)
    spread, metric = spread_of(levels), metric_of(noise.metric)
    text = (
        f"{_pair((min(levels), max(levels)), ' to ', metric)}: a spread of"
        f" {100.0 * spread:.1f} %, which is then the noise floor of a single run that was not"
        f" repeated{_by_clients(case, noise)}"
    )
    numbers = {"spread_percent": 100.0 * spread}
    yield case.note("noise-floor", Grade.LIMIT, text, numbers)


def _by_clients(case: Case, noise: Noise) -> str:
    every = case.publication.rows
    clients = {row.clients for row in every if row.workload == noise.workload}
    spreads = {}
    for each in sorted(c for c in clients if c is not None):
        rows = case.rows(workload=noise.workload, clients=each)
        values = [f.value for r in rows if r.configuration in noise.among for f in _of(r, noise)]
        if len(values) == len(noise.among):
            spreads[each] = spread_of(values)
    if len(spreads) < 2:
        return ""
    worst = max(spreads, key=lambda each: spreads[each])
    least = min(spreads.values())
    return f"; by clients {100 * least:.1f} to {100 * spreads[worst]:.1f} %, most with {worst}"


def _of(row: PublishedRow, noise: Noise) -> list[Printed]:
    figure = row.figure(noise.metric)
    return [] if figure is None else [figure]


def _same(case: Case, same: Same) -> Iterator[Note]:
    first, *others = _sides(case, same, same.among)
    metric = metric_of(same.metric)
    for name, rows in zip(same.among[1:], others, strict=True):
        ratio = _ratio(rows, first, same.metric)
        levels = [_centre(side, same.metric).value for side in (first, rows)]
        told = _pair(levels, " to ", metric)
        change = f"{told} ({format_percent(ratio.value - 1.0)}, {name})"
        if apart(ratio.value) > case.floor.spread:
            text = f"{change}: a difference beyond the noise floor of {case.floor.words}"
            yield case.note("sameness", Grade.CONTRADICTS, text)
        else:
            text = (
                f"{change}, {format_percent(1.0 / ratio.value - 1.0)} the other way round: below"
                f" the noise floor of {case.floor.words}, so it says nothing either way;"
                " no clear difference is not equality"
            )
            yield case.note("sameness", Grade.UNDECIDED, text)


def _control(case: Case, control: Control) -> Iterator[Note]:
    before = case.value(control.before)
    after = [case.value(text) for text in control.after]
    moved = [apart(each.value / before.value) for each in after if before.value > 0.0]
    least, most = (f(each.value for each in after) for f in (min, max))
    told = f"{control.workload} {rounded(before.value)} before, {rounded(least)} to"
    told += f" {rounded(most)} after ({', '.join(rounded(each.value) for each in after)})"
    if max(moved, default=0.0) > case.floor.spread:
        text = (
            f"{told}, although nothing that was changed can reach it: a negative control that"
            f" moves beyond the noise floor of {case.floor.words}. The arms differ in something"
            " else"
        )
        yield case.note("control-moves", Grade.CONTRADICTS, text)
    else:
        text = f"{told}: the negative control stays within the noise floor of {case.floor.words}"
        yield case.note("control-moves", Grade.FOLLOWS, text)


# --- shapes over loads ---


def _loads(case: Case, workload: str) -> list[int]:
    study_of = case.publication.study_of
    study = study_of(case.claim.article)
    return sorted(
        {
            row.clients
            for row in case.publication.rows
            if row.workload == workload and row.clients is not None and study_of(row.study) == study
        }
    )


def _cell(case: Case, workload: str, clients: int, name: str, metric: str) -> Printed | None:
    """Return a figure; None where it was not published."""
    rows = case.rows(workload=workload, clients=clients, configuration=name)
    try:
        return figure_of(rows, metric)
    except LackingError:
        return None


def _order(case: Case, order: Order) -> Iterator[Note]:
    metric = metric_of(order.metric)
    lost, compared = [], 0
    for workload in order.workloads:
        for clients in _loads(case, workload):
            best = _cell(case, workload, clients, order.best, order.metric)
            for name in order.others:
                other = _cell(case, workload, clients, name, order.metric)
                if best is None or other is None:
                    continue
                compared += 1
                worse = (
                    best.value > other.value if metric.less_is_better else best.value < other.value
                )
                if worse:
                    lost.append(
                        f"{workload} with {clients} clients: {name} {rounded(other.value)} against"
                        f" {rounded(best.value)} {metric.in_words}"
                    )
    if not compared:
        raise LackingError(f"no cell holds {order.best} and another one")
    if lost:
        text = f"in {len(lost)} of {compared} cells another one is better: {'; '.join(lost)}"
        yield case.note("order", Grade.CONTRADICTS, text)
    else:
        yield case.note("order", Grade.FOLLOWS, f"so it is in all {compared} cells")


def _constant(case: Case, constant: Constant) -> Iterator[Note]:
    metric = metric_of(constant.metric)
    least, most = (parse_printed(text) for text in (constant.least, constant.most))
    outside = compared = 0
    lines = []
    for workload in constant.workloads:
        for more, less in constant.pairs:
            found = {}
            for clients in _loads(case, workload):
                sides = [
                    _cell(case, workload, clients, name, constant.metric) for name in (more, less)
                ]
                if sides[0] is not None and sides[1] is not None:
                    found[clients] = (sides[0] - sides[1]).times(metric.per_shown)
            compared += len(found)
            outside += sum(each.high < least.low or each.low > most.high for each in found.values())
            told = ", ".join(_signed(each.value) for each in found.values())
            loads = ", ".join(map(str, found))
            lines.append(
                f"{workload}, {more} minus {less} with {loads} clients: {told} {metric.unit}"
            )
    if not compared:
        raise LackingError("no cell holds both configurations")
    text = f"outside in {outside} of {compared} cells. {'; '.join(lines)}"
    yield case.note("constant", Grade.CONTRADICTS if outside else Grade.FOLLOWS, text)


def _signed(value: float) -> str:
    return f"{halved(value, 1 if abs(value) >= 1 else 2):+}"


def _series(case: Case, series: Series) -> Iterator[Note]:
    stated = [parse_printed(text) for text in series.stated]
    metric = metric_of(series.metric)
    loads = _loads(case, series.workload)
    columns: dict[str, list[Printed]] = {}
    for name in dict.fromkeys(row.configuration for row in case.publication.rows):
        cells = [_cell(case, series.workload, clients, name, series.metric) for clients in loads]
        whole = [cell for cell in cells if cell is not None]
        if len(whole) == len(stated):
            columns[name] = whole
    if series.of not in columns:
        raise LackingError(f"no column of {len(stated)} figures for {series.of}")
    scaled = {
        name: [cell.times(metric.per_shown) for cell in column] for name, column in columns.items()
    }
    if _equal(scaled[series.of], stated):
        text = f"the table of {series.of} holds the same {len(stated)} figures"
        yield case.note("copied-column", Grade.FOLLOWS, text)
        return
    copies = [name for name, column in scaled.items() if _equal(column, stated)]
    own = " ".join(rounded(cell.value).replace(",", "") for cell in scaled[series.of])
    whose = f"these are the figures of {named(copies)}; " if copies else ""
    text = f"{whose}{series.of} has {own}{_latency_too(case, series, loads, copies)}"
    yield case.note("copied-column", Grade.CONTRADICTS, text)


def _equal(column: Sequence[Printed], stated: Sequence[Printed]) -> bool:
    return all(cell.may_be(each) for cell, each in zip(column, stated, strict=True))


def _latency_too(case: Case, series: Series, loads: Sequence[int], copies: Sequence[str]) -> str:
    """Return that clients over the stated rates are the latencies of the same configuration."""
    if series.metric != "tps" or not copies:
        return ""
    metric = metric_of("latency_mean")
    implied = [exactly(n) / parse_printed(s) for n, s in zip(loads, series.stated, strict=True)]
    cells = [_cell(case, series.workload, clients, copies[0], metric.name) for clients in loads]
    if not all(c is not None and c.may_be(i) for c, i in zip(cells, implied, strict=True)):
        return ""
    told = ", ".join(rounded(each.value * metric.per_shown) for each in implied)
    return (
        f". Clients over the stated rates are {told} {metric.unit}, which are the latencies of"
        f" {copies[0]}, too"
    )


def _averaged(case: Case, change: Change) -> Iterator[Note]:
    parts = change.workload.split("+")
    if len(parts) > 1:
        text = (
            f"an average over {named([part.strip() for part in parts])}: different work makes no"
            " one number, and which of it weighs how much nobody chose"
        )
        yield case.note("averaged-workloads", Grade.LIMIT, text)


COMPARISON_CHECKS: Final = (
    Check(
        id="stated-change",
        needs="Both figures, and the change that is stated",
        finds="A stated change does not follow from the two figures, whatever their rounding.",
        examine=asserted(Change, _delta),
    ),
    Check(
        id="within-noise",
        needs="Both figures; repeats, or conditions that should be equal",
        finds="The interval of a change includes none, or a single run differs by less than the"
        " noise floor.",
        examine=asserted(Change, _within_noise),
    ),
    Check(
        id="noise-floor",
        needs="Configurations whose differences are called noise",
        finds="Their spread, which is then what a single run cannot tell from noise.",
        examine=asserted(Noise, _noise),
    ),
    Check(
        id="sameness",
        needs="Both figures",
        finds="What is called equal differs, or is below the noise floor and thus not decided.",
        examine=asserted(Same, _same),
    ),
    Check(
        id="control-moves",
        needs="A workload that nothing changed can reach, before and after",
        finds="It differs by more than noise: the sides differ in something else.",
        examine=asserted(Control, _control),
    ),
    Check(
        id="order",
        needs="The cells of both by load",
        finds="What is called better everywhere is not, in some cell.",
        examine=asserted(Order, _order),
    ),
    Check(
        id="constant",
        needs="The cells of both by load",
        finds="A difference that is stated as one figure depends on the load.",
        examine=asserted(Constant, _constant),
    ),
    Check(
        id="copied-column",
        needs="A column with at least three loads",
        finds="A column holds the figures of another configuration.",
        examine=asserted(Series, _series),
    ),
    Check(
        id="averaged-workloads",
        needs="The workloads of an average",
        finds="Different workloads are averaged into one number.",
        examine=asserted(Change, _averaged),
    ),
    Check(
        id="two-figures",
        needs="A quantity that is stated more than once",
        finds="One quantity has two figures that no rounding brings together.",
        examine=asserted(Change, _several_figures),
    ),
)
