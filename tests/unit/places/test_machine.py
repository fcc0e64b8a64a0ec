"""What may really be used here, and what a reader must know of the machine."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core.places import Provision
from steelyard.core.wording import GIB, KIB, MIB, ExitCode, PreflightError
from steelyard.places.local.machine import capacity, machine_facts, provision_here

_MEMINFO = "MemTotal:       16384000 kB\nMemFree:         1000000 kB\n"
_TOTAL = 16_384_000 * 1024
_V1_NO_LIMIT = "9223372036854771712\n"
_CGROUP = "/sys/fs/cgroup"


def _host(cgroup: str = "", **files: str) -> FakeHost:
    """Return a machine of 16 GB and 4 CPUs with a cgroup; files below the cgroup mount."""
    below = {f"{_CGROUP}/{name}": text for name, text in files.items()}
    return FakeHost(
        files={"/proc/meminfo": _MEMINFO, "/proc/self/cgroup": cgroup, **below}, cpu_count=4
    )


def _with(cgroup: str, files: dict[str, str]) -> FakeHost:
    return _host(cgroup, **files)


def test_a_bare_machine_is_all_there() -> None:
    """Without a cgroup the machine's own memory and CPUs count."""
    found = capacity(FakeHost(files={"/proc/meminfo": _MEMINFO}, cpu_count=4))
    assert (found.cpus, found.memory_bytes) == (4.0, _TOTAL)


_V1 = "5:memory:/docker/x\n3:{0}:/docker/x\n1:name=systemd:/docker/x\n"
_V1_FILES = {
    "memory/memory.limit_in_bytes": _V1_NO_LIMIT,
    "memory/docker/x/memory.limit_in_bytes": f"{3 * GIB}\n",
    "{0}/docker/x/cpu.cfs_quota_us": "75000\n",
    "{0}/docker/x/cpu.cfs_period_us": "50000\n",
}


@pytest.mark.parametrize(
    ("cgroup", "files", "cpus", "memory"),
    [
        ("0::/\n", {"memory.max": f"{2 * GIB}\n", "cpu.max": "150000 100000\n"}, 1.5, 2 * GIB),
        ("0::/\n", {"memory.max": "max\n", "cpu.max": "max 100000\n"}, 4.0, _TOTAL),
        (  # a slice above may be tighter than our own cgroup, for memory and CPU apart
            "0::/a.slice/b.service\n",
            {
                "a.slice/memory.max": f"{1 * GIB}\n",
                "a.slice/cpu.max": "max 100000\n",
                "a.slice/b.service/memory.max": f"{8 * GIB}\n",
                "a.slice/b.service/cpu.max": "50000 100000\n",
            },
            0.5,
            1 * GIB,
        ),
        # A container without a cgroup namespace sees the host's path, which is not mounted.
        ("0::/docker/4f5e\n", {"memory.max": f"{512 * MIB}\n"}, 4.0, 512 * MIB),
        *(  # cpu is often mounted together with cpuacct
            (_V1.format(n), {k.format(n): v for k, v in _V1_FILES.items()}, 1.5, 3 * GIB)
            for n in ("cpu", "cpu,cpuacct")
        ),
        (  # a number near 2^63 and a quota of -1 mean that there is none
            "2:memory:/\n1:cpu:/\n",
            {
                "memory/memory.limit_in_bytes": _V1_NO_LIMIT,
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
            },
            4.0,
            _TOTAL,
        ),
        (  # systemd's hybrid mode has controllers of version 1 beside an empty tree of version 2
            "4:memory:/x\n0::/x\n",
            {"memory/x/memory.limit_in_bytes": f"{GIB}\n", "unified/x/cpu.max": "100000 100000\n"},
            1.0,
            GIB,
        ),
        ("0::/\n", {"cpu.max": "800000 100000\n"}, 4.0, _TOTAL),
        ("0::/\n", {"memory.max": f"{64 * GIB}\n"}, 4.0, _TOTAL),
    ],
)
def test_the_smallest_limit_counts(
    cgroup: str, files: dict[str, str], cpus: float, memory: int
) -> None:
    """Of both versions, nested or not, and never more than the machine has."""
    found = capacity(_with(cgroup, files))
    assert (found.cpus, found.memory_bytes) == (cpus, memory)


def test_a_limit_alone_is_enough() -> None:
    """Where the machine's memory is hidden, the container's limit still is one."""
    host = FakeHost(
        files={"/proc/self/cgroup": "0::/\n", f"{_CGROUP}/memory.max": f"{GIB}\n"}, cpu_count=2
    )
    assert capacity(host).memory_bytes == GIB


def test_nothing_visible_is_a_sentence() -> None:
    """A machine that does not tell its memory is refused with what is missing."""
    with pytest.raises(PreflightError, match="how much memory") as caught:
        capacity(FakeHost())
    assert "/proc/meminfo" in caught.value.hint
    assert caught.value.exit_code is ExitCode.REFUSED


def test_the_number_for_no_limit_is_no_memory() -> None:
    """Where the machine's memory is hidden, cgroup v1's huge number does not stand in for it."""
    files = {
        "/proc/self/cgroup": "2:memory:/\n",
        f"{_CGROUP}/memory/memory.limit_in_bytes": _V1_NO_LIMIT,
    }
    with pytest.raises(PreflightError, match="how much memory"):
        capacity(FakeHost(files=files))


