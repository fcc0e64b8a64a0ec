"""What a reader must know of the machine, in words."""

from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.core.storage import Provision
from steelyard.core.wording import KIB, MIB
from steelyard.places.local.machine import machine_facts, provision_here

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


def _host(files: dict[str, str]) -> FakeHost:
    return FakeHost(files={**files, "/": ""}, devices={"/": (254, 1)})


def _facts(files: dict[str, str], directory: Path = Path("/")) -> dict[str, str]:
    return {fact.name: fact.value for fact in machine_facts(_host(files), directory)}


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
    assert provision_here(_host(_FILES), Path("/"), asked) == Provision(
        cpus=0.6,
        memory_bytes=512 * MIB,
        storage="ext4 on /dev/vda1",
        limits="read_iops 200",
        block_bytes=4096,
        page_bytes=16 * KIB,
        read_ahead_bytes=512 * KIB,
    )
