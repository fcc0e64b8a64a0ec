"""Evidence around runs that never were: a run's time split into parts of known size."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from steelyard.core import measurement
from steelyard.core.campaign import CampaignRecord

RAMP_S = 2
UNSEEN = 0.01  # of a transaction's time
_STEADIER = 0.2  # exponent: 1 would move with tps
# The events that stand for a class.
EVENTS = {
    measurement.WaitClass.CPU: ("CPU", ""),
    measurement.WaitClass.IO: ("IO", "DataFileRead"),
    measurement.WaitClass.WAL: ("IO", "WalSync"),
    measurement.WaitClass.LWLOCK: ("LWLock", "ProcArray"),
    measurement.WaitClass.LOCK: ("Lock", "transactionid"),
    measurement.WaitClass.REPLICATION: ("IPC", "SyncRep"),
    measurement.WaitClass.CLIENT: ("Client", "ClientRead"),
    measurement.WaitClass.OTHER: ("Timeout", "PgSleep"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the probes see of a configuration.

    Attributes:
        parts_s: Seconds of a transaction in each class; stretched alike in every run so that
            they cover its clients / tps but for ``UNSEEN``.
        per_transaction: Totals of a transaction, by quantity; they move far less than tps.
        per_second: Totals of a second.
    """

    parts_s: Mapping[measurement.WaitClass, float]
    per_transaction: Mapping[measurement.Quantity, float] = field(default_factory=dict)
    per_second: Mapping[measurement.Quantity, float] = field(default_factory=dict)
    absent: tuple[measurement.Absence, ...] = ()


def watched(run: measurement.Run, seen: Seen) -> measurement.Run:
    """Return the run with its seconds and with the evidence of such a configuration."""
    measured = run.measurement
    assert measured is not None
    seconds = RAMP_S + round(measured.seconds)
    series = measured.series or tuple(
        measurement.Second(
            end_s=float(place + 1), transactions=measured.tps, seconds=1.0, latency_mean_s=None
        )
        for place in range(seconds)
    )
    ramp = sum(second.transactions for second in series[:RAMP_S])
    whole = measured.transactions + ramp
    latency_s = run.cell.load.clients / measured.tps
    stretch = latency_s * (1.0 - UNSEEN) / sum(seen.parts_s.values())
    parts_s = {group: part_s * stretch for group, part_s in seen.parts_s.items()}
    seen = replace(
        seen,
        parts_s=parts_s,
        per_transaction={n: v * stretch**_STEADIER for n, v in seen.per_transaction.items()},
    )
    per_transaction = {name: value * whole for name, value in seen.per_transaction.items()}
    per_second = {name: value * (seconds + 0.5) for name, value in seen.per_second.items()}
    evidence = measurement.Evidence(
        seconds=seconds + 0.5,
        totals=per_transaction | per_second,
        levels={measurement.Quantity.CPUS: 2.0},
        waits=_waits(seen, measured.tps),
        series=_series(seen, series),
        others=(),
        absent=seen.absent,
        cost=measurement.ProbeCost(own_cpu_s=0.012, server_cpu_s=0.007),
    )
    return replace(run, measurement=replace(measured, series=series), evidence=evidence)


def _waits(seen: Seen, tps: float) -> measurement.Waits:
    events = [
        measurement.WaitEvent(
            kind=EVENTS[group][0], name=EVENTS[group][1], group=group, sessions=part_s * tps
        )
        for group, part_s in seen.parts_s.items()
        if part_s
    ]
    return measurement.Waits(
        source="pg_stat_activity at 10 Hz",
        samples=50,
        lost=0,
        events=tuple(sorted(events, key=lambda event: -event.sessions)),
    )


def _series(seen: Seen, seconds: tuple[measurement.Second, ...]) -> tuple[measurement.Series, ...]:
    ends = tuple(second.end_s for second in seconds)
    rates = [second.transactions / second.seconds for second in seconds]
    totals = {**seen.per_transaction}
    host = tuple(totals) + tuple(seen.per_second)
    return (
        measurement.Series(
            subject="waits",
            names=tuple(measurement.WaitClass),
            end_s=ends,
            rows=tuple(
                tuple(seen.parts_s.get(group, 0.0) * rate for group in measurement.WaitClass)
                for rate in rates
            ),
        ),
        measurement.Series(
            subject="counters",
            names=(measurement.Quantity.CHECKPOINTS,),
            end_s=ends,
            rows=tuple((float(place == 3),) for place, _ in enumerate(ends)),
        ),
        measurement.Series(
            subject="host",
            names=host,
            end_s=ends,
            rows=tuple(
                (*(value * rate for value in totals.values()), *seen.per_second.values())
                for rate in rates
            ),
        ),
    )


def watched_record(record: CampaignRecord, seen: Mapping[str, Seen]) -> CampaignRecord:
    """Return the record with evidence around the runs of the named configurations."""
    runs = tuple(
        watched(run, seen[run.configuration]) if run.configuration in seen else run
        for run in record.runs
    )
    return replace(record, runs=runs)
