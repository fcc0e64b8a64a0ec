"""The words of a report: verdicts, how a campaign ended, what a load is called."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from steelyard.answers.result import compute as decision
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.findings import Verdict
from steelyard.core.plan import Status
from steelyard.core.schedule import Load
from steelyard.core.units import format_duration, format_percent
from steelyard.report.document import (
    CONFIDENCE,
    Tone,
    bounds,
    count,
    effect_interval,
    effect_value,
    enumeration,
    share,
)
from steelyard.stats.spending import has_many_cells

_TONE_OF = {
    Verdict.FASTER: Tone.GOOD,
    Verdict.SLOWER: Tone.BAD,
    Verdict.EQUIVALENT: Tone.EVEN,
    Verdict.NO_CLEAR_DIFFERENCE: Tone.OPEN,
}


LABEL = "single unrepeated pass"


def blocks_of_all(analysis: CampaignAnalysis) -> str:
    """Return how many blocks there are of how many there might have been."""
    if analysis.plan is None:
        return count(analysis.blocks, "block")
    most = analysis.plan.stopping.max_blocks
    if analysis.blocks >= most:
        return f"all {count(most, 'block')}"
    return f"{analysis.blocks} of at most {count(most, 'block')}"


def is_interim(analysis: CampaignAnalysis) -> bool:
    """Return whether more blocks may still change the verdicts: they run, or a resume adds them."""
    return analysis.status in (Status.RUNNING, Status.INTERRUPTED, Status.FAILED)


def stopped_early(analysis: CampaignAnalysis) -> bool:
    """Return whether the verdicts ended the campaign before its last look."""
    plan = analysis.plan
    return plan is not None and decision.stopped_early(
        analysis.status, plan.stopping, analysis.blocks
    )


def decided_early(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    """Return whether this verdict took part in ending the campaign early."""
    return stopped_early(analysis) and comparison.verdict.decided


def ending(analysis: CampaignAnalysis) -> str:
    """Return how the campaign ended, in one clause."""
    precision = analysis.experiment.stop.precision
    words = {
        Status.RUNNING: "not finished",
        Status.DECIDED: "decided",
        Status.PRECISION: f"asked half-width of ±{share(precision or 0.0)} reached",
        Status.BUDGET: f"budget of {format_duration(analysis.experiment.stop.budget_s)} used up",
        Status.PASSED: LABEL,
        Status.COMPLETE: "as many blocks as were asked for",
        Status.INTERRUPTED: "interrupted",
        Status.FAILED: "failed",
    }
    if analysis.blocks == 0:
        return f"{words[analysis.status]} before the first block was complete"
    if analysis.status is Status.PASSED:
        return f"{LABEL}, {count(len(analysis.runs), 'run')}"
    early = "stopped early, " if stopped_early(analysis) else ""
    return f"{words[analysis.status]}, {early}after {blocks_of_all(analysis)}"


def load_name(load: Load | None) -> str:
    """Return a load for tables and charts; None is the pooled result."""
    return "all loads" if load is None else load.label


def cell_name(experiment: Experiment, load: Load | None) -> str:
    """Return a load with its threads where the number of clients alone does not tell it."""
    if load is None:
        return load_name(load)
    alike = _alike(experiment, load)
    threads = f", {count(load.threads, 'thread')}" if len(alike) > 1 else ""
    return f"{load_name(load)}{threads}"


def _alike(experiment: Experiment, load: Load) -> list[Load]:
    """Return the loads that only their threads tell apart, this one among them."""
    return [other for other in experiment.loads if replace(other, threads=load.threads) == load]


def short_load(experiment: Experiment, load: Load) -> str:
    """Return a load as a tick on an axis of clients: ``8``, ``8 (2 threads)``, ``8 at 500/s``."""
    alike = _alike(experiment, load)
    threads = f" ({count(load.threads, 'thread')})" if len(alike) > 1 else ""
    rated = f" at {load.rate_label}" if load.is_open else ""
    return f"{load.clients}{threads}{rated}"


def pool_name(experiment: Experiment, load: Load) -> str:
    """Return the clients of a load whatever its rate, with threads where they alone do not tell."""
    threads = f", {count(load.threads, 'thread')}" if _has_twin(experiment, load) else ""
    return f"{count(load.clients, 'client')}{threads}"


def short_pool(experiment: Experiment, load: Load) -> str:
    """Return the same for a column of clients: ``8``, ``8 (2 threads)``."""
    threads = f" ({count(load.threads, 'thread')})" if _has_twin(experiment, load) else ""
    return f"{load.clients}{threads}"


def _has_twin(experiment: Experiment, load: Load) -> bool:
    """Return whether other loads have as many clients on another number of threads."""
    threads = {other.threads for other in experiment.loads if other.clients == load.clients}
    return bool(threads - {load.threads})


def cells_together(experiment: Experiment) -> str:
    """Return in what sense the intervals of the cells hold (METHOD.md 3.5)."""
    if has_many_cells(len(experiment.closed_loads)):
        return f"{CONFIDENCE}, on average over the cells called different"
    return f"simultaneous {CONFIDENCE}"


def uncompared(experiment: Experiment) -> str:
    """Return why throughput is not compared, in a sentence; empty where it is."""
    if experiment.compares_throughput or experiment.is_single_pass:
        return ""
    if experiment.closed_loads:
        return "Nothing is compared: there is one configuration."
    return (
        "Throughput is not compared: all loads are open loops, which complete what was asked for."
    )


def looked_for(experiment: Experiment) -> str:
    """Return what a campaign that compares no throughput is for, as a noun."""
    rates = dict.fromkeys(load.rate_label for load in experiment.loads if load.is_open)
    at = enumeration(tuple(rates))
    whole = " of the capacity" if all(load.share for load in experiment.loads) else ""
    if experiment.goal is not None:
        return f"the highest rate with {experiment.goal.label}, tried at {at}{whole}"
    return f"latency at {at}{whole}"


def tone_of(comparison: Comparison) -> Tone:
    """Return how a verdict is meant: what one side pays with durability has a tone of its own."""
    if bounds(comparison.effect) is None:
        return Tone.OPEN
    is_slower = comparison.verdict is Verdict.SLOWER and not comparison.depends_on_load
    if comparison.trades and is_slower is not comparison.is_less_durable:
        return Tone.WARNING
    return Tone.OPEN if comparison.depends_on_load else _TONE_OF[comparison.verdict]


def durability_word(comparison: Comparison) -> str:
    """Return what has to stand beside the word of every verdict; empty for equal durability."""
    if comparison.is_less_durable:
        return ", less durable"
    return ", more durable" if _is_safer(comparison) else ""


def _is_safer(comparison: Comparison) -> bool:
    """Return whether a verdict is one on a configuration that keeps what the baseline may lose."""
    decided = comparison.verdict.decided or comparison.depends_on_load
    return bool(comparison.trades) and not comparison.is_less_durable and decided


def durability_clause(comparison: Comparison) -> str:
    """Return who may lose what, when and why, to follow a verdict; empty for equal durability."""
    is_slower = comparison.verdict is Verdict.SLOWER and not comparison.depends_on_load
    if comparison.is_less_durable:
        losses = tuple(f"{weaker} {loss}" for weaker, loss in _losses(comparison))
        return f"{'and' if is_slower else 'but'} {enumeration(losses)}"
    if not _is_safer(comparison):
        return ""
    lead = f"but {comparison.baseline} pays for its speed with durability: it"
    losses = tuple(loss for _, loss in _losses(comparison))
    return f"{lead if is_slower else f'and {comparison.baseline}'} {enumeration(losses)}"


def _losses(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield who may lose something, and each loss with all its failures."""
    failures: dict[tuple[str, str, str], list[str]] = {}
    for trade in comparison.trades:
        failures.setdefault((trade.weaker, trade.what, trade.because), []).append(trade.when)
    for (weaker, what, because), when in failures.items():
        yield weaker, f"may lose {what} {' or '.join(when)} ({because})"


