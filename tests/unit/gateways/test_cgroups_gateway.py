"""Control groups of machines that are not here: version 1, version 2, both, and none."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fakes.cgroups import FakeCgroups
from steelyard.core.linux import Controller
from steelyard.core.wording import ExitCode, PrivilegeError, TargetError
from steelyard.gateways.cgroups import Cgroups

_SEPARATE = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
_TOGETHER = """\
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/a\\040b cgroup rw,cpuset,blkio 0 0
"""
_UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
_HYBRID = """\
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def _machine(root: Path, mounts: str, **files: str) -> Cgroups:
    """Return a machine with these mounts; files by path, ``/`` written as two underscores."""
    for line in mounts.splitlines():
        place = line.split()[1].replace("\\040", " ")
        (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    _write(root, {"proc/self/mounts": mounts, **files})
    return Cgroups(root)


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _unified(root: Path, enabled: str) -> Cgroups:
    files = {
        "sys__fs__cgroup__cgroup.controllers": "cpuset cpu io memory\n",
        "sys__fs__cgroup__cgroup.subtree_control": f"{enabled}\n",
    }
    return _machine(root, _UNIFIED, **files)


def test_version_1_has_a_directory_for_each_controller(tmp_path: Path) -> None:
    """Mounted apart, the empty hierarchy of version 2 beside them is passed over."""
    machine = _machine(tmp_path, _SEPARATE, sys__fs__cgroup__unified__cgroup_controllers="")
    found = {controller: machine.hierarchy(controller) for controller in Controller}
    assert {each.version for each in found.values()} == {1}
    assert {c.value: each.root.name for c, each in found.items()} == {
        "cpu": "cpu",
        "cpuset": "cpuset",
        "io": "blkio",
        "freezer": "freezer",
        "memory": "memory",
    }


def test_version_1_may_have_several_controllers_in_one(tmp_path: Path) -> None:
    """By the options of the mount, not by the name of its directory."""
    machine = _machine(tmp_path, _TOGETHER)
    assert machine.hierarchy(Controller.CPU).root.name == "cpu,cpuacct"
    assert machine.hierarchy(Controller.IO).root == machine.hierarchy(Controller.CPUSET).root
    assert machine.hierarchy(Controller.IO).root.name == "a b"


def test_version_2_has_one_directory(tmp_path: Path) -> None:
    """All controllers that are enabled for groups below it."""
    machine = _unified(tmp_path, "cpuset cpu io memory")
    found = [machine.hierarchy(controller) for controller in Controller]
    assert {(each.version, each.root) for each in found} == {(2, tmp_path / "sys/fs/cgroup")}


def test_a_controller_that_is_not_enabled_is_refused_with_the_command(tmp_path: Path) -> None:
    """Enabling it would change more than our own groups, so it is the user's to do.

    ``cpu`` is not taken for enabled because ``cpuset`` is.
    """
    machine = _unified(tmp_path, "cpuset io")
    assert machine.hierarchy(Controller.IO).version == 2
    with pytest.raises(PrivilegeError, match="`cpu` is not enabled") as caught:
        machine.hierarchy(Controller.CPU)
    assert "echo +cpu > " in caught.value.hint
    assert caught.value.exit_code is ExitCode.PRIVILEGE


def test_a_hybrid_machine_has_each_controller_where_it_is(tmp_path: Path) -> None:
    """What version 1 does not have may be in version 2."""
    files = {
        "sys__fs__cgroup__unified__cgroup.controllers": "io\n",
        "sys__fs__cgroup__unified__cgroup.subtree_control": "io\n",
    }
    machine = _machine(tmp_path, _HYBRID, **files)
    assert machine.hierarchy(Controller.CPU).version == 1
    assert machine.hierarchy(Controller.IO).version == 2
    with pytest.raises(PrivilegeError, match="no hierarchy of control groups has"):
        machine.hierarchy(Controller.CPUSET)


def test_version_2_freezes_without_a_controller(tmp_path: Path) -> None:
    """Nothing is listed or enabled for it; groups there tell whether the kernel can."""
    machine = _machine(tmp_path, _UNIFIED)
    assert machine.hierarchy(Controller.FREEZER).version == 2
    group = tmp_path / "sys/fs/cgroup/system.slice"
    group.mkdir()
    with pytest.raises(PrivilegeError, match="can freeze processes") as caught:
        machine.hierarchy(Controller.FREEZER)  # a kernel before 5.2
    assert "Linux 5.2" in caught.value.hint
    (group / "cgroup.freeze").write_text("0\n")
    assert machine.hierarchy(Controller.FREEZER).version == 2


def test_the_freezer_of_version_1_comes_first(tmp_path: Path) -> None:
    """Unless it may not be written, as in a container that has version 2 to itself."""
    machine = _machine(tmp_path, _SEPARATE)
    assert machine.hierarchy(Controller.FREEZER).version == 1
    first = tmp_path / "sys/fs/cgroup/freezer"
    first.rmdir()  # for root everything that is there may be written
    assert machine.hierarchy(Controller.FREEZER).version == 2


def test_a_machine_without_control_groups_is_refused(tmp_path: Path) -> None:
    """With both names of the controller, because documents use either."""
    machine = _machine(tmp_path, "proc /proc proc rw 0 0\n")
    with pytest.raises(PrivilegeError, match=r"`io` \(`blkio` in version 1\)"):
        machine.hierarchy(Controller.IO)
    with pytest.raises(PrivilegeError, match="can freeze processes"):
        machine.hierarchy(Controller.FREEZER)
    assert machine.roots() == set()


def test_cpus_are_those_that_groups_may_have(tmp_path: Path) -> None:
    """The hierarchy's own CPUs where there is one, else those that are online."""
    machine = _machine(tmp_path, "", sys__devices__system__cpu__online="0-3\n")
    assert machine.cpus() == (0, 1, 2, 3)
    _machine(tmp_path, _SEPARATE, sys__fs__cgroup__cpuset__cpuset_cpus="")
    _write(tmp_path, {"sys__fs__cgroup__cpuset__cpuset.cpus": "0-1\n"})
    assert machine.cpus() == (0, 1)
    _write(tmp_path, {"sys__fs__cgroup__cpuset__cpuset.effective_cpus": "1\n"})
    assert machine.cpus() == (1,)


def test_where_nothing_tells_the_cpus_there_are_none(tmp_path: Path) -> None:
    """Then nothing can be refused for naming others."""
    assert _machine(tmp_path, "").cpus() == ()


def _numbered(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_the_device_of_a_partition_is_its_disk(tmp_path: Path) -> None:
    """Throttles are for whole disks; a directory that does not exist yet is where its parent is."""
    machine = _machine(tmp_path, "")
    blocks, disk = tmp_path / "sys/dev/block", tmp_path / "sys/devices/pci/sda"
    assert machine.device(tmp_path / "data") is None
    _write(disk, {"dev": "8:0\n", "sda1__dev": "8:1\n", "sda1__partition": "1\n"})
    blocks.mkdir(parents=True)
    (blocks / _numbered(tmp_path)).symlink_to(disk / "sda1")
    assert machine.device(tmp_path / "data" / "deeper") == "8:0"
    (blocks / _numbered(tmp_path)).unlink()
    (blocks / _numbered(tmp_path)).symlink_to(disk)
    assert machine.device(tmp_path) == "8:0"  # a whole disk is itself


@pytest.fixture(params=["tree", "fake"])
def groups(request: pytest.FixtureRequest, tmp_path: Path) -> Cgroups:
    """Return each implementation in turn, with version 1."""
    return FakeCgroups() if request.param == "fake" else _machine(tmp_path, _SEPARATE)


def test_a_group_is_made_written_read_and_removed(groups: Cgroups) -> None:
    """Each step shows in the next; making and removing twice is no error."""
    root = groups.hierarchy(Controller.CPU).root
    assert root in groups.roots()
    group = root / "steelyard-c-server"
    assert not groups.exists(group)
    groups.make(group)
    groups.make(group)
    assert groups.exists(group)
    assert groups.read(group, "cpu.cfs_quota_us") == ""
    groups.write(group, "cpu.cfs_quota_us", "60000")
    assert groups.read(group, "cpu.cfs_quota_us") == "60000"
    assert groups.members(group) == ()
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_quota_us").unlink()  # a kernel's files go with their group
    assert groups.remove(group)
    assert groups.remove(group)
    assert not groups.exists(group)


def test_a_group_with_processes_is_not_removed(tmp_path: Path) -> None:
    """A directory that is not empty stands for one; its members are told."""
    machine = _machine(tmp_path, _SEPARATE)
    group = machine.hierarchy(Controller.CPU).root / "steelyard-c-server"
    machine.make(group)
    machine.write(group, "cgroup.procs", "12\n14")
    assert machine.members(group) == (12, 14)
    assert not machine.remove(group)


def test_what_the_kernel_refuses_is_told(tmp_path: Path) -> None:
    """The file, the text and the kernel's word."""
    machine = _machine(tmp_path, _SEPARATE)
    gone = machine.hierarchy(Controller.CPU).root / "gone"
    with pytest.raises(TargetError, match=r"refuses `60000` in .*No such file") as caught:
        machine.write(gone, "cpu.cfs_quota_us", "60000")
    assert "cgroup" in caught.value.hint
    with pytest.raises(TargetError, match="cannot be made"):
        machine.make(gone / "below")


@pytest.mark.parametrize("version", [1, 2])
def test_a_frozen_group_is_thawed_by_the_files_of_its_version(tmp_path: Path, version: int) -> None:
    """State and question are one file in version 1; in version 2 the kernel tells by events."""
    group = _freezable(tmp_path, version)
    freezer = Cgroups().freezer(group)
    assert not freezer.is_frozen()
    freezer.freeze()
    if version == 1:
        assert (group / "freezer.state").read_text() == "FROZEN\n"
    else:
        assert (group / "cgroup.freeze").read_text() == "1\n"
        assert not freezer.is_frozen()  # asked for, and not yet so
        (group / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert freezer.is_frozen()
    freezer.thaw()
    name, word = ("freezer.state", "THAWED") if version == 1 else ("cgroup.freeze", "0")
    assert (group / name).read_text() == f"{word}\n"
    freezer.freeze()
    freezer.close()
    freezer.close()
    assert (group / name).read_text() == f"{word}\n"


def _freezable(root: Path, version: int) -> Path:
    """Return a group with the files of its version, as a kernel makes them."""
    group = root / "group"
    group.mkdir()
    files = {"freezer.state": "THAWED\n"}
    if version == 2:
        files = {"cgroup.freeze": "0\n", "cgroup.events": "populated 1\nfrozen 0\n"}
    _write(group, files)
    return group


def test_a_group_on_its_way_is_not_frozen(tmp_path: Path) -> None:
    """In version 1 the kernel says FREEZING until nothing in it runs."""
    group = _freezable(tmp_path, 1)
    freezer = Cgroups().freezer(group)
    (group / "freezer.state").write_text("FREEZING\n")
    assert not freezer.is_frozen()
    freezer.close()


def test_a_group_without_a_freezer_is_told(tmp_path: Path) -> None:
    """As below a kernel that cannot, or when the group is gone."""
    with pytest.raises(TargetError, match=r"cannot be frozen: No such file.*cgroup.freeze") as told:
        Cgroups().freezer(tmp_path)
    assert "Linux 5.2" in told.value.hint


@pytest.mark.parametrize("kind", ["tree", "fake", "fake of version 2"])
def test_what_was_frozen_is_frozen_until_it_is_thawed(tmp_path: Path, kind: str) -> None:
    """Whoever holds the files; freezing and thawing twice is no error."""
    groups: Cgroups = FakeCgroups(version=2 if "2" in kind else 1)
    if kind == "tree":
        groups = _machine(tmp_path, _SEPARATE)
    group = groups.hierarchy(Controller.FREEZER).root / "steelyard-c-server"
    groups.make(group)
    if kind == "tree":
        (group / "freezer.state").write_text("THAWED\n")
    freezer = groups.freezer(group)
    assert not freezer.is_frozen()
    freezer.freeze()
    freezer.freeze()
    assert freezer.is_frozen()
    freezer.thaw()
    freezer.thaw()
    assert not freezer.is_frozen()
    freezer.freeze()
    freezer.close()
    assert groups.read(group, "freezer.state") in ("", "THAWED")
    assert groups.read(group, "cgroup.freeze") in ("", "0")
    with pytest.raises(TargetError, match="cannot be frozen"):
        groups.freezer(group.with_name("nothing"))
