"""Where a server runs: one class per kind of target."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTarget:
    """A server that Steelyard starts on this machine.

    Attributes:
        bin: Directory of the server's programs, a version such as ``15``, or ``embedded``
            for the PyPI wheel.
        directory: Where data directories are made; None means Steelyard's cache.
        port: TCP port on the loopback interface; None means a free one.
        connection: How the generator connects: ``socket`` or ``tcp``.
        run_as: Account for the server when Steelyard runs as root; None means a default one.
        initdb: Further initdb options, equal in all treatments of an experiment.
        restore: ``reflink``, ``copy`` or ``template``; None means the cheapest that works.
        burst_lasts_s: How long full burst credits of the platform last at full load; None where
            it has none, or where that is not known. It makes no target another one.
    """

    kind: Literal["local"] = "local"
    bin: str = "embedded"
    directory: str | None = None
    port: int | None = None
    connection: str = "socket"
    run_as: str | None = None
    initdb: tuple[str, ...] = ()
    restore: str | None = None
    burst_lasts_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTarget:
    """A server that is there already; what is not given, libpq finds as it always does.

    None of its fields can hold a password: that comes from pgpass or ``PGPASSWORD``.

    Attributes:
        uri: libpq URI, or None when the separate keys are used.
        host: Name, address, or directory of the Unix socket.
        dbname: Database to connect to; measured in only with ``allow_existing``.
        service: Name of a section of the service file.
        allow_existing: Measure in the named database, which Steelyard did not make.
        restart_command: Restarts the server; without it nothing that needs a restart is changed.
        restore: ``template`` or ``vacuum``; None means the best that works.
        burst_lasts_s: How long full burst credits of the platform last at full load; None where
            it has none, or where that is not known. It makes no target another one.
    """

    kind: Literal["endpoint"] = "endpoint"
    uri: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    dbname: str | None = None
    service: str | None = None
    allow_existing: bool = False
    restart_command: tuple[str, ...] = ()
    restore: str | None = None
    burst_lasts_s: float | None = field(default=None, compare=False)

    @property
    def connection(self) -> str:
        """Return how the generator connects: as everybody does, by the address."""
        return "address"

    @property
    def place(self) -> str:
        """Return what the file says of the place, for people."""
        port = f":{self.port}" if self.port else ""
        named = self.uri or self.service or f"{self.host or ''}{port}"
        return named or "as libpq finds it"


# The union grows with the targets: cloudnative-pg, rds, aurora, redis-*. `kind` tells them apart.
Target = LocalTarget | EndpointTarget
