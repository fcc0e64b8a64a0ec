"""The control groups of a campaign: noted before made, limited, read back, lifted, removed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.cgroups import FakeCgroups
from fakes.clock import FakeClock
from fakes.programs import FakeLedger
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.linux import KEYS, Controller, Limits
from steelyard.core.outside import Outside
from steelyard.core.wording import ExitCode, LeftBehindError, PrivilegeError, TargetError
from steelyard.gateways.cgroups import Cgroups
from steelyard.places.local.groups import GroupPlan, ServerGroups, remove_group

_ROOT = Path("/fake/cgroup")
_PLAN = GroupPlan(name="steelyard-c-1", keys=frozenset(KEYS), place=Path("/data"))
_PAUSING = replace(_PLAN, pausing=True)
_ALL = Limits(
    cpus=0.6,
    cpuset=(0,),
    generator_cpuset=(1,),
    memory=1 << 28,
    read_iops=200,
    write_iops=100,
    read_bytes_per_s=20480,
    write_bytes_per_s=10240,
)


class _Made:
    """Groups on a fake machine, with everything a test looks at."""

    def __init__(self, cgroups: FakeCgroups, plan: GroupPlan = _PLAN) -> None:
        self.cgroups, self.ledger, self.clock = cgroups, FakeLedger(), FakeClock()
        self.groups = ServerGroups(plan, cgroups, self.ledger, self.clock)

    def files(self, role: str) -> dict[str, str]:
        """Return the files of a group, in all hierarchies, by name."""
        return {
            path.name: text for path, text in self.cgroups.files.items() if role in path.parent.name
        }


@pytest.fixture(params=[1, 2])
def made(request: pytest.FixtureRequest) -> _Made:
    """Return groups on a machine of each version in turn."""
    return _Made(FakeCgroups(version=request.param))


def test_groups_are_noted_before_they_are_made(made: _Made) -> None:
    """A death between the two leaves a note of nothing, never a group without a note."""
    there: list[set[Path]] = []
    note = made.ledger.created

    def noting(thing: Outside) -> None:
        there.append(set(made.cgroups.groups))
        note(thing)

    made.ledger.created = noting  # type: ignore[method-assign]
    made.groups.make()
    made.groups.make()
    noted = [path for _, path in made.ledger.groups]
    assert there == [set(noted[:place]) for place in range(len(noted))]
    assert set(noted) == made.cgroups.groups == {*made.groups.server, *made.groups.generator}


@pytest.mark.parametrize("plan", [_PAUSING, replace(_PAUSING, keys=frozenset())])
@pytest.mark.parametrize("version", [1, 2])
def test_who_takes_turns_is_in_groups_that_freeze(version: int, plan: GroupPlan) -> None:
    """Server and generator, limited or not; of version 2 in the groups of their limits."""
    made = _Made(FakeCgroups(version=version), plan)
    root = _ROOT / "freezer" if version == 1 else _ROOT
    generator, server = (root / f"steelyard-c-1-{role}" for role in ("generator", "server"))
    assert made.groups.freezing == (generator, server)
    assert made.cgroups.groups == set()
    made.groups.make()
    assert generator in made.groups.generator
    assert server in made.groups.server
    assert {path for _, path in made.ledger.groups} == made.cgroups.groups
    limiting = {path for path in made.groups.server if version == 2 or path != server}
    assert set(made.groups.limiting) == (limiting if plan.keys else set())


def test_the_freezer_limits_nothing() -> None:
    """What is in force, asked for and read back is as without it; so are the files."""
    made, other = _Made(FakeCgroups(), _PAUSING), _Made(FakeCgroups())
    for each in (made, other):
        each.groups.make()
        each.groups.put(_ALL)
    assert made.cgroups.files == other.cgroups.files
    assert made.groups.in_force() == _ALL
    assert made.groups.effective() == other.groups.effective()
    assert made.groups.deviations() == ()


def test_a_server_outside_the_freezer_is_a_stranger() -> None:
    """It would go on in the turns of others."""
    made = _Made(FakeCgroups(), _PAUSING)
    made.groups.make()
    outside = made.groups.freezing[1]
    made.cgroups.within = lambda path: () if path == outside else (5,)
    assert made.groups.strangers(frozenset({5})) == {5}


def test_who_never_takes_turns_has_no_standstill(made: _Made) -> None:
    """Nothing of the freezer is asked for."""
    made.cgroups.lacks = frozenset({Controller.FREEZER})
    made.groups.make()
    assert made.groups.standstill is None
    assert made.groups.freezing == ()


@pytest.mark.parametrize("version", [1, 2])
def test_removing_thaws_first(version: int) -> None:
    """In version 1 a frozen process does not even die, and its group would stay for ever."""
    made = _Made(FakeCgroups(version=version), _PAUSING)
    made.groups.make()
    standstill = made.groups.standstill
    assert standstill is not None
    assert made.groups.standstill is standstill
    assert standstill.pause()
    assert len(made.cgroups.frozen()) == 2
    made.groups.remove()
    made.groups.note_removed()
    assert made.cgroups.frozen() == made.cgroups.groups == set()
    assert standstill._server.closed  # type: ignore[attr-defined] # of a fake
    assert standstill._generator.closed  # type: ignore[attr-defined]
    made.groups.make()
    assert made.groups.standstill is not standstill


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("restless", [3, 10**6])
def test_a_quota_that_is_used_up_does_not_keep_a_server_from_freezing(
    version: int, restless: int
) -> None:
    """It is away from the order to freeze until nothing runs, or that is given up; then as before.

    What else is limited stays so, and what has no quota is not written.
    """
    made = _Made(FakeCgroups(version=version, restless=restless), _PAUSING)
    made.groups.make()
    made.groups.put(_ALL)
    files, standstill = dict(made.cgroups.files), made.groups.standstill
    assert standstill is not None
    made.cgroups.written.clear()
    assert standstill.pause() is (restless == 3)
    names = [path.name for path, _ in made.cgroups.written]
    freezes, quota = (
        ("freezer.state", ["cpu.cfs_period_us", "cpu.cfs_quota_us"])
        if version == 1
        else ("cgroup.freeze", ["cpu.max"])
    )
    assert names[: 2 + 2 * len(quota)] == [freezes, freezes, *quota, *quota]
    assert made.cgroups.written[1 + len(quota)][1] in {"-1", "max 100000"}
    standstill.proceed()
    assert {p: t for p, t in made.cgroups.files.items() if p.name != freezes} == files
    made.groups.lift()
    made.cgroups.written.clear()
    standstill.pause()
    assert {path.name for path, _ in made.cgroups.written} == {freezes}


@pytest.mark.parametrize("refuses", [set(), {"freezer.state"}])
def test_a_frozen_group_that_somebody_left_is_thawed_and_removed(refuses: set[str]) -> None:
    """Where the kernel does not thaw it, what is in it is named."""
    cgroups, clock = FakeCgroups(), FakeClock()
    group = cgroups.hierarchy(Controller.FREEZER).root / "steelyard-c-1-server"
    cgroups.make(group)
    cgroups.freezer(group).freeze()
    cgroups.refuses = refuses
    if refuses:
        cgroups.busy, cgroups.within = 10**6, lambda _: (77,)
        with pytest.raises(LeftBehindError, match="processes in it: 77"):
            remove_group(group, cgroups, clock)
        assert cgroups.groups == {group}
    else:
        remove_group(group, cgroups, clock)
        assert cgroups.frozen() == cgroups.groups == set()


def test_only_the_controllers_that_are_needed_are_used() -> None:
    """A quota asks for nothing but the controller of CPU time."""
    made = _Made(FakeCgroups(), replace(_PLAN, keys=frozenset({"cpus"})))
    made.cgroups.lacks = frozenset({Controller.IO, Controller.CPUSET})
    made.groups.require_ready()
    made.groups.make()
    assert made.groups.server == (_ROOT / "cpu" / "steelyard-c-1-server",)
    assert made.groups.generator == ()


def test_the_files_of_version_1() -> None:
    """A group in each hierarchy; quota apart from period, a file for each throttle."""
    made = _Made(FakeCgroups(version=1))
    made.groups.make()
    name = "steelyard-c-1-server"
    assert set(made.groups.server) == {_ROOT / c / name for c in ("cpu", "cpuset", "io", "memory")}
    assert made.groups.generator == (_ROOT / "cpuset" / "steelyard-c-1-generator",)
    made.groups.put(_ALL)
    assert made.files("server") == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "60000",
        "cpuset.mems": "0",
        "cpuset.cpus": "0",
        "memory.limit_in_bytes": "268435456",
        "blkio.throttle.read_iops_device": "254:0 200",
        "blkio.throttle.write_iops_device": "254:0 100",
        "blkio.throttle.read_bps_device": "254:0 20480",
        "blkio.throttle.write_bps_device": "254:0 10240",
    }
    assert made.files("generator") == {"cpuset.mems": "0", "cpuset.cpus": "1"}


def test_the_files_of_version_2() -> None:
    """One group for all; quota with its period in one line, all throttles of a device in one."""
    made = _Made(FakeCgroups(version=2))
    made.groups.make()
    assert made.groups.server == (_ROOT / "steelyard-c-1-server",)
    assert made.groups.generator == (_ROOT / "steelyard-c-1-generator",)
    made.groups.put(_ALL)
    assert made.files("server") == {
        "cpu.max": "60000 100000",
        "cpuset.cpus": "0",
        "memory.max": "268435456",
        "io.max": "254:0 riops=200 wiops=100 rbps=20480 wbps=10240",
    }
    assert made.files("generator") == {"cpuset.cpus": "1"}


def test_what_is_in_force_is_read_back(made: _Made) -> None:
    """From the files of the groups, in both versions alike."""
    made.groups.make()
    made.groups.put(_ALL)
    assert made.groups.in_force() == _ALL
    assert made.groups.deviations() == ()
    assert made.groups.effective()[0] == EffectiveSetting(
        name="cgroup: cpus", value="0.6", source="control group"
    )
    assert [(each.value, each.unit) for each in made.groups.effective()[-2:]] == [
        ("20", "kB"),
        ("10", "kB"),
    ]


def test_lifting_brings_back_what_a_new_group_has(made: _Made) -> None:
    """After a configuration with limits, one without has the files that the groups began with."""
    made.groups.make()
    begun = dict(made.cgroups.files)
    made.groups.put(_ALL)
    assert made.cgroups.files != begun
    made.groups.put(Limits())
    assert made.cgroups.files == begun
    assert made.groups.deviations() == ()
    assert [each.value for each in made.groups.effective()] == [
        "unlimited",
        "0-1",
        "0-1",
        *["unlimited"] * 5,
    ]


@pytest.mark.parametrize("kernels", ["254:0 rbps=20480 wbps=10240 riops=200 wiops=100", ""])
def test_the_kernels_own_order_is_understood(kernels: str) -> None:
    """Version 2 writes its words in another order, and no line where there is no throttle."""
    made = _Made(FakeCgroups(version=2))
    made.groups.make()
    made.groups.put(_ALL)
    made.cgroups.files[_ROOT / "steelyard-c-1-server" / "io.max"] = kernels
    expected = replace(
        _ALL, read_iops=None, write_iops=None, read_bytes_per_s=None, write_bytes_per_s=None
    )
    assert made.groups.in_force() == (_ALL if kernels else expected)


def test_a_throttle_of_another_device_is_none_of_ours() -> None:
    """Only the line of the data's disk counts."""
    made = _Made(FakeCgroups(version=1))
    made.groups.make()
    path = _ROOT / "io" / "steelyard-c-1-server" / "blkio.throttle.read_iops_device"
    made.cgroups.files[path] = "8:0 50\n254:0 70"
    assert made.groups.in_force().read_iops == 70
    made.cgroups.files[path] = "8:0 50"
    assert made.groups.in_force().read_iops is None


