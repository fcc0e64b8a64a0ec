"""Redis on a server that Steelyard did not start: only its complaints and settings differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from steelyard.engines.engine import Complaint
from steelyard.engines.redis.addresses import tls_files
from steelyard.engines.redis.datasets import Databases, Filler, datasets_of
from steelyard.engines.redis.engine import Generator, RedisEngine
from steelyard.engines.redis.factory import RedisSurroundings, find_generator
from steelyard.engines.redis.installation import (
    RedisInstallation,
    find_benchmark,
    find_memtier,
)
from steelyard.engines.redis.keys import fill
from steelyard.engines.redis.server import RedisProgram
from steelyard.engines.redis.settings import Catalogue, RedisSetting, refused_names
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor, ReplyError
from steelyard.model.command import Command, ServerAddress
from steelyard.model.environment import EffectiveSetting
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Experiment, GeneratorName, Treatment
from steelyard.model.target import is_restarted

# What Redis 7.0.15 refused to change while it runs ("can't set immutable config"), asked of it for
# every setting that it has; the places and names that no experiment may set are left out. A server
# of another version that refuses more says so when its treatment is first activated.
_NEED_RESTART: Final = frozenset(
    {
        *("aof_rewrite_cpulist", "always-show-logo", "bgsave_cpulist", "bio_cpulist"),
        *("databases", "disable-thp", "enable-debug-command", "enable-module-command"),
        *("enable-protected-configs", "io-threads", "io-threads-do-reads", "rdbchecksum"),
        *("server_cpulist", "set-proc-title", "socket-mark-id", "tcp-backlog"),
    }
)
MARKERS: Final = 1  # keys that are in each database beside its data
_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRedis:
    """What is known of a running server.

    Attributes:
        settings: By name, as it shows them; None where the user may not ask.
    """

    version: str
    flavour: Literal["redis", "valkey"]
    settings: Mapping[str, str] | None = field(hash=False)

    @property
    def catalogue(self) -> Catalogue:
        """Return its settings, each with what it is as the value that it goes back to."""
        return {
            name: RedisSetting(name=name, default=value, changeable=name not in _NEED_RESTART)
            for name, value in (self.settings or {}).items()
        }


def needs_restart(name: str) -> bool:
    """Return whether a running server takes no other value of a setting."""
    return name.lower() in _NEED_RESTART


class RedisEndpointEngine(RedisEngine):
    """Running Redis servers under a load generator of this machine."""

    def complaints(self, treatment: str) -> tuple[Complaint, ...]:
        """Return what cannot be set on this server."""
        asked = self._experiment.treatment(treatment)
        return tuple(_out_of_reach(asked))

    def effective(self, address: ServerAddress) -> tuple[EffectiveSetting, ...]:
        """Return all settings that say something about the server; none that it does not show."""
        try:
            return super().effective(address)
        except ReplyError:
            return ()


def redis_endpoint_engine(
    experiment: Experiment,
    servers: Mapping[str, RunningRedis],
    addresses: Mapping[str, ServerAddress],
    surroundings: RedisSurroundings,
) -> RedisEndpointEngine:
    """Return the engine for running servers, by treatment.

    Raises:
        PreflightError: There is no load generator on this machine, or none that speaks TLS to a
            server that was asked over it.
    """
    found = {server: _installation(server) for server in servers.values()}
    generator = find_generator(experiment, tuple(found.values()), surroundings)
    if any(tls_files(address) is not None for address in addresses.values()):
        _require_tls(generator.program, experiment.generator, surroundings.processes)
    filling = partial(fill, beside=MARKERS)
    return running_engine(experiment, servers, generator, surroundings.redis, fill=filling)


def running_engine(
    experiment: Experiment,
    servers: Mapping[str, RunningRedis],
    generator: Generator,
    redis: RedisDoor,
    *,
    fill: Filler,
) -> RedisEndpointEngine:
    """Return the engine for running servers, by treatment, under a generator that is known.

    Args:
        experiment: What will run.
        servers: As they were found.
        generator: Puts the load on.
        redis: Opens sessions.
        fill: Loads the keys of a space, with the marker beside them.
    """
    return RedisEndpointEngine(
        experiment,
        {
            name: RedisProgram(installation=_installation(server), redis=redis, tcp=True)
            for name, server in servers.items()
        },
        {name: server.catalogue for name, server in servers.items()},
        generator=generator,
        redis=redis,
        databases=Databases(
            datasets=datasets_of(experiment.workloads),
            redis=redis,
            persisted=False,
            fill=fill,
            beside=MARKERS,
        ),
    )


def _installation(server: RunningRedis) -> RedisInstallation:
    """Return the server's version with the generators of this machine; its program is elsewhere."""
    return RedisInstallation(
        server=Path(),
        benchmark=find_benchmark(flavour=server.flavour),
        memtier=find_memtier(),
        version=server.version,
        flavour=server.flavour,
    )


def _require_tls(program: Path, generator: GeneratorName, processes: Processes) -> None:
    command = Command(argv=(str(program), "--help"))
    said = processes.run(command, timeout_s=_TIMEOUT_S)
    if "--tls" not in said.stdout + said.stderr:
        raise PreflightError(
            f"the {generator} of this machine speaks no TLS, and the server is reached by it",
            hint="Install one that is built with TLS; Debian's redis-tools is.",
        )


def _out_of_reach(treatment: Treatment) -> Iterator[Complaint]:
    names = list(treatment.asked())
    for name in refused_names(names):
        yield Complaint(
            setting=name,
            message=f"`{name}` is a place, a name or a secret of a server that is there already",
            hint="Remove it.",
        )
    for name in (each for each in names if needs_restart(each)):
        if not is_restarted(treatment.target):
            yield Complaint(
                setting=name,
                message=f"`{name}` needs a restart of the server, which Steelyard did not start",
                hint="Say how to restart it with `restart_command:` in the target, or remove it.",
            )
