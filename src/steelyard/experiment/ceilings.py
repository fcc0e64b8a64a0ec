"""What the place of a campaign can do at most, measured before the first block.

Nothing here harms a campaign: what fails is absent, with the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from steelyard.engines.engine import Engine
from steelyard.engines.reading import CeilingTools
from steelyard.experiment.bench import Bench
from steelyard.experiment.ceiling_values import or_why_not, timed
from steelyard.experiment.device_ceilings import (
    DEVICE_S,
    LOG_WRITE_S,
    device_ceilings,
    log_ceilings,
    no_device,
)
from steelyard.gateways.pingpong import Where, ping_pong
from steelyard.gateways.process import Processes
from steelyard.model.ceilings import Ceiling, CeilingKind, CeilingsAsked
from steelyard.model.environment import EffectiveSetting
from steelyard.model.experiment import Experiment, Layer
from steelyard.model.target import CloudNativePgTarget, EndpointTarget, RedisKubernetesTarget
from steelyard.model.units import format_duration, format_percent
from steelyard.platforms.platform import Platform

SHARE = 0.02  # of the budget, for the devices; a guess at what nobody misses
_TRIPS, _TRIPS_S = 500, 0.5  # the 99 % quantile of fewer would be their slowest
_PINGS, _PINGS_S = 20_000, 0.5
_PROGRAM_S = 0.2  # start and end of a program: measured, rounded up
_TOLD = "measuring what this place can do at most"
_NOT_HERE = "not visible: the server is not on this machine"
_TUNNEL = "not taken: the generators are pods, and take another way to the server than Steelyard"
_CPUS = {Where.SAME: "one CPU", Where.ACROSS: "two CPUs"}
_SCRATCH = "ceilings"

Platforms = Mapping[str, Platform]


class CeilingTaker:
    """Takes the ceilings of an experiment's servers and of this machine.

    Args:
        experiment: What will run.
        engine: Of its servers.
        bench: On which they run.
        processes: Runs programs.
    """

    def __init__(
        self, experiment: Experiment, engine: Engine, bench: Bench, processes: Processes
    ) -> None:
        self._experiment = experiment
        self._engine = engine
        self._bench = bench
        self._processes = processes
        self._tools = _tools(experiment, engine)
        self._platforms = {t.name: bench.platform(t.name) for t in experiment.treatments}
        self._servers = _servers(experiment, engine, self._platforms)
        self._trips: dict[tuple[str, ...], Ceiling] = {}
        self._methods: dict[str, str | None] = {}

    def activated(self, treatment: str, effective: Sequence[EffectiveSetting]) -> None:
        """Take the round trips to a treatment's running server, once for all that share it."""
        tools = self._tools
        if tools is None:
            return
        self._methods[treatment] = tools.sync_method(effective)
        sharing = next(names for names in self._servers if treatment in names)
        if sharing not in self._trips:
            subject = self._server(treatment)
            if self._platforms[treatment].address.inside is not None:
                unknown = Ceiling(kind=CeilingKind.ROUND_TRIP, subject=subject, unknown=_TUNNEL)
                self._trips[sharing] = replace(unknown, treatments=sharing)
                return
            (taken,) = or_why_not(
                CeilingKind.ROUND_TRIP,
                subject,
                lambda: [self._round_trip(tools, treatment, subject)],
            )
            self._trips[sharing] = replace(taken, treatments=sharing)

    def _server(self, treatment: str) -> str:
        target = self._experiment.treatment(treatment).target
        where = f"at {target.place}" if isinstance(target, EndpointTarget) else target.connection
        if isinstance(target, CloudNativePgTarget | RedisKubernetesTarget):
            where = target.label
        return f"{self._engine.label(treatment)}, {where}"

    def _round_trip(self, tools: CeilingTools, treatment: str, subject: str) -> Ceiling:
        connection = self._experiment.treatment(treatment).target.connection
        server = self._platforms[treatment].address
        address = self._engine.generator_address(server, connection)
        own = address.at(self._engine.datasets()[0].name)
        return timed(
            CeilingKind.ROUND_TRIP,
            subject,
            tools.round_trips(own, most=_TRIPS, most_s=_TRIPS_S),
            how="SELECT 1 on one open connection",
        )

    def taken(self, told: Callable[[str], None]) -> tuple[Ceiling, ...]:
        """Take what is left, and return all ceilings; none where nobody can or wants them."""
        places = _places(self._experiment, self._platforms)
        if _is_off(self._experiment) or (self._tools is None and not places):
            return ()
        told(_TOLD)
        if self._tools is None:
            return self._logs_alone(places)
        if not places:
            absent = Ceiling(kind=CeilingKind.PING_PONG, subject="", unknown=_NOT_HERE)
            return (*self._trips.values(), absent, *no_device("", _NOT_HERE))
        reason = device_refused(self._experiment, len(places))
        found = [*self._trips.values(), *self._ping_pongs(places[0][0])]
        for names in places:
            place = str(self._platforms[names[0]].root) if len(places) > 1 else ""
            found += no_device(place, reason) if reason else self._device(self._tools, names, place)
        return tuple(found)

    def _logs_alone(self, places: Sequence[tuple[str, ...]]) -> tuple[Ceiling, ...]:
        """Return what the places take of a log: of a server without tools nothing else is known."""
        reason = device_refused(self._experiment, len(places), LOG_WRITE_S)
        found: list[Ceiling] = []
        for names in places:
            place = str(self._platforms[names[0]].root) if len(places) > 1 else ""
            if reason:
                found += no_device(place, reason, (CeilingKind.LOG_WRITE,))
                continue
            scratch = self._platforms[names[0]].scripts / _SCRATCH
            found += log_ceilings(names, place=place, scratch=scratch, processes=self._processes)
        return tuple(found)

    def _ping_pongs(self, treatment: str) -> list[Ceiling]:
        """Return the cost of waking up another process, on one CPU and across two."""

        def take(where: Where) -> Sequence[Ceiling]:
            found = ping_pong(
                where,
                processes=self._processes,
                directory=self._platforms[treatment].scripts,
                most_s=_PINGS_S,
                most=_PINGS,
            )
            cpus = " and ".join(str(cpu) for cpu in dict.fromkeys(found.cpus))
            how = f"one byte back and forth over two pipes: two wake-ups; CPU {cpus}"
            return [timed(CeilingKind.PING_PONG, _CPUS[where], found.trips_s, how=how)]

        found: list[Ceiling] = []
        for where in Where:
            found += or_why_not(CeilingKind.PING_PONG, _CPUS[where], lambda: take(where))  # noqa: B023 - called at once
        return found

    def _device(self, tools: CeilingTools, names: Sequence[str], place: str) -> tuple[Ceiling, ...]:
        return device_ceilings(
            tools,
            place=place,
            scratch=self._platforms[names[0]].scripts / _SCRATCH,
            data=self._bench.state(names[0]).data,
            methods={name: self._methods.get(name) for name in names},
            processes=self._processes,
        )


