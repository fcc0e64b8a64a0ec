"""What a statement and a commit cost a single client, what that is made of, and plans that differ.

Wake-up or memory distance: how much of a statement's change can be the CPU's, at most. A CPU that
waits for memory counts as busy. So distance of memory, like the clock, the work itself
and the kernel's part of waking somebody up, shows as CPU time of server or load generator; what is
no CPU time is waiting: for a CPU, for being woken up, for the network.

Which statements the configurations run by different plans is what a DBA asks next. The plans are
those that the servers gave before the first block (``systems.postgres.reader``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import PurePath
from typing import Annotated, ClassVar, Final, NamedTuple

from steelyard.answers.costs import SCRIPTS, Cost, CostChange, Ledger, LedgerChange, campaign_ledger
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.answers.statements.compute import (
    StatementCost,
    StatementDifference,
    StatementFit,
    fit_of_statements,
)
from steelyard.answers.statements.executions import (
    Misestimate,
    figures_of_plan,
    misestimate_of,
)
from steelyard.answers.statements.plans import kept_words, node_change, nodes
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Fact
from steelyard.core.linux import recorded_suspects
from steelyard.core.measurement import Quantity, Run, StatementPlan
from steelyard.core.quantities import INLINE, OPTIONAL, Computed, Named, Unit
from steelyard.core.schedule import (
    BaselineName,
    Ceiling,
    CeilingKind,
    CellKey,
    ConfigurationName,
    WorkloadName,
)
from steelyard.core.wording import KIB, format_share
from steelyard.report import document as doc
from steelyard.report.keys import Declared, row_of
from steelyard.report.texts import Texts

_TEXTS: Final = Texts(__name__)

# Guesses: below the first the CPU is called no cause, from the second on the main one.
LITTLE_FRACTION = 0.25
MOST_FRACTION = 0.5
_ONE_STATEMENT = "select-only"
_ON_CPU = (Cost.SERVER_CPU, Cost.GENERATOR_CPU)
_QUEUED = (Cost.SERVER_RUN_QUEUE, Cost.GENERATOR_RUN_QUEUE)


class WaitCause(StrEnum):
    """What a change of every statement's latency is."""

    WAITING = "waiting"  # wake-ups, the queue for a CPU, the network
    CPU = "cpu"  # work, clock, distance of memory, the kernel waking somebody up
    BOTH = "both"
    UNDECIDED = "undecided"  # the range of CPU time reaches from one to another
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReasoning:
    """What is behind a sure change of every statement's latency, between two configurations.

    Attributes:
        cpu_s: Of server and load generator, per transaction of select-only, which is one statement:
            from one end of both intervals to the other, the value alone where there are none.
        one_node: Nothing can be far.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    cause: Annotated[WaitCause, "Nature of the change."]
    per_statement_s: Annotated[Estimate, "Change of a statement, s."]
    cpu_s: Annotated[
        tuple[float, float] | None, "Least and most of it that is CPU time, s; null if unknown."
    ] = None
    run_queue_s: Annotated[
        float | None, "Change of the wait for a CPU of this machine, s; null if unknown."
    ] = None
    missing: Annotated[str, "Why the CPU time is unknown; null if it is known."] = ""
    one_node: Annotated[
        bool | None,
        Named("one_memory_node"),
        "Whether the server's machine shows one memory node; null if unknown.",
    ] = None
    suspects: Annotated[
        tuple[str, ...],
        OPTIONAL,
        "Parts of the machine that make wake-ups slow; absent if there are no such parts.",
    ] = ()

    @property
    def cpu_shares(self) -> tuple[float, float] | None:
        """Return the least and the largest share of the change that CPU time can be."""
        if self.cpu_s is None:
            return None
        shares = sorted(bound / self.per_statement_s.value for bound in self.cpu_s)
        least, most = (min(1.0, max(0.0, share)) for share in shares)
        return least, most


def _signed_ms(estimate: Estimate, *, plus: bool = False) -> str:
    """Return milliseconds with their interval: ``0.41 [0.39, 0.43]``."""
    return doc.with_interval(estimate, partial(_ms, plus=plus))


def _ms(seconds: float, *, plus: bool) -> str:
    sign = "-" if seconds < 0 else "+" if plus else ""
    return sign + doc.milliseconds(abs(seconds))


def waits_of(grounds: Grounds) -> tuple[WaitReasoning, ...]:
    """Return the same for a campaign; nothing where its statements were not fitted."""
    analysis = grounds.analysis
    return reason_waits(
        analysis.answer(fit_of_statements),
        analysis.answer(campaign_ledger),
        analysis.experiment,
        analysis.runs,
        analysis.facts,
    )


def reason_waits(
    fit: StatementFit | None,
    ledger: Ledger | None,
    experiment: Experiment,
    runs: Iterable[Run] = (),
    facts: Iterable[Fact] = (),
) -> tuple[WaitReasoning, ...]:
    """Return a reasoning for each comparison in which the cost of a statement surely differs.

    Args:
        fit: Costs of statements and commits; None: there is nothing to reason about.
        ledger: Of the campaign; None where no run was watched.
        experiment: That was measured.
        runs: That count: they say on which memory nodes the server's pages were.
        facts: Of the campaign's machine; a record of an older version has none of wake-ups.
    """
    if fit is None:
        return ()
    every = ledger.changes if ledger is not None else ()
    changes = [
        each
        for each in every
        if fit.one_statement in (None, each.cell) and _is_one_statement(each.cell, experiment)
    ]
    node, suspects = _has_one_node(runs), recorded_suspects(facts)
    return tuple(
        replace(_reasoning(each, changes), one_node=node, suspects=suspects)
        for each in fit.differences
        if each.is_of_round_trips
    )


def _has_one_node(runs: Iterable[Run]) -> bool | None:
    """Return whether no run could have pages on another node; None where nobody could look."""
    watched = [run.evidence for run in runs if run.evidence is not None]
    local = [each for each in watched if each.levels.get(Quantity.SERVER_HUGE_BYTES) is not None]
    if not local or any("memory nodes" in gone.subject for each in local for gone in each.absent):
        return None
    return all(each.levels.get(Quantity.SERVER_REMOTE_NODE_FRACTION) is None for each in local)


def _is_one_statement(cell: CellKey, experiment: Experiment) -> bool:
    builtin = experiment.workload(cell.workload).builtin
    return builtin == _ONE_STATEMENT and cell.load.clients == 1 and not cell.load.is_open


def _reasoning(each: StatementDifference, changes: Sequence[LedgerChange]) -> WaitReasoning:
    pair = each.baseline, each.configuration
    found = next((c for c in changes if (c.baseline, c.configuration) == pair), None)
    parts = [found.cost(cost) for cost in _ON_CPU] if found is not None else []
    queued = [found.cost(cost) for cost in _QUEUED] if found is not None else []
    told = WaitReasoning(
        baseline=each.baseline,
        configuration=each.configuration,
        cause=WaitCause.UNKNOWN,
        per_statement_s=each.per_statement_s,
        cpu_s=_range(parts),
        run_queue_s=_value(queued),
        missing=_why_missing(parts),
    )
    return _with_cause(told)


def _with_cause(told: WaitReasoning) -> WaitReasoning:
    shares = told.cpu_shares
    if shares is None:
        return told
    cause = WaitCause.UNDECIDED
    if shares[1] <= LITTLE_FRACTION:
        cause = WaitCause.WAITING
    elif shares[0] >= MOST_FRACTION:
        cause = WaitCause.CPU
    elif shares[0] > LITTLE_FRACTION and shares[1] < MOST_FRACTION:
        cause = WaitCause.BOTH
    return replace(told, cause=cause)


def _range(parts: Sequence[CostChange]) -> tuple[float, float] | None:
    """Return the sum of all lower and of all upper bounds, in seconds."""
    ranges = [bounds for part in parts if (bounds := _bounds(part)) is not None]
    if not ranges or len(ranges) < len(parts):
        return None
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


def _bounds(part: CostChange) -> tuple[float, float] | None:
    if part.change is None or part.baseline is None:
        return None
    unit = part.baseline if part.relative else 1.0
    value, low, high = part.change.value, part.change.low, part.change.high
    return unit * (value if low is None else low), unit * (value if high is None else high)


def _value(parts: Sequence[CostChange]) -> float | None:
    """Return the sum of the changes, in seconds."""
    values = [
        part.change.value * (part.baseline if part.relative else 1.0)
        for part in parts
        if part.change is not None and part.baseline is not None
    ]
    return sum(values) if values and len(values) == len(parts) else None


def _why_missing(parts: Sequence[CostChange]) -> str:
    if not parts:
        return "no run was watched"
    return next((part.missing for part in parts if part.missing), "")


WAITS_TITLE = "Wake-up or memory distance"


def wait_blocks(waits: Sequence[WaitReasoning]) -> tuple[doc.BulletList, ...]:
    """Return a sentence for every comparison whose statements surely cost more or less.

    And what the record shows of wake-ups, unless all of them are work of the CPU.
    """
    if not waits:
        return ()
    told = doc.BulletList(lead=_TEXTS.waits(), items=tuple(_sentence(each) for each in waits))
    open_ones = (each for each in waits if each.cause is not WaitCause.CPU)
    suspects = tuple(dict.fromkeys(clause for each in open_ones for clause in each.suspects))
    return (told, doc.BulletList(lead=_TEXTS.suspects(), items=suspects)) if suspects else (told,)


def _sentence(each: WaitReasoning) -> str:
    change = _signed_ms(each.per_statement_s, plus=True)
    begun = f"{doc.versus(each.configuration, each.baseline)}: each statement {change} ms"
    shares = each.cpu_shares
    if shares is None:
        return f"{begun}; how much of it is CPU time is not known ({each.missing})."
    least, most = (format_share(share) for share in shares)
    return _TEXTS.reasoning(
        begun=begun,
        share=f"at most {most}" if shares[0] <= 0.0 else f"{least} to {most}",
        queue=_queue(each),
        cause=each.cause.value,
        one_node=each.one_node,
    )


def _queue(each: WaitReasoning) -> str:
    queued = each.run_queue_s
    if queued is None:
        return ""
    sign = "-" if queued < 0 else "+"
    return f", and {sign}{doc.milliseconds(abs(queued))} ms is the queue for a CPU of this machine"


TITLE = "Statements and commits at one client"


def statement_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return both costs, or nothing where they were not measured."""
    fit = analysis.answer(fit_of_statements)
    if fit is None:
        return ()
    words = tuple(_words(each) for each in fit.differences)
    blocks = (
        doc.Paragraph(text=_TEXTS.fit()),
        _costs(fit.costs),
        *((_differences(fit),) if fit.differences else ()),
        *((doc.BulletList(lead="What the differences say:", items=words),) if words else ()),
        *wait_blocks(analysis.answer(waits_of) or ()),
        *measured_apart(analysis.ceilings),
    )
    return (doc.Section(anchor="statements", title=TITLE, blocks=blocks),)


