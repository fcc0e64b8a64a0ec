"""Programs that do not exist: scripted answers, and started processes whose life a test holds."""

import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from fakes.clock import FakeClock
from fakes.standing import AtHome
from steelyard.core.outside import Command, Completed
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.gateways.process import RunningProcess

_FIRST_PID = 5_000_000  # beyond any real one
ENDING = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGKILL})


@dataclass(kw_only=True)
class Answer:
    """What a program prints, how it ends, how long it takes and what it does besides."""

    stdout: str = ""
    stderr: str = ""
    exit_status: int = 0
    takes_s: float = 0.0
    does: Callable[[Command], None] | None = None


@dataclass(kw_only=True)
class FakeProcess(RunningProcess):
    """A started program; it ends by ``finish`` or by a signal in ``ends_by``."""

    command: Command
    output: Path
    pid: int
    clock: FakeClock
    ends_by: frozenset[int] = ENDING
    signals: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    status: int | None = None

    def exit_status(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self.status

    def signal(self, number: int) -> None:
        """Take a signal; nothing happens when it is gone."""
        if self.status is None:
            self.signals.append(number)
            if number in self.ends_by:
                self.finish(-number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it came."""
        self.waits.append(timeout_s)
        if self.status is None:
            self.clock.sleep(timeout_s)
        return self.status is not None

    def kill_all(self) -> tuple[str, ...]:
        """End; it started nothing."""
        self.signal(signal.SIGKILL)
        return ()

    def finish(self, status: int) -> None:
        """End with this status."""
        self.status = status

    def log(self, text: str) -> None:
        """Write to its standard output."""
        with self.output.open("a") as file:
            file.write(text)


class FakeProcesses:
    """Runs no program: the last pattern that fits a command answers for it."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.ran: list[Command] = []
        self.stdin: list[str] = []
        self.started: list[FakeProcess] = []
        self.begun: Callable[[FakeProcess], None] = lambda _: None
        self._answers: list[tuple[tuple[str, ...], Answer]] = []
        self._startable: list[str] = []
        self._pids = count(_FIRST_PID)

    def on(self, program: str, *words: str, answer: Answer | None = None) -> None:
        """Let a program exist, and answer calls of it whose arguments hold all these words."""
        self._answers.append(((program, *words), answer or Answer()))

    def on_start(self, program: str) -> None:
        """Let a program exist that can be started."""
        self._startable.append(program)

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Answer a command as scripted."""
        answer = self._answer(command)
        self.ran.append(command)
        self.stdin.append(stdin)
        if answer.takes_s > timeout_s:
            self.clock.advance(timeout_s)
            raise MeasurementError(f"{command.argv[0]} did not end within {timeout_s:.0f} s")
        self.clock.advance(answer.takes_s)
        if answer.does is not None:
            answer.does(command)
        return Completed(
            argv=command.argv,
            exit_status=answer.exit_status,
            stdout=answer.stdout,
            stderr=answer.stderr,
        )

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> "FakeTogether":
        """Start commands that are answered as scripted once somebody waits for them."""
        answers = [self._answer(command) for command in commands]
        self.ran += commands
        return FakeTogether(
            commands=commands, answers=answers, timeout_s=timeout_s, clock=self.clock
        )

    def _answer(self, command: Command) -> Answer:
        name = Path(command.argv[0]).name
        for (program, *words), answer in reversed(self._answers):
            if program == name and set(words) <= set(command.argv):
                return answer
        raise _absent(command)

    def start(self, command: Command, *, output: Path) -> FakeProcess:
        """Start a process that runs until the test or a signal ends it."""
        if Path(command.argv[0]).name not in self._startable:
            raise _absent(command)
        process = FakeProcess(
            command=command, output=output, pid=next(self._pids), clock=self.clock
        )
        output.touch()
        self.started.append(process)
        self.begun(process)
        return process

    def within(self, directory: Path) -> tuple[int, ...]:
        """Return the ids of living processes whose working directory is in ``directory``."""
        return tuple(
            process.pid
            for process in self.started
            if process.status is None
            and process.command.directory is not None
            and process.command.directory.is_relative_to(directory)
        )

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process; nothing happens when it is gone."""
        for process in self.started:
            if process.pid == pid:
                process.signal(number)


@dataclass(kw_only=True)
class FakeTogether(AtHome, AbstractContextManager["FakeTogether"]):
    """Commands that run at the same time; they take as long as the longest."""

    commands: Sequence[Command]
    answers: Sequence[Answer]
    timeout_s: float
    clock: FakeClock
    pids: tuple[int, ...] = ()

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def all_run(self) -> bool:
        """Return that none has ended: nobody has waited for it yet."""
        return True

    def completed(self) -> tuple[Completed, ...]:
        """Answer each command as scripted."""
        begun, completed = self.clock.monotonic(), []
        for command, answer in zip(self.commands, self.answers, strict=True):
            if answer.does is not None:
                answer.does(command)
            takes_s = min(answer.takes_s, self.timeout_s)
            self.clock.advance(max(takes_s - (self.clock.monotonic() - begun), 0.0))
            if answer.takes_s > self.timeout_s:
                name = command.argv[0]
                raise MeasurementError(f"{name} did not end within {self.timeout_s:.0f} s")
            completed.append(
                Completed(
                    argv=command.argv,
                    exit_status=answer.exit_status,
                    stdout=answer.stdout,
                    stderr=answer.stderr,
                )
            )
        return tuple(completed)


def _absent(command: Command) -> TargetError:
    return TargetError(f"{command.argv[0]} does not exist", hint="The fake knows no such program.")
