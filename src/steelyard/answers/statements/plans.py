"""Which statements the configurations run by different plans: what a DBA asks next.

The plans are those that the servers gave before the first block (``systems.postgres.reader``).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.measurement import StatementPlan
from steelyard.core.published import parse_plan
from steelyard.report.document import (
    Align,
    Block,
    BulletList,
    Column,
    Json,
    Paragraph,
    Row,
    Section,
    Table,
    count,
    enumeration,
)

_ARROW: Final = re.compile(r"\s*->\s+")  # conditions may have one, too, but not in front
_SHOWN: Final = 100  # characters of a statement
_FIRST: Final = 2  # so many statements fit on the first screen
_RUNS_NOTE: Final = (
    "One execution each of the plan above, without an interval, before the first block, with values"
    " from the middle of their ranges, and the same once more. Read is what was not in"
    " shared_buffers, where statements before may have put it; the system may have had it cached,"
    " unless a limit of memory held it back. EXPLAIN itself takes time for each row. summary.json"
    " has the plans whole."
)
_NOTE: Final = (
    "Generic plans, for parameters that are not known, read once before the first block under the"
    " settings in force. From the leaves to the root, without costs; summary.json has them whole."
    " A server may run a statement by another plan where it knows the parameters."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStatement:
    """One statement and its plan in each configuration, by name."""

    workload: str
    statement: str
    plans: Mapping[str, StatementPlan]

    @property
    def differs(self) -> bool:
        """Return whether two configurations have different plans for it."""
        known = [plan.lines for plan in self.plans.values() if not plan.trouble]
        return len(set(known)) > 1

    @property
    def title(self) -> str:
        """Return it in one line, cut to what can be read."""
        text = " ".join(self.statement.split())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def traced(grounds: Grounds) -> tuple[TracedStatement, ...]:
    """Return every statement of scripts whose plan any configuration told."""
    environment = grounds.record.environment
    found: dict[tuple[str, str], dict[str, StatementPlan]] = {}
    for server in environment.servers if environment is not None else ():
        for plan in server.plans:
            found.setdefault((plan.workload, plan.statement), {})[server.configuration] = plan
    return tuple(
        TracedStatement(workload=workload, statement=statement, plans=plans)
        for (workload, statement), plans in found.items()
    )


def chain(plan: StatementPlan) -> str:
    """Return the nodes of a plan from its leaves to its root, or why it is not known."""
    if plan.trouble:
        return f"not known: {plan.trouble}"
    return " \N{RIGHTWARDS ARROW} ".join(reversed([*_nodes(plan.lines)]))


def _nodes(lines: tuple[str, ...]) -> Iterator[str]:
    """Yield the nodes, the root first: the first line, and those behind an arrow."""
    yield lines[0].strip()
    for line in lines[1:]:
        if arrow := _ARROW.match(line):
            yield line[arrow.end() :].strip()


def plan_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the plans that differ, how many do not, and what was executed of them.

    Nothing where no script has statements.
    """
    statements = analysis.answer(traced) or ()
    if not statements or len(analysis.experiment.configurations) == 1:
        return ()
    differing = [each for each in statements if each.differs]
    unknown = [
        f"{each.title} ({name}): {plan.trouble}"
        for each in statements
        for name, plan in each.plans.items()
        if plan.trouble
    ]
    blocks: list[Block] = [Paragraph(text=_lead(len(statements), differing))]
    if differing:
        blocks.append(_table(differing))
    if unknown:
        blocks.append(BulletList(lead="Plans that are not known:", items=tuple(unknown)))
    blocks += _executed(statements)
    first = 0 < len(differing) <= _FIRST
    title = "Plans of the statements"
    return (Section(anchor="plans", title=title, blocks=tuple(blocks), first=first),)


def _lead(number: int, differing: list[TracedStatement]) -> str:
    same = number - len(differing)
    if not differing:
        return f"{count(number, 'statement')}: each has the same plan in all configurations."
    workloads = enumeration(tuple(dict.fromkeys(each.workload for each in differing)))
    rest = f"; {same} {_has(same)} the same plan in all configurations" if same else ""
    return (
        f"{len(differing)} of {count(number, 'statement')} {_has(len(differing))} different plans,"
        f" in {workloads}{rest}."
    )


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


def _table(differing: list[TracedStatement]) -> Table:
    columns = (Column(name="statement"), Column(name="configuration"), Column(name="plan"))
    rows = tuple(
        Row(cells=(each.title if place == 0 else "", name, chain(plan)))
        for each in differing
        for place, (name, plan) in enumerate(each.plans.items())
    )
    return Table(title="Plans that differ", columns=columns, rows=rows, note=_NOTE)


_READ: Final = {
    "execution time": "{:,.3g}",
    "buffers read": "{:,.0f}",
    "buffers hit": "{:,.0f}",
}


def _executed(statements: Sequence[TracedStatement]) -> Iterator[Table]:
    """Yield what the first execution took and read, and the one after it."""
    rows = [
        Row(cells=(each.title if place == 0 else "", name, *_of_runs(plan)))
        for each in statements
        for place, (name, plan) in enumerate(each.plans.items())
        if plan.runs
    ]
    if rows:
        columns = [Column(name="statement"), Column(name="configuration")]
        for title, unit in (("execution", "ms"), ("read", "pages"), ("hit", "pages")):
            columns += [
                Column(name=f"{title}, {moment}", unit=unit, align=Align.RIGHT)
                for moment in ("first", "again")
            ]
        title = "Executed by EXPLAIN (ANALYZE, BUFFERS)"
        yield Table(title=title, columns=tuple(columns), rows=tuple(rows), note=_RUNS_NOTE)


def _of_runs(plan: StatementPlan) -> Iterator[str]:
    told = [parse_plan("\n".join(lines)) for lines in plan.runs]
    for name, shown in _READ.items():
        for run in told:  # a count that is missing is 0
            yield shown.format(run[name][0].value if name in run else 0.0)


def plans_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return all plans as their lines, where there are any."""
    statements = analysis.answer(traced) or ()
    if not statements:
        return {}
    return {
        "plans": [
            {
                "workload": each.workload,
                "statement": each.statement,
                "differ": each.differs,
                "plans": {
                    name: {
                        "lines": list(plan.lines),
                        "trouble": plan.trouble or None,
                        "runs": [list(lines) for lines in plan.runs],
                    }
                    for name, plan in each.plans.items()
                },
            }
            for each in statements
        ]
    }
