"""Which of twelve reporting statements does a setting change, and by how much.

A schema of orders with their lines is generated (0.5 GB), and twelve statements read it: some
spill at the default of ``work_mem``, some change their plan with ``random_page_cost``, the planner
is wrong about one, one gains by JIT and one loses, and some are indifferent. ``steelyard try``
answers three questions about all of them, in the same minutes each, with a margin of 5 % and a
level that the twelve share. Each answer has its interval, and next to it the interval of five
executions a side by hand: in turns after one that does not count, t at the level that twelve share
by Bonferroni.

Exit code 10 if fewer than 24 of the 36 answers are verdicts, or one contradicts a longer series.

    python benchmarks/own_statements.py --uri postgresql://... --keep FILE
    python benchmarks/own_statements.py --uri postgresql://... --budget 30m --keep LONGER
    python benchmarks/own_statements.py --read FILE --against LONGER
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import conninfo

from steelyard.core.wording import ExitCode
from steelyard.stats.intervals import student_interval

SEED = 20261129
DATABASE = "own_statements"
ORDERS = 800_000  # with their lines and indexes 0.5 GB
GOAL = 24
BY_HAND = 5
QUESTIONS = {"work_mem": ("4MB", "64MB"), "random_page_cost": ("4", "1.1"), "jit": ("on", "off")}
# For a quarter of the orders its cost is above that from which on JIT compiles.
MANY = " + ".join(f"(total * {n} + status) % {n + 7}" for n in range(1, 57))
STATEMENTS = {
    # They sort or hash more than 4 MB.
    "spills": "SELECT count(*) FROM (SELECT note FROM lines WHERE id <= :lines / 40"
    " ORDER BY note OFFSET 0) s",
    "ranked": "SELECT max(place) FROM (SELECT rank() OVER (PARTITION BY customer ORDER BY total)"
    " place FROM orders WHERE id <= :orders / 7) s",
    "grouped": "SELECT count(*) FROM (SELECT product, order_id / 8, sum(price) FROM lines"
    " WHERE id <= :lines / 32 GROUP BY 1, 2) s",
    # Looked up one by one or joined whole, by the cost of a random page.
    "flips": "SELECT sum(l.price) FROM orders o JOIN lines l ON l.order_id = o.id"
    " WHERE o.placed BETWEEN 100 AND 130",
    "scattered": "SELECT sum(o.total) FROM customers c JOIN orders o ON o.customer = c.id"
    " WHERE c.id BETWEEN :orders / 600 AND :orders / 400",
    # City and region are the same: the planner expects a small part of the rows.
    "misplanned": "SELECT count(l.note) FROM customers c JOIN orders o ON o.customer = c.id"
    " JOIN lines l ON l.order_id = o.id WHERE c.city = 7 AND c.region = 7 AND o.placed < 90",
    # Many expressions over many rows; and few rows that the planner takes for a third of all.
    "compiled": "SELECT sum(:many) FROM (SELECT total, status FROM orders WHERE id <= :orders / 4"
    " OFFSET 0) s",
    "overhead": "SELECT sum(l.price * 2), max(c.name), min(l.note) FROM (SELECT id, customer"
    " FROM orders WHERE total + status < 0 OFFSET 0) o JOIN lines l ON l.order_id = o.id"
    " JOIN customers c ON c.id = o.customer WHERE l.quantity * 2 < 5",
    # From memory alone, by keys, by a date that lies with the rows, and the whole table.
    "indifferent": "SELECT sum(i % 7) FROM generate_series(1, :orders / 6) i",
    "keys": "SELECT sum(o.total) FROM generate_series(1, 4000) g"
    " JOIN orders o ON o.id = g * (:orders / 5000)",
    "recent": "SELECT status, count(*), sum(total) FROM orders WHERE placed BETWEEN 100 AND 160"
    " GROUP BY status",
    "whole": "SELECT count(*) FROM orders WHERE status = 1",
}
Answer = dict[str, Any]
VERDICTS = ("faster", "slower", "equivalent")


SCHEMA = (
    "SELECT setseed(0.5)",
    """CREATE TABLE customers AS
        SELECT i id, i % 25 city, i % 25 region, md5(i::text) name
        FROM generate_series(1, :orders / 12) i""",
    """CREATE TABLE orders AS
        SELECT i id, 1 + (random() * random() * (:orders / 12 - 1))::int customer,
            (i::bigint * 365 / :orders)::int placed, i % 6 status, (random() * 1000)::int total
        FROM generate_series(1, :orders) i""",
    """CREATE TABLE lines AS
        SELECT i id, 1 + i / 4 order_id, 1 + (random() * (:orders / 120 - 1))::int product,
            1 + i % 9 quantity, random() * 100 price, md5(i::text) note
        FROM generate_series(1, :lines) i""",
    "ALTER TABLE customers ADD PRIMARY KEY (id)",
    "ALTER TABLE orders ADD PRIMARY KEY (id)",
    "ALTER TABLE lines ADD PRIMARY KEY (id)",
    "CREATE INDEX ON orders (customer)",
    "CREATE INDEX ON orders (placed)",
    "CREATE INDEX ON lines (order_id)",
    "CREATE INDEX ON lines (product)",
    "VACUUM ANALYZE",
    "CHECKPOINT",
)


def sized(text: str, orders: int) -> str:
    """Return SQL for tables of so many orders, and four times as many lines."""
    sizes = {":orders": str(orders), ":lines": str(4 * orders), ":many": MANY}
    for mark, size in sizes.items():
        text = text.replace(mark, size)
    return text


def statements(orders: int) -> dict[str, str]:
    """Return the statements by name, for tables of so many orders."""
    return {name: sized(text, orders) for name, text in STATEMENTS.items()}


def make(uri: str, orders: int) -> str:
    """Make the database anew, and return the URI of it."""
    own = conninfo.make_conninfo(uri, dbname=DATABASE)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(own, autocommit=True) as connection:
        for text in SCHEMA:
            connection.execute(sized(text, orders))
    return own


def write(directory: Path, orders: int) -> list[str]:
    """Write each statement to a file of its own, and return the options that name them."""
    words = []
    for name, text in statements(orders).items():
        (directory / f"{name}.sql").write_text(f"{text};\n")
        words += ["--script", str(directory / f"{name}.sql")]
    return words


def asked(own: str, setting: str, options: argparse.Namespace, scripts: Sequence[str]) -> Answer:
    """Return what ``steelyard try`` says of one question, and the seconds that it took."""
    directory = Path(tempfile.mkdtemp(prefix="own-statements-")) / setting
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "steelyard", "try", "--dsn", own),
            *("--set", f"{setting}={QUESTIONS[setting][1]}", *scripts, "--clients", "1"),
            *("--budget", options.budget, "--margin", "5%", "--seed", str(SEED)),
            *("--dir", str(directory), "--yes", "--anyway", "--no-verdict", "--quiet"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"steelyard try ended with {done.returncode}:\n{done.stderr}")
    summary = json.loads((directory / "summary.json").read_text())
    pooled = next(each for each in summary["comparisons"] if "scripts" in each)
    return {
        "seconds": time.monotonic() - began,
        "headline": {key: pooled[key] for key in ("verdict", "effect_percent")},
        "is_mixed": pooled.get("is_mixed", False),
        "blocks": pooled["blocks"],
        "scripts": {Path(each["script"]).stem: each for each in pooled["scripts"]},
    }


def by_hand(own: str, setting: str, orders: int) -> Answer:
    """Return the change of each statement by five executions a side, and the seconds in all."""
    values = QUESTIONS[setting]
    coin = random.Random(SEED)  # noqa: S311 - an order
    began = time.monotonic()
    found = {}
    with psycopg.connect(own, autocommit=True) as connection:
        for name, text in statements(orders).items():
            times: dict[str, list[float]] = {value: [] for value in values}
            for turn in range(1 + BY_HAND):
                for value in coin.sample(values, 2):
                    connection.execute(f"SET {setting} = '{value}'")
                    start = time.perf_counter()
                    connection.execute(text).fetchall()
                    if turn:
                        times[value].append(time.perf_counter() - start)
            before, after = (np.log(times[value]) for value in values)
            interval = student_interval(after - before, 0.05 / len(STATEMENTS))
            ends = (interval.estimate, interval.low, interval.high)
            found[name] = [100.0 * math.expm1(end) for end in ends]
    return {"seconds": time.monotonic() - began, "scripts": found}


def measure(options: argparse.Namespace) -> Answer:
    """Return the answers to all questions, and those by hand."""
    own = make(options.uri, options.orders)
    with psycopg.connect(own, autocommit=True) as connection:
        ((size,),) = connection.execute("SELECT pg_database_size(current_database())").fetchall()
    result: Answer = {"bytes": size, "budget": options.budget, "questions": {}}
    with tempfile.TemporaryDirectory() as place:
        scripts = write(Path(place), options.orders)
        for setting in options.questions.split(","):
            result["questions"][setting] = {
                "load_before": os.getloadavg()[0],
                "tried": asked(own, setting, options, scripts),
                "by_hand": by_hand(own, setting, options.orders),
                "load_after": os.getloadavg()[0],
            }
            if options.keep:
                options.keep.write_text(json.dumps(result, indent=1))
    return result


def half(low: float | None, high: float | None) -> float | None:
    """Return the half-width of an interval, percentage points."""
    return None if low is None or high is None else (high - low) / 2.0


def shown(value: float | None) -> str:
    """Return percentage points with a digit."""
    return "-" if value is None else f"{value:.1f}"


def report(result: Mapping[str, Any], longer: Mapping[str, Any] | None) -> bool:
    """Print all answers; return whether enough are verdicts, and none is contradicted."""
    verdicts = answers = 0
    contradicted: list[str] = []
    missed: list[str] = []
    for setting, question in result["questions"].items():
        tried, hand = question["tried"], question["by_hand"]
        before, after = QUESTIONS[setting]
        print(
            f"\n{setting} {before} -> {after}: {tried['seconds']:.0f} s, {tried['blocks']} blocks,"
            f" load {question['load_before']:.1f} to {question['load_after']:.1f};"
            f" headline {'mixed' if tried['is_mixed'] else tried['headline']['verdict']};"
            f" by hand {hand['seconds']:.0f} s"
        )
        print(
            "| statement | answer | change, % | half-width | plan | ms | by hand, % | half-width |"
        )
        print("|---|---|---|---|---|---|---|---|")
        reference = (longer or {"questions": {}})["questions"].get(setting)
        for name, each in tried["scripts"].items():
            answers += 1
            verdicts += each["word"] in VERDICTS
            low, high = each["low_percent"], each["high_percent"]
            value, *ends = hand["scripts"][name]
            milliseconds = ", ".join(shown(1e3 * it) for it in each["medians_s"] if it)
            plan = {True: "changed", False: "same", None: "-"}[each["plan_differs"]]
            print(
                f"| {name} | {each['word']} | {shown(each['change_percent'])}"
                f" [{shown(low)}, {shown(high)}] | {shown(half(low, high))} | {plan} |"
                f" {milliseconds} | {shown(value)} | {shown(half(*ends))} |"
            )
            if reference is not None:
                truth = reference["tried"]["scripts"][name]
                place = f"{setting}, {name}"
                if is_contrary(each, truth):
                    contradicted.append(place)
                if is_large(truth) and each["word"] not in VERDICTS:
                    missed.append(place)
    print(f"\n{verdicts} of {answers} answers are verdicts; the goal is {GOAL} of 36.")
    if longer is not None:
        print(f"Contradicted by the longer series: {', '.join(contradicted) or 'none'}.")
        print(f"Moved by more than 15 % and without a verdict: {', '.join(missed) or 'none'}.")
    return verdicts >= GOAL and not contradicted and not missed


def is_contrary(answer: Mapping[str, Any], truth: Mapping[str, Any]) -> bool:
    """Return whether a longer series excludes the sign of a verdict."""
    if truth["low_percent"] is None:
        return False
    if answer["word"] == "faster":
        return bool(truth["low_percent"] > 0.0)
    return bool(answer["word"] == "slower" and truth["high_percent"] < 0.0)


def is_large(truth: Mapping[str, Any]) -> bool:
    """Return whether a longer series has all of its interval beyond 15 %."""
    low, high = truth["low_percent"], truth["high_percent"]
    return low is not None and (low > 15.0 or high < -15.0)


def main() -> int:
    """Measure or read, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uri", help="a server of one's own; the database is made anew")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--questions", default=",".join(QUESTIONS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    if options.read is None and options.uri is None:
        parser.error("--uri or --read is needed")
    result = json.loads(options.read.read_text()) if options.read else measure(options)
    longer = json.loads(options.against.read_text()) if options.against else None
    return 0 if report(result, longer) else ExitCode.GATE


if __name__ == "__main__":
    sys.exit(main())
