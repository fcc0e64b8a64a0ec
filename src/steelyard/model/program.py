"""What a platform must know of a server program; an engine supplies it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.model.command import Command, ServerAddress


class ServerProgram(Protocol):
    """One server program of one version: how it is made, configured and started."""

    @property
    def version(self) -> str:
        """Return the version as the program reports it."""
        ...

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what decides the content of an empty data directory."""
        ...

    @property
    def while_preparing(self) -> Mapping[str, str]:
        """Return settings that make loading fast; durability does not matter then."""
        ...

    @property
    def stop_signals(self) -> tuple[int, int]:
        """Return the signals for an orderly stop and for one at once."""
        ...

    @property
    def superuser(self) -> tuple[str, str]:
        """Return the user and the database through which a new server is reached."""
        ...

    def create(self, data: Path, account: str | None) -> Command:
        """Return the command that makes an empty data directory."""
        ...

    def start(self, data: Path, account: str | None) -> Command:
        """Return the command that runs the server in the foreground."""
        ...

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return the text of each configuration file, by its name in the data directory."""
        ...

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether the server answers."""
        ...

    def is_loading(self, address: ServerAddress) -> bool:
        """Return whether one that does not answer yet says that it is reading its data."""
        ...

    def companion(self, settings: Mapping[str, str], address: ServerAddress) -> "Companion | None":
        """Return the server that is started beside a running one with these settings, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A second server, started after the first and stopped before it: a replica of it.

    Attributes:
        program: Its data directory begins empty; it is ready when it has all that the first has.
    """

    program: ServerProgram
    settings: Mapping[str, str]
