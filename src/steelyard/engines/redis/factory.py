"""From an experiment to the engine for Redis servers that Steelyard starts here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.engines.redis.datasets import Databases, datasets_of
from steelyard.engines.redis.engine import Generator, InstalledRedisEngine
from steelyard.engines.redis.installation import (
    RedisInstallation,
    benchmark_hint,
    find_redis,
)
from steelyard.engines.redis.server import RedisProgram
from steelyard.engines.redis.settings import Catalogue, read_catalogue
from steelyard.engines.redis.trial import Trial
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor
from steelyard.model.command import Command
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Experiment, GeneratorName
from steelyard.model.target import RedisLocalTarget

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSurroundings:
    """What the engine stands on.

    Attributes:
        account: Account for programs that Steelyard starts as root.
        reach: As of PostgreSQL's: returns where that account can reach programs.
    """

    processes: Processes
    redis: RedisDoor
    account: str | None
    reach: Callable[[Path, tuple[Path, ...], str], Path]


def redis_engine(experiment: Experiment, surroundings: RedisSurroundings) -> InstalledRedisEngine:
    """Return the engine; each different server was started for a moment, to ask it.

    Raises:
        PreflightError: Programs are absent or do not run.
    """
    targets = {
        name: target
        for name, target in experiment.redis_targets.items()
        if isinstance(target, RedisLocalTarget)
    }
    found = {
        bin_: _reachable(find_redis(bin_, surroundings.processes), surroundings)
        for bin_ in dict.fromkeys(target.bin for target in targets.values())
    }
    trials = {
        name: Trial(
            installation=found[target.bin],
            redis=surroundings.redis,
            processes=surroundings.processes,
            account=surroundings.account,
        )
        for name, target in targets.items()
    }
    catalogues = _catalogues(experiment, trials)
    return InstalledRedisEngine(
        experiment,
        {
            name: RedisProgram(
                installation=found[target.bin],
                redis=surroundings.redis,
                tcp=target.connection == "tcp",
                replica=target.replica,
                datasets=len(datasets_of(experiment.workloads)),
            )
            for name, target in targets.items()
        },
        {name: catalogues[trial.installation] for name, trial in trials.items()},
        trials,
        generator=find_generator(experiment, tuple(found.values()), surroundings),
        databases=Databases(
            datasets=datasets_of(experiment.workloads), redis=surroundings.redis, persisted=True
        ),
    )


def find_generator(
    experiment: Experiment,
    installations: tuple[RedisInstallation, ...],
    surroundings: RedisSurroundings,
) -> Generator:
    """Return the generator that drives all servers: that of the newest of them.

    Raises:
        PreflightError: It is not installed.
    """
    newest = max(installations, key=lambda one: one.version_key)
    wants_memtier = experiment.generator is GeneratorName.MEMTIER
    program = newest.memtier if wants_memtier else newest.benchmark
    if program is None:
        raise PreflightError(
            f"there is no {experiment.generator} on this machine",
            hint="Install it, or leave `generator:` out for redis-benchmark."
            if wants_memtier
            else benchmark_hint(newest.flavour),
        )
    command = Command(argv=(str(program), "--version"))
    said = surroundings.processes.run(command, timeout_s=_TIMEOUT_S)
    first = (said.stdout.splitlines() or [""])[0]
    version = first.removeprefix(f"{program.name} ").strip()
    return Generator(program=program, version=version, account=surroundings.account)


def _catalogues(
    experiment: Experiment, trials: Mapping[str, Trial]
) -> Mapping[RedisInstallation, Catalogue]:
    """Return what each different installation knows."""
    names = {name for treatment in experiment.treatments for name in treatment.asked_folded()}
    found: dict[RedisInstallation, Catalogue] = {}
    for trial in trials.values():
        if trial.installation not in found:
            with trial.session() as session:
                found[trial.installation] = read_catalogue(session, sorted(names))
    return found


def _reachable(found: RedisInstallation, surroundings: RedisSurroundings) -> RedisInstallation:
    """Return the installation where the account can reach it; its programs lie side by side."""
    directory = found.server.parent
    label = f"{found.flavour}-{found.version}"
    place = surroundings.reach(directory, (directory,), label)

    def moved(program: Path | None) -> Path | None:
        own = program is not None and program.parent == directory
        return place / program.name if own and program is not None else program

    return replace(
        found,
        server=place / found.server.name,
        benchmark=moved(found.benchmark),
        memtier=moved(found.memtier),
    )
