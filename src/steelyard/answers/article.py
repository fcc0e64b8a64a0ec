"""One article of several campaigns: results, what to choose for what use, how it was measured.

It says nothing that a report does not say. Uses are answered by rules that stand beside them; where
no verdict decides, that is the answer, with the minutes that would. Workloads are never averaged
into one number, and campaigns are never set against each other here: `steelyard compare` does that.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from steelyard.answers import results
from steelyard.answers.durability.compute import (
    OF_SETTINGS,
    WHEN,
    campaign_durability,
    touching_data,
    what_is_lost,
    writing,
)
from steelyard.answers.durability.rules import ConfigurationDurability, Fate, Loss
from steelyard.answers.latency.compute import LatencyChange, campaign_latency, percentile_name
from steelyard.answers.money import CostChange, analyse_money
from steelyard.answers.report import build_document, short_verdicts, summary
from steelyard.answers.result.section import place_line
from steelyard.answers.scripts.verdicts import opposites
from steelyard.answers.sustained.compute import long_runs, within_bursts
from steelyard.core.findings import Verdict
from steelyard.core.quantities import PERCENT, SECONDS
from steelyard.core.schedule import Load
from steelyard.core.wording import (
    SECONDS_PER_MINUTE,
    format_duration,
    parse_duration_s,
    whole_minutes,
)
from steelyard.report import document as doc
from steelyard.report.document import number
from steelyard.report.keys import load_data

_CHAPTER: Final = (  # sections of a report that its chapter has, in the order of the report
    *("verdicts", "what-lasts", "effects", "attribution", "published", "capacity", "charts"),
    "cells",
    *("latency", "plans", "durability", "time", "devices", "read-amplification", "money"),
    *("scalability", "sustained", "explained", "findings"),
)
_TIME: Final = replace(doc.TEXT, show=format_duration, unit=SECONDS)
_TOLD_ALONE: Final = 3  # so many that are not decided are told one by one
_FIGURES: Final = (
    "effects",
    "loads",
    "attribution",
    "scalability",
    "sustained",
)  # of a chapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one comparison says of a use.

    Attributes:
        label: Of the campaign, as the article calls it.
        contest: Workload and sides, or a configuration.
        choice: The configuration to take; both names where they are equivalent; empty where the
            comparison does not decide.
        says: The verdict with its interval, or why it is none.
        section: Anchor in the campaign's report of where that stands.
        needs_s: How long a campaign takes that decides it, about; None where it is decided, or
            where more blocks would not do.
        run: The command that takes so long; empty likewise.
    """

    label: str
    contest: str
    choice: str
    says: str
    section: str = "verdicts"
    needs_s: float | None = None
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A use of a database, and the rule by which campaigns speak of it.

    Attributes:
        name: As it stands in the table.
        rule: In words.
        evidence: Yields what a campaign says; nothing where it does not speak of it.
        measured_by: What measures it where no campaign speaks of it.
        undecided: What the table says where no evidence makes a choice.
    """

    name: str
    rule: str
    evidence: Callable[[str, results.CampaignAnalysis], Iterator[Evidence]]
    measured_by: str
    undecided: str = "not decided"


def _contest(c: results.Comparison | LatencyChange | CostChange) -> str:
    return f"{c.workload}, {doc.versus(c.configuration, c.baseline)}"


def _by_throughput(
    label: str, analysis: results.CampaignAnalysis, c: results.Comparison
) -> Evidence:
    """Return what the verdict on the rate says, and what would decide it where it does not."""
    said = f"{results.verdict_word(c, analysis.experiment.stop.margin)} {_difference(analysis, c)}"
    told = Evidence(label=label, contest=_contest(c), choice="", says=said)
    if c.is_suspect:
        return replace(told, says=f"{said}; suspect, because a negative control differs")
    if not c.verdict.decided:
        return _not_decided(told, analysis, c.minutes_to_decide)
    limited = analysis.answer(within_bursts) or frozenset()
    if {(name, c.workload) for name in (c.configuration, c.baseline)} & limited:
        lasting = "within burst credits: a long run (`sustain`) would tell what lasts"
        return replace(told, says=f"{said}; {lasting}")
    divided = _changes_sides(analysis, c)
    if divided or _is_mixed(analysis, _contest(c), c.load):
        return replace(told, says=f"{said}; {_DIVIDED if divided else _MIXED}")
    if c.verdict is Verdict.EQUIVALENT or c.no_practical_weight:
        weaker = {trade.weaker for trade in c.trades}
        kept = [name for name in (c.configuration, c.baseline) if name not in weaker]
        lost = "".join(f"; but {_may_lose(name)}" for name in sorted(weaker))
        return replace(told, choice=" or ".join(kept), says=f"{said}{lost}")
    sides = (c.configuration, c.baseline)
    return _unless_weaker(told, analysis, *(sides if c.verdict is Verdict.FASTER else sides[::-1]))


def _difference(analysis: results.CampaignAnalysis, c: results.Comparison) -> str:
    """Return the interval of a result; of one that depends on load its least and largest effect."""
    found = results.span_of(analysis, c)
    return f"from {found}" if found else doc.effect_interval(c.effect)


def _changes_sides(analysis: results.CampaignAnalysis, c: results.Comparison) -> bool:
    """Return whether a result depends on load, and not all loads clearly favour the same side."""
    found = [doc.bounds(cell.effect) or (0.0, 0.0) for cell in results.weighed_cells(analysis, c)]
    agree = all(low > 0.0 for low, _ in found) or all(high < 0.0 for _, high in found)
    return c.depends_on_load and not (found and agree)


_DIVIDED: Final = "not all loads favour the same side"
_MIXED: Final = "not all scripts favour the same side"


def _is_mixed(analysis: results.CampaignAnalysis, contest: str, load: Load | None) -> bool:
    """Return whether the scripts of a contest contradict each other: at a load, or at all."""
    scripts = (each for c in analysis.results if _contest(c) == contest for each in c.scripts)
    return opposites([each for each in scripts if load in (None, each.load)]) is not None


def _not_decided(
    told: Evidence, analysis: results.CampaignAnalysis, minutes_more: float | None
) -> Evidence:
    said = f"{told.says}; not decided"
    if minutes_more is None:
        return replace(told, says=said)
    needs_s = analysis.elapsed_s + SECONDS_PER_MINUTE * minutes_more
    return replace(told, says=said, needs_s=needs_s, run=_run_for(analysis.command, needs_s))


def _unless_weaker(
    told: Evidence, analysis: results.CampaignAnalysis, better: str, other: str
) -> Evidence:
    """Return the choice of a side, unless it may lose what the other keeps.

    That is a trade, and no choice that a rate, a latency or a price can make.
    """
    trades = (trade for c in analysis.comparisons for trade in c.trades)
    if any((trade.weaker, trade.stronger) == (better, other) for trade in trades):
        return replace(told, says=f"{told.says}; but {_may_lose(better)}")
    return replace(told, choice=better)


def _may_lose(name: str) -> str:
    return f"{name} may lose acknowledged writes that the other keeps"


def _of_data(analysis: results.CampaignAnalysis) -> Iterator[results.Comparison]:
    """Yield the results of workloads that read or change data: others speak of no use."""
    touching = touching_data(analysis.experiment.workloads, analysis.runs)
    return (c for c in analysis.results if c.workload in touching)


_SHORT: Final = "--short"
_OF_ONE_RUN: Final = {"--seed", "--budget"}


def _run_for(command: str, seconds: float) -> str:
    """Return the command of a campaign as one of another length; empty where none is known.

    A shortened run decides nothing, however long it is.
    """
    own, dashes, flags = command.partition(" -- ")  # behind them are the generator's
    if _SHORT in shlex.split(own):
        return ""
    words, kept = iter(shlex.split(own)), list[str]()
    for word in words:
        if word in _OF_ONE_RUN:
            next(words, "")
        elif word == "--override" and (change := next(words, "")):
            kept += [] if change.startswith("stop.budget=") else [word, change]
        elif word == "--ttl":  # and for as long again: servers are made and deleted meanwhile
            ttl_s = max(parse_duration_s(next(words, "0")), 2.0 * seconds)
            kept += [word, f"{whole_minutes(ttl_s)}m"]
        elif not word.startswith(tuple(f"{option}=" for option in _OF_ONE_RUN)):
            kept.append(word)
    told = shlex.join([*kept, "--budget", f"{whole_minutes(seconds)}m"]) if kept else ""
    return f"{told}{dashes}{flags}" if told else ""


def _work(writes: bool) -> Callable[[str, results.CampaignAnalysis], Iterator[Evidence]]:  # noqa: FBT001 - a kind
    def evidence(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
        workloads, runs = analysis.experiment.workloads, analysis.runs
        mostly, at_all = writing(workloads, runs, mostly=True), writing(workloads, runs)
        for c in _of_data(analysis):
            if c.workload in mostly if writes else c.workload not in at_all:
                yield _by_throughput(label, analysis, c)

    return evidence


_TOLD_OF_A_CLIENT: Final = (0.99, 0.5)  # percentiles, the weightier first


def _single_client(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
    """Yield what percentiles say where they are clear, else what the rate says."""
    closed = analysis.experiment.closed_loads
    pooled = tuple(_of_data(analysis))
    touching = {c.workload for c in pooled}
    of_data = (c for c in analysis.comparisons if c.workload in touching)
    alone = [c for c in of_data if c.load in closed and c.load.clients == 1]
    if not alone and [load.clients for load in closed] == [1]:
        alone = [replace(c, load=closed[0]) for c in pooled]
    for c in alone:
        yield _by_latency(label, analysis, c) or _by_throughput(label, analysis, c)


def _by_latency(
    label: str, analysis: results.CampaignAnalysis, c: results.Comparison
) -> Evidence | None:
    latency = analysis.answer(campaign_latency)
    changes = () if latency is None else latency.changes
    told = {
        each.share: each
        for each in changes
        if (_contest(each), each.load) == (_contest(c), c.load) and each.called
    }
    clear = next((told[share] for share in _TOLD_OF_A_CLIENT if share in told), None)
    if clear is None or c.is_suspect:
        return None
    said = f"{percentile_name(clear.share)} {clear.called} {doc.effect_interval(clear.change)}"
    found = Evidence(label=label, contest=_contest(c), choice="", says=said, section="latency")
    if _is_mixed(analysis, _contest(c), c.load):
        return replace(found, says=f"{said}; {_MIXED}")
    sides = (c.configuration, c.baseline)
    return _unless_weaker(found, analysis, *(sides if clear.called == "lower" else sides[::-1]))


def _lasting(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
    """Yield what long runs say: one of each decides by a drop in it, never by its level."""
    long = analysis.answer(long_runs) or ()
    touching = touching_data(analysis.experiment.workloads, analysis.runs)
    rates = {
        (each.run.configuration, each.run.cell): each
        for each in long
        if each.run.cell.workload in touching
    }
    baseline = analysis.experiment.baseline
    for (name, cell), mine in rates.items():
        theirs = rates.get((baseline, cell))
        if name == baseline or theirs is None or mine.tps is None or theirs.tps is None:
            continue
        sides = {name: mine, baseline: theirs}
        dropped = [each for each, long in sides.items() if long.cliff is not None]
        unit = analysis.experiment.words.rate
        said = " and ".join(
            f"{each} {long.tps:,.0f} {unit}" + (" after a drop" if each in dropped else "")
            for each, long in sides.items()
        )
        higher, lower = (name, baseline) if mine.tps > theirs.tps else (baseline, name)
        decides = len(dropped) == 1 and higher not in dropped
        told = Evidence(
            label=label,
            contest=f"{cell.workload}, {doc.versus(name, baseline)}",
            choice="",
            says=said if decides else f"{said}, one run each: not decided",
            section="sustained",
        )
        yield _unless_weaker(told, analysis, higher, lower) if decides else told


def _money(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
    money = analysis.answer(analyse_money)
    touching = touching_data(analysis.experiment.workloads, analysis.runs)
    for change in money.changes if money is not None else ():
        pair = doc.bounds(change.change)
        if pair is None or change.workload not in touching:
            continue
        said = f"{doc.effect_interval(change.change)} per {analysis.experiment.words.one}"
        decided = pair[1] < 0 or pair[0] > 0
        told = Evidence(
            label=label,
            contest=_contest(change),
            choice="",
            says=said if decided else f"{said}; not decided",
            section="money",
        )
        if decided and _is_mixed(analysis, _contest(change), None):
            yield replace(told, says=f"{said}; {_MIXED}")
            continue
        sides = (change.configuration, change.baseline)
        cheaper_first = sides if pair[1] < 0 else sides[::-1]
        yield _unless_weaker(told, analysis, *cheaper_first) if decided else told


def _losses(analysis: results.CampaignAnalysis, losses: Sequence[Loss]) -> dict[str, str | None]:
    """Return what each configuration may lose under some failures, in words.

    Empty where it keeps every acknowledged write; None where no loss is known, but not all fates.
    """
    of_campaign = analysis.answer(campaign_durability) or ()
    return {each.configuration: _loss_in_words(analysis, each, losses) for each in of_campaign}


def _loss_in_words(
    analysis: results.CampaignAnalysis, durability: ConfigurationDurability, losses: Sequence[Loss]
) -> str | None:
    configuration = analysis.experiment.configuration(durability.configuration)
    lost: dict[str, list[str]] = {}
    for survival in durability.survivals:
        if survival.loss in losses and survival.fate in (Fate.LAST, Fate.ALL):
            lost.setdefault(what_is_lost(survival, configuration), []).append(WHEN[survival.loss])
    words = (f"{what} may be lost when {' or '.join(when)}" for what, when in lost.items())
    unknown = any(durability.fate(loss) is Fate.UNKNOWN for loss in losses)
    return "; ".join(words) or (None if unknown else "")


def _node_lost(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
    """Yield which side keeps what was acknowledged: also when its server starts again."""
    lost = _losses(analysis, (*OF_SETTINGS, Loss.NODE))
    for c in _of_data(analysis):
        sides = (c.configuration, c.baseline)
        keeping = [name for name in sides if lost.get(name) == ""]
        if len(keeping) == len(sides):
            yield _by_throughput(label, analysis, c)
        elif keeping and (weaker := next((name for name in sides if lost.get(name)), "")):
            yield Evidence(
                label=label,
                contest=_contest(c),
                choice=keeping[0],
                says=f"{weaker}: {lost[weaker]}",
                section="durability",
            )


def _managed(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
    managed = {each.name for each in analysis.experiment.configurations if each.target.is_managed}
    for c in _of_data(analysis):
        sides = {c.configuration, c.baseline}
        told = _by_throughput(label, analysis, c)
        if sides <= managed:
            yield told
        elif len(sides & managed) == 1 and len(sides) > 1:
            yield replace(told, choice=next(iter(sides & managed)), needs_s=None, run="")


def _durability(label: str, analysis: results.CampaignAnalysis) -> Iterator[Evidence]:
    kept = " or ".join(WHEN[loss] for loss in OF_SETTINGS)
    for name, lost in _losses(analysis, OF_SETTINGS).items():
        if lost is not None:
            yield Evidence(
                label=label,
                contest=name,
                choice="" if lost else name,
                says=lost or f"keeps every acknowledged write when {kept}",
                section="durability",
            )


USES: Final = (
    Use(
        name="read-heavy",
        rule="the higher rate in workloads that only read data",
        evidence=_work(writes=False),
        measured_by="steelyard run preset:quick",
    ),
    Use(
        name="write-heavy",
        rule="the higher rate in workloads of which at least every second transaction writes,"
        " unless it is bought with durability",
        evidence=_work(writes=True),
        measured_by="steelyard run preset:quick",
    ),
    Use(
        name="low latency at low load",
        rule="the lower p99 of a single client, else its lower p50, where they clearly differ; else"
        " its higher rate; unless it is bought with durability",
        evidence=_single_client,
        measured_by="steelyard run preset:statements",
    ),
    Use(
        name="load for hours",
        rule="the side that keeps a higher rate in a long run in which the other drops, unless"
        " it is bought with durability",
        evidence=_lasting,
        measured_by="a campaign with `sustain` in its file",
    ),
    Use(
        name="cost-bound",
        rule="the lower cost of a transaction, where files or price lists say what servers cost,"
        " unless it is bought with durability",
        evidence=_money,
        measured_by="a campaign with `cost` in its targets",
    ),
    Use(
        name="high availability",
        rule="the side that keeps every acknowledged write when its server is killed, its power"
        " fails or its node is lost; of two that do, the higher rate. How long a failover takes is"
        " not in it",
        evidence=_node_lost,
        measured_by="steelyard run preset:high-availability",
    ),
    Use(
        name="managed service",
        rule="the side that a provider runs, at the difference that its line tells; of two, the"
        " higher rate",
        evidence=_managed,
        measured_by="a campaign with a target of kind `rds` or `aurora`",
    ),
    Use(
        name="nothing acknowledged may be lost",
        rule="the configurations that by their settings in force keep every acknowledged write when"
        " the server is killed and when the power fails",
        evidence=_durability,
        undecided="none of these keeps every acknowledged write",
        measured_by="a campaign of servers that differ in it, as `preset:redis-aof` has them",
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
    analysis: results.CampaignAnalysis
    report: doc.Document
    note: str = ""

    @classmethod
    def of(cls, label: str, analysis: results.CampaignAnalysis, *, note: str = "") -> "Chapter":
        """Return the chapter of a campaign."""
        return cls(label=label, analysis=analysis, report=build_document(analysis), note=note)

    def section(self, anchor: str) -> tuple[doc.Block, ...]:
        """Return the blocks of a section of its report; nothing where it has none."""
        return next((s.every for s in self.report.sections if s.anchor == anchor), ())


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


def article_document(article: Article) -> doc.Document:
    """Return the article as a document."""
    names = ", ".join(chapter.label for chapter in article.chapters)
    chapters = tuple(
        section
        for number, chapter in enumerate(article.chapters, start=1)
        for section in _chapter(number, chapter)
    )
    moments = sorted(chapter.analysis.started_at for chapter in article.chapters)
    ends = dict.fromkeys((doc.utc(moments[0]), doc.utc(moments[-1])))
    return doc.Document(
        title=article.title,
        subtitle=f"{doc.count(len(article.chapters), 'campaign')}: {names} · {' to '.join(ends)}",
        sections=(
            _results(article),
            _choices(article, {section.anchor: section.title for section in chapters}),
            *chapters,
            _measured(article),
            _limits(article),
            _commands(article),
        ),
    )


def _results(article: Article) -> doc.Section:
    every = [(chapter.label, chapter.analysis) for chapter in article.chapters]
    compared = [(label, analysis, c) for label, analysis in every for c in analysis.results]
    note = (
        "Each line compares two configurations within the blocks of one campaign. Lines of"
        " different campaigns are other machines or other hours, and say nothing of each other."
    )
    table = doc.table_of(
        compared,
        doc.column("campaign", lambda row: row[0]),
        doc.column("workload", lambda row: row[2].workload),
        doc.column("configuration", lambda row: row[2].configuration),
        doc.column("against", lambda row: row[2].baseline, key="baseline"),
        doc.Cells(
            doc.Column(name="verdict"),
            lambda row: results.verdict_word(row[2], row[1].experiment.stop.margin),
            lambda row: (("verdict", row[2].verdict.value),),
        ),
        doc.Cells(
            doc.Column(name="difference, 95 %"),
            lambda row: _difference(row[1], row[2]),
            lambda row: doc.Form(unit=PERCENT).data("effect", row[2].effect),
        ),
        doc.column("blocks", lambda row: row[2].blocks),
        title="Results",
        note=note,
        common=load_data(None),
    )
    blocks: list[doc.Block] = [table]
    blocks += [
        doc.Paragraph(text=f"{label}: {short_verdicts(analysis)}.")
        for label, analysis in every
        if not analysis.results
    ]
    blocks += [
        doc.Paragraph(text=f"{chapter.label}: {chapter.note}")
        for chapter in article.chapters
        if chapter.note
    ]
    return doc.Section(anchor="results", title="Results", blocks=tuple(blocks), first=True)


def _choices(article: Article, titles: Mapping[str, str]) -> doc.Section:
    """Return when to choose what: by rule, with the evidence for each."""
    numbers = {chapter.label: place for place, chapter in enumerate(article.chapters, start=1)}
    pairs, lists = [], []
    for use in USES:
        found = article.evidence(use)
        decided = tuple(dict.fromkeys(f"{e.choice} ({e.label})" for e in found if e.choice))
        nothing = use.undecided if found else f"not measured; {use.measured_by} would measure it"
        pairs.append((use.name, f"{doc.enumeration(decided) or nothing}. Rule: {use.rule}."))
        lines = tuple(_lines(found))
        anchors = [f"{each.section}-{numbers[each.label]}" for _, each in lines]
        links = tuple(
            doc.Link(text=titles[a], address=f"#{a}") if a in titles else None for a in anchors
        )
        if lines:
            items = tuple(text for text, _ in lines)
            lists.append(doc.BulletList(lead=f"{use.name}, the evidence", items=items, links=links))
    blocks: tuple[doc.Block, ...] = (doc.KeyValues(title="", pairs=tuple(pairs)), *lists)
    return doc.Section(anchor="choices", title="When to choose what", blocks=blocks, first=True)


def _lines(found: Sequence[Evidence]) -> Iterator[tuple[str, Evidence]]:
    """Yield lines with the evidence for each; what one longer campaign would decide is one line."""
    for label, of_campaign in groupby(found, key=lambda each: each.label):
        every = list(of_campaign)
        for each in every:
            if not each.run:
                yield f"{label}: {each.contest}: {each.says}", each
        longer = [each for each in every if each.run]
        if longer:
            last = max(longer, key=lambda e: e.needs_s or 0.0)
            told = "; ".join(f"{e.contest}: {e.says}" for e in longer)
            if len(longer) > _TOLD_ALONE:
                told = f"{doc.count(len(longer), 'comparison')} are not decided"
            needs = format_duration(last.needs_s or 0.0)
            yield f"{label}: {told}; `{last.run}` would, in about {needs}", last


def _chapter(number: int, chapter: Chapter) -> Iterator[doc.Section]:
    """Yield the sections of a campaign's report that an article has, under its label."""
    for section in chapter.report.sections:
        if section.anchor in _CHAPTER and (
            blocks := tuple(_kept(number, section.blocks or section.more))
        ):
            if section.anchor == "verdicts":
                blocks = (*chapter.report.setup, *blocks)
            yield replace(
                section,
                anchor=f"{section.anchor}-{number}",
                title=f"{chapter.label}: {section.title}",
                blocks=blocks,
                more=(),
                chapter=None,
            )


