"""Checks of tables: what their rows cannot be, or cannot say, whatever is claimed of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from steelyard.answers.claims.grounds import (
    Cell,
    Check,
    Grade,
    Note,
    apart,
    by_configuration,
    cells_of,
    contrast,
    floor_of,
    grouped,
    named,
    rate_of,
    rates_of,
    rounded,
    spread_of,
)
from steelyard.answers.claims.statements import Publication
from steelyard.core.published import Printed, PublishedRow
from steelyard.core.wording import format_percent
from steelyard.report.document import count, effect_range

# All tests of one table together are wrong at most at this level: METHOD 3.3 prints it as 95 %.
_TABLE_LEVEL: Final = 0.04
_LEAST_NOISE: Final = 0.01  # two runs of anything differ by as much; below it a copy seems likely
_COPY_CHANCE: Final = 1e-4
_OVER_CLIENTS: Final = 1.05  # more are never in flight; the rest is the tool's own rounding
_UNDER_CLIENTS: Final = 0.8  # below it the generator itself has a fifth of the time: a guess
# A full bucket of a gp2 volume (5.4 million I/O) lasts 30 min at 3,000 IOPS.
_SUSTAINED_S: Final = 1800.0
_AVERAGE_WORDS: Final = frozenset({"average", "avg", "overall", "all", "mean", "mixed", "total"})
_MOST_LINES: Final = 5


def _note(
    check: str,
    grade: Grade,
    text: str,
    rows: Iterable[PublishedRow] = (),
    numbers: Mapping[str, float] | None = None,
) -> Note:
    found = [f"{row.source}:{row.line}" for row in rows if row.line]
    told = (*found[:_MOST_LINES], *(("…",) if len(found) > _MOST_LINES else ()))
    return Note(check=check, grade=grade, text=text, lines=told, numbers=numbers or {})


def _one_run(publication: Publication) -> Iterator[Note]:
    sides = [
        rows for cell in cells_of(publication.rows) for rows in by_configuration(cell.rows).values()
    ]
    alone = [rows[0] for rows in sides if len(rows) == 1]
    if alone:
        text = (
            f"{len(alone)} of {count(len(sides), 'cell')} hold one figure: n = 1, no interval. What"
            " differs between two of them may be noise, and the table cannot say how much that is"
        )
        yield _note("one-run", Grade.LIMIT, text, alone)


def _in_flight(publication: Publication) -> Iterator[Note]:
    """Yield what Little's law says: in a closed loop rate x latency is the number of clients."""
    checked = [
        (row, clients) for row in publication.rows if (clients := _closed_clients(row)) is not None
    ]
    over = [(row, c) for row, c in checked if _busy(row).low > c * _OVER_CLIENTS]
    under = [(row, c) for row, c in checked if _busy(row).high < c * _UNDER_CLIENTS]
    if over:
        worst, clients = max(over, key=lambda each: _busy(each[0]).value / each[1])
        text = (
            f"in {_rows(len(over))} rate x mean latency is more than all clients can have in"
            f" flight, most {rounded(_busy(worst).value)} of {clients} ({worst.configuration}):"
            " rate, latency and clients are not of one run"
        )
        yield _note("littles-law", Grade.CONTRADICTS, text, [row for row, _ in over])
    if under:
        worst, clients = min(under, key=lambda each: _busy(each[0]).value / each[1])
        text = (
            f"in {_rows(len(under))} clients are not waiting for the server all the time, at worst"
            f" {rounded(_busy(worst).value)} of {clients} are ({worst.configuration},"
            f" {worst.workload}): the generator limits the rate, or latency leaves something out"
        )
        yield _note("littles-law", Grade.LIMIT, text, [row for row, _ in under])
    same = [row for row, clients in checked if _busy(row).low <= clients <= _busy(row).high]
    if len(same) == len(checked) > 1:
        text = f"in all {_rows(len(same))} mean latency is clients / rate: the two are one finding"
        yield _note("littles-law", Grade.FOLLOWS, text)


def _rows(number: int) -> str:
    return count(number, "row")


