"""One article of several campaigns: results, what to choose for what use, how it was measured.

It says nothing that a report does not say. Uses are answered by rules that stand beside them; where
no verdict decides, that is the answer, with the minutes that would. Workloads are never averaged
into one number, and campaigns are never set against each other here: `steelyard compare` does that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.answers.durability.compute import may_write
from steelyard.answers.money import analyse_money
from steelyard.answers.report import build_document, short_verdicts, summary
from steelyard.answers.result.section import place_line
from steelyard.answers.results import (
    FORMAT,
    CampaignAnalysis,
    Comparison,
    cell_name,
    ending,
    verdict_word,
)
from steelyard.core.findings import Verdict
from steelyard.core.units import format_duration
from steelyard.report.document import (
    MISSING,
    Block,
    BulletList,
    Column,
    Document,
    Figure,
    FindingItem,
    FindingList,
    Json,
    KeyValues,
    Paragraph,
    Row,
    Section,
    Table,
    bounds,
    count,
    effect_interval,
    enumeration,
    utc,
)

_CHAPTER: Final = (  # sections of a report that its chapter has, in the order of the report
    *("verdicts", "effects", "attribution", "published", "capacity", "charts", "cells"),
    *("latency", "durability", "time", "money", "scalability", "sustained", "findings"),
)
_FIGURES: Final = (
    "effects",
    "loads",
    "attribution",
    "published",
    "scalability",
    "sustained",
)  # of a chapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one comparison says of a use.

    Attributes:
        label: Of the campaign, as the article calls it.
        choice: The configuration to take; both names where they are equivalent; empty where the
            comparison does not decide.
        says: The verdict with its interval, or what would decide.
    """

    label: str
    choice: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A use of a database, and the rule by which campaigns speak of it.

    Attributes:
        name: As it stands in the table.
        rule: In words.
        evidence: Yields what a campaign says; nothing where it does not speak of it.
    """

    name: str
    rule: str
    evidence: Callable[[str, CampaignAnalysis], Iterator[Evidence]]


def _by_throughput(
    label: str, analysis: CampaignAnalysis, results: Sequence[Comparison]
) -> Iterator[Evidence]:
    margin = analysis.experiment.stop.equivalence
    for c in results:
        contest = f"{c.workload}, {c.configuration} against {c.baseline}"
        said = f"{contest}: {verdict_word(c, margin)} {effect_interval(c.effect)}"
        yield Evidence(label=label, choice=_choice(c), says=said + _would_decide(c))


def _choice(c: Comparison) -> str:
    """Return which side a comparison speaks for; nothing where it does not, or may not."""
    if c.is_suspect or not c.verdict.decided:
        return ""
    if c.verdict is Verdict.EQUIVALENT or c.no_practical_weight:
        return f"{c.configuration} or {c.baseline}"
    better = c.configuration if c.verdict is Verdict.FASTER else c.baseline
    # What is faster because it may lose more is a trade, and no choice that a rate can make.
    return "" if any(trade.weaker == better for trade in c.trades) else better


def _would_decide(c: Comparison) -> str:
    if c.is_suspect:
        return "; suspect, because a negative control differs"
    if not c.verdict.decided:
        if c.minutes_to_decide is None:
            return "; not decided"
        return f"; not decided, about {format_duration(60.0 * c.minutes_to_decide)} more would"
    return "" if _choice(c) else "; but it may lose acknowledged writes that the other keeps"


def _work(writes: bool) -> Callable[[str, CampaignAnalysis], Iterator[Evidence]]:  # noqa: FBT001 - a kind
    def evidence(label: str, analysis: CampaignAnalysis) -> Iterator[Evidence]:
        kind = {w.name: may_write(w) for w in analysis.experiment.workloads}
        results = [c for c in analysis.results if kind.get(c.workload, not writes) is writes]
        yield from _by_throughput(label, analysis, results)

    return evidence


def _single_client(label: str, analysis: CampaignAnalysis) -> Iterator[Evidence]:
    alone = [
        c
        for c in analysis.comparisons
        if c.load is not None and c.load.clients == 1 and not c.load.is_open
    ]
    if not alone and [load.clients for load in analysis.experiment.closed_loads] == [1]:
        alone = list(analysis.results)
    yield from _by_throughput(label, analysis, alone)


def _money(label: str, analysis: CampaignAnalysis) -> Iterator[Evidence]:
    money = analysis.answer(analyse_money)
    for change in money.changes if money is not None else ():
        pair = bounds(change.change)
        if pair is None:
            continue
        cheaper = change.configuration if pair[1] < 0 else change.baseline if pair[0] > 0 else ""
        contest = f"{change.workload}, {change.configuration} against {change.baseline}"
        said = f"{contest}: {effect_interval(change.change)} per transaction"
        open_ = "" if cheaper else "; not decided"
        yield Evidence(label=label, choice=cheaper, says=said + open_)


def _durability(label: str, analysis: CampaignAnalysis) -> Iterator[Evidence]:
    told: set[tuple[str, str]] = set()
    for c in analysis.results:
        for trade in c.trades:
            stronger = c.baseline if trade.weaker == c.configuration else c.configuration
            if (stronger, trade.weaker) not in told:
                told.add((stronger, trade.weaker))
                said = f"{trade.weaker} may lose acknowledged writes that {stronger} keeps"
                yield Evidence(label=label, choice=stronger, says=said)


USES: Final = (
    Use(
        name="read-heavy",
        rule="the higher rate in workloads that only read",
        evidence=_work(writes=False),
    ),
    Use(
        name="write-heavy",
        rule="the higher rate in workloads that write, unless it is bought with durability",
        evidence=_work(writes=True),
    ),
    Use(
        name="low latency at low load",
        rule="the higher rate of a single client, which is the lower latency",
        evidence=_single_client,
    ),
    Use(
        name="cost-bound",
        rule="the lower cost of a transaction, where files or price lists say what servers cost",
        evidence=_money,
    ),
    Use(
        name="nothing acknowledged may be lost",
        rule="the side that keeps what the other may lose",
        evidence=_durability,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A campaign in an article.

    Attributes:
        label: By which the article calls it; no two are alike.
        report: Of it, whole.
        note: What is to be known before it is read; may be empty.
    """

    label: str
    analysis: CampaignAnalysis
    report: Document
    note: str = ""

    @classmethod
    def of(cls, label: str, analysis: CampaignAnalysis, *, note: str = "") -> "Chapter":
        """Return the chapter of a campaign."""
        return cls(label=label, analysis=analysis, report=build_document(analysis), note=note)

    def section(self, anchor: str) -> tuple[Block, ...]:
        """Return the blocks of a section of its report; nothing where it has none."""
        return next((s.blocks for s in self.report.sections if s.anchor == anchor), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """Several campaigns.

    Attributes:
        missing: What it does not show beyond what each campaign says, a sentence each.
    """

    title: str
    chapters: tuple[Chapter, ...]
    missing: tuple[str, ...] = ()

    def evidence(self, use: Use) -> tuple[Evidence, ...]:
        """Return what all campaigns say of a use."""
        return tuple(
            each
            for chapter in self.chapters
            for each in use.evidence(chapter.label, chapter.analysis)
        )


def article_document(article: Article) -> Document:
    """Return the article as a document."""
    names = ", ".join(chapter.label for chapter in article.chapters)
    moments = [chapter.analysis.started_at for chapter in article.chapters]
    return Document(
        title=article.title,
        subtitle=f"{count(len(article.chapters), 'campaign')}: {names}"
        f" · {utc(min(moments))} to {utc(max(moments))}",
        sections=(
            _results(article),
            _choices(article),
            *(
                section
                for number, chapter in enumerate(article.chapters, start=1)
                for section in _chapter(number, chapter)
            ),
            _measured(article),
            _limits(article),
            _commands(article),
        ),
    )


def _results(article: Article) -> Section:
    every = [(chapter.label, chapter.analysis) for chapter in article.chapters]
    rows = tuple(
        Row(
            cells=(
                label,
                c.workload,
                c.configuration,
                c.baseline,
                verdict_word(c, analysis.experiment.stop.equivalence),
                effect_interval(c.effect),
                str(c.blocks),
            )
        )
        for label, analysis in every
        for c in analysis.results
    )
    columns = (
        *(Column(name=name) for name in ("campaign", "workload", "configuration", "against")),
        *(Column(name="verdict"), Column(name="difference, 95 %"), Column(name="blocks")),
    )
    note = (
        "Each line compares two configurations within the blocks of one campaign. Lines of"
        " different campaigns are other machines or other hours, and say nothing of each other."
    )
    blocks: list[Block] = [Table(title="Results", columns=columns, rows=rows, note=note)]
    blocks += [
        Paragraph(text=f"{label}: {short_verdicts(analysis)}.")
        for label, analysis in every
        if not analysis.results
    ]
    blocks += [
        Paragraph(text=f"{chapter.label}: {chapter.note}")
        for chapter in article.chapters
        if chapter.note
    ]
    return Section(anchor="results", title="Results", blocks=tuple(blocks), first=True)


def _choices(article: Article) -> Section:
    """Return when to choose what: by rule, with the evidence for each."""
    pairs, lists = [], []
    for use in USES:
        found = article.evidence(use)
        decided = tuple(dict.fromkeys(f"{e.choice} ({e.label})" for e in found if e.choice))
        answer = enumeration(decided) or ("not decided" if found else "nothing measured says it")
        pairs.append((use.name, f"{answer}. Rule: {use.rule}."))
        if found:
            items = tuple(f"{e.label}: {e.says}" for e in found)
            lists.append(BulletList(lead=f"{use.name}, the evidence", items=items))
    blocks: tuple[Block, ...] = (KeyValues(title="", pairs=tuple(pairs)), *lists)
    return Section(anchor="choices", title="When to choose what", blocks=blocks, first=True)


def _chapter(number: int, chapter: Chapter) -> Iterator[Section]:
    """Yield the sections of a campaign's report that an article has, under its label."""
    for section in chapter.report.sections:
        if section.anchor in _CHAPTER and (blocks := tuple(_kept(number, section.blocks))):
            yield replace(
                section,
                anchor=f"{section.anchor}-{number}",
                title=f"{chapter.label}: {section.title}",
                blocks=blocks,
            )


def _kept(number: int, blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks; drawings of single blocks and seconds are left to the report."""
    for block in blocks:
        if isinstance(block, Figure):
            if block.identity.startswith(_FIGURES):
                yield replace(block, identity=f"{block.identity}-of-{number}")
        elif isinstance(block, FindingList):
            yield replace(block, items=tuple(_anchored(number, item) for item in block.items))
        elif isinstance(block, Paragraph) and block.link:
            yield replace(block, link=f"{block.link}-{number}")
        else:
            yield block


def _anchored(number: int, item: FindingItem) -> FindingItem:
    return replace(item, anchor=f"{item.anchor}-{number}") if item.anchor else item


def _measured(article: Article) -> Section:
    names = ("campaign", "servers and machine", "loads", "design", "blocks", "tries redone")
    columns = tuple(Column(name=name) for name in (*names, "ended", "took", "began"))
    title = "How it was measured"
    rows = tuple(Row(cells=_setting(chapter)) for chapter in article.chapters)
    table = Table(title=title, columns=columns, rows=rows)
    return Section(anchor="measured", title=title, blocks=(table,))


def _setting(chapter: Chapter) -> tuple[str, ...]:
    analysis = chapter.analysis
    experiment = analysis.experiment
    return (
        chapter.label,
        place_line(analysis) or MISSING,
        "; ".join(cell_name(experiment, load) for load in experiment.loads),
        MISSING if analysis.plan is None else analysis.plan.mode.value,
        str(analysis.blocks),
        str(len(analysis.blocks_redone)),
        ending(analysis),
        format_duration(analysis.elapsed_s),
        utc(analysis.started_at),
    )


def _limits(article: Article) -> Section:
    """Return what reports say that they do not show, each once, with the campaigns that say it."""
    told: dict[str, dict[str, list[str]]] = {}
    for chapter in article.chapters:
        for block in chapter.section("limits"):
            if isinstance(block, BulletList):
                for item in block.items:
                    told.setdefault(block.lead, {}).setdefault(item, []).append(chapter.label)
    every = len(article.chapters)
    lists = (
        BulletList(
            lead=lead,
            items=tuple(
                item if len(labels) == every else f"{item} ({', '.join(labels)})"
                for item, labels in items.items()
            ),
        )
        for lead, items in told.items()
    )
    missing = BulletList(lead="Of what it is about it does not show:", items=article.missing)
    blocks = (*((missing,) if article.missing else ()), *lists)
    return Section(anchor="limits", title="What this does and does not show", blocks=blocks)


def _commands(article: Article) -> Section:
    blocks: list[Block] = []
    for chapter in article.chapters:
        blocks += [Paragraph(text=f"{chapter.label}:"), *chapter.section("command")]
    return Section(anchor="commands", title="Reproduce it", blocks=tuple(blocks))


def article_json(article: Article) -> dict[str, Json]:
    """Return the article for programs: campaigns' summaries, and the uses with their evidence."""
    return {
        "format": FORMAT,
        "kind": "article",
        "title": article.title,
        "not_shown": list(article.missing),
        "campaigns": [
            {"label": chapter.label, "note": chapter.note or None, **summary(chapter.analysis)}
            for chapter in article.chapters
        ],
        "uses": [
            {
                "use": use.name,
                "rule": use.rule,
                "evidence": [
                    {"campaign": each.label, "choice": each.choice or None, "says": each.says}
                    for each in article.evidence(use)
                ],
            }
            for use in USES
        ],
    }
