"""From an experiment to the PostgreSQL engine that runs it, wherever the server and programs are.

A server that Steelyard did not start differs in complaints and findings only; the programs of a
container image run in pods.
"""

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from steelyard.core import experiment as model
from steelyard.core import wording
from steelyard.core.findings import Finding, Severity
from steelyard.core.measurement import PlanChange
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.target import CloudNativePgTarget, EndpointTarget, LocalTarget
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Runner
from steelyard.gateways.sql import Sql
from steelyard.places.local.server import ProgramReach, server_account
from steelyard.systems.postgres import pgbench, settings
from steelyard.systems.postgres.engine import PostgresEngine
from steelyard.systems.postgres.existing import copying
from steelyard.systems.postgres.server import (
    Installation,
    PostgresProgram,
    find_clients,
    find_installation,
    trial,
    version_in,
    version_numbers,
    wheel_parts,
)
from steelyard.systems.postgres.statements import acts_by_plan, plan_changes
from steelyard.systems.protocol import Dataset, RunRequest


def postgres_engine(
    experiment: model.Experiment, doors: Doors, account: str | None, reach: ProgramReach
) -> PostgresEngine:
    """Return the engine; nothing is started yet.

    Programs that Steelyard starts as root run as the account, which reaches them there.

    Raises:
        PreflightError: Programs are absent or do not run.
    """
    targets = experiment.targets_of(LocalTarget)
    by_bin = {
        place: _reachable(find_installation(place, doors.processes), reach)
        for place in dict.fromkeys(target.server for target in targets.values())
    }
    installations = {name: by_bin[target.server] for name, target in targets.items()}
    return PostgresEngine(
        experiment,
        {
            name: PostgresProgram(
                installation=installations[name], initdb=target.initdb, sql=doors.sql
            )
            for name, target in targets.items()
        },
        {
            name: _catalogue(one.program("postgres"), experiment.configuration(name), doors)
            for name, one in installations.items()
        },
        doors,
        account,
    )


def _catalogue(
    postgres: str, configuration: model.Configuration, doors: Doors
) -> Mapping[str, settings.SettingEntry]:
    """Return the settings that a server describes, and of the others those that are asked for."""
    processes = doors.processes
    described = settings.read_catalogue(postgres, processes)
    with settings.empty_configuration() as empty:
        return settings.with_asked(described, [configuration], postgres, empty, processes)


def _reachable(found: Installation, reach: ProgramReach) -> Installation:
    label = f"{found.root.name}-{'.'.join(map(str, found.version_key))}"
    programs = reach(found.programs, wheel_parts(found), label)
    return replace(found, programs=programs)


