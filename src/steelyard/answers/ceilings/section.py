"""What the place can do at most, for people and for programs."""

from collections.abc import Sequence

from steelyard.answers.ceilings.compute import LOG_SHARE
from steelyard.answers.results import CampaignAnalysis, LogRate
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.core.units import MIB, format_percent
from steelyard.report.document import Column, Row, Table, number_column
from steelyard.report.formats import MISSING, enumeration, microseconds, rate, share
from steelyard.report.json_values import Json, number

_NAMES = {
    CeilingKind.ROUND_TRIP: "round trip",
    CeilingKind.PING_PONG: "ping-pong",
    CeilingKind.SYNC: "forced write",
    CeilingKind.DIRECT_READ: "direct read",
    CeilingKind.LOG_WRITE: "log write",
}
_NOTE = (
    "Measured before the first block. A figure of the database above one of these is a finding. "
    "Latency is the median; of forced writes the mean. The method that a treatment's commits wait "
    "for names the treatment."
)

_LOG_NOTE = (
    "The log is WAL or the append-only file, by the median run at the load that writes most of it."
    f" Above {share(LOG_SHARE)} of what the device takes a finding says that bytes are the limit,"
    " not flushes; data pages, snapshots and rewrites go to the same device on top."
)


def ceiling_tables(analysis: CampaignAnalysis) -> tuple[Table, ...]:
    """Return the ceilings of this place as a table; none where there are none."""
    if not analysis.ceilings:
        return ()
    columns = (
        Column(name="ceiling"),
        Column(name="of"),
        number_column("rate", "1/s"),
        number_column("latency", "µs"),
        number_column("5 %", "µs"),
        number_column("99 %", "µs"),
        Column(name="holds for"),
        Column(name="how, or why not"),
    )
    rows = tuple(_row(ceiling) for ceiling in analysis.ceilings)
    place = Table(title="Ceilings of this place", columns=columns, rows=rows, note=_NOTE)
    return (place, *_log_table(analysis.log_rates))


def _log_table(rates: Sequence[LogRate]) -> tuple[Table, ...]:
    """Return the logs beside what their device takes; none where no log was written."""
    if not rates:
        return ()
    columns = (
        Column(name="treatment"),
        Column(name="workload"),
        number_column("log", "MiB/s"),
        number_column("device, long writes", "MiB/s"),
        number_column("share"),
        Column(name="why not"),
    )
    rows = tuple(
        Row(
            cells=(
                each.treatment,
                each.workload,
                rate(each.bytes_per_s / MIB),
                rate(None if each.most_bytes_per_s is None else each.most_bytes_per_s / MIB),
                MISSING if each.share is None else format_percent(each.share, signed=False),
                each.absent or MISSING,
            )
        )
        for each in rates
    )
    title = "Bytes of the log beside what the device takes"
    return (Table(title=title, columns=columns, rows=rows, note=_LOG_NOTE),)


def _row(ceiling: Ceiling) -> Row:
    return Row(
        cells=(
            _NAMES[ceiling.kind],
            ceiling.subject or MISSING,
            rate(ceiling.rate_per_s),
            microseconds(ceiling.latency_s),
            microseconds(ceiling.fastest_s),
            microseconds(ceiling.p99_s),
            enumeration(ceiling.treatments) or MISSING,
            ceiling.unknown or ceiling.how,
        )
    )


def ceilings_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the ceilings for ``summary.json``, where there are some."""
    if not analysis.ceilings:
        return {}
    return {
        "ceilings": [
            {
                "kind": ceiling.kind.value,
                "of": ceiling.subject,
                "rate_per_s": number(ceiling.rate_per_s),
                "latency_s": number(ceiling.latency_s),
                "fastest_s": number(ceiling.fastest_s),
                "p99_s": number(ceiling.p99_s),
                "samples": ceiling.samples,
                "treatments": list(ceiling.treatments),
                "how": ceiling.how or None,
                "unknown": ceiling.unknown or None,
            }
            for ceiling in analysis.ceilings
        ],
        **_log_json(analysis.log_rates),
    }


def _log_json(rates: Sequence[LogRate]) -> dict[str, Json]:
    if not rates:
        return {}
    return {
        "log_rates": [
            {
                "treatment": each.treatment,
                "workload": each.workload,
                "bytes_per_s": number(each.bytes_per_s),
                "device_bytes_per_s": number(each.most_bytes_per_s),
                "absent": each.absent or None,
            }
            for each in rates
        ]
    }
