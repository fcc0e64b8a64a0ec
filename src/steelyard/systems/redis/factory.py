"""From an experiment to the Redis engine that runs it, wherever the server and the programs are.

A server that Steelyard did not start differs in complaints and settings only; the programs of a
container image run in pods.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from steelyard.core.experiment import Configuration, EffectiveSetting, Experiment
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.redis import needs_restart
from steelyard.core.target import RedisLocalTarget
from steelyard.core.wording import Complaint, PreflightError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.process import Processes, Runner
from steelyard.gateways.redis import TLS, RedisDoor, Reply, ReplyError
from steelyard.places.local.server import ProgramReach
from steelyard.systems.redis import server as checks
from steelyard.systems.redis import server as redis_server
from steelyard.systems.redis.datasets import (
    Databases,
    Filler,
    datasets_of,
    fill,
    fill_by_script,
)
from steelyard.systems.redis.engine import Generator, InstalledRedisEngine, RedisEngine
from steelyard.systems.redis.existing.readiness import ServerState
from steelyard.systems.redis.settings import Catalogue, RedisSetting, read_catalogue, refused_names

_VERSION_TIMEOUT_S = 20.0


def redis_engine(
    experiment: Experiment, doors: Doors, account: str | None, reach: ProgramReach
) -> InstalledRedisEngine:
    """Return the engine; each different server was started for a moment, to ask it.

    Raises:
        PreflightError: Programs are absent or do not run.
    """
    targets = experiment.targets_of(RedisLocalTarget)
    found = {
        place: _reachable(redis_server.find_redis(place, doors.processes), reach)
        for place in dict.fromkeys(target.server for target in targets.values())
    }
    trials = {
        name: redis_server.Trial(
            installation=found[target.server],
            redis=doors.redis,
            processes=doors.processes,
            account=account,
        )
        for name, target in targets.items()
    }
    catalogues = _catalogues(experiment, trials)
    engine = InstalledRedisEngine(
        experiment,
        {
            name: redis_server.RedisProgram(
                installation=found[target.server],
                redis=doors.redis,
                tcp=target.connection == "tcp",
                replica=target.replica,
                datasets=len(datasets_of(experiment.workloads)),
            )
            for name, target in targets.items()
        },
        {name: catalogues[trial.installation] for name, trial in trials.items()},
        generator=find_generator(tuple(found.values()), doors.processes, account),
        databases=Databases(
            datasets=datasets_of(experiment.workloads), redis=doors.redis, persisted=True
        ),
    )
    engine.try_by(trials)
    return engine


def find_generator(
    installations: Sequence[redis_server.RedisInstallation],
    processes: Processes,
    account: str | None = None,
) -> Generator:
    """Return the generator that drives all servers: that of the newest of them.

    Raises:
        PreflightError: It is not installed.
    """
    newest = max(installations, key=lambda one: one.version_key)
    program = newest.benchmark
    if program is None:
        raise PreflightError(
            "there is no redis-benchmark on this machine",
            hint=redis_server.benchmark_hint(newest.flavour),
        )
    command = Command(argv=(str(program), "--version"))
    said = processes.run(command, timeout_s=_VERSION_TIMEOUT_S)
    return _generator(program, said, account)


def _generator(program: Path, said: Completed, account: str | None = None) -> Generator:
    first = (said.stdout.splitlines() or [""])[0]
    version = first.removeprefix(f"{program.name} ").strip()
    return Generator(program=program, version=version, account=account)


def _catalogues(
    experiment: Experiment, trials: Mapping[str, redis_server.Trial]
) -> Mapping[redis_server.RedisInstallation, Catalogue]:
    names = {
        name for configuration in experiment.configurations for name in configuration.asked_folded()
    }
    found: dict[redis_server.RedisInstallation, Catalogue] = {}
    for trial in trials.values():
        if trial.installation not in found:
            with trial.session() as session:
                found[trial.installation] = read_catalogue(session, sorted(names))
    return found


def _reachable(
    found: redis_server.RedisInstallation, reach: ProgramReach
) -> redis_server.RedisInstallation:
    """Return the installation where the account can reach it; its programs lie side by side."""
    directory = found.server.parent
    label = f"{found.flavour}-{found.version}"
    place, benchmark = reach(directory, (directory,), label), found.benchmark
    if benchmark is not None and benchmark.parent == directory:
        benchmark = place / benchmark.name
    return replace(found, server=place / found.server.name, benchmark=benchmark)


MARKERS: Final = 1  # keys that are in each database beside its data
_HELP_TIMEOUT_S: Final = 20.0


def _catalogue_of(server: ServerState) -> Catalogue:
    """Return its settings, each with what it is as the value that it goes back to."""
    return {
        name: RedisSetting(name=name, default=value, changeable=not needs_restart(name))
        for name, value in (server.settings or {}).items()
    }


# What these mean depends on the files, addresses and CPUs of the server's machine.
_OF_THE_PLACE: Final = re.compile(r"tls-.*|bind-.*|.*file.*|.*_cpulist|locale-collate|oom-.*")


class RedisEndpointEngine(RedisEngine):
    """Running Redis servers under a load generator of this machine."""

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:
        """Return what cannot be set on this server, by a program of its version where one is."""
        asked = self._experiment.configuration(configuration)
        trial, catalogue = self._trials.get(configuration), self._catalogues[configuration]
        tried = {n: one for n, one in catalogue.items() if not _OF_THE_PLACE.fullmatch(n)}
        refused = () if trial is None else checks.refused_values(asked, trial, tried)
        return (*_out_of_reach(asked), *refused, *self._beyond(asked))

    def effective(self, address: ServerAddress) -> tuple[EffectiveSetting, ...]:
        """Return all settings that say something about the server; none that it does not show."""
        try:
            return super().effective(address)
        except ReplyError:
            return ()


def redis_endpoint_engine(
    experiment: Experiment,
    servers: Mapping[str, ServerState],
    addresses: Mapping[str, ServerAddress],
    doors: Doors,
) -> RedisEndpointEngine:
    """Return the engine for running servers, by configuration.

    Raises:
        PreflightError: There is no load generator on this machine, or none that speaks TLS to a
            server that was asked over it.
    """
    installations = [installation_of(server) for server in servers.values()]
    generator = find_generator(installations, doors.processes)
    if any(dict(address.parameters).get(TLS) == "on" for address in addresses.values()):
        _require_tls(generator.program, doors.processes)
    filling = partial(fill, beside=MARKERS)
    engine = running_engine(experiment, servers, generator, doors.redis, fill=filling)
    trials = {name: _trial(server, doors) for name, server in servers.items()}
    engine.try_by({name: trial for name, trial in trials.items() if trial is not None})
    return engine


def _trial(server: ServerState, doors: Doors) -> redis_server.Trial | None:
    """Return what starts a server of the same family; None: this machine has no such program.

    Releases of one family, such as 7.0, have the same settings. Before 7.0 a file took other words
    than CONFIG SET does.
    """
    try:
        found = redis_server.find_redis(f"{server.flavour}-server", doors.processes)
    except PreflightError:
        return None
    there = installation_of(server)
    is_same = (found.flavour, found.version_key[:2]) == (there.flavour, there.version_key[:2])
    if not is_same or there.version_key < (7,):
        return None
    return redis_server.Trial(
        installation=found,
        redis=doors.redis,
        processes=doors.processes,
        account=None,
    )


def running_engine(
    experiment: Experiment,
    servers: Mapping[str, ServerState],
    generator: Generator,
    redis: RedisDoor,
    *,
    fill: Filler,
) -> RedisEndpointEngine:
    """Return the engine for running servers, by configuration, under a generator that is known.

    ``fill`` loads the keys of a space, with the marker beside them.
    """
    return RedisEndpointEngine(
        experiment,
        {
            name: redis_server.RedisProgram(
                installation=installation_of(server),
                redis=redis,
                tcp=True,
                company=redis_server.Company(
                    connections=server.connections, replicas=server.replicas, is_there=True
                ),
            )
            for name, server in servers.items()
        },
        {name: _catalogue_of(server) for name, server in servers.items()},
        generator=generator,
        databases=Databases(
            datasets=datasets_of(experiment.workloads),
            redis=redis,
            persisted=False,
            fill=fill,
            beside=MARKERS,
        ),
    )


def installation_of(server: ServerState) -> redis_server.RedisInstallation:
    """Return the server's version with the generator of this machine; its program is elsewhere."""
    return redis_server.RedisInstallation(
        server=Path(),
        benchmark=redis_server.find_benchmark(flavour=server.flavour),
        version=server.version,
        flavour=server.flavour,
    )