@given(
    limits=st.lists(st.one_of(st.just("max"), st.integers(1, 2**63 - 4096)), max_size=5),
    quotas=st.lists(st.integers(1000, 10**7), max_size=5),
)
def test_limits_only_ever_lower_what_may_be_used(
    limits: list[int | str], quotas: list[int]
) -> None:
    """Whatever is nested how deep, the result is positive and at most the machine."""
    parts = [f"p{n}" for n in range(max(len(limits), len(quotas)))]
    files = {}
    for depth, limit in enumerate(limits):
        files["/".join([*parts[: depth + 1], "memory.max"])] = f"{limit}\n"
    for depth, quota in enumerate(quotas):
        files["/".join([*parts[: depth + 1], "cpu.max"])] = f"{quota} 100000\n"
    found = capacity(_with(f"0::/{'/'.join(parts)}\n", files))
    numbers = [limit for limit in limits if isinstance(limit, int)]
    assert found.memory_bytes == min([_TOTAL, *numbers])
    assert found.cpus == min([4.0, *(quota / 100_000 for quota in quotas)])


_CPU = "processor : 0\nmodel name\t: EPYC 7B13\nflags\t\t: fpu {}avx2\n"
_FILES = {
    "/proc/meminfo": "MemTotal: 8388608 kB\n",
    "/proc/cpuinfo": _CPU.format(""),
    "/proc/loadavg": "0.52 0.40 0.30 1/200 77\n",
    "/proc/self/mounts": "/dev/vda1 / ext4 rw 0 0\n",
    "/proc/self/smaps": "55d0-55d1 r-xp 0 fe:00 1 /bin/x\nKernelPageSize:       16 kB\n",
    "/sys/dev/block/254:1/../queue/read_ahead_kb": "512\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
}


def _described(files: dict[str, str]) -> FakeHost:
    return FakeHost(files={**files, "/": ""}, devices={"/": (254, 1)})


def _facts(files: dict[str, str], directory: Path = Path("/")) -> dict[str, str]:
    return {fact.name: fact.value for fact in machine_facts(_described(files), directory)}


def test_everything_visible_is_said() -> None:
    """The facts that decide whether two campaigns can be compared."""
    assert _facts(_FILES) == {
        "cpus": "4 usable of 4 by affinity",
        "cpu model": "EPYC 7B13",
        "memory": "8.0 GiB usable of 8.0 GiB",
        "kernel": "6.1.0 x86_64",
        "virtualisation": "none seen",
        "governor": "performance",
        "transparent huge pages": "madvise",
        "memory overcommit": "0",
        "memory page": "16.0 KiB",
        "data file system": "ext4 on /dev/vda1",
        "file-system block": "4.0 KiB",
        "read-ahead": "512.0 KiB",
        "load average at the start": "0.52",
    }


def test_what_is_not_visible_is_said_to_be_so() -> None:
    """Absence is a phrase, never an empty value and never a guess."""
    facts = _facts({"/proc/meminfo": _FILES["/proc/meminfo"]})
    for name in (
        "cpu model",
        "governor",
        "transparent huge pages",
        "memory overcommit",
        "memory page",
        "data file system",
        "read-ahead",
        "load average at the start",
    ):
        assert facts[name] == "not visible"


def test_a_virtual_machine_is_told_with_its_product() -> None:
    """The hypervisor flag of the CPU and the name of the board."""
    files = {**_FILES, "/proc/cpuinfo": _CPU.format("hypervisor ")}
    assert _facts(files)["virtualisation"] == "virtual machine"
    named = {**files, "/sys/class/dmi/id/product_name": "KVM\n"}
    assert _facts(named)["virtualisation"] == "virtual machine (KVM)"


@pytest.mark.parametrize("name", ["data", "my data"])
def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path, name: str) -> None:
    """The longest mount point above the directory counts, also with a space in it."""
    place = tmp_path / name
    place.mkdir()
    mounts = (
        "/dev/vda1 / ext4 rw 0 0\n"
        f"/dev/vdb1 {str(place).replace(' ', chr(92) + '040')} xfs rw 0 0\n"
        f"/dev/vdc1 {tmp_path}/dat btrfs rw 0 0\n"
    )
    files = {**_FILES, "/proc/self/mounts": mounts}
    assert _facts(files, place / "not-made-yet")["data file system"] == "xfs on /dev/vdb1"
    assert _facts(files, tmp_path)["data file system"] == "ext4 on /dev/vda1"


def test_a_later_mount_covers_an_earlier_one(tmp_path: Path) -> None:
    """The last mount on one place is the one in use."""
    mounts = f"a {tmp_path} ext4 rw 0 0\nb {tmp_path} tmpfs rw 0 0\n"
    facts = _facts({**_FILES, "/proc/self/mounts": mounts}, tmp_path)
    assert facts["data file system"] == "tmpfs on b"


def test_a_server_here_is_given_what_its_place_has() -> None:
    """Blocks, pages and read-ahead of the data; memory and CPUs as its group limits them."""
    asked = {"cpus": "0.6", "memory": "512MB", "read_iops": "200"}
    assert provision_here(_described(_FILES), Path("/"), asked) == Provision(
        cpus=0.6,
        memory_bytes=512 * MIB,
        storage="ext4 on /dev/vda1",
        limits="read_iops 200",
        block_bytes=4096,
        page_bytes=16 * KIB,
        read_ahead_bytes=512 * KIB,
    )
