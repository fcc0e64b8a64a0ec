"""Restarting a server by the user's own command, and waiting until it answers."""

import signal
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from steelyard.gateways.clock import Clock
from steelyard.gateways.files import read_text
from steelyard.gateways.process import Processes
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
    with TemporaryDirectory(prefix="steelyard-restart-") as directory:
        # A file, not a pipe: the restarted server may keep the command's output open for ever.
        output = Path(directory) / "output"
        process = means.processes.start(Command(argv=command), output=output)
        ended = process.wait(_TIMEOUT_S)
        status = process.exit_status()
        if not ended:
            process.signal(signal.SIGKILL)
        said = " ".join((read_text(output) or "").split()[-40:])
    if not ended or status != 0:
        how = f"exited with {status}" if ended else f"did not end within {_TIMEOUT_S:.0f} s"
        raise TargetError(
            f"the restart command {how}: {said}",
            hint="Try it by hand, as the account that runs Steelyard.",
        )
    _wait(before, address, means)


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
