"""The order of runs, drawn by coin before the first of them (METHOD 3.1), and how long they take.

The comparison is valid because of this coin, whatever the noise: never replace it by a pattern.
The first blocks are drawn such that each configuration stands in each slot equally often: a
constant difference of slots then cancels at the first interim results.

A start has one round, as many as a checkpoint cycle needs, or the best for instances. A round is
one run in every cell (back to back: of every configuration). What a start costs before its first
run is paid once, whatever the rounds.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from steelyard.answers.observations import result_count
from steelyard.core.campaign import (
    ASSUMED_NOISE,
    NoiseOrigin,
    NoiseProfile,
    Rounds,
    RoundsFor,
    ShortBlocks,
    StoppingRule,
    settling_s,
)
from steelyard.core.experiment import Configuration, Experiment, Reset, SwitchCost
from steelyard.core.findings import Finding, Severity
from steelyard.core.measurement import ServerEnvironment
from steelyard.core.schedule import (
    CONNECTION_S,
    CellKey,
    Load,
    Mode,
    PlannedBlock,
    PlannedRun,
    PlannedStart,
    Schedule,
    TurnTimes,
    WorkloadTurns,
    sub_block_sizes,
)
from steelyard.core.wording import (
    GIB,
    InputError,
    format_duration,
    format_percent,
    parse_duration_s,
)
from steelyard.stats.noise import (
    LEAST_INSTANCES,
    instances_needed,
    mean_variance,
    optimal_runs,
)
from steelyard.stats.spending import (
    FIRST_LOOK,
    blocks_within,
    first_look_of,
    stopping_rule,
)
from steelyard.stats.turns import LEAST_BLOCKS
from steelyard.systems.protocol import Dataset, Engine
from steelyard.targets.differences import differing_settings


def mode_for(switch: SwitchCost, *, single_pass: bool = False, alternates: bool = False) -> Mode:
    """Return how blocks are made: back to back where a running server can change sides."""
    if single_pass:
        return Mode.STARTS
    if alternates:
        return Mode.ALTERNATING
    if switch in (SwitchCost.SESSION, SwitchCost.RELOAD):
        return Mode.BACK_TO_BACK
    return Mode.STARTS


def blocks_planned(
    experiment: Experiment, left_s: float, block_s: float, short: Sequence[ShortBlocks] = ()
) -> int:
    """Return how many blocks a campaign may take; a single pass is one, however long it takes."""
    if experiment.is_single_pass:
        return 1
    within = blocks_within(left_s, block_s, short)
    return within if experiment.stop.blocks is None else min(within, experiment.stop.blocks)


def stopping_for(experiment: Experiment, switch: SwitchCost, max_blocks: int) -> StoppingRule:
    """Return the rule that a campaign freezes, where so many blocks fit into its budget.

    Where each start makes a new server, no look has fewer than a cause needs (METHOD 3.8).
    """
    remade = switch is SwitchCost.REPROVISION
    return stopping_rule(
        results=result_count(experiment),
        first_look=first_look_of(
            len(experiment.configurations), least=LEAST_INSTANCES if remade else FIRST_LOOK
        ),
        max_blocks=max_blocks,
        precision=experiment.stop.width,
        blocks=experiment.stop.blocks,
        ends_from=0 if experiment.stop.early else LEAST_BLOCKS,
    )


def cells_of(experiment: Experiment) -> tuple[CellKey, ...]:
    """Return every workload under every load, in file order."""
    return tuple(
        CellKey(workload=workload.name, load=load)
        for workload in experiment.workloads
        for load in experiment.loads
    )


def schedule_of(
    experiment: Experiment,
    *,
    mode: Mode,
    blocks: int,
    rounds: int = 1,
    reading: Collection[str] = (),
    at_once: int | None = None,
    short: Sequence[ShortBlocks] = (),
) -> Schedule:
    """Return the order of an experiment's runs, as its design asks.

    Workloads that only read are named in ``reading``: alternating blocks begin with them. Where
    not all servers fit, so many are up ``at_once``, the baseline's among them. The first blocks
    may be ``short``.
    """
    names = [configuration.name for configuration in experiment.configurations]
    if experiment.is_single_pass:
        return single_pass(names[0], cells_of(experiment), seed=experiment.seed)
    drawn = make_schedule(
        configurations=names,
        cells=cells_of(experiment),
        seed=experiment.seed,
        mode=mode,
        blocks=blocks,
        rounds=rounds,
    )
    lengths = (part.counted_s for part in short for _ in range(part.blocks))
    shorter = [
        replace(block, counted_s=counted_s)
        for block, counted_s in zip(drawn.blocks, lengths, strict=False)
    ]
    drawn = replace(drawn, blocks=(*shorter, *drawn.blocks[len(shorter) :]))
    if mode is not Mode.ALTERNATING:
        return drawn
    blocks_drawn = [_reads_first(block, reading) for block in drawn.blocks]
    if at_once is not None:
        blocks_drawn = [
            in_sub_blocks(block, experiment.baseline, at_once, experiment.seed)
            for block in blocks_drawn
        ]
    return replace(drawn, blocks=tuple(blocks_drawn))


_SUB_BLOCKS, _SQUARES = 0, 1  # what further coins are for
SQUARES = 2  # Latin squares before the free draw: the first result of two configurations needs both


def in_sub_blocks(block: PlannedBlock, baseline: str, at_once: int, seed: int) -> PlannedBlock:
    """Return a block whose starts are up in sub-blocks of at most so many, the baseline in each.

    Which configurations are up together is drawn with the order of the block; where the baseline
    stands among them, a coin of its own says.
    """
    coin = block_coin(seed, block.index, _SUB_BLOCKS)
    others = [start for start in block.starts if start.configuration != baseline]
    own = next(start for start in block.starts if start.configuration == baseline)
    starts: list[PlannedStart] = []
    for number, size in enumerate(sub_block_sizes(len(others), at_once)):
        together, others = others[:size], others[size:]
        together.insert(int(coin.integers(size + 1)), own)
        starts += [replace(start, sub_block=number) for start in together]
    return replace(block, starts=tuple(starts))


def single_pass(configuration: str, cells: Sequence[CellKey], *, seed: int) -> Schedule:
    """Return one start with every cell once, in the order given: no coin is tossed.

    It copies what is usually published, order and time confounded with the load, so that it can
    be put beside it. Nothing may be compared by it.
    """
    runs = tuple(PlannedRun(configuration=configuration, cell=cell) for cell in cells)
    start = PlannedStart(configuration=configuration, runs=runs)
    block = PlannedBlock(index=0, starts=(start,))
    return Schedule(seed=seed, mode=Mode.STARTS, blocks=(block,))


def make_schedule(
    *,
    configurations: Sequence[str],
    cells: Sequence[CellKey],
    seed: int,
    mode: Mode,
    blocks: int,
    rounds: int = 1,
) -> Schedule:
    """Return complete blocks in random order, a function of the arguments alone.

    Every block holds each configuration in each cell exactly ``rounds`` times. Block i is the same
    however many blocks are asked for, so a longer campaign continues a shorter one.

    Args:
        configurations: Names, the baseline among them; with two, a coin says which goes first.
        cells: In a block's starts they come in one random order, the same in all its starts, so
            that warm-up and checkpoints meet both sides alike. Every round has an order of its own.
        seed: Not negative.
        mode: Starts: one start per configuration. Alternating: likewise, and all of them at the
            same time, the first in the first slot. Back to back: one start in which each cell runs
            all configurations, with a coin of its own.
        blocks: How many to plan.
        rounds: Passes over the cells in one start.

    Raises:
        ValueError: The seed is negative, or there is no configuration, no cell or no round.
    """
    if not configurations or not cells or rounds < 1:
        raise ValueError(
            f"no block from {len(configurations)} configurations in {len(cells)} cells, {rounds}"
            " times"
        )
    draw = _back_to_back if mode is Mode.BACK_TO_BACK else _starts
    planned = tuple(
        PlannedBlock(index=index, starts=draw(configurations, cells, seed, index, rounds))
        for index in range(blocks)
    )
    return Schedule(seed=seed, mode=mode, blocks=planned)


def _reads_first(block: PlannedBlock, reading: Collection[str]) -> PlannedBlock:
    """Return a block in whose starts what only reads comes first, else in the order drawn."""

    def place(run: PlannedRun) -> bool:
        return run.cell.workload not in reading

    starts = [replace(start, runs=tuple(sorted(start.runs, key=place))) for start in block.starts]
    return replace(block, starts=tuple(starts))


def block_coin(seed: int, index: int, *further: int) -> np.random.Generator:
    """Return the random numbers of one block, or of a part of it, independent of all others."""
    sequence = np.random.SeedSequence(seed, spawn_key=(index, *further))
    return np.random.Generator(np.random.PCG64(sequence))


def slot_order(
    count: int, coin: np.random.Generator, seed: int, block: int, *part: int
) -> Sequence[int]:
    """Return which of ``count`` configurations has which slot in a block.

    Args:
        count: At least 1.
        coin: Of the block, for blocks behind the squares.
        seed: Of the campaign.
        block: Its number.
        *part: Of the block that has an order of its own; empty for the whole block.
    """
    square, row = divmod(block, count)
    if square >= SQUARES:
        return tuple(coin.permutation(count))
    return latin_square(count, block_coin(seed, square, _SQUARES, *part))[row]


def latin_square(count: int, coin: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Return rows that hold each number below ``count`` once, as does each of their columns."""
    rows, columns, numbers = (coin.permutation(count) for _ in range(3))
    square = numbers[np.add.outer(rows, columns) % count]
    return tuple(tuple(int(number) for number in row) for row in square)


