"""Load generators on a host that the user's own ssh reaches.

Nothing is installed there: an agent runs from a directory of its own, which it removes when it is
told to, or when it has heard of nobody for ten minutes.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from steelyard.core.outside import Command, Completed
from steelyard.core.wording import MeasurementError, PreflightError, SteelyardError
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Dialogue
from steelyard.gateways.ssh import SshHost
from steelyard.places.agent.agent import AgentHome, AgentPlace, agent_script
from steelyard.places.agent.programs import AgentProcesses, ShortProcesses
from steelyard.places.protocol import HostSight

LEASE_S: Final = 600  # an agent that has heard of nobody for so long is in nobody's use; a guess
_BEGINS_S: Final = 30.0
_ANSWERS_S: Final = 15.0
_OLD_BASH, _NO_ROOM, _NO_NPROC = 6, 7, 8  # exit statuses of what follows
# It comes with the agent on its standard input. Logs are in memory where that is a file system.
_BEGIN: Final = f"""
umask 077
((BASH_VERSINFO[0] >= 5)) || exit {_OLD_BASH}
command -v nproc >/dev/null || exit {_NO_NPROC}
home=${{TMPDIR:-/tmp}}/$1 logs=
[[ -d /dev/shm && -w /dev/shm ]] && logs=/dev/shm/$1
mkdir "$home" || exit {_NO_ROOM}
mkdir "${{logs:=$home/logs}}" || {{ rmdir "$home"; exit {_NO_ROOM}; }}
cat >"$home/agent.sh" || {{ rm -rf "$home" "$logs"; exit {_NO_ROOM}; }}
export STEELYARD_HOME=$home STEELYARD_LOGS=$logs STEELYARD_LEASE=$2 HOME
setsid bash "$home/agent.sh" serve </dev/null >/dev/null 2>&1 &
for ((n = 0; n < 100; n++)); do [[ -s $home/heard ]] && break; sleep 0.05; done
echo "home $home"
echo "logs $logs"
echo "cpus $(nproc)"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnHost:
    """One of the generators on a host; see ``AgentPlace``."""

    needs: ClassVar[str] = (
        "Install bash from version 5 on, and PostgreSQL's client programs, there."
    )
    host: SshHost = field(compare=False, repr=False)
    number: int
    label: str
    home: AgentHome

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: str = "") -> Completed:
        return self.host.run((*_variables(self.home), *argv), timeout_s=timeout_s, stdin=stdin)

    def talk(self, argv: Sequence[str]) -> Dialogue:
        return self.host.talk((*_variables(self.home), *argv))

    def loss(self) -> str:
        """Return nothing: what is lost knows nothing of its orders, and says so itself."""
        return ""


def _variables(home: AgentHome) -> tuple[str, ...]:
    variables = {"HOME": home.work, "LOGS": home.logs, "LEASE": LEASE_S}
    return ("env", *(f"STEELYARD_{name}={value}" for name, value in variables.items()))


class GeneratorHost:
    """The places of load generators on one host; see ``AgentPlaces``.

    Args:
        name: Of the directory; the same for nobody else.
        number: Of generators.

    Attributes:
        spare_log_kib: A guess.
    """

    spare_log_kib: Final = 64 * 1024

    def __init__(self, host: SshHost, name: str, number: int) -> None:
        self._host = host
        self._name = name
        self._number = number
        self._renewing = threading.Lock()
        self._began = 0
        self.ready: tuple[AgentPlace, ...] = ()
        self.cpus = 0

    @property
    def label(self) -> str:
        """Return what it is called."""
        return f"host {self._host.destination.host}"

    @property
    def has_agent(self) -> bool:
        """Return whether an agent was brought there, whatever has become of it."""
        return self._began > 0

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a short program there, which needs no agent; raises as ``SshHost.run``."""
        return self._host.run(argv, timeout_s=timeout_s, stdin=stdin)

    def make(self) -> None:
        """Bring the agent there and start it.

        Raises:
            PreflightError: The host lacks what it needs.
            TargetError: It cannot be reached.
        """
        self._host.open()
        self._began += 1
        argv = ("bash", "-c", _BEGIN, "steelyard", f"{self._name}-{self._began}", str(LEASE_S))
        done = self._host.run(argv, timeout_s=_BEGINS_S, stdin=agent_script())
        if not done.succeeded:
            raise self._refusal(done)
        said = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
        self.cpus = int(said["cpus"])
        home = AgentHome(
            script=f"{said['home']}/agent.sh",
            work=said["home"],
            logs=said["logs"],
            has_password=False,
        )
        self.ready = tuple(
            _OnHost(host=self._host, number=number, label=self.label, home=home)
            for number in range(self._number)
        )

    def _refusal(self, done: Completed) -> PreflightError:
        said = done.tail(1)
        reasons = {
            _OLD_BASH: "its bash is older than version 5",
            _NO_ROOM: f"no directory can be made there: {said}",
            _NO_NPROC: "it has no nproc",
        }
        reason = reasons.get(done.exit_status, said or f"exit status {done.exit_status}")
        return PreflightError(
            f"{self.label} cannot run load generators: {reason}",
            hint="It needs bash from version 5 on and the GNU coreutils, and room in /tmp.",
        )

    def renew(self, told: Callable[[str], None]) -> None:
        """Start the agent anew where it has ended."""
        with self._renewing:
            self._host.open()
            if self.ready and self._asked("alive").succeeded:
                return
            told(f"the agent on {self.label} has ended; it is started anew")
            self._leave()
            try:
                self.make()
            except PreflightError as error:
                raise MeasurementError(error.message, hint=error.hint) from error

    def close(self) -> None:
        """End and remove what is there; what cannot be reached removes itself."""
        self._leave()
        self._host.close()

    def _leave(self) -> None:
        with suppress(SteelyardError):
            if self.ready:
                self._asked("leave")
        self.ready = ()

    def _asked(self, verb: str) -> Completed:
        place = self.ready[0]
        return place.run(("bash", place.home.script, verb), timeout_s=_ANSWERS_S)


class HostProcesses(AgentProcesses):
    """Runs programs on a host; see ``AgentProcesses``."""

    def __init__(
        self,
        host: GeneratorHost,
        clock: Clock,
        *,
        roots: Sequence[Path],
        told: Callable[[str], None],
    ) -> None:
        super().__init__(host, clock, roots=roots, told=told)
        self.host = host

    @property
    def sight(self) -> HostSight:
        """Return what can be seen of the host."""
        return HostSight(label=self.host.label, cpus=self.host.cpus, used_s=self._used_s)

    def _used_s(self) -> float:
        """Return the CPU seconds of all that were run together last."""
        return sum(each.program_s for each in self.last_runs)

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command to its end: without an agent where none was brought there."""
        if self.host.has_agent:
            return super().run(command, timeout_s=timeout_s, stdin=stdin)
        return ShortProcesses(self.host.run).run(command, timeout_s=timeout_s, stdin=stdin)
