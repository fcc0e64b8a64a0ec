"""Watches the container of a server and its node, by bash in the container.

It is bash alone, which starts no program. A program started in a control group with a CPU quota
costs its server more than what it reads is worth: a turn of the loop uses 0.4 ms of CPU, the start
of one `cat` alone 1 ms (measured). Control groups are those of the container, in version 1 or 2:
what they count is all that runs in it, with what is started to watch it.

It is read in full before a run and after it, and in between a loop prints the most important once
a second. In turns it is read before the first and after the last: what its control group counted
is then of this server alone, with what it did in pauses; what its node counted is of all
configurations, and left out. The load generator is a process of this machine, and read here.
"""

import re
import shlex
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from steelyard.campaign.evidence import neighbours
from steelyard.campaign.evidence.machine import (
    HUGE_PAGES,
    MEMORY,
    difference,
    generator_levels,
    rounded,
    timeline,
    with_others_used,
)
from steelyard.campaign.evidence.probe import Part, Probe
from steelyard.campaign.evidence.processes import parse_scheduled
from steelyard.campaign.evidence.sources import (
    Counted,
    Sources,
    known,
    of_the_kernel,
    of_the_machine,
    of_the_quota,
    of_the_wal,
    parse_device,
)
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import Absence, OtherProcess, Quantity
from steelyard.core.wording import MeasurementError, SteelyardError
from steelyard.gateways.host import (
    GROUPS,
    TICKS_PER_S,
    Clock,
    Host,
    Throttling,
    cpu_times,
    group_cpus,
    group_quota,
    memory_bytes,
    mount_of,
    named_numbers,
    parse_throttling,
    whole_number,
    whole_numbers,
)
from steelyard.gateways.kubernetes.api import KubernetesApi, StreamedLines
from steelyard.gateways.placed_files import FetchedHost, new_mark, parse_fetched
from steelyard.places.protocol import PodSight

