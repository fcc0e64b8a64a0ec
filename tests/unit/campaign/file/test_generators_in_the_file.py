"""A load generator that the file names: what it comes down to, and what does not go with it."""

import pytest
from experiment_texts import SMALL, load, problems_of

FILE = """\
version: 1
name: small
workloads: [{name: oltp_read_only}, {name: oltp_read_write}]
loads: {clients: 4}
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
    told = FILE.replace("--time={seconds}", "--time={seconds} --skip={ramp}")
    assert load(told).experiment.measure.ramp_s == 2.0


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("{clients} -", "{client} -", "generator.command", "`{client}` is no name"),
        ('"{database}"]', '"{clients}"]', "generator.prepare_command", "not known before a run"),
        ("  rate: ", "  grace: 30s #", "generator.command", "nothing says where"),
        ("per sec'", "per sec('", "generator.rate", "no regular expression"),
        ("{clients: 4}", "{clients: 4, rate: 50}", "loads.rate", "known to offer a rate"),
        ("{clients: 4}", "{clients: 4, generators: 2}", "loads.generators", "one process"),
        ("{clients: 4}", "{clients: 4, protocol: prepared}", "loads.protocol", "query mode"),
        ("seed: 1", "seed: 1\nsustain: 10m", "sustain", "tells nothing"),
        ("seed: 1", "seed: 1\ndesign: alternating", "design", "turns cannot be counted"),
        ("{workload}", "{log}", "generator.command", "is filled in where `log` says"),
        ("  rate_unit", "  log: [time]\n  rate_unit", "generator.rate", "nothing that is printed"),
        ("  rate_unit", "  log_time_unit: us\n  rate_unit", "generator.log_time_unit", "no log is"),
        ("  rate_unit", "  log: [latency]\n  rate_unit", "generator.log", "needs one time"),
        ("  rate_unit", "  log: [time, tps]\n  rate_unit", "generator.log", "no column that is"),
        ("seed: 1", "seed: 1\nmeasure: {ramp: 1s}", "measure.ramp", "not told of the ramp"),
        ("seed: 1", "seed: 1\nmeasure: {log: keep}", "measure.log", "none can be kept"),
        ("  rate_unit", "  flags: [-x]\n  rate_unit", "generator.flags", "stand in `command`"),
        ("1/min", "1/day", "generator.rate_unit", "is not known"),
        ("{p95:", "{p101:", "generator.latency", "neither `mean` nor a percentile"),
        (
            "{name: oltp_read_only}",
            "{name: oltp_read_only, builtin: select-only, scale_factor: 1}",
            "workloads.oltp_read_only.builtin",
            "`builtin` is for pgbench",
        ),
        (
            "default: {}",
            "default: {target: {kind: cloudnative-pg}}",
            "configurations.default.target",
            "comes from a pod there",
        ),
        (
            "sysbench {workload}",
            "sysbench --pgsql-password=x {workload}",
            "generator.command",
            "has a password in it",
        ),
    ],
)
def test_what_does_not_go_with_a_command_is_told_with_its_place(
    old: str, new: str, path: str, message: str
) -> None:
    """Each problem stands at the key that causes it."""
    assert old in FILE
    found = problems_of(FILE.replace(old, new, 1))
    assert any(each.path == path and message in each.message for each in found), found
    assert all(each.hint for each in found)


_LOGGED = (
    FILE.replace("{workload} ", "{workload} --log={log} ")
    .replace("  rate: '\\((?P<rate>[0-9.]+) per sec'\n  rate_unit: 1/min\n", "")
    .replace("  latency: {p95: 'p95: ([0-9.]+)', mean: 'avg: ([0-9.]+)'}\n", "  log: LOG\n")
)


@pytest.mark.parametrize(
    ("written", "columns", "time_unit_s", "latency_unit_s"),
    [
        ("[time, latency]", ("time", "latency"), 1.0, 1e-3),
        ("time", ("time",), 1.0, 1e-3),
        ("[skip, latency, time]\n  log_time_unit: ns\n  latency_unit: us", None, 1e-9, 1e-6),
        ("pgbench", (), 1.0, 1e-3),
    ],
)
def test_a_log_takes_the_place_of_a_rate(
    written: str, columns: tuple[str, ...] | None, time_unit_s: float, latency_unit_s: float
) -> None:
    """Its columns and units are kept; the ramp is left out by Steelyard, told or not."""
    experiment = load(_LOGGED.replace("LOG", written)).experiment
    for command in (workload.command for workload in experiment.workloads):
        assert command is not None
        assert command.log is not None
        assert command.rate is None
        assert command.log.columns == (("skip", "latency", "time") if columns is None else columns)
        assert (command.log.time_unit_s, command.log.latency_unit_s) == (
            time_unit_s,
            latency_unit_s,
        )
    assert experiment.system.logs_transactions
    assert experiment.measure.ramp_s == 2.0


def test_what_goes_with_a_log_only() -> None:
    """Turns may be asked for and the log kept; not to write it, or units of pgbench's, may not."""
    text = _LOGGED.replace("LOG", "[time]")
    assert load(text.replace("seed: 1", "seed: 1\ndesign: alternating\nmeasure: {log: keep}"))
    (problem,) = problems_of(text.replace("seed: 1", "seed: 1\nmeasure: {log: off}"))
    assert problem.path == "measure.log"
    assert "counted by its log" in problem.message
    (problem,) = problems_of(_LOGGED.replace("LOG", "pgbench\n  latency_unit: s"))
    assert problem.path == "generator.latency_unit"
    assert "units of its own" in problem.message


def test_a_key_of_a_command_without_one_is_told() -> None:
    """A rate alone says nothing."""
    (problem,) = problems_of(SMALL + "generator: {rate: 'x ([0-9]+)'}\n")
    assert problem.path == "generator.rate"
    assert "there is none" in problem.message


def test_redis_has_its_own_generator() -> None:
    """A command puts load on PostgreSQL only."""
    redis = FILE.replace("default: {}", "default: {target: {kind: redis-local}}")
    redis = redis.replace("postgres: {work_mem: 8MB}", "redis: {io-threads: 2}")
    assert any("another system" in each.message for each in problems_of(redis))