def _kept(number: int, blocks: Sequence[doc.Block]) -> Iterator[doc.Block]:
    """Yield blocks; drawings of single blocks and seconds are left to the report."""
    for block in blocks:
        if isinstance(block, doc.Figure):
            if block.identity.startswith(_FIGURES):
                yield replace(block, identity=f"{block.identity}-of-{number}")
        elif isinstance(block, doc.FindingList):
            yield replace(block, items=tuple(_anchored(number, item) for item in block.items))
        elif isinstance(block, doc.BulletList):
            yield replace(block, links=tuple(_linked(number, each) for each in block.links))
        elif isinstance(block, doc.Paragraph) and block.link:
            yield replace(block, link=f"{block.link}-{number}")
        else:
            yield block


def _linked(number: int, link: doc.Link | None) -> doc.Link | None:
    return None if link is None else replace(link, address=f"{link.address}-{number}")


def _anchored(number: int, item: doc.FindingItem) -> doc.FindingItem:
    return replace(item, anchor=f"{item.anchor}-{number}") if item.anchor else item


def _measured(article: Article) -> doc.Section:
    title = "How it was measured"
    table = doc.table_of(
        article.chapters,
        doc.column("campaign", lambda chapter: chapter.label),
        doc.column("servers and machine", lambda chapter: place_line(chapter.analysis) or None),
        doc.column("loads", _loads),
        doc.column("design", lambda chapter: chapter.analysis.plan and chapter.analysis.plan.mode),
        doc.column("blocks", lambda chapter: chapter.analysis.blocks),
        doc.column("tries redone", lambda chapter: len(chapter.analysis.blocks_redone)),
        doc.column("ended", lambda chapter: results.ending(chapter.analysis)),
        doc.column("took", lambda chapter: chapter.analysis.elapsed_s, _TIME, key="elapsed"),
        doc.column("began", lambda chapter: doc.utc(chapter.analysis.started_at)),
        title=title,
    )
    return doc.Section(anchor="measured", title=title, blocks=(table,))


