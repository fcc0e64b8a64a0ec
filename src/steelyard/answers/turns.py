"""What turns say of comparisons, and what is said of turns: checks, traces, words.

A check asks whether a comparison is still warming up or carried over. It has one value per block,
workload and comparison: the mean over the workload's loads. It is a plain mean, because a start
that warms up shows in the block's first load, which a trimmed one would drop.

A trace is what one configuration's turns leave to another's in devices and memory.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import (
    CampaignPlan,
    CampaignRecord,
    ScriptsInOrder,
    ShortBlocks,
)
from steelyard.core.experiment import ONE, PREWARM_BYTES, RATE, Experiment, SwitchCost
from steelyard.core.measurement import Quantity, Run
from steelyard.core.quantities import INLINE, OPTIONAL, Computed, Named
from steelyard.core.schedule import CellKey, Mode, Pausing, SharedMemory, TurnTimes, WorkloadTurns
from steelyard.core.wording import KIB, MIB, format_bytes, format_duration
from steelyard.report.document import Json, enumeration
from steelyard.report.keys import Declared, keys_of
from steelyard.stats import turns as turn_statistics
from steelyard.stats.intervals import FloatArray, Interval


class TurnChange(StrEnum):
    """In what a comparison may change where nothing should."""

    OVER_BLOCK = "over the block"  # warming up
    WITHIN_TURNS = "within turns"  # carry-over: second halves against first ones
    BY_PREDECESSOR = "by predecessor"  # carry-over: after itself against after another one


_CHANGES: Final[
    dict[TurnChange, Callable[[turn_statistics.BlockTurns, turn_statistics.Weights], float | None]]
] = {
    TurnChange.OVER_BLOCK: turn_statistics.change_over_block,
    TurnChange.WITHIN_TURNS: turn_statistics.change_within_turns,
    TurnChange.BY_PREDECESSOR: turn_statistics.change_by_predecessor,
}
CARRIED_OVER: Final = (TurnChange.WITHIN_TURNS, TurnChange.BY_PREDECESSOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCheck:
    """One such change of one comparison.

    Attributes:
        change: Of the log ratio, with its interval at level 1 %; None with too few blocks.
        blocks: That have a value.
        of: Blocks that were taken in turns.
    """

    what: TurnChange
    workload: str
    baseline: str
    configuration: str
    change: Interval | None
    blocks: int
    of: int

    @property
    def is_suspect(self) -> bool:
        """Return whether the interval lies wholly beyond plus or minus 1 %."""
        return turn_statistics.is_suspect(self.change)


def check_turns(
    seen: obs.Observations,
    experiment: Experiment,
    changes: Sequence[TurnChange] = tuple(TurnChange),
    *,
    since: int = 0,
) -> tuple[TurnCheck, ...]:
    """Return the checks of every workload and result; none where no block was taken in turns.

    Args:
        seen: The observations; open loops are left out, for they hold their rate.
        experiment: Names the workloads and what is compared under each.
        changes: Which of them to check.
        since: First block that is looked at.
    """
    closed = seen.of_closed_loops()
    base = seen.configurations.index(experiment.baseline)
    checks: list[TurnCheck] = []
    for workload in experiment.workloads:
        blocks = turns_by_block(closed, workload.name, since=since)
        if blocks:
            checks.extend(
                _check(blocks, what, (workload.name, base), asked)
                for asked in obs.result_contrasts(experiment)
                for what in changes
            )
    return tuple(checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsTogether:
    """The turns of configurations that were up together in one cell of a block.

    Attributes:
        sides: Places of the configurations among all of them, in the order of the columns.
    """

    sides: tuple[int, ...]
    turns: turn_statistics.BlockTurns

    def weights(self, weights: turn_statistics.Weights, base: int) -> FloatArray:
        """Return the weights of its columns where all but the baseline are compared with that.

        The sum over the sub-blocks of a block is then the contrast; where there is one sub-block,
        the weights are as they were.
        """
        own = np.array([0.0 if side == base else weights[side] for side in self.sides])
        own[self.sides.index(base)] = -own.sum()
        return own


CellTurns = tuple[TurnsTogether, ...]  # of one cell of a block: one per sub-block


def still_warming(record: CampaignRecord, *, since: int = 0) -> bool:
    """Return whether the next block must warm up longer, for all configurations alike.

    To be asked after each block. Exchanging the labels of two configurations in the whole campaign
    changes nothing about the answer, and no coin that is still to be tossed depends on it.

    Args:
        record: Of the blocks so far.
        since: First block that had the present warm-up: blocks that had a shorter one say nothing
            of this one. Six blocks are needed for an answer; before, it is no.
    """
    warming = (TurnChange.OVER_BLOCK,)
    checks = check_turns(obs.observe(record), record.experiment, warming, since=since)
    return any(check.is_suspect for check in checks)


def turns_by_block(
    seen: obs.Observations, workload: str, *, since: int = 0
) -> tuple[tuple[CellTurns, ...], ...]:
    """Return the turns of a workload's cells, block by block; blocks without turns are left out.

    Of a cell only rounds in which every configuration has its turn are taken: the runner drops a
    round that was lost for one of them for all.
    """
    taken: dict[int, dict[CellKey, dict[int, list[Run]]]] = {}
    for name in seen.configurations:
        for (of, cell), runs in seen.runs.items():
            for run in runs if cell.workload == workload and of == name else ():
                if run.block >= since:
                    together = taken.setdefault(run.block, {}).setdefault(cell, {})
                    together.setdefault(run.sub_block, []).append(run)
    blocks = [_cells_in_turns(taken[index], seen.configurations) for index in sorted(taken)]
    return tuple(cells for cells in blocks if cells)


def _cells_in_turns(
    cells: Mapping[CellKey, Mapping[int, Sequence[Run]]], configurations: Sequence[str]
) -> tuple[CellTurns, ...]:
    """Return the turns of one block's cells in which every configuration has some."""
    found = []
    for sub_blocks in cells.values():
        turns = [_together(runs, configurations) for runs in sub_blocks.values()]
        known = tuple(each for each in turns if each is not None)
        if {side for each in known for side in each.sides} == set(range(len(configurations))):
            found.append(known)
    return tuple(found)


