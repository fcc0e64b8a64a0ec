"""What a reader must know of the machine, in words."""

from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.places.local.machine import machine_facts

_CPU = "processor : 0\nmodel name\t: EPYC 7B13\nflags\t\t: fpu {}avx2\n"
_FILES = {
    "/proc/meminfo": "MemTotal: 8388608 kB\n",
    "/proc/cpuinfo": _CPU.format(""),
    "/proc/loadavg": "0.52 0.40 0.30 1/200 77\n",
    "/proc/self/mounts": "/dev/vda1 / ext4 rw 0 0\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
}


def _facts(files: dict[str, str], directory: Path = Path("/")) -> dict[str, str]:
    return {fact.name: fact.value for fact in machine_facts(FakeHost(files=files), directory)}


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
        "data file system": "ext4 on /dev/vda1",
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
        "data file system",
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
