"""How many huge pages a server's shared memory takes: asked of its own program, or estimated.

``postgres -C shared_memory_size_in_huge_pages`` says it exactly, since PostgreSQL 15. It refuses
the data directory of a running server, so it is asked on an empty one made for it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.core.command import Command
from steelyard.core.errors import InputError, PreflightError
from steelyard.core.units import KIB, MIB, parse_bytes
from steelyard.gateways.files import remove_tree, short_directory
from steelyard.gateways.process import Processes
from steelyard.places.local.states import staged
from steelyard.systems.postgres.server import Installation, wheel_parts

COUNTING_SINCE: Final = 15  # shared_memory_size_in_huge_pages; huge_page_size came with 14
# Of the formula against the programs 15, 16 and 18 with 20 to 400 connections: 0.2 % at most from
# 512 MB to 64 GB of buffers, 2.8 MiB at most below. What is promised has room above that.
FORMULA_ERROR: Final = 0.005
_FORMULA_ERROR_BYTES: Final = 4 * MIB
_BLOCK_BYTES: Final = 8 * KIB
_DEFAULT_LOCKS: Final = 64
_DEFAULT_WORKERS: Final = 8
_LOCK_BYTES: Final = 450
_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCount:
    """Huge pages that shared memory takes, and how they were counted."""

    pages: int
    counted_by: str


PageCounter = Callable[[Mapping[str, str], int], PageCount]
"""Counts pages of a size, in bytes, for settings; what is not named has its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coefficients:
    """Of the formula, fitted to what ``postgres -C shared_memory_size`` said.

    Attributes:
        per_buffer: Beside each byte of buffers: descriptors, lookup table, checkpointer's queue.
        most_caches_bytes: Of structures that grow with small buffers only.
        per_process_bytes: For each connection or worker.
        per_handle_bytes: For each handle of asynchronous I/O; a process has up to 64 of them, and
            fewer where the buffers are fewer (``io_max_concurrency``).
    """

    per_buffer: float
    fixed_bytes: float
    most_caches_bytes: float
    per_process_bytes: float
    per_handle_bytes: float = 0.0


_CACHES_PER_BUFFER: Final = 0.0083
_MOST_HANDLES: Final = 64
# Measured with 15.18, 16.2 and 18.6; 15 and 16 differ by less than a page. 13 and 14 are taken to
# be like 15, 17 like 18: a guess.
_TO_16: Final = _Coefficients(
    per_buffer=0.02203,
    fixed_bytes=2.2 * MIB,
    most_caches_bytes=4.0 * MIB,
    per_process_bytes=0.0466 * MIB,
)
_FROM_17: Final = _Coefficients(
    per_buffer=0.02295,
    fixed_bytes=5.5 * MIB,
    most_caches_bytes=33.0 * MIB,
    per_process_bytes=0.045 * MIB,
    per_handle_bytes=0.035 * MIB / _MOST_HANDLES,
)


