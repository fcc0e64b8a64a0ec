"""Watches the container of a server and its node, by bash in the container (``pod_script``).

It is read in full before a run and after it, and in between a loop prints the most important once
a second. In turns it is read before the first and after the last: what its control group counted
is then of this server alone, with what it did in pauses; what its node counted is of all
configurations, and left out. The load generator is a process of this machine, and read here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from steelyard.campaign.evidence import neighbours
from steelyard.campaign.evidence import pod_script as accounts
from steelyard.campaign.evidence.machine import (
    HUGE_PAGES,
    MEMORY,
    difference,
    generator_levels,
    rounded,
    timeline,
    with_others_used,
)
from steelyard.campaign.evidence.pod_script import (
    BOOT,
    Account,
    PodLoop,
    placed,
    server_script,
)
from steelyard.campaign.evidence.probe import Part, Probe
from steelyard.campaign.evidence.sources import (
    Counted,
    Sources,
    known,
    of_the_kernel,
    of_the_machine,
    of_the_quota,
    of_the_wal,
)
from steelyard.core.measurement import Absence, OtherProcess, Quantity
from steelyard.core.wording import MeasurementError, SteelyardError
from steelyard.gateways.host import Clock, Host, cpu_times, memory_bytes
from steelyard.gateways.placed_files import new_mark, parse_fetched
from steelyard.places.protocol import PodSight


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices below a server's data and WAL by their numbers (``254:0``), where they have any.

    Attributes:
        wal: Only where it is another device than that of the data.
    """

    data: str | None = None
    wal: str | None = None

    @classmethod
    def of(cls, account: Account) -> "Devices":
        """Return those that the first account of a run shows."""
        data, wal = (accounts.device_numbers(account, name) for name in ("data", "wal"))
        return cls(data=data, wal=wal if wal != data else None)


def container_counters(account: Account) -> Counted:
    """Return the counters of a server's control group."""
    read, written = accounts.device_bytes(account)
    counted = known(
        {
            Quantity.SERVER_CPU_S: accounts.cpu_s(account),
            Quantity.SERVER_READ_BYTES: read,
            Quantity.SERVER_WRITTEN_BYTES: written,
        }
    )
    return counted | of_the_quota(accounts.throttled(account))


def timeline_counters(account: Account, devices: Devices) -> Counted:
    """Return what a look in passing shows of a server's container and node, and more."""
    counted = of_the_machine(cpu_times(account.host.read("/proc/stat")))
    return counted | accounts.device(account, devices.data) | container_counters(account)


def server_counters(account: Account, devices: Devices) -> Counted:
    """Return all counters of a server's container and of its node."""
    wal = of_the_wal(accounts.device(account, devices.wal))
    return timeline_counters(account, devices) | wal | of_the_kernel(account.host.read)


def server_levels(account: Account) -> Counted:
    """Return what a server's container and its node have at the end of a run."""
    info = memory_bytes(account.host.read("/proc/meminfo"))
    times = cpu_times(account.host.read("/proc/stat"))
    used, working_set = accounts.memory(account)
    size, free = accounts.space(account) or (None, None)
    return known(
        {
            **{quantity: info.get(name) for quantity, name in (MEMORY | HUGE_PAGES).items()},
            Quantity.CPUS: None if times is None else times.cpus,
            Quantity.SERVER_CPUS: accounts.usable_cpus(account),
            Quantity.SERVER_MEMORY_BYTES: used,
            Quantity.SERVER_WORKING_SET_BYTES: working_set,
            Quantity.SERVER_HUGE_BYTES: accounts.huge_bytes(account),
            Quantity.DISK_BYTES: size,
            Quantity.DISK_FREE_BYTES: free,
        }
    )


