"""Redis under redis-benchmark as the runner sees it, and a replica replacing a dead primary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.core import experiment as model
from steelyard.core.findings import Finding
from steelyard.core.measurement import Measurement, RunLatency
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.redis import changes_keys, in_bytes
from steelyard.core.target import RedisLocalTarget
from steelyard.core.wording import MIB, Complaint, MeasurementError, TargetError, format_bytes
from steelyard.gateways.host import LOOPBACK, Clock, until
from steelyard.gateways.redis import RedisSession, opened, settings_like
from steelyard.systems.protocol import (
    Dataset,
    Engine,
    LoadProgram,
    RunRequest,
    ServerReader,
    recordable,
)
from steelyard.systems.redis import reader as reading
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis import server as checks
from steelyard.systems.redis import settings
from steelyard.systems.redis.datasets import Databases, dataset_of, datasets_of, growth_findings
from steelyard.systems.redis.server import RedisProgram, Trial
from steelyard.systems.redis.settings import Catalogue, command_of, same_value

_SIGKILL = 9
# Persistence and housekeeping by the clock: an fsync per second, a save after so many seconds.
_TIMED = (
    *("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save", "hz", "dynamic-hz"),
    *("auto-aof-rewrite-percentage", "auto-aof-rewrite-min-size", "aof-use-rdb-preamble"),
    *("activerehashing", "activedefrag", "rdb-save-incremental-fsync"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """The program that puts the load on.

    Attributes:
        program: Its path, where the server's account can reach it.
        version: As it says itself.
        account: Whom it runs as when Steelyard is root.
    """

    program: Path
    version: str
    account: str | None


class RedisEngine(Engine, LoadProgram):
    """Redis servers under one load generator; programs and catalogues are by configuration name."""

    def __init__(
        self,
        experiment: model.Experiment,
        programs: Mapping[str, RedisProgram],
        catalogues: Mapping[str, Catalogue],
        *,
        generator: Generator,
        databases: Databases,
    ) -> None:
        self._experiment = experiment
        self._programs = programs
        self._catalogues = catalogues
        self._generator = generator
        self._databases = databases
        self._redis = databases.redis
        self._pace = benchmark.Pace()
        self._trials: Mapping[str, Trial] = {}
        self._names: dict[tuple[str, ...], str] = {}  # of what each command line measures

    def try_by(self, trials: Mapping[str, Trial]) -> None:
        """Let these programs of this machine say which values their servers would refuse."""
        self._trials = trials

    @property
    def load(self) -> LoadProgram:
        """Return the engine: there is one load generator."""
        return self

    def program(self, configuration: str) -> RedisProgram:
        return self._programs[configuration]

    def label(self, configuration: str) -> str:
        return self.program(configuration).installation.label

    def known_settings(self, configuration: str) -> frozenset[str]:
        return frozenset(self._catalogues[configuration])

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:
        """Return what cannot be, without a look at the server."""
        asked = self._experiment.configuration(configuration)
        return (*checks.fixed_settings(asked), *self._beyond(asked))

    def _beyond(self, configuration: model.Configuration) -> Iterator[Complaint]:
        program = self.program(configuration.name)
        company = program.company
        if program.replica is not None:
            company = replace(company, replicas=1)
        yield from checks.too_few_connections(configuration, self._experiment.loads, company)
        yield from checks.too_few_databases(configuration, len(self.datasets()), company)
        yield from exceeded_limits(configuration, self.datasets(), company)

    def check_flags(self) -> None:
        benchmark.refuse_own_flags(self._experiment.generator_flags)

    def findings(self) -> tuple[Finding, ...]:
        """Return which versions Steelyard's own tests do not run, and which data grow."""
        installations = dict.fromkeys(p.installation for p in self._programs.values())
        found = (checks.version_finding(installation) for installation in installations)
        versions = tuple(finding for finding in found if finding is not None)
        return (*versions, *growth_findings(self._experiment))

    def tools(self) -> Mapping[str, str]:
        servers = {f"server of {name}": self.label(name) for name in self._programs}
        return {str(self._experiment.generator): self._generator.version, **servers}

    def switch_cost(self, configuration: str, names: Sequence[str]) -> model.SwitchCost:
        """Return what it takes to change these settings.

        A replica is told nothing while it runs: what it has of its server needs a start of both.
        """
        target = self._experiment.configuration(configuration).target
        if isinstance(target, RedisLocalTarget) and target.replica is not None:
            own = {name.lower() for name, _ in target.replica}
            if any(name.lower() not in own for name in names):
                return model.SwitchCost.RESTART
        return settings.switch_cost(names, self._catalogues[configuration])

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        asked, against = (self._experiment.configuration(t).asked_folded() for t in (one, other))
        known = self._catalogues[one]
        lowered = [name.lower() for name in names]
        return all(
            name in known
            and same_value(
                name,
                asked.get(name, known[name].default),
                against.get(name, known[name].default),
            )
            for name in lowered
        )

    def datasets(self) -> tuple[Dataset, ...]:
        """Return the distinct data sets of all workloads, in workload order."""
        return datasets_of(self._experiment.workloads)

    def writes(self) -> bool:
        return any(changes_keys(workload) for workload in self._experiment.workloads)

    def only_reads(self, workload: model.Workload) -> bool:
        """Return whether a workload leaves the keys as they are, for certain."""
        return not changes_keys(workload)

    def memory_bytes(self, configuration: str) -> int:  # noqa: ARG002 - equal for all
        """Return about the most memory that a server takes, with the copy of a child that saves."""
        return 2 * sum(dataset.expected_memory_bytes for dataset in self.datasets()) + 64 * MIB

    def timed_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name.lower() in _TIMED)

    def short_limits(self, configuration: str, pause_s: float) -> Mapping[str, str]:
        """Return the seconds after which the server ends idle connections, if a pause is as long.

        Where a configuration asks for none, they are what the server has.

        Source: redis.conf, ``timeout``; 0 is never.
        """
        asked = self._experiment.configuration(configuration).asked_folded()
        own = self._catalogues[configuration].get("timeout")
        text = asked.get("timeout", "0" if own is None else own.default)
        is_short = text.isdecimal() and 0 < int(text) <= pause_s
        return {"timeout": f"{text} s"} if is_short else {}

    def build(
        self,
        dataset: Dataset,
        address: ServerAddress,
        configuration: str,  # noqa: ARG002 - by its protocol
        directory: Path | None = None,  # noqa: ARG002 - likewise
    ) -> None:
        """Load a data set on a running server."""
        self._databases.build(dataset, address)

    def missing_data(self, address: ServerAddress) -> tuple[str, ...]:
        """Return a sentence for each data set that is not there as it was prepared."""
        return self._databases.missing(address)

    def reload(self, address: ServerAddress, configuration: str, clock: Clock) -> None:  # noqa: ARG002 - it waits by its session
        """Tell a running server every setting that any configuration asks for.

        One that this configuration does not name gets its default. What the configuration before
        began is waited for: it would go on in this one's run.

        Raises:
            ReplyError: The server refuses one.
            TargetError: It does not come to rest.
        """
        asked = self._experiment.configuration(configuration).asked_folded()
        names = {name for each in self._experiment.configurations for name in each.asked_folded()}
        catalogue = self._catalogues[configuration]
        wanted = [
            ("CONFIG", "SET", name, asked.get(name, catalogue[name].default))
            for name in sorted(names)
            if name in catalogue and catalogue[name].changeable
        ]
        with opened(self._redis, address) as session:
            session.pipeline(wanted)
            reading.await_quiet(session)

    def effective(self, address: ServerAddress) -> tuple[model.EffectiveSetting, ...]:
        """Return all settings that say something about the server."""
        with opened(self._redis, address) as session:
            shown = settings.recorded(settings_like(session, "*"))
        return recordable(shown, self._experiment)

    def deviations(
        self, asked: Sequence[model.Setting], effective: Sequence[model.EffectiveSetting]
    ) -> tuple[str, ...]:
        """Return a sentence for each setting that is not in force as asked."""
        return settings.deviations(asked, effective)

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:
        """Return where the generator connects: the socket, or the loopback network."""
        if connection != "tcp":
            return address
        return ServerAddress(host=LOOPBACK, port=address.port, databases=address.databases)

    def reader(self, address: ServerAddress, workload: model.Workload) -> ServerReader:
        """Open a session that reads what the server says of itself while a workload runs."""
        dataset = dataset_of(workload)
        return reading.open_reader(self._redis, self._databases.at(address, dataset))

    def pilot(self, request: RunRequest) -> tuple[Command, ...]:
        """Return a try that tells how fast the server is; empty once it was long enough."""
        requests = self._pace.pilot(request)
        return () if requests is None else self._commands(request, requests)

    def learn(self, request: RunRequest, completed: Sequence[Completed]) -> None:
        done = benchmark.measurement([benchmark.parse(each) for each in completed])
        self._pace.learn(request, round(done.transactions), done.seconds)

    def run_commands(self, request: RunRequest) -> tuple[Command, ...]:
        """Return the command line of each process of one run; in turns it ends when it is ended."""
        if request.in_turns:
            return self._commands(
                request, benchmark.MOST_REQUESTS * benchmark.processes(request.load)
            )
        return self._commands(request, self._pace.requests(request))

    def _commands(self, request: RunRequest, requests: int) -> tuple[Command, ...]:
        benchmark.refuse_password(request.address)
        number = self._databases.number(request.address, request.workload)
        lists = benchmark.argument_lists(request, requests=requests, dbnum=number)
        lines = [(str(self._generator.program), *arguments) for arguments in lists]
        self._names = dict.fromkeys(lines, benchmark.test_name(request.workload))
        return tuple(
            Command(
                argv=line,
                secrets=benchmark.secrets_of(request.address),
                account=self._generator.account,
                parent_death_signal=_SIGKILL,
            )
            for line in lines
        )

    def turn_counter(self, request: RunRequest) -> reading.CommandCounter:
        """Return what counts the commands of the workload on its server."""
        session = self._redis.connect(request.address, timeout_s=reading.COUNTER_PATIENCE_S)
        return reading.CommandCounter(session, command_of(request.workload)[0].lower())

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,  # noqa: ARG002 - by its protocol
        ramp_s: float,  # noqa: ARG002 - likewise
        started_at: float,  # noqa: ARG002 - likewise
        run_time_s: float | None = None,  # noqa: ARG002 - likewise
    ) -> Measurement:
        """Return what all processes of a run measured together."""
        return benchmark.measurement([benchmark.parse(each) for each in completed])

    def processed(self, completed: Sequence[Completed]) -> int:
        """Return how many requests were answered."""
        return sum(benchmark.parse(each).requests for each in completed)

    def latency(self, completed: Sequence[Completed]) -> RunLatency | None:
        """Return the latencies that all processes of a run printed."""
        printed = [benchmark.parse(each) for each in completed]
        if not printed:
            return None
        return benchmark.latency(
            printed, self._names.get(completed[0].argv) or printed[0].test.lower()
        )