def device_refused(experiment: Experiment, places: int, each_s: float = DEVICE_S) -> str:
    """Return why the devices are not measured; empty when they are."""
    cost_s, budget_s = places * each_s, experiment.stop.budget_s
    if experiment.measure.ceilings is CeilingsAsked.ON or cost_s <= SHARE * budget_s:
        return ""
    return (
        f"not taken: it takes about {format_duration(cost_s)}, which is more than"
        f" {format_percent(SHARE, signed=False)} of the budget of {format_duration(budget_s)};"
        " `measure.ceilings: on` takes it"
    )


def ceilings_s(experiment: Experiment, engine: Engine, platforms: Platforms) -> float:
    """Return about how long it takes to measure all ceilings."""
    if _is_off(experiment):
        return 0.0
    places = _places(experiment, platforms)
    if engine.ceilings() is None:
        refused = device_refused(experiment, len(places), LOG_WRITE_S)
        return 0.0 if refused else len(places) * LOG_WRITE_S
    trips_s = len(_servers(experiment, engine, platforms)) * _TRIPS_S
    pings_s = len(Where) * (_PINGS_S + _PROGRAM_S) if places else 0.0
    device_s = 0.0 if device_refused(experiment, len(places)) else len(places) * DEVICE_S
    return trips_s + pings_s + device_s


def _is_off(experiment: Experiment) -> bool:
    return experiment.measure.ceilings is CeilingsAsked.OFF


def _tools(experiment: Experiment, engine: Engine) -> CeilingTools | None:
    return None if _is_off(experiment) else engine.ceilings()


def _servers(
    experiment: Experiment, engine: Engine, platforms: Platforms
) -> tuple[tuple[str, ...], ...]:
    """Return the treatments that share a server program, the way to it, and limits."""
    sharing: dict[tuple[object, ...], list[str]] = {}
    for treatment in experiment.treatments:
        place = id(platforms[treatment.name])
        version = engine.program(treatment.name).version
        limits = tuple(treatment.asked(Layer.CGROUP).items())
        key = (place, treatment.target.connection, version, limits)
        sharing.setdefault(key, []).append(treatment.name)
    return tuple(tuple(names) for names in sharing.values())


def _places(experiment: Experiment, platforms: Platforms) -> tuple[tuple[str, ...], ...]:
    """Return the treatments whose data are in one directory of this machine."""
    sharing: dict[object, list[str]] = {}
    for treatment in experiment.treatments:
        root = platforms[treatment.name].root
        if root is not None:
            sharing.setdefault(root, []).append(treatment.name)
    return tuple(tuple(names) for names in sharing.values())
