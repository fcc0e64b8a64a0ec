"""Analyses of synthetic campaigns: everything a report can be made from, without any server."""

from dataclasses import replace
from functools import cache
from itertools import accumulate

from fakes import scenes
from steelyard.answers.campaign import analyse
from steelyard.answers.cells import InstanceNoise, instance_noise
from steelyard.answers.findings import checkpoint_phases
from steelyard.answers.noise.compute import analyse_noise
from steelyard.answers.results import CampaignAnalysis, CheckpointPhase, SettingDifference
from steelyard.core import campaign, experiment, schedule
from steelyard.core.findings import Fact, Finding, Severity, Validity
from steelyard.core.measurement import Run, Second
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import GIB
from steelyard.stats.noise import Components


@cache
def quick() -> CampaignAnalysis:
    """Return a decided two-workload campaign, the first thing a newcomer sees."""
    scene = scenes.Scene(
        name="quick: default against fitted",
        description="PostgreSQL as it comes against settings fitted to this machine.",
        effects={("fitted", "reads"): 0.12, ("fitted", "writes"): 0.31},
        noise=0.03,
    )
    return with_evidence(analysis_of(scene))


@cache
def many_loads() -> CampaignAnalysis:
    """Three configurations over five loads, one of them with an effect that grows with load."""
    effects = {
        ("buffers", "reads"): 0.02,
        ("huge-pages", "reads"): 0.05,
        ("buffers", "writes"): 0.0,
    }
    scene = scenes.Scene(
        name="shared buffers and huge pages",
        clients=(1, 4, 16, 64, 128),
        configurations=("default", "buffers", "huge-pages"),
        effects=effects,
        load_slope=0.12,
        noise=0.012,
        blocks=14,
        max_blocks=20,
        status=campaign.Status.BUDGET,
        budget_s=3600.0,
    )
    return analysis_of(scene)


@cache
def same_twice() -> CampaignAnalysis:
    """Return a comparison of a configuration with itself: nothing to distinguish."""
    scene = scenes.Scene(
        name="the same twice",
        configurations=("first", "second"),
        workloads=("writes",),
        noise=0.05,
        blocks=12,
        max_blocks=12,
        status=campaign.Status.BUDGET,
        mode=schedule.Mode.BACK_TO_BACK,
    )
    return analysis_of(scene)


@cache
def in_turns() -> CampaignAnalysis:
    """Return configurations that alternate, one workload with longer turns than the other."""
    scene = scenes.Scene(
        name="default against fitted, in turns",
        effects={("fitted", "reads"): 0.12, ("fitted", "writes"): 0.31},
        noise=0.03,
        mode=schedule.Mode.ALTERNATING,
    )
    return analyse(_in_turns(scenes.record_of(scene)))


def _in_turns(record: campaign.CampaignRecord) -> campaign.CampaignRecord:
    """Return a campaign as if its configurations had taken turns, those of writes longer."""
    assert record.plan is not None
    reads, writes = schedule.TurnTimes(reconnects=2), schedule.TurnTimes(turn_s=0.4)
    plan = replace(
        record.plan,
        restore="copy",
        restore_s=(("copy", 0.94),),
        warm_up=campaign.WarmUpChoice(
            warm_up_s=2.0, how="floor", risk="It is tested in every block."
        ),
        design_reason="all of them can be up at the same time",
        pausing=schedule.Pausing.SIGNALS,
        turns=(
            schedule.WorkloadTurns(workload="reads", times=reads),
            schedule.WorkloadTurns(workload="writes", times=writes),
        ),
        memory=schedule.SharedMemory(needed_bytes=3 * GIB, available_bytes=12 * GIB),
    )
    measure = replace(record.experiment.measure, turns=schedule.TurnTimes(reconnects=1))
    return replace(
        record,
        experiment=replace(record.experiment, measure=measure),
        plan=plan,
        runs=tuple(_turned(run, plan) for run in record.runs),
        blocks=tuple(replace(b, warm_up_s=4.0 if b.index else 2.0) for b in record.blocks),
    )


