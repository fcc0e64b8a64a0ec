"""Figures of an execution, from the lines of EXPLAIN (ANALYZE, BUFFERS, SETTINGS, WAL).

The topmost node counts what all below it did. Source: PostgreSQL 18, "Using EXPLAIN" and "EXPLAIN";
recorded lines of 15 and 18.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

FAR: Final = 10.0  # a factor between rows planned and found from which on it is named
# What planning took in buffers stands below the nodes, under a heading of its own.
_PLANNING: Final = re.compile(r"(?m)^([ \t]*)Planning:\n(?:\1[ \t]+.*\n?)*")
_FIGURES: Final = {
    "execution": re.compile(r"(?m)^\s*Execution Time: (\d+(?:\.\d+)?) ms"),
    "read": re.compile(r"Buffers: shared[^\n,]*? read=(\d+)"),
    "hit": re.compile(r"Buffers: shared[^\n,]*? hit=(\d+)"),
    "temporary": re.compile(r"Buffers: [^\n]*?temp[^\n,]*?written=(\d+)"),
    "JIT": re.compile(r"(?m)^\s*JIT:\n(?:.*\n)*?\s*Timing: .*Total (\d+(?:\.\d+)?) ms"),
}
# Of sorts, hashes and what is kept; an average is of the same memory as the peak behind it.
_MEMORY: Final = re.compile(
    r"(?:(?<!Average )(?<!Peak )Memory|Peak Memory|Memory Usage|Maximum Storage): (\d+)kB"
)
_NODE: Final = re.compile(
    r"(?P<indent> *)(?:->\s+)?(?P<node>.*?)  \(cost=\S+ rows=(?P<planned>\d+) width=\d+\)"
    r" \(actual (?:time=\S+ )?rows=(?P<actual>[\d.]+) loops=[1-9]\d*\)"
)
_ENDS_EARLY: Final = re.compile(r"Limit\b|.*\b(?:Semi|Anti) Join\b|Merge .*Join\b")


class Misestimate(NamedTuple):
    """A node of a plan whose rows are far from those that the planner expected, in each loop."""

    node: str
    planned: float
    actual: float

    @property
    def factor(self) -> float:
        """Return the larger number over the smaller; 0 counts as 1."""
        low, high = sorted((max(1.0, self.planned), max(1.0, self.actual)))
        return high / low


def figures_of_plan(lines: Sequence[str]) -> dict[str, float]:
    """Return figures of a whole execution by name; without those that EXPLAIN does not print.

    Time and that of the JIT compiler in ms; pages read and hit in shared_buffers and written to
    temporary files; the memory of all sorts and hashes in kB.
    """
    text = _PLANNING.sub("", "\n".join(lines))
    matches = {name: pattern.search(text) for name, pattern in _FIGURES.items()}
    found = {name: float(match[1]) for name, match in matches.items() if match is not None}
    memory = [float(match[1]) for match in _MEMORY.finditer(text)]
    return found | ({"memory": sum(memory)} if memory else {})


def misestimate_of(lines: Sequence[str]) -> Misestimate | None:
    """Return the lowest node whose rows are more than a factor of ten from those expected.

    A wrong estimate below explains the ones above it. Nodes that may end early do not count: those
    below a limit, and in semi, anti and merge joins.
    """
    far = [each for each in _nodes(lines) if each[1].factor > FAR]
    return max(far, key=lambda each: each[0])[1] if far else None


def _nodes(lines: Sequence[str]) -> Iterator[tuple[int, Misestimate]]:
    """Yield each node that ran to its end, with its depth."""
    ended: int | None = None
    for line in lines:
        if "(cost=" not in line:
            continue
        depth = len(line) - len(line.lstrip())
        if ended is not None and depth <= ended:
            ended = None
        node = _NODE.match(line)
        if node and ended is None:
            found = Misestimate(node["node"], float(node["planned"]), float(node["actual"]))
            yield depth, found
        if ended is None and _ENDS_EARLY.match(line.strip().removeprefix("->").strip()):
            ended = depth
