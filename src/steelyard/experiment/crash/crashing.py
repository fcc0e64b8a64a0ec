"""One death of a server under load, and the count of what was gone."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.engines.numbered import NumberedWrites
from steelyard.engines.residue import residue_of
from steelyard.engines.succession import Succession
from steelyard.experiment.crash.ground import Ended, Ground
from steelyard.experiment.crash.writing import Answers, Load
from steelyard.experiment.doors import Doors
from steelyard.model.command import Command
from steelyard.model.crash import Crash, CrashMode
from steelyard.model.errors import (
    MeasurementError,
    RefusedError,
    SilentError,
    SteelyardError,
    TargetError,
)
from steelyard.model.persistence import Death
from steelyard.model.program import ServerProgram
from steelyard.platforms.local.server import LocalServer

_FREE_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What all crashes of a test share.

    Attributes:
        sockets: Directory of the servers' sockets.
        template: Home of a stopped server with fresh data.
        clients: Connections that write.
        pipeline: Writes under way on each.
        succession: How replicas take over; None: the engine has none.
    """

    program: ServerProgram
    writes: NumberedWrites
    ground: Ground
    sockets: Path
    template: Path
    account: str | None
    clients: int
    pipeline: int
    doors: Doors
    succession: Succession | None = None

    def server(self, home: Path) -> LocalServer:
        """Return a server that has a home."""
        return LocalServer(
            self.program,
            home,
            self.sockets,
            account=self.account,
            processes=self.doors.processes,
            clock=self.doors.clock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A server that died under load.

    Attributes:
        ended: When its death began, and how it went.
        under_load_s: How long it had been written to.
    """

    ended: Ended
    under_load_s: float
    answers: Sequence[Answers]


def crash(mode: CrashMode, death: Death, under_load_s: float, means: Means) -> Crash:
    """Start a server, write to it, let it die, start it again and count what is gone.

    Raises:
        MeasurementError: It failed before it was to die, or acknowledged nothing; or it came back
            and did not answer.
        TargetError: It did not start in the first place.
    """
    server = means.server(means.ground.renew(means.template))
    try:
        server.start(mode.asked, port=None)
        died = dead(server, death, under_load_s, means)
        unusable = ""
        try:
            server.start(mode.asked, port=None)
            missing = [
                means.writes.missing(server.address, each.writer, each.last)
                for each in died.answers
            ]
        except TargetError as error:
            server.let_die()
            unusable = why_unusable(error, is_running=server.is_running)
            missing = [range(1, each.last + 1) for each in died.answers]
    finally:
        ended(server, means)
    found = counted(died, missing)
    return replace(found, mode=mode.name, death=death, unusable=unusable)


def why_unusable(error: TargetError, *, is_running: bool) -> str:
    """Return why a server that is started again has lost everything, in its words.

    It has if it ended, or if it said so itself; who only did not answer in time may have it all.

    Raises:
        MeasurementError: What it has is not known.
    """
    is_told = isinstance(error, RefusedError)
    if isinstance(error, SilentError) or (is_running and not is_told):
        raise MeasurementError(
            f"what the server still has could not be read: {error.message}",
            hint="The machine may be too slow or too busy; take the test with less other work, or"
            " less to read: --longest 1s.",
        ) from error
    return error.message


def dead(server: LocalServer, death: Death, under_load_s: float, means: Means) -> Died:
    """Write to a running server and let it die; return what it had answered.

    Raises:
        MeasurementError: It failed before it was to die, or acknowledged nothing.
    """
    clock = means.doors.clock
    load = Load(
        means.writes,
        server.address,
        clients=means.clients,
        pipeline=means.pipeline,
        clock=clock,
    )
    try:
        clock.sleep(under_load_s)
        residue = residue_of(server.data)
        end = means.ground.die(server, death)
        _freed(residue, means)
    except BaseException:
        server.kill()
        load.close()
        raise
    answers = load.end(end.begun_at)
    if not any(each.until(end.begun_at) for each in answers):
        raise MeasurementError(
            f"the server acknowledged nothing in {under_load_s:.1f} s",
            hint="Let it live longer: --longest 10s.",
        )
    return Died(ended=end, under_load_s=end.begun_at - load.begun_at, answers=answers)


def ended(server: LocalServer, means: Means) -> None:
    """Kill what may still run, and free what it had of the kernel."""
    residue = residue_of(server.data)
    server.kill()
    _freed(residue, means)


def _freed(residue: Sequence[Command], means: Means) -> None:
    """Free what a killed server left in the kernel; its own note of it may be lost, too."""
    for command in residue:
        with suppress(SteelyardError):
            means.doors.processes.run(command, timeout_s=_FREE_TIMEOUT_S)


def counted(died: Died, missing: Sequence[Sequence[int]]) -> Crash:
    """Return the numbers of a crash; whose it was is filled in by who knows."""
    lost = late = late_lost = 0
    oldest_at = died.ended.begun_at
    for answers, gone in zip(died.answers, missing, strict=True):
        known = answers.until(died.ended.begun_at)
        lost_here = sum(number <= known for number in gone)
        lost += lost_here
        late += answers.last - known
        late_lost += len(gone) - lost_here
        if lost_here:
            oldest_at = min(oldest_at, answers.answered_at(gone[0]))
    return Crash(
        mode="",
        death=Death.KILL,
        under_load_s=died.under_load_s,
        acknowledged=sum(each.until(died.ended.begun_at) for each in died.answers),
        lost=lost,
        oldest_lost_s=died.ended.begun_at - oldest_at if lost else None,
        late=late,
        late_lost=late_lost,
        window_s=died.ended.window_s,
        took_unflushed=died.ended.took_unflushed,
    )
