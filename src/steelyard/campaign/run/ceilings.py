"""What the place of a campaign can do at most, measured before the first block.

Nothing here harms a campaign: what fails is absent, with the reason.

Of the device below the data these are forced writes, short and long, and reads. Files are made in
the campaign's live directory, on the file system of the data; a death leaves them to whoever clears
that directory.
"""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from steelyard.campaign.run.bench import Bench
from steelyard.core import wording
from steelyard.core.experiment import EffectiveSetting, Experiment, Layer
from steelyard.core.schedule import LOG_WRITE_BYTES, Ceiling, CeilingKind, MachineLimits
from steelyard.gateways.files import largest_file, make_directory, read_text, remove_tree
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.gateways.trials import READERS, Where, direct_reads, log_writes, ping_pong
from steelyard.places.protocol import Platform
from steelyard.stats.intervals import LEVEL, ranked_median_interval
from steelyard.systems.protocol import CeilingTools, Engine, SyncRate

_FASTEST, _MEDIAN, _SLOWEST = 0.05, 0.5, 0.99


def timed(kind: CeilingKind, subject: str, samples_s: Sequence[float], *, how: str) -> Ceiling:
    """Return a latency with its quantiles.

    Raises:
        MeasurementError: There is no sample.
    """
    if not samples_s:
        raise wording.MeasurementError("nothing was done within its time")
    fastest, median, slowest = np.quantile(samples_s, (_FASTEST, _MEDIAN, _SLOWEST)).tolist()
    within = ranked_median_interval(np.asarray(samples_s), LEVEL)
    is_bounded = np.isfinite(within.low) and np.isfinite(within.high)
    return Ceiling(
        kind=kind,
        subject=subject,
        latency_s=median,
        fastest_s=fastest,
        p99_s=slowest,
        samples=len(samples_s),
        low_s=within.low if is_bounded else None,
        high_s=within.high if is_bounded else None,
        how=how,
    )


def or_why_not(
    kind: CeilingKind, subject: str, take: Callable[[], Sequence[Ceiling]]
) -> tuple[Ceiling, ...]:
    """Return what was taken; where that failed, one ceiling with the reason.

    Raises:
        Interrupted: The operator stopped the campaign.
    """
    try:
        return tuple(take())
    except wording.SteelyardError as error:
        reason = error.message
    except OSError as error:
        reason = f"{error.filename or 'a file'}: {error.strerror}"
    return (Ceiling(kind=kind, subject=subject, unknown=reason),)


_READ_SIZES = (4 * wording.KIB, 8 * wording.KIB)  # usual block of a device; page of PostgreSQL
_READ_S = 1.0
_SYNC_S = 4.5  # the four methods of Linux, a second each, and making the file: measured
_PROGRAM_S = 0.2  # start and end of a program: measured, rounded up
_SYNC_MOST_S = 20.0
_POLL_S = 0.1
_STOP_S = 5.0
_TESTED = "sync-test"
_SYNC_HOW = "pg_test_fsync, one 8 KiB write, mean of one second"
_LOG_S = 1.0
_LOG = "log"
_LONG = f"{LOG_WRITE_BYTES // wording.MIB} MiB"
_LOG_HOW = "one write after another, each forced out by fdatasync, for one second"

# What one place costs, in seconds; of a server that has no tools of its own, the log alone.
LOG_WRITE_S = _LOG_S + _PROGRAM_S
DEVICE_S = _SYNC_S + len(_READ_SIZES) * (_READ_S + _PROGRAM_S) + LOG_WRITE_S
ALL_KINDS = (CeilingKind.SYNC, CeilingKind.DIRECT_READ, CeilingKind.LOG_WRITE)


def no_device(
    place: str, reason: str, kinds: Sequence[CeilingKind] = ALL_KINDS
) -> tuple[Ceiling, ...]:
    """Return the ceilings of a device that were not taken."""
    return tuple(Ceiling(kind=kind, subject=place, unknown=reason) for kind in kinds)


