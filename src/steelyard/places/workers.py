"""Load generators on Dask workers: started, paused and ended there as they are here.

On each worker an actor has the generators of one server. It uses what takes turns on this machine:
``PausedGenerators``. What begins or goes on does so on all workers at an instant that is agreed
before. Each worker's clock is compared with ours when its generators are about to begin: of several
round trips the shortest tells best, to half of its length.

A transaction log has the times of its worker's clock, so a worker whose clock is apart from ours
puts no load on.

Workers on other machines get the files that a generator reads, at the same paths, and give back
what it wrote. A program that is not at its path there is looked for in their PATH. When our
connection ends, however, the actor goes, and with it its generators and files.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any, Final

import steelyard
from steelyard.core.measurement import Quantity
from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import Pausing
from steelyard.core.wording import MeasurementError, PreflightError
from steelyard.gateways.files import make_directory, read_text, write_text
from steelyard.gateways.host import Clock, LocalHost
from steelyard.gateways.process import Processes, Together
from steelyard.gateways.workers import Workers
from steelyard.places.local.groups import PausedGenerators

_TRIPS: Final = 8  # a guess
_LEAD_S: Final = 0.02  # a guess: so long before an agreed instant all workers hear of it, at least
_DOUBTS_OF_LEAD: Final = 8.0  # a guess: four round trips
_APART_S: Final = 0.005  # a guess: a thirtieth of what counts of a turn
_VERSION_S: Final = 30.0
_FETCH_S: Final = 60.0  # a guess


def versions(program: str) -> tuple[str, str]:
    """Return the version of Steelyard, and what a load generator says of itself."""
    command = Command(argv=(_program(program), "--version"))
    told = Processes().run(command, timeout_s=_VERSION_S)
    return steelyard.__version__, told.stdout.strip()


def _program(path: str) -> str:
    """Return a program where it is; one of its name in PATH if it is not there."""
    return path if Path(path).exists() else which(Path(path).name) or path


class Hand:
    """The generators of one server on one worker: an actor."""

    def __init__(self) -> None:
        self._clock, self._host = Clock(), LocalHost()
        self._generators = PausedGenerators(Processes(), self._clock)
        self._running: Together | None = None
        self._files: dict[Path, None] = {}
        self._made: list[Path] = []  # directories, parents first
        self._written: tuple[Path, ...] = ()

    def __del__(self) -> None:
        """Do as ``close`` does: the connection to whoever made this has ended."""
        with suppress(Exception):
            self.close()

    async def now(self) -> float:
        """Return the wall clock; without a change of threads on the way."""
        return self._clock.now()

    def versions(self, program: str) -> tuple[str, str]:
        """Return the versions that are here."""
        return versions(program)

    def take(self, files: Mapping[Path, str], commands: Sequence[Command]) -> float:
        """Put files where generators read them, and make room for what these write.

        Returns the CPUs that they may use.
        """
        self._written = tuple(each.writes for each in commands if each.writes is not None)
        wanted = {path.parent for path in (*files, *self._written)}
        wanted |= {each.directory for each in commands if each.directory is not None}
        for directory in sorted(wanted):
            self._make(directory)
        for path, text in files.items():
            if read_text(path) != text:  # as on a shared file system
                self._files[path] = None
                write_text(path, text)
        return float(self._host.cpus())

    def _make(self, directory: Path) -> None:
        absent = [each for each in (directory, *directory.parents) if not each.exists()]
        for each in reversed(absent):
            self._made.append(each)
            make_directory(each, mode=0o700)

    def fetch(self) -> dict[Path, bytes]:
        """Return what generators have written, compressed; it is no longer here."""
        found = {}
        for prefix in self._written:
            for path in sorted(prefix.parent.glob(f"{prefix.name}*")):
                found[path] = zlib.compress(path.read_bytes(), level=1)
                path.unlink()
        return found

    def begin(
        self, commands: Sequence[Command], timeout_s: float, at: float
    ) -> tuple[float, tuple[int, ...]]:
        """Start generators at an instant; return when that was, and their processes."""
        commands = [
            replace(each, argv=(_program(each.argv[0]), *each.argv[1:])) for each in commands
        ]
        began = self._wait_for(at)
        self._running = self._generators.begin_together(commands, timeout_s=timeout_s)
        return began, self._running.pids

    def proceed(self, at: float) -> float:
        """Let them go on at an instant; return when that was."""
        began = self._wait_for(at)
        self._generators.standstill.proceed()
        return began

    def pause(self) -> bool:
        """Let them stand still; return whether they do, in time."""
        return self._generators.standstill.pause()

    def all_run(self) -> bool:
        """Return whether all still run."""
        return self._running is not None and self._running.all_run()

    def signal(self, number: int) -> None:
        """Send them a signal."""
        if self._running is not None:
            self._running.signal(number)

    def completed(self, within_s: float) -> tuple[tuple[Completed, ...], float]:
        """Return what each printed once all have ended, and their CPU time."""
        assert self._running is not None  # noqa: S101 - since they began
        before_s = self._host.children_cpu_s()
        completed = self._running.completed(within_s=within_s)
        return completed, self._host.children_cpu_s() - before_s

    def close(self) -> None:
        """End those that still run."""
        running, self._running = self._running, None
        if running is not None:
            self._generators.standstill.proceed()
            running.close()
        if self._made or self._files:
            self.fetch()
        for path in self._files:
            path.unlink(missing_ok=True)
        self._files.clear()
        while self._made:
            with suppress(OSError):  # somebody else uses it, too
                self._made.pop().rmdir()

    def _wait_for(self, at: float) -> float:
        self._clock.sleep(max(at - self._clock.now(), 0.0))
        return self._clock.now()


@dataclass(slots=True, kw_only=True)
class Starts:
    """When the generators of one server began and went on, on all its workers.

    Attributes:
        offsets_s: How far each worker's clock is ahead of ours.
        doubts_s: How wrong each of them may be: half of the shortest round trip.
        skew_s: From the first worker to the last, the most of all starts.
        cpus: Of all workers together; None: they are on this machine.
    """

    offsets_s: Sequence[float]
    doubts_s: Sequence[float]
    skew_s: float = 0.0
    cpus: float | None = None

    @property
    def lead_s(self) -> float:
        """Return how long before an instant it has to be agreed."""
        return max(_LEAD_S, _DOUBTS_OF_LEAD * max(self.doubts_s))

    @property
    def doubt_s(self) -> float:
        """Return how much larger the skew may be: two clocks are compared."""
        return sum(sorted(self.doubts_s)[-2:]) if len(self.doubts_s) > 1 else 0.0

    def require_together(self) -> None:
        """Raise a MeasurementError where a worker's clock is apart from ours for certain."""
        for number, (offset_s, doubt_s) in enumerate(
            zip(self.offsets_s, self.doubts_s, strict=True), start=1
        ):
            if abs(offset_s) - doubt_s > _APART_S:
                where = "ahead of" if offset_s > 0 else "behind"
                raise MeasurementError(
                    f"the clock of worker {number} is {abs(offset_s):.3g} s {where} ours"
                    f" (known to {doubt_s:.2g} s)",
                    hint="Let chrony or another NTP client set the clocks of all workers.",
                )

    def note(self, began: Sequence[float]) -> None:
        """Take note of a start, of each worker by its own clock."""
        ours = [at - offset_s for at, offset_s in zip(began, self.offsets_s, strict=True)]
        self.skew_s = max(self.skew_s, max(ours) - min(ours))

    def levels(self) -> dict[str, float]:
        """Return them as evidence has them: the skew includes its doubt."""
        cpus = {} if self.cpus is None else {Quantity.GENERATOR_CPUS.value: self.cpus}
        return {
            **cpus,
            Quantity.WORKERS: float(len(self.offsets_s)),
            Quantity.START_SKEW_S: round(self.skew_s + self.doubt_s, 6),
            Quantity.START_DOUBT_S: round(self.doubt_s, 6),
        }


