"""The operator at the terminal: asked in words, answers with Enter."""

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from steelyard.model.units import format_duration

_TERMINAL: Final = "/dev/tty"


class TerminalOperator:
    """Whoever sits at the terminal that Steelyard was started from.

    The terminal itself is opened, because standard input and output may be files.
    """

    @property
    def is_there(self) -> bool:
        """Return whether there is a terminal."""
        with suppress(OSError), _opened():
            return True
        return False

    def confirms(self, request: str, *, timeout_s: float) -> bool:
        """Show the request; return whether Enter was pressed in time."""
        with suppress(OSError, termios.error), _opened() as terminal:
            limit = format_duration(timeout_s)
            # What was typed before the question is no answer to it.
            termios.tcflush(terminal, termios.TCIFLUSH)
            text = f"\n{request}\nPress Enter when it is done (within {limit}): "
            os.write(terminal, text.encode())
            ready, _, _ = select.select([terminal], [], [], timeout_s)
            return bool(ready and os.read(terminal, 1024))
        return False


@contextmanager
def _opened() -> Iterator[int]:
    terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        yield terminal
    finally:
        os.close(terminal)
