"""Applying and reverting a plan of every kind of knob, cut off after every step in turn."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.kernel import PAGE_BYTES, FakeKernel
from fakes.processes import FakeProcesses
from fakes.settings import FakeSettings
from steelyard.gateways.placed_files import LocalFiles, PlacedFile
from steelyard.model.errors import InputError, PreflightError, RecordError
from steelyard.model.stack import Knob, KnobKind
from steelyard.model.stack_progress import Outcome, Step
from steelyard.record.entries import Entry, Line, StackBegun
from steelyard.record.journal import Journal, encode
from steelyard.tuning.applying.applier import (
    UnprivilegedError,
    apply_all,
    require_all,
    verify_all,
)
from steelyard.tuning.applying.door import KnobDoor
from steelyard.tuning.applying.doors import Outside, doors
from steelyard.tuning.applying.order import ordered
from steelyard.tuning.applying.record import AppliedRecord, read_applied
from steelyard.tuning.applying.reverting import revert_all
from steelyard.tuning.applying.selection import Selection, selection_of
from support.stack import knob

_POOL = knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "40")
_DIRTY = knob(KnobKind.SYSCTL, "vm.dirty_bytes", "536870912")
_THP = knob(KnobKind.SYSFS, "/sys/kernel/mm/transparent_hugepage/enabled", "never")
_NEW = knob(KnobKind.FILE, "/etc/tuned/postgres/tuned.conf", "[main]\n")
_OLD = knob(KnobKind.FILE, "/etc/sysctl.d/90.conf", "vm.swappiness = 1\n", after=(_DIRTY.name,))
_WORK_MEM = replace(
    knob(KnobKind.POSTGRES, "work_mem", "32MB", after=(_POOL.name,)), layer="postgres"
)
_KNOBS = (_WORK_MEM, _POOL, _OLD, _DIRTY, _THP, _NEW)


class Death(BaseException):
    """The end of this process, at once."""


@dataclass(kw_only=True)
class World:
    """A machine with a server on it, and the directory of a plan.

    Attributes:
        dies_at: At which step of the outside it dies; None: never.
    """

    place: Path
    dies_at: int | None = None
    steps: "count[int]" = field(default_factory=count)
    knobs: tuple[Knob, ...] = _KNOBS

    def __post_init__(self) -> None:
        self.kernel = FakeKernel(
            files={
                "/proc/sys/vm/dirty_bytes": "0\n",
                "/proc/sys/vm/dirty_ratio": "20\n",
                _THP.place: "always [madvise] never\n",
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

    def step(self, _what: str = "") -> None:
        """Count a step of the outside; die at the one that was chosen."""
        if next(self.steps) == self.dies_at:
            raise Death

    @property
    def doors(self) -> Mapping[KnobKind, KnobDoor]:
        """Return the doors to this machine."""
        outside = Outside(
            host=self.kernel,
            kernel=self.kernel,
            files=_MortalFiles(root=self.root, world=self),
            sql=self.server,
            processes=self.processes,
            clock=FakeClock(),
        )
        address = self.server.reach({})
        return doors(outside, rendered=self.place / "files", paths={}, server=address)

    def apply(self) -> tuple[Step, ...]:
        """Apply the plan, or what is left of it."""
        record = _MortalRecord(self)
        try:
            record.begin(StackBegun(knobs=self.knobs, version="0"))
            return apply_all(self.knobs, self.doors, record)
        finally:
            record.close()

    def revert(self) -> tuple[Step, ...]:
        """Put everything back."""
        record = _MortalRecord(self)
        try:
            return revert_all(self.doors, record)
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
        return dict(self.kernel.files), files, dict(self.server.file), dict(self.server.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MortalFiles(LocalFiles):
    """Files of a tree, with a step before and after each change."""

    world: World

    def place(self, path: str, file: PlacedFile) -> None:
        self.world.step()
        LocalFiles.place(self, path, file)
        self.world.step()

    def remove(self, path: str) -> None:
        self.world.step()
        LocalFiles.remove(self, path)
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


class _MortalRecord(AppliedRecord):
    def __init__(self, world: World) -> None:
        directory = world.place / "plan"
        directory.mkdir(exist_ok=True)
        self._journal = _MortalJournal(directory / "applied.jsonl", FakeClock())
        self._journal.world = world
        self.applied = read_applied(directory)


def _worlds(tmp_path: Path) -> Iterator[World]:
    """Yield a world for each step that it may die at."""
    for number in count():
        world = World(place=tmp_path / f"w{number}")
        world.dies_at = number
        yield world
        world.dies_at = None


def _died(world: World, verb: str) -> bool:
    try:
        getattr(world, verb)()
    except Death:
        world.dies_at = None
        return True
    return False


def _outcomes(steps: tuple[Step, ...]) -> set[Outcome]:
    return {step.outcome for step in steps}


def test_a_plan_is_applied_verified_and_reverted_exactly(tmp_path: Path) -> None:
    """Proves that each kind of knob is in effect, and that all is as it was after the revert."""
    world = World(place=tmp_path)
    before = world.state()
    require_all(_KNOBS, world.doors)
    steps = world.apply()
    assert _outcomes(steps) == {Outcome.TURNED}
    assert [step.knob for step in steps] == list(ordered(_KNOBS))
    assert all(check.holds for _, check in verify_all(_KNOBS, world.doors))
    assert _outcomes(world.apply()) == {Outcome.TURNED}
    assert _outcomes(world.revert()) == {Outcome.RESTORED}
    assert world.state() == before
    assert world.revert() == ()


def test_a_plan_that_dies_anywhere_can_be_applied_on(tmp_path: Path) -> None:
    """Proves for every step that the planned state is reached, and the original one after it."""
    world = World(place=tmp_path / "whole")
    before = world.state()
    world.apply()
    planned = world.state()
    deaths = 0
    for mortal in _worlds(tmp_path):
        if not _died(mortal, "apply"):
            break
        deaths += 1
        mortal.apply()
        assert mortal.state() == planned
        mortal.revert()
        assert mortal.state() == before
    assert deaths > 5 * len(_KNOBS)


def test_a_plan_that_dies_anywhere_can_be_reverted(tmp_path: Path) -> None:
    """Proves for every step that the exact original state comes back."""
    before = World(place=tmp_path / "whole").state()
    for mortal in _worlds(tmp_path):
        if not _died(mortal, "apply"):
            break
        mortal.revert()
        assert mortal.state() == before
        assert not read_applied(mortal.place / "plan").snapshots


def test_a_revert_that_dies_anywhere_can_be_repeated(tmp_path: Path) -> None:
    """Proves for every step of a revert that a second one finishes it."""
    before = World(place=tmp_path / "whole").state()
    deaths = 0
    for mortal in _worlds(tmp_path):
        dies_at, mortal.dies_at = mortal.dies_at, None
        mortal.apply()
        mortal.steps, mortal.dies_at = count(), dies_at
        if not _died(mortal, "revert"):
            break
        deaths += 1
        mortal.revert()
        assert mortal.state() == before
    assert deaths > 3 * len(_KNOBS)


def test_a_failure_stops_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    """Proves that fewer pages than asked end the application, and revert restores all."""
    world = World(place=tmp_path)
    before = world.state()
    world.kernel.fits = {0: 30, 1: 10}
    steps = world.apply()
    assert steps[-1].outcome is Outcome.FAILED
    assert "30 at" in steps[-1].facts[0]
    assert "compact_memory" in steps[-1].remedy
    assert steps[-1].knob == _POOL
    assert _WORK_MEM not in [step.knob for step in steps]
    world.revert()
    assert world.state() == before


def test_a_full_disk_turns_nothing_without_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves for every line of the record that what cannot be noted is not done."""
    before = World(place=tmp_path / "whole").state()
    real = Journal.append
    for fails_at in range(3):
        world = World(place=tmp_path / str(fails_at), knobs=(_POOL,))
        lines = count()

        def append(
            self: Journal, entry: Entry, at: int = fails_at, lines: object = lines
        ) -> object:
            if next(lines) == at:  # type: ignore[call-overload]
                raise RecordError("no space is left")
            return real(self, entry)

        monkeypatch.setattr(Journal, "append", append)
        with pytest.raises(RecordError):
            world.apply()
        monkeypatch.setattr(Journal, "append", real)
        if fails_at < 2:
            assert world.state() == before
        else:
            assert world.kernel.pools()[0] == 40
        world.revert()
        assert world.state() == before