def _turned(run: Run, plan: campaign.CampaignPlan) -> Run:
    """Return a run as if its seconds had been turns, one in each round."""
    assert run.measurement is not None
    times = campaign.turn_times(plan, run.cell.workload)
    series = run.measurement.series
    turns = tuple(
        schedule.Turn(
            round=number,
            place=(number + run.start) % 2,
            began_s=(2 * number + (number + run.start) % 2) * times.turn_s,
            seconds=times.counted_s,
            transactions=round(second.transactions * times.counted_s),
            early=round(second.transactions * times.counted_s / 2),
        )
        for number, second in enumerate(series)
    )
    ends = accumulate(turn.seconds for turn in turns)
    measured = replace(
        run.measurement,
        transactions=sum(turn.transactions for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
        series=tuple(
            Second(
                end_s=round(end_s, 6),
                seconds=turn.seconds,
                transactions=turn.transactions,
                latency_mean_s=None,
            )
            for end_s, turn in zip(ends, turns, strict=True)
        ),
    )
    return replace(run, measurement=measured, turns=turns)


@cache
def interrupted() -> CampaignAnalysis:
    """Return what is there after Ctrl-C in the fourth block."""
    scene = scenes.Scene(
        effects={("fitted", "reads"): 0.12}, blocks=3, status=campaign.Status.INTERRUPTED
    )
    return analysis_of(scene)


@cache
def failed_early() -> CampaignAnalysis:
    """Return a campaign that failed before its first block, without a plan."""
    scene = scenes.Scene(blocks=0, status=campaign.Status.FAILED)
    finding = Finding(
        code="server-did-not-start",
        severity=Severity.ERROR,
        message='PostgreSQL refused to start: invalid value for parameter "shared_buffers": "2TB"',
        remedy="Lower shared_buffers of configuration fitted below the machine's memory of 22.4"
        " GiB.",
        source="server log",
        subject="fitted",
    )
    record = replace(scenes.record_of(scene), plan=None, findings=(finding,), elapsed_s=4.2)
    return analyse(record)


@cache
def two_servers() -> CampaignAnalysis:
    """Return two endpoints that are never made anew: one instance per side."""
    scene = scenes.Scene(
        name="the old server and the new one",
        configurations=("old", "new"),
        workloads=("reads",),
        effects={("new", "reads"): 0.2},
    )
    record = scenes.record_of(scene)
    configurations = tuple(
        replace(configuration, target=EndpointTarget(host=f"{configuration.name}.example"))
        for configuration in record.experiment.configurations
    )
    asked = replace(record.experiment, configurations=configurations)
    return analyse(replace(record, experiment=asked))


@cache
def made_servers() -> CampaignAnalysis:
    """Return servers that every start makes, with several runs in each."""
    scene = scenes.Scene(
        name="on newly made servers",
        workloads=("writes",),
        effects={("fitted", "writes"): 0.15},
        blocks=10,
        max_blocks=10,
        status=campaign.Status.BUDGET,
    )
    record = scenes.record_of(scene)
    assert record.plan is not None
    phases = tuple(
        CheckpointPhase(
            configuration=name, runs=40, known=40, least_s=5.1, median_s=17.0, most_s=29.4
        )
        for name in scene.configurations
    )
    parts = Components(
        instance_sd=0.021,
        run_sd=0.034,
        instance_low=0.008,
        instance_high=0.045,
        instances=10,
        runs=4,
    )
    noise = InstanceNoise(configuration="fitted", workload="writes", parts=parts, best_rounds=5)
    plan = replace(
        record.plan,
        switch=experiment.SwitchCost.REPROVISION,
        restore=campaign.ANEW,
        restore_s=(),
        rounds=4,
        rounds_for=campaign.RoundsFor.INSTANCES,
        rounds_reason="best where a new server takes 40 s to the first run and a round 7 s",
    )
    made = analyse(replace(record, plan=plan)).with_answer(checkpoint_phases, phases)
    return made.with_answer(instance_noise, (noise,))


@cache
def hostile() -> CampaignAnalysis:
    """Return names and values that would break a careless page or table."""
    bad = "<script>alert('x')</script>"
    scene = scenes.Scene(
        name=f'{bad} & "quotes" | pipes',
        configurations=("default", "a|b<b>`c`"),
        workloads=("reads & <i>writes</i>",),
        blocks=6,
        status=campaign.Status.BUDGET,
    )
    finding = Finding(code="hostile", severity=Severity.WARNING, message=f"{bad} | `x` *y* _z_")
    return replace(
        analysis_of(scene),
        findings=(finding,),
        facts=(Fact(name="CPU | <b>", value=f"{bad}\nsecond line"),),
        settings=(
            SettingDifference(
                name="search_path", values={"default": "a|b", "a|b<b>`c`": bad}, requested=True
            ),
        ),
        command=f"steelyard run '{bad}.yaml' --seed 1",
    )


@cache
def scalability() -> CampaignAnalysis:
    """Return two configurations over seven loads with a curve for each workload."""
    scene = scenes.Scene(
        name="throughput over clients",
        clients=(1, 2, 4, 8, 16, 32, 64),
        effects={("fitted", "reads"): 0.05, ("fitted", "writes"): 0.04},
        noise=0.015,
        blocks=11,
        max_blocks=11,
        status=campaign.Status.BUDGET,
        budget_s=900.0,
    )
    return analysis_of(scene)


@cache
def noise_floor() -> CampaignAnalysis:
    """Return an A/A campaign over three loads; of one workload the parts cannot be told."""
    scene = scenes.Scene(
        name="noise of shared buffers",
        description="What can this set-up see? The baseline against itself.",
        configurations=("default", "again"),
        clients=(1, 8, 32),
        noise=0.02,
        blocks=12,
        max_blocks=12,
        status=campaign.Status.BUDGET,
        budget_s=900.0,
    )
    analysis = analyse(_against_itself(scene))
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    reads, writes = floor.workloads
    few = "3 blocks; the parts need 4"
    parts = ("noise", "slice_sd", "restart_sd", "restart_share", "drift_sd", "trend_per_h")
    unknown = replace(writes, reason=few, **dict.fromkeys(parts))  # type: ignore[arg-type]
    return analysis.with_answer(analyse_noise, replace(floor, workloads=(reads, unknown)))


def _against_itself(
    scene: scenes.Scene, other: experiment.OtherDesign | None = None
) -> campaign.CampaignRecord:
    """Return a campaign of two equal configurations in the place of an experiment."""
    record = scenes.record_of(scene)
    assert record.environment is not None
    twin = experiment.TwinOf(
        name="shared buffers", configurations=2, stop=experiment.Stop(), other=other
    )
    equal = tuple(replace(each, settings=()) for each in record.experiment.configurations)
    return replace(
        record,
        experiment=replace(record.experiment, configurations=equal, twin_of=twin),
        environment=replace(record.environment, servers=()),
        planned_at_s=70.0,
    )


@cache
def noise_in_turns() -> CampaignAnalysis:
    """Return an A/A campaign in turns over two workloads, beside what starts would see."""
    scene = scenes.Scene(
        name="noise of shared buffers",
        configurations=("default", "again"),
        noise=0.02,
        blocks=14,
        max_blocks=14,
        status=campaign.Status.BUDGET,
        mode=schedule.Mode.ALTERNATING,
        budget_s=600.0,
    )
    other = experiment.OtherDesign(mode=schedule.Mode.STARTS, block_s=60.0)
    return analyse(_in_turns(_against_itself(scene, other)))


def analysis_of(scene: scenes.Scene) -> CampaignAnalysis:
    """Return the analysis of a campaign of this kind."""
    return analyse(scenes.record_of(scene))


def with_evidence(analysis: CampaignAnalysis) -> CampaignAnalysis:
    """Return the analysis with a thrown-away block, a suspect cell and findings of all kinds."""
    first, *others = analysis.cells
    suspect = Finding(
        code="slow-connections",
        severity=Severity.INFO,
        message="opening the connections took 0.41 s of a 2 s ramp",
        source="pgbench",
        subject=f"{first.configuration}, {first.cell.workload}, 8 clients",
    )
    steal = Finding(
        code="steal-time",
        severity=Severity.WARNING,
        message="the hypervisor took 3.2 % of the CPU time of 2 runs; they were repeated",
        remedy="Measure while the neighbours rest, or on a dedicated host.",
        source="/proc/stat",
        subject="campaign",
    )
    return replace(
        analysis,
        cells=(replace(first, validity=Validity.SUSPECT, findings=(suspect,)), *others),
        findings=(steal,),
        blocks_redone=("block 4, try 1: steal time 3.2 % in 2 runs",),
    )
