"""What the probes of runs in turns cost: they look into half of the turns, drawn by chance.

Usage: python benchmarks/turn_probe_overhead.py [--minutes M] [--clients C] [--scale F]
                                                [--builtin B] [--seed X]

A campaign of two equal configurations in turns. What is read at the edges of turns takes nothing
from a run, for everything stands still then; what is sampled inside turns does, and of every two
turns of a run one is left alone, drawn by the seed. So both kinds have the same start of the same
server, which is what varies most. Told are the ratio of the rates with its interval over blocks,
and what samples use of the CPUs by the kernel's account of their threads and sessions, had all
turns been looked into. Exit code 10 when the interval of the ratio lies wholly below 99 %, or when
that is more than 1 % of the CPU time of server and generator.

Needs no privilege; run by root, servers and pgbench belong to an unprivileged account.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from overhead import LEVEL

from steelyard.campaign.evidence.server import ServerProbe
from steelyard.campaign.evidence.watch import Watch
from steelyard.cli.main import cli
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Quantity
from steelyard.core.schedule import TurnTimes
from steelyard.core.wording import ExitCode, MeasurementError, SteelyardError
from steelyard.record.directory import read_campaign
from steelyard.stats.intervals import block_interval

GATE = 0.01
_MOST_TURNS = 10_000  # of a run
_HALVES = 2  # they look into one of them
EXPERIMENT = """\
version: 1
name: what probes cost in turns
baseline: one
design: alternating
workloads:
  - {{name: work, builtin: {builtin}, scale: {scale}}}
load: {{clients: {clients}, threads: auto, protocol: prepared}}
measure: {{run_time: 4s, machine_limits: off, max_other_load: ignore}}
stop: {{budget: {minutes}m, width: 0.01%}}
seed: {seed}
configurations:
  one:
    target: {{kind: local, server: embedded}}
  other: {{extends: one}}
"""


def drawn(seed: int) -> list[bool]:
    """Return into which turns of every run they look: one of every two, round by round."""
    first = np.random.default_rng(seed).random(_MOST_TURNS // 2) < 0.5
    return [bool(each) for pair in zip(first, ~first, strict=True) for each in pair]


def look_into(chosen: list[bool]) -> None:
    """Let probes look into these turns of each run alone."""
    begin, settle = Watch.begin_turn, Watch.settle_turn
    taken: Counter[int] = Counter()

    def begin_some(self: Watch, times: TurnTimes | None) -> None:
        taken[id(self)] += 1
        if chosen[taken[id(self)] - 1]:
            begin(self, times)

    def settle_some(self: Watch) -> None:
        if chosen[taken[id(self)] - 1]:
            settle(self)

    def begin_anew(self: Watch) -> None:
        taken[id(self)] = 0  # an id is given again
        first(self)

    first = Watch.begin
    Watch.begin = begin_anew  # type: ignore[method-assign]
    Watch.begin_turn = begin_some  # type: ignore[method-assign]
    Watch.settle_turn = settle_some  # type: ignore[method-assign]


def contrasts(record: CampaignRecord, chosen: list[bool]) -> list[float]:
    """Return ln of the rate with probes over that without, of each block."""
    by_block: dict[int, list[float]] = {}
    for run in record.counted_runs:
        rates = []
        for looked in (True, False):
            turns = [turn for turn in run.turns if chosen[turn.round] is looked]
            done, seconds = sum(t.transactions for t in turns), sum(t.seconds for t in turns)
            rates.append(np.log(max(done, 1) / seconds))
        by_block.setdefault(run.block, []).append(float(rates[0] - rates[1]))
    return [float(np.mean(values)) for values in by_block.values()]


@dataclass(slots=True, kw_only=True)
class Account:
    """CPU seconds of samples inside of turns: of their thread, and of the sessions that answer."""

    own_s: float = 0.0
    server_s: float = 0.0
    samples: int = 0

    def keep(self) -> None:
        """Count every sample from now on."""
        sample = ServerProbe.sample

        def counted(probe: ServerProbe, at_s: float) -> None:
            server_s, own_s = _answered_s(probe), time.thread_time()
            sample(probe, at_s)
            self.own_s += time.thread_time() - own_s
            self.server_s += _answered_s(probe) - server_s
            self.samples += 1

        ServerProbe.sample = counted  # type: ignore[method-assign, assignment]


def _answered_s(probe: ServerProbe) -> float:
    """Return what a probe's session has used so far."""
    reader = probe._reader  # noqa: SLF001 - for the account alone
    used = None if reader is None else probe._server_cpu_s(reader)  # noqa: SLF001
    if used is None:
        raise MeasurementError("the kernel does not tell what a session uses")
    return used


def work_s(record: CampaignRecord) -> float:
    """Return the CPU seconds of servers and generators."""
    quantities = (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S)
    seen = [run.evidence for run in record.counted_runs if run.evidence is not None]
    return sum(each.totals.get(quantity, 0.0) for each in seen for quantity in quantities)


def report(record: CampaignRecord, chosen: list[bool], account: Account) -> int:
    """Print what was found; return the exit code of the gate."""
    ratios = np.asarray(contrasts(record, chosen))
    interval = block_interval(ratios, LEVEL)
    ratio, low, high = (
        100.0 * float(np.exp(value)) for value in (interval.estimate, interval.low, interval.high)
    )
    samples = max(account.samples, 1)
    share = _HALVES * (account.own_s + account.server_s) / work_s(record)
    failed = share > GATE or interval.high < np.log1p(-GATE)
    print(f"blocks                     {len(ratios)}")
    print(f"CPU of a sample here       {1e3 * account.own_s / samples:.2f} ms")
    print(f"CPU of its session         {1e3 * account.server_s / samples:.2f} ms")
    print(f"samples' share             {share:.2%} (at most {GATE:.0%})")
    print(f"TPS with / without samples {ratio:.2f} % [{low:.2f} %, {high:.2f} %] (95 %)")
    return ExitCode.GATE if failed else ExitCode.DONE


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=6)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--builtin", default="select-only")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = drawn(options.seed)
    look_into(chosen)
    account = Account()
    account.keep()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "file.yaml").write_text(EXPERIMENT.format(**vars(options)))
        command = ["run", str(place / "file.yaml"), "--dir", str(place / "c")]
        try:
            cli.main(command, standalone_mode=False)
        except SteelyardError as error:
            print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
            return error.exit_code
        return report(read_campaign(place / "c"), chosen, account)


if __name__ == "__main__":
    sys.exit(main())