def _starts(
    configurations: Sequence[str], cells: Sequence[CellKey], seed: int, block: int, rounds: int
) -> tuple[PlannedStart, ...]:
    coin = block_coin(seed, block)
    slots = slot_order(len(configurations), coin, seed, block)
    first_to_last = [configurations[place] for place in slots]
    order = [cells[place] for _ in range(rounds) for place in coin.permutation(len(cells))]
    return tuple(
        PlannedStart(
            configuration=configuration,
            runs=tuple(PlannedRun(configuration=configuration, cell=cell) for cell in order),
        )
        for configuration in first_to_last
    )


def _back_to_back(
    configurations: Sequence[str], cells: Sequence[CellKey], seed: int, block: int, rounds: int
) -> tuple[PlannedStart, ...]:
    coin, sides = block_coin(seed, block), len(configurations)
    runs = tuple(
        PlannedRun(configuration=configurations[side], cell=cells[place])
        for number in range(rounds)
        for place in coin.permutation(len(cells))
        for side in slot_order(sides, coin, seed, block, number, int(place))
    )
    return (PlannedStart(configuration=runs[0].configuration, runs=runs),)


# From research on one machine; replaced by measured values before the plan is frozen.
GUESSED_START_S = 0.5
GUESSED_RESTORE_S_PER_GIB = 3.0
GUESSED_PREPARE_S_PER_SCALE = 0.1
GUESSED_PREPARE_S = 2.0
GUESSED_SWITCH_S = 0.1
# Measured with Redis 7.0.15 on two busy CPUs: 16,000 keys/s, and 30 MB/s of large ones with their
# dump and append-only file.
GUESSED_FILL_S_PER_KEY = 1 / 16_000
GUESSED_FILL_S_PER_GIB = 35.0


