"""What a browser is shown of many campaigns: which there are, and each down to its seconds.

Every page is a document, as a report is. Addresses in them are those that ``steelyard serve``
answers; within a campaign they are relative.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from steelyard.answers.report import (
    Listed,
    build_document,
    campaign_document,
    listing_row,
    state,
)
from steelyard.answers.results import CampaignAnalysis, Comparison, cell_name
from steelyard.core.campaign import BlockOutcome, CampaignRecord, Status
from steelyard.core.measurement import Run, Second
from steelyard.core.quantities import PER_SECOND, SECONDS
from steelyard.core.schedule import Turn
from steelyard.core.wording import format_bytes, format_log_ratio
from steelyard.report import document as doc

PAGE = 50  # campaigns
_LINES = 500  # of a page of blocks or files
_LIVE_S = 5  # between two looks of a page at a campaign that runs
_DIGITS = 16  # of a hash: no two campaigns share them
_TURNS_SHOWN = 400  # of a run; who wants all of them takes the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A campaign as its first line tells it.

    Attributes:
        key: Its directory, relative to the one that is shown; "." where it is that one.
        name: Of the experiment; empty where the record is damaged.
        started_at: Seconds since the epoch.
    """

    key: str
    name: str = ""
    started_at: float = 0.0

    @property
    def address(self) -> str:
        """Return where its report is; its other pages are below."""
        return f"/campaign/{self.identity}/"

    @property
    def identity(self) -> str:
        """Return what stands for its directory in addresses, whatever that is called."""
        return sha256(self.key.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]

    def has(self, words: Sequence[str]) -> bool:
        """Return whether all words are in its name or directory, whatever their case."""
        text = f"{self.name} {self.key}".casefold()
        return all(word.casefold() in text for word in words)


def found_heads(heads: Sequence[Head], query: str) -> list[Head]:
    """Return the campaigns that a query finds, newest first."""
    words = query.split()
    found = [head for head in heads if head.has(words)]
    return sorted(found, key=lambda head: (-head.started_at, head.key))


_SIZE = 5  # its place in a line of the terminal's list
_COLUMNS = (
    doc.Column(name="started"),
    doc.Column(name="campaign"),
    doc.Column(name="name"),
    doc.Column(name="status"),
    doc.number_column("blocks"),
    doc.Column(name="verdicts"),
)


