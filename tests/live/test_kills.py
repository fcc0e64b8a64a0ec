"""``kill -9`` of Steelyard at random instants of small real campaigns, each then resumed.

``STEELYARD_KILLS`` says how many (20 unless it is set), or which: ``101,117`` repeats two.
``STEELYARD_KILLS_LOG`` names a file that keeps a line for each.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from steelyard.analysis.campaign import analyse
from steelyard.model.campaign import CampaignRecord
from steelyard.model.errors import SteelyardError
from steelyard.model.plan import CampaignPlan, Status
from steelyard.record.directory import left_over, read_campaign
from support.endpoint import Server
from support.kills import BLOCKS, KINDS, Death, Kill, Kind, Lane, schedule_in, scheduled
from support.live import in_memory, living_servers, new_cache

pytestmark = [pytest.mark.live, pytest.mark.slow]

_DERIVED = ("report.md", "report.html", "summary.json", "runs.parquet", "intervals.parquet")
_RUN = ("run", "killed.yaml", "--out", "c", "--yes")
_RESUME = ("run", "--resume", "c")
_FAULTS = (AssertionError, SteelyardError, OSError, subprocess.TimeoutExpired)
_REPORTED_EVERY = 4  # a report takes seconds of CPU: not every campaign is reported once more


@dataclass(kw_only=True)
class Log:
    """A line per kill, printed and kept; ``over`` ends all lanes."""

    path: Path
    total: int
    phases: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, line: str) -> None:
        """Print a line at once and keep it."""
        with self._lock, self.path.open("a") as file:
            file.write(f"{line}\n")
            print(line, flush=True)  # noqa: T201 - for pytest -s

    def killed(self, number: int, kind: Kind, deaths: list[Death], outcome: str) -> None:
        """Say how one kill went."""
        when = ", again ".join(f"at {death.at_s:.1f} s: {death.phase}" for death in deaths)
        self.say(f"kill {number}, one of {self.total} ({kind.name}) {when}; {outcome}")
        self.phases.update(death.phase for death in deaths)

    def summary(self) -> str:
        """Return the count by phase."""
        counts = ", ".join(f"{phase} {n}" for phase, n in sorted(self.phases.items()))
        deaths = sum(self.phases.values())
        return f"{self.total} campaigns, {deaths} kills: {counts}; {len(self.failures)} failed"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A campaign that nobody killed, and how long it took from start to exit."""

    folder: Path
    whole_s: float


def test_a_campaign_killed_at_any_instant_resumes_to_the_same_result(
    server: Server, tmp_path: Path
) -> None:
    """SIGKILL at a random instant, for some a second time in the resumption: nothing shows.

    The resumed campaign has the runs in the order, the plan, the comparisons, verdicts and status
    of one that nobody killed; no acknowledged line is lost; nothing is left behind.
    """
    numbers = _numbers(os.environ.get("STEELYARD_KILLS", "20"))
    path = Path(os.environ.get("STEELYARD_KILLS_LOG", tmp_path / "kills.log"))
    log = Log(path=path, total=len(numbers))
    with ThreadPoolExecutor(len(KINDS)) as pool:
        lanes = []
        for place, kind in enumerate(KINDS):
            own = [number for number in numbers if number % len(KINDS) == place]
            if own:
                lanes.append(pool.submit(_lane, _at(server, kind), own, tmp_path, server, log))
        try:
            for lane in lanes:
                lane.result()
        finally:
            log.over.set()  # after a failure or Ctrl-C the others end their kill and clear up
    log.say(log.summary())
    assert log.failures == []
    assert sum(log.phases.values()) >= len(numbers)


def _numbers(text: str) -> list[int]:
    """Return which kills: that many, or those that are named."""
    if "," in text:
        return [int(part) for part in text.split(",") if part]
    return list(range(int(text)))


def _at(server: Server, kind: Kind) -> Kind:
    if kind.name != "endpoint":
        return kind
    return replace(kind, target=json.dumps({"kind": "endpoint", "uri": server.uri}))


def _lane(kind: Kind, numbers: list[int], home: Path, server: Server, log: Log) -> None:
    """Kill campaigns of one kind, one after the other."""
    with new_cache(in_memory()) as cache:
        lane = Lane(cache=cache, home=home / kind.name.replace(" ", "-"))
        lane.home.mkdir()
        try:
            _kill_in_turn(lane, kind, numbers, server, log)
        finally:
            lane.close()


def _kill_in_turn(lane: Lane, kind: Kind, numbers: list[int], server: Server, log: Log) -> None:
    untouched = _state_of(server)
    reference = _uninterrupted(lane, kind)
    log.say(f"{kind.name}: {reference.whole_s:.1f} s without a kill")
    for number in numbers:
        if log.over.is_set():
            break
        deaths: list[Death] = []
        try:
            _kill(lane, kind, Kill.drawn(number), reference, deaths)
            if kind.name == "endpoint":
                assert _state_of(server) == untouched
            outcome = "resumed"
        except _FAULTS as error:
            outcome = f"FAILED in {lane.home}: {error}"
            log.failures.append(f"kill {number}: {outcome}")
            lane.close()
        log.killed(number, kind, deaths, outcome)


