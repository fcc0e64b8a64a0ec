"""What the runner asks of a database system, whichever it is.

An engine supplies command lines, parsers and SQL-level knowledge for one server program; a
platform runs them. A reader says what a running server tells of itself and can do at most. What
has a body here is how it is where a database system has nothing of the kind.
"""

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from steelyard.core import experiment as model
from steelyard.core import measurement
from steelyard.core.findings import Finding
from steelyard.core.outside import Command, Completed, ServerAddress, ServerProgram
from steelyard.core.schedule import Load, Pausing, Stretch
from steelyard.core.wording import (
    Complaint,
    MeasurementError,
    TargetError,
    is_secret_setting,
    redacted,
)
from steelyard.gateways.host import Clock

# Of those that are ended together: when the first is gone the others are killed.
_ENDED = (-signal.SIGTERM, -signal.SIGKILL)
_DEADLINE_BEYOND_RUN_S = 60.0
_DEADLINE_FACTOR = 10.0  # a guess: so much slower than it was a moment ago may a server become


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many of the generator's sessions wait for one event at one moment.

    Attributes:
        kind: As the server calls the kind of wait; ``CPU`` when it names none.
        name: The event; empty for CPU.
        group: What it counts as.
    """

    kind: str
    name: str
    group: measurement.WaitClass
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedAt:
    """What a server had done at a moment.

    Attributes:
        at_s: By the server's own clock, since the epoch.
        transactions: Of the workload, since an arbitrary start.
    """

    at_s: float
    transactions: int


class TurnCounter(Protocol):
    """A session of its own that counts what a server does of one workload, while it runs."""

    def read(self) -> CountedAt:
        """Return what it has done so far, without what was done for the reading.

        Raises:
            MeasurementError: The server does not tell it.
            TargetError: It is gone.
        """

    def close(self) -> None:
        """End the session; the server may stand still."""


class ServerReader(Protocol):
    """A session of its own that reads what a server says of itself, around one run.

    Every method but ``close`` is called from one thread. Errors are TargetError.
    """

    @property
    def source(self) -> str:
        """Return where ``waits`` come from, in words: ``pg_stat_activity``."""

    @property
    def pid(self) -> int | None:
        """Return the process of the session on the server; None where it has none of its own."""
        return None

    @property
    def serving_pid(self) -> int | None:
        """Return the process whose first thread serves all sessions; None where none does."""
        return None

    @property
    def answering_s(self) -> float | None:
        """Return the server's CPU time that went into answers so far, where it counts that."""
        return None

    @property
    def absent(self) -> tuple[measurement.Absence, ...]:
        """Return what this version or this role does not show."""

    def skip(self, seconds: float) -> None:  # noqa: ARG002 - nothing is summed up
        """Take note that for so long nothing went on: what is summed over time leaves it out."""
        return

    def waits(self) -> Sequence[Waiting]:
        """Return what the generator's sessions do now; also those that wait for their client."""

    def counters(self) -> Mapping[str, float]:
        """Return all counters there are, since an arbitrary start, by ``Quantity``."""

    def settled_counters(self) -> Mapping[str, float]:
        """Return the same when the generator's sessions are gone and have reported all they did."""

    def levels(self) -> Mapping[str, float]:
        """Return readings that are no counters, by ``Quantity``."""

    def statements(self) -> tuple[measurement.StatementUse, ...] | None:
        """Return what each statement has used since an arbitrary start; None where not told."""
        return None

    def close(self) -> None:
        """End the session; also from another thread, while a statement hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRate:
    """How often one method of forcing a page out gets through.

    Attributes:
        method: As the server's setting spells it.
        per_s: None where the method does not exist or the device refuses it.
    """

    method: str
    per_s: float | None


class CeilingTools(Protocol):
    """What an engine brings to measure what its server can do at most."""

    def round_trips(
        self, address: ServerAddress, *, connections: int, most: int, most_s: float
    ) -> tuple[float, ...]:
        """Return the seconds of each round trip of an empty statement on the quickest connection.

        Connections come one after another; each has so many round trips at most, all of them
        together so many seconds.
        """

    def sync_command(self, file: Path) -> Command:
        """Return the command that tries every method on a new file; PreflightError if absent."""

    def sync_rates(self, text: str) -> tuple[SyncRate, ...] | None:
        """Return what the command printed so far; None before the last method."""

    def sync_method(self, effective: Sequence[model.EffectiveSetting]) -> str | None:
        """Return the method that commits wait for; None where they wait for none."""


_BYTES_PER_KEY = 104  # measured with Redis 7.0.15: a key of 16 bytes beside its value


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Data that one or more workloads run on; part of the prepared state.

    Attributes:
        name: Database name, made from the content.
        scale: Size of the generator's own tables, or None.
        prepare: Names and texts of scripts run after them.
        variables: Numbers that the scripts name.
        command: Words of a program of the user's that makes more, run last.
        space: Keys of a Redis server; None for every other engine.
        is_copied: It begins with copies of tables that are on the server.
    """

    name: str
    scale: int | None = None
    prepare: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, int], ...] = ()
    command: tuple[str, ...] = ()
    space: model.KeySpace | None = None
    is_copied: bool = False

    @property
    def expected_bytes(self) -> int:
        """Return about how much disk the data take (15 MB per unit of scale, pgbench's manual).

        Keys are on it twice: in a dump and in an append-only file.
        """
        return (self.scale or 0) * 16_000_000 + 2 * self.expected_memory_bytes

    @property
    def expected_memory_bytes(self) -> int:
        """Return about how much memory keys and values take; 0 of data that are on disk."""
        if self.space is None:
            return 0
        return self.space.loaded * (self.space.value_bytes + _BYTES_PER_KEY)


