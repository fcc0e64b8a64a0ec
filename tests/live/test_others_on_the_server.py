"""Who else is connected is seen by whichever user asks a real server."""

import psycopg
import pytest

from steelyard.core.outside import POSTGRES_MARK, ServerAddress
from steelyard.gateways.sql import Sql
from steelyard.systems.postgres.cloudnative_pg.existing import CLIENTS
from support.endpoint import ADMIN_PASSWORD, Server

pytestmark = pytest.mark.live

_ROLES = ("billing", "shop")


def _rows(server: Server, user: str, password: str) -> list[tuple[object, ...]]:
    way = ServerAddress(
        host="127.0.0.1", port=server.port, user=user, database="postgres", password=password
    )
    return Sql().rows(way, CLIENTS, [POSTGRES_MARK])


@pytest.mark.parametrize("asks", ["postgres", "shop"])
def test_a_session_of_another_user_is_seen(server: Server, asks: str) -> None:
    """The application's user, to whom other sessions are hidden but for their names, sees it too.

    Without the other session both see nobody: neither the server's own processes nor themselves.
    """
    server.do(*(f"CREATE ROLE {role} LOGIN PASSWORD 'planted'" for role in _ROLES))
    try:
        password = ADMIN_PASSWORD if asks == "postgres" else "planted"
        assert _rows(server, asks, password) == []
        with psycopg.connect(
            host="127.0.0.1",
            port=server.port,
            user="billing",
            password="planted",
            dbname="postgres",
        ):
            assert _rows(server, asks, password) == [("billing", 1)]
    finally:
        server.do(*(f"DROP ROLE {role}" for role in _ROLES))
