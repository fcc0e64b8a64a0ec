"""Programs in pods: what they print and log comes back whole, whatever happens to the connection.

The agent is the real one, run on this machine.
"""

import hashlib
import inspect
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.generator_pods import TwoPods, is_running, shell
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.outside import Command, Completed
from steelyard.core.wording import MeasurementError, PreflightError, TargetError
from steelyard.gateways.process import Processes
from steelyard.places.agent.programs import AgentProcesses


def test_it_is_what_engines_ask_for() -> None:
    """Programs in pods stand in for programs of this machine."""
    methods = [name for name in vars(Processes) if not name.startswith("_")]
    assert methods
    for name in methods:
        asked = inspect.signature(getattr(Processes, name))
        assert inspect.signature(getattr(AgentProcesses, name)) == asked


def test_output_status_input_and_environment(processes: AgentProcesses) -> None:
    """A program gets its input and variables, and everything it says comes back."""
    done = processes.run(
        shell('cat; echo "$PGHOST" >&2; exit 7', PGHOST='it\'s a "host" $HOME\n'),
        timeout_s=10,
        stdin="a\nüöä\n",
    )
    assert (done.exit_status, done.stdout) == (7, "a\nüöä\n")
    assert done.stderr == 'it\'s a "host" $HOME\n\n'
    assert not done.succeeded
    assert done.began_at is not None


def test_arguments_arrive_as_they_are(processes: AgentProcesses) -> None:
    """No shell reads them on the way."""
    words = ("a b", "$HOME", "`id`", "'", '"', "*", "", "--x=\n")
    done = processes.run(Command(argv=("printf", "<%s>", *words)), timeout_s=10)
    assert done.stdout == "".join(f"<{word}>" for word in words)


def test_a_password_is_not_sent(processes: AgentProcesses, two_pods: TwoPods) -> None:
    """The pod has its own, and neither commands nor files of orders hold one."""
    done = processes.run(shell("echo ${PGPASSWORD:-none}", PGPASSWORD="geheim"), timeout_s=10)
    assert "geheim" not in done.stdout
    sent = "".join(repr(ran) for ran in two_pods.api.ran)
    kept = "".join(p.read_text() for p in two_pods.api.work.rglob("*") if p.is_file())
    assert "geheim" not in sent + kept


