"""A PostgreSQL server that is nothing but its settings: in its file, and in force."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from fakes.sql import FakeSql, Row
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError

_CONTEXTS = {
    "work_mem": "user",
    "shared_buffers": "postmaster",
    "huge_pages": "postmaster",
    "wal_buffers": "postmaster",
}


@dataclass
class FakeSettings(FakeSql):
    """A server that understands ALTER SYSTEM, a reload and a restart.

    Attributes:
        running: Settings in force.
        file: What stands in ``postgresql.auto.conf``.
        identifier: Of its data.
        superuser: Whether its user is one.
        process: Its data directory and the second of its start, where it shows them.
        place: What tells it from a standby; None: its user may not see that.
        before_write: Called before each ALTER SYSTEM; may raise, as a death would.
    """

    running: dict[str, str] = field(
        default_factory=lambda: {
            "work_mem": "4MB",
            "shared_buffers": "128MB",
            "huge_pages": "try",
            "wal_buffers": "512",
        }
    )
    file: dict[str, str] = field(default_factory=dict)
    identifier: str = "7001"
    superuser: bool = True
    process: tuple[str, float] | None = None
    status: str | None = None
    place: str | None = None
    before_write: Callable[[str], None] = lambda _statement: None

    def __post_init__(self) -> None:
        super().__init__()
        self._defaults = dict(self.running)
        self._loads = count()
        self._loaded = next(self._loads)

    def restart(self) -> None:
        """Start it anew: everything in its file is in force."""
        self.running = {**self._defaults, **self.file}

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Write into its file."""
        self._require_reachable(address)
        for statement in statements:
            self.before_write(statement)
            words = statement.replace('"', "").split()
            if words[2] == "RESET":
                self.file.pop(words[3], None)
            else:
                self.file[words[3]] = statement.partition("= ")[2].strip("'")

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Answer what the door asks."""
        self._require_reachable(address)
        if "pg_reload_conf" in statement:
            self._reload()
            return [(True,)]
        if "FROM pg_settings WHERE name = 'huge_pages_status'" in statement:
            return [(self.status,)] if self.status else []
        if "FROM pg_settings" in statement:
            return self._setting(str(parameters[0]).lower())
        return self._short(address, statement, parameters)

    def _short(
        self, address: ServerAddress, statement: str, parameters: Sequence[object]
    ) -> list[Row]:
        known: dict[str, list[Row]] = {
            "pg_conf_load_time": [(self._loaded,)],
            "is_superuser": [("on" if self.superuser else "off",)],
            "pg_file_settings": list(self.file.items()),
            "system_identifier": [(self.identifier,)],
        }
        for words, answer in known.items():
            if words in statement:
                return answer
        if "machine-id" in statement:
            if self.place is None:
                raise TargetError("permission denied")
            return [(self.place,)]
        if "data_directory" in statement:
            if self.process is None:
                raise TargetError("permission denied")
            return [self.process]
        if "current_setting" in statement:
            return [(self.running[str(parameters[0])],)]
        return super().rows(address, statement, parameters)

    def _reload(self) -> None:
        self._loaded = next(self._loads)
        for name, context in _CONTEXTS.items():
            if context == "user":
                self.running[name] = self.file.get(name, self._defaults[name])

    def _setting(self, name: str) -> list[Row]:
        if name not in self.running:
            return []
        wanted = self.file.get(name, self._defaults[name])
        value = self.running[name]
        pending = wanted not in (value, "-1")  # -1: the server chooses, and stays with it
        source = "configuration file" if name in self.file else "default"
        return [(name, value, None, source, _CONTEXTS[name], pending)]
