"""A load generator that the file names: what it comes down to, and what does not go with it."""

from dataclasses import replace

import pytest
from experiment_texts import SMALL, load, problems_of

from steelyard.core.places import WorkersAsked

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


_WORKERS = SMALL.replace("clients: 1", "clients: [4, 8]").replace(
    "seed: 1", "generator: {workers: 4}\nseed: 1"
)


def test_workers_divide_the_load_as_processes_do() -> None:
    """Each has so many generators; clients and threads are the total, and one thread each."""
    experiment = load(_WORKERS).experiment
    assert experiment.workers == WorkersAsked(number=4)
    assert [(one.clients, one.threads, one.generators) for one in experiment.loads] == [
        (4, 4, 4),
        (8, 4, 4),
    ]
    two = load(_WORKERS.replace("protocol", "generators: 2, protocol").replace("[4, 8]", "8"))
    assert [one.generators for one in two.experiment.loads] == [8]
    assert load(SMALL).experiment.workers is None


def test_what_does_not_go_with_workers_is_said_at_once() -> None:
    """Fewer clients or threads than generators, a command, and pods that have the load."""
    text = _WORKERS.replace("[4, 8]", "[2, 8], threads: 3").replace(
        "default: {}", "default: {target: {kind: kubernetes}}"
    )
    told = " ".join(problem.message for problem in problems_of(text))
    assert "4 generators on 4 workers need as many clients, and the smallest load has 2" in told
    assert "threads 3 are fewer than the 4 generators on 4 workers" in told
    assert "not from workers" not in told  # in the Job they are pods
    named = FILE.replace("generator:\n", "generator:\n  workers: 2\n")
    (problem,) = problems_of(named)
    assert "a command is one process" in problem.message
    (problem,) = problems_of(_WORKERS.replace("workers: 4", "workers: 0"))
    assert "`0` is out of range" in problem.message


_ELSEWHERE = _WORKERS.replace("workers: 4", "workers: 4, scheduler: 'tls://load:8786'").replace(
    "default: {}", "default: {target: {kind: existing, uri: 'postgresql://db/shop'}}"
)


def test_workers_of_a_scheduler_are_waited_for() -> None:
    """Five minutes, or as long as the file says; without TLS none is reached."""
    assert load(_ELSEWHERE).experiment.workers == WorkersAsked(
        number=4, scheduler="tls://load:8786", wait_s=300.0
    )
    changed = _ELSEWHERE.replace("8786'", "8786', wait: 10s")
    assert load(changed).experiment.workers == WorkersAsked(
        number=4, scheduler="tls://load:8786", wait_s=10.0
    )
    (problem,) = problems_of(_ELSEWHERE.replace("tls://", "tcp://"))
    assert "is not the address of a scheduler with TLS" in problem.message


_HOSTS = _ELSEWHERE.replace(
    "workers: 4, scheduler: 'tls://load:8786'", "hosts: [load1, admin@load2:2222]"
)


def test_hosts_have_a_worker_each() -> None:
    """Their number need not be written; after a loss fewer may be enough."""
    workers = load(_HOSTS).experiment.workers
    assert workers == WorkersAsked(hosts=("load1", "admin@load2:2222"))
    assert (workers.number, workers.are_here) == (2, False)
    assert {one.generators for one in load(_HOSTS).experiment.loads} == {2}
    fewer = load(_HOSTS.replace("hosts:", "workers: 2, workers_at_least: 1, wait: 1m, hosts:"))
    assert fewer.experiment.workers == replace(workers, at_least=1, wait_s=60.0)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "user@", "a@b@c", "ssh://a/b"])
def test_a_host_is_nothing_else_to_ssh(host: str) -> None:
    """Neither an option of it nor two words."""
    (problem,) = problems_of(_HOSTS.replace("load1", f"'{host}'"))
    assert "is not a host of ssh" in problem.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _HOSTS.replace("kind: existing, uri: 'postgresql://db/shop'", "kind: kubernetes"),
            "the load comes from the cluster there",
        ),
        (
            _WORKERS.replace("seed: 1", "seed: 1\nsustain: 10m").replace(
                "default: {}", "default: {target: {kind: kubernetes}}"
            ),
            "fetched from pods of workers",
        ),
        (_HOSTS.replace("hosts:", "workers: 3, hosts:"), "2 hosts have a worker each"),
        (
            _HOSTS.replace("hosts:", "scheduler: 'tls://load:8786', hosts:"),
            "a scheduler has workers already",
        ),
        (_HOSTS.replace("hosts:", "workers_at_least: 3, hosts:"), "3 workers are needed at least"),
        (_WORKERS.replace("workers: 4", "workers: 4, workers_at_least: 2"), "are started again"),
        (
            _ELSEWHERE.replace("workers: 4, ", ""),
            "`scheduler` is about workers, and `workers` is missing",
        ),
        (_WORKERS.replace("workers: 4", "workers: 4, wait: 10s"), "and not waited for"),
        (
            _ELSEWHERE.replace("uri: 'postgresql://db/shop'", "").replace("existing, ", "local"),
            "a local",
        ),
        (_ELSEWHERE.replace("seed: 1", "seed: 1\nsustain: 10m"), "the log of a long run"),
    ],
)
def test_what_does_not_go_with_a_scheduler(text: str, message: str) -> None:
    """What would have no effect there, and what cannot be done there."""
    (problem,) = problems_of(text)
    assert message in problem.message