def verdict_word(comparison: Comparison, margin: float) -> str:
    """Return the verdict in a word or two, and whether it is bought with durability."""
    if comparison.effect is None or bounds(comparison.effect) is None:
        return "no verdict yet"
    return f"{_plain_word(comparison, margin)}{durability_word(comparison)}"


def _plain_word(comparison: Comparison, margin: float) -> str:
    pair = ", this pair only" if comparison.is_of_pair and comparison.verdict.decided else ""
    pair += ", suspect" if comparison.is_suspect else ""
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"equivalent within {share(margin)}{pair}"
    if comparison.no_practical_weight:
        return f"{comparison.verdict.value}, by less than {share(margin)}{pair}"
    return f"{comparison.verdict.value}{pair}"


def control_limit(comparison: Comparison) -> str:
    """Return that a negative control makes a verdict suspect, or nothing."""
    if not comparison.is_suspect:
        return ""
    return f"; suspect: the negative control {comparison.control} differs"


def time_to_decide(comparison: Comparison) -> str:
    """Return about how much more measuring would decide, or nothing when that is unknown."""
    minutes = comparison.minutes_to_decide
    if minutes is None or comparison.verdict.decided:
        return ""
    if minutes >= 600:  # a forecast of many hours is not good to the minute
        return f"{round(minutes / 60)} h"
    return format_duration(60.0 * minutes) if minutes >= 120 else f"{max(1, round(minutes))} min"


