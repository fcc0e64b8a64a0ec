"""Each script of a workload, compared over blocks: one ratio of its times in each.

The transaction log counts every execution by script. A block gives one number for each script: the
log ratio of its median times under configuration and baseline; if scripts ran in the same order on
both sides, the Hodges-Lehmann centre of the log ratios of their pairs. These numbers are
judged as cells are (METHOD 3.3, 3.4); the scripts of a workload and its loads share the error of a
result step by step, after Holm. That a script is equivalent is said at the level that all share.

Scripts have this only where a workload has several of them: one alone is the workload's result.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Final

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.result.compute import Terms
from steelyard.answers.scripts.verdicts import Execution, ScriptResult
from steelyard.answers.statements.executions import figures_of_plan
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Workload
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.measurement import StatementPlan
from steelyard.core.schedule import CellKey
from steelyard.core.wording import MS_PER_S, SECONDS_PER_MINUTE, US_PER_S
from steelyard.report.document import count
from steelyard.stats.histogram import Histogram, from_text
from steelyard.stats.intervals import (
    BoolArray,
    FloatArray,
    block_interval,
    block_p_value,
    blocks_to_decide,
    has_no_practical_weight,
    hodges_lehmann_centres,
    verdict_of,
)
from steelyard.stats.spending import cell_level, step_down_levels

_LEAST = 2  # blocks of an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTime:
    """The verdict on one of several times that share an error.

    Attributes:
        change: Relative; None without a block.
        blocks: That have a ratio.
        level: Of the interval; None where there is none.
    """

    change: Estimate | None
    verdict: Verdict
    blocks: int
    level: float | None = None
    no_practical_weight: bool = False
    is_unstable: bool = False
    block_sd: float | None = None
    minutes_to_decide: float | None = None


def judge_times(ratios: FloatArray, terms: Terms) -> tuple[JudgedTime, ...]:
    """Return the verdict on each of several times that share the error of a result.

    Args:
        ratios: Shape (blocks, times), log ratio of times, paired; NaN if a side has none.
        terms: Rule, margin and effect to detect.

    Returns:
        One for each time. Differences are called after Holm, each interval at the level of its
        step; all others have the level that all share.
    """
    columns = [column[np.isfinite(column)] for column in ratios.T]
    p_values = np.array([block_p_value(c) if len(c) >= _LEAST else 1.0 for c in columns])
    if cell_level(terms.rule, len(ratios), max(len(columns), 1)) is None:
        levels: list[float | None] = [None] * len(columns)
    else:
        levels = [*step_down_levels(p_values, lambda number: _shared(terms, len(ratios), number))]
    return tuple(
        _judged(column, level if len(column) >= _LEAST else None, terms, len(ratios))
        for column, level in zip(columns, levels, strict=True)
    )


def _shared(terms: Terms, blocks: int, number: int) -> float:
    return cell_level(terms.rule, blocks, number, is_last=terms.time_is_up) or 0.0


def _judged(ratios: FloatArray, level: float | None, terms: Terms, seen: int) -> JudgedTime:
    """Return the verdict on one sample, with an interval if there is a level."""
    if level is None:
        value = Estimate(value=float(np.expm1(ratios.mean()))) if len(ratios) else None
        return JudgedTime(change=value, verdict=Verdict.NO_CLEAR_DIFFERENCE, blocks=len(ratios))
    interval = block_interval(ratios, level)
    low, high = float(np.expm1(interval.low)), float(np.expm1(interval.high))
    verdict = verdict_of(-high, -low, terms.margin)  # a longer time is slower
    missing = blocks_to_decide(len(ratios), high - low, terms.detect) - len(ratios)
    more = None if verdict.decided or missing <= 0 or not np.isfinite(missing) else missing
    is_over = terms.time_is_up or terms.stopped_early or seen >= terms.rule.max_blocks
    return JudgedTime(
        change=Estimate(
            value=float(np.expm1(interval.estimate)),
            low=low if interval.bounded else None,
            high=high if interval.bounded else None,
        ),
        verdict=verdict,
        blocks=len(ratios),
        level=level,
        no_practical_weight=has_no_practical_weight(low, high, terms.margin),
        is_unstable=is_over and not verdict.decided and (high - low) / 2.0 > terms.margin,
        block_sd=float(ratios.std(ddof=1)),
        minutes_to_decide=None if more is None else more * terms.block_s / SECONDS_PER_MINUTE,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Times:
    """The times of one script at one load.

    Attributes:
        logs: Shape (blocks, configurations): ln(s) of the median of a block, NaN where it is not
            known.
        counts: Same shape: executions.
        quartiles: Shape (configurations,): between the quartiles of all executions, over their
            median; NaN where it is not known.
        is_logged: Same shape as ``logs``: every run of the block has a log.
        is_cut: A median is longer than turns can tell.
        executions: By block and configuration, in a given order, shape (executions,): s; empty
            if scripts were drawn.
    """

    cell: CellKey
    script: str
    logs: FloatArray
    counts: FloatArray
    quartiles: FloatArray
    is_logged: BoolArray
    is_cut: bool
    executions: "tuple[tuple[FloatArray, ...], ...]"

    def ratios(self, contrast: obs.ResultContrast) -> FloatArray:
        """Return the log ratio of each block, shape (blocks,); NaN if a side has no time."""
        weights = np.asarray(contrast.weights)
        sides = [*contrast.negative, *contrast.positive]
        found = self.logs[:, sides] @ weights[sides]
        for row, executions in enumerate(self.executions):
            taken = [executions[side] for side in sides]
            if len(taken[0]) and len({len(each) for each in taken}) == 1:
                found[row] = hodges_lehmann_centres(weights[sides] @ np.log(taken))
        return np.asarray(found)


def names_of(workload: Workload) -> tuple[str, ...]:
    """Return the scripts of a workload as logs name them; empty if it has only one."""
    names = tuple(dict.fromkeys(script.name for script in workload.scripts))
    return names if len(names) > 1 else ()


def script_results(
    record: CampaignRecord,
    seen: obs.Observations,
    contrast: obs.ResultContrast,
    workload: Workload,
    terms: Terms,
) -> tuple[ScriptResult, ...]:
    """Return each script at each load, in the order of the workload; empty without logs.

    Args:
        record: Of the campaign; its environment has the plans.
        seen: What was seen of its closed loops.
        contrast: The two sides.
        workload: It has the scripts.
        terms: Rule, margin and effect to detect.
    """
    cells = [seen.cells[column] for column in seen.columns_of(workload.name)]
    every = [_times(seen, cell, name) for cell in cells for name in names_of(workload)]
    if not any(times.counts.any() for times in every):
        return ()
    ratios = np.stack([times.ratios(contrast) for times in every], axis=1)
    plans, titles = _plans(record, workload.name), titles_of(names_of(workload))
    used = {name: _used(plans.get(name, {})) for name in names_of(workload)}
    return tuple(
        ScriptResult(
            script=times.script,
            title=titles[times.script],
            load=times.cell.load,
            verdict=judged.verdict,
            is_unstable=judged.is_unstable,
            change=judged.change,
            no_practical_weight=judged.no_practical_weight,
            blocks=judged.blocks,
            level=judged.level,
            medians_s=(
                _median_s(times, contrast, contrast.negative),
                _median_s(times, contrast, contrast.positive),
            ),
            executions=(
                _executions(times, contrast.negative),
                _executions(times, contrast.positive),
            ),
            block_sd=judged.block_sd,
            quartiles=_known(times.quartiles[list(contrast.negative)].mean()),
            minutes_to_decide=judged.minutes_to_decide,
            plan_differs=_differs(plans.get(times.script, {}), contrast, seen.configurations),
            used=used[times.script],
            reason=_reason(times, judged, contrast),
        )
        for times, judged in zip(every, judge_times(ratios, terms), strict=True)
    )


def titles_of(names: Sequence[str]) -> dict[str, str]:
    """Return the file name of each script without suffix; the whole path if two share it."""
    stems = {name: PurePath(name).stem for name in names}
    numbers = Counter(stems.values())
    return {name: stem if numbers[stem] == 1 else name for name, stem in stems.items()}


def _times(seen: obs.Observations, cell: CellKey, script: str) -> _Times:
    shape = (seen.blocks, len(seen.configurations))
    logs, counts = np.full(shape, np.nan), np.zeros(shape)
    quartiles, is_logged, is_cut = np.full(shape[1], np.nan), np.zeros(shape, dtype=bool), False
    executions = [[_NO_TIMES] * shape[1] for _ in range(shape[0])]
    for side, name in enumerate(seen.configurations):
        blocks = obs.runs_by_block(seen.runs.get((name, cell), ()))[: seen.blocks]
        logged = [_logged(runs, script) for runs in blocks]
        for row, texts in enumerate(logged):
            summary = _summary(texts)
            is_logged[row, side] = all(run.latency is not None for run in blocks[row])
            limits = [run.latency.told_to_s for run in blocks[row] if run.latency is not None]
            told_to_s = min((each for each in limits if each is not None), default=np.inf)
            counts[row, side] = summary.executions
            executions[row][side] = _in_order(blocks[row], script)
            if np.isinf(summary.middle_us) or summary.middle_us / US_PER_S > told_to_s:
                is_cut = True
            elif summary.middle_us > 0.0:
                logs[row, side] = np.log(summary.middle_us / US_PER_S)
        whole = _summary(tuple(text for texts in logged for text in texts))
        quartiles[side] = whole.between_quartiles
    return _Times(
        cell=cell,
        script=script,
        logs=logs,
        counts=counts,
        quartiles=quartiles,
        is_logged=is_logged,
        is_cut=is_cut,
        executions=tuple(map(tuple, executions)),
    )


_NO_TIMES = np.zeros(0)


def _in_order(runs: obs.RunsOfBlock, script: str) -> FloatArray:
    """Return the times of a script in the order of its executions, shape (executions,), s."""
    return np.array(
        [
            seconds
            for run in runs
            if run.latency is not None
            for each in run.latency.scripts
            if each.script == script
            for seconds in each.executions_s
        ]
    )


_Logged = tuple[tuple[str, int], ...]  # counts of microseconds as text, and how many were cut


def _logged(runs: obs.RunsOfBlock, script: str) -> _Logged:
    """Return the counts of a script in the runs of a block; empty if one run has no log."""
    logs = [run.latency for run in runs]
    if any(latency is None for latency in logs):
        return ()
    return tuple(
        (each.latency, each.cut)
        for latency in logs
        if latency is not None
        for each in latency.scripts
        if each.script == script
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """Executions together: how many, and their median and quartiles.

    Attributes:
        middle_us: NaN without an execution; infinite where more than half were cut.
        between_quartiles: Over the median; NaN likewise.
    """

    executions: int
    middle_us: float
    between_quartiles: float


@lru_cache(maxsize=1 << 16)  # every interim result asks for those of all blocks again
def _summary(texts: _Logged) -> _Summary:
    counted = Histogram(counts=sum((from_text(text).counts for text, _ in texts), _NOTHING))
    whole = counted.total + sum(cut for _, cut in texts)
    if not whole:
        return _Summary(executions=0, middle_us=np.nan, between_quartiles=np.nan)

    def value(share: float) -> float:
        """Return a quantile; cut executions took longer than all counted ones."""
        place = share * (whole - 1)
        ends = (int(np.floor(place)) + 1, int(np.ceil(place)) + 1)
        if ends[1] > counted.total:
            return np.inf
        low, high = (counted.value_at(rank) for rank in ends)
        return float(low + (place - np.floor(place)) * (high - low))

    low, middle, high = map(value, (0.25, 0.5, 0.75))
    spread = (high - low) / middle if np.isfinite(high) else np.nan
    return _Summary(executions=whole, middle_us=middle, between_quartiles=spread)


_NOTHING = from_text("").counts


def _median_s(times: _Times, contrast: obs.ResultContrast, side: Sequence[int]) -> float | None:
    """Return the median over blocks, of several configurations their geometric mean."""
    weights = np.abs(np.asarray(contrast.weights))[list(side)]
    logs = times.logs[:, list(side)] @ weights
    known = logs[np.isfinite(logs)]
    return float(np.exp(np.median(known))) if len(known) else None


def _executions(times: _Times, side: Sequence[int]) -> int:
    return int(times.counts[:, list(side)].sum())


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _reason(times: _Times, judged: JudgedTime, contrast: obs.ResultContrast) -> str:
    """Return the limit of a script's interval other than noise; may be empty."""
    if times.is_cut:
        return "its median is too long for turns"
    blocks, sides = len(times.logs), [*contrast.negative, *contrast.positive]
    unlogged = blocks - int(times.is_logged[:, sides].all(axis=1).sum())
    missing = {
        "a side was not logged": unlogged,
        "a side did not complete it": blocks - judged.blocks - unlogged,
    }
    told = (f"{why} in {count(n, 'block')} of {blocks}" for why, n in missing.items() if n > 0)
    return "; ".join(told)


