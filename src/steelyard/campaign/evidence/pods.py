"""Watches the pods of a run: the server's container and node, and the generators' containers.

The server is read in full before the run and after it, and in between a loop prints the most
important once a second; the generators are read before and after. All of it runs in the
containers, by bash alone (``pod_script``).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from steelyard.campaign.evidence import pod_script as accounts
from steelyard.campaign.evidence.machine import HUGE_PAGES, MEMORY, difference, rounded, timeline
from steelyard.campaign.evidence.pod_script import (
    BOOT,
    Account,
    PodLoop,
    generator_script,
    placed,
    server_script,
)
from steelyard.campaign.evidence.sources import (
    Counted,
    known,
    of_the_device,
    of_the_kernel,
    of_the_machine,
    of_the_quota,
    of_the_wal,
)
from steelyard.campaign.evidence.watch import Part
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import Absence, OtherProcess, Quantity
from steelyard.core.wording import MeasurementError, SteelyardError
from steelyard.gateways.host import Clock, Host, cpu_times, memory_bytes
from steelyard.gateways.placed_files import new_mark, parse_fetched
from steelyard.places.agent.outcomes import StartSkew
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


def timeline_counters(account: Account, devices: Devices) -> Counted:
    """Return what a look in passing shows of a server's container and node."""
    counted = of_the_machine(cpu_times(account.host.read("/proc/stat")))
    counted |= of_the_device(accounts.device(account, devices.data))
    counted |= known({Quantity.SERVER_CPU_S: accounts.cpu_s(account)})
    return counted | of_the_quota(accounts.throttled(account))


def server_counters(account: Account, devices: Devices) -> Counted:
    """Return all counters of a server's container and of its node."""
    counted = timeline_counters(account, devices)
    counted |= of_the_wal(accounts.device(account, devices.wal))
    read, written = accounts.device_bytes(account)
    counted |= known({Quantity.SERVER_READ_BYTES: read, Quantity.SERVER_WRITTEN_BYTES: written})
    return counted | of_the_kernel(account.host.read)


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


def generator_counters(account: Account) -> Counted:
    """Return the counters of a generator's container."""
    held_back = accounts.throttled(account)
    counted = known({Quantity.GENERATOR_CPU_S: accounts.cpu_s(account)})
    if held_back is not None:
        counted[Quantity.GENERATOR_QUOTA_PERIODS] = float(held_back.periods)
        counted[Quantity.GENERATOR_THROTTLED_PERIODS] = float(held_back.throttled)
        counted[Quantity.GENERATOR_THROTTLED_S] = held_back.throttled_s
    return counted


def absent(account: Account, seen: Counted) -> tuple[Absence, ...]:
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
    found = [told for quantity, told in reasons.items() if quantity not in seen]
    found.append(
        (
            "run-queue time of the server",
            "reading it of every process from a shell would cost the server too much",
        )
    )
    if len(account.host.names("/sys/devices/system/node")) > 1:
        found.append(
            (
                "memory nodes of the server",
                "reading /proc/PID/numa_maps of every process would cost the server too much",
            )
        )
    return tuple(Absence(subject=subject, reason=reason) for subject, reason in found)