def measured_apart(ceilings: Sequence[Ceiling]) -> tuple[doc.BulletList, ...]:
    """Return the round trips and wake-ups measured before the first block, to split a statement."""
    known = [each for each in ceilings if each.latency_s is not None]
    told = [
        f"round trip of an empty statement ({', '.join(each.configurations)}):"
        f" {doc.milliseconds(each.latency_s)} ms"
        for each in known
        if each.kind is CeilingKind.ROUND_TRIP
    ]
    told += [
        f"ping-pong of two processes, {each.subject}: {doc.milliseconds(each.latency_s)} ms"
        for each in known
        if each.kind is CeilingKind.PING_PONG
    ]
    return (doc.BulletList(lead=_TEXTS.apart(), items=tuple(told)),) if told else ()


def _costs(costs: Sequence[StatementCost]) -> doc.Table:
    def latency(script: str, cost: StatementCost) -> str:
        return doc.milliseconds(cost.latency_s[script])

    return doc.table_of(
        costs,
        doc.column("configuration", lambda cost: cost.name),
        *(doc.numbers(name, partial(latency, name), "ms", spare=True) for name in SCRIPTS),
        doc.numbers("each statement", lambda cost: _signed_ms(cost.per_statement_s), "ms"),
        doc.numbers("commit", lambda cost: _signed_ms(cost.per_commit_s), "ms"),
        doc.numbers("largest miss", lambda cost: doc.milliseconds(cost.residual_s), "ms"),
        title=TITLE,
        note=_TEXTS.costs(),
        data=row_of,
    )


