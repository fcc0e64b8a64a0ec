"""memtier_benchmark, by its documentation: nothing here was printed by the program itself."""

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.command import Completed, ServerAddress
from steelyard.core.errors import InputError, MeasurementError, PreflightError
from steelyard.core.experiment import KeySpace, RedisWork, Workload
from steelyard.core.schedule import Load
from steelyard.stats.histogram import from_text
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import memtier
from steelyard.systems.redis.datasets import benchmark_key
from steelyard.systems.redis.redis_benchmark import latency, measurement

_SOCKET = ServerAddress(host="/srv/x", port=7000)
_TCP = ServerAddress(host="db.example", port=6380, parameters=(("tls", "on"), ("cacert", "/ca")))


def _request(
    builtin: str | None = "set",
    *,
    load: Load | None = None,
    work: RedisWork | None = None,
    address: ServerAddress = _SOCKET,
) -> RunRequest:
    return RunRequest(
        workload=Workload(name="w", builtin=builtin, redis=work or RedisWork()),
        load=load or Load(clients=20, threads=2),
        protocol="",
        seconds=5,
        address=address,
        flags=("--no-expiry",),
    )


def _arguments(request: RunRequest) -> tuple[str, ...]:
    return memtier.run_arguments(request, dbnum=3)


def test_every_word_of_the_experiment_arrives() -> None:
    """Clients are divided among threads, because memtier counts them for each."""
    load = Load(clients=20, threads=4, pipeline=8)
    work = RedisWork(space=KeySpace(keys=500, value_bytes=77, first=memtier.FIRST_KEY))
    arguments = _arguments(_request(load=load, work=work))
    expected = {"--unix-socket=/srv/x/redis-7000.sock", "--select-db=3", "--threads=4"}
    expected |= {"--clients=5", "--pipeline=8", "--test-time=5", "--data-size=77", "--no-expiry"}
    expected |= {
        "--key-minimum=100000000000",
        "--key-maximum=100000000499",
        "--key-prefix=key:",
        "--ratio=1:0",
    }
    assert expected <= set(arguments)


def test_the_keys_that_it_names_are_those_that_are_loaded() -> None:
    """It writes numbers without leading zeros: prefix and number give the names of the loader."""
    space = KeySpace(keys=500, loaded=500, first=memtier.FIRST_KEY)
    arguments = dict(
        word.split("=", maxsplit=1)
        for word in _arguments(_request("get", work=RedisWork(space=space)))
        if "=" in word
    )
    ends = (arguments["--key-minimum"], arguments["--key-maximum"])
    named = [arguments["--key-prefix"] + number for number in ends]
    assert named == [benchmark_key(space, 0), benchmark_key(space, 499)]
    one = KeySpace(keys=1, loaded=1, first=memtier.FIRST_KEY)
    assert benchmark_key(one, 0) == named[0]


def test_clients_that_do_not_divide_are_refused() -> None:
    """15 clients on 2 threads would be 14 or 16."""
    with pytest.raises(InputError, match="cannot divide 15 clients among 2 threads"):
        _arguments(_request(load=Load(clients=15, threads=2)))


def test_its_rate_limit_is_not_taken_for_an_open_loop() -> None:
    """A rate is refused: latency would be counted from the sending."""
    with pytest.raises(InputError, match="no open loop"):
        _arguments(_request(load=Load(clients=20, threads=2, rate_per_s=100.0)))


@pytest.mark.parametrize(
    ("share", "ratio"), [(0.0, "1:0"), (1.0, "0:1"), (0.9, "1:9"), (0.25, "3:1"), (1 / 3, "2:1")]
)
def test_a_share_of_reads_is_a_ratio_of_sets_to_gets(share: float, ratio: str) -> None:
    """Its ratio names the sets first."""
    assert f"--ratio={ratio}" in _arguments(_request(None, work=RedisWork(read_share=share)))