# In brackets like a thread of the kernel: interrupts also work for the server.
_INTERRUPTS: Final = "[interrupts]"
_BUSY: Final = (Quantity.CPU_USER_S, Quantity.CPU_SYSTEM_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSeen:
    """A generator's container around a run.

    Attributes:
        before: None where it could not be read; so ``after``.
        failure: Why one of them is missing.
    """

    before: Account | None
    after: Account | None
    failure: str = ""

    @property
    def used(self) -> Counted | None:
        """Return what it used, without what the last reading itself cost; None where unknown."""
        if self.before is None or self.after is None:
            return None
        begin, end = (generator_counters(each) for each in (self.before, self.after))
        return _without_cost(difference(begin, end), Quantity.GENERATOR_CPU_S, self.after)

    @property
    def cpus(self) -> float | None:
        """Return how many CPUs it could use."""
        return None if self.after is None else accounts.usable_cpus(self.after)

    @property
    def share(self) -> float | None:
        """Return the part of these that it used; None where unknown."""
        used_s = (self.used or {}).get(Quantity.GENERATOR_CPU_S)
        took_s = None
        if self.before is not None and self.after is not None:
            took_s = accounts.seconds_between(self.before, self.after)
        if used_s is None or not self.cpus or not took_s:
            return None
        return used_s / (self.cpus * took_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsSeen:
    """The containers of a run as they were read.

    Attributes:
        same_node: A generator's pod is on the database's node, as the cluster says.
        skew: How far apart the generators began.
        taken: Of the loop, with seconds since the run's start.
        ended_s: When the run was over, in the same seconds.
        steelyard_s: CPU time of this process in the run.
        steelyard_boot: What tells the kernel of this machine from others.
        trouble: Why there is no timeline, or no whole one.
    """

    before: Account
    after: Account
    generators: Sequence[GeneratorSeen]
    devices: Devices
    same_node: bool
    skew: StartSkew | None
    taken: Sequence[tuple[float, Account]]
    ended_s: float
    steelyard_s: float
    steelyard_boot: str
    trouble: str = ""

    def part(self) -> Part:
        """Return all of it as a probe tells it."""
        begin, end = (server_counters(e, self.devices) for e in (self.before, self.after))
        server = _without_cost(difference(begin, end), Quantity.SERVER_CPU_S, self.after)
        totals = {
            **server,
            **self._generators_used(),
            Quantity.STEELYARD_CPU_S: rounded(self.steelyard_s),
        }
        levels = {**server_levels(self.after), **self._of_generators()}
        return Part(
            totals={q.value: value for q, value in self._with_others(totals).items()},
            levels={q.value: value for q, value in levels.items()},
            series=timeline(self._readings(), self._with_others_in_passing),
            others=self._interrupts(),
            absent=(
                *absent(self.after, {**totals, **levels}),
                *self._absent_generators(),
                *self._absent_timeline(),
            ),
            server_cpu_s=self._cost_s(),
        )

    def _readings(self) -> list[tuple[float, Counted]]:
        devices = self.devices
        last = timeline_counters(self.after, devices)
        return [
            (0.0, timeline_counters(self.before, devices)),
            *((at_s, timeline_counters(account, devices)) for at_s, account in self.taken),
            (self.ended_s, _without_cost(last, Quantity.SERVER_CPU_S, self.after)),
        ]

    def _generators_used(self) -> Counted:
        """Return the sums over all generators; nothing where one of them is not known."""
        used = [each.used for each in self.generators]
        known = [each for each in used if each is not None]
        if not known or len(known) < len(used):
            return {}
        names = {name for each in known for name in each}
        return {name: rounded(sum(each.get(name, 0.0) for each in known)) for name in names}

    def _of_generators(self) -> Counted:
        """Return how many CPUs the generators could use, and how busy the busiest was."""
        found: Counted = {}
        cpus = [each.cpus for each in self.generators]
        shares = [each.share for each in self.generators]
        if cpus and None not in cpus:
            found[Quantity.GENERATOR_CPUS] = sum(each or 0.0 for each in cpus)
        if shares and None not in shares:
            found[Quantity.GENERATOR_BUSIEST_FRACTION] = rounded(
                max(each or 0.0 for each in shares)
            )
        if self.generators:
            found[Quantity.GENERATORS_BESIDE] = float(max(len(self._beside()), self.same_node))
        if self.skew is not None:
            least_s = max(self.skew.seconds - self.skew.half_width_s, 0.0)
            found[Quantity.GENERATORS_APART_S] = rounded(least_s)
        return found

    def _beside(self) -> list[GeneratorSeen]:
        """Return the generators whose CPUs are those of the server's node."""
        return [each for each in self.generators if self._is_beside(each)]

    def _is_beside(self, generator: GeneratorSeen) -> bool:
        own = self.before.boot
        account = generator.after or generator.before
        if account is None or not own or not account.boot:
            return self.same_node
        return account.boot == own

    @property
    def _steelyard_is_beside(self) -> bool:
        return bool(self.before.boot) and self.before.boot == self.steelyard_boot

    def _with_others(self, used: Counted) -> Counted:
        """Return totals with what is left for all other pods and processes of the node."""
        if not {*_BUSY, Quantity.SERVER_CPU_S} <= used.keys():
            return used
        ours = [used[Quantity.SERVER_CPU_S]]
        for each in self._beside():
            if each.used is None or Quantity.GENERATOR_CPU_S not in each.used:
                return used
            ours.append(each.used[Quantity.GENERATOR_CPU_S])
        if self._steelyard_is_beside:
            ours.append(self.steelyard_s)
        others_s = sum(used[mode] for mode in _BUSY) - sum(ours)
        return {**used, Quantity.OTHERS_CPU_S: rounded(max(others_s, 0.0))}

    def _with_others_in_passing(self, used: Counted) -> Counted:
        """Return the same of an interval, where nobody of ours but the server is on the node."""
        if self._beside() or self._steelyard_is_beside:
            return used
        return self._with_others(used)

    def _interrupts(self) -> tuple[OtherProcess, ...]:
        begin, end = (accounts.interrupts_s(each) for each in (self.before, self.after))
        if begin is None or end is None or end <= begin:
            return ()
        spent = rounded(end - begin)
        return (OtherProcess(pid=0, name=_INTERRUPTS, cpu_s=spent, io_bytes=None),)

    def _absent_generators(self) -> tuple[Absence, ...]:
        reason = next((each.failure for each in self.generators if each.failure), "")
        if not self.generators:
            reason = "no pod of a generator is known"
        return (Absence(subject="the generators' containers", reason=reason),) if reason else ()

    def _absent_timeline(self) -> tuple[Absence, ...]:
        reason = self.trouble or ("" if self.taken else "the loop in the container printed nothing")
        return (Absence(subject="timeline of the machine", reason=reason),) if reason else ()

    def _cost_s(self) -> float | None:
        """Return what the loop used of the server's CPUs; the readings around it are not in it."""
        return self.taken[-1][1].own_cost_s if self.taken else None


def _without_cost(used: Counted, quantity: Quantity, last: Account) -> Counted:
    """Return counters of a container without what it took to read them the last time."""
    if quantity not in used or last.own_cost_s is None:
        return used
    return {**used, quantity: rounded(max(used[quantity] - last.own_cost_s, 0.0))}


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
    """Return the account of a container."""
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
