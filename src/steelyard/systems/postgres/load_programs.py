"""What puts the load on PostgreSQL: pgbench, or a program that the experiment names.

The contract with such a program is in ``docs/generators.md``: what it is told, and how its figures
are found. A command is started without a shell; what it is told stands as names in braces in its
words and, once more, in its environment.
"""

import itertools
import json
import math
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from steelyard.core import experiment as model
from steelyard.core.measurement import Measurement
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.schedule import (
    JSON_STEP,
    LATENCY_COLUMN,
    LATENCY_UNITS,
    MEAN,
    PGBENCH_LOG,
    RATE_UNITS,
    TIME_COLUMN,
    TIME_UNITS,
    LoadCommand,
    Pausing,
    Stretch,
    share_of,
)
from steelyard.core.wording import InputError, MeasurementError, PreflightError
from steelyard.gateways.process import Processes
from steelyard.systems.postgres import in_order, pgbench, scripts
from steelyard.systems.postgres.log_lines import LogForm, us_of
from steelyard.systems.postgres.server import Installation
from steelyard.systems.postgres.transaction_log import (
    TransactionLog,
    TransactionLogReader,
)
from steelyard.systems.protocol import Execution, LoadProgram, RunRequest

OF_THE_SERVER: Final = ("host", "port", "user", "database")
OF_A_RUN: Final = (
    *("workload", "clients", "threads", "seconds", "discard_start", "run_time", "configuration"),
)
OF_A_LOG: Final = "log"
_NAMED: Final = re.compile(r"\{([a-z_]+)\}")


def command_of(workload: model.Workload) -> LoadCommand:
    """Return the command of a workload that has one."""
    assert workload.command is not None  # noqa: S101 - who asks has chosen by it
    return workload.command


def names_in(words: Sequence[str]) -> tuple[str, ...]:
    """Return the names in braces in the words of a command, each once."""
    return tuple(dict.fromkeys(name for word in words for name in _NAMED.findall(word)))


def filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a command with values for the names in braces."""
    return tuple(_NAMED.sub(lambda found: values.get(found[1], found[0]), word) for word in words)


def values_of_server(address: ServerAddress) -> dict[str, str]:
    """Return what a command is told of the server, by name; never a password."""
    return {
        "host": address.host,
        "port": str(address.port),
        "user": address.user,
        "database": address.database,
    }


def values_of_run(request: RunRequest, address: ServerAddress, ramp_s: float) -> dict[str, str]:
    """Return what a command is told of one run, by name."""
    return {
        **values_of_server(address),
        "workload": request.workload.name,
        "clients": str(request.load.clients),
        "threads": str(request.load.threads),
        "seconds": str(request.seconds),
        "discard_start": f"{ramp_s:g}",
        "run_time": f"{request.seconds - ramp_s:g}",
        "configuration": request.configuration,
    }


def in_environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return the same values as environment variables."""
    return {f"STEELYARD_{name.upper()}": value for name, value in values.items()}


def figure_in(text: str, place: str) -> float | None:
    """Return the last number at a place in a text; None where there is none.

    Raises:
        MeasurementError: It is below zero or not finite: the one before it is not the result.
    """
    found: Iterable[object]
    if place.startswith("$"):
        found = _by_path(text, place)
    else:
        matches = re.finditer(place, text, re.MULTILINE)
        found = (next(iter(match.groupdict().values()), match[1]) for match in matches)
    numbers = [number for number in map(_number, found) if number is not None]
    if not numbers:
        return None
    if not (math.isfinite(numbers[-1]) and numbers[-1] >= 0):
        raise MeasurementError(
            f"the last match of {place!r} is {numbers[-1]:g}, which is no measurement",
            hint="Look at the program's output in the campaign's raw/ directory.",
        )
    return numbers[-1]


def _by_path(text: str, path: str) -> Iterator[object]:
    """Yield what stands at a path of each JSON object that begins a line of a text."""
    decoder = json.JSONDecoder()
    at = 0
    while (found := re.compile(r"^[ \t]*[{\[]", re.MULTILINE).search(text, at)) is not None:
        start = found.end() - 1
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        for step in JSON_STEP.finditer(path):
            value = _within(value, step)
        yield value