class RunningThere(Together):
    """Generators on workers that belong together; whatever ends this ends all of them.

    A worker that is lost is told by ``completed``: until then its generators have ended.
    """

    def __init__(self, workers: Workers, hands: Sequence[Any], clock: Clock) -> None:
        super().__init__(timeout_s=0.0)
        self._workers, self._generation = workers, workers.generation
        self._hands = hands
        self._wall = clock
        self._starts = self._compared()
        self._within_s = 0.0
        self._known: tuple[int, ...] = ()
        self._runs = False
        self._stands = False
        self._agreed: list[Any] = []
        self._failure: MeasurementError | None = None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        self._known, self._runs = (), False
        with self._losing():
            self._call("close")

    def _compared(self) -> Starts:
        """Return how far the clocks are apart, by the shortest of some round trips to each.

        Raises:
            MeasurementError: One is apart for certain, or a worker is lost.
        """
        trips = [min(self._trip(hand) for _ in range(_TRIPS)) for hand in self._hands]
        starts = Starts(offsets_s=[o for _, o in trips], doubts_s=[t / 2.0 for t, _ in trips])
        starts.require_together()
        return starts

    def _trip(self, hand: Any) -> tuple[float, float]:  # noqa: ANN401 - of Dask
        """Return how long a round trip took, and how far the clock seemed ahead in its middle."""
        asked_at = self._wall.now()
        (there,) = self._workers.call([hand], "now")
        answered_at = self._wall.now()
        return answered_at - asked_at, there - (asked_at + answered_at) / 2.0

    def begin(self, parts: Sequence[Sequence[Command]], timeout_s: float) -> None:
        """Start them at an instant, each part on a worker.

        Raises:
            MeasurementError: A worker is lost.
        """
        self._within_s = timeout_s
        if not self._workers.are_ours:
            paths = {path for part in parts for each in part for path in each.reads}
            files = {path: path.read_text(encoding="utf-8") for path in sorted(paths)}
            self._starts.cpus = sum(self._call("take", *((files, part) for part in parts)))
        _, instants = self._instant()
        orders = [(part, timeout_s, at) for part, at in zip(parts, instants, strict=True)]
        began = self._call("begin", *orders)
        self._starts.note([at for at, _ in began])
        self._runs = True
        if self._workers.are_ours:  # others mean nothing here
            self._known = tuple(pid for _, pids in began for pid in pids)

    def announce(self) -> None:
        """Agree on an instant at which those that stand still go on, and return then."""
        if self._stands:
            with self._losing():
                at, instants = self._instant()
                self._agreed = self._send("proceed", *((instant,) for instant in instants))
                self._wall.sleep(max(at - self._wall.now(), 0.0))

    def proceed(self) -> None:
        """Let those that stand still go on."""
        if self._stands and not self._agreed:
            self.announce()
        agreed, self._agreed, self._stands = self._agreed, [], False
        if agreed:
            with self._losing():
                self._starts.note(self._workers.answers(agreed))

    def pause(self) -> bool:
        """Let them stand still; return whether all do in time: else all go on."""
        if not self._runs:
            return True
        self._stands, still = True, [False]
        with self._losing():
            still = self._call("pause")
        if not all(still):
            self.proceed()
        return all(still)

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process ids of those that began."""
        return self._known

    def all_run(self) -> bool:
        """Return whether all still run, and so do their workers."""
        run = [False]
        with self._losing():
            run = self._call("all_run")
        return all(run)

    def signal(self, number: int) -> None:
        """Send a signal to each that has not ended."""
        with self._losing():
            self._call("signal", *((number,) for _ in self._hands))

    def completed(self, *, within_s: float | None = None) -> tuple[Completed, ...]:
        """Return what each printed once all have ended.

        Raises:
            MeasurementError: One did not end in time, or a worker is lost.
        """
        if self._failure is not None:
            raise self._failure
        patience_s = self._within_s if within_s is None else within_s
        ended = self._send("completed", *((patience_s,) for _ in self._hands))
        told = self._workers.answers(ended, within_s=patience_s)
        self._known, self._runs = (), False
        if not self._workers.are_ours:
            self._keep(self._call("fetch", within_s=_FETCH_S))
        self.cpu_s += sum(cpu_s for _, cpu_s in told)
        return tuple(completed for printed, _ in told for completed in printed)

    @staticmethod
    def _keep(written: Sequence[Mapping[Path, bytes]]) -> None:
        """Write what generators wrote where they would have written it here."""
        for path, packed in (each for files in written for each in files.items()):
            write_text(path, zlib.decompress(packed).decode())

    def levels(self) -> dict[str, float]:
        return self._starts.levels()

    def _instant(self) -> tuple[float, list[float]]:
        """Return an instant that all can know in time, by our clock and by that of each worker."""
        at = self._wall.now() + self._starts.lead_s
        return at, [at + offset_s for offset_s in self._starts.offsets_s]

    def _call(self, method: str, *arguments: Sequence[object], within_s: float = 0.0) -> list[Any]:
        return self._workers.answers(self._send(method, *arguments), within_s=within_s)

    def _send(self, method: str, *arguments: Sequence[object]) -> list[Any]:
        if self._failure is not None or self._workers.generation != self._generation:
            raise self._failure or MeasurementError("the workers of the load have ended")
        return self._workers.send(self._hands, method, *arguments)

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Keep the loss of a worker for ``completed``."""
        try:
            yield
        except MeasurementError as error:
            self._failure = self._failure or error


