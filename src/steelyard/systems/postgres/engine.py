"""PostgreSQL as the runner sees it, and what its servers can do at most.

That is measured by empty statements and pg_test_fsync, whose output of 15 and 18 was recorded
(``tests/recordings/pg_test_fsync``). Only its first table counts, one 8 KiB write: that is what a
commit of one client waits for. The tables after it take four times as long and say nothing about
commits.
"""

import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from steelyard.core import experiment as model
from steelyard.core.findings import Finding
from steelyard.core.measurement import CheckpointAge, StatementPlan
from steelyard.core.outside import Command, Completed, ServerAddress, stored_key
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.core.wording import Complaint, InputError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import LOOPBACK, Clock
from steelyard.gateways.sql import reload
from steelyard.systems import protocol as roles
from steelyard.systems.postgres import pgbench, scripts, settings
from steelyard.systems.postgres.existing.server import copy_database, drop_database
from steelyard.systems.postgres.load_programs import (
    PostgresLoad,
    filled,
    load_program,
    values_of_server,
)
from steelyard.systems.postgres.reader import open_reader
from steelyard.systems.postgres.server import Installation, PostgresProgram, find_program, trial
from steelyard.systems.postgres.settings import SettingEntry
from steelyard.systems.postgres.statements import plans_of, unknown_in

_BUILD_TIMEOUT_S = 6 * 3600.0
_TRIAL_TIMEOUT_S = 30.0
_WITHIN = "-c statement_timeout=10s"  # of a trial
_MOST_PROBLEMS = 20  # of one script, as pgbench tells them
_EFFECTIVE = (
    "SELECT name, CASE source WHEN 'session' THEN reset_val ELSE setting END, unit, source"
    " FROM pg_settings WHERE NOT (name = ANY(%s)) ORDER BY name"
)
# They differ from campaign to campaign and say nothing about speed.
_IGNORED = ["data_directory", "config_file", "hba_file", "ident_file", "port"]
_IGNORED += ["unix_socket_directories", "external_pid_file"]
# Reads every table and index of the public schema into shared buffers where the extension is
# there, else through the buffers by a scan.
_PREWARM = """
SELECT pg_prewarm(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND c.relkind IN ('r', 'i', 'm')
"""
_SIZE = "SELECT pg_database_size(current_database())"
_TABLES = """
SELECT format('SELECT count(*) FROM %I.%I', n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND c.relkind IN ('r', 'm')
  AND c.relispopulated AND has_schema_privilege(n.oid, 'USAGE')
  AND has_table_privilege(c.oid, 'SELECT')
"""