def test_what_is_not_in_force_is_a_sentence(made: _Made) -> None:
    """Each limit that the kernel did not keep, with both values."""
    made.groups.make()
    made.cgroups.ignores = {"cpu.max", "cpu.cfs_quota_us", "io.max"}
    made.cgroups.ignores |= {"blkio.throttle.read_bps_device"}
    made.groups.put(Limits(cpus=0.6, cpuset=(0,), read_bytes_per_s=20480))
    assert made.groups.deviations() == (
        "cgroup: cpus was asked to be 0.6 and is unlimited",
        "cgroup: read_bytes_per_s was asked to be 20 kB and is unlimited",
    )


def test_a_limit_that_stays_is_a_sentence(made: _Made) -> None:
    """A configuration without limits must not keep those of the one before."""
    made.groups.make()
    made.groups.put(Limits(cpus=0.6))
    made.cgroups.ignores = {"cpu.max", "cpu.cfs_quota_us"}
    made.groups.put(Limits())
    assert made.groups.deviations() == ("cgroup: cpus was asked to be unlimited and is 0.6",)


def test_what_the_kernel_refuses_is_an_error(made: _Made) -> None:
    """It voids the block, or the campaign when a configuration is started for the first time."""
    made.groups.make()
    made.cgroups.refuses = {"cpuset.cpus"}
    with pytest.raises(TargetError, match="Invalid argument"):
        made.groups.put(Limits(cpuset=(0,)))


