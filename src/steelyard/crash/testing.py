"""Crash tests: every mode dies every death, in rounds whose order and moments are drawn.

The data lie on a directory, or on a file system that loses its power. What a test has outside is a
directory with a lock, noted so that ``clean`` finds it.

The load is connections that write numbers and remember what was answered; after a death it is
counted which of them are gone. A server that has a replica stays down, and the replica takes its
place. The end of this module is the only place of crash tests that names engines.
"""

import random
import secrets
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from steelyard.core import wording
from steelyard.core.crash import Crash, CrashMode, CrashTest
from steelyard.core.outside import Command, MadeDirectory, ServerAddress, ServerProgram
from steelyard.core.redis import Death
from steelyard.gateways import files
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Clock
from steelyard.gateways.stores import unmounted
from steelyard.places.local.platform import Beside
from steelyard.places.local.server import LocalServer, end_processes, staged
from steelyard.record import registry
from steelyard.systems.existing import NumberedWriter, NumberedWrites
from steelyard.systems.postgres.pgbench import NumberedRows
from steelyard.systems.postgres.server import (
    PostgresProgram,
    find_installation,
    shared_memory_residue,
    wheel_parts,
)
from steelyard.systems.redis.datasets import NumberedKeys
from steelyard.systems.redis.engine import OffsetWatch, RedisSuccession
from steelyard.systems.redis.server import RedisProgram, find_redis

_END_S: Final = 30.0  # until a writer whose server is dead has noticed
VOLUME_BYTES: Final = 2048 * wording.MIB  # sparse; a guess: seconds of writes, and PostgreSQL's WAL
_HOME: Final = "server"
_COPY_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """Where a test may make what it needs.

    Attributes:
        name: Its id in the registry.
        work: Its directory.
        sockets: For the servers' sockets, with a short path.
    """

    name: str
    work: Path
    sockets: Path

    def note_mount(self, place: Path) -> None:
        """Note that a file system is about to be mounted."""
        registry.note_mount(self.name, place)


