"""A command in a container that is told lines: answers come in pieces, late, or not at all."""

from collections.abc import Sequence

import pytest
from websocket import WebSocketTimeoutException

from fakes.clock import FakeClock
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.gateways.kubernetes.client import STATUS, STDERR, STDIN, STDOUT, OpenDialogue

WHERE = ContainerRef(namespace="bench", pod="generator-0")
Message = tuple[int, bytes] | None


class Wire:
    """A connection that delivers messages of a list, one each time somebody waits."""

    def __init__(self, clock: FakeClock, messages: Sequence[Message | Exception]) -> None:
        self._clock = clock
        self._messages = list(messages)
        self.sent: list[tuple[int, bytes]] = []
        self.closed = 0

    def send(self, channel: int, content: bytes) -> None:
        """Note what is sent."""
        self.sent.append((channel, content))

    def ready(self, timeout_s: float) -> tuple[bool, bool]:
        """Wait for a message; without one for the whole time."""
        self._clock.advance(0.001 if self._messages else timeout_s)
        return bool(self._messages), False

    def receive(self) -> Message:
        """Return the next message."""
        message = self._messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        """Count it."""
        self.closed += 1


def dialogue(*messages: Message | Exception) -> tuple[OpenDialogue, Wire]:
    """Return a dialogue over a wire with these messages."""
    clock = FakeClock()
    wire = Wire(clock, messages)
    return OpenDialogue(wire, WHERE, ("bash", "steer"), clock), wire  # type: ignore[arg-type]


def test_an_answer_may_come_in_pieces() -> None:
    """What is behind its line belongs to the next one; what goes to stderr is no answer."""
    told, wire = dialogue(
        (STDOUT, b"st"), (STDERR, b"noise\n"), (STDOUT, b"op 1\ngo"), (STDOUT, b" 2\n")
    )
    assert told.ask("stop", timeout_s=1.0) == "stop 1"
    assert told.ask("go", timeout_s=1.0) == "go 2"
    assert wire.sent == [(STDIN, b"stop\n"), (STDIN, b"go\n")]


def test_no_answer_is_an_error_after_a_while() -> None:
    """It names what was said."""
    told, _ = dialogue()
    with pytest.raises(MeasurementError, match="gave no answer to 'stop' for 2 s"):
        told.ask("stop", timeout_s=2.0)


@pytest.mark.parametrize(
    "end", [None, (STATUS, b'{"status": "Success"}'), WebSocketTimeoutException("gone"), OSError()]
)
def test_an_end_is_a_lost_connection(end: Message | Exception) -> None:
    """Of the connection or of the command: nobody answers any more."""
    told, _ = dialogue(end)
    with pytest.raises(TargetError, match="the connection to Pod bench/generator-0 was lost"):
        told.ask("go", timeout_s=1.0)


def test_closing_hangs_up() -> None:
    """The command reads the end of its input."""
    told, wire = dialogue()
    told.close()
    assert wire.closed == 1
