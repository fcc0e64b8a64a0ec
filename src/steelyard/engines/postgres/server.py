"""The PostgreSQL server program: create, configure, start, ask whether it is ready."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.engines.postgres.installation import Installation
from steelyard.gateways.files import read_text
from steelyard.gateways.sql import Sql
from steelyard.model.command import Command, ServerAddress
from steelyard.model.errors import TargetError

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
class PostgresProgram:
    """One installed PostgreSQL as a server program.

    Attributes:
        initdb: Further initdb options, equal in all treatments.
    """

    installation: Installation
    initdb: tuple[str, ...]
    sql: Sql

    @property
    def version(self) -> str:
        """Return the version as the program reports it."""
        return self.installation.version

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what decides the content of an empty data directory."""
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

    def companion(self, settings: Mapping[str, str], address: ServerAddress) -> None:
        """Return None: there is one server."""

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
        lines = [f"{name} = {_quoted(value)}" for name, value in {**settings, **own}.items()]
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

    def is_loading(self, address: ServerAddress) -> bool:  # noqa: ARG002 - by its protocol
        """Return false: its data are read as they are asked for."""
        return False


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def shared_memory_residue(data: Path) -> Command | None:
    """Return the command that frees the memory segment of a postmaster that was killed.

    Only a killed postmaster leaves one (56 bytes); its id stands in line 7 of postmaster.pid.
    """
    lines = (read_text(data / "postmaster.pid") or "").splitlines()
    fields = lines[6].split() if len(lines) > 6 else []
    return Command(argv=("ipcrm", "--shmem-id", fields[1])) if len(fields) == 2 else None
