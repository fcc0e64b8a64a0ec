"""A real server and its load generator that stand still, in this process or in one of its own.

``python -m support.paused KIND PROGRAMS CACHE VERB`` says on one line what a test looks at. KIND is
how they are paused: ``v1``, ``v2`` or ``signals``. VERB is ``measure``, or ``hold``: be paused
until somebody kills it.
"""

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakes.campaigns import an_experiment
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.core.outside import Command, ServerAddress
from steelyard.gateways.cgroups import Cgroups
from steelyard.gateways.doors import Doors, system_doors
from steelyard.places.local.groups import GroupPlan, ServerGroups, start_guard
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.places.protocol import Guarded, Standstill
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import Started
from steelyard.systems.postgres.server import PostgresProgram, find_installation

if TYPE_CHECKING:
    from steelyard.gateways.process import Together

KINDS = ("v1", "v2", "signals")
CLIENTS = 8
PAUSES = 200
_MOUNTED = {"v1": "cgroup", "v2": "cgroup2"}
_GENERATOR = "pgbench"


class OneVersion(Cgroups):
    """The control groups of this machine as far as they are of one version."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = _MOUNTED[kind]

    def _mounts(self) -> list[tuple[Path, str, list[str]]]:
        return [mount for mount in super()._mounts() if mount[1] == self._kind]


def _begun(name: str, record: Path, doors: Doors) -> CampaignDirectory:
    """Return the record of a campaign that has begun, and that ``clean`` knows."""
    directory = CampaignDirectory.create(record, doors.clock, experiment_text="version: 1\n")
    asked = an_experiment()
    registry.register(name, record, asked)
    directory.journal.append(
        Started(campaign_id=name, experiment=asked, command="steelyard", version="0")
    )
    return directory


class Paused:
    """A campaign with one server under load."""

    def __init__(self, kind: str, programs: Path, cache: Path, *, name: str) -> None:
        doors = system_doors()
        self.doors = doors if kind == "signals" else replace(doors, cgroups=OneVersion(kind))
        self.account = "nobody" if os.geteuid() == 0 else None
        self.program = PostgresProgram(
            installation=find_installation(str(programs), self.doors.processes),
            initdb=(),
            sql=self.doors.sql,
        )
        self.directory = _begun(name, cache / "records" / name, self.doors)
        ledger = JournalLedger(self.directory.journal, name)
        options = LocalOptions(root=cache, campaign_id=name, account=self.account, port=None)
        plan = GroupPlan(name=f"steelyard-{name}", keys=frozenset(), place=cache, pausing=True)
        self.groups = ServerGroups(plan, self.doors.cgroups, ledger, self.doors.clock)
        self.platform = LocalPlatform(
            options,
            ledger,
            self.doors.processes,
            self.doors.clock,
            None if kind == "signals" else self.groups,
        )
        self.generator: Together | None = None

    def start(self) -> None:
        """Start the server on prepared data, and its generator."""
        platform = self.platform
        state = platform.prepare(self.program, ("pgbench", 1), self._load)
        platform.restore(state, "copy")
        # Without synced commits it is never in a wait that no signal ends.
        platform.start(state, self.program, {"synchronous_commit": "off"})
        self.generate()

    def generate(self) -> None:
        """Start a generator."""
        words = ("-n", "-c", f"{CLIENTS}", "-j", "2", "-N", "-T", "900")
        command = self._pgbench(self.platform.address, *words)
        self.generator = self.platform.begin_together([command], timeout_s=900)

    def _load(self, address: ServerAddress) -> None:
        done = self.doors.processes.run(self._pgbench(address, "-i", "-q"), timeout_s=120)
        assert done.succeeded, done.tail()

    def _pgbench(self, address: ServerAddress, *words: str) -> Command:
        place = ("-h", address.host, "-p", str(address.port), "-U", address.user, address.database)
        program = self.program.installation.program(_GENERATOR)
        return Command(argv=(program, *words, *place), account=self.account)

    @property
    def guarded(self) -> Guarded:
        """Return what a guard watches."""
        return self.platform.guarded

    @property
    def pids(self) -> tuple[int, ...]:
        """Return every process of server and generator."""
        return self.doors.processes.within(self.guarded.directory)

    def transactions(self) -> int:
        """Return how many transactions there have been."""
        xids = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
        ((newest,),) = self.doors.sql.rows(self.platform.address, xids)
        return int(str(newest))

    def destroy(self) -> None:
        """Remove everything but the record."""
        self.platform.destroy()
        if self.generator is not None:
            self.generator.close()
        self.directory.close()


def cpu_s(pids: tuple[int, ...]) -> dict[int, float]:
    """Return the CPU time of each process, of all its threads, to the nanosecond."""
    used: dict[int, float] = {}
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # it ended
                used[pid] = used.get(pid, 0.0) + int(thread.read_text().split()[0]) / 1e9
    return used


def ticks(pids: tuple[int, ...]) -> dict[int, int]:
    """Return utime + stime of each process."""
    stats = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in pids}
    return {pid: sum(map(int, text.split()[11:13])) for pid, text in stats.items()}


@dataclass(kw_only=True)
class Seen:
    """What was seen of many pauses; seconds are summed over all of them."""

    kind: str
    transactions: int = 0
    missed: int = 0
    watched_s: float = 0.0
    ran_s: float = 0.0
    idle_afterwards: int = 0
    pauses_ms: list[float] = field(default_factory=list)
    proceeds_ms: list[float] = field(default_factory=list)
    ticks_before: dict[int, int] = field(default_factory=dict)
    ticks_after: dict[int, int] = field(default_factory=dict)


def measured(paused: Paused) -> Seen:
    """Pause a server under load many times, and once for long."""
    standstill = paused.platform.standstill
    seen = Seen(kind=standstill.kind.value)
    before = paused.transactions()
    for _ in range(PAUSES):
        _pause_once(paused, standstill, seen)
    seen.transactions = paused.transactions() - before
    while not standstill.pause():
        time.sleep(0.1)
    time.sleep(0.05)
    seen.ticks_before = ticks(paused.pids)
    time.sleep(0.5)
    seen.ticks_after = ticks(paused.pids)
    standstill.proceed()
    return seen


def _pause_once(paused: Paused, standstill: Standstill, seen: Seen) -> None:
    begun = time.perf_counter()
    is_still = standstill.pause()
    seen.pauses_ms.append(1e3 * (time.perf_counter() - begun))
    if is_still:
        first, begun = cpu_s(paused.pids), time.perf_counter()
        time.sleep(0.01)
        after = cpu_s(tuple(first))
        seen.watched_s += time.perf_counter() - begun
        seen.ran_s += sum(after.values()) - sum(first.values())
    seen.missed += not is_still
    begun = time.perf_counter()
    standstill.proceed()
    seen.proceeds_ms.append(1e3 * (time.perf_counter() - begun))
    first = cpu_s(paused.pids)
    time.sleep(0.03)
    seen.idle_afterwards += first == cpu_s(tuple(first))


def held(paused: Paused) -> None:
    """Say who stands still, and wait for the end."""
    guard = start_guard([paused.guarded], paused.doors.guards)
    while not paused.platform.standstill.pause():  # on a busy machine signals take their time
        time.sleep(0.1)
    seen = {
        "guard": guard.pid,  # type: ignore[attr-defined] # of a real one
        "server": paused.platform.server.pid,
        "pids": paused.pids,
        "groups": [str(group) for group in paused.guarded.groups],
    }
    say(seen)
    while True:
        time.sleep(60)


def main(kind: str, programs: str, cache: str, verb: str) -> None:
    """Do what a test asks for."""
    os.environ["STEELYARD_CACHE"] = cache
    paused = Paused(kind, Path(programs), Path(cache), name=f"paused-{os.getpid()}")
    try:
        paused.start()
        time.sleep(0.5)  # all sessions are there
        if verb == "hold":
            held(paused)
        else:
            say(asdict(measured(paused)))
    finally:
        paused.destroy()


def say(what: dict[str, Any]) -> None:
    """Write one line, at once."""
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
