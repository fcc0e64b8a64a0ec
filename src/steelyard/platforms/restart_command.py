"""Restarting a server by its owner's own command, and waiting until it is another one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.model.command import Command
from steelyard.model.errors import PreflightError, TargetError

_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartMeans:
    """The gateways that a restart needs.

    Attributes:
        processes: Of the load generator.
        here: Of this machine, where the generator runs elsewhere; None: it runs here.
    """

    processes: Processes
    clock: Clock
    here: Processes | None = None


def restart_by(
    command: tuple[str, ...],
    means: RestartMeans,
    started_at: Callable[[], object],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Restart a server by its owner's command and return when another one answers.

    Args:
        command: Of the user, run on this machine.
        means: To run it and to wait.
        started_at: Asks the server what tells one start of it from another.
        environment: Added to that of the command.

    Raises:
        TargetError: The command failed, or the server was not restarted by it.
    """
    before = started_at()
    _run(command, means.here or means.processes, environment or {})
    _await_other(before, started_at, means.clock)


def _run(command: tuple[str, ...], processes: Processes, environment: Mapping[str, str]) -> None:
    """Run the command to its end.

    Raises:
        TargetError: It failed, or did not end.
    """
    order = Command(argv=command, environment=environment)
    with _started(order, processes) as (process, output):
        ended = process.wait(_TIMEOUT_S)
        status = process.exit_status()
        # What it started would go on, and may restart the server in a later run.
        left = () if ended else process.kill_all()
        said = " ".join(output.read().decode(errors="replace").split()[-40:])
    if not ended or status != 0:
        how = f"exited with {status}" if ended else f"did not end within {_TIMEOUT_S:.0f} s"
        raise TargetError(
            f"the restart command {how}: {said}",
            hint=" ".join((*_warning(left), "Try it by hand, as the account that runs Steelyard.")),
        )


def _warning(left: tuple[str, ...]) -> tuple[str, ...]:
    if not left:
        return ()
    return (f"It was killed, but what it started still runs and may yet act: {', '.join(left)}.",)


@contextmanager
def _started(command: Command, processes: Processes) -> Iterator[tuple[RunningProcess, BinaryIO]]:
    """Start a command; yield it and what it prints.

    It prints to a file, not a pipe: the restarted server may keep the output open for ever. The
    file has no name any more when the command is at work, so that our death leaves none behind.
    """
    with TemporaryDirectory(prefix="steelyard-restart-") as directory:
        path = Path(directory) / "output"
        process = processes.start(command, output=path)
        output = path.open("rb")
    with output:
        yield process, output


def _await_other(before: object, started_at: Callable[[], object], clock: Clock) -> None:
    """Return once the server answers and says another start than before.

    Raises:
        TargetError: It does not come back, or was not restarted.
    """
    deadline = clock.monotonic() + _TIMEOUT_S
    trouble = "it has not been started anew"
    while clock.monotonic() < deadline:
        try:
            if started_at() != before:
                return
        except (TargetError, PreflightError) as error:  # a pod may not be there for a moment
            trouble = error.message
        clock.sleep(_POLL_S)
    raise TargetError(
        f"{_TIMEOUT_S:.0f} s after the restart command the server is not back: {trouble}",
        hint="Look at the server's log.",
    )
