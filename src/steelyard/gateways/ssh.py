"""The only door to machines over SSH: the user's own ``ssh``, with its keys, hosts and settings."""

import os
import shlex
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from steelyard.core.outside import Command
from steelyard.core.wording import InputError, TargetError
from steelyard.gateways.placed_files import FetchedHost, Wanted, new_mark, parse_fetched, script
from steelyard.gateways.process import Processes

_SCHEME: Final = "ssh"
_TIMEOUT_S: Final = 120.0  # a guess: thousands of small files over a slow line
_FAILED: Final = 255  # ssh's own exit status for its own failures: ssh(1)
# Nobody is there to answer questions; a line that is cut is noticed after a minute. Guesses.
_OPTIONS: Final = {
    "BatchMode": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
}
# What ssh needs of the environment to find the user's keys.
_AGENTS: Final = ("SSH_AUTH_SOCK", "KRB5CCNAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A machine as ssh knows it; the host may be a name from the user's ``~/.ssh/config``."""

    host: str
    user: str | None = None
    port: int | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the arguments of ssh that lead there."""
        port = () if self.port is None else ("-p", str(self.port))
        return (*port, "--", f"{self.user}@{self.host}" if self.user else self.host)


def parse_destination(uri: str) -> Destination:
    """Return the machine of a URI such as ``ssh://admin@db1:2222``.

    Raises:
        InputError: It is no such URI, or it holds a password.
    """
    hint = "Write it as ssh://host, ssh://user@host or ssh://user@host:22."
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise InputError(f"`{uri}` is not the address of a machine", hint=hint) from error
    if parts.password is not None:
        raise InputError(
            "a password has no place in the address of a machine",
            hint="Use a key or an agent; ssh finds them by itself.",
        )
    extra = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != _SCHEME or not parts.hostname or extra:
        raise InputError(f"`{uri}` is not the address of a machine", hint=hint)
    host = parts.netloc.rpartition("@")[2]
    named = parts.hostname if host.startswith("[") else host.partition(":")[0]  # its own case
    return Destination(host=named, user=parts.username or None, port=port)


def ssh_command(
    destination: Destination, words: str, *options: str, parent_death_signal: int = 0
) -> Command:
    """Return the call of ssh that runs words of a shell on a machine.

    ``options`` come before our own of the same names: ssh takes the first.
    """
    ours = (word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}"))
    return Command(
        argv=("ssh", "-T", *options, *ours, *destination.words, words),
        environment={name: os.environ[name] for name in _AGENTS if name in os.environ},
        parent_death_signal=parent_death_signal,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SshMachine:
    """A machine over SSH.

    Attributes:
        processes: Runs ssh.
    """

    destination: Destination
    processes: Processes

    def fetch(self, wanted: Wanted) -> FetchedHost:
        """Return what is wanted of the machine, by one call of ssh.

        Raises:
            TargetError: The machine cannot be reached, or has no shell for us.
        """
        mark = new_mark()
        command = ssh_command(self.destination, "sh -s")
        done = self.processes.run(command, timeout_s=_TIMEOUT_S, stdin=script(wanted, mark))
        host = parse_fetched(done.stdout, mark)
        if host is not None:
            return host
        reason = done.tail(1) or f"exit status {done.exit_status}"
        if done.exit_status == _FAILED:
            raise TargetError(
                f"{self.destination.host} cannot be reached over ssh: {reason}",
                hint=f"Does `ssh -o BatchMode=yes {shlex.join(self.destination.words)} true` work?",
            )
        raise TargetError(
            f"{self.destination.host} did not run a shell script to its end: {reason}",
            hint="The account needs a POSIX shell there, with cat, grep and od.",
        )