def _require_tls(program: Path, processes: Processes) -> None:
    command = Command(argv=(str(program), "--help"))
    said = processes.run(command, timeout_s=_HELP_TIMEOUT_S)
    if "--tls" not in said.stdout + said.stderr:
        raise PreflightError(
            "the redis-benchmark of this machine speaks no TLS, and the server is reached by it",
            hint="Install one that is built with TLS; Debian's redis-tools is.",
        )


def _out_of_reach(configuration: Configuration) -> Iterator[Complaint]:
    names = list(configuration.asked())
    for name in refused_names(names):
        yield Complaint(
            setting=name,
            message=f"`{name}` is a place, a name or a secret of a server that is there already",
            hint="Remove it.",
        )
    for name in (each for each in names if needs_restart(each)):
        if not configuration.target.is_restarted:
            yield Complaint(
                setting=name,
                message=f"`{name}` needs a restart of the server, which Steelyard did not start",
                hint="Say how to restart it with `restart_command:` in the target, or remove it.",
            )


LEAST_VERSION: Final = (6, 2)  # its users have rights on keys, commands and channels
_POD_TIMEOUT_S: Final = 60.0
_HOME: Final = "/tmp/steelyard-trial"  # noqa: S108 - in a pod of its own
_SOCKET: Final = "redis.sock"
_SERVERS: Final = ("redis-server", "valkey-server")
_CLIENTS: Final = ("redis-cli", "valkey-cli")
_BENCHMARKS: Final = ("redis-benchmark", "valkey-benchmark")
# The first of these programs that the image has: where it is, and its version.
_FIND: Final = (
    'for name; do place=$(command -v "$name") && echo "$place" && exec "$place" --version; done;'
    " exit 1"
)
# A server of a moment ($1) with the configuration that comes in; it is asked ($2) until it answers.
# What it says goes to us where it ends instead. With `stay` ($3) it goes on; all of it is in $4.
_TRY: Final = f"""
rm -rf "$4" && mkdir -p "$4" && cd "$4" && cat >redis.conf || exit 2
"$1" redis.conf >log 2>&1 </dev/null &
for turn in $(seq 600); do
    sleep 0.05
    if [ "$("$2" -s {_SOCKET} ping 2>/dev/null)" = PONG ]; then
        [ "$3" = stay ] || "$2" -s {_SOCKET} shutdown nosave >/dev/null 2>&1
        exit 0
    fi
    kill -0 $! 2>/dev/null || break
done
cat log
exit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisImage:
    """What the programs of one image say.

    Attributes:
        catalogue: Settings that its server knows.
        refused: Values that its server refuses, by configuration.
    """

    installation: redis_server.RedisInstallation
    catalogue: Catalogue
    refused: Mapping[str, tuple[Complaint, ...]]


def describe_redis_image(
    image: str,
    configurations: Sequence[Configuration],
    names: Sequence[str],
    processes: Runner,
    *,
    home: str = _HOME,
) -> RedisImage:
    """Return what the programs of an image say of themselves and of what configurations ask.

    They run in a pod of it, where a server of a moment works in its home. The names are those of
    all settings of the experiment.

    Raises:
        PreflightError: It lacks a program, or its server is too old or does not start.
    """
    installation = find_in_image(image, processes)
    trial = _Trial(image=image, installation=installation, processes=processes, home=home)
    catalogue = trial.catalogue(names)
    return RedisImage(
        installation=installation,
        catalogue=catalogue,
        refused={
            configuration.name: tuple(checks.refused_values(configuration, trial, catalogue))
            for configuration in configurations
        },
    )


def find_in_image(image: str, processes: Runner) -> redis_server.RedisInstallation:
    """Return the server and the load generator of an image.

    Raises:
        PreflightError: It has no server or no client, or its server is too old.
    """
    found = _first(_SERVERS, processes)
    if found is None or _first(_CLIENTS, processes) is None:
        raise PreflightError(
            f"the image {image} does not have {' or '.join(_SERVERS)} with its client in its PATH",
            hint="Name one of Redis or Valkey with `image:` in the target.",
        )
    server, said = found
    flavour, version = redis_server.read_version(str(server), said)
    benchmark = _first(_BENCHMARKS, processes)
    installation = redis_server.RedisInstallation(
        server=server,
        benchmark=None if benchmark is None else benchmark[0],
        version=version,
        flavour=flavour,
    )
    if installation.version_key < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise PreflightError(
            f"the image {image} has {installation.label}, whose users cannot be limited",
            hint=f"Name one of at least version {least} with `image:` in the target.",
        )
    return installation


def generator_in_image(image: str, processes: Runner) -> Generator:
    """Return the load generator of an image.

    Raises:
        PreflightError: It has none.
    """
    found = _first(_BENCHMARKS, processes)
    if found is None:
        raise PreflightError(
            f"the image {image} has no redis-benchmark in its PATH",
            hint="Name one that has it with `generators: {image: ...}` in the target.",
        )
    return _generator(*found)


def _first(names: Sequence[str], processes: Runner) -> tuple[Path, Completed] | None:
    argv = ("sh", "-c", _FIND, "find", *names)
    completed = processes.run(Command(argv=argv), timeout_s=_POD_TIMEOUT_S)
    place, _, said = completed.stdout.partition("\n")
    if not completed.succeeded or not place:
        return None
    return Path(place), replace(completed, stdout=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Starts the server of an image for a moment, in a pod of it."""

    image: str
    installation: redis_server.RedisInstallation
    processes: Runner
    home: str

    @property
    def _client(self) -> str:
        found = _first(_CLIENTS, self.processes)
        return "" if found is None else str(found[0])

    def catalogue(self, names: Sequence[str]) -> Catalogue:
        """Return all settings of a server that has its defaults."""
        client = self._client
        started = self._tried({}, client, "stay")
        if not started.succeeded:
            raise PreflightError(
                f"{self.installation.label} of the image {self.image} does not start:"
                f" {redis_server.refusal_in(started.stdout).words}",
                hint="Does it run as an account that is not root?",
            )
        return read_catalogue(_ClientSession(client, self.home, self.processes), names)

    def refusals(self, settings: Mapping[str, str]) -> tuple[redis_server.Refusal, ...]:
        """Return everything that the server says against these settings."""
        client = self._client

        def tried(left: Mapping[str, str]) -> redis_server.Refusal | None:
            completed = self._tried({**redis_server.WHILE_PREPARING, **left}, client, "")
            return None if completed.succeeded else redis_server.refusal_in(completed.stdout)

        return redis_server.all_refusals(settings, tried)

    def _tried(self, settings: Mapping[str, str], client: str, stay: str) -> Completed:
        own = {"port": "0", "unixsocket": _SOCKET, "daemonize": "no"}
        text = redis_server.configuration_text({**settings, **own})
        argv = ("sh", "-c", _TRY, "try", str(self.installation.server), client, stay, self.home)
        return self.processes.run(Command(argv=argv), timeout_s=_POD_TIMEOUT_S, stdin=text)


