"""Load generators that the experiment names, on real servers."""

import gzip
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from steelyard.core.measurement import Run
from steelyard.record.directory import read_campaign
from support.lacking import lacking
from support.live import (
    TINY,
    Steelyard,
    ending,
    interrupted,
    lasting,
    one_by_one,
    wait_for,
    whole_report,
)

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
    plain = "{name: writes, builtin: simple-update, scale: 1}"
    assert plain in TINY
    return (
        TINY.replace(plain, workload)
        .replace("seed: 7\n", f"seed: 7\n{generator}")
        .replace("run_time: 1s, discard_start: 0s", "run_time: 1s")
        .replace(", protocol: simple", "")
    )


@pytest.mark.slow
def test_sysbench_weighs_two_configurations(steelyard: Steelyard) -> None:
    """Its rate becomes a verdict with an interval; what it prints of latency is told beside it.

    The output of each run is kept, and the rate in it is the run's.
    """
    if shutil.which("sysbench") is None:
        lacking("there is no sysbench on this machine")
    text = ending(_file(_SYSBENCH, "{name: oltp_read_write}"))
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 0, done.stderr
    record = steelyard.directory / "c"
    summary = json.loads((record / "summary.json").read_text())
    (result,) = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert result["blocks"] == 3
    assert result["low_percent"] < result["high_percent"]
    cells = {cell["configuration"]: cell for cell in summary["cells"]}
    assert set(cells) == {"default", "buffers"}
    assert all(cell["tps"]["estimate"] > 1 for cell in cells.values())
    assert all(cell["printed_percentiles_s"]["p95"] > 0 for cell in cells.values())
    assert all(cell["latency_mean_s"] > 0 for cell in cells.values())
    report = whole_report(record)
    assert "Steelyard reads no log of sysbench" in report
    assert "latency" not in summary
    raw = sorted((record / "raw").glob("0000-*.txt.gz"))
    assert raw
    assert "per sec" in gzip.decompress(raw[0].read_bytes()).decode()


