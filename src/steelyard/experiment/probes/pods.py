"""Watches the pods of a run: the server's container and node, and the generators' containers.

The server is read in full before the run and after it, and in between a loop prints the most
important once a second; the generators are read before and after. All of it runs in the
containers, by bash alone (`pod_script`).
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from steelyard.experiment.probes.pod_accounts import Account
from steelyard.experiment.probes.pod_counters import Devices
from steelyard.experiment.probes.pod_evidence import GeneratorSeen, PodsSeen
from steelyard.experiment.probes.pod_script import BOOT, generator_script, server_script
from steelyard.experiment.probes.pod_timeline import PodLoop, placed
from steelyard.experiment.probes.probe import Part
from steelyard.gateways.clock import Clock
from steelyard.gateways.fetched import new_mark, parse_fetched
from steelyard.gateways.host import Host
from steelyard.model.errors import MeasurementError, SteelyardError
from steelyard.model.kubernetes import ContainerRef
from steelyard.platforms.kubernetes.sight import PodSight

_TIMEOUT_S: Final = 8.0  # of one reading; the watch waits 10 s for the last
_Read = Account | SteelyardError


class PodProbe:
    """Reads the server's container and node, and the generators' containers.

    Args:
        sight: The containers.
        host: This machine: where it is the database's node, Steelyard itself is no other there.
        clock: Of this machine.
    """

    subject = "the database's container"
    interval_s = 1.0

    def __init__(self, *, sight: PodSight, host: Host, clock: Clock) -> None:
        self._sight = sight
        self._host = host
        self._clock = clock
        self._loop = PodLoop(sight.api, sight.database, clock)
        self._before: tuple[_Read, ...] = ()
        self._devices = Devices()
        self._own_s = 0.0
        self._trouble = ""

    def begin(self) -> None:
        """Read everything, then start the loop; without it a run has totals and no timeline."""
        self._before = self._read(at_end=False)
        server = _required(self._before[0])
        self._devices = Devices.of(server)
        self._own_s = self._host.own_cpu_s()
        try:
            self._loop.start(server, self._devices.data)
        except SteelyardError as error:
            self._trouble = error.message

    def sample(self, at_s: float) -> None:
        """Keep the loop going."""
        del at_s
        try:
            self._loop.renew()
        except SteelyardError as error:
            self._trouble = error.message

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Read everything once more, and end the loop."""
        del lost
        begun_at = self._clock.monotonic() - at_s
        own_s = self._host.own_cpu_s() - self._own_s
        self._loop.close()
        after = self._read(at_end=True)
        return PodsSeen(
            before=_required(self._before[0]),
            after=_required(after[0]),
            generators=tuple(map(_seen, self._before[1:], after[1:])),
            devices=self._devices,
            same_node=self._sight.same_node,
            skew=self._sight.start_skew(),
            taken=tuple(placed(self._loop.taken, begun_at)),
            ended_s=at_s,
            steelyard_s=own_s,
            steelyard_boot=(self._host.read(BOOT) or "").strip(),
            trouble=self._trouble or self._loop.failure,
        ).part()

    def abandon(self) -> None:
        """Hang up."""
        self._loop.close()

    def _read(self, *, at_end: bool) -> tuple[_Read, ...]:
        """Return the accounts of all containers, the server's first, at nearly one moment."""
        mark = new_mark()
        ending = self._loop.pid if at_end else None
        scripts = [
            (self._sight.database, server_script(mark, at_end=at_end, ending=ending)),
            *((where, generator_script(mark)) for where in self._sight.generators),
        ]
        with ThreadPoolExecutor(len(scripts), thread_name_prefix="probe pods") as workers:
            return tuple(workers.map(lambda each: self._account(each[0], each[1], mark), scripts))

    def _account(self, where: ContainerRef, script: str, mark: str) -> _Read:
        try:
            argv = ("bash", "-c", script)
            done = self._sight.api.run(where, argv, timeout_s=_TIMEOUT_S)
        except SteelyardError as error:
            return error
        host = parse_fetched(done.stdout, mark)
        if host is None:
            said = done.tail(1) or f"exit status {done.exit_status}"
            message = f"bash in {where.pod} did not read its files: {said}"
            return MeasurementError(message, hint="Its image needs bash.")
        return Account(host=host)


def _required(read: _Read) -> Account:
    """Return the account of a container.

    Raises:
        SteelyardError: It could not be read.
    """
    if isinstance(read, SteelyardError):
        raise read
    return read


def _seen(before: _Read, after: _Read) -> GeneratorSeen:
    failures = [each.message for each in (before, after) if isinstance(each, SteelyardError)]
    return GeneratorSeen(
        before=before if isinstance(before, Account) else None,
        after=after if isinstance(after, Account) else None,
        failure=next(iter(failures), ""),
    )