def test_removing_leaves_nothing_and_notes_it_afterwards(made: _Made) -> None:
    """Groups are gone before the journal says so; twice is no error."""
    made.groups.make()
    groups = set(made.cgroups.groups)
    made.groups.remove()
    assert made.cgroups.groups == set()
    assert [verb for verb, _ in made.ledger.groups] == ["made"] * len(groups)
    made.groups.note_removed()
    assert {path for verb, path in made.ledger.groups if verb == "removed"} == groups
    made.groups.remove()
    made.groups.note_removed()
    assert len(made.ledger.groups) == 2 * len(groups)


def test_a_process_may_take_a_moment_to_be_gone(made: _Made) -> None:
    """The last one is waited for; one that stays is told by its number."""
    made.groups.make()
    made.cgroups.busy = 3
    made.groups.remove()
    made.groups.note_removed()
    assert made.cgroups.groups == set()
    made.groups.make()
    made.cgroups.busy, made.cgroups.within = 10**6, lambda _: (77,)
    with pytest.raises(LeftBehindError, match="processes in it: 77") as caught:
        made.groups.remove()
    assert "steelyard clean" in caught.value.hint


def test_who_is_not_root_is_refused(made: _Made) -> None:
    """Exit code 8, with the keys that ask for it."""
    made.cgroups.privileged = False
    with pytest.raises(PrivilegeError, match=r"only root .* `cpus` and `cpuset`") as caught:
        made.groups.require_ready()
    assert caught.value.exit_code is ExitCode.PRIVILEGE


