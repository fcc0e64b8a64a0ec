"""The Redis server program: create, configure, start, ask whether it is ready."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.engines.redis.installation import RedisInstallation
from steelyard.engines.redis.settings import deviations, read_settings
from steelyard.gateways.network import LOOPBACK
from steelyard.gateways.redis import RedisDoor, opened, socket_path
from steelyard.model.command import Command, ServerAddress
from steelyard.model.environment import EffectiveSetting
from steelyard.model.errors import TargetError
from steelyard.model.experiment import Layer, Setting
from steelyard.model.program import Companion

CONFIGURATION: Final = "redis.conf"
# Nothing is written before the data are complete: then both files are made from the same keys.
WHILE_PREPARING: Final = {"appendonly": "no", "save": ""}
DEFAULT_DATABASES: Final = 16  # redis.conf
# Of several words each; before 7.0 they were not taken as one in quotation marks.
_SEVERAL_WORDS: Final = (
    *("save", "client-output-buffer-limit", "oom-score-adj-values", "bind", "replicaof"),
)
# It is the only replica: a full sync need not wait for others that might want it, too.
_WITH_A_REPLICA: Final = {"repl-diskless-sync-delay": "0"}
_ANSWER_S: Final = 5.0
_ARRIVED: Final = "steelyard:arrived"  # nobody listens to it
_ARRIVES_MS: Final = 500  # less than an answer may take; then it is asked again
# What INFO says of a server that is not ready yet and comes nearer to it; at a replica, too.
_LOADING: Final = (
    *("loading", "async_loading", "master_sync_in_progress"),
    *("aof_rewrite_in_progress", "aof_rewrite_scheduled"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisProgram:
    """One installed Redis as a server program.

    Attributes:
        tcp: It listens on the loopback network, too, not on its socket alone.
        replica: Settings of a replica that is started beside it; None: there is none. With none
            of its own it has the server's.
        datasets: So many databases have keys.
    """

    installation: RedisInstallation
    redis: RedisDoor
    tcp: bool = False
    replica: tuple[tuple[str, str], ...] | None = None
    datasets: int = 1

    @property
    def version(self) -> str:
        """Return the version as the program reports it."""
        return self.installation.version

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what decides the content of an empty data directory."""
        return (self.installation.flavour, self.installation.version)

    @property
    def while_preparing(self) -> Mapping[str, str]:
        """Return settings under which nothing is persisted but when it is asked for.

        Where the keys need more databases than a server has by itself, it gets them: its treatments
        have been asked for as many.
        """
        if self.datasets <= DEFAULT_DATABASES:
            return WHILE_PREPARING
        return {**WHILE_PREPARING, "databases": f"{self.datasets}"}

    @property
    def stop_signals(self) -> tuple[int, int]:
        """Return the signals of a shutdown in order, and of one that saves nothing."""
        return signal.SIGTERM, signal.SIGKILL

    @property
    def superuser(self) -> tuple[str, str]:
        """Return the default user, which needs no name, and the first database."""
        return "", "0"

    def create(self, data: Path, account: str | None) -> Command:
        """Return the command that makes an empty directory, which is all that it needs."""
        return Command(
            argv=("mkdir", "--mode=0700", str(data)), account=account, directory=data.parent
        )

    def start(self, data: Path, account: str | None) -> Command:
        """Return the command that runs the server; it is killed if Steelyard dies."""
        return Command(
            argv=(str(self.installation.server), str(data / CONFIGURATION)),
            account=account,
            directory=data,
            parent_death_signal=signal.SIGKILL,
        )

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return the configuration file of a data directory.

        The network is closed unless it is asked for: the socket's directory is private.
        """
        place = ServerAddress(host=str(sockets), port=address.port)
        own = {
            "port": str(address.port) if self.tcp or self.replica is not None else "0",
            "bind": LOOPBACK,
            "unixsocket": str(socket_path(place)),
            "daemonize": "no",
            "logfile": "",
        }
        begun = {} if self.replica is None else _WITH_A_REPLICA
        return {CONFIGURATION: configuration_text({**begun, **settings, **own})}

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether the server answers and has loaded its data: it answers PING before."""
        try:
            with opened(self.redis, address, timeout_s=_ANSWER_S) as session:
                session.command("DBSIZE")
        except TargetError:
            return False
        return True

    def is_loading(self, address: ServerAddress) -> bool:
        """Return whether it reads its data, or a replica gets them or writes them down."""
        try:
            with opened(self.redis, address, timeout_s=_ANSWER_S) as session:
                told = session.info()
        except TargetError:
            return False
        return any(told.get(name, "0") != "0" for name in _LOADING)

    def companion(self, settings: Mapping[str, str], address: ServerAddress) -> Companion | None:
        """Return the replica of a running server, which follows it over the loopback network."""
        if self.replica is None:
            return None
        asked = {**settings, **dict(self.replica)}
        last = {name.lower(): value for name, value in asked.items()}  # case makes no other name
        program = RedisReplica(
            installation=self.installation,
            redis=self.redis,
            primary=address,
            asked=tuple(last.items()),
        )
        follows = {"replicaof": f"{LOOPBACK} {address.port}"}
        return Companion(program=program, settings={**asked, **follows})


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisReplica(RedisProgram):
    """The same program as a replica: it has a socket alone, and begins without data.

    Attributes:
        primary: Whom it follows.
        asked: Settings that must be in force, by name in small letters.
    """

    primary: ServerAddress
    asked: tuple[tuple[str, str], ...] = ()

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether it follows its primary and has all of it: on its disk, too.

        Its link is up before anything more comes: the primary may begin to send what was written
        since only a second later, when the replica tells it again how far it has come.

        A copy is on the disk when the rewrite of the append-only file after it has ended.

        Raises:
            TargetError: It has everything, and a setting is not in force as asked.
        """
        try:
            with opened(self.redis, address, timeout_s=_ANSWER_S) as session:
                told = session.info()
                rewrites = (told.get("aof_rewrite_in_progress"), told.get("aof_rewrite_scheduled"))
                if told.get("master_link_status") != "up" or rewrites != ("0", "0"):
                    return False
                shown = read_settings(session) if self.asked else {}
                if not self._is_fed():
                    return False
        except TargetError:
            return False
        self._require_in_force(shown)
        return True

    def _is_fed(self) -> bool:
        """Return whether what the primary says now arrives: a message, which is in no data."""
        with opened(self.redis, self.primary, timeout_s=_ANSWER_S) as session:
            session.command("PUBLISH", _ARRIVED, "")
            return session.command("WAIT", 1, _ARRIVES_MS) != 0

    def _require_in_force(self, shown: Mapping[str, str]) -> None:
        wanted = [Setting(layer=Layer.REDIS, name=name, value=value) for name, value in self.asked]
        found = [EffectiveSetting(name=name, value=value) for name, value in shown.items()]
        unlike = deviations(wanted, found)
        if unlike:
            raise TargetError("; ".join(unlike), hint="Correct it in the target's `replica:`.")


def configuration_text(settings: Mapping[str, str]) -> str:
    """Return a redis.conf with these settings, one a line."""
    lines = [f"{name} {_quoted(name, value)}" for name, value in settings.items()]
    return "\n".join(["# Written by Steelyard.", *lines, ""])


def _quoted(name: str, value: str) -> str:
    words = value.split() if name.lower() in _SEVERAL_WORDS and value.strip() else [value]
    return " ".join(_word(word) for word in words)


def _word(word: str) -> str:
    """Return a word in quotation marks, with the escapes of redis.conf (sdssplitargs)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
