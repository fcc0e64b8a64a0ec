"""pgbench: command lines, the reading of what it prints, several processes as one generator.

The output of versions 15, 16 and 18 was recorded (``tests/recordings/pgbench``); before 15,
progress lines do not count failures. Progress goes to standard error, the summary to standard
output.

One process may be too slow for a server, because its threads share what it keeps of all clients. So
a load is divided among several, and their results are merged.

Crash tests write numbered rows, each in a transaction of its own.
"""

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import Final, NamedTuple

from steelyard.core.measurement import Measurement, Second
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.wording import MS_PER_S, InputError, MeasurementError
from steelyard.gateways.sql import Sql, SqlSession
from steelyard.systems.protocol import RunRequest, together

SESSION_NAME = "steelyard-pgbench"  # application_name of the generator's sessions
READ_ONLY_BUILTINS = frozenset({"select-only"})
# Flags that decide what is measured; the experiment file sets them.
_SCRIPT_FLAGS = (
    *("-b", "--builtin", "-f", "--file"),
    *("-S", "--select-only", "-N", "--skip-some-updates"),
)
_OWN_FLAGS = {
    **dict.fromkeys(("-c", "--client"), "load.clients"),
    **dict.fromkeys(("-j", "--jobs"), "load.threads"),
    **dict.fromkeys(("-T", "--time", "-t", "--transactions"), "measure.run_time"),
    **dict.fromkeys(("-P", "--progress", "--progress-timestamp"), "nothing: it is always on"),
    **dict.fromkeys(("-M", "--protocol"), "load.protocol"),
    **dict.fromkeys(_SCRIPT_FLAGS, "workloads"),
    **dict.fromkeys(("-i", "--initialize", "-s", "--scale"), "workloads[].scale"),
    **dict.fromkeys(("-h", "--host", "-p", "--port", "-U", "--username"), "target"),
    **dict.fromkeys(("-d", "--dbname"), "nothing: it is not supported here"),
    **dict.fromkeys(("-R", "--rate"), "load.rate"),
    **dict.fromkeys(("-L", "--latency-limit"), "load.latency_limit"),
    **dict.fromkeys(("-l", "--log", "--log-prefix", "--aggregate-interval"), "measure.log"),
    "--sampling-rate": "measure.log_sampling",
}
_LETTERS_WITH_VALUE = "bcDfFhIjLMpPRstTU"
_NOWHERE = "/nonexistent/steelyard"  # where a trial of flags looks for a server
_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"  # bounded, so that no output gives an infinite number
_PROGRESS = re.compile(
    rf"^progress: (?P<end>{_NUMBER}) s, (?P<tps>{_NUMBER}) tps, "
    rf"lat (?P<latency>{_NUMBER}|NaN|-nan) ms stddev [^\s,]+(?:, (?P<failed>\d{{1,18}}) failed)?"
)
_SKIPPED = re.compile(r", (\d{1,18}) skipped")
# libpq's environment variables for its keywords; the rest (keepalives) has none.
_VARIABLES = {
    "hostaddr": "PGHOSTADDR",
    "options": "PGOPTIONS",
    "passfile": "PGPASSFILE",
    "channel_binding": "PGCHANNELBINDING",
    "requirepeer": "PGREQUIREPEER",
    "require_auth": "PGREQUIREAUTH",
    "gssencmode": "PGGSSENCMODE",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
    "gssdelegation": "PGGSSDELEGATION",
    "min_protocol_version": "PGMINPROTOCOLVERSION",
    "max_protocol_version": "PGMAXPROTOCOLVERSION",
    **{
        name: f"PG{name.replace('_', '').upper()}"
        for name in (
            *("sslmode", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslcertmode"),
            *("sslrootcert", "sslcrl", "sslcrldir", "sslsni"),
            *("ssl_min_protocol_version", "ssl_max_protocol_version"),
        )
    },
}
_INTERVAL_S = 1.0  # --progress=1
_EPOCH = 1e9  # a progress time beyond this is a time stamp, before it seconds since the start


class _Counts(NamedTuple):
    transactions: float = 0.0
    seconds: float = 0.0
    skipped: int = 0


def refuse_own_flags(flags: tuple[str, ...]) -> None:
    """Raise for generator flags that the experiment file decides.

    Raises:
        InputError: One of the flags is set elsewhere.
    """
    for flag in flags:
        for name in _meant(flag):
            if name in _OWN_FLAGS:
                raise InputError(
                    f"the pgbench flag {name} is set by Steelyard",
                    hint=f"Set it in the experiment file: {_OWN_FLAGS[name]}.",
                )


def _meant(flag: str) -> Iterator[str]:
    """Yield the flags that one word means: getopt takes ``-nc4`` and ``--clie=4`` too."""
    if flag.startswith("--"):
        word = flag.split("=", maxsplit=1)[0]
        yield from (name for name in _OWN_FLAGS if len(word) > 2 and name.startswith(word))
    elif flag.startswith("-"):
        for letter in flag[1:]:
            yield f"-{letter}"
            if letter in _LETTERS_WITH_VALUE:
                return


def defined(flags: Sequence[str]) -> Mapping[str, str]:
    """Return the variables that flags give: ``-Dn=1``, ``-D n=1``, ``--define=n=1`` and so on."""
    values: list[str] = []
    awaits_value = False
    for flag in flags:
        word, equals, value = flag.partition("=")
        letters = re.match(rf"-[^-{_LETTERS_WITH_VALUE}]*D(.*)", flag, re.DOTALL)
        if awaits_value:
            values.append(flag)
            awaits_value = False
        elif letters:
            values += [letters[1]] if letters[1] else []
            awaits_value = not letters[1]
        elif len(word) > len("--d") and "--define".startswith(word):
            values += [value] if equals else []
            awaits_value = not equals
    return {name: value for name, _, value in (each.partition("=") for each in values)}


def trial_of(program: str, flags: Sequence[str]) -> Command:
    """Return the command that lets pgbench read flags and reach no server.

    It reads all of them before it connects. The database comes last: a word that is no flag, or a
    last flag that takes it for its value, keeps pgbench from looking for its server at _NOWHERE.
    """
    return Command(
        argv=(program, "--no-vacuum", "--time=1", *flags, f"host={_NOWHERE}"),
        # A word among the flags would be moved behind them and taken for the database.
        environment={"POSIXLY_CORRECT": "1", "LC_ALL": "C", "PGHOST": "/nonexistent"},
    )


def refusal(completed: Completed) -> str:
    """Return what pgbench has against the flags of a trial, "" where it has nothing."""
    told = completed.stderr
    if f'"{_NOWHERE}/' in told:
        return ""
    if completed.succeeded:
        return "one of them prints something and measures nothing"
    if "too many command-line arguments" in told:
        return "one of them is no flag but a word, which would be the name of a database"
    if 'on socket "/nonexistent/' in told:
        return "the last one needs a value"
    lines = [line for line in told.splitlines() if line and ": hint:" not in line]
    line = next((line for line in lines if ": error: " in line), (lines or ["it does not say"])[-1])
    return re.sub(r"^.*?pgbench: (?:error: )?", "", line)


def run_arguments(request: RunRequest) -> tuple[str, ...]:
    """Return pgbench's arguments for one run; the address travels in the environment."""
    progress = () if request.in_turns else ("--progress=1", "--progress-timestamp")
    length = (f"--time={request.seconds}", *progress)
    arguments = [
        "--no-vacuum",  # the prepared state is vacuumed, and a vacuum here would be measured
        *(("--transactions=1", "-r") if request.ordered else length),
        f"--client={request.load.clients}",
        f"--jobs={request.load.threads}",
        f"--protocol={request.protocol}",
    ]
    if request.workload.builtin is not None:
        arguments.append(f"--builtin={request.workload.builtin}")
    elif request.workload.scale is not None:
        arguments.append(f"--scale={request.workload.scale}")
    arguments += [f"--define={name}={value}" for name, value in request.workload.variables]
    arguments += [f"--file={path}@{weight}" for path, weight in request.scripts]
    if request.load.rate_per_s is not None:
        arguments.append(f"--rate={request.load.rate_per_s:.12g}")
    if request.load.latency_limit_s is not None:
        arguments.append(f"--latency-limit={request.load.latency_limit_s * MS_PER_S:.12g}")
    return (*arguments, *_log_arguments(request), *request.flags)


def _log_arguments(request: RunRequest) -> tuple[str, ...]:
    if request.log is None:
        return ()
    asked = ("--log", f"--log-prefix={request.log}")
    return asked if request.sampling >= 1.0 else (*asked, f"--sampling-rate={request.sampling:g}")


def logs_retries(flags: Sequence[str]) -> bool:
    """Return whether flags make pgbench log a column of retries: a last ``--max-tries`` but 1.

    ``--m`` is enough for getopt: no other long option of pgbench 15 to 18 begins so. The number is
    read as C's ``atoi`` does: 0 is no limit.
    """
    tries = "1"
    for place, flag in enumerate(flags):
        word, equals, value = flag.partition("=")
        if len(word) >= len("--m") and "--max-tries".startswith(word):
            following = flags[place + 1] if place + 1 < len(flags) else ""
            tries = value if equals else following
    return re.fullmatch(r"\s*\+?0*1(\D.*)?", tries) is None


def initialise_arguments(scale: int) -> tuple[str, ...]:
    """Return pgbench's arguments that make its tables; it never drops any.

    Client-side generation: its COPY FREEZE makes the vacuum and the primary keys cheaper, which
    was measured to be faster than server-side generation at scale 10 and 100.
    """
    return ("--initialize", "--init-steps=tgvp", f"--scale={scale}", "--quiet")


def environment(address: ServerAddress) -> Mapping[str, str]:
    """Return libpq's environment for an address; the only way a password travels."""
    further = {_VARIABLES[n]: value for n, value in address.parameters if n in _VARIABLES}
    variables = {
        **further,
        "PGHOST": address.host,
        "PGPORT": str(address.port),
        "PGUSER": address.user,
        "PGDATABASE": address.database,
        "PGAPPNAME": SESSION_NAME,
        "PGPASSWORD": address.password,
    }
    return {name: value for name, value in variables.items() if value}


_ABORTED = re.compile(r"(?<=\bscript )(\d+)(?= aborted in command )")
_PLACED = re.compile(r"--file=(?:.*/)?(?:\d+-)?(.+)@\d+")


def failure(completed: Completed) -> MeasurementError:
    """Return how pgbench failed; it numbers its scripts, and their files have names."""
    files = [match[1] for word in completed.argv if (match := _PLACED.fullmatch(word))]

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return files[number] if number < len(files) else match[1]

    cause = _ABORTED.sub(named, completed.cause())
    return MeasurementError(f"pgbench exited with {completed.exit_status}: {cause}")


def parse_run(
    completed: Completed, *, ramp_s: float, started_at: float, run_time_s: float | None = None
) -> Measurement:
    """Return what one run measured after its ramp.

    Transactions after the ramp are all transactions minus those that progress lines report up to
    its end; no second is dropped, so stalls stay in. Where a tail follows they are those of the
    progress lines between.

    Args:
        completed: Of a run with ``--progress=1``.
        ramp_s: Thrown away at the start, whole seconds.
        started_at: Wall clock at the start, to turn time stamps into seconds.
        run_time_s: So long after the ramp the tail of an open loop begins; None: there is none.

    Raises:
        MeasurementError: pgbench failed, or its output is not understood.
    """
    if not completed.succeeded:
        raise failure(completed)
    summary = completed.stdout
    processed = processed_of(completed)
    tps = _required(rf"^tps = ({_NUMBER}) ", summary)
    series = parse_progress(completed.stderr, started_at=started_at)
    # A run without a transaction is a result, too: a configuration may have caused it.
    whole_s = processed / tps if tps else sum(second.seconds for second in series)
    if not whole_s:
        raise MeasurementError(
            "pgbench completed no transaction and reported no progress",
            hint="Is `measure.run_time` too short for this workload?",
        )
    latency_ms = _optional(rf"^latency average = ({_NUMBER}) ms", summary)
    stddev_ms = _optional(rf"^latency stddev = ({_NUMBER}) ms", summary)
    connection_ms = _optional(rf"^initial connection time = ({_NUMBER}) ms", summary)
    whole = _Counts(
        transactions=processed,
        seconds=whole_s,
        skipped=int(_optional(r"^number of transactions skipped: (\d{1,18})\b", summary) or 0),
    )
    skipped = chain(_skipped(completed.stderr), repeat(0))
    intervals = [_Counts(each.transactions, each.seconds, next(skipped)) for each in series]
    begin = round(ramp_s)
    end = None if run_time_s is None else begin + round(run_time_s)
    after_ramp = _Counts(*map(operator.sub, whole, _total(intervals[:begin])))
    # A tail that no line tells of cannot be told from what came before.
    measured = after_ramp if end is None or len(series) < end else _total(intervals[begin:end])
    return Measurement(
        transactions=max(measured.transactions, 0.0),
        seconds=max(measured.seconds, 1e-3),
        latency_mean_s=None if latency_ms is None else latency_ms / MS_PER_S,
        latency_stddev_s=None if stddev_ms is None else stddev_ms / MS_PER_S,
        failed=int(_optional(r"^number of failed transactions: (\d{1,18})\b", summary) or 0),
        connection_s=None if connection_ms is None else connection_ms / MS_PER_S,
        series=series,
        tail_transactions=max(after_ramp.transactions - measured.transactions, 0.0),
        skipped=max(measured.skipped, 0),
    )


def processed_of(completed: Completed) -> int:
    """Return how many transactions pgbench counts as processed: neither failed nor skipped.

    Raises:
        MeasurementError: It does not say.
    """
    pattern = r"^number of transactions actually processed: (\d{1,18})\b"
    return int(_required(pattern, completed.stdout))


def parse_progress(text: str, *, started_at: float) -> tuple[Second, ...]:
    """Return the progress intervals in pgbench's standard error; other lines are passed over.

    Interval lengths come from successive times. The first is the one second asked for: pgbench
    counts it from its last connection, and the time to get there holds no transaction.
    """
    series: list[Second] = []
    previous_s = 0.0
    for line in text.splitlines():
        match = _PROGRESS.match(line)
        if match is None:
            continue
        end = float(match["end"])
        end_s = end - started_at if end > _EPOCH else end
        length_s = end_s - previous_s
        if not series:
            length_s = _INTERVAL_S
        if length_s <= 0:
            continue
        transactions = float(match["tps"]) * length_s
        latency_s = float(match["latency"]) / MS_PER_S
        series.append(
            Second(
                end_s=round(end_s, 6),
                transactions=round(transactions, 3),
                seconds=round(length_s, 6),
                latency_mean_s=latency_s if transactions > 0 and latency_s > 0 else None,
                failed=int(match["failed"] or 0),
            )
        )
        previous_s = end_s
    return tuple(series)


def _skipped(text: str) -> list[int]:
    lines = [line for line in text.splitlines() if _PROGRESS.match(line)]
    found = [_SKIPPED.search(line) for line in lines]
    return [0 if match is None else int(match[1]) for match in found]


def _total(intervals: Sequence[_Counts]) -> _Counts:
    return _Counts(*map(sum, zip(*intervals, strict=True)))


def _required(pattern: str, text: str) -> float:
    value = _optional(pattern, text)
    if value is None:
        raise MeasurementError(
            f"pgbench's summary has no line {pattern.strip('^').split('(')[0].strip()!r}",
            hint="Its output is in the campaign's raw/ directory; please report it.",
        )
    return value


def _optional(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1]) if match else None


