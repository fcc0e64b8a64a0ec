"""The seconds of one block: transactions, waits, CPU, device, treatment beside treatment."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.answers.drawing import specification
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.timeline.compute import Timeline, Track, TrackName
from steelyard.answers.wording import cell_name
from steelyard.core.evidence import WaitClass
from steelyard.core.experiment import MANY, RATE
from steelyard.report.document import ChartKind, Figure, Section, Value
from steelyard.report.formats import enumeration

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


def timeline_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the seconds of one block of each workload; nothing where none were recorded."""
    if analysis.reasons is None or not analysis.reasons.timelines:
        return ()
    lines = analysis.reasons.timelines
    treatments = tuple(dict.fromkeys(line.treatment for line in lines))
    places = dict.fromkeys(_place(analysis, line) for line in lines)
    figure = Figure(
        specify=specification,
        identity="timeline",
        kind=ChartKind.TIMELINE,
        title="One block, second by second",
        caption=f"{'; '.join(places)}: the block whose effect is nearest to the median. Sessions of"
        f" the generator by what they do, CPUs by who uses them. {_start(analysis)}; a dashed line"
        " is a second in which a checkpoint ended. Each row has the same axis in all its panels.",
        alt=f"Seconds of one run each of {enumeration(treatments)}, by workload: {MANY} per"
        " second, sessions by wait class, CPU time, data device. The tables above hold the means"
        " over all blocks.",
        columns=("workload", "track", "treatment", "mark", "at", "line", "value", "top"),
        rows=tuple(_rows(analysis, lines, treatments)),
        treatments=(analysis.experiment.baseline, *analysis.experiment.contenders),
    )
    return (Section(anchor="timeline", title=TITLE, blocks=(figure,)),)


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


def _rows(
    analysis: CampaignAnalysis, lines: Sequence[Timeline], treatments: Sequence[str]
) -> Iterator[tuple[Value, ...]]:
    """Yield track by track, so that every treatment has a panel in each, if an empty one."""
    ramp_s = float(analysis.experiment.measure.ramp_s)
    for workload in dict.fromkeys(line.cell.workload for line in lines):
        here = {line.treatment: line for line in lines if line.cell.workload == workload}
        for name in TrackName:
            tracks = {
                treatment: _scaled(track)
                for treatment, line in here.items()
                for track in line.tracks
                if track.name is name
            }
            top = max((_top(track) for track in tracks.values()), default=0.0)
            for treatment in treatments if tracks else ():
                panel = workload, _TRACKS[name], treatment
                if not analysis.is_in_turns:
                    yield (*panel, "ramp", ramp_s, None, None, top)
                if treatment in tracks:
                    for values in _values(tracks[treatment]):
                        yield (*panel, "value", *values, top)
                for at in here[treatment].checkpoints_s if treatment in here else ():
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


def _values(track: Track) -> Iterator[tuple[Value, ...]]:
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
