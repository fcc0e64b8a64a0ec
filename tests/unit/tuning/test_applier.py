"""Applying a plan: its order, refusals, what is pending, and what cannot be seen."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from steelyard.core import wording
from steelyard.core.stack import Knob, KnobKind, Outcome, Step
from steelyard.gateways.doors import Doors
from steelyard.record.journal import Entry, Journal, StackBegun
from steelyard.tuning.apply.applier import (
    AppliedRecord,
    UnprivilegedError,
    apply_all,
    read_applied,
    require_all,
    revert_all,
    verify_all,
)
from steelyard.tuning.apply.door import Check, KnobDoor
from steelyard.tuning.apply.doors import Selection, doors, ordered, selection_of
from support import stack_world
from support.stack import knob

BUFFERS = knob(KnobKind.POSTGRES, "shared_buffers", "1GB")


def _outcomes(steps: tuple[Step, ...]) -> set[Outcome]:
    return {step.outcome for step in steps}


def test_a_plan_is_applied_verified_and_reverted_exactly(tmp_path: Path) -> None:
    """Proves that each kind of knob is in effect, and that all is as it was after the revert."""
    world = stack_world.World(place=tmp_path)
    before = world.state()
    require_all(stack_world.KNOBS, world.doors)
    steps = world.apply()
    assert _outcomes(steps) == {Outcome.TURNED}
    assert [step.knob for step in steps] == list(ordered(stack_world.KNOBS))
    assert all(
        check.holds
        for _, check in verify_all(stack_world.KNOBS, world.doors, read_applied(tmp_path))
    )
    assert _outcomes(world.apply()) == {Outcome.THERE}
    assert _outcomes(world.revert()) == {Outcome.RESTORED}
    never = [
        check for _, check in verify_all(stack_world.KNOBS, world.doors, read_applied(tmp_path))
    ]
    for check in never:
        assert not check.holds
        assert check.pending or "has not turned this knob" in check.remedy
        assert "scattered" not in check.remedy
    assert world.state() == before
    assert world.revert() == ()


def test_a_failure_stops_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    """Proves that fewer pages than asked end the application, and revert restores all."""
    world = stack_world.World(place=tmp_path)
    before = world.state()
    world.kernel.fits = {0: 30, 1: 10}
    steps = world.apply()
    assert steps[-1].outcome is Outcome.FAILED
    assert "30 at" in steps[-1].facts[0]
    assert "compact_memory" in steps[-1].remedy
    assert steps[-1].knob == stack_world.POOL
    assert stack_world.WORK_MEM not in [step.knob for step in steps]
    world.revert()
    assert world.state() == before


def test_a_full_disk_turns_nothing_without_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves for every line of the record that what cannot be noted is not done."""
    before = stack_world.World(place=tmp_path / "whole").state()
    real = Journal.append
    for fails_at in range(3):
        world = stack_world.World(place=tmp_path / str(fails_at), knobs=(stack_world.POOL,))
        lines = count()

        def append(
            self: Journal, entry: Entry, at: int = fails_at, lines: object = lines
        ) -> object:
            if next(lines) == at:  # type: ignore[call-overload]
                raise wording.RecordError("no space is left")
            return real(self, entry)

        monkeypatch.setattr(Journal, "append", append)
        with pytest.raises(wording.RecordError):
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
    buffers = BUFFERS
    later = knob(KnobKind.SYSCTL, "vm.dirty_bytes", "8192", after=(buffers.name,))
    world = stack_world.World(place=tmp_path, knobs=(buffers, later))
    before = world.state()
    first = world.apply()
    assert [step.outcome for step in first] == [Outcome.PENDING, Outcome.WAITING]
    assert "restart of the server" in first[0].remedy
    assert read_applied(tmp_path / "plan").pending == {buffers.name: "a restart of the server"}
    world.server.restart()
    assert [step.outcome for step in world.apply()] == [Outcome.THERE, Outcome.TURNED]
    steps = world.revert()
    assert "restart of the server" in steps[-1].remedy
    world.server.restart()
    assert world.state() == before