def content_of(
    configuration: model.Configuration, datasets: Sequence[Dataset]
) -> tuple[Dataset, ...]:
    """Return the data as a configuration's server holds them: after its own scripts, too."""
    own = tuple((script.name, script.text) for script in configuration.prepare)
    return tuple(replace(each, prepare=each.prepare + own) for each in datasets)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run to take.

    Attributes:
        seconds: Length of the whole run, ramp and tail included.
        scripts: Paths of the workload's scripts where the generator can read them, with weights.
        log: How the names of the generator's logs begin, with their directory; None: it logs no
            transactions.
        sampling: Share of the transactions that are logged.
        configuration: Whose server is under load; a generator that takes no time is told how many
            requests to send by what that server has done before.
        in_turns: What stands still between its turns, of a run that is taken in turns and ended by
            a signal, so that nothing that it prints while it runs means anything; None: it runs in
            one piece.
        ordered: Paths of files with all executions of each client in a given order, which are run
            once; empty: scripts are drawn.
    """

    workload: model.Workload
    load: Load
    protocol: str
    seconds: int
    address: ServerAddress
    flags: Sequence[str] = ()
    scripts: Sequence[tuple[Path, int]] = ()
    log: Path | None = None
    sampling: float = 1.0
    configuration: str = ""
    in_turns: Pausing | None = None
    ordered: Sequence[Path] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution of a script where all scripts run in a given order.

    Attributes:
        script: Its number in the workload.
        settings: That its session gets before it, by name, with values in the server's own units.
        repeats: With the parameters of the execution before it, where the script draws them first.
    """

    script: int
    settings: tuple[tuple[str, str], ...] = ()
    repeats: bool = False


def together(seconds: Sequence[measurement.Second]) -> measurement.Second:
    """Return the intervals of several generators at the same time as one."""
    return measurement.Second(
        end_s=max(one.end_s for one in seconds),
        transactions=round(sum(one.transactions for one in seconds), 3),
        seconds=max(one.seconds for one in seconds),
        latency_mean_s=mean_latency_s(seconds),
        failed=sum(one.failed for one in seconds),
    )


def mean_latency_s(seconds: Sequence[measurement.Second]) -> float | None:
    """Return the mean over all transactions of some intervals; None where none ended in them."""
    timed = [one for one in seconds if one.latency_mean_s is not None and one.transactions > 0]
    weight = sum(one.transactions for one in timed)
    total_s = sum(one.transactions * (one.latency_mean_s or 0.0) for one in timed)
    return total_s / weight if weight > 0 else None


class TransactionLog(Protocol):
    """What the generator's logs of one run say."""

    @property
    def transactions(self) -> int:
        """Return the successful ones in all lines, ramp included, as logged: not scaled up."""

    @property
    def damaged(self) -> int:
        """Return the lines that are not understood."""

    @property
    def truncated(self) -> tuple[str, ...]:
        """Return the files whose last line has no end."""

    @property
    def counted(self) -> Mapping[int, int]:
        """Return how many count in each second; of a run in turns in each half of a stretch."""

    @property
    def shared(self) -> Mapping[int, float]:
        """Return how many lie in each half of a stretch, those over an edge by their share."""

    @property
    def ended(self) -> Mapping[int, int]:
        """Return how many ended in each second, ramp included."""

    def run_latency(self, *, windows_s: float | None) -> measurement.RunLatency | None:
        """Return all transactions after the ramp; in windows of that length, too, where asked.

        None where the log tells no latencies.
        """

    def seconds_text(self) -> str:
        """Return the counts by second and script, ramp included, a JSON object per line."""


