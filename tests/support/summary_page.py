"""The page docs/summary.md, made from the schema of ``summary.json``.

``PYTHONPATH=tests python -m support.summary_page`` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard.answers.report import summary_schema

PAGE = Path(__file__).parents[2] / "docs" / "summary.md"
_HEAD = Path(__file__).with_name("summary_head.md")
Node = dict[str, Any]


def text() -> str:
    """Return the page."""
    schema = summary_schema()
    rows = "".join(_rows(schema, "", frozenset(schema["required"])))
    return _HEAD.read_text("utf-8") + rows


def _rows(node: Node, path: str, always: frozenset[str] = frozenset()) -> Iterator[str]:
    for key, child in node.get("properties", {}).items():
        name = f"{path}.{key}" if path else key
        mark = "**always** " if key in always else ""
        words = ", ".join(f"`{word}`" for word in child.get("enum", []) if word is not None)
        sentence = f"{child['description']}{f' One of {words}.' if words else ''}"
        yield f"| `{name}` | {_kind(child)} | {mark}{sentence} |\n"
        yield from _rows(child, name)
    if "items" in node:
        yield from _rows(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from _rows(node["additionalProperties"], f"{path}.*")


def _kind(node: Node) -> str:
    if "anyOf" in node:
        return "interval or null" if len(node["anyOf"]) > 1 else "interval"
    kinds = node.get("type", [])
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
