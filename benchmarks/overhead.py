"""What Steelyard itself costs while it measures: CPU time, and transactions per second.

Two arms on one server, back to back in pairs whose order a coin decides. *Driven*: a run as a
campaign takes it, with one-second progress, parsing, judging, the compressed raw output and the
fsync'd journal entry. *Bare*: pgbench with the same client, threads, protocol, script and time, as
typed by hand. Exit code 10 when Steelyard's own CPU time is more than 1 % of all CPU time used
during the driven runs (Steelyard, pgbench and the server).

Needs no privilege; run by root, server and pgbench belong to an unprivileged account.
"""

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psycopg

from steelyard.campaign.cleanup import leftovers
from steelyard.campaign.evidence.run_rules import validity_of
from steelyard.campaign.file.files import Surroundings, load_text
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.taking import BenchTaker
from steelyard.core.experiment import Experiment
from steelyard.core.measurement import Run
from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import CellKey, PlannedRun
from steelyard.core.wording import ExitCode, MeasurementError, SteelyardError
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.files import cache_directory, free_bytes
from steelyard.places.local.machine import capacity
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import RunFinished, Started
from steelyard.stats.intervals import block_interval
from steelyard.systems.protocol import RunRequest
from steelyard.targets.assembly import Assembly, assemble
from steelyard.tuning.profiles import MachineFacts

GATE = 0.01
LEVEL = 0.05
REAPED_S = 0.3  # until the server has reaped the backends of a run, whose time counts then
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
SERVER = "server"
EXPERIMENT = """\
version: 1
name: overhead
design: single-pass
workloads:
  - {{name: work, builtin: {builtin}, scale: {scale}}}
load: {{clients: {clients}, threads: auto, protocol: prepared}}
measure: {{run_time: {seconds}s, discard_start: 0s, warm_up: 0s}}
configurations:
  server:
    target: {{kind: local, server: embedded}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """CPU seconds, user and system."""

    own: float
    generator: float
    server: float

    def __sub__(self, other: "Used") -> "Used":
        return Used(
            own=self.own - other.own,
            generator=self.generator - other.generator,
            server=self.server - other.server,
        )

    def __add__(self, other: "Used") -> "Used":
        return Used(
            own=self.own + other.own,
            generator=self.generator + other.generator,
            server=self.server + other.server,
        )

    @property
    def total(self) -> float:
        """Return all of it."""
        return self.own + self.generator + self.server

    @property
    def share(self) -> float:
        """Return Steelyard's part of all of it."""
        return self.own / self.total


def used_now(postmaster: int) -> Used:
    """Return the CPU time used so far by this process, its ended children, and the server."""
    server = server_cpu_s(postmaster)
    times = os.times()
    return Used(
        own=time.process_time(),  # finer than the ticks of os.times
        generator=times.children_user + times.children_system,
        server=server,
    )


def server_cpu_s(postmaster: int) -> float:
    """Return the time of the postmaster, its living children, and those it has reaped."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or not (fields := stat_fields(int(entry.name))):
            continue
        own, reaped = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        if int(entry.name) == postmaster:
            total += own + reaped
        elif int(fields[1]) == postmaster:
            total += own
    return total * TICK_S


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, or none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A server with everything that runs on it."""

    experiment: Experiment
    assembly: Assembly
    bench: Bench
    directory: CampaignDirectory
    doors: Doors

    @property
    def planned(self) -> PlannedRun:
        """Return the one run that both arms make."""
        cell = CellKey(workload="work", load=self.experiment.loads[0])
        return PlannedRun(configuration=SERVER, cell=cell)

    def postmaster(self) -> int:
        """Return the process id of the server: the parent of every backend."""
        address = self.bench.platform(SERVER).address
        with psycopg.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password or None,
            dbname="postgres",
        ) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            return int(stat_fields(row[0])[1])

    def driven(self, number: int) -> Run:
        """Make a run as a campaign does, to the journal entry on disk."""
        taker = BenchTaker(engine=self.assembly.engine, bench=self.bench, clock=self.doors.clock)
        measure = self.experiment.measure
        taken = taker.take(self.planned, seconds=measure.run_time_s, ramp_s=measure.discard_start_s)
        run = Run(
            block=number,
            attempt=0,
            start=0,
            position=0,
            configuration=SERVER,
            cell=self.planned.cell,
            started_at=taken.wall,
            since_start_s=0.0,
            measurement=taken.measurement,
            validity=validity_of(taken.findings),
            findings=taken.findings,
            raw=self.directory.write_raw(f"{number:04d}.txt", taken.output),
            evidence=taken.evidence,
        )
        self.directory.journal.append(RunFinished(run=run))
        return run

    def bare_command(self) -> Command:
        """Return the command line without what Steelyard adds to it for itself."""
        platform, engine = self.bench.platform(SERVER), self.assembly.engine
        target = self.experiment.configuration(SERVER).target
        request = RunRequest(
            workload=self.experiment.workload("work"),
            load=self.experiment.loads[0],
            protocol=self.experiment.protocol,
            seconds=round(self.experiment.measure.run_time_s),
            address=engine.generator_address(platform.address, target.connection),
            flags=(),
            scripts=(),
        )
        (command,) = engine.run_commands(request)
        argv = tuple(word for word in command.argv if not word.startswith("--progress"))
        return replace(command, argv=argv)

    def bare(self) -> float:
        """Return the rate of pgbench as typed by hand, from its own summary."""
        platform = self.bench.platform(SERVER)
        with platform.begin_together([self.bare_command()], timeout_s=600.0) as running:
            (completed,) = running.completed()
        return summary_tps(completed)


