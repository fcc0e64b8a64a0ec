"""The tables of docs/experiment-file.md, made from the JSON Schema of the experiment file.

``PYTHONPATH=tests python -m support.keys_page`` writes them anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard.campaign.file.form import experiment_schema
from steelyard.core.experiment import KeySpace
from steelyard.core.quantities import written
from steelyard.core.target import LocalTarget
from steelyard.core.wording import listed

PAGE = Path(__file__).parents[2] / "docs" / "experiment-file.md"
# What a section's keys begin with, and the first of them; a longer beginning comes first.
_MARKED = re.compile(r"(<!-- keys: ?(\S*?)(?: from (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| key | takes | default | meaning | example |\n|---|---|---|---|---|\n"
_SHOWN = 60  # letters of an example; a longer one is none
# What the file leaves open.
_RESOLVED = {"load.threads": "auto", "configurations.NAME.target.kind": LocalTarget().kind} | {
    f"workloads[].{name}": getattr(KeySpace(), name) for name in ("value_bytes", "keys", "loaded")
}
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "array": "list",
    "object": "mapping",
}
_UNITS = {"%": 0.01, "ms": 1e-3, "s": 1.0, "m": 60.0, "KiB": 1024.0, "GiB": 1024.0**3}
Node = dict[str, Any]


def text() -> str:
    """Return the page with the tables that the schema gives."""
    page, schema = PAGE.read_text("utf-8"), experiment_schema()
    marks = [match.group(2, 3) for match in _MARKED.finditer(page)]
    tables = {mark: [_HEAD] for mark in marks}
    begun = [mark for mark in marks if mark[1] is None]
    for key, row in _rows(schema, schema["$defs"], ""):
        begun += [mark for mark in marks if key == f"{mark[0]}{mark[1]}"]
        places = [mark for mark in begun if key.startswith(mark[0])]
        tables[max(places, key=lambda mark: (len(mark[0]), begun.index(mark)))].append(row)
    return _MARKED.sub(
        lambda found: "".join((found[1], *tables[found.group(2, 3)], found[4])), page
    )


def _rows(node: Node, defs: Node, path: str) -> Iterator[tuple[str, str]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}{name}", _row(f"{path}{name}", child, name in node.get("required", ()))
        yield from _below(child, defs, f"{path}{name}")


def _below(node: Node, defs: Node, path: str) -> Iterator[tuple[str, str]]:
    for choice in (node, *node.get("anyOf", [])):
        if "$ref" in choice:
            yield from _rows(defs[choice["$ref"].rsplit("/", 1)[1]], defs, f"{path}.")
        for deeper, mark in (("items", "[]"), ("additionalProperties", ".NAME")):
            if isinstance(choice.get(deeper), dict):
                yield from _below(choice[deeper], defs, f"{path}{mark}")


def _row(key: str, node: Node, required: bool) -> str:  # noqa: FBT001 - a row has no names
    examples = [written(each) for each in node.get("examples", [])]
    default = node.get("default", _RESOLVED.get(key))
    shown = "required" if required else "\N{EN DASH}"
    if default not in (None, "", [], {}):
        shown = f"`{_in_unit(default, next(iter(examples), ''))}`"
    example = f"`{examples[0]}`" if examples and len(examples[0]) <= _SHOWN else ""
    takes = " or ".join(dict.fromkeys(_takes(node)))
    cells = " | ".join((f"`{key}`", takes, shown, node["description"], example))
    return f"| {cells} |\n"


def _in_unit(default: object, example: str) -> str:
    """Return a default as it may stand in the file: in the unit of the example."""
    unit = "".join(re.findall(r"^[\d.]+([a-zA-Z%]+)$", example))
    if isinstance(default, float | int) and unit in _UNITS:
        return f"{default / _UNITS[unit]:g}{unit}"
    return written(default)


def _takes(node: Node) -> Iterator[str]:
    """Yield each kind of value that a key takes; none stands for absence."""
    for choice in node.get("anyOf", []):
        yield from _takes(choice)
    if "$comment" in node:
        yield node["$comment"]
    elif "enum" in node or "const" in node:
        yield listed(map(written, node.get("enum", [node.get("const")])))
    elif "anyOf" not in node:
        kinds = node.get("type", "object")
        low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum")
        range_ = "" if low is None else f" {'from' if 'minimum' in node else 'above'} {low:,}"
        range_ += "" if high is None else f" to {high:,}".removesuffix(".0")
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            yield from [f"{_WORDS[kind]}{range_}"] if kind in _WORDS else []


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
