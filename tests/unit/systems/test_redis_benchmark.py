"""redis-benchmark: its command line, how many requests, its user's rights, its output."""

import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_redis import Recording, recorded, recordings

from steelyard.core.experiment import KeySpace, RedisWork, Workload
from steelyard.core.outside import Completed, Guest, ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.target import REDIS
from steelyard.core.wording import InputError, MeasurementError, PreflightError
from steelyard.stats.histogram import from_text
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis.settings import COMMANDS, rights_of

_SOCKET = ServerAddress(host="/srv/x", port=7000)
_TCP = ServerAddress(host="db.example", port=6380)


def _request(
    builtin: str | None = "set",
    *,
    load: Load | None = None,
    command: tuple[str, ...] = (),
    space: KeySpace | None = None,
    address: ServerAddress = _SOCKET,
) -> RunRequest:
    work = RedisWork(space=space or KeySpace(), command=command)
    return RunRequest(
        workload=Workload(name="w", builtin=builtin, redis=work),
        load=load or Load(clients=20, threads=1),
        protocol="",
        seconds=5,
        address=address,
        flags=("-k", "0"),
    )


def _arguments(request: RunRequest) -> list[str]:
    return list(benchmark.run_arguments(request, requests=1234, dbnum=3))


def _value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def test_every_word_of_the_experiment_arrives() -> None:
    """Clients, requests, size, keys, pipeline, database, test and the user's flags are passed."""
    space = KeySpace(keys=500, value_bytes=77)
    load = Load(clients=20, threads=1, pipeline=16)
    arguments = _arguments(_request(load=load, space=space))
    pairs = {"-s": "/srv/x/redis-7000.sock", "-c": "20", "-n": "1234", "-d": "77", "-r": "500"}
    pairs |= {"-P": "16", "--dbnum": "3", "-t": "set", "-k": "0"}
    assert {flag: _value(arguments, flag) for flag in pairs} == pairs


def test_one_key_is_asked_for_without_a_range() -> None:
    """With ``-r 1`` the key would be called otherwise: all zeros."""
    assert "-r" not in _arguments(_request(space=KeySpace(keys=1)))


def test_a_server_over_tcp_is_reached_with_its_certificates() -> None:
    """Host, port and TLS files are arguments; TLS is not asked for where the address has none."""
    assert _arguments(_request(address=_TCP))[:4] == ["-h", "db.example", "-p", "6380"]
    assert "--tls" not in _arguments(_request(address=_TCP))
    parameters = (("tls", "on"), ("cacert", "/ca"), ("cert", "/c"), ("key", "/k"))
    arguments = _arguments(_request(address=replace(_TCP, parameters=parameters)))
    assert "--tls" in arguments
    assert [_value(arguments, flag) for flag in ("--cacert", "--cert", "--key")] == [
        *("/ca", "/c", "/k")
    ]


def test_each_worker_is_a_process() -> None:
    """Threads become processes, their clients and requests add up to what was asked for."""
    request = _request(load=Load(clients=20, threads=3))
    lists = benchmark.argument_lists(request, requests=1000, dbnum=0)
    assert [_value(list(one), "-c") for one in lists] == ["7", "7", "6"]
    assert [_value(list(one), "-n") for one in lists] == ["350", "350", "300"]
    assert not any("--threads" in one for one in lists)


def test_generators_come_before_threads() -> None:
    """Where pods were asked for, there is one process in each, and never more than clients."""
    load = Load(clients=20, threads=8, generators=2)
    assert len(benchmark.divided(_request(load=load))) == 2
    assert len(benchmark.divided(_request(load=Load(clients=2, threads=8)))) == 2


@pytest.mark.parametrize("name", REDIS.builtins)
def test_every_test_runs_alone(name: str) -> None:
    """No name asks for two tests at once, which would be two measurements in one output."""
    arguments = _arguments(_request(name))
    if "-t" in arguments:
        assert _value(arguments, "-t") in benchmark.TESTS
        assert not _value(arguments, "-t").startswith("lrange")
        assert _value(arguments, "-t") != "ping"
    else:
        assert arguments[-4:-1] == ["LRANGE", "mylist", "0"]


