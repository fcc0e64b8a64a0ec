"""Small real campaigns, and the death of Steelyard at an instant of them."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard.answers.campaign import analyse
from steelyard.core.campaign import CampaignPlan, CampaignRecord, Status
from steelyard.core.schedule import Schedule
from steelyard.core.wording import SteelyardError
from steelyard.record.directory import read_campaign, read_schedule
from steelyard.record.journal import (
    BlockEnded,
    BlockStarted,
    Ended,
    Entry,
    Planned,
    Resumed,
    read_lines,
)
from support.endpoint import Server
from support.left import left_over
from support.live import living_servers, write_experiment

SEED = 20261122
BLOCKS = 6  # verdicts end it from here on; the configurations differ so much that they do
SECOND_DEATHS = 0.25  # share of the kills whose resumption is killed, too
_LIMIT_S = 600.0
_REPORTED_EVERY = 4  # a report takes seconds of CPU: not every campaign is reported once more

DERIVED = ("report.md", "report.html", "summary.json", "runs.parquet", "intervals.parquet")
RUN: tuple[str, ...] = ("run", "killed.yaml", "--dir", "c", "--no-verdict")
RESUME: tuple[str, ...] = ("run", "--resume", "c")
FAULTS = (AssertionError, SteelyardError, OSError, subprocess.TimeoutExpired)

# The configurations differ by design: the one with 9 MB naps six times as long. So the verdict is
# the same in every campaign, however busy the machine is, and the CPUs are left to others.
MAKE = "CREATE TABLE seen (n bigint);\n-- {label}\n"
WORK = """\
INSERT INTO seen VALUES (1);
SELECT pg_sleep(CASE current_setting('work_mem') WHEN '9MB' THEN 0.06 ELSE 0.01 END);
"""
# In turns a nap would go by the clock, which goes on while a server stands still.
COUNTS = """\
SELECT count(*)
FROM generate_series(1, CASE current_setting('work_mem') WHEN '9MB' THEN 4000 ELSE 1 END);
"""
FILE = """\
version: 1
design: {design}
name: killed
baseline: default
workloads:
  - {{name: naps, prepare: [make.sql], scripts: [{{file: work.sql}}]}}
load: {{clients: 2, threads: 1, protocol: simple}}
measure: {{run_time: 1s, discard_start: 0s, machine_limits: auto, {measure}}}
stop: {{budget: 5m, early: false}}
seed: 7
configurations:
  default:
    target: {target}
  other:
    extends: default
    postgres: {{work_mem: 9MB{more}}}
"""
_LOCAL = "{kind: local, server: embedded, restore: copy}"
_CALIBRATED = "warm_up: auto, calibration: {restarts: 1, run_time: 5s, at_least: 0s}"


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
    design: str = "one-by-one"

    def write(self, folder: Path, label: str) -> None:
        """Write the experiment and its scripts into an empty folder."""
        folder.mkdir(parents=True)
        text = FILE.format(
            design=self.design, measure=self.measure, target=self.target, more=self.more
        )
        write_experiment(folder / "killed.yaml", text)
        (folder / "make.sql").write_text(MAKE.format(label=label if self.fresh else "shared"))
        (folder / "work.sql").write_text(WORK if self.design == "one-by-one" else COUNTS)


KINDS = (
    Kind(name="restart", measure="warm_up: 0s, reset: block", more=", shared_buffers: 64MB"),
    Kind(name="back to back", measure=f"{_CALIBRATED}, reset: campaign"),
    Kind(name="endpoint", measure="warm_up: 0s", more=", autovacuum_naptime: 7min"),
    Kind(
        name="fresh data",
        measure="warm_up: 0s, reset: campaign",
        more=", shared_buffers: 64MB",
        fresh=True,
    ),
    Kind(
        name="in turns",
        measure="warm_up: 0s",
        more=", shared_buffers: 64MB",
        design="alternating",
    ),
)


def at(server: Server, kind: Kind) -> Kind:
    """Return a kind whose endpoint, if it has one, is a server."""
    if kind.name != "endpoint":
        return kind
    return replace(kind, target=json.dumps({"kind": "existing", "uri": server.uri}))


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
        return cls(number=number, first=first, second=second if again < SECOND_DEATHS else None)

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
        known = entries_in(folder / "c")
        process = self.start(folder, *arguments)
        time.sleep(at_s)
        measuring = any("pgbench" in line for line in living_servers(self.cache))
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        entries = entries_in(folder / "c")[len(known) :]
        said = (folder / "err").read_text()
        phase = phase_of(entries, said, measuring=measuring, resumed=bool(known))
        content = journal_in(folder / "c")
        planned = any(isinstance(entry, Planned) for entry in entries_in(folder / "c"))
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
        (block.index, start_number, position, run.configuration, run.cell)
        for block in schedule.blocks[:blocks]
        for start_number, start in enumerate(block.starts)
        for position, run in enumerate(start.runs)
    ]


def schedule_in(folder: Path) -> Schedule:
    """Return the schedule of the campaign in a folder."""
    return read_schedule(folder / "c")


def journal_in(campaign: Path) -> bytes:
    """Return what is in a campaign's journal, if there is one."""
    path = campaign / "journal.jsonl"
    return path.read_bytes() if path.exists() else b""