def formula_counter(version: int) -> PageCounter:
    """Return a counter for a machine without the program; it counts its own error in."""

    def count(settings: Mapping[str, str], page_bytes: int) -> PageCount:
        estimate = shared_memory_bytes(settings, version)
        pages = -(-(estimate + _error_bytes(estimate)) // page_bytes)
        return PageCount(pages=pages, counted_by=f"a formula for PostgreSQL {version}")

    return count


def shared_memory_bytes(settings: Mapping[str, str], version: int) -> int:
    """Return an estimate of a server's shared memory, within ``FORMULA_ERROR`` for usual sizes."""
    fit = _FROM_17 if version >= 17 else _TO_16
    buffers = _size(settings, "shared_buffers", 128 * MIB)
    connections = _number(settings, "max_connections", 100)
    processes = connections + _number(settings, "max_worker_processes", _DEFAULT_WORKERS)
    locks = _number(settings, "max_locks_per_transaction", _DEFAULT_LOCKS) - _DEFAULT_LOCKS
    handles = min(_MOST_HANDLES * processes, buffers // _BLOCK_BYTES)
    beside = (
        fit.fixed_bytes
        + min(fit.most_caches_bytes, _CACHES_PER_BUFFER * buffers)
        + fit.per_process_bytes * processes
        + fit.per_handle_bytes * handles
        + _LOCK_BYTES * max(locks, 0) * processes
    )
    dynamic = _size(settings, "min_dynamic_shared_memory", 0, unit=MIB)
    return int(buffers * (1 + fit.per_buffer) + beside) + _wal_bytes(settings, buffers) + dynamic


def least_shared_memory_bytes(settings: Mapping[str, str], version: int) -> int:
    """Return a lower bound of it: the estimate less its measured error."""
    estimate = shared_memory_bytes(settings, version)
    return estimate - _error_bytes(estimate)


def _error_bytes(estimate: int) -> int:
    return max(int(FORMULA_ERROR * estimate), _FORMULA_ERROR_BYTES)


def _wal_bytes(settings: Mapping[str, str], buffers: int) -> int:
    if settings.get("wal_buffers", "-1").strip() == "-1":
        return max(min(buffers // 32, 16 * MIB), 64 * KIB)
    return _size(settings, "wal_buffers", 0)


def _size(settings: Mapping[str, str], name: str, default: int, unit: int = _BLOCK_BYTES) -> int:
    """Return a setting in bytes; 0 where the server would refuse it in its own words."""
    value = settings.get(name, "").strip().strip("'")
    if value.isdigit():
        return int(value) * unit
    try:
        return parse_bytes(value) if value else default
    except InputError:
        return 0


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name, "").strip()
    return int(value) if value.isdigit() else default


@contextmanager
def server_counter(
    installation: Installation, processes: Processes, account: str | None
) -> Iterator[PageCounter]:
    """Give a counter that asks the server's own program, on an empty data directory.

    Args:
        installation: Of the server that the plan is for.
        processes: Runs it.
        account: Unprivileged one to run it as, where Steelyard is root.

    Raises:
        PreflightError: The version cannot count, or the data directory could not be made.
    """
    if installation.major < COUNTING_SINCE:
        raise PreflightError(
            f"PostgreSQL {installation.major} does not count its huge pages itself",
            hint=f"That came with PostgreSQL {COUNTING_SINCE}; plan without `--bin`.",
        )
    programs = staged(
        installation.programs,
        wheel_parts(installation),
        f"postgres-{installation.version.split()[0]}",
        account=account,
        processes=processes,
    )
    made: list[Path] = []
    try:
        directory = short_directory("steelyard-count-", account=account, announce=made.append)
        asked = _Asked(programs, directory, account, processes)
        asked.make()
        yield asked.count
    finally:
        for path in made:
            remove_tree(path)


class _Asked:
    """One program with an empty data directory."""

    def __init__(
        self, programs: Path, directory: Path, account: str | None, processes: Processes
    ) -> None:
        self._programs = programs
        self._data = directory / "data"
        self._account = account
        self._processes = processes

    def make(self) -> None:
        """Make the data directory."""
        self._run("initdb", "--no-sync", "--auth=trust", f"--pgdata={self._data}")

    def count(self, settings: Mapping[str, str], page_bytes: int) -> PageCount:
        """Ask the program; a setting that it refuses is told in its own words."""
        named = [f"{name}={value}" for name, value in settings.items()]
        named.append(f"huge_page_size={page_bytes // KIB}kB")
        options = [word for each in named for word in ("-c", each)]
        printed = self._run(
            "postgres", "-D", str(self._data), "-C", "shared_memory_size_in_huge_pages", *options
        )
        version = self._run("postgres", "--version").split()[-1]
        if not printed.strip().isdigit():
            raise PreflightError(
                f"postgres -C shared_memory_size_in_huge_pages said {printed.strip()!r}",
                hint="Does this kernel have huge pages? Plan without `--bin` to use the formula.",
            )
        return PageCount(pages=int(printed), counted_by=f"postgres -C of PostgreSQL {version}")

    def _run(self, program: str, *arguments: str) -> str:
        command = Command(
            argv=(str(self._programs / program), *arguments),
            environment={"LC_ALL": "C"},
            directory=self._data.parent,
            account=self._account,
        )
        completed = self._processes.run(command, timeout_s=_TIMEOUT_S)
        if not completed.succeeded:
            raise PreflightError(
                f"{program} could not count the huge pages: {completed.tail(1)}",
                hint="Plan with `--bin formula` to estimate them.",
            )
        return completed.stdout