def divided(request: RunRequest) -> tuple[RunRequest, ...]:
    """Return what each process is asked for: clients and threads as even as can be.

    The rate follows the clients. A process has at least one client and one thread, so there are
    never more processes than clients. Where scripts run in a given order each client has a process
    of its own.
    """
    load = request.load
    if request.ordered:
        return tuple(
            replace(
                request,
                load=replace(load, generators=1, clients=1, threads=1),
                flags=tuple(_seeded(request.flags, place)),
                scripts=((path, 1),),
                ordered=(path,),
            )
            for place, path in enumerate(request.ordered)
        )
    number = max(min(load.generators, load.clients), 1)
    if number == 1:
        return (request,)
    clients = _shares(load.clients, number)
    threads = [max(share, 1) for share in _shares(load.threads, number)]
    return tuple(
        replace(
            request,
            load=replace(
                load,
                generators=1,
                clients=own,
                threads=own_threads,
                rate_per_s=load.rate_per_s and load.rate_per_s * own / load.clients,
            ),
            flags=tuple(_seeded(request.flags, place)),
            log=request.log and request.log.with_name(f"{request.log.name}-{place}"),
        )
        for place, (own, own_threads) in enumerate(zip(clients, threads, strict=True))
    )


def _seeded(flags: Sequence[str], place: int) -> Iterator[str]:
    """Yield flags with a random seed of its own for each process.

    Under one seed all would go for the same rows at the same time.
    """
    is_seed = False
    for flag in flags:
        word, equals, value = flag.partition("=")
        named = len(word) > len("--ra") and "--random-seed".startswith(word)
        if named and equals and value.isdecimal():
            yield f"{word}={int(value) + place}"
        elif is_seed and flag.isdecimal():
            yield str(int(flag) + place)
        else:
            yield flag
        is_seed = named and not equals


