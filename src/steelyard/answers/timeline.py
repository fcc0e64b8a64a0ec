"""The seconds of one representative block: transactions, waits, CPU, device, side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from steelyard.answers.observations import Observations, ResultContrast, result_contrasts
from steelyard.answers.results import CampaignAnalysis, Grounds, cell_name
from steelyard.core.experiment import MANY, RATE, Experiment
from steelyard.core.measurement import Evidence, Measurement, Quantity, Run, Series, WaitClass
from steelyard.core.schedule import CellKey
from steelyard.report import document as doc

_MOST_CONFIGURATIONS = 3  # side by side, so that a second stays visible


class TrackName(StrEnum):
    """What a track shows over the seconds."""

    TPS = "tps"  # 1/s
    WAITS = "waits"  # mean sessions by wait class
    CPU = "cpu"  # CPUs in use by whom
    DEVICE = "device"  # fraction of the second in which the data device was busy
    THROTTLED = "throttled"  # seconds of waiting for the quota, per second


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Values over the seconds of one run, one line per name.

    Attributes:
        end_s: End of each interval, seconds since the run's start.
        lines: Each with a value per interval; None where it could not be read.
    """

    name: TrackName
    end_s: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The seconds of one run.

    Attributes:
        block: Counting from 0: the one whose contrast is nearest to the median.
        checkpoints_s: Seconds in which the server ended a checkpoint, as its counters show.
    """

    configuration: str
    cell: CellKey
    block: int
    tracks: tuple[Track, ...]
    checkpoints_s: tuple[float, ...]


# Columns of the series "host" that are stacked, and what they are called.
_CPU_LINES = {
    "server": Quantity.SERVER_CPU_S,
    "generator": Quantity.GENERATOR_CPU_S,
    "others": Quantity.OTHERS_CPU_S,
    "idle": Quantity.CPU_IDLE_S,
}


def timelines(grounds: Grounds) -> tuple[Timeline, ...]:
    """Return the runs of one block per workload at its largest load; none without series."""
    seen, experiment = grounds.seen, grounds.record.experiment
    found: list[Timeline] = []
    for workload in experiment.workloads if seen.blocks else ():
        columns = seen.columns_of(workload.name)
        column = max(columns, key=lambda place: seen.cells[place].load.size)
        found.extend(_of_cell(seen, experiment, column))
    return tuple(found)


def _of_cell(seen: Observations, experiment: Experiment, column: int) -> Iterator[Timeline]:
    asked = result_contrasts(experiment)
    row = _representative(seen, asked[0], column) if asked else 0
    contenders = list(experiment.contenders)
    for configuration in [experiment.baseline, *contenders][:_MOST_CONFIGURATIONS]:
        runs = seen.runs[configuration, seen.cells[column]]
        block = sorted({run.block for run in runs})[row]
        run = next(run for run in runs if run.block == block)
        tracks = tuple(_tracks(run))
        # Transactions alone are in every run: they are shown elsewhere.
        if len(tracks) > 1 and run.evidence is not None:
            yield Timeline(
                configuration=configuration,
                cell=run.cell,
                block=block,
                tracks=tracks,
                checkpoints_s=_checkpoints_s(run.evidence),
            )


def _representative(seen: Observations, asked: ResultContrast, column: int) -> int:
    contrasts = seen.weighted(asked.weights)[:, column]
    return int(np.argmin(np.abs(contrasts - np.median(contrasts))))


def _tracks(run: Run) -> Iterator[Track]:
    if run.measurement is None or run.evidence is None:
        return
    yield _tps(run.measurement)
    waits, host = run.evidence.series_of("waits"), run.evidence.series_of("host")
    if waits is not None:
        groups = [group.value for group in WaitClass]
        yield from _track(TrackName.WAITS, waits, {name: name for name in groups}, per_s=False)
    if host is not None:
        yield from _track(TrackName.CPU, host, _CPU_LINES, per_s=True)
        yield from _track(TrackName.DEVICE, host, {"busy": Quantity.DEVICE_BUSY_S}, per_s=True)
        throttled = {"throttled": Quantity.THROTTLED_S}
        yield from _track(TrackName.THROTTLED, host, throttled, per_s=True)


def _tps(measured: Measurement) -> Track:
    seconds = [second for second in measured.series if second.seconds > 0]
    return Track(
        name=TrackName.TPS,
        end_s=tuple(second.end_s for second in seconds),
        lines=(("tps", tuple(second.transactions / second.seconds for second in seconds)),),
    )


def _track(
    name: TrackName, series: Series, wanted: dict[str, Quantity] | dict[str, str], *, per_s: bool
) -> Iterator[Track]:
    """Yield the columns that are there; nothing where none is, or all are 0."""
    lengths = [end - start for start, end in pairwise((0.0, *series.end_s))] if per_s else None
    lines = [
        (label, _column(series, series.names.index(column), lengths))
        for label, column in wanted.items()
        if column in series.names
    ]
    shown = tuple((label, values) for label, values in lines if any(values))
    if shown:
        yield Track(name=name, end_s=series.end_s, lines=shown)


def _column(
    series: Series, place: int, lengths: Sequence[float] | None
) -> tuple[float | None, ...]:
    values = [row[place] for row in series.rows]
    if lengths is None:
        return tuple(values)
    return tuple(
        None if value is None or length <= 0 else value / length
        for value, length in zip(values, lengths, strict=True)
    )


def _checkpoints_s(evidence: Evidence) -> tuple[float, ...]:
    series = evidence.series_of("counters")
    if series is None or Quantity.CHECKPOINTS not in series.names:
        return ()
    place = series.names.index(Quantity.CHECKPOINTS)
    return tuple(
        end for end, row in zip(series.end_s, series.rows, strict=True) if (row[place] or 0) > 0
    )


TITLE = "Timeline"
_TRACKS = {
    TrackName.TPS: RATE,
    TrackName.WAITS: "sessions",
    TrackName.CPU: "CPUs",
    TrackName.DEVICE: "device, % busy",
    TrackName.THROTTLED: "throttled, s/s",
}
_LINES = {
    "tps": RATE,
    WaitClass.CPU.value: "CPU",
    WaitClass.IO.value: "data files",
    WaitClass.WAL.value: "WAL",
    WaitClass.LWLOCK.value: "LWLock",
    WaitClass.LOCK.value: "locks",
    WaitClass.REPLICATION.value: "standby",
    WaitClass.CLIENT.value: "client",
    WaitClass.OTHER.value: "other waits",
    "others": "other processes",
    "busy": "device busy",
}


_PERCENT = 100.0


def timeline_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the seconds of one block of each workload; nothing where none were recorded."""
    lines = analysis.answer(timelines)
    if not lines:
        return ()
    configurations = tuple(dict.fromkeys(line.configuration for line in lines))
    places = dict.fromkeys(_place(analysis, line) for line in lines)
    figure = doc.Figure(
        identity="timeline",
        kind=doc.ChartKind.TIMELINE,
        title="One block, second by second",
        caption=f"{'; '.join(places)}: the block whose effect is nearest to the median. Sessions of"
        f" the generator by what they do, CPUs by who uses them. {_start(analysis)}; a dashed line"
        " is a second in which a checkpoint ended. Each row has the same axis in all its panels.",
        alt=f"Seconds of one run each of {doc.enumeration(configurations)}, by workload: {MANY} per"
        " second, sessions by wait class, CPU time, data device. The tables above hold the means"
        " over all blocks.",
        columns=("workload", "track", "configuration", "mark", "at", "line", "value", "top"),
        rows=tuple(_rows(analysis, lines)),
        configurations=analysis.names,
    )
    return (doc.Section(anchor="timeline", title=TITLE, blocks=(figure,)),)