_Plans = Mapping[str, tuple[StatementPlan, ...]]  # by configuration


def _plans(record: CampaignRecord, workload: str) -> dict[str, _Plans]:
    """Return the plans of each script of a workload, by script and configuration."""
    found: dict[str, dict[str, tuple[StatementPlan, ...]]] = {}
    environment = record.environment
    for server in environment.servers if environment is not None else ():
        for plan in server.plans:
            if plan.workload == workload:
                of_script = found.setdefault(plan.script, {})
                before = of_script.get(server.configuration, ())
                of_script[server.configuration] = (*before, plan)
    return {script: plans for script, plans in found.items() if script}


def _differs(plans: _Plans, contrast: obs.ResultContrast, names: Sequence[str]) -> bool | None:
    """Return whether a plan differs between the two sides; None if one is not known."""
    sides = [
        {tuple(plan.lines for plan in plans.get(names[place], ())) for place in side}
        for side in (contrast.negative, contrast.positive)
    ]
    known = [plans.get(names[place], ()) for place in (*contrast.negative, *contrast.positive)]
    if not all(known) or any(plan.trouble for side in known for plan in side):
        return None
    return sides[0] != sides[1]


def _used(plans: _Plans) -> dict[str, Execution]:
    """Return the use of one execution by configuration, if all statements were executed."""
    return {
        name: execution_of([plan.runs[-1] for plan in of_script])
        for name, of_script in plans.items()
        if of_script and all(plan.runs for plan in of_script)
    }


_PAGE_BYTES: Final = 8192


def execution_of(statements: Sequence[Sequence[str]]) -> Execution:
    """Return the sums over several statements, each given by its lines."""
    each = [_execution(lines) for lines in statements]
    return Execution(
        execution_s=_sum([one.execution_s for one in each]),
        pages_read=_sum([one.pages_read for one in each]),
        temporary_bytes=_sum([one.temporary_bytes for one in each]),
        jit_s=_sum([one.jit_s for one in each]),
    )


def _execution(lines: Sequence[str]) -> Execution:
    """Return one statement's figures; EXPLAIN prints no count that is 0."""
    figures = figures_of_plan(lines)
    if "execution" not in figures:
        return Execution()
    return Execution(
        execution_s=figures["execution"] / MS_PER_S,
        pages_read=figures.get("read", 0.0),
        temporary_bytes=_PAGE_BYTES * figures.get("temporary", 0.0),
        jit_s=figures.get("JIT", 0.0) / MS_PER_S,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
