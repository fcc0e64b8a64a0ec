"""``steelyard latency``: log files of pgbench, read in one pass each, or a campaign's."""

import gzip
import heapq
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, cast

import click

from steelyard.answers.campaign import analyse
from steelyard.answers.latency.section import latency_json, latency_section
from steelyard.answers.logged import (
    AggregatedGroup,
    HdrInterval,
    LoggedGroup,
    hdr_log,
    intervals_together,
    logged_document,
    logged_json,
)
from steelyard.answers.results import CampaignAnalysis, cell_name
from steelyard.cli import campaigns
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import MANY
from steelyard.core.measurement import Run, SustainedRun
from steelyard.core.wording import (
    US_PER_S,
    InputError,
    RecordError,
    format_bytes,
    parse_duration_s,
    quoted,
)
from steelyard.gateways.files import write_text
from steelyard.record.directory import read_campaign
from steelyard.report.charts import INSTALL, on_white, render_chart
from steelyard.report.document import (
    FORMAT,
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
from steelyard.systems.postgres.log_lines import (
    MOST_SCRIPTS,
    LogForm,
    first_start_us,
    form_of,
    is_aggregated,
    last_end_us,
    transaction_lines,
)
from steelyard.systems.postgres.transaction_log import (
    TransactionLog,
    TransactionLogReader,
    parse_aggregated,
)

ONE_GROUP = "log"
_HEAD_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_LEAST_COLUMNS = 6
_HINT = (
    "Give the files that `pgbench --log` wrote, NAME=FILE for several runs, or one campaign's"
    " directory."
)


class Seventh(StrEnum):
    """What pgbench wrote behind the six columns that every log has."""

    LAG = "lag"
    RETRIES = "retries"
    BOTH = "lag,retries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Files of one run, by the name that the user gave it, whose form is known.

    Attributes:
        empty: Files without a byte, which a thread without a transaction leaves.
        form: None of aggregated logs.
        started_us: When its first transaction was due, since the epoch; 0 of aggregated logs.
    """

    name: str
    files: tuple[Path, ...]
    empty: tuple[str, ...]
    form: LogForm | None = None
    started_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The beginning of a file: its transactions, or that it is aggregated, or what is wrong."""

    path: Path
    lines: tuple[bytes, ...] = ()
    aggregated: bool = False
    empty: bool = False
    problem: str = ""

    @property
    def columns(self) -> int:
        """Return how many columns its transactions have."""
        return len(self.lines[0].split()) if self.lines else 0

    @property
    def shape(self) -> str:
        """Return what it is, in words."""
        return "aggregated intervals" if self.aggregated else f"lines of {self.columns} columns"


def groups_of(words: Sequence[str]) -> dict[str, tuple[Path, ...]]:
    """Return the files of each group that words of a command line name.

    ``NAME=PATTERN`` begins a group or goes on with it, and files without a name belong to the
    group named last; without any name all files are one group.

    Raises:
        InputError: A file has no group while others have.
    """
    found: dict[str, list[Path]] = {}
    name = ""
    for word in words:
        given, equals, pattern = word.partition("=")
        if equals and given and not Path(word).exists():
            name, word = given, pattern  # noqa: PLW2901 - the rest of it is the file
        found.setdefault(name, []).extend(_matching(word))
    if len(found) > 1 and "" in found:
        first = found[""][0]
        raise InputError(
            f"{first} has no name, and other files have",
            hint=f"Name its run too: NAME={first}, before or after the others.",
        )
    return {key or ONE_GROUP: tuple(dict.fromkeys(files)) for key, files in found.items()}


def _matching(pattern: str) -> list[Path]:
    """Return the files that a pattern names: a shell leaves those behind ``NAME=`` to us."""
    path = Path(pattern)
    if path.exists() or not any(sign in pattern for sign in "*?["):
        return [path]
    base = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(base.glob(str(path.relative_to(path.anchor)))) or [path]


def known_groups(
    groups: Mapping[str, tuple[Path, ...]], seventh: Seventh | None
) -> tuple[Known, ...]:
    """Return the groups with what their lines mean.

    Raises:
        InputError: With everything that stands in the way, of all files.
    """
    problems: list[str] = []
    known = [_known(name, files, seventh, problems) for name, files in groups.items()]
    if problems:
        lines = [problems[0]] if len(problems) == 1 else ["these logs cannot be read:"]
        lines += [f"  {problem}" for problem in problems] if len(problems) > 1 else []
        raise InputError("\n".join(lines), hint=_HINT)
    return tuple(each for each in known if each is not None)


def _known(
    name: str, files: tuple[Path, ...], seventh: Seventh | None, problems: list[str]
) -> Known | None:
    heads = [_head(path) for path in files]
    wrong = [head.problem for head in heads if head.problem]
    full = [head for head in heads if not head.empty and not head.problem]
    if not wrong and not full:
        wrong = [f"{head.path} is empty" for head in heads]
    shapes = {head.shape: head for head in reversed(full)}
    if len(shapes) > 1:
        told = ", ".join(f"{head.path} has {shape}" for shape, head in shapes.items())
        wrong.append(f"{told}: one run writes one form; give each run a name of its own")
    problems += wrong
    if wrong:
        return None
    empty = tuple(str(head.path) for head in heads if head.empty)
    known = Known(name=name, files=files, empty=empty)
    if full[0].aggregated:
        return known
    lines = [line for head in full for line in head.lines]
    open_loop, problem = _has_lag(full[0], seventh)
    if problem:
        problems.append(problem)
        return None
    form = form_of(lines, open_loop=open_loop)
    return replace(known, form=form, started_us=first_start_us(lines))


def _has_lag(head: _Head, seventh: Seventh | None) -> tuple[bool | None, str]:
    """Return what to tell ``form_of``, or what is wrong with the option."""
    further = head.columns - _LEAST_COLUMNS
    if further != 1:
        return None, ""
    if seventh is None:
        return None, (
            f"{head.path} has seven columns, and no line tells whether the last is the"
            " schedule lag of --rate or the retries of --max-tries: say --columns lag or"
            " --columns retries"
        )
    if seventh is Seventh.BOTH:
        return None, f"{head.path} has one column for --columns {seventh}: say which"
    return seventh is Seventh.LAG, ""


def _head(path: Path) -> _Head:
    try:
        with path.open("rb") as plain, unpacked(plain) as file:
            return _of_content(path, file.read(_HEAD_BYTES))
    except FileNotFoundError:
        problem = f"there is no file {path}"
    except IsADirectoryError:
        problem = f"{path} is a directory, and holds no campaign"
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or "its compression is damaged"
        problem = f"{path} cannot be read: {words}"
    return _Head(path=path, problem=problem)


def _of_content(path: Path, content: bytes) -> _Head:
    if not content:
        return _Head(path=path, empty=True)
    lines = content.split(b"\n")[:-1]
    if lines and is_aggregated(lines):
        return _Head(path=path, aggregated=True)
    transactions = transaction_lines(lines)
    if 2 * len(transactions) <= len(lines):
        problem = f"{path} is no transaction log of pgbench: "
        problem += "its lines are of another form" if lines else "it has no whole line"
        return _Head(path=path, problem=problem)
    return _Head(path=path, lines=tuple(transactions))


@contextmanager
def unpacked(plain: BinaryIO) -> Iterator[BinaryIO]:
    """Yield what a file holds; it may be compressed, as those are that a campaign keeps."""
    packed = plain.read(len(_GZIP)) == _GZIP
    plain.seek(0)
    if not packed:
        yield plain
        return
    with gzip.GzipFile(fileobj=plain) as file:
        yield cast("BinaryIO", file)


def widened(form: LogForm) -> LogForm:
    """Return the form with all scripts that pgbench can have: one may run late at first."""
    return LogForm(
        scripts=tuple(f"script {n}" for n in range(MOST_SCRIPTS)),
        open_loop=form.open_loop,
        retries=form.retries,
    )


_CHUNK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 12
_LARGE_BYTES = 200 << 20  # a second or two of reading; below it nothing is said
_STEPS = 10


@dataclass(slots=True, kw_only=True)
class Progress:
    """Says how far the reading is, on standard error, where there is much to read.

    Attributes:
        total_bytes: Of all files.
        quiet: Nothing is said.
    """

    total_bytes: int
    quiet: bool = False
    _read_bytes: int = 0
    _told: int = 0

    def add(self, count: int) -> None:
        """Count bytes that were read."""
        self._read_bytes += count
        step = _STEPS * self._read_bytes // max(self.total_bytes, 1)
        if step > self._told and self.total_bytes >= _LARGE_BYTES and not self.quiet:
            self._told = step
            share = min(100 * step // _STEPS, 100)
            click.echo(f"read {share} % of {format_bytes(self.total_bytes)}", err=True)


@dataclass(slots=True, kw_only=True)
class _Feed:
    """Hands files to a reader, and remembers how each ended."""

    take: Callable[[str, bytes], None]
    progress: Progress
    tails: dict[str, bytes] = field(default_factory=dict)

    def file(self, path: Path) -> None:
        name = str(path)
        for chunk, read_bytes in _chunks(path):
            self.take(name, chunk)
            kept = chunk if len(chunk) >= _TAIL_BYTES else self.tails.get(name, b"") + chunk
            self.tails[name] = kept[-_TAIL_BYTES:]
            self.progress.add(read_bytes)

    @property
    def ended_us(self) -> int | None:
        """Return when the last transaction of all files ended."""
        ends = [last_end_us(tail.split(b"\n")[:-1]) for tail in self.tails.values()]
        return max((end for end in ends if end is not None), default=None)


def read_group(
    known: Known, ramp_s: float, progress: Progress
) -> tuple[LoggedGroup, TransactionLog]:
    """Return what a group says, and all its transactions.

    Raises:
        InputError: A file changed or its compression is damaged.
    """
    assert known.form is not None  # noqa: S101 - aggregated ones go to read_aggregated
    form = known.form
    log, ended_us = _read(known, form, ramp_s, progress)
    if log.damaged:
        # Perhaps a script that ran late for the first time: only the whole log tells.
        wider, ended_us = _read(known, widened(form), ramp_s, progress)
        log = wider if wider.damaged < log.damaged else log
    began_us = known.started_us + round(ramp_s * US_PER_S)
    seconds = max((ended_us or began_us) - began_us, 0) / US_PER_S
    latency = log.run_latency(windows_s=None)
    assert latency is not None  # noqa: S101 - pgbench's lines have one
    group = LoggedGroup(
        name=known.name,
        files=len(known.files),
        open_loop=form.open_loop,
        tells_retries=form.retries,
        started_at=known.started_us / US_PER_S,
        ramp_s=ramp_s,
        seconds=seconds,
        latency=latency,
        damaged=log.damaged,
        truncated=log.truncated,
        empty=known.empty,
    )
    return group, log


def _read(
    known: Known, form: LogForm, ramp_s: float, progress: Progress
) -> tuple[TransactionLog, int | None]:
    reader = TransactionLogReader(form, started_at=known.started_us / US_PER_S, ramp_s=ramp_s)
    feed = _Feed(take=reader.feed, progress=progress)
    for path in known.files:
        feed.file(path)
    return reader.finish(), feed.ended_us


def read_aggregated(known: Known, progress: Progress) -> AggregatedGroup:
    """Return the intervals of aggregated logs, the threads together.

    Raises:
        InputError: As for ``read_group``.
    """
    contents: dict[str, list[bytes]] = {str(path): [] for path in known.files}
    feed = _Feed(take=lambda name, chunk: contents[name].append(chunk), progress=progress)
    for path in known.files:
        feed.file(path)
    logs = {name: parse_aggregated(b"".join(chunks)) for name, chunks in contents.items()}
    return AggregatedGroup(
        name=known.name,
        files=len(known.files),
        intervals=intervals_together(i for log in logs.values() for i in log.intervals),
        damaged=sum(log.damaged for log in logs.values()),
        truncated=tuple(name for name, log in logs.items() if log.truncated),
    )


def _chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield what is in a file, and how many of its stored bytes that took."""
    taken = 0
    try:
        with path.open("rb") as plain, unpacked(plain) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk, plain.tell() - taken
                taken = plain.tell()
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or "its compression is damaged"
        raise InputError(
            f"{path} cannot be read: {words}", hint="Restore it from a copy."
        ) from error


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
    total = sum(path.stat().st_size for group in known for path in group.files)
    progress = Progress(total_bytes=total, quiet=options.quiet)
    read = [read_group(each, ramp_s, progress) for each in known if each.form is not None]
    sums = [read_aggregated(each, progress) for each in known if each.form is None]
    groups = [group for group, _ in read]
    if options.hlog and not groups:
        raise InputError(
            "aggregated logs have no counts for an HdrHistogram log",
            hint="Log every transaction: pgbench --log without --aggregate-interval.",
        )
    lines = hdr_log(_by_second(read), started_at=min((g.started_at for g in groups), default=0.0))
    _write(options, logged_document(groups, sums), logged_json(groups, sums), lines)


def _by_second(read: Sequence[tuple[LoggedGroup, TransactionLog]]) -> Iterator[HdrInterval]:
    """Return the seconds of all groups after their ramps, in the order of time."""
    alone = len(read) == 1
    return heapq.merge(
        *(
            _seconds(
                log.seconds_text().splitlines(),
                name="" if alone else group.name,
                started_at=group.started_at,
            )
            for group, log in read
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
