"""The memory of a plan, line by line: what the server takes at worst, and what it leaves.

The figures are those that rules K8S014, K8S015, PG003, PG004 and KVM003 judge by. A plan is refused
for lack of room with what fits instead, which is found by planning it.

How many huge pages a server's shared memory takes is asked of its own program, or estimated.
``postgres -C shared_memory_size_in_huge_pages`` says it exactly, since PostgreSQL 15. It refuses
the data directory of a running server, so it is asked on an empty one made for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.core.outside import Command
from steelyard.core.stack import ArithmeticLine, StackRequest
from steelyard.core.wording import KIB, MIB, InputError, PreflightError, format_bytes, parse_bytes
from steelyard.gateways.files import remove_tree, short_directory
from steelyard.gateways.process import Processes
from steelyard.places.local.server import staged
from steelyard.systems.postgres.server import Installation, wheel_parts
from steelyard.tuning import profiles
from steelyard.tuning.rules.kubernetes_memory import BACKEND_BYTES, LIMIT_SHARE
from steelyard.tuning.rules.postgres import MOST_BUFFERS, MOST_CONNECTIONS_PER_CPU

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
_LOGGED: Final = re.compile(r"^\S+ \S+ \S+ \[\d+\] (?:[A-Z]+: +)?")  # before a line of the server


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


def formula_counter(version: int, why: str = "") -> PageCounter:
    """Return a counter for a machine without the program; it counts its own error in.

    Args:
        version: Of PostgreSQL.
        why: Reason why a program that is there does not count, in parentheses.
    """

    def count(settings: Mapping[str, str], page_bytes: int) -> PageCount:
        estimate = shared_memory_bytes(settings, version)
        pages = -(-(estimate + _error_bytes(estimate)) // page_bytes)
        return PageCount(pages=pages, counted_by=f"a formula for PostgreSQL {version}{why}")

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
    wal = _size(settings, "wal_buffers", 0)
    if settings.get("wal_buffers", "-1").strip() == "-1":
        wal = max(min(buffers // 32, 16 * MIB), 64 * KIB)
    dynamic = _size(settings, "min_dynamic_shared_memory", 0, unit=MIB)
    return int(buffers * (1 + fit.per_buffer) + beside) + wal + dynamic


def least_shared_memory_bytes(settings: Mapping[str, str], version: int) -> int:
    """Return a lower bound of it: the estimate less its measured error."""
    estimate = shared_memory_bytes(settings, version)
    return estimate - _error_bytes(estimate)


def _error_bytes(estimate: int) -> int:
    return max(int(FORMULA_ERROR * estimate), _FORMULA_ERROR_BYTES)


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
            hint=f"That came with PostgreSQL {COUNTING_SINCE}; plan without `--server`.",
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
                hint="Does this kernel have huge pages? `--server formula` estimates them.",
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
                f"{program} could not count the huge pages: {_LOGGED.sub('', completed.tail(1))}",
                hint="Plan with `--server formula` to estimate them.",
            )
        return completed.stdout


class DoesNotFitError(PreflightError):
    """What was asked for has no room here; less of it, or a larger share of something, may."""

    def __init__(self, message: str) -> None:
        """Take the constraint; the hint is replaced by what was found to fit."""
        super().__init__(message, hint="Ask for less, or plan for a larger machine.")


# The margin of a pool above what is to be taken from it; of a pod's limit above the server's need.
POOL_MARGIN: Final = 0.02
POD_MARGIN: Final = 0.01

_DEFAULT_CONNECTIONS: Final = "100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How the database's memory is divided.

    Attributes:
        pages: Of the request's size, that shared memory takes.
        counted_by: How they were counted.
        reserved_bytes: Huge pages that count as the database's, margin included; without huge
            pages what shared memory takes.
        lowered: Names of settings that are below what the profile would give, for lack of memory.
    """

    memory_bytes: int
    shared_buffers_bytes: int
    max_connections: int
    work_mem_bytes: int
    maintenance_bytes: int
    pages: int
    counted_by: str
    reserved_bytes: int
    lowered: tuple[str, ...] = ()

    @property
    def beside_bytes(self) -> int:
        """Return the memory beside the shared memory: backends and page cache."""
        return self.memory_bytes - self.reserved_bytes

    @property
    def backends_bytes(self) -> int:
        """Return what backends and autovacuum take at worst."""
        return sum(size for _, size, _ in self.takers)

    @property
    def takers(self) -> tuple[tuple[str, int, str], ...]:
        """Return who takes memory beside the huge pages at worst: label, bytes, why."""
        count = self.max_connections
        return (
            (f"{count} backends", count * BACKEND_BYTES, "6 MiB each, a guess"),
            (
                f"work_mem of {count} backends",
                count * self.work_mem_bytes * profiles.HASH_MEM_MULTIPLIER,
                (
                    f"one hash table each: {profiles.HASH_MEM_MULTIPLIER} x"
                    f" {format_bytes(self.work_mem_bytes)}"
                ),
            ),
            (
                f"maintenance_work_mem of {profiles.AUTOVACUUM_WORKERS} autovacuum workers",
                profiles.AUTOVACUUM_WORKERS * self.maintenance_bytes,
                f"{format_bytes(self.maintenance_bytes)} each",
            ),
        )

    @property
    def fits(self) -> bool:
        """Return whether the worst case leaves the page cache its part."""
        return self.backends_bytes <= LIMIT_SHARE * self.beside_bytes


