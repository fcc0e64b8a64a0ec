"""What most live tests start is a fork; it is to be what a user starts."""

import os
import signal
from pathlib import Path

import pytest

from support.forked import Forked
from support.live import Steelyard, living_servers, wait_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize("arguments", [("clean", "--dry-run"), ("run", "nowhere.yaml")])
def test_a_fork_says_what_a_fresh_process_says(
    steelyard: Steelyard, arguments: tuple[str, ...]
) -> None:
    """The same exit status, output and errors, in the same directory with the same cache."""
    fresh = Steelyard(cache=steelyard.cache, directory=steelyard.directory).run(*arguments)
    forked = steelyard.run(*arguments)
    assert isinstance(steelyard.started[-1], Forked)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        fresh.returncode,
        fresh.stdout,
        fresh.stderr,
    )


def test_a_fork_has_a_directory_an_environment_and_signals_of_its_own(steelyard: Steelyard) -> None:
    """It works where and with what it was told to, and a signal ends it and no other."""
    process = steelyard.start("run", steelyard.experiment(), "--dir", "c", "--no-verdict")
    wait_for(lambda: bool(living_servers(steelyard.cache)), process)
    assert Path(f"/proc/{process.pid}/cwd").resolve() == steelyard.directory.resolve()
    assert process.pid != os.getpid()
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, "stopped: interrupted" in err) == (130, True), out + err
    killed = steelyard.start("run", "--dry-run", "preset:quick")
    killed.kill()
    assert killed.wait(60) == -signal.SIGKILL
