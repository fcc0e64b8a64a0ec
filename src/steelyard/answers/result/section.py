"""The first section of a report: one card per workload and configuration, or their ranking."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from steelyard.answers import findings
from steelyard.answers.capacity.section import rate_answers
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.latency.compute import campaign_latency
from steelyard.answers.latency.section import tail_warnings
from steelyard.answers.money import money_clause
from steelyard.answers.observations import result_contrasts
from steelyard.answers.results import (
    DIVIDED,
    CampaignAnalysis,
    CellSummary,
    Comparison,
    cell_name,
    contestants,
    decided_early,
    durability_clause,
    durability_word,
    effect_at,
    extreme_cells,
    intervals_together,
    is_interim,
    looked_for,
    more_minutes,
    pending,
    plain_word,
    span_of,
    tone_of,
    uncompared,
    verdict_sentence,
    verdict_word,
)
from steelyard.answers.scalability import gain_answers
from steelyard.answers.values import value_answers
from steelyard.core.campaign import Status
from steelyard.core.experiment import RATE
from steelyard.core.findings import Finding, Severity, Validity, grouped, words_of
from steelyard.core.schedule import Load
from steelyard.report import document as doc
from steelyard.report.keys import row_of

_TAIL = 0.99
_WHY_OTHERWISE = (
    f"The {RATE} are medians over all runs, and effects are ratios within blocks: where the machine"
    " moved between blocks they differ, even in sign."
)
_MOST_LOADS = 2  # the least and the largest load say how the levels go


def level_lines(analysis: CampaignAnalysis, result: Comparison) -> tuple[str, ...]:
    """Return rate and 99th percentile before and after, of the least and the largest load.

    Medians over runs: they describe both sides, and the effect is not computed from them.
    """
    known = [(load, _sides(analysis, result, load)) for load in analysis.experiment.closed_loads]
    known = [(load, sides) for load, sides in known if sides]
    ends = known if len(known) <= _MOST_LOADS else [known[0], known[-1]]
    lines = [_line(analysis, load, sides) for load, sides in ends]
    many = len(ends[0][1][0]) if ends else 1
    if many > 1:  # geometric means: effects of factors are means of logs
        load, colon, rates = lines[0].partition(":")
        tied = load.replace(" ", "\N{NO-BREAK SPACE}")
        lines[0] = f"means of {many} combinations, {tied}{colon}{rates}"
    return tuple(lines)


def contradiction(analysis: CampaignAnalysis) -> str:
    """Return why rates and an effect point different ways, where they do; else nothing.

    Of a baseline against itself nothing is to be explained: its effect is noise.
    """
    if analysis.experiment.twin_of is not None:
        return ""
    return _WHY_OTHERWISE if any(_is_contrary(analysis, each) for each in analysis.results) else ""


def _is_contrary(analysis: CampaignAnalysis, result: Comparison) -> bool:
    loads = analysis.experiment.closed_loads
    sides = _sides(analysis, result, loads[0]) if len(loads) == 1 else ()
    if not sides or result.effect is None:
        return False
    before, after = map(_rate, sides)
    return (after - before) * result.effect.value < 0.0


_Sides = tuple[tuple[CellSummary, ...], ...]  # of baseline and configuration


def _line(analysis: CampaignAnalysis, load: Load, sides: _Sides) -> str:
    parts = [f"{_way(*(doc.rate(_rate(side)) for side in sides))} {RATE}"]
    # A percentile of several servers together is one of none of them.
    tails = [_tail_s(analysis, *side) if len(side) == 1 else None for side in sides]
    if None not in tails:
        parts.append(f"p99 {_way(*map(doc.milliseconds, tails))}\N{NO-BREAK SPACE}ms")
    return f"{cell_name(analysis.experiment, load)}: {', '.join(parts)}"


def _rate(side: Sequence[CellSummary]) -> float:
    """Return the geometric mean of the rates of one side."""
    return math.exp(math.fsum(math.log(cell.tps.value) for cell in side) / len(side))


def _way(*texts: str) -> str:
    return " \N{RIGHTWARDS ARROW} ".join(texts)


def _sides(analysis: CampaignAnalysis, result: Comparison, load: Load) -> _Sides:
    """Return the cells of baseline and configuration; nothing where one has no rate.

    A level of a factor has those of all combinations that count for it.
    """
    found = {
        cell.configuration: cell
        for cell in analysis.cells
        if cell.cell.workload == result.workload and cell.cell.load == load and cell.runs
    }
    names = [configuration.name for configuration in analysis.experiment.configurations]
    for asked in result_contrasts(analysis.experiment):
        if (asked.baseline, asked.configuration) == (result.baseline, result.configuration):
            places = (asked.negative, asked.positive)
            sides = tuple(tuple(found.get(names[each]) for each in side) for side in places)
            whole = tuple(tuple(cell for cell in side if _has_rate(cell)) for side in sides)
            return whole if whole == sides else ()
    return ()


def _has_rate(cell: CellSummary | None) -> TypeGuard[CellSummary]:
    return cell is not None and math.isfinite(cell.tps.value) and cell.tps.value > 0.0


def _tail_s(analysis: CampaignAnalysis, cell: CellSummary) -> float | None:
    latency = analysis.answer(campaign_latency)
    return None if latency is None else latency.percentile_s(cell.configuration, cell.cell, _TAIL)


def place_line(analysis: CampaignAnalysis) -> str:
    """Return servers and machine in a line; empty where no facts were gathered."""
    return " · ".join(_places(analysis))


def _places(analysis: CampaignAnalysis) -> Iterator[str]:
    servers = (f.value for f in analysis.facts if f.name.startswith("server of "))
    if versions := tuple(dict.fromkeys(servers)):
        yield doc.enumeration(versions)
    machine = {fact.name: fact.value for fact in analysis.facts if fact.subject == "machine"}
    cpus = re.match(r"\d+", machine.get("cpus", ""))
    if cpus is not None:
        model = machine.get("cpu model", "")
        yield f"{cpus[0]} CPU{'s' * (cpus[0] != '1')}{f' ({model})' if model else ''}"
    if "memory" in machine:
        yield machine["memory"].partition(" usable")[0]
    if machine.get("virtualisation", "") not in ("", "not visible", "none"):
        yield machine["virtualisation"]


MOST_CARDS = 4  # results that a reader takes in as cards
_RULE = "Ordered by estimate; the rank: all places between those clearly faster and clearly slower."
_NOTE = (
    "Rows are ordered by estimate. A rank is the places that a configuration may have: after those"
    " that are clearly faster, whose whole interval lies above its own, and before those that are"
    " clearly slower. The intervals hold together, against the baseline, whose effect is 0 %."
)


def rankings(analysis: CampaignAnalysis) -> tuple[doc.Table, ...]:
    """Return one table per workload, the best first; nothing for few results or for factors."""
    if len(analysis.results) <= MOST_CARDS or analysis.experiment.attribution is not None:
        return ()
    workloads = dict.fromkeys(result.workload for result in analysis.results)
    tables = [_ranking(analysis, workload) for workload in workloads]
    drawn = [place for place, each in enumerate(tables) if not each.spare] or [0]
    first = tables[drawn[0]]
    tables[drawn[0]] = replace(
        first, brief=f"{first.brief} {_RULE}".strip(), note=f"{first.note} {_NOTE}".strip()
    )
    return tuple(tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One row of a ranking.

    Attributes:
        result: None of the baseline.
        places: The best and the last that it may have; None without an interval.
    """

    configuration: str
    result: Comparison | None = None
    places: tuple[int, int] | None

    @property
    def rank(self) -> str:
        """Return the places, or the one place, as a text."""
        if self.places is None:
            return doc.MISSING
        best, last = self.places
        return str(best) if best == last else f"{best}\N{EN DASH}{last}"

    @property
    def change(self) -> str:
        """Return the estimate as a text."""
        if self.result is None:
            return "0 %"
        return doc.MISSING if self.places is None else doc.effect_value(self.result.effect)

    @property
    def estimate(self) -> float:
        """Return what rows are ordered by."""
        effect = self.result.effect if self.result else None
        return effect.value if effect else 0.0

    @property
    def leads(self) -> bool:
        """Return whether nobody is clearly faster: of its places the best is the first."""
        return self.places is not None and self.places[0] == 1

    @property
    def data(self) -> tuple[doc.Datum, ...]:
        """Return what programs read of it."""
        best, last = self.places or (None, None)
        whose = row_of(self.result) if self.result else (("configuration", self.configuration),)
        return (*whose, ("rank_best", best), ("rank_last", last))


