"""Two campaigns beside each other, as a document and for programs.

Two treatments of one campaign, as a document and for programs.
"""

from dataclasses import replace
from itertools import groupby

from steelyard.answers.comparison.compute import (
    CampaignPair,
    Difference,
    PairComparison,
    UnpairedCell,
)
from steelyard.answers.latency.section import latency_section
from steelyard.answers.result.section import headline_section
from steelyard.answers.summary import FORMAT, summary
from steelyard.answers.tables import comparison_section, settings_section
from steelyard.answers.wording import ending
from steelyard.report.document import (
    BulletList,
    Column,
    Document,
    KeyValues,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    number_column,
)
from steelyard.report.formats import CONFIDENCE, bounds, effect_interval, effect_value, utc
from steelyard.report.json_values import Json, load_json, number, percent
from steelyard.report.terminal import filled

CONFOUNDED = (
    "Not interleaved: time is confounded. Whatever changed between the two campaigns (the machine,"
    " its neighbours, versions, settings, the hour) is in these ratios, and no interval covers it."
    " To compare two configurations, put both into one experiment."
)
_NOTE = (
    f"Ratio of the second campaign to the first. Welch's intervals on the log means of the blocks,"
    f" unpaired, {CONFIDENCE} over all rows together (Bonferroni). They cover how blocks vary"
    " within each campaign, and nothing else."
)


def across_document(pair: CampaignPair) -> Document:
    """Return two campaigns as a document: what differs first, then the ratios."""
    first, second = pair.ids
    moments = " and ".join(utc(moment) for moment in pair.started_at)
    return Document(
        title=f"{second} against {first}",
        subtitle=f"two campaigns, not interleaved · {moments}",
        sections=(_confounded(), _differences(pair), _cells(pair), *_left_out(pair)),
    )


def _confounded() -> Section:
    remark = Paragraph(text=CONFOUNDED, tone=Tone.WARNING)
    return Section(anchor="verdicts", title="Two campaigns", blocks=(remark,))


def _differences(pair: CampaignPair) -> Section:
    title = "Environment and settings that differ"
    if not pair.differences:
        none = Paragraph(text="None, as far as the two records tell.")
        return Section(anchor="differences", title=title, blocks=(none,))
    blocks = tuple(
        KeyValues(title=subject, pairs=tuple(_told(difference) for difference in about))
        for subject, about in groupby(pair.differences, key=lambda d: d.subject)
    )
    lead = Paragraph(text="The first campaign's value, then the second's.")
    return Section(anchor="differences", title=title, blocks=(lead, *blocks))


def _told(difference: Difference) -> tuple[str, str]:
    first, second = (
        "not recorded" if value is None else value
        for value in (difference.first, difference.second)
    )
    return difference.name, f"{first} → {second}"


def _cells(pair: CampaignPair) -> Section:
    title = "Throughput of what both measured"
    columns = (
        Column(name="workload"),
        Column(name="treatment"),
        number_column("clients"),
        number_column("threads", spare=True),
        number_column("blocks", spare=True),
        number_column("ratio - 1"),
        number_column(f"{CONFIDENCE} interval"),
        Column(name="so"),
    )
    rows = tuple(_cell_row(cell) for cell in pair.cells)
    table = Table(title=title, columns=columns, rows=rows, note=_NOTE)
    return Section(anchor="unpaired", title=title, blocks=(table,))


def _cell_row(cell: UnpairedCell) -> Row:
    load = cell.cell.load
    return Row(
        cells=(
            cell.cell.workload,
            cell.treatment,
            str(load.clients),
            str(load.threads),
            f"{cell.first_blocks} and {cell.second_blocks}",
            effect_value(cell.effect),
            effect_interval(cell.effect),
            unpaired_word(cell),
        )
    )


def unpaired_word(cell: UnpairedCell) -> str:
    """Return the strongest word that two campaigns allow."""
    if cell.differs is None:
        return "too few blocks for an interval"
    return "differs" if cell.differs else "not distinguishable"


def _left_out(pair: CampaignPair) -> tuple[Section, ...]:
    if not pair.left_out:
        return ()
    items = BulletList(lead="Not compared", items=pair.left_out)
    return (Section(anchor="left-out", title="Left out", blocks=(items,)),)


def across_summary(pair: CampaignPair) -> dict[str, Json]:
    """Return two campaigns for programs."""
    return {
        "format": FORMAT,
        "kind": "campaigns",
        "note": CONFOUNDED,
        "interleaved": False,
        "campaigns": list(pair.ids),
        "started_at": [number(moment) for moment in pair.started_at],
        "differences": [
            {"about": d.subject, "name": d.name, "first": d.first, "second": d.second}
            for d in pair.differences
        ],
        "cells": [_cell_json(cell) for cell in pair.cells],
        "left_out": list(pair.left_out),
    }


def _cell_json(cell: UnpairedCell) -> dict[str, Json]:
    low, high = bounds(cell.effect) or (None, None)
    load = cell.cell.load
    return {
        "workload": cell.cell.workload,
        "treatment": cell.treatment,
        **load_json(load),
        "blocks": [cell.first_blocks, cell.second_blocks],
        "effect_percent": None if cell.effect is None else percent(cell.effect.value),
        "low_percent": percent(low),
        "high_percent": percent(high),
        "word": unpaired_word(cell),
        "level": number(cell.level),
    }


ADDITIONAL = (
    "An additional look that is not in the campaign's plan: each interval holds taken alone, at"
    " the levels of the campaign's own rule, and does not share the error of its headlines. Who"
    " looks at many pairs will find differences that are not there."
)
PLANNED = "This pair is in the campaign's plan; the intervals are those of its report."
TURNED = (
    "The campaign's plan compares the two the other way round; the intervals are those of its"
    " report, turned."
)


def pair_note(pair: PairComparison) -> str:
    """Return what the intervals of a pair promise, in a sentence or two."""
    if not pair.planned:
        return ADDITIONAL
    return TURNED if pair.turned else PLANNED


def pair_document(pair: PairComparison) -> Document:
    """Return the comparison of two treatments as a document."""
    campaign = pair.campaign
    verdicts = headline_section(campaign)
    note = Paragraph(text=pair_note(pair), tone=Tone.PLAIN if pair.planned else Tone.WARNING)
    document = Document(
        title=campaign.experiment.name,
        subtitle=f"{pair.treatment} against {pair.reference} · {ending(campaign)}"
        f" · {utc(campaign.started_at)}",
        sections=(
            replace(verdicts, blocks=(note, *verdicts.blocks)),
            comparison_section(campaign),
            *latency_section(campaign),
            settings_section(campaign),
            _unit(pair),
        ),
    )
    return filled(document, campaign.experiment.words)


def _unit(pair: PairComparison) -> Section:
    text = f"The unit of replication is: {pair.campaign.unit}."
    return Section(anchor="unit", title="What was repeated", blocks=(Paragraph(text=text),))


def pair_summary(pair: PairComparison) -> dict[str, Json]:
    """Return the comparison of two treatments for programs."""
    return {
        **summary(pair.campaign),
        "kind": "treatments",
        "planned": pair.planned,
        "note": pair_note(pair),
    }