_SERVER = (
    "SELECT current_setting('server_version'), rolsuper,"
    " coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)"
    " FROM pg_roles WHERE rolname = current_user"
)
_SETTINGS = (
    "SELECT name, context, category, vartype, unit, min_val, max_val,"
    " CASE source WHEN 'session' THEN reset_val ELSE setting END,"
    " CASE source WHEN 'session' THEN reset_val ELSE current_setting(name) END,"
    " source, pending_restart, enumvals FROM pg_settings"
)
# What a user needs who is no superuser: to change it, to see what there was, and to have it read.
_ALTERABLE = (
    "SELECT name FROM pg_settings WHERE has_parameter_privilege(name, 'ALTER SYSTEM')"
    " AND has_table_privilege('pg_file_settings', 'SELECT')"
    " AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')"
    " AND has_function_privilege('pg_reload_conf()', 'EXECUTE')"
)
_GRANTED_FROM = (15,)  # GRANT ... ON PARAMETER


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The range of a numeric setting, in the server's unit."""

    unit: str | None
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """What is known of a running server.

    Attributes:
        superuser: Whether the user that Steelyard connects as is one.
        tls: Whether it was asked over TLS; the generator has to come in the same way.
        catalogue: Settings that this user can see, by name in small letters.
        bounds: Of those that are numbers and can be changed.
        choices: The words of those that take one of a list.
        in_force: Their values in a session of this user, by name in small letters.
        shown: The same with units, as SHOW has them.
        alterable: Settings that this user may change for everyone, and put back, though no
            superuser.
        pending: Settings that were changed and wait for a restart.
        address: Where it was asked; None: nobody did.
    """

    version: str
    superuser: bool
    tls: bool
    catalogue: Mapping[str, settings.SettingEntry]
    bounds: Mapping[str, Bounds]
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    in_force: Mapping[str, model.EffectiveSetting] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    alterable: frozenset[str] = frozenset()
    pending: tuple[str, ...] = ()
    address: ServerAddress | None = None

    @property
    def grants(self) -> bool:
        """Return whether rights to change a setting for everyone can be granted there."""
        return version_numbers(self.version) >= _GRANTED_FROM

    def not_alterable(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of these settings that this user may not change for everyone."""
        if self.superuser:
            return ()
        return tuple(name for name in names if name.lower() not in self.alterable)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProgram(PostgresProgram):
    """A server that nobody here starts; ``installation`` holds the programs of the client.

    Attributes:
        server_version: As the server reports it.
    """

    server_version: str

    @property
    def version(self) -> str:
        return self.server_version

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what tells its data from those of another version."""
        return ("endpoint", self.server_version)


def read_running(address: ServerAddress, sql: Sql) -> RunningServer:
    """Return what a server says of itself; TargetError where it cannot be reached."""
    ((version, superuser, tls),) = sql.rows(address, _SERVER)
    catalogue, bounds, in_force, shown, pending = {}, {}, {}, {}, []
    choices: dict[str, Sequence[str]] = {}
    for row in sql.rows(address, _SETTINGS):
        name, context, group, kind, unit, low, high, value, text, source, waits, words = row
        catalogue[str(name).lower()] = settings.SettingEntry(
            name=str(name), context=str(context), group=str(group), kind=str(kind)
        )
        seen = settings.effective_setting(name, value, unit, source)
        in_force[str(name).lower()] = seen
        shown[str(name).lower()] = str(text)
        pending += [str(name)] if waits else []
        if kind in ("integer", "real") and context != _FIXED:
            bounds[str(name)] = Bounds(unit=seen.unit, low=float(str(low)), high=float(str(high)))
        elif kind == "bool":
            choices[str(name).lower()] = ("on", "off")
        elif isinstance(words, list):
            choices[str(name).lower()] = [str(word) for word in words]
    alterable: frozenset[str] = frozenset()
    if not superuser and version_numbers(str(version)) >= _GRANTED_FROM:
        alterable = frozenset(str(name).lower() for (name,) in sql.rows(address, _ALTERABLE))
    return RunningServer(
        version=str(version),
        superuser=bool(superuser),
        tls=bool(tls),
        catalogue=catalogue,
        bounds=bounds,
        choices=choices,
        in_force=in_force,
        shown=shown,
        alterable=alterable,
        pending=tuple(pending),
        address=address,
    )


# The rules of a start between these are the same on every machine.
_RULED: Final = frozenset(
    {
        *("archive_mode", "max_wal_senders", "summarize_wal", "wal_level"),
        *("max_connections", "reserved_connections", "superuser_reserved_connections"),
        *("autovacuum_max_workers", "autovacuum_worker_slots", "max_worker_processes"),
    }
)
_NEEDS_RESTART = "postmaster"
_FIXED = "internal"
_IS_INDEX: Final = re.compile(r"\s*create\s+(unique\s+)?index\b", re.IGNORECASE)
_CLIENT_TIMEOUT_S: Final = 6 * 3600.0  # indexes of a large table are made meanwhile


_RESERVED: Final = ("superuser_reserved_connections", "reserved_connections")
_MOST: Final = "max_connections"
_OUR_SESSIONS: Final = 2  # one for our own checks, one to spare


def _crowded(
    configuration: model.Configuration, server: RunningServer, experiment: model.Experiment
) -> Iterator[wording.Complaint]:
    """Yield that the clients do not fit into what a configuration lets in.

    What the server lets in now is another check's, which knows the sessions of others.
    """
    by_name = {name.lower(): name for name in configuration.asked()}
    written = next((by_name[name] for name in (_MOST, *_RESERVED) if name in by_name), None)
    if written is None:
        return
    there = {name: each.value for name, each in server.in_force.items()}
    numbers = {
        name: int(text)
        for name, text in {**there, **configuration.asked_folded()}.items()
        if name in (_MOST, *_RESERVED) and text.isdigit()
    }
    reserved = 0 if server.superuser else sum(numbers.get(name, 0) for name in _RESERVED)
    found = settings.too_few_connections(
        configuration, experiment.loads, numbers.get(_MOST), kept=_OUR_SESSIONS + reserved
    )
    for complaint in found:
        of_them = f" ({reserved} of them are for superusers)" if reserved else ""
        yield replace(complaint, setting=written, message=f"{complaint.message}{of_them}")


class EndpointEngine(PostgresEngine):
    """Running PostgreSQL servers under the newest pgbench of this machine."""

    def __init__(
        self,
        experiment: model.Experiment,
        servers: Mapping[str, RunningServer],
        clients: Installation,
        doors: Doors,
    ) -> None:
        super().__init__(
            experiment,
            {
                name: RunningProgram(
                    installation=clients,
                    sql=doors.sql,
                    server_version=server.version,
                )
                for name, server in servers.items()
            },
            {name: server.catalogue for name, server in servers.items()},
            doors,
        )
        self._servers = servers
        self._copies: dict[ServerAddress, copying.CopyPlan] = {}

    @property
    def needs_tls(self) -> bool:
        """Return whether a server was asked over TLS."""
        return any(server.tls for server in self._servers.values())

    def complaints(self, configuration: str) -> tuple[wording.Complaint, ...]:
        """Return what cannot be set on this server, or not by this user."""
        asked, server = self._experiment.configuration(configuration), self._servers[configuration]
        together = dict.fromkeys(
            setting.name
            for each in self._experiment.configurations
            if each.target == asked.target
            for setting in _postgres(each)
        )
        barred = server.not_alterable(together)
        return (
            *settings.fixed_settings(asked),
            *_out_of_reach(asked, server, barred),
            *(() if barred else _emptied(asked)),  # what is set is of own sessions alone then
            *_out_of_range(asked, server.bounds),
            *_not_among(asked, server.choices),
            *_crowded(asked, server, self._experiment),
            *self._refused_by_rules(asked, server),
        )

    def _refused_by_rules(
        self, configuration: model.Configuration, server: RunningServer
    ) -> tuple[wording.Complaint, ...]:
        """Return what a start would refuse, by a program of the server's version on this machine.

        It is asked about what is in force and what is asked for. It says nothing where there is
        none, or nobody else than root could run it.
        """
        asked = {n: v for n, v in configuration.asked_folded().items() if n in _RULED}
        in_force = {name: server.shown[name] for name in _RULED & server.shown.keys()}
        major, processes = version_numbers(server.version)[0], self._processes
        if not (asked and in_force and configuration.target.is_restarted):
            return ()
        if major < settings.TRIAL_FROM:
            return ()
        try:
            found = find_installation(str(major), processes)
            program = PostgresProgram(installation=found, sql=self._sql)
            with trial(program, server_account(()), processes) as started:
                refused = settings.refused_together(asked, started, server.catalogue, in_force)
                return tuple(refused)
        except (wording.PreflightError, wording.PrivilegeError):
            return ()

    def script_problems(self) -> tuple[str, ...]:
        """Return what is wrong with scripts, by what the servers know of their statements, too."""
        found = dict.fromkeys(super().script_problems())
        asked: set[object] = set()  # most configurations are of one server
        for configuration in map(self._experiment.configuration, self._servers):
            address, target = self._servers[configuration.name].address, configuration.target
            protocol = configuration.protocol or self._experiment.protocol
            own = (address, protocol, configuration.prepare, configuration.scripts)
            if address is None or not isinstance(target, EndpointTarget) or own in asked:
                continue
            asked.add(own)
            for workload in map(configuration.runs, self._experiment.workloads):
                made = (workload.scale, workload.command, *workload.prepare)
                tables = not any(made) and not configuration.prepare
                empty = tables and not target.allow_existing
                if workload.copied:  # the tables are those of the database that was asked
                    tables, empty = True, False
                problems = self.unknown(workload, address, protocol, empty=empty, tables=tables)
                found |= dict.fromkeys(problems)
        return tuple(found)

    def copies(self, configuration: str) -> copying.CopyPlan | None:
        """Return what of the server's own tables is copied; None where no workload asks for it.

        Raises:
            TargetError: The server lets nobody in.
        """
        address = self._servers[configuration].address
        copied = [each for each in self._experiment.variants if each.copied]
        if address is None or not copied:
            return None
        if address not in self._copies:
            configurations = self._experiment.configurations
            number = 1 + sum(bool(each.prepare) for each in configurations)
            number += len(configurations) if self.writes() else 0
            self._copies[address] = copying.plan_copies(
                copied,
                address,
                self._sql,
                databases=number,
                problems=[*self._dump_problems(configuration)],
            )
        return self._copies[address]

    def _dump_problems(self, configuration: str) -> Iterator[str]:
        """Yield why pg_dump of this machine cannot read the definitions there."""
        program = self._programs[configuration]
        clients, major = program.installation, version_numbers(program.version)[:1]
        if not (clients.programs / "pg_dump").exists():
            yield f"there is no pg_dump in {clients.programs}: install it with pgbench"
        elif clients.version_key[:1] < major:
            yield (
                f"pg_dump {clients.version} does not read a server of version {program.version}:"
                " install the client programs of that version on this machine"
            )

    def _fill(
        self, dataset: Dataset, own: ServerAddress, configuration: str, directory: Path | None
    ) -> None:
        plan = self.copies(configuration) if dataset.is_copied else None
        if plan is not None:
            changes = [s.text for c in self._experiment.configurations for s in c.prepare]
            run = partial(self._run_client, configuration)
            copying.copy_tables(plan, own, changes, run, self._sql)
        super()._fill(dataset, own, configuration, directory)

    def _run_client(
        self,
        configuration: str,
        name: str,
        arguments: Sequence[str],
        address: ServerAddress,
        text: str,
    ) -> Completed:
        program = self._programs[configuration].installation.program(name)
        quiet = ("--no-psqlrc", "--quiet") if name == "psql" else ()
        command = Command(
            argv=(program, *quiet, *arguments),
            environment={**pgbench.environment(address), "LC_ALL": "C"},
            parent_death_signal=signal.SIGKILL,
        )
        return self._processes.run(command, timeout_s=_CLIENT_TIMEOUT_S, stdin=text)

    def build_common(self, address: ServerAddress, configuration: str) -> None:
        """Make the data sets as all configurations have them before their own changes."""
        for dataset in self.datasets():
            self.build(dataset, address, configuration)

    def change_own(self, address: ServerAddress, configuration: str) -> None:
        """Apply a configuration's own scripts to its data sets."""
        scripts = self._experiment.configuration(configuration).prepare
        for dataset in self.datasets():
            own = address.at(dataset.name)
            texts = [(script.name, script.text) for script in scripts]
            self._run_scripts(texts, own, configuration)
            self._sql.execute(own, ["VACUUM (ANALYZE)"])

    def acts_by_plan(self, names: Sequence[str]) -> bool:
        """Return whether settings act through the choice of plans alone."""
        return bool(names) and all(map(acts_by_plan, names))

    def plan_changes(self, now: str, changed: str) -> tuple[PlanChange, ...]:
        """Return whether a configuration's settings change the plans on the server of another.

        Raises:
            InputError: Not every session can have a setting for itself.
        """
        address, experiment = self._servers[now].address, self._experiment
        configuration = experiment.configuration(changed)
        asked = configuration.asked()
        if beyond := settings.beyond_sessions(tuple(asked), self._servers[now].catalogue):
            raise wording.InputError(
                f"a session cannot have {', '.join(beyond)} for itself, so only a measurement"
                " shows its plans",
                hint="Leave --plans out, to measure with the setting.",
            )
        changes = [script.text.strip().rstrip(";") for script in configuration.prepare]
        if others := [each for each in changes if not _IS_INDEX.match(each)]:
            raise wording.InputError(
                f"the plans under `{others[0]}` are known after it is done",
                hint="Leave --plans out, to measure it on copies of the tables.",
            )
        if address is None:
            return ()
        protocol = configuration.protocol or experiment.protocol
        return tuple(
            change
            for workload in experiment.workloads
            for change in plan_changes(
                workload,
                address,
                asked,
                self._sql,
                seed=experiment.seed,
                protocol=protocol,
                indexes=changes,
            )
        )

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Return whether two configurations mean the same by these settings.

        Who does not ask has what is in force.
        """
        configurations = [self._experiment.configuration(name) for name in (one, other)]
        for name in names:
            asked = [each.asked_folded().get(name.lower()) for each in configurations]
            given = [value for value in asked if value is not None]
            now = self._servers[one].in_force.get(name.lower())
            if len(given) == len(asked):
                if not super().asks_the_same(one, other, (name,)):
                    return False
            elif given and (now is None or not settings.is_in_force(name, given[0], now)):
                return False
        return True

    def has_now(self, configuration: str, name: str, value: str) -> bool:
        """Return whether the server has this value of a setting already."""
        now = self._servers[configuration].in_force.get(name.lower())
        return now is not None and settings.is_in_force(name, value, now)

    def _of_rights(self, address: ServerAddress, configuration: str) -> ServerAddress:
        """Return where it was asked before: rights on functions are those of a database.

        In one that Steelyard made nobody has granted any.
        """
        asked = self._servers[configuration].address
        return address if asked is None else replace(address, database=asked.database)

    def shown_now(self, configuration: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return what the server showed of these settings when it was asked."""
        if configuration not in self._servers:  # its server comes about in another way
            return {}
        shown = self._servers[configuration].shown
        return {name: shown[name.lower()] for name in names if name.lower() in shown}

    def findings(self) -> tuple[Finding, ...]:
        """Return a finding for each server that is newer than the pgbench that drives it."""
        ours = self.generator
        newer = dict.fromkeys(
            server.version
            for server in self._servers.values()
            if version_numbers(server.version)[:1] > ours.version_key[:1]
        )
        return tuple(
            Finding(
                code="older-pgbench",
                severity=Severity.WARNING,
                message=f"pgbench {ours.version} drives a server of version {version}",
                remedy="Install the client programs of the server's version.",
                subject=f"PostgreSQL {version}",
            )
            for version in newer
        )


def endpoint_engine(
    experiment: model.Experiment,
    servers: Mapping[str, RunningServer],
    doors: Doors,
    reach: ProgramReach,
) -> EndpointEngine:
    """Return the engine for running servers, by configuration.

    Raises:
        PreflightError: There is no pgbench on this machine, or none that speaks TLS to a server
            that was asked over it.
    """
    tls = any(server.tls for server in servers.values())
    clients = _reachable(find_clients(doors.processes, tls=tls), reach)
    return EndpointEngine(experiment, servers, clients, doors)


_RESTART: Final = (
    "needs a restart of the server, which Steelyard did not start",
    "Say how to restart it by `restart_command:` in the target or --restart-command, or remove it.",
)


def _rights(barred: Sequence[str], server: RunningServer) -> tuple[str, str]:
    if not server.grants:
        fact = "is changed for all sessions, by a superuser only, and Steelyard connects as none"
        way = "Connect as a superuser, or remove it: others can change settings of own sessions."
        return fact, way
    named = ", ".join(barred)
    fact = (
        "is changed for all sessions, and Steelyard connects neither as a superuser nor as somebody"
        f" with the rights to change and put back {named}"
    )
    way = (
        f"Connect as a superuser, or GRANT ALTER SYSTEM ON PARAMETER {named} to the user, and in"
        " the database that it connects to SELECT ON pg_file_settings and EXECUTE ON FUNCTION"
        " pg_show_all_file_settings(), pg_reload_conf()."
    )
    return fact, way


def _out_of_reach(
    configuration: model.Configuration, server: RunningServer, barred: Sequence[str]
) -> Iterator[wording.Complaint]:
    """Yield what cannot be set there.

    Barred is what any configuration on it asks for and the user may not change for everyone.
    """
    target = configuration.target
    restarts = target.is_restarted
    is_kept = isinstance(target, CloudNativePgTarget) and not target.allow_existing
    for setting in _postgres(configuration):
        entry = server.catalogue.get(setting.name.lower())
        if entry is None:
            if "." in setting.name:
                yield _complaint(setting, "is not known to the server", "Load its extension there.")
            continue
        if entry.context == _FIXED:
            yield _complaint(setting, "cannot be changed on a running server", "Remove it.")
        elif is_kept and entry.context not in settings.SESSION_CONTEXTS:
            yield _complaint(
                setting,
                "is set for the whole Cluster, which Steelyard did not make",
                "Allow it with `allow_existing: true` in the target or --allow-existing: what the"
                " Cluster said goes back at the end.",
            )
        else:
            obstacles = [_RESTART] if entry.context == _NEEDS_RESTART and not restarts else []
            if entry.context not in settings.SESSION_CONTEXTS and barred:
                obstacles.append(_rights(barred, server))
            if obstacles:
                what = "; and it ".join(fact for fact, _ in obstacles)
                yield _complaint(setting, what, " ".join(way for _, way in obstacles))


def _emptied(configuration: model.Configuration) -> Iterator[wording.Complaint]:
    if isinstance(configuration.target, EndpointTarget):
        for setting in _postgres(configuration):
            if wording.is_empty_preload(setting.name, setting.value):
                yield _complaint(
                    setting,
                    "cannot be emptied by ALTER SYSTEM, which writes a library without a name",
                    "Empty it in postgresql.conf, and remove it here.",
                )


def _out_of_range(
    configuration: model.Configuration, bounds: Mapping[str, Bounds]
) -> Iterator[wording.Complaint]:
    for setting in _postgres(configuration):
        limits = bounds.get(setting.name.lower())
        if limits is None:
            continue
        number = wording.in_unit(setting.value, limits.unit)
        if number is None:
            yield _complaint(setting, f"is no number: {setting.value!r}", _written(limits.unit))
        elif not limits.low - 0.5 <= number <= limits.high + 0.5:
            low, high = (wording.with_unit(each, limits.unit) for each in (limits.low, limits.high))
            yield _complaint(
                setting,
                f"is out of range: {setting.value!r}; the server takes {low} to {high}",
                "Choose a value in between.",
            )


def _not_among(
    configuration: model.Configuration, choices: Mapping[str, Sequence[str]]
) -> Iterator[wording.Complaint]:
    for setting in _postgres(configuration):
        words = choices.get(setting.name.lower(), ())
        if words and not settings.is_among(setting.value, words):
            yield _complaint(
                setting,
                f"does not take {setting.value!r}; the server takes {', '.join(words)}",
                "Choose one of these.",
            )


def _written(unit: str | None) -> str:
    if not unit:
        return "Write a number without a unit."
    units = "B, kB, MB, GB or TB" if unit.endswith("B") else "us, ms, s, min, h or d"
    return f"Write a number with {units}, in this case."


def _postgres(configuration: model.Configuration) -> list[model.Setting]:
    return [s for s in configuration.settings if s.layer is model.Layer.POSTGRES]


def _complaint(setting: model.Setting, what: str, hint: str) -> wording.Complaint:
    return wording.Complaint(setting=setting.name, message=f"`{setting.name}` {what}", hint=hint)


SERVER: Final = ("postgres", "psql", "pgbench")
CLIENTS: Final = ("psql", "pgbench")
_TIMEOUT_S: Final = 60.0
_EMPTY: Final = "/tmp/steelyard-no-settings"  # noqa: S108 - in a pod of its own
# Where packages and images have their programs. The names in /usr/bin of Debian are wrappers that
# choose a version: not what is asked for by a directory.
_FIND: Final = """
for dir in "$(pg_config --bindir 2>/dev/null)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \\
    "$(dirname "$(command -v "$1" 2>/dev/null || echo /none/x)")"; do
  all=yes
  for name in "$@"; do [ -x "$dir/$name" ] || all=no; done
  if [ "$all" = yes ]; then echo "$dir"; exec "$dir/$1" --version; fi
done
exit 1
"""
_DESCRIBE: Final = (
    'mkdir -p "$2" && : > "$2/postgresql.conf" && exec "$1/postgres" --describe-config'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePrograms:
    """What the programs of one image say.

    Attributes:
        catalogue: Settings that its server knows.
        refused: Values that its server refuses, by configuration.
    """

    installation: Installation
    catalogue: Mapping[str, settings.SettingEntry]
    refused: Mapping[str, tuple[wording.Complaint, ...]]


def find_in_image(image: str, processes: Runner, needed: Sequence[str] = SERVER) -> Installation:
    """Return the directory in which an image has these programs, with the version of the first.

    Raises:
        PreflightError: It lacks one of them, or a shell.
    """
    argv = ("sh", "-c", _FIND, "find", *needed)
    completed = processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S)
    lines = completed.stdout.splitlines()
    version = version_in(lines[-1]) if completed.succeeded and len(lines) > 1 else ""
    if not version_numbers(version):
        raise wording.PreflightError(
            f"the image {image} does not have {', '.join(needed)} in one directory",
            hint="Name an image with PostgreSQL's client programs with `generators: {image: ...}`,"
            " and one of PostgreSQL with `image:`.",
        )
    programs = Path(lines[0])
    return Installation(programs=programs, root=programs, version=version, is_elsewhere=True)


def describe_image(
    image: str, configurations: Sequence[model.Configuration], processes: Runner
) -> ImagePrograms:
    """Return what the programs of an image say of themselves and of what configurations ask.

    They run in a pod of it.

    Raises:
        PreflightError: It lacks a program.
    """
    installation = find_in_image(image, processes)
    argv = ("sh", "-c", _DESCRIBE, "describe", str(installation.programs), _EMPTY)
    completed = processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S)
    if not completed.succeeded:
        raise wording.PreflightError(f"postgres --describe-config failed: {completed.tail(1)}")
    described = settings.parse_catalogue(completed.stdout)
    postgres = installation.program("postgres")
    catalogue = settings.with_asked(described, configurations, postgres, Path(_EMPTY), processes)
    return ImagePrograms(
        installation=installation,
        catalogue=catalogue,
        refused={
            configuration.name: tuple(
                settings.refused_values(
                    configuration, installation, catalogue, Path(_EMPTY), processes
                )
            )
            for configuration in configurations
        },
    )


