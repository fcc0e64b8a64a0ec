"""Limits of control groups as machines and containers show them: versions 1, 2, and both.

The tables of mounts and the groups are as Debian 12, docker, Kubernetes and systemd-nspawn write
them; the right values are those that the kernel applies: the smallest of all groups above.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from steelyard.core.wording import GIB, MIB
from steelyard.gateways.host import LocalHost, cpu_limits, limit_files, memory_limits
from steelyard.places.local.machine import capacity
from steelyard.tuning.facts.servers import usable_by

_G = "/sys/fs/cgroup"
_MACHINE = 64 * GIB
_V2 = "30 24 0:26 {root} {at} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
_V1 = "35 24 0:31 {root} {at} rw,nosuid shared:9 - cgroup cgroup rw,{names}\n"
_UNIFIED = _V2.format(root="/", at=_G)
_HYBRID = (
    _V1.format(root="/", at=f"{_G}/memory", names="memory")
    + _V1.format(root="/", at=f"{_G}/cpu,cpuacct", names="cpu,cpuacct")
    + _V1.format(root="/", at=f"{_G}/cpuset", names="cpuset")
    + _V2.format(root="/", at=f"{_G}/unified")
)
_DOCKER_1 = "".join(
    _V1.format(root="/docker/4f5e", at=f"{_G}/{names}", names=names)
    for names in ("memory", "cpu,cpuacct", "cpuset")
)
_UNLIMITED = "9223372036854771712\n"
Files = Mapping[str, str]

# The group of the process, the mounts, files below /sys/fs/cgroup, bytes of memory, CPUs.
_MACHINES: dict[str, tuple[str, str, Files, int, float]] = {
    "version 2, a service below a tighter slice": (
        "0::/db.slice/pg.service\n",
        _UNIFIED,
        {
            "db.slice/memory.max": f"{GIB}\n",
            "db.slice/cpu.max": "150000 100000\n",
            "db.slice/pg.service/memory.max": f"{2 * GIB}\n",
            "db.slice/pg.service/cpu.max": "400000 100000\n",
        },
        GIB,
        1.5,
    ),
    "version 2, the service is tighter": (
        "0::/db.slice/pg.service\n",
        _UNIFIED,
        {
            "db.slice/memory.max": f"{4 * GIB}\n",
            "db.slice/pg.service/memory.max": f"{512 * MIB}\n",
            "db.slice/cpuset.cpus.effective": "0-5\n",
            "db.slice/pg.service/cpuset.cpus.effective": "2-4\n",
        },
        512 * MIB,
        3.0,
    ),
    "version 2, memory.high throttles before memory.max": (
        "0::/pg.service\n",
        _UNIFIED,
        {"pg.service/memory.max": "max\n", "pg.service/memory.high": f"{3 * GIB}\n"},
        3 * GIB,
        8.0,
    ),
    "version 2, nothing is limited": (
        "0::/pg.service\n",
        _UNIFIED,
        {"pg.service/memory.max": "max\n", "pg.service/cpu.max": "max 100000\n"},
        _MACHINE,
        8.0,
    ),
    "version 2, a container with a namespace of its own": (
        "0::/\n",
        _UNIFIED,
        {"memory.max": f"{256 * MIB}\n", "cpu.max": "50000 100000\n"},
        256 * MIB,
        0.5,
    ),
    "version 2, a container of a container without a namespace": (
        "0::/docker/4f5e/init.scope\n",
        _V2.format(root="/docker/4f5e", at=_G),
        {"memory.max": f"{GIB}\n", "init.scope/memory.max": f"{2 * GIB}\n"},
        GIB,
        8.0,
    ),
    "version 2, mounted elsewhere": (
        "0::/pg.service\n",
        _V2.format(root="/", at="/run/my\\040groups"),
        {"../../../run/my groups/pg.service/memory.max": f"{GIB}\n"},
        GIB,
        8.0,
    ),
    "version 2, another subtree is mounted beside the whole": (
        "0::/pg.service\n",
        _V2.format(root="/other.slice", at="/mnt/other") + _UNIFIED,
        {"../../../mnt/other/memory.max": "4096\n", "pg.service/memory.max": f"{GIB}\n"},
        GIB,
        8.0,
    ),
    "version 1, a service below a tighter slice": (
        "9:memory:/db.slice/pg.service\n4:cpu,cpuacct:/db.slice\n3:cpuset:/\n1:name=systemd:/x\n",
        _HYBRID,
        {
            "memory/memory.limit_in_bytes": _UNLIMITED,
            "memory/db.slice/memory.limit_in_bytes": f"{GIB}\n",
            "memory/db.slice/pg.service/memory.limit_in_bytes": f"{2 * GIB}\n",
            "cpu,cpuacct/db.slice/cpu.cfs_quota_us": "75000\n",
            "cpu,cpuacct/db.slice/cpu.cfs_period_us": "50000\n",
            "cpuset/cpuset.cpus": "0-7\n",
        },
        GIB,
        1.5,
    ),
    "version 1, no limit and no quota": (
        "9:memory:/pg\n4:cpu,cpuacct:/pg\n",
        _HYBRID,
        {
            "memory/pg/memory.limit_in_bytes": _UNLIMITED,
            "memory/pg/memory.stat": f"cache 0\nhierarchical_memory_limit {_UNLIMITED}",
            "cpu,cpuacct/pg/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/pg/cpu.cfs_period_us": "100000\n",
        },
        _MACHINE,
        8.0,
    ),
    "version 1, docker: the host's path is not below the mount": (
        "9:memory:/docker/4f5e\n4:cpu,cpuacct:/docker/4f5e\n3:cpuset:/docker/4f5e\n",
        _DOCKER_1,
        {
            "memory/memory.limit_in_bytes": f"{256 * MIB}\n",
            "cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "cpuset/cpuset.effective_cpus": "6\n",
        },
        256 * MIB,
        1.0,
    ),
    "version 1, docker: a pod above the container is tighter": (
        "9:memory:/docker/4f5e\n",
        _DOCKER_1,
        {
            "memory/memory.limit_in_bytes": _UNLIMITED,
            "memory/memory.stat": f"hierarchical_memory_limit {128 * MIB}\ntotal_rss 5\n",
        },
        128 * MIB,
        8.0,
    ),
    "hybrid, memory of version 1 and CPU of version 2": (
        "9:memory:/docker/abc\n0::/docker/abc\n",
        _HYBRID,
        {
            "memory/docker/abc/memory.limit_in_bytes": f"{256 * MIB}\n",
            "unified/docker/cpu.max": "100000 100000\n",
        },
        256 * MIB,
        1.0,
    ),
    "the mounts are not visible": (
        "4:cpu,cpuacct:/a\n0::/a\n",
        "",
        {
            "cpu/a/cpu.cfs_quota_us": "50000\n",
            "cpu/a/cpu.cfs_period_us": "100000\n",
            "unified/a/memory.max": f"{GIB}\n",
        },
        GIB,
        0.5,
    ),
    "a table of mounts that is torn": (
        "0::/a\n",
        "30 24 0:26\n",
        {"a/memory.max": f"{GIB}\n"},
        GIB,
        8.0,
    ),
}


def _tree(root: Path, group: str, mounts: str, files: Files) -> LocalHost:
    own = {
        "/proc/meminfo": f"MemTotal: {_MACHINE // 1024} kB\n",
        "/sys/devices/system/cpu/online": "0-7\n",
        "/proc/self/mountinfo": mounts,
        **{f"/proc/{pid}/cgroup": group for pid in ("self", 77)},
        **{f"{_G}/{name}": text for name, text in files.items()},
    }
    for path, text in own.items():
        place = (root / path.lstrip("/")).resolve()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return LocalHost(root=root)


@pytest.mark.parametrize("name", _MACHINES)
def test_the_smallest_limit_of_all_groups_counts(tmp_path: Path, name: str) -> None:
    """For a server's process as for our own, whatever the versions and whoever looks."""
    group, mounts, files, memory, cpus = _MACHINES[name]
    host = _tree(tmp_path, group, mounts, files)
    found = usable_by(host, 77)
    assert found["usable_memory_bytes"].value == memory
    assert found["usable_cpus"].value == cpus
    here = capacity(host)
    assert here.memory_bytes == memory
    assert here.cpus == min(cpus, float(host.cpus()))


