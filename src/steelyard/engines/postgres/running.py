"""A PostgreSQL server that is there already: what it says of itself through SQL."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.engines.postgres.server import PostgresProgram
from steelyard.engines.postgres.settings import SettingEntry
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress

_SERVER = (
    "SELECT current_setting('server_version'), rolsuper,"
    " coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)"
    " FROM pg_roles WHERE rolname = current_user"
)
_SETTINGS = "SELECT name, context, category, vartype, unit, min_val, max_val FROM pg_settings"


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
        catalogue: Settings that this user can see.
        bounds: Of those that are numbers.
    """

    version: str
    superuser: bool
    tls: bool
    catalogue: Mapping[str, SettingEntry]
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProgram(PostgresProgram):
    """A server that nobody here starts; ``installation`` holds the programs of the client.

    Attributes:
        server_version: As the server reports it.
    """

    server_version: str

    @property
    def version(self) -> str:
        """Return the version as the server reports it."""
        return self.server_version

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what tells its data from those of another version."""
        return ("endpoint", self.server_version)


def read_running(address: ServerAddress, sql: Sql) -> RunningServer:
    """Return what a server says of itself.

    Raises:
        TargetError: It cannot be reached.
    """
    ((version, superuser, tls),) = sql.rows(address, _SERVER)
    catalogue, bounds = {}, {}
    for name, context, group, kind, unit, low, high in sql.rows(address, _SETTINGS):
        catalogue[str(name)] = SettingEntry(
            name=str(name), context=str(context), group=str(group), kind=str(kind)
        )
        if kind in ("integer", "real"):
            bounds[str(name)] = Bounds(
                unit=None if unit is None else str(unit), low=float(str(low)), high=float(str(high))
            )
    return RunningServer(
        version=str(version),
        superuser=bool(superuser),
        tls=bool(tls),
        catalogue=catalogue,
        bounds=bounds,
    )