class LogReader(Protocol):
    """Reads the generator's logs of one run, in whatever pieces they come."""

    def feed(self, source: str, chunk: bytes) -> None:
        """Take the next bytes of a file; they may end inside a line."""

    def finish(self, *, ramp_s: float | None = None) -> TransactionLog:
        """Return what was read.

        Args:
            ramp_s: When the ramp was over; None: at the latest end that was told at first.

        Raises:
            MeasurementError: It was over later than was told at first.
        """


class Programs(Protocol):
    """The programs that are there, and what is wrong with what is asked of them."""

    def label(self, configuration: str) -> str:
        """Return what a configuration's server is called: ``PostgreSQL 18.6``."""

    def program(self, configuration: str) -> ServerProgram:
        """Return the server program of a configuration."""

    def tools(self) -> Mapping[str, str]:
        """Return the versions of the generator and of each configuration's server."""

    def check_flags(self) -> None:
        """Raise an InputError for generator flags that Steelyard sets itself."""
        return

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:  # noqa: ARG002 - nothing of the kind
        """Return what the server itself would refuse, without starting it."""
        return ()

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the programs."""
        return ()

    def acts_by_plan(self, names: Sequence[str]) -> bool:  # noqa: ARG002 - likewise
        """Return whether settings act through the choice of plans alone."""
        return False

    def plan_changes(self, now: str, changed: str) -> tuple[measurement.PlanChange, ...]:  # noqa: ARG002 - likewise
        """Return whether a configuration's settings change the plans on an existing server.

        Empty where there is no such server, or no statement that a script names.
        """
        return ()


class SettingsOf(Protocol):
    """What settings are and cost, without a server that runs."""

    def known_settings(self, configuration: str) -> frozenset[str]:
        """Return the names of all settings that a configuration's server knows."""

    def switch_cost(self, configuration: str, names: Sequence[str]) -> model.SwitchCost:
        """Return what it takes to change these settings."""

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Whether two configurations mean the same by these settings, written differently."""

    def shown_now(self, configuration: str, names: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - likewise
        """Return what a server that is there has of these settings now, as it shows them."""
        return {}

    def listed(self, configuration: str, name: str, text: str) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return the values of a setting that a text lists, by what the server says of it."""
        return (text,)

    def has_now(self, configuration: str, name: str, value: str) -> bool:  # noqa: ARG002 - likewise
        """Return whether an existing server has this value of a setting already."""
        return False

    def timed_settings(self, names: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return those of these settings whose effect is one of the clock, not of the work.

        Background writing comes at times; a server that stands still in between meets it more
        often for the same work.
        """
        return ()

    def short_limits(self, configuration: str, pause_s: float) -> Mapping[str, str]:  # noqa: ARG002 - likewise
        """Return the limits by the clock under which a session may end in a pause of so long.

        As the configuration asks for them, else as an existing server shows them.
        """
        return {}

    def beyond_sessions(self, configuration: str, names: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return those of these settings that no user can have for own sessions alone."""
        return tuple(names)

    def paid_by_others(self, names: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return those of these settings of a session that cost or spare other sessions work."""
        return ()

    def checkpoint_settings(self, names: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return those of these settings whose effect changes over a checkpoint cycle."""
        return ()


class DataOf(Protocol):
    """The data that workloads need."""

    def datasets(self) -> tuple[Dataset, ...]:
        """Return the data all workloads need."""

    def build(
        self,
        dataset: Dataset,
        address: ServerAddress,
        configuration: str,
        directory: Path | None = None,
    ) -> None:
        """Make a dataset on a running server, with the programs of a configuration.

        A command of the dataset works in the directory; None: where we do.
        """

    def missing_data(self, address: ServerAddress) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """Return a sentence for each data set that a server has not as it was prepared.

        Asked of a server that was just started on restored data; empty where a server that
        answers is sure to have them.
        """
        return ()

    def writes(self) -> bool:
        """Return whether any workload may change the data."""

    def only_reads(self, workload: model.Workload) -> bool:
        """Return whether a workload leaves the data as they are, for certain."""

    def writing(self) -> tuple[str, ...]:
        """Return which statements of scripts may write, each with its file and line."""
        return ()

    def keep_templates(self, address: ServerAddress) -> None:  # noqa: ARG002 - likewise
        """Put the prepared data aside on a running server, to copy them from there."""
        raise TargetError("this server keeps no templates of its data")

    def restore_from_templates(self, address: ServerAddress) -> None:
        """Bring every data set back from its template on a running server."""
        self.keep_templates(address)


class Room(Protocol):
    """What a server takes of its machine, and what it can do at most."""

    def memory_bytes(self, configuration: str) -> int:
        """Return about the most memory that a configuration's server takes with its data."""

    def huge_page_bytes(self, configuration: str) -> int | None:  # noqa: ARG002 - likewise
        """Return what a configuration's server takes of a pool of huge pages.

        0: nothing; None: what it finds there.
        """
        return 0

    def ceilings(self) -> CeilingTools | None:
        """Return the tools to measure what a server can do at most; None where there are none."""
        return None


class RunningServer(Protocol):
    """What a server that runs is told and asked."""

    def reload(self, address: ServerAddress, configuration: str, clock: Clock) -> None:
        """Bring what the platform has configured for a configuration into force without a restart.

        A server that reads its configuration again is made to; another is told each setting.
        """

    def prewarm(self, address: ServerAddress, *, most_bytes: int | None = None) -> bool:  # noqa: ARG002 - likewise
        """Load the data of all datasets into the server's memory; return whether it was done.

        Where they are larger than so much nothing is loaded: so for all servers of a campaign.
        """
        return True

    def effective(self, address: ServerAddress) -> tuple[model.EffectiveSetting, ...]:
        """Return all settings as a new session sees them."""

    def deviations(
        self, asked: Sequence[model.Setting], effective: Sequence[model.EffectiveSetting]
    ) -> tuple[str, ...]:
        """Return a sentence for each setting that is not in force as asked."""

    def checkpoint_cycle_s(self, effective: Sequence[model.EffectiveSetting]) -> float | None:  # noqa: ARG002 - likewise
        """Return the length of the checkpoint cycle in force; None where it is not shown."""
        return None

    def checkpoint_age(self, address: ServerAddress) -> measurement.CheckpointAge:  # noqa: ARG002 - likewise
        """Return where a running server stands in its checkpoint cycle."""
        return measurement.CheckpointAge(seconds=None, unknown="the server has no checkpoint cycle")

    def reader(self, address: ServerAddress, workload: model.Workload) -> ServerReader:
        """Open a session that reads what the server says of itself while a workload runs.

        Raises:
            TargetError: The server lets nobody in.
        """

    def plans(
        self,
        address: ServerAddress,  # noqa: ARG002 - likewise
        configuration: str,  # noqa: ARG002 - likewise
    ) -> tuple[measurement.StatementPlan, ...]:
        """Return the plans of the statements of all scripts, under the settings in force there.

        Raises:
            TargetError: The server lets nobody in.
        """
        return ()


class LoadProgram(Protocol):
    """One load generator: how its processes end, and what they measured."""

    @property
    def turns_end_signal(self) -> int:
        """Return the signal at which a generator that is taken in turns ends."""
        return signal.SIGTERM

    def connected_within_s(self, completed: Sequence[Completed]) -> float:
        """Return how long generators that ended by that signal took to open all connections.

        0.0 where they do not tell.

        Raises:
            MeasurementError: One of them failed before.
        """
        for each in completed:
            if each.exit_status not in _ENDED:
                raise MeasurementError(
                    f"{Path(each.argv[0]).name} exited with {each.exit_status} in its turns:"
                    f" {each.cause()}"
                )
        return 0.0

    def deadline_s(self, seconds: float) -> float:
        """Return when a run of that length is given up."""
        return seconds * _DEADLINE_FACTOR + _DEADLINE_BEYOND_RUN_S

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,
        ramp_s: float,
        started_at: float,
        run_time_s: float | None = None,
    ) -> measurement.Measurement:
        """Return what all generators of a run measured together.

        Args:
            completed: Of each of them.
            request: What was run.
            ramp_s: Thrown away at the start.
            started_at: Wall clock at the start.
            run_time_s: So long after the ramp a tail begins that does not count; None: none does.

        Raises:
            MeasurementError: One of them failed, or its output is not understood.
        """

    def processed(self, completed: Sequence[Completed]) -> int:
        """Return how many transactions they count as processed, ramp included."""

    def logs_transactions(self) -> bool:
        """Return whether the generator can log every transaction; else ``latency`` tells them."""
        return False

    def counts_by_log(self) -> bool:
        """Return whether it prints nothing that counts: every run has a log, which tells it all."""
        return False

    def takes_order(self, workload: model.Workload) -> bool:  # noqa: ARG002 - likewise
        """Return whether the scripts of a workload can be run in a given order, each timed."""
        return False

    def in_order(self, workload: model.Workload, executions: Sequence[Execution]) -> str:  # noqa: ARG002 - likewise
        """Return the text of a file that has these executions in this order."""
        raise MeasurementError(f"the generator runs {workload.name} in no order of ours")

    def execution_times(
        self,
        completed: Completed,
        workload: model.Workload,  # noqa: ARG002 - likewise
        executions: Sequence[Execution],
    ) -> tuple[float, ...]:
        """Return the seconds of each execution of such a file, by what the generator printed.

        Raises:
            MeasurementError: It failed, or its output is not understood.
        """
        raise MeasurementError(f"{completed.argv[0]} times no {len(executions)} executions")

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float,  # noqa: ARG002 - likewise
        ramp_s: float,  # noqa: ARG002 - likewise
        run_time_s: float | None = None,  # noqa: ARG002 - likewise
        stretches: Sequence[Stretch] = (),  # noqa: ARG002 - likewise
    ) -> LogReader:
        """Return what reads the logs of a run.

        Args:
            request: What is run.
            started_at: Wall clock at second 0.
            ramp_s: The ramp ends no later; what ends in it is told by second only.
            run_time_s: Of an open loop: only what was scheduled so long after the ramp counts,
                however late it ended; None: what ended after the ramp does.
            stretches: When the generator ran, of a run that is taken in turns: then what counts is
                told by them, and latencies are without the pauses.
        """
        raise MeasurementError(f"the generator logs nothing of {request.workload.name}")