def loading_s(datasets: Sequence[Dataset]) -> float:
    """Return about how long it takes to make data: tables, or keys of a Redis server."""
    tables_s = GUESSED_PREPARE_S_PER_SCALE * sum(each.scale or 0 for each in datasets)
    keys = sum(each.space.loaded for each in datasets if each.space is not None)
    size = sum(each.expected_memory_bytes for each in datasets)
    keys_s = GUESSED_FILL_S_PER_KEY * keys + GUESSED_FILL_S_PER_GIB * size / GIB
    return GUESSED_PREPARE_S + tables_s + keys_s


# Of Clusters: seen on one small cluster with local volumes (23 to 58 s to healthy, 3 to 20 s for a
# restart); what a storage product needs to make a volume comes on top and is not known before.
GUESSED_CLUSTER_S = 60.0
GUESSED_STANDBY_S = 30.0
GUESSED_ROLLOUT_S = 15.0
# Of Redis servers in pods: 11 s to make one with a local volume, 6 to 8 s for a start were seen.
GUESSED_REDIS_SET_S = 15.0
GUESSED_POD_START_S = 8.0
# Process start, connections and the last transactions of a run: measured at 8 clients, rounded up.
RUN_OVERHEAD_S = 0.25
# A command in the database's container reads it before a run and after: with it 2 to 3 s were seen
# on a small busy cluster.
POD_RUN_OVERHEAD_S = 2.0
DEFAULT_WARM_UP_S = 20.0  # METHOD 3.7
# Seconds under load where configurations alternate. Measured: with 2 s an effect of 16 against 512
# MB of shared buffers (160 MB of data) is the same as in long turns, with 1 s it is smaller.
TURNS_WARM_UP_S = 2.0
# Under load after new generators of a run in turns, of which nothing counts: connecting 50 clients
# took 0.1 s. Rounds in which a client still connected do not count.
CONNECT_S = 0.25
# An open loop goes on for so long, because pgbench forgets what was due and not sent at its end.
TAIL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTimes:
    """Seconds of one start's parts.

    Attributes:
        restore_s: Bringing the data back, per start in which it happens.
        start_s: From the server's start to verified and prewarmed.
        switch_s: From one configuration to another on a running server.
    """

    restore_s: float
    start_s: float
    switch_s: float = GUESSED_SWITCH_S


