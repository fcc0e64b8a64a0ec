"""The long runs of a report, beside the slices and never mixed with them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from steelyard.answers.observations import sum_of
from steelyard.answers.results import BURST_ONLY, CampaignAnalysis, cell_name
from steelyard.answers.sustained.compute import (
    BurstCliff,
    SustainedSummary,
    WithinBurst,
    long_runs,
    within_bursts,
)
from steelyard.core.experiment import RATE, RATE_UNIT
from steelyard.core.measurement import Quantity, Series, SustainedRun
from steelyard.core.quantities import PLAIN, SECONDS
from steelyard.core.wording import MIB, MS_PER_S, format_duration, format_share
from steelyard.report import document as doc
from steelyard.report.keys import load_data
from steelyard.report.texts import Texts

TITLE = "Sustained runs"
_TEXTS: Final = Texts(__name__)
_APART = "no, but short runs differ"
_MOST_POINTS = 6000  # as many as keep the page light


def _runs(analysis: CampaignAnalysis) -> tuple[SustainedSummary, ...]:
    return analysis.answer(long_runs) or ()


def sustained_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the long runs with their strips; nothing when there are none."""
    if not _runs(analysis):
        return ()
    blocks: tuple[doc.Block, ...] = (
        _table(analysis),
        *_cliff_table(analysis),
        *_strips(analysis),
        *_device_figure(analysis),
    )
    return (doc.Section(anchor="sustained", title=TITLE, blocks=blocks),)


