"""redis-benchmark: command lines and the reading of what it prints.

The output of 7.0.15 was recorded (``tests/recordings/redis_benchmark``). What it does was read in
its source, redis-benchmark.c of 7.0 and valkey-benchmark's of 8:

- It takes a number of requests, no time, and says how long they took (``totlatency``) to 10 ms; the
  rate that it prints tells the millisecond.
- With ``--threads`` it looks only every 250 ms whether it is done (``showThroughput``): 2000
  requests that take 0.04 s were measured as 0.26 s here. So each worker is a process of its own.
- A latency above 3 s counts as 3 s (``CONFIG_LATENCY_HISTOGRAM_MAX_VALUE``). In a pipeline all
  requests of a batch have the latency of its first answer (``readHandler``).
- It takes a password as an argument only, which every account of the machine can read.
- The tests ``lrange_*`` fill a list first, as a test of its own, and ``ping`` is two tests.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from steelyard.engines.engine import RunRequest
from steelyard.engines.redis.addresses import credentials, refuse_password, tls_files
from steelyard.engines.redis.printed import Printed, Step, mean_latency_s, rising
from steelyard.engines.redis.words import COMMANDS, DATA, OTHER_NAMES, READ_ONLY
from steelyard.gateways.redis import socket_path
from steelyard.model.command import Completed, ServerAddress
from steelyard.model.errors import InputError, MeasurementError
from steelyard.model.load import Load
from steelyard.model.measurement import Second
from steelyard.model.units import MS_PER_S
from steelyard.model.workload import RedisWork, Workload

# The tests of these names would run after a test that fills the list.
TESTS: Final = tuple(name for name in COMMANDS if not name.startswith("lrange_"))
BUILTINS: Final = (*COMMANDS, *OTHER_NAMES)
READ_ONLY_BUILTINS: Final = READ_ONLY
MOST_ARGUMENT_BYTES: Final = 131_071  # MAX_ARG_STRLEN of Linux is 128 KiB with the final zero
# Flags that decide what is measured; the experiment file sets them.
_OWN_FLAGS: Final = {
    **dict.fromkeys(("-h", "-p", "-s", "-u", "--user", "--dbnum", "--tls"), "target"),
    **dict.fromkeys(("--cacert", "--cert", "--key", "--cluster"), "target"),
    "-a": "nothing: secrets are never arguments",
    "-c": "loads.clients",
    "--threads": "loads.threads",
    "-P": "loads.pipeline",
    "-n": "measure.slice",
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


def environment(address: ServerAddress) -> Mapping[str, str]:
    """Return the environment for an address: nothing, because redis-benchmark reads none of it.

    Raises:
        PreflightError: The server asks for a password.
    """
    refuse_password(address, "redis-benchmark")
    return {}


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


def command_of(builtin: str) -> str:
    """Return the command that a test sends: ``SET``."""
    return COMMANDS[OTHER_NAMES.get(builtin, builtin)][0]


def _address_arguments(address: ServerAddress) -> list[str]:
    who = credentials(address)
    login = ["--user", who[0], "-a", who[1]] if who is not None else []
    socket = socket_path(address)
    if address.inside is None and socket is not None:
        return ["-s", str(socket), *login]
    host, port = address.inside or (address.host, address.port)
    arguments = ["-h", host, "-p", f"{port}", *login]
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
            hint=f"It has {', '.join(BUILTINS)}; any other is a `command:`.",
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
        series=_series(text[: sections[0].start()], requests=requests, seconds=seconds),
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


def _series(progress: str, *, requests: int, seconds: float) -> tuple[Second, ...]:
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