def entries_in(campaign: Path) -> list[Entry]:
    """Return what the whole lines of a campaign's journal say."""
    path = campaign / "journal.jsonl"
    return [line.entry for line in read_lines(path)[0]] if path.exists() else []


def phase_of(entries: Sequence[Entry], said: str, *, measuring: bool, resumed: bool) -> str:
    """Return what a session was doing, from what it had written and said."""
    marks = [e for e in entries if isinstance(e, Planned | BlockStarted | BlockEnded | Ended)]
    if marks:
        return _phase_after(marks[-1], measuring=measuring)
    if "measuring the warm-up" in said:
        return "calibrating"
    if "starting every configuration" in said:
        return "starting each configuration"
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


@dataclass(kw_only=True)
class Log:
    """A line per campaign that died, printed and kept; ``over`` ends all lanes."""

    path: Path
    kinds: Sequence[Kind]
    numbers: Sequence[int]
    phases: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, variable: str, usual: str, kinds: Sequence[Kind], home: Path) -> "Log":
        """Return an empty one for as many deaths as a variable says, or for those it names."""
        path = Path(os.environ.get(f"{variable}_LOG", home / "deaths.log"))
        return cls(path=path, kinds=kinds, numbers=numbers(os.environ.get(variable, usual)))

    @property
    def total(self) -> int:
        """Return how many campaigns die."""
        return len(self.numbers)

    def say(self, line: str) -> None:
        """Print a line at once and keep it."""
        with self._lock, self.path.open("a") as file:
            file.write(f"{line}\n")
            print(line, flush=True)  # noqa: T201 - for pytest -s

    def died(self, number: int, deaths: Sequence[Death], outcome: str) -> None:
        """Say how one campaign went."""
        kind = self.kinds[number % len(self.kinds)].name
        when = ", again ".join(f"at {death.at_s:.1f} s: {death.phase}" for death in deaths)
        self.say(f"campaign {number}, one of {self.total} ({kind}) {when}; {outcome}")
        self.phases.update(death.phase for death in deaths)

    def summary(self) -> str:
        """Return the count by phase."""
        counts = ", ".join(f"{phase} {n}" for phase, n in sorted(self.phases.items()))
        deaths = sum(self.phases.values())
        return f"{self.total} campaigns, {deaths} deaths: {counts}; {len(self.failures)} failed"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A campaign that nobody killed, and how long it took from start to exit."""

    folder: Path
    whole_s: float


def in_lanes(log: Log, work: Callable[[Kind, list[int]], None]) -> None:
    """Let campaigns of each kind die beside those of the others, one after the other."""
    with ThreadPoolExecutor(len(log.kinds)) as pool:
        lanes = []
        for place, kind in enumerate(log.kinds):
            own = [number for number in log.numbers if number % len(log.kinds) == place]
            if own:
                lanes.append(pool.submit(work, kind, own))
        try:
            for lane in lanes:
                lane.result()
        finally:
            log.over.set()  # after a failure or Ctrl-C the others end their kill and clear up
    log.say(log.summary())


def one_by_one(
    log: Log,
    lane: Lane,
    kind: Kind,
    own: Sequence[int],
    server: Server,
    die: Callable[[Path, int, Reference, list[Death]], Sequence[str]],
) -> None:
    """Let campaigns of a lane die and go on; each is compared with one that nobody killed.

    A failure is noted, and the next begins anew.

    Args:
        log: Keeps how each went.
        lane: Where.
        kind: Of all.
        own: Their numbers.
        server: That an endpoint is; it is as it was after each.
        die: Lets the one in a folder die, notes how, and returns with what words it goes on.
    """
    untouched = _state_of(server)
    reference = uninterrupted(lane, kind)
    log.say(f"{kind.name}: {reference.whole_s:.1f} s to its end")
    for number in own:
        if log.over.is_set():
            break
        folder, deaths = lane.home / f"death-{number}", []
        kind.write(folder, f"death {number}")
        try:
            status, said = lane.run(folder, *die(folder, number, reference, deaths))
            assert status == 0, said
            _require_kept(folder, deaths)
            require_same(folder, reference)
            require_nothing_left(lane, folder)
            if number // len(log.kinds) % _REPORTED_EVERY == 0 or deaths[-1].phase == "reporting":
                _require_same_report(lane, folder)
            assert kind.name != "endpoint" or _state_of(server) == untouched
            shutil.rmtree(folder)  # one that failed stays
            outcome = "resumed"
        except FAULTS as error:
            outcome = f"FAILED in {lane.home}: {error}"
            log.failures.append(f"campaign {number}: {outcome}")
            lane.close()
        log.died(number, deaths, outcome)


def _state_of(server: Server) -> tuple[object, ...]:
    return server.configuration, server.databases, server.rows("SHOW work_mem")


def _require_kept(folder: Path, deaths: Sequence[Death]) -> None:
    """What was acknowledged before a death is still the beginning of the record."""
    journal = journal_in(folder / "c")
    for death in deaths:
        assert journal.startswith(death.acknowledged)
        if death.schedule is not None:
            assert (folder / "c" / "schedule.json").read_bytes() == death.schedule


def _require_same_report(lane: Lane, folder: Path) -> None:
    """`report --write` makes every derived file anew, to the same bytes."""
    before = {name: (folder / "c" / name).read_bytes() for name in DERIVED}
    for name in DERIVED:
        (folder / "c" / name).unlink()
    status, said = lane.run(folder, "report", "c", "--write")
    assert status == 0, said
    assert {name: (folder / "c" / name).read_bytes() for name in DERIVED} == before


def numbers(text: str) -> list[int]:
    """Return which kills: that many, or those that are named."""
    if "," in text:
        return [int(part) for part in text.split(",") if part]
    return list(range(int(text)))


def uninterrupted(lane: Lane, kind: Kind) -> Reference:
    """Return a campaign's result and duration, with the programs in the cache."""
    folder = lane.home / "reference"
    kind.write(folder, "reference")
    lane.run(folder, "run", "killed.yaml", "--dry-run", "--no-verdict")
    begun = time.monotonic()
    status, said = lane.run(folder, *RUN)
    whole_s = time.monotonic() - begun
    assert status == 0, said
    reference = Reference(folder=folder, whole_s=whole_s)
    require_same(folder, reference)
    return reference


