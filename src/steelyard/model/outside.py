"""What a campaign made or changed on a server that is not its own, and how to undo it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steelyard.model.command import ServerAddress
from steelyard.model.stack import Knob

_SHOWN_LENGTH: Final = 120


class Foreign(StrEnum):
    """A kind of thing on somebody else's server."""

    DATABASE = "database"
    TABLES = "tables"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSetting:
    """A setting as it was before the first change.

    Attributes:
        value: What stood in ``postgresql.auto.conf``; None where nothing did.
    """

    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedKnob:
    """A knob of the stack that a campaign turned, and what was there before the first time.

    Attributes:
        knob: As it was turned first; its kind and place say what goes back.
        snapshot: As its door made it.
    """

    knob: Knob
    snapshot: str

    @property
    def label(self) -> str:
        """Return what it is called in lists; it tells knobs of one campaign apart."""
        return knob_label(self.knob)

    @property
    def before(self) -> str:
        """Return what was there, for whoever puts it back by hand; a long one is cut."""
        text = " ".join(self.snapshot.split())
        return (
            text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}... (see the journal)"
        )


def knob_label(knob: Knob) -> str:
    """Return what a knob is called in lists, whatever its value."""
    return f"{knob.kind} {knob.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnServer:
    """Something to undo on a server, with all that is needed but the password.

    Attributes:
        host: As in ``ServerAddress``, like the two after it.
        parameters: Further libpq keywords with their values.
        database: That was made, that holds the tables, or that is connected to for the settings.
        entrance: Database to connect to for dropping another.
        mark: The comment on what was made; nothing without it is dropped.
        names: Of tables.
        saved: Settings before the first change.
        restart_command: Restarts the server after the settings were put back; empty: a reload does.
    """

    resource: Foreign
    host: str
    port: int
    user: str
    parameters: tuple[tuple[str, str], ...] = ()
    database: str
    entrance: str
    mark: str
    names: tuple[str, ...] = ()
    saved: tuple[SavedSetting, ...] = ()
    restart_command: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return what it is called in lists; it tells things of one campaign apart."""
        where = f"on {self.host}:{self.port}"
        if self.resource is Foreign.SETTINGS:
            return f"settings {', '.join(saved.name for saved in self.saved)} {where}"
        if self.resource is Foreign.TABLES:
            return f"tables {', '.join(self.names)} in database {self.database} {where}"
        return f"database {self.database} {where}"

    def address(self, password: str = "") -> ServerAddress:
        """Return how to reach its server, at the database to connect to."""
        return ServerAddress(
            host=self.host,
            port=self.port,
            user=self.user,
            database=self.entrance,
            password=password,
            parameters=self.parameters,
        )