def more_minutes(comparison: Comparison, decide: float) -> str:
    """Return what further measuring would bring, or nothing when that is unknown."""
    minutes = comparison.minutes_to_decide
    if minutes is None or comparison.verdict.decided:
        return ""
    if minutes >= 120:
        return f"about {time_to_decide(comparison)} more would decide {share(decide)}"
    return f"about {count(max(1, round(minutes)), 'more minute')} would decide {share(decide)}"


def pending(comparison: Comparison) -> str:
    """Return why there is no interval yet, with the estimate so far if there is one."""
    if comparison.effect is None:
        return "no block is complete"
    reason = comparison.note or count(comparison.blocks, "block")
    return f"{reason}; {effect_value(comparison.effect)} so far, without an interval"


def effect_phrase(comparison: Comparison, *, interval_first: bool) -> str:
    """Return the effect with its interval; the interval first where the estimate is biased."""
    pair = bounds(comparison.effect)
    value = effect_value(comparison.effect)
    if pair is None:
        return value
    if interval_first:
        low, high = format_percent(pair[0]), format_percent(pair[1])
        return f"{low} to {high} ({CONFIDENCE}), estimate {value}"
    return f"{value} {effect_interval(comparison.effect)} ({CONFIDENCE})"


def verdict_clause(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    """Return the verdict on one comparison as a clause without the workload's name."""
    ours, theirs = contestants(comparison)
    if bounds(comparison.effect) is None:
        return f"no verdict yet on {ours} against {theirs}: {pending(comparison)}"
    effect = effect_phrase(comparison, interval_first=stopped_early(analysis))
    margin = share(analysis.experiment.stop.equivalence)
    if comparison.depends_on_load:
        return _divided_clause(analysis, comparison)
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"{ours} and {theirs} are equivalent within {margin}: {effect}"
    if comparison.verdict is Verdict.NO_CLEAR_DIFFERENCE:
        return _undecided_clause(analysis, comparison)
    word = comparison.verdict.value
    if comparison.no_practical_weight:
        weight = f"but by less than {margin}, of no practical weight"
        return f"{ours} is {word} than {theirs}, {weight}: {effect}"
    joint = " by" if comparison.verdict is Verdict.FASTER else ":"
    return f"{ours} is {word} than {theirs}{joint} {effect}"


def contestants(comparison: Comparison) -> tuple[str, str]:
    """Return whom a verdict speaks of: the configurations, or only the servers they live on."""
    word = "server " if comparison.is_of_pair else ""
    return f"{word}{comparison.configuration}", f"{word}{comparison.baseline}"


def pair_limit(comparison: Comparison) -> str:
    """Return what a verdict on a pair of instances cannot say, or nothing."""
    if not comparison.is_of_pair or comparison.verdict is Verdict.NO_CLEAR_DIFFERENCE:
        return ""
    number = comparison.instances or 0
    per_side = "one instance" if number == 1 else count(number, "instance")
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"; this speaks of these instances alone: {per_side} per side"
    why = "the difference may be the servers, not the settings"
    return f"; {why}: {per_side} per side"


def _divided_clause(analysis: CampaignAnalysis, result: Comparison) -> str:
    ours, theirs = contestants(result)
    clause = f"the effect of {ours} against {theirs} depends on load"
    extremes = extreme_cells(analysis, result)
    if extremes is None:
        return f"{clause}: read the cells"
    together = cells_together(analysis.experiment)
    return f"{clause}: from {extremes[0]} to {extremes[1]} ({together})"


def extreme_cells(analysis: CampaignAnalysis, result: Comparison) -> tuple[str, str] | None:
    """Return the least and the largest effect among a result's cells, in words.

    They stand in for the one number that would be wrong everywhere (METHOD.md 3.5).
    """
    cells = [
        (c.effect.value, c)
        for c in analysis.comparisons
        if c.load is not None
        and (c.workload, c.configuration) == (result.workload, result.configuration)
        and c.effect is not None
        and bounds(c.effect) is not None
    ]
    if not cells:
        return None
    ends = (min(cells, key=lambda c: c[0])[1], max(cells, key=lambda c: c[0])[1])
    least, most = (_effect_at(analysis.experiment, cell) for cell in ends)
    return least, most


def _effect_at(experiment: Experiment, cell: Comparison) -> str:
    effect = f"{effect_value(cell.effect)} {effect_interval(cell.effect)}"
    return f"{effect} at {cell_name(experiment, cell.load)}"


def _undecided_clause(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    low, high = bounds(comparison.effect) or (0.0, 0.0)
    effect = f"between {format_percent(low)} and {format_percent(high)} ({CONFIDENCE})"
    more = more_minutes(comparison, analysis.experiment.stop.decide)
    ours, theirs = contestants(comparison)
    clause = f"no clear difference between {ours} and {theirs}"
    return f"{clause}: the effect is {effect}{'; ' if more else ''}{more}"


def verdict_sentence(analysis: CampaignAnalysis, comparison: Comparison) -> str:
    """Return the verdict on one comparison as a sentence that can be read alone."""
    clause = verdict_clause(analysis, comparison)
    if bounds(comparison.effect) is None:
        return f"{comparison.workload}: {clause}"
    early = ", stopped early" if decided_early(analysis, comparison) else ""
    blocks = count(comparison.blocks, "block")
    price = durability_clause(comparison)
    told = f"{clause}, {price}" if price else clause
    when = ", interim" if is_interim(analysis) else ""
    limits = f"{pair_limit(comparison)}{control_limit(comparison)}"
    return f"{comparison.workload}{when}: {told}, {blocks}{early}{limits}"


def what_it_runs(workload: Workload) -> str:
    """Return the script, scripts or command of a workload of PostgreSQL; empty if none."""
    if workload.command is not None:
        return shlex.join(workload.command.argv)
    return workload.builtin or enumeration(tuple(script.name for script in workload.scripts))


def command_pairs(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """Return each command that the experiment names, under what it is for."""
    named = [workload.command for workload in experiment.workloads if workload.command]
    pairs = (
        *(("prepares", shlex.join(each.prepare)) for each in named if each.prepare),
        *(("runs", shlex.join(each.argv)) for each in named),
    )
    return tuple(dict.fromkeys(pairs))
