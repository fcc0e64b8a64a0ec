"""The first process of a Redis server's pod, run really in a directory of a test."""

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from steelyard.systems.redis.statefulset.own_server import pod_configuration

_SCRIPT = files("steelyard.systems.redis.statefulset").joinpath("server.sh").read_text()
# A server that keeps what it is given: a line for each start, in its working directory.
_SERVER = '#!/bin/sh\necho "$STEELYARD_RESTORE" >>starts\necho "$1"\n'


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """Return the root of a pod with an empty volume and a server that ends at once."""
    for name in ("data", "run/steelyard", "bin"):
        (tmp_path / name).mkdir(parents=True)
    server = tmp_path / "bin" / "redis-server"
    server.write_text(_SERVER)
    server.chmod(0o755)
    return tmp_path


def _start(pod: Path, word: str, settings: str = "port 6379") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", _SCRIPT, "server"],
        env={
            "PATH": f"{pod / 'bin'}:{os.environ['PATH']}",
            "STEELYARD_ROOT": str(pod),
            "STEELYARD_RESTORE": word,
            "STEELYARD_SETTINGS": settings,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def _starts(pod: Path, which: str = "live") -> list[str]:
    return (pod / "data" / which / "starts").read_text().splitlines()


def test_data_are_put_aside_once_and_copied_by_every_restore(pod: Path) -> None:
    """The prepared data stay as they were; each restore begins from them alone."""
    assert _start(pod, "").returncode == 0
    assert _starts(pod) == [""]
    _start(pod, "one")
    assert _starts(pod) == ["", "one"]
    _start(pod, "two")
    assert _starts(pod) == ["", "two"]
    assert _starts(pod, "prepared") == [""]


def test_a_container_that_is_started_again_keeps_its_data(pod: Path) -> None:
    """The same word twice is a crash of the server, whose data must not go back."""
    _start(pod, "")
    _start(pod, "one")
    _start(pod, "one")
    assert _starts(pod) == ["", "one", "one"]
    _start(pod, "")  # a start without a restore
    assert _starts(pod) == ["", "one", "one", ""]


def test_a_restore_that_was_broken_off_is_done_again(pod: Path) -> None:
    """A death between putting aside and copying loses nothing: the word is noted last."""
    _start(pod, "")
    (pod / "data" / "live").rename(pod / "data" / "prepared")
    (pod / "data" / "live").mkdir()
    (pod / "data" / "live" / "half").touch()
    _start(pod, "one")
    assert _starts(pod) == ["", "one"]
    assert not (pod / "data" / "live" / "half").exists()


def test_the_server_gets_the_settings_in_a_file_nobody_else_may_read(pod: Path) -> None:
    """Its only argument is that file, with the lines as they were sent."""
    ended = _start(pod, "", settings='save ""\nappendonly yes')
    path = pod / "run" / "steelyard" / "redis.conf"
    assert ended.stdout.strip() == str(path)
    assert path.read_text() == 'save ""\nappendonly yes\n'
    assert path.stat().st_mode & 0o077 == 0


def test_valkey_serves_as_well_and_an_image_without_a_server_says_so(pod: Path) -> None:
    """Where there is no redis-server, valkey-server is started; where neither is, that is told."""
    (pod / "bin" / "redis-server").rename(pod / "bin" / "valkey-server")
    tools = ["cat", "cp", "mkdir", "mv", "rm", "sync", "sh"]
    for tool in tools:
        (pod / "bin" / tool).symlink_to(f"/bin/{tool}")
    only = {"PATH": str(pod / "bin"), "STEELYARD_ROOT": str(pod), "STEELYARD_RESTORE": ""}
    asked = {**only, "STEELYARD_SETTINGS": ""}
    argv = ["/bin/sh", "-c", _SCRIPT, "server"]
    done = subprocess.run(argv, env=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (pod / "bin" / "valkey-server").unlink()
    done = subprocess.run(argv, env=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "neither redis-server nor valkey-server" in done.stderr


def test_what_is_the_pods_stands_after_all_else() -> None:
    """The last line of a name counts: no setting moves the data or closes the way in."""
    lines = pod_configuration('save ""\ndir "/var"\nport "7000"\n').splitlines()
    assert lines[:3] == ['save ""', 'dir "/var"', 'port "7000"']
    assert {"dir /data/live", "port 6379"} <= set(lines[3:])