@pytest.mark.slow
def test_a_failing_command_leaves_no_result(steelyard: Steelyard) -> None:
    """With a status other than 0 a rate counts for nothing; the error quotes what was printed."""
    workload = "{name: own, scale: 1}"
    text = _file(_FAILING, workload).replace("budget: 5m", "budget: 60s")
    done = steelyard.run(
        "run", steelyard.experiment(one_by_one(text)), "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 5, done.stdout
    assert "out of luck" in done.stderr


@pytest.mark.slow
def test_blocks_that_are_too_long_for_the_budget_end_it_after_the_first(
    steelyard: Steelyard,
) -> None:
    """It was promised enough of them; a run that goes on without a verdict takes what fits."""
    generator = _FAILING.replace("echo out of luck >&2; exit 3", "sleep 20")
    text = _file(generator, "{name: own, scale: 1}").replace("5m, width: 99%", "150s")
    done = steelyard.run("run", steelyard.experiment(one_by_one(text)), "--dir", "c")
    assert done.returncode == 3, done.stdout
    (planned,) = (each["plan"] for each in steelyard.journal if each["kind"] == "planned")
    assert planned["stopping"]["max_blocks"] >= 4
    assert steelyard.complete_blocks == 1
    assert re.search("the budget of .* has room for", done.stderr)
    assert re.search(r"--budget [345]m", done.stderr)
    steelyard.until_blocks(2, "run", "--resume", "c", "--no-verdict")


_PROGRAM = Path(__file__).parents[1] / "support" / "own_load.py"
_PYTHON = "/usr/bin/python3"  # which every account may run
# pgbench ends by its own timer in place of SIGTERM, so that it writes out all of its log.
_WRAPPER = """#!/bin/sh
trap '' TERM
pgbench --no-vacuum --select-only --client="$2" --time="$3" --log --log-prefix="$1.part" &
child=$!
trap 'kill -ALRM $child' TERM
wait $child
wait $child
status=$?
for part in "$1".part.*; do mv "$part" "$1"; done
exit $status
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a directory whose programs the account of the servers may run."""
    made = Path(tempfile.mkdtemp(prefix="steelyard-test-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def _logging(home: Path) -> str:
    """Return the generator of ``support.own_load``."""
    if not Path(_PYTHON).exists():
        lacking(f"there is no {_PYTHON}")
    shutil.copy(_PROGRAM, home / "load.py")
    words = f"{_PYTHON}, {home}/load.py, '{{clients}}', '{{seconds}}', '{{log}}'"
    return f"generator:\n  command: [{words}, '{{configuration}}']\n  log: [time, latency]\n"


def _counted(steelyard: Steelyard) -> list[Run]:
    return list(read_campaign(steelyard.directory / "c").counted_runs)


@pytest.mark.slow
def test_a_program_with_a_log_takes_turns(steelyard: Steelyard, home: Path) -> None:
    """Two equal configurations are alike, and one whose clients idle for 30 % of the time is not.

    All have percentiles; the design says why it alternates.
    """
    text = ending(_file(_logging(home), "{name: own, scale: 1}"))
    text = text.replace("run_time: 1s", "run_time: 3s")
    idle = "  idle:\n    extends: default\n    postgres: {work_mem: 5MB}\n"
    done = steelyard.run("run", steelyard.experiment(text + idle), "--dir", "c", "--verbose")
    assert done.returncode == 0, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["design"]["mode"] == "alternating"
    assert "the log of python3 counts their turns" in summary["design"]["reason"]
    pooled = {c["configuration"]: c for c in summary["comparisons"] if c["clients"] == "pooled"}
    assert pooled["buffers"]["low_percent"] < 15.0  # three blocks of a busy machine
    assert pooled["buffers"]["high_percent"] > -5.0
    # Its interval is wide where neighbours take the CPU: intervals are for tests/method to prove.
    assert pooled["idle"]["effect_percent"] < -10.0
    for run in _counted(steelyard):
        assert run.measurement is not None
        assert run.measurement.transactions == sum(turn.transactions for turn in run.turns) > 0
        assert run.measurement.latency_mean_s is not None
        assert run.latency is not None
    assert "latency" in summary


@pytest.mark.slow
def test_the_log_of_a_wrapped_pgbench_holds_what_it_counts(
    steelyard: Steelyard, home: Path
) -> None:
    """One by one the rate is the log's after the ramp; no line is lost or read twice.

    The wrapper renames the file at its end.
    """
    wrapper = home / "wrapped.sh"
    wrapper.write_text(_WRAPPER)
    wrapper.chmod(0o755)
    words = f"[{wrapper}, '{{log}}', '{{clients}}', '{{seconds}}']"
    generator = f"generator:\n  command: {words}\n  log: pgbench\n"
    text = one_by_one(ending(_file(generator, "{name: own, scale: 1}")))
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 0, done.stderr
    for run in _counted(steelyard):
        assert run.measurement is not None
        assert len(run.measurement.series) == 3
        assert run.measurement.seconds == 1.0
        assert run.measurement.transactions == run.measurement.series[-1].transactions
        assert run.latency is not None
    record = steelyard.directory / "c" / "raw"
    printed = [gzip.decompress(each.read_bytes()).decode() for each in record.glob("*.txt.gz")]
    processed = sum(int(n) for text in printed for n in re.findall(r"processed: (\d+)", text))
    series = (r.measurement.series for r in _counted(steelyard) if r.measurement is not None)
    held = sum(second.transactions for one in series for second in one)
    assert 0.8 * processed < held <= processed


@pytest.mark.slow
def test_a_generator_that_is_killed_in_its_turns_is_told(steelyard: Steelyard, home: Path) -> None:
    """The block is redone, for the reason that its status tells; then the campaign goes on."""
    text = lasting(_file(_logging(home), "{name: own, scale: 1}"))
    process = steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    wait_for(lambda: _killed(home), process)
    wait_for(lambda: any(not block["complete"] for block in steelyard.blocks), process)
    before = steelyard.complete_blocks
    wait_for(lambda: steelyard.complete_blocks > before, process)
    interrupted(process)
    (void,) = [block for block in steelyard.blocks if not block["complete"]][:1]
    assert "ended with -9 in its turns" in void["reason"]


def _killed(home: Path) -> bool:
    """Kill the generators that are there; return whether there were any."""
    found = False
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{home}/load.py" in entry.read_text().split("\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)
                found = True
    return found
