"""What a campaign makes and changes on a server: announced before it is done, undone at the end."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from steelyard.model.command import ServerAddress
from steelyard.model.errors import SteelyardError
from steelyard.model.outside import Foreign, OnServer, SavedSetting, in_undoing_order
from steelyard.platforms.endpoint.place import ServerPlace
from steelyard.platforms.platform import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcing:
    """How changes are written down.

    Attributes:
        place: Of the server.
        mark: What is made carries it.
        restart_command: Restarts it after its settings were put back; empty: a reload does.
        settings: What its settings are called among the kinds of things.
    """

    place: ServerPlace
    mark: str
    restart_command: tuple[str, ...] = ()
    settings: Foreign = Foreign.SETTINGS


class Changes:
    """The changes of one campaign on one server.

    Args:
        announcing: How they are written down.
        ledger: Is told before each.
        undo: Undoes one thing on the server that is reached there now.
    """

    def __init__(
        self,
        announcing: Announcing,
        ledger: Ledger,
        undo: Callable[[OnServer, ServerAddress], None],
    ) -> None:
        self._how = announcing
        self._ledger = ledger
        self._undo_thing = undo
        self._done: list[OnServer] = []
        self._troubles: list[SteelyardError] = []
        self._told: set[object] = set()

    @property
    def databases(self) -> frozenset[str]:
        """Return the databases that were announced, and those of announced tables."""
        return frozenset(thing.database for thing in self._done)

    def announce(self, resource: Foreign, database: str, names: tuple[str, ...]) -> None:
        """Note a database, tables, keys or a user about to be made."""
        entrance = "" if resource is Foreign.DATABASE else database
        self._note(replace(self._thing(resource, database, entrance), names=names))

    def keep(self, saved: tuple[SavedSetting, ...]) -> None:
        """Note how the server's settings were, before the first change there."""
        again = self._how.restart_command
        thing = self._thing(self._how.settings, "", "")
        self._note(replace(thing, saved=saved, restart_command=again))

    def _thing(self, resource: Foreign, database: str, entrance: str) -> OnServer:
        """Return a change; without names, database and entrance are what is connected to."""
        way, inside = self._how.place.entrance(), self._how.place.inside
        host, port = (way.inside or (way.host, way.port)) if inside else (way.host, way.port)
        return OnServer(
            resource=resource,
            host=host,
            port=port,
            user=way.user,
            parameters=way.parameters,
            database=database or way.database,
            entrance=entrance or way.database,
            mark=self._how.mark,
            inside=inside,
        )

    def _note(self, thing: OnServer) -> None:
        self._ledger.changed(thing)
        self._done.append(thing)
        self._troubles = []

    def undo(self, asks: object) -> list[SteelyardError]:
        """Undo everything, each whatever becomes of others; return the troubles.

        What failed is tried once more: the server may have been away. Who asks for the first time
        after that is told what is stuck, without a further try: sessions of several treatments ask
        for the same, and each would wait for a dead server.
        """
        if self._troubles and asks not in self._told:
            self._told.add(asks)
            return self._troubles
        self._troubles = self._undo_each() and self._undo_each()
        self._told = {asks}
        return self._troubles

    def _undo_each(self) -> list[SteelyardError]:
        troubles: list[SteelyardError] = []
        for thing in in_undoing_order(self._done):
            try:
                self._undo(thing)
            except SteelyardError as error:
                troubles.append(error)
        return troubles

    def _undo(self, thing: OnServer) -> None:
        self._undo_thing(thing, self._how.place.entrance())
        self._done.remove(thing)
        self._ledger.undone(thing)