def test_a_test_that_it_does_not_have_is_refused() -> None:
    """With a name that it does not know redis-benchmark would run nothing and succeed."""
    with pytest.raises(InputError, match="no test 'sett'"):
        _arguments(_request("sett"))


def test_a_value_is_put_into_a_command() -> None:
    """``__data__`` becomes so many bytes; ``__rand_int__`` is left to redis-benchmark."""
    command = ("SETEX", "key:__rand_int__", "60", "__data__")
    request = _request(None, command=command, space=KeySpace(value_bytes=1000))
    *words, value = _arguments(request)[-4:]
    assert words == ["SETEX", "key:__rand_int__", "60"]
    assert len(value) == 1000
    assert "-t" not in _arguments(request)


def test_a_value_that_linux_does_not_take_is_refused() -> None:
    """A value of 180,000 bytes fits into no argument; a test has none."""
    command = ("SET", "k", "__data__")
    large = KeySpace(value_bytes=180_000)
    with pytest.raises(InputError, match="does not fit"):
        _arguments(_request(None, command=command, space=large))
    assert _value(_arguments(_request("set", space=large)), "-d") == "180000"


@pytest.mark.parametrize("flag", ["-c", "-n", "-d", "-r", "-P", "-t", "--csv", "-q", "-a", "-l"])
def test_flags_of_the_experiment_file_are_refused(flag: str) -> None:
    """What decides what is measured has one place."""
    with pytest.raises(InputError, match="set by Steelyard"):
        benchmark.refuse_own_flags((flag, "1"))


@pytest.mark.parametrize("word", ["extra", "--nosuch", "PING"])
def test_words_that_are_no_flags_are_refused(word: str) -> None:
    """A further word would be a command and silently replace the test."""
    with pytest.raises(InputError, match="no flag"):
        benchmark.refuse_own_flags(("-3", word))


def test_other_flags_and_their_values_pass() -> None:
    """A value is not taken for a flag."""
    benchmark.refuse_own_flags(("-k", "0", "-3", "--sni", "db.example"))


def test_requests_are_named_by_the_test() -> None:
    """Tables call the requests like the test, or like the command."""
    assert benchmark.test_name(_request("get").workload) == "get"
    assert benchmark.test_name(_request(None, command=("HGETALL", "h")).workload) == "hgetall"


_RUN = replace(_request("set"), configuration="a", load=Load(clients=20, threads=1))


def _lasting(seconds: int) -> RunRequest:
    return replace(_RUN, seconds=seconds)


def _piloted(pace: redis_benchmark.Pace, rate_per_s: float) -> list[int]:
    """Let pilots run against a server of one speed; return what each asked for."""
    asked = []
    while (requests := pace.pilot(_RUN)) is not None:
        asked.append(requests)
        pace.learn(_RUN, requests, round(requests / rate_per_s, 3))
    return asked


@given(st.floats(min_value=5.0, max_value=5e6))
def test_pilots_end_soon_at_any_speed(rate_per_s: float) -> None:
    """From 5 to 5 million requests a second a few growing pilots find the rate, short ones."""
    pace = redis_benchmark.Pace()
    asked = _piloted(pace, rate_per_s)
    assert len(asked) <= 9
    assert asked == sorted(set(asked))
    assert rate_per_s < 100.0 or max(asked) / rate_per_s < 3.0
    assert pace.requests(_lasting(10)) == pytest.approx(10.0 * rate_per_s, rel=0.01, abs=20)


def test_each_configuration_workload_and_load_has_its_own_pace() -> None:
    """What is known of one says nothing of another."""
    pace = redis_benchmark.Pace()
    _piloted(pace, 1000.0)
    assert pace.pilot(_RUN) is None
    others = [replace(_RUN, configuration="b")]
    others.append(replace(_RUN, workload=replace(_RUN.workload, name="get")))
    others.append(replace(_RUN, load=Load(clients=20, threads=1, pipeline=16)))
    assert all(pace.pilot(other) is not None for other in others)
    with pytest.raises(KeyError):
        pace.requests(others[0])


