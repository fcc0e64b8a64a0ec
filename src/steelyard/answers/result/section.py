"""The first section of a report: one card per workload and configuration, or their ranking."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.answers import findings
from steelyard.answers.capacity.section import rate_answers
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.latency.section import tail_warnings
from steelyard.answers.result.cards import cards, doubts, work_line
from steelyard.answers.results import (
    CampaignAnalysis,
    Comparison,
    durability_word,
    is_interim,
    looked_for,
    plain_word,
    short_load,
    span_of,
    tone_of,
    uncompared,
)
from steelyard.answers.scalability import gain_answers
from steelyard.answers.values import value_answers
from steelyard.core.campaign import Status
from steelyard.core.findings import Finding, Severity, grouped, words_of
from steelyard.core.wording import format_percent
from steelyard.report import document as doc
from steelyard.report.keys import row_of


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
_RULE = "Ordered by estimate. Who shares a rank, such as 3\N{EN DASH}5, is not clearly apart."
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
        baseline = next(row.configuration for row in rows if row.result is None)
        pairs = (doc.bounds(row.result.effect) for row in rows if row.result)
        lows, highs = zip(*filter(None, pairs), strict=True)
        return (
            f"Under {workload} no difference is clear: against {baseline} the 95 % intervals reach"
            f" from {format_percent(min(lows))} to {format_percent(max(highs))}."
        )
    verb = "is" if len(first) == 1 else "are"
    other = "it" if len(first) == 1 else " or ".join(first) if len(first) < 4 else "one of them"
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


def result_section(analysis: CampaignAnalysis) -> doc.Section:
    """Return the verdicts, or what there is instead when nothing was compared."""
    blocks: list[doc.Block] = []
    why = uncompared(analysis.experiment)
    verdicts = doc.VerdictCards(cards=cards(analysis), rankings=rankings(analysis))
    if analysis.results:
        blocks.append(verdicts)
        blocks.extend(_against_itself(analysis))
    elif analysis.blocks and why:
        blocks.append(doc.Paragraph(text=f"{why} {_looked_for(analysis)}"))
    else:
        blocks.append(doc.Paragraph(text=_nothing_compared(analysis), tone=doc.Tone.ERROR))
    blocks.extend(rate_answers(analysis))
    blocks.extend(gain_answers(analysis))
    blocks.extend(value_answers(analysis))
    blocks.extend(tail_warnings(analysis))
    blocks.extend(_remarks(analysis, verdicts))
    return doc.Section(anchor="verdicts", title="Results", blocks=tuple(blocks), first=True)


_MOST_SETTINGS = 3  # of a configuration, on top of a report
# Before others, where so many differ that not all have room. A guess.
_LOOKED_FOR = frozenset(
    ("shared_buffers", "synchronous_commit", "fsync", "max_wal_size", "huge_pages", "work_mem")
)


def compared(analysis: CampaignAnalysis) -> Iterator[doc.KeyValues]:
    """Yield the configurations by the settings in which they differ, then their workloads."""
    experiment = analysis.experiment
    base = experiment.baseline
    asked = sorted(
        (each for each in analysis.settings if each.requested),
        key=lambda each: (
            -sum(value != each.values[base] for value in each.values.values()),
            each.name not in _LOOKED_FOR,
        ),
    )
    pairs = []
    for name in (each.name for each in experiment.configurations):
        own = (each for each in asked if name == base or each.values[name] != each.values[base])
        # The baseline's begin with those that most others change, theirs with what sets them apart.
        ordered = (
            own
            if name == base
            else sorted(own, key=lambda e: [*e.values.values()].count(e.values[name]))
        )
        told = [f"{each.name} = {each.values[name] or '(none)'}" for each in ordered]
        more = [f"and {len(told) - _MOST_SETTINGS} more"] if len(told) > _MOST_SETTINGS else []
        marked = f"{name} (baseline)" if name == base else name
        pairs.append((marked, ", ".join(told[:_MOST_SETTINGS] + more) or "as the baseline"))
    if asked and experiment.attribution is None:
        yield doc.KeyValues(title="", pairs=tuple(pairs))
    loads = ", ".join(short_load(experiment, load) for load in experiment.closed_loads)
    work = [
        (each.name, f"{work_line(each, experiment.engine)}, {loads} clients")
        for each in experiment.workloads
        if work_line(each, experiment.engine)
    ]
    if work and loads:
        yield doc.KeyValues(title="", pairs=tuple(work))


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


def _remarks(analysis: CampaignAnalysis, verdicts: doc.VerdictCards) -> Iterator[doc.Block]:
    if analysis.results and is_interim(analysis):
        there = f"these are interim results after {doc.count(analysis.blocks, 'block')}"
        text = f"The campaign {_was(analysis.status)}; {there}."
        yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)
    weakening, explaining = findings.split_by_weight(analysis)
    found = grouped(weakening)
    grave = [f for f in found if f.severity is not Severity.INFO]
    few = [f for f in grave if f.code == findings.TOO_FEW]
    if few and analysis.status is Status.BUDGET:  # the way out belongs beside what is missing
        text = f"{doc.ended(few[0].message)} {doc.ended(few[0].remedy)}"
        yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)
        grave = [f for f in grave if f not in few]
    if not analysis.blocks:
        for f in grave[:1]:
            yield doc.Paragraph(text=f"{doc.ended(f.message)} {doc.ended(f.remedy)}")
        return
    anchored = {each: findings.anchor(place) for place, each in enumerate(found)}
    causes = grouped(explaining) if analysis.results else ()
    anchors = anchored | dict.fromkeys(causes, findings.EXPLAINED)
    yield from _before_use(analysis, verdicts, grave, anchors)


# What changes a conclusion: a setting that does not act, what a power cut costs, a limit that was
# reached, the data and the memory. The rest follows by its weight.
_CONSEQUENCES = (
    ("not-in-force", "huge-pages-not-in-effect"),
    ("durability-traded", "persistence-traded"),
    ("device-limit", "quota-throttled", "log-limited-by-bytes", "read-amplification"),
    ("cache-regime-differs", "fits-in-memory"),
)
_MOST_BULLETS = 3


def _before_use(
    analysis: CampaignAnalysis,
    verdicts: doc.VerdictCards,
    grave: Sequence[Finding],
    anchors: Mapping[Finding, str],
) -> Iterator[doc.BulletList]:
    """Yield the findings that change a conclusion, with the way to the others."""
    told = [*grave, *(each for each in anchors if each not in grave and each.code in _RANK)]
    said = " ".join(card.why for card in verdicts.cards)
    told = [each for each in told if _clause(each).removeprefix(f"{each.subject}: ") not in said]
    told.sort(key=lambda each: (each.severity is not Severity.ERROR, _RANK.get(each.code, 99)))
    shown = told[:_MOST_BULLETS]
    items = [doc.ended(_clause(each)) for each in shown]
    links: list[doc.Link | None] = [
        doc.Link(text="more", address=f"#{anchors[each]}") for each in shown
    ]
    doubt = _suspect_cells(analysis) if verdicts.rankings else ""
    if doubt:
        items, links = [doubt, *items], [None, *links]
    left = len(told) - len(shown)
    more = f" ({left} more in the report, under Warnings)" if left else ""
    if items:
        lead = f"Before you use this{more}"
        yield doc.BulletList(lead=lead, items=tuple(items), links=tuple(links))


def _clause(finding: Finding) -> str:
    return finding.message.partition("; ")[0]


_RANK = {code: rank for rank, codes in enumerate(_CONSEQUENCES) for code in codes}


def _suspect_cells(analysis: CampaignAnalysis) -> str:
    """Return how many cells are not valid and by which rules, the commonest first; "" for none."""
    number, rules = doubts(analysis.cells)
    if not number:
        return ""
    why = ", ".join(f"{words_of(code)}: {cells}" for code, cells in rules[:_MOST_WHY])
    verb = "is" if number == 1 else "are"
    told = f" ({why})" if why else ""
    return f"{number} of {doc.count(len(analysis.cells), 'cell')} {verb} suspect{told}."


_MOST_WHY = 2  # rules that a line names
