"""redis-benchmark: command lines, how many requests fill a time, and the reading of what it prints.

The output of 7.0.15 was recorded (``tests/recordings/redis_benchmark``). What it does was read in
its source, redis-benchmark.c of 7.0 and valkey-benchmark's of 8:

- It takes a number of requests, no time, and says how long they took (``totlatency``) to 10 ms; the
  rate that it prints tells the millisecond. If all configurations were told the same number, a fast
  one would be measured for a moment and a slow one for minutes; so each is asked for what its own
  server does in the time asked for, by what it did before.
- With ``--threads`` it looks only every 250 ms whether it is done (``showThroughput``): 2000
  requests that take 0.04 s were measured as 0.26 s here. So each worker is a process of its own.
- A latency above 3 s counts as 3 s (``CONFIG_LATENCY_HISTOGRAM_MAX_VALUE``). In a pipeline all
  requests of a batch have the latency of its first answer (``readHandler``).
- It takes a password as an argument only, which every account of the machine can read.
- The tests ``lrange_*`` fill a list first, as a test of its own, and ``ping`` is two tests.
- It tells counts of requests below rising latencies. Counts add up exactly over processes and runs,
  as those of a log do; a latency is known no finer than its steps and is rounded up to the next.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from steelyard.core.experiment import RedisWork, Workload
from steelyard.core.measurement import Measurement, RunLatency, ScriptLatency, Second
from steelyard.core.outside import Completed, ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.target import REDIS
from steelyard.core.wording import MS_PER_S, InputError, MeasurementError, PreflightError
from steelyard.gateways.redis import CACERT, CERT, KEY, TLS, socket_path
from steelyard.stats.histogram import Histogram, bucket_indices, histogram_of, merged, to_text
from steelyard.systems.protocol import RunRequest, mean_latency_s, together
from steelyard.systems.redis.settings import COMMANDS, DATA, OTHER_NAMES

_HIDDEN: Final = "{steelyard-guest-password}"
_ANY: Final = "none"  # a user without a password takes any, and the program wants one


def tls_files(address: ServerAddress) -> tuple[tuple[str, str], ...] | None:
    """Return the files that TLS needs, by the flag's name; None where there is no TLS."""
    asked = dict(address.parameters)
    if asked.get(TLS) != "on":
        return None
    return tuple((name, asked[name]) for name in (CACERT, CERT, KEY) if asked.get(name))


def credentials(address: ServerAddress) -> tuple[str, str] | None:
    """Return the user and the password that go into a command line; None: the default user, bare.

    The password is that of a guest, which ``secrets_of`` has, or of a user who needs none: never
    one of the server's owner. A guest without one is the default user.
    """
    if address.guest is not None:
        return (address.guest.name, _HIDDEN) if address.guest.password else None
    return (address.user, _ANY) if address.user else None


def secrets_of(address: ServerAddress) -> Mapping[str, str]:
    """Return what stands in a command line for the password of a guest, and the password."""
    guest = address.guest
    return {} if guest is None or not guest.password else {_HIDDEN: guest.password}


def refuse_password(address: ServerAddress) -> None:
    """Raise where the server asks for a password, which redis-benchmark takes in argv only.

    Raises:
        PreflightError: It does, and there is no guest.
    """
    if address.password and address.guest is None:
        raise PreflightError(
            "redis-benchmark takes a password only as an argument, where every account of its"
            " machine can read it",
            hint="Give it a user without a password, limited by ACL to the database's keys and to"
            " the commands of the workload.",
        )


FIRST_REQUESTS: Final = 50  # a guess: even 10 requests a second answer them in seconds
LONG_ENOUGH_S: Final = 0.5  # a guess: so much is 1 % more or less by the start of 5 ms
_AIM_S: Final = 0.8  # the next pilot's, so that it is not just too short again
_LEAST_GROWTH: Final = 2
_MOST_GROWTH: Final = 20  # a first pilot of a millisecond tells little of a second
MOST_REQUESTS: Final = 1_000_000_000  # redis-benchmark counts in 32 bits
REMEMBERED: Final = 5  # a guess: enough to outweigh a pilot, few enough to follow a drift


