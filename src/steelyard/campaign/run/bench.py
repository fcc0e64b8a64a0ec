"""The servers of an experiment, ready to be measured: restore, activate, switch, verify.

Knows the order of these steps and nothing of blocks, verdicts or the journal. The prepared state of
every configuration is kept here, and how the live data come back from it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from steelyard.campaign.design.schedule import loading_s
from steelyard.campaign.evidence.watch import Place
from steelyard.core.campaign import ANEW, CellRate
from steelyard.core.experiment import (
    PREWARM_BYTES,
    Configuration,
    EffectiveSetting,
    Experiment,
    Layer,
    Workload,
)
from steelyard.core.measurement import BURST_BALANCES, CheckpointAge, ProviderSeries
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.places import Provision
from steelyard.core.schedule import CellKey, Load, PlannedRun
from steelyard.core.wording import (
    Interrupted,
    MeasurementError,
    RefusedError,
    SteelyardError,
    TargetError,
    format_bytes,
    format_duration,
    redacted,
)
from steelyard.gateways.files import make_directory, write_text
from steelyard.gateways.host import Clock, Host, looks
from steelyard.places.local.machine import provision_here
from steelyard.places.protocol import (
    LimitsInForce,
    Platform,
    PreparedState,
    Refillable,
    SeenByProvider,
    TellsProvision,
)
from steelyard.systems.protocol import Dataset, RunRequest, content_of
from steelyard.targets.assembly import Assembly

TEMPLATE = "template"
_LAST_LINES = 2
_CREDITS_EVERY_S = 60.0  # as often as CloudWatch publishes a balance
_PUBLISHED_S = 900.0  # within which a balance that there is was published; a guess
_TRIAL_TIMEOUT_S = 60.0  # of one transaction of one script
_FULL_PERCENT = 99.0  # of a balance: a mean over a minute
# SQLSTATE, by which a server says in any language what ended a statement or a session.
_ENDED_BY = {"57014": "statement_timeout", "25P04": "transaction_timeout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A configuration in force.

    Attributes:
        restore_s: Seconds of bringing the data back; 0.0 when they were left as they were.
        start_s: Seconds from there until the server was verified and prewarmed.
        at: Monotonic time when the server could take load.
        deviations: A sentence for each setting that is not in force as asked.
    """

    restore_s: float
    start_s: float
    at: float
    deviations: tuple[str, ...]
    effective: tuple[EffectiveSetting, ...]

    def require_in_force(self, configuration: str) -> None:
        """Raise a MeasurementError when a setting is not in force as asked."""
        if self.deviations:
            raise MeasurementError(
                f"configuration `{configuration}` is not in force: {'; '.join(self.deviations)}",
                hint="Correct the setting, or what keeps the server from taking it.",
            )