def exceeded_limits(
    configuration: model.Configuration, datasets: Sequence[Dataset], company: checks.Company
) -> Iterator[Complaint]:
    """Yield a complaint for each limit of a configuration under which the keys cannot be written.

    A policy that evicts makes room in ``maxmemory``, but not for keys that have to stay.
    """
    needed = sum(dataset.expected_memory_bytes for dataset in datasets)
    largest = max((each.space.value_bytes for each in datasets if each.space), default=0)
    value = (largest, "the largest value has")
    needs = {
        "maxmemory": (needed, "the loaded keys take about"),
        "proto-max-bulk-len": value,
        "client-query-buffer-limit": value,
    }
    for name, text in configuration.asked().items():
        size, words = needs.get(name.lower(), (0, ""))
        limit = in_bytes(text)
        if limit is not None and 0 < limit < size:
            yield Complaint(
                setting=name,
                message=f"{words} {format_bytes(size)}, and {name} of configuration"
                f" `{configuration.name}` is {format_bytes(limit)}",
                hint=f"Raise `{name}`, or load fewer or smaller keys.",
            )
        is_copied = name.lower() == "min-replicas-to-write" and text.isdecimal()
        if is_copied and int(text) > company.replicas:
            yield Complaint(
                setting=name,
                message=f"with {name} = {text} of configuration `{configuration.name}` the server"
                f" takes no writes: {company.replicas} replicas follow it",
                hint=f"Lower `{name}`, or start the replicas.",
            )


