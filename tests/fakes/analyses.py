"""Synthetic analyses: everything a report can be made from, without any server or statistics.

The numbers look like a real campaign's but follow from a seed.
"""

from dataclasses import replace
from itertools import accumulate

from fakes import scenes
from steelyard.answers.cells import InstanceNoise, instance_noise
from steelyard.answers.comparison import pair_findings
from steelyard.answers.findings import checkpoint_phases
from steelyard.answers.noise import compute
from steelyard.answers.results import CampaignAnalysis, CheckpointPhase, SettingDifference
from steelyard.core import campaign, experiment, schedule
from steelyard.core.findings import Estimate, Fact, Finding, Severity, Validity
from steelyard.core.measurement import Run, Second
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.core.wording import GIB
from steelyard.stats.noise import Components


def quick() -> CampaignAnalysis:
    """Return a decided two-workload campaign, the first thing a newcomer sees."""
    scene = scenes.Scene(
        name="quick: default against fitted",
        description="PostgreSQL as it comes against settings fitted to this machine.",
        effects={("fitted", "reads"): 0.12, ("fitted", "writes"): 0.31},
        noise=0.03,
    )
    return with_evidence(analysis_of(scene))


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


def in_turns() -> CampaignAnalysis:
    """Return configurations that alternate, one workload with longer turns than the other."""
    scene = scenes.Scene(
        name="default against fitted, in turns",
        effects={("fitted", "reads"): 0.12, ("fitted", "writes"): 0.31},
        noise=0.03,
        mode=schedule.Mode.ALTERNATING,
    )
    analysis = analysis_of(scene)
    assert analysis.plan is not None
    reads, writes = schedule.TurnTimes(reconnections=2), schedule.TurnTimes(turn_s=0.4)
    plan = replace(
        analysis.plan,
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
    return replace(
        analysis,
        plan=plan,
        warmup=(),
        runs=tuple(_turned(run, plan) for run in analysis.runs),
        warm_ups_s=(2.0, 4.0),
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
            began_s=2 * number * times.turn_s,
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


def interrupted() -> CampaignAnalysis:
    """Return what is there after Ctrl-C in the fourth block."""
    scene = scenes.Scene(
        effects={("fitted", "reads"): 0.12}, blocks=3, status=campaign.Status.INTERRUPTED
    )
    return analysis_of(scene)


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
    return replace(
        analysis_of(scene),
        plan=None,
        comparisons=(),
        cells=(),
        stalls=(),
        warmup=(),
        settings=(),
        findings=(finding,),
        measured_s=0.0,
        elapsed_s=4.2,
    )


def two_servers() -> CampaignAnalysis:
    """Return two endpoints that are never made anew: one instance per side."""
    scene = scenes.Scene(
        name="the old server and the new one",
        configurations=("old", "new"),
        workloads=("reads",),
        effects={("new", "reads"): 0.2},
    )
    analysis = analysis_of(scene)
    configurations = tuple(
        replace(configuration, target=EndpointTarget(host=f"{configuration.name}.example"))
        for configuration in analysis.experiment.configurations
    )
    comparisons = tuple(replace(c, instances=1) for c in analysis.comparisons)
    return replace(
        analysis,
        experiment=replace(analysis.experiment, configurations=configurations),
        comparisons=comparisons,
        findings=tuple(pair_findings(comparisons)),
        unit="9 starts per configuration to servers that were there already; a difference belongs"
        " to"
        " this pair of servers",
    )


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
    analysis = analysis_of(scene)
    assert analysis.plan is not None
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
    return replace(
        analysis,
        plan=replace(
            analysis.plan,
            switch=experiment.SwitchCost.REPROVISION,
            restore=campaign.ANEW,
            restore_s=(),
            rounds=4,
            rounds_for=campaign.RoundsFor.INSTANCES,
            rounds_reason="best where a new server takes 40 s to the first run and a round 7 s",
        ),
        answers={checkpoint_phases: phases, instance_noise: (noise,)},
        unit="10 newly made servers per configuration on this machine, 4 runs of each cell in each,"
        " each with data loaded anew; not other machines than these",
    )


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
        settings=(SettingDifference(name="search_path", values=("a|b", bad), requested=True),),
        command=f"steelyard run '{bad}.yaml' --seed 1",
    )


def noise_floor() -> CampaignAnalysis:
    """Return an A/A campaign over three loads and two workloads, with its noise floor."""
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
    analysis = analysis_of(scene)
    twin = experiment.TwinOf(name="shared buffers", configurations=2, stop=experiment.Stop())
    loads = (None, *analysis.experiment.loads)
    return replace(
        analysis,
        experiment=replace(analysis.experiment, twin_of=twin),
        settings=(),
        answers={
            compute.analyse_noise: compute.NoiseFloor(
                name=twin.name,
                mode=schedule.Mode.STARTS,
                preparation_s=70.0,
                block_s=62.0,
                slice_s=5.0,
                advised_slice_s=9.0,
                narrower=0.87,
                workloads=(
                    _workload_floor("reads", 0.014, loads),
                    replace(
                        _workload_floor("writes", 0.05, loads),
                        noise=None,
                        slice_sd=None,
                        restart_sd=None,
                        restart_share=None,
                        walk_sd=None,
                        trend_per_h=None,
                        missing="3 blocks; the parts need 4",
                    ),
                ),
            )
        },
    )


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
    analysis = analysis_of(scene)
    twin = experiment.TwinOf(name="shared buffers", configurations=2, stop=experiment.Stop())
    return replace(
        analysis,
        experiment=replace(analysis.experiment, twin_of=twin),
        settings=(),
        warmup=(),
        answers={
            compute.analyse_noise: compute.NoiseFloor(
                name=twin.name,
                mode=schedule.Mode.ALTERNATING,
                preparation_s=20.0,
                block_s=24.0,
                slice_s=5.0,
                advised_slice_s=4.0,
                advised_reconnections=3,
                narrower=0.82,
                turns=schedule.TurnTimes(reconnections=1),
                workloads=(
                    _floor_in_turns("reads", 0.05),
                    replace(_floor_in_turns("writes", 0.03), connection_sd=None),
                ),
                designs=tuple(
                    each
                    for name, scale in (("reads", 0.05), ("writes", 0.03))
                    for each in (
                        _sees(name, schedule.Mode.ALTERNATING, scale),
                        _sees(name, schedule.Mode.STARTS, scale),
                    )
                ),
            )
        },
    )


def _floor_in_turns(name: str, scale: float) -> compute.WorkloadFloor:
    return compute.WorkloadFloor(
        workload=name,
        noise=replace(campaign.ASSUMED_NOISE.workloads[0], workload=name),
        second_sd=_about(scale),
        autocorrelation=None,
        slice_sd=None,
        restart_sd=None,
        walk_sd=Estimate(value=0.2, low=0.0, high=0.4),
        trend_per_h=Estimate(value=-0.1, low=-0.9, high=0.7),
        restart_share=None,
        slice_s=4.0,
        reaches=(_reach(None, scale),),
        start_sd=_about(0.5 * scale),
        connection_sd=_about(0.4 * scale),
        apart_sd=_about(2.0 * scale),
        start_share=0.4,
    )


def _sees(name: str, mode: schedule.Mode, scale: float) -> compute.DesignSight:
    in_turns = mode is schedule.Mode.ALTERNATING
    deviation = scale * (1.0 if in_turns else 3.0)
    return compute.DesignSight(
        workload=name,
        mode=mode,
        measured=in_turns,
        block_s=24.0 if in_turns else 60.0,
        contrast_sd=deviation,
        halves=tuple(
            None if m < 20 and not in_turns else 8 * deviation / m for m in compute.MINUTES
        ),
        needed_s=(9000.0 if in_turns else None, 60.0 * (30 if in_turns else 300)),
    )


def _workload_floor(
    name: str, scale: float, loads: tuple[schedule.Load | None, ...]
) -> compute.WorkloadFloor:
    return compute.WorkloadFloor(
        workload=name,
        noise=replace(
            campaign.ASSUMED_NOISE.workloads[0], workload=name, assumed=("slice_sd", "restart_sd")
        ),
        second_sd=Estimate(value=0.051, low=0.047, high=0.055),
        autocorrelation=Estimate(value=0.52, low=0.41, high=0.63),
        slice_sd=Estimate(value=0.012, low=0.0, high=0.021),
        restart_sd=Estimate(value=0.015, low=0.008, high=0.02),
        walk_sd=Estimate(value=0.03, low=0.0, high=0.11),
        trend_per_h=Estimate(value=-0.021, low=-0.09, high=0.048),
        restart_share=0.23,
        slice_s=9.0,
        reaches=tuple(
            _reach(load, scale * (1.0 if load is None else 1.6 + 0.02 * load.clients))
            for load in loads
        ),
    )


def _reach(load: schedule.Load | None, scale: float) -> compute.Reach:
    return compute.Reach(
        load=load,
        contrast_sd=_about(scale),
        seen=scale,
        sights=tuple(_sight(minutes, scale) for minutes in compute.MINUTES),
    )


def _sight(minutes: int, scale: float) -> compute.Sight:
    blocks = int((60 * minutes - 70) / 62)
    half = None if blocks < 9 else _about(2.6 * scale / blocks**0.5)
    visible = None if half is None else _about(half.value / 0.6)
    return compute.Sight(minutes=minutes, blocks=blocks, half_width=half, visible=visible)


def _about(value: float) -> Estimate:
    return Estimate(value=value, low=0.75 * value, high=1.5 * value)


def analysis_of(scene: scenes.Scene) -> CampaignAnalysis:
    """Return the analysis that a campaign of this kind might end with."""
    runs = scenes.runs_of(scene)
    return CampaignAnalysis(
        campaign_id="20261121-140000-7f3a",
        experiment=_experiment(scene),
        status=scene.status,
        plan=_plan(scene),
        blocks=scene.blocks,
        blocks_redone=(),
        looks=max(0, scene.blocks - 5),
        measured_s=5.0 * len(runs),
        elapsed_s=42.0 + 11.5 * len(runs),
        started_at=scenes.STARTED_AT,
        comparisons=scenes.comparisons_of(scene, runs),
        cells=scenes.cells_of(scene, runs),
        stalls=scenes.stalls_of(scene),
        warmup=scenes.warmup_of(scene),
        runs=runs,
        findings=(),
        settings=(
            SettingDifference(
                name="shared_buffers",
                requested=True,
                values=tuple(
                    "128MB" if not i else f"{2 * i}GB" for i in range(len(scene.configurations))
                ),
            ),
            SettingDifference(
                name="wal_buffers",
                requested=False,
                values=tuple("4MB" if not i else "16MB" for i in range(len(scene.configurations))),
            ),
        ),
        facts=_facts(),
        unit=_unit(scene),
        command=f"steelyard run preset:quick --seed {scene.seed}",
    )


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


def _experiment(scene: scenes.Scene) -> experiment.Experiment:
    changed = (
        experiment.Setting(layer=experiment.Layer.POSTGRES, name="shared_buffers", value="2GB"),
    )
    return experiment.Experiment(
        name=scene.name,
        baseline=scene.configurations[0],
        configurations=tuple(
            experiment.Configuration(name=name, target=LocalTarget(), settings=changed if i else ())
            for i, name in enumerate(scene.configurations)
        ),
        workloads=tuple(
            experiment.Workload(
                name=name,
                scale_factor=20,
                builtin="select-only" if name.startswith("reads") else "simple-update",
            )
            for name in scene.workloads
        ),
        loads=tuple(scenes.load_of(c) for c in scene.clients),
        protocol="prepared",
        measure=experiment.Measure(warm_up_s=5.0, prewarm=True),
        stop=experiment.Stop(budget_s=scene.budget_s),
        seed=scene.seed,
        description=scene.description,
    )


def _plan(scene: scenes.Scene) -> campaign.CampaignPlan:
    results = len(scene.workloads) * (len(scene.configurations) - 1)
    starts = scene.mode is not schedule.Mode.BACK_TO_BACK
    return campaign.CampaignPlan(
        mode=scene.mode,
        switch=experiment.SwitchCost.RESTART if starts else experiment.SwitchCost.SESSION,
        reset=experiment.Reset.START if starts else experiment.Reset.BLOCK,
        restore="reflink",
        restore_s=(("reflink", 0.071), ("copy", 0.94)),
        block_s=38.0,
        stopping=campaign.StoppingRule(
            max_blocks=scene.max_blocks,
            alpha=0.04 / results,
            results=results,
            first_look=6 if len(scene.clients) == 1 else 8,
            cell_first_look=6,
            spending_power=2.0,
        ),
        warm_up=campaign.WarmUpChoice(
            warm_up_s=5.0,
            how="measured",
            measured_s=(3.0, 4.0),
            restarts=5,
            residual_fraction=(0.004, 0.006),
            risk="A configuration that warms up more slowly than 5 s is understated by up to 0.6"
            " %.",
        ),
    )


def _unit(scene: scenes.Scene) -> str:
    if not scene.blocks:
        return "nothing was replicated: there is no complete block"
    if scene.mode is schedule.Mode.BACK_TO_BACK:
        return (
            f"{scene.blocks} starts to one server on this machine, in which each cell ran the "
            "configurations back to back, with the prepared data restored before each block; not "
            "restarts of it, not two machines"
        )
    if scene.mode is schedule.Mode.ALTERNATING:
        return (
            f"{scene.blocks} starts of each configuration's server on this machine, up together and"
            " under load in turns, each from the same prepared data; not two machines, not two"
            " storage products"
        )
    return (
        f"{scene.blocks} restarts of one server per configuration on this machine, each from the"
        " same "
        "prepared data; not two machines, not two storage products"
    )


def _facts() -> tuple[Fact, ...]:
    machine = (
        ("CPU", "Intel Xeon Platinum 8370C at 2.80 GHz, 4 CPUs allowed"),
        ("memory", "22.4 GiB, 8.0 GiB allowed"),
        ("kernel", "Linux 6.1.0-28-amd64"),
        ("file system", "xfs on /dev/vda1, reflink copies work"),
        ("transparent huge pages", "madvise"),
    )
    tools = (("pgbench", "18.1"), ("steelyard", "0.1.0"))
    servers = (("default", "PostgreSQL 18.1"), ("fitted", "PostgreSQL 18.1"))
    return (
        *(Fact(name=n, value=v, subject="machine") for n, v in machine),
        *(Fact(name=n, value=v, subject="tools") for n, v in tools),
        *(Fact(name=n, value=v, subject="servers") for n, v in servers),
    )
