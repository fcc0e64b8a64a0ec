"""Effects over many campaigns: a series for each machine, work and configuration.

What is compared over time is the effect against a reference that was measured in the same
campaign: what the machine does on a day is in both sides. Levels are drawn and never tested.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from steelyard.answers.report import Listed
from steelyard.answers.results import CampaignAnalysis, Comparison, is_interim, uncompared
from steelyard.core.experiment import Workload
from steelyard.core.findings import Estimate
from steelyard.core.schedule import Load
from steelyard.core.target import WorkWords
from steelyard.core.wording import InputError, format_percent
from steelyard.report.document import (
    FORMAT,
    MISSING,
    Block,
    BulletList,
    ChartKind,
    Document,
    Figure,
    Json,
    Paragraph,
    Section,
    Table,
    Tone,
    Value,
    bounds,
    count,
    effect_interval,
    effect_value,
    number,
    number_column,
    percent,
    rate,
    table_of,
    utc,
)
from steelyard.stats.changes import HORIZON, LEAST_SIDE, Change, change_points, least_values

LEVEL: Final = 0.05  # over all series together, by Bonferroni
_HARDWARE: Final = ("cpus", "cpu model", "memory")
_MARKED: Final = ("kernel", "virtualisation", "data file system", "pgbench", "redis-benchmark")
_COLUMNS: Final = (
    *("workload", "machine", "track", "configuration"),
    *("at", "value", "low", "high", "mark"),
)
Names = Mapping[str, str]  # configurations that are counted under another name


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What must be the same for effects to make one series.

    Attributes:
        machine: Its CPUs and memory in words.
        loads: The effect is pooled over them.
    """

    machine: str
    workload: Workload
    loads: tuple[Load, ...]
    baseline: str
    configuration: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One campaign of a series.

    Attributes:
        levels: Rates of baseline and configuration at the largest load, 1/s; None where one is
            missing.
        surroundings: What may be behind a change, by name: kernel, versions of servers.
        marks: What of that is not as in the campaign before.
    """

    directory: str
    started_at: float
    effect: Estimate
    blocks: int
    levels: tuple[float, float] | None
    surroundings: tuple[tuple[str, str], ...]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The effects of one lineage, oldest first, with the changes that were found."""

    lineage: Lineage
    words: WorkWords
    points: tuple[Point, ...]
    changes: tuple[Change, ...]

    @property
    def since(self) -> int:
        """Return the index of the first campaign of the present level, the next one's baseline."""
        return self.changes[-1].place if self.changes else 0

    @property
    def level_now(self) -> float:
        """Return the median effect since the last change."""
        return float(np.median([point.effect.value for point in self.points[self.since :]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All series of the campaigns that were found.

    Attributes:
        level: Chance, at most, of a false alarm in a hundred campaigns, of each series.
        left_out: A sentence for each campaign that is in no series.
        places: Where campaigns were looked for.
    """

    campaigns: int
    series: tuple[Series, ...]
    level: float
    left_out: tuple[str, ...]
    places: tuple[str, ...] = ()


def history_of(found: Sequence[Listed], names: Names, places: Sequence[str] = ()) -> History:
    """Return the series of effects of campaigns, which are given oldest first.

    Args:
        found: The campaigns.
        names: New names of configurations by their old ones.
        places: Where campaigns were looked for.

    Raises:
        InputError: The names make one configuration of two that a campaign compares, or name one
            that no campaign has.
    """
    gathered: dict[Lineage, list[Point]] = {}
    words: dict[Lineage, WorkWords] = {}
    left_out = []
    first_seen: dict[tuple[str, float], str] = {}
    for listed in found:
        analysis, why = listed.analysis, _why_not(listed) or _copied(listed, first_seen)
        if analysis is None or why:
            left_out.append(f"{listed.directory}: {why}")
            continue
        first_seen[analysis.campaign_id, analysis.started_at] = listed.directory
        _refuse_two_in_one(listed.directory, analysis, names)
        for result in analysis.results:
            lineage = _lineage(analysis, result, names)
            words[lineage] = analysis.experiment.words
            gathered.setdefault(lineage, []).extend(_points(listed.directory, analysis, result))
    _refuse_unknown(found, names)
    # A series that is too short for any change shares no error.
    tested = sum(len(points) >= 2 * LEAST_SIDE for points in gathered.values())
    level = LEVEL / max(1, tested)
    return History(
        campaigns=len(found) - len(left_out),
        series=tuple(
            _series(lineage, words[lineage], points, level)
            for lineage, points in gathered.items()
            if points
        ),
        level=level,
        left_out=tuple(left_out),
        places=tuple(places),
    )


def _refuse_unknown(found: Sequence[Listed], names: Names) -> None:
    """Refuse to rename what nothing is called."""
    analyses = [listed.analysis for listed in found if listed.analysis is not None]
    results = [each for one in analyses for each in one.results]
    known = {name for each in results for name in (each.baseline, each.configuration)}
    unknown = [name for name in names if name not in known]
    if known and unknown:
        raise InputError(
            f"--as renames {', '.join(unknown)}, and no campaign has a configuration of that name",
            hint=f"There are {', '.join(sorted(known))}.",
        )


def _refuse_two_in_one(directory: str, analysis: CampaignAnalysis, names: Names) -> None:
    """Refuse names under which a campaign would stand twice in a series, or against itself."""
    kept: dict[str, str] = {}
    sides = (side for each in analysis.results for side in (each.baseline, each.configuration))
    for name in dict.fromkeys(sides):
        other = kept.setdefault(names.get(name, name), name)
        if other != name:
            raise InputError(
                f"--as makes one of {other} and {name}, and {directory} has both",
                hint="Rename only what no campaign has beside its new name.",
            )


def _copied(listed: Listed, first_seen: Mapping[tuple[str, float], str]) -> str:
    """Return of which campaign this is another copy, in words; empty where it is the first."""
    if listed.analysis is None:
        return ""
    original = first_seen.get((listed.analysis.campaign_id, listed.analysis.started_at))
    return f"the same campaign as {original}, which counts once" if original else ""


def _why_not(listed: Listed) -> str:
    """Return why a campaign is in no series; empty where it is in one."""
    analysis = listed.analysis
    if analysis is None:
        return listed.problem if listed.is_large else f"damaged: {listed.problem}"
    if is_interim(analysis):
        return f"not finished ({analysis.status.value}): interim results would move"
    if analysis.experiment.is_single_pass:
        return "a single pass has no interval"
    if analysis.experiment.twin_of is not None:
        return "a configuration against itself"
    if why := uncompared(analysis.experiment):
        return why
    return (
        ""
        if any(bounds(each.effect) for each in analysis.results)
        else "no interval: too few blocks"
    )


def _lineage(analysis: CampaignAnalysis, result: Comparison, names: Names) -> Lineage:
    experiment = analysis.experiment
    return Lineage(
        machine=_machine(analysis),
        workload=next(each for each in experiment.workloads if each.name == result.workload),
        loads=experiment.closed_loads,
        baseline=names.get(result.baseline, result.baseline),
        configuration=names.get(result.configuration, result.configuration),
    )


def _machine(analysis: CampaignAnalysis) -> str:
    known = {fact.name: fact.value for fact in analysis.facts if fact.subject == "machine"}
    told = [known[name] for name in _HARDWARE if known.get(name)]
    return ", ".join(told) or "a machine that was not recorded"


def _points(directory: str, analysis: CampaignAnalysis, result: Comparison) -> Iterator[Point]:
    if result.effect is None or bounds(result.effect) is None:
        return
    sides = (result.baseline, result.configuration)
    about = dict(zip(sides, ("baseline", "configuration"), strict=True))
    named = {f"server of {side}": f"server of the {told}" for side, told in about.items()}
    yield Point(
        directory=directory,
        started_at=analysis.started_at,
        effect=result.effect,
        blocks=result.blocks,
        levels=_levels(analysis, result),
        surroundings=tuple(
            (named.get(fact.name, fact.name), fact.value)
            for fact in analysis.facts
            if fact.name in (*_MARKED, *named)
        ),
    )


def _levels(analysis: CampaignAnalysis, result: Comparison) -> tuple[float, float] | None:
    """Return the rates of both sides at the largest load: loads are never averaged."""
    load = analysis.experiment.closed_loads[-1]
    found = {
        cell.configuration: cell.tps.value
        for cell in analysis.cells
        if (cell.cell.workload, cell.cell.load) == (result.workload, load) and cell.runs
    }
    sides = [found.get(name) for name in (result.baseline, result.configuration)]
    before, after = sides
    return None if before is None or after is None else (before, after)


def _series(lineage: Lineage, words: WorkWords, points: list[Point], level: float) -> Series:
    marked = [points[0], *(_marked(before, point) for before, point in pairwise(points))]
    logs = np.log1p([point.effect.value for point in points])
    return Series(
        lineage=lineage,
        words=words,
        points=tuple(marked),
        changes=change_points(logs, level),
    )


def _marked(before: Point, point: Point) -> Point:
    then, now = dict(before.surroundings), dict(point.surroundings)
    return replace(
        point,
        marks=tuple(
            f"{name}: {then.get(name, 'not recorded')} \N{RIGHTWARDS ARROW}"
            f" {now.get(name, 'not recorded')}"
            for name in {**then, **now}
            if then.get(name) != now.get(name)
        ),
    )


# --- as a document ---

_HOW: Final = (
    "A value is the effect of a configuration against the baseline of the same campaign, with the"
    " interval of its report. A change is looked for after every campaign, by ranks, in what came"
    f" since the last change: in {HORIZON} campaigns without any change, all series together raise"
    " an alarm with a chance of at most 5 %. Rates are drawn and not tested: a machine has good"
    " and bad days. Another number of CPUs, another model or another memory begins a series of"
    " its own; another kernel or another version of a server is marked. What was marked just"
    " before a change may be its cause; that it is, only a campaign with both can tell."
)


def history_document(history: History) -> Document:
    """Return the history: the changes first, then each workload with its chart."""
    sections = [_answer(history)]
    for place, together in enumerate(_by_workload(_repeated(history)), start=1):
        sections.append(_workload_section(together, place))
    if history.left_out:
        items = BulletList(lead="In no series", items=history.left_out)
        sections.append(Section(anchor="left-out", title="Left out", blocks=(items,)))
    sections.append(Section(anchor="how", title="How to read it", blocks=(Paragraph(text=_HOW),)))
    return Document(
        title=f"History of {count(history.campaigns, 'campaign')}",
        subtitle=f"{len(history.series)} series of effects",
        sections=tuple(sections),
    )


def _repeated(history: History) -> list[Series]:
    """Return the series of more than one campaign: a single one is its campaign's own report."""
    return [each for each in history.series if len(each.points) > 1]


def _by_workload(series: Sequence[Series]) -> list[list[Series]]:
    """Return the series that share a chart: one work against one baseline."""
    together: dict[tuple[Workload, tuple[Load, ...], str], list[Series]] = {}
    for each in series:
        lineage = each.lineage
        key = (lineage.workload, lineage.loads, lineage.baseline)
        together.setdefault(key, []).append(each)
    return list(together.values())


def _answer(history: History) -> Section:
    blocks: list[Block] = [_now(history, each) for each in _repeated(history)]
    if alone := len(history.series) - len(blocks):
        there = "it is in the report of its campaign" if alone == 1 else "see their campaigns"
        text = f"{count(alone, 'effect')} measured once only: no history yet, {there}."
        blocks.append(Paragraph(text=text))
    if not blocks:
        where = f"below {', '.join(history.places)} " if history.places else ""
        text = f"No series: {where}no finished campaign compares configurations."
        blocks = [Paragraph(text=text, tone=Tone.WARNING)]
    return Section(anchor="changes", title="Changes", blocks=tuple(blocks), first=True)


def _now(history: History, series: Series) -> Paragraph:
    """Return the baseline for the next campaign, and what changed before."""
    lineage, number_of = series.lineage, len(series.points)
    who = f"{lineage.workload.name}, {lineage.configuration} against {lineage.baseline}"
    since = utc(series.points[series.since].started_at)
    now = (
        f"{who} ({lineage.machine}): {format_percent(series.level_now)}, median of"
        f" {count(number_of - series.since, 'campaign')} since {since}."
    )
    if series.changes:
        told = " ".join(_change(series, change) for change in series.changes)
        return Paragraph(text=f"{now} {told}", tone=Tone.WARNING)
    least = least_values(history.level)
    if number_of < least:
        few = f"{now} A change can be seen from {least} campaigns on."
        return Paragraph(text=few)
    return Paragraph(text=f"{now} No change seen.")


def _change(series: Series, change: Change) -> str:
    point = series.points[change.place]
    before, after = (format_percent(float(np.expm1(x))) for x in (change.before, change.after))
    near = [mark for each in series.points[max(0, change.place - 1) :][:2] for mark in each.marks]
    marked = f"; marked there: {', '.join(near)}" if near else ""
    return (
        f"Changed from {before} to {after} about campaign {change.place + 1} ({point.directory}),"
        f" seen after {change.seen}{marked}."
    )


def _workload_section(together: Sequence[Series], place: int) -> Section:
    first = together[0].lineage
    title = f"{first.workload.name}, against {first.baseline}"
    tables = tuple(_table(each) for each in together)
    figure = _figure(together, f"history-{place}", title)
    return Section(anchor=f"history-{place}", title=title, blocks=(figure, *tables))


def _table(series: Series) -> Table:
    lineage = series.lineage
    changed = {change.place for change in series.changes}

    def marks(numbered: tuple[int, Point]) -> str:
        place, point = numbered
        return "; ".join((*(("changed",) if place in changed else ()), *point.marks))

    return table_of(
        enumerate(series.points),
        (number_column("no."), lambda each: str(each[0] + 1)),
        ("started", lambda each: utc(each[1].started_at)),
        ("campaign", lambda each: each[1].directory),
        (number_column("effect"), lambda each: effect_value(each[1].effect)),
        (number_column("interval"), lambda each: effect_interval(each[1].effect)),
        (number_column("blocks", spare=True), lambda each: str(each[1].blocks)),
        (
            number_column("rates", f"{series.words.rate}, {lineage.loads[-1].label}", spare=True),
            lambda each: _rates(each[1]),
        ),
        ("marked", marks),
        title=f"{lineage.configuration} against {lineage.baseline}, {lineage.machine}",
        tone=lambda each: Tone.WARNING if each[0] in changed else Tone.PLAIN,
        tone_column=3,
    )


def _rates(point: Point) -> str:
    arrow = " \N{RIGHTWARDS ARROW} "
    return MISSING if point.levels is None else arrow.join(map(rate, point.levels))


def _figure(together: Sequence[Series], identity: str, title: str) -> Figure:
    lineage = together[0].lineage
    names = dict.fromkeys(each.lineage.configuration for each in together)
    return Figure(
        identity=identity,
        kind=ChartKind.HISTORY,
        title=title,
        caption="Above the effects in per cent with their intervals, campaign by campaign; a solid"
        " line stands where they changed, a dashed one where kernel or server did. Below the rates"
        f" of both sides at {lineage.loads[-1].label}, which are not tested.",
        alt=f"Effects and rates of {count(sum(len(s.points) for s in together), 'campaign')} in"
        " the order of time; the tables below hold all numbers.",
        columns=_COLUMNS,
        rows=tuple(row for track in ("effect", "rate") for row in _rows(together, track)),
        configurations=(lineage.baseline, *names),
        words=together[0].words,
    )


def _rows(together: Sequence[Series], track: str) -> Iterator[tuple[Value, ...]]:
    for series in together:
        lineage = series.lineage
        changed = {change.place for change in series.changes}
        for place, point in enumerate(series.points):
            mark = "changed" if place in changed else "marked" if point.marks else ""
            for name, value, low, high in _drawn(series, point, track):
                yield (
                    *(lineage.workload.name, lineage.machine, track, name, place + 1),
                    *(value, low, high, mark),
                )


def _drawn(series: Series, point: Point, track: str) -> Iterator[tuple[Value, ...]]:
    """Yield name, value and bounds of what a track shows of a campaign."""
    lineage = series.lineage
    if track == "effect":
        low, high = bounds(point.effect) or (None, None)
        yield lineage.configuration, *(percent(each) for each in (point.effect.value, low, high))
    elif point.levels is not None:
        before, after = point.levels
        yield lineage.baseline, before, None, None
        yield lineage.configuration, after, None, None


def history_json(history: History) -> dict[str, Json]:
    """Return the history for programs."""
    return {
        "format": FORMAT,
        "kind": "history",
        "level": number(history.level),
        "series": [_series_json(each) for each in history.series],
        "left_out": list(history.left_out),
    }


def _series_json(series: Series) -> dict[str, Json]:
    lineage = series.lineage
    return {
        "machine": lineage.machine,
        "workload": lineage.workload.name,
        "baseline": lineage.baseline,
        "configuration": lineage.configuration,
        "campaigns": [_point_json(point) for point in series.points],
        "changes": [_change_json(change) for change in series.changes],
        "level_now_percent": percent(series.level_now),
        "level_since": series.since,
    }


def _point_json(point: Point) -> dict[str, Json]:
    before, after = point.levels or (None, None)
    return {
        "directory": point.directory,
        "started_at": number(point.started_at),
        "effect_percent": percent(point.effect.value),
        "low_percent": percent(point.effect.low),
        "high_percent": percent(point.effect.high),
        "blocks": point.blocks,
        "baseline_rate_per_s": number(before),
        "configuration_rate_per_s": number(after),
        "marks": list(point.marks),
    }


def _change_json(change: Change) -> dict[str, Json]:
    return {
        "campaign": change.place,
        "seen_after": change.seen,
        "p_value": number(change.p_value),
        "before_percent": percent(float(np.expm1(change.before))),
        "after_percent": percent(float(np.expm1(change.after))),
    }