def test_a_command_uses_memtiers_words_for_key_and_value() -> None:
    """The number of a key becomes its word for a key with our prefix."""
    work = RedisWork(command=("HSET", "h:__rand_int__", "field", "__data__"))
    arguments = _arguments(_request(None, work=work))
    assert "--command=HSET __key__ field __data__" in arguments
    assert "--key-prefix=h:" in arguments
    assert not any(word.startswith("--ratio") for word in arguments)


@pytest.mark.parametrize(
    "command",
    [
        ("MGET", "a:__rand_int__", "b:__rand_int__"),
        ("GET", "__rand_int__:tail:__rand_int__"),
        ("SET", "k", "two words"),
    ],
)
def test_a_command_that_it_cannot_send_is_refused(command: tuple[str, ...]) -> None:
    """Two kinds of keys, and words that it would take apart, are not sent as something else."""
    with pytest.raises(InputError):
        _arguments(_request(None, work=RedisWork(command=command)))


@pytest.mark.parametrize("name", memtier.BUILTINS)
def test_every_test_of_redis_benchmark_has_its_command(name: str) -> None:
    """Workloads keep their names whatever generator there is."""
    arguments = _arguments(_request(name))
    asked = [word for word in arguments if word.startswith(("--ratio", "--command="))]
    assert len(asked) == 1


def test_tls_and_inner_address_are_arguments() -> None:
    """A server over TLS, and one that is reached from within a cluster."""
    assert {"--server=db.example", "--port=6380", "--tls", "--cacert=/ca"} <= set(
        _arguments(_request(address=_TCP))
    )
    inside = _arguments(_request(address=replace(_SOCKET, inside=("redis.ns", 6379))))
    assert {"--server=redis.ns", "--port=6379"} <= set(inside)


def test_a_password_is_refused_and_never_an_argument() -> None:
    """memtier_benchmark would show it in the list of processes."""
    address = replace(_TCP, password="geheim")
    with pytest.raises(PreflightError, match="only as an argument"):
        memtier.environment(address)
    assert not any("geheim" in word for word in _arguments(_request(address=address)))


@pytest.mark.parametrize(
    "flag",
    [
        *("-c", "-c50", "--clients=3", "--test-time", "--rate-limiting=5", "-apassword"),
        "--comma=FLUSHALL",  # getopt_long takes the beginning of a long flag for it
    ],
)
def test_flags_of_the_experiment_file_are_refused(flag: str) -> None:
    """What decides what is measured has one place, however the flag is written."""
    with pytest.raises(InputError, match="set by Steelyard"):
        memtier.refuse_own_flags((flag,))


def _stats(counts: list[int], *, latencies_us: list[int], duration_ms: int) -> str:
    histogram = HdrHistogram(10, 60_000_000, 3)
    for value in latencies_us:
        histogram.record_value(value)
    series = {
        str(at): {"Count": count, **({"Average Latency": 2.0} if count else {})}
        for at, count in enumerate(counts)
    }
    totals = {
        "Count": sum(counts),
        "Max Latency": max(latencies_us, default=0) / 1000.0,
        "Time-Serie": series,
        "Percentile Latencies": {
            "p50.00": 1.0,
            "Histogram log format": {"Compressed Histogram": histogram.encode().decode()},
        },
    }
    runtime = {"Total duration": duration_ms, "Time unit": "MILLISECONDS"}
    return json.dumps({"ALL STATS": {"Runtime": runtime, "Totals": totals}})


def _completed(stdout: str, *, status: int = 0, stderr: str = "") -> Completed:
    return Completed(argv=("memtier",), exit_status=status, stdout=stdout, stderr=stderr)