@dataclass(slots=True)
class Pace:
    """What each server has done so far, and what that says of the next run.

    The rate of a configuration under a workload and a load is that of its last runs together, so
    that a pilot counts for little as soon as a run was taken. Requests and seconds are kept.
    """

    _past: dict[object, deque[tuple[int, float]]] = field(default_factory=dict)
    _tried: dict[object, tuple[int, float]] = field(default_factory=dict)

    def pilot(self, request: RunRequest) -> int | None:
        """Return how many requests to try first; None when the rate is known."""
        key, load = _paced(request), request.load
        if key in self._past:
            return None
        if key not in self._tried:
            # A client that waits for its turn is none; each should come more than once.
            return max(FIRST_REQUESTS, 2 * load.clients * load.pipeline)
        requests, seconds = self._tried[key]
        growth = _AIM_S / seconds if seconds > 0.0 else _MOST_GROWTH
        growth = min(max(growth, _LEAST_GROWTH), _MOST_GROWTH)
        return min(round(requests * growth), MOST_REQUESTS)

    def learn(self, request: RunRequest, requests: int, seconds: float) -> None:
        """Take in what a run or a pilot did; one that was too short only leads to a longer one."""
        key = _paced(request)
        too_short = seconds < LONG_ENOUGH_S and requests < MOST_REQUESTS
        if requests <= 0 or seconds <= 0.0 or (too_short and key not in self._past):
            self._tried[key] = max(requests, 1), seconds
            return
        self._past.setdefault(key, deque(maxlen=REMEMBERED)).append((requests, seconds))

    def requests(self, request: RunRequest) -> int:
        """Return how many requests the server answers in the run, at least one per client.

        Raises:
            KeyError: Nothing is known of it: no pilot has run.
        """
        requests, seconds = map(sum, zip(*self._past[_paced(request)], strict=True))
        rate_per_s, load = requests / seconds, request.load
        least = load.clients * load.pipeline
        return min(max(round(rate_per_s * request.seconds), least), MOST_REQUESTS)


def _paced(request: RunRequest) -> tuple[object, ...]:
    """Return what a rate belongs to."""
    return request.configuration, request.workload.name, request.load


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How many requests took no longer than a latency.

    Attributes:
        latency_us: Whole microseconds.
        requests: Cumulative, so that steps rise in both.
    """

    latency_us: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One process, one test.

    Attributes:
        test: Its name in the output: ``SET``.
        requests: Answered.
        seconds: From when all clients were connected to the last answer.
        mean_s: Mean latency.
        longest_s: The longest latency, as exact as it is printed.
        series: By whole seconds.
        steps: The distribution of latencies.
    """

    test: str
    requests: int
    seconds: float
    mean_s: float
    longest_s: float
    series: tuple[Second, ...]
    steps: tuple[Step, ...]


def measurement(printed: Sequence[Printed]) -> Measurement:
    """Return what all processes of a run measured together.

    They begin together. The run lasts as long as the last of them, so what one that ended early did
    not do counts against it.
    """
    requests = sum(each.requests for each in printed)
    total_s = sum(each.requests * each.mean_s for each in printed)
    return Measurement(
        transactions=float(requests),
        seconds=max(each.seconds for each in printed),
        latency_mean_s=total_s / requests if requests else None,
        latency_stddev_s=None,  # it is not told
        failed=0,  # an error of the server ends the generator
        connection_s=None,
        series=_series([each.series for each in printed]),
    )


def latency(printed: Sequence[Printed], script: str) -> RunLatency | None:
    """Return the latencies of all processes of a run under one name; None where one tells none."""
    if not printed or not all(each.steps for each in printed):
        return None
    counts = merged(_histogram(each.steps) for each in printed)
    return RunLatency(
        scripts=(
            ScriptLatency(
                script=script,
                latency=to_text(counts),
                longest_s=max(each.longest_s for each in printed),
            ),
        )
    )


