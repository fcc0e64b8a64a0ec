"""Restarting a server by the user's own command, and waiting until it answers."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from steelyard.gateways.clock import Clock
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.gateways.sql import Sql
from steelyard.model.command import Command, ServerAddress
from steelyard.model.errors import TargetError

STARTED_AT = "SELECT pg_postmaster_start_time()"
_LOADED_AT = "SELECT pg_conf_load_time()"
_TIMEOUT_S = 180.0
_RELOAD_TIMEOUT_S = 30.0
_RELOAD_POLL_S = 0.01
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The gateways that a change on a server needs."""

    sql: Sql
    processes: Processes
    clock: Clock


def reload(address: ServerAddress, means: Means) -> None:
    """Make a server read its configuration, and return once new sessions see it.

    Raises:
        TargetError: It does not read it.
    """
    before = means.sql.rows(address, _LOADED_AT)
    means.sql.rows(address, "SELECT pg_reload_conf()")
    deadline = means.clock.monotonic() + _RELOAD_TIMEOUT_S
    while means.sql.rows(address, _LOADED_AT) == before:
        if means.clock.monotonic() > deadline:
            raise TargetError(
                "the server did not read its changed configuration",
                hint="Its log says why.",
            )
        means.clock.sleep(_RELOAD_POLL_S)


def restart(command: tuple[str, ...], address: ServerAddress, means: Means) -> None:
    """Restart a server and return when it answers.

    Raises:
        TargetError: The command failed, or the server was not restarted by it.
    """
    before = means.sql.rows(address, STARTED_AT)
    with _started(command, means.processes) as (process, output):
        ended = process.wait(_TIMEOUT_S)
        status = process.exit_status()
        if not ended:
            process.signal(signal.SIGKILL)
        said = " ".join(output.read().decode(errors="replace").split()[-40:])
    if not ended or status != 0:
        how = f"exited with {status}" if ended else f"did not end within {_TIMEOUT_S:.0f} s"
        raise TargetError(
            f"the restart command {how}: {said}",
            hint="Try it by hand, as the account that runs Steelyard.",
        )
    _wait(before, address, means)


@contextmanager
def _started(
    command: tuple[str, ...], processes: Processes
) -> Iterator[tuple[RunningProcess, BinaryIO]]:
    """Start a command; yield it and what it prints.

    It prints to a file, not a pipe: the restarted server may keep the output open for ever. The
    file has no name any more when the command is at work, so that our death leaves none behind.
    """
    with TemporaryDirectory(prefix="steelyard-restart-") as directory:
        path = Path(directory) / "output"
        process = processes.start(Command(argv=command), output=path)
        output = path.open("rb")
    with output:
        yield process, output


def _wait(before: list[tuple[object, ...]], address: ServerAddress, means: Means) -> None:
    deadline = means.clock.monotonic() + _TIMEOUT_S
    trouble = "it has not been started anew"
    while means.clock.monotonic() < deadline:
        try:
            if means.sql.rows(address, STARTED_AT) != before:
                return
        except TargetError as error:
            trouble = error.message
        means.clock.sleep(_POLL_S)
    raise TargetError(
        f"{_TIMEOUT_S:.0f} s after the restart command the server is not back: {trouble}",
        hint="Look at the server's log.",
    )