def test_a_step_of_the_operator_holds_back_until_its_check_succeeds(tmp_path: Path) -> None:
    """Proves that the check decides, and that a step without one rests on the operator's word."""
    step = knob(KnobKind.MANUAL, "Restart the kubelet", "")
    later = knob(KnobKind.SYSCTL, "vm.dirty_bytes", "8192", after=(step.name,))
    world = stack_world.World(place=tmp_path, knobs=(step, later))
    assert [each.outcome for each in world.apply()] == [Outcome.PENDING, Outcome.WAITING]
    record = stack_world.MortalRecord(world)
    done = apply_all(world.knobs, world.doors, record, confirmed=lambda _knob: True)
    record.close()
    assert [each.outcome for each in done] == [Outcome.TURNED, Outcome.TURNED]
    assert [each.outcome for each in world.apply()] == [Outcome.THERE, Outcome.THERE]


def test_a_rendered_object_is_named_with_its_command_and_never_applied(tmp_path: Path) -> None:
    """Proves that an object of a cluster changes nothing and leaves no snapshot."""
    rendered = knob(KnobKind.RENDERED, "kubernetes/cluster.yaml", "")
    world = stack_world.World(place=tmp_path, knobs=(rendered,))
    (step,) = world.apply()
    assert step.outcome is Outcome.RENDERED
    assert step.commands == (f"kubectl apply -f {tmp_path}/files/kubernetes/cluster.yaml",)
    assert world.revert() == ()


def test_commands_name_the_ready_files_of_the_plan(tmp_path: Path) -> None:
    """Proves that a file is installed from the plan, and a kubelet's configuration not applied."""
    found = doors(Doors(), rendered=tmp_path, paths={"linux/t.conf": stack_world.NEW.place})
    assert found[KnobKind.FILE].commands(stack_world.NEW) == (
        f"install -D -m 644 {tmp_path}/linux/t.conf {stack_world.NEW.place}",
    )
    kubelet = knob(KnobKind.RENDERED, "kubernetes/kubelet.yaml", 'kind: "KubeletConfiguration"\n')
    assert "merge" in found[KnobKind.RENDERED].commands(kubelet)[0]
    commands = knob(KnobKind.RENDERED, "rds/commands.txt", "aws ...\n")
    assert found[KnobKind.RENDERED].commands(commands)[0].startswith("# run what")


def test_settings_without_their_server_have_a_door_that_says_so(tmp_path: Path) -> None:
    """Proves that every kind has a door, and that nothing is seen, turned or put back by that."""
    found = doors(Doors(), rendered=tmp_path, paths={})
    world = stack_world.World(place=tmp_path, knobs=(stack_world.WORK_MEM, stack_world.POOL))
    assert set(found) == set(world.doors) == set(KnobKind)
    ((_, check),) = verify_all([stack_world.WORK_MEM], found, read_applied(tmp_path))
    assert check.holds is None
    assert check.facts == ("There is no way to its postgres from here.",)
    with pytest.raises(wording.PreflightError, match="cannot be turned here: there is no way"):
        require_all([stack_world.WORK_MEM], found)
    world.apply()
    record = stack_world.MortalRecord(world)
    steps = revert_all({**world.doors, KnobKind.POSTGRES: found[KnobKind.POSTGRES]}, record)
    record.close()
    assert [step.outcome for step in steps] == [Outcome.FAILED, Outcome.WAITING]
    assert (steps[0].facts, steps[0].remedy) == (("its server cannot be reached",), "Start it.")


def test_only_a_layer_is_turned_where_what_it_needs_is_there(tmp_path: Path) -> None:
    """Proves that knobs outside the selection are looked at, and never turned."""
    world = stack_world.World(place=tmp_path)
    record = stack_world.MortalRecord(world)
    record.begin(StackBegun(knobs=stack_world.KNOBS, version="0"))
    wanted = apply_all(
        stack_world.KNOBS, world.doors, record, selection=Selection(layers=frozenset({"postgres"}))
    )
    assert [step.outcome for step in wanted] == [Outcome.WAITING]
    assert world.kernel.written == []
    record.close()


