"""A server that is a table of statements and their rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import RefusedError, TargetError
from steelyard.gateways.sql import Sql, SqlSession, connection_failure

Row = tuple[object, ...]
Rows = list[Row] | Callable[[], list[Row]]


class FakeSession(SqlSession):
    """A session on a fake server: the same answers, until it is closed."""

    def __init__(self, sql: "FakeSql", address: ServerAddress) -> None:
        self._sql = sql
        self._address = address
        self._closed = False

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a statement that is in the table."""
        if self._closed:
            raise _refusal(self._address, "the connection is closed")
        return self._sql.rows(self._address, statement, parameters)

    def prepare(self, statement: str, name: str = "") -> None:
        """Note a statement that is prepared under a name, unless it is refused."""
        self.do(f"{name}: {statement}" if name else statement)

    def columns(self, statement: str) -> tuple[str, ...]:
        """Note a statement that is prepared; what it would return nobody knows here."""
        self.prepare(statement)
        return ()

    def do(self, statement: str) -> None:
        """Note a statement, unless it is refused."""
        if self._closed:
            raise _refusal(self._address, "the connection is closed")
        self._sql.execute(self._address, [statement])

    def close(self) -> None:
        """End it."""
        if not self._closed:
            self._sql.open_sessions -= 1
        self._closed = True


class FakeSql(Sql):
    """Answers statements from a table; what it does not know, it refuses."""

    def __init__(self, answers: dict[str, Rows] | None = None) -> None:
        self.answers: dict[str, Rows] = dict(answers or {})
        self.refused: set[str] = set()
        self.reachable = True
        self.pooled = False
        self.password: str | None = None
        self.executed: list[tuple[str, str]] = []
        self.asked: list[tuple[str, str, tuple[object, ...]]] = []
        self.passwords: dict[str, str] = {}
        self.trips: tuple[float, ...] = ()
        self.open_sessions = 0

    def reach(self, keywords: Mapping[str, str], *, any_database: bool = True) -> ServerAddress:
        """Return the address that the keywords spell out."""
        found = ServerAddress(
            host=keywords.get("host", "/fake"),
            port=int(keywords.get("port", "5432")),
            user=keywords.get("user", "somebody"),
            database=keywords.get("dbname", "postgres" if any_database else ""),
        )
        self._require_reachable(found)
        return found

    def connected(self, address: ServerAddress) -> NoReturn:
        """Refuse: rows are copied between real servers alone."""
        raise AssertionError(address)

    def is_pooled(self, address: ServerAddress) -> bool:
        """Return whether the test put a pooler in between."""
        self._require_reachable(address)
        return self.pooled

    def rows(
        self, address: ServerAddress, statement: str, parameters: Sequence[object] = ()
    ) -> list[Row]:
        """Return the rows of a statement that is in the table."""
        self._require_reachable(address)
        self.asked.append((address.database, statement, tuple(parameters)))
        answer = self.answers.get(statement)
        if answer is None:
            raise _refusal(address, f"no answer to {statement!r}")
        return answer() if callable(answer) else list(answer)

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Note statements one by one, up to the first that is refused."""
        self._require_reachable(address)
        for statement in statements:
            if statement in self.refused:
                raise _refusal(address, f"refused {statement!r}")
            self.executed.append((address.database, statement))

    def set_password(self, address: ServerAddress, password: str) -> None:
        """Note the password of the address's user."""
        self._require_reachable(address)
        self.passwords[address.user] = password

    def round_trips(
        self,
        address: ServerAddress,
        statement: str,
        *,
        connections: int,
        most: int,
        most_s: float,
    ) -> tuple[float, ...]:
        """Return the trips that the test planted."""
        self._require_reachable(address)
        assert connections > 0
        assert most_s > 0
        self.asked.append((address.database, statement, ()))
        return self.trips[:most]

    def session(self, address: ServerAddress, name: str, *, patience_s: float) -> FakeSession:
        """Return a session that answers from the same table."""
        assert name
        assert patience_s > 0
        self._require_reachable(address)
        self.open_sessions += 1
        return FakeSession(self, address)

    def _require_reachable(self, address: ServerAddress) -> None:
        if not self.reachable:
            raise TargetError(
                f"the server at {address.host}:{address.port} cannot be reached: it is not there",
                hint="Is it running, and does it listen there?",
            )
        if self.password not in {None, address.password}:
            said = f'FATAL: 28P01: password authentication failed for user "{address.user}"'
            raise connection_failure(
                said, where=f"{address.host}:{address.port}", user=address.user
            )


def _refusal(address: ServerAddress, what: str) -> RefusedError:
    return RefusedError(f"the server at {address.host}:{address.port} refused: {what}")
