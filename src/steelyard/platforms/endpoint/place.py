"""Where the server of an endpoint is: anywhere that libpq reaches, or in a Kubernetes cluster."""

from typing import Protocol

from steelyard.model.command import ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.findings import Finding
from steelyard.model.outside import ServerInCluster
from steelyard.platforms.endpoint.settings import SettingStore
from steelyard.platforms.kubernetes.sight import PodSight


class ServerPlace(Protocol):
    """The place of one server that is there already."""

    @property
    def label(self) -> str:
        """Return what it is called in messages."""
        ...

    @property
    def inside(self) -> ServerInCluster | None:
        """Return how it is found again in its cluster; None where it is in none."""
        ...

    def entrance(self) -> ServerAddress:
        """Return where it is reached now.

        Raises:
            TargetError: It is not.
        """
        ...

    def store(self, own_file: SettingStore) -> SettingStore | None:
        """Return where its settings are changed for everyone; None: nowhere.

        Args:
            own_file: As with every server, in its own file; a superuser may.
        """
        ...

    def require_ready(self) -> None:
        """Raise a PreflightError when the place keeps the server from being measured."""
        ...

    def sight(self) -> PodSight | None:
        """Return what of its pod can be watched; None where it is in none."""
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the place."""
        ...

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the place."""
        ...

    def leave(self) -> None:
        """Put back what was changed there beside the server's own files."""
        ...


class Anywhere:
    """A server of which nothing is known but its address."""

    def __init__(self, entrance: ServerAddress) -> None:
        self._entrance = entrance

    @property
    def label(self) -> str:
        """Return host and port, or the socket where there is no port."""
        port = f":{self._entrance.port}" if self._entrance.port else ""
        return f"{self._entrance.host}{port}"

    @property
    def inside(self) -> ServerInCluster | None:
        """Return None: its address is all that is needed."""
        return None

    def entrance(self) -> ServerAddress:
        """Return where libpq found it."""
        return self._entrance

    def store(self, own_file: SettingStore) -> SettingStore | None:
        """Return the server's own file."""
        return own_file

    def require_ready(self) -> None:
        """Look at nothing: what can be known the server says itself."""

    def sight(self) -> PodSight | None:
        """Return None: server and generator are in no cluster."""
        return None

    def facts(self) -> tuple[Fact, ...]:
        """Return nothing."""
        return ()

    def findings(self) -> tuple[Finding, ...]:
        """Return nothing."""
        return ()

    def leave(self) -> None:
        """Put back nothing."""
