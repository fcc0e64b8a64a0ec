"""Load generators that the experiment names, on real servers."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from support.lacking import lacking
from support.live import TINY, Steelyard, one_by_one

pytestmark = pytest.mark.live

_SERVER = (
    "--db-driver=pgsql, '--pgsql-host={host}', '--pgsql-port={port}', '--pgsql-user={user}',"
    " '--pgsql-db={database}', --tables=1, --table-size=1000"
)
_SYSBENCH = rf"""generator:
  command: [sysbench, '{{workload}}', {_SERVER}, '--threads={{clients}}', '--time={{seconds}}', run]
  prepare_command: [sysbench, oltp_read_write, {_SERVER}, prepare]
  rate: 'transactions: +\d+ +\((?P<rate>[0-9.]+) per sec'
  latency: {{mean: '^ +avg: +([0-9.]+)', p95: '95th percentile: +([0-9.]+)'}}
"""
_FAILING = """generator:
  command: [sh, -c, "echo '{\\"rate\\": 7}'; echo out of luck >&2; exit 3"]
  rate: '$.rate'
"""


def _file(generator: str, workload: str) -> str:
    plain = "{name: writes, builtin: simple-update, scale_factor: 1}"
    assert plain in TINY
    return (
        TINY.replace(plain, workload)
        .replace("seed: 7\n", f"seed: 7\n{generator}")
        .replace("slice: 1s, ramp: 0s", "slice: 1s")
    )


@pytest.mark.slow
def test_sysbench_weighs_two_configurations(steelyard: Steelyard) -> None:
    """Its rate becomes a verdict with an interval; what it prints of latency is told beside it.

    The output of each run is kept, and the rate in it is the run's.
    """
    if shutil.which("sysbench") is None:
        lacking("there is no sysbench on this machine")
    text = _file(_SYSBENCH, "{name: oltp_read_write}")
    done = steelyard.run("run", steelyard.experiment(text), "--out", "c")
    assert done.returncode == 0, done.stderr
    record = steelyard.directory / "c"
    summary = json.loads((record / "summary.json").read_text())
    (result,) = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert result["blocks"] >= 6
    assert result["low_percent"] < result["high_percent"]
    cells = {cell["configuration"]: cell for cell in summary["cells"]}
    assert set(cells) == {"default", "buffers"}
    assert all(cell["tps"]["estimate"] > 1 for cell in cells.values())
    assert all(cell["printed_percentiles_s"]["p95"] > 0 for cell in cells.values())
    assert all(cell["latency_mean_s"] > 0 for cell in cells.values())
    report = (record / "report.md").read_text()
    assert "Steelyard reads no log of sysbench" in report
    assert "latency" not in summary
    _kept(record)


def _kept(record: Path) -> None:
    raw = sorted((record / "raw").glob("0000-*.txt.gz"))
    assert raw
    assert "per sec" in gzip.decompress(raw[0].read_bytes()).decode()


def test_a_failing_command_leaves_no_result(steelyard: Steelyard) -> None:
    """With a status other than 0 a rate counts for nothing; the error quotes what was printed."""
    workload = "{name: own, scale_factor: 1}"
    text = _file(_FAILING, workload).replace("budget: 5m", "budget: 60s")
    done = steelyard.run("run", steelyard.experiment(one_by_one(text)), "--out", "c")
    assert done.returncode == 5, done.stdout
    assert "out of luck" in done.stderr