@pytest.mark.parametrize("name", _MACHINES)
def test_the_files_that_hold_the_limits_are_named(tmp_path: Path, name: str) -> None:
    """What is brought from a machine over ssh suffices: nothing else is read there."""
    group, mounts, files, memory, cpus = _MACHINES[name]
    host = _tree(tmp_path / "whole", group, mounts, files)
    named = [path for path in limit_files(host, 77) if host.read(path) is not None]
    brought = {path.removeprefix(_G + "/"): host.read(path) or "" for path in named}
    brought = {(n if not n.startswith("/") else f"../../..{n}"): t for n, t in brought.items()}
    part = _tree(tmp_path / "part", group, mounts, brought)
    assert usable_by(part, 77)["usable_memory_bytes"].value == memory
    assert usable_by(part, 77)["usable_cpus"].value == cpus


@pytest.mark.parametrize(
    ("group", "mounts"),
    [
        ("0::/pg.service\n", "24 1 8:0 / / rw - ext4 /dev/sda rw\n"),
        ("9:memory:/pg\n4:cpu:/pg\n", _UNIFIED),
        ("4:cpu,cpuacct:/\n9:memory:/\n", _V1.format(root="/../..", at="/g", names="memory,cpu")),
        ("0::/\n", _V2.format(root="/..", at=_G)),
        ("0::/../docker-4f5e.scope\n", _UNIFIED),
        ("9:memory:/../db\n4:cpu,cpuacct:/../db\n0::/\n", _HYBRID),
        ("0::/../../kubepods.slice/cri-4f5e.scope\n", _UNIFIED),
    ],
    ids=[
        *("no mount", "the other version", "above a namespace", "above a namespace, version 2"),
        *("a container that shares its processes with us", "hybrid", "another container of a pod"),
    ],
)
def test_limits_that_cannot_be_seen_are_not_taken_for_none(
    tmp_path: Path, group: str, mounts: str
) -> None:
    """The groups of the process are named, and their files are not there."""
    host = _tree(tmp_path, group, mounts, {"memory.max": f"{GIB}\n"})
    for found in usable_by(host, 77).values():
        assert found.value is None
        assert "are not mounted here" in found.origin.source
    assert capacity(host).memory_bytes == _MACHINE