def _state_of(server: Server) -> tuple[object, ...]:
    return server.configuration, server.databases, server.rows("SHOW work_mem")


def _uninterrupted(lane: Lane, kind: Kind) -> Reference:
    """Return a campaign's result and duration, with the programs in the cache."""
    folder = lane.home / "reference"
    kind.write(folder, "reference")
    lane.run(folder, "run", "killed.yaml", "--dry-run", "--yes")
    begun = time.monotonic()
    status, said = lane.run(folder, *_RUN)
    whole_s = time.monotonic() - begun
    assert status == 0, said
    reference = Reference(folder=folder, whole_s=whole_s)
    _require_same(folder, reference)
    return reference


def _kill(lane: Lane, kind: Kind, kill: Kill, reference: Reference, deaths: list[Death]) -> None:
    """Kill a campaign, resume it, and compare it with the one that nobody killed."""
    folder = lane.home / f"kill-{kill.number}"
    kind.write(folder, f"kill {kill.number}")
    arguments = _RUN
    for at_s in kill.instants_s(reference.whole_s):
        death = lane.die(folder, at_s, *arguments)
        deaths.append(death)
        arguments = _RESUME if death.has_campaign else _RUN
        if not death.has_campaign:
            status, said = lane.run(folder, *_RESUME)
            assert (status, "holds no campaign" in said) == (6, True), said
    status, said = lane.run(folder, *arguments)
    assert status == 0, said
    _require_kept(folder, deaths)
    _require_same(folder, reference)
    _require_nothing_left(lane, folder)
    if kill.number // len(KINDS) % _REPORTED_EVERY == 0 or deaths[-1].phase == "reporting":
        _require_same_report(lane, folder)
    shutil.rmtree(folder)  # one that failed stays


def _require_kept(folder: Path, deaths: list[Death]) -> None:
    """What was acknowledged before a kill is still the beginning of the record."""
    journal = (folder / "c" / "journal.jsonl").read_bytes()
    for death in deaths:
        assert journal.startswith(death.acknowledged)
        if death.schedule is not None:
            assert (folder / "c" / "schedule.json").read_bytes() == death.schedule


def _require_same(folder: Path, reference: Reference) -> None:
    """Plan, order, blocks, comparisons, verdicts and status are those of the reference."""
    ours, theirs = (read_campaign(place / "c") for place in (folder, reference.folder))
    assert ours.plan is not None
    assert theirs.plan is not None
    assert _frozen(ours.plan) == _frozen(theirs.plan)
    order = scheduled(schedule_in(folder), BLOCKS)
    assert order == scheduled(schedule_in(reference.folder), BLOCKS)
    assert len(schedule_in(folder).blocks) == ours.plan.stopping.max_blocks >= BLOCKS
    assert [block.index for block in ours.blocks if block.complete] == list(range(BLOCKS))
    assert _taken(ours) == order
    assert all((folder / "c" / "raw" / run.raw).exists() for run in ours.counted_runs)
    assert ours.status is Status.DECIDED
    assert _said(ours) == _said(theirs)
    assert all((folder / "c" / name).stat().st_size > 0 for name in _DERIVED)


def _frozen(plan: CampaignPlan) -> tuple[object, ...]:
    """Return what does not rest on measured times: these differ between any two campaigns."""
    stopping = replace(plan.stopping, max_blocks=0, spending_power=0.0)
    discard = (plan.discard.how, plan.discard.restarts)
    return plan.mode, plan.switch, plan.reset, plan.restore, stopping, discard


def _taken(record: CampaignRecord) -> list[tuple[object, ...]]:
    return [
        (run.block, run.visit, run.position, run.treatment, run.cell) for run in record.counted_runs
    ]


def _said(record: CampaignRecord) -> list[tuple[object, ...]]:
    """Return every comparison but its numbers, which no two campaigns share."""
    said: list[tuple[object, ...]] = []
    for one in analyse(record).comparisons:
        assert one.effect is not None
        assert one.effect.low is not None
        assert one.effect.high is not None
        assert one.effect.low < one.effect.value < one.effect.high
        said.append((one.baseline, one.treatment, one.workload, one.load, one.verdict, one.blocks))
    return said


def _require_nothing_left(lane: Lane, folder: Path) -> None:
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


def _require_same_report(lane: Lane, folder: Path) -> None:
    """`report` makes every derived file anew, to the same bytes."""
    before = {name: (folder / "c" / name).read_bytes() for name in _DERIVED}
    for name in _DERIVED:
        (folder / "c" / name).unlink()
    status, said = lane.run(folder, "report", "c")
    assert status == 0, said
    assert {name: (folder / "c" / name).read_bytes() for name in _DERIVED} == before
