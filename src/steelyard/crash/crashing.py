"""One death of a server under load, and the count of what was gone.

The load of a crash test: connections that write numbers and remember what was answered.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from steelyard.core.command import Command, ServerAddress, ServerProgram
from steelyard.core.crash import Crash, CrashMode
from steelyard.core.errors import (
    MeasurementError,
    RefusedError,
    SilentError,
    SteelyardError,
    TargetError,
)
from steelyard.core.persistence import Death
from steelyard.crash.ground import Ended, Ground
from steelyard.gateways.clock import Clock
from steelyard.gateways.doors import Doors
from steelyard.places.local.server import LocalServer
from steelyard.systems.complaints import NumberedWriter, NumberedWrites, Succession
from steelyard.systems.protocol import residue_of

_END_S: Final = 30.0  # until a writer whose server is dead has noticed


@dataclass(slots=True)
class Answers:
    """What one writer was told: each answer says that all numbers up to one are written.

    Attributes:
        numbers: The last one of each answer, rising.
        at: When it came, monotonic seconds.
        trouble: Why the writer ended; None: it was told to.
        ended_at: When that was.
    """

    writer: int
    numbers: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    trouble: SteelyardError | None = None
    ended_at: float = 0.0

    @property
    def last(self) -> int:
        """Return the last number that was acknowledged at all; 0: none was."""
        return self.numbers[-1] if self.numbers else 0

    def until(self, moment: float) -> int:
        """Return the last number that was acknowledged before a moment."""
        answers = bisect_right(self.at, moment)
        return self.numbers[answers - 1] if answers else 0

    def answered_at(self, number: int) -> float:
        """Return when a number was acknowledged."""
        return self.at[bisect_left(self.numbers, number)]


class Load:
    """Writers at work, each on a thread and a connection of its own.

    Args:
        pipeline: Numbers that are under way at once on each connection; they count when all of
            them are answered.
    """

    def __init__(
        self,
        writes: NumberedWrites,
        address: ServerAddress,
        *,
        clients: int,
        pipeline: int,
        clock: Clock,
    ) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._ending = threading.Event()
        self._writers = [writes.writer(address, number) for number in range(clients)]
        self._answers = [Answers(writer=number) for number in range(clients)]
        self._threads = [
            threading.Thread(target=self._write, args=pair, daemon=True)
            for pair in zip(self._writers, self._answers, strict=True)
        ]
        self.begun_at = clock.monotonic()
        for thread in self._threads:
            thread.start()

    def _write(self, writer: NumberedWriter, answers: Answers) -> None:
        try:
            while not self._ending.is_set():
                writer.write(answers.last + 1, self._pipeline)
                answers.at.append(self._clock.monotonic())
                answers.numbers.append(answers.last + self._pipeline)
        except SteelyardError as error:
            answers.trouble = error
        answers.ended_at = self._clock.monotonic()

    def end(self, died_at: float) -> Sequence[Answers]:
        """Return what was answered, when the server is dead.

        Raises:
            MeasurementError: A writer failed before the death, or does not end after it.
        """
        self.close()
        for answers in self._answers:
            if answers.trouble is not None and answers.ended_at < died_at:
                raise MeasurementError(
                    f"a write failed before the server was to die: {answers.trouble.message}",
                    hint=answers.trouble.hint or "Look at the server's settings and its disk.",
                )
        return self._answers

    def close(self) -> None:
        """End the writers and their connections."""
        self._ending.set()
        self._wait()
        for writer in self._writers:
            writer.close()
        self._wait()  # who still waited hears of the closed connection
        if any(thread.is_alive() for thread in self._threads):
            raise MeasurementError("a writer still waits for an answer of a dead server")

    def _wait(self) -> None:
        until = self._clock.monotonic() + _END_S
        for thread in self._threads:
            thread.join(max(0.0, until - self._clock.monotonic()))


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