class Generators(Protocol):
    """The load generators of a run, which are started together."""

    @property
    def load(self) -> LoadProgram:
        """Return what they have in common: how one ends, and what it measured."""

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:
        """Return where the generator connects: the ``socket`` itself, or ``tcp`` beside it."""

    def pilot(self, request: RunRequest) -> tuple[Command, ...]:  # noqa: ARG002 - likewise
        """Return what has to run first so that the length of the run can be asked for.

        Asked again after each, with what ``learn`` was told; empty when enough is known, and for
        a generator that takes a time.
        """
        return ()

    def learn(self, request: RunRequest, completed: Sequence[Completed]) -> None:  # noqa: ARG002 - likewise
        """Take from what was run how fast the configuration's server is under this load."""
        return

    def try_scripts(
        self,
        requests: Sequence[RunRequest],  # noqa: ARG002 - likewise
        run: Callable[[Command], Completed],  # noqa: ARG002 - likewise
    ) -> None:
        """Try each script of a configuration once, on data that are restored afterwards.

        Raises:
            InputError: Scripts cannot be run: all of them, with what is wrong.
        """
        return

    def run_commands(self, request: RunRequest) -> tuple[Command, ...]:
        """Return the command line of each generator for one run; they are started together."""

    def turn_counter(self, request: RunRequest) -> TurnCounter | None:
        """Open what counts the turns of a run on its server; None: the generator's log tells them.

        Raises:
            TargetError: The server lets nobody in.
        """

    def latency(self, completed: Sequence[Completed]) -> measurement.RunLatency | None:  # noqa: ARG002 - likewise
        """Return the latencies of a run by what the generators printed; None where they do not."""
        return None


def recordable(
    effective: Iterable[model.EffectiveSetting], experiment: model.Experiment
) -> tuple[model.EffectiveSetting, ...]:
    """Return settings of a server as a record may have them: without secrets.

    What no configuration asks for is not compared, so its value stays out where it may be one.
    """
    compared = {name for each in experiment.configurations for name in each.asked_folded()}

    def value(setting: model.EffectiveSetting) -> str:
        is_set = setting.value not in ("", "(disabled)")
        if is_set and is_secret_setting(setting.name) and setting.name.lower() not in compared:
            return "(not recorded)"
        return redacted(setting.value)

    return tuple(replace(setting, value=value(setting)) for setting in effective)


class Engine(Programs, SettingsOf, DataOf, Room, RunningServer, Generators, Protocol):
    """One database system under one generator, in all its roles."""
