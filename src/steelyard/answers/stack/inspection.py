"""The problems of a stack, then what passed and was skipped, then its facts by layer.

A fact is shown with its value, its visibility and its source.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from steelyard.core.findings import Severity, State
from steelyard.core.linux import NumaNode, PagePool, PoolUser, cpu_list
from steelyard.core.stack import JudgedRule, Origin, StackFacts, Visibility
from steelyard.core.wording import format_bytes, format_latencies, format_share
from steelyard.report import document as doc

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
    doc.Column(name="fact"),
    doc.Column(name="value"),
    doc.Column(name="visible"),
    doc.Column(name="source, or why not"),
)
_SAME: Final = "This machine is the hypervisor: its facts are those of Linux below."
_MOST_SHOWN: Final = 6  # of a long list


def fact_tables(facts: StackFacts) -> tuple[doc.Block, ...]:
    """Return a table per layer that is there, and a row for each that is not."""
    tables: list[doc.Block] = []
    absent: list[doc.Row] = []
    for layer, title in _TITLES.items():
        value = getattr(facts, layer)
        if value is None:
            absent.append(_row(facts, layer, layer, None))
        elif layer == "hypervisor" and value == facts.linux:
            tables.append(doc.Paragraph(text=_SAME))
        else:
            rows = tuple(_rows(facts, layer, value))
            tables.append(doc.Table(title=title, columns=_COLUMNS, rows=rows, tone_column=2))
    if absent:
        title = "Layers of which nothing is known"
        tables.append(doc.Table(title=title, columns=_COLUMNS, rows=tuple(absent), tone_column=2))
    return tuple(tables)


def _rows(facts: StackFacts, layer: str, value: object) -> Iterator[doc.Row]:
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


def _fields(facts: StackFacts, layer: str, value: Any, prefix: str = "") -> Iterator[doc.Row]:  # noqa: ANN401 - any dataclass
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
            # Dozens of processes may hold pages of a pool.
            for one in (each,) if isinstance(each[0], PoolUser) else each:
                yield _row(facts, path, f"{prefix}{field.name}", one)
        elif each is not None or path in facts.origins:  # else nobody said anything of it
            yield _row(facts, path, f"{prefix}{field.name}", each)


def _path(facts: StackFacts, layer: str, owner: str, field: str) -> str:
    """Return the path that says where a fact is from; of one of several owners, its own first."""
    path, own = f"{layer}.{field}", f"{layer}.{owner}"
    if not owner or (path in facts.origins and f"{own}.{field}" not in facts.origins):
        return path
    return f"{own}.{field}" if own in facts.origins or f"{own}.{field}" in facts.origins else path


def _row(facts: StackFacts, path: str, name: str, value: object) -> doc.Row:
    origin = _assumed_below(facts, path) or facts.origin(path)
    visible, tone = origin.visibility.value, doc.Tone.PLAIN
    if origin.visibility is not Visibility.YES:
        tone = doc.Tone.OPEN
    elif origin.assumed:
        visible, tone = "assumed", doc.Tone.WARNING
    text = shown(name, value)
    if value is None:
        text = {
            Visibility.NO: "not visible",
            Visibility.UNKNOWN: "unknown",
            Visibility.YES: "none",
        }[origin.visibility]
    return doc.Row(cells=(_words(name), text, visible, origin.source), tone=tone)


def _assumed_below(facts: StackFacts, path: str) -> Origin | None:
    """Return the origin of a part that was assumed: a row that shows it says so, too."""
    below = (o for p, o in facts.origins.items() if p.startswith(f"{path}.") and o.assumed)
    return next(below, None)


def shown(name: str, value: Any) -> str:  # noqa: ANN401 - whatever a fact holds
    """Return the value of a fact in words, with the unit that its name says."""
    last = name.rpartition(" ")[2]
    if value is None:
        return doc.MISSING
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
    each = " or ".join(doc.count(number, "thread") for number in threads)
    return f"{doc.count(len(siblings), 'core')} of {each}"


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
    "settings": lambda settings: doc.count(len(settings), "setting"),
}


_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_WORD = {Severity.ERROR: "[ERROR]", Severity.WARNING: "[WARN]", Severity.INFO: "[INFO]"}
_MOST_NAMED = 3  # reasons for skipping, in the short form
_NOTHING: Final = "nothing of it is here"  # it judges


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Facts and what was found in them.

    Attributes:
        place: Where the facts were collected, in words.
    """

    place: str
    facts: StackFacts
    judged: tuple[JudgedRule, ...]

    def in_state(self, state: State) -> tuple[JudgedRule, ...]:
        """Return the rules of which this came, in the catalogue's order."""
        return tuple(rule for rule in self.judged if rule.state is state)

    def severities(self) -> tuple[Severity, ...]:
        """Return how grave each violation is; a rule may be violated twice."""
        violated = self.in_state(State.VIOLATED)
        return tuple(rule.severity for rule in violated for _ in rule.messages)