class Bench:
    """One live server at a time, on whichever platform its configuration has.

    Attributes:
        experiment: What it serves.
        host: The machine that measures.
        leaves_cold: The data were too large to be loaded at the last start.
    """

    def __init__(
        self, experiment: Experiment, assembly: Assembly, clock: Clock, host: Host
    ) -> None:
        self.experiment = experiment
        self._engine = assembly.engine
        self._platforms = assembly.platforms
        self._stack = assembly.stack
        self._close = assembly.close
        self._clock = clock
        self.host = host
        self._states: dict[str, PreparedState] = {}
        self._templated: set[object] = set()  # live data whose server holds templates of them
        self._effective: tuple[EffectiveSetting, ...] = ()
        self.leaves_cold = False
        self._rates: dict[CellKey, float] = {}

    @property
    def in_force(self) -> dict[str, str]:
        """Return the settings by name, as the server reported them after the last switch."""
        return {setting.name: setting.value for setting in self._effective}

    @property
    def warming_load(self) -> Load:
        """Return the load of every warm-up: the largest, as a closed loop."""
        return self.experiment.largest_load.as_closed

    @property
    def platforms(self) -> Mapping[str, Platform]:
        """Return the platform of each configuration."""
        return self._platforms

    def offer(self, rates: Sequence[CellRate]) -> None:
        """Offer these rates from now on, where a load is a share of the capacity."""
        self._rates = {rate.cell: rate.rate_per_s for rate in rates}

    def load_of(self, cell: CellKey) -> Load:
        """Return what is really offered in a cell: a share as its rate."""
        rate_per_s = self._rates.get(cell)
        if rate_per_s is None:
            return cell.load
        return replace(cell.load, rate_per_s=rate_per_s, share=None)

    def prepare(self, told: Callable[[str], None]) -> None:
        """Make the prepared state of every configuration, or find it in the cache.

        Where every start makes its server anew there is none.
        """
        for configuration in self.experiment.configurations:
            name = configuration.name
            if name in self._platforms and not self.experiment.is_remade(name):  # a slot has some
                self._prepare(name, told)

    def _prepare(self, name: str, told: Callable[[str], None]) -> None:
        """Make the state of a configuration, or find it in the cache."""
        program, platform = self._engine.program(name), self._platforms[name]
        content = self._content(name)
        if platform.find(program, content) is None:
            label = self._engine.label(name)
            about = format_duration(loading_s(content))
            size = format_bytes(sum(each.expected_bytes for each in content))
            uses = self.experiment.uses_found_data
            making = f"preparing data: {size} for {label}, about {about}"
            told(f"looking at {label}" if uses else making)
        self._states[name] = platform.prepare(program, content, self._builder(name))

    def _builder(self, name: str) -> Callable[[ServerAddress], None]:
        def build(address: ServerAddress) -> None:
            for dataset in self._content(name):
                # Where commands of runs work, too: in a directory of the campaign.
                directory = self._platforms[name].scripts if dataset.command else None
                self._engine.build(dataset, address, name, directory)

        return build

    def _content(self, name: str) -> tuple[Dataset, ...]:
        return content_of(self.experiment.configuration(name), self._engine.datasets())

    def state(self, configuration: str) -> PreparedState:
        """Return the prepared state of a configuration."""
        return self._states[configuration]

    def data_of(self, configuration: str) -> object:
        """Return what tells the live data of one configuration from those of another.

        Configurations on one platform with one prepared state run on the same live data; another
        version or another directory has data of its own.
        """
        state = self._states.get(configuration)  # none yet of a server that is made for each start
        return (id(self._platforms[configuration]), configuration if state is None else state.key)

    def platform(self, configuration: str) -> Platform:
        """Return the platform of a configuration."""
        return self._platforms[configuration]

    def own_means(self, name: str, means: str) -> str:
        """Return this means of restoring where a configuration's place has it, else its best."""
        if self.experiment.is_remade(name):
            return ANEW
        offered = self._platforms[name].means()
        return means if means in offered else offered[0]

    def provision(self, name: str) -> Provision:
        """Return what the place of a configuration gives its server, as far as it is known."""
        platform, configuration = self._platforms[name], self.experiment.configuration(name)
        if isinstance(platform, TellsProvision):
            return platform.provision()
        if platform.root is None or not configuration.target.is_here:
            return configuration.target.provision
        return provision_here(self.host, platform.root, configuration.asked(Layer.CGROUP))

    @property
    def has_provider(self) -> bool:
        """Return whether a server has a provider that counts, too."""
        return bool(self._by_provider)

    def provider_series(
        self, span: tuple[float, float], patience_s: float
    ) -> tuple[ProviderSeries, ...]:
        """Return what providers counted of all servers; see ``SeenByProvider``."""
        return tuple(
            replace(each, configurations=of)
            for platform, of in self._by_provider.items()
            for each in platform.provider_series(*span, patience_s=patience_s)
        )

    @property
    def _by_provider(self) -> dict[SeenByProvider, tuple[str, ...]]:
        """Return the configurations on each platform whose provider counts."""
        names: dict[SeenByProvider, tuple[str, ...]] = {}
        for name, platform in self._platforms.items():
            if isinstance(platform, SeenByProvider):
                names[platform] = (*names.get(platform, ()), name)
        return names

    def activate(self, name: str, *, restore: bool, means: str) -> Start:
        """Bring a configuration into force by a restart, with restored data when asked.

        Where the place of one has not that means it uses its own.

        Raises:
            TargetError: The server did not start, or copying failed.
        """
        try:
            return self._activate(name, restore=restore, means=means)
        except RefusedError as error:
            limit = _ENDED_BY.get(error.code, "")
            asked = self.experiment.configuration(name).asked_folded().get(limit)
            if asked is not None:
                error.hint = (
                    f"Configuration `{name}` sets {limit} = {asked}, which holds for Steelyard's"
                    " own statements on its server, too: allow more there."
                )
            raise

    def _activate(self, name: str, *, restore: bool, means: str) -> Start:
        configuration = self.experiment.configuration(name)
        platform, means = self._platforms[name], self.own_means(name, means)
        self.stop(keep_data=means == TEMPLATE or not restore)
        if self._stack is not None:  # while no server holds its huge pages
            self._stack.put(name)
        begun = self._clock.monotonic()
        if means == ANEW:
            self._states[name] = platform.reprovision(
                self._engine.program(name), self._content(name), self._builder(name)
            )
        elif not platform.has_live_copy(self._states[name]) or (restore and means != TEMPLATE):
            platform.restore(self._states[name], "copy" if means == TEMPLATE else means)
            self._templated.discard(self.data_of(name))
        copied = self._clock.monotonic()
        self._start(configuration)
        templated_s = self._restore_templates(name, restore=restore, means=means)
        effective = self._effective = self._engine.effective(platform.address)
        missing = self._engine.missing_data(platform.address) if restore else ()
        if self.experiment.prewarms:
            asked = self.experiment.measure.prewarm is not None
            most_bytes = None if asked else PREWARM_BYTES
            self.leaves_cold = not self._engine.prewarm(platform.address, most_bytes=most_bytes)
        # Last: starting, restoring and prewarming are no part of what is compared.
        limits, stack = platform.limit(configuration.asked(Layer.CGROUP)), self._stack_in_force()
        ready = self._clock.monotonic()
        return Start(
            restore_s=copied - begun + templated_s if restore else 0.0,
            start_s=ready - copied - templated_s,
            at=ready,
            deviations=(
                *self._engine.deviations(configuration.settings, effective),
                *missing,
                *limits.deviations,
                *stack.deviations,
            ),
            effective=(*effective, *limits.effective, *stack.effective),
        )

    def _start(self, configuration: Configuration) -> None:
        """Start the server of a configuration.

        Raises:
            TargetError: It did not start; with what of the stack below it is not as asked.
        """
        name = configuration.name
        program = self._engine.program(name)
        try:
            self._platforms[name].start(self._states[name], program, configuration.asked())
        except TargetError as error:
            missing = self._stack_in_force().deviations
            if not missing:
                raise
            message = f"{'; '.join(missing)}; and the server did not start: {error.message}"
            raise TargetError(message, hint=error.hint) from error

    def _stack_in_force(self) -> LimitsInForce:
        return LimitsInForce() if self._stack is None else self._stack.in_force()

    def _restore_templates(self, name: str, *, restore: bool, means: str) -> float:
        """Bring the data back from templates that the running server keeps; return the seconds."""
        if means != TEMPLATE:
            return 0.0
        begun = self._clock.monotonic()
        address, place = self._platforms[name].address, self.data_of(name)
        if place not in self._templated:
            self._engine.keep_templates(address)
            self._templated.add(place)
            restore = True  # the data were put aside, so they must come back
        if restore:
            self._engine.restore_from_templates(address)
        return self._clock.monotonic() - begun

    def restore_templates(self, name: str) -> None:
        """Bring the data back from templates on the running server, which is unlimited then."""
        self._platforms[name].limit({})
        self._engine.restore_from_templates(self._platforms[name].address)

    def switch(self, name: str) -> tuple[str, ...]:
        """Bring a configuration into force on the running server; return what did not take effect.

        Raises:
            TargetError: The server is gone or did not reload.
        """
        configuration = self.experiment.configuration(name)
        platform = self._platforms[name]
        if self._stack is not None:
            self._stack.put(name)
        if platform.configure(configuration.asked()):
            self._engine.reload(platform.address, name, self._clock)
        limits = platform.limit(configuration.asked(Layer.CGROUP))
        self._effective = self._engine.effective(platform.address)
        deviations = self._engine.deviations(configuration.settings, self._effective)
        return (*deviations, *limits.deviations, *self._stack_in_force().deviations)

    def checkpoint_age(self, name: str) -> CheckpointAge:
        """Return where a server stands in its checkpoint cycle, or why nobody knows."""
        try:
            return self._engine.checkpoint_age(self._platforms[name].address)
        except TargetError as error:
            return CheckpointAge(seconds=None, unknown=error.message)

    def place(self, planned: PlannedRun) -> Place | None:
        """Return what probes see of the server in force; None where it is gone."""
        try:
            platform = self._platforms[planned.configuration]
            return Place(
                engine=self._engine,
                address=platform.address,
                workload=self.experiment.workload(planned.cell.workload),
                vantage=platform.vantage(),
                sight=platform.sight(),
            )
        except TargetError:
            return None

    def request(self, planned: PlannedRun, *, seconds: int) -> RunRequest:
        """Return what the generator is asked for, with its scripts in place.

        It lasts so many ``seconds``, ramp included. No transaction is logged, or where nobody
        reads.

        Raises:
            TargetError: The server is gone.
        """
        configuration = self.experiment.configuration(planned.configuration)
        workload = configuration.runs(self.experiment.workload(planned.cell.workload))
        platform = self._platforms[planned.configuration]
        log = None
        if self._engine.load.counts_by_log():
            log = platform.log_directory() / "unread"  # removed before the next log is written
        return RunRequest(
            workload=workload,
            load=self.load_of(planned.cell),
            protocol=configuration.protocol or self.experiment.protocol,
            seconds=seconds,
            address=self._engine.generator_address(
                platform.address, configuration.target.connection
            ),
            flags=self.experiment.generator_flags,
            scripts=self._scripts(workload, platform.scripts / configuration.name)
            if workload.scripts
            else (),
            log=log,
            sampling=self.experiment.measure.log_sampling,
            configuration=planned.configuration,
        )

    def in_order(self, request: RunRequest, texts: Sequence[str], seed: int) -> RunRequest:
        """Return a request whose clients run these files, each its own, with parameters of a seed.

        The seed is the same for all configurations, unless the generator has one of its own.
        """
        home = self._platforms[request.configuration].scripts / request.workload.name
        make_directory(home)
        paths = [home / f"client-{number}.sql" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            write_text(path, text)
        flags = (f"--random-seed={seed}", *request.flags)
        return replace(request, ordered=tuple(paths), flags=flags)

    def try_scripts(self, name: str) -> None:
        """Try the scripts on the server in force, on data that Steelyard made and restores.

        Raises:
            PreflightError: Some cannot be run.
            TargetError: The server is gone.
        """
        cells = [
            CellKey(workload=workload.name, load=self.warming_load)
            for workload in self.experiment.workloads
            if workload.scripts and not self.experiment.uses_found_data
        ]
        planned = [PlannedRun(configuration=name, cell=cell) for cell in cells]
        if planned:
            requests = [self.request(each, seconds=1) for each in planned]
            self._engine.try_scripts(requests, partial(self._try, self._platforms[name]))

    @staticmethod
    def _try(platform: Platform, command: Command) -> Completed:
        """Run one command; one that is ended for its time counts as right."""
        try:
            with platform.begin_together([command], timeout_s=_TRIAL_TIMEOUT_S) as running:
                (completed,) = running.completed()
        except MeasurementError:
            return Completed(argv=command.argv, exit_status=0, stdout="", stderr="")
        return completed

    def refill(self, name: str) -> bool:
        """Fill the burst credits of a configuration's storage; return whether that can be done."""
        platform = self._platforms[name]
        return isinstance(platform, Refillable) and platform.refill()

    def await_credits(self, name: str, patience_s: float, stage: Callable[[str], None]) -> str:
        """Wait until the burst credits of a configuration's server are back.

        Returns:
            Why they may not be; empty where they are, or where it lives on none.
        """
        platform, begun_s = self._platforms[name], self._clock.now()
        least, limit = None, format_duration(patience_s)
        for _ in looks(self._clock, patience_s, _CREDITS_EVERY_S):
            if not isinstance(platform, SeenByProvider):
                break
            span = begun_s - _PUBLISHED_S, self._clock.now()
            try:
                series = platform.provider_series(*span, patience_s=0.0)
            except SteelyardError as error:
                return f"their balance cannot be read: {error.message}"
            found = [each for each in series if each.metric in BURST_BALANCES and each.values]
            if not found:
                break
            least = min(each.values[-1] for each in found)
            if least >= _FULL_PERCENT and all(each.starts_s[-1] >= begun_s for each in found):
                return ""
            stage(f"{name}: waiting for burst credits, at most {limit}; {least:.0f} % are there")
        if least is not None:
            return f"{least:.0f} % of them were there after {limit}"
        lasts_s = self.experiment.configuration(name).target.burst_lasts_s
        return "" if lasts_s is None else "their balance cannot be read here"

    def log_directory(self, configuration: str) -> Path:
        """Return where the generator's logs of a configuration go."""
        return self._platforms[configuration].log_directory()

    def logs_in_memory(self) -> bool:
        """Return whether the logs of all configurations go into memory, not to a disk."""
        places = [platform.logs_in_memory() for platform in self._distinct()]  # each chooses now
        return all(places)

    def _scripts(self, workload: Workload, directory: Path) -> list[tuple[Path, int]]:
        """Write the workload's scripts where the generator can read them."""
        home = directory / workload.name
        make_directory(home)
        placed = []
        for number, script in enumerate(workload.scripts):
            path = home / f"{number}-{Path(script.name).name}"
            write_text(path, script.text)
            placed.append((path, script.weight))
        return placed

    def is_running(self) -> bool:
        """Return whether a server is up."""
        return any(platform.is_running for platform in self._platforms.values())

    def stop(self, *, keep_data: bool) -> None:
        """Stop whichever server is running."""
        for platform in self._distinct():
            platform.stop(keep_data=keep_data)

    def last_words(self, configuration: str) -> str:
        """Return the end of what the servers of a configuration's place logged, in one line."""
        lines = self._platforms[configuration].logs().strip().splitlines()
        return redacted(" ".join(line.strip() for line in lines[-_LAST_LINES:]))

    def logs(self) -> str:
        """Return everything the servers logged."""
        return "".join(platform.logs() for platform in self._distinct())

    def destroy(self) -> None:
        """Stop everything and remove everything that was made outside the record.

        Raises:
            Interrupted: Somebody stopped it, after everything was tried.
            SteelyardError: The first trouble, after everything was tried.
        """
        removals = [platform.destroy for platform in self._distinct()]
        if self._stack is not None:
            removals.append(self._stack.remove)
        do_each((*removals, self._close))

    def _distinct(self) -> tuple[Platform, ...]:
        return tuple({id(platform): platform for platform in self._platforms.values()}.values())


def do_each(steps: Iterable[Callable[[], object]]) -> None:
    """Do each step, whatever becomes of the others; then raise the first trouble.

    What stops the program counts more than what a step could not do.
    """
    troubles: list[BaseException] = []
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised below
            troubles.append(error)
    if troubles:
        raise min(troubles, key=_is_ordinary)


def _is_ordinary(error: BaseException) -> bool:
    return isinstance(error, SteelyardError) and not isinstance(error, Interrupted)