def _together(runs: Sequence[Run], configurations: Sequence[str]) -> TurnsTogether | None:
    """Return the turns of runs that were taken together; None where one was taken otherwise."""
    sides = tuple(configurations.index(run.configuration) for run in runs)
    turns = block_turns(runs) if len(set(sides)) == len(sides) else None
    return None if turns is None else TurnsTogether(sides=sides, turns=turns)


def block_turns(runs: Sequence[Run]) -> turn_statistics.BlockTurns | None:
    """Return the turns of a block's runs in one cell, a column per run; None without a round."""
    by_round = [{turn.round: turn for turn in run.turns} for run in runs]
    common = sorted(set.intersection(*map(set, by_round))) if by_round else []
    if not common:
        return None
    rows = [[turns[number] for turns in by_round] for number in common]
    return turn_statistics.BlockTurns(
        rounds=np.array(common, dtype=np.float64),
        places=np.array([[turn.place for turn in row] for row in rows], dtype=np.float64),
        seconds=np.array([[turn.seconds for turn in row] for row in rows]),
        transactions=np.array([[turn.transactions for turn in row] for row in rows], dtype=float),
        early=np.array([[turn.early for turn in row] for row in rows], dtype=np.float64),
    )


def _check(
    blocks: Sequence[Sequence[CellTurns]],
    what: TurnChange,
    where: tuple[str, int],
    asked: obs.ResultContrast,
) -> TurnCheck:
    """Return a check of a workload, whose baseline is at a place among the configurations."""
    workload, base = where
    values = _values(blocks, partial(_change, _CHANGES[what], asked.weights, base))
    return TurnCheck(
        what=what,
        workload=workload,
        baseline=asked.baseline,
        configuration=asked.configuration,
        change=turn_statistics.interval_of_changes(values),
        blocks=len(values),
        of=len(blocks),
    )