def absent(account: Account, seen: Collection[Quantity]) -> tuple[Absence, ...]:
    """Return what the account of a server's container does not show, and why."""
    no_server = "no server process is visible in the container"
    reasons = {
        Quantity.SERVER_CPU_S: (
            "the server's processes",
            "the container has no control group that counts CPU time",
        ),
        Quantity.CPU_IDLE_S: ("CPU of the machine", "/proc/stat cannot be read there"),
        Quantity.CPU_PRESSURE_S: (
            "pressure",
            "the kernel counts none: /proc/pressure is absent or switched off",
        ),
        Quantity.SWAPPED_PAGES: ("swapping", "/proc/vmstat cannot be read there"),
        Quantity.SERVER_WRITTEN_BYTES: (
            "server_written_bytes",
            "control groups of version 1 do not count what the kernel writes for the container",
        ),
        Quantity.DEVICE_BUSY_S: (
            "device of the data directory",
            "its volume has no block device of the node" if account.pid else no_server,
        ),
        Quantity.SERVER_HUGE_BYTES: (
            "huge pages of the server",
            "/proc/PID/maps of the server cannot be read there" if account.pid else no_server,
        ),
        Quantity.DISK_FREE_BYTES: ("free disk", "`stat -f` of the data directory failed there"),
    }
    missing = [why for quantity, why in reasons.items() if quantity not in seen]
    missing.append(
        (
            "run-queue time of the server",
            "reading it of every process from a shell would cost the server too much",
        )
    )
    if len(account.host.names("/sys/devices/system/node")) > 1:
        missing.append(
            (
                "memory nodes of the server",
                "reading /proc/PID/numa_maps of every process would cost the server too much",
            )
        )
    return tuple(Absence(subject=subject, reason=reason) for subject, reason in missing)


# In brackets like a thread of the kernel: interrupts also work for the server.
_INTERRUPTS: Final = "[interrupts]"


def _interrupts(before: Account, after: Account) -> tuple[OtherProcess, ...]:
    begin, end = accounts.interrupts_s(before), accounts.interrupts_s(after)
    if begin is None or end is None or end <= begin:
        return ()
    spent_s = rounded(end - begin)
    return (OtherProcess(pid=0, name=_INTERRUPTS, cpu_s=spent_s, io_bytes=None),)


def _without_cost(counted: Counted, last: Account) -> Counted:
    """Return counters of a container without what it took to read them the last time."""
    if Quantity.SERVER_CPU_S not in counted or last.own_cost_s is None:
        return counted
    used_s = counted[Quantity.SERVER_CPU_S] - last.own_cost_s
    return {**counted, Quantity.SERVER_CPU_S: max(used_s, 0.0)}


_TIMEOUT_S: Final = 8.0  # of one reading; the watch waits 10 s for the last


def read_container(sight: PodSight, *, at_end: bool, ending: int | None = None) -> Account:
    """Return the account of a server's container and its node, as ``server_script`` tells it.

    Raises:
        MeasurementError: Its bash printed none.
    """
    mark = new_mark()
    argv = ("bash", "-c", server_script(mark, at_end=at_end, ending=ending))
    done = sight.api.run(sight.database, argv, timeout_s=_TIMEOUT_S)
    host = parse_fetched(done.stdout, mark)
    if host is None:
        reason = done.tail(1) or f"exit status {done.exit_status}"
        message = f"bash in {sight.database.pod} did not read its files: {reason}"
        raise MeasurementError(message, hint="Its image needs bash.")
    return Account(host=host)


_OURS_BESIDE: Final = {Quantity.GENERATOR_CPU_S, Quantity.STEELYARD_CPU_S}


def _is_beside(account: Account, host: Host) -> bool:
    """Return whether a container is on this machine, whose CPUs it shares with the generator."""
    return bool(account.boot) and account.boot == (host.read(BOOT) or "").strip()


# What this machine has of a run in turns, whose node counts the turns of others, too.
_OF_NODE: Final = (
    *(Quantity.CPU_IDLE_S, Quantity.CPU_PRESSURE_S, Quantity.SWAPPED_PAGES),
    Quantity.DEVICE_BUSY_S,
)
_NODE_IN_TURNS: Final = Absence(
    subject="the database's node",
    reason="In turns its counters are of all configurations. Those of the database's container are"
    " read before the first turn and after the last, with what the server did in pauses.",
)