def _closed_clients(row: PublishedRow) -> int | None:
    """Return the clients of a row that Little's law speaks of, else None."""
    is_mean = row.statistic in ("", "mean", "one run")
    told = rate_of(row) is not None and row.figure("latency_mean") is not None
    return row.clients if told and is_mean and row.rate_per_s is None else None


def _busy(row: PublishedRow) -> Printed:
    """Return how many clients wait for an answer at a time."""
    rate, latency = row.figure("tps"), row.figure("latency_mean")
    assert rate is not None  # noqa: S101 - `_closed_clients` has seen both
    assert latency is not None  # noqa: S101
    return rate * latency


def _copies(publication: Publication) -> Iterator[Note]:
    """Yield columns that are equal figure by figure, where noise would not leave them so."""
    for (study, workload), rows in grouped(
        publication.rows, lambda row: (row.study, row.workload)
    ).items():
        columns: dict[frozenset[object], list[str]] = {}
        sides = by_configuration([row for row in rows if rate_of(row)])
        for name, own in sides.items():
            figures = frozenset((row.clients, row.repeat, row.block, rate_of(row)) for row in own)
            columns.setdefault(figures, []).append(name)
        pairs = len(sides) * (len(sides) - 1) / 2
        for names in columns.values():
            own = sides[names[0]]
            if len(names) > 1 and pairs * _chance(own) < _COPY_CHANCE:
                where = f"{workload or 'the workload'}{f' ({study})' if study else ''}"
                text = (
                    f"the same {count(len(own), 'figure')} for {where} stand under {named(names)}:"
                    " one column is a copy of another"
                )
                yield _note("copied-column", Grade.CONTRADICTS, text, sides[names[1]])


def _chance(rows: Sequence[PublishedRow]) -> float:
    """Return the chance that runs give these rounded rates again, with noise of 1 %."""
    chance = 1.0
    for row in rows:
        figure = row.figure("tps")
        if figure is not None and figure.value > 0.0:
            # Density of the difference of two normal values at 0, times the width of a rounding.
            deviation = _LEAST_NOISE * figure.value
            chance *= min(1.0, (figure.high - figure.low) / (deviation * 2.0 * np.sqrt(np.pi)))
    return chance


def _averages(publication: Publication) -> Iterator[Note]:
    rows = [row for row in publication.rows if _is_average(row)]
    if rows:
        names = tuple(dict.fromkeys(row.workload for row in rows))
        text = (
            f"{_rows(len(rows))} average over different workloads ({named(names)}): no server does"
            " that work, and the mean is that of the fastest workload most of all"
        )
        yield _note("averaged-workloads", Grade.LIMIT, text, rows)
    yield from _hidden_averages(publication)


def _is_average(row: PublishedRow) -> bool:
    return len(row.workloads) > 1 or row.workload.casefold() in _AVERAGE_WORDS


def _hidden_averages(publication: Publication) -> Iterator[Note]:
    """Yield workloads whose every figure is the mean of the others'."""
    plain = [row for row in publication.rows if rate_of(row) and not _is_average(row)]
    tables = grouped(plain, lambda row: (row.study, row.configuration, row.clients, row.repeat))
    seen: dict[tuple[str, str], list[bool]] = {}
    for (study, *_), rows in tables.items():
        by_workload = {row.workload: row for row in rows}
        if len(by_workload) < 3 or len(by_workload) != len(rows):
            continue
        for name, row in by_workload.items():
            others = [f for w, r in by_workload.items() if w != name if (f := r.figure("tps"))]
            mean = sum(each.value for each in others) / len(others)
            figure = row.figure("tps")
            half = sum(each.high - each.low for each in others) / len(others) / 2.0
            is_mean = figure is not None and figure.low - half <= mean <= figure.high + half
            seen.setdefault((study, name), []).append(is_mean)
    for (_, name), means in seen.items():
        if len(means) > 2 and all(means):
            text = f"each figure of {name} is the mean of the other workloads: it is no workload"
            yield _note("averaged-workloads", Grade.LIMIT, text)