def test_runs_outweigh_the_pilot() -> None:
    """A first half second in which a server was ten times as fast is soon forgotten."""
    pace = redis_benchmark.Pace()
    pace.learn(_RUN, 5000, redis_benchmark.LONG_ENOUGH_S)
    assert pace.requests(_lasting(5)) == 50_000
    pace.learn(_RUN, 50_000, 50.0)
    assert pace.requests(_lasting(5)) == pytest.approx(5000, rel=0.1)
    for _ in range(5):
        pace.learn(_RUN, 5000, 5.0)
    assert pace.requests(_lasting(5)) == 5000


def test_a_drift_is_followed() -> None:
    """A server that became slower is asked for less: old runs drop out."""
    pace = redis_benchmark.Pace()
    for _ in range(9):
        pace.learn(_RUN, 10_000, 5.0)
    for _ in range(5):
        pace.learn(_RUN, 2500, 5.0)
    assert pace.requests(_lasting(5)) == 2500


def test_every_client_has_something_to_do() -> None:
    """A server so slow that the time is over before all clients came is still measured."""
    pace = redis_benchmark.Pace()
    pace.learn(_RUN, 20, 100.0)
    assert pace.requests(_lasting(5)) == 20


def test_the_number_stays_within_what_the_generator_counts() -> None:
    """A long run of a fast server does not overflow."""
    pace = redis_benchmark.Pace()
    pace.learn(_RUN, 10_000_000, 1.0)
    assert pace.requests(_lasting(36_000)) == redis_benchmark.MOST_REQUESTS


def test_a_pilot_without_a_time_leads_to_a_larger_one() -> None:
    """0 ms is no rate."""
    pace = redis_benchmark.Pace()
    first = pace.pilot(_RUN)
    assert first is not None
    pace.learn(_RUN, first, 0.0)
    second = pace.pilot(_RUN)
    assert second is not None
    assert second > first


_PLACE = ServerAddress(host="db", port=6379, password="planted")


def test_a_test_of_the_generator_may_use_its_keys_only() -> None:
    """Each command with the names of its keys, and no right twice."""
    asked = [
        Workload(name=name, builtin=name, redis=RedisWork()) for name in ("set", "get", "ping")
    ]
    assert rights_of(asked) == ("+select", "+set", "~key:*", "+get", "+ping")


@pytest.mark.parametrize("builtin", sorted(COMMANDS))
def test_no_test_needs_the_right_to_everything(builtin: str) -> None:
    """Whatever the generator can send by itself has keys of a known name."""
    rules = rights_of([Workload(name="w", builtin=builtin, redis=RedisWork())])
    assert "~*" not in rules
    assert f"+{COMMANDS[builtin][0].lower()}" in rules


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("HGETALL cart:__rand_int__", ("+hgetall", "~cart:*")),
        ("SET a*[1]?\\ __data__", ("+set", "~a\\*\\[1\\]\\?\\\\")),
        ("BITOP AND to from:__rand_int__", ("+bitop", "~AND", "~to", "~from:*")),
        ("INCRBY hits __rand_int__", ("+incrby", "~hits", "~[0-9_]*")),
        ("SET __data__ x", ("+set", "~*", "~x")),
        ("OBJECT ENCODING cart", ("+object|encoding", "~ENCODING", "~cart")),
        ("CONFIG GET save", ("+config|get", "~GET", "~save")),
        ("SORT list BY weight_*", ("+sort", "~*")),
        ("TIME", ("+time",)),
    ],
)
def test_a_command_of_the_user_may_use_keys_like_its_words(
    command: str, rules: tuple[str, ...]
) -> None:
    """Which of them are keys is not known; no other command, not even one beside it."""
    own = Workload(name="w", redis=RedisWork(command=tuple(command.split())))
    assert rights_of([own]) == ("+select", *rules)


