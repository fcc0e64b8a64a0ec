"""Real servers for the live tests: a cache of their own, and Steelyard as a user starts it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

TINY = """\
version: 1
name: tiny
baseline: default
workloads:
  - {name: writes, builtin: simple-update, scale_factor: 1}
loads: {clients: 2, threads: 1}
measure: {slice: 1s, ramp: 0s, discard: 0s}
stop: {budget: 2m}
seed: 7
treatments:
  default:
    target: {kind: local, bin: embedded}
  buffers:
    extends: default
    postgres: {shared_buffers: 64MB}
"""


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Steelyard:
    """The command line as a user starts it, with a cache of the test session."""

    cache: Path
    directory: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "steelyard")

    @property
    def impatient(self) -> "Steelyard":
        """Return one that waits seconds where it usually waits a minute."""
        return self._with_other_doors({"STEELYARD_TEST_PATIENCE_S": "6"})

    @property
    def with_a_stepped_clock(self) -> "Steelyard":
        """Return one whose wall clock is off by the seconds in the file ``step``."""
        return self._with_other_doors({"STEELYARD_TEST_STEP": str(self.directory / "step")})

    def _with_other_doors(self, variables: Mapping[str, str]) -> "Steelyard":
        program = str(Path(__file__).with_name("other_doors.py"))
        return replace(self, extra={**self.extra, **variables}, program=(program,))

    @property
    def journal(self) -> list[dict[str, Any]]:
        """Return the entries of the campaign in ``c`` that are written in full."""
        path = self.directory / "c" / "journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["entry"] for line in lines if line.endswith('"}')]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Return its runs so far."""
        return [entry["run"] for entry in self.journal if entry["kind"] == "run"]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """Return the ends of its blocks so far, complete or not."""
        return [e["outcome"] for e in self.journal if e["kind"] == "block-ended"]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start it and return at once."""
        return subprocess.Popen(
            [sys.executable, *self.program, *arguments],
            cwd=self.directory,
            env={**os.environ, "STEELYARD_CACHE": str(self.cache), **self.extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A background job ignores Ctrl-C, and so would what it starts.
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - the tests have one thread
        )

    def run(self, *arguments: str, timeout_s: float = 240) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            out, err = process.communicate()
            pytest.fail(f"steelyard {' '.join(arguments)} did not end:\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def experiment(self, text: str = TINY, name: str = "tiny.yaml") -> str:
        """Write an experiment file and return its name."""
        (self.directory / name).write_text(text)
        return name


@pytest.fixture(scope="session")
def cache() -> Iterator[Path]:
    """A cache that the unprivileged account of a root session can reach; prepared data are shared.

    Below /var/tmp, because pytest's own directories are closed to other accounts.
    """
    path = Path(tempfile.mkdtemp(prefix="steelyard-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def steelyard(cache: Path, tmp_path: Path) -> Iterator[Steelyard]:
    """Steelyard in an empty directory; after the test nothing may be left but records."""
    yield Steelyard(cache=cache, directory=tmp_path)
    assert living_servers(cache) == []
    live = cache / "live"
    assert not live.exists() or list(live.iterdir()) == []


def living_servers(cache: Path) -> list[str]:
    """Return the command lines of processes that work below the cache."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                cwd = str((entry / "cwd").readlink())
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if cwd.startswith(f"{cache}/"):
                found.append(command)
    return found


def wait_for(condition: "object", timeout_s: float = 60.0) -> None:
    """Wait until ``condition()`` is true; a long limit, because machines are noisy."""
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{condition} did not come true within {timeout_s:.0f} s")
        time.sleep(0.05)


def redone_in_all_arms(steelyard: Steelyard) -> bool:
    """Return whether a block was thrown away, and its complete try holds a run of every arm."""
    void = [block["index"] for block in steelyard.blocks if not block["complete"]]
    again = {b["index"]: b["attempt"] for b in steelyard.blocks if b["complete"]}
    arms = {run["treatment"] for run in steelyard.runs}
    return bool(void) and all(
        {
            run["treatment"]
            for run in steelyard.runs
            if (run["block"], run["attempt"]) == (index, again.get(index))
        }
        == arms
        for index in void
    )
