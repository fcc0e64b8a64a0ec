"""The seconds of a run as a container's loop prints them."""

import threading
from collections.abc import Sequence
from typing import Final

from steelyard.experiment.probes.pod_accounts import Account
from steelyard.experiment.probes.pod_script import loop_script, renewal
from steelyard.gateways.clock import Clock
from steelyard.gateways.fetched import new_mark, parse_fetched
from steelyard.gateways.kubernetes.api import KubernetesApi, Lines
from steelyard.model.errors import SteelyardError
from steelyard.model.kubernetes import ContainerRef

# Of a loop that nobody ends: its connection was lost, or Steelyard died. Guesses.
LEASE_S: Final = 600
_RENEWED_AFTER_S: Final = 200.0
_TIMEOUT_S: Final = 10.0
_OF_GROUP: Final = ("cpuacct.usage", "cpu.stat")


class PodLoop:
    """Reads what a loop in a container prints, in a thread of its own."""

    def __init__(self, api: KubernetesApi, where: ContainerRef, clock: Clock) -> None:
        self._api = api
        self._where = where
        self._clock = clock
        self._mark = new_mark()
        self._lines: Lines | None = None
        self._closed = False
        self._renewed_at = clock.monotonic()
        self.taken: list[tuple[float, Account]] = []
        self.failure = ""

    def start(self, first: Account, device: str | None) -> None:
        """Start the loop over the files that the first account of the container has.

        Raises:
            SteelyardError: It cannot be started.
        """
        found = [path for name in _OF_GROUP if (path := first.path_of_group(name)) is not None]
        files = ["/proc/uptime", "/proc/stat:2", *found]
        if device is not None:
            files += [f"/sys/dev/block/{device}/stat"]
        script = loop_script(self._mark, files, lease_s=LEASE_S)
        self._lines = self._api.lines(self._where, ("bash", "-c", script))
        threading.Thread(target=self._read, name="probe loop", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """Return its process id, as the container counts them; None before it said so."""
        return self.taken[0][1].pid if self.taken else None

    def renew(self) -> None:
        """Tell the loop that it is still wanted, where it is time to."""
        now = self._clock.monotonic()
        if self.pid is None or now - self._renewed_at < _RENEWED_AFTER_S:
            return
        self._renewed_at = now
        self._api.run(self._where, ("bash", "-c", renewal(self.pid)), timeout_s=_TIMEOUT_S)

    def close(self) -> None:
        """Hang up; the loop itself is ended by what reads last."""
        self._closed = True
        if self._lines is not None:
            self._lines.close()

    def _read(self) -> None:
        lines: list[str] = []
        try:
            for line in self._lines or ():
                lines.append(line)
                if line == f"{self._mark} end":
                    self._keep("\n".join(["", *lines]))
                    lines = []
            self._fail("its connection was closed")
        except SteelyardError as error:
            self._fail(error.message)
        except Exception as error:  # noqa: BLE001 - whatever fails here must not end a run
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        if not self._closed:
            self.failure = reason

    def _keep(self, text: str) -> None:
        host = parse_fetched(text, self._mark)
        if host is not None and not self._closed:
            self.taken.append((self._clock.monotonic(), Account(host=host)))


def placed(taken: Sequence[tuple[float, Account]], begun_at: float) -> list[tuple[float, Account]]:
    """Return accounts with their seconds since the run's start, by the node's own clock.

    When the first of them arrived ties that clock to ours; later ones may have been held up on
    their way.
    """
    if not taken:
        return []
    arrived, first = taken[0]
    found = []
    for _, account in taken:
        if account.uptime_s is not None and first.uptime_s is not None:
            at_s = arrived - begun_at + account.uptime_s - first.uptime_s
            if at_s > 0:
                found.append((at_s, account))
    return found