def test_only_a_guest_s_password_goes_into_a_command_line() -> None:
    """That of the server's owner never does; a user without one takes any."""
    guest = Guest(name="steelyard-1", password="for-a-day")
    assert redis_benchmark.credentials(_PLACE) is None
    with pytest.raises(PreflightError, match="as an argument"):
        redis_benchmark.refuse_password(_PLACE)
    assert not any("planted" in word for word in _arguments(_request(address=_PLACE)))
    invited = ServerAddress(host="db", port=1, user="bench", password="planted", guest=guest)
    user, word = redis_benchmark.credentials(invited) or ("", "")
    assert user == "steelyard-1"
    assert "for-a-day" not in word
    assert redis_benchmark.secrets_of(invited) == {word: "for-a-day"}
    redis_benchmark.refuse_password(invited)
    bare = ServerAddress(host="db", port=1, user="bench")
    assert (redis_benchmark.credentials(bare), redis_benchmark.secrets_of(bare)) == (
        ("bench", "none"),
        {},
    )
    assert "for-a-day" not in repr(invited)


_ONE_TEST = [r for r in recordings() if r.exit_status == 0 and r.name != "lrange"]
_RATED = [r for r in _ONE_TEST if r.name != "one-request"]  # in 0 ms, which is no rate


def _asked(recording: Recording, flag: str) -> int:
    return int(recording.arguments[recording.arguments.index(flag) + 1])


@pytest.mark.parametrize("recording", _ONE_TEST, ids=str)
def test_all_requests_are_counted_once_everywhere(recording: Recording) -> None:
    """Summary, distribution of latencies and progress tell of the same number of requests."""
    printed = redis_benchmark.parse(recording.completed())
    asked, pipeline = _asked(recording, "-n"), _asked(recording, "-P")
    assert asked <= printed.requests < asked + pipeline * _asked(recording, "-c")
    assert printed.steps[-1].requests == asked
    told = sum(second.transactions for second in printed.series)
    assert told == pytest.approx(printed.requests, rel=1e-3)
    assert sum(second.seconds for second in printed.series) == pytest.approx(printed.seconds)


@pytest.mark.parametrize("recording", _RATED, ids=str)
def test_the_rate_is_the_one_it_prints(recording: Recording) -> None:
    """The throughput is redis-benchmark's own to its last decimal, not that of a rounded time."""
    completed = recording.completed()
    printed = redis_benchmark.parse(completed)
    rate = re.search(r"throughput summary: ([\d.]+) ", completed.stdout)
    assert rate is not None
    assert redis_benchmark.measurement([printed]).tps == pytest.approx(float(rate[1]), rel=1e-4)


@pytest.mark.parametrize("recording", _ONE_TEST, ids=str)
def test_percentiles_are_never_below_those_it_prints(recording: Recording) -> None:
    """p50, p95 and p99 of the counts are those of its summary, within a bucket."""
    completed = recording.completed()
    printed = redis_benchmark.parse(completed)
    told = redis_benchmark.latency([printed], "test")
    assert told is not None
    counts = from_text(told.scripts[0].latency)
    assert counts.total == _asked(recording, "-n")
    words = re.search(r"max *\n +(.*)$", completed.stdout, re.MULTILINE)
    assert words is not None
    for share, word in zip((0.5, 0.95, 0.99), words[1].split()[2:5], strict=True):
        # A percentile that it prints as 0.000 is less than the 8 us that it tells apart.
        expected_us = max(float(word) * 1000.0, 1.0)
        assert counts.quantile(share) == pytest.approx(expected_us, rel=0.004, abs=0.6)


def test_a_count_between_two_steps_goes_to_the_upper_one() -> None:
    """p99.9 of a run is rounded up to a step of the table, never down."""
    printed = redis_benchmark.parse(recorded("set"))
    told = redis_benchmark.latency([printed], "set")
    assert told is not None
    value = from_text(told.scripts[0].latency).quantile(0.999)
    rank = math.ceil(0.999 * printed.requests)
    step = next(step for step in printed.steps if step.requests >= rank)
    assert value == pytest.approx(step.latency_us, rel=0.004)


def test_a_stalled_server_leaves_empty_seconds_and_a_clipped_latency() -> None:
    """Progress shows the seconds without an answer; a latency of 3.6 s is printed as 3 s."""
    printed = redis_benchmark.parse(recorded("stalled"))
    rates = [second.transactions / second.seconds for second in printed.series]
    assert len(rates) == 5
    assert rates[1] == rates[2] == rates[3] == 0.0
    assert printed.series[2].latency_mean_s is None
    assert printed.longest_s == pytest.approx(3.0, rel=1e-3)