class PodProbe(Probe):
    """Reads the server's container, in one piece also its node and the generator's side.

    In turns it is read before the first and after the last: a command in a container takes longer
    than a turn.

    Args:
        sight: The container.
        host: This machine.
        clock: Of this machine.
        in_turns: The run takes turns with others.
        is_shared: Other configurations have the same server: its counters are of all of them.
    """

    subject = "the database's container"

    def __init__(
        self,
        *,
        sight: PodSight,
        host: Host,
        clock: Clock,
        in_turns: bool = False,
        is_shared: bool = False,
    ) -> None:
        self.interval_s = None if in_turns else 1.0
        self._sight = sight
        self._host = host
        self._clock = clock
        self._in_turns = in_turns
        self._is_shared = is_shared
        self._loop = PodLoop(sight.api, sight.database, clock)
        self._links = neighbours.LinkSums(host=host)
        self._devices = Devices()
        self._trouble = ""
        self._begun_at: float | None = None
        self._before: Account
        self._here: Sources
        self._generator: Counted

    def begin(self) -> None:
        """Read everything, then start the loop; without it a run has totals and no timeline."""
        self._before = read_container(self._sight, at_end=False)
        if self._in_turns:
            return
        self._devices = Devices.of(self._before)
        try:
            self._loop.start(self._before, self._devices.data)
        except SteelyardError as error:
            self._trouble = error.message
        self._here = Sources.of(self._host, None)
        self._links.begin()
        self._generator = self._here.of_the_generator()

    def sample(self, at_s: float) -> None:
        """Keep the loop going, and look at the generator, whose queue does not outlive it."""
        self._begun_at = self._clock.monotonic() - at_s
        self._here.own_sampled()
        try:
            self._loop.renew()
        except SteelyardError as error:
            self._trouble = error.message

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Read everything once more, and end the loop."""
        del lost
        if self._in_turns:
            return self._part_of_turns()
        begun_at = self._clock.monotonic() - at_s if self._begun_at is None else self._begun_at
        taken = placed(self._loop.taken, begun_at)
        generator = difference(self._generator, self._here.of_the_generator())
        self._links.end()
        self._loop.close()
        after = read_container(self._sight, at_end=True, ending=self._loop.pid)
        is_beside = _is_beside(after, self._host)
        counters = partial(timeline_counters, devices=self._devices)
        readings = [
            (0.0, counters(self._before)),
            *((second, counters(account)) for second, account in taken),
            (at_s, _without_cost(counters(after), after)),
        ]
        last = _without_cost(server_counters(after, self._devices), after)
        used = difference(server_counters(self._before, self._devices), last) | generator
        # What the generator used by the second is not known by the clock of the node.
        ours = {Quantity.SERVER_CPU_S} | (_OURS_BESIDE if is_beside else set())
        with_others = partial(with_others_used, ours=ours)
        unsampled, totals = self._here.unsampled(used), with_others(used)
        levels = server_levels(after) | generator_levels(self._host)
        levels |= known({Quantity.LINK_BUSIEST_FRACTION: self._links.busiest_fraction(at_s)})
        levels[Quantity.GENERATORS_BESIDE] = float(is_beside)
        return Part(
            totals={q.value: value for q, value in totals.items() if q not in unsampled},
            levels={q.value: value for q, value in levels.items()},
            series=timeline(readings, with_others),
            others=_interrupts(self._before, after),
            absent=(
                *absent(after, {*totals, *levels}),
                *self._here.generator.absent(),
                *unsampled.values(),
                *self._absent_timeline(),
            ),
            server_cpu_s=self._cost_s(),
        )

    def _part_of_turns(self) -> Part:
        after = read_container(self._sight, at_end=True)
        last = _without_cost(container_counters(after), after)
        used, levels = difference(container_counters(self._before), last), server_levels(after)
        unseen = absent(after, {*used, *levels, *_OF_NODE})
        levels.pop(Quantity.CPUS, None)  # beside this machine's CPU times
        levels[Quantity.GENERATORS_BESIDE] = float(_is_beside(after, self._host))
        return Part(
            totals={} if self._is_shared else {q.value: value for q, value in used.items()},
            levels={q.value: value for q, value in levels.items()},
            absent=(_NODE_IN_TURNS, *unseen),
        )

    def abandon(self) -> None:
        """Hang up."""
        self._loop.close()

    def _absent_timeline(self) -> tuple[Absence, ...]:
        reason = self._trouble or self._loop.failure
        if not reason and not self._loop.taken:
            reason = "the loop in the container printed nothing"
        return (Absence(subject="timeline of the machine", reason=reason),) if reason else ()

    def _cost_s(self) -> float | None:
        """Return what the loop used of the server's CPUs; the readings around it are not in it."""
        return self._loop.taken[-1][1].own_cost_s if self._loop.taken else None
