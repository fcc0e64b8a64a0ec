"""What puts the load on PostgreSQL: pgbench, or a program that the experiment names."""

import shlex
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from steelyard.core.errors import InputError, MeasurementError, PreflightError
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.measurement import Measurement
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.schedule import Pausing, Stretch
from steelyard.gateways.process import Processes
from steelyard.systems import own_program as own
from steelyard.systems.postgres import pgbench
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.server import Installation
from steelyard.systems.postgres.transaction_log import SeveralLogs, TransactionLogReader
from steelyard.systems.protocol import RunRequest

_DEADLINE_BEYOND_RUN_S: Final = 60.0
_TRIAL_TIMEOUT_S: Final = 30.0


class LoadProgram(Protocol):
    """One load generator, as ``systems.protocol.Engine`` asks for it."""

    def check(self) -> None:
        """Raise an InputError or a PreflightError where it cannot do what is asked."""
        ...

    def tools(self) -> Mapping[str, str]:
        """Return its version by its name."""
        ...

    def only_reads(self, workload: Workload) -> bool:
        """Return whether a workload leaves the data as they are, for certain."""
        ...

    def run_commands(self, request: RunRequest, address: ServerAddress) -> tuple[Command, ...]:
        """Return the command line of each process for one run in the data's own database."""
        ...

    @property
    def turns_end_signal(self) -> int:
        """Return the signal at which it ends where it is taken in turns."""
        ...

    def connected_within_s(self, completed: Sequence[Completed]) -> float:
        """Return how long it took to open all connections."""
        ...

    def deadline_s(self, seconds: float) -> float:
        """Return when a run of that length is given up."""
        ...

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,
        ramp_s: float,
        started_at: float,
        slice_s: float | None = None,
    ) -> Measurement:
        """Return what one run measured."""
        ...

    def processed(self, completed: Sequence[Completed]) -> int:
        """Return how many transactions it counts, ramp included."""
        ...

    def logs_transactions(self) -> bool:
        """Return whether it can log each of them."""
        ...

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float | Sequence[float],
        ramp_s: float,
        slice_s: float | None = None,
        stretches: Sequence[Stretch] = (),
    ) -> TransactionLogReader | SeveralLogs:
        """Return what reads its logs of a run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgbench:
    """The pgbench of one installation.

    Attributes:
        find: Returns the installation, which an engine may learn late.
        account: As which it runs.
    """

    experiment: Experiment
    find: Callable[[], Installation]
    processes: Processes
    account: str | None

    def check(self) -> None:
        """Raise an InputError for flags that Steelyard sets itself, or that pgbench refuses.

        Where pgbench runs in a cluster, it is not asked: before a campaign no pod of it is there.
        """
        flags = self.experiment.generator_flags
        pgbench.refuse_own_flags(flags)
        if not flags or self.experiment.is_in_kubernetes:
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

    def only_reads(self, workload: Workload) -> bool:
        """Return whether a workload leaves the data as they are, by what its statements say."""
        if workload.scripts:
            return all(pgbench.only_reads(script.text) for script in workload.scripts)
        return workload.builtin in pgbench.READ_ONLY_BUILTINS

    def run_commands(self, request: RunRequest, address: ServerAddress) -> tuple[Command, ...]:
        """Return the command line of each process for one run."""
        return tuple(
            Command(
                argv=(self.find().program("pgbench"), *pgbench.run_arguments(part)),
                environment=pgbench.environment(address),
                account=self.account,
                parent_death_signal=signal.SIGKILL,
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
        """Return when a run of that length is given up."""
        return seconds + _DEADLINE_BEYOND_RUN_S

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,  # noqa: ARG002 - by its protocol
        ramp_s: float,
        started_at: float,
        slice_s: float | None = None,
    ) -> Measurement:
        """Return what all processes of a run measured together."""
        return pgbench.parse_generators(
            completed, ramp_s=ramp_s, started_at=started_at, slice_s=slice_s
        )

    def processed(self, completed: Sequence[Completed]) -> int:
        """Return how many transactions they count as processed, ramp included."""
        return sum(pgbench.processed_of(each) for each in completed)

    def logs_transactions(self) -> bool:
        """Return that pgbench logs every transaction."""
        return True

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float | Sequence[float],
        ramp_s: float,
        slice_s: float | None = None,
        stretches: Sequence[Stretch] = (),
    ) -> TransactionLogReader | SeveralLogs:
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
        clocks = [started_at] if isinstance(started_at, float) else list(started_at)
        readers = [
            TransactionLogReader(
                form,
                started_at=at,
                ramp_s=ramp_s,
                slice_s=slice_s,
                stretches=stretches,
                alone=request.in_turns is Pausing.GENERATOR,
            )
            for at in clocks
        ]
        return readers[0] if len(readers) == 1 else SeveralLogs(readers)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProgram:
    """The program that an experiment names (``core.experiment.LoadCommand``)."""

    experiment: Experiment
    processes: Processes
    account: str | None

    def check(self) -> None:
        """Raise an InputError for flags, and a PreflightError where the program is not there."""
        command = own.command_of(self.experiment.workloads[0])
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

    def only_reads(self, workload: Workload) -> bool:  # noqa: ARG002 - by its protocol
        """Return False: nobody knows what it does."""
        return False

    def run_commands(self, request: RunRequest, address: ServerAddress) -> tuple[Command, ...]:
        """Return its command line for one run."""
        ramp_s = self.experiment.measure.ramp_s
        told = own.values_of_run(request, address, ramp_s if request.seconds > ramp_s else 0.0)
        command = Command(
            argv=own.filled(own.command_of(request.workload).argv, told),
            environment={**pgbench.environment(address), **own.in_environment(told)},
            account=self.account,
            parent_death_signal=signal.SIGKILL,
        )
        return (command,)

    @property
    def turns_end_signal(self) -> int:
        """Return the signal that ends most programs."""
        return signal.SIGTERM

    def connected_within_s(self, completed: Sequence[Completed]) -> float:  # noqa: ARG002 - likewise
        """Return 0.0: it does not tell."""
        return 0.0

    def deadline_s(self, seconds: float) -> float:
        """Return when a run of that length is given up."""
        return seconds + max(own.command_of(w).grace_s for w in self.experiment.workloads)

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,
        ramp_s: float,
        started_at: float,  # noqa: ARG002 - likewise
        slice_s: float | None = None,  # noqa: ARG002 - likewise
    ) -> Measurement:
        """Return what it measured, by its own words."""
        command = own.command_of(request.workload)
        return own.parse_run(command, completed[0], seconds=request.seconds, ramp_s=ramp_s)

    def processed(self, completed: Sequence[Completed]) -> int:
        """Refuse: it counts a rate.

        Raises:
            MeasurementError: Always.
        """
        raise MeasurementError(f"{completed[0].argv[0]} does not count its transactions")

    def logs_transactions(self) -> bool:
        """Return False: no log of it is read."""
        return False

    def log_reader(
        self,
        request: RunRequest,
        *,
        started_at: float | Sequence[float],
        ramp_s: float,
        slice_s: float | None = None,
        stretches: Sequence[Stretch] = (),
    ) -> TransactionLogReader | SeveralLogs:
        """Refuse: nothing is logged."""
        raise NotImplementedError


def load_program(
    experiment: Experiment,
    find: Callable[[], Installation],
    processes: Processes,
    account: str | None,
) -> LoadProgram:
    """Return what puts the load of an experiment on: here alone it is chosen.

    Args:
        experiment: What will run.
        find: Returns the installation of pgbench, which an engine may learn late.
        processes: Runs programs before a campaign.
        account: As which it runs.
    """
    if experiment.workloads and experiment.workloads[0].command is not None:
        return NamedProgram(experiment=experiment, processes=processes, account=account)
    return Pgbench(experiment=experiment, find=find, processes=processes, account=account)