BOOT: Final = "/proc/sys/kernel/random/boot_id"  # tells kernels apart
# Files of a control group in both versions; what is absent is passed over.
_OF_GROUP: Final = (
    *("cpu.stat", "cpuacct.usage", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    *("cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("memory.current", "memory.usage_in_bytes", "memory.stat"),
    *("io.stat", "blkio.throttle.io_service_bytes_recursive"),
)
_FILES_OF_NODE: Final = (
    *("/proc/stat", "/proc/uptime", BOOT, "/proc/meminfo", "/proc/vmstat", "/proc/diskstats"),
    *("/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"),
    "/proc/self/mountinfo",
)

# `name:N` are the first N lines of a file. mapfile reads in large pieces, `read` byte by byte.
_HEAD: Final = r"""exec 2>/dev/null
LC_ALL=C; IFS=$'\n'; shopt -s nullglob
show() {
  local f l n
  for f do
    n=${f##*:}; if [[ $n == *[!0-9]* ]]; then n=0; else f=${f%:*}; fi
    l=(); mapfile -t -n "$n" l <"$f"
    ((${#l[@]})) && out+=$'\n'"$m file $f"$'\n'"${l[*]}"$'\n'
  done
}
# state parent group: what of a process's stat comes after its name; see proc_pid_stat(5)
look() {
  local s=(); mapfile -t -n 1 s <"$1/stat"; s=${s[0]}
  called=${s#*\(}; called=${called%)*}; s=${s##*) }; s=${s#* }
  parent=${s%% *}; s=${s#* }; group=${s%% *}
}
# What this costs: all that was started with it, in its process group.
look "/proc/$$"; mine=$group; own=()
"""
# The control groups of this container; of the tree it mostly sees its own alone, as the root.
_GROUPS: Final = r"""
mapfile -t lines </proc/self/cgroup
for l in "${lines[@]}"; do
  c=${l#*:}; p=${c#*:}; c=${c%%:*}; c=${c#name=}
  if [[ $c ]]; then roots=("/sys/fs/cgroup/$c"); else roots=(/sys/fs/cgroup{,/unified}); fi
  for d in "${roots[@]}"; do
    [[ $p != / && -d $d$p ]] && d=$d$p
    [[ -e $d/cgroup.procs ]] && show "${of_group[@]/#/$d/}"
  done
done
"""
# The first process of a server is one whose parent is none of it.
_SERVER: Final = r"""
declare -A names parents; servers=" postgres redis-server valkey-server "
for d in /proc/[0-9]*; do
  look "$d"; [[ $group == "$mine" ]] && own+=("$d/schedstat")
  d=${d#/proc/}; names[$d]=$called; parents[$d]=$parent
done
for d in "${!names[@]}"; do
  n=${names[$d]}
  [[ $servers == *" $n "* && ${names[${parents[$d]}]-} != "$n" ]] && pid=$d
done
if [[ $pid ]]; then
  out+=$'\n'"$m number pid $pid"$'\n'
  cd -P "/proc/$pid/cwd" && data=$PWD && out+=$'\n'"$m directory data"$'\n'"$PWD"$'\n'
  cd -P pg_wal && out+=$'\n'"$m directory wal"$'\n'"$PWD"$'\n'
fi
show /sys/dev/block/*/partition /sys/devices/system/node/node[0-9]*/cpulist
"""
# Once, when the run is over; `stat` is the only program that is started.
_LEVELS: Final = r"""
if [[ $pid ]]; then
  show "/proc/$pid/maps" "/proc/$pid/smaps_rollup"
  s=$(stat -f -c '%S %b %a' "$data") && out+=$'\n'"$m file space"$'\n'"$s"$'\n'
fi
"""
_TELL: Final = r"""
show "${own[@]}"
printf '%s\n%s end\n' "$out" "$m"
"""
# A pipe that nobody writes to is a sleep without a program. Whoever watches says now and then that
# it is still there: else the loop ends, also where nobody told it that the connection was lost.
_LOOP: Final = r"""
for d in /proc/[0-9]*; do look "$d"; [[ $group == "$mine" ]] && own+=("$d/schedstat"); done
m={mark}; trap 'SECONDS=0' USR1
exec {{nap}}<> <(:)
while out= && ((SECONDS < {lease_s})); do
  show {files} "${{own[@]}}"
  printf '%s\n%s number pid %s\n\n%s end\n' "$out" "$m" "$$" "$m" || exit
  read -r -t 1 -u "$nap"
done
exit 0
"""


def server_script(mark: str, *, at_end: bool, ending: int | None = None) -> str:
    """Return what prints the account of a server's container, and of its node.

    Args:
        mark: Parts what is printed; see `gateways.placed_files`.
        at_end: With what is read at the end of a run alone: memory map, free disk.
        ending: Process id of a loop that is ended first.
    """
    end = "" if ending is None else f"kill {ending}\n"
    begin = f"{_HEAD}{end}m={mark}; out=; of_group=({' '.join(_OF_GROUP)})"
    levels, files = _LEVELS if at_end else "", f"show {' '.join(_FILES_OF_NODE)}"
    return f"{begin}{_GROUPS}{_SERVER}{levels}{files}{_TELL}"


def loop_script(mark: str, files: Sequence[str], *, lease_s: int) -> str:
    """Return what prints some files once a second, until nobody renews the lease.

    Args:
        mark: Parts what is printed.
        files: By path; ``path:N`` for the first N lines.
        lease_s: How long it lasts without a SIGUSR1.
    """
    named = " ".join(map(shlex.quote, files))
    return f"{_HEAD}{_LOOP.format(mark=mark, files=named, lease_s=lease_s)}"


def renewal(pid: int) -> str:
    """Return what tells a loop that it is still wanted."""
    return f"kill -USR1 {pid}"


_SCHEDULED: Final = re.compile(r"/proc/[0-9]+/schedstat")
_NS_PER_S: Final = 1e9
_US_PER_S: Final = 1e6
_READ_BYTES: Final = re.compile(r"^\S+ Read ([0-9]{1,20})$", re.MULTILINE)  # blkio of version 1
_IO_STAT: Final = re.compile(r"\b([rw])bytes=([0-9]{1,20})")
_DEVICE: Final = re.compile(r"[1-9][0-9]*:[0-9]+")  # major 0 is no disk
_IRQ_FIELDS: Final = slice(5, 7)  # irq and softirq of the line of all CPUs; proc_stat(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One reading of a container's files."""

    host: FetchedHost

    @property
    def pid(self) -> int | None:
        """Return the first process of the server, as the container counts them."""
        return self.host.number("pid")

    @property
    def uptime_s(self) -> float | None:
        """Return when it was taken, by a clock of the node that nobody sets."""
        first = (self.host.read("/proc/uptime") or "").partition(" ")[0]
        return float(first) if re.fullmatch(r"[0-9]{1,12}\.[0-9]{1,3}", first) else None

    @property
    def boot(self) -> str:
        """Return what tells its kernel from others; empty where it may not be read."""
        return (self.host.read(BOOT) or "").strip()

    @property
    def own_cost_s(self) -> float | None:
        """Return the CPU time that it took to start those who read, and to read."""
        texts = [text for path, text in self.host.files.items() if _SCHEDULED.fullmatch(path)]
        known = [each for each in map(parse_scheduled, texts) if each is not None]
        return sum(each.run_s for each in known) if known else None

    def of_group(self, name: str) -> str | None:
        """Return a file of the container's control groups."""
        path = self.path_of_group(name)
        return None if path is None else self.host.read(path)

    def path_of_group(self, name: str) -> str | None:
        """Return where that file is."""
        found = (
            path
            for path in self.host.files
            if path.startswith(f"{GROUPS}/") and path.endswith(f"/{name}")
        )
        return next(found, None)


def cpu_s(account: Account) -> float | None:
    """Return the CPU time that everything in a container has used."""
    nanoseconds = whole_number((account.of_group("cpuacct.usage") or "").strip())
    if nanoseconds is not None:
        return nanoseconds / _NS_PER_S
    microseconds = named_numbers(account.of_group("cpu.stat")).get("usage_usec")
    return None if microseconds is None else microseconds / _US_PER_S


def quota_cpus(account: Account) -> float | None:
    """Return how many CPUs the quota of a container is worth; None without one."""
    return group_quota(account.of_group)


def throttled(account: Account) -> Throttling | None:
    """Return how often the quota of a container held it back; None without a quota.

    The kernel counts periods only while there is one.
    """
    found = parse_throttling(account.of_group("cpu.stat"))
    return found if found and (found.periods or quota_cpus(account)) else None


def usable_cpus(account: Account) -> float | None:
    """Return how many CPUs a container can use: its quota, its CPU set, or those of its node."""
    of_set = group_cpus(account.of_group)
    known = [quota_cpus(account), float(len(of_set)) if of_set else None]
    times = cpu_times(account.host.read("/proc/stat"))
    known.append(None if times is None else float(times.cpus))
    return min((each for each in known if each), default=None)


def interrupts_s(account: Account) -> float | None:
    """Return the time that the CPUs of the node spent in interrupts."""
    line = (account.host.read("/proc/stat") or "").partition("\n")[0]
    ticks = whole_numbers(line.removeprefix("cpu "))
    return None if ticks is None else sum(ticks[_IRQ_FIELDS]) / TICKS_PER_S


def memory(account: Account) -> tuple[int | None, int | None]:
    """Return what a container is charged for, and its working set as the kubelet counts it."""
    names = ("memory.current", "memory.usage_in_bytes")
    text = next((found for name in names if (found := account.of_group(name))), "")
    used = whole_number(text.strip())
    stat = named_numbers(account.of_group("memory.stat"))
    inactive = stat.get("total_inactive_file", stat.get("inactive_file"))
    if used is None or inactive is None:
        return used, None
    return used, max(used - inactive, 0)


def device_bytes(account: Account) -> tuple[float | None, float | None]:
    """Return what a container had read from and written to devices.

    Version 1 counts no write that the kernel does later in its place, so there is no figure.
    """
    text = account.of_group("io.stat")
    if text is not None:
        sums = {"r": 0.0, "w": 0.0}
        for kind, number in _IO_STAT.findall(text):
            sums[kind] += float(number)
        return sums["r"], sums["w"]
    old = account.of_group("blkio.throttle.io_service_bytes_recursive")
    return (None if old is None else float(sum(map(int, _READ_BYTES.findall(old))))), None


def device_numbers(account: Account, directory: str) -> str | None:
    """Return the numbers of the device below ``data`` or ``wal``: ``254:0``; None without one."""
    path = account.host.resolved.get(directory)
    try:
        mount = None if path is None else mount_of(account.host, path)
    except (ValueError, LookupError):  # mountinfo is torn
        return None
    if mount is None or not _DEVICE.fullmatch(mount.number):
        return None
    return mount.number


def device(account: Account, numbers: str | None) -> Counted:
    """Return the counters of a device of the node; empty without one."""
    if numbers is None:
        return {}
    place = f"/sys/dev/block/{numbers}"
    partition = account.host.read(f"{place}/partition") is not None
    text = account.host.read(f"{place}/stat") or _disk_line(account, numbers)
    return parse_device(text, is_partition=partition)


def _disk_line(account: Account, numbers: str) -> str | None:
    major, _, minor = numbers.partition(":")
    for line in (account.host.read("/proc/diskstats") or "").splitlines():
        fields = line.split(None, 3)
        if fields[:2] == [major, minor] and len(fields) > 3:
            return fields[3]
    return None


def huge_bytes(account: Account) -> int | None:
    """Return how much of the server's shared memory is on huge pages; None where unseen."""
    place = f"/proc/{account.pid}"
    return neighbours.huge_bytes(
        account.host.read(f"{place}/maps"), account.host.read(f"{place}/smaps_rollup")
    )


def space(account: Account) -> tuple[float, float] | None:
    """Return size and free bytes of the file system with the data; None where unseen."""
    numbers = whole_numbers(account.host.read("space"))
    if numbers is None or len(numbers) != 3:
        return None
    size, blocks, free = numbers
    return float(size * blocks), float(size * free)


# Of a loop that nobody ends: its connection was lost, or Steelyard died. Guesses.
LEASE_S: Final = 600
_RENEWED_AFTER_S: Final = 200.0
_TIMEOUT_S: Final = 10.0
_CPU_OF_GROUP: Final = ("cpuacct.usage", "cpu.stat")


class PodLoop:
    """Reads what a loop in a container prints, in a thread of its own."""

    def __init__(self, api: KubernetesApi, where: ContainerRef, clock: Clock) -> None:
        self._api = api
        self._where = where
        self._clock = clock
        self._mark = new_mark()
        self._lines: StreamedLines | None = None
        self._closed = False
        self._renewed_at = clock.monotonic()
        self.taken: list[tuple[float, Account]] = []
        self.failure = ""

    def start(self, first: Account, device: str | None) -> None:
        """Start the loop over the files that the first account of the container has.

        Where it was given up meanwhile, it is closed again.

        Raises:
            SteelyardError: It cannot be started.
        """
        found = [path for name in _CPU_OF_GROUP if (path := first.path_of_group(name)) is not None]
        files = ["/proc/uptime", "/proc/stat:2", *found]
        if device is not None:
            files += [f"/sys/dev/block/{device}/stat"]
        script = loop_script(self._mark, files, lease_s=LEASE_S)
        self._lines = self._api.lines(self._where, ("bash", "-c", script))
        if self._closed:
            self._lines.close()
            return
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
        data, wal = (device_numbers(account, name) for name in ("data", "wal"))
        return cls(data=data, wal=wal if wal != data else None)


def container_counters(account: Account) -> Counted:
    """Return the counters of a server's control group."""
    read, written = device_bytes(account)
    counted = known(
        {
            Quantity.SERVER_CPU_S: cpu_s(account),
            Quantity.SERVER_READ_BYTES: read,
            Quantity.SERVER_WRITTEN_BYTES: written,
        }
    )
    return counted | of_the_quota(throttled(account))


def timeline_counters(account: Account, devices: Devices) -> Counted:
    """Return what a look in passing shows of a server's container and node, and more."""
    counted = of_the_machine(cpu_times(account.host.read("/proc/stat")))
    return counted | device(account, devices.data) | container_counters(account)


def server_counters(account: Account, devices: Devices) -> Counted:
    """Return all counters of a server's container and of its node."""
    wal = of_the_wal(device(account, devices.wal))
    return timeline_counters(account, devices) | wal | of_the_kernel(account.host.read)


def server_levels(account: Account) -> Counted:
    """Return what a server's container and its node have at the end of a run."""
    info = memory_bytes(account.host.read("/proc/meminfo"))
    times = cpu_times(account.host.read("/proc/stat"))
    used, working_set = memory(account)
    size, free = space(account) or (None, None)
    return known(
        {
            **{quantity: info.get(name) for quantity, name in (MEMORY | HUGE_PAGES).items()},
            Quantity.CPUS: None if times is None else times.cpus,
            Quantity.SERVER_CPUS: usable_cpus(account),
            Quantity.SERVER_MEMORY_BYTES: used,
            Quantity.SERVER_WORKING_SET_BYTES: working_set,
            Quantity.SERVER_HUGE_BYTES: huge_bytes(account),
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
    begin, end = interrupts_s(before), interrupts_s(after)
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


_READING_TIMEOUT_S: Final = 8.0  # of one reading; the watch waits 10 s for the last


def read_container(sight: PodSight, *, at_end: bool, ending: int | None = None) -> Account:
    """Return the account of a server's container and its node, as ``server_script`` tells it.

    Raises:
        MeasurementError: Its bash printed none.
    """
    mark = new_mark()
    argv = ("bash", "-c", server_script(mark, at_end=at_end, ending=ending))
    done = sight.api.run(sight.database, argv, timeout_s=_READING_TIMEOUT_S)
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
