"""The documentation as data: pages, fenced blocks, commands, experiment files, tables."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    sorted(
        [
            *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs" / "targets").glob("*.md"),
            ROOT / "docs" / "examples" / "README.md",
        ]
    )
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^(?:#|--) ([a-z-]+\.(?:yaml|sql|py))\n")
_INLINE = re.compile(r"`(steelyard [^`]+)`")
_TYPED = {
    "console": re.compile(r"^\$ (steelyard .*)$", re.MULTILINE),
    "sh": re.compile(r"^(?:sudo )?(steelyard .*)$", re.MULTILINE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """One fenced block with the language it is marked with."""

    page: Path
    language: str
    text: str


def page(name: str) -> str:
    """Return the text of a page by its path in the project."""
    return (ROOT / name).read_text("utf-8")


def fenced() -> list[Fenced]:
    """Return every fenced block of every page."""
    return [
        Fenced(page=path, language=match[1], text=match[2])
        for path in PAGES
        for match in _FENCE.finditer(path.read_text("utf-8"))
    ]


def files() -> dict[str, set[str]]:
    """Return the texts of the files that the pages show, by the name in their first line."""
    found: dict[str, set[str]] = {}
    for block in fenced():
        if block.language in ("yaml", "sql", "python") and (match := _NAMED.match(block.text)):
            found.setdefault(match[1], set()).add(block.text)
    return found


def write_files(directory: Path) -> None:
    """Write the files that the pages show."""
    for name, texts in files().items():
        for text in texts:
            (directory / name).write_text(text, "utf-8")


def commands() -> list[tuple[str, ...]]:
    """Return the arguments of every line that is to be typed in a shell, each once."""
    lines = [
        line
        for block in fenced()
        if block.language in _TYPED
        for line in _TYPED[block.language].findall(block.text)
    ]
    return list(dict.fromkeys(_arguments(line.split(" | ")[0]) for line in lines))


def inline_commands() -> list[tuple[str, ...]]:
    """Return the arguments of every command that stands in running text, each once."""
    texts = [match for path in PAGES for match in _INLINE.findall(path.read_text("utf-8"))]
    return list(dict.fromkeys(_arguments(text.split(" > ")[0]) for text in texts))


def _arguments(line: str) -> tuple[str, ...]:
    return tuple(shlex.split(line, comments=True)[1:])


def rows(name: str) -> list[list[str]]:
    """Return the cells of every table row of a page, without backticks around a whole cell."""
    return [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in page(name).splitlines()
        if line.startswith("| ") and not line.startswith("|---")
    ]


def code(cell: str) -> str | None:
    """Return what a cell holds when that is one piece of code, else None."""
    match = re.fullmatch(r"`([^`]+)`", cell)
    return match[1] if match else None
