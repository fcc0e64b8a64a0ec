"""An emulated account of AWS whose instances are real PostgreSQL servers of this machine."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from support.aws import REGION, Account, Look, an_account
from support.endpoint import Server, run, started

_ACTIVE = """SELECT coalesce(wait_event_type, 'CPU'), coalesce(wait_event, 'CPU')
    FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"""


class Instance:
    """A real server behind an emulated instance: its user owns no superuser's rights there."""

    def __init__(self, server: Server, kept: ExitStack) -> None:
        self._server = server
        self._kept = kept
        self.port = server.port
        self._ends = threading.Event()
        self.looks: list[Look] = []
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()

    def _look(self) -> None:
        """Look at what sessions wait for, again and again, as Performance Insights does."""
        while not self._ends.wait(1.0):
            with suppress(psycopg.Error):
                told = self._server.rows(_ACTIVE)
                self.looks.append(
                    (time.time(), Counter((str(kind), str(event)) for kind, event in told))
                )

    def apply(self, settings: dict[str, str], *, restarts: bool) -> None:
        """Take a parameter group's settings as RDS does: the server's file, and a reload."""
        self._server.do("ALTER SYSTEM RESET ALL")
        self._server.do(
            *(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in settings.items()),
            "SELECT pg_reload_conf()",
        )
        if restarts:
            run(self._server.restart_command)

    def stop(self) -> None:
        """End it and remove its data."""
        self._ends.set()
        self._looking.join()
        self._kept.close()


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, programs: Path) -> Iterator[Account]:
    """Serve an account whose instances are servers of this machine."""
    with an_account(monkeypatch) as served:

        def begun(settings: dict[str, str], user: str, password: str) -> Instance:
            kept = ExitStack()
            server = kept.enter_context(started(programs))
            server.do(
                f"CREATE ROLE {user} LOGIN CREATEDB CREATEROLE PASSWORD '{password}'",
                f"GRANT pg_monitor TO {user}",
            )
            instance = Instance(server, kept)
            instance.apply(settings, restarts=False)
            return instance

        served.begun, served.create_s, served.delete_s = begun, 1.0, 1.0
        yield served


def left(account: Account) -> list[str]:
    """Return what the account still has."""
    from steelyard.gateways.aws import Aws  # noqa: PLC0415 - where boto3 is there
    from steelyard.places.aws import tagged  # noqa: PLC0415 - likewise

    assert account.url
    return [each.label for each in tagged(Aws().connect(REGION))]
