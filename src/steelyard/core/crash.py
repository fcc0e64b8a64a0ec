"""What crash tests found: servers that died under load, and what was gone of what they had said.

A stored format (``crash.json``): only additions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.core.redis import Death


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashMode:
    """A configuration that is put to the test.

    Attributes:
        settings: Names and values that the server gets, in order.
        replica: Of a replica beside it, which takes its place when it dies; what it does not name
            is as of the server. None: the server is started again.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    replica: tuple[tuple[str, str], ...] | None = None

    @property
    def asked(self) -> Mapping[str, str]:
        """Return the settings by name."""
        return dict(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One death of a server under load, and what was there after it, or its replica, took over.

    Attributes:
        mode: Name of the configuration.
        death: How it died.
        under_load_s: How long it had been written to.
        acknowledged: Writes that were answered before the kill or the cut began.
        lost: Those of them that are gone.
        oldest_lost_s: How long before the death the oldest lost one was answered; None: none is
            lost.
        late: Writes that were answered while the death was under way; see ``counted``.
        late_lost: Those of them that are gone.
        unusable: What the server said when it did not start again or could not read its data:
            then everything counts as lost; empty: it came back.
        behind_bytes: The most that its replica was behind in the stream, sampled under load; None
            without a replica, or where it could not be seen.
        window_s: How long the call took that cut the power; None: there was none, or nobody looked.
        took_unflushed: Whether a file that was left unflushed just before went with the cut: if
            not, it cut nothing. None: there was no cut, or no such file.
    """

    mode: str
    death: Death
    under_load_s: float
    acknowledged: int
    lost: int
    oldest_lost_s: float | None
    late: int = 0
    late_lost: int = 0
    unusable: str = ""
    behind_bytes: int | None = None
    window_s: float | None = None
    took_unflushed: bool | None = None

    @property
    def counted(self) -> int:
        """Return the writes that count as acknowledged.

        What a server answers while it is being killed it answered alive. What it answers while its
        file system is shut down is no promise: a cut of the power would have stopped it, too, and
        XFS may end a flush without an error when the shutdown has dropped what it waited for.
        """
        return self.acknowledged + self.late if self.death is Death.KILL else self.acknowledged

    @property
    def gone(self) -> int:
        """Return those of them that are gone."""
        return self.lost + self.late_lost if self.death is Death.KILL else self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashTest:
    """A whole test.

    Attributes:
        engine: ``redis`` or ``postgresql``.
        server: Its label: ``Redis 7.0.15``.
        volume: What the data lay on.
        kernel: Release of the kernel that kept the cache.
        seed: Of the order and of the moments.
        clients: Connections that write, each for itself.
        pipeline: Writes under way on each of them.
        longest_s: No death came later under load.
        crashes: In the order in which they were taken.
        interrupted: It was ended before all were taken.
    """

    engine: str
    server: str
    volume: str
    kernel: str
    seed: int
    clients: int
    pipeline: int
    longest_s: float
    modes: tuple[CrashMode, ...]
    crashes: tuple[Crash, ...]
    interrupted: bool = False
    format: int = 1

    def of(self, mode: str, death: Death) -> tuple[Crash, ...]:
        """Return the crashes of one mode and one kind, in order."""
        return tuple(each for each in self.crashes if (each.mode, each.death) == (mode, death))

    @property
    def deaths(self) -> tuple[Death, ...]:
        """Return the kinds of death that were taken."""
        return tuple(death for death in Death if any(c.death is death for c in self.crashes))
