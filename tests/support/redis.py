"""A Redis server of the test's own: started by it and not by Steelyard, and ended by it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.redis import RedisDoor, RedisSession
from support.endpoint import free_port
from support.lacking import lacking

_READY_S = 60.0
VALKEY = Path(os.environ.get("STEELYARD_VALKEY", "/var/cache/steelyard-valkey")) / "usr" / "bin"
QUIET = {"appendonly": "no", "save": ""}


@dataclass
class RedisServer:
    """A server with a TCP port and a socket of its own, in a directory of its own.

    Attributes:
        home: Its working directory: dump.rdb, appendonlydir, log, socket.
        settings: In force at its next start; change them between ``stop`` and ``start``.
        user: Of ``session`` and ``address``; likewise ``password``.
        program: Its path.
    """

    home: Path
    port: int
    settings: dict[str, str] = field(default_factory=lambda: dict(QUIET))
    user: str = ""
    password: str = ""
    program: str = "redis-server"
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def socket(self) -> Path:
        """Return its Unix socket, named as Steelyard names them."""
        return self.home / f"redis-{self.port}.sock"

    @property
    def log(self) -> str:
        """Return what it logged so far, over all starts."""
        path = self.home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def address(self) -> ServerAddress:
        """Return its TCP address."""
        return ServerAddress(
            host="127.0.0.1", port=self.port, user=self.user, password=self.password
        )

    @property
    def by_socket(self) -> ServerAddress:
        """Return the address of its socket."""
        return ServerAddress(
            host=str(self.home), port=self.port, user=self.user, password=self.password
        )

    @property
    def uri(self) -> str:
        """Return its URI, without a password."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return its process."""
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return self.process is not None and self.process.poll() is None

    def session(self, database: int = 0) -> RedisSession:
        """Return a session in a database; the test closes it."""
        address = self.by_socket
        return RedisDoor().connect(
            ServerAddress(
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password,
                database=str(database),
            )
        )

    def command(self, *words: str | bytes | int, database: int = 0) -> object:
        """Return the answer to one command on a connection of its own."""
        session = self.session(database)
        try:
            return session.command(*words)
        finally:
            session.close()

    def info(self, *sections: str) -> Mapping[str, str]:
        """Return what INFO says."""
        session = self.session()
        try:
            return session.info(*sections)
        finally:
            session.close()

    def start(self) -> None:
        """Start it and wait until it has loaded its data."""
        assert not self.is_running
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-"], cwd=self.home, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        assert self.process.stdin is not None
        self.process.stdin.write(self._configuration().encode())
        self.process.stdin.close()
        self._wait()

    def _configuration(self) -> str:
        own = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self.home),
            "daemonize": "no",
        }
        said = {**own, **self.settings}
        return "".join(f"{name} {_quoted(name, value)}\n" for name, value in said.items())

    def _wait(self) -> None:
        end = time.monotonic() + _READY_S
        while time.monotonic() < end:
            assert self.is_running, f"the server did not start:\n{self.log[-2000:]}"
            try:
                self.command("DBSIZE")
            except TargetError:
                time.sleep(0.02)
            else:
                return
        pytest.fail(f"the server did not answer:\n{self.log[-2000:]}")

    def stop(self) -> None:
        """Stop it in order: what it was told to save, it saves."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(_READY_S)
            self.process = None


def _quoted(name: str, value: str) -> str:
    """Return a value as redis.conf has it; several words stay several, as in ``save 60 1``."""
    several = name in (
        *("save", "client-output-buffer-limit", "user", "replicaof", "bind", "rename-command"),
    )
    return value if several and value else '"' + value.replace("\\", "\\\\") + '"'


def require_redis(program: str = "redis-server") -> str:
    """Return the path of a server program; skip without it."""
    found = shutil.which(program)
    if found is None:
        lacking(f"there is no {program}")
    return found


def require_valkey() -> str:
    """Return the directory of Valkey's programs; skip without it."""
    if not (VALKEY / "valkey-server").exists():
        lacking(f"there is no Valkey in {VALKEY}: `.ci/valkey` puts it there")
    return str(VALKEY)


@contextmanager
def redis_started(
    settings: Mapping[str, str] | None = None, *, program: str = "redis-server", password: str = ""
) -> Iterator[RedisServer]:
    """Start a server with these settings beside ``QUIET``; kill and remove it afterwards."""
    found = require_redis(program)
    home = Path(tempfile.mkdtemp(prefix="redis-", dir="/var/tmp"))
    asked = {**QUIET, **(settings or {})}
    if password:
        asked["requirepass"] = password
    if asked.get("cluster-enabled") == "yes":
        asked.setdefault("cluster-port", str(free_port()))  # else 10,000 above: beyond the last one
    server = RedisServer(
        home=home, port=free_port(), settings=asked, password=password, program=found
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A server without persistence."""
    with redis_started() as server:
        yield server
