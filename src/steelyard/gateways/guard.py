"""The guard: a process that lets everything go on when Steelyard dies while it stands still.

It outlives us by design: in a session of its own, immune to the signals that end a terminal's or a
service's programs, it waits for the end of a pipe that only we hold open. The kernel closes that
whenever and however we die.
"""

import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from steelyard.model.errors import TargetError

_SHELL: Final = "/bin/sh"
_READY_S: Final = 10.0  # a guess: a shell takes milliseconds, a machine that swaps does not
_END_S: Final = 5.0
_SAYS: Final = b"ready\n"
# Words: g:GROUP, d:DIRECTORY. Only what a POSIX shell has in itself, and ls: it names a process and
# its working directory without touching that, which may be on a file system that hangs.
_SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM TSTP PIPE
echo ready
exec >&-
while read -r line; do :; done
for each; do
  place=${each#?:}
  case $each in
  g:*)
    if [ -e "$place/freezer.state" ]; then echo THAWED >"$place/freezer.state"; fi
    if [ -e "$place/cgroup.freeze" ]; then echo 0 >"$place/cgroup.freeze"; fi
    ;;
  esac
done
ls -ln /proc/[0-9]*/cwd | while read -r line; do
  where=${line#* -> }
  pid=${line#* /proc/}
  for each; do
    case $each in
    d:*)
      case $where/ in
      "${each#d:}"/*) kill -s CONT "${pid%%/*}" ;;
      esac
      ;;
    esac
  done
done
"""


class Guard(Protocol):
    """Watches over what stands still."""

    def stands(self) -> bool:
        """Return whether it is alive."""
        ...

    def close(self) -> None:
        """Let it go; it thaws and continues everything before it ends."""
        ...


class Guards(Protocol):
    """Starts guards."""

    def start(self, groups: Sequence[Path], directories: Sequence[Path]) -> Guard:
        """Return a guard of control groups and of the processes that work in directories."""
        ...


class SystemGuards:
    """Guards that are processes of this machine."""

    def start(self, groups: Sequence[Path], directories: Sequence[Path]) -> Guard:
        """Return a guard once it is ready.

        Args:
            groups: Control groups that it thaws; they need not be there yet.
            directories: Whose processes it continues: those that work in one or below.

        Raises:
            TargetError: It does not start.
        """
        words = [f"g:{group}" for group in groups]
        words += [f"d:{os.path.realpath(directory)}" for directory in directories]
        return _Guard(words)


class _Guard:
    """A shell that waits for our end."""

    def __init__(self, words: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT, "steelyard-guard", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise TargetError(f"{_SHELL} cannot be run: {error.strerror}") from error
        try:
            self._await_ready()
        except BaseException:
            self._process.kill()
            self.close()
            raise

    def _await_ready(self) -> None:
        """Wait until it ignores what would end it.

        Raises:
            TargetError: It does not get there.
        """
        assert self._process.stdout is not None  # noqa: S101 - asked for
        with self._process.stdout as said:
            ready, _, _ = select.select([said], [], [], _READY_S)
            if not ready or said.readline() != _SAYS:
                raise TargetError(
                    "the guard that thaws servers after a death did not start",
                    hint=f"Does `{_SHELL} -c 'echo ready'` work here?",
                )

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def stands(self) -> bool:
        """Return whether it is alive."""
        return self._process.poll() is None

    def close(self) -> None:
        """Close the pipe that it waits on, and wait for its end."""
        assert self._process.stdin is not None  # noqa: S101 - asked for
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
