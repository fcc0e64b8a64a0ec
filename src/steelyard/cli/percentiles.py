"""``steelyard latency``: percentiles of log files of pgbench, or of a campaign."""

import gzip
import heapq
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.answers.campaign import analyse
from steelyard.answers.latency.section import latency_json, latency_section
from steelyard.answers.logged import HdrInterval, hdr_log, logged_document, logged_json
from steelyard.answers.results import FORMAT, CampaignAnalysis
from steelyard.answers.wording import cell_name
from steelyard.cli import campaigns
from steelyard.cli.log_files import (
    Progress,
    ReadGroup,
    Seventh,
    groups_of,
    known_groups,
    read_aggregated,
    read_group,
    stored_bytes,
)
from steelyard.core.campaign import CampaignRecord
from steelyard.core.command import quoted
from steelyard.core.errors import InputError, RecordError
from steelyard.core.experiment import MANY
from steelyard.core.measurement import Run, SustainedRun
from steelyard.core.units import parse_duration_s
from steelyard.gateways.files import write_text
from steelyard.record.directory import read_campaign
from steelyard.report.charts import INSTALL, on_white, render_chart
from steelyard.report.document import (
    ChartKind,
    Document,
    Figure,
    Json,
    Paragraph,
    Section,
    filled,
    worded,
)
from steelyard.report.html import render_html
from steelyard.stats.histogram import from_text

_COLUMNS = ("lag", "retries", "lag,retries")


_JOURNAL = "journal.jsonl"
_NO_LOG = (
    f"No run of this campaign has a log of its {MANY}: `measure.log` was off, or it is the record"
    " of a version without logs. There are mean latencies only."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyOptions:
    """What the command line says."""

    paths: tuple[str, ...]
    columns: str | None
    ramp: str | None
    as_json: bool
    html: Path | None
    svg: Path | None
    hlog: Path | None
    quiet: bool


def show_latency(options: LatencyOptions) -> None:
    """Show the latency of logs, or of a campaign.

    Raises:
        InputError: Files or options cannot be used together.
        RecordError: The campaign is damaged, or a file cannot be written.
    """
    directories = [path for path in options.paths if (Path(path) / _JOURNAL).exists()]
    if not directories:
        _logs(options)
        return
    if len(options.paths) > 1:
        raise InputError(
            f"{directories[0]} is a campaign, and one campaign is shown alone",
            hint="`steelyard compare` compares two; log files are named without a campaign.",
        )
    if options.columns or options.ramp:
        raise InputError(
            "--columns and --ramp are for log files",
            hint="A campaign knows the columns of its logs, and the ramp of its runs.",
        )
    _campaign(Path(directories[0]), options)


def _write(
    options: LatencyOptions, document: Document, content: dict[str, Json], lines: Iterator[str]
) -> None:
    """Write the files that were asked for, then print."""
    if options.html:
        write_text(options.html, render_html(document), error_type=RecordError)
    if options.svg:
        write_text(options.svg, _drawn(document), error_type=RecordError)
    if options.hlog:
        write_text(options.hlog, "".join(lines), error_type=RecordError)
    if options.as_json:
        campaigns.print_json(content)
        return
    campaigns.print_whole(document)


def _drawn(document: Document) -> str:
    """Return the tail chart.

    Raises:
        InputError: It cannot be drawn here, or there is nothing to draw.
    """
    figures = [
        block
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Figure) and block.kind is ChartKind.LATENCY_TAIL
    ]
    drawn = render_chart(figures[0]) if figures and figures[0].rows else None
    if figures and figures[0].rows and drawn is None:
        raise InputError("charts cannot be drawn here", hint=f"Install them: {INSTALL}")
    if drawn is None:
        raise InputError(
            "there is no transaction to draw a chart of", hint="Leave out --svg, or lower --ramp."
        )
    return on_white(drawn) + "\n"


# --- log files ---