def test_a_pending_restart_holds_back_what_comes_after_it(tmp_path: Path) -> None:
    """Proves that a pending setting is marked, and that apply goes on after the restart."""
    buffers = knob(KnobKind.POSTGRES, "shared_buffers", "1GB")
    later = knob(KnobKind.SYSCTL, "vm.dirty_bytes", "8192", after=(buffers.name,))
    world = World(place=tmp_path, knobs=(buffers, later))
    before = world.state()
    first = world.apply()
    assert [step.outcome for step in first] == [Outcome.PENDING, Outcome.WAITING]
    assert "restart of the server" in first[0].remedy
    assert read_applied(tmp_path / "plan").pending == {buffers.name: "a restart of the server"}
    world.server.restart()
    assert [step.outcome for step in world.apply()] == [Outcome.TURNED, Outcome.TURNED]
    steps = world.revert()
    assert "restart of the server" in steps[-1].remedy
    world.server.restart()
    assert world.state() == before


def test_a_step_of_the_operator_holds_back_until_its_check_succeeds(tmp_path: Path) -> None:
    """Proves that the check decides, and that a step without one rests on the operator's word."""
    step = knob(KnobKind.MANUAL, "Restart the kubelet", "")
    later = knob(KnobKind.SYSCTL, "vm.dirty_bytes", "8192", after=(step.name,))
    world = World(place=tmp_path, knobs=(step, later))
    assert [each.outcome for each in world.apply()] == [Outcome.PENDING, Outcome.WAITING]
    record = _MortalRecord(world)
    done = apply_all(world.knobs, world.doors, record, confirmed=lambda _knob: True)
    record.close()
    assert [each.outcome for each in done] == [Outcome.TURNED, Outcome.TURNED]
    assert [each.outcome for each in world.apply()] == [Outcome.TURNED, Outcome.TURNED]


