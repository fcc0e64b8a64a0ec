"""Restarting a server by the user's own command, and waiting until it answers."""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.platforms.restart_command import RestartMeans, restart_by

STARTED_AT = "SELECT pg_postmaster_start_time()"
_LOADED_AT = "SELECT pg_conf_load_time()"
_RELOAD_TIMEOUT_S = 30.0
_RELOAD_POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Means(RestartMeans):
    """The gateways that a change on a server needs."""

    sql: Sql


def reload(address: ServerAddress, means: Means) -> None:
    """Make a server read its configuration, and return once new sessions see it.

    Raises:
        TargetError: It does not read it.
    """
    before = means.sql.rows(address, _LOADED_AT)
    means.sql.rows(address, "SELECT pg_reload_conf()")
    deadline = means.clock.monotonic() + _RELOAD_TIMEOUT_S
    while means.sql.rows(address, _LOADED_AT) == before:
        if means.clock.monotonic() > deadline:
            raise TargetError(
                "the server did not read its changed configuration",
                hint="Its log says why.",
            )
        means.clock.sleep(_RELOAD_POLL_S)


def restart(
    command: tuple[str, ...],
    address: ServerAddress,
    means: Means,
    *,
    again: Callable[[], ServerAddress] | None = None,
) -> None:
    """Restart a server and return when it answers.

    Args:
        command: Of the user, run on this machine.
        address: Of the server.
        means: To run it and to look.
        again: Tells where the server is reached afterwards; None: where it was.

    Raises:
        TargetError: The command failed, or the server was not restarted by it.
    """
    reached = again or (lambda: address)
    restart_by(command, means, lambda: means.sql.rows(reached(), STARTED_AT))
