"""Ending every process that works in a directory of ours, whoever started it."""

import os
import signal
from pathlib import Path

from steelyard.gateways.clock import Clock
from steelyard.gateways.process import Processes

_GRACE_S = 5.0
_POLL_S = 0.1


def end_all(directory: Path, processes: Processes, clock: Clock) -> tuple[int, ...]:
    """End the processes in a directory, in order first, then by force; return those still there."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        found = [pid for pid in processes.within(directory) if pid != os.getpid()]
        for pid in found:
            processes.signal(pid, number)
            # A process that was stopped by SIGSTOP cannot act before it is continued.
            processes.signal(pid, signal.SIGCONT)
        deadline = clock.monotonic() + _GRACE_S
        while processes.within(directory):
            if clock.monotonic() > deadline:
                break
            clock.sleep(_POLL_S)
        else:
            return ()
    return processes.within(directory)
