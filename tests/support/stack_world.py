"""What a plan changes, and a process that may die at any step.

A machine, a server, a libvirt, and a cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from fakes.clock import FakeClock
from fakes.domains import FakeDomains
from fakes.kernel import PAGE_BYTES, FakeKernel
from fakes.processes import FakeProcesses
from fakes.settings import FakeSettings
from steelyard.core.stack import DomainDesign, Knob, KnobKind, Step
from steelyard.core.wording import MIB
from steelyard.gateways.doors import Doors
from steelyard.gateways.placed_files import PlacedFile, PlacedFiles
from steelyard.record.journal import Entry, Journal, Line, StackBegun, encode
from steelyard.tuning.apply import applier
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.apply.door import KnobDoor
from steelyard.tuning.apply.doors import Inside, doors
from steelyard.tuning.files.files import domain_xml
from support.database_in_cluster import LATE_CLASS, Operator, cluster_knob
from support.stack import knob

POOL = knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "40")
DIRTY = knob(KnobKind.SYSCTL, "vm.dirty_bytes", "536870912")
THP = knob(KnobKind.SYSFS, "/sys/kernel/mm/transparent_hugepage/enabled", "never")
NEW = knob(KnobKind.FILE, "/etc/tuned/postgres/tuned.conf", "[main]\n")
OLD = knob(KnobKind.FILE, "/etc/sysctl.d/90.conf", "vm.swappiness = 1\n", after=(DIRTY.name,))
WORK_MEM = replace(
    knob(KnobKind.POSTGRES, "work_mem", "32MB", after=(POOL.name,)), layer="postgres"
)
KNOBS = (WORK_MEM, POOL, OLD, DIRTY, THP, NEW)
GUEST = Knob(
    name="kvm:domain guest",
    layer="kvm",
    kind=KnobKind.DOMAIN,
    place="guest",
    value=domain_xml(
        DomainDesign(
            name="guest",
            memory_bytes=256 * MIB,
            vcpu_pins=(0, 1),
            emulator_pins=(1,),
            io_thread_pins=(0,),
            nodes=(0,),
            emulated=True,
            bridge="br0",
            disks=("/srv/guest.qcow2",),
        )
    ),
    after=(POOL.name,),
)
STEP = knob(KnobKind.MANUAL, "Enable the unit", "", after=(NEW.name,))
CLASS = replace(
    knob(KnobKind.OBJECT, "kubernetes/storage-class.yaml", LATE_CLASS), layer="kubernetes"
)
CLUSTER_KNOB = replace(cluster_knob(postgresql=None), after=(CLASS.name,))
EVERY_KIND = (
    *KNOBS,
    GUEST,
    STEP,
    CLASS,
    CLUSTER_KNOB,
)  # the domain is not started: it stays pending


class Death(BaseException):
    """The end of this process, at once."""


@dataclass(kw_only=True)
class World:
    """A machine with a server on it, and the directory of a plan.

    Attributes:
        dies_at: At which step of the outside it dies; None: never.
        willing: The operator says of every step of theirs that it is done.
    """

    place: Path
    dies_at: int | None = None
    steps: "count[int]" = field(default_factory=count)
    knobs: tuple[Knob, ...] = KNOBS
    willing: bool = False

    def __post_init__(self) -> None:
        self.kernel = FakeKernel(
            files={
                "/proc/sys/vm/dirty_bytes": "0\n",
                "/proc/sys/vm/dirty_ratio": "20\n",
                THP.place: "always [madvise] never\n",
            }
        ).with_pools({0: 10, 1: 3}, fits=100)
        self.kernel.before_write = self.step
        self.server = FakeSettings(file={"work_mem": "5MB"}, before_write=self.step)
        self.server.running["work_mem"] = "5MB"
        self.root = self.place / "root"
        (self.root / "etc/sysctl.d").mkdir(parents=True)
        (self.root / "etc/sysctl.d/90.conf").write_text("vm.swappiness = 7\n")
        (self.root / "etc/sysctl.d/90.conf").chmod(0o640)
        self.processes = FakeProcesses(FakeClock())
        self.domains = _MortalDomains(world=self)
        self.operator = Operator()
        self.operator.api.before_change = self.step

    def step(self, _what: str = "") -> None:
        """Count a step of the outside; die at the one that was chosen."""
        if next(self.steps) == self.dies_at:
            raise Death

    @property
    def doors(self) -> Mapping[KnobKind, KnobDoor]:
        """Return the doors to this machine."""
        outside = Doors(
            host=self.kernel,
            kernel=self.kernel,
            files=_MortalFiles(root=self.root, world=self),
            sql=self.server,
            processes=self.processes,
            clock=FakeClock(),
        )
        address = self.server.reach({})
        inside = Inside(api=self.operator.api, namespace="bench")
        rendered = self.place / "files"
        found = doors(outside, rendered=rendered, paths={}, server=address, inside=inside)
        domains = DomainDoor(domains=self.domains, host=self.kernel)
        return {**found, KnobKind.DOMAIN: domains}

    def apply(self) -> tuple[Step, ...]:
        """Apply the plan, or what is left of it."""
        record = MortalRecord(self)
        try:
            record.begin(StackBegun(knobs=self.knobs, version="0"))
            return applier.apply_all(
                self.knobs, self.doors, record, confirmed=lambda _knob: self.willing
            )
        finally:
            record.close()

    def revert(self, changed: applier.Changed = applier.Changed.ASK) -> tuple[Step, ...]:
        """Put everything back."""
        record = MortalRecord(self)
        try:
            return applier.revert_all(self.doors, record, changed=changed)
        finally:
            record.close()

    def state(self) -> object:
        """Return everything that the plan could change, and everything beside it."""
        files = {
            str(path.relative_to(self.root)): (
                path.stat().st_mode,
                path.is_file() and path.read_bytes(),
            )
            for path in sorted(self.root.rglob("*"))
        }
        server = dict(self.server.file), dict(self.server.running)
        return (
            dict(self.kernel.files),
            files,
            server,
            dict(self.domains.defined),
            self.operator.state(),
        )

    @property
    def record(self) -> applier.Applied:
        """Return what the record says."""
        return applier.read_applied(self.place / "plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class _MortalFiles(PlacedFiles):
    """Files of a tree, with a step before and after each change."""

    world: World

    def place(self, path: str, file: PlacedFile) -> None:
        self.world.step()
        PlacedFiles.place(self, path, file)
        self.world.step()

    def remove(self, path: str) -> None:
        self.world.step()
        PlacedFiles.remove(self, path)
        self.world.step()


@dataclass(kw_only=True)
class _MortalDomains(FakeDomains):
    """A libvirt with a step before and after each change."""

    world: World

    def define(self, xml: str) -> None:
        self.world.step()
        super().define(xml)
        self.world.step()

    def undefine(self, name: str) -> None:
        self.world.step()
        super().undefine(name)
        self.world.step()


class _MortalJournal(Journal):
    """A journal with a step before, in the middle of, and after each line."""

    world: World

    def append(self, entry: Entry) -> Line:
        self.world.step()
        try:
            self.world.step()
        except Death:
            whole = encode(super().append(entry))
            size = self._path.stat().st_size
            with self._path.open("r+b") as file:
                file.truncate(size - len(whole) // 2)
            raise
        line = super().append(entry)
        self.world.step()
        return line


class MortalRecord(applier.AppliedRecord):
    """A record whose disk may be where the process dies."""

    def __init__(self, world: World) -> None:
        directory = world.place / "plan"
        directory.mkdir(exist_ok=True)
        self._journal = _MortalJournal(directory / "applied.jsonl", FakeClock())
        self._journal.world = world
        self.applied = applier.read_applied(directory)