def inspection_document(
    inspection: Inspection, *, facts: bool = True, every: bool = False
) -> doc.Document:
    """Return the inspection as a document.

    Args:
        inspection: What was found.
        facts: With the facts of all layers.
        every: With each rule that passed, and what each that was skipped lacks.
    """
    told = fact_tables(inspection.facts) if facts else ()
    parts = {
        "Problems": _problems(inspection),
        "Checks": (doc.Paragraph(text=_counts(inspection, every=every)),),
        "Passed": tuple(_passed(inspection)) if every else (),
        "Skipped": tuple(_skipped(inspection)) if every else (),
        "Facts": told,
    }
    return doc.Document(
        title=f"The stack seen from {inspection.place}",
        subtitle=_summary(inspection),
        sections=tuple(
            doc.Section(anchor=title.lower(), title=title, blocks=blocks)
            for title, blocks in parts.items()
            if blocks
        ),
    )


def _summary(inspection: Inspection) -> str:
    found = inspection.severities()
    return (
        f"{doc.count(found.count(Severity.ERROR), 'error')}, "
        f"{doc.count(found.count(Severity.WARNING), 'warning')}, "
        f"{found.count(Severity.INFO)} for information"
    )


def _problems(inspection: Inspection) -> tuple[doc.Block, ...]:
    rules = sorted(inspection.in_state(State.VIOLATED), key=lambda rule: _RANK[rule.severity])
    if rules:
        return (doc.FindingList(items=tuple(map(_problem, rules))),)
    if inspection.in_state(State.HOLDS):
        return (doc.Paragraph(text="No problem was found.", tone=doc.Tone.GOOD),)
    return (doc.Paragraph(text="Nothing was judged: the facts that rules need are missing."),)


def _problem(rule: JudgedRule) -> doc.FindingItem:
    """Return the state that was found, and below it what was expected and why."""
    state = rule.messages[0]
    if len(rule.messages) > 1:
        state = "\n  - ".join([doc.count(len(rule.messages), "finding"), *rule.messages])
    parts = {
        "Expected": rule.title,
        "Because": rule.why,
        "Remedy": rule.remedy,
        "Source": rule.source,
    }
    return doc.FindingItem(
        severity=f"{_WORD[rule.severity]} {rule.code}",
        tone=doc.TONES[rule.severity],
        subject="",
        message=state,
        remedy="\n".join(f"{name}: {text}" for name, text in parts.items() if text),
        source=rule.source,
        code=rule.code,
    )


def _counts(inspection: Inspection, *, every: bool) -> str:
    """Return how many rules passed, and how many were skipped for which missing facts."""
    passed, skipped = map(inspection.in_state, (State.HOLDS, State.NOT_APPLICABLE))
    told = f"{len(passed)} of {doc.count(len(inspection.judged), 'rule')} passed"
    if not skipped:
        return f"{told}."
    lacking = Counter(missing for rule in skipped for missing in rule.missing or (_NOTHING,))
    most = lacking.most_common(_MOST_NAMED)
    why = "; ".join(f"{fact} ({number})" for fact, number in most)
    left = len(lacking) - len(most)
    more = f"; and {doc.count(left, 'further reason')}" if left > 0 else ""
    names = "" if every else " `--all` names each."
    return f"{told}, {len(skipped)} were skipped: {why}{more}.{names}"


def _passed(inspection: Inspection) -> Iterator[doc.Block]:
    items = (f"{rule.code}: {rule.title}" for rule in inspection.in_state(State.HOLDS))
    if told := tuple(items):
        yield doc.BulletList(lead="What was expected is so:", items=told)


def _skipped(inspection: Inspection) -> Iterator[doc.Block]:
    for rule in inspection.in_state(State.NOT_APPLICABLE):
        yield doc.BulletList(lead=f"{rule.code}: {rule.title}", items=rule.missing or (_NOTHING,))


def inspection_json(inspection: Inspection) -> dict[str, doc.Json]:
    """Return what came of the rules for programs; the facts are in the form of a facts file."""
    found = inspection.severities()
    return {
        "counts": {
            **{severity.value: found.count(severity) for severity in Severity},
            "holds": len(inspection.in_state(State.HOLDS)),
            "not_applicable": len(inspection.in_state(State.NOT_APPLICABLE)),
        },
        "rules": [_rule_json(rule) for rule in inspection.judged],
    }


def _rule_json(rule: JudgedRule) -> dict[str, doc.Json]:
    return {
        **doc.attributes(rule, "code", "layers", "severity", "state", "title", "messages"),
        **doc.attributes(rule, "missing", "why", "remedy", "source"),
    }
