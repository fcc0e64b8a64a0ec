"""The latency budget: a transaction's mean time, split by what its session did meanwhile.

By Little's law a class that holds so many sessions on average, at so many transactions per
second, takes sessions / tps of each transaction. In a closed loop all clients together give
clients / tps, so the parts of a block sum to its latency exactly.

A server whose sessions say what they wait for is sampled. One that serves them all on one thread is
not: there the thread's own account says where the time goes. A request waits while the thread is
with others, so of the time between two answers, clients times, each part is the time that the
thread spends so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.observations import change
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Quantity, Run, WaitClass
from steelyard.core.quantities import INLINE, SECONDS, Named
from steelyard.core.schedule import (
    BaselineName,
    Blocks,
    CellKey,
    ConfigurationName,
    Missing,
)
from steelyard.stats.intervals import FloatArray


class Part(StrEnum):
    """A part of a transaction's time.

    Attributes:
        ON_CPU: The server's processes used a CPU, background ones too; by the kernel's account.
        CPU_WAIT: In a run queue, or stopped by a quota; likewise. At least the rest of the class
            ``cpu``, and what is more was sampled as waiting for the client.
        CPU: The class of that name, where the kernel's account was not to be had.
        EXECUTING: The main thread executed commands, by the server's own account.
        SERVING: It used a CPU for everything else: reading and writing sockets, the protocol,
            handing the log to the kernel.
        FORKING: It stood still to fork.
        BLOCKED: It was in uninterruptible sleep, sampled: it waited for storage.
        OFF_CPU: It was off the CPU, and nobody could see whether for storage, for a CPU or for
            the next request.
        UNSEEN: What the samples do not cover; below 0 where they cover more than there was.
    """

    ON_CPU = "on_cpu"
    CPU_WAIT = "waiting_for_cpu"
    CPU = "cpu"
    EXECUTING = "executing"
    SERVING = "serving"
    FORKING = "forking"
    BLOCKED = "blocked"
    IO = "io"
    WAL = "wal"
    LWLOCK = "lwlock"
    LOCK = "lock"
    REPLICATION = "replication"
    OTHER = "other"
    OFF_CPU = "off_cpu"
    CLIENT = "client"
    UNSEEN = "unseen"


# Parts that are a class of sampled waits.
_SAMPLED = {
    Part.IO: WaitClass.IO,
    Part.WAL: WaitClass.WAL,
    Part.LWLOCK: WaitClass.LWLOCK,
    Part.LOCK: WaitClass.LOCK,
    Part.REPLICATION: WaitClass.REPLICATION,
    Part.OTHER: WaitClass.OTHER,
    Part.CLIENT: WaitClass.CLIENT,
}
_OF_THE_CPU = (Part.ON_CPU, Part.CPU_WAIT, Part.CPU)
# What the main thread's account rests on.
_THREAD_QUANTITIES = (
    Quantity.MAIN_THREAD_CPU_S,
    Quantity.COMMAND_S,
    Quantity.FORK_S,
    Quantity.MAIN_THREAD_BLOCKED_S,
    Quantity.MAIN_THREAD_RUN_QUEUE_S,
)


def class_of(part: Part) -> WaitClass | None:
    """Return the class of waits that a part is, or belongs to; None for what no sample saw."""
    return WaitClass.CPU if part in _OF_THE_CPU else _SAMPLED.get(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellBudget:
    """The latency of a configuration in a cell and its parts.

    Attributes:
        latency: clients / tps, median over blocks; None when missing.
        latency_mean_s: As the generator reports it, of the whole run; None if not reported. It
            lacks the generator's own time between two transactions.
        parts: Those that were ever seen, medians over blocks; empty when missing. Medians need not
            sum exactly.
        cpu_beyond_class_s: CPU time of the server per transaction that the samples of the classes
            ``cpu`` and ``client`` do not cover, median over blocks: of background processes, or of
            sessions that came to wait before a late sample. None where it was not measured.
    """

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    blocks: Blocks
    latency: Annotated[Estimate | None, SECONDS, "Latency, s: clients / rate."]
    latency_mean_s: Annotated[float | None, "Median over runs of their mean latency, s."]
    parts: Annotated[Mapping[Part, Estimate], SECONDS, "Parts of it by name, s."]
    cpu_beyond_class_s: Annotated[float | None, "CPU time that no wait class holds, s."] = None
    missing: Missing = ""


_OF_BASELINE: Final = "Time of the baseline, s."
_OF_CONFIGURATION: Final = "Time of the configuration, s."


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChange:
    """How one part differs between two configurations, within blocks.

    Attributes:
        baseline_s: Median over blocks of the baseline's side; ``configuration_s`` of the other.
        change: With a pointwise interval (none below 6 blocks).
        clear: Also when all parts are looked at together.
    """

    part: Annotated[Part, "Name of the part."]
    baseline_s: Annotated[float, _OF_BASELINE]
    configuration_s: Annotated[float, _OF_CONFIGURATION]
    change: Annotated[Estimate, SECONDS, "Change, s."]
    clear: Annotated[bool, "The interval leaves out zero."]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChange:
    """From the baseline's latency to the configuration's, part by part: a waterfall.

    Attributes:
        blocks: In which both sides have all parts.
        baseline_s: Median latency of the baseline's side; ``configuration_s`` of the other.
        change: Of the latency within blocks, with a pointwise interval; None when missing.
        clear: Its interval leaves out 0.
        parts: Largest change first; empty when missing.
        remainder_s: By how much the parts' centres miss the way from start to end.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    blocks: Blocks = 0
    baseline_s: Annotated[float | None, _OF_BASELINE] = None
    configuration_s: Annotated[float | None, _OF_CONFIGURATION] = None
    change: Annotated[Estimate | None, SECONDS, "Change, s."] = None
    clear: bool = False
    parts: Annotated[tuple[PartChange, ...], "Each part with its change."] = ()
    remainder_s: Annotated[float | None, "Rest that the parts leave open, s."] = None
    missing: Missing = ""

    def part(self, part: Part) -> PartChange | None:
        """Return one of its parts, or None where it was never seen."""
        return next((each for each in self.parts if each.part is part), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The latency budget of a campaign: its cells, workload by workload, and its comparisons."""

    cells: Annotated[tuple[CellBudget, ...], "An entry for each configuration, workload and load."]
    changes: Annotated[
        tuple[BudgetChange, ...], Named("comparisons"), "Configurations against the baseline."
    ]


def split_latency(seen: obs.Observations, experiment: Experiment) -> Budget | None:
    """Return the latency budget of a campaign; None where no run has evidence."""
    if not seen.blocks or not any(run.evidence for runs in seen.runs.values() for run in runs):
        return None
    whole = _latencies(seen, experiment.measure.discard_start_s)
    splits = [_split(whole, column) for column in range(len(seen.cells))]
    return Budget(
        cells=tuple(
            _cell(seen, split, (side, column))
            for column, split in enumerate(splits)
            for side in range(len(seen.configurations))
        ),
        changes=tuple(
            _changed(seen, split, column, asked)
            for column, split in enumerate(splits)
            for asked in obs.result_contrasts(experiment)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Latencies:
    """Seconds per transaction, each of shape (blocks, configurations, cells)."""

    whole: FloatArray
    classes: dict[WaitClass, FloatArray]
    server_cpu: FloatArray
    run_queue: FloatArray
    main_thread: dict[Quantity, FloatArray]
    in_flight: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """One cell's latency and its parts, each of shape (blocks, configurations)."""

    whole: FloatArray
    parts: dict[Part, FloatArray]
    beyond: FloatArray


def _latencies(seen: obs.Observations, ramp_s: float) -> _Latencies:
    def totals(quantity: Quantity) -> FloatArray:
        return obs.by_block(seen, partial(_total, quantity=quantity, ramp_s=ramp_s))

    return _Latencies(
        whole=obs.by_block(seen, _whole),
        classes={group: obs.by_block(seen, partial(_in_class, group=group)) for group in WaitClass},
        server_cpu=totals(Quantity.SERVER_CPU_S),
        run_queue=totals(Quantity.SERVER_RUN_QUEUE_S),
        main_thread={quantity: totals(quantity) for quantity in _THREAD_QUANTITIES},
        in_flight=tuple(map(_in_flight, seen.cells)),
    )


def _whole(runs: obs.RunsOfBlock) -> float | None:
    """Return clients / tps of a block; None in an open loop, where clients wait for their turn.

    A client that sends several at once waits for all of them.
    """
    if any(run.cell.load.is_open for run in runs):
        return None
    seconds, transactions = _measured(runs)
    return _in_flight(runs[0].cell) * seconds / transactions if transactions else None


def _in_flight(cell: CellKey) -> int:
    """Return how many are under way at once in a closed loop."""
    return cell.load.clients * cell.load.pipeline


def _measured(runs: obs.RunsOfBlock) -> tuple[float, float]:
    taken = [run.measurement for run in runs if run.measurement is not None]
    if len(taken) < len(runs):
        return 0.0, 0.0
    return sum(each.seconds for each in taken), sum(each.transactions for each in taken)


def _in_class(runs: obs.RunsOfBlock, *, group: WaitClass) -> float | None:
    """Return sessions / tps: sessions integrated over the measured seconds, per transaction."""
    integrated = obs.sum_of([_session_seconds(run, group) for run in runs])
    _, transactions = _measured(runs)
    return integrated / transactions if integrated is not None and transactions else None


def _session_seconds(run: Run, group: WaitClass) -> float | None:
    waits = None if run.evidence is None else run.evidence.waits
    if waits is None or not waits.samples or run.measurement is None:
        return None
    return waits.sessions_in(group) * run.measurement.seconds


def _total(runs: obs.RunsOfBlock, *, quantity: Quantity, ramp_s: float) -> float | None:
    used = obs.total_of(runs, quantity)
    transactions = obs.sum_of([obs.whole_transactions(run, ramp_s) for run in runs])
    return used / transactions if used is not None and transactions else None


def _split(latencies: _Latencies, column: int) -> _Split:
    """Return the parts of a cell; alike in all its blocks and configurations."""
    whole = latencies.whole[:, :, column]
    together = latencies.in_flight[column]
    spent = latencies.main_thread
    parts = _thread_parts(whole, lambda quantity: together * spent[quantity][:, :, column])
    if parts is not None:
        return _Split(whole=whole, parts=_ever(parts, whole), beyond=np.full_like(whole, np.nan))
    return _sampled_split(latencies, column)


def _thread_parts(
    whole: FloatArray, spent: Callable[[Quantity], FloatArray]
) -> dict[Part, FloatArray] | None:
    """Return the parts of a latency by the main thread's account; None where there is none.

    Args:
        whole: The latency, s, of any shape; NaN where it is not known.
        spent: What the thread spent on all requests that were in flight together, s, same shape.

    Returns:
        Parts that sum to the latency: the last one is the rest.
    """
    on_cpu_s = spent(Quantity.MAIN_THREAD_CPU_S)
    known = np.isfinite(whole)
    if not known.any() or not np.isfinite(on_cpu_s[known]).all():
        return None
    executing_s = np.minimum(_or_none(spent(Quantity.COMMAND_S)), on_cpu_s)
    forking_s = np.minimum(_or_none(spent(Quantity.FORK_S)), on_cpu_s - executing_s)
    parts = {
        Part.EXECUTING: executing_s,
        Part.FORKING: forking_s,
        Part.SERVING: on_cpu_s - executing_s - forking_s,
    }
    blocked_s = spent(Quantity.MAIN_THREAD_BLOCKED_S)
    queued_s = spent(Quantity.MAIN_THREAD_RUN_QUEUE_S)
    seen = np.isfinite(blocked_s[known]).all() and np.isfinite(queued_s[known]).all()
    if seen:
        parts |= {Part.CPU_WAIT: queued_s, Part.BLOCKED: blocked_s}
    rest = whole - sum(parts.values(), np.zeros_like(whole))
    return {**parts, Part.CLIENT if seen else Part.OFF_CPU: rest}


def _or_none(values: FloatArray) -> FloatArray:
    """Return them with nothing where the server did not tell them apart."""
    return np.where(np.isfinite(values), values, 0.0)


def _sampled_split(latencies: _Latencies, column: int) -> _Split:
    """Return the parts by what samples saw sessions do."""
    whole = latencies.whole[:, :, column]
    cpu = latencies.classes[WaitClass.CPU][:, :, column]
    whole = np.where(np.isfinite(cpu), whole, np.nan)
    known = np.isfinite(whole)
    used = latencies.server_cpu[:, :, column]
    queued = latencies.run_queue[:, :, column]
    parts = {part: latencies.classes[group][:, :, column] for part, group in _SAMPLED.items()}
    room = cpu + parts[Part.CLIENT]
    if known.any() and np.isfinite(used[known]).all() and np.isfinite(queued[known]).all():
        # A session that its client has woken shows `ClientRead` until it gets a CPU, and on busy
        # CPUs the sampler comes when the others are off them: the kernel knows both better.
        on_cpu = np.minimum(used, room)
        waiting = np.minimum(np.maximum(cpu - on_cpu, queued), room - on_cpu)
        client = {Part.CLIENT: room - on_cpu - waiting}
        parts = {Part.ON_CPU: on_cpu, Part.CPU_WAIT: waiting, **parts, **client}
    else:
        parts = {Part.CPU: cpu, **parts}
    parts = _ever(parts, whole)
    covered = sum(parts.values(), np.zeros_like(whole))
    return _Split(
        whole=whole,
        parts={**parts, Part.UNSEEN: whole - covered},
        beyond=np.maximum(used - room, 0.0),
    )


def _ever(parts: dict[Part, FloatArray], whole: FloatArray) -> dict[Part, FloatArray]:
    """Return the parts that are anything at all where the latency is known."""
    known = np.isfinite(whole)
    return {part: values for part, values in parts.items() if bool((values[known] != 0.0).any())}


def _cell(seen: obs.Observations, split: _Split, place: tuple[int, int]) -> CellBudget:
    side, column = place
    configuration, cell = seen.configurations[side], seen.cells[column]
    runs = seen.runs[configuration, cell]
    whole = split.whole[:, side]
    blocks = int(np.isfinite(whole).sum())
    levels = ((part, obs.level(values[:, side])) for part, values in split.parts.items())
    return CellBudget(
        configuration=configuration,
        cell=cell,
        latency=obs.level(whole),
        latency_mean_s=obs.median_latency_s(runs),
        parts={part: seconds for part, seconds in levels if seconds is not None},
        blocks=blocks,
        cpu_beyond_class_s=_median_s(split.beyond[:, side]),
        missing="" if blocks else _why_missing(runs),
    )


def _median_s(values: FloatArray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _why_missing(runs: Sequence[Run]) -> str:
    """Return why the latency of these runs was not split."""
    if any(run.cell.load.is_open for run in runs):
        return "an open loop: clients wait for their schedule, so sessions do not give the latency"
    watched = [run.evidence for run in runs if run.evidence is not None]
    if not watched:
        return "the runs were not watched"
    return obs.reason_among(watched, obs.WAITS) or "wait events were not sampled in a whole block"


def _changed(
    seen: obs.Observations, split: _Split, column: int, asked: obs.ResultContrast
) -> BudgetChange:
    places = [*asked.negative, *asked.positive]
    shared = np.isfinite(split.whole[:, places]).all(axis=1)
    cell = seen.cells[column]
    if not shared.any():
        runs = [run for p in places for run in seen.runs[seen.configurations[p], cell]]
        return BudgetChange(
            baseline=asked.baseline,
            configuration=asked.configuration,
            cell=cell,
            missing=_why_missing(runs),
        )
    start, end = obs.side_means(split.whole[shared], asked)
    parts = [
        _part_change(part, values[shared], asked, len(split.parts))
        for part, values in split.parts.items()
    ]
    start_s, end_s = float(np.median(start)), float(np.median(end))
    return BudgetChange(
        baseline=asked.baseline,
        configuration=asked.configuration,
        cell=cell,
        baseline_s=start_s,
        configuration_s=end_s,
        change=change(end - start),
        clear=obs.is_clear(end - start, 1),
        parts=tuple(sorted(parts, key=lambda part: -abs(part.change.value))),
        remainder_s=end_s - start_s - sum(part.change.value for part in parts),
        blocks=int(shared.sum()),
    )


def _part_change(
    part: Part, values: FloatArray, asked: obs.ResultContrast, family: int
) -> PartChange:
    negative, positive = obs.side_means(values, asked)
    differences = positive - negative
    return PartChange(
        part=part,
        baseline_s=float(np.median(negative)),
        configuration_s=float(np.median(positive)),
        change=change(differences),
        clear=obs.is_clear(differences, family),
    )
