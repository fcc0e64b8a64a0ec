"""What a statement and a commit cost a single client, beside the published case; also as values."""

from collections.abc import Sequence

from steelyard.answers.costs import SCRIPTS
from steelyard.answers.reasons.waits import WaitReasoning, wait_blocks, waits_of
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.compute import (
    StatementCost,
    StatementDifference,
    StatementFit,
    fit_of_statements,
)
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.report.document import (
    CONFIDENCE,
    BulletList,
    Column,
    Json,
    Paragraph,
    Row,
    Section,
    Table,
    interval,
    milliseconds,
    number,
    number_column,
    signed_ms,
)

TITLE = "Statements and commits at one client"
_LEAD = (
    "Latency at one client is fitted, block by block, as a x statements + b x commit: select-only"
    " is 1 statement, simple-update 5 and a commit, tpcb-like 7 and a commit. Three points and two"
    " parameters leave one degree of freedom, so a small miss is weak evidence."
)
_NOTE = (
    f"Centres over blocks with {CONFIDENCE} intervals, each taken alone; they take part in no"
    " verdict. The largest miss is that of the fit to the median latencies."
)
_PUBLISHED_NOTE = (
    "One unrepeated run each, so no interval. In the first step of tuning 5.7 ms vanished from"
    " simple-update: 0.91 ms from each of its 5 statements and 1.1 ms from its commit. An equal"
    " saving at every statement is a cost of each round trip (network, or waking up the other"
    " side); the series credits the distance of memory."
)


def statement_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return both costs; nothing unless all three scripts ran with one client."""
    fit = analysis.answer(fit_of_statements)
    if fit is None:
        return ()
    words = tuple(_words(each) for each in fit.differences)
    blocks = (
        Paragraph(text=_LEAD),
        _costs(TITLE, fit.costs, _NOTE),
        *((_differences(fit),) if fit.differences else ()),
        *((BulletList(lead="What the differences say:", items=words),) if words else ()),
        *wait_blocks(analysis.answer(waits_of) or ()),
        *measured_apart(analysis.ceilings),
        _costs("The published latencies, fitted alike", fit.published, _PUBLISHED_NOTE),
    )
    return (Section(anchor="statements", title=TITLE, blocks=blocks),)


def measured_apart(ceilings: Sequence[Ceiling]) -> tuple[BulletList, ...]:
    """Return the round trips and wake-ups measured before the first block, to split a statement."""
    known = [each for each in ceilings if each.latency_s is not None]
    told = [
        f"round trip of an empty statement ({', '.join(each.configurations)}):"
        f" {milliseconds(each.latency_s)} ms"
        for each in known
        if each.kind is CeilingKind.ROUND_TRIP
    ]
    told += [
        f"ping-pong of two processes, {each.subject}: {milliseconds(each.latency_s)} ms"
        for each in known
        if each.kind is CeilingKind.PING_PONG
    ]
    lead = (
        "Measured apart, before the first block: what a statement costs beyond the round trip is"
        " the server's work and the load generator's; what the round trip costs beyond the"
        " ping-pong is the way between them:"
    )
    return (BulletList(lead=lead, items=tuple(told)),) if told else ()


def _costs(title: str, costs: Sequence[StatementCost], note: str) -> Table:
    columns = (
        Column(name="configuration" if costs and costs[0].blocks else "environment"),
        *(_right(script, spare=True) for script in SCRIPTS),
        _right("each statement"),
        _right("commit"),
        _right("largest miss"),
    )
    rows = tuple(
        Row(
            cells=(
                cost.name,
                *(milliseconds(latency) for latency in cost.latency_s),
                signed_ms(cost.per_statement_s),
                signed_ms(cost.per_commit_s),
                milliseconds(cost.residual_s),
            )
        )
        for cost in costs
    )
    return Table(title=title, columns=columns, rows=rows, note=note)


def _differences(fit: StatementFit) -> Table:
    columns = (Column(name="configuration"), _right("each statement"), _right("commit"))
    rows = tuple(
        Row(
            cells=(
                f"{each.configuration} against {each.baseline}",
                signed_ms(each.per_statement_s, plus=True),
                signed_ms(each.per_commit_s, plus=True),
            )
        )
        for each in fit.differences
    )
    return Table(title="Differences, block by block", columns=columns, rows=rows)


def _right(name: str, *, spare: bool = False) -> Column:
    return number_column(name, "ms", spare=spare)


def _words(each: StatementDifference) -> str:
    names = f"{each.configuration} against {each.baseline}"
    statement = f"each statement {signed_ms(each.per_statement_s, plus=True)} ms"
    commit = f"the commit {signed_ms(each.per_commit_s, plus=True)} ms"
    if each.is_of_round_trips and each.is_of_commits:
        return (
            f"{names}: {statement} and {commit}. Both the round trips (network, or waking up the"
            " other side) and what a commit waits for (storage, replication) differ."
        )
    if each.is_of_round_trips:
        return (
            f"{names}: {statement}, the commit not surely. The same at every statement is a cost of"
            " the round trip (network, or waking up the other side): memory distance would grow"
            " with the work of a statement, storage would show at the commit."
        )
    if each.is_of_commits:
        return (
            f"{names}: {commit}, each statement not surely. What a commit waits for differs"
            " (storage, replication), not the round trip."
        )
    return f"{names}: neither cost surely differs."


def statements_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return both costs as plain values, where they were measured; units are in the names."""
    fit, waits = analysis.answer(fit_of_statements), analysis.answer(waits_of) or ()
    if fit is None:
        return {}
    return {
        "statements": {
            "costs": [_cost(cost) for cost in fit.costs],
            "differences": [
                {
                    "baseline": each.baseline,
                    "configuration": each.configuration,
                    "per_statement_s": interval(each.per_statement_s),
                    "per_commit_s": interval(each.per_commit_s),
                }
                for each in fit.differences
            ],
            "published": [_cost(cost) for cost in fit.published],
            **({"waits": waits_json(waits)} if waits else {}),
        }
    }


def waits_json(waits: Sequence[WaitReasoning]) -> list[Json]:
    """Return whether changed statements wait or work, as plain values."""
    return [
        {
            "baseline": each.baseline,
            "configuration": each.configuration,
            "cause": each.cause.value,
            "per_statement_s": interval(each.per_statement_s),
            "cpu_s": None if each.cpu_s is None else [number(bound) for bound in each.cpu_s],
            "run_queue_s": number(each.run_queue_s),
            "missing": each.missing or None,
            "one_memory_node": each.one_node,
            **({"suspects": list(each.suspects)} if each.suspects else {}),
        }
        for each in waits
    ]


def _cost(cost: StatementCost) -> dict[str, Json]:
    return {
        "name": cost.name,
        "blocks": cost.blocks,
        "latency_s": {
            script: number(latency) for script, latency in zip(SCRIPTS, cost.latency_s, strict=True)
        },
        "per_statement_s": interval(cost.per_statement_s),
        "per_commit_s": interval(cost.per_commit_s),
        "residual_s": number(cost.residual_s),
    }
