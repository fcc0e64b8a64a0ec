"""What a campaign will take: minutes, blocks and disk, before anything is started.

The A/A twin of an experiment is its baseline against itself, brought together as it would be.
Whatever it finds to differ is noise of the set-up: same target, workloads, loads and slices, and
the same way of switching.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from steelyard.answers.observations import result_contrasts
from steelyard.answers.outlook.compute import Forecast
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.design.noise_profiles import timed_latency_s
from steelyard.campaign.design.schedule import (
    StartFrame,
    asked_cycle_s,
    blocks_planned,
    choose_rounds,
    mode_for,
    stopping_for,
)
from steelyard.campaign.file.files import LoadedExperiment
from steelyard.campaign.run import beside_blocks as sustained
from steelyard.campaign.run.beside_blocks import capacity_s
from steelyard.campaign.run.ceilings import ceilings_s
from steelyard.campaign.run.in_order import executions_in_order, timed_in
from steelyard.core.campaign import (
    ASSUMED_NOISE,
    NoiseProfile,
    Rounds,
    RoundsFor,
)
from steelyard.core.experiment import (
    PREWARM_BYTES,
    Configuration,
    Design,
    Experiment,
    Layer,
    OtherDesign,
    Stop,
    SwitchCost,
    TwinOf,
)
from steelyard.core.money import UNLIMITED, format_money
from steelyard.core.schedule import Mode, WorkloadTurns
from steelyard.core.target import CloudNativePgTarget, RedisKubernetesTarget
from steelyard.core.wording import (
    GIB,
    MIB,
    SECONDS_PER_MINUTE,
    InputError,
    PreflightError,
    format_bytes,
    format_duration,
    in_unit,
    whole_minutes,
)
from steelyard.gateways.doors import system_doors
from steelyard.gateways.files import free_bytes
from steelyard.stats.drift import starts_to_see_it_stand
from steelyard.systems.protocol import Engine, content_of
from steelyard.systems.redis.datasets import aof_bytes
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import choose_design, reset_for, switch_cost

_EMPTY_DATA_DIRECTORY_BYTES = 64 * MIB  # measured: 39 MB (15) to 46 MB (18) plus WAL segments
_DEFAULT_MAX_WAL_BYTES = 1 * GIB
_GROWTH = 1.25  # indexes, history rows and dead tuples: a guess


def forecast(
    experiment: Experiment, assembly: Assembly, *, measured: NoiseProfile | None = None
) -> Forecast:
    """Return what a campaign will take.

    Times of restart, restore and warm-up that were ``measured`` take the place of guesses, and the
    noise says how many rounds a newly made server is worth.

    Raises:
        InputError: The file asks for a switch that is too cheap.
    """
    engine = assembly.engine
    switch = switch_cost(experiment, engine)
    turns = known_turns(experiment, engine)
    choice = choose_design(experiment, engine, assembly.room, turns)
    mode = mode_for(switch, single_pass=experiment.is_single_pass, alternates=choice.alternates)
    reset = reset_for(experiment, mode, writes=engine.writes())
    warm_up_s = expected_warm_up_s(experiment, measured, alternates=choice.alternates)
    times = _times(experiment, engine, measured)
    cached = sum(
        assembly.platforms[t.name].find(engine.program(t.name), content_of(t, engine.datasets()))
        is not None
        for t in experiment.configurations
    )
    start_s = times.restore_s + times.start_s
    finding_s = capacity_s(experiment, warm_up_s=warm_up_s, start_s=start_s)
    preparation = finding_s + _preparation_s(experiment, engine, times)
    preparation += max(each.target.made_within_s for each in experiment.configurations)
    preparation += ceilings_s(experiment, engine, assembly.platforms)
    if choice.alternates and experiment.makes_all_in_kubernetes:  # each slot has its own Cluster
        preparation += (len(experiment.made_targets) - 1) * _making_s(experiment, engine)
    frame = StartFrame(
        mode=mode,
        switch=switch,
        reset=reset,
        warm_up_s=warm_up_s,
        times=times,
        cycle_s=asked_cycle_s(experiment),
    )
    rounds = choose_rounds(experiment, engine, frame, noise=measured or ASSUMED_NOISE)
    at_once = None if choice.memory is None else choice.memory.at_once
    block = durations.block_s(experiment, frame, rounds=rounds.number, at_once=at_once)
    short = durations.short_blocks(experiment, frame, rounds=rounds, at_once=at_once, turns=turns)
    max_blocks = blocks_planned(experiment, experiment.stop.budget_s - preparation, block, short)
    sustained_s = sustained.forecast_s(
        experiment, warm_up_s=warm_up_s, switch_s=times.restore_s + times.start_s
    )
    return Forecast(
        mode=mode,
        switch=switch,
        reset=reset,
        preparation_s=preparation,
        block_s=block,
        short=short,
        copying_s=durations.copying_s(experiment, frame, at_once=at_once),
        max_blocks=max_blocks,
        stopping=stopping_for(experiment, switch, max_blocks),
        warm_up_s=warm_up_s,
        disk_bytes=_disk(
            experiment,
            assembly,
            cached_all=cached == len(experiment.configurations),
            together=(at_once or len(experiment.configurations)) if choice.alternates else 1,
        ),
        cached=cached,
        sustained_s=sustained_s,
        sustained_most_s=sustained_s + sustained.most_further_s(experiment),
        rounds=rounds,
        starts_to_shorten=_starts_to_shorten(experiment, mode, measured or ASSUMED_NOISE),
        capacity_s=finding_s,
        design_reason=choice.reason,
        pausing=assembly.room.pausing if choice.alternates else None,
        memory=choice.memory,
        reading=tuple(each.name for each in experiment.workloads if engine.only_reads(each)),
        turns=turns,
    )


def known_turns(experiment: Experiment, engine: Engine) -> tuple[WorkloadTurns, ...]:
    """Return the turns that the run will take, if it will time no transaction itself.

    Empty if a latency is not known yet, or executions go in a given order, which takes a try.
    """
    found, now = [], system_doors().clock.now()
    for workload in experiment.workloads:
        latencies_s = [
            timed_latency_s(experiment, engine, workload, name, now)
            for name in timed_in(experiment, engine, workload)
        ]
        known_s = [each for each in latencies_s if each is not None]
        if len(known_s) < len(latencies_s):
            return ()
        mean_s = max(known_s)
        if executions_in_order(experiment, engine, workload, mean_s) is not None:
            return ()
        times = experiment.measure.turns.for_latency(mean_s)
        found.append(WorkloadTurns(workload=workload.name, times=times))
    return tuple(found)


def forecast_either(
    experiment: Experiment, assembly: Assembly, *, measured: NoiseProfile | None = None
) -> Forecast:
    """Return a forecast with what becomes of it where transactions are too long for turns.

    That is left out if a campaign has timed them in the last day, because the run goes by that.
    """
    expected = forecast(experiment, assembly, measured=measured)
    if expected.mode is not Mode.ALTERNATING or experiment.design is Design.ALTERNATING:
        return expected
    if expected.turns:
        return expected
    one_by_one = replace(experiment, design=Design.ONE_BY_ONE)
    return replace(expected, otherwise=forecast(one_by_one, assembly, measured=measured))


def require_first_look(expected: Forecast, experiment: Experiment) -> None:
    """Raise when the budget ends before anything could be said.

    Raises:
        PreflightError: The first look, or the end of a single pass, comes after the budget.
    """
    missing = None if experiment.no_verdict else _beyond_budget(expected, experiment)
    if missing is not None:
        what, needed_s, ways = missing
        raise PreflightError(
            f"the budget of {format_duration(experiment.stop.budget_s)} ends before {what}",
            hint=f"Give it --budget {whole_minutes(needed_s * 1.05)}m, {ways} --no-verdict starts"
            " it all the same.",
        )


def _beyond_budget(expected: Forecast, experiment: Experiment) -> tuple[str, float, str] | None:
    """Return what comes after the budget, the seconds to have it, and how it would take fewer."""
    stop = experiment.stop
    fewer = "fewer loads, or a shorter warm-up."
    if experiment.is_single_pass:
        what = f"the single pass, which takes about {format_duration(expected.pass_s)}"
        late = expected.pass_s > stop.budget_s
        return (what, expected.pass_s, "or fewer loads.") if late else None
    if not experiment.compares_throughput:
        # Where open loops are all there is, no look tells when it is enough.
        needed_s = expected.preparation_s + expected.block_s
        what = f"the first block, which is complete after about {format_duration(needed_s)}"
        late = expected.max_blocks < 1 and any(load.is_open for load in experiment.loads)
        return (what, needed_s, fewer) if late else None
    if not experiment.awaits_verdict or expected.first_look_s <= stop.budget_s:
        return None
    before = (
        f", about {format_duration(expected.block_s)} each, after"
        f" {format_duration(expected.preparation_s)} of preparation"
    )
    if stop.blocks is not None:
        what = f"the {stop.blocks} blocks that are asked for{before}"
        return what, expected.first_look_s, "or fewer loads."
    longest_s = max(experiment.run_time_s(each.name) for each in experiment.workloads)
    few = " For few long runs ask for a number of blocks: `stop: {blocks: 4}`."
    what = f"the first interim result: {expected.stopping.first_look} blocks{before}"
    ways = f"{fewer}{_one_round(expected.rounds)}{few if longest_s >= _LONG_S else ''}"
    return what, expected.first_look_s, ways


_LONG_S: Final = 600.0  # of a run, from which few are what was meant: a guess


def require_affordable(
    experiment: Experiment, most_s: float, *, most: float | None, ttl_s: float | None
) -> None:
    """Raise when a campaign that takes up to ``most_s`` may cost or take more than it may.

    Raises:
        PreflightError: It may, or nobody knows what it costs.
    """
    if ttl_s is not None and most_s > ttl_s:
        raise PreflightError(
            f"the campaign may take {format_duration(most_s)}, and its servers may live for"
            f" {format_duration(ttl_s)} (--ttl)",
            hint="Give it a smaller --budget, or a longer --ttl.",
        )
    if most is None:
        return
    cost = experiment.cost(most_s)
    if cost is None or cost.at_most is None:
        told = "nothing says what its servers cost" if cost is None else "; ".join(cost.missing)
        hint = (
            "Say it with `cost: {per_hour: 0.42}` in the target, or add the price to a file for"
            " --prices."
        )
        if UNLIMITED in told:
            hint = (
                "Give the target the most requests a second with `io_at_most: 30000`, or take"
                " `io_optimized: true`, which includes them."
            )
        raise PreflightError(f"--max-cost cannot be kept: {told}", hint=hint)
    if cost.at_most > most:
        used = "".join(
            f", and {format_money(amount, cost.currency)} for {name}"
            for name, amount in cost.by_use.items()
        )
        raise PreflightError(
            f"the campaign may cost {format_money(cost.at_most, cost.currency)}"
            f" ({format_money(cost.per_hour, cost.currency)} an hour for"
            f" {format_duration(most_s)}{used}), more than --max-cost {most:g}",
            hint="Give it a smaller --budget, or a larger --max-cost.",
        )


def _one_round(rounds: Rounds) -> str:
    """Return the way out that costs something else, where a checkpoint cycle takes the time."""
    if rounds.chosen_for is not RoundsFor.CYCLE:
        return ""
    return (
        f" {rounds.number} rounds per start are planned, because {rounds.reason}. With"
        " `measure.runs_per_start: 1` only the early phase of the cycle is measured, and the report"
        " says so."
    )


def require_disk(expected: Forecast) -> None:
    """Raise when a directory has too little room.

    Raises:
        PreflightError: With what is needed and what is free.
    """
    for directory, (needed, free) in expected.disk_bytes.items():
        if needed > free:
            raise PreflightError(
                f"{directory} has {format_bytes(free)} free; this campaign needs"
                f" {format_bytes(needed)} there",
                hint="Lower the scale factor or max_wal_size (Redis: `loaded`, `value_bytes` or"
                " auto-aof-rewrite-min-size), or name another place with `directory:` in the"
                " target.",
            )


def expected_warm_up_s(
    experiment: Experiment, measured: NoiseProfile | None = None, *, alternates: bool = False
) -> float:
    """Return the warm-up as declared, as it was calibrated before, or what it will at least be."""
    measure = experiment.measure
    if measure.warm_up_s is not None:
        return measure.warm_up_s
    if alternates:
        return durations.TURNS_WARM_UP_S
    if measure.calibration is not None:
        before_s = measured.warm_up_s if measured is not None else None
        return max(before_s or 0.0, measure.calibration.at_least_s)
    return durations.DEFAULT_WARM_UP_S


def _starts_to_shorten(experiment: Experiment, mode: Mode, noise: NoiseProfile) -> int | None:
    """Return how many starts would show that half of the method's warm-up is enough.

    None if servers warm up otherwise: in turns, once, or as the file says.
    """
    measure = experiment.measure
    if mode is not Mode.STARTS or measure.warm_up_s is not None or measure.calibration is not None:
        return None
    parts = [noise.of(workload.name) for workload in experiment.workloads]
    rest_s = max(2, round(durations.DEFAULT_WARM_UP_S / 2.0 / len(parts)))
    return max(
        starts_to_see_it_stand(part.second_sd, part.autocorrelation, rest_s) for part in parts
    )


def _starting_s(experiment: Experiment) -> float:
    """Return about how long a server takes to start; a Cluster that is there rolls out."""
    if any(target.is_made for target in experiment.targets_of(RedisKubernetesTarget).values()):
        return durations.GUESSED_POD_START_S
    rolls = experiment.targets_of(CloudNativePgTarget) and not experiment.is_made_anew
    return durations.GUESSED_ROLLOUT_S if rolls else durations.GUESSED_START_S


def _times(
    experiment: Experiment, engine: Engine, measured: NoiseProfile | None
) -> durations.SwitchTimes:
    size = _empty_bytes(experiment) + sum(d.expected_bytes for d in engine.datasets())
    limited = experiment.measure.prewarm is None and size > PREWARM_BYTES
    prewarm_s = size / GIB if experiment.prewarms and not limited else 0.0
    restore_s = 0.3 + durations.GUESSED_RESTORE_S_PER_GIB * size / GIB
    if experiment.is_made_anew:
        restore_s = _making_s(experiment, engine)
    start_s = _starting_s(experiment) + prewarm_s
    if measured is not None:
        restore_s = restore_s if measured.restore_s is None else measured.restore_s
        start_s = start_s if measured.start_s is None else measured.start_s
    return durations.SwitchTimes(restore_s=restore_s, start_s=start_s)


def _preparation_s(experiment: Experiment, engine: Engine, times: durations.SwitchTimes) -> float:
    states = {engine.program(t.name).identity for t in experiment.configurations}
    loading = 0.0 if experiment.is_made_anew else _making_s(experiment, engine)
    start = times.restore_s + times.start_s
    arms = len(experiment.configurations)
    calibration = experiment.measure.calibration
    if calibration is None or experiment.measure.warm_up_s is not None:
        return len(states) * loading + arms * start
    restarts = max(calibration.restarts, len(experiment.workloads))
    return len(states) * loading + arms * restarts * (start + calibration.run_time_s)


def _making_s(experiment: Experiment, engine: Engine) -> float:
    made = [
        target for target in experiment.targets_of(CloudNativePgTarget).values() if target.is_made
    ]
    most = max((target.instances for target in made), default=0)
    return (
        durations.loading_s(engine.datasets())
        + durations.GUESSED_REDIS_SET_S * (bool(experiment.made_targets) and not made)
        + durations.GUESSED_CLUSTER_S * bool(made)
        + durations.GUESSED_STANDBY_S * max(most - 1, 0)
    )


def _disk(
    experiment: Experiment, assembly: Assembly, *, cached_all: bool, together: int
) -> Mapping[Path, tuple[int, int]]:
    """Return needed and free bytes by directory.

    So many servers are up ``together``, each on a copy of the data of its own.
    """
    data = sum(d.expected_bytes for d in assembly.engine.datasets())
    one = int((_empty_bytes(experiment) + data) * _GROWTH)
    needs: dict[Path, int] = {}
    places = {t.name: assembly.platforms[t.name].root for t in experiment.configurations}
    for root in dict.fromkeys(path for path in places.values() if path is not None):
        here = [t for t in experiment.configurations if places[t.name] == root]
        states = {assembly.engine.program(t.name).identity for t in here}
        anew = experiment.is_made_anew
        prepared = 0 if cached_all or anew else len(states) * one
        written = sorted((_written_bytes(each, data) for each in here), reverse=True)
        if together > 1:
            copies = min(len(here), together)
            needs[root] = prepared + copies * one + sum(written[:copies])
            continue
        # A template of PostgreSQL's data keeps a live copy beside it.
        copied = all(t.target.restore in ("copy", "reflink") for t in here)
        is_alone = anew or copied or here[0].server_layer is not Layer.POSTGRES
        needs[root] = prepared + (1 if is_alone else 2) * one * len(states) + written[0]
    return {root: (needed, free_bytes(root)) for root, needed in needs.items()}


def _empty_bytes(experiment: Experiment) -> int:
    """Return how large a data directory without data is; only PostgreSQL's holds files then."""
    is_postgres = experiment.configurations[0].server_layer is Layer.POSTGRES
    return _EMPTY_DATA_DIRECTORY_BYTES if is_postgres else 0


