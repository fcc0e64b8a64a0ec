"""The log files that ``steelyard latency`` was given: groups, forms, and reading them.

All problems are told at once. Reading is one pass over each file, in bounded memory.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, cast

import click

from steelyard.answers.logged import AggregatedGroup, LoggedGroup, intervals_together
from steelyard.core.errors import InputError
from steelyard.core.units import US_PER_S, format_bytes
from steelyard.systems.postgres.log_counts import TransactionLog
from steelyard.systems.postgres.log_lines import (
    MOST_SCRIPTS,
    LogForm,
    first_start_us,
    form_of,
    is_aggregated,
    last_end_us,
    transaction_lines,
)
from steelyard.systems.postgres.transaction_log import TransactionLogReader, parse_aggregated

ONE_GROUP = "log"
_HEAD_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_LEAST_COLUMNS = 6
_HINT = (
    "Give the files that `pgbench --log` wrote, NAME=FILE for several runs, or one campaign's"
    " directory."
)


class Seventh(StrEnum):
    """What pgbench wrote behind the six columns that every log has."""

    LAG = "lag"
    RETRIES = "retries"
    BOTH = "lag,retries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files of one run, by the name that the user gave it."""

    name: str
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A group whose form is known.

    Attributes:
        form: None of aggregated logs.
        started_us: When its first transaction was due, since the epoch; 0 of aggregated logs.
        empty: Files without a byte, which a thread without a transaction leaves.
    """

    name: str
    files: tuple[Path, ...]
    form: LogForm | None
    started_us: int
    empty: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The beginning of a file: its transactions, or that it is aggregated, or what is wrong."""

    path: Path
    lines: tuple[bytes, ...] = ()
    aggregated: bool = False
    empty: bool = False
    problem: str = ""

    @property
    def columns(self) -> int:
        """Return how many columns its transactions have."""
        return len(self.lines[0].split()) if self.lines else 0

    @property
    def shape(self) -> str:
        """Return what it is, in words."""
        return "aggregated intervals" if self.aggregated else f"lines of {self.columns} columns"


def groups_of(words: Sequence[str]) -> tuple[Group, ...]:
    """Return the groups that words of a command line name.

    ``NAME=PATTERN`` begins a group or goes on with it, and files without a name belong to the
    group named last; without any name all files are one group.

    Raises:
        InputError: A file has no group while others have.
    """
    found: dict[str, list[Path]] = {}
    name = ""
    for word in words:
        given, equals, pattern = word.partition("=")
        if equals and given and not Path(word).exists():
            name, word = given, pattern  # noqa: PLW2901 - the rest of it is the file
        found.setdefault(name, []).extend(_matching(word))
    if len(found) > 1 and "" in found:
        first = found[""][0]
        raise InputError(
            f"{first} has no name, and other files have",
            hint=f"Name its run too: NAME={first}, before or after the others.",
        )
    return tuple(
        Group(name=key or ONE_GROUP, files=tuple(dict.fromkeys(files)))
        for key, files in found.items()
    )


def _matching(pattern: str) -> list[Path]:
    """Return the files that a pattern names: a shell leaves those behind ``NAME=`` to us."""
    path = Path(pattern)
    if path.exists() or not any(sign in pattern for sign in "*?["):
        return [path]
    base = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(base.glob(str(path.relative_to(path.anchor)))) or [path]


def known_groups(groups: Sequence[Group], seventh: Seventh | None) -> tuple[Known, ...]:
    """Return the groups with what their lines mean.

    Raises:
        InputError: With everything that stands in the way, of all files.
    """
    problems: list[str] = []
    known = [_known(group, seventh, problems) for group in groups]
    if problems:
        lines = [problems[0]] if len(problems) == 1 else ["these logs cannot be read:"]
        lines += [f"  {problem}" for problem in problems] if len(problems) > 1 else []
        raise InputError("\n".join(lines), hint=_HINT)
    return tuple(each for each in known if each is not None)


