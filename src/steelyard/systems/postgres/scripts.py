"""Scripts of pgbench: their commands, statements and variables, and why one cannot be measured.

As pgbench 15 and 18 read them (pgbench.c, psqlscan.l, exprscan.l). A command of its own ends at the
end of the line, unless a backslash continues it, and ends the statement before it. A variable is
looked for everywhere in a statement, in literals and comments, too.
"""

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.core.wording import sql_literal

PREPARED = "prepared"  # the protocol by which the server may keep a generic plan
SIMPLE = "simple"  # the protocol that sends a statement with the values in its text
# Literals and quoted names, as PostgreSQL's lexer has them (psqlscan.l).
_LITERAL = (
    r"(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"[^\"]*\""
    r"|(?<!\w)\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$"
)
_CONTINUED = re.compile(r"\\\r?\n")
_TOKEN = re.compile(
    rf"(?:{_LITERAL})|(?P<dashes>--[^\n]*)|/\*.*?\*/"
    r"|(?P<own>\\(?![;:])(?:\\\r?\n|[^\n])*)|(?P<end>;)|\w+|\\?\S",
    re.DOTALL,
)
_NAME_OF_OWN = re.compile(r"\A\\\s*(\S*)")  # `\ Shell`, too: of any case, and behind spaces
_BESIDE = re.compile(rf"(?:{_LITERAL})|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<joint>\\;)", re.DOTALL)
_NAME = r"(?<!:):(?P<name>[^\W\d]\w*)"
_VARIABLE = re.compile(rf"(?:{_LITERAL})|{_NAME}", re.DOTALL)
_SLICED = re.compile(r"\[[^\[\]]*[\w)]\Z")  # what stands before the colon of array[low:high]
_READING = re.compile(
    r"(select|with|values|table|show|begin|start|commit|end|rollback|abort|savepoint|release"
    r"|set\b(?!.*read_only)|reset|declare|fetch|move|close|execute|deallocate|listen|unlisten)\b",
    re.IGNORECASE | re.DOTALL,
)
_EXPLAIN = re.compile(r"explain\b\s*(?:\([^)]*\)|(?:(?:analy[sz]e|verbose)\b\s*)*)", re.IGNORECASE)
_PREPARE = re.compile(r"prepare\s+\w+\s*(?:\([^)]*\)\s*)?as\b", re.IGNORECASE)
# Also locks of rows, which write into their pages, and sequences.
_WRITING = re.compile(
    r"\b(insert|update|delete|merge|into|share|nextval|setval|write)\b", re.IGNORECASE
)
_AHEAD = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)  # comments before a statement
_COPIES = re.compile(r"copy\b.*\b(from\s+stdin|to\s+stdout)\b", re.IGNORECASE | re.DOTALL)
# Of words alone: nothing in them can be another command for pgbench.
_OF_TRANSACTIONS = re.compile(
    r"(begin|start|commit|end|rollback|abort|savepoint|release)\b(?!.*\bprepared\b)[\w\s,]*\Z",
    re.IGNORECASE | re.DOTALL,
)
_COMPLAINT = re.compile(
    r"^pgbench: (?:error|fatal): (?:(?:-|/[^:]*):(?P<line>\d+): |client \d|condition error|COPY )",
    re.MULTILINE,
)
_ERROR = re.compile(
    r"^pgbench: (?:error|fatal): "
    r"(?:(?:-|/[^:]*):\d+: |(?:client \d|condition error)[^:;]*[:;] )?(?:ERROR:\s+)?"
)
_COMPUTING = frozenset(
    {"set", "if", "elif", "else", "endif", "startpipeline", "syncpipeline", "endpipeline"}
)
_OF_PGBENCH = frozenset({"scale", "client_id", "random_seed", "default_seed"})  # it sets them


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCommand:
    r"""A command of a script, as pgbench counts them.

    Attributes:
        line: Where it begins, from 1.
        text: As written; a command of pgbench's own in one line, its name in small letters.
        stores: ``\gset`` or ``\aset`` with its prefix, where that keeps what a statement returns.
    """

    line: int
    text: str
    stores: str = ""

    @property
    def own(self) -> str:
        """Return the name of a command of pgbench's own; empty for a statement."""
        return self.text[1:].split(maxsplit=1)[0] if self.text.startswith("\\") else ""

    @property
    def statements(self) -> tuple[str, ...]:
        r"""Return the statement without comments; several where ``\;`` joins them."""

        def kept(part: re.Match[str]) -> str:
            if part["joint"]:
                return "\0"
            return "\n" * part[0].count("\n") or " " if part["comment"] else part[0]

        parts = [] if self.own else _BESIDE.sub(kept, self.text).split("\0")
        return tuple(stripped for part in parts if (stripped := part.strip()))

    @property
    def uses(self) -> tuple[str, ...]:
        """Return the variables that it names; casts, literals and slices of arrays do not count."""
        text = self.text if self.own else " ".join(self.statements)
        is_shell = self.own in ("shell", "setshell")  # there a variable is a whole word
        return tuple(
            found["name"]
            for found in _VARIABLE.finditer(text)
            if found["name"] and not _SLICED.search(before := text[: found.start()])
            if not is_shell or before[-1].isspace()
        )

    @property
    def buried(self) -> tuple[str, ...]:
        """Return what looks like a variable within the literals and comments of a statement."""
        free = list(variables(" ".join(self.statements)))
        names = [found["name"] for found in re.finditer(_NAME, "" if self.own else self.text)]
        return tuple(name for name in dict.fromkeys(names) if names.count(name) > free.count(name))

    def sets(self, columns: Mapping[str, Sequence[str]]) -> frozenset[str]:
        """Return the variables that it sets; ``PREFIX*`` where the columns are not known."""
        words = (self.stores or self.text).split()
        if self.stores:
            prefix = "".join(words[1:2])
            return frozenset(f"{prefix}{name}" for name in columns.get(self.text, "*"))
        return frozenset(words[1:2] if self.own in ("set", "setshell") else ())