def what_lasts(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return a line for each long run, to be read first where nothing else is answered."""
    if not _runs(analysis):
        return ()
    lines = tuple(f"{_lasts(each)}{_doubt(each)}" for each in _runs(analysis))
    told = doc.BulletList(lead="What lasts, of one long run each", items=lines)
    return (doc.Section(anchor="what-lasts", title="Long runs", blocks=(told,), first=True),)


def _doubt(long: SustainedSummary) -> str:
    """Return that a run was measured and does not count; empty for every other."""
    return "; the run is invalid" if long.tps and long.is_invalid else ""


def _lasts(each: SustainedSummary) -> str:
    who = f"{each.run.cell.workload}, {each.run.configuration}"
    if each.cliff is not None:
        cliff = each.cliff
        return _TEXTS.falls(
            run=who,
            burst=doc.rate(cliff.burst_tps.value),
            at_s=f"{cliff.at.value:,.0f}",
            interval=doc.between(cliff.at, _WHOLE),
            sustained=doc.rate(cliff.sustained_tps.value),
        )
    if each.tps is None or each.seconds is None:
        return f"{who}: nothing, it failed"
    word = {
        "no": "no lasting drop",
        _APART: "no lasting drop, and short runs disagree",
        "no: neighbours came": "a drop beside other processes",
    }
    found = _cliff_word(each)
    return _TEXTS.lasts(
        run=who,
        tps=doc.rate(each.tps),
        seconds=each.seconds,
        worst=doc.rate(each.worst_tps),
        word=word.get(found, found),
    )


_PER_S: Final = doc.Form(show=doc.rate, heading="1/s")
_PART: Final = doc.Form(show=format_share)
_LENGTH: Final = doc.Form(show=format_duration, unit=SECONDS)
_MS: Final = doc.Form(show=doc.milliseconds, unit=SECONDS, heading="ms")
_WHOLE: Final = "{:,.0f}".format
_AT: Final = doc.Form(show=_WHOLE, unit=SECONDS, heading="s")
_AT_ABOUT: Final = replace(_AT, show=partial(doc.with_interval, shown=_WHOLE))
_OF_RATE: Final = replace(_PER_S, show=partial(doc.with_interval, shown=doc.rate))


def _table(analysis: CampaignAnalysis) -> doc.Table:
    return doc.table_of(
        _runs(analysis),
        doc.column("workload", lambda long: long.workload),
        doc.column("configuration", lambda long: long.configuration),
        doc.Cells(
            doc.Column(name="load", spare=True),
            lambda long: cell_name(analysis.experiment, long.run.cell.load),
            lambda long: load_data(long.run.cell.load),
        ),
        doc.column(
            "length", lambda long: long.seconds, replace(_LENGTH, unit=PLAIN), key="seconds"
        ),
        doc.column(RATE, lambda long: long.tps, replace(_PER_S, heading=RATE_UNIT), key="tps"),
        doc.column("variation of 10 s", lambda long: long.variation, _PART, key="variation_10s"),
        doc.column("worst 10 s", lambda long: long.worst_tps, _PER_S, key="worst_10s_tps"),
        doc.Cells(
            doc.Column(name="cliff"),
            _cliff_word,
            lambda long: _AT.data("cliff_at", long.cliff and long.cliff.at.value),
        ),
        doc.column("mean latency", _latency, _MS, key="latency_mean", spare=True),
        doc.column("validity", lambda long: long.validity.value),
        title=TITLE,
        note=_note(analysis),
        tone=lambda long: doc.Tone.ERROR if long.run.measurement is None else doc.Tone.PLAIN,
        tone_column=9,
        reason=_missing,
    )


def _missing(long: SustainedSummary) -> str:
    if long.tps is None:
        return "; ".join(_findings(long)) or "not measured"
    return "" if long.cliff else f"cliff: {_cliff_word(long)}"


def _latency(long: SustainedSummary) -> float | None:
    """Return the mean latency of a run of one part."""
    measured = long.run.measurement
    return None if len(long.parts) > 1 or measured is None else measured.latency_mean_s


def _cliff_word(each: SustainedSummary) -> str:
    """Return whether there is a cliff, and why nothing can be said where that is so."""
    if each.tps is None:
        return doc.MISSING
    if each.cliff is not None:
        return f"at {each.cliff.at.value:,.0f} s"
    words = {
        "no: neighbours came": each.drop_beside_neighbours is not None,
        "too short to tell": each.too_short,
        BURST_ONLY: each.burst_only,
        "only in a discarded try": each.discarded is not None,
        _APART: each.apart is not None,
        "unclear, near the end": each.unsettled,
    }
    return next((word for word, holds in words.items() if holds), "no")


def _note(analysis: CampaignAnalysis) -> str:
    told = [
        f"{each.run.configuration}, {each.run.cell.workload}: {doc.ended(text)}"
        for each in _runs(analysis)
        for text in (*_extended(each), *_findings(each))
    ]
    return " ".join([_TEXTS.runs(), *told])


def _findings(each: SustainedSummary) -> Iterator[str]:
    runs = (*each.parts, *(() if each.broken is None else (each.broken,)))
    for run in runs:
        yield from (finding.message for finding in run.findings)


def _extended(each: SustainedSummary) -> Iterator[str]:
    if len(each.parts) > 1:
        yield _TEXTS.extended(parts=len(each.parts))
    if each.broken is not None:
        yield _TEXTS.broken()


def _cliff_table(analysis: CampaignAnalysis) -> tuple[doc.Table, ...]:
    rows = tuple((long, long.cliff) for long in _runs(analysis) if long.cliff)
    if not rows:
        return ()
    table = doc.table_of(
        rows,
        doc.column("workload", lambda row: row[0].workload),
        doc.column("configuration", lambda row: row[0].configuration),
        doc.column("burst", lambda row: row[1].burst_tps, _OF_RATE, key="burst_tps"),
        doc.column("sustained", lambda row: row[1].sustained_tps, _OF_RATE, key="sustained_tps"),
        doc.column("drop", lambda row: row[1].drop, _PART),
        doc.column("at", lambda row: row[1].at, _AT_ABOUT),
        doc.column(
            "capacity, at least",
            lambda row: row[1].least_capacity,
            doc.Form(show=partial(doc.with_interval, shown=_WHOLE)),
            key="least_capacity",
        ),
        doc.column(
            "refill, at least",
            lambda row: row[1].refill_s,
            replace(_LENGTH, show=partial(doc.with_interval, shown=format_duration)),
            key="refill",
        ),
        title="Burst cliffs",
        note=_TEXTS.cliffs(),
        tone=lambda _: doc.Tone.WARNING,
    )
    return (table,)


def _strips(analysis: CampaignAnalysis) -> tuple[doc.Figure, ...]:
    rows = tuple(_strip_rows(analysis))
    if not rows:
        return ()
    has_cliffs = any(each.cliff is not None for each in _runs(analysis))
    figure = doc.Figure(
        identity="sustained",
        kind=doc.ChartKind.STRIPS,
        title="Sustained runs, second by second",
        caption=_TEXTS.strips(has_cliffs=has_cliffs, every=_step(analysis)),
        alt="One-second rates of the long runs, by workload, coloured by configuration; the table "
        f"above holds their means and their worst ten seconds{_cliffs_told(analysis)}.",
        columns=(
            *("workload", "load", "configuration", "run", "at", "tps", "ramp"),
            *("mark", "begin", "end"),
        ),
        rows=rows,
        configurations=analysis.names,
    )
    return (figure,)


def _cliffs_told(analysis: CampaignAnalysis) -> str:
    return "".join(
        f"; {each.run.configuration}, {each.run.cell.workload} falls from"
        f" {doc.rate(each.cliff.burst_tps.value)} to {doc.rate(each.cliff.sustained_tps.value)}"
        f" per second after {each.cliff.at.value:,.0f} s"
        for each in _runs(analysis)
        if each.cliff is not None
    )


def _step(analysis: CampaignAnalysis) -> int:
    taken = [part.measurement for each in _runs(analysis) for part in each.parts]
    points = sum(len(measurement.series) for measurement in taken if measurement is not None)
    return max(1, -(-points // _MOST_POINTS))


def _strip_rows(analysis: CampaignAnalysis) -> Iterator[tuple[doc.Value, ...]]:
    places: dict[str, int] = {}
    step = _step(analysis)
    for each in _runs(analysis):
        run = each.run
        if run.measurement is None or not run.measurement.series:
            continue
        workload = run.cell.workload
        strip = _Strip(place=places.get(workload, 0) + 1, whole_s=_whole_s(each))
        places[workload] = strip.place
        named = (workload, cell_name(analysis.experiment, run.cell.load), run.configuration)
        lead = (*named, strip.place)
        for part in each.parts:
            yield (*lead, strip.at(part.started_at - run.started_at), None, False, *_NO_MARK)
            for row in _second_rows(part, strip, part.started_at - run.started_at, step):
                yield (*lead, *row, *_NO_MARK)
        if each.cliff is not None:
            yield from ((*lead, *row) for row in _mark_rows(each.cliff, strip))


_NO_MARK = ("", None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strip:
    """Where a long run stands in its panel: one after another, each of the same width."""

    place: int
    whole_s: float

    def at(self, second: float) -> float:
        return round(self.place + 0.1 + 0.9 * min(second / self.whole_s, 1.0), 5)


def _whole_s(each: SustainedSummary) -> float:
    last = each.parts[-1]
    series = last.measurement.series if last.measurement is not None else ()
    ended_s = series[-1].end_s if series else 0.0
    return last.started_at - each.run.started_at + ended_s


def _second_rows(
    part: SustainedRun, strip: _Strip, later_s: float, step: int
) -> Iterator[tuple[doc.Value, ...]]:
    """Yield the seconds of a part; the first row before them lifts the pen."""
    series = part.measurement.series if part.measurement is not None else ()
    for second in series[::step]:
        if second.seconds > 0:
            in_ramp = second.end_s - second.seconds / 2 < part.ramp_s
            tps = round(second.transactions / second.seconds, 2)
            yield (strip.at(later_s + second.end_s), tps, in_ramp)


def _mark_rows(cliff: BurstCliff, strip: _Strip) -> Iterator[tuple[doc.Value, ...]]:
    at = strip.at(cliff.at.value)
    yield (at, None, False, "cliff", *map(strip.at, doc.bounds(cliff.at) or ()))
    yield (at, round(cliff.burst_tps.value, 2), False, "level", strip.at(0.0), at)
    yield (at, round(cliff.sustained_tps.value, 2), False, "level", at, strip.at(strip.whole_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Track:
    """Lines of one axis.

    Attributes:
        scale: What a unit of them is multiplied by to be shown.
        per: What they are divided by; None: by the seconds.
    """

    title: str
    lines: Mapping[str, Quantity]
    scale: float = 1.0
    per: Quantity | None = None


_TRACKS: Final = (
    _Track(
        title="requests/s", lines={"reads": Quantity.DEVICE_READS, "writes": Quantity.DEVICE_WRITES}
    ),
    _Track(
        title="MiB/s",
        lines={"reads": Quantity.DEVICE_READ_BYTES, "writes": Quantity.DEVICE_WRITE_BYTES},
        scale=1.0 / MIB,
    ),
    _Track(
        title="ms per read",
        lines={"reads": Quantity.DEVICE_READ_S},
        scale=MS_PER_S,
        per=Quantity.DEVICE_READS,
    ),
    _Track(
        title="ms per write",
        lines={"writes": Quantity.DEVICE_WRITE_S},
        scale=MS_PER_S,
        per=Quantity.DEVICE_WRITES,
    ),
    _Track(title="in flight", lines={"in flight": Quantity.DEVICE_QUEUE_S}),
    _Track(title="% busy", lines={"device busy": Quantity.DEVICE_BUSY_S}, scale=100.0),
)
_MOST_SIDES: Final = 3  # side by side, so that a drop stays visible
_MOST_STEPS: Final = 240  # of a line
_DeviceLine = tuple[tuple[float, float], ...]  # end of each step, mean; at first its beginning


def _device_figure(analysis: CampaignAnalysis) -> Iterator[doc.Figure]:
    """Yield what the device of the data did over the long runs, where the record has it."""
    sides = tuple(dict.fromkeys(each.run.configuration for each in _runs(analysis)))
    drawn = sides[:_MOST_SIDES]
    step = _device_step(analysis)
    rows = tuple(_device_rows(analysis, drawn, step))
    if not rows:
        return
    yield doc.Figure(
        identity="sustained-device",
        kind=doc.ChartKind.TIMELINE,
        title="The device of the data in the sustained runs",
        caption=_TEXTS.device(step=step, drawn=len(drawn), sides=len(sides)),
        alt=_TEXTS.device_alt(configurations=doc.enumeration(drawn)),
        columns=("workload", "track", "configuration", "mark", "at", "line", "value", "top"),
        rows=rows,
        configurations=analysis.names,
    )


def _host(part: SustainedRun) -> Series | None:
    return None if part.evidence is None else part.evidence.series_of("host")


def _device_step(analysis: CampaignAnalysis) -> int:
    """Return how many rows of the record, about a second each, make one step of a line."""
    found = [[_host(part) for part in each.parts] for each in _runs(analysis)]
    rows = [sum(len(host.rows) for host in hosts if host is not None) for hosts in found]
    return max(1, -(-max(rows) // _MOST_STEPS))


def _device_rows(
    analysis: CampaignAnalysis, sides: Sequence[str], step: int
) -> Iterator[tuple[doc.Value, ...]]:
    """Yield track by track, so that every configuration has a panel in each, if an empty one."""
    for workload in dict.fromkeys(each.run.cell.workload for each in _runs(analysis)):
        here = [each for each in _runs(analysis) if each.run.cell.workload == workload]
        parts = {each.run.configuration: each.parts for each in here}
        for track in _TRACKS:
            names = tuple(track.lines)
            lines = {
                (side, name): _device_line(parts[side], track, name, step)
                for side in sides
                if side in parts
                for name in names
            }
            # Lines are piled up: their highest ones together are room enough.
            tops = [sum(_highest(lines.get((side, name), ())) for name in names) for side in sides]
            for side in sides if any(lines.values()) else ():
                panel, top = (workload, track.title, side), round(1.05 * max(tops), 4)
                ramp_s = float(parts[side][0].ramp_s) if side in parts else 0.0
                yield (*panel, "ramp", ramp_s, None, None, top)
                for name in names:
                    for end, mean in lines.get((side, name), ()):
                        yield (*panel, "value", end, name, mean, top)


def _highest(line: _DeviceLine) -> float:
    return max((mean for _, mean in line), default=0.0)


def _device_line(parts: Sequence[SustainedRun], track: _Track, name: str, step: int) -> _DeviceLine:
    """Return a line of a track over the parts; nothing where it was not counted."""
    found: list[tuple[float, float]] = []
    for part in parts:
        host, wanted = _host(part), (track.lines[name], *((track.per,) if track.per else ()))
        if host is None or not set(wanted) <= set(host.names):
            continue
        later_s = part.started_at - parts[0].started_at
        places = [host.names.index(each) for each in wanted]
        edges = (0.0, *host.end_s)
        for first in range(0, len(host.rows), step):
            rows = host.rows[first : first + step]
            sums = [sum_of([row[place] for row in rows]) for place in places]
            begin, end = edges[first], edges[min(first + step, len(host.rows))]
            over = end - begin if track.per is None else sums[1]
            if end > begin and sums[0] is not None and over is not None:
                mean = round(track.scale * sums[0] / over, 4) if over else 0.0
                # Steps are drawn back from their ends: the first needs its beginning.
                found += [] if found else [(round(later_s + begin, 3), mean)]
                found.append((round(later_s + end, 3), mean))
    return tuple(found)


def burst_only(analysis: CampaignAnalysis) -> tuple[WithinBurst, ...]:
    """Return the results within bursts for programs."""
    return tuple(
        WithinBurst(configuration=configuration, workload=workload)
        for configuration, workload in sorted(analysis.answer(within_bursts) or ())
    )
