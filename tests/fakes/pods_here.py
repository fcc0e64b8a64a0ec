"""Pods whose agent is the real one, run on this machine in a directory of a test.

All pods of a `PodsHere` share that directory; orders have names of their own, so they do not meet.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from fakes.kubernetes_answers import Ran
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.kubernetes import POD, ContainerRef, ObjectRef
from steelyard.core.outside import Completed
from steelyard.core.wording import MeasurementError, TargetError

_BASH = shutil.which("bash") or "/bin/bash"
AGENT = str(files("steelyard.places.agent").joinpath("agent.sh"))


class DialogueHere:
    """A command of the agent that is told lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.told: list[str] = []

    def ask(self, line: str, *, timeout_s: float) -> str:  # noqa: ARG002 - it answers at once
        """Tell it a line; a closed one is lost."""
        self.told.append(line)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise TargetError("the connection was lost") from error
        answer = self._process.stdout.readline().decode()
        if not answer:
            raise TargetError("the connection was lost")
        return answer.rstrip("\n")

    def close(self) -> None:
        """Hang up, and wait until it has ended what it holds."""
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            end.close()
        self._process.wait(20)


@dataclass(kw_only=True)
class PodsHere(FakeKubernetesApi):
    """A cluster in memory, whose containers run the agent's commands really.

    Attributes:
        directory: Where the pods' files are.
        lost_answers: So many of the next commands are carried out, and their answers lost; by verb
            of the agent.
        garbled: So many of the next answers to a verb arrive damaged.
    """

    directory: Path
    lost_answers: dict[str, int] = field(default_factory=dict)
    garbled: dict[str, int] = field(default_factory=dict)
    served: "subprocess.Popen[bytes] | None" = None
    dialogues: list[DialogueHere] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """Return where orders are."""
        return self.directory / "work"

    @property
    def log_folder(self) -> Path:
        """Return where logs are."""
        return self.directory / "logs"

    def serve(self) -> None:
        """Start the pods' first process."""
        self.work.mkdir(parents=True)
        self.log_folder.mkdir()
        self.served = subprocess.Popen(
            [_BASH, AGENT, "serve"],
            env=self._environment(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while not (self.work / "gate").exists():
            time.sleep(0.005)

    def stop(self) -> None:
        """End it, and with it what runs."""
        for dialogue in self.dialogues:
            dialogue.close()
        if self.served is not None:
            self.served.terminate()
            self.served.wait(10)
            try:
                os.killpg(self.served.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def run(
        self, where: ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Run a command of the agent, which dies with its pod and with the connection."""
        self._inside("run", "create", "exec", where)
        verb = argv[2]
        self.ran.append(Ran(where=where, argv=tuple(argv), stdin=stdin))
        process = subprocess.Popen(
            [_BASH, AGENT, *argv[2:]],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                out, err = self._talk(process, where, timeout_s, stdin.encode())
            finally:
                process.kill()
        if self._is_one_of(self.lost_answers, verb):
            raise TargetError("the connection was lost")
        text = out.decode()
        if self._is_one_of(self.garbled, verb):
            text = text.replace("A", "B") if "A" in text else text[: len(text) // 2]
        return Completed(
            argv=tuple(argv),
            exit_status=process.returncode,
            stdout=text,
            stderr=err.decode(),
        )

    def talk(self, where: ContainerRef, argv: Sequence[str]) -> DialogueHere:
        """Start a command of the agent that answers lines; it does not die with the connection."""
        self._inside("talk", "create", "exec", where)
        self.ran.append(Ran(where=where, argv=tuple(argv)))
        process = subprocess.Popen(
            [_BASH, AGENT, *argv[2:]],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.dialogues.append(DialogueHere(process))
        return self.dialogues[-1]

    def _talk(
        self,
        process: "subprocess.Popen[bytes]",
        where: ContainerRef,
        timeout_s: float,
        stdin: bytes | None,
    ) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + timeout_s
        ref = ObjectRef(kind=POD, name=where.pod, namespace=where.namespace)
        while True:
            try:
                return process.communicate(stdin, timeout=0.1)
            except subprocess.TimeoutExpired as error:
                stdin = None  # it is on its way
                if time.monotonic() > deadline:
                    raise MeasurementError("it did not end in time") from error
                if self._lost.get("", 0) or self.objects.held(ref) is None:
                    raise TargetError("the connection was lost") from error

    def verbs(self) -> list[str]:
        """Return which commands of the agent were run, in order."""
        return [ran.argv[2] for ran in self.ran]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "STEELYARD_HOME": str(self.work),
            "STEELYARD_LOGS": str(self.log_folder),
            "STEELYARD_LOOK": "2",
        }

    def _is_one_of(self, counts: dict[str, int], verb: str) -> bool:
        left = counts.get(verb, 0)
        counts[verb] = max(left - 1, 0)
        return left > 0