def pages_with_margin(pages: int, margin: float) -> int:
    """Return pages with a margin of whole pages; a page that is begun leaves room already."""
    return pages + int(pages * margin)


def divided(
    request: StackRequest, fixed: Mapping[str, str], counter: PageCounter, margin: float
) -> Budget:
    """Return how the request's memory is divided.

    Args:
        request: What is asked for.
        fixed: Further settings that change the size of shared memory.
        counter: Counts the huge pages of the final settings.
        margin: Of the huge pages above the server's need.

    Raises:
        DoesNotFitError: No server fits, with the constraint.
    """
    most = int(MOST_BUFFERS * request.memory_bytes)
    asked = request.shared_buffers_bytes
    # What rules PG003 and PG004 would warn of.
    if asked is not None and asked > most:
        raise DoesNotFitError(
            f"shared_buffers of {format_bytes(asked)} is {100 * asked / request.memory_bytes:.0f} %"
            f" of the {format_bytes(request.memory_bytes)} asked for; 40 % is the most that leaves"
            " room for the page cache"
        )
    if (request.max_connections or 0) > MOST_CONNECTIONS_PER_CPU * request.cpus:
        raise DoesNotFitError(
            f"{request.max_connections} connections on {request.cpus} CPUs are more than"
            f" {MOST_CONNECTIONS_PER_CPU} for each, which a pooler before the server would spare"
        )
    estimate = formula_counter(request.postgres_version)
    # The first that fits: from the profile's values down to the least.
    budgets = (_counted(request, it, fixed, estimate, margin) for it in _candidates(request))
    chosen = next((budget for budget in budgets if budget.fits), None)
    if chosen is not None:
        chosen = _counted(request, chosen, fixed, counter, margin)
    if chosen is None or not chosen.fits:
        raise _does_not_fit(request, fixed, margin)
    return chosen


def database_lines(
    budget: Budget, request: StackRequest, shm_bytes: int
) -> tuple[ArithmeticLine, ...]:
    """Return the arithmetic of the database's memory."""
    page_bytes = request.page_bytes
    taken = budget.pages * page_bytes
    count = f"{budget.pages} huge pages of {format_bytes(page_bytes)}"
    beside = "beside the huge pages"
    if not request.huge_pages:
        count, beside = f"{format_bytes(taken)} of ordinary pages", "beside the shared memory"
    margin = (
        ArithmeticLine(
            label="margin of the huge pages",
            amount_bytes=-(budget.reserved_bytes - taken),
            why="a new extension or version takes some more; rule OS002",
        ),
    )
    lines = [
        ArithmeticLine(label="memory of the database", amount_bytes=budget.memory_bytes),
        ArithmeticLine(label="shared_buffers", amount_bytes=-budget.shared_buffers_bytes),
        ArithmeticLine(
            label="further shared memory",
            amount_bytes=-(taken - budget.shared_buffers_bytes),
            why=f"{count} in all, counted by {budget.counted_by}",
        ),
        *(margin if request.huge_pages else ()),
        ArithmeticLine(label=beside, amount_bytes=budget.beside_bytes, total=True),
        *(
            ArithmeticLine(label=label, amount_bytes=-size, why=why)
            for label, size, why in budget.takers
        ),
    ]
    if shm_bytes:
        why = "of parallel queries, counted in the pod's limit; rule PG012"
        lines.append(ArithmeticLine(label="shared memory files", amount_bytes=-shm_bytes, why=why))
    left = budget.beside_bytes - budget.backends_bytes - shm_bytes
    lines.append(
        ArithmeticLine(
            label="page cache at worst",
            amount_bytes=left,
            why=f"backends may take 80 % of what is {beside}; rule K8S014",
            total=True,
        )
    )
    return tuple(lines)


