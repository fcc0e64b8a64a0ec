"""A server program that is only a directory of files, and a ledger that remembers."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.core import outside


@dataclass(kw_only=True)
class FakeProgram:
    """A server whose readiness a test decides."""

    version: str = "18.6"
    identity: tuple[str, ...] = ("fake", "18.6")
    ready: bool = True
    ready_after_polls: int = 0
    polls: int = 0
    asked_at: int = 0
    while_preparing: Mapping[str, str] = field(default_factory=lambda: {"durable": "no"})
    stop_signals: tuple[int, int] = (signal.SIGINT, signal.SIGQUIT)
    superuser: tuple[str, str] = ("fake", "fakes")
    beside: outside.Companion | None = None
    loading: bool = False

    def create(self, data: Path, account: str | None) -> outside.Command:
        """Return the command that makes an empty data directory."""
        return outside.Command(
            argv=("fake-init", str(data)), account=account, directory=data.parent
        )

    def start(self, data: Path, account: str | None) -> outside.Command:
        """Return the command that runs the server."""
        return outside.Command(argv=("fake-server", str(data)), account=account, directory=data)

    def configuration(
        self, settings: Mapping[str, str], address: outside.ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return one configuration file."""
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        return {"fake.conf": "".join([f"port={address.port} in {sockets}\n", *lines])}

    def companion(
        self, settings: Mapping[str, str], address: outside.ServerAddress
    ) -> outside.Companion | None:
        """Return what the test wants beside it."""
        del settings, address
        return self.beside

    def is_loading(self, address: outside.ServerAddress) -> bool:
        """Return whether the test lets it read its data."""
        del address
        return self.loading

    def is_ready(self, address: outside.ServerAddress) -> bool:
        """Return whether the server answers, after as many questions as the test wants."""
        self.polls += 1
        self.asked_at = address.port
        return self.ready and self.polls > self.ready_after_polls


@dataclass(kw_only=True)
class SmallRedis(FakeProgram):
    """A server whose configuration file is Redis'."""

    while_preparing: Mapping[str, str] = field(
        default_factory=lambda: {"appendonly": "no", "save": ""}
    )

    def configuration(
        self,
        settings: Mapping[str, str],
        address: outside.ServerAddress,
        sockets: Path,
    ) -> Mapping[str, str]:
        """Return the settings, a line each."""
        del address, sockets
        return {"redis.conf": "".join(f'{name} "{v}"\n' for name, v in settings.items())}


@dataclass(kw_only=True)
class FakeLedger:
    """Remembers what was noted, and whether it existed at that moment."""

    notes: list[tuple[str, Path, bool]] = field(default_factory=list)
    things: list[tuple[str, outside.OnServer]] = field(default_factory=list)
    groups: list[tuple[str, Path]] = field(default_factory=list)
    in_cluster: list[tuple[str, outside.InCluster]] = field(default_factory=list)

    def created(self, thing: outside.Outside) -> None:
        """Note what is about to be made or changed."""
        self._note(thing, ("created", "made", "changed", "placed"))

    def removed(self, thing: outside.Outside) -> None:
        """Note that it is gone again, or as it was."""
        self._note(thing, ("removed", "removed", "undone", "taken away"))

    def _note(self, thing: outside.Outside, verbs: tuple[str, str, str, str]) -> None:
        match thing:
            case outside.MadeDirectory():
                self.notes.append((verbs[0], thing.path, thing.path.exists()))
            case outside.ControlGroup():
                self.groups.append((verbs[1], thing.path))
            case outside.OnServer():
                self.things.append((verbs[2], thing))
            case outside.InCluster():
                self.in_cluster.append((verbs[3], thing))

    @property
    def open(self) -> set[Path]:
        """Return what was made and not removed again."""
        made = {path for verb, path, _ in self.notes if verb == "created"}
        return made - {path for verb, path, _ in self.notes if verb == "removed"}
