"""What differs between the configurations, what it costs to switch, and whether they alternate."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, combinations
from typing import Final

from steelyard.core import schedule
from steelyard.core.campaign import ScriptsInOrder
from steelyard.core.experiment import (
    Configuration,
    Design,
    Experiment,
    Layer,
    LogPolicy,
    Reset,
    SwitchCost,
)
from steelyard.core.linux import switch_cost_of
from steelyard.core.target import (
    CloudNativePgTarget,
    EngineName,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
    Target,
    There,
)
from steelyard.core.wording import InputError, format_bytes
from steelyard.systems.protocol import Engine


def differing_settings(one: Configuration, other: Configuration) -> tuple[str, ...]:
    """Return the names of the server's own settings that the two ask for differently."""
    return _differing(one, other, one.server_layer)


def same_twice(experiment: Experiment, engine: Engine) -> tuple[tuple[str, str], ...]:
    """Return the pairs of configurations that do not differ.

    A pair whose step for the operator or target differs is none: what it does is not known.
    """
    if experiment.twin_of is not None:
        return ()  # it is there to be the same
    pairs = combinations(experiment.configurations, 2)
    return tuple((one.name, other.name) for one, other in pairs if _is_same(one, other, engine))


def _is_same(one: Configuration, other: Configuration, engine: Engine) -> bool:
    layer = one.server_layer
    beside = [
        replace(
            each,
            name="",
            profiles=(),
            settings=tuple(s for s in each.settings if s.layer is not layer),
        )
        for each in (one, other)
    ]
    if beside[0] != beside[1] or one.manual:
        return False
    names = differing_settings(one, other)
    return not names or engine.asks_the_same(one.name, other.name, names)


def switch_cost(experiment: Experiment, engine: Engine) -> SwitchCost:
    """Return the dearest switch between any two, or what the file asks for if dearer.

    Raises:
        InputError: The file asks for a cheaper switch than the differences need.
    """
    costs = [
        _pair_cost(one, other, engine) for one, other in combinations(experiment.configurations, 2)
    ]
    needed = max(costs, key=lambda cost: cost.rank, default=SwitchCost.SESSION)
    asked = experiment.measure.switch
    if asked is None:
        return needed
    if asked.rank < needed.rank:
        raise InputError(
            f"measure.switch is {asked}, but the configurations differ in something that needs a"
            f" {needed}",
            hint="Leave `switch` out, or ask for a dearer one.",
        )
    return asked


def _pair_cost(one: Configuration, other: Configuration, engine: Engine) -> SwitchCost:
    if one.target != other.target:
        # Servers in clusters are made for each start.
        pods = CloudNativePgTarget | RedisKubernetesTarget
        made = all(isinstance(t, pods) and t.is_made for t in (one.target, other.target))
        return SwitchCost.REPROVISION if made else SwitchCost.RESTART
    names = differing_settings(one, other)
    costs = [engine.switch_cost(one.name, names) if names else SwitchCost.SESSION]
    costs += [switch_cost_of(name) for name in _differing(one, other, Layer.LINUX)]
    if one.prepare != other.prepare:
        costs.append(SwitchCost.RESTART)  # each has data of its own
    if one.manual or other.manual:  # equal steps too: one command may serve all configurations
        costs.append(SwitchCost.RESTART)  # nobody knows what it does to a running server
    return max(costs, key=lambda cost: cost.rank)


def _differing(one: Configuration, other: Configuration, layer: Layer) -> tuple[str, ...]:
    pairs = set(one.asked(layer).items()) ^ set(other.asked(layer).items())
    return tuple(sorted({name for name, _ in pairs}))


def reset_for(experiment: Experiment, mode: schedule.Mode, *, writes: bool) -> Reset:
    """Return when the data are restored: as asked, else as often as the state can be copied.

    A server that is made for each start has data that were made for it.
    Back to back on data that no workload changes, there is nothing to reset, and a reset would
    cost a restart and a warm-up in every block; nor where sessions of one server read the same
    data.
    """
    if experiment.is_made_anew:
        return Reset.START
    asked = experiment.measure.reset
    if asked is not None:
        persists = experiment.engine is EngineName.REDIS and mode is schedule.Mode.STARTS
        if asked is not Reset.START and writes and persists:
            raise InputError(
                "a Redis server that is restarted keeps what its configuration persists, so without"
                " a reset for each start the configurations would run on different keys",
                hint="Leave `measure.reset` out.",
            )
        return asked
    on_one_server = mode is schedule.Mode.ALTERNATING and bool(experiment.shared_servers)
    if (mode is schedule.Mode.BACK_TO_BACK or on_one_server) and not writes:
        return Reset.CAMPAIGN
    return Reset.START