def test_limits_of_our_container_are_not_those_of_another_one(tmp_path: Path) -> None:
    """Version 1 without namespaces: the server's container shares its processes with ours."""
    files = {
        "memory/memory.limit_in_bytes": f"{GIB}\n",
        "cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    group = "9:memory:/docker/77aa\n4:cpu,cpuacct:/docker/77aa\n"
    host = _tree(tmp_path, group, _DOCKER_1, files)
    (tmp_path / "proc/self/cgroup").write_text(group.replace("77aa", "4f5e"))
    assert all(found.value is None for found in usable_by(host, 77).values())
    assert capacity(host).memory_bytes == GIB


def test_the_affinity_of_the_process_counts(tmp_path: Path) -> None:
    """Those of ``taskset`` and ``CPUAffinity=`` stand in its status; an odd list says nothing."""
    host = _tree(tmp_path, "0::/\n", _UNIFIED, {})
    status = tmp_path / "proc/77/status"
    status.write_text("Name:\tpostgres\nCpus_allowed_list:\t1,4-5\n")
    assert min(cpu_limits(host, 77)) == (3.0, "/proc/77/status")
    status.write_text("Cpus_allowed_list:\tx\n")
    assert min(cpu_limits(host, 77)) == (8.0, "/sys/devices/system/cpu/online")


def test_a_limit_is_told_with_its_group(tmp_path: Path) -> None:
    """The operator finds it by its directory; equal limits are told once each."""
    group, mounts, files, _, _ = _MACHINES["version 2, a service below a tighter slice"]
    host = _tree(tmp_path, group, mounts, files)
    assert memory_limits(host, 77) == [
        (2 * GIB, f"{_G}/db.slice/pg.service"),
        (GIB, f"{_G}/db.slice"),
    ]
    assert memory_limits(host, 78) == []
