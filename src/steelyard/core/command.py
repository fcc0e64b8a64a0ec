"""A command to run and a server's address: what an engine asks for and a platform runs.

Here also stands what a platform must know of a server program; an engine supplies it.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol


def quoted(word: object) -> str:
    """Return a path or a name as it stands in a command that a reader pastes into a shell."""
    return shlex.quote(str(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program call without a shell.

    Attributes:
        argv: Program and arguments; secrets never go here.
        secrets: What stands in ``argv`` for a word that only the program gets, and the word: the
            password of a guest, where the program takes it in no other way.
        environment: Added to a minimal environment; kept out of every log and repr.
        directory: Working directory; leftovers of a campaign are recognised by it.
        account: Name of the account to run as when Steelyard is root; None means no change.
        parent_death_signal: Signal the kernel sends it when Steelyard dies; 0 means none.
        groups: Directories of the control groups that it joins before it becomes the program.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    account: str | None = None
    parent_death_signal: int = 0
    groups: tuple[Path, ...] = ()

    @property
    def whole_argv(self) -> tuple[str, ...]:
        """Return what the program gets; no record, log or message may have it."""
        words = self.argv
        for name, secret in self.secrets.items():
            words = tuple(word.replace(name, secret) for word in words)
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a finished command printed.

    Attributes:
        began_at: Wall clock of the machine that ran it, when it began; None: it ran here.
    """

    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str
    began_at: float | None = None

    @property
    def succeeded(self) -> bool:
        """Return whether the exit status is 0."""
        return self.exit_status == 0

    def tail(self, lines: int = 5) -> str:
        """Return the last lines of what it printed, standard error first choice."""
        text = self.stderr.strip() or self.stdout.strip()
        return "\n".join(text.splitlines()[-lines:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A user of a server that is made for one campaign's load generator and goes with it.

    Some generators take a password as an argument only, where others can read it: so they come as
    somebody who may do nothing but send the load.
    """

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """How to reach a server: libpq's words, which Redis shares where they apply.

    Attributes:
        host: Name, address, or directory of the Unix socket.
        password: From the environment or made for this campaign; never in argv or a record.
        parameters: Further libpq keywords with their values, such as ``sslmode``; no secrets.
        databases: The database of each data set where a platform made it; elsewhere it is
            called like the data set and made by the engine.
        inside: Host and port by which programs reach it that run elsewhere, beside the server;
            None: they take the same way. There the password comes from a Secret.
        beside: The replica that a platform started beside it; None: there is none, or it is not
            the platform's.
        guest: As whom a generator comes that cannot keep the password to itself; None: as
            ``user``.
    """

    host: str
    port: int
    user: str = ""
    database: str = ""
    password: str = field(default="", repr=False)
    parameters: tuple[tuple[str, str], ...] = ()
    databases: tuple[tuple[str, str], ...] = ()
    inside: tuple[str, int] | None = None
    beside: "ServerAddress | None" = None
    guest: Guest | None = None

    def at(self, dataset: str) -> "ServerAddress":
        """Return the address of a data set's database."""
        return replace(self, database=dict(self.databases).get(dataset, dataset))


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
