"""The door to settings of a running PostgreSQL: ALTER SYSTEM, and back to what stood there.

The effect is what a new session sees; of huge pages, what the server and its process map say.
Source: PostgreSQL documentation, ALTER SYSTEM, pg_settings (pending_restart), pg_file_settings.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.core.errors import PreflightError, PrivilegeError, TargetError
from steelyard.core.experiment import Layer, Setting
from steelyard.core.measurement import EffectiveSetting
from steelyard.core.outside import ServerAddress
from steelyard.core.stack import Knob
from steelyard.core.units import format_bytes
from steelyard.gateways.host import Host
from steelyard.gateways.sql import reload
from steelyard.systems.postgres.existing import databases as statements
from steelyard.systems.postgres.existing.settings import Means, in_system_file
from steelyard.systems.postgres.settings import deviations
from steelyard.tuning.apply.door import Check, KnobDoor, LookingDoor, Seen
from steelyard.tuning.apply.huge_pages import (
    HugePageNeed,
    find_process,
    huge_page_mapping,
    require_elsewhere,
    require_no_sigbus,
    require_pages,
)

_SETTING: Final = """
SELECT name, setting, unit, source, context, pending_restart FROM pg_settings
WHERE lower(name) = lower(%s)
"""
_SHOWN: Final = "SELECT current_setting(%s)"
_STATUS: Final = "SELECT setting FROM pg_settings WHERE name = 'huge_pages_status'"
_SUPERUSER: Final = "SELECT current_setting('is_superuser')"
_HUGE_PAGES: Final = "huge_pages"
_RESTART: Final = "a restart of the server"
_AUTOMATIC: Final = frozenset({"-1", "0"})
_FILES: Final = frozenset({"configuration file", "override"})
_UNSEEN_PAGES: Final = (
    "Whether its machine has the huge pages is not visible from here: without them the server does"
    " not start again."
)
_YES: Final = frozenset({"on", "true", "yes", "1", "t", "y"})


def _statements(knob: Knob) -> tuple[str, str]:
    """Return what turns a setting, on whichever server."""
    return (f"{statements.set_system(knob.place, knob.value)};", "SELECT pg_reload_conf();")


class NoServerDoor(LookingDoor):
    """Says of settings that no server is named, or that theirs cannot be reached."""

    def seen(self, knob: Knob) -> Seen:
        """Return that nobody looked."""
        return Seen(value=None, source=knob.place, reason="not looked at")

    def require(self, knob: Knob) -> None:
        """Refuse.

        Raises:
            PreflightError: Always.
        """
        raise PreflightError(
            f"{knob.name} cannot be turned here: there is no way to its {knob.kind}",
            hint="Leave it out with --only, or name its server with --dsn.",
        )

    def snapshot(self, knob: Knob) -> str:
        """Refuse, as ``require`` does."""
        self.require(knob)
        return ""

    def verify(self, knob: Knob) -> Check:
        """Return that nobody can look."""
        fact = f"There is no way to its {knob.kind} from here."
        return Check(holds=None, facts=(fact,), remedy="Name its server with --dsn.")

    def revert(self, knob: Knob, snapshot: str) -> None:  # noqa: ARG002 - as every door
        """Refuse.

        Raises:
            TargetError: Always.
        """
        raise TargetError("its server cannot be reached", hint="Start it.")

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the statements."""
        return _statements(knob)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDoor(KnobDoor):
    """Turns settings of one server.

    Attributes:
        host: Where the server may be running; its process is looked for there.
        need: Huge pages of the plan.
    """

    means: Means
    address: ServerAddress
    host: Host
    need: HugePageNeed = field(default_factory=HugePageNeed)

    def seen(self, knob: Knob) -> Seen:
        """Return the value that a new session sees."""
        effective, pending = self._read(knob.place)
        if effective is None:
            reason = f"the server does not know {knob.place}"
            return Seen(value=None, source="pg_settings", reason=reason)
        shown = self._shown(effective)
        return Seen(value=shown, source="pg_settings", pending=_RESTART if pending else "")

    def require(self, knob: Knob) -> None:
        """Check that the server knows the setting and lets it be changed.

        Raises:
            PreflightError: It does not, or its huge pages would not be there.
            PrivilegeError: The user is no superuser.
            TargetError: The server cannot be reached.
        """
        rows = self.means.sql.rows(self.address, _SETTING, [knob.place])
        if (not rows and "." not in knob.place) or (rows and rows[0][4] == "internal"):
            raise PreflightError(
                f"the server has no setting {knob.place} that could be changed",
                hint="Plan for its version: --postgres-version.",
            )
        if self.means.sql.rows(self.address, _SUPERUSER)[0][0] != "on":
            raise PrivilegeError(
                f"{self.address.user or 'this user'} is no superuser of the server, so it may not"
                " change its settings",
                hint="Name another user in --dsn, or give these statements to who may.",
            )
        self._require_huge_pages(knob, planned=True)

    def snapshot(self, knob: Knob) -> str:
        """Return what stands in ``postgresql.auto.conf``."""
        (saved,) = in_system_file([knob.place], self.means.sql, self.address)
        return json.dumps({"name": saved.name, "value": saved.value})

    def apply(self, knob: Knob) -> None:
        """Write the setting and have the server read it.

        Raises:
            PreflightError: Its huge pages are not there.
            TargetError: The server refuses, or cannot be reached.
        """
        self._require_huge_pages(knob, planned=False)
        self._write(knob.place, knob.value)

    def verify(self, knob: Knob) -> Check:
        """Return whether a new session sees the value, and of huge pages whether they are used."""
        effective, pending = self._read(knob.place)
        if effective is None:
            return Check(
                holds=False,
                facts=(f"The server does not know {knob.place}.",),
                remedy="Does the plan fit its version, and is the extension loaded?",
            )
        asked = Setting(layer=Layer.POSTGRES, name=knob.place, value=knob.value)
        deviates, shown = bool(deviations([asked], [effective])), self._shown(effective)
        if deviates and not pending and self._chose_itself(knob, effective):
            fact = f"For {knob.place} = {knob.value} the server chose {shown!r}."
            return Check(holds=True, facts=(fact,))
        if deviates:
            return self._deviating(knob, shown, pending=pending)
        if pending:
            fact = f"{knob.place} is {shown!r}, and another value waits for a restart."
            remedy = "Apply the plan: the file has to say it, too."
            return Check(holds=False, facts=(fact,), remedy=remedy)
        if knob.place.lower() == _HUGE_PAGES and _is_on(knob.value):
            return self._on_huge_pages()
        return Check(holds=True, facts=(f"{knob.place} is {shown!r}.",))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Write what stood in ``postgresql.auto.conf``, or remove the line.

        Raises:
            TargetError: The server refuses, or cannot be reached.
        """
        before = json.loads(snapshot)
        if json.loads(self.snapshot(knob)) == before:
            return
        self._write(before["name"], before["value"])
        if json.loads(self.snapshot(knob)) != before:
            raise TargetError(
                f"{knob.place} did not go back to what stood in postgresql.auto.conf",
                hint="Somebody else may be changing it.",
            )

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return that postgresql.auto.conf has neither the plan's value nor the former one."""
        before = json.loads(snapshot)["value"]
        now = self._in_file(knob)
        if _plain(now) in (_plain(knob.value), _plain(before)):
            return ""
        there = "has no line for it any more" if now is None else f"says {now!r}"
        return (
            f"somebody has changed {knob.place} since: postgresql.auto.conf {there}, the plan"
            f" wrote {knob.value!r}"
        )

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the statements."""
        return _statements(knob)

    def _in_file(self, knob: Knob) -> str | None:
        """Return what stands in ``postgresql.auto.conf``, which counts before other files."""
        value = json.loads(self.snapshot(knob))["value"]
        return None if value is None else str(value)

    def _write(self, name: str, value: str | None) -> None:
        self.means.sql.execute(self.address, [statements.set_system(name, value)])
        reload(self.address, self.means.sql, self.means.clock)

    def _read(self, name: str) -> tuple[EffectiveSetting | None, bool]:
        """Return a setting as a new session sees it, and whether another waits for a restart."""
        rows = self.means.sql.rows(self.address, _SETTING, [name])
        if not rows:
            return None, False
        found, value, unit, source, _, pending = rows[0]
        effective = EffectiveSetting(
            name=str(found),
            value=str(value),
            unit=None if unit is None else str(unit),
            source=str(source),
        )
        return effective, bool(pending)

    def _chose_itself(self, knob: Knob, effective: EffectiveSetting) -> bool:
        """Return whether the server put a value of its own in the place of one that asks it to.

        When it reads ``wal_buffers = -1`` again it chooses at once, and names the file as source.
        """
        if knob.value.strip() not in _AUTOMATIC or effective.source not in _FILES:
            return False
        return bool(json.loads(self.snapshot(knob))["value"] == knob.value)

    def _shown(self, effective: EffectiveSetting) -> str:
        """Return a value as SHOW has it: 128MB, not 16384 pages of 8 kB."""
        return str(self.means.sql.rows(self.address, _SHOWN, [effective.name])[0][0])

    def _deviating(self, knob: Knob, shown: str, *, pending: bool) -> Check:
        fact = f"{knob.place} was asked to be {knob.value!r} and is {shown!r}."
        facts: tuple[str, ...] = (fact,)
        if pending and _plain(self._in_file(knob)) == _plain(knob.value):
            facts += self._unseen_pages(knob)
            return Check(holds=False, facts=facts, remedy="Restart the server.", pending=_RESTART)
        if pending:
            another = f"Another value of {knob.place} waits for a restart, not that of the plan."
            return Check(holds=False, facts=(*facts, another), remedy="Apply the plan.")
        remedy = "Does a role, a database, or the server's command line set it to something else?"
        return Check(holds=False, facts=facts, remedy=remedy)

    def _on_huge_pages(self) -> Check:
        """Return whether the running server's shared memory lies on huge pages."""
        status = [str(row[0]) for row in self.means.sql.rows(self.address, _STATUS)]
        pid = find_process(self.address, self.means.sql, self.host)
        mapping = huge_page_mapping(pid, self.host) if pid is not None else None
        facts = [f"huge_pages_status is {status[0]!r}."] if status else []
        if mapping is not None:
            facts.append(
                f"{format_bytes(mapping.size_bytes)} of shared memory lie on pages of"
                f" {format_bytes(mapping.page_bytes)} (/proc/{pid}/smaps)."
            )
        if status:
            used = status[0] == "on"
        elif pid is not None:
            used = mapping is not None
            facts = facts or [f"No mapping on huge pages is seen in /proc/{pid}/smaps."]
        else:  # before version 17 and elsewhere: it could not have started without them
            used, facts = True, ["huge_pages is on; the server would not run without them."]
        remedy = "" if used else "Restart the server, with enough huge pages free."
        return Check(holds=used, facts=tuple(facts), remedy=remedy)

    def _unseen_pages(self, knob: Knob) -> tuple[str, ...]:
        """Return that nobody has seen the huge pages that a restart will need, if so."""
        if knob.place.lower() != _HUGE_PAGES or not _is_on(knob.value):
            return ()
        if find_process(self.address, self.means.sql, self.host) is not None:
            return ()
        return (_UNSEEN_PAGES,)

    def _require_huge_pages(self, knob: Knob, *, planned: bool) -> None:
        if knob.place.lower() != _HUGE_PAGES or knob.value.lower() in {"off", "false", "no", "0"}:
            return
        pid = find_process(self.address, self.means.sql, self.host)
        if pid is None:
            if _is_on(knob.value):
                require_elsewhere(self.need)
            return
        require_no_sigbus(self.need, pid, self.host)
        if _is_on(knob.value):
            require_pages(self.need, pid, self.host, planned=planned)


def _is_on(value: str) -> bool:
    return value.lower() in _YES


def _plain(value: str | None) -> str | None:
    """Return a value of the file without the quotes and blanks that a list gets there."""
    return None if value is None else "".join(value.replace('"', "").split()).lower()
