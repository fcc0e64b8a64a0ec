"""Where the one thread was that serves all sessions of a server: in a queue, or held up."""

from dataclasses import dataclass, field

from steelyard.experiment.probes.processes import parse_scheduled
from steelyard.gateways.host import Host
from steelyard.model.evidence import Absence, Quantity

_UNINTERRUPTIBLE = "D"  # the field after the name; see proc_pid_stat(5)


@dataclass(slots=True, kw_only=True)
class MainThread:
    """Looks at the first thread of a process on this machine.

    A thread in uninterruptible sleep waits for a device, for the writing back of dirty pages, or
    for another thread that holds the file; it cannot serve anybody then.
    """

    host: Host
    pid: int
    _queued_s: float | None = field(init=False)
    _blocked_s: float = 0.0
    _last_s: float = 0.0
    _looks: int = 0

    def __post_init__(self) -> None:
        self._queued_s = self._delay_s()

    def look(self, at_s: float) -> None:
        """Take what it does now for what it did since the last look."""
        text = self.host.read(f"/proc/{self.pid}/task/{self.pid}/stat") or ""
        state = text.rpartition(")")[2].strip()[:1]  # a name may have parentheses of its own
        if state:
            self._looks += 1
            self._blocked_s += at_s - self._last_s if state == _UNINTERRUPTIBLE else 0.0
        self._last_s = at_s

    def totals(self) -> dict[str, float]:
        """Return what was seen since the beginning."""
        found: dict[str, float] = {}
        if self._looks:
            found[Quantity.MAIN_THREAD_BLOCKED_S] = round(self._blocked_s, 3)
        queued_s = self._delay_s()
        if queued_s is not None and self._queued_s is not None:
            found[Quantity.MAIN_THREAD_RUN_QUEUE_S] = round(queued_s - self._queued_s, 6)
        return found

    def _delay_s(self) -> float | None:
        path = f"/proc/{self.pid}/task/{self.pid}/schedstat"
        scheduled = parse_scheduled(self.host.read(path))
        return None if scheduled is None else scheduled.delay_s


def unseen_thread() -> Absence:
    """Return why nobody could look at it."""
    return Absence(
        subject="main thread",
        reason="The server's process is not visible from here: what held its main thread up, and"
        " how long it waited for a CPU, is not known.",
    )