def _several(publication: Publication) -> Iterator[Note]:
    changed = [row for row in publication.rows if len(row.changed) > 1]
    for (name, against, parts), (row, *_) in grouped(
        changed, lambda row: (row.configuration, row.against, row.changed)
    ).items():
        text = (
            f"{len(parts)} things differ between {name} and {against or 'the other one'}"
            f" ({'; '.join(parts)}): which of them did it, the figures cannot say"
        )
        yield _note("several-changes", Grade.LIMIT, text, (row,))


# --- what should not differ ---


def _controls(publication: Publication) -> Iterator[Note]:
    cells = [
        _part(cell, [row for row in cell.rows if row.is_control])
        for cell in cells_of(publication.rows)
    ]
    yield from _moves(publication, cells, "control-moves", "a negative control")


def _equals(publication: Publication) -> Iterator[Note]:
    cells = [
        _part(cell, rows)
        for cell in cells_of(publication.rows)
        for group, rows in grouped(cell.rows, lambda row: row.equal_group).items()
        if group
    ]
    repeated = [cell for cell in cells if _is_repeated(cell)]
    single = [spread_of(rates_of(cell.rows)) for cell in cells if cell not in repeated]
    if any(single):
        text = (
            f"conditions that should be equal differ by up to {100.0 * max(single):.1f} %: that is"
            " the noise floor of a single run"
        )
        numbers = {"spread_percent": 100.0 * max(single)}
        yield _note("noise-floor", Grade.LIMIT, text, numbers=numbers)
    yield from _moves(publication, repeated, "equal-differs", "a condition that should be equal")


def _part(cell: Cell, rows: Sequence[PublishedRow]) -> Cell:
    return Cell(study=cell.study, workload=cell.workload, clients=cell.clients, rows=tuple(rows))


def _is_repeated(cell: Cell) -> bool:
    return all(len(rows) > 1 for rows in by_configuration(cell.rows).values())


def _moves(
    publication: Publication, cells: Sequence[Cell], check: str, what: str
) -> Iterator[Note]:
    """Yield cells in which configurations differ that nothing makes different."""
    pairs = [
        (cell, name, rows, first) for cell in cells for name, rows, first in _against_first(cell)
    ]
    level = _TABLE_LEVEL / 2.0 / max(len(pairs), 1)  # half for controls, half for equal conditions
    for cell, name, rows, first in pairs:
        told = _told_apart(publication, cell, (rows, first), level)
        if told:
            whom = first[0].configuration
            text = f"{cell.title}: {what} differs between {whom} and {name}, {told}"
            yield _note(check, Grade.CONTRADICTS, text, rows)


def _against_first(
    cell: Cell,
) -> Iterator[tuple[str, tuple[PublishedRow, ...], tuple[PublishedRow, ...]]]:
    sides = by_configuration(cell.rows)
    for name, rows in list(sides.items())[1:]:
        yield name, rows, next(iter(sides.values()))


def _told_apart(
    publication: Publication,
    cell: Cell,
    sides: tuple[tuple[PublishedRow, ...], tuple[PublishedRow, ...]],
    level: float,
) -> str:
    """Return by how much two sides differ beyond noise; empty where they do not."""
    interval = contrast(*sides, level)
    if interval is not None:
        low, high = (float(np.expm1(each)) for each in (interval.low, interval.high))
        return "" if low <= 0.0 <= high else f"by {effect_range(low, high)}"
    ratio = _mean_rate(sides[0]) / _mean_rate(sides[1])
    spread = floor_of(publication, cell.study).spread
    if apart(ratio) <= spread:
        return ""
    return f"by {format_percent(ratio - 1.0)}, more than the {100 * spread:.1f} % of a single run"


def _mean_rate(rows: Sequence[PublishedRow]) -> float:
    return float(np.mean(rates_of(rows)))


# --- units, times, statistics ---