def _start(analysis: CampaignAnalysis) -> str:
    """Return what the beginning of the seconds is."""
    if analysis.is_in_turns:
        return (
            "The seconds are those in which the run went on, pauses left out; at first its clients"
            " connect and its server warms up"
        )
    return "The shaded start is the ramp"


def _place(analysis: CampaignAnalysis, line: Timeline) -> str:
    load = cell_name(analysis.experiment, line.cell.load)
    return f"{line.cell.workload}, {load}, block {line.block + 1}"


def _rows(analysis: CampaignAnalysis, lines: Sequence[Timeline]) -> Iterator[tuple[doc.Value, ...]]:
    """Yield track by track; a configuration without one leaves its place in the grid empty."""
    ramp_s = float(analysis.experiment.measure.discard_start_s)
    for workload in dict.fromkeys(line.cell.workload for line in lines):
        here = {line.configuration: line for line in lines if line.cell.workload == workload}
        for name in TrackName:
            tracks = {
                configuration: _scaled(track)
                for configuration, line in here.items()
                for track in line.tracks
                if track.name is name
            }
            top = max((_top(track) for track in tracks.values()), default=0.0)
            for configuration, track in tracks.items():
                panel = workload, _TRACKS[name], configuration
                if not analysis.is_in_turns:
                    yield (*panel, "ramp", ramp_s, None, None, top)
                for values in _values(track):
                    yield (*panel, "value", *values, top)
                for at in here[configuration].checkpoints_s:
                    yield (*panel, "checkpoint", at, None, None, top)


def _scaled(track: Track) -> Track:
    """Return a fraction in percent; all others are in the unit to draw."""
    if track.name is not TrackName.DEVICE:
        return track
    lines = (
        (line, tuple(None if value is None else _PERCENT * value for value in values))
        for line, values in track.lines
    )
    return replace(track, lines=tuple(lines))


def _top(track: Track) -> float:
    """Return the highest pile of a track's lines, with a little room above it."""
    rows = zip(*(values for _, values in track.lines), strict=True)
    return 1.05 * max((sum(value or 0.0 for value in row) for row in rows), default=0.0)


def _values(track: Track) -> Iterator[tuple[doc.Value, ...]]:
    for line, values in track.lines:
        starts = (0.0, *track.end_s)[: len(track.end_s)]  # none where nothing was sampled
        known = [(start, end, v) for start, end, v in zip(starts, track.end_s, values, strict=True)]
        if known:
            # Steps are drawn back from their ends: the first needs its beginning.
            yield (known[0][0], _LINES.get(line, line), _rounded(known[0][2]))
        for _, end, value in known:
            yield (end, _LINES.get(line, line), _rounded(value))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