def test_a_rendered_object_is_named_with_its_command_and_never_applied(tmp_path: Path) -> None:
    """Proves that an object of a cluster changes nothing and leaves no snapshot."""
    rendered = knob(KnobKind.RENDERED, "kubernetes/cluster.yaml", "")
    world = World(place=tmp_path, knobs=(rendered,))
    (step,) = world.apply()
    assert step.outcome is Outcome.RENDERED
    assert step.commands == (f"kubectl apply -f {tmp_path}/files/kubernetes/cluster.yaml",)
    assert world.revert() == ()


def test_commands_name_the_ready_files_of_the_plan(tmp_path: Path) -> None:
    """Proves that a file is installed from the plan, and a kubelet's configuration not applied."""
    found = doors(Outside(), rendered=tmp_path, paths={"linux/t.conf": _NEW.place})
    assert found[KnobKind.FILE].commands(_NEW) == (
        f"install -D -m 644 {tmp_path}/linux/t.conf {_NEW.place}",
    )
    kubelet = knob(KnobKind.RENDERED, "kubernetes/kubelet.yaml", 'kind: "KubeletConfiguration"\n')
    assert "merge" in found[KnobKind.RENDERED].commands(kubelet)[0]
    commands = knob(KnobKind.RENDERED, "rds/commands.txt", "aws ...\n")
    assert found[KnobKind.RENDERED].commands(commands)[0].startswith("# run what")


def test_only_a_layer_is_turned_where_what_it_needs_is_there(tmp_path: Path) -> None:
    """Proves that knobs outside the selection are looked at, and never turned."""
    world = World(place=tmp_path)
    record = _MortalRecord(world)
    record.begin(StackBegun(knobs=_KNOBS, version="0"))
    wanted = apply_all(
        _KNOBS, world.doors, record, selection=Selection(layers=frozenset({"postgres"}))
    )
    assert [step.outcome for step in wanted] == [Outcome.WAITING]
    assert world.kernel.written == []
    record.close()


def test_everything_is_refused_at_once_before_anything_is_touched(tmp_path: Path) -> None:
    """Proves that all refusals are named together, and those of privilege with the commands."""
    world = World(place=tmp_path)
    wrong = [
        knob(KnobKind.SYSCTL, "vm.nonsense", "1"),
        knob(KnobKind.SYSCTL, "vm.drop_caches", "1"),
    ]
    with pytest.raises(PreflightError, match=r"nonsense.*drop_caches"):
        require_all([_POOL, *wrong], world.doors)
    world.kernel.closed = {"/": "this account may not write it"}
    with pytest.raises(UnprivilegedError) as error:
        require_all([_DIRTY, _THP], world.doors)
    assert error.value.commands[0] == "sysctl -w vm.dirty_bytes=536870912"
    assert world.kernel.written == []


def test_what_is_in_effect_needs_no_privilege(tmp_path: Path) -> None:
    """Proves that a plan that is in effect is accepted from an account that may nothing."""
    world = World(place=tmp_path, knobs=(_THP,))
    world.apply()
    world.kernel.closed = {"/": "this account may not write it"}
    require_all([_THP], world.doors)


