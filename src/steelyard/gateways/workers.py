"""The only door to Dask: schedulers with workers, of a campaign or of others, and their actors.

Whoever reaches a scheduler runs any code on all workers. So both take TLS alone, with a certificate
that is made for the campaign and lies in a private directory, in files of mode 600; without it
nobody is let in. Pages of their own they serve to nobody.

They are programs of this machine, which the kernel ends with Steelyard. What is lost or does not
answer ends all of them: the next call for workers starts new ones.

Workers on hosts are reached over ssh alone. Each listens on its loopback, as our scheduler does:
ssh forwards a port in each direction. The certificate goes through its input,
and stays in memory there. The worker ends when that input does.

An existing scheduler has TLS, too; what shows it who we are is in Dask's own configuration. Its
workers are left as they are: our actors go with our connection. What is lost there is waited for.

``distributed`` is imported when workers are started, and this module is their program.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import steelyard
from steelyard.core.outside import Command
from steelyard.core.places import WorkersAsked
from steelyard.core.wording import MeasurementError, PreflightError
from steelyard.gateways.files import read_text, remove_tree, short_directory
from steelyard.gateways.host import Clock, free_port, looks, until
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.gateways.ssh import parse_destination, ssh_command

_HOST: Final = "127.0.0.1"
_SCHEDULER: Final = "scheduler"
_WORKER: Final = "worker"
_REMOTE: Final = "remote"
_POD: Final = "pod"
_ADDRESS: Final = "scheduler.json"
_NO_PATH: Final = str.maketrans(" /", "__")
_CERTIFICATE, _KEY = "certificate.pem", "key.pem"
_PODS_START_S: Final = 300.0  # a guess: a node may have to get the image first
_START_S: Final = 60.0  # a guess: imports take some seconds of CPU, on a busy machine more
_ANSWER_S: Final = 10.0  # a guess: beyond that a worker hangs
_CLOSE_S: Final = 1.0
_END_S: Final = 5.0  # of a worker far away: its generators are told to end, and its files removed
_AGAIN_S: Final = 2.0  # between two looks for an existing scheduler
_LOOK_S: Final = 0.5  # at who has died, while an answer is waited for
_POLL_S: Final = 0.05
# On a host: our own Python if it is there, else that of the command `steelyard`, else python3. The
# directory goes also if the worker is killed.
_FIND_PYTHON: Final = (
    'for python in "$1" "$(sed -n "1s/^#!//p" "$(command -v steelyard)" 2>/dev/null)" python3; do'
    ' if "$python" -P -c "from importlib.util import find_spec as f;'
    " exit(not (f('steelyard') and f('distributed') and f('cryptography')))\" 2>/dev/null; then"
    ' home=$(mktemp -d "${TMPDIR:-/tmp}/steelyard-XXXXXX") && "$python" -P -m "$2" "$3" "$home";'
    ' status=$?; rm -rf "$home"; exit $status; fi; done;'
    ' echo "no Python here has steelyard with its extra workers" >&2; exit 1'
)
# One connection of its own, whose end is that of the worker.
_TUNNEL: Final = (
    *("-o", "ExitOnForwardFailure=yes"),
    *("-o", "ControlMaster=no"),
    *("-o", "ControlPath=none"),
)
# What a worker does beside our calls would be in what is measured.
_QUIET: Final = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
}


def require_workers() -> None:
    """Raise a PreflightError where what starts workers is not installed."""
    absent = [name for name in ("distributed", "cryptography") if find_spec(name) is None]
    if absent:
        raise PreflightError(
            f"`generator.workers` needs {' and '.join(absent)}, which this Python does not have",
            hint="Install it: pip install 'steelyard[workers]'.",
        )


class Pods(Protocol):
    """Pods that become workers of a scheduler in this pod."""

    @property
    def address(self) -> str:
        """Return where they reach this one."""

    def begin(self, number: int, files: Mapping[str, str]) -> None:
        """Make so many, which find these files."""

    def trouble(self) -> str:
        """Return why a pod does not run; empty if that is not known."""

    def end(self) -> None:
        """Remove them."""


class Workers:
    """So many workers, from the first call for them until ``close``.

    Args:
        wanted: How many, and where.
        processes: Starts their programs.
        clock: To wait by.
        created: Hears of a directory before it is made.
        removed: Hears of it when it is gone.
        pods: Are the workers; None: there are other ones.

    Attributes:
        generation: Another one after each end: actors of an earlier one are lost.
    """

    def __init__(
        self,
        wanted: WorkersAsked,
        processes: Processes,
        clock: Clock,
        *,
        created: Callable[[Path], None],
        removed: Callable[[Path], None],
        pods: Pods | None = None,
    ) -> None:
        self._pods = pods
        self.number = wanted.number
        self._hosts = wanted.hosts
        self._at_least = wanted.at_least or wanted.number
        self._fewest, self._were_up = wanted.number, False  # before a loss all are needed
        self._scheduler, self._wait_s = wanted.scheduler, wanted.wait_s
        self.generation = 0
        self._processes = processes
        self._clock = clock
        self._created, self._removed = created, removed
        self._home: Path | None = None
        self._programs: dict[str, RunningProcess] = {}
        self._client: Any = None
        self._chosen: list[str] = []

    @property
    def are_ours(self) -> bool:
        """Return whether they are programs of this machine."""
        return self._scheduler is None and not self._hosts and self._pods is None

    def actors(self, kind: type) -> tuple[Any, ...]:
        """Return a new actor of a class on each worker, in their order; workers are started now.

        Raises:
            MeasurementError: A worker does not start.
        """
        if not self.run():
            self.stop()
            if self.are_ours:
                self._start()
            else:
                self._reach()
            self._were_up, self._fewest = True, self._at_least
        client = self._client
        try:
            return tuple(
                client.submit(
                    kind, actor=True, workers=[address], pure=False, allow_other_workers=False
                ).result(timeout=_ANSWER_S)
                for address in self._chosen
            )
        except Exception as error:
            raise self._lost(error) from error

    def run(self) -> bool:
        """Return whether all were started and still run."""
        return self._client is not None and not self._dead()

    def _addresses(self) -> list[str]:
        """Return the workers that the scheduler has, in an order that stays."""
        known = self._client.scheduler_info(n_workers=-1)["workers"]
        names = {address: str(known[address]["name"]) for address in known}
        return sorted(known, key=lambda address: (len(names[address]), names[address]))

    def call(
        self,
        actors: Sequence[Any],
        method: str,
        *arguments: Sequence[object],
        within_s: float = 0.0,
    ) -> list[Any]:
        """Call a method of actors at the same time; return what each gave.

        Args:
            actors: On different workers.
            method: Its name.
            arguments: Of each, in order; none: none of them has any.
            within_s: How long it takes by itself.

        Raises:
            MeasurementError: A worker is lost or does not answer: then all of them are ended.
        """
        return self.answers(self.send(actors, method, *arguments), within_s=within_s)

    def send(self, actors: Sequence[Any], method: str, *arguments: Sequence[object]) -> list[Any]:
        """Call a method as ``call`` does, and return futures of ``answers``."""
        given = arguments or ((),) * len(actors)
        try:
            return [getattr(actor, method)(*own) for actor, own in zip(actors, given, strict=True)]
        except Exception as error:
            raise self._lost(error) from error

    def answers(self, futures: Sequence[Any], *, within_s: float = 0.0) -> list[Any]:
        """Return what calls gave; an error of an actor is raised as it is."""
        ends = self._clock.monotonic() + within_s + _ANSWER_S
        return [self._answer(future, ends) for future in futures]

    def _answer(self, future: Any, ends: float) -> Any:  # noqa: ANN401 - of Dask
        while True:
            left_s = ends - self._clock.monotonic()
            try:
                return future.result(timeout=max(min(left_s, _LOOK_S), _POLL_S))
            except TimeoutError as error:
                if left_s <= 0.0 or self._dead():
                    raise self._lost(error) from error
            except MeasurementError:
                raise
            except Exception as error:
                raise self._lost(error) from error

    def _dead(self) -> str:
        """Return the name of what has ended; empty if all run."""
        if self._scheduler is not None:
            return self._missing()
        ended = (name for name, each in self._programs.items() if _ended(each))
        return next(ended, "") or (self._missing() if self._pods and self._chosen else "")

    def _missing(self) -> str:
        """Return which of the workers that we have chosen is gone, or the scheduler."""
        try:
            there = set(self._addresses()) if self._client.status == "running" else None
        except Exception:  # noqa: BLE001 - it does not answer
            there = None
        if there is None:
            return _SCHEDULER
        places = (n for n, address in enumerate(self._chosen, 1) if address not in there)
        return next((f"{_WORKER} {place}" for place in places), "")

    def _reach(self) -> None:
        """Reach workers on other machines, once there are enough.

        Those of an existing scheduler are waited for from the start, hosts only after a loss.

        Raises:
            MeasurementError: There are too few in time. A second wait is not granted.
        """
        wait_s, self._wait_s, trouble = self._wait_s, 0.0, ""
        patience_s = wait_s if self._scheduler or self._were_up else 0.0
        for _ in looks(self._clock, patience_s, _AGAIN_S):
            trouble = self._attempt()
            if not trouble:
                break
        else:
            self._fewest = self._at_least
            trouble = self._attempt() if self._at_least < self.number else trouble
        if trouble:
            who = "the hosts were" if self._hosts else "the pods of workers were"
            who = f"the scheduler at {self._scheduler} was" if self._scheduler else who
            waited = f"waited for {patience_s:.0f} s" if patience_s else "not reached"
            raise MeasurementError(f"{who} {waited}: {trouble}", hint=self._way_out())
        self._wait_s = wait_s

    def _way_out(self) -> str:
        if self._pods:
            return "The events of the cluster say more: kubectl get events."
        if self._hosts:
            return "Does `ssh -o BatchMode=yes HOST true` work, and has each steelyard[workers]?"
        return "Are certificates in Dask's configuration (DASK_DISTRIBUTED__COMM__TLS__CA_FILE)?"

    def _attempt(self) -> str:
        """Reach enough workers now; return why not; empty if it could."""
        try:
            if self._scheduler is None:
                self._start()
            else:
                self._connect(self._scheduler)
        except MeasurementError as error:
            return error.message
        return ""

    def _connect(self, scheduler: str) -> None:
        connected, shown = _dask()
        try:
            self._client = connected(
                scheduler, security=shown(), direct_to_workers=True, timeout=_ANSWER_S
            )
            self._chosen = self._addresses()[: self.number]
        except Exception as error:
            self._close()
            raise MeasurementError(f"{type(error).__name__}: {error}") from error
        if len(self._chosen) < self._fewest:
            self._close()
            raise MeasurementError(f"it has {len(self._chosen)} of {self._fewest} workers")

    def _lost(self, error: Exception) -> MeasurementError:
        """End everything, and return why."""
        dead, trouble = self._dead(), f"{type(error).__name__}: {error}".rstrip(": ")
        log = self._home and read_text(self._home / _log_of(dead or _SCHEDULER))
        last = (log or "").strip().rpartition("\n")[2]
        self.stop()
        what = f"{dead} of the load generator is gone" if dead else "a worker does not answer"
        message = ": ".join(filter(None, (what, last or trouble)))
        return MeasurementError(message, hint="Was it killed, or has its machine no memory left?")

    def _start(self) -> None:
        connected, shown = _dask()
        self._home = short_directory("steelyard-", announce=self._created)
        made = shown.temporary()
        _write_private(self._home / _CERTIFICATE, made.tls_ca_file)
        _write_private(self._home / _KEY, made.tls_client_key)
        address = self._home / _ADDRESS
        self._begin(_SCHEDULER, self._pods.address if self._pods else _HOST)
        for place in range(self.number if self.are_ours else 0):
            self._begin(_WORKER, str(place))
        self._await(address.exists)
        if self._pods is not None:
            names = (_CERTIFICATE, _KEY, _ADDRESS)
            files = {name: read_text(self._home / name) or "" for name in names}
            self._pods.begin(self.number, files)
        for place, host in enumerate(self._hosts):
            self._begin_on(host, str(place))
        try:
            self._client = connected(
                scheduler_file=str(address),
                security=security_of(self._home),
                direct_to_workers=True,
                timeout=_START_S,
            )
        except Exception as error:
            raise self._lost(error) from error
        self._await(self._are_up)
        self._chosen = self._addresses()

    def _are_up(self) -> bool:
        """Return whether all workers are there; those that ended are given up if others suffice."""
        workers = {name: each for name, each in self._programs.items() if name != _SCHEDULER}
        ended = [name for name, program in workers.items() if _ended(program)]
        if len(workers) - len(ended) >= self._fewest:
            for name in ended:
                self._programs.pop(name).kill_all()
        return len(self._addresses()) >= (self.number if self._pods else len(self._programs) - 1)

    def _await(self, is_there: Callable[[], bool]) -> None:
        """Return once what is started is there; a MeasurementError where a program ended."""
        within_s = _PODS_START_S if self._pods else _START_S
        until(lambda: is_there() or bool(self._dead()), self._clock, within_s, _POLL_S)
        if self._dead() or not is_there():
            why = self._pods.trouble() if self._pods else ""
            raise self._lost(TimeoutError(why or f"not started within {within_s:.0f} s"))

    def _begin(self, *words: str) -> None:
        assert self._home is not None  # noqa: S101 - it was made just before
        command = Command(
            argv=(sys.executable, "-P", "-m", __name__, *words, str(self._home)),
            environment={"PYTHONPATH": str(Path(steelyard.__file__).parents[1])},
            directory=self._home,
            parent_death_signal=signal.SIGKILL,
        )
        name = _SCHEDULER if words[0] == _SCHEDULER else f"{_WORKER} {int(words[1]) + 1}"
        output = self._home / _log_of(name)
        self._programs[name] = self._processes.start(command, output=output)

    def _begin_on(self, host: str, place: str) -> None:
        """Start a worker on a host, and the way to it and back."""
        assert self._home is not None  # noqa: S101 - it was made just before
        scheduler = json.loads(read_text(self._home / _ADDRESS) or "{}")["address"]
        ours = scheduler.rpartition(":")[2]
        theirs, listens, here = free_port(), free_port(), free_port()
        about = {
            "name": place,
            "scheduler": f"tls://{_HOST}:{theirs}",
            "port": listens,
            "contact": f"tls://{_HOST}:{here}",
            "certificate": read_text(self._home / _CERTIFICATE),
            "key": read_text(self._home / _KEY),
        }
        uri = host if "://" in host else f"ssh://{host}"
        command = ssh_command(
            parse_destination(uri),
            shlex.join(("sh", "-c", _FIND_PYTHON, "sh", sys.executable, __name__, _REMOTE)),
            *_TUNNEL,
            *("-R", f"{_HOST}:{theirs}:{_HOST}:{ours}"),
            *("-L", f"{_HOST}:{here}:{_HOST}:{listens}"),
            parent_death_signal=signal.SIGKILL,
        )
        name = f"{_WORKER} {int(place) + 1} on {host}"
        self._programs[name] = self._processes.start(
            command, output=self._home / _log_of(name), stdin=json.dumps(about) + "\n"
        )

    def stop(self) -> None:
        """End all programs, and whatever they have started; remove the certificate."""
        self.generation += 1
        self._close()
        self._chosen = []
        programs, self._programs = self._programs, {}
        for program in reversed(programs.values()):
            program.kill_all()
        home, self._home = self._home, None
        if home is not None:
            remove_tree(home)
            self._removed(home)
        if self._pods is not None:
            self._pods.end()

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # who would answer may be gone
                client.close(timeout=_CLOSE_S)

    close = stop


def _dask() -> tuple[Any, Any]:
    """Return the classes of a client and of what it shows, imported without words of theirs."""
    import dask  # noqa: PLC0415 - large, and only where used

    dask.config.set({"logging": dict.fromkeys(("distributed", "tornado"), "critical")})
    from distributed import Client, Security  # noqa: PLC0415 - likewise

    return Client, Security


def _ended(program: RunningProcess) -> bool:
    return program.exit_status() is not None


def _log_of(name: str) -> str:
    return f"{name.translate(_NO_PATH)}.log"


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - of a descriptor
        file.write(text)


def security_of(home: Path) -> Any:  # noqa: ANN401 - of Dask
    """Return what scheduler, workers and client show each other, by files of a directory."""
    return _security(str(home / _CERTIFICATE), str(home / _KEY))


def _security(certificate: str, key: str) -> Any:  # noqa: ANN401 - of Dask
    """Return the same of two files, or of their contents."""
    from distributed import Security  # noqa: PLC0415 - large, and only where used

    roles: dict[str, str] = {}
    for role in ("client", _SCHEDULER, _WORKER):
        roles |= {f"tls_{role}_cert": certificate, f"tls_{role}_key": key}
    return Security(require_encryption=True, tls_ca_file=certificate, **roles)


_QUIETLY: Final[dict[str, Any]] = {"protocol": "tls", "dashboard_address": f"{_HOST}:0"}
_ALONE: Final[dict[str, Any]] = {"nthreads": 1, "memory_limit": 0}


async def _serve(role: str, name: str, home: Path) -> None:
    """Be a scheduler or a worker until somebody ends it.

    Args:
        role: Of the two, or that of a pod.
        name: Of a worker; of a scheduler the address to listen on.
        home: Has the certificate.
    """
    from distributed import Scheduler, Worker  # noqa: PLC0415 - large, and only where used

    common = {
        **_QUIETLY,
        "host": _HOST,
        "security": security_of(home),
        "scheduler_file": str(home / _ADDRESS),
    }
    server: Any
    if role == _SCHEDULER:
        server = Scheduler(port=0, dashboard=False, **{**common, "host": name})
    elif role == _POD:
        common["host"] = os.environ["POD_IP"]
        name = os.environ["HOSTNAME"]
        server = Worker(name=name, local_directory=tempfile.gettempdir(), **_ALONE, **common)
    else:
        server = Worker(name=name, local_directory=str(home), **_ALONE, **common)
    async with server:
        server.http_server.stop()
        await server.finished()


async def _serve_from_afar(about: dict[str, Any], home: str, is_over: asyncio.Event) -> None:
    """Be a worker until its scheduler is gone, or an event happens."""
    from distributed import Worker  # noqa: PLC0415 - large, and only where used

    server: Any = Worker(
        about["scheduler"],
        name=about["name"],
        host=_HOST,
        port=about["port"],
        contact_address=about["contact"],
        security=_security(about["certificate"], about["key"]),
        local_directory=home,
        **_ALONE,
        **_QUIETLY,
    )
    async with server:
        server.http_server.stop()
        ends = [asyncio.ensure_future(wait) for wait in (server.finished(), is_over.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for actor in tuple(server.state.actors.values()):
            with suppress(Exception):  # the others have to end, too
                actor.close()


def _be_remote(home: str) -> None:
    """Be the worker that the first line of the input describes, until the input ends."""
    about = json.loads(sys.stdin.buffer.readline())
    ends: list[Callable[[], object]] = []

    def watch() -> None:
        sys.stdin.buffer.read()
        for end in ends:
            end()
        time.sleep(_END_S if ends else 0.0)
        os._exit(1)  # it may wait for a scheduler that is gone; its directory is the shell's

    async def serve() -> None:
        is_over = asyncio.Event()
        ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, is_over.set))
        await _serve_from_afar(about, home, is_over)

    threading.Thread(target=watch, daemon=True).start()
    _be_quiet()
    asyncio.run(serve())
    os._exit(0)  # a thread that still waits for a call keeps nothing alive


def _be_quiet() -> None:
    import dask  # noqa: PLC0415 - large, and only where used

    dask.config.set(_QUIET)


def pod_command(directory: str) -> tuple[str, ...]:
    """Return what a pod runs to be a worker, with the files in a directory."""
    return ("python3", "-P", "-m", __name__, _POD, directory)


def main(words: Sequence[str]) -> None:
    """Be the program that the words name: a role, of a worker its number, and the directory."""
    role, *number, home = words
    if role == _REMOTE:
        _be_remote(home)
        return
    _be_quiet()
    asyncio.run(_serve(role, "".join(number), Path(home)))


if __name__ == "__main__":
    main(sys.argv[1:])