class PostgresEngine(roles.Engine):
    """PostgreSQL servers under the newest pgbench at hand.

    Args:
        programs: Server program of each configuration, by name.
        catalogues: Settings each configuration's binary knows by name in small letters, by the
            configuration's name.
        account: Account for programs that Steelyard starts as root.
    """

    def __init__(
        self,
        experiment: model.Experiment,
        programs: Mapping[str, PostgresProgram],
        catalogues: Mapping[str, Mapping[str, SettingEntry]],
        doors: Doors,
        account: str | None = None,
    ) -> None:
        self._experiment = experiment
        self._programs = programs
        self._catalogues = catalogues
        self._doors = doors
        self._processes = doors.processes
        self._sql = doors.sql
        self._account = account
        self._password = secrets.token_hex(16)
        self._driver: Installation | None = None
        self._data_bytes: int | None = None
        self._sizing = threading.Lock()
        self._load = load_program(experiment, lambda: self.generator, doors.processes, account)

    @property
    def generator(self) -> Installation:
        """Return the installation whose pgbench drives every server: the newest."""
        if self._driver is not None:
            return self._driver
        installations = [program.installation for program in self._programs.values()]
        return max(installations, key=lambda installation: installation.version_key)

    @property
    def load(self) -> PostgresLoad:
        """Return pgbench, or the program that takes its place."""
        return self._load

    def drive_by(self, generator: Installation) -> None:
        """Let the pgbench of this installation drive all servers: those of other engines, too."""
        self._driver = generator

    @property
    def needs_tls(self) -> bool:
        """Return whether the generator has to speak TLS."""
        return False

    def program(self, configuration: str) -> PostgresProgram:
        return self._programs[configuration]

    def catalogue(self, configuration: str) -> Mapping[str, SettingEntry]:
        """Return the settings that a configuration's server knows."""
        return self._catalogues[configuration]

    def label(self, configuration: str) -> str:
        return f"PostgreSQL {self.program(configuration).version}"

    def listed(self, configuration: str, name: str, text: str) -> tuple[str, ...]:
        """Return the values of a setting that a text lists at commas."""
        return settings.listed(self._catalogues[configuration].get(name.lower()), text)

    def known_settings(self, configuration: str) -> frozenset[str]:
        return frozenset(entry.name for entry in self._catalogues[configuration].values())

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:
        asked = self._experiment.configuration(configuration)
        installation = self.program(configuration).installation
        catalogue = self._catalogues[configuration]
        with settings.empty_configuration() as empty:
            alone = settings.refused_values(asked, installation, catalogue, empty, self._processes)
            # What is refused alone, and then together with others, is told once.
            found = {
                one.setting: one for one in (*self._refused_together.get(configuration, ()), *alone)
            }
        return (
            *settings.fixed_settings(asked),
            *found.values(),
            *settings.too_few_connections(asked, self._experiment.loads),
        )

    @cached_property
    def _refused_together(self) -> Mapping[str, tuple[Complaint, ...]]:
        """Return what a start would refuse of each configuration; each server has a new cluster.

        ``initdb:`` is equal in all configurations.
        """
        tried: dict[Installation, dict[str, Mapping[str, str]]] = {}
        for name, program in self._programs.items():
            configuration, catalogue = self._experiment.configuration(name), self._catalogues[name]
            if asked := settings.asked_together(configuration, program, catalogue):
                tried.setdefault(program.installation, {})[name] = asked
        found = {}
        for by_name in tried.values():
            program = self._programs[next(iter(by_name))]
            with trial(program, self._account, self._processes) as started:
                for name, asked in by_name.items():
                    complaints = settings.refused_together(asked, started, self._catalogues[name])
                    found[name] = tuple(complaints)
        return found

    def check_flags(self) -> None:
        """Raise where the load generator cannot do what is asked of it.

        Raises:
            InputError: It refuses a flag, or scripts cannot be measured: all that is wrong.
        """
        self._load.check()
        refuse_scripts(self.script_problems())

    def script_problems(self) -> tuple[str, ...]:
        """Return what is wrong with scripts, by their text and by how pgbench reads it."""
        found: dict[str, None] = {}
        own = (each.protocol for each in self._experiment.configurations)
        protocols = dict.fromkeys(each or self._experiment.protocol for each in own)
        for workload in self._experiment.variants:
            for script in workload.scripts:
                problems = [*self._refused_by_pgbench(script.text)]
                for protocol in protocols:
                    problems += self._wrong(workload, script, protocol)
                found |= dict.fromkeys(located(script, *each) for each in sorted(problems))
        return tuple(found)

    def _wrong(
        self,
        workload: model.Workload,
        script: model.Script,
        protocol: str,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> Iterator[tuple[int, str]]:
        return scripts.problems(
            script.text, protocol=protocol, defined=self._defined(workload), columns=columns
        )

    def _defined(self, workload: model.Workload) -> Mapping[str, object]:
        return {
            "scale": workload.scale or 1,
            **pgbench.defined(self._experiment.generator_flags),
            **dict(workload.variables),
        }

    def _refused_by_pgbench(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield what pgbench cannot read of a script, which it reads before it looks for a server.

        It tells one problem at a time, so that the line is left out and it is asked again. One that
        is not on this machine is not asked.
        """
        if self.generator.is_elsewhere:
            return
        lines = text.split("\n")
        trial = pgbench.trial_of(self.generator.program("pgbench"), ("--file=-",))
        for _ in range(_MOST_PROBLEMS):
            script = "\n".join(lines)
            read = self._processes.run(trial, timeout_s=_TRIAL_TIMEOUT_S, stdin=script)
            problem = scripts.failure(read.stderr, script)
            if problem is None:
                return
            yield problem
            # All else that is said of `\if` and what belongs to it would follow from the first.
            lines = [] if "\\" in problem[1] else lines
            lines[problem[0] - 1 : problem[0]] = [""]

    def unknown(
        self,
        workload: model.Workload,
        address: ServerAddress,
        protocol: str,
        *,
        empty: bool = False,
        tables: bool = True,
    ) -> Iterator[str]:
        """Yield what is wrong with scripts by what a server says that does not execute them.

        It prepares each statement. Then pgbench tries its own commands there, with ``SELECT 1`` in
        place of each statement. Arguments as of ``unknown_in``.
        """
        columns: dict[str, tuple[str, ...]] = {}
        asked = unknown_in(
            workload,
            address,
            self._sql,
            protocol=protocol,
            columns=columns,
            empty=empty,
            tables=tables,
        )
        problems = [(script, line, said + IN_EMPTY * empty) for script, line, said in asked]
        for script in workload.scripts:
            wrong = [*self._wrong(workload, script, protocol, columns)]
            if not (
                wrong or self.generator.is_elsewhere or any(each[0] is script for each in problems)
            ):
                wrong = self._rehearse(
                    script, columns, self._trial(workload, address, protocol, "-")
                )
            problems += ((script, *each) for each in wrong)
        yield from (located(*each) for each in problems)

    def _rehearse(
        self, script: model.Script, columns: Mapping[str, Sequence[str]], trial: Command
    ) -> list[tuple[int, str]]:
        text = scripts.rehearsal(script.text, columns)
        tried = self._processes.run(trial, timeout_s=_TRIAL_TIMEOUT_S, stdin=text)
        failed = scripts.failure(tried.stderr, script.text)
        # What a server would return may be another number than 1.
        is_guess = scripts.asks(script.text) and "evaluation of" in tried.stderr
        return [] if failed is None or is_guess else [failed]

    def try_scripts(
        self, requests: Sequence[roles.RunRequest], run: Callable[[Command], Completed]
    ) -> None:
        """Let the server prepare the statements of scripts, then run each script of ours once.

        A statement that takes longer than 10 s counts as right. An existing server only prepares.

        Raises:
            InputError: What is wrong with all of them.
        """
        problems = []
        for request in requests:
            address = request.address.at(dataset_of(request.workload).name)
            asked = (request.workload, address, request.protocol)
            unknown = [*self.unknown(*asked)]
            is_ours = request.configuration not in self._experiment.targets_of(EndpointTarget)
            for script, (path, _) in zip(request.workload.scripts, request.scripts, strict=True):
                if not unknown and is_ours:
                    completed = run(self._trial(*asked, str(path), options=_WITHIN))
                    failed = scripts.failure(completed.stderr, script.text)
                    problems += [located(script, *failed)] if failed else []
            problems += unknown
        refuse_scripts(problems)

    def _trial(
        self,
        workload: model.Workload,
        address: ServerAddress,
        protocol: str,
        file: str,
        *,
        options: str = "",
    ) -> Command:
        environment = {**pgbench.environment(address), "LC_ALL": "C"}
        if options:
            environment["PGOPTIONS"] = f"{environment.get('PGOPTIONS', '')} {options}"
        flags = ("--no-vacuum", "--transactions=1", f"--protocol={protocol}", f"--file={file}")
        variables = (f"--define={name}={value}" for name, value in self._defined(workload).items())
        return Command(
            argv=(self.generator.program("pgbench"), *flags, *variables),
            environment=environment,
            account=self._account,
            parent_death_signal=_SIGKILL,
        )

    def findings(self) -> tuple[Finding, ...]:
        """Return which versions Steelyard's own tests do not run."""
        installations = dict.fromkeys(p.installation for p in self._programs.values())
        found = (settings.version_finding(installation) for installation in installations)
        return tuple(finding for finding in found if finding is not None)

    def tools(self) -> Mapping[str, str]:
        servers = {f"server of {name}": self.label(name) for name in self._programs}
        return {**self._load.tools(), **servers}

    def switch_cost(self, configuration: str, names: Sequence[str]) -> model.SwitchCost:
        """Return what it takes to change these settings, by the binary's own contexts."""
        return settings.switch_cost(names, self._catalogues[configuration])

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Return whether two configurations mean the same by these settings, written differently.

        The program of a local server says what a value or a default means; elsewhere only units
        are compared.
        """
        asked, against = (self._experiment.configuration(t).asked_folded() for t in (one, other))
        pairs = [(name, asked.get(name.lower()), against.get(name.lower())) for name in names]
        if not {one, other} <= self._experiment.targets_of(LocalTarget).keys():
            return all(a and b and settings.same_quantity(a, b) for _, a, b in pairs)
        postgres = self.program(one).installation.program("postgres")
        with settings.empty_configuration() as empty:
            return all(
                len({settings.value_of(postgres, n, v, empty, self._processes) for v in (a, b)})
                == 1
                for n, a, b in pairs
            )

    def datasets(self) -> tuple[roles.Dataset, ...]:
        """Return the distinct data sets of all workloads, in workload order."""
        found = {dataset_of(workload).name: dataset_of(workload) for workload in self._workloads}
        return tuple(found.values())

    @property
    def _workloads(self) -> tuple[model.Workload, ...]:
        return self._experiment.workloads

    def writes(self) -> bool:
        return not all(map(self.only_reads, self._workloads))

    def only_reads(self, workload: model.Workload) -> bool:
        variants = dict.fromkeys(each.runs(workload) for each in self._experiment.configurations)
        return all(map(self._load.only_reads, variants))

    def writing(self) -> tuple[str, ...]:
        """Return what of each script may write: its first such statement, with file and line."""
        configurations = self._experiment.configurations
        places = {
            located(script, *place)
            for workload in self._workloads
            for runs in (each.runs(workload) for each in configurations)
            for script in runs.scripts
            if (place := scripts.writing(script.text))
        }
        return tuple(sorted(places))

    def memory_bytes(self, configuration: str) -> int:
        clients = max(load.clients for load in self._experiment.loads)
        data = sum(dataset.expected_bytes for dataset in self.datasets())
        return settings.most_bytes(self._experiment.configuration(configuration), clients) + data

    def huge_page_bytes(self, configuration: str) -> int | None:
        return settings.huge_bytes(self._experiment.configuration(configuration))

    def timed_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        return settings.timed_settings(names)

    def short_limits(self, configuration: str, pause_s: float) -> Mapping[str, str]:
        asked = self._experiment.configuration(configuration).asked_folded()
        return settings.short_limits(
            {**self.shown_now(configuration, settings.LIMITS), **asked}, pause_s
        )

    def beyond_sessions(self, configuration: str, names: Sequence[str]) -> tuple[str, ...]:
        return settings.beyond_sessions(names, self._catalogues[configuration])

    def paid_by_others(self, names: Sequence[str]) -> tuple[str, ...]:
        return settings.paid_by_others(names)

    def build(
        self,
        dataset: roles.Dataset,
        address: ServerAddress,
        configuration: str,
        directory: Path | None = None,
    ) -> None:
        """Make a data set: database, generator's tables, own scripts, vacuum and analyse."""
        if dataset.name not in dict(address.databases):
            self._sql.execute(address, [f'CREATE DATABASE "{dataset.name}"'])
        own = address.at(dataset.name)
        self._fill(dataset, own, configuration, directory)
        if dataset.name not in dict(address.databases):
            if self._sql.rows(own, _HAS_PREWARM):
                self._sql.execute(own, ["CREATE EXTENSION IF NOT EXISTS pg_prewarm"])
            self._sql.execute(own, ["VACUUM (ANALYZE)"])
        elif dataset.prepare or dataset.command or dataset.is_copied:
            # Elsewhere pgbench has vacuumed its own tables, and others are not ours to touch.
            self._sql.execute(own, ["VACUUM (ANALYZE)"])

    def _fill(
        self, dataset: roles.Dataset, own: ServerAddress, configuration: str, directory: Path | None
    ) -> None:
        if dataset.scale is not None:
            arguments = pgbench.initialise_arguments(dataset.scale)
            self._succeed((self.generator.program("pgbench"), *arguments), own)
        self._run_scripts(dataset.prepare, own, configuration, dataset.variables)
        if dataset.command:
            argv = filled(dataset.command, values_of_server(own))
            self._succeed(argv, own, directory=directory)

    def _run_scripts(
        self,
        texts: Sequence[tuple[str, str]],
        own: ServerAddress,
        configuration: str,
        variables: Sequence[tuple[str, int]] = (),
    ) -> None:
        psql = self._programs[configuration].installation.program("psql")
        told = (f"--set={name}={value}" for name, value in variables)
        argv = (psql, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *told, "--file=-")
        for name, text in texts:
            self._succeed(argv, own, stdin=text, what=f"the prepare script {name}")

    def _succeed(
        self,
        argv: tuple[str, ...],
        address: ServerAddress,
        *,
        stdin: str = "",
        what: str = "",
        directory: Path | None = None,
    ) -> None:
        command = Command(
            argv=argv,
            environment=pgbench.environment(address),
            directory=directory,
            account=self._account,
            parent_death_signal=_SIGKILL,
        )
        completed = self._processes.run(command, timeout_s=_BUILD_TIMEOUT_S, stdin=stdin)
        if not completed.succeeded:
            subject = what or Path(argv[0]).name
            raise TargetError(
                f"preparing the data failed: {subject}: {completed.tail(3)}",
                hint="Set statement_timeout to 0 for this user: ALTER ROLE ... SET"
                " statement_timeout = 0."
                if "statement timeout" in completed.tail(3)
                else "Correct the script, or look at the server's log.",
            )

    def checkpoint_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        return settings.cycle_settings(names)

    def checkpoint_cycle_s(self, effective: Sequence[model.EffectiveSetting]) -> float | None:
        """Return the checkpoint_timeout in force."""
        return settings.cycle_s(effective)

    def checkpoint_age(self, address: ServerAddress) -> CheckpointAge:
        """Return where a running server stands in its checkpoint cycle."""
        return settings.checkpoint_age(address, self._sql)

    def prewarm(self, address: ServerAddress, *, most_bytes: int | None = None) -> bool:
        """Read the data of all data sets into the server's memory, if they are not larger."""
        if most_bytes is not None:
            with self._sizing:  # servers start side by side, and all do alike
                if self._data_bytes is None:
                    self._data_bytes = sum(
                        int(str(self._sql.rows(address.at(each.name), _SIZE)[0][0]))
                        for each in self.datasets()
                    )
            if self._data_bytes > most_bytes:
                return False
        for dataset in self.datasets():
            own = address.at(dataset.name)
            if self._sql.rows(own, "SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'"):
                self._sql.rows(own, _PREWARM)
            else:
                scans = [str(row[0]) for row in self._sql.rows(own, _TABLES)]
                self._sql.execute(own, scans)
        return True

    def plans(self, address: ServerAddress, configuration: str) -> tuple[StatementPlan, ...]:
        """Return the plans of the statements of all scripts, under the settings in force there."""
        return tuple(
            plan
            for workload in map(self._experiment.configuration(configuration).runs, self._workloads)
            for plan in plans_of(workload, address.at(dataset_of(workload).name), self._sql)
        )

    def effective(self, address: ServerAddress) -> tuple[model.EffectiveSetting, ...]:
        """Return all settings as a new session sees them in the workloads' databases.

        A database may have settings of its own: where a further one differs from the first, its
        value is listed too.
        """
        found: dict[model.EffectiveSetting, None] = {}
        for dataset in self.datasets():
            own = address.at(dataset.name)
            for row in self._sql.rows(own, _EFFECTIVE, [_IGNORED]):
                found.setdefault(settings.effective_setting(*row))
        return roles.recordable(sorted(found, key=lambda setting: setting.name), self._experiment)

    def deviations(
        self, asked: Sequence[model.Setting], effective: Sequence[model.EffectiveSetting]
    ) -> tuple[str, ...]:
        """Return a sentence for each setting that is not in force as asked."""
        return settings.deviations(asked, effective)

    def keep_templates(self, address: ServerAddress) -> None:
        """Put the prepared data aside on a running server, to copy them from there.

        Those that lie there already stay: the server was used by another slot before.
        """
        there = {
            str(name) for (name,) in self._sql.rows(address, "SELECT datname FROM pg_database")
        }
        for dataset in self.datasets():
            aside = f"{dataset.name}{_PREPARED}"
            if aside not in there:
                rename = f'ALTER DATABASE "{dataset.name}" RENAME TO "{aside}"'
                self._sql.execute(address, [rename])

    def restore_from_templates(self, address: ServerAddress) -> None:
        """Bring every data set back from its template.

        FILE_COPY: it forces checkpoints but keeps the copy out of the WAL, and was measured to be
        faster than WAL_LOG from scale 10 on. WAL position and statistics are not restored.
        """
        shown = self._sql.rows(address, "SELECT current_setting('server_version_num')")[0][0]
        version = int(str(shown))
        for dataset in self.datasets():
            name, template = dataset.name, f"{dataset.name}{_PREPARED}"
            statements = [drop_database(name, version), copy_database(name, template, version)]
            self._sql.execute(address, statements)

    def reload(self, address: ServerAddress, configuration: str, clock: Clock) -> None:
        """Make the server read its configuration, and wait until new sessions see it."""
        reload(self._of_rights(address, configuration), self._sql, clock)

    def _of_rights(self, address: ServerAddress, configuration: str) -> ServerAddress:  # noqa: ARG002 - for servers of others
        """Return the database of a server in which its user may have it reloaded: any."""
        return address

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:
        """Return where pgbench connects: the socket, or the loopback network with a password.

        The password is made for this process and set anew on every server that is asked; it is
        sent as a SCRAM verifier, so no log of the server can hold it.
        """
        if connection != "tcp":
            return address
        self._sql.set_password(address, self._password)
        return ServerAddress(
            host=LOOPBACK, port=address.port, user=address.user, password=self._password
        )

    def reader(self, address: ServerAddress, workload: model.Workload) -> roles.ServerReader:
        """Open a session that reads the server's statistics while a workload runs."""
        dataset = dataset_of(workload).name
        inside = address.at(dataset)
        return open_reader(self._sql, inside, is_own=inside.database == dataset)

    def run_commands(self, request: roles.RunRequest) -> tuple[Command, ...]:
        address = request.address.at(dataset_of(request.workload).name)
        return self._load.run_commands(request, address)

    def turn_counter(self, request: roles.RunRequest) -> None:  # noqa: ARG002 - by its protocol
        """Return None: pgbench logs when each transaction ended."""
        return

    def ceilings(self) -> "PostgresCeilings":
        installations = [program.installation for program in self._programs.values()]
        return PostgresCeilings(installations, self._doors)


# What a problem says, and the way out of it.
_WAYS_OUT = {
    " in the empty database that Steelyard makes": "Name the database that has it, with"
    " `allow_existing: true` in the target or --allow-existing, or make it by `prepare` scripts; or"
    " correct the script.",
    "`--define` sets": r"Set it by `\set` before it is used, by `variables:` of the workload, or by"
    " the generator's flag --define=NAME=VALUE.",
    f"the protocol `{scripts.SIMPLE}`": "Correct the script, or choose another protocol"
    " (`load: {protocol: ...}` or --protocol).",
}
IN_EMPTY = next(iter(_WAYS_OUT))


def located(script: model.Script, line: int, problem: str) -> str:
    """Return a problem of a script with the place that an editor finds it by."""
    return f"{script.rewritten_in or script.name}:{line}: {problem}"


def refuse_scripts(problems: Sequence[str]) -> None:
    """Raise what is wrong with scripts, if anything is.

    Raises:
        InputError: All of it, with the ways out.
    """
    ways = [way for sign, way in _WAYS_OUT.items() if any(sign in each for each in problems)]
    if problems:
        raise InputError(
            "\n".join(dict.fromkeys(problems)), hint=" ".join(ways) or "Correct the script."
        )


_HAS_PREWARM = "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_prewarm'"
_SIGKILL = 9
_PREPARED = "_prepared"


def dataset_of(workload: model.Workload) -> roles.Dataset:
    """Return the data a workload runs on; equal content gives an equal name."""
    scripts = tuple((script.name, script.text) for script in workload.prepare)
    command = () if workload.command is None else workload.command.prepare
    further = [each for each in (command, workload.variables if scripts else ()) if each]
    name = f"s{workload.scale}" if workload.scale else "own"
    if workload.copied:
        name = "copy"  # of all workloads together
    if scripts or command:
        name += f"_{stored_key([*scripts, *further] if further else scripts)[:10]}"
    return roles.Dataset(
        name=f"steelyard_{name}",
        scale=workload.scale,
        prepare=scripts,
        variables=workload.variables if scripts else (),
        command=command,
        is_copied=bool(workload.copied),
    )


PROGRAM = "pg_test_fsync"
_EMPTY = "SELECT 1"
_TABLE = re.compile(r"^Compare file sync methods using one 8kB write:$", re.MULTILINE)
_NEXT_TABLE = re.compile(r"^Compare ", re.MULTILINE)
_LINE = re.compile(
    r"^\s+(?P<method>[a-z_]+)\s+"
    r"(?:(?P<rate>\d{1,12}(?:\.\d{1,9})?) ops/sec\s+\d+ usecs/op|n/a\*?)\s*$",
    re.MULTILINE,
)


class PostgresCeilings:
    """The tools of PostgreSQL, of the configurations' installations."""

    def __init__(self, installations: Sequence[Installation], doors: Doors) -> None:
        self._installations = installations
        self._processes = doors.processes
        self._sql = doors.sql

    def round_trips(
        self, address: ServerAddress, *, connections: int, most: int, most_s: float
    ) -> tuple[float, ...]:
        """Return the seconds of each round trip of ``SELECT 1`` on the quickest connection."""
        return self._sql.round_trips(
            address, _EMPTY, connections=connections, most=most, most_s=most_s
        )

    def sync_command(self, file: Path) -> Command:
        """Return the call of pg_test_fsync, a second per method."""
        program = find_program(PROGRAM, self._installations, self._processes)
        return Command(
            argv=(program, "--secs-per-test=1", f"--filename={file}"),
            environment={"LC_ALL": "C"},
            directory=file.parent,
            parent_death_signal=_SIGKILL,
        )

    def sync_rates(self, text: str) -> tuple[roles.SyncRate, ...] | None:
        """Return the first table; None before it is complete."""
        begins = _TABLE.search(text)
        ends = _NEXT_TABLE.search(text, begins.end()) if begins else None
        if begins is None or ends is None:
            return None
        return tuple(
            roles.SyncRate(
                method=line["method"], per_s=None if line["rate"] is None else float(line["rate"])
            )
            for line in _LINE.finditer(text, begins.end(), ends.start())
        )

    def sync_method(self, effective: Sequence[model.EffectiveSetting]) -> str | None:
        """Return wal_sync_method; None where commits wait for no flush, or it is not shown."""
        shown = {setting.name: setting.value for setting in effective}
        if "off" in (shown.get("fsync"), shown.get("synchronous_commit")):
            return None
        return shown.get("wal_sync_method")
