"""Small real campaigns, and the death of Steelyard at an instant of them."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.model.schedule import Schedule
from steelyard.record.directory import read_schedule
from steelyard.record.entries import BlockEnded, BlockStarted, Ended, Entry, Planned, Resumed
from steelyard.record.journal import read_lines
from support.live import living_servers, write_experiment

SEED = 20261122
BLOCKS = 6  # the first look: the treatments differ so much that it decides
_SECOND_DEATHS = 0.25  # share of the kills whose resumption is killed, too
_LIMIT_S = 600.0

# The treatments differ by design: the one with 9 MB naps six times as long. So the verdict is
# the same in every campaign, however busy the machine is, and the CPUs are left to others.
MAKE = "CREATE TABLE seen (n bigint);\n-- {label}\n"
WORK = """\
INSERT INTO seen VALUES (1);
SELECT pg_sleep(CASE current_setting('work_mem') WHEN '9MB' THEN 0.06 ELSE 0.01 END);
"""
FILE = """\
version: 1
name: killed
baseline: default
workloads:
  - {{name: naps, prepare: [make.sql], scripts: [{{file: work.sql}}]}}
loads: {{clients: 2, threads: 1}}
measure: {{slice: 1s, ramp: 0s, ceilings: auto, {measure}}}
stop: {{budget: 5m}}
seed: 7
treatments:
  default:
    target: {target}
  other:
    extends: default
    postgres: {{work_mem: 9MB{more}}}
"""
_LOCAL = "{kind: local, bin: embedded, restore: copy}"
_CALIBRATED = "discard: auto, calibration: {restarts: 1, run: 5s, at_least: 0s}"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of campaign.

    Attributes:
        fresh: Whether each campaign has data that are not in the cache yet.
    """

    name: str
    measure: str
    more: str = ""
    target: str = _LOCAL
    fresh: bool = False

    def write(self, folder: Path, label: str) -> None:
        """Write the experiment and its scripts into an empty folder."""
        folder.mkdir(parents=True)
        text = FILE.format(measure=self.measure, target=self.target, more=self.more)
        write_experiment(folder / "killed.yaml", text)
        (folder / "make.sql").write_text(MAKE.format(label=label if self.fresh else "shared"))
        (folder / "work.sql").write_text(WORK)


KINDS = (
    Kind(name="restart", measure="discard: 0s, reset: block", more=", shared_buffers: 64MB"),
    Kind(name="back to back", measure=f"{_CALIBRATED}, reset: campaign"),
    Kind(name="endpoint", measure="discard: 0s", more=", autovacuum_naptime: 7min"),
    Kind(
        name="fresh data",
        measure="discard: 0s, reset: campaign",
        more=", shared_buffers: 64MB",
        fresh=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Kill:
    """When Steelyard dies: shares of the uninterrupted campaign's duration."""

    number: int
    first: float
    second: float | None

    @classmethod
    def drawn(cls, number: int) -> "Kill":
        """Return the kill of that number, the same in every round of however many."""
        coin = random.Random(f"{SEED}-{number}")  # noqa: S311 - an instant is no secret
        first, again, second = coin.random(), coin.random(), coin.random()
        return cls(number=number, first=first, second=second if again < _SECOND_DEATHS else None)

    def instants_s(self, whole_s: float) -> tuple[float, ...]:
        """Return the seconds after each start; the second session has the rest to do."""
        first_s = self.first * whole_s
        if self.second is None:
            return (first_s,)
        return (first_s, self.second * (whole_s - first_s))


@dataclass(frozen=True, kw_only=True)
class Death:
    """What was there right after a SIGKILL.

    Attributes:
        acknowledged: The journal up to its last whole line.
        schedule: Bytes of the schedule, when the plan was frozen.
    """

    at_s: float
    phase: str
    acknowledged: bytes
    schedule: bytes | None

    @property
    def has_campaign(self) -> bool:
        """Return whether there is a campaign to go on with."""
        return bool(self.acknowledged)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A cache and a folder of their own, for one campaign at a time."""

    cache: Path
    home: Path
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start Steelyard in a session of its own; what it says goes to files."""
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("chartless.py")), *arguments],
                cwd=folder,
                env={**os.environ, "STEELYARD_CACHE": str(self.cache)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run(self, folder: Path, *arguments: str) -> tuple[int, str]:
        """Run Steelyard to its end; return its exit status and all it said."""
        status = self.start(folder, *arguments).wait(_LIMIT_S)
        return status, (folder / "out").read_text() + (folder / "err").read_text()

    def die(self, folder: Path, at_s: float, *arguments: str) -> Death:
        """Start Steelyard and kill it, and it alone, after ``at_s`` seconds."""
        known = _entries(folder / "c")
        process = self.start(folder, *arguments)
        time.sleep(at_s)
        measuring = any("pgbench" in line for line in living_servers(self.cache))
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        entries = _entries(folder / "c")[len(known) :]
        said = (folder / "err").read_text()
        phase = _phase(entries, said, measuring=measuring, resumed=bool(known))
        content = _journal(folder / "c")
        planned = any(isinstance(entry, Planned) for entry in _entries(folder / "c"))
        return Death(
            at_s=at_s,
            phase=phase if alive else "after the end",
            acknowledged=content[: content.rfind(b"\n") + 1],
            schedule=(folder / "c" / "schedule.json").read_bytes() if planned else None,
        )

    def close(self) -> None:
        """End what was started here and remove what it left: after a failure and at the end."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.started.clear()
        self.run(self.home, "clean", "--yes")


def scheduled(schedule: Schedule, blocks: int) -> list[tuple[object, ...]]:
    """Return the runs of the first blocks in their order."""
    return [
        (block.index, visit_number, position, run.treatment, run.cell)
        for block in schedule.blocks[:blocks]
        for visit_number, visit in enumerate(block.visits)
        for position, run in enumerate(visit.runs)
    ]


def schedule_in(folder: Path) -> Schedule:
    """Return the schedule of the campaign in a folder."""
    return read_schedule(folder / "c")


def _journal(campaign: Path) -> bytes:
    path = campaign / "journal.jsonl"
    return path.read_bytes() if path.exists() else b""


def _entries(campaign: Path) -> list[Entry]:
    path = campaign / "journal.jsonl"
    return [line.entry for line in read_lines(path)[0]] if path.exists() else []


def _phase(entries: Sequence[Entry], said: str, *, measuring: bool, resumed: bool) -> str:
    """Return what a session was doing, from what it had written and said."""
    marks = [e for e in entries if isinstance(e, Planned | BlockStarted | BlockEnded | Ended)]
    if marks:
        return _phase_after(marks[-1], measuring=measuring)
    if "measuring the warm-up" in said:
        return "calibrating"
    if "starting every treatment" in said:
        return "starting each treatment"
    if resumed and not any(isinstance(entry, Resumed) for entry in entries):
        return "resuming"
    return "preparing" if entries else "before the journal"


def _phase_after(last: Entry, *, measuring: bool) -> str:
    if isinstance(last, BlockStarted):
        return "in a run" if measuring else "between runs"
    if isinstance(last, Ended):
        return "reporting"
    done = isinstance(last, BlockEnded) and last.outcome.index == BLOCKS - 1
    return "ending" if done else "between blocks"