def rising(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return steps in order of latency, each with at least the requests of those before it.

    Of one latency that with the most requests is kept; a step that adds no request is dropped.
    """
    kept: list[Step] = []
    for step in sorted(steps, key=lambda each: (each.latency_us, -each.requests)):
        if step.requests > (kept[-1].requests if kept else 0):
            kept.append(step)
    return tuple(kept)


def _histogram(steps: Sequence[Step]) -> Histogram:
    counts = histogram_of([]).counts
    values = np.array([step.latency_us for step in steps], dtype=np.int64)
    numbers = np.diff(np.array([step.requests for step in steps], dtype=np.int64), prepend=0)
    np.add.at(counts, bucket_indices(values), numbers)
    return Histogram(counts=counts)


def _series(all_series: Sequence[tuple[Second, ...]]) -> tuple[Second, ...]:
    if len(all_series) == 1:
        return all_series[0]
    places = range(max((len(series) for series in all_series), default=0))
    return tuple(
        together([series[place] for series in all_series if place < len(series)])
        for place in places
    )


# The tests of these names would run after a test that fills the list.
TESTS: Final = tuple(name for name in COMMANDS if not name.startswith("lrange_"))
MOST_ARGUMENT_BYTES: Final = 131_071  # MAX_ARG_STRLEN of Linux is 128 KiB with the final zero
# Flags that decide what is measured; the experiment file sets them.
_OWN_FLAGS: Final = {
    **dict.fromkeys(("-h", "-p", "-s", "-u", "--user", "--dbnum", "--tls"), "target"),
    **dict.fromkeys(("--cacert", "--cert", "--key", "--cluster"), "target"),
    "-a": "nothing: secrets are never arguments",
    "-c": "load.clients",
    "--threads": "load.threads",
    "-P": "load.pipeline",
    "-n": "measure.run_time",
    "-d": "workloads[].value_bytes",
    "-r": "workloads[].keys",
    "-t": "workloads[].builtin",
    **dict.fromkeys(("-q", "--csv", "--precision"), "nothing: its full output is read"),
    **dict.fromkeys(("-l", "-I", "-x", "--help", "--version", "-v"), "nothing: it measures no run"),
}
_FREE_FLAGS: Final = {  # those that are handed on, with whether a value follows
    **dict.fromkeys(("-3", "--enable-tracking", "--insecure"), False),
    **dict.fromkeys(("-k", "--sni", "--cacertdir", "--tls-ciphers", "--tls-ciphersuites"), True),
}
_NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"  # bounded, so that no output gives an infinite number
_SECTION: Final = re.compile(r"^====== (?P<test>.*) ======$", re.MULTILINE)
_STEP: Final = re.compile(
    rf"^{_NUMBER}% <= (?P<ms>{_NUMBER}) milliseconds \(cumulative count (?P<count>\d{{1,15}})\)$",
    re.MULTILINE,
)
_PROGRESS: Final = re.compile(
    rf": rps=(?P<rps>{_NUMBER}) \(overall: [^)]*\) avg_msec=(?P<ms>{_NUMBER}|-?nan) "
)
_SUMMARY: Final = re.compile(
    r"avg +min +p50 +p95 +p99 +max *\n +"
    + " +".join(rf"(?P<{name}>{_NUMBER})" for name in ("avg", "min", "p50", "p95", "p99", "max"))
)
_TICK_S: Final = 0.25  # SHOW_THROUGHPUT_INTERVAL
_TICKS_PER_SECOND: Final = round(1.0 / _TICK_S)
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def refuse_own_flags(flags: Sequence[str]) -> None:
    """Raise for generator flags that the experiment file decides, or that it does not have.

    Raises:
        InputError: One of the flags is set elsewhere, or is none.
    """
    is_value = False
    for flag in flags:
        if is_value:
            is_value = False
        elif flag in _OWN_FLAGS:
            raise InputError(
                f"the redis-benchmark flag {flag} is set by Steelyard",
                hint=f"Set it in the experiment file: {_OWN_FLAGS[flag]}.",
            )
        elif flag not in _FREE_FLAGS:
            raise InputError(
                f"redis-benchmark has no flag {flag!r}",
                hint=f"It has {', '.join(sorted(_FREE_FLAGS))}.",
            )
        else:
            is_value = _FREE_FLAGS[flag]


def processes(load: Load) -> int:
    """Return how many processes put a load on: generators, and of a single one its threads."""
    asked = load.generators if load.generators > 1 else load.threads
    return max(min(asked, load.clients), 1)


def divided(request: RunRequest) -> tuple[RunRequest, ...]:
    """Return what each process is asked for: clients as even as can be, one thread each.

    There are as many as generators, and where there is one of them as many as threads.
    """
    load, number = request.load, processes(request.load)
    clients = [load.clients // number + (place < load.clients % number) for place in range(number)]
    return tuple(
        replace(request, load=replace(load, generators=1, threads=1, clients=own))
        for own in clients
    )


def argument_lists(
    request: RunRequest, *, requests: int, dbnum: int
) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of every process of a run that makes so many requests in all."""
    whole = request.load.clients
    return tuple(
        run_arguments(
            part, requests=max(round(requests * part.load.clients / whole), 1), dbnum=dbnum
        )
        for part in divided(request)
    )


def run_arguments(request: RunRequest, *, requests: int, dbnum: int) -> tuple[str, ...]:
    """Return redis-benchmark's arguments for one process of a run.

    Raises:
        InputError: The workload's command does not fit into an argument, or there is none.
    """
    work = request.workload.redis or RedisWork()
    arguments = [
        *_address_arguments(request.address),
        *("-c", f"{request.load.clients}"),
        *("-n", f"{requests}"),
        *("-d", f"{work.space.value_bytes}"),
        *("-P", f"{request.load.pipeline}"),
        *("--dbnum", f"{dbnum}"),
        *("--precision", "3"),  # of 0 to 4: latencies to 0.1 %, which is the default
        # In turns nobody reads what it prints while it runs, and a full pipe would stop it.
        *(("--csv",) if request.in_turns else ()),
    ]
    if work.space.keys > 1:
        arguments += ["-r", f"{work.space.keys}"]
    return (*arguments, *request.flags, *_test_arguments(request.workload, work))


def test_name(workload: Workload) -> str:
    """Return what the workload's requests are called in tables: ``set``, ``hgetall``."""
    command = workload.redis.command if workload.redis is not None else ()
    return workload.builtin or (command[0].lower() if command else workload.name)


def _address_arguments(address: ServerAddress) -> list[str]:
    who = credentials(address)
    login = ["--user", who[0], "-a", who[1]] if who is not None else []
    socket = socket_path(address)
    if socket is not None:
        return ["-s", str(socket), *login]
    arguments = ["-h", address.host, "-p", f"{address.port}", *login]
    files = tls_files(address)
    if files is None:
        return arguments
    return [*arguments, "--tls", *(word for name, path in files for word in (f"--{name}", path))]


def _test_arguments(workload: Workload, work: RedisWork) -> tuple[str, ...]:
    builtin = OTHER_NAMES.get(workload.builtin or "", workload.builtin)
    if builtin in TESTS:
        return ("-t", builtin)
    command = work.command or COMMANDS.get(builtin or "", ())
    if not command:
        raise InputError(
            f"redis-benchmark has no test {workload.builtin!r}",
            hint=f"It has {', '.join(REDIS.builtins)}; any other is a `command:`.",
        )
    return tuple(_with_value(word, work.space.value_bytes) for word in command)


def _with_value(word: str, value_bytes: int) -> str:
    """Return a word of a command with a value in it, which 7.0 does not put in itself."""
    if DATA not in word:
        return word
    if len(word) - len(DATA) + value_bytes > MOST_ARGUMENT_BYTES:
        raise InputError(
            f"a value of {value_bytes} bytes does not fit into a command of redis-benchmark",
            hint=f"Linux takes {MOST_ARGUMENT_BYTES} bytes in an argument. Use a test with"
            " `builtin:` (set, lpush, hset), or a smaller `value_bytes`.",
        )
    repeated = _LETTERS * (value_bytes // len(_LETTERS) + 1)
    return word.replace(DATA, repeated[:value_bytes])


def parse(completed: Completed) -> Printed:
    """Return what one process printed.

    Raises:
        MeasurementError: It failed, or its output is not understood.
    """
    if not completed.succeeded:
        raise MeasurementError(
            f"redis-benchmark exited with {completed.exit_status}: {completed.tail(3)}"
        )
    # Progress lines overwrite each other with "\r", and the last of them the summary's title.
    text = completed.stdout.replace("\r", "\n")
    sections = list(_SECTION.finditer(text))
    if len(sections) != 1:
        raise _not_understood(f"it tells of {len(sections)} tests, not of one")
    summary = text[sections[0].end() :]
    requests = int(_required(r"^ +(\d{1,12}) requests completed in ", summary))
    seconds = _seconds(requests, summary)
    times = _SUMMARY.search(summary)
    if times is None:
        raise _not_understood("it has no summary of latencies")
    return Printed(
        test=sections[0]["test"],
        requests=requests,
        seconds=seconds,
        mean_s=float(times["avg"]) / MS_PER_S,
        longest_s=float(times["max"]) / MS_PER_S,
        series=_series_from_progress(
            text[: sections[0].start()], requests=requests, seconds=seconds
        ),
        steps=_steps(summary, times),
    )


def _seconds(requests: int, summary: str) -> float:
    """Return how long it took: by the rate, which is printed finer than the time."""
    printed_s = float(_required(rf" requests completed in ({_NUMBER}) seconds", summary))
    rate = re.search(rf"throughput summary: ({_NUMBER}) requests per second", summary)
    exact_s = requests / float(rate[1]) if rate is not None and float(rate[1]) > 0.0 else printed_s
    return max(round(exact_s, 6), 1e-3)  # it counts milliseconds, and a run may take none


def _steps(summary: str, times: re.Match[str]) -> tuple[Step, ...]:
    """Return the counts of both of its tables, and of the percentiles in its summary.

    Of a percentile that is printed alone the least count that it can have is known: so many
    requests are not above it.
    """
    told = [
        Step(latency_us=_us(match["ms"]), requests=int(match["count"]))
        for match in _STEP.finditer(summary)
    ]
    whole = max((step.requests for step in told), default=0)
    if not whole:
        return ()
    alone = [
        Step(latency_us=_us(times[name]), requests=-(-whole * hundredths // 100))
        for name, hundredths in (("p50", 50), ("p95", 95), ("p99", 99))
    ]
    told.append(Step(latency_us=_us(times["max"]), requests=whole))
    return rising((*told, *alone))


def _us(milliseconds: str) -> int:
    return round(float(milliseconds) * 1000.0)


def _series_from_progress(progress: str, *, requests: int, seconds: float) -> tuple[Second, ...]:
    """Return the progress by whole seconds; what they leave of the run is in the last entry.

    Lines come every 250 ms by its own clock and carry no time. The first comes with the first
    answers and tells nothing.
    """
    lines = list(_PROGRESS.finditer(progress))[1:]
    number = min(len(lines), int(seconds / _TICK_S))
    ticks = [_tick(line, place) for place, line in enumerate(lines[:number], start=1)]
    full = [ticks[at : at + _TICKS_PER_SECOND] for at in range(0, number, _TICKS_PER_SECOND)]
    whole = [_one(part) for part in full if len(part) == _TICKS_PER_SECOND]
    over_s = seconds - len(whole) * _TICKS_PER_SECOND * _TICK_S
    if whole and over_s < 2 * _TICK_S:
        over_s += whole.pop().seconds
    over = max(requests - sum(second.transactions for second in whole), 0.0)
    rest = ticks[len(whole) * _TICKS_PER_SECOND :]
    last = Second(
        end_s=round(seconds, 6),
        transactions=round(over, 3),
        seconds=round(over_s, 6),
        latency_mean_s=mean_latency_s(rest),
    )
    return (*whole, last)


def _tick(line: re.Match[str], place: int) -> Second:
    is_known = "nan" not in line["ms"]
    return Second(
        end_s=place * _TICK_S,
        transactions=float(line["rps"]) * _TICK_S,
        seconds=_TICK_S,
        latency_mean_s=float(line["ms"]) / MS_PER_S if is_known else None,
    )


def _one(ticks: Sequence[Second]) -> Second:
    return Second(
        end_s=ticks[-1].end_s,
        transactions=round(sum(tick.transactions for tick in ticks), 3),
        seconds=sum(tick.seconds for tick in ticks),
        latency_mean_s=mean_latency_s(ticks),
    )


def _required(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise _not_understood(f"it has no line {pattern!r}")
    return match[1]


def _not_understood(what: str) -> MeasurementError:
    return MeasurementError(
        f"the output of redis-benchmark is not understood: {what}",
        hint="It is in the campaign's raw/ directory; please report it.",
    )
