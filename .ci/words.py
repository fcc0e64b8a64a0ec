"""Habits of language and banned names, held to the ceilings of ``words.toml``.

    python .ci/words.py [--show HABIT | --lower]

A habit makes a reader read a sentence twice. Patterns look for it in four kinds of text: pages of
the docs without code blocks, help of the command line, messages (other string literals of ``src``
with at least three words, and the texts of answers), and the first paragraph of docstrings. A
pattern also matches some right sentences, so a ceiling is the count of today, not zero. Banned
names count as parameters of functions and as annotated fields of classes; as locals they are only
shown.

Exit code 1 when a count is above its ceiling. A count below its ceiling is reported, and
``--lower`` writes it to ``words.toml``. ``--show`` lists the places of a habit or name.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CEILINGS = Path(__file__).with_suffix(".toml")
HEADER = "# Ceilings of .ci/words.py, which only fall: `python .ci/words.py --lower` writes them.\n"

# A sentence, clause or table cell starts here. A space of a pattern matches any white space.
START = r"(?:^\W*|[.!?:;|] )"
NEGATION = r"(?<!-)(?:no|not|never|(?-i:none)|nobody|nothing|nowhere|without|cannot)(?!-)"
HABITS = {
    "told, asked, said, seen": r"\b(?:tell|tells|told|telling)\b|\basked for\b|\bsays? so\b"
    r"|(?<!you\s)\b(?:is|are|was|were|be|been) (?:asked|said|seen)\b",
    "is no noun": r"(?<!there\s)\b(?:is|are|was|were|be) no "
    r"(?!(?:longer|more|less|fewer|matter|doubt)\b)[\"'\w]",
    "nobody, nothing, none": r"\b(?:nobody|nothing|nowhere|(?-i:None) of)\b"
    r"|(?<![:|]\s)\b(?-i:none)\b",
    "what or who first": START + r"(?:what|who) (?=\w[^?.!]*(?:[.!:;|]|$))",
    "where for if": rf"(?:{START}|, )where (?=[^?.]*(?:[.,:;]|$))",
    "of first": START + r"of (?!course\b)",
    "that is there": r"\b(?:that|which|who) (?:is|are|was|were) (?:already )?there\b",
    "beside": r"\bbeside\b",
    "stands for is written": r"\b(?:stands?|stood) (?:in|there|here|beside|under|above|below|on)\b",
    "double negation": rf"\b{NEGATION}\b[^.;:,|]{{1,60}}\b(?:{NEGATION}|unless)\b",
    "anew, likewise, else": r"\b(?:anew|likewise)\b|\belse[,;:]|[,;] else\b",
    "comes about, is had": r"\b(?:comes?|came) (?:about|before it|before them|after them)\b"
    r"|\b(?:is|are|was|be) had\b|\bof a moment\b|\bfor good\b|\bgiven away\b",
    "private words": r"\bcoins?\b|\bweigh(?:s|ed|ing)?\b|(?<![.\w])neighbours?\b"
    r"|\bdecides? (?=[\d_])",
}
NAMES = ("each", "found", "told", "asked", "said", "given")
COLUMNS = {
    **dict.fromkeys(HABITS, ("docs", "help", "messages", "docstrings")),
    **dict.fromkeys(NAMES, ("parameters", "fields")),
}
PATTERNS = {
    habit: re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
    for habit, pattern in HABITS.items()
}
FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
MACRO = re.compile(r"\{% (?:end)?macro.*?%\}")
VALUE = re.compile(r"\{[{%].*?[}%]\}")
PASSAGE_END = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|#>]+|\d+\.)\s)|\Z")
HELP_KEYWORDS = {"help", "short_help", "epilog"}
HELP_DECORATORS = {"command", "group"}

Counts = Mapping[tuple[str, str], int]
Ceilings = Mapping[str, Mapping[str, int]]


class Place(NamedTuple):
    """One place of a habit or a banned name, and the kind of text or name that counts it."""

    habit: str
    column: str
    file: Path
    line: int
    excerpt: str


class Text(NamedTuple):
    """A text that people read, and the lines of the file that hold it."""

    column: str
    file: Path
    lines: tuple[int, int]
    content: str


def page_texts() -> Iterator[Text]:
    """Yield the pages; a blank line replaces each line of a code block."""
    pages = [path for folder in ("docs", "docs/targets") for path in (ROOT / folder).glob("*.md")]
    for file in (ROOT / "README.md", *sorted(pages)):
        content = FENCE.sub(lambda match: "\n" * match[0].count("\n"), file.read_text("utf-8"))
        yield Text("docs", file, (1, content.count("\n") + 1), content)


def answer_texts() -> Iterator[Text]:
    """Yield the texts that lie beside the modules of answers. ``_`` is a value, or a choice."""
    for file in sorted((ROOT / "src/steelyard/answers").rglob("*.j2")):
        content = VALUE.sub("_", MACRO.sub("", file.read_text("utf-8")))
        yield Text("messages", file, (1, content.count("\n") + 1), content)


class Literals(ast.NodeVisitor):
    """Collects the texts of a module. ``_`` stands for a value in an f-string."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.texts: list[Text] = []
        self.column = "messages"

    def visit(self, node: ast.AST) -> None:
        """Visit a node; its docstring is a text of another kind."""
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            content = ast.get_docstring(node, clean=False)
            if content is not None:
                is_help = any(is_help_decorator(one) for one in getattr(node, "decorator_list", ()))
                headline = content if is_help else re.split(r"\n\s*\n", content, maxsplit=1)[0]
                column = "help" if is_help else "docstrings"
                self._append(column, node.body[0], headline)
                node.body = node.body[1:]
        super().visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Visit an argument; what a help option holds is help."""
        outer = self.column
        if node.arg in HELP_KEYWORDS:
            self.column = "help"
        self.visit(node.value)
        self.column = outer

    def visit_Constant(self, node: ast.Constant) -> None:
        """Collect a string."""
        if isinstance(node.value, str):
            self._collect(node, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Collect an f-string whole, then the strings within its values."""
        parts = [part.value if isinstance(part, ast.Constant) else "_" for part in node.values]
        self._collect(node, "".join(map(str, parts)))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _collect(self, node: ast.expr, content: str) -> None:
        if len(content.split()) >= 3:
            self._append(self.column, node, content)

    def _append(self, column: str, node: ast.expr | ast.stmt, content: str) -> None:
        lines = (node.lineno, node.end_lineno or node.lineno)
        self.texts.append(Text(column, self.file, lines, content))