def test_who_takes_turns_without_limits_and_is_not_root_is_refused() -> None:
    """No key is named, as none asks for it."""
    groups = _Made(FakeCgroups(privileged=False), replace(_PAUSING, keys=frozenset())).groups
    with pytest.raises(PrivilegeError, match="servers take turns") as caught:
        groups.require_ready()
    assert "cgroup:" not in caught.value.hint


@pytest.mark.parametrize("controller", list(Controller))
def test_a_controller_that_is_missing_is_refused(controller: Controller) -> None:
    """Before anything is started."""
    made = _Made(FakeCgroups(), _PAUSING)
    made.groups.require_ready()
    made.cgroups.lacks = frozenset({controller})
    with pytest.raises(PrivilegeError, match=f"`{controller}`"):
        made.groups.require_ready()


def test_cpus_that_are_not_there_do_not_fit(made: _Made) -> None:
    """Each set for itself, with what there is; where nobody knows, nothing is refused."""
    found = made.groups.unfit({"cpuset": "0,2-3", "generator_cpuset": "1"})
    assert [(each.key, each.message) for each in found] == [
        ("cpuset", "this machine has no CPU 2-3: it has 0-1")
    ]
    made.cgroups.there = ()
    assert made.groups.unfit({"cpuset": "9"}) == ()


def test_data_on_no_device_cannot_be_throttled(made: _Made) -> None:
    """Every throttle is named; a quota fits anywhere."""
    made.cgroups.disk = None
    found = made.groups.unfit({"cpus": "1", "read_iops": "5", "write_iops": "5"})
    assert [each.key for each in found] == ["read_iops", "write_iops"]
    assert made.groups.unfit({"cpus": "1"}) == ()


def test_version_1_says_what_it_does_not_limit() -> None:
    """Only where a configuration limits writes, and only there."""
    findings = [
        _Made(FakeCgroups(version=version), replace(_PLAN, keys=frozenset({key}))).groups.findings()
        for version, key in ((1, "write_iops"), (2, "write_iops"), (1, "read_iops"))
    ]
    assert [[each.code for each in found] for found in findings] == [
        ["writeback-not-limited"],
        [],
        [],
    ]


def test_strangers_are_outside_any_of_the_groups(made: _Made) -> None:
    """A process must be in the group of every hierarchy."""
    made.groups.make()
    made.cgroups.within = lambda path: (5, 6) if path == made.groups.server[0] else (5,)
    assert made.groups.strangers(frozenset({5})) == frozenset()
    outside = {6, 7} if len(made.groups.server) > 1 else {7}
    assert made.groups.strangers(frozenset({5, 6, 7})) == outside


def test_a_tree_of_version_2_takes_and_gives_back_every_limit(tmp_path: Path) -> None:
    """The real gateway on files made for it: what is written is read back, and lifted again."""
    root = tmp_path / "sys/fs/cgroup"
    root.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (root / "cgroup.subtree_control").write_text("cpuset cpu io memory\n")
    (root / "cpuset.cpus.effective").write_text("0-1\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    number = tmp_path.stat().st_dev
    disk = tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    disk.mkdir(parents=True)
    (disk / "dev").write_text("254:0\n")
    plan = replace(_PLAN, place=tmp_path)
    groups = ServerGroups(plan, Cgroups(tmp_path), FakeLedger(), FakeClock())
    groups.make()
    server = root / "steelyard-c-1-server"
    groups.put(_ALL)
    assert (server / "cpu.max").read_text() == "60000 100000\n"
    assert (server / "io.max").read_text().startswith("254:0 riops=200 ")
    assert groups.in_force() == _ALL
    assert groups.deviations() == ()
    groups.put(Limits())
    assert (server / "cpu.max").read_text() == "max 100000\n"
    assert (server / "cpuset.cpus").read_text() == "\n"
    assert (server / "memory.max").read_text() == "max\n"
    assert (server / "io.max").read_text() == "254:0 riops=max wiops=max rbps=max wbps=max\n"
    assert groups.deviations() == ()
    outside = {path.name for path in root.iterdir() if path.is_file()}
    assert outside == {"cgroup.controllers", "cgroup.subtree_control", "cpuset.cpus.effective"}
