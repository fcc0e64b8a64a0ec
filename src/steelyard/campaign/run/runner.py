"""The campaign: prepare, freeze the plan, take blocks, look, stop.

Invariants: everything is in the journal before the next step rests on it; a block counts only
when all its runs do; whatever ends the campaign, the bench is destroyed and the journal says why.

While it runs it tells a ``Progress``; ``cli`` shows what it tells, tests collect it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Final, Self

from steelyard.answers.campaign import analyse
from steelyard.answers.contract import contract, contract_in_brief, require_matched
from steelyard.answers.result.compute import decide
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.design.noise_profiles import (
    TimedWorkload,
    keep_latency,
    profile_for,
    timed_latency_s,
)
from steelyard.campaign.design.schedule import (
    StartFrame,
    blocks_planned,
    choose_rounds,
    cycle_in_force_s,
    early_phase_finding,
    mode_for,
    schedule_of,
    stopping_for,
)
from steelyard.campaign.run import beside_blocks
from steelyard.campaign.run.bench import Bench, do_each
from steelyard.campaign.run.blocks import BlockCompleter, BlockTaker, Slots
from steelyard.campaign.run.ceilings import CeilingTaker
from steelyard.campaign.run.in_order import (
    executions_in_order,
    rounds_for,
    sessions_of,
    timed_in,
    with_lengths,
)
from steelyard.campaign.run.taking import BenchTaker, try_order
from steelyard.core.campaign import (
    BlockOutcome,
    CampaignPlan,
    CampaignRecord,
    Capacity,
    NoiseProfile,
    Rounds,
    ScriptsInOrder,
    Sessions,
    ShortBlocks,
    Status,
    WarmUpChoice,
)
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.findings import BUDGET_TOO_SHORT, Fact, Finding, Severity
from steelyard.core.measurement import Environment, ServerEnvironment
from steelyard.core.schedule import (
    CellKey,
    Mode,
    PlannedRun,
    Schedule,
    WorkloadTurns,
)
from steelyard.core.wording import (
    Interrupted,
    MeasurementError,
    PreflightError,
    SteelyardError,
    format_duration,
    quoted,
    whole_minutes,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Operator
from steelyard.record import journal
from steelyard.record.directory import CampaignDirectory, read_schedule
from steelyard.report.document import Table
from steelyard.systems.protocol import Engine
from steelyard.targets.differences import (
    DesignChoice,
    Room,
    choose_design,
    reset_for,
    share_a_session,
    switch_cost,
)


class Progress:
    """Listens to a campaign, and says nothing; others say more. None may fail or take long."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def stage(self, what: str) -> None:
        """A step before the first block begins, with how long it takes if that is known."""

    def agreed(self, contract: Table) -> None:
        """On what terms servers of several places are compared, before the first run."""

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Everything is frozen; the first block follows."""

    def run_started(self, *, block: int, label: str) -> None:
        """A run begins."""

    def block_ended(self, outcome: BlockOutcome) -> None:
        """A try of a block is complete or thrown away."""

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:
        """The estimates after a complete block."""


_TRY_S, _TRY_RAMP_S = 1.0, 1.0  # for a mean latency, to about a tenth
_TRY_TOLD: Final = format_duration(_TRY_S + _TRY_RAMP_S)
_ANSWER_S: Final = 60.0  # for which a question is open, while no block is taken
_PROVIDER_S: Final = 240.0  # for which counts of the last minutes are waited for; a guess


@dataclass(slots=True, kw_only=True)
class Campaign:
    """One execution of an experiment, from wherever its record stands."""

    experiment: Experiment
    engine: Engine
    bench: Bench
    directory: CampaignDirectory
    clock: Clock
    progress: Progress
    operator: Operator = field(default_factory=Operator)
    facts: tuple[Fact, ...]
    findings: tuple[Finding, ...] = ()
    ceilings: CeilingTaker | None = None
    cpus: int = 1  # that the generator may use
    room: Room = field(default_factory=Room)
    slots: Slots = field(default_factory=Slots)
    _servers: dict[str, ServerEnvironment] = field(default_factory=dict)
    _seen: dict[Fact, None] = field(default_factory=dict)  # of places that came about meanwhile
    _mean_s: dict[str, float] = field(default_factory=dict)  # of workloads, where they are slowest
    _orders: dict[str, list[ScriptsInOrder]] = field(default_factory=dict)  # where they were tried

    def run(self) -> CampaignAnalysis:
        """Run to a verdict, a precision, the budget or an interruption.

        Returns:
            The analysis of everything recorded.

        Raises:
            Interrupted: The operator stopped it; the record is complete up to the last block.
            SteelyardError: It failed; the record says so and can be resumed.
        """
        try:
            status = self._work()
            self._end(status)
        except (KeyboardInterrupt, Interrupted) as error:
            # Also when it came during the end: what that began is done again, to its end.
            self._end(Status.INTERRUPTED)
            raise Interrupted(
                "interrupted",
                hint=f"Go on with: steelyard run --resume {quoted(self.directory.path)}",
            ) from error
        except SteelyardError as error:
            # The record's own disk may be what failed: the first error is the one to tell.
            with suppress(SteelyardError):
                self._note(error, "campaign-failed", Severity.ERROR)
            with suppress(SteelyardError):
                self._end_at_last(Status.FAILED)
            raise
        except BaseException:
            with suppress(SteelyardError):  # likewise
                self._destroy()
            raise
        return analyse(self.directory.read())

    def _work(self) -> Status:
        for finding in self.findings:
            self.directory.journal.append(journal.Noted(finding=finding))
        self.bench.prepare(self.progress.stage)
        self._choose_logs()
        plan = self.directory.read().plan or self._freeze()
        schedule = read_schedule(self.directory.path)
        self.bench.offer(plan.rates)
        self.progress.planned(plan, elapsed_s=self.directory.journal.elapsed_s)
        status = self._take_blocks(plan, schedule)
        self._sustain(plan)
        return status

    def _choose_logs(self) -> None:
        """Note where the transaction logs go, and what earlier sessions have not told of it."""
        facts, findings = beside_blocks.choose_logs(self.experiment, self.bench)
        self.facts += facts
        told = self.directory.read().findings
        for finding in findings:
            if finding not in told:
                self.directory.journal.append(journal.Noted(finding=finding))

    def _sustain(self, plan: CampaignPlan) -> None:
        """Make the long runs that are not in the journal yet."""
        taker = beside_blocks.SustainedTaker(
            experiment=self.experiment,
            plan=plan,
            taker=self._taker,
            # What is left of the budget, or as long as the try took that is repeated.
            patience_s=max(
                self.experiment.stop.budget_s - self.directory.journal.elapsed_s,
                beside_blocks.sustained_s(self.experiment),
            ),
            told=self.progress.stage,
            raw=self.directory,
        )
        recorded = self.directory.read().sustained
        for number, planned in enumerate(beside_blocks.sustained_runs(self.experiment)):
            key = (planned.configuration, planned.cell)
            before = [run for run in recorded if (run.configuration, run.cell) == key]
            for run in taker.take(number, planned, before):
                self.directory.journal.append(journal.SustainedFinished(run=run))

    def _take_blocks(self, plan: CampaignPlan, schedule: Schedule) -> Status:
        record = self.directory.read()
        completer = BlockCompleter(
            taker=self._block_taker(plan),
            directory=self.directory,
            told=self.progress.block_ended,
        )
        done = {block.index for block in record.blocks if block.complete}
        status = self._look(record) if done else None
        single = self.experiment.is_single_pass
        for block in schedule.blocks:
            if status is not None:
                return status
            if block.index in done:
                continue
            if not single and not self._goes_on(plan, record):
                return Status.BUDGET
            record = completer.complete(block, record)
            status = self._look(record)
        ended = Status.COMPLETE if plan.stopping.is_fixed else Status.BUDGET
        return status or (Status.PASSED if single else ended)

    def _goes_on(self, plan: CampaignPlan, record: CampaignRecord) -> bool:
        """Return whether one more block fits into the budget.

        Raises:
            PreflightError: The budget ends before the first interim result, which is asked for.
        """
        budget_s, begun_s = self.experiment.stop.budget_s, self.directory.journal.elapsed_s
        taken = [each for each in record.blocks if each.complete]
        taken_s = [each.lasted_s or plan.block_time_s(each.index) for each in taken]
        late_s = [taken_s[-1] - plan.block_time_s(taken[-1].index)] if taken else []
        next_s = plan.block_time_s(len(taken)) + max(0.0, *late_s, 0.0)
        fits = begun_s + next_s <= budget_s
        first, each_s = plan.stopping.first_look, fmean(taken_s or [next_s])
        needed_s = begun_s + (first - len(taken_s)) * each_s
        awaited = self.experiment.awaits_verdict
        if not awaited or len(taken_s) >= first or (fits and needed_s <= budget_s):
            return fits
        within = len(taken_s) + int((budget_s - begun_s) / each_s) if fits else len(taken_s)
        fact = (
            f"the first interim result comes after {first} blocks, and the budget of"
            f" {format_duration(budget_s)} has room for {within} of about {format_duration(each_s)}"
        )
        question = f"{fact}; it would be there with --budget {whole_minutes(needed_s * 1.05)}m."
        if fits and self.operator.confirms(question, then="to go on without", timeout_s=_ANSWER_S):
            self.experiment = replace(self.experiment, no_verdict=True)
            return fits
        raise PreflightError(
            fact,
            hint=f"Give it --budget {whole_minutes(needed_s * 1.05)}m. Without a verdict this one"
            f" goes on with: steelyard run --resume {quoted(self.directory.path)} --no-verdict",
        )

    def _block_taker(self, plan: CampaignPlan) -> BlockTaker:
        """Return what takes the blocks of a plan: servers in slots, or one after another."""
        slots = Slots.alone(self.bench)
        if plan.mode is Mode.ALTERNATING:
            self.bench.stop(keep_data=False)  # from now on servers run in slots
            slots = self.slots
            slots.make(plan.at_once or len(self.experiment.configurations))
            slots.prepare(self.progress.stage)
        return BlockTaker(
            experiment=self.experiment,
            engine=self.engine,
            slots=slots,
            plan=plan,
            clock=self.clock,
            started=self.progress.run_started,
            raw=self.directory,
            made=lambda made: self._append(journal.Provisioned(server=made)),
        )

    def _append(self, entry: journal.Entry) -> None:
        self.directory.journal.append(entry)

    def _look(self, record: CampaignRecord) -> Status | None:
        analysis = analyse(record, curves=False)
        self.progress.looked(analysis, elapsed_s=self.directory.journal.elapsed_s)
        if record.plan is None or self.experiment.twin_of is not None:
            return None  # an A/A campaign has nothing to decide: only its budget ends it
        conditions = self.experiment.gate
        return decide(analysis.comparisons, record.plan.stopping, conditions)

    def _freeze(self) -> CampaignPlan:
        """Measure what the plan rests on, draw the schedule, store both before the first run."""
        switch = switch_cost(self.experiment, self.engine)
        choice = choose_design(self.experiment, self.engine, self.room)
        mode = mode_for(
            switch, single_pass=self.experiment.is_single_pass, alternates=choice.alternates
        )
        reset = reset_for(self.experiment, mode, writes=self.engine.writes())
        self.progress.stage("starting every configuration once")
        restoring = beside_blocks.choose_means(
            self.experiment, self.bench, self.clock, alternates=choice.alternates
        )
        times = self._shake_down(restoring, choice)
        turns, in_order = self._ways(alternates=choice.alternates)
        if choice.alternates:
            choice = choose_design(self.experiment, self.engine, self.room, turns, in_order)
            if not choice.alternates:
                turns, in_order = (), tuple(replace(each, sessions=()) for each in in_order)
                self.progress.stage(f"taking no turns: {choice.reason}")
                mode = mode_for(switch)
                reset = reset_for(self.experiment, mode, writes=self.engine.writes())
        warm_up = self._warm_up(restoring.means, mode, in_order)
        capacities = self._capacities(restoring.means, warm_up)
        frame = StartFrame(
            mode=mode,
            switch=switch,
            reset=reset,
            warm_up_s=warm_up.warm_up_s,
            times=times,
            cycle_s=cycle_in_force_s(self.engine, tuple(self._servers.values())),
        )
        noise = profile_for(self.experiment, in_turns=mode is Mode.ALTERNATING)
        rounds = self._rounds(frame, noise)
        at_once = None if choice.memory is None else choice.memory.at_once
        lasting = with_lengths(self.experiment, in_order, alternates=choice.alternates)
        block_s = durations.block_s(lasting, frame, rounds=rounds.number, at_once=at_once)
        short: tuple[ShortBlocks, ...] = ()
        if not in_order:  # whole rounds of scripts are not made shorter
            short = durations.short_blocks(
                self.experiment, frame, rounds=rounds, at_once=at_once, turns=turns
            )
        left_s = self.experiment.stop.budget_s - self.directory.journal.elapsed_s
        plan = CampaignPlan(
            mode=mode,
            switch=switch,
            reset=reset,
            restore=restoring.means,
            restore_s=restoring.tried_s,
            block_s=block_s,
            stopping=stopping_for(
                self.experiment, switch, blocks_planned(self.experiment, left_s, block_s, short)
            ),
            warm_up=warm_up,
            start_s=round(times.start_s, 3),
            data_s=round(times.restore_s, 3),
            rounds=rounds.number,
            rounds_for=rounds.chosen_for,
            rounds_reason=rounds.reason,
            capacities=capacities,
            rates=beside_blocks.rates_of(self.experiment, capacities),
            design_reason=choice.reason,
            pausing=self.room.pausing if choice.alternates else None,
            turns=turns,
            in_order=in_order,
            memory=choice.memory,
            restores=restoring.others,
            noise=noise.workloads if noise.is_measured_like(mode) else (),
            short=short,
            copying_s=round(durations.copying_s(self.experiment, frame, at_once=at_once), 3),
        )
        self._store(plan)
        blocks = plan.stopping.max_blocks
        if self.experiment.compares_throughput and blocks < plan.stopping.first_look:
            self.directory.journal.append(journal.Noted(finding=_no_look(plan)))
        return plan

    def _rounds(self, frame: StartFrame, noise: NoiseProfile) -> Rounds:
        """Choose the rounds of a start, and note what a single early one cannot see."""
        rounds = choose_rounds(self.experiment, self.engine, frame, noise=noise)
        finding = early_phase_finding(rounds, frame.cycle_s)
        if finding is not None:
            self.directory.journal.append(journal.Noted(finding=finding))
        return rounds

    def _store(self, plan: CampaignPlan) -> None:
        schedule = schedule_of(
            self.experiment,
            mode=plan.mode,
            blocks=plan.stopping.max_blocks,
            rounds=plan.rounds,
            reading=[w.name for w in self.experiment.workloads if self.engine.only_reads(w)],
            at_once=plan.at_once,
            short=plan.short,
        )
        # The schedule first: a plan in the journal promises that the schedule is there.
        self.directory.write_schedule(schedule)
        self.directory.journal.append(journal.Planned(plan=plan))

    def _shake_down(
        self, restoring: beside_blocks.Restoring, choice: DesignChoice
    ) -> durations.SwitchTimes:
        """Activate every configuration once: what cannot start or take effect shows here.

        Transactions are timed meanwhile. Copies are timed while the disk may still write what was
        prepared, which can make one of them several times longer than those of blocks: of equal
        ones the median is taken.

        Raises:
            MeasurementError: A setting did not take effect.
            PreflightError: A script cannot be run.
        """
        start_s, switch_s, means = 0.0, durations.GUESSED_SWITCH_S, restoring.means
        restores_s = [seconds for tried, seconds in restoring.tried_s if tried == means]
        for configuration in self.experiment.configurations:
            start = self.bench.activate(configuration.name, restore=True, means=means)
            start.require_in_force(configuration.name)
            if self.ceilings is not None:
                self.ceilings.activated(configuration.name, start.effective)
            self._seen |= dict.fromkeys(self._place_facts(configuration.name))
            restores_s.append(start.restore_s)
            start_s = max(start_s, start.start_s)
            self._servers[configuration.name] = ServerEnvironment(
                configuration=configuration.name,
                version=self.engine.program(configuration.name).version,
                settings=start.effective,
                requested=configuration.settings,
                plans=self.engine.plans(
                    self.bench.platform(configuration.name).address, configuration.name
                ),
                provision=self.bench.provision(configuration.name),
            )
            self.bench.try_scripts(configuration.name)
            for workload in self.experiment.workloads:
                self._time(workload, configuration.name, choice)
        self._write_environment()
        restore_s = max(restores_s) if restoring.others else median(restores_s)
        return durations.SwitchTimes(restore_s=restore_s, start_s=start_s, switch_s=switch_s)

    def _time(self, workload: Workload, configuration: str, choice: DesignChoice) -> None:
        """Find how long the transactions of a workload take in the configuration in force.

        By the latency that its plan went by, else by a short try under the load with the most
        clients, whose transactions take longest.

        Raises:
            MeasurementError: The generator failed.
        """
        asked, engine = self.experiment, self.engine
        if configuration not in timed_in(asked, engine, workload, alternates=choice.alternates):
            return
        cell = CellKey(workload=workload.name, load=asked.largest_load)
        planned = PlannedRun(configuration=configuration, cell=cell)
        known_s = timed_latency_s(asked, engine, workload, configuration, self.clock.now())
        mean_s = self._latency_s(planned) if known_s is None else known_s
        mean_s = max(mean_s, self._mean_s.get(workload.name, 0.0))
        self._mean_s[workload.name] = mean_s
        executions = executions_in_order(asked, engine, workload, mean_s)
        if executions is None:
            return
        shares = choice.has_all_up and share_a_session(asked, engine, workload.name)
        if not shares or configuration == asked.configurations[-1].name:
            order = self._order(planned, executions, shares=shares)
            self._orders.setdefault(workload.name, []).append(order)

    def _ways(
        self, *, alternates: bool
    ) -> tuple[tuple[WorkloadTurns, ...], tuple[ScriptsInOrder, ...]]:
        """Return how each workload is run, as it was tried: in turns, or in a given order."""
        left_s = self.experiment.stop.budget_s - self.directory.journal.elapsed_s
        tried = (
            replace(orders[-1], round_s=round(fmean(each.round_s for each in orders), 6))
            for orders in self._orders.values()
        )
        in_order = tuple(
            replace(each, rounds=rounds_for(self.experiment, each, left_s=left_s)) for each in tried
        )
        if not alternates:
            return (), in_order
        turns = (
            WorkloadTurns(workload=name, times=self.experiment.measure.turns.for_latency(mean_s))
            for name, mean_s in self._mean_s.items()
            if name not in self._orders
        )
        return tuple(turns), in_order

    def _latency_s(self, planned: PlannedRun) -> float:
        """Return the mean latency of a workload, and keep it for plans and runs to come.

        Raises:
            MeasurementError: The generator failed.
        """
        self.progress.stage(f"timing {planned.cell.workload}, about {_TRY_TOLD}")
        # Who prints nothing tells nothing of its start, either: its ramp is what the file says.
        starts_s = (
            self.experiment.measure.discard_start_s if self.engine.load.counts_by_log() else 0.0
        )
        ramp_s = max(_TRY_RAMP_S, starts_s)
        taken = self._taker.take(planned, seconds=_TRY_S, ramp_s=ramp_s)
        if taken.measurement is None:
            raise MeasurementError(taken.trouble or "the generator gave no result")
        mean_s = taken.measurement.latency_mean_s
        if mean_s is None:  # Little's law: each client waits for one at a time
            mean_s = planned.cell.load.clients / max(taken.measurement.tps, 1.0)
        timed = TimedWorkload(mean_s=mean_s, timed_at=self.clock.now())
        workload = self.experiment.workload(planned.cell.workload)
        keep_latency(self.experiment, self.engine, workload, planned.configuration, timed)
        return mean_s

    def _order(self, planned: PlannedRun, executions: float, *, shares: bool) -> ScriptsInOrder:
        """Return how the scripts of a workload run in a given order, by a try of one round.

        Raises:
            MeasurementError: The generator failed.
        """
        sessions = Sessions()
        self.progress.stage(f"timing each script of {planned.cell.workload}")
        if shares:
            servers = {
                name: {each.name.lower(): each.value for each in server.settings}
                for name, server in self._servers.items()
            }
            sessions = sessions_of(self.experiment, servers)
        return try_order(self._taker, planned, executions, sessions)

    @property
    def _taker(self) -> BenchTaker:
        return BenchTaker(engine=self.engine, bench=self.bench, clock=self.clock)

    def _warm_up(self, means: str, mode: Mode, in_order: Sequence[ScriptsInOrder]) -> WarmUpChoice:
        succeeding = {order.workload for order in in_order if order.sessions}
        if self.experiment.measure.warm_up_s is None and succeeding == {
            workload.name for workload in self.experiment.workloads
        }:
            return beside_blocks.IN_SUCCESSION
        declared = beside_blocks.declared_warm_up(
            self.experiment,
            alternates=mode is Mode.ALTERNATING,
            leaves_cold=self.bench.leaves_cold,
        )
        calibration = self.experiment.measure.calibration
        if declared is not None or calibration is None:
            assert declared is not None  # noqa: S101 - None only asks for a calibration
            return declared
        restarts = max(calibration.restarts, len(self.experiment.workloads))
        runs_s = restarts * calibration.run_time_s * len(self.experiment.configurations)
        self.progress.stage(f"measuring the warm-up, at least {format_duration(runs_s)}")
        return beside_blocks.calibrate(
            self.experiment, calibration, beside_blocks.warm_up_runs(self._taker, means)
        )

    def _capacities(self, means: str, warm_up: WarmUpChoice) -> tuple[Capacity, ...]:
        """Find the most that the baseline sustains, where loads are shares of it."""
        asked = beside_blocks.asked_capacity(self.experiment)
        if asked is None:
            return ()
        return beside_blocks.CapacityTaker(
            taker=self._taker,
            asked=asked,
            loads=beside_blocks.closed_loads(self.experiment, asked, cpus=self.cpus),
            means=means,
            warm_up_s=warm_up.warm_up_s,
            told=self.progress.stage,
            raw=self.directory,
            search=self.directory.capacity_searches(),
        ).take()

    def _place_facts(self, configuration: str) -> tuple[Fact, ...]:
        """Return what a server's place says while it is there: in a cluster, made just now."""
        if self.experiment.configuration(configuration).target.home is None:
            return ()  # they are among the others
        return self.bench.platform(configuration).facts()

    def _write_environment(self) -> None:
        environment = Environment(
            facts=(*self.facts, *self._seen),
            servers=tuple(
                self._servers[t.name]
                for t in self.experiment.configurations
                if t.name in self._servers
            ),
            ceilings=() if self.ceilings is None else self.ceilings.taken(self.progress.stage),
        )
        self.directory.write_environment(environment)
        self.directory.journal.append(journal.EnvironmentRead(environment=environment))
        agreed = contract(self.experiment, environment)
        if agreed is not None:
            self.progress.agreed(contract_in_brief(agreed))
        require_matched(agreed)

    def _destroy(self) -> None:
        """Stop everything and remove everything that was made outside the record."""
        do_each((self.slots.destroy, self.bench.destroy))

    def _note(self, error: SteelyardError, code: str, severity: Severity) -> None:
        finding = Finding(
            code=code,
            severity=severity,
            message=error.message,
            remedy=error.hint,
            subject="campaign",
        )
        self.directory.journal.append(journal.Noted(finding=finding))

    def _end_at_last(self, status: Status) -> None:
        """End, and when an interruption tears that, end again: further ones are held off."""
        try:
            self._end(status)
        except (KeyboardInterrupt, Interrupted):
            self._end(status)

    def _note_provider(self, status: Status) -> None:
        """Keep what providers counted of servers; where that fails, the record says why."""
        if not self.bench.has_provider:
            return
        patience_s = _PROVIDER_S if status.is_finished else 0.0
        try:
            record = self.directory.read()
            if not record.runs:
                return
            self.progress.stage("reading what the provider counted")
            # What is billed counts from the making of the server on, all else from the first run.
            span, first_s = (record.started_at, self.clock.now()), record.runs[0].started_at
            try:
                series = self.bench.provider_series(span, patience_s)
            except (KeyboardInterrupt, Interrupted):  # nobody has to wait for the last minutes
                series = self.bench.provider_series(span, 0.0)
        except SteelyardError as error:
            self._note(error, "provider-not-read", Severity.INFO)
        else:
            kept = tuple(each if each.is_billed else each.since(first_s) for each in series)
            self.directory.journal.append(journal.ProviderRead(series=kept))

    def _end(self, status: Status) -> None:
        """Keep the servers' logs, clear up, and say in the journal how it ended."""
        try:
            logs = self.bench.logs() + self.slots.logs()
            if logs:
                self.directory.write_server_log(logs)
        finally:
            try:
                self._destroy()
                # After the servers went: while it waits nothing is billed any more.
                self._note_provider(status)
            finally:
                # Also where something is left behind: then the journal lists it.
                self.directory.journal.append(journal.Ended(status=status))


def _no_look(plan: CampaignPlan) -> Finding:
    return Finding(
        code=BUDGET_TOO_SHORT,
        severity=Severity.WARNING,
        message=f"the budget leaves {plan.stopping.max_blocks} blocks of about"
        f" {format_duration(plan.block_s)}; the first interim result comes after"
        f" {plan.stopping.first_look}",
        remedy="Give it a larger budget.",
        subject="campaign",
    )