def _units(publication: Publication) -> Iterator[Note]:
    for cell in cells_of(publication.rows):
        units = tuple(dict.fromkeys(row.unit for row in cell.rows if row.unit))
        if len(units) > 1:
            text = f"{cell.title} counts {named(units)}: rates in different units are not compared"
            yield _note("units-differ", Grade.CONTRADICTS, text, cell.rows)


def _periods(publication: Publication) -> Iterator[Note]:
    for rows in grouped(publication.rows, lambda row: row.study).values():
        paid = {
            row.configuration: (row, row.cost.value, row.cost_hours)
            for row in rows
            if row.cost is not None and row.cost_hours is not None
        }
        if len({hours for _, _, hours in paid.values()}) > 1:
            told = "; ".join(
                f"{name} {rounded(cost)} for {hours:g} hours, {rounded(cost / hours)} an hour"
                for name, (_, cost, hours) in paid.items()
            )
            text = f"costs of different times stand side by side: {told}"
            yield _note(
                "periods-differ", Grade.CONTRADICTS, text, [row for row, *_ in paid.values()]
            )


def _maxima(publication: Publication) -> Iterator[Note]:
    rows = [row for row in publication.rows if row.statistic == "max"]
    if rows:
        text = (
            f"{_rows(len(rows))} {'is' if len(rows) == 1 else 'are'} the best of several runs: a"
            " maximum is one run, and grows with their number"
        )
        yield _note("maximum", Grade.LIMIT, text, rows)


def _bursts(publication: Publication) -> Iterator[Note]:
    rows = [
        row
        for row in publication.rows
        if row.is_burstable and (row.seconds is None or row.seconds < _SUSTAINED_S)
    ]
    if rows:
        known = [row.seconds for row in rows if row.seconds is not None]
        longest = f"{max(known):g} s at most" if known else "a time that is not told"
        text = (
            f"{_rows(len(rows))} of burstable volumes or instances, measured for {longest}: less"
            f" than the {_SUSTAINED_S / 60:.0f} min that a full store of credits can last, so it"
            " may be the burst"
        )
        yield _note("burst-as-sustained", Grade.LIMIT, text, rows)


TABLE_CHECKS: Final = (
    Check(
        id="one-run",
        needs="Rows with rates",
        finds="A cell holds one figure: there is no interval.",
        examine=_one_run,
    ),
    Check(
        id="littles-law",
        needs="Rate, mean latency and clients of a closed loop",
        finds="Rate x latency is more than the clients, or much less; or always the clients, and"
        " then latency and rate are one finding.",
        examine=_in_flight,
    ),
    Check(
        id="copied-column",
        needs="Two configurations with the same loads",
        finds="All their figures are equal, which with noise of 1 % has a chance below 1 in"
        " 10,000.",
        examine=_copies,
    ),
    Check(
        id="averaged-workloads",
        needs="The names of workloads, or figures of three",
        finds="A row is an average over different workloads.",
        examine=_averages,
    ),
    Check(
        id="several-changes",
        needs="What was changed (`changed`)",
        finds="More than one thing: no figure tells which of them did it.",
        examine=_several,
    ),
    Check(
        id="control-moves",
        needs="Rows that nothing changed can reach (`control`)",
        finds="They differ by more than noise: the sides differ in something else.",
        examine=_controls,
    ),
    Check(
        id="equal-differs",
        needs="Conditions that should be equal (`equal_group`)",
        finds="With repeats, they differ; without, their spread is the noise floor.",
        examine=_equals,
    ),
    Check(
        id="units-differ",
        needs="What one operation is (`unit`)",
        finds="Rates in different units are compared.",
        examine=_units,
    ),
    Check(
        id="periods-differ",
        needs="Costs and the hours they pay for",
        finds="Costs of different times are compared.",
        examine=_periods,
    ),
    Check(
        id="maximum",
        needs="The statistic of a row",
        finds="A maximum stands for a result.",
        examine=_maxima,
    ),
    Check(
        id="burst-as-sustained",
        needs="Rows of burstable volumes or instances, and how long they were measured",
        finds="They were measured for less than a full store of credits lasts.",
        examine=_bursts,
    ),
)