def is_help_decorator(node: ast.expr) -> bool:
    """Return whether a decorator makes a verb, whose docstring is its help."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in HELP_DECORATORS


def places_in(text: Text) -> Iterator[Place]:
    """Yield the places of all habits in a text. Code within a line matches no pattern."""
    content = CODE.sub(lambda match: "_" * len(match[0]), text.content)
    start = 0
    for end in PASSAGE_END.finditer(content):
        passage = content[start : end.start()]
        for habit, pattern in PATTERNS.items():
            for match in pattern.finditer(passage):
                first = start + match.start()
                # A message on one line of code may hold line breaks of its own.
                line = min(
                    text.lines[0] + content.count("\n", 0, start + match.end()), text.lines[1]
                )
                excerpt = text.content[max(start, first - 40) : start + match.end() + 40]
                yield Place(habit, text.column, text.file, line, " ".join(excerpt.split()))
        start = end.end()


def parameters_of(arguments: ast.arguments) -> list[ast.arg]:
    """Return the parameters of a function."""
    starred = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def names_in(tree: ast.AST, file: Path) -> Iterator[Place]:
    """Yield the places where a banned name is a parameter, a field or a local."""
    counted: set[ast.AST] = set()
    for node in ast.walk(tree):
        named: list[tuple[str, str, ast.expr | ast.arg]] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named = [("parameters", one.arg, one) for one in parameters_of(node.args)]
        elif isinstance(node, ast.ClassDef):
            targets = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            named = [("fields", one.id, one) for one in targets if isinstance(one, ast.Name)]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            named = [("locals", node.id, node)]
        elif isinstance(node, ast.arg):
            named = [("locals", node.arg, node)]
        for column, name, owner in named:
            if name in NAMES and owner not in counted:
                counted.add(owner)
                yield Place(name, column, file, owner.lineno, name)


def all_places() -> Iterator[Place]:
    """Yield the places of all habits and banned names in the project."""
    for text in (*page_texts(), *answer_texts()):
        yield from places_in(text)
    for file in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        yield from names_in(tree, file)
        literals = Literals(file)
        literals.visit(tree)
        for text in literals.texts:
            yield from places_in(text)


def print_table(counts: Counts, ceilings: Ceilings) -> None:
    """Print the counts, each with its ceiling after a slash."""
    heading: tuple[str, ...] = ()
    for habit, columns in COLUMNS.items():
        if columns != heading:
            heading = columns
            print(" " * 24 + "".join(f"{column:>14}" for column in columns))
        cells = [f"{counts[habit, column]}/{ceilings[habit][column]}" for column in columns]
        print(f"{habit:24}" + "".join(f"{cell:>14}" for cell in cells))


def print_changes(counts: Counts, ceilings: Ceilings) -> bool:
    """Print the counts that differ from their ceilings; return whether one is above."""
    is_above = False
    for habit, columns in COLUMNS.items():
        for column in columns:
            count, ceiling = counts[habit, column], ceilings[habit][column]
            if count > ceiling:
                is_above = True
                print(f"{habit}, {column}: {count}, more than the ceiling of {ceiling}")
            elif count < ceiling:
                print(f"{habit}, {column}: {count}; lower the ceiling of {ceiling} to {count}")
    return is_above


def write_lower(counts: Counts, ceilings: Ceilings) -> None:
    """Write the ceilings, lowered to the counts below them."""
    rows = []
    for habit, columns in COLUMNS.items():
        lowered = [(one, min(ceilings[habit][one], counts[habit, one])) for one in columns]
        cells = ", ".join(f"{column} = {ceiling}" for column, ceiling in lowered)
        rows.append(f'"{habit}" = {{ {cells} }}\n')
    CEILINGS.write_text(HEADER + "".join(rows), "utf-8")


def main() -> int:
    """Print counts beside ceilings, or the places of a habit; return 1 when a count is above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--show", choices=COLUMNS, metavar="HABIT", help="list its places")
    choice.add_argument("--lower", action="store_true", help="write the ceilings that can fall")
    options = parser.parse_args()
    places = list(all_places())
    if options.show:
        shown = [place for place in places if place.habit == options.show]
        for place in sorted(shown, key=lambda place: (place.file, place.line)):
            file = place.file.relative_to(ROOT)
            print(f"{file}:{place.line}: {place.column}: {place.excerpt}")
        return 0
    ceilings = tomllib.loads(CEILINGS.read_text("utf-8"))
    counts = Counter((place.habit, place.column) for place in places)
    print_table(counts, ceilings)
    is_above = print_changes(counts, ceilings)
    if options.lower:
        write_lower(counts, ceilings)
    return int(is_above)


if __name__ == "__main__":
    sys.exit(main())
