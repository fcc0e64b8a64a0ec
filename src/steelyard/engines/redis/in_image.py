"""Redis whose programs are those of a container image, run in pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.engines.engine import Complaint
from steelyard.engines.redis import checks
from steelyard.engines.redis.datasets import Databases, datasets_of
from steelyard.engines.redis.engine import Generator, RedisEngine
from steelyard.engines.redis.installation import RedisInstallation, read_version
from steelyard.engines.redis.scripted_fill import fill_by_script
from steelyard.engines.redis.server import (
    CONFIGURATION,
    WHILE_PREPARING,
    RedisProgram,
    configuration_text,
)
from steelyard.engines.redis.settings import Catalogue, read_catalogue
from steelyard.engines.redis.trial import Refusal, all_refusals, refusal_in
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor, Reply, ReplyError
from steelyard.model.command import Command, Completed, ServerAddress
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.experiment import Experiment, GeneratorName, Treatment

LEAST_VERSION: Final = (6, 2)  # its users have rights on keys, commands and channels
_TIMEOUT_S: Final = 60.0
_HOME: Final = "/tmp/steelyard-trial"  # noqa: S108 - in a pod of its own
_SOCKET: Final = "redis.sock"
_SERVERS: Final = ("redis-server", "valkey-server")
_CLIENTS: Final = ("redis-cli", "valkey-cli")
_BENCHMARKS: Final = ("redis-benchmark", "valkey-benchmark")
_MEMTIER: Final = ("memtier_benchmark",)
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
        refused: Values that its server refuses, by treatment.
    """

    installation: RedisInstallation
    catalogue: Catalogue
    refused: Mapping[str, tuple[Complaint, ...]]


def describe_redis_image(
    image: str,
    treatments: Sequence[Treatment],
    names: Sequence[str],
    processes: Processes,
    *,
    home: str = _HOME,
) -> RedisImage:
    """Return what the programs of an image say of themselves and of what treatments ask.

    Args:
        image: Its name, for messages.
        treatments: Whose servers are of this image.
        names: Of all settings of the experiment.
        processes: Runs programs in a pod of it.
        home: Where a server of a moment works there.

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
            treatment.name: tuple(checks.refused_values(treatment, trial, catalogue))
            for treatment in treatments
        },
    )


def find_in_image(image: str, processes: Processes) -> RedisInstallation:
    """Return the server and the load generators of an image.

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
    flavour, version = read_version(str(server), said)
    benchmark, memtier = _first(_BENCHMARKS, processes), _first(_MEMTIER, processes)
    installation = RedisInstallation(
        server=server,
        benchmark=None if benchmark is None else benchmark[0],
        memtier=None if memtier is None else memtier[0],
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


def generator_in_image(name: GeneratorName, image: str, processes: Processes) -> Generator:
    """Return the load generator of an image.

    Raises:
        PreflightError: It has none.
    """
    found = _first(_MEMTIER if name is GeneratorName.MEMTIER else _BENCHMARKS, processes)
    if found is None:
        raise PreflightError(
            f"the image {image} has no {name} in its PATH",
            hint="Name one that has it with `generators: {image: ...}` in the target.",
        )
    program, said = found
    first = (said.stdout.splitlines() or [""])[0]
    version = first.removeprefix(f"{program.name} ").strip()
    return Generator(program=program, version=version, account=None)


def _first(names: Sequence[str], processes: Processes) -> tuple[Path, Completed] | None:
    """Return the first of these programs that an image has, and what it says of its version."""
    argv = ("sh", "-c", _FIND, "find", *names)
    completed = processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S)
    place, _, said = completed.stdout.partition("\n")
    if not completed.succeeded or not place:
        return None
    return Path(place), replace(completed, stdout=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Starts the server of an image for a moment, in a pod of it."""

    image: str
    installation: RedisInstallation
    processes: Processes
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
                f" {refusal_in(started.stdout).words}",
                hint="Does it run as an account that is not root?",
            )
        return read_catalogue(_ClientSession(client, self.home, self.processes), names)

    def refusals(self, settings: Mapping[str, str]) -> tuple[Refusal, ...]:
        """Return everything that the server says against these settings."""
        client = self._client

        def tried(left: Mapping[str, str]) -> Refusal | None:
            completed = self._tried({**WHILE_PREPARING, **left}, client, "")
            return None if completed.succeeded else refusal_in(completed.stdout)

        return all_refusals(settings, tried)

    def _tried(self, settings: Mapping[str, str], client: str, stay: str) -> Completed:
        own = {"port": "0", "unixsocket": _SOCKET, "daemonize": "no"}
        text = configuration_text({**settings, **own})
        argv = ("sh", "-c", _TRY, "try", str(self.installation.server), client, stay, self.home)
        return self.processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S, stdin=text)


class _ClientSession:
    """A session through the image's own client: each command is one call of it."""

    def __init__(self, client: str, home: str, processes: Processes) -> None:
        self._client = client
        self._socket = f"{home}/{_SOCKET}"
        self._processes = processes

    def command(self, *words: str | bytes | int) -> Reply:
        """Return the answer to CONFIG: words where it lists some.

        Raises:
            ReplyError: The server refuses.
        """
        argv = (self._client, "-s", self._socket, *map(str, words))
        completed = self._processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S)
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
class PodRedisProgram(RedisProgram):
    """The server of an image; what is the pod's in its configuration, its platform adds."""

    def configuration(
        self,
        settings: Mapping[str, str],
        address: ServerAddress,  # noqa: ARG002 - by its protocol
        sockets: Path,  # noqa: ARG002 - likewise
    ) -> Mapping[str, str]:
        """Return the configuration file with the settings alone."""
        return {CONFIGURATION: configuration_text(settings)}


class InImageRedisEngine(RedisEngine):
    """Servers of images, under the load generator of one image.

    Args:
        experiment: What will run.
        images: Of each treatment's server.
        generator: That drives them all.
        redis: Reaches the servers.
    """

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
            redis=redis,
        )
        self._images = images

    def complaints(self, treatment: str) -> tuple[Complaint, ...]:
        """Return what the image's own server would refuse, too."""
        refused = self._images[treatment].refused.get(treatment, ())
        return (*super().complaints(treatment), *refused)

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:  # noqa: ARG002
        """Return where the generator connects: as the default user, who needs no password."""
        return replace(address, user="", password="")
