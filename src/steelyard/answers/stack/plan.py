"""Plans of the stack as documents: arithmetic, topology, settings of each layer and files."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from steelyard.core import stack
from steelyard.core.linux import cpu_list
from steelyard.core.wording import MIB, format_bytes
from steelyard.report import document as doc

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


def plan_document(plan: stack.StackPlan, directory: str | None) -> doc.Document:
    """Return a plan as a document.

    Args:
        plan: What was made.
        directory: Where its files are; None where it was not written.
    """
    request = plan.design.request
    sections = (
        doc.Section(
            anchor="arithmetic", title="Memory", blocks=(_arithmetic(plan.design.arithmetic),)
        ),
        doc.Section(anchor="topology", title="Where it runs", blocks=tuple(_topology(plan))),
        doc.Section(anchor="settings", title="What is set", blocks=tuple(_settings(plan))),
        doc.Section(anchor="files", title="Files", blocks=tuple(_files(plan.files, directory))),
        doc.Section(anchor="left", title="What stays as it is", blocks=tuple(_left(plan))),
        doc.Section(anchor="assumptions", title="Assumptions", blocks=tuple(_assumptions(plan))),
    )
    return doc.Document(
        title=f"A plan for PostgreSQL {request.postgres_version}",
        subtitle=f"{request.cpus} CPUs, {format_bytes(request.memory_bytes)} in all, for"
        f" {request.place.value}",
        sections=tuple(section for section in sections if section.blocks),
    )


def _arithmetic(lines: Sequence[stack.ArithmeticLine]) -> doc.Table:
    return doc.table_of(
        lines,
        doc.Cells(
            doc.Column(name="line"),
            lambda line: f"= {line.label}" if line.total else line.label,
            lambda line: (("line", line.label),),
        ),
        doc.Cells(
            doc.number_column("memory", "MiB"),
            lambda line: f"{line.amount_bytes / MIB:{',.0f' if line.total else '+,.0f'}}",
            lambda line: (("memory_bytes", line.amount_bytes), ("is_total", line.total)),
        ),
        doc.column("why", lambda line: line.why),
        title="Line by line",
        tone=lambda line: doc.Tone.GOOD if line.total else doc.Tone.PLAIN,
        tone_column=0,
    )


def _topology(plan: stack.StackPlan) -> Iterator[doc.Block]:
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
        pages = f", huge pages of {format_bytes(pod.huge_pages_bytes)} beside"
        size = format_bytes(pod.memory_bytes) + (pages if pod.huge_pages_bytes else "")
        pairs += [
            ("pod", f"{pod.cpus} CPUs, {size}"),
            ("reserved CPUs of the node", cpu_list(pod.reserved_cpus)),
        ]
    if pairs:
        yield doc.KeyValues(title="", pairs=tuple(pairs))


def _settings(plan: stack.StackPlan) -> Iterator[doc.Block]:
    """Yield a table per layer; a cluster's settings are in its objects, and told here, too."""
    for layer, machine in _MACHINES.items():
        knobs = [knob for knob in plan.knobs if knob.layer == layer]
        if knobs:
            yield _setting_table(f"{layer}: on {machine}", layer, map(_of_knob, knobs))
    if not any(knob.kind.site is stack.Site.SERVER for knob in plan.knobs):
        rows = (_Row(each.name, each.value, each) for each in plan.design.postgres.settings)
        yield _setting_table("postgres: in these objects", "postgres", rows)


class _Row(NamedTuple):
    """A setting; ``to_do`` is a step of the operator instead, in words."""

    name: str
    value: str
    setting: stack.Knob | stack.PlannedSetting
    to_do: str = ""


def _setting_table(title: str, layer: str, rows: Iterable[_Row]) -> doc.Table:
    return doc.table_of(
        rows,
        ("what", lambda row: _short_name(row.name)),
        ("value", lambda row: _shortened(row.value)),
        ("in effect by", lambda row: row.setting.scope.value),
        ("reason, source, effect", _words),
        title=title,
        common=(("layer", layer),),
        data=lambda row: (
            ("what", row.name),
            ("value", None if row.to_do else row.value),
            ("to_do", row.to_do or None),
            ("in_effect_by", row.setting.scope.value),
            ("reason", row.setting.reason),
            ("source", row.setting.source or None),
            ("effect", row.setting.effect or None),
        ),
    )


def _of_knob(knob: stack.Knob) -> _Row:
    name = knob.name.partition(":")[2]
    if knob.kind.is_whole:
        return _Row(name, f"{len(knob.value.splitlines())} lines", knob)
    if knob.kind.is_by_hand:
        return _Row("a step" if name == knob.place else name, "by you", knob, knob.place)
    return _Row(name, knob.value, knob)


def _shortened(value: str) -> str:
    if len(value) <= _LONGEST_VALUE:
        return value
    return f"{value[: _LONGEST_VALUE - len(_LEFT_OUT)]}{_LEFT_OUT}"


def _words(row: _Row) -> str:
    """Return why it is set, and whole what its cell has no room for."""
    before = f"To do: {row.to_do}. " if row.to_do else ""
    after = f" In full: {row.value}" if len(row.value) > _LONGEST_VALUE else ""
    return f"{before}{_why(row.setting)}{after}"


def _short_name(name: str) -> str:
    """Return a name that ends as it did, without the first directories of a long path."""
    before, slash, path = name.partition("/")
    parts = path.split("/")
    if not slash or len(parts) == 1 or len(name) <= _LONGEST_NAME:
        return name
    while len(parts) > 1 and len(f"{before}{_LEFT_OUT}/{'/'.join(parts)}") > _LONGEST_NAME:
        parts = parts[1:]
    return f"{before}{_LEFT_OUT}/{'/'.join(parts)}"


def _why(setting: stack.Knob | stack.PlannedSetting) -> str:
    source = f" [{setting.source}]" if setting.source else ""
    effect = f" Effect: {setting.effect}." if setting.effect else ""
    return f"{setting.reason}.{source}{effect}"


def _files(files: Sequence[stack.RenderedFile], directory: str | None) -> Iterator[doc.Block]:
    where = f"In {directory}/files:" if directory else "Not written; --dir DIR writes them:"
    items = tuple(
        f"{file.name}{f' -> {file.path}' if file.path else ''}"
        f"{f' (check: {file.validated_by})' if file.validated_by else ''}"
        for file in files
    )
    if items:
        yield doc.BulletList(lead=where, items=items)


def _assumptions(plan: stack.StackPlan) -> Iterator[doc.Block]:
    if plan.design.assumptions:
        yield doc.BulletList(lead="Taken for granted:", items=plan.design.assumptions)


def _left(plan: stack.StackPlan) -> Iterator[doc.Block]:
    if plan.left:
        yield doc.BulletList(lead="Not covered by this plan:", items=plan.left)
