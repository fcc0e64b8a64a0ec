"""What was measured on both sides of a result, and where: the lines below a verdict."""

import re
from collections.abc import Iterator

from steelyard.answers.results import CampaignAnalysis, CellSummary, Comparison
from steelyard.answers.wording import cell_name
from steelyard.core.experiment import RATE
from steelyard.core.schedule import Load
from steelyard.report.document import enumeration, milliseconds, rate

_TAIL = 0.99
_WHY_OTHERWISE = (
    f"The {RATE} are medians over all runs, and effects are ratios within blocks: where the machine"
    " moved between blocks they differ, even in sign."
)
_MOST_LOADS = 2  # the least and the largest load say how the levels go


def level_lines(analysis: CampaignAnalysis, result: Comparison) -> tuple[str, ...]:
    """Return rate and 99th percentile before and after, of the least and the largest load.

    Medians over runs: they describe both sides, and the effect is not computed from them.
    """
    loads = [load for load in analysis.experiment.closed_loads if _sides(analysis, result, load)]
    ends = loads if len(loads) <= _MOST_LOADS else [loads[0], loads[-1]]
    return tuple(_line(analysis, result, load) for load in ends)


def contradiction(analysis: CampaignAnalysis) -> str:
    """Return why rates and an effect point different ways, where they do; else nothing."""
    return _WHY_OTHERWISE if any(_is_contrary(analysis, each) for each in analysis.results) else ""


def _is_contrary(analysis: CampaignAnalysis, result: Comparison) -> bool:
    loads = analysis.experiment.closed_loads
    sides = _sides(analysis, result, loads[0]) if len(loads) == 1 else ()
    if not sides or result.effect is None:
        return False
    before, after = (side.tps.value for side in sides)
    return (after - before) * result.effect.value < 0.0


def _line(analysis: CampaignAnalysis, result: Comparison, load: Load) -> str:
    sides = _sides(analysis, result, load)
    parts = [f"{_way(*(rate(side.tps.value) for side in sides))} {RATE}"]
    tails = [_tail(analysis, side) for side in sides]
    if None not in tails:
        parts.append(f"p99 {_way(*map(milliseconds, tails))}\N{NO-BREAK SPACE}ms")
    return f"{cell_name(analysis.experiment, load)}: {', '.join(parts)}"


def _way(*texts: str) -> str:
    return " \N{RIGHTWARDS ARROW} ".join(texts)


def _sides(analysis: CampaignAnalysis, result: Comparison, load: Load) -> tuple[CellSummary, ...]:
    """Return the cells of baseline and configuration; nothing where one was not measured."""
    found = {
        cell.configuration: cell
        for cell in analysis.cells
        if cell.cell.workload == result.workload and cell.cell.load == load and cell.runs
    }
    if result.baseline not in found or result.configuration not in found:
        return ()
    return found[result.baseline], found[result.configuration]


def _tail(analysis: CampaignAnalysis, cell: CellSummary) -> float | None:
    levels = (
        None if analysis.latency is None else analysis.latency.of(cell.configuration, cell.cell)
    )
    found = None if levels is None else levels.at(_TAIL)
    return None if found is None or found.value_s is None else found.value_s.value


def place_line(analysis: CampaignAnalysis) -> str:
    """Return servers and machine in a line; empty where no facts were gathered."""
    return " · ".join(_places(analysis))


def _places(analysis: CampaignAnalysis) -> Iterator[str]:
    servers = (f.value for f in analysis.facts if f.name.startswith("server of "))
    if versions := tuple(dict.fromkeys(servers)):
        yield enumeration(versions)
    machine = {fact.name: fact.value for fact in analysis.facts if fact.subject == "machine"}
    cpus = re.match(r"\d+", machine.get("cpus", ""))
    if cpus is not None:
        model = machine.get("cpu model", "")
        yield f"{cpus[0]} CPU{'s' * (cpus[0] != '1')}{f' ({model})' if model else ''}"
    if "memory" in machine:
        yield machine["memory"].partition(" usable")[0]
    if machine.get("virtualisation", "") not in ("", "not visible", "none"):
        yield machine["virtualisation"]
