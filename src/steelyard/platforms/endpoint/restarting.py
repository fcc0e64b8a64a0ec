"""Restarting a server by the user's own command, and waiting until it answers."""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.platforms.restart_command import RestartMeans, restart_by

STARTED_AT = "SELECT pg_postmaster_start_time()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means(RestartMeans):
    """The gateways that a change on a server needs."""

    sql: Sql


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