def _change(
    change: Callable[[turn_statistics.BlockTurns, turn_statistics.Weights], float | None],
    weights: turn_statistics.Weights,
    base: int,
    cell: CellTurns,
) -> float | None:
    """Return a change of one cell: the sum over its sub-blocks; None where one is not known."""
    weighed = [(each.turns, each.weights(weights, base)) for each in cell]
    return obs.sum_of([change(turns, own) for turns, own in weighed if own.any()])


def _values(
    blocks: Sequence[Sequence[CellTurns]], change: Callable[[CellTurns], float | None]
) -> FloatArray:
    """Return one mean per block over the cells that have a value, for blocks that have any."""
    found = [[change(turns) for turns in cells] for cells in blocks]
    known = [[value for value in values if value is not None] for values in found]
    return np.array([np.mean(values) for values in known if values], dtype=np.float64)


_PAGE_BYTES: Final = 8 * KIB
ENOUGH_WRITTEN_BYTES: Final = MIB  # a guess: less is the journal of the file system


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCheck:
    """A trace in the turns of one comparison's sides.

    Attributes:
        baseline_level: Mean over blocks of the negative side; ``configuration_level`` of the other;
            None without a block.
        difference: Between them within blocks, with its interval at level 1 %; None with too few.
        blocks: That have a value.
        of: Blocks there are.
    """

    workload: str
    baseline: str
    configuration: str
    baseline_level: float | None
    configuration_level: float | None
    difference: Interval | None
    blocks: int
    of: int


def writes_after_switches(seen: obs.Observations, experiment: Experiment) -> tuple[TraceCheck, ...]:
    """Return, of what the data's device writes in turns, the share that falls into their settling.

    A server that stands still hands nothing to the kernel; what it handed over before is still
    being written when another one's turn begins. Blocks with less than a MiB say nothing.
    """
    return _checks(seen, experiment, _settling_share)


def pages_from_devices(seen: obs.Observations, experiment: Experiment) -> tuple[TraceCheck, ...]:
    """Return the pages per transaction that warm servers waited for, under workloads that read.

    They come from the device of the data, or are pages of memory that the kernel had taken away
    (major faults). Blocks say nothing whose data do not fit into memory for all servers together.
    """
    up = Counter(
        (run.block, run.cell, run.sub_block) for runs in seen.runs.values() for run in runs
    )
    servers = max(up.values(), default=0)
    return _checks(seen, experiment, partial(_pages, servers=servers))


def _checks(
    seen: obs.Observations,
    experiment: Experiment,
    value: Callable[[obs.RunsOfBlock], float | None],
) -> tuple[TraceCheck, ...]:
    """Return the checks of every workload and result; none where nothing was taken in turns."""
    closed = seen.of_closed_loops()
    if not any(run.turns for runs in closed.runs.values() for run in runs):
        return ()
    values = obs.by_block(closed, value)
    return tuple(
        _trace_check(values[:, :, columns], workload.name, asked)
        for workload in experiment.workloads
        if (columns := closed.columns_of(workload.name))
        for asked in obs.result_contrasts(experiment)
    )


def _trace_check(values: FloatArray, workload: str, asked: obs.ResultContrast) -> TraceCheck:
    """Return a check of values (blocks, configurations, loads): of means over the loads."""
    sides = [obs.side_means(values[:, :, load], asked) for load in range(values.shape[2])]
    both = np.array(sides)  # (loads, 2, blocks)
    known = np.isfinite(both).all(axis=1)  # (loads, blocks)
    some = known.any(axis=0)
    kept = np.where(known[:, None, :], both, 0.0)[:, :, some]
    negative, positive = kept.sum(axis=0) / known[:, some].sum(axis=0)
    return TraceCheck(
        workload=workload,
        baseline=asked.baseline,
        configuration=asked.configuration,
        baseline_level=float(negative.mean()) if some.any() else None,
        configuration_level=float(positive.mean()) if some.any() else None,
        difference=turn_statistics.interval_of_changes(positive - negative),
        blocks=int(some.sum()),
        of=len(values),
    )


