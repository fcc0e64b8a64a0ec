"""A load generator that the file names: what it comes down to, and what does not go with it."""

import pytest
from experiment_texts import load

FILE = """\
version: 1
name: small
workloads: [{name: oltp_read_only}, {name: oltp_read_write}]
load: {clients: 4}
generator:
  command: sysbench {workload} --pgsql-db={database} --threads={clients} --time={seconds} run
  prepare_command: [./make-data, "{directory}", "{database}"]
  rate: '\\((?P<rate>[0-9.]+) per sec'
  rate_unit: 1/min
  latency: {p95: 'p95: ([0-9.]+)', mean: 'avg: ([0-9.]+)'}
seed: 1
configurations:
  default: {}
  other: {extends: default, postgres: {work_mem: 8MB}}
"""


def test_a_ramp_is_kept_where_the_command_is_told_of_it() -> None:
    """Only the program itself can leave its start out."""
    told = FILE.replace("--time={seconds}", "--time={seconds} --skip={discard_start}")
    assert load(told).experiment.measure.discard_start_s == 2.0


_LOGGED = (
    FILE.replace("{workload} ", "{workload} --log={log} ")
    .replace("  rate: '\\((?P<rate>[0-9.]+) per sec'\n  rate_unit: 1/min\n", "")
    .replace("  latency: {p95: 'p95: ([0-9.]+)', mean: 'avg: ([0-9.]+)'}\n", "  log: LOG\n")
)


@pytest.mark.parametrize(
    ("written", "columns", "units"),
    [
        ("[time, latency]", "time latency", "s ms"),
        ("time", "time", "s ms"),
        (
            "[skip, latency, time]\n  log_time_unit: ns\n  latency_unit: us",
            "skip latency time",
            "ns us",
        ),
        ("pgbench", "pgbench", "s ms"),
    ],
)
def test_a_log_takes_the_place_of_a_rate(written: str, columns: str, units: str) -> None:
    """Its columns and units are kept; the ramp is left out by Steelyard, told or not."""
    experiment = load(_LOGGED.replace("LOG", written)).experiment
    for command in (workload.command for workload in experiment.workloads):
        assert command is not None
        assert command.rate is None
        assert command.log == tuple(columns.split())
        assert f"{command.log_time_unit} {command.latency_unit}" == units
    assert experiment.system.logs_transactions
    assert experiment.measure.discard_start_s == 2.0


def test_what_goes_with_a_log_only() -> None:
    """Turns may be asked for and the log kept."""
    text = _LOGGED.replace("LOG", "[time]")
    assert load(text.replace("seed: 1", "seed: 1\ndesign: alternating\nmeasure: {log: keep}"))