def rate_of(run: Run) -> float:
    """Return the transactions per second of a driven run."""
    if run.measurement is None:
        raise MeasurementError("; ".join(finding.message for finding in run.findings))
    return run.measurement.tps


def summary_tps(completed: Completed) -> float:
    """Return the transactions per second that pgbench prints, connection time excluded."""
    for line in completed.stdout.splitlines():
        if line.startswith("tps = "):
            return float(line.split()[2])
    raise MeasurementError(f"pgbench printed no rate: {completed.tail(2)}")


@contextmanager
def rig(options: argparse.Namespace, make_bench: type[Bench] = Bench) -> Iterator[Rig]:
    """Start a server; stop it and remove what was made at the end."""
    doors = system_doors()
    usable = capacity(doors.host)
    facts = MachineFacts(
        cpus=usable.cpus,
        memory_bytes=usable.memory_bytes,
        free_disk_bytes=free_bytes(cache_directory()),
    )
    text = EXPERIMENT.format(**vars(options))
    surroundings = Surroundings(base=Path.cwd(), facts=facts, seed=options.seed)
    experiment = load_text(text, "overhead", surroundings).experiment
    campaign_id = f"overhead-{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory(prefix="steelyard-overhead-") as home:
        path = Path(home) / "campaign"
        directory = CampaignDirectory.create(path, doors.clock, experiment_text=text)
        started = Started(
            campaign_id=campaign_id, experiment=experiment, command="overhead", version="0"
        )
        directory.journal.append(started)
        registry.register(campaign_id, path)
        noted = leftovers.JournalLedger(directory.journal, campaign_id)
        assembly = assemble(experiment, doors, campaign_id=campaign_id, ledger=noted)
        bench = make_bench(experiment, assembly, doors.clock, doors.host)
        try:
            bench.prepare(lambda what: print(f"{what} ...", flush=True))
            bench.activate(SERVER, restore=True, means="copy")
            yield Rig(
                experiment=experiment,
                assembly=assembly,
                bench=bench,
                directory=directory,
                doors=doors,
            )
        finally:
            bench.destroy()
            directory.close()
            registry.unregister(campaign_id)


def measure(on: Rig, pairs: int, seed: int) -> tuple[Used, np.ndarray]:
    """Return the CPU time of all driven runs, and the log ratio of the rates of each pair."""
    coin = np.random.default_rng(seed)
    postmaster = on.postmaster()
    on.bare()  # warms up the server for both arms
    spent, contrasts = Used(own=0.0, generator=0.0, server=0.0), []
    for number in range(pairs):
        rates: dict[str, float] = {}
        for arm in coin.permutation(["driven", "bare"]):
            if arm == "bare":
                rates["bare"] = on.bare()
                continue
            time.sleep(REAPED_S)
            before = used_now(postmaster)
            rates["driven"] = rate_of(on.driven(number))
            own = time.process_time()  # the rest is complete when the server has reaped
            time.sleep(REAPED_S)
            spent += replace(used_now(postmaster), own=own) - before
        contrasts.append(float(np.log(rates["driven"] / rates["bare"])))
    return spent, np.asarray(contrasts)


def report(spent: Used, contrasts: np.ndarray, seconds: int) -> int:
    """Print what was found; return the exit code of the gate."""
    interval = block_interval(contrasts, LEVEL)
    ratio, low, high = (
        100 * float(np.exp(value)) for value in (interval.estimate, interval.low, interval.high)
    )
    passed = spent.share <= GATE
    print(f"pairs of {seconds}-s runs     {len(contrasts)}")
    print(f"CPU of Steelyard       {spent.own:.2f} s")
    print(f"CPU of pgbench         {spent.generator:.2f} s")
    print(f"CPU of the server      {spent.server:.2f} s")
    print(f"Steelyard's share      {spent.share:.2%} (at most {GATE:.0%}): {_word(passed)}")
    print(f"TPS driven / bare      {ratio:.1f} % [{low:.1f} %, {high:.1f} %] (95 %)")
    return ExitCode.DONE if passed else ExitCode.GATE


def _word(passed: bool) -> str:  # noqa: FBT001 - a word for a truth value
    return "passed" if passed else "FAILED"


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
        with rig(options) as on:
            spent, contrasts = measure(on, options.pairs, options.seed)
    except SteelyardError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return report(spent, contrasts, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