def _logs(options: LatencyOptions) -> None:
    seventh = None if options.columns is None else Seventh(options.columns)
    ramp_s = 0.0 if options.ramp is None else parse_duration_s(options.ramp)
    known = known_groups(groups_of(options.paths), seventh)
    progress = Progress(total_bytes=stored_bytes(known), quiet=options.quiet)
    read = [read_group(each, ramp_s, progress) for each in known if each.form is not None]
    sums = [read_aggregated(each, progress) for each in known if each.form is None]
    groups = [each.group for each in read]
    if options.hlog and not groups:
        raise InputError(
            "aggregated logs have no counts for an HdrHistogram log",
            hint="Log every transaction: pgbench --log without --aggregate-interval.",
        )
    lines = hdr_log(_by_second(read), started_at=min((g.started_at for g in groups), default=0.0))
    _write(options, logged_document(groups, sums), logged_json(groups, sums), lines)


def _by_second(read: Sequence[ReadGroup]) -> Iterator[HdrInterval]:
    """Return the seconds of all groups after their ramps, in the order of time."""
    alone = len(read) == 1
    return heapq.merge(
        *(
            _seconds(
                each.log.seconds_text().splitlines(),
                name="" if alone else each.group.name,
                started_at=each.group.started_at,
            )
            for each in read
        ),
        key=lambda interval: interval.start_s,
    )


def _seconds(lines: Sequence[str], *, name: str, started_at: float) -> Iterator[HdrInterval]:
    """Yield what counts by second and script: neither ramp nor tail."""
    for line in lines:
        second = json.loads(line)
        if second["counts"]:
            yield HdrInterval(
                tag="/".join(part for part in (name, second["script"]) if part),
                start_s=started_at + second["second"],
                seconds=1.0,
                histogram=from_text(second["counts"]),
            )


# --- a campaign ---


def _campaign(path: Path, options: LatencyOptions) -> None:
    record = read_campaign(path)
    analysis = analyse(record)
    lines = hdr_log(_recorded(record, path), started_at=record.started_at)
    document = _campaign_document(analysis, path)
    _write(options, document, worded(_campaign_json(analysis), analysis.experiment.words), lines)


def _campaign_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the latencies for programs, or why there are none."""
    reason = _NO_LOG if analysis.latency is None else None
    return {"format": FORMAT, "latency": None, "reason": reason, **latency_json(analysis)}


def _campaign_document(analysis: CampaignAnalysis, path: Path) -> Document:
    sections = latency_section(analysis)
    if not sections:
        blocks = (Paragraph(text=_NO_LOG),)
        sections = (Section(anchor="latency", title="Latency", blocks=blocks),)
    document = Document(
        title=analysis.experiment.name,
        subtitle=f"latency; `steelyard report {quoted(path)}` has the whole report",
        sections=sections,
    )
    return filled(document, analysis.experiment.words)


def _recorded(record: CampaignRecord, path: Path) -> Iterator[HdrInterval]:
    """Yield the stored counts of all runs that count, long ones too, in the order of time.

    Raises:
        RecordError: There are none, or some are missing or damaged.
    """
    every: list[Run | SustainedRun] = [*record.counted_runs, *record.sustained]
    logged = [run for run in every if run.latency is not None and run.latency.seconds]
    missing = [run for run in logged if not _stored(path, run).is_file()]
    if missing or not logged:
        raise RecordError(
            f"{path} does not hold the counts by second of {len(missing)} of {len(logged)} runs"
            if logged
            else f"no run of {path} has counts by second",
            hint="They lie in raw/*.seconds.gz beside the journal; copy the whole directory."
            if logged
            else "Campaigns of PostgreSQL have them unless `measure.log` is off; the generators of"
            " Redis print none.",
        )
    for run in sorted(logged, key=lambda run: run.started_at):
        yield from _run_seconds(record, path, run)


def _stored(path: Path, run: Run | SustainedRun) -> Path:
    assert run.latency is not None  # noqa: S101 - only such runs are asked
    return path / "raw" / run.latency.seconds


def _run_seconds(
    record: CampaignRecord, path: Path, run: Run | SustainedRun
) -> Iterator[HdrInterval]:
    stored = _stored(path, run)
    long = isinstance(run, SustainedRun)
    parts = ("sustained" if long else "", run.cell.workload, run.configuration)
    load = cell_name(record.experiment, run.cell.load)
    try:
        lines = gzip.decompress(stored.read_bytes()).decode().splitlines()
        yield from _seconds(
            lines,
            name="/".join(part for part in (*parts, load) if part),
            started_at=run.started_at,
        )
    except (OSError, EOFError, zlib.error, ValueError, KeyError) as error:
        raise RecordError(f"{stored} is damaged", hint="Restore it from a copy.") from error
