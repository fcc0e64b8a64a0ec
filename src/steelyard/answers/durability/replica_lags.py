"""How far replicas were behind their primaries while load was on: what a death would have cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from steelyard.core.evidence import Quantity
from steelyard.core.measurement import Run
from steelyard.core.schedule import CellKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLag:
    """The replica of one treatment in one cell whose load writes.

    Attributes:
        runs: In which it was seen.
        most_bytes: Of the stream, the most at any moment of any run.
        usual_bytes: Median over runs of the most in each.
        usual_s: Median over runs of what the primary took to write the most of each, at the rate of
            that run.
        compared: Both servers were asked at nearly one moment; else the primary alone was, which
            knows of its replica once a second: a second of the stream is in it.
    """

    treatment: str
    cell: CellKey
    runs: int
    most_bytes: float
    usual_bytes: float
    usual_s: float
    compared: bool


Runs = Mapping[tuple[str, CellKey], Sequence[Run]]


def replica_lags(runs: Runs) -> tuple[ReplicaLag, ...]:
    """Return the lag by treatment and cell; nothing where no replica was seen under writes.

    Args:
        runs: That count, by treatment and cell.
    """
    return tuple(_lags(runs))


def _lags(all_runs: Runs) -> Iterator[ReplicaLag]:
    for (treatment, cell), runs in all_runs.items():
        for quantity in (Quantity.REPLICA_LAG_BYTES, Quantity.REPLICA_BEHIND_BYTES):
            behind = _behind(runs, quantity)
            if behind:
                yield ReplicaLag(
                    treatment=treatment,
                    cell=cell,
                    runs=len(behind),
                    most_bytes=max(most for most, _ in behind),
                    usual_bytes=median(most for most, _ in behind),
                    usual_s=median(most / rate for most, rate in behind),
                    compared=quantity is Quantity.REPLICA_LAG_BYTES,
                )
                break


def _behind(runs: Sequence[Run], quantity: Quantity) -> list[tuple[float, float]]:
    """Return the most of each run that wrote, with the bytes per second of its stream."""
    found = []
    for run in runs:
        if run.evidence is None:
            continue
        most = run.evidence.level(quantity)
        written = run.evidence.total(Quantity.REPLICATION_BYTES)
        if most is not None and written:
            found.append((most, written / run.evidence.seconds))
    return found
