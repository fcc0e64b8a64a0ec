"""Generators in pods that take turns: they stand still when told, and end with who steers them.

The agent is the real one, run on this machine.
"""

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fakes.generator_pods import TwoPods, is_running, shell
from steelyard.core.kubernetes import POD
from steelyard.core.outside import Command
from steelyard.core.schedule import Pausing
from steelyard.core.wording import TargetError
from steelyard.places.agent.programs import AgentProcesses, PausedElsewhere

# Counts in a file for as long as it runs; ends by SIGALRM as pgbench does, and says how far.
COUNTS = """\
n=0; trap 'echo "counted $n"; exit 0' ALRM
while :; do n=$((n + 1)); echo $n >"$0"; read -r -t 0.005 <> <(:); done
"""


@pytest.fixture
def paused(processes: AgentProcesses) -> PausedElsewhere:
    """Return what takes turns in the pods."""
    return PausedElsewhere(processes)


def counting(file: Path) -> Command:
    """Return a program that writes how far it has counted."""
    return shell(COUNTS, file)


def grows(file: Path) -> bool:
    """Return whether the number in a file grows within a moment."""
    before = _number(file)
    for _ in range(100):
        time.sleep(0.01)
        if _number(file) > before:
            return True
    return False


def until_runs(text: str) -> None:
    """Wait until a process with these words as its command line is there."""
    deadline = time.monotonic() + 20.0
    while not is_running(text):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _number(file: Path) -> int:
    text = file.read_text().strip() if file.exists() else ""
    return int(text or 0)


def test_a_generator_stands_still_and_goes_on(paused: PausedElsewhere, tmp_path: Path) -> None:
    """What stands still counts nothing; what goes on counts from there; its end is its own."""
    file = tmp_path / "count"
    running = paused.begin_together([counting(file)], timeout_s=30)
    assert paused.standstill.kind is Pausing.GENERATOR
    assert grows(file)
    for _ in range(3):
        assert paused.pause()
        stood_at = _number(file)
        time.sleep(0.1)
        assert _number(file) == stood_at
        paused.proceed()
        assert grows(file)
    assert running.all_run()
    running.signal(signal.SIGALRM)
    (done,) = running.completed(within_s=10)
    assert done.exit_status == 0
    found = re.fullmatch(r"counted (\d+)\n", done.stdout)
    assert found is not None
    assert int(found[1]) == _number(file)
    running.close()
    assert paused.pause()  # nothing runs that could be stopped


def test_one_that_ends_by_itself_is_seen(paused: PausedElsewhere) -> None:
    """It is no error to tell it something; it does not run any more."""
    running = paused.begin_together([shell("exit 3")], timeout_s=30)
    while running.all_run():
        paused.pause()
        paused.proceed()
    (done,) = running.completed(within_s=10)
    assert done.exit_status == 3
    running.close()


def test_with_the_connection_ends_the_generator(
    paused: PausedElsewhere, two_pods: TwoPods, tmp_path: Path
) -> None:
    """Also one that stands still: nobody would let it go on."""
    running = paused.begin_together([shell("exec sleep 71.5")], timeout_s=30)
    until_runs("sleep 71.5")
    assert paused.pause()
    assert is_running("sleep 71.5")
    two_pods.api.dialogues[-1].close()
    assert not is_running("sleep 71.5")
    with pytest.raises(TargetError, match="lost"):
        paused.proceed()
    running.close()


def test_a_generator_that_nobody_steers_ends(
    paused: PausedElsewhere, two_pods: TwoPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is dead and does not say so is given up after a while."""
    monkeypatch.setenv("STEELYARD_PATIENCE", "0.2")
    running = paused.begin_together([shell("exec sleep 72.5")], timeout_s=30)
    deadline = time.monotonic() + 20.0
    while is_running("sleep 72.5"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.close()
    assert two_pods.api.verbs().count("steer") == 1


def test_closing_ends_what_stands_still(paused: PausedElsewhere) -> None:
    """And a second time changes nothing."""
    running = paused.begin_together([shell("exec sleep 73.5")], timeout_s=30)
    until_runs("sleep 73.5")
    assert paused.pause()
    running.close()
    running.close()
    assert not is_running("sleep 73.5")


def test_the_pods_clock_is_known(paused: PausedElsewhere, tmp_path: Path) -> None:
    """The logs hold its times: here they are this machine's own."""
    running = paused.begin_together([counting(tmp_path / "count")], timeout_s=30)
    paused.pause()
    assert abs(paused.ahead_s) < 5.0
    running.close()


def test_logs_come_back(paused: PausedElsewhere, roots: Path, tmp_path: Path) -> None:
    """What it wrote beside a path of this machine is there when it has ended."""
    prefix = roots / "logs" / "log"
    command = shell('trap "exit 0" ALRM; echo line >"$0.1"; while :; do sleep 0.02; done', prefix)
    running = paused.begin_together([command], timeout_s=30)
    paused.pause()
    paused.proceed()
    time.sleep(0.2)
    running.signal(signal.SIGALRM)
    running.completed(within_s=10)
    running.close()
    assert (roots / "logs" / "log.1").read_text() == "line\n"


def test_a_lost_pod_is_made_anew_once(processes: AgentProcesses, two_pods: TwoPods) -> None:
    """Servers that start side by side all run programs there, and all find that it is lost."""
    lost = two_pods.generators.ready[0].where
    two_pods.api.lose(POD, lost.pod, lost.namespace)
    before = len(two_pods.told)
    with ThreadPoolExecutor(4) as workers:
        runs = [workers.submit(processes.run, shell("echo 1"), timeout_s=10) for _ in range(4)]
        assert [run.result().stdout for run in runs] == ["1\n"] * 4
    told = two_pods.told[before:]
    assert sum("is made anew" in each for each in told) == 1
    assert len(two_pods.api.list(POD)) == 2


def test_what_has_begun_ends_where_it_cannot_be_steered(
    paused: PausedElsewhere, two_pods: TwoPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its load would go on for as long as it was given: a day, in turns."""

    def refused(*_: object) -> None:
        until_runs("sleep 74.5")
        raise TargetError("the API is away")

    monkeypatch.setattr(two_pods.api, "talk", refused)
    with pytest.raises(TargetError, match="the API is away"):
        paused.begin_together([shell("exec sleep 74.5")], timeout_s=30)
    assert not is_running("sleep 74.5")
