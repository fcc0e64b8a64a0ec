"""The scripts of the probe of pods in a real bash, on this machine."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from steelyard.campaign.evidence.pod_script import (
    Account,
    loop_script,
    renewal,
    server_script,
)
from steelyard.gateways.placed_files import FetchedHost, parse_fetched

_MARK = "fetched-0123"
_SERVERS = ("postgres", "redis-server", "valkey-server")


def _printed(script: str) -> FetchedHost:
    done = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    host = parse_fetched(done.stdout, _MARK)
    assert host is not None, done.stdout
    return host


def test_the_scripts_read_whole_files() -> None:
    """What bash printed is what stands in the files, to the last line."""
    host = _printed(server_script(_MARK, at_end=True))
    info = Path("/proc/meminfo").read_text().splitlines()
    lines = (host.read("/proc/meminfo") or "").splitlines()
    assert [line.partition(":")[0] for line in lines] == [line.partition(":")[0] for line in info]
    assert host.read("/proc/self/mountinfo")
    assert Account(host=host).own_cost_s


@pytest.mark.parametrize("name", _SERVERS)
def test_a_server_is_found_with_its_directory(tmp_path: Path, name: str) -> None:
    """A process of that name whose parent is none; its child is not taken for the first."""
    program = tmp_path / name
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    (tmp_path / "pg_wal").mkdir()
    with subprocess.Popen([program, "60"], cwd=tmp_path) as server:
        try:
            host = _printed(server_script(_MARK, at_end=False))
        finally:
            server.kill()
    found = host.number("pid")
    if found != server.pid:  # another server runs on this machine: one of them is found
        assert (Path(f"/proc/{found}/comm").read_text()).strip() in _SERVERS
        return
    assert host.resolved == {"data": str(tmp_path), "wal": str(tmp_path / "pg_wal")}


def test_the_loop_prints_until_its_lease_ends() -> None:
    """Turns about a second apart, each whole; first lines where they are asked for; then an end."""
    began = time.monotonic()
    script = loop_script(_MARK, ["/proc/uptime", "/proc/stat:2", "/nowhere"], lease_s=2)
    done = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    turns = done.stdout.split(f"{_MARK} end\n")
    assert time.monotonic() - began >= 1.0
    assert len(turns) >= 3
    assert turns[-1] == ""
    first = parse_fetched(f"{turns[0]}{_MARK} end\n", _MARK)
    assert first is not None
    assert len((first.read("/proc/stat") or "").splitlines()) == 2
    assert first.number("pid")
    assert first.read("/nowhere") is None


def test_the_loop_is_renewed_and_ended_by_signals() -> None:
    """What `renewal` says makes it go on beyond its lease; a plain kill ends it."""
    script = loop_script(_MARK, ["/proc/uptime"], lease_s=2)
    with subprocess.Popen(["/bin/bash", "-c", script], stdout=subprocess.PIPE, text=True) as loop:
        assert loop.stdout is not None
        ends = 0
        for line in loop.stdout:
            ends += line == f"{_MARK} end\n"
            if ends == 5:
                break
            subprocess.run(["/bin/bash", "-c", renewal(loop.pid)], check=True, timeout=60)
        assert ends == 5
        os.kill(loop.pid, signal.SIGTERM)
        loop.stdout.read()
        loop.wait(timeout=60)
