"""The long runs of a report: beside the slices, never mixed with them."""

from collections.abc import Iterator

from steelyard.analysis.results import CampaignAnalysis, SustainedSummary
from steelyard.model.units import format_duration, format_percent
from steelyard.report.document import (
    Align,
    Block,
    ChartKind,
    Column,
    Figure,
    Row,
    Section,
    Table,
    Tone,
    Value,
)
from steelyard.report.formats import MISSING, ended, milliseconds, rate
from steelyard.report.wording import cell_name

TITLE = "Sustained runs"
_NOTE = (
    "One long run per treatment and workload after the last block, at the largest load, over whole"
    " checkpoint cycles: not repeated, so there is no interval and no verdict, and they take no"
    " part in the comparisons of slices. Variation is the standard deviation of the means of 10 s"
    " over their mean; the worst is the least of these means."
)
_MOST_POINTS = 6000  # as many as keep the page light


def sustained_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the long runs with their strips; nothing when there are none."""
    if not analysis.sustained:
        return ()
    blocks: tuple[Block, ...] = (_table(analysis), *_strips(analysis))
    return (Section(anchor="sustained", title=TITLE, blocks=blocks),)


def _table(analysis: CampaignAnalysis) -> Table:
    columns = (
        Column(name="workload"),
        Column(name="treatment"),
        Column(name="load", spare=True),
        _right("length"),
        _right("tps", "1/s"),
        _right("variation of 10 s"),
        _right("worst 10 s", "1/s"),
        _right("mean latency", "ms", spare=True),
        Column(name="validity"),
    )
    rows = tuple(_row(analysis, each) for each in analysis.sustained)
    return Table(title=TITLE, columns=columns, rows=rows, tone_column=8, note=_note(analysis))


def _right(name: str, unit: str = "", *, spare: bool = False) -> Column:
    return Column(name=name, unit=unit, align=Align.RIGHT, spare=spare)


def _row(analysis: CampaignAnalysis, each: SustainedSummary) -> Row:
    run = each.run
    latency = None if run.measurement is None else run.measurement.latency_mean_s
    varied = each.variation
    return Row(
        cells=(
            run.cell.workload,
            run.treatment,
            cell_name(analysis.experiment, run.cell.load),
            MISSING if each.seconds is None else format_duration(each.seconds),
            rate(each.tps),
            MISSING if varied is None else format_percent(varied, signed=False),
            rate(each.worst_tps),
            milliseconds(latency),
            run.validity.value,
        ),
        tone=Tone.ERROR if run.measurement is None else Tone.PLAIN,
    )


def _note(analysis: CampaignAnalysis) -> str:
    failed = [
        f"{each.run.treatment}, {each.run.cell.workload}: {ended(finding.message)}"
        for each in analysis.sustained
        for finding in each.run.findings
    ]
    return " ".join([_NOTE, *failed])


def _strips(analysis: CampaignAnalysis) -> tuple[Figure, ...]:
    rows = tuple(_strip_rows(analysis))
    if not rows:
        return ()
    experiment = analysis.experiment
    every = _step(analysis)
    thinned = "" if every == 1 else f" One second in {every} is drawn."
    figure = Figure(
        identity="sustained",
        kind=ChartKind.STRIPS,
        title="Sustained runs, second by second",
        caption="Transactions per second of each long run, side by side in treatment order; the "
        f"faded start of each is the ramp, which does not count.{thinned}",
        alt="One-second rates of the long runs, by workload, coloured by treatment; the table "
        "above holds their means and their worst ten seconds.",
        columns=("workload", "load", "treatment", "run", "at", "tps", "ramp"),
        rows=rows,
        treatments=(experiment.baseline, *experiment.contenders),
    )
    return (figure,)


def _step(analysis: CampaignAnalysis) -> int:
    taken = [each.run.measurement for each in analysis.sustained]
    points = sum(len(measurement.series) for measurement in taken if measurement is not None)
    return max(1, -(-points // _MOST_POINTS))


def _strip_rows(analysis: CampaignAnalysis) -> Iterator[tuple[Value, ...]]:
    places: dict[str, int] = {}
    step = _step(analysis)
    for each in analysis.sustained:
        run = each.run
        if run.measurement is None or not run.measurement.series:
            continue
        workload = run.cell.workload
        place = places[workload] = places.get(workload, 0) + 1
        panel = (workload, cell_name(analysis.experiment, run.cell.load))
        yield (*panel, run.treatment, place, float(place), None, False)  # lifts the pen
        whole_s = run.measurement.series[-1].end_s
        for second in run.measurement.series[::step]:
            if second.seconds > 0:
                at = round(place + 0.1 + 0.9 * second.end_s / whole_s, 5)
                in_ramp = second.end_s - second.seconds / 2 < run.ramp_s
                tps = round(second.transactions / second.seconds, 2)
                yield (*panel, run.treatment, place, at, tps, in_ramp)