def summed(
    parts: Sequence[tuple[str, int, str]], label: str, why: str = ""
) -> tuple[ArithmeticLine, ...]:
    """Return lines that add up to a total."""
    lines = tuple(
        ArithmeticLine(label=name, amount_bytes=size, why=reason) for name, size, reason in parts
    )
    total = sum(line.amount_bytes for line in lines)
    return (*lines, ArithmeticLine(label=label, amount_bytes=total, why=why, total=True))


def _candidates(request: StackRequest) -> Sequence[Budget]:
    """Return divisions from the best to the most frugal, huge pages not counted yet."""
    profile = {
        each.setting.name: each.setting.value
        for each in profiles.fitted(
            profiles.MachineFacts(cpus=request.cpus, memory_bytes=request.memory_bytes)
        )
    }
    work, maintenance = (_megabytes(profile[name]) for name in ("work_mem", "maintenance_work_mem"))
    buffers = request.shared_buffers_bytes or _megabytes(profile["shared_buffers"])
    usual = int(profile.get("max_connections", _DEFAULT_CONNECTIONS))
    connections = request.max_connections or usual
    works = _halved(work, profiles.LEAST_WORK_MEM)
    steps = [(connections, size, maintenance) for size in works]
    steps += [
        (connections, works[-1], size) for size in _halved(maintenance, profiles.LEAST_MAINTENANCE)
    ]
    if request.max_connections is None:
        fewer = range(connections - 1, profiles.FEWEST_CONNECTIONS - 1, -1)
        steps += [(count, works[-1], profiles.LEAST_MAINTENANCE) for count in fewer]
    return [_candidate(request, buffers, step, (connections, work, maintenance)) for step in steps]


def _candidate(
    request: StackRequest, buffers: int, step: tuple[int, int, int], best: tuple[int, int, int]
) -> Budget:
    names = ("max_connections", "work_mem", "maintenance_work_mem")
    return Budget(
        memory_bytes=request.memory_bytes,
        shared_buffers_bytes=buffers,
        max_connections=step[0],
        work_mem_bytes=step[1],
        maintenance_bytes=step[2],
        pages=0,
        counted_by="",
        reserved_bytes=0,
        lowered=tuple(
            name for name, chosen, top in zip(names, step, best, strict=True) if chosen < top
        ),
    )


def _halved(value: int, least: int) -> list[int]:
    """Return a size, its half and so on in whole MiB, down to the least."""
    sizes = [value]
    while sizes[-1] > least:
        sizes.append(max(sizes[-1] // 2 // MIB * MIB, least))
    return sizes


def _counted(
    request: StackRequest,
    budget: Budget,
    fixed: Mapping[str, str],
    counter: PageCounter,
    margin: float,
) -> Budget:
    settings = {
        **fixed,
        "shared_buffers": f"{budget.shared_buffers_bytes // KIB}kB",
        "max_connections": str(budget.max_connections),
    }
    count = counter(settings, request.page_bytes)
    return replace(
        budget,
        pages=count.pages,
        counted_by=count.counted_by,
        reserved_bytes=pages_with_margin(count.pages, margin) * request.page_bytes,
    )


def _does_not_fit(
    request: StackRequest, fixed: Mapping[str, str], margin: float
) -> DoesNotFitError:
    frugal = _counted(
        request, _candidates(request)[-1], fixed, formula_counter(request.postgres_version), margin
    )
    return DoesNotFitError(
        f"{format_bytes(request.memory_bytes)} hold no such server:"
        f" {format_bytes(frugal.reserved_bytes)} of"
        f" {'huge pages' if request.huge_pages else 'shared memory'} and"
        f" {format_bytes(frugal.backends_bytes)} of {frugal.max_connections} backends at worst"
        " leave the page cache less than a fifth of the rest"
    )


def _megabytes(text: str) -> int:
    return int(text.removesuffix("MB")) * MIB