def _settling_share(runs: obs.RunsOfBlock) -> float | None:
    """Return the share of bytes that were written while turns settled; None below a MiB."""
    settling = obs.total_of(runs, Quantity.SETTLING_WRITE_BYTES)
    settled = obs.total_of(runs, Quantity.SETTLED_WRITE_BYTES)
    if settling is None or settled is None or settling + settled < ENOUGH_WRITTEN_BYTES:
        return None
    return settling / (settling + settled)


def _pages(runs: obs.RunsOfBlock, *, servers: int) -> float | None:
    """Return pages per transaction; None where the workload writes or the data do not fit."""
    read = obs.total_of(runs, Quantity.SETTLED_READ_BYTES)
    faults = obs.total_of(runs, Quantity.TURNS_MAJOR_FAULTS)
    counted = obs.transactions_of(runs)
    if read is None or faults is None or not counted:
        return None
    if not obs.only_read(runs) or not all(_fits(run, servers) for run in runs):
        return None
    return (read / _PAGE_BYTES + faults) / counted


def _fits(run: Run, servers: int) -> bool:
    """Return whether the data of so many servers fit into memory."""
    if run.evidence is None:
        return False
    size = run.evidence.level(Quantity.DATABASE_BYTES)
    memory = run.evidence.level(Quantity.MEMORY_BYTES)
    return size is not None and memory is not None and servers * size <= memory


TAKEN: Final = {
    Mode.ALTERNATING: "alternating",
    Mode.STARTS: "one by one",
    Mode.BACK_TO_BACK: "one by one, back to back",
}
_WHY_SWITCHED: Final = {
    SwitchCost.SESSION: "a new session is enough to switch",
    SwitchCost.RELOAD: "{reload} is enough to switch",
    SwitchCost.RESTART: "switching needs a restart",
    SwitchCost.REPROVISION: "switching needs a new server",
}
_PAUSED: Final = {
    Pausing.FREEZER: "load generator and server stand still together, by the freezer of their"
    " control groups",
    Pausing.SIGNALS: "load generator and server are stopped by signals (SIGSTOP), one process after"
    " another: what a server starts in that instant runs a little longer. The freezer of control"
    " groups, which takes root, has no such gap",
    Pausing.GENERATOR: "the load generator alone: measured with pauses for background work",
}
BACKGROUND: Final = (
    "What checkpoints and vacuum cost: only the load generators stood still, so these are figures"
    " with pauses for background work, which catches up in the turns of the others."
)
_ABSOLUTE: Final = (
    f"Measured in turns: this is not the {RATE} of a server that runs alone without pauses."
    " Compare, do not quote."
)
CUT_LATENCY: Final = (
    f"Measured in turns in which the load generator alone stood still: a {ONE} that a pause fell"
    " into was answered at a time that nobody knows. It counts as longer than all that is told, is"
    " in no mean, and nothing above a fifth of a turn or the time of settling is told."
)


def taken_words(
    experiment: Experiment,
    mode: Mode,
    reason: str,
    switch: SwitchCost,
    memory: SharedMemory | None = None,
) -> str:
    """Return which design was taken and why, for a line that is called design.

    What a switch costs says how starts are planned. An existing server need not be restarted for
    it, so there the reason alone is told.
    """
    if mode is Mode.ALTERNATING:
        parts = "" if memory is None or memory.at_once is None else f" {_parts(memory.at_once)}"
        return f"{TAKEN[mode]}{parts}, because {reason}" if reason else f"{TAKEN[mode]}{parts}"
    if not is_told(switch, experiment):
        targets = [configuration.target for configuration in experiment.configurations]
        because = f", because {reason}" if reason else ""
        kept = "" if any(each.is_restarted for each in targets) else "; no server is restarted"
        return f"{TAKEN[mode]}{because}{kept}"
    not_alternating = f"; not alternating, because {reason}" if reason else ""
    why = _WHY_SWITCHED[switch].format(reload=experiment.system.reload)
    return f"{TAKEN[mode]}, because {why}{not_alternating}"


