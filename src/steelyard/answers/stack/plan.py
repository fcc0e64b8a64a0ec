"""Plans of the stack and of a split pair of Redis as documents, and notes on Redis requests.

A plan of the stack has arithmetic, topology, settings of each layer and files; one of a split pair
has memory, settings of both, what may be lost and files. The notes say what a report of Redis
tells of its requests, and how their latency was taken.
"""

from collections.abc import Iterator

from steelyard.core.experiment import Experiment, GeneratorName, RedisWork, Workload
from steelyard.core.linux import cpu_list
from steelyard.core.redis import SplitDesign, SplitPlan
from steelyard.core.stack import Knob, PlannedSetting, Site, StackPlan
from steelyard.core.units import MIB, format_bytes
from steelyard.report.document import (
    Block,
    BulletList,
    Column,
    Document,
    KeyValues,
    Row,
    Section,
    Table,
    Tone,
    count,
    enumeration,
    number_column,
)

_MACHINES = {
    "hypervisor": "the hypervisor",
    "kvm": "the hypervisor, by libvirt",
    "linux": "the machine of the database",
    "kubernetes": "the cluster",
    "postgres": "the server",
}
# Characters, so that words keep 30 of 100 columns beside them.
_LONGEST_NAME = 34
_LONGEST_VALUE = 20
_LEFT_OUT = "..."


def plan_document(plan: StackPlan, directory: str | None) -> Document:
    """Return a plan as a document.

    Args:
        plan: What was made.
        directory: Where its files are; None where it was not written.
    """
    request = plan.design.request
    sections = (
        Section(anchor="arithmetic", title="Memory", blocks=(_arithmetic(plan),)),
        Section(anchor="topology", title="Where it runs", blocks=tuple(_topology(plan))),
        Section(anchor="settings", title="What is set", blocks=tuple(_settings(plan))),
        Section(anchor="files", title="Files", blocks=tuple(_files(plan, directory))),
        Section(anchor="left", title="What stays as it is", blocks=tuple(_left(plan))),
        Section(anchor="assumptions", title="Assumptions", blocks=tuple(_assumptions(plan))),
    )
    return Document(
        title=f"A plan for PostgreSQL {request.postgres_version}",
        subtitle=f"{request.cpus} CPUs, {format_bytes(request.memory_bytes)} in all, for"
        f" {request.place.value}",
        sections=tuple(section for section in sections if section.blocks),
    )


def _arithmetic(plan: StackPlan) -> Table:
    rows = tuple(
        Row(
            cells=(
                f"= {line.label}" if line.total else line.label,
                f"{line.amount_bytes / 1024**2:+,.0f}"
                if not line.total
                else f"{line.amount_bytes / 1024**2:,.0f}",
                line.why,
            ),
            tone=Tone.GOOD if line.total else Tone.PLAIN,
        )
        for line in plan.design.arithmetic
    )
    columns = (Column(name="line"), number_column("memory", "MiB"), Column(name="why"))
    return Table(title="Line by line", columns=columns, rows=rows, tone_column=0)


def _topology(plan: StackPlan) -> Iterator[Block]:
    design = plan.design
    pairs: list[tuple[str, str]] = []
    if design.domain is not None:
        domain = design.domain
        nodes = cpu_list(domain.nodes)
        pairs += [
            (
                f"virtual machine {domain.name}",
                f"{format_bytes(domain.memory_bytes)}, node {nodes}",
            ),
            ("its CPUs, in order", ", ".join(map(str, domain.vcpu_pins))),
            ("threads of a core", str(domain.threads)),
            ("emulator on", cpu_list(domain.emulator_pins)),
            ("I/O threads on", cpu_list(domain.io_thread_pins)),
        ]
    if design.machine is not None and design.machine.cpus:
        pairs.append(("CPUs of the database's machine", cpu_list(design.machine.cpus)))
    if design.pod is not None:
        pod = design.pod
        amounts = (format_bytes(pod.memory_bytes), format_bytes(pod.huge_pages_bytes))
        pairs += [
            ("pod", f"{pod.cpus} CPUs, {amounts[0]}, huge pages of {amounts[1]} beside"),
            ("reserved CPUs of the node", cpu_list(pod.reserved_cpus)),
        ]
    if pairs:
        yield KeyValues(title="", pairs=tuple(pairs))


def _settings(plan: StackPlan) -> Iterator[Block]:
    """Yield a table per layer; a cluster's settings are in its objects, and told here, too."""
    for layer, machine in _MACHINES.items():
        knobs = [knob for knob in plan.knobs if knob.layer == layer]
        rows = [_knob_row(knob) for knob in knobs]
        if rows:
            yield Table(title=f"{layer}: on {machine}", columns=_COLUMNS, rows=tuple(rows))
    if not any(knob.kind.site is Site.SERVER for knob in plan.knobs):
        rows = [_setting_row(setting) for setting in plan.design.postgres.settings]
        yield Table(title="postgres: in these objects", columns=_COLUMNS, rows=tuple(rows))


_COLUMNS = (
    Column(name="what"),
    Column(name="value"),
    Column(name="in effect by"),
    Column(name="reason, source, effect"),
)


def _knob_row(knob: Knob) -> Row:
    name = knob.name.partition(":")[2]
    if knob.kind.is_whole:
        return _row(name, f"{len(knob.value.splitlines())} lines", knob)
    if knob.kind.is_by_hand:
        return _step_row(name, knob)
    return _row(name, knob.value, knob)


