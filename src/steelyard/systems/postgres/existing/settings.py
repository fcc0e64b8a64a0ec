"""Settings of a running PostgreSQL server: for everyone, or for a campaign's own sessions only.

Invariant: before the first change, what stood in the server's store for every setting of the
campaign is in the ledger.

Where a restart is needed, the user's own command restarts the server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard.core.outside import SavedSetting, ServerAddress
from steelyard.gateways.sql import Sql, reload
from steelyard.places.elsewhere import RestartMeans, restart_by
from steelyard.systems.postgres.existing import databases as statements

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


class SettingStore(Protocol):
    """Where the settings of one server are kept for everyone, and how they come into force."""

    @property
    def label(self) -> str:
        """Return how settings are changed, for people: ``by ALTER SYSTEM``."""
        ...

    def change(self, settings: Mapping[str, str]) -> bool:
        """Take the settings of a configuration; those it does not ask for go back to what was.

        Returns whether the server has yet to be told to read them.
        """
        ...

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Bring the settings of a configuration into force, by a restart where asked.

        Raises:
            TargetError: The server does not take them.
        """
        ...


class AlterSystem:
    """The store that every server has: ``postgresql.auto.conf``.

    Args:
        settings: What of it the campaign changes.
        entrance: Where the server is reached now.
        restart_command: Of the user; empty: the server is never restarted.
        means: To reach and restart it.
    """

    def __init__(
        self,
        settings: "SystemSettings",
        entrance: Callable[[], ServerAddress],
        restart_command: tuple[str, ...],
        means: Means,
    ) -> None:
        self._settings = settings
        self._entrance = entrance
        self._restart_command = restart_command
        self._means = means

    @property
    def label(self) -> str:
        """Return how settings are changed."""
        return "by ALTER SYSTEM"

    def change(self, settings: Mapping[str, str]) -> bool:
        """Write settings; the server has yet to read them."""
        self._settings.change(settings, self._entrance())
        return self._settings.are_some

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Write settings, have them read, and restart the server where asked."""
        if self.change(settings):
            reload(self._entrance(), self._means.sql, self._means.clock)
        if restarts:
            again = self._entrance
            restart(self._restart_command, again(), self._means, again=again)


# The last line for a setting is the one that counts; ALTER SYSTEM leaves one of each.
_IN_FILE = """
SELECT lower(name), setting FROM pg_file_settings
WHERE sourcefile LIKE '%postgresql.auto.conf' ORDER BY seqno
"""


class SystemSettings:
    """The settings that a campaign changes on one server.

    Args:
        names: Of every setting that any configuration on this server asks for.
        keep: Called with what stood there, before the first change.
    """

    def __init__(
        self, names: tuple[str, ...], sql: Sql, keep: Callable[[tuple[SavedSetting, ...]], None]
    ) -> None:
        self._names = names
        self._sql = sql
        self._keep = keep
        self._before: tuple[SavedSetting, ...] | None = None

    @property
    def are_some(self) -> bool:
        """Return whether the campaign changes any."""
        return bool(self._names)

    def change(self, asked: Mapping[str, str], address: ServerAddress) -> None:
        """Write the settings of a configuration; those it does not ask for go back to what was."""
        if not self._names:
            return
        if self._before is None:
            before = in_system_file(self._names, self._sql, address)
            self._keep(before)
            self._before = before
        by_name = {name.lower(): value for name, value in asked.items()}
        wanted = {saved.name: by_name.get(saved.name, saved.value) for saved in self._before}
        self._sql.execute(address, [statements.set_system(n, v) for n, v in wanted.items()])


def in_system_file(
    names: Sequence[str], sql: Sql, address: ServerAddress
) -> tuple[SavedSetting, ...]:
    """Return what stands in ``postgresql.auto.conf`` for each of these settings.

    Raises:
        TargetError: The server cannot be reached, or does not show its files to this user.
    """
    found = {str(name): str(value) for name, value in sql.rows(address, _IN_FILE)}
    folded = dict.fromkeys(name.lower() for name in names)
    return tuple(SavedSetting(name=name, value=found.get(name)) for name in folded)