def is_told(switch: SwitchCost, experiment: Experiment) -> bool:
    """Return whether the cost of a switch says what is done to every server, not how it counts."""
    made = all(configuration.target.is_made for configuration in experiment.configurations)
    return made or switch.rank < SwitchCost.RESTART.rank


def _parts(at_once: int) -> str:
    return f"in sub-blocks of at most {at_once} configurations with the baseline in each"


def turn_words(turns: TurnTimes) -> str:
    """Return how long a turn is and what of it counts."""
    return f"{turns.turn_s:g} s, of which the first {turns.turn_discard_s:g} s are thrown away"


def measured_words(experiment: Experiment) -> str:
    """Return the same of all workloads, before their turns are fitted to their latency."""
    turns = experiment.measure.turns
    lengths = {experiment.run_time_s(each.name) for each in experiment.workloads}
    if len(lengths) == 1:
        return seconds_words(turns, *lengths)
    return f"{experiment.slices}, per configuration, cell and block"


def seconds_words(turns: TurnTimes, run_time_s: float) -> str:
    """Return the seconds of turns of a configuration in a cell of a block, and those that count."""
    counted_s = turns.turns_in(run_time_s) * turns.counted_s
    length = f"{run_time_s:g} s per configuration, cell and block"
    if turns.reconnects:
        length += f", in {turns.reconnects + 1} parts with load generators of their own"
    return f"{length}; {counted_s:.3g} s of them count"


def absolute_words(plan: CampaignPlan | None) -> str:
    """Return what figures of turns are not; empty of figures that were taken in one piece."""
    return _ABSOLUTE if plan is not None and plan.mode is Mode.ALTERNATING else ""


def memory_words(memory: SharedMemory) -> str:
    """Return what servers that are up together need of what there is."""
    needed, available = map(format_bytes, (memory.needed_bytes, memory.available_bytes))
    servers = "all servers" if memory.at_once is None else "the servers of a sub-block"
    return f"at most {needed} for {servers} with their data, {available} available"


def warm_up_words(seconds: float, experiment: Experiment) -> str:
    """Return how long a start is warmed up, and what is done before."""
    said = f"{seconds:g} s under load per start and workload, in turns, equal for all"
    if not experiment.prewarms:
        return said
    if experiment.measure.prewarm is not None:
        return f"{said}, once the data are loaded into memory"
    return f"{said}, once the data, up to {format_bytes(PREWARM_BYTES)}, are loaded into memory"


def turn_pairs(experiment: Experiment, turns: Sequence[WorkloadTurns]) -> Iterator[tuple[str, str]]:
    """Yield lengths of turns and seconds of them, once for workloads whose turns are alike."""
    names: dict[tuple[TurnTimes, float], list[str]] = {}
    for each in turns:
        key = each.times, experiment.run_time_s(each.workload)
        names.setdefault(key, []).append(each.workload)
    for (times, run_time_s), workloads in names.items():
        of = f", {enumeration(tuple(workloads))}" if len(names) > 1 else ""
        yield f"turns{of}", f"{turn_words(times)}; in every round in an order drawn by the seed"
        yield f"measured{of}", seconds_words(times, run_time_s)


def order_pairs(in_order: Sequence[ScriptsInOrder]) -> Iterator[tuple[str, str]]:
    """Yield how the scripts of workloads run that are not drawn."""
    for order in in_order:
        of = f", {order.workload}" if len(in_order) > 1 else ""
        yield f"scripts{of}", order_words(order)


