"""A running server that is a few dictionaries: databases with marks, settings in a file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.core.outside import POSTGRES_MARK, ServerAddress
from steelyard.core.wording import RefusedError, TargetError
from steelyard.gateways import sql as gateway
from steelyard.systems.postgres.existing import server as changed

Row = tuple[object, ...]


class Died(BaseException):
    """Stands for ``kill -9`` between two statements."""


@dataclass(kw_only=True)
class FakeEndpoint:
    """Understands the statements of the endpoint platform, and no others.

    Attributes:
        refuses: Names of settings and tables that it says it does not know.
        dies_at: Number of the change before which Steelyard dies; None: it lives.
        faults: Of its configuration files: file, line, name and what is wrong.
        state: Columns of the readiness query.
    """

    databases: dict[str, str | None] = field(default_factory=lambda: {"postgres": None})
    tables: dict[str, str | None] = field(default_factory=dict)
    file: dict[str, str] = field(default_factory=dict)
    loads: int = 0
    starts: int = 0
    reachable: bool = True
    dies_at: int | None = None
    changes: list[str] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    may_create: bool = True
    faults: list[Row] = field(default_factory=list)
    state: list[object] = field(
        default_factory=lambda: (
            [False, False, 180006, True, True, 90, -1, "0", True, 0, False, "30s"]
        )
    )

    def reach(self, keywords: Mapping[str, str], *, any_database: bool = True) -> ServerAddress:
        """Return the address that the keywords spell out; no database where one must be named."""
        self._require_reachable()
        return ServerAddress(
            host=keywords.get("host", "db"),
            port=int(keywords.get("port", "5432")),
            user=keywords.get("user", "bench"),
            database=keywords.get("dbname", "postgres" if any_database else ""),
            password="planted",
        )

    def is_pooled(self, address: ServerAddress) -> bool:
        """Return that no pooler is in between."""
        assert address.user
        return False

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Refuse: no password is ever set on somebody else's server."""
        raise AssertionError(address, password)

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Answer a statement of the platform."""
        assert address.user
        self._require_reachable()
        if statement == "SELECT pg_reload_conf()":
            self.loads += 1
            return [(True,)]
        first = str(parameters[0]) if parameters else ""
        marks = {m for m in self.databases.values() if m and m.startswith(POSTGRES_MARK)}
        table = first.strip('"')
        answers: dict[str, list[Row]] = {
            "SELECT 1": [(1,)],
            changed._STATE: [tuple(self.state)],
            changed._MARKED: [(mark,) for mark in marks],
            changed.STARTED_AT: [(self.starts,)],
            gateway._LOADED_AT: [(self.loads,)],
            changed._IN_FILE: list(self.file.items()),
            changed._FILE_ERRORS: list(self.faults),
            changed._IS_THERE: [(1,)] if first in self.databases else [],
            changed._MAY_CREATE: [(self.may_create,)],
            changed._TABLE_MARK: [(self.tables[table],)] if table in self.tables else [],
            changed._DATABASE_MARK: ([(self.databases[first],)] if first in self.databases else []),
            changed._VERSION: [(self.state[2],)],
        }
        return answers[statement]

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Change the dictionaries, statement by statement."""
        assert address.user
        self._require_reachable()
        for statement in statements:
            if self.dies_at is not None and len(self.changes) >= self.dies_at:
                raise Died
            self.changes.append(statement)
            self._change(statement)

    def _change(self, statement: str) -> None:  # noqa: C901 - a case for each statement
        names = re.findall(r'"([^"]+)"', statement)
        text = statement.rpartition("'")[0].partition("'")[2]
        if self.refuses.intersection(names[:1]):
            raise RefusedError(f"unrecognized: {names[0]}")
        if statement.startswith("CREATE DATABASE"):
            assert names[0] not in self.databases
            assert len(names) < 2 or names[1] in self.databases
            self.databases[names[0]] = None
        elif statement.startswith("DROP DATABASE"):
            self.databases.pop(names[0], None)
        elif statement.startswith("COMMENT ON DATABASE"):
            self.databases[names[0]] = text
        elif statement.startswith("COMMENT ON TABLE"):
            self.tables[names[0]] = text
        elif statement.startswith("DROP TABLE"):
            for name in names:
                del self.tables[name]
        elif statement.startswith("ALTER SYSTEM RESET"):
            self.file.pop(names[0], None)
        elif statement.startswith("ALTER SYSTEM SET"):
            self.file[names[0]] = text
        else:
            own = ("VACUUM", "TRUNCATE", "SET statement_timeout", "SELECT pg_terminate_backend")
            assert statement.startswith(own), statement

    def _require_reachable(self) -> None:
        if not self.reachable:
            raise TargetError("the server at db:5432 cannot be reached: it is not there")