def test_another_plan_is_refused_until_the_first_is_reverted(tmp_path: Path) -> None:
    """Proves that a changed plan does not lose snapshots, and that a revert needs no plan."""
    world = World(place=tmp_path)
    before = world.state()
    world.apply()
    world.knobs = (knob(KnobKind.SYSCTL, "vm.dirty_bytes", "8192"),)
    with pytest.raises(PreflightError, match="another plan"):
        world.apply()
    world.revert()
    assert world.state() == before
    assert _outcomes(world.apply()) == {Outcome.TURNED}


def test_a_server_that_is_gone_holds_back_only_what_it_rests_on(tmp_path: Path) -> None:
    """Proves that a revert puts back what it can, and finishes when the server is there again."""
    world = World(place=tmp_path)
    before = world.state()
    world.apply()
    world.server.reachable = False
    record = _MortalRecord(world)
    world.server.reachable = True
    found = dict(world.doors)
    world.server.reachable = False
    outcomes = {step.knob.name: step.outcome for step in revert_all(found, record)}
    record.close()
    assert outcomes[_WORK_MEM.name] is Outcome.FAILED
    assert outcomes[_POOL.name] is Outcome.WAITING
    assert outcomes[_DIRTY.name] is Outcome.RESTORED
    world.server.reachable = True
    world.revert()
    assert world.state() == before


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ((_DIRTY, _DIRTY), "twice"),
        ((_OLD,), "no knob linux:vm.dirty_bytes"),
        (
            (
                Knob(
                    name="a",
                    layer="linux",
                    kind=KnobKind.SYSCTL,
                    place="a",
                    value="1",
                    after=("b",),
                ),
                Knob(
                    name="b",
                    layer="linux",
                    kind=KnobKind.SYSCTL,
                    place="b",
                    value="1",
                    after=("a",),
                ),
            ),
            "wait for each other: a, b",
        ),
    ],
)
def test_a_plan_without_an_order_is_refused(knobs: tuple[Knob, ...], words: str) -> None:
    """Proves that doubled names, unknown names and circles are named."""
    with pytest.raises(InputError, match=words):
        ordered(knobs)


def test_a_file_keeps_its_mode_and_a_link_is_refused(tmp_path: Path) -> None:
    """Proves that a plan's file has the mode of the one before it, and replaces no link."""
    world = World(place=tmp_path)
    world.apply()
    assert (world.root / "etc/sysctl.d/90.conf").stat().st_mode & 0o777 == 0o640
    world.revert()
    (world.root / "etc/sysctl.d/90.conf").unlink()
    (world.root / "etc/sysctl.d/90.conf").symlink_to("/etc/passwd")
    steps = world.apply()
    assert steps[-1].outcome is Outcome.FAILED
    assert "no plain file" in steps[-1].facts[0]
    assert (world.root / "etc/sysctl.d/90.conf").is_symlink()


def test_a_plan_for_two_machines_is_turned_on_each_alone(tmp_path: Path) -> None:
    """Proves that a guest's pool is never made on its hypervisor, nor waits for what is there."""
    below = replace(_THP, name="hypervisor:thp", layer="hypervisor")
    guest = replace(_POOL, after=(below.name,))
    world = World(place=tmp_path, knobs=(below, guest))
    with pytest.raises(InputError, match="two machines"):
        selection_of(world.knobs, (), local_server=True)
    inside = selection_of(world.knobs, ("linux", "postgres"), local_server=True)
    record = _MortalRecord(world)
    record.begin(StackBegun(knobs=world.knobs, version="0"))
    (step,) = apply_all(world.knobs, world.doors, record, selection=inside)
    record.close()
    assert (step.knob, step.outcome) == (guest, Outcome.TURNED)
    assert world.kernel.files[_THP.place] == "always [madvise] never\n"


def test_settings_of_a_server_elsewhere_do_not_wait_for_this_machine(tmp_path: Path) -> None:
    """Proves that pools are looked for here only where the server runs here."""
    world = World(place=tmp_path)
    for here, outcome in ((True, Outcome.WAITING), (False, Outcome.TURNED)):
        selection = selection_of(world.knobs, ("postgres",), local_server=here)
        record = _MortalRecord(world)
        record.begin(StackBegun(knobs=_KNOBS, version="0"))
        (step,) = apply_all(_KNOBS, world.doors, record, selection=selection)
        record.close()
        assert step.outcome is outcome