class InImageEngine(PostgresEngine):
    """Servers of images, under one pgbench."""

    def __init__(
        self,
        experiment: model.Experiment,
        images: Mapping[str, ImagePrograms],
        generator: Installation,
        doors: Doors,
    ) -> None:
        super().__init__(
            experiment,
            {
                name: PostgresProgram(
                    installation=replace(generator, version=image.installation.version),
                    sql=doors.sql,
                )
                for name, image in images.items()
            },
            {name: image.catalogue for name, image in images.items()},
            doors,
        )
        self._images = images
        self.drive_by(generator)

    def complaints(self, configuration: str) -> tuple[wording.Complaint, ...]:
        """Return what the image's own server would refuse."""
        asked = self._experiment.configuration(configuration)
        return (
            *settings.fixed_settings(asked),
            *self._images[configuration].refused.get(configuration, ()),
            *settings.too_few_connections(asked, self._experiment.loads),
        )


class JoinedEngine(PostgresEngine):
    """Servers that come about in several ways, under one pgbench of this machine.

    What is asked of one configuration's server its own engine answers, which knows how it came
    about; the generator is the newest of all, where one is needed that speaks TLS the newest that
    does. Several configurations may share an engine.
    """

    def __init__(
        self,
        experiment: model.Experiment,
        engines: Mapping[str, PostgresEngine],
        doors: Doors,
    ) -> None:
        super().__init__(
            experiment,
            {name: engine.program(name) for name, engine in engines.items()},
            {name: engine.catalogue(name) for name, engine in engines.items()},
            doors,
        )
        self._engines = engines
        self._parts = tuple({id(engine): engine for engine in engines.values()}.values())
        able = [engine for engine in self._parts if engine.needs_tls] or self._parts
        generators = [engine.generator for engine in able]
        present = [one for one in generators if not one.is_elsewhere] or generators
        generator = max(present, key=lambda one: one.version_key)
        for engine in (self, *self._parts):
            engine.drive_by(generator)

    @property
    def needs_tls(self) -> bool:
        """Return whether any server was asked over TLS."""
        return any(engine.needs_tls for engine in self._parts)

    def script_problems(self) -> tuple[str, ...]:
        """Return what is wrong with scripts, by all servers."""
        return tuple(dict.fromkeys(each for part in self._parts for each in part.script_problems()))

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Return whether two configurations mean the same, as their engine knows if it is one."""
        engine = self._engines[one]
        if engine is self._engines[other]:
            return engine.asks_the_same(one, other, names)
        return super().asks_the_same(one, other, names)

    def short_limits(self, configuration: str, pause_s: float) -> Mapping[str, str]:
        """Return the limits by the clock, as their engine knows them."""
        return self._engines[configuration].short_limits(configuration, pause_s)

    def complaints(self, configuration: str) -> tuple[wording.Complaint, ...]:
        """Return what the engine of a configuration knows will not work."""
        return self._engines[configuration].complaints(configuration)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of all programs."""
        return tuple(dict.fromkeys(each for part in self._parts for each in part.findings()))

    def memory_bytes(self, configuration: str) -> int:
        """Return what a server takes of this machine's memory: nothing, where it is elsewhere."""
        return super().memory_bytes(configuration) if self._is_here(configuration) else 0

    def huge_page_bytes(self, configuration: str) -> int | None:
        """Return what it takes of this machine's pool of huge pages, likewise."""
        return super().huge_page_bytes(configuration) if self._is_here(configuration) else 0

    def _is_here(self, configuration: str) -> bool:
        return self._experiment.configuration(configuration).target.is_here

    def build(
        self,
        dataset: Dataset,
        address: ServerAddress,
        configuration: str,
        directory: Path | None = None,
    ) -> None:
        """Make a data set as the engine of a configuration does."""
        self._engines[configuration].build(dataset, address, configuration, directory)

    def reload(self, address: ServerAddress, configuration: str, clock: Clock) -> None:
        """Make a server read its configuration where the engine of a configuration may."""
        self._engines[configuration].reload(address, configuration, clock)

    def run_commands(self, request: RunRequest) -> tuple[Command, ...]:
        """Return the command line of each load generator, as the account that the server asks."""
        return self._engines[request.configuration].run_commands(request)

    def try_scripts(
        self, requests: Sequence[RunRequest], run: Callable[[Command], Completed]
    ) -> None:
        """Try the scripts of a configuration as its engine does."""
        self._engines[requests[0].configuration].try_scripts(requests, run)
