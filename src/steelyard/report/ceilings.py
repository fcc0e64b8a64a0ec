"""What the place can do at most, for people and for programs."""

from steelyard.analysis.results import CampaignAnalysis
from steelyard.model.ceilings import Ceiling, CeilingKind
from steelyard.report.document import Column, Row, Table, number_column
from steelyard.report.formats import MISSING, enumeration, microseconds, rate
from steelyard.report.json_values import Json, number

_NAMES = {
    CeilingKind.ROUND_TRIP: "round trip",
    CeilingKind.PING_PONG: "ping-pong",
    CeilingKind.SYNC: "forced write",
    CeilingKind.DIRECT_READ: "direct read",
}
_NOTE = (
    "Measured before the first block. A figure of the database above one of these is a finding. "
    "Latency is the median; of forced writes the mean. The method that a treatment's commits wait "
    "for names the treatment."
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
    return (Table(title="Ceilings of this place", columns=columns, rows=rows, note=_NOTE),)


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
        ]
    }
