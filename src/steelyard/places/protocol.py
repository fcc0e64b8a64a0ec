"""What a platform needs from outside, and what it promises to the runner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from steelyard.core.experiment import EffectiveSetting
from steelyard.core.findings import Fact, Finding
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import ProviderSeries, Vantage
from steelyard.core.outside import Command, Outside, ServerAddress, ServerProgram
from steelyard.core.places import Provision
from steelyard.core.schedule import Pausing
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import Together


class Ledger(Protocol):
    """Where is written what is made or changed outside the record, before it is."""

    def created(self, thing: Outside) -> None:
        """Note what is about to be made or changed, and return once that is on disk."""

    def removed(self, thing: Outside) -> None:
        """Note that it is gone again, or as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedState:
    """Complete prepared data. ``size_bytes`` is what a copy of them takes, 0 where out of reach."""

    key: str
    data: Path
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A limit that the place cannot have: its key, why, and the way out."""

    key: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsInForce:
    """What the place says of its limits: their values, and a sentence for each that is not kept."""

    effective: tuple[EffectiveSetting, ...] = ()
    deviations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSight:
    """The container of the server that is under load."""

    api: KubernetesApi
    database: ContainerRef


class Standstill(Protocol):
    """Stops a server with its load generator, or the generator alone, and lets it go on."""

    @property
    def kind(self) -> Pausing:
        """Return what stands still."""

    def announce(self) -> None:
        """Let what is on several machines go on at an agreed instant, and return then."""

    def pause(self) -> bool:
        """Stop everything; return whether nothing runs, in time: else it goes on."""

    def proceed(self) -> None:
        """Let everything go on; what runs already is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What of one place a guard lets go on when Steelyard dies.

    Attributes:
        groups: Control groups that may be frozen.
        directory: Whose processes may be stopped: those that work in it.
    """

    groups: tuple[Path, ...]
    directory: Path


class Platform(Protocol):
    """Where servers run, one at a time: prepare, restore, start, configure, stop, destroy.

    What has a body is so where a server is out of reach and nothing is known of it.

    Attributes:
        root: The directory of this machine that holds the data, or None.
    """

    root: Path | None

    @property
    def address(self) -> ServerAddress:
        """Return where the live server is reached; raises TargetError when none is up."""

    @property
    def scripts(self) -> Path:
        """Return a directory whose files the generator can read."""

    @property
    def is_running(self) -> bool:
        """Return whether a server is up."""

    def require_ready(self) -> None:
        """Check the place before anything is started.

        Raises:
            PreflightError: It cannot be used: port taken, directory not writable.
            PrivilegeError: It needs what only root may do.
        """

    def find(self, program: ServerProgram, content: Sequence[object]) -> PreparedState | None:
        """Return a prepared state that is there already, or None."""

    def prepare(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Return the state with this content, made now when it is not there.

        Args:
            program: Makes the data directory and runs on it.
            content: What decides the data; equal content is prepared once.
            build: Loads the data through a running server.
        """

    def restore(self, state: PreparedState, means: str) -> float:
        """Bring the live data back to a state; return the seconds. Stops the server."""

    def reprovision(
        self,
        program: ServerProgram,
        content: Sequence[object],
        build: Callable[[ServerAddress], None],
    ) -> PreparedState:
        """Make the live data from nothing, keeping nothing of the last ones; stops the server.

        Returns what ``start`` takes next. Raises PreflightError where the server is not
        Steelyard's to make.
        """

    def has_live_copy(self, state: PreparedState) -> bool:
        """Return whether a copy of a state was made that may be started again."""

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> None:
        """Start a server on the live copy of a state, and return when it answers."""

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Take other settings for the running server; return whether it has to read them."""

    def unfit(self, limits: Mapping[str, str]) -> tuple[Unfit, ...]:  # noqa: ARG002 - there are none
        """Return which limits of server and generator the place cannot have."""
        return ()

    def limit(self, limits: Mapping[str, str]) -> LimitsInForce:  # noqa: ARG002 - likewise
        """Limit the running server and the generator; what is not named becomes unlimited.

        Raises:
            TargetError: No server is running, or the kernel refuses a limit.
        """
        return LimitsInForce()

    def stop(self, *, keep_data: bool) -> None:
        """Stop the live server, if there is one."""

    def log_directory(self) -> Path:
        """Return a private directory for the generator's logs, in memory where there is room."""

    def logs_in_memory(self) -> bool:
        """Return whether that directory lies in memory: the same for all runs of a session."""

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> Together:
        """Start load generators and return them while they run."""

    @property
    def standstill(self) -> Standstill:
        """Return what stops those that run between turns, and the server if it does not go on.

        Raises:
            TargetError: A server belongs to it, and does not run or cannot be stopped.
        """

    @property
    def guarded(self) -> Guarded:
        """Return what has to go on when Steelyard dies in a pause."""

    def vantage(self) -> Vantage | None:
        """Return what of the running server this machine can see; None where it is elsewhere."""
        return None

    def sight(self) -> PodSight | None:
        """Return the container of the running server; None for other servers."""
        return None

    def means(self) -> tuple[str, ...]:
        """Return the means of bringing data back that there are here, best first."""

    def copies_by_reflink(self, state: PreparedState) -> bool:  # noqa: ARG002 - there are no copies
        """Return whether copies share blocks with the prepared state."""
        return False

    def free_bytes(self) -> int:
        """Return the free space where the data are."""

    def logs(self) -> str:
        """Return everything the servers of this campaign logged, in order."""
        return ""

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the place beside its machine."""
        return ()

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the place."""
        return ()

    def destroy(self) -> None:
        """Stop the server and remove everything that was made for this campaign."""


@runtime_checkable
class TellsProvision(Protocol):
    """A platform that knows what its place gives the server."""

    def provision(self) -> Provision:
        """Return it, as far as it is known; where nothing is known nothing is guessed."""


@runtime_checkable
class SeenByProvider(Protocol):
    """A platform whose provider counts, too."""

    def provider_series(
        self, since_s: float, until_s: float, *, patience_s: float
    ) -> tuple[ProviderSeries, ...]:
        """Return what was counted between two moments, given in seconds since the epoch.

        Values of the last minutes come late, and are waited for with that patience, in seconds.
        """


@runtime_checkable
class Refillable(Protocol):
    """A place whose storage may be simulated: its burst credits come back at a word."""

    def refill(self) -> bool:
        """Fill the bucket of burst credits; return whether the storage is simulated."""
