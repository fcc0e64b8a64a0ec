"""Connections, pods and clocks that fail while programs run in pods: no result is ever wrong.

The agent is the real one, run on this machine.
"""

import base64
import hashlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.generator_pods import TwoPods, is_running, runs_in, shell
from fakes.pods_here import AGENT
from steelyard.core.kubernetes import POD
from steelyard.core.outside import Command
from steelyard.core.wording import MeasurementError
from steelyard.places.agent import agent as collecting
from steelyard.places.agent import programs
from steelyard.places.agent.programs import AgentProcesses


def _once_it_is_awaited(pods: TwoPods, act: Callable[[], None]) -> None:
    """Do something while a program runs and its end is asked for, however busy the machine is."""

    def watch() -> None:
        # A file is there, and empty, before the process group's number is in it.
        while not any(ran.argv[2] == "wait" for ran in pods.api.ran) or not any(
            group.stat().st_size for group in pods.api.work.glob("orders/*/group")
        ):
            time.sleep(0.01)
        act()

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.parametrize("verb", ["put", "place", "wait", "chunk"])
def test_a_lost_answer_changes_nothing(
    processes: AgentProcesses, two_pods: TwoPods, roots: Path, verb: str
) -> None:
    """A command that was carried out, and whose answer was lost, is given again: it runs once."""
    two_pods.api.lost_answers[verb] = 2
    counted = roots / "logs" / "count"
    text = 'cat; echo once >> "$0"; head -c 300000 /dev/zero | tr "\\0" y >&2'
    done = processes.run(shell(text, counted), timeout_s=20, stdin="in\n")
    assert (done.stdout, done.stderr) == ("in\n", "y" * 300_000)
    assert counted.read_text() == "once\n"
    assert two_pods.api.lost_answers[verb] == 0


def test_a_secret_word_is_in_no_file_of_an_order(
    processes: AgentProcesses, two_pods: TwoPods
) -> None:
    """The program gets it; when it runs, nothing in the pod holds it, nor what is told of it."""
    text = 'grep -rl "[i]t.s .secret" "$0" || echo nowhere; echo "$1 $2"'
    command = Command(
        argv=("bash", "-c", text, str(two_pods.api.work), "--login=me:{word}", "{word}"),
        secrets={"{word}": "it's $secret"},
    )
    done = processes.run(command, timeout_s=20)
    assert done.stdout.splitlines() == ["nowhere", "--login=me:it's $secret it's $secret"]
    assert done.argv == command.argv
    assert "it's" not in repr(command)


@pytest.mark.parametrize("verb", ["wait", "chunk", "place"])
def test_a_damaged_answer_is_asked_for_again(
    processes: AgentProcesses, two_pods: TwoPods, verb: str
) -> None:
    """Checksums tell what did not arrive as it was sent."""
    two_pods.api.garbled[verb] = 2
    done = processes.run(shell("seq 30000; echo error >&2"), timeout_s=20)
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 30001))
    assert done.stderr == "error\n"
    assert two_pods.api.garbled[verb] == 0


def test_an_api_that_is_away_during_the_run_costs_only_time(
    processes: AgentProcesses, two_pods: TwoPods
) -> None:
    """The program goes on without it, and its result is exact."""
    _once_it_is_awaited(two_pods, lambda: two_pods.api.lose_connection(12))
    started = time.time()
    done = processes.run(shell("sleep 1; date +%s.%N"), timeout_s=20)
    assert float(done.stdout) >= started
    assert done.succeeded


