"""The Redis programs: found with versions and vendors; a server configured, started, and tried.

What a server would refuse is asked of its own program before anything is measured. The server of
such a trial works in an empty private directory, on a socket there, and is killed when it has
answered.
"""

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final, Literal, Protocol

from steelyard.core.experiment import Configuration, EffectiveSetting, Experiment, Layer, Setting
from steelyard.core.findings import Finding, Severity
from steelyard.core.outside import (
    Command,
    Companion,
    Completed,
    ServerAddress,
    ServerProgram,
)
from steelyard.core.schedule import Load
from steelyard.core.target import RedisLocalTarget
from steelyard.core.wording import Complaint, PreflightError, TargetError
from steelyard.gateways.files import read_text, remove_tree, short_directory, write_text
from steelyard.gateways.host import LOOPBACK
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor, RedisSession, opened, settings_like, socket_path
from steelyard.systems import existing as complaints
from steelyard.systems.redis.settings import Catalogue, deviations, file_lines, refused_names

# Run in the project's own tests; other versions follow their documentation and are labelled so.
VERSIONS_RUN: Final = (("redis", 7), ("valkey", 8))
_FLAVOURS: Final[tuple[Literal["redis", "valkey"], ...]] = ("redis", "valkey")
_VERSION: Final = re.compile(r"^(Redis|Valkey) server v=(\S+)")
_TIMEOUT_S: Final = 20.0
_HINTS: Final = {
    "redis": "apt-get install redis-server redis-tools (its service may stay off), or name the"
    " directory of the programs in `bin:`.",
    "valkey": "apt-get install valkey-server valkey-tools (Debian: of its backports), or name the"
    " directory of the programs in `bin:`.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisInstallation:
    """One server program with the load generator that is there.

    Attributes:
        server: Path of the server program.
        benchmark: Of ``redis-benchmark`` or ``valkey-benchmark``; None: it is not here.
        version: As printed: ``7.0.15``.
    """

    server: Path
    benchmark: Path | None
    version: str
    flavour: Literal["redis", "valkey"]

    @property
    def label(self) -> str:
        """Return what it is called: ``Redis 7.0.15``."""
        return f"{self.flavour.capitalize()} {self.version}"

    @property
    def version_key(self) -> tuple[int, ...]:
        """Return numbers that order versions."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version))


def find_redis(place: str, processes: Processes) -> RedisInstallation:
    """Return the installation that ``bin:`` means.

    That is the name of the server program as PATH or the set-up has it, its path, or a directory.

    Raises:
        PreflightError: There is no such program, or it does not run.
    """
    server = _located(place)
    flavour, version = _version(server, processes)
    return RedisInstallation(
        server=server,
        benchmark=find_benchmark(server.parent, flavour),
        version=version,
        flavour=flavour,
    )


def _where(name: str) -> str | None:
    """Return the path of a program, in PATH first and then in the directory of this Python."""
    return which(name) or which(name, path=str(Path(sys.executable).parent))


def find_benchmark(beside: Path | None = None, flavour: str = "redis") -> Path | None:
    """Return the benchmark program: of that directory, else of PATH; the flavour's own first."""
    names = sorted((f"{one}-benchmark" for one in _FLAVOURS), key=lambda n: flavour not in n)
    near = [] if beside is None else [beside / name for name in names]
    found = [*filter(Path.is_file, near), *(Path(each) for each in map(_where, names) if each)]
    return found[0] if found else None


def benchmark_hint(flavour: str = "redis") -> str:
    """Return how the benchmark program is installed."""
    return _HINTS[flavour].replace(f"{flavour}-server {flavour}-tools", f"{flavour}-tools")


def _located(place: str) -> Path:
    path = Path(place).expanduser()
    if path.is_dir():
        for directory in (path, path / "bin"):
            for flavour in _FLAVOURS:
                if (server := directory.absolute() / f"{flavour}-server").is_file():
                    return server
        raise PreflightError(
            f"{path} has neither redis-server nor valkey-server",
            hint="Name the directory of the programs, or a program, in `bin:`.",
        )
    if "/" in place and path.is_file():
        return path.absolute()
    found = _where(place) if "/" not in place else None
    if found is None:
        flavour = "valkey" if "valkey" in place else "redis"
        raise PreflightError(f"there is no {place} on this machine", hint=_HINTS[flavour])
    return Path(found)


def _version(server: Path, processes: Processes) -> tuple[Literal["redis", "valkey"], str]:
    try:
        completed = processes.run(Command(argv=(str(server), "--version")), timeout_s=_TIMEOUT_S)
    except TargetError as error:
        raise PreflightError(error.message, hint=error.hint) from error
    if not completed.succeeded:
        raise PreflightError(
            f"{server} does not run on this machine: {completed.tail(1)}",
            hint="Was it built for another machine, or does it miss a library?",
        )
    return read_version(str(server), completed)


def read_version(server: str, completed: Completed) -> tuple[Literal["redis", "valkey"], str]:
    """Return whose server a program is, and its version, by what ``--version`` printed.

    Raises:
        PreflightError: It is none.
    """
    said = _VERSION.match(completed.stdout)
    if said is None:
        raise PreflightError(
            f"{server} is no Redis server: it says {completed.tail(1)!r} of its version",
            hint="Name redis-server or valkey-server in `bin:`.",
        )
    return ("valkey" if said[1] == "Valkey" else "redis"), said[2]


CONFIGURATION: Final = "redis.conf"
# Nothing is written before the data are complete: then both files are made from the same keys.
WHILE_PREPARING: Final = {"appendonly": "no", "save": ""}
DEFAULT_DATABASES: Final = 16  # redis.conf
# It is the only replica: a full sync need not wait for others that might want it, too.
_WITH_A_REPLICA: Final = {"repl-diskless-sync-delay": "0"}
_ANSWER_S: Final = 5.0
_ARRIVED: Final = "steelyard:arrived"  # nobody listens to it
_ARRIVES_MS: Final = 500  # less than an answer may take; then it is asked again
# What INFO says of a server that is not ready yet and comes nearer to it; at a replica, too.
_LOADING: Final = (
    *("loading", "async_loading", "master_sync_in_progress"),
    *("aof_rewrite_in_progress", "aof_rewrite_scheduled"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """Those that a server has beside the load of a campaign.

    Attributes:
        connections: Of others.
        replicas: That follow it.
        is_there: It is an existing server, with values of its own.
    """

    connections: int = 0
    replicas: int = 0
    is_there: bool = False


_ALONE: Final = Company()


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisProgram(ServerProgram):
    """One installed Redis as a server program.

    Attributes:
        tcp: It listens on the loopback network, too, not on its socket alone.
        replica: Settings of a replica that is started beside it; None: there is none. With none
            of its own it has the server's.
        datasets: So many databases have keys.
        company: Of an existing server.
    """

    installation: RedisInstallation
    redis: RedisDoor
    tcp: bool = False
    replica: tuple[tuple[str, str], ...] | None = None
    datasets: int = 1
    company: Company = _ALONE

    @property
    def version(self) -> str:
        return self.installation.version

    @property
    def identity(self) -> tuple[str, ...]:
        return (self.installation.flavour, self.installation.version)

    @property
    def while_preparing(self) -> Mapping[str, str]:
        """Return settings under which nothing is persisted but when it is asked for.

        Where the keys need more databases than a server has by itself, it gets them: its
        configurations have been asked for as many.
        """
        if self.datasets <= DEFAULT_DATABASES:
            return WHILE_PREPARING
        return {**WHILE_PREPARING, "databases": f"{self.datasets}"}

    @property
    def stop_signals(self) -> tuple[int, int]:
        """Return the signals of a shutdown in order, and of one that saves nothing."""
        return signal.SIGTERM, signal.SIGKILL

    @property
    def superuser(self) -> tuple[str, str]:
        """Return the default user, which needs no name, and the first database."""
        return "", "0"

    def create(self, data: Path, account: str | None) -> Command:
        """Return the command that makes an empty directory, which is all that it needs."""
        return Command(
            argv=("mkdir", "--mode=0700", str(data)), account=account, directory=data.parent
        )

    def start(self, data: Path, account: str | None) -> Command:
        """Return the command that runs the server; it is killed if Steelyard dies."""
        return Command(
            argv=(str(self.installation.server), str(data / CONFIGURATION)),
            account=account,
            directory=data,
            parent_death_signal=signal.SIGKILL,
        )

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return the configuration file of a data directory.

        The network is closed unless it is asked for: the socket's directory is private.
        """
        place = ServerAddress(host=str(sockets), port=address.port)
        own = {
            "port": str(address.port) if self.tcp or self.replica is not None else "0",
            "bind": LOOPBACK,
            "unixsocket": str(socket_path(place)),
            "daemonize": "no",
            "logfile": "",
        }
        begun = {} if self.replica is None else _WITH_A_REPLICA
        return {CONFIGURATION: configuration_text({**begun, **settings, **own})}

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether the server answers and has loaded its data: it answers PING before."""
        try:
            with opened(self.redis, address, timeout_s=_ANSWER_S) as session:
                session.command("DBSIZE")
        except TargetError:
            return False
        return True

    def is_loading(self, address: ServerAddress) -> bool:
        """Return whether it reads its data, or a replica gets them or writes them down."""
        try:
            with opened(self.redis, address, timeout_s=_ANSWER_S) as session:
                told = session.info()
        except TargetError:
            return False
        return any(told.get(name, "0") != "0" for name in _LOADING)

    def companion(self, settings: Mapping[str, str], address: ServerAddress) -> Companion | None:
        """Return the replica of a running server, which follows it over the loopback network."""
        if self.replica is None:
            return None
        asked = {**settings, **dict(self.replica)}
        last = {name.lower(): value for name, value in asked.items()}  # case makes no other name
        program = RedisReplica(
            installation=self.installation,
            redis=self.redis,
            primary=address,
            asked=tuple(last.items()),
        )
        follows = {"replicaof": f"{LOOPBACK} {address.port}"}
        return Companion(program=program, settings={**asked, **follows})


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisReplica(RedisProgram):
    """The same program as a replica: it has a socket alone, and begins without data.

    Attributes:
        primary: Whom it follows.
        asked: Settings that must be in force, by name in small letters.
    """

    primary: ServerAddress
    asked: tuple[tuple[str, str], ...] = ()

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether it follows its primary and has all of it: on its disk, too.

        Its link is up before anything more comes: the primary may begin to send what was written
        since only a second later, when the replica tells it again how far it has come.

        A copy is on the disk when the rewrite of the append-only file after it has ended.

        Raises:
            TargetError: It has everything, and a setting is not in force as asked.
        """
        try:
            with opened(self.redis, address, timeout_s=_ANSWER_S) as session:
                told = session.info()
                rewrites = (told.get("aof_rewrite_in_progress"), told.get("aof_rewrite_scheduled"))
                if told.get("master_link_status") != "up" or rewrites != ("0", "0"):
                    return False
                shown = settings_like(session, "*") if self.asked else {}
                if not self._is_fed():
                    return False
        except TargetError:
            return False
        wanted = [Setting(layer=Layer.REDIS, name=name, value=value) for name, value in self.asked]
        found = [EffectiveSetting(name=name, value=value) for name, value in shown.items()]
        if unlike := deviations(wanted, found):
            raise TargetError("; ".join(unlike), hint="Correct it in the target's `replica:`.")
        return True

    def _is_fed(self) -> bool:
        """Return whether what the primary says now arrives: a message, which is in no data."""
        with opened(self.redis, self.primary, timeout_s=_ANSWER_S) as session:
            session.command("PUBLISH", _ARRIVED, "")
            return session.command("WAIT", 1, _ARRIVES_MS) != 0


def configuration_text(settings: Mapping[str, str]) -> str:
    """Return a redis.conf with these settings, one a line."""
    return f"# Written by Steelyard.\n{file_lines(settings)}"


_POLL_S: Final = 0.02
_POLLS: Final = 1500  # half a minute; it takes some 50 ms
_LOG: Final = "log"
# "Reading the configuration file, at line 3", ">>> 'appendfsync sometimes'", what is wrong
_COMPLAINT: Final = re.compile(
    r"FATAL CONFIG FILE ERROR.*?^>>> '(?P<line>.*?)'$\n(?P<words>.*?)$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A setting that a server does not start with.

    Attributes:
        setting: Its name; empty when the server does not say which.
        words: Its own.
    """

    setting: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Starts an installed server for a moment."""

    installation: RedisInstallation
    redis: RedisDoor
    processes: Processes
    account: str | None

    @contextmanager
    def session(self) -> Iterator[RedisSession]:
        """Yield a session on a server whose every setting is the default.

        Raises:
            PreflightError: It does not start.
        """
        with self._started({}) as session:
            if isinstance(session, Refusal):
                raise PreflightError(
                    f"{self.installation.label} does not start: {session.words}",
                    hint=f"Does {self.installation.server} run on this machine?",
                )
            yield session

    def refusals(self, settings: Mapping[str, str]) -> tuple[Refusal, ...]:
        """Return everything that a server says against these settings."""

        def tried(left: Mapping[str, str]) -> Refusal | None:
            with self._started({**WHILE_PREPARING, **left}) as outcome:
                return outcome if isinstance(outcome, Refusal) else None

        return all_refusals(settings, tried)

    @contextmanager
    def _started(self, settings: Mapping[str, str]) -> Iterator[RedisSession | Refusal]:
        home = short_directory("steelyard-check-", account=self.account, announce=lambda _: None)
        try:
            address = ServerAddress(host=str(home / "redis.sock"), port=0, database="0")
            own = {"port": "0", "unixsocket": address.host, "daemonize": "no"}
            text = configuration_text({**settings, **own})
            write_text(home / CONFIGURATION, text, account=self.account)
            yield from self._answer(home, address)
        finally:
            remove_tree(home)

    def _answer(self, home: Path, address: ServerAddress) -> Iterator[RedisSession | Refusal]:
        command = Command(
            argv=(str(self.installation.server), str(home / CONFIGURATION)),
            account=self.account,
            directory=home,
            parent_death_signal=signal.SIGKILL,
        )
        process = self.processes.start(command, output=home / _LOG)
        try:
            for _ in range(_POLLS):
                if process.wait(_POLL_S):
                    yield refusal_in(read_text(home / _LOG) or "")
                    return
                try:
                    session = self.redis.connect(address)
                except TargetError:
                    continue
                with closing(session):
                    yield session
                return
            yield Refusal(setting="", words="it does not answer")
        finally:
            process.signal(signal.SIGKILL)
            process.wait(_POLL_S * _POLLS)


def all_refusals(
    settings: Mapping[str, str], tried: Callable[[Mapping[str, str]], Refusal | None]
) -> tuple[Refusal, ...]:
    """Return everything that a server says against settings; it tells one at a time."""
    left, found = dict(settings), list[Refusal]()
    while left and (outcome := tried(left)) is not None:
        found.append(outcome)
        named = [name for name in left if name.lower() == outcome.setting.lower()]
        if not named:
            break
        for name in named:
            del left[name]
    return tuple(found)


def refusal_in(log: str) -> Refusal:
    """Return what a server that ended said last."""
    said = _COMPLAINT.search(log)
    if said is None:
        return Refusal(setting="", words=" ".join(log.strip().splitlines()[-1:]))
    return Refusal(setting=said["line"].split()[0], words=said["words"])


_DEFAULT_CLIENTS = 10_000
_MOST_CLIENTS: Final = 2**32 - 1  # config.c
_KEPT_FOR_US = 5  # the probes' session and our own checks
_KEPT_THERE = 3  # one for our own checks, one that samples, one to spare


def fixed_settings(configuration: Configuration) -> Iterator[Complaint]:
    """Yield a complaint for each setting that Steelyard sets itself."""
    yield from complaints.fixed_settings(refused_names(list(configuration.asked())))


class Tries(Protocol):
    """Starts a server for a moment."""

    @property
    def installation(self) -> RedisInstallation:
        """Return whose server it is."""

    def refusals(self, settings: Mapping[str, str]) -> tuple[Refusal, ...]:
        """Return everything that it says against these settings."""


def refused_values(
    configuration: Configuration, trial: Tries, catalogue: Catalogue
) -> Iterator[Complaint]:
    """Yield a complaint for each value that the server's own program refuses."""
    for name, words in _refused(configuration.asked(), trial, catalogue):
        message = f"{trial.installation.label} refuses this value: {words}"
        yield Complaint(setting=name, message=message, hint=f"Correct `{name}`.")


def _refused(
    asked: Mapping[str, str], trial: Tries, catalogue: Catalogue
) -> Iterator[tuple[str, str]]:
    fixed = refused_names(list(asked))
    known = {n: value for n, value in asked.items() if n.lower() in catalogue and n not in fixed}
    for refusal in trial.refusals(known):
        yield refusal.setting or next(iter(known)), refusal.words


def refused_of_replica(
    configuration: Configuration, trial: Tries, catalogue: Catalogue
) -> Iterator[Complaint]:
    """Yield a complaint for each setting of a replica that the server's own program refuses."""
    target = configuration.target
    asked = dict(target.replica or ()) if isinstance(target, RedisLocalTarget) else {}
    fixed = refused_names(list(asked))
    for name, instead in fixed.items():
        message = f"`{name}` of the replica is set by Steelyard"
        yield Complaint(setting=None, message=message, hint=instead)
    for name in asked:
        if name not in fixed and name.lower() not in catalogue:
            message = f"{trial.installation.label} does not know `{name}` of the replica"
            yield Complaint(setting=None, message=message, hint="CONFIG GET * lists what it knows.")
    for name, words in _refused(asked, trial, catalogue):
        message = f"{trial.installation.label} refuses `{name}` of the replica: {words}"
        yield Complaint(setting=None, message=message, hint=f"Correct `{name}`.")


def replica_finding(experiment: Experiment) -> Finding | None:
    """Return what is to be known of replicas beside their primaries; None without one."""
    with_one = [
        name
        for name, target in experiment.targets_of(RedisLocalTarget).items()
        if target.replica is not None
    ]
    if not with_one:
        return None
    return Finding(
        code="replica-beside",
        severity=Severity.INFO,
        message="the replica runs on the machine of its primary and takes of its CPUs and its disk:"
        " on a machine of its own it would cost the primary less, and a network would be between",
        remedy="Read the difference as an upper bound of what the replica costs.",
        subject=", ".join(with_one),
    )


def too_few_connections(
    configuration: Configuration, loads: tuple[Load, ...], company: Company = _ALONE
) -> Iterator[Complaint]:
    """Yield a complaint when the clients do not fit into maxclients."""
    yield from complaints.too_few_connections(
        configuration,
        loads,
        limit="maxclients",
        default=None if company.is_there else _DEFAULT_CLIENTS,
        kept=(_KEPT_THERE if company.is_there else _KEPT_FOR_US) + company.connections,
        most=_MOST_CLIENTS,
    )


def too_few_databases(
    configuration: Configuration, datasets: int, company: Company = _ALONE
) -> Iterator[Complaint]:
    """Yield a complaint when each data set cannot have a database of its own."""
    default = "" if company.is_there else str(DEFAULT_DATABASES)
    text = configuration.asked_folded().get("databases", default)
    if text.isdecimal() and datasets > int(text):
        yield Complaint(
            setting=None,
            message=f"the workloads have {datasets} different key spaces, and a server of"
            f" `{configuration.name}` has {text} databases",
            hint=f"Set `databases` to at least {datasets}, or give workloads the same keys.",
        )


def version_finding(installation: RedisInstallation) -> Finding | None:
    """Return a finding when Steelyard's own tests do not run this version."""
    if (installation.flavour, installation.version_key[0]) in VERSIONS_RUN:
        return None
    return complaints.version_not_run(installation.label, installation.label)