def test_its_json_is_a_measurement() -> None:
    """Requests, time, seconds with and without requests, mean, counts and the longest."""
    text = _stats([4, 0, 6], latencies_us=[100] * 5 + [5000] * 5, duration_ms=2500)
    printed = memtier.parse(_completed(text))
    taken = measurement([printed])
    assert (taken.transactions, taken.seconds, taken.latency_mean_s) == (10, 2.5, 0.002)
    assert [second.transactions for second in taken.series] == [4, 0, 6]
    assert [second.seconds for second in taken.series] == [1.0, 1.0, 0.5]
    assert taken.series[1].latency_mean_s is None
    told = latency([printed], "mix")
    assert told is not None
    counts = from_text(told.scripts[0].latency)
    assert counts.total == 10
    assert counts.quantile(0.5) == pytest.approx(100, rel=0.08)  # its buckets are of 8 us
    assert counts.quantile(0.9) == pytest.approx(5000, rel=0.005)
    assert told.scripts[0].longest_s == 0.005


def test_a_failure_is_told_in_its_words() -> None:
    """What it complained of stands in the error; its progress does not."""
    stderr = "[RUN #1] Launching threads now...\n\rconnection error: Connection refused\n"
    with pytest.raises(MeasurementError, match="exited with 1: connection error") as raised:
        memtier.parse(_completed("", status=1, stderr=stderr))
    assert "RUN" not in raised.value.message


def test_lost_connections_are_no_result() -> None:
    """A run that went on with fewer clients measured another load."""
    told = json.loads(_stats([5], latencies_us=[100], duration_ms=1000))
    told["ALL STATS"]["Totals"]["Connection Errors"] = 2
    with pytest.raises(MeasurementError, match="2 connections failed"):
        memtier.parse(_completed(json.dumps(told)))


@given(st.text())
def test_any_text_is_a_measurement_error(text: str) -> None:
    """No output ends in a traceback."""
    with pytest.raises(MeasurementError):
        memtier.parse(_completed(text))


_LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5)
_PLACES = st.sampled_from(
    ["Count", "Max Latency", "Time-Serie", "Percentile Latencies", "Total duration", "Time unit"]
)


@given(_PLACES, st.recursive(_LEAVES, lambda inner: st.dictionaries(st.text(max_size=3), inner)))
def test_a_wrong_value_is_an_error_or_sound(place: str, value: object) -> None:
    """Whatever stands at one place, numbers are finite and times positive, or it is refused."""
    told = json.loads(_stats([4, 6], latencies_us=[100] * 10, duration_ms=2000))
    home = "Runtime" if place.startswith("T") and place != "Time-Serie" else "Totals"
    told["ALL STATS"][home][place] = value
    try:
        printed = memtier.parse(_completed(json.dumps(told)))
    except MeasurementError:
        return
    taken = measurement([printed])
    assert taken.seconds > 0
    assert taken.transactions >= 0
    assert all(second.seconds > 0 for second in taken.series)


_FAKE = """#!/bin/sh
for word in "$@"; do
  case $word in
    --json-out-file=*) file=${word#*=} ;;
    --select-db=*) echo "asked for $word" >&2 ;;
  esac
done
echo 'text that nobody reads' > /dev/null
echo '{"from": "the file"}' > "$file" || exit 9
exit 3
"""


def _run(program: Path, account: str | None) -> "subprocess.CompletedProcess[str]":
    line = memtier.command_line(str(program), _request(), dbnum=3)
    return subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=60, user=account
    )


def test_the_json_file_comes_through_the_standard_output(tmp_path: Path) -> None:
    """What is written to the file and the exit status arrive, and arguments are unharmed."""
    program = tmp_path / "memtier with blank"
    program.write_text(_FAKE)
    program.chmod(0o755)
    done = _run(program, None)
    assert (done.returncode, done.stdout) == (3, '{"from": "the file"}\n')
    assert "asked for --select-db=3" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs of another account")
def test_another_account_can_write_it_too() -> None:
    """The pipe of the standard output belongs to root, who started it: it is not opened anew."""
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        program = Path(home) / "memtier"
        program.write_text(_FAKE)
        program.chmod(0o755)
        done = _run(program, "nobody")
    assert (done.returncode, done.stdout) == (3, '{"from": "the file"}\n')