class InstalledRedisEngine(RedisEngine):
    """Servers that Steelyard starts from programs of this machine; of each there is a trial."""

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:
        """Return what the server itself would refuse, too: it is started for a moment."""
        asked = self._experiment.configuration(configuration)
        trial, catalogue = self._trials[configuration], self._catalogues[configuration]
        return (
            *super().complaints(configuration),
            *checks.refused_values(asked, trial, catalogue),
            *checks.refused_of_replica(asked, trial, catalogue),
        )

    def findings(self) -> tuple[Finding, ...]:
        """Return what is to be known of replicas, too."""
        beside = checks.replica_finding(self._experiment)
        return (*super().findings(), *(() if beside is None else (beside,)))


_NOTICED_S: Final = 60.0
_POLL_S: Final = 0.02


class RedisSuccession:
    """Replicas of one installed program, and how they take over."""

    def __init__(self, program: RedisProgram) -> None:
        self._program = program

    def program(self, replica: Sequence[tuple[str, str]]) -> RedisProgram:
        """Return a program whose servers have a replica with these settings beside them."""
        return replace(self._program, replica=tuple(replica))

    def watch(self, server: ServerAddress, replica: ServerAddress) -> "OffsetWatch":
        """Return what compares the offsets of the two."""
        door = self._program.redis
        first = door.connect(server)
        try:
            return OffsetWatch(first, door.connect(replica))
        except TargetError:
            first.close()
            raise

    def promote(self, replica: ServerAddress, clock: Clock) -> None:
        """Make a replica a primary, once its link is down: then it has read all there was.

        Raises:
            MeasurementError: It does not notice the death, or refuses.
            TargetError: It is gone, too.
        """
        with opened(self._program.redis, replica) as session:

            def has_noticed() -> bool:
                return session.info("replication").get("master_link_status") == "down"

            if not until(has_noticed, clock, _NOTICED_S, _POLL_S):
                raise MeasurementError(
                    "the replica did not notice that its primary is dead",
                    hint="Does somebody else listen on the port of the primary?",
                )
            session.command("REPLICAOF", "NO", "ONE")


class OffsetWatch:
    """How much of the stream a replica has not applied, by what both say at nearly one moment.

    The primary alone knows of its replica's offset once a second.
    """

    def __init__(self, primary: RedisSession, replica: RedisSession) -> None:
        self._primary = primary
        self._replica = replica

    def behind_bytes(self) -> int | None:
        """Return the difference of the offsets; the primary is asked first, so it may be 0.

        Raises:
            TargetError: One of the two is gone.
        """
        told = self._primary.info("replication")
        lag = reading.lag_bytes(told, self._replica.info("replication"))
        return None if lag is None else int(lag)

    def close(self) -> None:
        """End both sessions."""
        self._primary.close()
        self._replica.close()