def commands(script: str) -> tuple[ScriptCommand, ...]:
    """Return the commands of a script, in the order and number that pgbench gives them."""
    found: list[ScriptCommand] = []
    ends = [each.start() for each in re.finditer("\n", script)]
    begun, depth = -1, 0

    def add(at: int, text: str) -> None:
        if at >= 0:
            found.append(ScriptCommand(line=bisect(ends, at) + 1, text=text.rstrip()))

    for token in _TOKEN.finditer(script):
        at, own = token.start(), _CONTINUED.sub(" ", token["own"] or "").strip()
        own = _NAME_OF_OWN.sub(lambda name: f"\\{name[1].lower()}", own)
        if own or (token["end"] and depth <= 0):
            add(begun, script[begun:at])
            begun, depth = -1, 0
            if re.match(r"\\[ag]set\b", own) and found and not found[-1].own:
                found[-1] = replace(found[-1], stores=own)
            elif own[1:]:
                add(at, own)
        elif begun >= 0 or not token["dashes"]:
            begun = at if begun < 0 else begun
            depth += (token[0] == "(") - (token[0] == ")")
    add(begun, script[begun:])
    return tuple(found)


def statements(script: str) -> tuple[str, ...]:
    """Return the SQL statements of a script, without comments and pgbench's own commands."""
    return tuple(each for command in commands(script) for each in command.statements)


