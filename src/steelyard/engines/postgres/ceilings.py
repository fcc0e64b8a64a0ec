"""What a PostgreSQL server can do at most: empty statements, and pg_test_fsync.

The output of pg_test_fsync 15 and 18 was recorded (``tests/recordings/pg_test_fsync``). Only its
first table counts, one 8 KiB write: that is what a commit of one client waits for. The tables after
it take four times as long and say nothing about commits.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from steelyard.engines.postgres.installation import Installation, find_program
from steelyard.engines.reading import SyncRate
from steelyard.gateways.process import Processes
from steelyard.gateways.sql import Sql
from steelyard.model.command import Command, ServerAddress
from steelyard.model.environment import EffectiveSetting

PROGRAM = "pg_test_fsync"
_SIGKILL = 9
_EMPTY = "SELECT 1"
_TABLE = re.compile(r"^Compare file sync methods using one 8kB write:$", re.MULTILINE)
_NEXT_TABLE = re.compile(r"^Compare ", re.MULTILINE)
_LINE = re.compile(
    r"^\s+(?P<method>[a-z_]+)\s+"
    r"(?:(?P<rate>\d{1,12}(?:\.\d{1,9})?) ops/sec\s+\d+ usecs/op|n/a\*?)\s*$",
    re.MULTILINE,
)


class PostgresCeilings:
    """The tools of PostgreSQL.

    Args:
        installations: Of the treatments' servers.
        processes: Asks for versions.
        sql: Reaches the servers.
    """

    def __init__(
        self, installations: Sequence[Installation], *, processes: Processes, sql: Sql
    ) -> None:
        self._installations = installations
        self._processes = processes
        self._sql = sql

    def round_trips(self, address: ServerAddress, *, most: int, most_s: float) -> tuple[float, ...]:
        """Return the seconds of each round trip of ``SELECT 1`` on one connection.

        Raises:
            TargetError: The server cannot be reached.
        """
        return self._sql.round_trips(address, _EMPTY, most=most, most_s=most_s)

    def sync_command(self, file: Path) -> Command:
        """Return the call of pg_test_fsync, a second per method.

        Raises:
            PreflightError: No installation has it.
        """
        program = find_program(PROGRAM, self._installations, self._processes)
        return Command(
            argv=(program, "--secs-per-test=1", f"--filename={file}"),
            environment={"LC_ALL": "C"},
            directory=file.parent,
            parent_death_signal=_SIGKILL,
        )

    def sync_rates(self, text: str) -> tuple[SyncRate, ...] | None:
        """Return the first table; None before it is complete."""
        begins = _TABLE.search(text)
        ends = _NEXT_TABLE.search(text, begins.end()) if begins else None
        if begins is None or ends is None:
            return None
        return tuple(
            SyncRate(
                method=line["method"], per_s=None if line["rate"] is None else float(line["rate"])
            )
            for line in _LINE.finditer(text, begins.end(), ends.start())
        )

    def sync_method(self, effective: Sequence[EffectiveSetting]) -> str | None:
        """Return wal_sync_method; None where commits wait for no flush, or it is not shown."""
        shown = {setting.name: setting.value for setting in effective}
        if "off" in (shown.get("fsync"), shown.get("synchronous_commit")):
            return None
        return shown.get("wal_sync_method")
