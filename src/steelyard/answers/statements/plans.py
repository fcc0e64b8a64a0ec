"""The plans of statements under other settings, as ``try --plans`` shows them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Final

from steelyard.core.measurement import PlanChange
from steelyard.report import document as doc
from steelyard.report.keys import keys_of


@dataclass(frozen=True, slots=True)
class PlanSeries:
    """The plans of all statements under the settings of a configuration.

    Attributes:
        is_kept: Settings act through plans alone: the same plans are the answer.
        ddl: Statements that would make indexes.
    """

    settings: Mapping[str, str]
    changes: Sequence[PlanChange]
    is_kept: bool
    ddl: Sequence[str] = ()

    @property
    def under(self) -> str:
        """Return the settings in words."""
        settings = (f"{name} = {value}" for name, value in self.settings.items())
        return ", ".join([*settings, *self.ddl])

    @property
    def kept(self) -> bool:
        """Return whether no difference is to be expected."""
        return self.is_kept and not any(each.changed or each.unknown for each in self.changes)

    @property
    def data(self) -> dict[str, doc.Json]:
        """Return what programs read of it."""
        return {
            "settings": dict(self.settings),
            "statements": [keys_of(change) for change in self.changes],
        }


def plan_keys(series: Sequence[PlanSeries]) -> dict[str, doc.Json]:
    """Return the same for programs; several configurations are a list."""
    return series[0].data if len(series) == 1 else {"series": [each.data for each in series]}


def plan_document(series: Sequence[PlanSeries]) -> doc.Document:
    """Return which statements get another plan under some settings, as a table for each."""
    tables = tuple(_plan_table(each) for each in series)
    section = doc.Section(anchor="plans", title="Plans", blocks=tables)
    subtitle = "; ".join(each.under for each in series)
    return doc.Document(title="Plans of statements", subtitle=subtitle, sections=(section,))


def _plan_table(series: PlanSeries) -> doc.Table:
    return doc.table_of(
        series.changes,
        doc.column("script", lambda change: change.script),
        doc.column("statement", lambda change: " ".join(change.statement.split())),
        doc.column("drawn", lambda change: change.drawn, doc.WHOLE),
        doc.column("changed", lambda change: change.changed, doc.WHOLE),
        doc.column("now", lambda change: "; ".join(change.before) or None),
        doc.column("changed to", lambda change: "; ".join(change.after) or None),
        title=f"Plans under {series.under}",
        note="Sets of parameters that were drawn, and of how many the plan is another one.",
        reason=lambda change: change.unknown,
    )


def plan_lines(series: PlanSeries, *, is_answer: bool) -> Iterator[str]:
    """Yield a line for each statement that gets another plan; both plans in an answer alone."""
    changes, under = series.changes, series.under
    most = max(change.drawn for change in changes)
    drawn = f", for {most} drawn sets of parameters" if most > 1 else ""
    another = [change for change in changes if change.changed]
    unknown = [change for change in changes if change.unknown]
    kept = kept_words(len(changes) - len(another) - len(unknown))
    if not another and not unknown:
        end = ": no difference is to be expected. --anyway measures." if series.kept else "."
        yield f"{kept} under {under}{drawn}{end}"
        return
    statements = doc.count(len(changes), "statement")
    yield f"{len(another)} of {statements} with another plan under {under}{drawn}:"
    for change in another:
        share = f" ({change.changed} of {change.drawn} sets)" if change.drawn > 1 else ""
        nodes = node_change(change.before, change.after)
        statement = shorten(change.statement, _STATEMENT, placeholder="…")
        yield f"  {change.script}: {nodes}{share}; {statement}"
        if is_answer:
            yield from (f"    now      {line}" for line in change.before)
            yield from (f"    tried    {line}" for line in change.after)
    for change in unknown:
        yield f"  {change.script}: not known: {change.unknown}"
    if kept:
        yield f"  {kept}."
    yield ""


_STATEMENT: Final = 60  # characters of a statement in a line
_ARROW: Final = re.compile(r"\s*->\s+")  # conditions may have one, too, but not in front


def kept_words(number: int) -> str:
    """Return how many statements have no other plan; empty for 0."""
    verb = "keeps its" if number == 1 else "keep their"
    return f"{doc.count(number, 'statement')} {verb} plan" if number else ""


def nodes(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes of a plan, the root first: the first line, and those behind an arrow."""
    arrows = ((line, _ARROW.match(line)) for line in lines[1:])
    further = (line[arrow.end() :].strip() for line, arrow in arrows if arrow)
    return (lines[0].strip(), *further) if lines else ()


def node_change(before: Sequence[str], after: Sequence[str]) -> str:
    """Return how tables are scanned by each: ``Seq Scan on a → Index Scan using b on a``.

    Where no table has another scan: the deepest node of each that the other lacks.
    """
    sides = _by_index(nodes(before)), _by_index(nodes(after))
    own = []
    for one, other in (sides, sides[::-1]):
        lacking = [node for node in reversed(one) if node not in other]
        scans = [node for node in lacking if " on " in node]
        own.append(tuple(dict.fromkeys([*scans, *lacking, *(one[:1] or ("no plan",))])))
    pairs = [(old, new) for old in own[0] for new in own[1] if _table(old) == _table(new) != ""]
    shown = pairs or [(own[0][0], own[1][0])]
    if shown[0][0] == shown[0][1]:
        return "the same nodes, with other conditions, order, workers or JIT"
    return "; ".join(" \N{RIGHTWARDS ARROW} ".join(pair) for pair in shown)


def _by_index(lines: Sequence[str]) -> tuple[str, ...]:
    """Return nodes, each scan of a bitmap with the index that gave it: in EXPLAIN they are two."""
    named: list[str] = []
    for node in lines:
        index = node.removeprefix("Bitmap Index Scan on ")
        if index != node and named and "Bitmap Heap Scan on " in named[-1]:
            named[-1] += f" ({index})"
        else:
            named.append(node)
    return tuple(named)


def _table(node: str) -> str:
    """Return what a node scans, with its alias; empty of a join."""
    return node.partition(" on ")[2].partition(" (")[0]