def test_an_api_that_stays_away_is_given_up(
    processes: AgentProcesses, two_pods: TwoPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the deadline and patience the error says what cannot be reached."""
    monkeypatch.setattr(programs, "RESULT_PATIENCE_S", -10.0)
    monkeypatch.setattr(programs, "_END_S", 0.2)
    _once_it_is_awaited(two_pods, lambda: two_pods.api.lose_connection(10_000))
    with pytest.raises(MeasurementError, match=r"gave no answer to 'wait'.*cannot be reached"):
        processes.run(shell("sleep 1.5"), timeout_s=1)
    two_pods.api.lose_connection(0)


def test_a_pod_that_is_deleted_makes_the_run_invalid(
    processes: AgentProcesses, two_pods: TwoPods
) -> None:
    """The error names pod and cause; the next run has a new pod in its place."""
    first, second = two_pods.generators.pods
    _once_it_is_awaited(two_pods, lambda: two_pods.api.lose(POD, second.pod, "bench"))
    with pytest.raises(MeasurementError, match=f"pod {second.pod} was deleted"):
        processes.run_together([shell("sleep 63.5")] * 2, timeout_s=60)
    assert not runs_in(two_pods, first)
    done = processes.run_together([shell("echo 0"), shell("echo 1")], timeout_s=10)
    assert [each.stdout for each in done] == ["0\n", "1\n"]
    assert two_pods.generators.pods[0] == first
    assert two_pods.generators.pods[1] != second
    assert "it is made anew" in two_pods.told[-2] + two_pods.told[-1]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "message": "node is drained"}
                ]
            },
            "was evicted: node is drained",
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "low on memory"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "g", "state": {"terminated": {"reason": "OOMKilled"}}}
                ],
            },
            "needed more memory than its limit",
        ),
        (
            {"phase": "Failed", "reason": "DeadlineExceeded", "message": "active too long"},
            "DeadlineExceeded",
        ),
    ],
)
def test_an_eviction_is_told_in_the_clusters_words(
    processes: AgentProcesses, two_pods: TwoPods, status: dict[str, object], reason: str
) -> None:
    """A program that ended with its pod is not taken for one that failed by itself."""
    first = two_pods.generators.pods[0]
    pod = two_pods.api.get(POD, first.pod, "bench")

    def evict() -> None:
        pod["status"].update(status)
        # What the agent does when its pod is told to end.
        for group in two_pods.api.work.glob("orders/*/group"):
            os.killpg(int(group.read_text()), signal.SIGKILL)

    _once_it_is_awaited(two_pods, evict)
    with pytest.raises(MeasurementError, match=reason):
        processes.run(shell("sleep 64.5"), timeout_s=60)


def test_another_pod_of_the_same_name_is_not_the_one_that_was_asked(
    processes: AgentProcesses, two_pods: TwoPods
) -> None:
    """Who knows nothing of an order is told from who lost it."""
    first = two_pods.generators.pods[0]
    pod = two_pods.api.get(POD, first.pod, "bench")

    def replace() -> None:
        pod["metadata"]["uid"] = "another"
        two_pods.api.lose_connection(1, "run")

    _once_it_is_awaited(two_pods, replace)
    with pytest.raises(MeasurementError, match="was deleted"):
        processes.run(shell("sleep 0.6; kill -KILL $$"), timeout_s=60)


def test_an_interruption_ends_all(
    processes: AgentProcesses, two_pods: TwoPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C reaches every process of every pod."""
    begun = threading.Event()

    def wait(*_: object, **__: object) -> None:
        while not all(runs_in(two_pods, pod) for pod in two_pods.generators.pods):
            time.sleep(0.02)
        begun.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(programs.Members, "await_all", wait)
    with pytest.raises(KeyboardInterrupt):
        processes.run_together([shell("sleep 65.5 & wait")] * 2, timeout_s=60)
    assert begun.is_set()
    assert not is_running("sleep 65.5")


def test_an_instant_that_passed_is_agreed_on_anew(
    processes: AgentProcesses, two_pods: TwoPods, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow API makes no late beginning: nothing of the first try is in the result."""
    monkeypatch.setattr(programs, "_LEAD_S", 0.0)
    monkeypatch.setattr(programs, "_LEAD_TRIPS", 0.0)
    tries: list[float] = []
    placed = AgentProcesses._place

    def place(self, member, *, timeout_s, instant=None):  # noqa: ANN001, ANN202 - as it is
        tries.append(instant)
        if len(tries) > 2:
            instant += 1.0
        understood = placed(self, member, timeout_s=timeout_s, instant=instant)
        return understood - (1.0 if len(tries) > 2 else 0.0)

    monkeypatch.setattr(AgentProcesses, "_place", place)
    prefix = roots / "logs" / "log"
    commands = [shell('echo "$1" > "$0.1"; sleep 0.2; echo "$1"', prefix, n) for n in (1, 2)]
    done = processes.run_together(commands, timeout_s=10)
    assert [each.stdout for each in done] == ["1\n", "2\n"]
    assert len(tries) >= 4
    assert {path.name for path in (roots / "logs").iterdir()} == {"log.1", "log.1.1"}


def test_an_api_too_slow_for_any_instant_is_told(
    processes: AgentProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generators that begin apart would measure something else, so nothing is measured."""
    monkeypatch.setattr(programs, "_LEAD_S", -5.0)
    monkeypatch.setattr(programs, "_LEAD_TRIPS", 0.0)
    monkeypatch.setattr(programs, "_LEAD_MOST_S", -5.0)
    with pytest.raises(MeasurementError, match="could not be told to begin together"):
        processes.run_together([shell("sleep 66.5")] * 2, timeout_s=60)
    assert not is_running("sleep 66.5")


def test_a_full_disk_here_is_told(
    processes: AgentProcesses, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that finds no room on this machine is no log; the error says what to do."""
    monkeypatch.setattr(collecting, "free_bytes", lambda _: 0)
    monkeypatch.setattr(collecting, "_ROOM_S", 0.2)
    with pytest.raises(MeasurementError, match="no room for the logs") as caught:
        processes.run(shell('echo 1 > "$0.1"', roots / "logs" / "log"), timeout_s=10)
    assert "log_sampling" in caught.value.hint


def test_the_last_part_of_a_file_may_come_twice(tmp_path: Path) -> None:
    """An answer that was lost is asked for again: the file is there, and stays as it is."""
    file = tmp_path / "scripts" / "big"
    parts = [b"a" * 300, b"b" * 300]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()

    def put(number: int, *digests: str) -> int:
        text = base64.b64encode(parts[number])
        words = ["put", str(file), str(number * 300), str(len(text)), *digests]
        done = subprocess.run(["/bin/bash", AGENT, *words], input=text, check=False, timeout=20)
        return done.returncode

    assert [put(0), put(1, digest), put(1, digest)] == [0, 0, 0]
    assert file.read_bytes() == b"".join(parts)
    assert put(1, hashlib.sha256(b"other").hexdigest()) == 4