# Of the memory that is available: the rest is for the page cache of what is not counted. A guess.
_SHARE_OF_MEMORY: Final = 0.8
_TWO: Final = "the baseline and one other together"
# In the generator or in the server: both wait by the clock.
_VACUUM: Final = "vacuum"  # the data go back in the database that was measured in
_SLEEPS: Final = re.compile(
    r"^\s*\\sleep\b|\bpg_sleep(_for|_until)?\s*\(", re.MULTILINE | re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the place offers to servers that are up together.

    Attributes:
        pausing: What can stand still between turns; None: nothing can, or there is no such place.
        memory_bytes: That is available to all of them; None: it is not known, as of endpoints.
        huge_page_bytes: Free in the pool of huge pages; None: there is no pool.
        mixed_sessions: Why sessions of one server cannot have settings of their own, as a clause;
            empty where they can, and where nobody needs them to.
        lifted: Limits of existing servers that sessions in turns go without, as they are.
        of_one: Configurations on databases of one server that were there before, by server.
        unable: Why there is no such place, as a clause; empty where there is.
    """

    pausing: schedule.Pausing | None = None
    memory_bytes: int | None = None
    huge_page_bytes: int | None = None
    mixed_sessions: str = ""
    lifted: Mapping[str, str] = field(default_factory=dict)
    of_one: tuple[tuple[str, ...], ...] = ()
    unable: str = "its servers can only be up one at a time here"


def shared_room(rooms: Sequence[Room]) -> Room:
    """Return what several places together offer to servers that are up at the same time.

    Where one cannot let its servers stand still, none does: the generators alone stop.
    """
    without = next((room for room in rooms if room.pausing is None), None)
    if without is not None:
        return without
    kinds = {room.pausing for room in rooms}
    memory = [room.memory_bytes for room in rooms if room.memory_bytes is not None]
    pages = [room.huge_page_bytes for room in rooms if room.huge_page_bytes is not None]
    return Room(
        pausing=kinds.pop() if len(kinds) == 1 else schedule.Pausing.GENERATOR,
        memory_bytes=min(memory, default=None),
        huge_page_bytes=min(pages, default=None),
        mixed_sessions=next((room.mixed_sessions for room in rooms if room.mixed_sessions), ""),
        lifted={name: value for room in rooms for name, value in room.lifted.items()},
        of_one=tuple(names for room in rooms for names in room.of_one),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignChoice:
    """Whether the configurations alternate, and why, as a clause.

    Attributes:
        memory: What they need of it together, and how many fit; None where they are not up
            together, and where it is not known what there is.
    """

    alternates: bool
    reason: str
    memory: schedule.SharedMemory | None = None

    @property
    def has_all_up(self) -> bool:
        """Return whether all configurations are up at the same time."""
        return self.alternates and (self.memory is None or self.memory.at_once is None)


def choose_design(
    experiment: Experiment,
    engine: Engine,
    room: Room,
    turns: Sequence[schedule.WorkloadTurns] = (),
    in_order: Sequence[ScriptsInOrder] = (),
) -> DesignChoice:
    """Return how the configurations of an experiment are brought together.

    ``turns`` hold enough transactions of each workload; without them no transaction was timed yet.
    Workloads whose scripts run ``in_order`` alternate by execution or by run.

    Raises:
        InputError: The file asks for turns where they cannot be taken.
    """
    if experiment.design is Design.ONE_BY_ONE:
        return DesignChoice(alternates=False, reason="the experiment asks for it")
    if experiment.is_single_pass:
        return DesignChoice(alternates=False, reason="a single pass takes each cell once")
    obstacles = [
        *_obstacles(experiment, engine, room),
        *(
            f"a turn of {workload.workload} would have to last {workload.times.turn_s:g} s to hold"
            f" {schedule.LEAST_LATENCIES} of its mean latencies, which is too long"
            for workload in turns
            if workload.times.turn_s > schedule.LONGEST_TURN_S
        ),
    ]
    if not obstacles:
        memory = _memory(experiment, engine, room)
        reason = _why_together(experiment, room, memory, in_order)
        return DesignChoice(alternates=True, reason=reason, memory=memory)
    if experiment.design is Design.ALTERNATING:
        raise InputError(
            f"the configurations cannot alternate: {'; '.join(obstacles)}",
            hint="Leave `design` out: then they are measured one by one.",
        )
    return DesignChoice(alternates=False, reason=obstacles[0])


def _why_together(
    experiment: Experiment,
    room: Room,
    memory: schedule.SharedMemory | None,
    in_order: Sequence[ScriptsInOrder],
) -> str:
    """Return why the configurations alternate, and how their sessions do it, as a clause."""
    at_once = None if memory is None else memory.at_once
    fit = "all of them can be up" if at_once is None else "no more of them fit into memory"
    asked = experiment.design is Design.ALTERNATING
    reason = "the experiment asks for it" if asked else f"{fit} at the same time"
    if experiment.workloads[0].command is not None:
        reason += f", and the log of {experiment.generator} counts their turns"
    for names in room.of_one:
        reason += f"; {', '.join(names)} are on databases of one server"
    for order in in_order:
        how = "one session runs each script under all of them"
        if not order.sessions:
            how = "each runs its scripts while the others stand still"
        reason += (
            f"; a run of {order.workload} would hold about {order.executions:.0f} executions, too"
            f" few for drawn scripts: {how}, in a given order"
        )
    if room.lifted:
        limits = ", ".join(f"{name} = 0 (now {value})" for name, value in room.lifted.items())
        reason += f"; so that no pause ends them, sessions of the load have {limits}"
    return reason


def share_a_session(experiment: Experiment, engine: Engine, workload: str) -> bool:
    """Return whether one session can have the settings of all, one after the other.

    They differ in settings of a session and in scripts alone, have one client each, and leave the
    data as they are; with more clients one would run under a configuration while another one
    disturbs it. The first of several servers has that session.
    """
    configurations = experiment.configurations
    asked = [each.asked_folded() for each in configurations]
    differing = sorted(
        name for name in {*chain(*asked)} if len({values.get(name) for values in asked}) > 1
    )
    servers = {
        replace(
            each,
            name="",
            scripts=(),
            profiles=(),
            settings=tuple(s for s in each.settings if s.name.lower() not in differing),
        )
        for each in configurations
    }
    return (
        len(servers) == 1
        and not engine.beyond_sessions(experiment.baseline, differing)
        and not engine.paid_by_others(differing)
        and all(load.clients == 1 for load in experiment.loads)
        and all(engine.only_reads(c.runs(experiment.workload(workload))) for c in configurations)
    )


def can_alternate(experiment: Experiment, engine: Engine, room: Room) -> bool:
    """Return whether they would alternate, as ``choose_design`` says with its reason."""
    if experiment.design is Design.ONE_BY_ONE or experiment.is_single_pass:
        return False
    return next(_obstacles(experiment, engine, room), None) is None


def _obstacles(experiment: Experiment, engine: Engine, room: Room) -> Iterator[str]:
    if len(experiment.configurations) < 2:
        yield "there is one configuration"
    if room.pausing is None:
        yield room.unable
    is_elsewhere = room.pausing is schedule.Pausing.GENERATOR
    for target, names in experiment.shared_servers.items() if is_elsewhere else ():
        reasons = _obstacles_of_one_server(experiment, engine, target, names)
        yield from (f"{', '.join(names)} are on one server, {reason}" for reason in reasons)
    for names in room.of_one:
        reasons = _obstacles_of_sessions(experiment, engine, names)
        yield from (f"{', '.join(names)} are on one server, {reason}" for reason in reasons)
    yield from _obstacles_of_the_work(experiment)
    yield from _obstacles_of_the_file(experiment)
    yield from _obstacles_of_settings(experiment, engine)
    yield from _obstacles_of_others(experiment, room)
    if is_elsewhere and room.mixed_sessions:
        yield room.mixed_sessions
    yield from _obstacles_of_memory(experiment, engine, room)


def _obstacles_of_the_work(experiment: Experiment) -> Iterator[str]:
    if any(load.is_open for load in experiment.loads):
        yield "under a rate what is due in a pause would be worked off after it"
    if experiment.goal is not None or experiment.capacity is not None:
        yield "a search for the capacity is not taken in turns"
    sleeping = [
        script.rewritten_in or script.name
        for workload in experiment.variants
        for script in workload.scripts
        if _SLEEPS.search(script.text)
    ]
    if sleeping:
        yield f"{', '.join(sleeping)} sleeps, and would do so in the pauses"
    if any(w.command is not None and w.command.log is None for w in experiment.workloads):
        yield (
            f"{experiment.generator} writes no log of transactions that would count turns"
            " (`generator.log`)"
        )


def _obstacles_of_the_file(experiment: Experiment) -> Iterator[str]:
    measure = experiment.measure
    if experiment.system.logs_transactions and measure.log is LogPolicy.OFF:
        yield "without the log of transactions (`measure.log: off`) turns cannot be counted"
    if measure.log_sampling < 1.0:
        yield "a log of some transactions (`measure.log_sampling`) does not count turns"
    if measure.runs_per_start is not None and measure.runs_per_start > 1:
        yield "`measure.runs_per_start` asks for several runs in one start"
    if measure.calibration is not None and measure.warm_up_s is None:
        yield "`measure.calibration` measures the warm-up of starts"
    if measure.reset is Reset.CAMPAIGN or measure.switch is SwitchCost.REPROVISION:
        yield "each block begins with fresh copies of the data, and the experiment asks otherwise"
    elif experiment.is_made_anew:
        yield "their servers differ in more than settings, and each start makes its own anew"


def _obstacles_of_settings(experiment: Experiment, engine: Engine) -> Iterator[str]:
    if any(each.manual or each.asked(Layer.LINUX) for each in experiment.configurations):
        yield "settings of the whole machine hold for all servers on it"
    names = {
        name
        for one, other in combinations(experiment.configurations, 2)
        for name in differing_settings(one, other)
    }
    yield from _obstacles_of_limits(experiment, engine)
    if not engine.writes():
        return
    timed = engine.timed_settings(sorted(names))
    if timed:
        acts = "acts" if len(timed) == 1 else "act"
        yield f"{', '.join(timed)} {acts} by the clock, which goes on in the pauses"
    cycle = engine.checkpoint_settings(sorted(names))
    if cycle and experiment.measure.runs_per_start is None:
        yield (
            f"the effect of {', '.join(cycle)} changes over a checkpoint cycle, which one start has"
            " to cover; with `measure.runs_per_start: 1` only its beginning is measured, and they"
            " alternate"
        )


def _obstacles_of_limits(experiment: Experiment, engine: Engine) -> Iterator[str]:
    """Yield limits that are compared and end sessions in pauses; others can be lifted."""
    names = {name for each in experiment.configurations for name in each.asked_folded()}
    pause_s = longest_pause_s(experiment)
    for each in experiment.configurations:
        for name, value in engine.short_limits(each.name, pause_s).items():
            if name in names:
                yield (
                    f"{name} = {value} of {each.name} goes on in the pauses, which may last"
                    f" {pause_s:g} s"
                )


def limits_to_lift(experiment: Experiment, engine: Engine, target: Target) -> dict[str, str]:
    """Return limits of an existing server that would end sessions in pauses, as they are.

    Those that a configuration asks for are compared, and are not among them.
    """
    names = {name for each in experiment.configurations for name in each.asked_folded()}
    return {
        name: value
        for each in experiment.configurations
        if each.target == target
        for name, value in engine.short_limits(each.name, longest_pause_s(experiment)).items()
        if name not in names
    }


def longest_pause_s(experiment: Experiment) -> float:
    """Return how long a session stands still at most: a turn of each other configuration.

    Turns are made longer where transactions are long. As much again is for what is done between
    turns: connecting, ending generators, reading counters. That is a guess.
    """
    turn_s = max(experiment.measure.turns.turn_s, schedule.LONGEST_TURN_S)
    return _BETWEEN_TURNS * turn_s * (len(experiment.configurations) - 1)


_BETWEEN_TURNS: Final = 2.0


def _obstacles_of_others(experiment: Experiment, room: Room) -> Iterator[str]:
    """Yield what others than the generator have to do with the servers."""
    targets = {each.target for each in experiment.configurations}
    if any(isinstance(each, RedisLocalTarget) and each.replica is not None for each in targets):
        yield "a replica watches its server, and would take a pause for its end"
    if any(isinstance(each, RedisEndpointTarget) and each.allow_existing for each in targets):
        yield (
            "others may use a Redis server that holds keys of theirs (`allow_existing`), and it"
            " counts their commands with ours"
        )
    bursting = [
        each.name for each in experiment.configurations if each.target.burst_lasts_s is not None
    ]
    if room.pausing is schedule.Pausing.GENERATOR and bursting:
        yield f"burst credits come back in the pauses (`burst_lasts` of {', '.join(bursting)})"


def _obstacles_of_one_server(
    experiment: Experiment,
    engine: Engine,
    target: There,
    names: Sequence[str],
) -> Iterator[str]:
    if not target.system.has_sessions:
        yield f"and a setting of {target.system.words.server} holds for all its sessions"
        return
    yield from _obstacles_of_sessions(experiment, engine, names)
    if engine.writes() and target.allow_existing:
        yield "and would write into one database of it (`allow_existing`)"
    elif engine.writes() and target.restore == _VACUUM:
        yield "and would write into one database of it (`restore: vacuum`)"


def _obstacles_of_sessions(
    experiment: Experiment, engine: Engine, names: Sequence[str]
) -> Iterator[str]:
    """Yield why configurations of one server cannot be sets of sessions, as clauses."""
    asked = sorted({key for each in names for key in experiment.configuration(each).asked_folded()})
    if beyond := engine.beyond_sessions(names[0], asked):
        yield f"and no session can have its own {', '.join(beyond)}"
    if paid := engine.paid_by_others(asked):
        yield f"and sessions pay for the {', '.join(paid)} of others"
    if experiment.measure.switch is SwitchCost.RESTART:
        yield "which cannot be restarted for one of them (`measure.switch`)"


def _memory(experiment: Experiment, engine: Engine, room: Room) -> schedule.SharedMemory | None:
    """Return what servers share that are up together: all, or as many as fit whichever they are.

    Not even two may fit.
    """
    if room.memory_bytes is None:
        return None
    own, others = _by_size(experiment, engine.memory_bytes)
    fit = _fit(own, others, _SHARE_OF_MEMORY * room.memory_bytes)
    if room.huge_page_bytes is not None:
        pages = _by_size(experiment, lambda name: engine.huge_page_bytes(name) or 0)
        fit = min(fit, _fit(*pages, room.huge_page_bytes))
    beside = schedule.sub_block_sizes(len(others), max(fit, schedule.LEAST_AT_ONCE))[
        0
    ]  # no more than they need
    return schedule.SharedMemory(
        needed_bytes=own + sum(others[:beside]),
        available_bytes=room.memory_bytes,
        at_once=None if fit == 1 + len(others) else 1 + beside,
    )


def _by_size(experiment: Experiment, size: Callable[[str], int]) -> tuple[int, list[int]]:
    others = sorted(map(size, experiment.contenders), reverse=True)
    return size(experiment.baseline), others


def _fit(own: int, others: Sequence[int], limit: float) -> int:
    """Return how many servers fit whichever they are, the baseline's among them; at least it."""
    return 1 + sum(own + together <= limit for together in accumulate(others))


def _obstacles_of_memory(experiment: Experiment, engine: Engine, room: Room) -> Iterator[str]:
    memory = _memory(experiment, engine, room)
    two = "together they" if len(experiment.configurations) == schedule.LEAST_AT_ONCE else _TWO
    if memory and memory.needed_bytes > _SHARE_OF_MEMORY * memory.available_bytes:
        yield (
            f"{two} may take {format_bytes(memory.needed_bytes)} with their data, and"
            f" {format_bytes(memory.available_bytes)} of memory are available"
        )
    if room.huge_page_bytes is None:
        return
    taken = [
        engine.huge_page_bytes(configuration.name) for configuration in experiment.configurations
    ]
    takers = [each for each in taken if each != 0]  # one alone takes nothing from others
    if None in takers and len(takers) > 1:
        yield (
            "there are huge pages, which the server that starts first would take: say"
            " `huge_pages: on` or `off` in all of them"
        )
        return
    own, others = _by_size(experiment, lambda name: engine.huge_page_bytes(name) or 0)
    needed = own + sum(others[: schedule.LEAST_AT_ONCE - 1])
    if needed > room.huge_page_bytes:
        yield (
            f"{two} take {format_bytes(needed)} of huge pages, and"
            f" {format_bytes(room.huge_page_bytes)} are free"
        )
