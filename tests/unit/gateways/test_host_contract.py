"""The machine's own account: the same promises from a recorded tree and the fake."""

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


def test_there_is_at_least_one_cpu_and_a_kernel(host: Host) -> None:
    """CPUs and kernel are known without any file."""
    assert host.cpus() >= 1
    assert len(host.release().split()) >= 2


def test_a_directory_is_none(tmp_path: Path) -> None:
    """A directory where a file is expected counts as absent."""
    (tmp_path / "proc").mkdir()
    assert LocalHost(root=tmp_path).read("/proc") is None