def _differences(fit: StatementFit) -> doc.Table:
    return doc.table_of(
        fit.differences,
        ("configuration", lambda each: doc.versus(each.configuration, each.baseline)),
        doc.numbers(
            "each statement", lambda each: _signed_ms(each.per_statement_s, plus=True), "ms"
        ),
        doc.numbers("commit", lambda each: _signed_ms(each.per_commit_s, plus=True), "ms"),
        title="Differences, block by block",
        data=row_of,
    )


def _words(each: StatementDifference) -> str:
    return _TEXTS.difference(
        names=doc.versus(each.configuration, each.baseline),
        statement=_signed_ms(each.per_statement_s, plus=True),
        commit=_signed_ms(each.per_commit_s, plus=True),
        is_of_round_trips=each.is_of_round_trips,
        is_of_commits=each.is_of_commits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleClient:
    """Both costs of a single client, and their reasons, as programs read them."""

    fit: Annotated[StatementFit, INLINE]
    waits: Annotated[
        tuple[WaitReasoning, ...],
        OPTIONAL,
        "Whether surely changed statements wait or work; absent without such a change.",
    ]


STATEMENTS: Final = Declared(
    SingleClient, "statements", "Costs of a statement and of a commit to a single client."
)


def statements_json(analysis: CampaignAnalysis) -> dict[str, doc.Json]:
    """Return both costs, if they were measured."""
    fit = analysis.answer(fit_of_statements)
    return STATEMENTS.of(fit and SingleClient(fit=fit, waits=analysis.answer(waits_of) or ()))


_SHOWN: Final = 100  # characters of a statement
_FIRST: Final = 5  # so many statements fit on the first screen, a line each


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStatement:
    """One statement and its plan in each configuration, by name.

    Attributes:
        is_shared: Scripts of all configurations have it.
    """

    workload: WorkloadName
    statement: Annotated[str, "The statement."]
    differ: ClassVar = Computed(
        lambda traced: traced.differs, Annotated[bool, "Plans differ between configurations."]
    )
    plans: Annotated[Mapping[str, StatementPlan], "Plan by configuration."]
    is_shared: bool = True

    @property
    def differs(self) -> bool:
        """Return whether two configurations have different plans for it, or one is without it."""
        known = [plan.lines for plan in self.plans.values() if not plan.trouble]
        return len(set(known)) > 1 or not self.is_shared

    def unlike(self, baseline: str) -> Iterator[tuple[str, StatementPlan]]:
        """Yield the baseline's plan, where it is known, and those of others that differ from it."""
        own = self.plans.get(baseline)
        for name, plan in self.plans.items():
            if name == baseline or own is None or own.trouble or plan.lines != own.lines:
                yield name, plan

    @property
    def title(self) -> str:
        """Return it in one line, cut to what can be read."""
        text = " ".join(self.statement.split())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def traced(grounds: Grounds) -> tuple[TracedStatement, ...]:
    """Return every statement of scripts whose plan any configuration told."""
    environment = grounds.record.environment
    servers = () if environment is None else environment.servers
    found: dict[tuple[str, str], dict[str, StatementPlan]] = {}
    for server in servers:
        for plan in server.plans:
            found.setdefault((plan.workload, plan.statement), {})[server.configuration] = plan
    return tuple(
        TracedStatement(
            workload=workload,
            statement=statement,
            plans=plans,
            is_shared=len(plans) == len(servers),
        )
        for (workload, statement), plans in found.items()
    )


def chain(plan: StatementPlan) -> str:
    """Return the nodes of a plan from its leaves to its root, or why it is not known."""
    if plan.trouble:
        return f"not known: {plan.trouble}"
    return " \N{RIGHTWARDS ARROW} ".join(reversed(nodes(plan.lines)))


def plan_section(
    analysis: CampaignAnalysis, statements: Sequence[TracedStatement]
) -> tuple[doc.Section, ...]:
    """Return the plans that differ, how many do not, and what was executed of them."""
    if len(analysis.experiment.configurations) == 1:
        return ()
    differing = [each for each in statements if each.differs]
    unknown = [
        f"{each.title} ({name}): {plan.trouble}"
        for each in statements
        for name, plan in each.plans.items()
        if plan.trouble
    ]
    blocks: list[doc.Block] = [doc.Paragraph(text=_plan_lead(statements, differing))]
    baseline = analysis.experiment.baseline
    if differing:
        blocks.append(_plan_table(differing, baseline))
    if unknown:
        blocks.append(doc.BulletList(lead="Plans that are not known:", items=tuple(unknown)))
    blocks += _executed(analysis, statements)
    return (
        doc.Section(
            anchor="plans",
            title="Plans of the statements",
            blocks=tuple(blocks),
            first=bool(statements),
            brief=(doc.Paragraph(text="\n".join(_plan_lines(statements, baseline))),),
            more=tuple(block for each in statements for block in _trees(each)),
        ),
    )


def _plan_lines(statements: Sequence[TracedStatement], baseline: str) -> Iterator[str]:
    """Yield a line for each of the first statements that differ, and one for those that do not."""
    differing = [each for each in statements if each.differs]
    for each in differing[:_FIRST]:
        own, others = each.plans.get(baseline), dict[str, list[str]]()
        for name, plan in each.plans.items():
            if own is not None and own.lines and plan.lines and plan.lines != own.lines:
                others.setdefault(node_change(own.lines, plan.lines), []).append(name)
        told = (f"{change} ({', '.join(names)})" for change, names in others.items())
        otherwise = f"only under {', '.join(each.plans)}"
        if each.is_shared:
            otherwise = f"different plans; that of {baseline} is not known"
        yield f"{_script_of(each)}: {'; '.join(told) or otherwise}"
    if len(differing) > _FIRST:
        yield f"and {len(differing) - _FIRST} more with another plan"
    unknown = sum(_is_open(each) for each in statements)
    if kept := kept_words(len(statements) - len(differing) - unknown):
        yield f"{kept} in all configurations."
    if unknown:
        yield f"{doc.count(unknown, 'statement')} with a plan that is not known."


def _is_open(statement: TracedStatement) -> bool:
    """Return whether an unknown plan leaves open if the plans differ."""
    return not statement.differs and any(plan.trouble for plan in statement.plans.values())


def _script_of(statement: TracedStatement) -> str:
    """Return the script of a statement; old records have none, and the statement itself does."""
    named = {plan.script for plan in statement.plans.values() if plan.script}
    return ", ".join(sorted(PurePath(each).name for each in named)) or statement.title


def _trees(traced: TracedStatement) -> Iterator[doc.Block]:
    """Yield each plan of a statement as the server prints it, with the configurations it is of."""
    plans: dict[tuple[str, ...], list[str]] = {}
    for name, plan in traced.plans.items():
        if not plan.trouble:
            plans.setdefault(plan.lines, []).append(name)
    for lines, names in plans.items():
        is_same = not traced.differs and not _is_open(traced)
        whose = "the same in all configurations" if is_same else doc.enumeration(tuple(names))
        yield doc.Paragraph(text=f"{traced.workload}, {traced.title}: {whose}")
        yield doc.Command(text="\n".join(lines), language="text")


def _plan_lead(statements: Sequence[TracedStatement], differing: list[TracedStatement]) -> str:
    number, unknown = len(statements), sum(map(_is_open, statements))
    same = number - len(differing) - unknown
    left = f"; {unknown} with a plan that is not known" if unknown else ""
    if not differing and unknown:
        begun = f"{doc.count(number, 'statement')}: no plan is known to differ"
        rest = f"{same} {_has(same)} the same plan in all configurations, " if same else ""
        return f"{begun}; {rest}{unknown} {_has(unknown)} a plan that is not known."
    if not differing:
        return f"{doc.count(number, 'statement')}: each has the same plan in all configurations."
    workloads = doc.enumeration(tuple(dict.fromkeys(each.workload for each in differing)))
    rest = f"; {same} {_has(same)} the same plan in all configurations" if same else ""
    return (
        f"{len(differing)} of {doc.count(number, 'statement')} {_has(len(differing))} different"
        " plans,"
        f" in {workloads}{rest}{left}."
    )


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


class _Planned(NamedTuple):
    """A plan of a statement in one configuration; the title stands once."""

    statement: TracedStatement
    title: str
    configuration: str
    plan: StatementPlan


def _planned(
    statements: Iterable[TracedStatement],
    plans: Callable[[TracedStatement], Iterable[tuple[str, StatementPlan]]],
) -> Iterator[_Planned]:
    for each in statements:
        for place, (name, plan) in enumerate(plans(each)):
            yield _Planned(each, "" if place else each.title, name, plan)


def _statement_data(row: _Planned) -> tuple[doc.Datum, ...]:
    return (("workload", row.statement.workload), ("statement", row.statement.statement))


def _plan_table(differing: list[TracedStatement], baseline: str) -> doc.Table:
    rows = [*_planned(differing, lambda each: each.unlike(baseline))]
    alike = len(rows) < sum(len(each.plans) for each in differing)
    return doc.table_of(
        rows,
        ("statement", lambda row: row.title),
        doc.column("configuration", lambda row: row.configuration),
        doc.column("plan", lambda row: chain(row.plan)),
        title="Plans that differ",
        note=_TEXTS.plans(some_alike=alike),
        data=_statement_data,
    )


_COUNT: Final = doc.Form(show="{:,.0f}".format, heading="pages")
_MS: Final = doc.Form(show="{:,.3g}".format, unit=Unit("_s", 1e-3, "s"), heading="ms")
# Figures of an execution; those that no execution has are no columns, but for the first three.
_SHOWN_OF: Final = {
    "execution": _MS,
    "read": _COUNT,
    "hit": _COUNT,
    "temporary": _COUNT,
    "JIT": _MS,
    "memory": doc.Form(show="{:,.0f}".format, unit=Unit("_bytes", float(KIB), "B"), heading="kB"),
}
_ALWAYS: Final = 3


def _executed(analysis: CampaignAnalysis, statements: Sequence[TracedStatement]) -> list[doc.Block]:
    """Return what executions took and read: the first, and the last one.

    If several configurations share a server, the first one warms it up for those after it.
    """
    rows = [row for row in _planned(statements, lambda each: each.plans.items()) if row.plan.runs]
    if not rows:
        return []
    figures = {id(row): [figures_of_plan(run) for run in row.plan.runs] for row in rows}
    names = [*_SHOWN_OF][:_ALWAYS]
    rest = [*_SHOWN_OF][_ALWAYS:]
    names += [n for n in rest if any(n in run for runs in figures.values() for run in runs)]
    shared = bool(analysis.experiment.shared_servers)
    moments = {"": -1} if shared else {", first": 0, ", again": -1}

    def figure(name: str, execution: int, row: _Planned) -> float:
        return figures[id(row)][execution].get(name, 0.0)  # a missing count is 0

    table = doc.table_of(
        rows,
        ("statement", lambda row: row.title),
        doc.column("configuration", lambda row: row.configuration),
        *(
            doc.column(f"{name}{moment}", partial(figure, name, execution), _SHOWN_OF[name])
            for name in names
            for moment, execution in moments.items()
        ),
        title="Executed by EXPLAIN (ANALYZE, BUFFERS)",
        note=_TEXTS.executed(shared=shared),
        data=_statement_data,
    )
    return [table, *_misestimates(rows)]


def _misestimates(rows: Sequence[_Planned]) -> Iterator[doc.BulletList]:
    """Yield which plans expect far more or fewer rows than there are, each statement once."""
    found: dict[tuple[str, Misestimate], list[str]] = {}
    for row in rows:
        if misestimate := misestimate_of(row.plan.runs[-1]):
            title = row.statement.title
            found.setdefault((title, misestimate), []).append(row.configuration)
    items = tuple(
        f"{title} ({', '.join(names)}): {each.node}, planned {each.planned:,.0f} rows, found"
        f" {each.actual:,.0f}, a factor of {each.factor:,.0f}"
        for (title, each), names in found.items()
    )
    if items:
        yield doc.BulletList(lead=_TEXTS.misestimates(), items=items)
