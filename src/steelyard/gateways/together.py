"""Several started programs at once: what they print is collected until the last one ends.

They are started and waited for in one thread: the kernel ends a child when the thread that made it
ends (prctl, PR_SET_PDEATHSIG), so that none is handed to another.
"""

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from steelyard.model.command import Command, Completed
from steelyard.model.errors import MeasurementError

_KILL_GRACE_S = 5.0
_READ_BYTES = 1 << 16


@dataclass(slots=True, kw_only=True)
class _Member:
    """A started program with what it printed so far."""

    command: Command
    process: "subprocess.Popen[bytes]"
    printed: dict[int, list[bytes]] = field(default_factory=dict)

    def text(self, descriptor: int) -> str:
        return b"".join(self.printed[descriptor]).decode(errors="replace")


class Together:
    """Programs that belong together; whatever ends this ends all of them."""

    def __init__(self, *, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._members: list[_Member] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._selector.close()
        if kind is not None:
            for member in self._members:
                _signal_group(member.process, signal.SIGTERM)
            for member in self._members:
                kill_group(member.process)
        for member in self._members:
            for stream in (member.process.stdout, member.process.stderr):
                if stream is not None:
                    stream.close()

    def add(self, command: Command, process: "subprocess.Popen[bytes]") -> None:
        """Take a program that was started with pipes; it is given no input."""
        member = _Member(command=command, process=process)
        self._members.append(member)
        if process.stdin is not None:
            process.stdin.close()
            process.stdin = None
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, member)
                member.printed[stream.fileno()] = []

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process ids of those that have not ended, in the order of their start.

        The id of one that has may be somebody else's by now.
        """
        members = (member.process for member in self._members)
        return tuple(process.pid for process in members if process.poll() is None)

    def all_run(self) -> bool:
        """Return whether none has ended yet; what they printed meanwhile no longer fills a pipe."""
        if self._selector.get_map():
            self._collect(0.0)
        return all(member.process.poll() is None for member in self._members)

    def signal(self, number: int) -> None:
        """Send a signal to each that has not ended."""
        for member in self._members:
            if member.process.poll() is None:
                _signal_group(member.process, number)

    def close(self) -> None:
        """End all that still run, without regard to what they would have printed."""
        self.__exit__(RuntimeError)

    def completed(self, *, within_s: float | None = None) -> tuple[Completed, ...]:
        """Return what each printed and how it ended, once all have.

        Args:
            within_s: From now on; None: in the time that they had from the beginning.

        Raises:
            MeasurementError: One did not end in time.
        """
        if within_s is not None:
            self._deadline, self._timeout_s = time.monotonic() + within_s, within_s
        while self._selector.get_map():
            for key in self._collect(self._left_s()):
                self._ended(key)
        return tuple(self._result(member) for member in self._members)

    def _collect(self, timeout_s: float) -> list[selectors.SelectorKey]:
        """Take what is printed, once something is or the time is over; return what is at its end.

        What is at its end stays registered: who ended may stand still before it is gone, so only
        who has the time waits for that.
        """
        at_end = []
        for key, _ in self._selector.select(timeout_s):
            chunk = os.read(key.fd, _READ_BYTES)
            key.data.printed[key.fd].append(chunk)
            if not chunk:
                at_end.append(key)
        return at_end

    def _ended(self, key: selectors.SelectorKey) -> None:
        """Note the end of a stream; with its last one a program has ended, well or not."""
        member: _Member = key.data
        self._selector.unregister(key.fileobj)
        if any(other.data is member for other in self._selector.get_map().values()):
            return
        if self._wait(member) != 0:
            for other in self._members:
                if other.process.poll() is None:
                    _signal_group(other.process, signal.SIGKILL)

    def _wait(self, member: _Member) -> int:
        try:
            return member.process.wait(self._left_s())
        except subprocess.TimeoutExpired as error:
            raise self._too_late(member) from error

    def _left_s(self) -> float:
        """Return the seconds until the deadline.

        Raises:
            MeasurementError: It is over.
        """
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            running = [each for each in self._members if each.process.poll() is None]
            raise self._too_late((running or self._members)[0])
        return left_s

    def _too_late(self, member: _Member) -> MeasurementError:
        return MeasurementError(
            f"{member.command.argv[0]} did not end within {self._timeout_s:.0f} s and was killed",
            hint="Is the server hanging?",
        )

    def _result(self, member: _Member) -> Completed:
        out, err = (member.text(descriptor) for descriptor in member.printed)
        return Completed(
            argv=member.command.argv,
            exit_status=self._wait(member),
            stdout=out,
            stderr=err,
        )


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all its descendants; some may outlive their leader's SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=_KILL_GRACE_S)
        except (ProcessLookupError, PermissionError):  # gone, or another account's, as of sudo
            return
        except subprocess.TimeoutExpired:
            continue


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
