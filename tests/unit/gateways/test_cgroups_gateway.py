"""Control groups of machines that are not here: version 1, version 2, both, and none."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fakes.cgroups import FakeCgroups
from steelyard.gateways.cgroups import Cgroups, SystemCgroups
from steelyard.model.cgroup import Controller
from steelyard.model.errors import ExitCode, PrivilegeError, TargetError

_SEPARATE = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0
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


def _machine(root: Path, mounts: str, **files: str) -> SystemCgroups:
    """Return a machine with these mounts; files by path, ``/`` written as two underscores."""
    for line in mounts.splitlines():
        place = line.split()[1].replace("\\040", " ")
        (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    _write(root, {"proc/self/mounts": mounts, **files})
    return SystemCgroups(root)


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _unified(root: Path, enabled: str) -> SystemCgroups:
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
    }


def test_version_1_may_have_several_controllers_in_one(tmp_path: Path) -> None:
    """By the options of the mount, not by the name of its directory."""
    machine = _machine(tmp_path, _TOGETHER)
    assert machine.hierarchy(Controller.CPU).root.name == "cpu,cpuacct"
    assert machine.hierarchy(Controller.IO).root == machine.hierarchy(Controller.CPUSET).root
    assert machine.hierarchy(Controller.IO).root.name == "a b"


def test_version_2_has_one_directory(tmp_path: Path) -> None:
    """All controllers that are enabled for groups below it."""
    machine = _unified(tmp_path, "cpuset cpu io")
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


def test_a_machine_without_control_groups_is_refused(tmp_path: Path) -> None:
    """With both names of the controller, because documents use either."""
    machine = _machine(tmp_path, "proc /proc proc rw 0 0\n")
    with pytest.raises(PrivilegeError, match=r"`io` \(`blkio` in version 1\)"):
        machine.hierarchy(Controller.IO)
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


def test_the_device_of_a_whole_disk_is_itself(tmp_path: Path) -> None:
    """A disk without partitions, a loop device or a volume."""
    machine = _machine(tmp_path, "")
    blocks, disk = tmp_path / "sys/dev/block", tmp_path / "sys/devices/virtual/loop0"
    _write(disk, {"dev": "7:0\n"})
    blocks.mkdir(parents=True)
    (blocks / _numbered(tmp_path)).symlink_to(disk)
    assert machine.device(tmp_path) == "7:0"


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
