"""A fair study is accused of nothing: at most 5 % of simulated fair tables are, of anything.

A fair study repeats every cell six times, in blocks of random order, with one change at a time, a
control and a condition twice; it states a change only where its own interval leaves out none.
"""

import os
from collections import Counter

import numpy as np
import pytest

from steelyard.answers.claims.examination import examine, published_tables
from steelyard.answers.claims.tables import read_table
from steelyard.stats.intervals import chance_of_so_few, student_interval

TABLES = int(os.environ.get("STEELYARD_FAIR_TABLES", "200"))
REPEATS = 6
LOADS = (1, 10, 50)
HEAD = (
    "configuration,workload,clients,repeat,block,tps,latency_mean_ms,against,changed,stated_change"
    ",equal_group,control,unit,seconds"
)
# Arms with their effect on a rate: a baseline, the same again, one that is faster or not.
LEVELS = {"reads": 7000.0, "writes": 1500.0, "ping": 40000.0}


def _table(random: np.random.Generator) -> str:
    """Return a fair study with the noise between runs of METHOD's typical machine, and drift."""
    effect = float(random.choice([0.0, 0.03, 0.1]))
    lines = [HEAD]
    for workload, level in LEVELS.items():
        effects = {"base": 0.0, "again": 0.0, "tuned": 0.0 if workload == "ping" else effect}
        for clients in LOADS:
            drift = np.cumsum(random.normal(0.0, 0.02, REPEATS))
            rates = {
                name: level
                * np.sqrt(clients)
                * np.exp(own + drift + random.normal(0.0, 0.02, REPEATS))
                for name, own in effects.items()
            }
            lines += _rows(workload, clients, rates)
    return "\n".join(lines)


def _rows(workload: str, clients: int, rates: dict[str, np.ndarray]) -> list[str]:
    control = "yes" if workload == "ping" else ""
    rows = []
    for block in range(REPEATS):
        for name, own in rates.items():
            against, changed, stated = "", "", ""
            if name == "tuned":
                against, changed = "base", "shared_buffers"
                stated = _stated(own, rates["base"]) if block == 0 else ""
            group = "" if name == "tuned" else f"{workload}-{clients}"
            rate, latency = own[block], 1000.0 * clients / own[block]
            rows.append(
                f"{name},{workload},{clients},{block},{block},{rate:.0f},{latency:.2f},{against},"
                f"{changed},{stated},{group},{control},transaction,60"
            )
    return rows


def _stated(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the change of the medians where the t interval of the blocks leaves out none."""
    interval = student_interval(np.log(np.round(ours) / np.round(theirs)), 0.05)
    if interval.low <= 0.0 <= interval.high:
        return ""
    change = np.median(np.round(ours)) / np.median(np.round(theirs)) - 1.0
    return f"{100.0 * change:+.1f}%"


@pytest.fixture(scope="module")
def accused() -> list[set[str]]:
    """Return which checks object to each table."""
    random = np.random.default_rng(20261124)
    found = []
    for _ in range(TABLES):
        examined = examine(published_tables([read_table(_table(random), "fair.csv")]))
        found.append({note.check for note in examined.accusations})
    return found


@pytest.mark.slow
def test_at_most_one_fair_table_in_twenty_is_accused(accused: list[set[str]]) -> None:
    """Of anything: what was counted does not speak against 5 %, and hardly exceeds it."""
    number = sum(1 for each in accused if each)
    by_check = Counter(check for each in accused for check in each)
    assert number <= 0.05 * TABLES + 1.645 * np.sqrt(0.05 * 0.95 * TABLES), by_check
    assert chance_of_so_few(TABLES - number, of=TABLES, share=0.95) > 0.01, by_check


def test_the_same_studies_without_fairness_are_accused() -> None:
    """The bound above is not kept by silence: a control that moves is seen in most tables."""
    random = np.random.default_rng(7)
    seen = 0
    for _ in range(20):
        lines = _table(random).split("\n")
        moved = [
            _moved(line) if ",ping," in line and line.startswith("tuned") else line
            for line in lines
        ]
        examined = examine(published_tables([read_table("\n".join(moved), "fair.csv")]))
        seen += any(note.check == "control-moves" for note in examined.accusations)
    assert seen >= 18


def _moved(line: str) -> str:
    """Return a row of the control with a quarter less."""
    parts = line.split(",")
    rate = 0.75 * float(parts[5])
    parts[5], parts[6] = f"{rate:.0f}", f"{1000.0 * int(parts[2]) / rate:.2f}"
    return ",".join(parts)
