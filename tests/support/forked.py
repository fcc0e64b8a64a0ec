"""Starts of Steelyard that cost no imports: forks of one process that has it ready."""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path


class Forked(subprocess.Popen[str]):
    """A process that another one forked: waited for through the news that come of it."""

    def __init__(self, arguments: tuple[str, ...], directory: Path, env: Mapping[str, str]) -> None:
        """Start it; what it says goes to files that are read at its end."""
        self.args = ["steelyard", *arguments]
        self.returncode = None
        self._streams = [tempfile.TemporaryFile("w+") for _ in "oe"]  # noqa: SIM115
        told, news = os.pipe()
        request = {"directory": str(directory), "arguments": arguments, "environment": dict(env)}
        descriptors = [*(stream.fileno() for stream in self._streams), news]
        socket.send_fds(_ready(), [json.dumps(request).encode()], descriptors)
        os.close(news)
        self._news = os.fdopen(told)
        self.pid = int(self._news.readline())

    def __del__(self) -> None:
        """Close what it has open; a process that goes on is its test's to end."""
        for file in (*self._streams, self._news):
            file.close()

    def poll(self) -> int | None:
        """Return its exit status once it has ended."""
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._news.readline()))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status when it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0.0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            select.select([self._news], [], [], left)
        return int(self.returncode)

    def communicate(  # type: ignore[override] # nobody has input for it
        self, timeout: float | None = None
    ) -> tuple[str, str]:
        """Return all that it said when it has ended."""
        self.wait(timeout)
        said = []
        for stream in self._streams:
            stream.seek(0)
            said.append(stream.read())
        return said[0], said[1]

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


@cache
def _ready() -> socket.socket:
    """Return the way to the process that has Steelyard ready; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.set_inheritable(True)
    program = str(Path(__file__).with_name("ready.py"))
    # Threads of a library do not survive a fork.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    os.posix_spawn(sys.executable, [sys.executable, program, str(theirs.fileno())], env)
    theirs.close()
    atexit.register(ours.close)
    return ours