class _ClientSession:
    """A session through the image's own client: each command is one call of it."""

    def __init__(self, client: str, home: str, processes: Runner) -> None:
        self._client = client
        self._socket = f"{home}/{_SOCKET}"
        self._processes = processes

    def command(self, *words: str | bytes | int) -> Reply:
        """Return the answer to CONFIG: words where it lists some.

        Raises:
            ReplyError: The server refuses.
        """
        argv = (self._client, "-s", self._socket, *map(str, words))
        completed = self._processes.run(Command(argv=argv), timeout_s=_POD_TIMEOUT_S)
        if not completed.succeeded:
            raise TargetError(f"{self._client} does not reach its server: {completed.tail(1)}")
        lines = completed.stdout.removesuffix("\n").split("\n")
        if words[:2] == ("CONFIG", "GET"):
            return [line.encode() for line in lines]
        if lines != ["OK"]:
            raise ReplyError(f"it refuses a command: {' '.join(lines)}")
        return b"OK"

    def pipeline(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        """Return the answers one by one."""
        return [self.command(*words) for words in commands]

    def info(self, *sections: str) -> Mapping[str, str]:
        """Refuse: nothing needs it."""
        raise TargetError(f"INFO {' '.join(sections)} is not asked here")

    def close(self) -> None:
        """Do nothing: no connection is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRedisProgram(redis_server.RedisProgram):
    """The server of an image; what is the pod's in its configuration, its platform adds."""

    def configuration(
        self,
        settings: Mapping[str, str],
        address: ServerAddress,  # noqa: ARG002 - by its protocol
        sockets: Path,  # noqa: ARG002 - likewise
    ) -> Mapping[str, str]:
        """Return the configuration file with the settings alone."""
        return {redis_server.CONFIGURATION: redis_server.configuration_text(settings)}


class InImageRedisEngine(RedisEngine):
    """Servers of images, under the load generator of one image."""

    def __init__(
        self,
        experiment: Experiment,
        images: Mapping[str, RedisImage],
        generator: Generator,
        *,
        redis: RedisDoor,
    ) -> None:
        super().__init__(
            experiment,
            {
                name: PodRedisProgram(
                    installation=image.installation,
                    redis=redis,
                    datasets=len(datasets_of(experiment.workloads)),
                )
                for name, image in images.items()
            },
            {name: image.catalogue for name, image in images.items()},
            generator=generator,
            databases=Databases(
                datasets=datasets_of(experiment.workloads),
                redis=redis,
                persisted=True,
                fill=fill_by_script,
            ),
        )
        self._images = images

    def complaints(self, configuration: str) -> tuple[Complaint, ...]:
        """Return what the image's own server would refuse, too."""
        refused = self._images[configuration].refused.get(configuration, ())
        return (*super().complaints(configuration), *refused)

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:  # noqa: ARG002
        """Return where the generator connects: as the default user, who needs no password."""
        return replace(address, user="", password="")
