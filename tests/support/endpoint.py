"""A PostgreSQL server that is there already: started by the test, not by Steelyard."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from steelyard.core.wording import SteelyardError
from steelyard.gateways.process import Processes
from steelyard.places.local.server import staged
from steelyard.systems.postgres.server import find_installation, wheel_parts
from support.lacking import lacking
from support.live import LIMIT_S

ADMIN_PASSWORD = "admin-secret-5f2a"
PLAIN_PASSWORD = "plain-secret-9c1e"
_ACCOUNT = "nobody"


@dataclass(frozen=True)
class Server:
    """A running server with a socket (trust) and a TCP port (SCRAM)."""

    home: Path
    programs: Path
    port: int

    @property
    def data(self) -> Path:
        """Return its data directory."""
        return self.home / "data"

    @property
    def uri(self) -> str:
        """Return a URI of its socket for the superuser."""
        return f"postgresql://postgres@/postgres?host={self.home}&port={self.port}"

    @property
    def tcp(self) -> dict[str, str]:
        """Return libpq's variables for its TCP port, with the superuser's password."""
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
            "PGPASSWORD": ADMIN_PASSWORD,
        }

    def rows(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Return the rows of a statement, as superuser."""
        with self._connection(database) as connection:
            return connection.execute(statement.encode()).fetchall()

    def do(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as superuser."""
        with self._connection(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _connection(self, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host=str(self.home), port=self.port, user="postgres", dbname=database, autocommit=True
        )

    @property
    def databases(self) -> set[object]:
        """Return the names of its databases but the usual ones."""
        usual = {"postgres", "template0", "template1"}
        return {row[0] for row in self.rows("SELECT datname FROM pg_database")} - usual

    @property
    def configuration(self) -> list[str]:
        """Return the lines of postgresql.auto.conf, in an order of their own."""
        return sorted((self.data / "postgresql.auto.conf").read_text().splitlines())

    def control(self, verb: str, *more: str) -> list[str]:
        """Return the command of pg_ctl as the server's account."""
        own = [str(self.programs / "pg_ctl"), verb, "-D", str(self.data), "-w", "-t", "300", *more]
        return [*as_account(), *own]

    @property
    def restart_command(self) -> list[str]:
        """Return what restarts it."""
        return self.control("restart", "-m", "fast", "-l", str(self.home / "log"))


def at_work(server: Server) -> bool:
    """Return whether the load generator has sessions on the server."""
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'steelyard-pgbench'"
    return server.rows(count) != [(0,)]


def as_account() -> list[str]:
    """Return the prefix that runs a command as the server's account."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_ACCOUNT}", "--regid=nogroup", "--clear-groups"]


def planned_by_account(folder: Path, name: str, cache: Path) -> "subprocess.CompletedProcess[str]":
    """Return what that account hears that asks for the plan of an experiment in a folder."""
    argv = [*as_account(), sys.executable, "-m", "steelyard"]
    if subprocess.run([*argv, "--help"], check=False, cwd="/", capture_output=True).returncode:
        lacking("an ordinary account cannot reach this Python")
    return subprocess.run(
        [*argv, "run", "--dry-run", "--no-verdict", name],
        check=False,
        cwd=folder,
        env={**os.environ, "STEELYARD_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def run(argv: list[str]) -> None:
    """Run a command; its output goes nowhere, because a server may inherit it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(argv, check=True, cwd="/", timeout=600, **quiet)  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def programs(cache: Path) -> Path:
    """Return server programs that an unprivileged account can reach."""
    account = _ACCOUNT if os.geteuid() == 0 else None
    processes = Processes()
    try:
        found = find_installation("embedded", processes)
    except SteelyardError as error:
        lacking(str(error))
    before = os.environ.get("STEELYARD_CACHE")
    os.environ["STEELYARD_CACHE"] = str(cache)
    label = f"endpoint-{found.root.name}"
    place = staged(found.programs, wheel_parts(found), label, account=account, processes=processes)
    if before is None:
        del os.environ["STEELYARD_CACHE"]
    else:
        os.environ["STEELYARD_CACHE"] = before
    if not (place / "pg_ctl").exists():
        lacking("the installation has no pg_ctl")
    return place


def make_home() -> Path:
    """Return a fresh directory of the server's account."""
    home = Path(tempfile.mkdtemp(prefix="endpoint-", dir="/var/tmp"))
    if os.geteuid() == 0:
        entry = pwd.getpwnam(_ACCOUNT)
        os.chown(home, entry.pw_uid, entry.pw_gid)
    home.chmod(0o755)
    return home


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(programs: Path) -> Iterator[Server]:
    """A server with a superuser, an ordinary role, and one that may make no databases."""
    with started(programs) as made:
        yield made


@contextmanager
def pooled(server: Server, mode: str, *lines: str, databases: str = "*") -> Iterator[int]:
    """Start a real PgBouncer before a server, with further lines of its file; give its port."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        lacking("there is no pgbouncer on this machine")
    home, port = make_home(), free_port()
    (home / "users").write_text('"postgres" ""\n"reader" ""\n')
    (home / "ini").write_text(
        f"[databases]\n{databases} = host={server.home} port={server.port}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {home}/users\npool_mode = {mode}\n" + "\n".join(lines)
    )
    argv = [*as_account(), program, "-q", str(home / "ini")]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd="/")
    try:
        while not _listens(port):
            assert process.poll() is None, (home / "log").read_text()
            time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(programs: Path, *, encoding: str = "UTF8") -> Iterator[Server]:
    """Make and start a server; stop and remove it afterwards.

    Args:
        programs: Of the server.
        encoding: Of its databases; all but UTF8 with the C locale.
    """
    home = make_home()
    made = Server(home=home, programs=programs, port=free_port())
    initdb = [str(programs / "initdb"), "-D", str(made.data), "-U", "postgres", "--no-sync"]
    locale = () if encoding == "UTF8" else ("--locale=C",)
    run(
        [
            *as_account(),
            *initdb,
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "-E",
            encoding,
            *locale,
        ]
    )
    with (made.data / "postgresql.conf").open("a") as file:
        file.write(
            f"port = {made.port}\nlisten_addresses = '127.0.0.1'\nfsync = off\n"
            f"unix_socket_directories = '{home}'\nshared_buffers = 16MB\nmax_connections = 30\n"
        )
    run(made.control("start", "-l", str(home / "log")))
    try:
        made.do(
            f"ALTER ROLE postgres PASSWORD '{ADMIN_PASSWORD}'",
            f"CREATE ROLE plain LOGIN CREATEDB PASSWORD '{PLAIN_PASSWORD}'",
            f"CREATE ROLE poor LOGIN PASSWORD '{PLAIN_PASSWORD}'",
            "ALTER SYSTEM SET work_mem = '5MB'",
            "ALTER SYSTEM SET search_path = '$user', public, 'odd name'",
            "SELECT pg_reload_conf()",
        )
        yield made
    finally:
        run(made.control("stop", "-m", "immediate"))
        shutil.rmtree(home, ignore_errors=True)