class StandingThere:
    """A standstill of the generators on workers; servers go on."""

    kind: Final = Pausing.GENERATOR

    def __init__(self) -> None:
        self.running: RunningThere | None = None

    def announce(self) -> None:
        """Let what stands still go on at an agreed instant, and return then."""
        if self.running is not None:
            self.running.announce()

    def pause(self) -> bool:
        """Stop them; return whether all stand still in time."""
        return self.running is None or self.running.pause()

    def proceed(self) -> None:
        """Let them go on."""
        if self.running is not None:
            self.running.proceed()


class WorkerGenerators:
    """Starts the generators of one server on workers, and stops them between its turns."""

    def __init__(self, workers: Workers, clock: Clock) -> None:
        self.standstill = StandingThere()
        self._workers = workers
        self._clock = clock
        self._hands: tuple[Any, ...] = ()
        self._generation = -1

    def with_server(self, pid: int | None) -> StandingThere:  # noqa: ARG002 - servers go on
        """Return what stops the generators alone."""
        return self.standstill

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> Together:
        """Start generators at an agreed instant and return them while they run.

        Raises:
            MeasurementError: A worker is lost, or its clock is apart from ours.
            PreflightError: A worker has other versions.
        """
        hands = self._ready(commands[0].argv[0])[: len(commands)]
        parts = [tuple(commands[place :: len(hands)]) for place in range(len(hands))]
        running = self.standstill.running = RunningThere(self._workers, hands, self._clock)
        try:
            running.begin(parts, timeout_s)
        except BaseException:
            running.close()
            raise
        return running

    def _ready(self, program: str) -> tuple[Any, ...]:
        """Return a hand on each worker, once all have our versions."""
        if self._generation != self._workers.generation or not self._workers.run():
            self._hands = self._workers.actors(Hand)
            self._generation = self._workers.generation
            there = self._workers.call(self._hands, "versions", *([(program,)] * len(self._hands)))
            require_same(versions(program), there)
        return self._hands


def require_same(here: tuple[str, str], there: Sequence[tuple[str, str]]) -> None:
    """Raise a PreflightError where a worker has another Steelyard or load generator."""
    for number, found in enumerate(there, start=1):
        for name, ours, theirs in zip(("Steelyard", "load generator"), here, found, strict=True):
            if ours != theirs:
                raise PreflightError(
                    f"the {name} of worker {number} is {theirs or 'not there'}, and ours is {ours}",
                    hint="Install the same versions everywhere.",
                )
