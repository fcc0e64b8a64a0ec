"""A whole crash test: every mode dies every death, in rounds whose order and moments are drawn."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.engines.numbered import NumberedWrites
from steelyard.engines.succession import Succession
from steelyard.experiment.crash.belongings import Belongings, belongings
from steelyard.experiment.crash.crashing import Means, crash
from steelyard.experiment.crash.ground import CutVolume, Directory, Ground
from steelyard.experiment.crash.inheriting import inherit
from steelyard.experiment.doors import Doors
from steelyard.gateways.files import existing_parent, make_directory, reachable_by
from steelyard.model.crash import CrashMode, CrashTest
from steelyard.model.errors import PreflightError
from steelyard.model.persistence import Death
from steelyard.model.program import ServerProgram

_CREATE_TIMEOUT_S: Final = 120.0
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
    completed = means.doors.processes.run(command, timeout_s=_CREATE_TIMEOUT_S)
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