def _step_row(name: str, knob: Knob) -> Row:
    """Return a row of what the operator does: the command, or the words, and not its check."""
    told = f"To do: {knob.place}. {_why(knob)}"
    what = "a step" if name == knob.place else _short_name(name)
    return Row(cells=(what, "by you", knob.scope.value, told))


def _setting_row(setting: PlannedSetting) -> Row:
    return _row(setting.name, setting.value, setting)


def _row(name: str, value: str, setting: Knob | PlannedSetting) -> Row:
    """Return a row whose long value is shortened in its cell and whole among the words."""
    words = _why(setting)
    if len(value) > _LONGEST_VALUE:
        words = f"{words} In full: {value}"
        value = f"{value[: _LONGEST_VALUE - len(_LEFT_OUT)]}{_LEFT_OUT}"
    return Row(cells=(_short_name(name), value, setting.scope.value, words))


def _short_name(name: str) -> str:
    """Return a name that ends as it did, without the first directories of a long path."""
    before, slash, path = name.partition("/")
    parts = path.split("/")
    if not slash or len(parts) == 1 or len(name) <= _LONGEST_NAME:
        return name
    while len(parts) > 1 and len(f"{before}{_LEFT_OUT}/{'/'.join(parts)}") > _LONGEST_NAME:
        parts = parts[1:]
    return f"{before}{_LEFT_OUT}/{'/'.join(parts)}"


def _why(setting: Knob | PlannedSetting) -> str:
    source = f" [{setting.source}]" if setting.source else ""
    effect = f" Effect: {setting.effect}." if setting.effect else ""
    return f"{setting.reason}.{source}{effect}"


def _files(plan: StackPlan, directory: str | None) -> Iterator[Block]:
    where = f"In {directory}/files:" if directory else "Not written; --out DIR writes them:"
    items = tuple(
        f"{file.name}{f' -> {file.path}' if file.path else ''}"
        f"{f' (check: {file.validated_by})' if file.validated_by else ''}"
        for file in plan.files
    )
    if items:
        yield BulletList(lead=where, items=items)


def _assumptions(plan: StackPlan) -> Iterator[Block]:
    if plan.design.assumptions:
        yield BulletList(lead="Taken for granted:", items=plan.design.assumptions)


def _left(plan: StackPlan) -> Iterator[Block]:
    if plan.left:
        yield BulletList(lead="Not covered by this plan:", items=plan.left)


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
        Section(
            anchor="settings", title="What is set", blocks=tuple(_settings_of_split(plan.design))
        ),
        Section(anchor="risks", title="What may be lost", blocks=(_risks(plan.design),)),
        Section(anchor="start", title="How they are started", blocks=(_start(),)),
        Section(anchor="left", title="What stays as it is", blocks=tuple(_left_by_split(plan))),
        Section(anchor="files", title="Files", blocks=(_files_of_split(plan, directory),)),
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


def _settings_of_split(design: SplitDesign) -> Iterator[Table]:
    both = {each.name for each in design.primary if each in design.replica}
    for title, settings in (
        ("The primary", design.primary),
        ("The replica", design.replica),
        ("Both: each takes the other's part for a while", design.replica),
    ):
        shared = title.startswith("Both")
        rows = [_setting_row_of_split(each) for each in settings if (each.name in both) is shared]
        yield Table(title=title, columns=_SETTING, rows=tuple(rows))


def _setting_row_of_split(setting: PlannedSetting) -> Row:
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


def _left_by_split(plan: SplitPlan) -> Iterator[BulletList]:
    if plan.left:
        yield BulletList(lead="Rules that this plan does not serve:", items=plan.left)


def _files_of_split(plan: SplitPlan, directory: str | None) -> BulletList:
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
_BATCH = (
    " In a pipeline redis-benchmark takes the first answer of a batch for all of it: what the later"
    " ones waited is in no latency."
)
_LONGEST_S = 3.0  # CONFIG_LATENCY_HISTOGRAM_MAX_VALUE of redis-benchmark.c


def latency_label(experiment: Experiment) -> str:
    """Return how exact the latencies of the generator are; empty where a log tells each of them."""
    if experiment.generator is not GeneratorName.REDIS_BENCHMARK:
        return ""
    piped = any(load.pipeline > 1 for load in experiment.loads)
    return f"{_TABLES}{_BATCH if piped else ''}"


def is_clipped(experiment: Experiment, latency_s: float) -> bool:
    """Return whether the generator counts so long a latency as its longest, however long it was."""
    return experiment.generator is GeneratorName.REDIS_BENCHMARK and latency_s >= _LONGEST_S


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


def asked(workload: Workload, work: RedisWork) -> str:
    """Return what a workload asks for: test or command, keys, what is loaded, size of values."""
    space = work.space
    what = " ".join(work.command) or workload.builtin
    keys = "one key" if space.keys == 1 else f"{space.keys:,} keys at random"
    loaded = f"{count(space.loaded, 'key')} loaded" if space.loaded else "none loaded"
    size = format_bytes(space.value_bytes)
    return f"{workload.name} is {what} of redis-benchmark, {keys} ({loaded}), values of {size}"


def later(experiment: Experiment) -> str:
    """Return what slices of a Redis server do not show."""
    return (
        f"The sustained rate: every run is a slice of about {experiment.slices}. What"
        " comes later or falls into some slices only, as a rewrite of the AOF, a snapshot with its"
        " fork, memory that fills up or a burst credit that runs out, may do something else."
    )