def order_words(order: ScriptsInOrder) -> str:
    """Return how often scripts run, in what order, and what counts of them."""
    number = "round" if order.rounds == 1 else "rounds"
    words = (
        f"{order.rounds} {number} a run, each script as often as its weight, in an order that the"
        f" seed draws, the same for all; drawn scripts would be about {order.executions:.0f}, too"
        " few. The rate is that of the sum of their median times by weight"
    )
    if not order.sessions:
        return f"{words}; the first execution of each in a run does not count"
    words += "; one session runs each under every configuration in succession, in random order"
    return f"{words}, after one that does not count" if order.discards_first else words


def block_parts(
    short: Sequence[ShortBlocks], block_s: float, copying_s: float | None
) -> Iterator[tuple[str, str]]:
    """Yield what of a block is spent on copies of the data, and which blocks are shorter."""
    if copying_s:
        yield "copying", f"{copying_s:.1f} s of each block of {format_duration(block_s)}"
    if short:
        parts = (
            f"{part.blocks} blocks with {part.counted_s:.2g} s of each run (about"
            f" {format_duration(part.block_s)} a block)"
            for part in short
        )
        yield (
            "short",
            f"at first {', then '.join(parts)}, so that a large difference ends the campaign early",
        )


def shared_pairs(pausing: Pausing | None, memory: SharedMemory | None) -> Iterator[tuple[str, str]]:
    """Yield what stands still and what all servers need, where it is known."""
    if pausing is not None:
        yield "in pauses", _PAUSED[pausing]
    if memory is not None:
        yield "memory", memory_words(memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInTurns:
    """How long a run lasts in turns; without a workload it holds for each."""

    workload: Annotated[str, OPTIONAL, "Name of the workload."] = ""
    times: Annotated[TurnTimes, INLINE]
    run_time_s: Annotated[float, "Measured length of a run, s."]
    counted_s: ClassVar = Computed(
        lambda run: round(run.times.turns_in(run.run_time_s) * run.times.counted_s, 6),
        Annotated[float, "Part of it that counts, s."],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How configurations took turns."""

    pausing: Annotated[Pausing | None, "How servers stand still between turns; null: they do not."]
    warm_ups_s: Annotated[
        tuple[float, ...],
        Named("warm_up_s"),
        "Seconds of warm-up, one for each length that was used.",
    ]
    memory: Annotated[SharedMemory | None, "Memory for all servers at once; null: unknown."]
    workloads: Annotated[tuple[RunInTurns, ...], "Runs of each workload."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The plan of a campaign, as programs read it."""

    plan: Annotated[CampaignPlan, INLINE]
    turns: Annotated[Turns | None, OPTIONAL, "How configurations take turns."]


DESIGN: Final = Declared(
    Design | None,
    "design",
    "The plan that was frozen before the first block; null if the campaign did not get there.",
)


def design_of(analysis: CampaignAnalysis) -> Design | None:
    """Return the plan with its turns, if any were taken."""
    experiment, plan = analysis.experiment, analysis.plan
    if plan is None:
        return None
    turns = Turns(
        pausing=plan.pausing,
        warm_ups_s=analysis.warm_ups_s,
        memory=plan.memory,
        workloads=tuple(
            RunInTurns(
                workload=each.workload,
                times=each.times,
                run_time_s=experiment.run_time_s(each.workload),
            )
            for each in plan.turns
        ),
    )
    return Design(plan=plan, turns=turns if plan.mode is Mode.ALTERNATING else None)


def plan_json(
    mode: Mode, experiment: Experiment, pausing: Pausing | None, memory: SharedMemory | None
) -> dict[str, Json]:
    """Return how turns would be taken for programs; nothing where none would be."""
    if mode is not Mode.ALTERNATING:
        return {}
    run = RunInTurns(times=experiment.measure.turns, run_time_s=experiment.measure.run_time_s)
    own: list[Json] = [
        keys_of(replace(run, workload=each.name, run_time_s=each.run_time_s))
        for each in experiment.workloads
        if each.run_time_s is not None
    ]
    return {
        "turns": {
            "pausing": None if pausing is None else pausing.value,
            "memory": None if memory is None else keys_of(memory),
            **keys_of(run),
            **({"workloads": own} if own else {}),
        }
    }
