"""A server of a moment, asked of its settings before anything is measured.

It works in an empty private directory, on a socket there, and is killed when it has answered.
"""

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.engines.redis.installation import RedisInstallation
from steelyard.engines.redis.server import CONFIGURATION, WHILE_PREPARING, configuration_text
from steelyard.gateways.files import read_text, remove_tree, short_directory, write_text
from steelyard.gateways.process import Processes
from steelyard.gateways.redis import RedisDoor, RedisSession
from steelyard.model.command import Command, ServerAddress
from steelyard.model.errors import PreflightError, TargetError

_POLL_S: Final = 0.02
_POLLS: Final = 1500  # half a minute; it takes some 50 ms
_LOG: Final = "log"
# "Reading the configuration file, at line 3", ">>> 'appendfsync sometimes'", what is wrong
_COMPLAINT: Final = re.compile(
    r"FATAL CONFIG FILE ERROR.*?^>>> '(?P<line>.*?)'$\n(?P<words>.*?)$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A setting that a server does not start with.

    Attributes:
        setting: Its name; empty when the server does not say which.
        words: Its own.
    """

    setting: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Starts an installed server for a moment."""

    installation: RedisInstallation
    redis: RedisDoor
    processes: Processes
    account: str | None

    @contextmanager
    def session(self) -> Iterator[RedisSession]:
        """Yield a session on a server whose every setting is the default.

        Raises:
            PreflightError: It does not start.
        """
        with self._started({}) as session:
            if isinstance(session, Refusal):
                raise PreflightError(
                    f"{self.installation.label} does not start: {session.words}",
                    hint=f"Does {self.installation.server} run on this machine?",
                )
            yield session

    def refusals(self, settings: Mapping[str, str]) -> tuple[Refusal, ...]:
        """Return everything that a server says against these settings."""

        def tried(left: Mapping[str, str]) -> Refusal | None:
            with self._started({**WHILE_PREPARING, **left}) as outcome:
                return outcome if isinstance(outcome, Refusal) else None

        return all_refusals(settings, tried)

    @contextmanager
    def _started(self, settings: Mapping[str, str]) -> Iterator[RedisSession | Refusal]:
        home = short_directory("steelyard-check-", account=self.account, announce=lambda _: None)
        try:
            address = ServerAddress(host=str(home / "redis.sock"), port=0, database="0")
            own = {"port": "0", "unixsocket": address.host, "daemonize": "no"}
            text = configuration_text({**settings, **own})
            write_text(home / CONFIGURATION, text, account=self.account)
            yield from self._answer(home, address)
        finally:
            remove_tree(home)

    def _answer(self, home: Path, address: ServerAddress) -> Iterator[RedisSession | Refusal]:
        command = Command(
            argv=(str(self.installation.server), str(home / CONFIGURATION)),
            account=self.account,
            directory=home,
            parent_death_signal=signal.SIGKILL,
        )
        process = self.processes.start(command, output=home / _LOG)
        try:
            for _ in range(_POLLS):
                if process.wait(_POLL_S):
                    yield refusal_in(read_text(home / _LOG) or "")
                    return
                try:
                    session = self.redis.connect(address)
                except TargetError:
                    continue
                with closing(session):
                    yield session
                return
            yield Refusal(setting="", words="it does not answer")
        finally:
            process.signal(signal.SIGKILL)
            process.wait(_POLL_S * _POLLS)


def all_refusals(
    settings: Mapping[str, str], tried: Callable[[Mapping[str, str]], Refusal | None]
) -> tuple[Refusal, ...]:
    """Return everything that a server says against settings; it tells one at a time."""
    left, found = dict(settings), list[Refusal]()
    while left and (outcome := tried(left)) is not None:
        found.append(outcome)
        named = [name for name in left if name.lower() == outcome.setting.lower()]
        if not named:
            break
        for name in named:
            del left[name]
    return tuple(found)


def refusal_in(log: str) -> Refusal:
    """Return what a server that ended said last."""
    said = _COMPLAINT.search(log)
    if said is None:
        return Refusal(setting="", words=" ".join(log.strip().splitlines()[-1:]))
    return Refusal(setting=said["line"].split()[0], words=said["words"])