def require_same(folder: Path, reference: Reference) -> None:
    """Plan, order, comparisons, verdicts and status are those of the reference.

    Each has as many blocks as its first decisive look from ``BLOCKS`` on needed: a
    machine that stood still in a run makes it undecided. Its runs are those of the schedule.
    """
    ours, theirs = (read_campaign(place / "c") for place in (folder, reference.folder))
    assert ours.plan is not None
    assert theirs.plan is not None
    assert _frozen(ours.plan) == _frozen(theirs.plan)
    schedule, other = schedule_in(folder), schedule_in(reference.folder)
    assert len(schedule.blocks) == ours.plan.stopping.max_blocks >= BLOCKS
    shared = min(len(schedule.blocks), len(other.blocks))
    assert scheduled(schedule, shared) == scheduled(other, shared)
    complete = [block.index for block in ours.blocks if block.complete]
    assert complete == list(range(len(complete)))
    assert len(complete) >= BLOCKS
    assert _taken(ours) == scheduled(schedule, len(complete))
    assert all((folder / "c" / "raw" / run.raw).exists() for run in ours.counted_runs)
    assert ours.status is Status.DECIDED
    assert _said(ours) == _said(theirs)
    assert all((folder / "c" / name).stat().st_size > 0 for name in DERIVED)


def _frozen(plan: CampaignPlan) -> tuple[object, ...]:
    """Return what does not rest on measured times: these differ between any two campaigns."""
    stopping = replace(plan.stopping, max_blocks=0, spending_power=0.0)
    warm_up = (plan.warm_up.how, plan.warm_up.restarts)
    return plan.mode, plan.switch, plan.reset, plan.restore, stopping, warm_up


def _taken(record: CampaignRecord) -> list[tuple[object, ...]]:
    return [
        (run.block, run.start, run.position, run.configuration, run.cell)
        for run in record.counted_runs
    ]


def _said(record: CampaignRecord) -> list[tuple[object, ...]]:
    """Return every comparison but its numbers, which no two campaigns share."""
    said: list[tuple[object, ...]] = []
    for one in analyse(record).comparisons:
        assert one.effect is not None
        assert one.effect.low is not None
        assert one.effect.high is not None
        assert one.effect.low < one.effect.value < one.effect.high
        assert one.blocks == sum(block.complete for block in record.blocks)
        said.append((one.baseline, one.configuration, one.workload, one.load, one.verdict))
    return said


def require_nothing_left(lane: Lane, folder: Path) -> None:
    """No process, no live data, no socket directory, no unfinished file, nothing to clean."""
    assert living_servers(lane.cache) == []
    assert left_over(folder / "c") == ()
    lines = (folder / "c" / "journal.jsonl").read_text().splitlines()
    made = [json.loads(line)["entry"] for line in lines]
    directories = [entry["name"] for entry in made if entry.get("resource") == "directory"]
    assert [name for name in directories if Path(name).exists()] == []
    assert list((lane.cache / "prepared").glob("*.unfinished")) == []
    assert list((lane.cache / "campaigns").glob("*")) == []
    assert [path.name for path in (folder / "c").rglob(".*")] == []
    status, said = lane.run(folder, "clean", "--dry-run")
    assert (status, said.strip()) == (0, "No campaign has left anything behind.")
