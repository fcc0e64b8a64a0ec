"""The only door to other programs, and the protocol of that to the person at the terminal.

Programs start without a shell, in a session of their own (Ctrl-C at the terminal reaches
Steelyard alone, which then stops them in order), with a small environment, and with a parent
death signal where asked, so that ``kill -9`` of Steelyard does not leave a server behind.

Several programs at once are started and waited for in one thread: the kernel ends a child when the
thread that made it ends (prctl, PR_SET_PDEATHSIG), so that none is handed to another.

Modules of ours may run as programs of their own: no process that has threads is forked.
"""

import ctypes
import json
import os
import pwd
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from steelyard.core.outside import Command, Completed
from steelyard.core.wording import MeasurementError, PrivilegeError, TargetError

_KILL_GRACE_S = 5.0
_DYING_S = 0.01
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
    """Programs that belong together; whatever ends this ends all of them.

    Attributes:
        cpu_s: CPU time of those that have ended and are no children of ours.
    """

    cpu_s = 0.0

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

    def levels(self) -> dict[str, float]:
        """Return how they were started, by ``Quantity``; empty on this machine."""
        return {}

    def close(self) -> None:
        """End all that still run, without regard to what they would have printed."""
        self.__exit__(RuntimeError)

    def completed(self, *, within_s: float | None = None) -> tuple[Completed, ...]:
        """Return what each printed once all have ended; when one fails, the others are ended.

        They have so long from now on; None: as long as they were given when they began.

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
        """Return the seconds until the deadline."""
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
    with suppress(ProcessLookupError, PermissionError):  # gone, or another account's, as of sudo
        os.killpg(process.pid, number)


_PR_SET_PDEATHSIG = 1
_STOPPING = tuple(map(int, (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)))
_KILL = int(signal.SIGKILL)
# Looked up here and not in a child, where a thread that is not there may hold the loader's lock.
# The calls keep the interpreter's lock, so that nothing is handed over between fork and exec.
_LIBC = ctypes.PyDLL(None)
_SIGNAL = _LIBC.signal
_SIGNAL.argtypes = (ctypes.c_int, ctypes.c_void_p)
_SIGNAL.restype = ctypes.c_void_p
_PRCTL = _LIBC.prctl
_PRCTL.argtypes = (ctypes.c_int, ctypes.c_ulong)
# What a child inherits: enough to find programs and speak the user's language, no secrets.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "USER")
SHARED = "nobody"
# A number that nobody gives out: https://systemd.io/UIDS-GIDS has it among the unused, and a
# container with 65,536 numbers of its own has it, too.
_GROUP = 61_100
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class RunningProcess:
    """A program that is still running."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.pid = process.pid
        self._process = process

    def exit_status(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send it a signal; nothing happens when it is gone."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it came."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill_all(self) -> tuple[str, ...]:
        """Kill it with its session; return what it started and what still runs, by id and name."""
        left = _family(self.pid)
        kill_group(self._process)
        left, deadline = _living(left), time.monotonic() + _KILL_GRACE_S
        # What is of its session was killed too, and dies in its own time.
        while any(one.session == self.pid for one in left.values()) and time.monotonic() < deadline:
            time.sleep(_DYING_S)
            left = _living(left)
        return tuple(f"{pid} ({one.name})" for pid, one in left.items())


class Runner(Protocol):
    """Runs programs to their end, here or in a container.

    A TargetError is raised where a program does not exist or may not be run, a MeasurementError
    where it did not end in time.
    """

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command to its end and return what it printed."""


class Processes:
    """Programs of this machine."""

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command to its end; on timeout or interruption its whole group is killed."""
        process = _spawn_mortal(command)
        try:
            out, err = process.communicate(stdin.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            kill_group(process)
            message = f"{command.argv[0]} did not end within {timeout_s:.0f} s and was killed"
            raise MeasurementError(message, hint="Is the server hanging?") from error
        except BaseException:
            kill_group(process)
            raise
        return Completed(
            argv=command.argv,
            exit_status=process.returncode,
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
        )

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> Together:
        """Start commands at the same time and return them; whoever asks for them closes them.

        Used as a context around them: on timeout or interruption their groups are killed.
        """
        together = Together(timeout_s=timeout_s)
        try:
            for command in commands:
                together.add(command, _spawn_mortal(command))
        except BaseException:
            together.close()
            raise
        return together

    def start(self, command: Command, *, output: Path, stdin: str | None = None) -> RunningProcess:
        """Start a command whose standard output and error are appended to a file.

        It reads ``stdin``, of which a pipe holds all (4 KiB at least), and its end when we end.
        """
        try:
            # The directory may belong to the server's account: no link in it is followed.
            log = os.open(output, _APPEND, 0o600)
        except OSError as error:
            raise TargetError(f"{output} cannot be written: {error.strerror}") from error
        try:
            process = _spawn(command, stdout=log, stderr=log, reads=stdin is not None)
        finally:
            os.close(log)
        if process.stdin is not None and stdin is not None:
            with suppress(BrokenPipeError):  # it has ended, and its status says why
                process.stdin.write(stdin.encode())
                process.stdin.flush()
        return RunningProcess(process)

    def within(self, directory: Path) -> tuple[int, ...]:
        """Return the ids of processes whose working directory is in ``directory``."""
        root = os.path.realpath(directory)
        return tuple(
            pid
            for pid, cwd in _working_directories()
            if cwd.removesuffix(" (deleted)") == root or cwd.startswith(root + os.sep)
        )

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to any process; nothing happens when it is gone."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            message = f"process {pid} belongs to another account"
            raise PrivilegeError(message, hint="Run the command as that account or as root.") from (
                error
            )


@dataclass(frozen=True, slots=True)
class _Relation:
    """A process as ``/proc/PID/stat`` shows it.

    Attributes:
        started: In ticks since the boot; tells a process from a later one with its id.
    """

    name: str
    runs: bool
    parent: int
    session: int
    started: int


def _relations() -> dict[int, _Relation]:
    """Return all processes by their ids."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = entry.read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # it ended
        words = after.split()
        found[int(entry.parent.name)] = _Relation(
            name=before.partition("(")[2],
            runs=words[0] not in {"Z", "X"},
            parent=int(words[1]),
            session=int(words[3]),
            started=int(words[19]),
        )
    return found


def _family(leader: int) -> dict[int, _Relation]:
    """Return who is of a leader's session, or was started by one of them and left it."""
    everybody = _relations()
    family = {pid: one for pid, one in everybody.items() if one.session == leader}
    while more := {
        pid: one for pid, one in everybody.items() if one.parent in family and pid not in family
    }:
        family |= more
    return family


def _living(family: Mapping[int, _Relation]) -> dict[int, _Relation]:
    """Return those of a family that still run."""
    now = _relations()
    return {
        pid: now[pid]
        for pid, one in family.items()
        if pid in now and now[pid].started == one.started and now[pid].runs
    }


def _spawn_mortal(command: Command) -> "subprocess.Popen[bytes]":
    """Start a command that does not outlive us: one that goes on would race the clean-up."""
    number = command.parent_death_signal or signal.SIGKILL
    mortal = replace(command, parent_death_signal=number)
    return _spawn(mortal, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _spawn(
    command: Command, *, stdout: int, stderr: int, reads: bool = False
) -> "subprocess.Popen[bytes]":
    user, group, home = _identity(command.account)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # Opened as root: the kernel asks who opened the file, not who writes, since Linux 5.16.
    entrances = _entrances(command.groups)
    try:
        return subprocess.Popen(
            command.whole_argv,
            stdin=subprocess.PIPE if reads or stdout == subprocess.PIPE else subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=command.directory,
            env={**inherited, **home, **command.environment},
            user=user,
            group=group,
            extra_groups=[] if user is not None else None,
            start_new_session=True,
            preexec_fn=_in_child(command.parent_death_signal, entrances),  # noqa: PLW1509 - C calls only
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TargetError(
            f"{error.filename or command.argv[0]} does not exist",
            hint="Check `bin:` and the installation of the program.",
        ) from error
    except PermissionError as error:
        raise TargetError(
            f"{command.argv[0]} may not be run by {command.account or 'this account'}",
            hint="Check the permissions of the program and of the directories above it.",
        ) from error
    except OSError as error:
        raise TargetError(
            f"{command.argv[0]} cannot be run: {error.strerror}",
            hint="Was it built for another machine, or is the file damaged?",
        ) from error
    except subprocess.SubprocessError as error:
        raise TargetError(
            f"{command.argv[0]} could not join {', '.join(map(str, command.groups))}",
            hint="A kernel before 5.16 may need its security updates for `cgroup:`.",
        ) from error
    finally:
        for descriptor in entrances:
            os.close(descriptor)


def _entrances(groups: tuple[Path, ...]) -> tuple[int, ...]:
    """Return open descriptors of the files through which processes join groups."""
    opened: list[int] = []
    for directory in groups:
        try:
            opened.append(os.open(directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            raise TargetError(
                f"the control group {directory} cannot be joined: {error.strerror}",
                hint="Did somebody remove it? Run the campaign again.",
            ) from error
    return tuple(opened)


def _identity(account: str | None) -> tuple[int | None, int | None, dict[str, str]]:
    """Return uid, gid and environment of an account; nothing to change when it is our own."""
    if account is None or os.geteuid() != 0:
        return None, None, {}
    entry = account_entry(account)
    return entry.pw_uid, entry.pw_gid, {"HOME": entry.pw_dir, "USER": account}


def account_entry(account: str) -> pwd.struct_passwd:
    """Return the passwd entry of an account; with a group of our own where everybody shares it.

    Other processes run as ``nobody``, too. They are not in that group, and a directory that belongs
    to it and to root is closed to them; nor may they look into a process of another group.

    Raises:
        PrivilegeError: There is no such account.
    """
    try:
        entry = pwd.getpwnam(account)
        return entry if account != SHARED else pwd.struct_passwd((*entry[:3], _GROUP, *entry[4:]))
    except KeyError as error:
        raise PrivilegeError(
            f"there is no account {account!r} on this machine",
            hint="Name an unprivileged one with `run_as:` in the target.",
        ) from error


def _in_child(death_signal: int, entrances: tuple[int, ...] = ()) -> Callable[[], None]:
    """Return what a child does between fork and exec.

    Threads of ours may hold any lock at the fork, so it takes none: it is a frame that makes system
    calls. What Python does by itself there is prepared for threads: ``subprocess`` collects no
    garbage, which could close connections that the child shares; the interpreter makes its locks
    anew, and ``threading``, ``logging`` and ``random`` theirs; glibc that of its memory.
    """
    parent = os.getpid()

    def prepare() -> None:
        # A background job ignores these, and its children would: a server could not be stopped.
        for number in _STOPPING:
            _SIGNAL(number, None)
        if death_signal:
            # After the change of account, which clears it; before exec, which keeps it.
            _PRCTL(_PR_SET_PDEATHSIG, death_signal)
            if os.getppid() != parent:  # it died before it could be told
                os.kill(os.getpid(), _KILL)
        for descriptor in entrances:
            os.write(descriptor, b"0")  # the kernel's word for whoever writes it

    return prepare


def _working_directories() -> Iterator[tuple[int, str]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                # Of every process, often: building a path takes longer than reading the link.
                yield int(entry.name), os.readlink(f"{entry.path}/cwd")  # noqa: PTH115
            except OSError:
                continue  # it ended, or belongs to somebody else


def answer_of(
    module: str, *arguments: str, processes: Processes, directory: Path, timeout_s: float
) -> Any:  # noqa: ANN401 - JSON; the caller is in this package and makes a dataclass of it
    """Return what a module prints as JSON when it is run as a program.

    Args:
        module: Its full name.
        arguments: Of the program.
        processes: Runs it.
        directory: Its working directory, by which it is recognised when Steelyard dies.
        timeout_s: After which it is killed.

    Raises:
        MeasurementError: It failed, took too long or gave a reason for having no answer.
    """
    # -P: whatever lies in the working directory is no module.
    argv = (sys.executable, "-P", "-m", module, *arguments)
    completed = processes.run(Command(argv=argv, directory=directory), timeout_s=timeout_s)
    try:
        answer = json.loads(completed.stdout)
    except ValueError as error:
        said = completed.tail(1) or "nothing"
        raise MeasurementError(f"python -m {module} failed: it said {said}") from error
    if "unknown" in answer:
        raise MeasurementError(str(answer["unknown"]))
    return answer


class Operator:
    """Somebody who can be asked to do something by hand; here nobody, without a terminal."""

    @property
    def is_there(self) -> bool:
        """Return whether there is anybody to ask."""
        return False

    def confirms(
        self,
        request: str,  # noqa: ARG002 - nobody hears
        *,
        timeout_s: float,  # noqa: ARG002
        then: str = "when it is done",  # noqa: ARG002
    ) -> bool:
        """Ask for something; return whether it was confirmed in time, which ``then`` says."""
        return False
