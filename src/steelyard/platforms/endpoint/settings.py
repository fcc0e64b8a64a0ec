"""Settings of a running server: for everyone through ALTER SYSTEM, or for own sessions only.

Invariant: before the first ALTER SYSTEM, what stood in ``postgresql.auto.conf`` for every setting
of the campaign is in the ledger.
"""

from collections.abc import Callable, Mapping, Sequence

from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.outside import SavedSetting
from steelyard.platforms.endpoint import statements

# The last line for a setting is the one that counts; ALTER SYSTEM leaves one of each.
_IN_FILE = """
SELECT lower(name), setting FROM pg_file_settings
WHERE sourcefile LIKE '%postgresql.auto.conf' ORDER BY seqno
"""


class SystemSettings:
    """The settings that a campaign changes on one server.

    Args:
        names: Of every setting that any treatment on this server asks for.
        keep: Called with what stood there, before the first change.
    """

    def __init__(
        self, names: tuple[str, ...], sql: Sql, keep: Callable[[tuple[SavedSetting, ...]], None]
    ) -> None:
        self._names = names
        self._sql = sql
        self._keep = keep
        self._before: tuple[SavedSetting, ...] | None = None

    def change(self, asked: Mapping[str, str], address: ServerAddress) -> None:
        """Write the settings of a treatment; those it does not ask for go back to what was."""
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
