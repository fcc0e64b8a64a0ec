"""A plan of a split pair as a document: memory, settings of both, what may be lost, files.

What a report of Redis says of its requests and of how their latency was taken.
"""

from collections.abc import Iterator

from steelyard.core.experiment import Experiment, GeneratorName, RedisWork, Workload
from steelyard.core.redis import SplitDesign, SplitPlan
from steelyard.core.stack import PlannedSetting
from steelyard.core.units import MIB, format_bytes
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
from steelyard.report.formats import count, enumeration

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


# redis-benchmark.c, showLatencyReport: powers of two of the share that is left, and every 0.1 ms
# up to 2 ms, every 1 ms after it; its histogram tells 8 us apart, and 0.1 %.
_TABLES = (
    "Latencies are those of redis-benchmark's tables: how many requests took no longer than each of"
    " its steps. Counts are exact, and p50, p95 and p99 are within 8 µs or 0.4 %; any other"
    " percentile (p90, p99.9) is rounded up to the next step. It counts a latency above 3 s as 3 s,"
    " also in means."
)
_HISTOGRAM = (
    "Latencies are counts of memtier_benchmark's own histogram, within 8 µs or 0.4 %. It counts a"
    " latency above 60 s as 60 s."
)
_BATCH = (
    " In a pipeline redis-benchmark takes the first answer of a batch for all of it: what the later"
    " ones waited is in no latency."
)


def latency_label(experiment: Experiment) -> str:
    """Return how exact the latencies of the generator are; empty where a log tells each of them."""
    if experiment.generator is GeneratorName.MEMTIER:
        return _HISTOGRAM
    if experiment.generator is not GeneratorName.REDIS_BENCHMARK:
        return ""
    piped = any(load.pipeline > 1 for load in experiment.loads)
    return f"{_TABLES}{_BATCH if piped else ''}"


def is_clipped(experiment: Experiment, latency_s: float) -> bool:
    """Return whether the generator counts so long a latency as its longest, however long it was."""
    most_s = experiment.generator.longest_latency_s
    return most_s is not None and latency_s >= most_s


def one_key_label(experiment: Experiment) -> str:
    """Return which workloads ask for a single key, in a sentence; empty where none does."""
    names = tuple(
        workload.name
        for workload in experiment.workloads
        if workload.redis is not None and workload.redis.space.keys == 1
    )
    if not names:
        return ""
    verb = "uses" if len(names) == 1 else "use"
    return (
        f"{enumeration(names)} {verb} one key: all requests go to the same value, which the caches"
        " of the CPU hold; that says nothing of a key space."
    )


def asked(workload: Workload, work: RedisWork, generator: GeneratorName) -> str:
    """Return what a workload asks for: test or command, keys, what is loaded, size of values."""
    space = work.space
    what = " ".join(work.command) or workload.builtin or _mix(work)
    keys = "one key" if space.keys == 1 else f"{space.keys:,} keys at random"
    loaded = f"{count(space.loaded, 'key')} loaded" if space.loaded else "none loaded"
    size = format_bytes(space.value_bytes)
    return f"{workload.name} is {what} of {generator.value}, {keys} ({loaded}), values of {size}"


def _mix(work: RedisWork) -> str:
    return "an unknown test" if work.read_share is None else f"{work.read_share:.0%} GET, else SET"


def later(experiment: Experiment) -> str:
    """Return what slices of a Redis server do not show."""
    return (
        f"The sustained rate: every run is a slice of about {experiment.measure.slice_s:g} s. What"
        " comes later or falls into some slices only, as a rewrite of the AOF, a snapshot with its"
        " fork, memory that fills up or a burst credit that runs out, may do something else."
    )