def _known(group: Group, seventh: Seventh | None, problems: list[str]) -> Known | None:
    heads = [_head(path) for path in group.files]
    wrong = [head.problem for head in heads if head.problem]
    full = [head for head in heads if not head.empty and not head.problem]
    if not wrong and not full:
        wrong = [f"{_named(head.path)} is empty" for head in heads]
    shapes = {head.shape: head for head in reversed(full)}
    if len(shapes) > 1:
        told = ", ".join(f"{_named(head.path)} has {shape}" for shape, head in shapes.items())
        wrong.append(f"{told}: one run writes one form; give each run a name of its own")
    problems += wrong
    if wrong:
        return None
    if full[0].aggregated:
        return _of(group, heads, None, 0)
    lines = [line for head in full for line in head.lines]
    open_loop, problem = _has_lag(full[0], seventh)
    if problem:
        problems.append(problem)
        return None
    return _of(group, heads, form_of(lines, open_loop=open_loop), first_start_us(lines))


def _of(group: Group, heads: list[_Head], form: LogForm | None, started_us: int) -> Known:
    return Known(
        name=group.name,
        files=group.files,
        form=form,
        started_us=started_us,
        empty=tuple(str(head.path) for head in heads if head.empty),
    )


def _has_lag(head: _Head, seventh: Seventh | None) -> tuple[bool | None, str]:
    """Return what to tell ``form_of``, or what is wrong with the option."""
    further = head.columns - _LEAST_COLUMNS
    if further != 1:
        return None, ""
    if seventh is None:
        return None, (
            f"{_named(head.path)} has seven columns, and no line tells whether the last is the"
            " schedule lag of --rate or the retries of --max-tries: say --columns lag or"
            " --columns retries"
        )
    if seventh is Seventh.BOTH:
        return None, f"{_named(head.path)} has one column for --columns {seventh}: say which"
    return seventh is Seventh.LAG, ""


def _head(path: Path) -> _Head:
    try:
        with path.open("rb") as plain, unpacked(plain) as file:
            return _of_content(path, file.read(_HEAD_BYTES))
    except FileNotFoundError:
        problem = f"there is no file {_named(path)}"
    except IsADirectoryError:
        problem = f"{_named(path)} is a directory, and holds no campaign"
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or "its compression is damaged"
        problem = f"{_named(path)} cannot be read: {words}"
    return _Head(path=path, problem=problem)


def _of_content(path: Path, content: bytes) -> _Head:
    if not content:
        return _Head(path=path, empty=True)
    lines = content.split(b"\n")[:-1]
    if lines and is_aggregated(lines):
        return _Head(path=path, aggregated=True)
    transactions = transaction_lines(lines)
    if 2 * len(transactions) <= len(lines):
        problem = f"{_named(path)} is no transaction log of pgbench: "
        problem += "its lines are of another form" if lines else "it has no whole line"
        return _Head(path=path, problem=problem)
    return _Head(path=path, lines=tuple(transactions))


def _named(path: Path) -> str:
    return str(path) or "."


@contextmanager
def unpacked(plain: BinaryIO) -> Iterator[BinaryIO]:
    """Yield what a file holds; it may be compressed, as those are that a campaign keeps."""
    packed = plain.read(len(_GZIP)) == _GZIP
    plain.seek(0)
    if not packed:
        yield plain
        return
    with gzip.GzipFile(fileobj=plain) as file:
        yield cast("BinaryIO", file)


def widened(form: LogForm) -> LogForm:
    """Return the form with all scripts that pgbench can have: one may run late at first."""
    return LogForm(
        scripts=tuple(f"script {n}" for n in range(MOST_SCRIPTS)),
        open_loop=form.open_loop,
        retries=form.retries,
    )


_CHUNK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 12
_LARGE_BYTES = 200 << 20  # a second or two of reading; below it nothing is said
_STEPS = 10


