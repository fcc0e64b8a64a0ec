"""Which columns a transaction log of pgbench has: they follow from its flags alone.

A line of ``pgbench --log`` is ``client_id transaction_no time script_no time_epoch time_us``, then
``schedule_lag`` under ``--rate`` and ``retries`` under ``--max-tries`` other than 1. Nothing in the
file says which of the two a seventh column is.

Source: PostgreSQL 18, documentation of pgbench, "Per-Transaction Logging"; ``doLog`` in pgbench.c.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.model.errors import InputError
from steelyard.model.units import US_PER_S

_LEAST_COLUMNS = 6
AGGREGATED_COLUMNS = 15
MOST_SCRIPTS = 128  # MAX_SCRIPTS in pgbench.c


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """What the lines of a log mean.

    Attributes:
        scripts: Names by script number.
        open_loop: There is a column ``schedule_lag``: the run had a rate.
        retries: There is a column ``retries``: transactions could be tried more than once.
        latency_limit_s: Transactions that took longer are late; None: there is no limit.
        sampled: Share of the transactions that the log holds.
    """

    scripts: tuple[str, ...]
    open_loop: bool
    retries: bool
    latency_limit_s: float | None = None
    sampled: float = 1.0

    @property
    def columns(self) -> int:
        """Return how many columns a line has."""
        return _LEAST_COLUMNS + self.open_loop + self.retries


def form_of(
    first_lines: Iterable[bytes],
    *,
    open_loop: bool | None = None,
    latency_limit_s: float | None = None,
) -> LogForm:
    """Return the form of a log whose flags nobody knows; its scripts are named by number.

    Args:
        first_lines: Some whole lines; a script that first runs later is not known.
        open_loop: Whether the log was written under ``--rate``; needed for seven columns only.
        latency_limit_s: Of ``--latency-limit``, which leaves no trace but skipped transactions.

    Raises:
        InputError: These are no lines of one such log, or seven columns need ``open_loop``.
    """
    rows = [line.split() for line in first_lines]
    widths = {len(row) for row in rows}
    numbers = all(_is_transaction(row) for row in rows)
    if len(widths) != 1 or not numbers:
        raise InputError(
            "these are no lines of a transaction log of pgbench",
            hint="Give the files that pgbench --log wrote, without --aggregate-interval.",
        )
    further = widths.pop() - _LEAST_COLUMNS
    if further == 1 and open_loop is None:
        raise InputError(
            "the seventh column can be the schedule lag of a rate, or retries: no line tells",
            hint="Say whether pgbench had --rate (open_loop=True) or --max-tries (False).",
        )
    if open_loop is not None and open_loop is not (further == 2 or (further == 1 and open_loop)):
        raise InputError(
            f"lines of {further + _LEAST_COLUMNS} columns were not written "
            f"{'with' if open_loop else 'without'} --rate",
            hint="Leave open_loop out, or give other files.",
        )
    lagging = further == 2 or (further == 1 and bool(open_loop))
    return LogForm(
        scripts=tuple(f"script {n}" for n in range(max(int(row[3]) for row in rows) + 1)),
        open_loop=lagging,
        retries=further > lagging,
        latency_limit_s=latency_limit_s,
    )


def transaction_lines(lines: Iterable[bytes]) -> list[bytes]:
    """Return the lines that can be a transaction's, of the number of columns that most have."""
    whole = [line for line in lines if _is_transaction(line.split())]
    widths = Counter(len(line.split()) for line in whole)
    common = widths.most_common(1)[0][0] if widths else 0
    return [line for line in whole if len(line.split()) == common]


def is_aggregated(lines: Sequence[bytes]) -> bool:
    """Return whether most lines are those of an aggregated log."""
    rows = [line.split() for line in lines]
    fit = sum(len(row) == AGGREGATED_COLUMNS and all(map(bytes.isdigit, row)) for row in rows)
    return 2 * fit > len(rows)


def first_start_us(lines: Iterable[bytes]) -> int:
    """Return when the earliest of some transactions was due, microseconds since the epoch.

    Under a rate that is its scheduled start. What did not succeed tells its end alone.

    Raises:
        ValueError: There is none.
    """
    rows = [line.split() for line in lines]
    return min(
        int(row[4]) * US_PER_S + int(row[5]) - (int(row[2]) if row[2].isdigit() else 0)
        for row in rows
    )


def last_end_us(lines: Iterable[bytes]) -> int | None:
    """Return when the latest of some transactions ended; None where no line is one."""
    ends = [int(row[4]) * US_PER_S + int(row[5]) for row in map(bytes.split, _plain(lines))]
    return max(ends, default=None)


def _plain(lines: Iterable[bytes]) -> Iterable[bytes]:
    return (line for line in lines if _is_transaction(line.split()))


def _is_transaction(row: list[bytes]) -> bool:
    """Return whether these can be the words of a line: all numbers, but for the time."""
    fields = (*row[:2], *row[3:])
    epoch_s = row[4] if len(row) > 4 else b""
    return (
        _LEAST_COLUMNS <= len(row) <= _LEAST_COLUMNS + 2
        and all(field.isdigit() for field in fields)
        and len(epoch_s) == 10
        and len(row[3]) <= 4
    )
