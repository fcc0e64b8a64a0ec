"""The interval of each statement, beside that of five executions a side by hand, in turns.

A server of its own has a table, and four statements whose times differ by a factor of about 8; they
are run with `work_mem` of 4 MB and of 64 MB. By hand means psql: in one session each statement five
times a side, the sides by turns, and Welch's t of the logarithms of the times. `steelyard try` gets
as many minutes as are asked for; in the same time that the executions by hand took it has fewer
blocks, whose interval (t over blocks, of the ratio of a block's medians) is told beside. Both come
in rounds: hand, Steelyard, hand, so that a machine that changes meets both.

    python benchmarks/statements_by_hand.py [--minutes 5] [--seed 20261129] [--keep DIRECTORY]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from steelyard.gateways.process import Processes
from steelyard.places.local.server import staged
from steelyard.record.directory import read_campaign
from steelyard.systems.postgres.server import find_installation, wheel_parts
from support.endpoint import Server, started

SETTING, BEFORE, AFTER = "work_mem", "4MB", "64MB"
EXECUTIONS = 5  # a side, by hand
STATEMENTS = {
    "count": "SELECT count(*) FROM facts WHERE kind = 3",
    "groups": "SELECT count(*) FROM (SELECT value FROM facts GROUP BY value) g",
    "join": "SELECT count(*) FROM facts a JOIN facts b ON a.id = b.id AND b.kind < 5",
    "sort": "SELECT count(*) FROM (SELECT * FROM facts ORDER BY value, id OFFSET 0) s",
}
TABLE = (
    "CREATE TABLE facts AS SELECT g id, g % 10 kind, md5((g % 100000)::text) value"
    " FROM generate_series(1, {rows}) g"
)
ROWS = 200_000
Logs = defaultdict[str, dict[int, dict[str, float]]]  # medians by script, block and configuration


class Told(NamedTuple):
    """A change of a statement's time, with its 95 % interval, in ln."""

    change: float
    half: float

    def __str__(self) -> str:
        low, middle, high = (np.expm1(self.change + each * self.half) for each in (-1, 0, 1))
        return f"{100 * middle:+6.1f} % [{100 * low:+6.1f}, {100 * high:+6.1f}]"


@contextmanager
def server() -> Iterator[Server]:
    """Start a server with the table."""
    account = "nobody" if os.geteuid() == 0 else None
    processes = Processes()
    found = find_installation("embedded", processes)
    place = staged(
        found.programs, wheel_parts(found), "statements", account=account, processes=processes
    )
    with started(place) as made:
        made.do(
            f"ALTER SYSTEM SET {SETTING} = '{BEFORE}'", "ALTER SYSTEM SET shared_buffers='256MB'"
        )
        made.do("SELECT pg_reload_conf()", "CREATE DATABASE facts")
        made.do(TABLE.format(rows=ROWS), "VACUUM ANALYZE facts", database="facts")
        yield made


def by_hand(made: Server) -> tuple[dict[str, Told], float]:
    """Return what five executions a side tell of each statement, and how long they took."""
    lines = ["\\timing on"]
    for statement in STATEMENTS.values():
        for _ in range(EXECUTIONS):
            lines += [f"SET {SETTING}='{BEFORE}';", f"{statement};"]
            lines += [f"SET {SETTING}='{AFTER}';", f"{statement};"]
    begun = time.monotonic()
    argv = [str(made.programs / "psql"), "-XAtq", made.uri.replace("/postgres?", "/facts?")]
    done = subprocess.run(argv, input="\n".join(lines), text=True, capture_output=True, check=True)
    took_s = time.monotonic() - begun
    told = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Time:")]
    times = np.log(np.array(told[1::2]).reshape(len(STATEMENTS), EXECUTIONS, 2))
    return {
        name: welch(of[:, 0], of[:, 1]) for name, of in zip(STATEMENTS, times, strict=True)
    }, took_s


def welch(before: "np.ndarray[tuple[int], np.dtype[np.float64]]", after: object) -> Told:
    """Return the difference of means with Welch's interval."""
    found = stats.ttest_ind(np.asarray(after), before, equal_var=False).confidence_interval()
    return Told((found.low + found.high) / 2, (found.high - found.low) / 2)


def by_steelyard(
    made: Server, folder: Path, minutes: float, seed: int, alike_s: float
) -> tuple[dict[str, Told], dict[str, Told], int]:
    """Return what a campaign tells of each statement, what its first blocks do, and its blocks."""
    for name, statement in STATEMENTS.items():
        (folder / f"{name}.sql").write_text(f"{statement};\n")
    words = [sys.executable, "-m", "steelyard", "try"]
    words += ["--dsn", made.uri.replace("/postgres?", "/facts?"), "--set", f"{SETTING}={AFTER}"]
    words += [word for name in STATEMENTS for word in ("--script", f"{name}.sql")]
    words += ["--clients", "1", "--budget", f"{minutes}m", "--seed", str(seed), "--margin", "0.1%"]
    words += ["--dir", str(folder / "c"), "--yes", "--no-verdict", "--quiet"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    record = read_campaign(folder / "c")
    whole = [block.lasted_s or 0.0 for block in record.blocks if block.complete]
    logs = Logs(lambda: defaultdict(dict))
    for run in record.counted_runs:
        for each in run.latency.scripts if run.latency is not None else ():
            logs[each.script][run.block][run.configuration] = median(each.executions_s)
    alike = int(np.searchsorted(np.cumsum(whole), alike_s)) + 1
    return over_blocks(logs, len(whole)), over_blocks(logs, alike), len(whole)


def over_blocks(logs: Logs, blocks: int) -> dict[str, Told]:
    """Return the t interval over the first so many blocks, at least two."""
    found = {}
    for script, of_blocks in logs.items():
        sides = [of_blocks[index] for index in sorted(of_blocks)[: max(blocks, 2)]]
        ratios = np.log([side["changed"] / side["now"] for side in sides])
        half = stats.t.ppf(0.975, len(ratios) - 1) * ratios.std(ddof=1) / np.sqrt(len(ratios))
        found[script.removesuffix(".sql")] = Told(float(ratios.mean()), float(half))
    return found


def table(columns: Sequence[tuple[str, Mapping[str, Told]]]) -> None:
    """Print a line for each statement."""
    print("statement " + "".join(f"{name:>31}" for name, _ in columns))
    for name in STATEMENTS:
        print(f"{name:10}" + "".join(f"{told[name]!s:>31}" for _, told in columns))
    print(
        "half-width"
        + "".join(
            f"{100 * median(each.half for each in told.values()):29.1f} %" for _, told in columns
        )
    )


def main() -> None:
    """Run both by turns and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    with server() as made, tempfile.TemporaryDirectory() as folder:
        first, took_s = by_hand(made)
        whole, alike, blocks = by_steelyard(made, Path(folder), asked.minutes, asked.seed, took_s)
        again, _ = by_hand(made)
        if asked.keep is not None:
            shutil.copytree(Path(folder) / "c", asked.keep)
    print(f"{SETTING} {BEFORE} -> {AFTER}: change of the time of each statement")
    table(
        [
            (f"by hand, {took_s:.0f} s", first),
            (f"by hand again, {took_s:.0f} s", again),
            (f"Steelyard, {took_s:.0f} s of blocks", alike),
            (f"Steelyard, {asked.minutes:g} min, {blocks} blocks", whole),
        ]
    )


if __name__ == "__main__":
    main()