def _within(value: Any, step: re.Match[str]) -> object:  # noqa: ANN401 - any JSON
    name, index, quoted = step.groups()
    if index is not None:
        within = isinstance(value, list) and int(index) < len(value)
        return value[int(index)] if within else None
    return value.get(name or quoted) if isinstance(value, dict) else None


def _number(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    try:
        return float(given)
    except ValueError:
        return None
    except OverflowError:  # of JSON, whose whole numbers have no end
        return math.inf


def parse_run(
    command: LoadCommand, completed: Completed, *, seconds: float, ramp_s: float
) -> Measurement:
    """Return what a program measured in the seconds without the ramp, by its own words.

    Raises:
        MeasurementError: It failed, or it printed no rate.
    """
    if not completed.succeeded:
        raise MeasurementError(
            f"{command.name} exited with {completed.exit_status}: {completed.tail(3)}"
        )
    length_s = max(seconds - ramp_s, 1e-3)
    if command.rate is None:
        return _unmeasured(length_s)
    text = f"{completed.stdout}\n{completed.stderr}"
    rate = figure_in(text, command.rate)
    if rate is None:
        raise MeasurementError(
            f"{command.name} printed no rate: nothing matches {command.rate!r}",
            hint="Its output is in the campaign's raw/ directory; correct `generator.rate`.",
        )
    printed = ((name, figure_in(text, place)) for name, place in command.latency)
    unit_s = LATENCY_UNITS[command.latency_unit]
    latencies = {name: value * unit_s for name, value in printed if value is not None}
    return replace(
        _unmeasured(length_s),
        transactions=rate * RATE_UNITS[command.rate_unit] * length_s,
        latency_mean_s=latencies.pop(MEAN, None),
        percentiles=tuple(
            sorted((share_of(name) or 0.0, value) for name, value in latencies.items())
        ),
    )


def _unmeasured(length_s: float) -> Measurement:
    return Measurement(
        transactions=0.0,
        seconds=length_s,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=(),
    )


# Guesses. Threads that share a file write a line when they come to it, not when its time was taken.
BACKWARDS_S: Final = 1.0
_LONGEST_LINE: Final = 1 << 16
_SECOND_US: Final = us_of(1.0)
_FIRST_US, _LAST_US = 10**9 * _SECOND_US, 10**10 * _SECOND_US  # the years 2001 to 2286
_SEPARATOR: Final = rb"[ \t]*[,; \t][ \t]*"
_NUMBER: Final = rb"[0-9]{1,20}(?:\.[0-9]*)?"
_OF_PGBENCH: Final = re.compile(
    rb"[0-9]+ [0-9]+ (?P<latency>[0-9]{1,16}|[a-z_-]+) [0-9]+"
    rb" (?P<time>[0-9]{10}) (?P<us>[0-9]{1,6})$"
)


def _pattern_of(columns: Sequence[str]) -> re.Pattern[bytes]:
    if PGBENCH_LOG in columns:
        return _OF_PGBENCH
    groups = [
        b"(?P<%s>%s)" % (column.encode(), _NUMBER)
        if column in (TIME_COLUMN, LATENCY_COLUMN)
        else rb"[^,; \t]*"
        for column in columns
    ]
    return re.compile(rb"[ \t]*" + _SEPARATOR.join(groups) + rb"(?:[,; \t\r]|$)")


class NamedLogReader:
    """Reads the log of a program that the experiment names: each line as one of pgbench's.

    Args:
        reader: Counts them.
        stretches: When the program ran, where it was paused in between.
    """

    def __init__(
        self, program: LoadCommand, reader: TransactionLogReader, stretches: Sequence[Stretch] = ()
    ) -> None:
        self._match = _pattern_of(program.log or ()).match
        self._is_pgbench = PGBENCH_LOG in (program.log or ())
        self._has_latencies = program.logs_latencies
        self._time_us = TIME_UNITS[program.log_time_unit] * _SECOND_US
        self._latency_us = LATENCY_UNITS[program.latency_unit] * _SECOND_US
        self._reader = reader
        pauses = (b.began_at - a.ended_at for a, b in itertools.pairwise(stretches))
        # Who stood still between taking the time and writing it may be late by a pause.
        self._slack_us = us_of(BACKWARDS_S + max(pauses, default=0.0))
        self._rests: dict[str, bytes] = {}
        self._lines: dict[str, int] = {}
        self._latest_us: dict[str, int] = {}
        self._wrong: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def feed(self, source: str, chunk: bytes) -> None:
        """Take the next bytes of a file; they may end inside a line."""
        *lines, rest = (self._rests.get(source, b"") + chunk).split(b"\n")
        self._rests[source] = rest[:_LONGEST_LINE]
        first = self._lines.get(source, 0) + 1
        self._lines[source] = first - 1 + len(lines)
        read = (self._as_pgbench(source, number, line) for number, line in enumerate(lines, first))
        self._reader.feed(source, b"".join(read))

    def _as_pgbench(self, source: str, number: int, line: bytes) -> bytes:
        """Return a line as pgbench writes them; nothing of one that cannot be read."""
        found = self._match(line) if len(line) < _LONGEST_LINE else None
        if found is None:
            return self._refuse("cannot be read", source, number, line)
        at_us = round(float(found[TIME_COLUMN]) * self._time_us)
        if self._is_pgbench:
            at_us += int(found["us"])
            latency = found[LATENCY_COLUMN]
        else:
            took = float(found[LATENCY_COLUMN]) if self._has_latencies else 0.0
            latency = b"%d" % round(took * self._latency_us)
        if not _FIRST_US <= at_us < _LAST_US:
            return self._refuse("have a time that is not since the epoch", source, number, line)
        latest_us = self._latest_us.get(source, 0)
        if at_us > latest_us:
            self._latest_us[source] = at_us
        elif at_us < latest_us - self._slack_us:
            return self._refuse("go back in time", source, number, line)
        return b"0 0 %s 0 %d %d\n" % (latency, *divmod(at_us, _SECOND_US))

    def _refuse(self, what: str, source: str, number: int, line: bytes) -> bytes:
        self._wrong[what] = self._wrong.get(what, 0) + 1
        shown = line[:80].decode(errors="replace")
        self._first.setdefault(what, f"{source}, line {number}: {shown!r}")
        return b""

    def finish(self, *, ramp_s: float | None = None) -> TransactionLog:
        """Return what was read.

        Raises:
            MeasurementError: A line cannot be read, or has a time that cannot be.
        """
        counted = self._reader.finish(ramp_s=ramp_s)
        for what, number in self._wrong.items():
            raise MeasurementError(
                f"{number} lines of the log {what}, of {sum(self._lines.values())}; the first is in"
                f" {self._first[what]}",
                hint="Correct `generator.log`, or the program that writes it.",
            )
        for source, rest in self._rests.items():
            if rest:
                raise MeasurementError(
                    f"{source} of the log ends inside line {self._lines[source] + 1}: what the"
                    " program had not written out is lost",
                    hint="Let it write each line at once, or all that is left at SIGTERM.",
                )
        return counted


_ENDED: Final = (0, -signal.SIGTERM, 128 + signal.SIGTERM)  # the last as shells and JVMs say it
_DEADLINE_BEYOND_RUN_S: Final = 60.0
_TRIAL_TIMEOUT_S: Final = 30.0


class PostgresLoad(LoadProgram, Protocol):
    """A load generator for PostgreSQL."""

    def check(self) -> None:
        """Raise an InputError or a PreflightError where it cannot do what is asked."""

    def tools(self) -> Mapping[str, str]:
        """Return its version by its name."""

    def only_reads(self, workload: model.Workload) -> bool:
        """Return whether a workload leaves the data as they are, for certain."""

    def run_commands(self, request: RunRequest, address: ServerAddress) -> tuple[Command, ...]:
        """Return the command line of each process for one run in the data's own database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgbench(PostgresLoad):
    """The pgbench of one installation.

    Attributes:
        find: Returns the installation, which an engine may learn late.
        account: As which it runs.
    """

    experiment: model.Experiment
    find: Callable[[], Installation]
    processes: Processes
    account: str | None

    def check(self) -> None:
        """Raise an InputError for flags that Steelyard sets itself, or that pgbench refuses.

        A pgbench that is not on this machine is not asked.
        """
        flags = self.experiment.generator_flags
        pgbench.refuse_own_flags(flags)
        if not flags or self.find().is_elsewhere:
            return
        trial = pgbench.trial_of(self.find().program("pgbench"), flags)
        refusal = pgbench.refusal(self.processes.run(trial, timeout_s=_TRIAL_TIMEOUT_S))
        if refusal:
            raise InputError(
                f"pgbench {self.find().version} refuses `{shlex.join(flags)}`: {refusal}",
                hint="`pgbench --help` lists its flags; a value is best written as --flag=value.",
            )

    def tools(self) -> Mapping[str, str]:
        """Return its version."""
        return {"pgbench": self.find().version}

    def only_reads(self, workload: model.Workload) -> bool:
        """Return whether a workload leaves the data as they are, by what its statements say."""
        if workload.scripts:
            return all(scripts.only_reads(script.text) for script in workload.scripts)
        return workload.builtin in pgbench.READ_ONLY_BUILTINS

    def run_commands(self, request: RunRequest, address: ServerAddress) -> tuple[Command, ...]:
        return tuple(
            Command(
                argv=(self.find().program("pgbench"), *pgbench.run_arguments(part)),
                environment=pgbench.environment(address),
                account=self.account,
                parent_death_signal=signal.SIGKILL,
                reads=tuple(path for path, _ in part.scripts),
                writes=part.log,
            )
            for part in pgbench.divided(request)
        )

    @property
    def turns_end_signal(self) -> int:
        """Return the signal of the timer by which pgbench ends a run (``setalarm``, pgbench.c)."""
        return signal.SIGALRM

    def connected_within_s(self, completed: Sequence[Completed]) -> float:
        """Return how long all processes took to open their connections."""
        whole = pgbench.parse_generators(completed, ramp_s=0.0, started_at=0.0)
        return whole.connection_s or 0.0

    def deadline_s(self, seconds: float) -> float:
        return seconds + _DEADLINE_BEYOND_RUN_S

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,  # noqa: ARG002 - by its protocol
        ramp_s: float,
        started_at: float,
        run_time_s: float | None = None,
    ) -> Measurement:
        """Return what all processes of a run measured together."""
        return pgbench.parse_generators(
            completed, ramp_s=ramp_s, started_at=started_at, run_time_s=run_time_s
        )

    def processed(self, completed: Sequence[Completed]) -> int:
        return sum(pgbench.processed_of(each) for each in completed)

    def takes_order(self, workload: model.Workload) -> bool:
        """Return whether it has scripts; workers draw them each for itself."""
        return bool(workload.scripts) and self.experiment.workers is None

    def in_order(self, workload: model.Workload, executions: Sequence[Execution]) -> str:
        return in_order.text_of([each.text for each in workload.scripts], executions)

    def execution_times(
        self, completed: Completed, workload: model.Workload, executions: Sequence[Execution]
    ) -> tuple[float, ...]:
        """Return the sum of the times of the commands of each execution (``-r``)."""
        if not completed.succeeded:
            raise pgbench.failure(completed)
        texts = [each.text for each in workload.scripts]
        return in_order.times_of(completed.stdout, texts, executions)

    def logs_transactions(self) -> bool:
        """Return that pgbench logs every transaction."""
        return True

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float,
        ramp_s: float,
        run_time_s: float | None = None,
        stretches: Sequence[Stretch] = (),
    ) -> TransactionLogReader:
        """Return what reads pgbench's logs of a run."""
        workload = request.workload
        scripts = tuple(script.name for script in workload.scripts)
        form = LogForm(
            scripts=(workload.builtin,) if workload.builtin else scripts,
            open_loop=request.load.is_open,
            retries=pgbench.logs_retries(request.flags),
            latency_limit_s=request.load.latency_limit_s,
            sampled=request.sampling,
        )
        return TransactionLogReader(
            form,
            started_at=started_at,
            ramp_s=ramp_s,
            run_time_s=run_time_s,
            stretches=stretches,
            alone=request.in_turns is Pausing.GENERATOR,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProgram(PostgresLoad):
    """The program that an experiment names (``core.schedule.LoadCommand``)."""

    experiment: model.Experiment
    processes: Processes
    account: str | None
    _starts: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)

    def check(self) -> None:
        """Raise an InputError for flags, and a PreflightError where the program is not there."""
        command = command_of(self.experiment.workloads[0])
        if self.experiment.generator_flags:
            raise InputError(
                f"{command.name} takes no further flags",
                hint="Write them into `generator.command`.",
            )
        for program in dict.fromkeys(words[0] for words in self.experiment.commands):
            if shutil.which(program) is None:
                raise PreflightError(
                    f"there is no program {program} on this machine",
                    hint="Install it, or write its whole path in `generator`.",
                )

    def tools(self) -> Mapping[str, str]:
        """Return where it is; of its version nothing is known."""
        found = {words[0]: shutil.which(words[0]) for words in self.experiment.commands}
        return {name: path for name, path in found.items() if path is not None}

    def only_reads(self, workload: model.Workload) -> bool:  # noqa: ARG002 - by its protocol
        """Return False: nobody knows what it does."""
        return False

    def run_commands(self, request: RunRequest, address: ServerAddress) -> tuple[Command, ...]:
        """Return its command line for one run; each start writes a log of its own."""
        ramp_s = self.experiment.measure.discard_start_s
        told = values_of_run(request, address, ramp_s if request.seconds > ramp_s else 0.0)
        if self.counts_by_log():
            told[OF_A_LOG] = f"{request.log}.{next(self._starts)}"
        command = Command(
            argv=filled(command_of(request.workload).argv, told),
            environment={**pgbench.environment(address), **in_environment(told)},
            account=self.account,
            parent_death_signal=signal.SIGKILL,
        )
        return (command,)

    def connected_within_s(self, completed: Sequence[Completed]) -> float:
        """Return 0.0: it does not tell.

        Raises:
            MeasurementError: It ended otherwise than by the signal.
        """
        for each in completed:
            if each.exit_status not in _ENDED:
                raise MeasurementError(
                    f"{Path(each.argv[0]).name} ended with {each.exit_status} in its turns,"
                    f" and not with 0 or by SIGTERM: {each.tail(3)}"
                )
        return 0.0

    def deadline_s(self, seconds: float) -> float:
        return seconds + max(command_of(w).grace_s for w in self.experiment.workloads)

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,
        ramp_s: float,
        started_at: float,  # noqa: ARG002 - likewise
        run_time_s: float | None = None,  # noqa: ARG002 - likewise
    ) -> Measurement:
        """Return what it measured, by its own words; nothing where its log tells it."""
        command = command_of(request.workload)
        if request.in_turns is not None:
            return _unmeasured(request.seconds)  # `connected_within_s` has judged its end
        return parse_run(command, completed[0], seconds=request.seconds, ramp_s=ramp_s)

    def processed(self, completed: Sequence[Completed]) -> int:
        """Refuse: it counts a rate."""
        raise MeasurementError(f"{completed[0].argv[0]} does not count its transactions")

    def logs_transactions(self) -> bool:
        """Return whether the file says what its log holds."""
        return self.counts_by_log()

    def counts_by_log(self) -> bool:
        """Return whether what it did is counted in its log."""
        return any(w.command and w.command.log for w in self.experiment.workloads)

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float,
        ramp_s: float,
        run_time_s: float | None = None,
        stretches: Sequence[Stretch] = (),
    ) -> NamedLogReader:
        """Return what reads its log of a run."""
        program = command_of(request.workload)
        form = LogForm(
            scripts=(request.workload.name,),
            open_loop=False,
            retries=False,
            has_latencies=program.logs_latencies,
        )
        reader = TransactionLogReader(
            form,
            started_at=started_at,
            ramp_s=ramp_s,
            run_time_s=run_time_s,
            stretches=stretches,
            alone=request.in_turns is Pausing.GENERATOR,
        )
        return NamedLogReader(program, reader, stretches)


def load_program(
    experiment: model.Experiment,
    find: Callable[[], Installation],
    processes: Processes,
    account: str | None,
) -> PostgresLoad:
    """Return what puts the load of an experiment on: here alone it is chosen."""
    if experiment.workloads and experiment.workloads[0].command is not None:
        return NamedProgram(experiment=experiment, processes=processes, account=account)
    return Pgbench(experiment=experiment, find=find, processes=processes, account=account)
