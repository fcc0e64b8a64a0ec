"""The death of a server that has a replica: it stays down, the replica takes its place."""

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Final, Self

from steelyard.engines.succession import ReplicaWatch, Succession
from steelyard.experiment.crash.crashing import Means, counted, dead, ended
from steelyard.model.command import Command
from steelyard.model.crash import Crash, CrashMode
from steelyard.model.errors import MeasurementError, TargetError
from steelyard.model.persistence import Death
from steelyard.platforms.local.beside import Beside

_LOOK_S: Final = 0.05
_CREATE_TIMEOUT_S: Final = 60.0


def inherit(mode: CrashMode, death: Death, under_load_s: float, means: Means) -> Crash:
    """Start a server and its replica, write to it, let it die, promote, and count what is gone.

    The replica is on no ground that dies: it stands for a server on another machine.

    Raises:
        MeasurementError: It failed before it was to die, or acknowledged nothing; or the engine
            has no replicas.
        TargetError: One of the two did not start, or the replica does not answer.
    """
    heirs = _heirs(means)
    program = heirs.program(mode.replica or ())
    home = means.ground.renew(means.template)
    server = replace(means, program=program).server(home)
    beside = _beside(means)
    try:
        server.start(mode.asked, port=None)
        beside.start(program.companion(mode.asked, server.address), means.template.parent)
        heir = beside.address
        assert heir is not None  # noqa: S101 - it was started
        with Lag(heirs.watch(server.address, heir)) as lag:
            died = dead(server, death, under_load_s, means)
        heirs.promote(heir, means.doors.clock)
        missing = [means.writes.missing(heir, each.writer, each.last) for each in died.answers]
    finally:
        beside.stop()
        ended(server, means)
    found = counted(died, missing)
    return replace(found, mode=mode.name, death=death, behind_bytes=lag.most_bytes)


def _heirs(means: Means) -> Succession:
    if means.succession is None:
        raise MeasurementError(
            "this engine has no replicas that take over",
            hint="Leave modes with a replica out.",
        )
    return means.succession


def _beside(means: Means) -> Beside:
    def run(command: Command, what: str) -> None:
        completed = means.doors.processes.run(command, timeout_s=_CREATE_TIMEOUT_S)
        if not completed.succeeded:
            raise TargetError(f"{what} failed: {completed.tail(1)}")

    return Beside(
        lambda program, home: replace(means, program=program).server(home),
        account=means.account,
        run=run,
    )


class Lag:
    """The most that a replica is behind, looked at in passing until a look fails or it is over."""

    def __init__(self, watch: ReplicaWatch) -> None:
        self.most_bytes: int | None = None
        self._watch = watch
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; the sessions are closed while a look may hang on them."""
        self._over.set()
        self._watch.close()
        self._thread.join()

    def _look(self) -> None:
        with suppress(TargetError):  # the server is dead: that is what was waited for
            while not self._over.wait(_LOOK_S):
                behind = self._watch.behind_bytes()
                if behind is not None:
                    self.most_bytes = max(behind, self.most_bytes or 0)
