"""Which servers have lost everything after a death, and which only did not answer."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard.core.crash import Crash, CrashMode
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import Death
from steelyard.core.wording import MeasurementError, SilentError, TargetError
from steelyard.crash.testing import Ended, crash, why_unusable
from steelyard.gateways.host import Clock
from steelyard.gateways.redis import ReplyError

_NOWHERE = ServerAddress(host="/nowhere", port=1)
_MODE = CrashMode(name="always", settings=())


@dataclass
class _Scene:
    """A server, what it lies on and who writes to it: it dies, and fails when it is read.

    Attributes:
        failure: Of its second start, or of the reading.
        at_start: It fails at the start.
        outlives: Its process runs after the failure.
    """

    failure: TargetError
    at_start: bool = False
    outlives: bool = True
    starts: int = 0
    is_running: bool = False
    dead: threading.Event = field(default_factory=threading.Event)
    address: ServerAddress = _NOWHERE
    data: Path = Path("/nowhere")

    def start(self, _: Mapping[str, str], **__: object) -> None:
        """Start; the second one may fail."""
        self.starts += 1
        self.is_running = True
        if self.starts == 2 and self.at_start:
            self.let_die()
            raise self.failure

    def let_die(self) -> None:
        """It has ended, or it goes on."""
        self.is_running = self.outlives

    def kill(self) -> None:
        """End."""
        self.is_running = False

    def die(self, *_: object) -> Ended:
        """Die."""
        begun_at = Clock().monotonic()
        self.dead.set()
        return Ended(begun_at=begun_at)

    def renew(self, template: Path) -> Path:
        """Nothing is on a disk here."""
        return template

    def writer(self, *_: object) -> Any:
        """Return a connection that is answered until the death."""

        def write(*_: int) -> None:
            if self.dead.wait(0.001):
                raise TargetError("connection closed")

        return SimpleNamespace(write=write, close=lambda: None)

    def missing(self, *_: object) -> list[int]:
        """Fail."""
        raise self.failure

    def crash(self) -> Crash:
        """Take one crash."""
        means: Any = SimpleNamespace(
            ground=self,
            server=lambda _: self,
            template=Path("/nowhere"),
            subject=SimpleNamespace(writes=self),
            asked=SimpleNamespace(clients=1, pipeline=1),
            doors=SimpleNamespace(clock=Clock()),
        )
        return crash(_MODE, Death.POWER, 0.05, means)


def test_a_server_that_ended_has_lost_everything() -> None:
    """It did not start on what was left, and its log is what is told."""
    found = _Scene(TargetError("Bad file format"), at_start=True, outlives=False).crash()
    assert found.lost == found.acknowledged > 0
    assert found.unusable == "Bad file format"


def test_a_server_that_refuses_has_lost_everything() -> None:
    """It runs and says in its own words that it cannot read."""
    assert _Scene(ReplyError("refuses: MISCONF")).crash().unusable == "refuses: MISCONF"


def test_a_server_that_takes_long_to_start_has_lost_nothing_yet() -> None:
    """Two minutes on a slow machine are no broken promise, though it was ended for it."""
    scene = _Scene(SilentError("did not answer within 120 s"), at_start=True, outlives=False)
    with pytest.raises(MeasurementError, match="could not be read: did not answer within 120 s"):
        scene.crash()
    assert not scene.is_running


def test_a_server_that_is_slow_to_read_has_lost_nothing_yet() -> None:
    """A timeout of a client, or a refused connection, says nothing of the data."""
    with pytest.raises(MeasurementError, match="could not be read: Timeout reading"):
        _Scene(TargetError("Timeout reading from socket")).crash()


def test_a_server_that_ended_while_it_was_read_has_lost_everything() -> None:
    """The connection broke because its process is gone."""
    assert why_unusable(TargetError("closed"), is_running=False) == "closed"