def device_ceilings(
    tools: CeilingTools,
    *,
    place: str,
    scratch: Path,
    data: Path,
    methods: Mapping[str, str | None],
    processes: Processes,
) -> tuple[Ceiling, ...]:
    """Return what a device can do, or why that is not known.

    Args:
        tools: Of the engine.
        place: What tells it from other devices; empty when there is one.
        scratch: Directory to make on the file system of the data; removed again.
        data: Prepared data, which are only read.
        methods: By which each configuration's commits are forced out; None: they wait for none.
        processes: Runs programs.
    """

    def syncs() -> Sequence[Ceiling]:
        with _made(scratch):
            return _syncs(_sync_rates(tools, scratch, processes), methods)

    def reads(size_bytes: int) -> Sequence[Ceiling]:
        with _made(scratch):
            return [_reads(data, size_bytes, scratch, processes)]

    found = [*or_why_not(CeilingKind.SYNC, "", syncs)]
    for size_bytes in _READ_SIZES:
        taken = or_why_not(CeilingKind.DIRECT_READ, _size(size_bytes), partial(reads, size_bytes))
        found += (replace(each, configurations=tuple(methods)) for each in taken)
    placed = tuple(_placed(each, place) for each in found)
    names = tuple(methods)
    return (*placed, *log_ceilings(names, place=place, scratch=scratch, processes=processes))


def log_ceilings(
    names: Sequence[str], *, place: str, scratch: Path, processes: Processes
) -> tuple[Ceiling, ...]:
    """Return how many long writes a device takes, or why that is not known.

    ``names`` are of the configurations whose logs are there; else as ``device_ceilings``.
    """

    def take() -> Sequence[Ceiling]:
        with _made(scratch):
            found = log_writes(scratch / _LOG, processes=processes, most_s=_LOG_S)
        taken = timed(CeilingKind.LOG_WRITE, _LONG, found.latencies_s, how=_LOG_HOW)
        return [replace(taken, rate_per_s=found.rate_per_s)]

    taken = or_why_not(CeilingKind.LOG_WRITE, _LONG, take)
    return tuple(_placed(replace(each, configurations=tuple(names)), place) for each in taken)


def _size(size_bytes: int) -> str:
    return f"{size_bytes // wording.KIB} KiB"


def _placed(ceiling: Ceiling, place: str) -> Ceiling:
    return replace(ceiling, subject=", ".join(filter(None, (ceiling.subject, place))))


@contextmanager
def _made(directory: Path) -> Iterator[None]:
    make_directory(directory)
    try:
        yield
    finally:
        remove_tree(directory)


def _syncs(rates: Sequence[SyncRate], methods: Mapping[str, str | None]) -> list[Ceiling]:
    """Return a ceiling of each method that there is here."""
    return [
        Ceiling(
            kind=CeilingKind.SYNC,
            subject=rate.method,
            latency_s=1.0 / rate.per_s,
            rate_per_s=rate.per_s,
            how=_SYNC_HOW,
            configurations=tuple(name for name, used in methods.items() if used == rate.method),
        )
        for rate in rates
        if rate.per_s
    ]


def _sync_rates(tools: CeilingTools, scratch: Path, processes: Processes) -> tuple[SyncRate, ...]:
    """Return the rates, without waiting for the rest of what the program would test.

    Raises:
        MeasurementError: It ended or took long without them.
        SteelyardError: There is no such program.
    """
    output = scratch / f"{_TESTED}.txt"
    process = processes.start(tools.sync_command(scratch / _TESTED), output=output)
    try:
        for _ in range(int(_SYNC_MOST_S / _POLL_S)):
            ended = process.wait(_POLL_S)
            rates = tools.sync_rates(read_text(output) or "")
            if rates:
                return rates
            if ended:
                break
    finally:
        _end(process)
    said = (read_text(output) or "").strip().splitlines()
    raise wording.MeasurementError(
        f"the sync test printed no rates: {said[-1] if said else 'nothing'}"
    )


def _end(process: RunningProcess) -> None:
    """End the sync test; by the first signal it removes its file itself."""
    for number in (signal.SIGINT, signal.SIGKILL):
        process.signal(number)
        if process.wait(_STOP_S):
            return


def _reads(data: Path, size_bytes: int, scratch: Path, processes: Processes) -> Ceiling:
    file = largest_file(data)
    if file is None:
        raise wording.MeasurementError(f"there is no file to read in {data}")
    found = direct_reads(
        file, size_bytes=size_bytes, processes=processes, directory=scratch, most_s=_READ_S
    )
    how = (
        f"O_DIRECT at random places of {wording.format_bytes(found.file_bytes)} of data; latency"
        " of one"
        f" reader, rate of {READERS}"
    )
    latency = timed(CeilingKind.DIRECT_READ, _size(size_bytes), found.latencies_s, how=how)
    return replace(latency, rate_per_s=found.rate_per_s)