def _written_bytes(configuration: Configuration, data: int) -> int:
    if configuration.server_layer is Layer.REDIS:
        return aof_bytes(configuration.asked_folded(), data)
    if configuration.server_layer is not Layer.POSTGRES:
        return 0
    asked = in_unit(configuration.asked_folded().get("max_wal_size", ""), "MB")
    return _DEFAULT_MAX_WAL_BYTES if asked is None else int(asked * MIB)


AGAIN = "again"
# As long as a first answer may take: six-minute campaigns have 8 or 9 blocks, this about 14.
LEAST_BUDGET_S = 600.0
# They know a deviation to about a fifth of itself: 1 / sqrt(2 x 11) is 0.21.
ENOUGH_BLOCKS = 12


def aa_twin(
    loaded: LoadedExperiment,
    *,
    switch: SwitchCost,
    budget_s: float,
    alternates: bool = False,
    other: OtherDesign | None = None,
) -> LoadedExperiment:
    """Return an experiment's A/A twin; only its budget ends it.

    Args:
        loaded: The experiment, with any number of configurations.
        switch: How the arms are brought together: what its differences need, or as asked.
        budget_s: Seconds from the start of preparation to the end of the last block.
        alternates: The experiment's configurations do, whatever its twin could: what keeps them
            from it may be their differences, of which the twin has none.
        other: The design that it does not take.

    Raises:
        InputError: All its loads are open loops.
    """
    given = loaded.experiment
    if not given.closed_loads:
        raise InputError(
            "the noise is that of comparisons of throughput, and all loads are open loops",
            hint="Add a closed loop: --override load.rate=closed.",
        )
    baseline = given.configuration(given.baseline)
    results = result_contrasts(given)
    again = AGAIN if baseline.name != AGAIN else f"{AGAIN}-2"
    twin = replace(
        given,
        name=f"noise of {given.name}",
        description="What can this set-up see? The baseline against itself.",
        configurations=(baseline, replace(baseline, name=again)),
        measure=given.measure if alternates else replace(given.measure, switch=switch),
        stop=Stop(budget_s=budget_s, detect=given.stop.detect, margin=given.stop.margin),
        design=given.design if alternates else Design.ONE_BY_ONE,
        sustained_s=None,
        attribution=None,
        goal=None,
        twin_of=TwinOf(
            name=given.name,
            configurations=len(given.configurations),
            stop=given.stop,
            contrasts=len(results),
            other=other,
            squares=max((sum(w * w for w in each.weights) for each in results), default=2.0),
        ),
    )
    document = loaded.document.also(("configurations", again), ("configurations", baseline.name))
    return replace(loaded, experiment=twin, document=document)


def with_budget(loaded: LoadedExperiment, budget_s: float) -> LoadedExperiment:
    """Return an experiment that ends after other seconds."""
    experiment = loaded.experiment
    stop = replace(experiment.stop, budget_s=budget_s)
    return replace(loaded, experiment=replace(experiment, stop=stop))


def default_budget_s(expected: Forecast, twin: Experiment) -> float:
    """Return how long an A/A campaign takes when nobody says: ten minutes, or twelve blocks.

    Where blocks are long, ten minutes hold too few to know a deviation; but measuring the noise
    must not cost more than the experiment that it is measured for.
    """
    enough = expected.preparation_s + ENOUGH_BLOCKS * expected.block_s
    own = LEAST_BUDGET_S if twin.twin_of is None else twin.twin_of.stop.budget_s
    wanted = max(LEAST_BUDGET_S, min(enough, own))
    return whole_minutes(wanted) * SECONDS_PER_MINUTE
