"""What may really be used here: the container's limits where there are any, else the machine's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core.wording import GIB, MIB, ExitCode, PreflightError
from steelyard.places.local.machine import capacity

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


def test_a_v2_limit_counts() -> None:
    """Inside a container the mount's root is the container's own cgroup."""
    files = {"memory.max": f"{2 * GIB}\n", "cpu.max": "150000 100000\n"}
    found = capacity(_with("0::/\n", files))
    assert (found.cpus, found.memory_bytes) == (1.5, 2 * GIB)


def test_no_v2_limit_is_the_word_max() -> None:
    """``max`` means that there is none."""
    found = capacity(_with("0::/\n", {"memory.max": "max\n", "cpu.max": "max 100000\n"}))
    assert (found.cpus, found.memory_bytes) == (4.0, _TOTAL)


def test_the_smallest_of_nested_v2_limits_counts() -> None:
    """A slice above us may be tighter than our own cgroup, for memory and CPU apart."""
    files = {
        "a.slice/memory.max": f"{1 * GIB}\n",
        "a.slice/cpu.max": "max 100000\n",
        "a.slice/b.service/memory.max": f"{8 * GIB}\n",
        "a.slice/b.service/cpu.max": "50000 100000\n",
    }
    found = capacity(_with("0::/a.slice/b.service\n", files))
    assert (found.cpus, found.memory_bytes) == (0.5, 1 * GIB)


def test_a_path_outside_the_mount_falls_back_to_the_root_of_the_mount() -> None:
    """A container without a cgroup namespace sees the host's path, which is not mounted."""
    found = capacity(_with("0::/docker/4f5e\n", {"memory.max": f"{512 * MIB}\n"}))
    assert found.memory_bytes == 512 * MIB


@pytest.mark.parametrize("name", ["cpu", "cpu,cpuacct"])
def test_v1_limits_count(name: str) -> None:
    """Each controller has a tree of its own; cpu is often mounted together with cpuacct."""
    cgroup = f"5:memory:/docker/x\n3:{name}:/docker/x\n1:name=systemd:/docker/x\n"
    files = {
        "memory/memory.limit_in_bytes": _V1_NO_LIMIT,
        "memory/docker/x/memory.limit_in_bytes": f"{3 * GIB}\n",
        f"{name}/docker/x/cpu.cfs_quota_us": "75000\n",
        f"{name}/docker/x/cpu.cfs_period_us": "50000\n",
    }
    found = capacity(_with(cgroup, files))
    assert (found.cpus, found.memory_bytes) == (1.5, 3 * GIB)


def test_no_v1_limit_is_a_huge_number_and_minus_one() -> None:
    """A number near 2^63 and a quota of -1 mean that there is none."""
    files = {
        "memory/memory.limit_in_bytes": _V1_NO_LIMIT,
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
    }
    found = capacity(_with("2:memory:/\n1:cpu:/\n", files))
    assert (found.cpus, found.memory_bytes) == (4.0, _TOTAL)


def test_a_hybrid_hierarchy_is_read_in_both_places() -> None:
    """Systemd's hybrid mode has v1 controllers beside an empty v2 tree."""
    cgroup = "4:memory:/x\n0::/x\n"
    files = {"memory/x/memory.limit_in_bytes": f"{GIB}\n", "unified/x/cpu.max": "100000 100000\n"}
    found = capacity(_with(cgroup, files))
    assert (found.cpus, found.memory_bytes) == (1.0, GIB)


def test_a_quota_beyond_the_affinity_changes_nothing() -> None:
    """Eight CPUs of quota on four are four."""
    assert capacity(_with("0::/\n", {"cpu.max": "800000 100000\n"})).cpus == 4.0


def test_a_limit_beyond_the_machine_changes_nothing() -> None:
    """64 GiB of limit on 16 are 16."""
    assert capacity(_with("0::/\n", {"memory.max": f"{64 * GIB}\n"})).memory_bytes == _TOTAL


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