def test_everything_is_refused_at_once_before_anything_is_touched(tmp_path: Path) -> None:
    """Proves that all refusals are named together, and those of privilege with the commands."""
    world = stack_world.World(place=tmp_path)
    wrong = [
        knob(KnobKind.SYSCTL, "vm.nonsense", "1"),
        knob(KnobKind.SYSCTL, "vm.drop_caches", "1"),
    ]
    with pytest.raises(wording.PreflightError, match=r"nonsense.*drop_caches"):
        require_all([stack_world.POOL, *wrong], world.doors)
    world.kernel.closed = {"/": "this account may not write it"}
    with pytest.raises(UnprivilegedError) as error:
        require_all([stack_world.DIRTY, stack_world.THP], world.doors)
    assert error.value.commands[0] == "sysctl -w vm.dirty_bytes=536870912"
    assert world.kernel.written == []


def test_what_is_in_effect_needs_no_privilege(tmp_path: Path) -> None:
    """Proves that a plan that is in effect is accepted from an account that may nothing."""
    world = stack_world.World(place=tmp_path, knobs=(stack_world.THP,))
    world.apply()
    world.kernel.closed = {"/": "this account may not write it"}
    require_all([stack_world.THP], world.doors)


def test_another_plan_is_refused_until_the_first_is_reverted(tmp_path: Path) -> None:
    """Proves that a changed plan does not lose snapshots, and that a revert needs no plan."""
    world = stack_world.World(place=tmp_path)
    before = world.state()
    world.apply()
    world.knobs = (knob(KnobKind.SYSCTL, "vm.dirty_bytes", "8192"),)
    with pytest.raises(wording.PreflightError, match="another plan"):
        world.apply()
    world.revert()
    assert world.state() == before
    assert _outcomes(world.apply()) == {Outcome.TURNED}


def test_a_server_that_is_gone_holds_back_only_what_it_rests_on(tmp_path: Path) -> None:
    """Proves that a revert puts back what it can, and finishes when the server is there again."""
    world = stack_world.World(place=tmp_path)
    before = world.state()
    world.apply()
    world.server.reachable = False
    record = stack_world.MortalRecord(world)
    world.server.reachable = True
    found = dict(world.doors)
    world.server.reachable = False
    outcomes = {step.knob.name: step.outcome for step in revert_all(found, record)}
    record.close()
    assert outcomes[stack_world.WORK_MEM.name] is Outcome.FAILED
    assert outcomes[stack_world.POOL.name] is Outcome.WAITING
    assert outcomes[stack_world.DIRTY.name] is Outcome.RESTORED
    world.server.reachable = True
    world.revert()
    assert world.state() == before


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ((stack_world.DIRTY, stack_world.DIRTY), "twice"),
        ((stack_world.OLD,), "no knob linux:vm.dirty_bytes"),
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
    with pytest.raises(wording.InputError, match=words):
        ordered(knobs)


def test_a_file_keeps_its_mode_and_a_link_is_refused(tmp_path: Path) -> None:
    """Proves that a plan's file has the mode of the one before it, and replaces no link."""
    world = stack_world.World(place=tmp_path)
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
    below = replace(stack_world.THP, name="hypervisor:thp", layer="hypervisor")
    guest = replace(stack_world.POOL, after=(below.name,))
    world = stack_world.World(place=tmp_path, knobs=(below, guest))
    with pytest.raises(wording.InputError, match="two machines"):
        selection_of(world.knobs, (), local_server=True)
    inside = selection_of(world.knobs, ("linux", "postgres"), local_server=True)
    record = stack_world.MortalRecord(world)
    record.begin(StackBegun(knobs=world.knobs, version="0"))
    (step,) = apply_all(world.knobs, world.doors, record, selection=inside)
    record.close()
    assert (step.knob, step.outcome) == (guest, Outcome.TURNED)
    assert world.kernel.files[stack_world.THP.place] == "always [madvise] never\n"


def test_settings_of_a_server_elsewhere_do_not_wait_for_this_machine(tmp_path: Path) -> None:
    """Proves that pools are looked for here only where the server runs here."""
    world = stack_world.World(place=tmp_path)
    for here, outcome in ((True, Outcome.WAITING), (False, Outcome.TURNED)):
        selection = selection_of(world.knobs, ("postgres",), local_server=here)
        record = stack_world.MortalRecord(world)
        record.begin(StackBegun(knobs=stack_world.KNOBS, version="0"))
        (step,) = apply_all(stack_world.KNOBS, world.doors, record, selection=selection)
        record.close()
        assert step.outcome is outcome