def _shares(whole: int, parts: int) -> list[int]:
    return [whole // parts + (place < whole % parts) for place in range(parts)]


def parse_generators(
    completed: Sequence[Completed],
    *,
    ramp_s: float,
    started_at: float,
    run_time_s: float | None = None,
) -> Measurement:
    """Return what all processes of a run measured together, each as ``parse_run`` reads it.

    Raises:
        MeasurementError: One failed, or its output is not understood.
    """
    # Those that were ended because of another have a signal as their status, which is negative.
    for each in sorted(completed, key=lambda one: one.exit_status, reverse=True):
        if not each.succeeded:
            raise failure(each)
    run = partial(parse_run, ramp_s=ramp_s, started_at=started_at, run_time_s=run_time_s)
    taken = [*map(run, completed)]
    return taken[0] if len(taken) == 1 else _merged(taken, [*map(processed_of, completed)])


def _merged(taken: Sequence[Measurement], counted: Sequence[int]) -> Measurement:
    mean_s = _mean([one.latency_mean_s for one in taken], counted)
    connections = [one.connection_s for one in taken if one.connection_s is not None]
    return Measurement(
        transactions=sum(one.transactions for one in taken),
        seconds=max(one.seconds for one in taken),
        latency_mean_s=mean_s,
        latency_stddev_s=_stddev_s(taken, counted, mean_s),
        failed=sum(one.failed for one in taken),
        connection_s=max(connections) if len(connections) == len(taken) else None,
        series=_series([one.series for one in taken]),
        tail_transactions=sum(one.tail_transactions for one in taken),
        skipped=sum(one.skipped for one in taken),
    )


def _mean(values: Sequence[float | None], counted: Sequence[int]) -> float | None:
    """Return the mean over all transactions; None where a process with some has no value."""
    told = [(value, count) for value, count in zip(values, counted, strict=True) if count]
    known = [value * count for value, count in told if value is not None]
    return sum(known) / sum(counted) if told and len(known) == len(told) else None


def _stddev_s(
    taken: Sequence[Measurement], counted: Sequence[int], mean_s: float | None
) -> float | None:
    """Return the standard deviation over all transactions: within and between the processes.

    pgbench divides by the number of transactions, not by one less (pgbench.c, printSimpleStats).
    """
    squares = [
        None
        if mean_s is None or one.latency_mean_s is None or one.latency_stddev_s is None
        else one.latency_stddev_s**2 + (one.latency_mean_s - mean_s) ** 2
        for one in taken
    ]
    variance = _mean(squares, counted)
    return None if variance is None else math.sqrt(variance)


def _series(all_series: Sequence[Sequence[Second]]) -> tuple[Second, ...]:
    """Return the intervals of all processes added up, by whole seconds after each one's first."""
    by_place: dict[int, list[Second]] = {}
    for series in all_series:
        for second in series:
            by_place.setdefault(round(second.end_s - series[0].end_s), []).append(second)
    return tuple(together(by_place[place]) for place in sorted(by_place))


_TABLE: Final = (
    "CREATE TABLE crash_test (writer integer NOT NULL, number bigint NOT NULL, filler text)"
)
# RETURNING: the row that comes back is the acknowledgement of a committed statement.
_INSERT: Final = (
    "INSERT INTO crash_test SELECT %s, number, repeat('.', 100)"
    " FROM generate_series(%s::bigint, %s::bigint) number RETURNING number"
)
_MISSING: Final = (
    "SELECT number FROM generate_series(1, %s::bigint) number"
    " EXCEPT SELECT number FROM crash_test WHERE writer = %s ORDER BY number"
)
_PATIENCE_S: Final = 60.0


class NumberedRows:
    """Rows of a table without an index, so that only the rows themselves are asked for."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def prepare(self, address: ServerAddress) -> None:
        """Make the table."""
        self._sql.execute(address, [_TABLE])

    def writer(self, address: ServerAddress, writer: int) -> "RowWriter":
        """Return a connection that writes."""
        name = f"steelyard crash test {writer}"
        return RowWriter(self._sql.session(address, name, patience_s=_PATIENCE_S), writer)

    def missing(self, address: ServerAddress, writer: int, last: int) -> list[int]:
        """Return which of a writer's rows up to the last are gone."""
        rows = self._sql.rows(address, _MISSING, (last, writer))
        return [int(str(number)) for (number,) in rows]


class RowWriter:
    """One connection."""

    def __init__(self, session: SqlSession, writer: int) -> None:
        self._session = session
        self._writer = writer

    def write(self, first: int, count: int) -> None:
        """Insert so many rows in one transaction; see ``NumberedWriter``."""
        self._session.rows(_INSERT, (self._writer, first, first + count - 1))

    def close(self) -> None:
        """End the connection."""
        self._session.close()