SHARE = 0.02  # of the budget, for the devices; a guess at what nobody misses
_CONNECTIONS = 8  # for round trips, one after another; a guess
_TRIPS, _TRIPS_S = 500, 0.5  # the 99 % quantile of fewer would be their slowest
_PINGS, _PINGS_S = 20_000, 0.5
_TOLD = "measuring round trips and disks, a few seconds"
_NOT_HERE = "not visible: the server is reached by its address, which shows nothing of its machine"
_CPUS = {Where.SAME: "one CPU", Where.ACROSS: "two CPUs"}
_SCRATCH = "ceilings"

Platforms = Mapping[str, Platform]


class CeilingTaker:
    """Takes the ceilings of an experiment's servers and of this machine."""

    def __init__(
        self, experiment: Experiment, engine: Engine, bench: Bench, processes: Processes
    ) -> None:
        self._experiment = experiment
        self._engine = engine
        self._bench = bench
        self._processes = processes
        self._tools = None if _is_off(experiment) else engine.ceilings()
        self._platforms = {t.name: bench.platform(t.name) for t in experiment.configurations}
        self._servers = _servers(experiment, engine, self._platforms)
        self._trips: dict[tuple[str, ...], Ceiling] = {}
        self._methods: dict[str, str | None] = {}

    def activated(self, configuration: str, effective: Sequence[EffectiveSetting]) -> None:
        """Take the round trips to a configuration's running server, once for all that share it."""
        tools = self._tools
        if tools is None:
            return
        self._methods[configuration] = tools.sync_method(effective)
        sharing = next(names for names in self._servers if configuration in names)
        if sharing not in self._trips:
            subject = self._server(configuration)
            (taken,) = or_why_not(
                CeilingKind.ROUND_TRIP,
                subject,
                lambda: [self._round_trip(tools, configuration, subject)],
            )
            self._trips[sharing] = replace(taken, configurations=sharing)

    def _server(self, configuration: str) -> str:
        target = self._experiment.configuration(configuration).target
        return f"{self._engine.label(configuration)}, {target.route}"

    def _round_trip(self, tools: CeilingTools, configuration: str, subject: str) -> Ceiling:
        connection = self._experiment.configuration(configuration).target.connection
        server = self._platforms[configuration].address
        address = self._engine.generator_address(server, connection)
        own = address.at(self._engine.datasets()[0].name)
        how = f"SELECT 1 on the quickest of {_CONNECTIONS} connections"
        trips = tools.round_trips(own, connections=_CONNECTIONS, most=_TRIPS, most_s=_TRIPS_S)
        return timed(CeilingKind.ROUND_TRIP, subject, trips, how=how)

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

    def _ping_pongs(self, configuration: str) -> list[Ceiling]:
        """Return the cost of waking up another process, on one CPU and across two."""

        def take(where: Where) -> Sequence[Ceiling]:
            found = ping_pong(
                where,
                processes=self._processes,
                directory=self._platforms[configuration].scripts,
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
    if experiment.measure.machine_limits is MachineLimits.ON or cost_s <= SHARE * budget_s:
        return ""
    return (
        f"not taken: it takes about {wording.format_duration(cost_s)}, which is more than"
        f" {wording.format_percent(SHARE, signed=False)} of the budget of"
        f" {wording.format_duration(budget_s)};"
        " `measure.machine_limits: on` takes it"
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
    return experiment.measure.machine_limits is MachineLimits.OFF


def _servers(
    experiment: Experiment, engine: Engine, platforms: Platforms
) -> tuple[tuple[str, ...], ...]:
    """Return the configurations that share a server program, the way to it, and limits."""
    sharing: dict[tuple[object, ...], list[str]] = {}
    for configuration in experiment.configurations:
        place = id(platforms[configuration.name])
        version = engine.program(configuration.name).version
        limits = tuple(configuration.asked(Layer.CGROUP).items())
        key = (place, configuration.target.connection, version, limits)
        sharing.setdefault(key, []).append(configuration.name)
    return tuple(tuple(names) for names in sharing.values())


def _places(experiment: Experiment, platforms: Platforms) -> tuple[tuple[str, ...], ...]:
    """Return the configurations whose data are in one directory of this machine."""
    sharing: dict[object, list[str]] = {}
    for configuration in experiment.configurations:
        root = platforms[configuration.name].root
        if root is not None:
            sharing.setdefault(root, []).append(configuration.name)
    return tuple(tuple(names) for names in sharing.values())