@dataclass(slots=True, kw_only=True)
class Progress:
    """Says how far the reading is, on standard error, where there is much to read.

    Attributes:
        total_bytes: Of all files.
        quiet: Nothing is said.
    """

    total_bytes: int
    quiet: bool = False
    _read_bytes: int = 0
    _told: int = 0

    def add(self, count: int) -> None:
        """Count bytes that were read."""
        self._read_bytes += count
        step = _STEPS * self._read_bytes // max(self.total_bytes, 1)
        if step > self._told and self.total_bytes >= _LARGE_BYTES and not self.quiet:
            self._told = step
            share = min(100 * step // _STEPS, 100)
            click.echo(f"read {share} % of {format_bytes(self.total_bytes)}", err=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadGroup:
    """A group and all its transactions."""

    group: LoggedGroup
    log: TransactionLog


@dataclass(slots=True, kw_only=True)
class _Feed:
    """Hands files to a reader, and remembers how each ended."""

    take: Callable[[str, bytes], None]
    progress: Progress
    tails: dict[str, bytes] = field(default_factory=dict)

    def file(self, path: Path) -> None:
        name = str(path)
        for chunk, read_bytes in _chunks(path):
            self.take(name, chunk)
            kept = chunk if len(chunk) >= _TAIL_BYTES else self.tails.get(name, b"") + chunk
            self.tails[name] = kept[-_TAIL_BYTES:]
            self.progress.add(read_bytes)

    @property
    def ended_us(self) -> int | None:
        """Return when the last transaction of all files ended."""
        ends = [last_end_us(tail.split(b"\n")[:-1]) for tail in self.tails.values()]
        return max((end for end in ends if end is not None), default=None)


def stored_bytes(groups: Sequence[Known]) -> int:
    """Return how much there is to read."""
    return sum(path.stat().st_size for group in groups for path in group.files)


def read_group(known: Known, ramp_s: float, progress: Progress) -> ReadGroup:
    """Return the transactions of a group.

    Raises:
        InputError: A file changed or its compression is damaged.
    """
    assert known.form is not None  # noqa: S101 - aggregated ones go to read_aggregated
    form = known.form
    log, ended_us = _read(known, form, ramp_s, progress)
    if log.damaged:
        # Perhaps a script that ran late for the first time: only the whole log tells.
        wider, ended_us = _read(known, widened(form), ramp_s, progress)
        log = wider if wider.damaged < log.damaged else log
    began_us = known.started_us + round(ramp_s * US_PER_S)
    seconds = max((ended_us or began_us) - began_us, 0) / US_PER_S
    group = LoggedGroup(
        name=known.name,
        files=len(known.files),
        open_loop=form.open_loop,
        tells_retries=form.retries,
        started_at=known.started_us / US_PER_S,
        ramp_s=ramp_s,
        seconds=seconds,
        latency=log.run_latency(windows_s=None),
        damaged=log.damaged,
        truncated=log.truncated,
        empty=known.empty,
    )
    return ReadGroup(group=group, log=log)


def _read(
    known: Known, form: LogForm, ramp_s: float, progress: Progress
) -> tuple[TransactionLog, int | None]:
    reader = TransactionLogReader(form, started_at=known.started_us / US_PER_S, ramp_s=ramp_s)
    feed = _Feed(take=reader.feed, progress=progress)
    for path in known.files:
        feed.file(path)
    return reader.finish(), feed.ended_us


def read_aggregated(known: Known, progress: Progress) -> AggregatedGroup:
    """Return the intervals of aggregated logs, the threads together.

    Raises:
        InputError: As for ``read_group``.
    """
    contents: dict[str, list[bytes]] = {str(path): [] for path in known.files}
    feed = _Feed(take=lambda name, chunk: contents[name].append(chunk), progress=progress)
    for path in known.files:
        feed.file(path)
    logs = {name: parse_aggregated(b"".join(chunks)) for name, chunks in contents.items()}
    return AggregatedGroup(
        name=known.name,
        files=len(known.files),
        intervals=intervals_together(i for log in logs.values() for i in log.intervals),
        damaged=sum(log.damaged for log in logs.values()),
        truncated=tuple(name for name, log in logs.items() if log.truncated),
    )


def _chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield what is in a file, and how many of its stored bytes that took."""
    taken = 0
    try:
        with path.open("rb") as plain, unpacked(plain) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk, plain.tell() - taken
                taken = plain.tell()
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or "its compression is damaged"
        raise InputError(
            f"{path} cannot be read: {words}", hint="Restore it from a copy."
        ) from error