class _Blind:
    """A door whose effect nobody can see."""

    def __init__(self, door: KnobDoor) -> None:
        self._door = door

    def __getattr__(self, name: str) -> object:
        return getattr(self._door, name)

    def verify(self, _knob: Knob) -> Check:
        """Return that it is not visible."""
        return Check(holds=None, facts=("nothing tells",))


def test_what_nobody_sees_is_not_passed_on_as_done(tmp_path: Path) -> None:
    """Proves an outcome of its own, which holds back what comes after, turned or looked at."""
    later = replace(stack_world.NEW, after=(stack_world.THP.name,))
    world = stack_world.World(place=tmp_path, knobs=(stack_world.THP, later))
    found = {**world.doors, KnobKind.SYSFS: _Blind(world.doors[KnobKind.SYSFS])}
    for selection in (Selection(), Selection(layers=frozenset({"kvm"}))):
        knobs = (stack_world.THP, later if not selection.layers else replace(later, layer="kvm"))
        record = stack_world.MortalRecord(world)
        record.begin(StackBegun(knobs=(stack_world.THP, later), version="0"))
        steps = apply_all(knobs, found, record, selection=selection)  # type: ignore[arg-type]
        record.close()
        assert steps[-1].outcome is Outcome.WAITING
        assert steps[0].outcome is (Outcome.WAITING if selection.layers else Outcome.UNSEEN)


class _Failing(_Blind):
    """A door that may not look."""

    def __init__(self, door: KnobDoor, error: wording.SteelyardError) -> None:
        super().__init__(door)
        self._error = error

    def verify(self, _knob: Knob) -> Check:
        """Raise what it was given."""
        raise self._error


def test_a_look_that_fails_is_a_refusal_among_the_others(tmp_path: Path) -> None:
    """Proves that no privilege to look gives the commands, and a link is named with the rest."""
    world = stack_world.World(place=tmp_path)
    closed = wording.PrivilegeError("libvirt does not let this account in")
    found = {**world.doors, KnobKind.SYSFS: _Failing(world.doors[KnobKind.SYSFS], closed)}
    with pytest.raises(UnprivilegedError, match="libvirt") as error:
        require_all([stack_world.THP], found)  # type: ignore[arg-type]
    assert error.value.commands == tuple(world.doors[KnobKind.SYSFS].commands(stack_world.THP))
    (world.root / stack_world.OLD.place.lstrip("/")).unlink()
    (world.root / stack_world.OLD.place.lstrip("/")).symlink_to("/etc/passwd")
    with pytest.raises(wording.PreflightError, match=r"no plain file.*nonsense"):
        require_all([stack_world.OLD, knob(KnobKind.SYSCTL, "vm.nonsense", "1")], world.doors)


def test_what_is_still_to_be_done_reads_as_a_sentence(tmp_path: Path) -> None:
    """Proves that a restart and a command both fit behind the words before them."""
    world = stack_world.World(place=tmp_path, knobs=(stack_world.POOL, stack_world.GUEST, BUFFERS))
    remedies = [step.remedy for step in world.apply()]
    assert "Not in effect before this is done: a restart of the server." in remedies
    assert "Not in effect before this is done: the start of guest (virsh start guest)." in remedies
    world.server.restart()
    assert any("done: a restart" in step.remedy for step in world.revert())


def test_the_record_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Proves that snapshots, which have the content of closed files, are not for everybody."""
    (tmp_path / "p").mkdir()
    record = AppliedRecord(tmp_path / "p", FakeClock())
    record.close()
    assert (tmp_path / "p/applied.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_is_only_looked_at_ends_nothing(tmp_path: Path) -> None:
    """A door that fails for a knob that was not asked for: what needs it waits."""
    later = replace(stack_world.NEW, layer="kvm", after=(stack_world.THP.name,))
    world = stack_world.World(place=tmp_path, knobs=(stack_world.THP, later))
    closed = wording.TargetError("libvirtd does not run")
    found = {**world.doors, KnobKind.SYSFS: _Failing(world.doors[KnobKind.SYSFS], closed)}
    record = stack_world.MortalRecord(world)
    record.begin(StackBegun(knobs=world.knobs, version="0"))
    chosen = Selection(layers=frozenset({"kvm"}))
    steps = apply_all(world.knobs, found, record, selection=chosen)  # type: ignore[arg-type]
    record.close()
    assert [step.outcome for step in steps] == [Outcome.WAITING]