def problems(
    script: str,
    *,
    protocol: str,
    defined: Iterable[str] = (),
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[tuple[int, str]]:
    r"""Yield why a script cannot be measured, by its text, with the line of each problem.

    Args:
        script: Its text.
        protocol: By which pgbench sends statements.
        defined: Variables that are given from outside.
        columns: What statements before ``\gset`` and ``\aset`` return, by their text.
    """
    all_commands = commands(script)
    if not any(each.own or each.statements for each in all_commands):
        yield 1, "it has no statement"
    yield from _unset(all_commands, _OF_PGBENCH.union(defined), columns or {})
    for command in all_commands:
        if any(map(_COPIES.match, command.statements)):
            yield command.line, "pgbench supports no COPY from or to its client"
        if protocol != SIMPLE and len(command.statements) > 1:
            yield command.line, rf"only the protocol `{SIMPLE}` sends what `\;` joins"
        for name in command.buried if protocol != SIMPLE else ():
            said = f"`:{name}` in a literal or comment is a parameter for pgbench and none for the"
            yield command.line, f"{said} server; the protocol `{SIMPLE}` takes it"


def _unset(
    all_commands: Sequence[ScriptCommand],
    known: frozenset[str],
    columns: Mapping[str, Sequence[str]],
) -> Iterator[tuple[int, str]]:
    r"""Yield which variables are not set where they are used.

    Protocols that prepare statements send NULL for them: a query that finds nothing is measured.
    """
    passed = known
    branches: list[list[frozenset[str]]] = []  # of each `\if`: known before it, then at their ends
    for command in all_commands:
        known = _known_in_branch(command.own, known, branches)
        for name in dict.fromkeys(name for name in command.uses if not _holds(known, name)):
            lines = [each.line for each in all_commands if _holds(each.sets(columns), name)]
            if _holds(passed, name):
                where = r"which is set only inside of `\if`"
            elif lines:
                where = f"which is set only later, in line {lines[0]}"
            else:
                where = r"which no `\set`, `\gset` or `--define` sets"
            yield command.line, f"`:{name}` is used, {where}"
        known, passed = known | command.sets(columns), passed | command.sets(columns)


def _known_in_branch(
    own: str, known: frozenset[str], branches: list[list[frozenset[str]]]
) -> frozenset[str]:
    r"""Return what is set where a command may begin or end a branch of ``\if``."""
    if own == "if":
        branches.append([known])
    elif own in ("elif", "else") and branches:
        before = branches[-1].pop(0) if own == "else" else branches[-1][0]
        branches[-1].append(known)
        return before
    elif own == "endif" and branches:
        return known.intersection(*branches.pop())
    return known


def _holds(names: frozenset[str], name: str) -> bool:
    return name in names or any(each[-1] == "*" and name.startswith(each[:-1]) for each in names)


def rehearsal(script: str, columns: Mapping[str, Sequence[str]]) -> str:
    r"""Return a script by which pgbench tries its own commands alone, each in its line.

    ``SELECT 1`` replaces each statement but those that begin and end transactions. Of its own
    commands those are tried that compute: nothing is slept, and no program is started.
    """
    lines = [""] * (script.count("\n") + 1)
    for command in commands(script):
        lines[command.line - 1] += _rehearsed(command, columns)
    return "\n".join(lines)


def _rehearsed(command: ScriptCommand, columns: Mapping[str, Sequence[str]]) -> str:
    if command.own == "setshell":
        return rf"\set {''.join(command.text.split()[1:2])} 1"
    if command.own:
        return command.text if command.own in _COMPUTING else r"\sleep 0"
    if not command.stores and any(map(_OF_TRANSACTIONS.match, command.statements)):
        return f"{' '.join(command.statements[0].split())};"
    quoted = (name.replace('"', '""') for name in columns.get(command.text, ()))
    row = ", ".join(f'1 AS "{name}"' for name in quoted) or "1"
    return f"SELECT {row} {command.stores or ';'}"


def asks(script: str) -> bool:
    """Return whether a script has variables whose values a server or a program gives."""
    return any(each.stores or each.own == "setshell" for each in commands(script))


def failure(text: str, script: str) -> tuple[int, str] | None:
    """Return the line of a script in which a trial failed, and why, by what pgbench printed.

    None: it did not fail by the script, or a statement took longer than a trial may.
    """
    complaint = _COMPLAINT.search(text)
    if complaint is None or "statement timeout" in text:
        return None
    number = re.search(r"\bcommand (\d+)\b", text)
    lines = [command.line for command in commands(script)]
    if complaint["line"]:
        line = int(complaint["line"])
    else:
        line = lines[min(int(number[1]), len(lines) - 1)] if number else lines[-1]
    first = next(each for each in text.splitlines() if _ERROR.match(each))
    return line, _ERROR.sub("", first)


def parametrised(statement: str) -> tuple[str, int]:
    """Return a statement as pgbench prepares it, and how many parameters it has.

    Each place of a variable is a parameter of its own (``parseQuery``, pgbench.c).
    """
    count = 0

    def numbered(found: re.Match[str]) -> str:
        nonlocal count
        if not found["name"]:
            return found[0]
        count += 1
        return f"${count}"

    return _VARIABLE.sub(numbered, statement), count


def variables(statement: str) -> tuple[str, ...]:
    """Return the variable of each parameter that ``parametrised`` makes, in their order."""
    return tuple(found["name"] for found in _VARIABLE.finditer(statement) if found["name"])


def typical_values(
    script: str, share: Callable[[], float] = lambda: 0.5
) -> tuple[tuple[str, str], ...]:
    r"""Return what ``\set`` makes of variables, as SQL expressions, in the script's order.

    Of a random number it is that share of its range, by default its middle; one inside of an
    expression has none. What else pgbench computes is left as it is: most of its functions are
    PostgreSQL's, too.
    """
    words = (each.text.split(maxsplit=2) for each in commands(script) if each.own == "set")
    values = (
        (name, _typical(value, share)) for _, name, value in (each for each in words if each[2:])
    )
    return tuple((name, value) for name, value in values if value)


_RANDOM: Final = re.compile(r"\brandom(?:_\w+)?[ \t]*\(", re.IGNORECASE)


def _typical(value: str, share: Callable[[], float]) -> str:
    if not _RANDOM.search(value):
        return value
    drawn = _RANDOM.match(value)
    if drawn is None or len(_RANDOM.findall(value)) > 1:
        return ""
    parts = [*_divide(value[drawn.end() :])]
    if not parts or parts[-1] != ")" or len(parts) < 3:
        return ""
    low, high = parts[:2]
    return f"floor(({low}) + {share():.9f} * (({high}) - ({low})))::bigint"


def _divide(given: str) -> Iterator[str]:
    depth, begun = 0, 0
    for at, character in enumerate(given):
        if depth == 0 and character in ",)":
            yield given[begun:at].strip()
            begun = at + 1
        if depth == 0 and character == ")":
            yield given[at:]
            return
        depth += (character == "(") - (character == ")")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its variables; those without one are left."""
    return _VARIABLE.sub(lambda found: values.get(found["name"] or "", found[0]), text)


def without_literals(statement: str) -> str:
    """Return a statement with a space for each of its literals and quoted names."""
    return re.sub(_LITERAL, " ", statement, flags=re.DOTALL)


def script_literal(text: str) -> str:
    """Return a text as SQL in a script writes it, with colons that name no pgbench variable."""
    quoted = sql_literal(text)
    hidden = re.sub(_NAME, r"\\x3a\g<name>", quoted)
    return hidden if hidden == quoted or quoted.startswith("E") else f"E{hidden}"


def with_values(statement: str, values: Sequence[str]) -> str:
    """Return a statement with its parameters ``$1`` and so on replaced by SQL expressions."""
    parameter = re.compile(rf"(?:{_LITERAL})|\$(?P<number>\d+)\b", re.DOTALL)

    def value(match: re.Match[str]) -> str:
        return values[int(match["number"]) - 1] if match["number"] else match[0]

    return parameter.sub(value, statement)


def only_reads(script: str) -> bool:
    """Return whether all statements of a script only read, by their words.

    What functions do, nobody sees: a script that calls one that writes is taken for one that reads.
    """
    return bool(statements(script)) and writing(script) is None


def writing(script: str) -> tuple[int, str] | None:
    """Return the line of the first statement that may write, and the words with which it begins.

    None if all statements only read, by their words.
    """
    for command in commands(script):
        for statement in command.statements:
            bare = without_literals(statement).lstrip("( \t\n")
            if not _reads(bare):
                word = None if not _READING.match(bare) else _WRITING.search(bare)
                words = " ".join(bare.split()[:2])
                line = command.line + _AHEAD.match(command.text)[0].count("\n")  # type: ignore[index]
                return line, f"{words} ... {word[0]}" if word else words
    return None


def _reads(statement: str) -> bool:
    explained = _EXPLAIN.match(statement)
    if explained and not re.search("analy[sz]e", explained[0], re.IGNORECASE):
        return True
    for shell in (_EXPLAIN, _PREPARE):
        statement = shell.sub("", statement, count=1) if shell.match(statement) else statement
    statement = re.sub(r"\A[(\s]+", "", statement)
    return bool(_READING.match(statement)) and not _WRITING.search(statement)