def test_a_short_run_is_one_interval() -> None:
    """A run that ended before the first progress line has its whole in one interval."""
    printed = redis_benchmark.parse(recorded("one-request"))
    assert [second.transactions for second in printed.series] == [1.0]
    assert printed.seconds >= 1e-3


def test_a_command_of_its_own_is_read_like_a_test() -> None:
    """A title of several words is understood."""
    assert redis_benchmark.parse(recorded("command")).test == "HSET myhash f:__rand_int__ abcdef"


def test_two_tests_in_one_output_are_refused() -> None:
    """`lrange_100` runs LPUSH first: their numbers are not taken for one."""
    with pytest.raises(MeasurementError, match="2 tests"):
        redis_benchmark.parse(recorded("lrange"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-server", "Could not connect to Redis at /nonexistent"),
        ("no-password", "NOAUTH Authentication required"),
        ("out-of-memory", "OOM command not allowed"),
        ("wrong-type", "WRONGTYPE"),
        ("server-killed", "Connection reset by peer"),
    ],
)
def test_a_failure_is_told_in_the_servers_words(name: str, words: str) -> None:
    """What ended redis-benchmark stands in the error."""
    with pytest.raises(MeasurementError, match=words):
        redis_benchmark.parse(recorded(name))


def test_processes_of_one_run_are_added_up() -> None:
    """Requests add up, the run lasts as long as the last process, counts are of both."""
    parts = [redis_benchmark.parse(recorded("set")), redis_benchmark.parse(recorded("stalled"))]
    together = redis_benchmark.measurement(parts)
    assert together.transactions == 350_000
    assert together.seconds == max(part.seconds for part in parts)
    assert together.latency_mean_s == pytest.approx(
        sum(part.requests * (part.mean_s or 0.0) for part in parts) / 350_000
    )
    assert sum(s.transactions for s in together.series) == pytest.approx(350_000, rel=1e-3)
    told = redis_benchmark.latency(parts, "set")
    assert told is not None
    assert from_text(told.scripts[0].latency).total == 350_000
    assert told.scripts[0].longest_s == parts[1].longest_s


@given(
    st.lists(
        st.builds(
            redis_benchmark.Step,
            latency_us=st.integers(min_value=0, max_value=3_000_319),
            requests=st.integers(min_value=1, max_value=10**9),
        )
    )
)
def test_steps_rise_whatever_they_were(steps: list[redis_benchmark.Step]) -> None:
    """Counts between steps are never negative, and none of the last step's requests is lost."""
    kept = redis_benchmark.rising(steps)
    assert all(b.latency_us > a.latency_us for a, b in pairwise(kept))
    assert all(b.requests > a.requests for a, b in pairwise(kept))
    assert max((s.requests for s in kept), default=0) == max((s.requests for s in steps), default=0)


def _assert_sound(stdout: str) -> None:
    completed = Completed(argv=("redis-benchmark",), exit_status=0, stdout=stdout, stderr="")
    try:
        printed: redis_benchmark.Printed = redis_benchmark.parse(completed)
    except MeasurementError:
        return
    measured = redis_benchmark.measurement([printed])
    assert measured.seconds > 0.0
    assert math.isfinite(measured.tps)
    assert all(second.seconds > 0.0 and second.transactions >= 0.0 for second in measured.series)
    redis_benchmark.latency([printed], "set")


@given(st.text())
def test_any_text_is_a_measurement_error(text: str) -> None:
    """No output ends in a traceback."""
    _assert_sound(text)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(_ONE_TEST)).completed().stdout
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 40)))
    piece = draw(st.text(alphabet="0123456789.-% =nanover\n\r", max_size=12))
    return text[:begin] + piece + text[end:]


@given(_mutated())
def test_a_damaged_output_is_an_error_or_sound(text: str) -> None:
    """An output that was cut or changed gives no negative, endless or undefined number."""
    _assert_sound(text)