def list_document(
    shown: Sequence[tuple[Head, Listed]], *, place: str, query: str, found: int, page: int
) -> doc.Document:
    """Return a page of the list.

    Args:
        shown: The campaigns of this page.
        place: Below which they lie.
        query: What they were searched by.
        found: How many there are in all pages.
        page: Counts from 1.
    """
    block: doc.Block = doc.Paragraph(
        text="No campaign is here." if not query else "None has these words."
    )
    if shown:
        rows = tuple(_listed_row(head, listed) for head, listed in shown)
        block = doc.Table(title="Campaigns", columns=_COLUMNS, rows=rows, tone_column=3)
    search = f"&q={quote(query)}" if query else ""
    of_page, turning = _turning(page, -(-found // PAGE), ("newer", "older"), search)
    return doc.Document(
        title=doc.count(found, "campaign"),
        subtitle=f"below {place}, newest first{of_page}",
        sections=(doc.Section(anchor="campaigns", title="Campaigns", blocks=(block,)),),
        links=turning,
        query=query,
    )


def _turning(
    page: int, pages: int, words: tuple[str, str] = ("earlier", "later"), search: str = ""
) -> tuple[str, tuple[doc.Link, ...]]:
    """Return which page it is, where there are several, and the links to those beside it."""
    before, after = words
    links = (
        *([doc.Link(text=before, address=f"?page={page - 1}{search}")] if page > 1 else []),
        *([doc.Link(text=after, address=f"?page={page + 1}{search}")] if page < pages else []),
    )
    return f" · page {page} of {pages}" if pages > 1 else "", links


def _listed_row(head: Head, listed: Listed) -> doc.Row:
    """Return its line in the list of the terminal, without the size, and where it leads."""
    row = listing_row(replace(listed, directory=head.key))
    row = replace(row, cells=(*row.cells[:_SIZE], *row.cells[_SIZE + 1 :]))
    if listed.is_large:
        cells = (doc.utc(head.started_at), head.key, head.name, *row.cells[3:])
        return replace(row, cells=cells, links=((1, head.address),))
    if listed.analysis is None:
        return row
    runs = listed.analysis.status is Status.RUNNING and listed.held
    return replace(row, links=((1, f"{head.address}{'live' if runs else ''}"),))


def _links(root: str) -> tuple[doc.Link, ...]:
    """Return what each page of a campaign leads to; ``root`` is the way back to its own."""
    return (
        doc.Link(text="all campaigns", address="/"),
        doc.Link(text="report", address=f"{root}."),
        doc.Link(text="where it stands", address=f"{root}live"),
        doc.Link(text="blocks", address=f"{root}blocks"),
        doc.Link(text="compare", address=f"{root}compare"),
        doc.Link(text="files", address=f"{root}files"),
    )


def report_page(analysis: CampaignAnalysis) -> doc.Document:
    """Return the report of a campaign, with links to its other pages."""
    return replace(build_document(analysis), links=_links(""))


_OF_LIVE = ("verdicts", "effects", "charts")


def live_page(listed: Listed, analysis: CampaignAnalysis) -> doc.Document:
    """Return where a campaign stands: verdicts so far, block by block; it looks again by itself.

    Args:
        listed: The campaign.
        analysis: Of its record so far; nothing in it that takes long.
    """
    report = build_document(analysis)
    so_far = tuple(
        replace(each, blocks=each.every, more=(), chapter=None)
        for each in report.sections
        if each.anchor in _OF_LIVE
    )
    stands = campaign_document(listed, analysis)
    position = next(each for each in stands.sections if each.anchor == "position")
    runs = state(listed) == "running"
    return replace(
        stands,
        sections=(*so_far, position),
        links=_links(""),
        refresh_s=_LIVE_S if runs else None,
    )


def blocks_page(record: CampaignRecord, analysis: CampaignAnalysis, page: int = 1) -> doc.Document:
    """Return tries of blocks with what they gave, oldest first; pages count from 1."""
    began: dict[tuple[int, int], float] = {}
    for run in record.runs:
        key = run.block, run.attempt
        began[key] = min(run.started_at, began.get(key, run.started_at))
    complete = {key: place for place, key in enumerate(record.complete_blocks)}

    def effect(compared: Comparison, outcome: BlockOutcome) -> float | None:
        place = complete.get((outcome.index, outcome.attempt), len(compared.contrasts))
        return compared.contrasts[place] if place < len(compared.contrasts) else None

    table = doc.table_of(
        record.blocks[(page - 1) * _LINES : page * _LINES],
        doc.column("block", lambda each: each.index + 1, _NUMBER),
        doc.column("try", lambda each: each.attempt + 1, _NUMBER),
        doc.column("began", lambda each: began.get((each.index, each.attempt)), _MOMENT),
        ("outcome", lambda each: "counts" if each.complete else f"thrown away: {each.reason}"),
        *(
            doc.column(
                f"{c.workload}: {doc.versus(c.configuration, c.baseline)}",
                partial(effect, c),
                _EFFECT,
            )
            for c in analysis.results
        ),
        title="Blocks",
        note="An effect is that of all loads of a workload together, ln of the ratio in %.",
        tone=lambda each: doc.Tone.PLAIN if each.complete else doc.Tone.WARNING,
        tone_column=3,
        links=lambda each: ((0, f"block/{each.index + 1}-{each.attempt + 1}"),),
    )
    block = table if table.rows else doc.Paragraph(text="No block has ended.")
    section = doc.Section(anchor="blocks", title="Blocks", blocks=(block,))
    return _page(record, "blocks", (section,), root="", at=(page, len(record.blocks)))


_NUMBER: Final = doc.Form()
_MOMENT: Final = doc.Form(show=doc.utc, align=doc.Align.LEFT)
_EFFECT: Final = doc.Form(show=format_log_ratio)


def _page(
    record: CampaignRecord,
    what: str,
    sections: tuple[doc.Section, ...],
    *,
    root: str,
    at: tuple[int, int] = (1, 0),
) -> doc.Document:
    """Return a page of a campaign; ``at`` is its number, and how many lines all have together."""
    of_page, turning = _turning(at[0], -(-at[1] // _LINES))
    document = doc.Document(
        title=record.experiment.name,
        subtitle=f"{record.campaign_id} · {what}{of_page}",
        sections=sections,
        links=(*turning, *_links(root)),
    )
    return doc.filled(document, record.experiment.words)


def block_page(record: CampaignRecord, block: int, attempt: int) -> doc.Document | None:
    """Return the runs of one try of a block, in run order; None where there is none.

    Args:
        record: Of the campaign.
        block: Counts from 1, as people do.
        attempt: Likewise.
    """
    runs = [
        (number, run)
        for number, run in enumerate(record.runs, start=1)
        if (run.block, run.attempt) == (block - 1, attempt - 1)
    ]
    if not runs:
        return None
    table = doc.table_of(
        runs,
        doc.column("run", lambda each: each[0], _NUMBER),
        doc.column("configuration", lambda each: each[1].configuration),
        doc.column("workload", lambda each: each[1].cell.workload),
        doc.column("load", lambda each: cell_name(record.experiment, each[1].cell.load)),
        doc.column("rate", _of("tps"), doc.Form(show=doc.rate, heading="1/s")),
        doc.column("mean latency", _of("latency_mean_s"), _MS),
        doc.column("failed", _of("failed"), _NUMBER),
        doc.column("validity", lambda each: each[1].validity.value),
        title="Runs",
        tone=lambda each: doc.TONES[each[1].validity],
        tone_column=7,
        links=lambda each: ((0, f"../run/{each[0]}"),),
    )
    section = doc.Section(anchor="runs", title="Runs", blocks=(table,))
    return _page(record, f"block {block}, try {attempt}", (section,), root="../")


_MS: Final = doc.Form(show=doc.milliseconds, unit=SECONDS, heading="ms")


def _of(attribute: str) -> Callable[[tuple[int, Run]], float | None]:
    """Return what gives a figure of a run; None if it was not measured."""
    return lambda each: getattr(each[1].measurement, attribute, None)


def run_page(record: CampaignRecord, number: int) -> doc.Document | None:
    """Return one run: its turns or seconds, its wait events, what was found; None: no such run.

    Args:
        record: Of the campaign.
        number: Counts from 1 over all runs of the record.
    """
    if not 1 <= number <= len(record.runs):
        return None
    run = record.runs[number - 1]
    sections = (_measured(record, run), _course(run), _waits(run), _found(run))
    what = f"run {number}, {run.configuration}, {run.cell.workload}"
    shown = tuple(section for section in sections if section.blocks)
    return _page(record, what, shown, root="../")


def _measured(record: CampaignRecord, run: Run) -> doc.Section:
    measured = run.measurement
    pairs = [
        ("block", f"{run.block + 1}, try {run.attempt + 1}"),
        ("load", cell_name(record.experiment, run.cell.load)),
        ("began", doc.utc(run.started_at)),
        ("validity", run.validity.value),
    ]
    if measured is not None:
        pairs += [
            ("rate", f"{doc.rate(measured.tps)} /s over {measured.seconds:.3g} s"),
            ("mean latency", f"{doc.milliseconds(measured.latency_mean_s)} ms"),
            ("failed", str(measured.failed)),
        ]
    if run.raw:
        pairs.append(("printed", f"raw/{run.raw}"))
    return doc.Section(
        anchor="measured", title="Measured", blocks=(doc.KeyValues(title="", pairs=tuple(pairs)),)
    )


def _course(run: Run) -> doc.Section:
    """Return the turns of a run, or its seconds."""
    table = _turns(run) if run.turns else _seconds(run)
    left = len(table.rows) - _TURNS_SHOWN
    if left > 0:
        note = f"The first {_TURNS_SHOWN}; {left} more are in the record."
        table = replace(table, rows=table.rows[:_TURNS_SHOWN], note=note)
    return doc.Section(anchor="course", title=table.title, blocks=(table,) if table.rows else ())


def _turns(run: Run) -> doc.Table:
    return doc.table_of(
        run.turns,
        doc.column("round", lambda turn: turn.round + 1, _NUMBER),
        doc.column("place", lambda turn: turn.place + 1, _NUMBER),
        doc.column("began", lambda turn: turn.began_s, _SECONDS),
        doc.column("counted", lambda turn: turn.seconds, _SECONDS),
        doc.column("rate", _per_s, _RATE),
        title="Turns",
    )


_SECONDS: Final = doc.Form(show="{:.3f}".format, unit=SECONDS, heading="s")
_RATE: Final = doc.Form(show=doc.rate, unit=PER_SECOND, heading="1/s")


def _seconds(run: Run) -> doc.Table:
    return doc.table_of(
        run.measurement.series if run.measurement is not None else (),
        doc.column("ended", lambda second: second.end_s, replace(_SECONDS, show="{:.1f}".format)),
        doc.column("rate", _per_s, _RATE),
        doc.column("mean latency", lambda second: second.latency_mean_s, _MS),
        doc.column("failed", lambda second: second.failed, _NUMBER),
        title="Seconds",
    )


def _per_s(counted: Turn | Second) -> float | None:
    return counted.transactions / counted.seconds if counted.seconds else None


def _waits(run: Run) -> doc.Section:
    waits = run.evidence.waits if run.evidence is not None else None
    if waits is None:
        return doc.Section(anchor="waits", title="Wait events", blocks=())
    table = doc.table_of(
        waits.events,
        doc.column("type", lambda event: event.kind),
        doc.column("event", lambda event: event.name or None),
        doc.column("sessions", lambda event: event.sessions, doc.Form(show="{:.3f}".format)),
        title="Wait events",
        note=f"Mean number of sessions; {waits.source}, {doc.count(waits.samples, 'sample')}.",
    )
    return doc.Section(anchor="waits", title="Wait events", blocks=(table,) if table.rows else ())


def _found(run: Run) -> doc.Section:
    items = tuple(
        doc.FindingItem(
            severity=each.severity.value,
            tone=doc.TONES[each.severity],
            subject="",
            message=each.message,
            remedy=each.remedy,
            source="",
            code=each.code,
        )
        for each in run.findings
    )
    blocks = (doc.FindingList(items=items),) if items else ()
    return doc.Section(anchor="findings", title="Findings", blocks=blocks)


def files_page(
    record: CampaignRecord, names: Sequence[tuple[str, int]], page: int = 1
) -> doc.Document:
    """Return the files of a record, to be taken away.

    Args:
        record: Of the campaign.
        names: Relative to its directory, with sizes in bytes.
        page: Counts from 1.
    """
    table = doc.table_of(
        names[(page - 1) * _LINES : page * _LINES],
        doc.column("file", lambda each: each[0]),
        doc.column("size", lambda each: each[1], doc.Form(show=format_bytes), key="size_bytes"),
        title="Files",
        links=lambda each: ((0, f"file/{quote(each[0], safe='/')}"),),
    )
    section = doc.Section(anchor="files", title="Files", blocks=(table,))
    return _page(record, "files", (section,), root="", at=(page, len(names)))


def choices_page(record: CampaignRecord, others: Sequence[Head]) -> doc.Document:
    """Return the campaigns that one can be compared with: those of its experiment first."""
    name = record.experiment.name
    ordered = sorted(others, key=lambda head: (head.name != name, -head.started_at))
    table = doc.table_of(
        ordered[:PAGE],
        doc.column("started", lambda head: head.started_at, _MOMENT),
        doc.column("campaign", lambda head: head.key),
        doc.column("name", lambda head: head.name),
        title="Compare with",
        links=lambda head: ((1, f"compare?with={head.identity}"),),
    )
    block = table if table.rows else doc.Paragraph(text="There is no other campaign here.")
    section = doc.Section(anchor="compare", title="Compare with", blocks=(block,))
    return _page(record, "compare with another campaign", (section,), root="")
