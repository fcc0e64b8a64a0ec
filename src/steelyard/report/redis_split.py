"""A plan of a split pair as a document: memory, settings of both, what may be lost, files."""

from collections.abc import Iterator

from steelyard.model.redis_split import SplitDesign, SplitPlan
from steelyard.model.stack import PlannedSetting
from steelyard.model.units import MIB, format_bytes
from steelyard.report.document import (
    Block,
    BulletList,
    Column,
    Document,
    Row,
    Section,
    Table,
    Tone,
    number_column,
)

_SETTING = (Column(name="setting"), Column(name="value"), Column(name="reason, source"))

_PRIMARY = (
    "sh start.sh primary: asks the replica first. Where that holds data, the primary has it hold"
    " them as a primary, copies them, and takes its place back (FAILOVER). Where nobody answers,"
    " it waits: only the replica knows what is to be kept."
)
_SYSTEMD = (
    "Under systemd: ExecStart=/bin/sh .../start.sh primary, and no other unit that starts a Redis"
    " on this port."
)


def split_document(plan: SplitPlan, directory: str | None) -> Document:
    """Return a plan as a document.

    Args:
        plan: What was made.
        directory: Where its files are; None where it was not written.
    """
    request = plan.design.request
    sections = (
        Section(anchor="memory", title="Memory and disk", blocks=tuple(_room(plan.design))),
        Section(anchor="settings", title="What is set", blocks=tuple(_settings(plan.design))),
        Section(anchor="risks", title="What may be lost", blocks=(_risks(plan.design),)),
        Section(anchor="start", title="How they are started", blocks=(_start(),)),
        Section(anchor="left", title="What stays as it is", blocks=tuple(_left(plan))),
        Section(anchor="files", title="Files", blocks=(_files(plan, directory),)),
    )
    return Document(
        title="A plan for split persistence of Redis",
        subtitle=f"{request.primary.host} serves and writes no disk, {request.replica.host} keeps"
        f" the data; {format_bytes(request.memory_bytes)} each",
        sections=tuple(section for section in sections if section.blocks),
    )


def _room(design: SplitDesign) -> Iterator[Block]:
    rows = tuple(
        Row(
            cells=(
                f"= {line.label}" if line.total else line.label,
                f"{line.amount_bytes / MIB:{',.0f' if line.total else '+,.0f'}}",
                line.why,
            ),
            tone=Tone.GOOD if line.total else Tone.PLAIN,
        )
        for line in design.arithmetic
    )
    columns = (Column(name="line"), number_column("memory", "MiB"), Column(name="why"))
    yield Table(title="Line by line", columns=columns, rows=rows, tone_column=0)
    disk = f"{format_bytes(design.storage_bytes)} for the replica: the append-only file doubles"
    more = "before it is rewritten, a rewrite and a full sync each write the data once more."
    yield BulletList(lead="Disk:", items=(f"{disk} {more}", "The primary's holds nothing to keep."))


def _settings(design: SplitDesign) -> Iterator[Table]:
    both = {each.name for each in design.primary if each in design.replica}
    for title, settings in (
        ("The primary", design.primary),
        ("The replica", design.replica),
        ("Both: each takes the other's part for a while", design.replica),
    ):
        shared = title.startswith("Both")
        rows = [_row(each) for each in settings if (each.name in both) is shared]
        yield Table(title=title, columns=_SETTING, rows=tuple(rows))


def _row(setting: PlannedSetting) -> Row:
    told = f"{setting.reason.rstrip(' .')}. [{setting.source}]"
    return Row(cells=(setting.name, setting.value, told))


def _risks(design: SplitDesign) -> BulletList:
    items = tuple(
        f"{each.event}: {each.loss}. {each.remedy} [{each.source}]" for each in design.risks
    )
    return BulletList(lead="By the death:", items=items)


def _start() -> BulletList:
    return BulletList(
        lead="By start.sh, at every start of the process and in no other way:",
        items=(
            "sh start.sh replica: redis-server with replica.conf.",
            _PRIMARY,
            "The password of both, if there is one, in the environment variable REDISCLI_AUTH.",
            _SYSTEMD,
        ),
    )


def _left(plan: SplitPlan) -> Iterator[BulletList]:
    if plan.left:
        yield BulletList(lead="Rules that this plan does not serve:", items=plan.left)


def _files(plan: SplitPlan, directory: str | None) -> BulletList:
    where = f"In {directory}/files:" if directory else "Not written; --out DIR writes them:"
    items = tuple(
        f"{file.name}{f' (check: {file.validated_by})' if file.validated_by else ''}"
        for file in plan.files
    )
    return BulletList(lead=where, items=items)
