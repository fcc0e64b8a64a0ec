"""What other programs printed becomes rows: recordings of real tools, and no traceback ever."""

from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.answers.claims.examination import (
    examine,
    imported_document,
    published_tables,
    repeats_numbered,
)
from steelyard.answers.claims.tables import read_table, table_text
from steelyard.core.published import PublishedRow
from steelyard.core.wording import InputError
from steelyard.report.terminal import render_terminal
from steelyard.systems.printed_results import read_printed

RECORDINGS = Path(__file__).parents[2] / "recordings"

# Made from the documentation of HammerDB: no recording of it could be had.
HAMMERDB = """\
Vuser 1:Rampup complete, Taking start Transaction Count.
Vuser 1:8 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 21654 NOPM from 49802 PostgreSQL TPM
"""
# Made from the console's own words, likewise.
CLOUDWATCH = """\
Full label,CPUUtilization,CPUCreditBalance
Label,CPUUtilization,CPUCreditBalance
2026/11/24 10:00:00,41.5,210
2026/11/24 10:05:00,43.5,190
"""


def _recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


def _one(text: str) -> PublishedRow:
    _, (row,) = read_printed(text)
    return row


def _figures(row: PublishedRow) -> dict[str, float]:
    return {name: figure.value for name, figure in row.figures}


@pytest.mark.parametrize("version", ["15", "16", "18"])
def test_pgbench_as_recorded(version: str) -> None:
    """Workload, clients, rate and mean latency, as every version prints them."""
    row = _one(_recorded(f"pgbench/{version}/plain.stdout"))
    assert (row.workload, row.clients, row.rate_per_s) == ("select-only", 1, None)
    figures = _figures(row)
    assert figures["tps"] * figures["latency_mean"] == pytest.approx(1.0, rel=0.05)


def test_a_rate_of_pgbench_is_an_open_loop() -> None:
    """Its clients do not limit the load, so Little's law says nothing of it."""
    assert _one(_recorded("pgbench/15/rate.stdout")).rate_per_s is not None


def test_several_outputs_in_one_file_are_several_runs() -> None:
    """Each that begins with the type of its transactions."""
    text = _recorded("pgbench/15/plain.stdout")
    assert len(read_printed(text + text)[1]) == 2


def test_a_log_of_pgbench_as_recorded() -> None:
    """Percentiles of what succeeded, over the time of the log."""
    row = _one(_recorded("pgbench_log/15/failed.log.0"))
    figures = _figures(row)
    assert row.clients is not None
    assert 0.0 < figures["latency_p50"] <= figures["latency_p99"] <= figures["latency_max"]


def test_redis_benchmark_as_recorded() -> None:
    """Both ways to print."""
    form, rows = read_printed(_recorded("redis_benchmark_csv/7.0.15/set-get.stdout"))
    assert form == "redis-benchmark-csv"
    assert [row.workload for row in rows] == ["SET", "GET"]
    assert all({"tps", "latency_mean", "latency_p99"} <= set(_figures(row)) for row in rows)
    row = _one(_recorded("redis_benchmark/7.0.15/set.stdout"))
    assert (row.workload, row.clients) == ("SET", 20)


def test_sysbench_as_recorded_and_with_a_database() -> None:
    """Events of a CPU test, transactions of a database."""
    row = _one(_recorded("sysbench/1.0.20/cpu.stdout"))
    assert (row.unit, row.clients) == ("event", 1)
    assert _figures(row)["tps"] > 100.0
    row = _one(_recorded("sysbench/1.0.20/oltp-read-write.stdout"))
    assert (row.unit, row.clients, row.seconds) == ("transaction", 2, 5.0061)
    assert _figures(row)["tps"] == 339.56
    assert _figures(row)["latency_mean"] == pytest.approx(0.00588)
    assert _figures(row)["latency_p99"] == pytest.approx(0.01298)


def test_iostat_as_recorded() -> None:
    """The first report counts from the start of the machine, and is left out."""
    _, rows = read_printed(_recorded("host/iostat/iostat-x.txt"))
    told = {name: (value, row.unit) for row in rows for name, value in _figures(row).items()}
    assert told["loop0 r/s"] == (500.0, "1/s")
    assert told["loop0 rareq-sz"] == (8.0, "KiB")


@pytest.mark.parametrize(
    ("version", "buffers"), [(15, {"buffers hit": 773, "buffers read": 195}), (18, {})]
)
def test_explain_as_recorded(version: int, buffers: dict[str, float]) -> None:
    """Times, and buffers of the topmost node alone, not those of planning below it."""
    _, rows = read_printed(_recorded(f"postgres/explain-{version}.txt"))
    told = {name: value for row in rows for name, value in _figures(row).items()}
    assert {"planning time", "execution time"} <= told.keys()
    assert buffers.items() <= told.items()
    assert told["buffers hit"] > 0


def test_forms_made_from_documentation() -> None:
    """HammerDB, CloudWatch."""
    row = _one(HAMMERDB)
    assert (row.clients, _figures(row)) == (8, {"NOPM": 21654.0})
    _, rows = read_printed(CLOUDWATCH)
    means = {k: v for r in rows if r.statistic == "mean" for k, v in _figures(r).items()}
    assert means == {"CPUUtilization": 42.5, "CPUCreditBalance": 200.0}


TEXTS = (
    *(HAMMERDB, CLOUDWATCH),
    *(
        _recorded(name)
        for name in (
            "pgbench/15/plain.stdout",
            "pgbench_log/15/failed.log.0",
            "redis_benchmark/7.0.15/set.stdout",
            "redis_benchmark_csv/7.0.15/set-get.stdout",
            "sysbench/1.0.20/cpu.stdout",
            "sysbench/1.0.20/oltp-read-write.stdout",
            "postgres/explain-15.txt",
            "host/iostat/iostat-x.txt",
        )
    ),
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_was_read_in_is_a_table_that_claims_examines(text: str) -> None:
    """Written, read again, examined and shown; one run has no interval."""
    rows = repeats_numbered([*read_printed(text)[1]])
    named = [replace(row, configuration="x") for row in rows]
    table = read_table(table_text(named), "t.csv")
    assert len(table.rows) == len(rows)
    assert all(each.verdict is None for each in examine(published_tables([table])).supported)
    shown = render_terminal(imported_document(table.rows, "x"), whole=True)
    assert "n = 1, no interval" in shown


def test_what_is_no_output_is_refused() -> None:
    """With a sentence."""
    for text, form in (("", ""), ("hello", ""), ("transaction type: x\n", ""), ("x", "iostat")):
        with pytest.raises(InputError):
            read_printed(text, form)
