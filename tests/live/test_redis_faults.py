"""What goes wrong with Redis on this machine: each a sentence of fact, nothing left."""

import errno
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live import (
    Steelyard,
    interrupted,
    living_servers,
    redone_in_all_arms,
    small_file_system,
    wait_for,
)
from support.redis import require_redis
from support.striking import signal_server, strike_local

pytestmark = pytest.mark.live

_TEXT = """\
version: 1
engine: redis
name: faults
baseline: off
workloads:
  - {{name: set, builtin: set, value_bytes: {value_bytes}, keys: 500, loaded: 100}}
load: {{clients: 2}}
measure: {{run_time: 1s, warm_up: 0s, max_other_load: ignore}}
stop: {{budget: 20m, width: 0.1%}}
configurations:
  off: {{target: {target}, redis: {{appendonly: no, save: ""}}}}
  aof: {{extends: off, redis: {{appendonly: yes, appendfsync: {appendfsync}}}}}
"""


def _experiment(
    steelyard: Steelyard,
    target: str = "{kind: local}",
    *,
    appendfsync: str = "everysec",
    value_bytes: int = 100,
) -> str:
    require_redis()
    text = _TEXT.format(target=target, appendfsync=appendfsync, value_bytes=value_bytes)
    return steelyard.experiment(text)


def _kill(data: Path) -> None:
    signal_server(data, signal.SIGKILL)


def test_a_redis_killed_in_a_run_costs_one_block_and_nothing_else(steelyard: Steelyard) -> None:
    """SIGKILL of the server voids the block in all arms; it is redone and counts."""
    process = steelyard.start("run", _experiment(steelyard), "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    strike_local(steelyard, process, _kill)
    wait_for(lambda: redone_in_all_arms(steelyard), process)
    assert "is redone" in interrupted(process).stderr
    assert living_servers(steelyard.cache) == []


@pytest.mark.slow
def test_a_killed_campaign_of_redis_goes_on(steelyard: Steelyard) -> None:
    """After kill -9 of Steelyard no server lives on, what was made is undone, and blocks stay."""
    process = steelyard.start("run", _experiment(steelyard), "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    process.kill()
    process.communicate()
    wait_for(lambda: living_servers(steelyard.cache) == [])
    before = steelyard.blocks_left_complete
    steelyard.resumed_for_a_block()
    assert steelyard.blocks_left_complete > before


def test_a_port_that_is_taken_is_refused(steelyard: Steelyard) -> None:
    """Nothing is started on a port that somebody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        target = f"{{kind: local, connection: tcp, port: {port}}}"
        refused = steelyard.run("run", _experiment(steelyard, target), "--dir", "c", "--no-verdict")
    assert refused.returncode == 3
    assert f"port {port} on 127.0.0.1 cannot be used" in refused.stderr


def test_settings_that_redis_refuses_are_told_with_their_lines(steelyard: Steelyard) -> None:
    """An unknown name, a wrong value and one that Steelyard sets are told at once."""
    require_redis()
    text = _TEXT.format(target="{kind: local}", appendfsync="sometimes", value_bytes=3)
    text = text.replace('save: ""', 'save: "", apendonly: yes')
    refused = steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert refused.returncode == 2
    assert "`apendonly` is not a setting of Redis" in refused.stderr
    assert "did you mean `appendonly`" in refused.stderr.lower()
    assert "everysec, always, no" in refused.stderr
    assert "tiny.yaml:11:" in refused.stderr
    assert "tiny.yaml:12:" in refused.stderr


@pytest.fixture
def small_disk(steelyard: Steelyard) -> Iterator[Path]:
    """Return a file system of its own, with room for what the plan foresees."""
    yield from small_file_system(steelyard.cache / "small-redis", "300m")


def _fill(ballast: Path, *, leaving_bytes: int) -> None:
    """Take the room of a file system but for so much; the server, which writes, may be first."""
    with ballast.open("wb", buffering=0) as file:
        while os.statvfs(file.fileno()).f_bavail * 4096 > leaving_bytes:
            try:
                file.write(b"x" * (1 << 20))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return


@pytest.mark.slow
@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_a_disk_full_of_the_append_only_file_is_told(
    steelyard: Steelyard, small_disk: Path, appendfsync: str
) -> None:
    """With room gone the server refuses writes (MISCONF), or ends with `always`: told, not hidden.

    Nothing of the campaign stays on the disk, and blocks before it are kept.
    """
    target = f"{{kind: local, directory: {small_disk}}}"
    source = _experiment(steelyard, target, appendfsync=appendfsync, value_bytes=4000)
    process = steelyard.start("run", source, "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    blocks = steelyard.complete_blocks
    _fill(small_disk / "ballast", leaving_bytes=8 << 20)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 5, err
    words = "MISCONF" if appendfsync == "everysec" else "Can't recover from AOF write error"
    assert words in err
    assert steelyard.complete_blocks >= blocks
    assert sorted(path.name for path in small_disk.iterdir()) in (
        ["ballast", "live", "prepared"],
        ["ballast", "prepared"],
    )
    assert list((small_disk / "live").glob("*")) == []
    assert json.loads((steelyard.directory / "c" / "summary.json").read_text())