def tail_s(load: Load) -> float:
    """Return how long a load goes on after the measured part of its run."""
    return TAIL_S if load.is_open else 0.0


def run_overhead_s(experiment: Experiment) -> float:
    """Return the seconds that a run takes beside the time that it measures."""
    return POD_RUN_OVERHEAD_S if experiment.is_in_kubernetes else RUN_OVERHEAD_S


def run_s(experiment: Experiment, workload: str) -> float:
    """Return the seconds one run of a closed loop takes, ramp and overhead included."""
    measured_s = experiment.measure.discard_start_s + experiment.run_time_s(workload)
    return measured_s + run_overhead_s(experiment)


def cells_s(experiment: Experiment) -> float:
    """Return the seconds that one run of every cell takes, the tails of open loops included."""
    each_s = (run_s(experiment, workload.name) for workload in experiment.workloads)
    tails_s = sum(map(tail_s, experiment.loads))
    return sum(len(experiment.loads) * run + tails_s for run in each_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFrame:
    """What is known of a campaign's starts when their rounds are chosen.

    Attributes:
        times: Guessed before the start, measured before the plan is frozen.
        cycle_s: The longest checkpoint cycle of the configurations.
    """

    mode: Mode
    switch: SwitchCost
    reset: Reset
    warm_up_s: float
    times: SwitchTimes
    cycle_s: float

    @property
    def instance_s(self) -> float:
        """Return the seconds from nothing to a server that can be measured."""
        return self.times.restore_s + self.times.start_s + self.warm_up_s


def block_s(
    experiment: Experiment, frame: StartFrame, *, rounds: int = 1, at_once: int | None = None
) -> float:
    """Return the seconds one block takes, by arithmetic from its parts."""
    mode, reset, warm_up_s, times = frame.mode, frame.reset, frame.warm_up_s, frame.times
    arms = len(experiment.configurations)
    cells = len(experiment.workloads) * len(experiment.loads) * rounds
    runs = arms * rounds * cells_s(experiment)
    between_s = len(experiment.workloads) * run_overhead_s(experiment)
    warm_ups = warm_up_s + between_s if warm_up_s else 0.0
    if mode is Mode.ALTERNATING:
        starts = starts_in_turns(arms, at_once)
        return alternating_block_s(experiment, starts, warm_up_s=warm_up_s, times=times)
    if mode is Mode.BACK_TO_BACK:
        again = times.restore_s + times.start_s + warm_ups if reset is not Reset.CAMPAIGN else 0.0
        settling = float(settling_s(experiment.system, warm_up_s))
        settling += run_overhead_s(experiment) if settling else 0.0
        return again + runs + arms * cells * (times.switch_s + settling)
    return copying_s(experiment, frame) + arms * (times.start_s + warm_ups) + runs


def copying_s(experiment: Experiment, frame: StartFrame, *, at_once: int | None = None) -> float:
    """Return for how long of a block data are brought back to the prepared state, in seconds."""
    arms = len(experiment.configurations)
    restores = {Reset.START: arms, Reset.BLOCK: 1, Reset.CAMPAIGN: 0}[frame.reset]
    if frame.mode is Mode.ALTERNATING and restores:
        restores = starts_in_turns(arms, at_once)
    if frame.mode is Mode.BACK_TO_BACK:
        restores = min(restores, 1)
    return restores * frame.times.restore_s


def starts_in_turns(configurations: int, at_once: int | None) -> int:
    """Return the starts of one block in turns: in sub-blocks the baseline has one in each."""
    if at_once is None:
        return configurations
    return configurations - 1 + len(sub_block_sizes(configurations - 1, at_once))


def alternating_block_s(
    experiment: Experiment, starts: int, *, warm_up_s: float, times: SwitchTimes
) -> float:
    """Return the seconds of one block of so many starts in turns.

    Servers are brought up side by side, and take as long as one after another: they copy from one
    disk on to one, with the CPUs that there are. Measured with two and three of them on two CPUs.
    """
    warming_s = _warming_s(experiment, warm_up_s) if warm_up_s else 0.0
    cells_s = len(experiment.workloads) * warming_s + _turns_s(experiment)
    return starts * (times.restore_s + times.start_s + cells_s)


def _turns_s(experiment: Experiment) -> float:
    """Return the seconds that the turns of one configuration take in all cells of a block."""
    connecting = connecting_s(experiment)
    slices_s = sum(experiment.run_time_s(each.name) + connecting for each in experiment.workloads)
    return len(experiment.loads) * slices_s


def _warming_s(experiment: Experiment, warm_up_s: float) -> float:
    """Return the seconds of warming a server up for one workload.

    The generators of its first cell do it while they connect, if that cell has the largest load;
    else generators of its own do.
    """
    own = 1.0 - 1.0 / len(experiment.loads)  # the share of blocks in which another cell is first
    return warm_up_s + own * RUN_OVERHEAD_S - (1.0 - own) * CONNECT_S


def connecting_s(experiment: Experiment) -> float:
    """Return the seconds that the connections of a run in turns take, all times together."""
    each_s = POD_RUN_OVERHEAD_S if experiment.is_in_kubernetes else CONNECTION_S
    return (experiment.measure.turns.reconnects + 1) * each_s


# What counts of a run in the first blocks: a guess between 1 and 2 s. Shorter ones say too little
# of small differences, and longer ones save nothing (METHOD 3.4).
SHORT_S = 1.5
_WORTH_IT = (
    2 / 3
)  # of a whole block's time; simulated: above it noisier blocks cost more than they save


def short_blocks(
    experiment: Experiment,
    frame: StartFrame,
    *,
    rounds: Rounds,
    at_once: int | None = None,
    turns: Sequence[WorkloadTurns] = (),
) -> tuple[ShortBlocks, ...]:
    """Return the short blocks that a campaign begins with; empty where they would save little.

    There are as many of them as the first interim result has, and as many again of a length
    between theirs and the whole one. All configurations have one length in a block, and the
    lengths change between whole squares of slots, so that each slot has each length equally often.

    Args:
        experiment: To be measured.
        frame: Of its starts.
        rounds: Of a start: those of several last as long as they were chosen for.
        at_once: Servers that are up together, if these are not all.
        turns: Of its workloads, where they are known already.
    """
    if not _may_be_short(experiment, frame, rounds):
        return ()
    whole_s = block_s(experiment, frame, rounds=rounds.number, at_once=at_once)
    most_s = max(_counted_s(experiment, frame.mode, turns))
    found = []
    for blocks, counted_s in short_lengths(len(experiment.configurations), most_s):
        shorter = shortened(experiment, frame.mode, counted_s, turns)
        seconds = block_s(shorter, frame, rounds=rounds.number, at_once=at_once)
        found.append(ShortBlocks(blocks=blocks, counted_s=counted_s, block_s=seconds))
    return tuple(found) if found and found[0].block_s <= _WORTH_IT * whole_s else ()


def short_lengths(configurations: int, whole_s: float) -> tuple[tuple[int, float], ...]:
    """Return how many of the first blocks count for so many seconds of each run.

    Empty where whole squares of slots do not end at the first interim result, or where the whole
    length is not longer.
    """
    blocks = first_look_of(configurations)
    if blocks % configurations or whole_s <= SHORT_S:
        return ()
    return tuple((blocks, round(s, 3)) for s in (SHORT_S, math.sqrt(SHORT_S * whole_s)))


def _may_be_short(experiment: Experiment, frame: StartFrame, rounds: Rounds) -> bool:
    """Return whether a verdict may come early, and no other purpose needs runs of full length."""
    stop = experiment.stop
    ends_early = stop.early and stop.width is None and stop.blocks is None
    compares = experiment.compares_throughput and not experiment.is_single_pass
    needs_length = experiment.goal is not None or any(load.is_open for load in experiment.loads)
    return (
        ends_early
        and compares
        and experiment.twin_of is None
        and not needs_length
        and rounds.chosen_for is RoundsFor.ONE
        and frame.switch is not SwitchCost.REPROVISION
        and all(workload.command is None for workload in experiment.workloads)
    )


def _counted_s(
    experiment: Experiment, mode: Mode, turns: Sequence[WorkloadTurns]
) -> Iterator[float]:
    """Yield what counts of a run of each workload."""
    for workload in experiment.workloads:
        times = _times_of(experiment, workload.name, turns)
        counts = times.counted_s / times.turn_s if mode is Mode.ALTERNATING else 1.0
        yield counts * experiment.run_time_s(workload.name)


def _times_of(experiment: Experiment, workload: str, turns: Sequence[WorkloadTurns]) -> TurnTimes:
    own = (each.times for each in turns if each.workload == workload)
    return next(own, experiment.measure.turns)


def shortened(
    experiment: Experiment,
    mode: Mode,
    counted_s: float | None,
    turns: Sequence[WorkloadTurns] = (),
) -> Experiment:
    """Return an experiment of whose runs so many seconds count at most; None: as it is.

    In turns each set of connections keeps two of them at least. Runs in one piece last whole
    seconds.
    """
    if counted_s is None:
        return experiment

    def length_s(workload: str) -> float:
        times = _times_of(experiment, workload, turns)
        needed_s = float(math.ceil(counted_s))
        if mode is Mode.ALTERNATING:
            least_s = 2 * (times.reconnects + 1) * times.turn_s
            needed_s = max(counted_s * times.turn_s / times.counted_s, least_s)
        return min(needed_s, experiment.run_time_s(workload))

    workloads = (replace(each, run_time_s=length_s(each.name)) for each in experiment.workloads)
    return replace(experiment, workloads=tuple(workloads))


# Between instances of one kind: a guess; METHOD 3.8 simulates 1.4 %, and 1 to 4 % are expected.
ASSUMED_INSTANCE_SD = 0.02
DEFAULT_CYCLE_S = 300.0  # PostgreSQL's default checkpoint_timeout


def choose_rounds(
    experiment: Experiment,
    engine: Engine,
    frame: StartFrame,
    noise: NoiseProfile = ASSUMED_NOISE,
) -> Rounds:
    """Return the rounds asked for, else as many as the differences and the switch call for."""
    if experiment.is_single_pass:
        return Rounds()
    names = _cycle_settings(experiment, engine, frame)
    round_s = _round_s(experiment, frame)
    needed = math.ceil(frame.cycle_s / _least_round_s(experiment, frame)) if names else 1
    asked = experiment.measure.runs_per_start
    if asked is not None:
        return Rounds(
            number=asked,
            chosen_for=RoundsFor.ASKED,
            reason="as the experiment asks",
            early_only=names if asked < needed else (),
            covered_s=asked * round_s,
        )
    chosen = _for_instances(experiment, frame, noise)
    if needed > chosen.number:
        return Rounds(
            number=needed,
            chosen_for=RoundsFor.CYCLE,
            reason=f"the effect of {', '.join(names)} changes over a checkpoint cycle, and the runs"
            f" of one start cover a whole one of {format_duration(frame.cycle_s)}",
            covered_s=needed * round_s,
        )
    return chosen


def _for_instances(experiment: Experiment, frame: StartFrame, noise: NoiseProfile) -> Rounds:
    """Return the best number of runs in a newly made server; one where none are made."""
    if frame.switch is not SwitchCost.REPROVISION:
        return Rounds()
    round_s = _round_s(experiment, frame)
    levels = [_levels(experiment, noise, workload.name) for workload in experiment.workloads]
    number = max(
        optimal_runs(
            instance_cost=frame.instance_s,
            run_cost=round_s,
            instance_sd=instance_sd,
            run_sd=run_sd,
        )
        for instance_sd, run_sd in levels
    )
    return Rounds(
        number=number,
        chosen_for=RoundsFor.INSTANCES,
        reason=f"best where a new server takes {format_duration(frame.instance_s)} to the first"
        f" run and a round {format_duration(round_s)}, with {_deviations(levels, noise)}",
        covered_s=number * round_s,
        least_instances=max(
            instances_needed(
                experiment.stop.detect, instance_sd=instance_sd, run_sd=run_sd, runs=number
            )
            for instance_sd, run_sd in levels
        ),
    )


def _levels(experiment: Experiment, noise: NoiseProfile, workload: str) -> tuple[float, float]:
    """Return the deviations between instances and between rounds, of the mean over the loads.

    What restarts differ by says nothing of newly made servers.
    """
    part = noise.of(workload)
    remade = noise.switch is SwitchCost.REPROVISION
    cells = max(len(experiment.closed_loads), 1)
    # Of a slice: its own noise, and its seconds with their autocorrelation.
    seconds = mean_variance(part.second_sd, part.autocorrelation, experiment.run_time_s(workload))
    run_sd = math.sqrt(part.slice_sd**2 + seconds) / math.sqrt(cells)
    return part.restart_sd if remade else ASSUMED_INSTANCE_SD, run_sd


def _deviations(levels: Sequence[tuple[float, float]], noise: NoiseProfile) -> str:
    """Return the deviations in words, with where they come from."""
    measured = noise.origin is NoiseOrigin.MEASURED
    of_servers = measured and noise.switch is SwitchCost.REPROVISION
    instance_sd, run_sd = (
        format_percent(max(level), signed=False) for level in zip(*levels, strict=True)
    )
    return (
        f"a standard deviation of {instance_sd} between servers"
        f" ({'measured' if of_servers else 'assumed'}) and {run_sd} between rounds"
        f" ({'measured' if measured else 'assumed'})"
    )


def _round_s(experiment: Experiment, frame: StartFrame) -> float:
    """Return the seconds of one round in a start."""
    cells = len(experiment.workloads) * len(experiment.loads)
    runs_s = cells_s(experiment)
    arms = len(experiment.configurations)
    if frame.mode is Mode.BACK_TO_BACK:
        return arms * (runs_s + cells * frame.times.switch_s)
    if frame.mode is Mode.ALTERNATING:
        return arms * _turns_s(experiment)
    return runs_s


def _least_round_s(experiment: Experiment, frame: StartFrame) -> float:
    """Return the seconds that one round takes at least: what its runs last, and nothing guessed.

    A cycle that is to be covered must be covered also where starting a run takes no time.
    """
    in_turns = frame.mode is Mode.ALTERNATING
    ramp_s = 0.0 if in_turns else experiment.measure.discard_start_s
    runs_s = sum(ramp_s + experiment.run_time_s(each.name) for each in experiment.workloads)
    together = in_turns or frame.mode is Mode.BACK_TO_BACK
    arms = len(experiment.configurations) if together else 1
    return arms * len(experiment.loads) * runs_s


def _cycle_settings(experiment: Experiment, engine: Engine, frame: StartFrame) -> tuple[str, ...]:
    """Return the differing settings for which the phase of the cycle matters here.

    Not where nothing is written. Not on a server that runs on from block to block, for then the
    blocks themselves are spread over whole cycles.
    """
    runs_on = frame.mode is Mode.BACK_TO_BACK and frame.reset is Reset.CAMPAIGN
    if runs_on or not engine.writes():
        return ()
    names = {
        name
        for one, other in combinations(experiment.configurations, 2)
        for name in differing_settings(one, other)
    }
    return engine.checkpoint_settings(sorted(names))


def asked_cycle_s(experiment: Experiment) -> float:
    """Return the longest checkpoint cycle asked for, PostgreSQL's default where none is."""
    return max(_cycle_s(configuration) for configuration in experiment.configurations)


def _cycle_s(configuration: Configuration) -> float:
    try:
        return parse_duration_s(configuration.asked_folded()["checkpoint_timeout"])
    except (KeyError, InputError):
        return DEFAULT_CYCLE_S


def cycle_in_force_s(engine: Engine, servers: Sequence[ServerEnvironment]) -> float:
    """Return the longest checkpoint cycle in force; PostgreSQL's default where none is shown."""
    shown = [engine.checkpoint_cycle_s(server.settings) for server in servers]
    return max((cycle_s for cycle_s in shown if cycle_s is not None), default=DEFAULT_CYCLE_S)


def early_phase_finding(rounds: Rounds, cycle_s: float) -> Finding | None:
    """Return what a report must say when the cycle matters and was not covered."""
    if not rounds.early_only:
        return None
    return Finding(
        code="early-checkpoint-phase",
        severity=Severity.WARNING,
        message=f"only the early phase of the checkpoint cycle was measured: the effect of"
        f" {', '.join(rounds.early_only)} changes over a cycle of {format_duration(cycle_s)}, and"
        f" the runs of one start cover {format_duration(rounds.covered_s)} of it",
        remedy="Leave `measure.runs_per_start` out, so that each start covers a whole cycle, or ask"
        " for `sustain:` runs.",
        source="METHOD 3.7 and 12",
        subject="campaign",
    )