@contextmanager
def belongings(root: Path, account: str | None, doors: Doors) -> Iterator[Belongings]:
    """Have a directory below ``root``; everything in it is ended and removed at the end.

    Raises:
        LeftBehindError: A file system is still mounted; ``clean`` goes on from there.
    """
    name = f"crash-test-{secrets.token_hex(3)}"
    work = root.resolve() / "live" / name  # as the kernel lists what is mounted there
    # The registry first: what dies between the two left nothing.
    registry.register(name, work)
    registry.note(name, MadeDirectory(path=work))
    files.make_directory(work)
    lock = files.Lock(work / "lock")
    if not lock.acquire():
        raise wording.PreflightError(f"somebody works in {work}", hint="Start the test again.")
    try:
        sockets = files.short_directory(
            "steelyard-",
            account=account,
            announce=lambda path: registry.note(name, MadeDirectory(path=path)),
        )
        yield Belongings(name=name, work=work, sockets=sockets)
    finally:
        try:
            end_processes(work, doors.processes, doors.clock)
            for place in registry.mounts(name):
                unmounted(place, doors.volumes, doors.clock)
            for directory in registry.directories(name)[1:]:
                files.remove_tree(directory)
            registry.unregister(name)
        finally:
            lock.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a server came to its end.

    Attributes:
        begun_at: When the kill or the cut began, monotonic seconds.
        window_s: How long the call took that cut; None: there was no cut.
        took_unflushed: A file that was not flushed went with the cut; None: there was none.
    """

    begun_at: float
    window_s: float | None = None
    took_unflushed: bool | None = None


class Directory:
    """A plain directory, where servers can only be killed."""

    def __init__(self, own: Belongings, account: str | None, doors: Doors) -> None:
        self._home = own.work / _HOME
        self._account = account
        self._doors = doors

    @property
    def described(self) -> str:
        """Return what it is, for reports."""
        return "a directory"

    def renew(self, template: Path) -> Path:
        """Return the home of a server with a fresh copy of the template's data.

        Where power is cut it has to be on the disk before.
        """
        files.remove_tree(self._home)
        files.make_directory(self._home, account=self._account)
        copy_data(template, self._home, self._doors)
        return self._home

    def die(self, server: LocalServer, death: Death) -> Ended:
        """Kill the server; the power of a plain directory cannot be cut."""
        assert death is Death.KILL  # noqa: S101 - a test with power cuts has another ground
        begun_at = self._doors.clock.monotonic()
        server.kill()
        return Ended(begun_at=begun_at)


class CutVolume(Directory):
    """An XFS in a file, made anew for each death."""

    def __init__(self, own: Belongings, account: str | None, doors: Doors) -> None:
        super().__init__(own, account, doors)
        self._image = own.work / "volume.img"
        self._place = own.work / "volume"
        self._home = self._place / _HOME
        self._volumes = doors.volumes
        files.make_directory(self._place)
        own.note_mount(self._place)

    @property
    def described(self) -> str:
        """Return what it is."""
        return "XFS on a loop device"

    def renew(self, template: Path) -> Path:
        """Return a fresh home on a fresh file system.

        Raises:
            PreflightError: There is no room for it.
        """
        unmounted(self._place, self._volumes, self._doors.clock)
        self._require_room()
        self._volumes.make(self._image, VOLUME_BYTES)
        self._volumes.mount(self._image, self._place)
        super().renew(template)
        self._volumes.flush(self._place)
        return self._home

    def _require_room(self) -> None:
        """Raise where the sparse file might not get all of its space.

        XFS would have taken a write which the loop device then cannot pass on: a loss that the
        server is no party to.
        """
        room = self._volumes.room_bytes(self._image)
        if room < VOLUME_BYTES:
            raise wording.PreflightError(
                f"{self._image.parent} has room for {wording.format_bytes(room)}, and the file"
                " system whose"
                f" power is cut may take {wording.format_bytes(VOLUME_BYTES)}",
                hint="Name a place with room for it (--data-directory DIR), or leave the power cuts"
                " out: --deaths kill.",
            )

    def die(self, server: LocalServer, death: Death) -> Ended:
        """Kill the server, or cut the power: then its file system first, and it is mounted again.

        With the server first, the kernel would have time to write back what it left.
        """
        if death is Death.KILL:
            return super().die(server, death)
        cut = self._volumes.cut(self._place, self._doors.clock)
        server.kill()
        unmounted(self._place, self._volumes, self._doors.clock)
        self._volumes.mount(self._image, self._place)
        return Ended(
            begun_at=cut.begun_at,
            window_s=cut.ended_at - cut.begun_at,
            took_unflushed=not self._volumes.outlived(self._place),
        )


def copy_data(template: Path, home: Path, doors: Doors) -> None:
    """Copy the data of a stopped server into another home.

    Raises:
        PreflightError: It fails: the disk is full.
    """
    argv = ("cp", "--archive", "--reflink=auto", str(template / "data"), str(home))
    completed = doors.processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S)
    if not completed.succeeded:
        raise wording.PreflightError(
            f"the data of the server could not be copied: {completed.tail(1)}",
            hint="Name a place with room for them: --data-directory DIR.",
        )


@dataclass(slots=True)
class Answers:
    """What one writer was told: each answer says that all numbers up to one are written.

    Attributes:
        numbers: The last one of each answer, rising.
        at: When it came, monotonic seconds.
        trouble: Why the writer ended; None: it was told to.
        ended_at: When that was.
    """

    writer: int
    numbers: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    trouble: wording.SteelyardError | None = None
    ended_at: float = 0.0

    @property
    def last(self) -> int:
        """Return the last number that was acknowledged at all; 0: none was."""
        return self.numbers[-1] if self.numbers else 0

    def until(self, moment: float) -> int:
        """Return the last number that was acknowledged before a moment."""
        answers = bisect_right(self.at, moment)
        return self.numbers[answers - 1] if answers else 0

    def answered_at(self, number: int) -> float:
        """Return when a number was acknowledged."""
        return self.at[bisect_left(self.numbers, number)]


class Load:
    """Writers at work, each on a thread and a connection of its own.

    Args:
        pipeline: Numbers that are under way at once on each connection; they count when all of
            them are answered.
    """

    def __init__(
        self,
        writes: NumberedWrites,
        address: ServerAddress,
        *,
        clients: int,
        pipeline: int,
        clock: Clock,
    ) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._ending = threading.Event()
        self._writers = [writes.writer(address, number) for number in range(clients)]
        self._answers = [Answers(writer=number) for number in range(clients)]
        self._threads = [
            threading.Thread(target=self._write, args=pair, daemon=True)
            for pair in zip(self._writers, self._answers, strict=True)
        ]
        self.begun_at = clock.monotonic()
        for thread in self._threads:
            thread.start()

    def _write(self, writer: NumberedWriter, answers: Answers) -> None:
        try:
            while not self._ending.is_set():
                writer.write(answers.last + 1, self._pipeline)
                answers.at.append(self._clock.monotonic())
                answers.numbers.append(answers.last + self._pipeline)
        except wording.SteelyardError as error:
            answers.trouble = error
        answers.ended_at = self._clock.monotonic()

    def end(self, died_at: float) -> Sequence[Answers]:
        """Return what was answered, when the server is dead.

        Raises:
            MeasurementError: A writer failed before the death, or does not end after it.
        """
        self.close()
        for answers in self._answers:
            if answers.trouble is not None and answers.ended_at < died_at:
                raise wording.MeasurementError(
                    f"a write failed before the server was to die: {answers.trouble.message}",
                    hint=answers.trouble.hint or "Look at the server's settings and its disk.",
                )
        return self._answers

    def close(self) -> None:
        """End the writers and their connections."""
        self._ending.set()
        self._wait()
        for writer in self._writers:
            writer.close()
        self._wait()  # who still waited hears of the closed connection
        if any(thread.is_alive() for thread in self._threads):
            raise wording.MeasurementError("a writer still waits for an answer of a dead server")

    def _wait(self) -> None:
        until = self._clock.monotonic() + _END_S
        for thread in self._threads:
            thread.join(max(0.0, until - self._clock.monotonic()))


_FREE_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is put to the test.

    Attributes:
        engine: ``redis`` or ``postgresql``.
        label: Of the server: ``Redis 7.0.15``.
        succession: How replicas take over; None: it has none.
    """

    engine: str
    label: str
    program: ServerProgram
    writes: NumberedWrites
    succession: RedisSuccession | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How it is put to the test.

    Attributes:
        cuts: Deaths of each kind for each mode.
        pipeline: Writes under way on each connection.
        longest_s: No death comes later under load.
        root: Directory below which all happens.
        account: Of the servers; None: our own.
    """

    modes: tuple[CrashMode, ...]
    deaths: tuple[Death, ...]
    cuts: int
    clients: int
    pipeline: int
    longest_s: float
    seed: int
    root: Path
    account: str | None

    def pairs(self) -> tuple[tuple[CrashMode, Death], ...]:
        """Return who dies how in each round.

        A server with a replica is only killed. It writes no file that a cut could take, and both
        are on one machine: its kernel goes on sending, as that of a machine without power cannot.
        """
        return tuple(
            (mode, death)
            for mode in self.modes
            for death in self.deaths
            if mode.replica is None or death is Death.KILL
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What all crashes of a test share."""

    subject: Subject
    asked: Asked
    own: Belongings
    ground: Directory
    doors: Doors

    @property
    def template(self) -> Path:
        """Return the home of a stopped server with fresh data."""
        return self.own.work / "template"

    def server(self, home: Path, program: ServerProgram | None = None) -> LocalServer:
        """Return a server that has a home; where a program is named, it is of that."""
        return LocalServer(
            program or self.subject.program,
            home,
            self.own.sockets,
            account=self.asked.account,
            processes=self.doors.processes,
            clock=self.doors.clock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A server that died under load.

    Attributes:
        ended: When its death began, and how it went.
        under_load_s: How long it had been written to.
    """

    ended: Ended
    under_load_s: float
    answers: Sequence[Answers]


def crash(mode: CrashMode, death: Death, under_load_s: float, means: Means) -> Crash:
    """Start a server, write to it, let it die, start it again and count what is gone.

    Raises:
        MeasurementError: It failed before it was to die, or acknowledged nothing; or it came back
            and did not answer.
        TargetError: It did not start in the first place.
    """
    server = means.server(means.ground.renew(means.template))
    try:
        server.start(mode.asked, port=None)
        died = dead(server, death, under_load_s, means)
        unusable = ""
        try:
            server.start(mode.asked, port=None)
            missing = [
                means.subject.writes.missing(server.address, each.writer, each.last)
                for each in died.answers
            ]
        except wording.TargetError as error:
            server.let_die()
            unusable = why_unusable(error, is_running=server.is_running)
            missing = [range(1, each.last + 1) for each in died.answers]
    finally:
        ended(server, means)
    found = counted(died, missing)
    return replace(found, mode=mode.name, death=death, unusable=unusable)


def why_unusable(error: wording.TargetError, *, is_running: bool) -> str:
    """Return why a server that is started again has lost everything, in its words.

    It has if it ended, or if it said so itself; who only did not answer in time may have it all.

    Raises:
        MeasurementError: What it has is not known.
    """
    is_told = isinstance(error, wording.RefusedError)
    if isinstance(error, wording.SilentError) or (is_running and not is_told):
        raise wording.MeasurementError(
            f"what the server still has could not be read: {error.message}",
            hint="The machine may be too slow or too busy; take the test with less other work, or"
            " less to read: --longest 1s.",
        ) from error
    return error.message


def dead(server: LocalServer, death: Death, under_load_s: float, means: Means) -> Died:
    """Write to a running server and let it die; return what it had answered.

    Raises:
        MeasurementError: It failed before it was to die, or acknowledged nothing.
    """
    clock = means.doors.clock
    load = Load(
        means.subject.writes,
        server.address,
        clients=means.asked.clients,
        pipeline=means.asked.pipeline,
        clock=clock,
    )
    try:
        clock.sleep(under_load_s)
        residue = shared_memory_residue(server.data)
        end = means.ground.die(server, death)
        _freed(residue, means)
    except BaseException:
        server.kill()
        load.close()
        raise
    answers = load.end(end.begun_at)
    if not any(each.until(end.begun_at) for each in answers):
        raise wording.MeasurementError(
            f"the server acknowledged nothing in {under_load_s:.1f} s",
            hint="Let it live longer: --longest 10s.",
        )
    return Died(ended=end, under_load_s=end.begun_at - load.begun_at, answers=answers)


def ended(server: LocalServer, means: Means) -> None:
    """Kill what may still run, and free what it had of the kernel."""
    residue = shared_memory_residue(server.data)
    server.kill()
    _freed(residue, means)


def _freed(residue: Sequence[Command], means: Means) -> None:
    """Free what a killed server left in the kernel; its own note of it may be lost, too."""
    for command in residue:
        with suppress(wording.SteelyardError):
            means.doors.processes.run(command, timeout_s=_FREE_TIMEOUT_S)


def counted(died: Died, missing: Sequence[Sequence[int]]) -> Crash:
    """Return the numbers of a crash; whose it was is filled in by who knows."""
    lost = late = late_lost = 0
    oldest_at = died.ended.begun_at
    for answers, gone in zip(died.answers, missing, strict=True):
        known = answers.until(died.ended.begun_at)
        lost_here = sum(number <= known for number in gone)
        lost += lost_here
        late += answers.last - known
        late_lost += len(gone) - lost_here
        if lost_here:
            oldest_at = min(oldest_at, answers.answered_at(gone[0]))
    return Crash(
        mode="",
        death=Death.KILL,
        under_load_s=died.under_load_s,
        acknowledged=sum(each.until(died.ended.begun_at) for each in died.answers),
        lost=lost,
        oldest_lost_s=died.ended.begun_at - oldest_at if lost else None,
        late=late,
        late_lost=late_lost,
        window_s=died.ended.window_s,
        took_unflushed=died.ended.took_unflushed,
    )


_LOOK_S: Final = 0.05
_CREATE_TIMEOUT_S: Final = 60.0


def inherit(mode: CrashMode, death: Death, under_load_s: float, means: Means) -> Crash:
    """Start a server and its replica, write to it, let it die, promote, and count what is gone.

    The replica is on no ground that dies: it stands for a server on another machine.

    Raises:
        MeasurementError: It failed before it was to die, or acknowledged nothing; or the engine
            has no replicas.
        TargetError: One of the two did not start, or the replica does not answer.
    """
    heirs = means.subject.succession
    if heirs is None:
        raise wording.MeasurementError(
            "this engine has no replicas that take over", hint="Leave modes with a replica out."
        )
    program = heirs.program(mode.replica or ())
    home = means.ground.renew(means.template)
    server = means.server(home, program)
    beside = _beside(means)
    try:
        server.start(mode.asked, port=None)
        beside.start(program.companion(mode.asked, server.address), means.template.parent)
        heir = beside.address
        assert heir is not None  # noqa: S101 - it was started
        with Lag(heirs.watch(server.address, heir)) as lag:
            died = dead(server, death, under_load_s, means)
        heirs.promote(heir, means.doors.clock)
        writes = means.subject.writes
        missing = [writes.missing(heir, each.writer, each.last) for each in died.answers]
    finally:
        beside.stop()
        ended(server, means)
    found = counted(died, missing)
    return replace(found, mode=mode.name, death=death, behind_bytes=lag.most_bytes)


def _beside(means: Means) -> Beside:
    def run(command: Command, what: str) -> None:
        completed = means.doors.processes.run(command, timeout_s=_CREATE_TIMEOUT_S)
        if not completed.succeeded:
            raise wording.TargetError(f"{what} failed: {completed.tail(1)}")

    return Beside(
        lambda program, home: means.server(home, program), account=means.asked.account, run=run
    )


class Lag:
    """The most that a replica is behind, looked at in passing until a look fails or it is over."""

    def __init__(self, watch: OffsetWatch) -> None:
        self.most_bytes: int | None = None
        self._watch = watch
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; the sessions are closed while a look may hang on them."""
        self._over.set()
        self._watch.close()
        self._thread.join()

    def _look(self) -> None:
        with suppress(wording.TargetError):  # the server is dead: that is what was waited for
            while not self._over.wait(_LOOK_S):
                behind = self._watch.behind_bytes()
                if behind is not None:
                    self.most_bytes = max(behind, self.most_bytes or 0)


_TEMPLATE_TIMEOUT_S: Final = 120.0
_LEAST_SHARE: Final = 0.25  # of the longest load: a guess that lets every mode reach its stride


def crash_test(
    subject: Subject, asked: Asked, doors: Doors, taken: Callable[[CrashTest], None]
) -> CrashTest:
    """Return what was found.

    ``taken`` is told after each crash, with all there are so far.

    Raises:
        PrivilegeError: Power cuts need root.
        PreflightError: A program is not here, or a setting is refused.
        LeftBehindError: Something could not be taken away.
    """
    _require_deaths(asked)
    if Death.POWER in asked.deaths:
        doors.volumes.require()
    place = files.existing_parent(asked.root)
    if not files.reachable_by(place, asked.account):
        raise wording.PreflightError(
            f"{place} may not be entered by {asked.account or 'this account'}, as whom servers run",
            hint="Name a place that it can reach: --data-directory DIR.",
        )
    with belongings(asked.root, asked.account, doors) as own:
        kind = CutVolume if Death.POWER in asked.deaths else Directory
        ground = kind(own, asked.account, doors)
        means = Means(subject=subject, asked=asked, own=own, ground=ground, doors=doors)
        _make_template(means)
        found = CrashTest(
            engine=subject.engine,
            server=subject.label,
            volume=ground.described,
            kernel=doors.host.release(),
            seed=asked.seed,
            clients=asked.clients,
            pipeline=asked.pipeline,
            longest_s=asked.longest_s,
            modes=asked.modes,
            crashes=(),
            interrupted=True,
        )
        generator = random.Random(asked.seed)  # noqa: S311 - an order, no secret
        for _ in range(asked.cuts):
            # All modes of a round live equally long.
            under_load_s = generator.uniform(_LEAST_SHARE * asked.longest_s, asked.longest_s)
            pairs = list(asked.pairs())
            generator.shuffle(pairs)
            for mode, death in pairs:
                take = crash if mode.replica is None else inherit
                one = take(mode, death, under_load_s, means)
                found = replace(found, crashes=(*found.crashes, one))
                taken(found)
    return replace(found, interrupted=False)


def _require_deaths(asked: Asked) -> None:
    dying = {mode.name for mode, _ in asked.pairs()}
    for mode in asked.modes:
        if mode.name not in dying:
            raise wording.PreflightError(
                f"mode {mode.name} cannot be cut from its power: its replica is on this machine,"
                " whose kernel goes on sending, so it would be a kill",
                hint="Ask for --deaths kill, or leave the mode out.",
            )


def _make_template(means: Means) -> None:
    """Make fresh data by a server with its own defaults, which is stopped in order."""
    files.make_directory(means.template, account=means.asked.account)
    command = means.subject.program.create(means.template / "data", means.asked.account)
    completed = means.doors.processes.run(command, timeout_s=_TEMPLATE_TIMEOUT_S)
    if not completed.succeeded:
        raise wording.PreflightError(
            f"a data directory could not be made: {completed.tail(1)}",
            hint="Name a place with room for it: --data-directory DIR.",
        )
    server = means.server(means.template)
    try:
        server.start({}, port=None)
        means.subject.writes.prepare(server.address)
    finally:
        server.stop(keep_data=True)


# The shortest save point there is: a snapshot must be due within a crash's seconds to count.
_SAVE: Final = "1 1"
_NO_LOG: Final = (("appendonly", "no"),)
_LOG: Final = (("appendonly", "yes"), ("save", ""))
REDIS_MODES: Final = (
    CrashMode(name="off", settings=(*_NO_LOG, ("save", ""))),
    CrashMode(name="rdb", settings=(*_NO_LOG, ("save", _SAVE))),
    CrashMode(name="no", settings=(*_LOG, ("appendfsync", "no"))),
    CrashMode(name="everysec", settings=(*_LOG, ("appendfsync", "everysec"))),
    CrashMode(name="always", settings=(*_LOG, ("appendfsync", "always"))),
    CrashMode(
        name="split",
        settings=(*_NO_LOG, ("save", "")),
        replica=(*_LOG, ("appendfsync", "everysec")),
    ),
)
_ON: Final = ("fsync", "on")
_OFF: Final = ("fsync", "off")
POSTGRES_MODES: Final = (
    CrashMode(name="sync", settings=(_ON, ("synchronous_commit", "on"))),
    CrashMode(name="async", settings=(_ON, ("synchronous_commit", "off"))),
    CrashMode(name="no-fsync", settings=(_OFF, ("synchronous_commit", "on"))),
    CrashMode(name="neither", settings=(_OFF, ("synchronous_commit", "off"))),
)


def redis_subject(place: str, account: str | None, doors: Doors) -> Subject:
    """Return an installed Redis or Valkey, where the account can reach it.

    Raises:
        PreflightError: It is not here.
    """
    found = find_redis(place, doors.processes)
    home = found.server.parent
    label = f"{found.flavour}-{found.version}"
    reached = staged(home, (home,), label, account=account, processes=doors.processes)
    found = replace(found, server=reached / found.server.name)
    program = RedisProgram(installation=found, redis=doors.redis)
    return Subject(
        engine="redis",
        label=found.label,
        program=program,
        writes=NumberedKeys(doors.redis),
        succession=RedisSuccession(program),
    )


def postgres_subject(place: str, account: str | None, doors: Doors) -> Subject:
    """Return an installed PostgreSQL, where the account can reach it.

    Raises:
        PreflightError: It is not here.
    """
    found = find_installation(place, doors.processes)
    label = f"{found.root.name}-{'.'.join(map(str, found.version_key))}"
    programs = staged(
        found.programs, wheel_parts(found), label, account=account, processes=doors.processes
    )
    found = replace(found, programs=programs)
    return Subject(
        engine="postgresql",
        label=f"PostgreSQL {found.version}",
        program=PostgresProgram(installation=found, initdb=(), sql=doors.sql),
        writes=NumberedRows(doors.sql),
    )