def _loads(chapter: Chapter) -> str:
    experiment = chapter.analysis.experiment
    return "; ".join(results.cell_name(experiment, load) for load in experiment.loads)


def _limits(article: Article) -> doc.Section:
    """Return what reports say that they do not show, each once, with the campaigns that say it."""
    told: dict[str, dict[str, list[str]]] = {}
    for chapter in article.chapters:
        for block in chapter.section("limits"):
            if isinstance(block, doc.BulletList):
                for item in block.items:
                    told.setdefault(block.lead, {}).setdefault(item, []).append(chapter.label)
    every = len(article.chapters)
    lists = (
        doc.BulletList(
            lead=lead,
            items=tuple(
                item if len(labels) == every else f"{item} ({', '.join(labels)})"
                for item, labels in items.items()
            ),
        )
        for lead, items in told.items()
    )
    missing = doc.BulletList(lead="Of what it is about it does not show:", items=article.missing)
    blocks = (*((missing,) if article.missing else ()), *lists)
    return doc.Section(anchor="limits", title="What this does and does not show", blocks=blocks)


def _commands(article: Article) -> doc.Section:
    blocks: list[doc.Block] = []
    for chapter in article.chapters:
        blocks += [doc.Paragraph(text=f"{chapter.label}:"), *chapter.section("command")]
    return doc.Section(anchor="commands", title="Reproduce it", blocks=tuple(blocks))


def article_json(article: Article) -> dict[str, doc.Json]:
    """Return the article for programs: campaigns' summaries, and the uses with their evidence."""
    return {
        "format": doc.FORMAT,
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
                "measured_by": use.measured_by,
                "evidence": [
                    {
                        "campaign": each.label,
                        "contest": each.contest,
                        "choice": each.choice or None,
                        "says": each.says,
                        "section": each.section,
                        "needs_s": number(each.needs_s),
                        "run": each.run or None,
                    }
                    for each in article.evidence(use)
                ],
            }
            for use in USES
        ],
    }
