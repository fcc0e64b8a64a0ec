"""The facts of a stack as tables, one per layer: value, visibility and source of each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from steelyard.model.cgroup import cpu_list
from steelyard.model.linux_facts import NumaNode, PagePool
from steelyard.model.stack_facts import Origin, StackFacts, Visibility
from steelyard.model.units import format_bytes, format_latencies, format_share
from steelyard.report.document import Block, Column, Paragraph, Row, Table, Tone
from steelyard.report.formats import MISSING, count

_TITLES: Final = {
    "hypervisor": "Hypervisor",
    "domains": "Virtual machines",
    "linux": "Linux",
    "kubernetes": "Kubernetes",
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "storage": "Storage",
    "bench": "Comparison",
}
_COLUMNS: Final = (
    Column(name="fact"),
    Column(name="value"),
    Column(name="visible"),
    Column(name="source, or why not"),
)
_SAME: Final = "This machine is the hypervisor: its facts are those of Linux below."
_MOST_SHOWN: Final = 6  # of a long list


def fact_tables(facts: StackFacts) -> tuple[Block, ...]:
    """Return a table per layer that is there, and a row for each that is not."""
    tables: list[Block] = []
    absent: list[Row] = []
    for layer, title in _TITLES.items():
        value = getattr(facts, layer)
        if value is None:
            absent.append(_row(facts, layer, layer, None))
        elif layer == "hypervisor" and value == facts.linux:
            tables.append(Paragraph(text=_SAME))
        else:
            rows = tuple(_rows(facts, layer, value))
            tables.append(Table(title=title, columns=_COLUMNS, rows=rows, tone_column=2))
    if absent:
        title = "Layers of which nothing is known"
        tables.append(Table(title=title, columns=_COLUMNS, rows=tuple(absent), tone_column=2))
    return tuple(tables)


def _rows(facts: StackFacts, layer: str, value: object) -> Iterator[Row]:
    if isinstance(value, tuple):
        for each in value:
            yield from _fields(facts, layer, each, prefix=f"{each.name}: ")
        unread = facts.unread_domains if layer == "domains" else ()
        for path in unread:
            yield _row(facts, path, path.removeprefix("domains."), None)
    elif is_dataclass(value):
        yield from _fields(facts, layer, value)
    else:
        yield _row(facts, layer, layer, value)


def _fields(facts: StackFacts, layer: str, value: Any, prefix: str = "") -> Iterator[Row]:  # noqa: ANN401 - any dataclass
    """Return a row per field, and one per part of a compound one: short values are legible."""
    for field in fields(value):
        each = getattr(value, field.name)
        path = _path(facts, layer, value.name if prefix else "", field.name)
        if is_dataclass(each):
            for part in fields(each):
                inner = getattr(each, part.name)
                if inner is not None:
                    name = f"{prefix}{field.name} {part.name}"
                    yield _row(facts, f"{path}.{part.name}", name, inner)
        elif isinstance(each, tuple) and each and is_dataclass(each[0]):
            for one in each:
                yield _row(facts, path, f"{prefix}{field.name}", one)
        elif each is not None or path in facts.origins:  # else nobody said anything of it
            yield _row(facts, path, f"{prefix}{field.name}", each)


def _path(facts: StackFacts, layer: str, owner: str, field: str) -> str:
    """Return the path that says where a fact is from; of one of several owners, its own first."""
    path, own = f"{layer}.{field}", f"{layer}.{owner}"
    if not owner or (path in facts.origins and f"{own}.{field}" not in facts.origins):
        return path
    return f"{own}.{field}" if own in facts.origins or f"{own}.{field}" in facts.origins else path


def _row(facts: StackFacts, path: str, name: str, value: object) -> Row:
    origin = _assumed_below(facts, path) or facts.origin(path)
    visible, tone = origin.visibility.value, Tone.PLAIN
    if origin.visibility is not Visibility.YES:
        tone = Tone.OPEN
    elif origin.assumed:
        visible, tone = "assumed", Tone.WARNING
    text = shown(name, value)
    if value is None:
        text = {
            Visibility.NO: "not visible",
            Visibility.UNKNOWN: "unknown",
            Visibility.YES: "none",
        }[origin.visibility]
    return Row(cells=(_words(name), text, visible, origin.source), tone=tone)


def _assumed_below(facts: StackFacts, path: str) -> Origin | None:
    """Return the origin of a part that was assumed: a row that shows it says so, too."""
    below = (o for p, o in facts.origins.items() if p.startswith(f"{path}.") and o.assumed)
    return next(below, None)


def shown(name: str, value: Any) -> str:  # noqa: ANN401 - whatever a fact holds
    """Return the value of a fact in words, with the unit that its name says."""
    last = name.rpartition(" ")[2]
    if value is None:
        return MISSING
    if last in _SPECIAL:
        return _SPECIAL[last](value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(last, value) if isinstance(value, int | float) else _compound(last, value)


def _compound(name: str, value: Any) -> str:  # noqa: ANN401 - whatever a fact holds
    if isinstance(value, Mapping):
        return _some([f"{key} {shown(name, each)}" for key, each in value.items()])
    if isinstance(value, tuple):
        return _list(name, value)
    if isinstance(value, NumaNode):
        return _node(value)
    if isinstance(value, PagePool):
        return _pool(value)
    return _parts(value) if is_dataclass(value) else str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_s"):
        return format_latencies((value,))[0]
    return format_share(value) if name.endswith("_fraction") else f"{value:g}"


def _list(name: str, values: tuple[Any, ...]) -> str:
    if not values:
        return "none"
    if all(isinstance(each, int) for each in values):
        return cpu_list(values)
    return _some([shown(name, each) for each in values], between="; ")


def _some(texts: list[str], between: str = ", ") -> str:
    left = len(texts) - _MOST_SHOWN
    more = [f"{left} more"] if left > 0 else []
    return between.join([*texts[:_MOST_SHOWN], *more]) or "none"


def _parts(value: Any) -> str:  # noqa: ANN401 - any dataclass
    """Return what of a compound fact is there; its name goes without a word."""
    named = {field.name: getattr(value, field.name) for field in fields(value)}
    parts = [
        text if name in ("name", "kind", "command") else f"{_words(name)} {text}"
        for name, each in named.items()
        if each not in (None, ())
        for text in [shown(name, each)]
    ]
    return ", ".join(parts)


def _words(name: str) -> str:
    """Return a field's name in words, without the unit that its value carries."""
    for suffix in ("_bytes", "_fraction", "_s"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def _cores(siblings: tuple[tuple[int, ...], ...]) -> str:
    threads = sorted({len(core) for core in siblings})
    each = " or ".join(count(number, "thread") for number in threads)
    return f"{count(len(siblings), 'core')} of {each}"


def _node(node: NumaNode) -> str:
    parts = [f"{node.number}: CPUs {cpu_list(node.cpus) or 'none'}"]
    if node.memory_bytes is not None:
        parts.append(format_bytes(node.memory_bytes))
    if len(node.distances) > 1:
        parts.append(f"distances {' '.join(map(str, node.distances))}")
    return ", ".join([*parts, *(_pool(pool) for pool in node.pools if pool.total)])


def _pool(pool: PagePool) -> str:
    reserved = "" if pool.reserved is None else f", {pool.reserved} reserved"
    surplus = f", {pool.surplus} surplus" if pool.surplus else ""
    size = format_bytes(pool.page_bytes)
    return f"{pool.total} of {size}, {pool.free} free{reserved}{surplus}"


_SPECIAL: Final[Mapping[str, Callable[[Any], str]]] = {
    "siblings": _cores,
    "hugetlbfs": lambda sizes: ", ".join(map(format_bytes, sizes)) or "none",
    "settings": lambda settings: count(len(settings), "setting"),
}
