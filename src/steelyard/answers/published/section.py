"""Redis beside the published figures: a table that says what it cannot say."""

from steelyard.answers.published.results import PublishedRequests, RequestFigures
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.document import Column, Row, Section, Table, number_column
from steelyard.report.formats import MISSING, milliseconds, rate
from steelyard.report.json_values import Json, number

_TITLE = "Beside the published figures (published, other machine)"
_NOTE = (
    "Published, other machine: redis-benchmark -n 50000 -c 20 -d 180000 on Redis 7, one run per"
    " configuration, one key, one thread; Longhorn is replicated storage. Which of the two PINGs of"
    " the program was printed is not known, nor what the two tunings set. Standing beside each"
    " other is no comparison: machine, storage, network, version and time all differ. `of AOF off`"
    " is the rate over that without an append-only file on the same side, and the only column that"
    " may be laid beside the other; of the published rows with data, too, it is over the one"
    " without any (none with data was published), here over one that held as many keys as the row."
)
# The keys are those of the published figures.
_CONFIGURATIONS = {
    "local-aof-off": "local SSD, AOF off",
    "local-aof-on-baseline": "local SSD, AOF on",
    "local-aof-on-tuning-1": "local SSD, AOF on, tuning 1",
    "local-aof-on-tuning-2": "local SSD, AOF on, tuning 2",
    "local-aof-on-tuning-2-data": "local SSD, AOF on, tuning 2, with data",
    "longhorn-aof-on-empty": "Longhorn, AOF on",
    "longhorn-aof-on-data": "Longhorn, AOF on, with data",
}


def requests_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the table beside the published figures of Redis, or nothing where there are none."""
    figures = analysis.published_requests
    if figures is None:
        return ()
    columns = (
        Column(name="command"),
        Column(name="where"),
        Column(name="configuration"),
        number_column("keys held", spare=True),
        number_column("requests", unit="1/s"),
        number_column("of AOF off"),
        number_column("mean", unit="ms"),
        number_column("p99", unit="ms"),
    )
    rows = tuple(_row(row) for row in figures.rows)
    table = Table(title=_TITLE, columns=columns, rows=rows, note=f"{_NOTE} {_here(analysis)}")
    return (Section(anchor="published", title=_TITLE, blocks=(table,)),)


def _here(analysis: CampaignAnalysis) -> str:
    """Return what was done otherwise here; a worker of redis-benchmark is a process."""
    most = max(load.threads for load in analysis.experiment.loads)
    by = "" if most == 1 else f"; {most} processes of the generator sent them, not one"
    slice_s = analysis.experiment.measure.slice_s
    return (
        f"Here: medians of {slice_s:g} s runs in blocks ordered by coin, not 50,000 requests{by}."
    )


def _row(row: RequestFigures) -> Row:
    name = row.configuration
    return Row(
        cells=(
            row.command,
            "published" if row.published else "here",
            _CONFIGURATIONS.get(name, name) if row.published else name,
            MISSING if row.held_keys is None else f"{row.held_keys:,}",
            rate(row.per_s),
            MISSING if row.of_off is None else f"{100.0 * row.of_off:.1f} %",
            milliseconds(row.mean_s),
            milliseconds(row.p99_s),
        )
    )


def requests_json(figures: PublishedRequests | None) -> dict[str, Json]:
    """Return the same table for programs; nothing where there is none."""
    if figures is None:
        return {}
    rows: list[Json] = [
        {
            "command": row.command,
            "configuration": row.configuration,
            "published": row.published,
            "held_keys": row.held_keys,
            "requests_per_s": number(row.per_s),
            "of_aof_off": number(row.of_off),
            "latency_mean_s": number(row.mean_s),
            "latency_p99_s": number(row.p99_s),
        }
        for row in figures.rows
    ]
    return {"published_requests": rows}