@pytest.mark.parametrize("size", [65_536, 65_537, 5_000_000])
def test_much_output_and_input_come_whole(processes: AgentProcesses, size: int) -> None:
    """What does not fit into one answer is fetched in parts, and is the same."""
    text = "".join(f"{number:07d}\n" for number in range(size // 8 + 1))[:size]
    done = processes.run(shell("cat; echo end >&2"), timeout_s=20, stdin=text)
    assert hashlib.sha256(done.stdout.encode()).digest() == hashlib.sha256(text.encode()).digest()
    assert done.stderr == "end\n"


def test_a_program_that_does_not_exist_is_named(processes: AgentProcesses) -> None:
    """An image without pgbench is a refusal, not a failed run."""
    with pytest.raises(TargetError, match="/opt/pgbench does not exist on pod"):
        processes.run(Command(argv=("/opt/pgbench", "--version")), timeout_s=10)


def test_an_image_without_bash_is_named(
    processes: AgentProcesses, two_pods: TwoPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent needs a shell, and the error says where one is asked for."""

    def run(where: ContainerRef, argv: Sequence[str], **_: object) -> Completed:
        return Completed(argv=tuple(argv), exit_status=127, stdout="", stderr="bash: not found")

    monkeypatch.setattr(two_pods.api, "run", run)
    with pytest.raises(PreflightError, match="has no bash"):
        processes.run(shell("true"), timeout_s=10)


def test_a_program_that_hangs_is_killed_in_time(processes: AgentProcesses) -> None:
    """The agent itself ends it and all that it started, and the error says after how long."""
    with pytest.raises(MeasurementError, match="did not end within 1 s and was killed"):
        processes.run(shell("sleep 61.25 & sleep 61.25; wait"), timeout_s=1)
    assert not is_running("sleep 61.25")


def test_a_program_that_ignores_its_end_is_killed(
    processes: AgentProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as one whose time was over, not as one that somebody killed."""
    with pytest.raises(MeasurementError, match="did not end within 1 s and was killed"):
        processes.run(shell("trap '' TERM; sleep 61.75"), timeout_s=1)
    assert not is_running("sleep 61.75")


def test_two_begin_together(processes: AgentProcesses) -> None:
    """Their beginnings, by one clock here, are a fraction of the lead apart, and are recorded."""
    done = processes.run_together([shell("echo 0"), shell("echo 1")], timeout_s=10)
    assert [each.stdout for each in done] == ["0\n", "1\n"]
    begins = [run.began_at for run in processes.last_runs]
    assert begins == [each.began_at for each in done]
    skew = processes.last_skew
    assert skew is not None
    # Both pods have the clock of this machine, so the truth is the difference itself.
    assert abs(abs(begins[0] - begins[1]) - skew.seconds) <= skew.half_width_s
    for run in processes.last_runs:
        assert run.offset is not None
        assert abs(run.offset.seconds) <= run.offset.half_width_s


def test_the_i_th_command_runs_in_the_i_th_pod(
    processes: AgentProcesses, two_pods: TwoPods
) -> None:
    """Orders are placed where they belong."""
    processes.run_together([shell("true"), shell("true")], timeout_s=10)
    placed = {ran.where.pod for ran in two_pods.api.ran if ran.argv[2] == "place"}
    assert placed == {pod.pod for pod in two_pods.generators.pods}
    told = [f"pod {pod.pod}" for pod in two_pods.generators.pods]
    assert [run.where for run in processes.last_runs] == told


def test_one_that_fails_ends_the_others(processes: AgentProcesses) -> None:
    """The others have a signal as their status, as on this machine, and nothing goes on."""
    commands = [shell("sleep 62.5 & wait"), shell("echo why >&2; exit 3")]
    first, second = processes.run_together(commands, timeout_s=60)
    assert (second.exit_status, second.stderr) == (3, "why\n")
    assert first.exit_status == -signal.SIGTERM
    assert not is_running("sleep 62.5")


def test_more_commands_than_pods_are_refused(processes: AgentProcesses) -> None:
    """Nothing is run twice in one pod."""
    with pytest.raises(MeasurementError, match="3 load generators need as many pods"):
        processes.run_together([shell("true")] * 3, timeout_s=10)


def test_a_script_is_copied_once_and_named_as_here(
    processes: AgentProcesses, two_pods: TwoPods, roots: Path
) -> None:
    """A file below a root is read in the pod; its weight stays; messages name it as it is here."""
    script = roots / "it's a script.sql"
    script.write_text("SELECT 1;\n")
    command = shell('cat "${1#*=}"; echo "$1" "$2" >&2', "-", f"--file={script}", f"{script}@9")
    command = Command(argv=(*command.argv[:4], f"--file={script}", f"{script}@9"))
    for _ in range(2):
        done = processes.run(command, timeout_s=10)
        assert done.stdout == "SELECT 1;\n"
        assert done.stderr == f"--file={script} {script}@9\n"
    assert two_pods.api.verbs().count("put") == 1


def test_a_changed_script_is_copied_again(processes: AgentProcesses, roots: Path) -> None:
    """The pod never reads an older content of a file."""
    script = roots / "a.sql"
    for text in ("one", "two"):
        script.write_text(text)
        assert processes.run(shell('cat "$0"', script), timeout_s=10).stdout == text


def test_logs_of_two_pods_come_back_beside_each_other(
    processes: AgentProcesses, roots: Path
) -> None:
    """Files of one name from two pods stay two, each with all its bytes."""
    prefix = roots / "logs" / "log"
    write = 'for n in $(seq 20000); do echo "$n $1"; done > "${0#*=}.77"'
    commands = [shell(write, f"--log-prefix={prefix}", number) for number in (1, 2)]
    processes.run_together(commands, timeout_s=30)
    found = {path.name: path.read_text() for path in (roots / "logs").iterdir()}
    assert set(found) == {"log.77", "log.77.1"}
    for name, number in (("log.77", 1), ("log.77.1", 2)):
        assert found[name] == "".join(f"{n} {number}\n" for n in range(1, 20001))


def test_a_log_that_fills_its_room_is_fetched_while_it_grows(
    processes: AgentProcesses, two_pods: TwoPods, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that were fetched and parts that follow make one file, each byte once."""
    # Every look finds too little room.
    monkeypatch.setattr(type(two_pods.generators), "spare_log_kib", 1 << 60)
    prefix = roots / "logs" / "log"
    write = 'for n in $(seq 14); do seq $n 7 100000; sleep 0.1; done > "$0.1"'
    processes.run(shell(write, prefix), timeout_s=60)
    expected = "".join("".join(f"{n}\n" for n in range(first, 100001, 7)) for first in range(1, 15))
    assert (roots / "logs" / "log.1").read_text() == expected
    assert "punch" in two_pods.api.verbs()


def test_the_log_of_a_failed_run_is_not_fetched(processes: AgentProcesses, roots: Path) -> None:
    """Nobody reads it."""
    processes.run(shell('echo 1 > "$0.1"; exit 1', roots / "logs" / "log"), timeout_s=10)
    assert not list((roots / "logs").iterdir())


def test_what_was_fetched_is_forgotten_in_the_pod(
    processes: AgentProcesses, two_pods: TwoPods
) -> None:
    """The next order removes the last one, and only after its result was fetched."""
    for number in range(3):
        assert processes.run(shell(f"echo {number}"), timeout_s=10).stdout == f"{number}\n"
        assert len(list((two_pods.api.work / "orders").iterdir())) == 1


def test_cpu_time_is_the_programs(processes: AgentProcesses) -> None:
    """It is what bash says of the program that it has waited for."""
    processes.run_together([shell("for ((n = 0; n < 200000; n++)); do :; done")], timeout_s=30)
    (run,) = processes.last_runs
    assert run.program_s > 0
    assert processes.last_skew is None


def test_control_groups_of_this_machine_are_refused(processes: AgentProcesses) -> None:
    """They mean nothing in a pod; the way out is the pod's own limits."""
    command = Command(argv=("true",), groups=(Path("/sys/fs/cgroup/x"),))
    with pytest.raises(TargetError, match="cannot join a control group") as caught:
        processes.run(command, timeout_s=10)
    assert "resources" in caught.value.hint


def test_nothing_goes_on_beside_others(processes: AgentProcesses, tmp_path: Path) -> None:
    """There is no way to start a daemon in a generator's pod, and no process id to signal."""
    with pytest.raises(TargetError, match="cannot be started"):
        processes.start(Command(argv=("sleep", "1")), output=tmp_path / "out")
    assert processes.within(tmp_path) == ()
    processes.signal(os.getpid(), signal.SIGKILL)
