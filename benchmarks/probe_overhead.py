"""What the probes cost: runs with them against runs without, on one server.

Usage: python benchmarks/probe_overhead.py [--pairs N] [--seconds S] [--clients C] [--scale F]
                                           [--builtin B] [--seed X]

Short runs of the same cell in pairs, one with all probes that a campaign has and one with none; a
coin drawn from the seed decides which of a pair comes first. The default load is the hardest for
them: it fills all CPUs and waits for nothing.

The cost of the probes is the CPU time of their own threads, by the kernel's account of each thread,
and that of the server's session that answers them. Exit code 10 when it is more than 1 % of the CPU
time that server, pgbench and Steelyard used during these runs; what else runs on the machine is not
in that sum and hides nothing. Printed, too: Steelyard's CPU time per run in both arms, whose
difference has what the probes cost outside their threads, and the ratio of the rates with its
interval.

Needs no privilege; run by root, server and pgbench belong to an unprivileged account.
"""

import argparse
import sys
import time
from dataclasses import dataclass, field, replace

import numpy as np
from overhead import LEVEL, REAPED_S, Rig, Used, rate_of, rig, used_now

from steelyard.campaign.evidence.watch import Place
from steelyard.campaign.run.bench import Bench
from steelyard.core.measurement import Evidence, Run
from steelyard.core.schedule import PlannedRun
from steelyard.core.wording import ExitCode, MeasurementError, SteelyardError
from steelyard.stats.intervals import block_interval

GATE = 0.01
NOTHING = Used(own=0.0, generator=0.0, server=0.0)
WATCHED, UNWATCHED = "with probes", "without"


class BenchAtWill(Bench):
    """A bench whose runs are watched or not."""

    watching = True

    def place(self, planned: PlannedRun) -> Place | None:
        """Return what probes of a campaign see, or nothing."""
        return super().place(planned) if self.watching else None


@dataclass(slots=True, kw_only=True)
class Costs:
    """Sums over all pairs.

    Attributes:
        contrasts: Log ratio of the rates, with probes to without, of each pair.
        own_s: CPU time of the probes' threads.
        server_s: CPU time of the sessions that answered them.
        watched: All CPU time used during the runs with probes.
        unwatched: The same without.
    """

    contrasts: list[float] = field(default_factory=list)
    own_s: float = 0.0
    server_s: float = 0.0
    watched: Used = NOTHING
    unwatched: Used = NOTHING

    def add(self, run: Run, used: Used) -> None:
        """Count a run.

        Raises:
            MeasurementError: It was to be watched, and its probes did not tell what they cost.
        """
        if run.evidence is None:
            self.unwatched += used
            return
        own_s, server_s = told_cost(run.evidence)
        self.own_s, self.server_s = self.own_s + own_s, self.server_s + server_s
        self.watched += used

    @property
    def share(self) -> float:
        """Return the probes' part of all CPU time of the runs that they watched."""
        return (self.own_s + self.server_s) / self.watched.total


def told_cost(evidence: Evidence) -> tuple[float, float]:
    """Return the CPU seconds of the probes' threads and of the server's sessions for them.

    Raises:
        MeasurementError: One of them is not known: a sum without it would flatter.
    """
    cost = evidence.cost
    if cost is None or cost.server_cpu_s is None:
        reasons = "; ".join(f"{each.subject}: {each.reason}" for each in evidence.absent)
        raise MeasurementError(f"the probes did not tell what they cost ({reasons})")
    return cost.own_cpu_s, cost.server_cpu_s


def used_by(on: Rig, number: int, postmaster: int) -> tuple[Run, Used]:
    """Make a run; return it with all CPU time that was used meanwhile."""
    time.sleep(REAPED_S)
    before = used_now(postmaster)
    run = on.driven(number)
    own = time.process_time()  # the rest is complete when the server has reaped
    time.sleep(REAPED_S)
    return run, replace(used_now(postmaster), own=own) - before


def measure(on: Rig, bench: BenchAtWill, pairs: int, seed: int) -> Costs:
    """Return the costs and rates of all pairs."""
    coin = np.random.default_rng(seed)
    postmaster = on.postmaster()
    on.driven(2 * pairs)  # warms up the server for both arms
    costs = Costs()
    for number in range(pairs):
        rates: dict[str, float] = {}
        for place, arm in enumerate(coin.permutation([WATCHED, UNWATCHED])):
            bench.watching = arm == WATCHED
            run, used = used_by(on, 2 * number + place, postmaster)
            rates[arm] = rate_of(run)
            costs.add(run, used)
        costs.contrasts.append(float(np.log(rates[WATCHED] / rates[UNWATCHED])))
    return costs


def report(costs: Costs, seconds: int) -> int:
    """Print what was found; return the exit code of the gate."""
    interval = block_interval(np.asarray(costs.contrasts), LEVEL)
    ratio, low, high = (
        100 * float(np.exp(value)) for value in (interval.estimate, interval.low, interval.high)
    )
    runs, passed = len(costs.contrasts), costs.share <= GATE
    watched = costs.watched
    print(f"pairs of {seconds}-s runs         {runs}")
    print(f"CPU of probes' threads     {1e3 * costs.own_s / runs:.1f} ms a run")
    print(f"CPU of their sessions      {1e3 * costs.server_s / runs:.1f} ms a run")
    print(f"CPU of server              {watched.server / runs:.2f} s a run")
    print(f"CPU of pgbench             {watched.generator / runs:.2f} s a run")
    print(
        f"CPU of Steelyard           {1e3 * watched.own / runs:.1f} ms a run;"
        f" {1e3 * costs.unwatched.own / runs:.1f} ms without probes"
    )
    print(
        f"probes' share              {costs.share:.2%} (at most {GATE:.0%}):"
        f" {'passed' if passed else 'FAILED'}"
    )
    print(f"TPS with / without probes  {ratio:.1f} % [{low:.1f} %, {high:.1f} %] (95 %)")
    return ExitCode.DONE if passed else ExitCode.GATE


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)  # the least with an interval of 95 %
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--builtin", default="select-only")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error("two pairs are the least that have an interval")
    try:
        with rig(options, BenchAtWill) as on:
            assert isinstance(on.bench, BenchAtWill)
            costs = measure(on, on.bench, options.pairs, options.seed)
    except SteelyardError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return report(costs, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
