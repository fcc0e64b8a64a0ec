"""A whole crash test: every mode dies every death, in rounds whose order and moments are drawn.

The death of a server that has a replica: it stays down, the replica takes its place.

The place of crash tests that names engines: what each brings, and its modes.
"""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from steelyard.core.command import Command, ServerProgram
from steelyard.core.crash import Crash, CrashMode, CrashTest
from steelyard.core.errors import MeasurementError, PreflightError, TargetError
from steelyard.core.persistence import Death
from steelyard.crash.crashing import Means, counted, crash, dead, ended
from steelyard.crash.ground import Belongings, CutVolume, Directory, Ground, belongings
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import existing_parent, make_directory, reachable_by
from steelyard.places.local.platform import Beside
from steelyard.places.local.states import staged
from steelyard.systems.complaints import NumberedWrites, ReplicaWatch, Succession
from steelyard.systems.postgres.pgbench import NumberedRows
from steelyard.systems.postgres.server import PostgresProgram, find_installation, wheel_parts
from steelyard.systems.redis.datasets import NumberedKeys
from steelyard.systems.redis.engine import RedisSuccession
from steelyard.systems.redis.server import RedisProgram, find_redis

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
    heirs = _heirs(means)
    program = heirs.program(mode.replica or ())
    home = means.ground.renew(means.template)
    server = replace(means, program=program).server(home)
    beside = _beside(means)
    try:
        server.start(mode.asked, port=None)
        beside.start(program.companion(mode.asked, server.address), means.template.parent)
        heir = beside.address
        assert heir is not None  # noqa: S101 - it was started
        with Lag(heirs.watch(server.address, heir)) as lag:
            died = dead(server, death, under_load_s, means)
        heirs.promote(heir, means.doors.clock)
        missing = [means.writes.missing(heir, each.writer, each.last) for each in died.answers]
    finally:
        beside.stop()
        ended(server, means)
    found = counted(died, missing)
    return replace(found, mode=mode.name, death=death, behind_bytes=lag.most_bytes)


def _heirs(means: Means) -> Succession:
    if means.succession is None:
        raise MeasurementError(
            "this engine has no replicas that take over",
            hint="Leave modes with a replica out.",
        )
    return means.succession


def _beside(means: Means) -> Beside:
    def run(command: Command, what: str) -> None:
        completed = means.doors.processes.run(command, timeout_s=_CREATE_TIMEOUT_S)
        if not completed.succeeded:
            raise TargetError(f"{what} failed: {completed.tail(1)}")

    return Beside(
        lambda program, home: replace(means, program=program).server(home),
        account=means.account,
        run=run,
    )


class Lag:
    """The most that a replica is behind, looked at in passing until a look fails or it is over."""

    def __init__(self, watch: ReplicaWatch) -> None:
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
        with suppress(TargetError):  # the server is dead: that is what was waited for
            while not self._over.wait(_LOOK_S):
                behind = self._watch.behind_bytes()
                if behind is not None:
                    self.most_bytes = max(behind, self.most_bytes or 0)


_CREATE_TIMEOUT_S_TESTING: Final = 120.0
_LEAST_SHARE: Final = 0.25  # of the longest load: a guess that lets every mode reach its stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is put to the test.

    Attributes:
        engine: ``redis`` or ``postgres``.
        label: Of the server: ``Redis 7.0.15``.
        succession: How replicas take over; None: it has none.
    """

    engine: str
    label: str
    program: ServerProgram
    writes: NumberedWrites
    succession: Succession | None = None


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


def crash_test(
    subject: Subject, asked: Asked, doors: Doors, taken: Callable[[CrashTest], None]
) -> CrashTest:
    """Return what was found.

    Args:
        subject: The server.
        asked: Modes, deaths and how many.
        doors: To the outside.
        taken: Told after each crash, with all there are so far.

    Raises:
        PrivilegeError: Power cuts need root.
        PreflightError: A program is not here, or a setting is refused.
        LeftBehindError: Something could not be taken away.
    """
    _require_deaths(asked)
    if Death.POWER in asked.deaths:
        doors.volumes.require()
    _require_reach(asked)
    with belongings(asked.root, asked.account, doors) as own:
        ground = _ground(own, asked, doors)
        means = _means(subject, asked, own, ground, doors)
        found = _begun(subject, asked, ground, doors)
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
    """Raise where a mode would die no death at all.

    Raises:
        PreflightError: With a way out.
    """
    dying = {mode.name for mode, _ in asked.pairs()}
    for mode in asked.modes:
        if mode.name not in dying:
            raise PreflightError(
                f"mode {mode.name} cannot be cut from its power: its replica is on this machine,"
                " whose kernel goes on sending, so it would be a kill",
                hint="Ask for --deaths kill, or leave the mode out.",
            )


def _require_reach(asked: Asked) -> None:
    """Raise where the servers' account cannot enter the place.

    Raises:
        PreflightError: With a way out.
    """
    place = existing_parent(asked.root)
    if not reachable_by(place, asked.account):
        raise PreflightError(
            f"{place} may not be entered by {asked.account or 'this account'}, as whom servers run",
            hint="Name a place that it can reach: --directory DIR.",
        )


def _begun(subject: Subject, asked: Asked, ground: Ground, doors: Doors) -> CrashTest:
    return CrashTest(
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


def _ground(own: Belongings, asked: Asked, doors: Doors) -> Ground:
    if Death.POWER in asked.deaths:
        return CutVolume(own, asked.account, doors)
    return Directory(own, asked.account, doors)


def _means(subject: Subject, asked: Asked, own: Belongings, ground: Ground, doors: Doors) -> Means:
    """Return what all crashes share; the template is made here."""
    means = Means(
        program=subject.program,
        writes=subject.writes,
        ground=ground,
        sockets=own.sockets,
        template=own.work / "template",
        account=asked.account,
        clients=asked.clients,
        pipeline=asked.pipeline,
        doors=doors,
        succession=subject.succession,
    )
    _make_template(means)
    return means


def _make_template(means: Means) -> None:
    """Make fresh data by a server with its own defaults, which is stopped in order."""
    make_directory(means.template, account=means.account)
    command = means.program.create(means.template / "data", means.account)
    completed = means.doors.processes.run(command, timeout_s=_CREATE_TIMEOUT_S_TESTING)
    if not completed.succeeded:
        raise PreflightError(
            f"a data directory could not be made: {completed.tail(1)}",
            hint="Name a place with room for it: --directory DIR.",
        )
    server = means.server(means.template)
    try:
        server.start({}, port=None)
        means.writes.prepare(server.address)
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


def redis_subject(bin_: str, account: str | None, doors: Doors) -> Subject:
    """Return an installed Redis or Valkey, where the account can reach it.

    Raises:
        PreflightError: It is not here.
    """
    found = find_redis(bin_, doors.processes)
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


def postgres_subject(bin_: str, account: str | None, doors: Doors) -> Subject:
    """Return an installed PostgreSQL, where the account can reach it.

    Raises:
        PreflightError: It is not here.
    """
    found = find_installation(bin_, doors.processes)
    label = f"{found.root.name}-{'.'.join(map(str, found.version_key))}"
    programs = staged(
        found.programs, wheel_parts(found), label, account=account, processes=doors.processes
    )
    found = replace(found, programs=programs)
    return Subject(
        engine="postgres",
        label=f"PostgreSQL {found.version}",
        program=PostgresProgram(installation=found, initdb=(), sql=doors.sql),
        writes=NumberedRows(doors.sql),
    )
