"""Sessions of several treatments on one server: each has its settings, and nothing is altered."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final

from steelyard.core.command import ServerAddress, ServerProgram
from steelyard.core.measurement import EffectiveSetting
from steelyard.gateways.sql import Sql
from steelyard.places.local.pausing import PausedGenerators
from steelyard.places.protocol import Ledger, PreparedState
from steelyard.systems.postgres.existing.databases import TEMPLATE, with_settings
from steelyard.systems.postgres.existing.platform import EndpointOptions, EndpointPlatform
from steelyard.systems.postgres.existing.settings import Means

_SESSIONS: Final = 3  # a pooler in transaction mode has one backend for all that are idle
_NAME: Final = "steelyard-sessions"
_PATIENCE_S: Final = 10.0
_SHOWN: Final = "SELECT name, setting, unit FROM pg_settings WHERE lower(name) = ANY(%s)"
# With a parameter it is not prepared: a pooler gives the name of a statement to a backend.
_BACKEND: Final = "SELECT pg_backend_pid() WHERE %s <> ''"


class EndpointSessions(EndpointPlatform):
    """The sessions of one treatment on a server that has those of others at the same time.

    What is made there is the server's own to undo, so that it is undone once.

    Args:
        options: How the server is used.
        ledger: As of the server.
        means: To reach it.
        server: As a whole: it has the prepared data.
        number: Of the databases that this treatment writes into; None: all read the same ones.
        paused: Its generators.
    """

    def __init__(
        self,
        options: EndpointOptions,
        ledger: Ledger,
        means: Means,
        *,
        server: EndpointPlatform,
        number: int | None,
        paused: PausedGenerators,
    ) -> None:
        super().__init__(options, ledger, means, paused=paused)
        self._server = server
        self._number = number
        self._changes = server.changes
        self._databases = self._databases_of(server.changes, "" if number is None else f"_{number}")

    def find(self, program: ServerProgram, content: Sequence[object]) -> PreparedState | None:
        """Return the state of the server."""
        return self._server.find(program, content)

    def prepare(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Return the state of the server, made now where it is not there."""
        self._prepared = self._server.prepare(program, content, build)
        return self._prepared

    def restore(self, state: PreparedState, means: str) -> float:
        """Copy the own databases anew; those that all read are copied once."""
        begun = self._means.clock.monotonic()
        self._since = None
        if means == TEMPLATE and (self._number is not None or not self.has_live_copy(state)):
            self._databases.copy(self._entrance, self.state.version_num)
        return self._means.clock.monotonic() - begun

    def start(
        self,
        state: PreparedState,  # noqa: ARG002 - by its protocol
        program: ServerProgram,  # noqa: ARG002 - likewise
        settings: Mapping[str, str],
    ) -> float:
        """Let sessions have the settings from now on."""
        begun = self._means.clock.monotonic()
        self._session = dict(settings)
        self._since = self._started_at()
        return self._means.clock.monotonic() - begun


def mixed_sessions(address: ServerAddress, sql: Sql) -> str:
    """Return why sessions there have no backend of their own, as a clause; empty where they have.

    In transaction pooling several open sessions are seen on one backend, or one on several.

    Raises:
        TargetError: The server lets nobody in.
    """
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(closing(sql.session(address, _NAME, patience_s=_PATIENCE_S)))
            for _ in range(_SESSIONS)
        ]
        seen = [[str(each.rows(_BACKEND, [_NAME])[0][0]) for each in sessions] for _ in range(2)]
    first, again = seen
    if len(set(first)) < len(first) or first != again:
        return "a pooler gives transactions of one session to several backends (transaction mode)"
    return ""


def shown_settings(
    settings: Mapping[str, str], address: ServerAddress, sql: Sql
) -> tuple[EffectiveSetting, ...]:
    """Return how several new sessions with settings of their own show these settings.

    Raises:
        TargetError: None of them comes about.
    """
    own = with_settings(address, settings)
    names = [name.lower() for name in settings]
    rows = [row for _ in range(_SESSIONS) for row in sql.rows(own, _SHOWN, [names])]
    return tuple(
        EffectiveSetting(name=str(name), value=str(value), unit=None if unit is None else str(unit))
        for name, value, unit in rows
    )
