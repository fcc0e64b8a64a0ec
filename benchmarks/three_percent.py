"""How long it takes to decide a 3 % effect over five loads, on this machine.

One of two equal configurations stands still for 3 % of what counts of each of its turns, so it is
3 % slower by construction and by nothing else. Campaigns until the verdict, each with a seed of its
own, fixed before; every one is printed. Exit code 10 when a verdict is wrong, or the median is
above the goal: 20 minutes where each configuration is a server that is started in each block, 10
where both are sessions of one server that runs (``--uri``).

    python benchmarks/three_percent.py --campaigns 5 --keep FILE
    python benchmarks/three_percent.py --campaigns 5 --keep FILE --uri postgresql://...
    python benchmarks/three_percent.py --first 3 --campaigns 2 --keep FILE    # goes on
    python benchmarks/three_percent.py --read FILE

Told is everything that FILE holds, also of earlier days.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steelyard.campaign.file.files import Surroundings, load_text
from steelyard.campaign.run import session
from steelyard.campaign.run.runner import Progress
from steelyard.campaign.run.taking import Seat
from steelyard.core.findings import Verdict
from steelyard.core.schedule import TurnTimes
from steelyard.core.wording import ExitCode
from steelyard.gateways.doors import system_doors
from steelyard.places.local.machine import capacity
from steelyard.tuning.profiles import MachineFacts

SEED = 20261125  # fixed before the first series
SHARE = 0.03
GOAL_MINUTES = 20.0
GOAL_MINUTES_OF_SESSIONS = 10.0
IDLE = "idle"
EXPERIMENT = """\
version: 1
name: three percent
baseline: default
design: alternating
workloads:
  - {{name: work, builtin: {builtin}, scale: 10}}
load: {{clients: [1, 2, 4, 8, 16], threads: auto, protocol: prepared}}
measure: {{run_time: 3s, machine_limits: off, max_other_load: ignore}}
stop: {{budget: {minutes}m, detect: 3%, margin: 1%}}
seed: {seed}
configurations:
  default:
{server}
  idle: {{extends: default}}
"""
STARTED = """\
    target: {kind: local, server: embedded}
    postgres: {shared_buffers: 512MB, max_wal_size: 4GB}"""
RUNNING = "    target: {{kind: existing, uri: '{uri}'}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How one campaign ended."""

    verdict: str
    minutes: float
    low: float | None
    high: float | None
    blocks: int


def let_stand_still() -> None:
    """Let turns of the configuration ``IDLE`` end early, and count them as if they did not."""
    take = Seat.take

    def idle(self: Seat, times: TurnTimes, round_number: int, place: int) -> bool:
        if self.planned.configuration != IDLE:
            return take(self, times, round_number, place)
        rest_s = SHARE * times.counted_s
        shorter = replace(times, turn_s=times.turn_s - rest_s)
        stood = take(self, shorter, round_number, place)
        self.clock.sleep(rest_s)
        last = self.ran.stretches[-1]
        if last.counted is not None:
            first, to = last.counted
            self.ran.stretches[-1] = replace(last, counted=(first, to + rest_s))
        return stood

    Seat.take = idle  # type: ignore[method-assign]


def campaign(builtin: str, minutes: int, seed: int, uri: str | None) -> Decided:
    """Run one campaign to its end, with servers of its own or sessions of the one at ``uri``."""
    doors = system_doors()
    usable = capacity(doors.host)
    with tempfile.TemporaryDirectory(prefix="three-percent-") as place:
        server = STARTED if uri is None else RUNNING.format(uri=uri)
        text = EXPERIMENT.format(builtin=builtin, minutes=minutes, seed=seed, server=server)
        loaded = load_text(
            text,
            "three-percent.yaml",
            Surroundings(
                base=Path(place),
                facts=MachineFacts(memory_bytes=usable.memory_bytes, cpus=usable.cpus),
            ),
        )
        request = session.Request(experiment=loaded.experiment, text=text, command="")
        analysis = session.new_campaign(request, Path(place) / "record", doors, Progress())
    result = next(each for each in analysis.comparisons if each.load is None)
    effect = result.effect
    return Decided(
        verdict=result.verdict.value,
        minutes=round(analysis.elapsed_s / 60.0, 2),
        low=None if effect is None else effect.low,
        high=None if effect is None else effect.high,
        blocks=analysis.blocks,
    )


def tell(found: Sequence[Mapping[str, Any]]) -> int:
    """Print what campaigns of each kind came to; return the exit code."""
    reached = True
    for builtin, restart in dict.fromkeys((each["builtin"], each["restart"]) for each in found):
        alike = [each for each in found if (each["builtin"], each["restart"]) == (builtin, restart)]
        median = statistics.median(each["minutes"] for each in alike)
        right = sum(each["verdict"] == Verdict.SLOWER.value for each in alike)
        wrong = sum(each["verdict"] == Verdict.FASTER.value for each in alike)
        how = "a restart in each block" if restart else "one server that runs"
        print(
            f"{builtin}, {how}: {right} of {len(alike)} decided, {wrong} wrong, median"
            f" {median:.1f} min"
        )
        goal = GOAL_MINUTES if restart else GOAL_MINUTES_OF_SESSIONS
        reached = reached and median <= goal and not wrong
    return 0 if reached else ExitCode.GATE


def main() -> int:
    """Run the campaigns and tell them; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--builtin", default="select-only")
    parser.add_argument("--campaigns", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first campaign")
    parser.add_argument("--minutes", type=int, default=40, help="of one campaign at most")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--uri", help="of a server that runs: nothing is started in a block")
    parser.add_argument("--read", type=Path, help="tell what is kept there, and run nothing")
    options = parser.parse_args()
    if options.read is not None:
        return tell([json.loads(each) for each in options.read.read_text().splitlines()])
    let_stand_still()
    found = []
    for number in range(options.first, options.first + options.campaigns):
        one = campaign(options.builtin, options.minutes, SEED + number, options.uri)
        line = {"seed": SEED + number, "builtin": options.builtin, "verdict": one.verdict}
        line["restart"] = options.uri is None
        line |= {"minutes": one.minutes, "low": one.low, "high": one.high, "blocks": one.blocks}
        print(json.dumps(line), flush=True)
        found.append(line)
        if options.keep is not None:
            with options.keep.open("a") as file:
                file.write(json.dumps(line) + "\n")
    if options.keep is not None:
        found = [json.loads(each) for each in options.keep.read_text().splitlines()]
    return tell(found)


if __name__ == "__main__":
    sys.exit(main())