def ahead(rows: Sequence[Ranked], workload: str, *, on_average: bool = False) -> str:
    """Return who leads a ranking, in a sentence; "" where nobody has an interval.

    Args:
        rows: The best first.
        workload: Its name.
        on_average: Effects depend on load.
    """
    first = tuple(row.configuration for row in rows if row.leads)
    if len(rows) < 2:
        return ""
    if len(first) == len(rows):
        return f"Under {workload} none is clearly faster than any other."
    verb = "is" if len(first) == 1 else "are"
    other = "it" if len(first) == 1 else "at least one of these"
    added = " on average" if on_average else ""
    return (
        f"Under {workload} {doc.enumeration(first)} {verb} ahead: each of the others is clearly"
        " slower"
        f" than {other}{added}."
    )


_NEXT = 5  # who comes after the leaders, by name where there is no room for a table


def _gist(rows: Sequence[Ranked], leading: str) -> str:
    """Return a ranking in sentences: who leads, then who follows with its rank and effect."""
    after = [row for row in rows if not row.leads]
    parts = []
    for rank in dict.fromkeys(row.rank for row in after[:_NEXT]):
        names = [f"{row.configuration} ({row.change})" for row in after[:_NEXT] if row.rank == rank]
        parts.append(f"rank {rank}: {doc.enumeration(tuple(names))}")
    if len(after) > _NEXT:
        parts.append(f"{len(after) - _NEXT} more in the report")
    told = "; ".join(parts)
    return " ".join(filter(None, (leading, f"{told[:1].upper()}{told[1:]}." if told else "")))


