"""Commands in containers: run to their end, or read line by line.

A command whose connection is lost goes on in its container, for the container runtimes do not end
it. So it is started by a few lines of shell that notice the end of their standard input, which
stays open as long as the connection does, and then kill the process group of the command.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.core.command import Completed
from steelyard.core.errors import MeasurementError, TargetError
from steelyard.core.kubernetes import ContainerRef
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.streams import LOST, Stream

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
STATUS: Final = 3
_CHUNK_BYTES: Final = 32768
_SHOWN_LINES: Final = 3
# The first argument is how many bytes the command gets as its standard input; what comes after them
# is the end, which means that nobody listens any more. A runtime starts every command as the leader
# of a group of its own (setsid); where one does not, nothing is killed. The first half of the pipe
# tells the second its process id, and is ended when the command has: nothing is left to be reaped.
# What the command did not read is read before, or the end of it would never be told (seen with
# containerd 1.6, also by `kubectl exec -i`).
_GUARDED: Final = """\
exec 3<&0
count=$1; shift
{
  read -r self rest </proc/self/stat; echo "$self"
  [ "$count" = 0 ] || head -c "$count" <&3
  exec >/dev/null 2>&1
  while read -r line; do :; done <&3
  read -r self name state parent group rest </proc/self/stat
  [ "$group" = $$ ] && kill -9 0
} | {
  read -r guard
  "$@" 3<&-
  status=$?
  [ "$count" = 0 ] || cat >/dev/null
  kill -PIPE "$guard"
  exit $status
}
"""


def guarded(argv: Sequence[str], stdin: bytes = b"") -> tuple[str, ...]:
    """Return a command that dies with its connection and is given so many bytes to read."""
    return ("sh", "-c", _GUARDED, "sh", str(len(stdin)), *argv)


@dataclass(kw_only=True)
class Exchange:
    """A command that runs while its output is collected.

    Attributes:
        stdin: What is still to be sent.
    """

    stream: Stream
    where: ContainerRef
    argv: tuple[str, ...]
    stdin: bytes = b""
    heard: dict[int, list[bytes]] = field(default_factory=dict)

    def complete(self, clock: Clock, timeout_s: float) -> Completed:
        """Return what the command printed and how it ended.

        Raises:
            MeasurementError: It did not end in time.
            TargetError: The connection was lost, or the command could not be started.
        """
        deadline = clock.monotonic() + timeout_s
        try:
            while self._advance(deadline - clock.monotonic()):
                if clock.monotonic() >= deadline:
                    raise self._too_late(timeout_s)
        except LOST as error:
            raise lost(self.argv, self.where) from error
        return Completed(
            argv=self.argv,
            exit_status=exit_status(self._bytes(STATUS), self.argv, self.where),
            stdout=self._bytes(STDOUT).decode("utf-8", "replace"),
            stderr=self._bytes(STDERR).decode("utf-8", "replace"),
        )

    def _advance(self, remaining_s: float) -> bool:
        """Take or send a message, or wait for one; return whether the connection is open."""
        sends = bool(self.stdin) and self.stream.is_writable()
        is_ready, _ = self.stream.ready(0.0 if sends else max(min(remaining_s, 1.0), 0.0))
        if is_ready:
            message = self.stream.receive()
            if message is None:
                return False
            self.heard.setdefault(message[0], []).append(message[1])
        elif sends:
            chunk, self.stdin = self.stdin[:_CHUNK_BYTES], self.stdin[_CHUNK_BYTES:]
            self.stream.send(STDIN, chunk)
        return True

    def _bytes(self, channel: int) -> bytes:
        return b"".join(self.heard.get(channel, ()))

    def _too_late(self, timeout_s: float) -> MeasurementError:
        message = f"{self.argv[0]} in {_label(self.where)} did not end within {timeout_s:.0f} s"
        return MeasurementError(f"{message} and was killed", hint="Is the server hanging?")


class StreamedLines:
    """What a command prints, line by line."""

    def __init__(self, stream: Stream, where: ContainerRef, argv: tuple[str, ...]) -> None:
        self._stream = stream
        self._where = where
        self._argv = argv
        self._closed = False

    def __iter__(self) -> Iterator[str]:
        """Yield lines without their ends.

        Raises:
            TargetError: The connection was lost, or the command failed.
        """
        heard: dict[int, bytes] = {STDOUT: b"", STDERR: b"", STATUS: b""}
        try:
            while (message := self._next()) is not None:
                channel, content = message
                heard[channel] = heard.get(channel, b"") + content
                if channel == STDOUT and b"\n" in content:
                    *whole, heard[STDOUT] = heard[STDOUT].split(b"\n")
                    yield from (line.decode("utf-8", "replace") for line in whole)
        except LOST as error:
            if self._closed:
                return
            raise lost(self._argv, self._where) from error
        finally:
            self._stream.close()
        if not self._closed:
            yield from self._last(heard)

    def _next(self) -> tuple[int, bytes] | None:
        while not self._stream.ready(None)[0]:
            pass
        return self._stream.receive()

    def _last(self, heard: dict[int, bytes]) -> Iterator[str]:
        """Yield the line that has no end, and raise where the command failed."""
        if heard[STDOUT]:
            yield heard[STDOUT].decode("utf-8", "replace")
        status = exit_status(heard[STATUS], self._argv, self._where)
        if status:
            said = heard[STDERR].decode("utf-8", "replace").strip().splitlines()[-_SHOWN_LINES:]
            why = f": {' '.join(said)}" if said else ""
            message = f"{self._argv[0]} in {_label(self._where)} ended with status {status}{why}"
            raise TargetError(message, hint="Was its pod stopped?")

    def close(self) -> None:
        """Hang up; the command is killed. Also from another thread."""
        self._closed = True
        self._stream.hang_up()


def exit_status(said: bytes, argv: Sequence[str], where: ContainerRef) -> int:
    """Return the exit status that the API tells at the end.

    Raises:
        TargetError: It tells none: the connection was lost, or the command was not started.
    """
    if not said:
        raise lost(argv, where)
    status = json.loads(said)
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    message = f"{argv[0]} could not be run in {_label(where)}: {status.get('message')}"
    raise TargetError(message, hint="Does the pod run, and has its image a shell?")


def lost(argv: Sequence[str], where: ContainerRef) -> TargetError:
    """Return that nobody knows how a command ended."""
    return TargetError(
        f"the connection to {_label(where)} was lost while {argv[0]} ran there",
        hint="Was the pod stopped, or the API restarted?",
    )


def _label(where: ContainerRef) -> str:
    return f"Pod {where.namespace}/{where.pod}"
