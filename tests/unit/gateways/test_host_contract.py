"""The machine's own account: the same promises from a recorded tree and the fake."""

import subprocess
import sys
from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.gateways.host import Host, LocalHost

_FILES = {"/proc/loadavg": "0.5 0.4 0.3 1/200 77\n", "/sys/kernel/x": "a [b] c\n"}


@pytest.fixture(params=["tree", "fake"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Return each implementation in turn, with the same files."""
    if request.param == "fake":
        return FakeHost(files=_FILES)
    for name, text in _FILES.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return LocalHost(root=tmp_path)


def test_a_file_is_read_whole(host: Host) -> None:
    """The text comes back as it stands, with its newline."""
    for name, text in _FILES.items():
        assert host.read(name) == text


def test_an_absent_file_is_none(host: Host) -> None:
    """What is not there is None, never an empty text or an error."""
    assert host.read("/proc/absent") is None


def test_a_device_file_holds_a_number(tmp_path: Path) -> None:
    """Four bytes in the machine's order; fewer are no number, and absent is None."""
    (tmp_path / "limit").write_bytes((2_000_000_000).to_bytes(4, sys.byteorder))
    (tmp_path / "short").write_bytes(b"\x01")
    tree = LocalHost(root=tmp_path)
    fake = FakeHost(numbers={"/limit": 2_000_000_000})
    for host in (tree, fake):
        assert host.number("/limit") == 2_000_000_000
        assert host.number("/absent") is None
    assert tree.number("/short") is None


def test_there_is_at_least_one_cpu_and_a_kernel(host: Host) -> None:
    """CPUs and kernel are known without any file."""
    assert host.cpus() >= 1
    assert len(host.release().split()) >= 2


def test_names_are_those_of_one_directory(host: Host) -> None:
    """Files and directories by name, not what lies deeper; nothing where there is nothing."""
    assert host.names("/proc") == ("loadavg",)
    assert set(host.names("/sys")) == {"kernel"}
    assert host.names("/proc/absent") == ()
    assert host.names("/proc/loadavg") == ()


def test_a_device_has_two_numbers(host: Host) -> None:
    """Whatever exists lies on a device, files and directories of one place on the same."""
    numbers = host.device("/proc/loadavg")
    assert numbers is not None
    assert all(number >= 0 for number in numbers)
    assert host.device("/proc") == numbers
    assert host.device("/proc/absent") is None


def test_space_is_known_where_a_file_is(host: Host) -> None:
    """Free bytes are some of all; there are none of a path that is not there."""
    space = host.space("/proc/loadavg")
    assert space is not None
    assert 0 <= space.free_bytes <= space.total_bytes
    assert space.total_bytes > 0
    assert host.space("/proc/absent") is None


def test_used_cpu_never_goes_back(host: Host) -> None:
    """Both counters are seconds that only grow."""
    for used in (host.own_cpu_s, host.children_cpu_s):
        first = used()
        assert 0 <= first <= used()


def test_children_count_once_they_are_waited_for() -> None:
    """A child that worked and ended is in the sum of children and not in our own."""
    host = LocalHost()
    children, own = host.children_cpu_s(), host.own_cpu_s()
    child = subprocess.run(
        [sys.executable, "-c", "import os, time\nwhile time.process_time() < 0.2: pass"],
        check=True,
    )
    assert child.returncode == 0
    assert host.children_cpu_s() - children >= 0.2
    assert host.own_cpu_s() - own < host.children_cpu_s() - children


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    """Files longer than one read are put together; bytes that are no text do not stop it."""
    (tmp_path / "large").write_bytes(b"0123456789\xff" * 50_000)
    text = LocalHost(root=tmp_path).read("/large")
    assert text is not None
    assert len(text) == 550_000


def test_a_directory_is_none(tmp_path: Path) -> None:
    """A directory where a file is expected counts as absent."""
    (tmp_path / "proc").mkdir()
    assert LocalHost(root=tmp_path).read("/proc") is None