def ranks(intervals: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """Return the best and the last place of each interval: by those wholly above and below it."""
    most = len(intervals)
    return [
        (
            1 + sum(other_low > high for other_low, _ in intervals),
            most - sum(other_high < low for _, other_high in intervals),
        )
        for low, high in intervals
    ]


def _ranking(analysis: CampaignAnalysis, workload: str) -> doc.Table:
    results = [each for each in analysis.results if each.workload == workload]
    known = [each for each in results if doc.bounds(each.effect) is not None]
    own, *places = ranks([(0.0, 0.0), *(doc.bounds(each.effect) or (0.0, 0.0) for each in known)])
    unsorted = [
        Ranked(configuration=results[0].baseline, places=own),
        *(
            Ranked(configuration=each.configuration, result=each, places=span)
            for each, span in zip(known, places, strict=True)
        ),
    ]
    ranked = sorted(unsorted, key=lambda row: -row.estimate)
    without = (
        Ranked(configuration=each.configuration, result=each, places=None)
        for each in results
        if each not in known
    )
    leading = ahead(ranked, workload, on_average=any(each.depends_on_load for each in known))
    lost = _lost_in_a_power_cut(analysis)

    def loss(row: Ranked) -> str:
        return lost.get(row.configuration, doc.MISSING)

    table = doc.table_of(
        (*ranked, *without),
        (doc.number_column("rank"), lambda row: row.rank),
        ("configuration", lambda row: row.configuration),
        (doc.number_column("change"), lambda row: row.change),
        (
            doc.number_column("95 % interval"),
            lambda row: doc.effect_interval(row.result.effect if row.result else None),
        ),
        (
            doc.Column(name="verdict", below=True),
            lambda row: _standing(analysis, row, durability=not lost),
        ),
        *([(doc.Column(name=_LOST, below=True), loss)] if lost else []),
        title=f"Ranking under {workload} by throughput",
        tone=lambda row: doc.Tone.PLAIN if row.result is None else tone_of(row.result),
        tone_column=4,
        note=leading,
        brief=leading,
        data=lambda row: row.data,
    )
    return replace(
        table,
        gist=_gist(ranked, leading),
        spare=bool(leading) and all(row.leads for row in ranked),  # the order says nothing
    )


_LOST = "power cut loses"


def _lost_in_a_power_cut(analysis: CampaignAnalysis) -> dict[str, str]:
    """Return what each configuration may lose then; nothing where all lose alike."""
    kept_by = analysis.answer(campaign_durability) or ()
    found = {each.configuration: each.lost_in_a_power_cut for each in kept_by}
    return found if len(set(found.values())) > 1 else {}


def _standing(analysis: CampaignAnalysis, row: Ranked, *, durability: bool) -> str:
    """Return a verdict in words for a row; one that depends on load with its extremes."""
    if row.result is None:
        return "baseline"
    if row.places is None:
        return "no interval yet"
    margin = analysis.experiment.stop.margin
    word = plain_word(row.result, margin, span_of(analysis, row.result))
    return f"{word}{durability_word(row.result)}" if durability else word


_DRAWING_SLACK = 0.08  # of the line's length, free at each end


def result_section(analysis: CampaignAnalysis) -> doc.Section:
    """Return the verdicts, or what there is instead when nothing was compared."""
    blocks: list[doc.Block] = []
    why = uncompared(analysis.experiment)
    if analysis.results:
        cards = tuple(_card(analysis, c) for c in analysis.results)
        ranked = rankings(analysis)
        blocks.append(doc.VerdictCards(cards=cards, rankings=ranked))
        blocks.extend(_against_itself(analysis))
        why_otherwise = contradiction(analysis)
        if why_otherwise and not ranked:
            blocks.append(doc.Paragraph(text=why_otherwise))
    elif analysis.blocks and why:
        blocks.append(doc.Paragraph(text=f"{why} {_looked_for(analysis)}"))
    else:
        blocks.append(doc.Paragraph(text=_nothing_compared(analysis), tone=doc.Tone.ERROR))
    blocks.extend(rate_answers(analysis))
    blocks.extend(gain_answers(analysis))
    blocks.extend(value_answers(analysis))
    blocks.extend(tail_warnings(analysis))
    blocks.extend(_remarks(analysis))
    named = _what_they_are(analysis) if analysis.results and rankings(analysis) else ()
    return doc.Section(
        anchor="verdicts",
        title="Verdicts",
        blocks=(*blocks[:1], *named, *blocks[1:]),
        first=True,
        brief=tuple(blocks) if named else (),
    )


def _what_they_are(analysis: CampaignAnalysis) -> tuple[doc.BulletList, ...]:
    """Return what of each configuration was asked for and differs from the baseline."""
    experiment = analysis.experiment
    base = experiment.baseline
    asked = [each for each in analysis.settings if each.requested]
    items = []
    for name in (each.name for each in experiment.configurations):
        told = [
            f"{each.name} = {each.values[name] or '(none)'}"
            for each in asked
            if name == base or each.values[name] != each.values[base]
        ]
        items.append(f"{name}: {', '.join(told) or 'as the baseline'}")
    lead = f"What they are (of {experiment.baseline}, the baseline, all that differs)"
    return (doc.BulletList(lead=lead, items=tuple(items)),) if asked else ()


# Of half a 95 % interval, with normal quantiles: (1.960 + 1.282) / 1.960. Half of it itself is seen
# every other time.
_NINE_IN_TEN = 1.65


def _against_itself(analysis: CampaignAnalysis) -> Iterator[doc.Paragraph]:
    """Yield what an A/A campaign is expected to say, and what size it would have seen."""
    named = {each.name: replace(each, name="") for each in analysis.experiment.configurations}
    seen = []
    for each in analysis.results if analysis.experiment.twin_of is None else ():
        side, pair = named.get(each.configuration), doc.bounds(each.effect)
        if side is not None and side == named.get(each.baseline) and pair is not None:
            beyond = round(_NINE_IN_TEN * (pair[1] - pair[0]) / 2, 3)
            seen.append(f"±{doc.share(beyond)} under {each.workload}")
    if seen:
        yield doc.Paragraph(
            text="Both sides are the same, so no difference is the expected answer. A difference"
            f" beyond about {doc.enumeration(tuple(seen))} would have been seen nine times in ten."
        )


def verdicts_and_findings(analysis: CampaignAnalysis) -> tuple[doc.Section, doc.Section]:
    """Return the verdicts, and the findings that they count."""
    return result_section(analysis), findings.finding_section(analysis)


def _looked_for(analysis: CampaignAnalysis) -> str:
    """Return what was looked for instead of a verdict, and why the campaign ended."""
    end = f"The campaign {_was(analysis.status)} after {doc.count(analysis.blocks, 'block')}"
    if analysis.status is Status.BUDGET:
        end = (
            "With nothing to decide it ended at its budget, after"
            f" {doc.count(analysis.blocks, 'block')}"
        )
    asked = looked_for(analysis.experiment)
    return f'Looked for was {asked}: see the section "Latency". {end}.'


def _nothing_compared(analysis: CampaignAnalysis) -> str:
    if analysis.blocks == 0:
        return f"No verdict: the campaign {_was(analysis.status)}, and no block is complete."
    return f"No verdict: nothing was compared in {doc.count(analysis.blocks, 'block')}."


def _was(status: Status) -> str:
    return {
        Status.FAILED: "failed",
        Status.INTERRUPTED: "was interrupted",
        Status.RUNNING: "is not finished",
    }.get(status, "ended")


def _remarks(analysis: CampaignAnalysis) -> list[doc.Paragraph]:
    remarks = []
    if analysis.results and is_interim(analysis):
        there = f"these are interim results after {doc.count(analysis.blocks, 'block')}"
        text = f"The campaign {_was(analysis.status)}; {there}."
        remarks.append(doc.Paragraph(text=text, tone=doc.Tone.WARNING))
    weakening, explaining = findings.split_by_weight(analysis)
    found = grouped(weakening)
    grave = [f for f in found if f.severity is not Severity.INFO]
    few = [f for f in grave if f.code == findings.TOO_FEW]
    if few and analysis.status is Status.BUDGET:  # the way out belongs beside what is missing
        text = f"{doc.ended(few[0].message)} {doc.ended(few[0].remedy)}"
        remarks.append(doc.Paragraph(text=text, tone=doc.Tone.WARNING))
        grave = [f for f in grave if f not in few]
    if grave and not analysis.blocks:
        remarks += [
            doc.Paragraph(text=f"{doc.ended(f.message)} {doc.ended(f.remedy)}") for f in grave[:1]
        ]
    elif grave:
        tone = doc.Tone.ERROR if grave[0].severity is Severity.ERROR else doc.Tone.WARNING
        link = findings.anchor(found.index(grave[0]))  # the list has the same order
        causes = " Causes are there, too." if explaining and analysis.results else ""
        text = f"{_suspect_cells(analysis)}{_gravest(grave)}{causes}"
        remarks.append(doc.Paragraph(text=text, tone=tone, link=link))
    if explaining and analysis.results and not grave:  # one screen has no room for both
        first = grouped(explaining)[0].message
        text = f"Cause of a difference: {doc.ended(first.partition('; likewise ')[0])}"
        remarks.append(doc.Paragraph(text=text, link=findings.EXPLAINED))
    return remarks


def _suspect_cells(analysis: CampaignAnalysis) -> str:
    """Return how many cells are not valid and by which rules, the commonest first; "" for none."""
    suspect = [cell for cell in analysis.cells if cell.validity is not Validity.VALID]
    if not suspect:
        return ""
    codes = Counter(
        code
        for cell in suspect
        for code in {f.code for f in cell.findings if f.severity is not Severity.INFO}
    )
    why = ", ".join(f"{words_of(code)}: {number}" for code, number in codes.most_common(_MOST_WHY))
    verb = "is" if len(suspect) == 1 else "are"
    told = f" ({why})" if why else ""
    return f"{len(suspect)} of {doc.count(len(analysis.cells), 'cell')} {verb} suspect{told}. "


_MOST_WHY = 2  # rules that a line names


def _gravest(grave: Sequence[Finding]) -> str:
    """Return how many, and of the first, which weighs most, what it says up to a semicolon."""
    clause, others = grave[0].message.partition("; ")[0], len(grave) - 1
    first = doc.ended(clause)
    if not others:
        return f"1 finding to read before relying on this: {first}"
    more = f"{others} more {'is' if others == 1 else 'are'} under Findings."
    return f"{len(grave)} findings to read before relying on this. The most severe: {first} {more}"


def _card(analysis: CampaignAnalysis, comparison: Comparison) -> doc.VerdictCard:
    margin = analysis.experiment.stop.margin
    ranged = doc.bounds(comparison.effect) is not None
    divided = comparison.depends_on_load and ranged
    word = verdict_word(comparison, margin)
    price = durability_clause(comparison) if ranged else ""
    return doc.VerdictCard(
        workload=comparison.workload,
        configuration=comparison.configuration,
        contest=" against ".join(contestants(comparison)),
        word=f"interim: {word}" if ranged and is_interim(analysis) else word,
        tone=tone_of(comparison),
        main=_main(comparison),
        sentence=verdict_sentence(analysis, comparison),
        details=_details(analysis, comparison),
        drawing=None if divided else _drawing(analysis, comparison, margin),
        notes=(comparison.note,) if _adds(analysis, comparison) else (),
        price=price,
        marked=(DIVIDED if divided else comparison.verdict.value, price) if ranged else (),
        levels=level_lines(analysis, comparison),
        money=money_clause(analysis, comparison) if ranged else "",
    )


def _adds(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    """Return whether the note says anything that the card does not say elsewhere."""
    told = doc.bounds(comparison.effect) is None or decided_early(analysis, comparison)
    return bool(comparison.note) and not told


def _main(comparison: Comparison) -> str:
    pair = doc.bounds(comparison.effect)
    if pair is None:
        return "no interval yet"
    if comparison.depends_on_load:
        return "read the cells"
    if comparison.is_mixed:
        return "read the scripts"
    return doc.effect_range(*pair)


def _details(analysis: CampaignAnalysis, comparison: Comparison) -> tuple[str, ...]:
    if doc.bounds(comparison.effect) is None:
        return (pending(comparison),)
    if comparison.depends_on_load:
        extremes = extreme_cells(analysis, comparison)
        together = intervals_together(analysis.experiment)
        blocks = f"{together}, {doc.count(comparison.blocks, 'block')}"
        if extremes is None:
            return (blocks,)
        least, most = (effect_at(analysis.experiment, cell) for cell in extremes)
        return (f"least: {least}", f"largest: {most}", blocks)
    details = [f"{doc.CONFIDENCE} interval, estimate {doc.effect_value(comparison.effect)}"]
    if comparison.no_practical_weight:
        details.append("of no practical weight")
    early = f", {comparison.note or 'stopped early'}" if decided_early(analysis, comparison) else ""
    details.append(doc.count(comparison.blocks, "block") + early)
    if comparison.is_of_pair:
        details.append(f"this pair of instances: {comparison.instances} per side")
    more = more_minutes(comparison, analysis.experiment.stop.detect)
    return (*details, more) if more else tuple(details)


def _drawing(
    analysis: CampaignAnalysis, comparison: Comparison, margin: float
) -> doc.IntervalDrawing | None:
    """Return the interval in % on a line that holds zero and all intervals of its workload."""
    pair = doc.bounds(comparison.effect)
    if pair is None or comparison.effect is None:
        return None
    low, high, wide = 100 * pair[0], 100 * pair[1], 100 * margin
    peers = (doc.bounds(c.effect) for c in analysis.results if c.workload == comparison.workload)
    ends = [100 * end for peer in peers if peer is not None for end in peer]
    start, end = min(-wide, *ends), max(wide, *ends)
    slack = _DRAWING_SLACK * (end - start)
    return doc.IntervalDrawing(
        low=low,
        value=100 * comparison.effect.value,
        high=high,
        margin=wide,
        start=start - slack,
        end=end + slack,
    )
