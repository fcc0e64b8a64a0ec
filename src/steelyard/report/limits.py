"""What this does and does not show: written from the design, not from the result."""

from collections.abc import Iterator

from steelyard.analysis.results import CampaignAnalysis
from steelyard.model.experiment import EngineName, Experiment
from steelyard.model.measure import Reset, SwitchCost
from steelyard.model.plan import CampaignPlan, DiscardChoice, RoundsFor, Status, settling_s
from steelyard.model.schedule import Mode
from steelyard.model.target import is_restarted, place_of
from steelyard.model.turns import Pausing
from steelyard.model.units import format_duration
from steelyard.model.verdicts import Verdict
from steelyard.model.work_words import ONE, RATE
from steelyard.model.workload import Workload
from steelyard.report.attribution import warnings
from steelyard.report.document import BulletList, Paragraph, Section
from steelyard.report.formats import CONFIDENCE, count, ended, enumeration
from steelyard.report.redis_work import asked, later, one_key_label
from steelyard.report.turns import BACKGROUND
from steelyard.report.wording import cell_name, stopped_early
from steelyard.stats.two_level import LEAST_INSTANCES


def limits_section(analysis: CampaignAnalysis) -> Section:
    """Return two lists: what the design supports, and what it does not."""
    title = "What this does and does not show"
    if not analysis.blocks or analysis.plan is None:
        text = "Nothing about the treatments: no block is complete, so nothing was compared."
        return Section(anchor="limits", title=title, blocks=(Paragraph(text=text),))
    shown = BulletList(lead="It shows", items=tuple(_shown(analysis, analysis.plan)))
    hidden = BulletList(lead="It does not show", items=tuple(_not_shown(analysis, analysis.plan)))
    return Section(anchor="limits", title=title, blocks=(shown, hidden))


def _shown(analysis: CampaignAnalysis, plan: CampaignPlan) -> Iterator[str]:
    yield f"The unit of replication is: {analysis.unit}. The intervals speak of nothing else."
    yield _blocks(analysis, plan)
    yield _stopping(analysis, plan)
    yield _thrown_away(analysis, plan.discard)
    thrown_s = settling_s(analysis.experiment.engine, plan.discard.discard_s)
    if thrown_s and plan.mode is Mode.BACK_TO_BACK:
        yield (
            f"After each switch on the running server {thrown_s} s of the workload were thrown"
            " away: the generator leaves out no start of a run."
        )
    if analysis.blocks_redone:
        tries = len(analysis.blocks_redone)
        yield (
            f"Thrown away and repeated: {count(tries, 'block')}, as a whole, in all treatments "
            "alike. The findings say why; what a treatment itself brings about is hidden by this."
        )


def _blocks(analysis: CampaignAnalysis, plan: CampaignPlan) -> str:
    """Return what every block held, and what that makes equal."""
    experiment = analysis.experiment
    if not analysis.is_in_turns:
        return (
            f"Every block held each of {_names(experiment)} {_times(plan)}, in an order drawn by"
            f" coin from seed {experiment.seed}; a machine that drifts treats them alike."
        )
    if plan.reset is Reset.CAMPAIGN:
        return (
            f"In every block sessions of each of {_names(experiment)} read the same data on one"
            " server, and they carried the load in turns, in orders drawn by coin from seed"
            f" {experiment.seed}: what drifts or disturbs for longer than some turns treats them"
            " alike."
        )
    return (
        f"In every block each of {_names(experiment)} was up on a fresh copy of the same data, and"
        " they carried the load in turns, in orders drawn by coin from seed"
        f" {experiment.seed}: what drifts or disturbs for longer than some turns treats them alike."
    )


def _thrown_away(analysis: CampaignAnalysis, discard: DiscardChoice) -> str:
    if analysis.is_in_turns:
        first, *longer = analysis.warm_ups_s or (discard.discard_s,)
        later = f", later {enumeration(tuple(f'{s:g} s' for s in longer))}" if longer else ""
        return (
            f"Under each workload the first {first:g} s under load after each start{later} were"
            f" thrown away, for all treatments alike. {ended(discard.risk)}"
        ).strip()
    return (
        f"The first {discard.discard_s:g} s after each activation were thrown away, for all "
        f"treatments alike ({discard.how}). {ended(discard.risk)}"
    ).strip()


def _names(experiment: Experiment) -> str:
    if experiment.attribution is not None:
        return f"the {len(experiment.treatments)} combinations of levels"
    return enumeration(tuple(t.name for t in experiment.treatments))


def _times(plan: CampaignPlan) -> str:
    return "once" if plan.rounds == 1 else f"in {count(plan.rounds, 'run')} of each cell"


def _stopping(analysis: CampaignAnalysis, plan: CampaignPlan) -> str:
    rule = plan.stopping
    if not analysis.experiment.compares_throughput:
        return (
            "The number of blocks was fixed before the first one by the budget (at most"
            f" {rule.max_blocks}); nothing that was measured could end the campaign."
        )
    if stopped_early(analysis):
        return (
            f"It stopped when every headline was decided, after {analysis.blocks} of at most "
            f"{count(rule.max_blocks, 'block')}. The intervals allow for that; the estimates are, "
            "on average, a little too large, so quote the interval."
        )
    if analysis.status is Status.PRECISION:
        return (
            "It stopped when the half-widths were small enough, whatever the verdicts; "
            f"the intervals hold at {CONFIDENCE}."
        )
    if rule.precision is not None:
        return (
            "It was to stop when the half-widths were small enough, and ended before that. The "
            f"intervals hold at {CONFIDENCE} unless it was stopped because of what they showed."
        )
    return (
        f"The stopping rule was fixed before the first block (at most {rule.max_blocks}); the "
        f"intervals hold at {CONFIDENCE} at whatever block the campaign ended."
    )


def _not_shown(analysis: CampaignAnalysis, plan: CampaignPlan) -> Iterator[str]:
    yield _slices(analysis.experiment, plan)
    yield _elsewhere(analysis, plan)
    yield _untested(analysis.experiment)
    yield from filter(None, (one_key_label(analysis.experiment),))
    yield from _offered(analysis, plan)
    yield from _generator(analysis.experiment)
    yield from _bundles(analysis.experiment)
    yield from _unclear(analysis.experiment)
    yield from _turned(plan)
    yield from _state(plan)
    if any(c.verdict is Verdict.NOT_DISTINGUISHABLE for c in analysis.comparisons):
        yield (
            '"Not distinguishable" does not mean equal: it means that this many blocks allow any '
            "effect within the interval."
        )


def _slices(experiment: Experiment, plan: CampaignPlan) -> str:
    if experiment.engine is EngineName.REDIS:
        return later(experiment)
    seconds = f"{experiment.measure.slice_s:g}"
    if plan.rounds_for is RoundsFor.CYCLE:
        return (
            f"The sustained rate: the slices of {seconds} s of each visit are spread over the"
            " length of one checkpoint cycle, and no longer. What vacuum or a burst credit does"
            " later is not in them."
        )
    if plan.mode is Mode.ALTERNATING:
        return (
            f"The sustained rate: every run is {seconds} s of turns soon after a start and sees the"
            " early phase of a checkpoint cycle, with little WAL. What changes the cost of"
            " checkpoints, full-page writes or vacuum may do something else later."
        )
    restarted = all(is_restarted(treatment.target) for treatment in experiment.treatments)
    if plan.mode is Mode.VISITS and plan.switch.rank >= SwitchCost.RESTART.rank and restarted:
        if plan.rounds > 1:
            return _early_rounds(experiment, plan)
        return (
            f"The sustained rate: every run is a slice of {seconds} s soon after a restart and "
            "sees the early phase of a checkpoint cycle, with little WAL. What changes the cost of "
            "checkpoints, full-page writes or vacuum may do something else later."
        )
    return (
        f"The sustained rate: every run is a slice of {seconds} s, shorter than a checkpoint or "
        "vacuum cycle. What changes their cost may do something else over a longer time."
    )


def _early_rounds(experiment: Experiment, plan: CampaignPlan) -> str:
    """Return how much of a checkpoint cycle the rounds of a visit see."""
    measure = experiment.measure
    runs = plan.rounds * len(experiment.workloads) * len(experiment.loads)
    covered = format_duration(runs * (measure.slice_s + measure.ramp_s))
    return (
        f"The sustained rate: every run is a slice of {measure.slice_s:g} s, and those of a visit "
        f"cover about {covered} after a restart. What changes the cost of checkpoints, full-page "
        "writes or vacuum may do something else later."
    )


def _elsewhere(analysis: CampaignAnalysis, plan: CampaignPlan) -> str:
    pairs = [c for c in analysis.comparisons if c.is_of_pair]
    if pairs:
        return (
            "What makes the difference: the treatments live on different instances,"
            f" {pairs[0].instances} per side, and two equal instances differ, too. With at least"
            f" {LEAST_INSTANCES} newly made ones per side it could be said."
        )
    remade = plan.switch is SwitchCost.REPROVISION
    if remade and analysis.blocks >= LEAST_INSTANCES:
        return "Another kind of machine or another place: only these instances were measured."
    if remade:
        return (
            f"More than these instances: with fewer than {LEAST_INSTANCES} per side a difference "
            "may belong to this pair of instances instead of the treatment."
        )
    return "Another machine or instance: one was measured, and no other."


def _untested(experiment: Experiment) -> str:
    loads = enumeration(tuple(cell_name(experiment, load) for load in experiment.loads))
    told = "; ".join(_asked(experiment, workload) for workload in experiment.workloads)
    if experiment.engine is EngineName.REDIS:
        return f"Other loads, keys or values: measured were {loads}; {told}."
    used = dict.fromkeys(t.protocol or experiment.protocol for t in experiment.treatments)
    protocol = f"protocol {enumeration(tuple(used))}"
    return f"Other loads or data: measured were {loads}, {protocol}; {told}."


def _asked(experiment: Experiment, workload: Workload) -> str:
    if workload.redis is not None:
        return asked(workload, workload.redis, experiment.generator)
    scripts = enumeration(tuple(s.name for s in workload.scripts))
    size = "" if workload.scale_factor is None else f" at scale factor {workload.scale_factor}"
    return f"{workload.name} is {workload.builtin or scripts or 'unknown'}{size}"


def _offered(analysis: CampaignAnalysis, plan: CampaignPlan) -> Iterator[str]:
    """Yield what the loads leave open: closed loops, rates, or rates made from a capacity."""
    experiment = analysis.experiment
    if experiment.closed_loads and any(load.is_open for load in experiment.loads):
        yield (
            "Latency at equal work in the closed loops: the number of clients was equal, and the "
            "faster server did more. The loads with a rate show it."
        )
    elif experiment.closed_loads:
        yield (
            "Latency at equal work: the number of clients was equal, and each sent its next "
            f"{ONE} when the last was answered, so the faster server did more."
        )
    elif not plan.capacities:
        yield "The highest possible rate: the load was offered at a fixed rate to all treatments."
    elif experiment.contenders:
        yield (
            f"The highest possible rate of {enumeration(experiment.contenders)}: the capacity is"
            f" that of {plan.capacities[0].treatment}, and all were offered shares of it."
        )


def _generator(experiment: Experiment) -> Iterator[str]:
    places = [place_of(treatment.target) for treatment in experiment.treatments]
    if any(place is not None and place.generators.same_node for place in places):
        yield (
            "A network between client and server: pods of load generators were allowed on the"
            " database's node, where they take their share of its CPUs."
        )
    if all(t.target.kind.endswith("local") for t in experiment.treatments):
        yield (
            "A network between client and server: the load generator ran on the same machine and "
            "took its share of the CPUs."
        )


def _unclear(experiment: Experiment) -> Iterator[str]:
    """Yield what the design of the factors cannot tell apart."""
    if experiment.attribution is None:
        return
    yield from warnings(experiment.attribution)
    if experiment.attribution.is_full and len(experiment.attribution.factors) > 1:
        yield (
            "That factors do not change each other's effect, where a synergy is not"
            " distinguishable: its interval is twice as wide as a main effect's."
        )


def _turned(plan: CampaignPlan) -> Iterator[str]:
    """Yield what turns leave open."""
    if plan.mode is not Mode.ALTERNATING:
        return
    yield (
        f"The {RATE} and the latency of a server alone: they were measured in turns, with the other"
        " servers of the block in memory. What holds is the ratio."
    )
    yield (
        "What acts by the clock: it goes on in the pauses, so what comes at times"
        " (autovacuum, the background writer) came more often for the same work, in all treatments."
    )
    yield (
        "That no turn leaves anything to the next one (caches of the CPUs, pages of the kernel): in"
        " random order it falls on all alike, unless one of them suffers more from it; two rules"
        " look for that."
    )
    if plan.pausing is Pausing.GENERATOR:
        yield BACKGROUND


def _bundles(experiment: Experiment) -> Iterator[str]:
    if experiment.attribution is not None:
        return  # the factors are there to tell them apart
    base = {(s.layer, s.name): s.value for s in experiment.treatment(experiment.baseline).settings}
    for name in experiment.contenders:
        own = {(s.layer, s.name): s.value for s in experiment.treatment(name).settings}
        changed = [key for key in {**base, **own} if base.get(key) != own.get(key)]
        if len(changed) > 1:
            yield (
                f"Which of the {len(changed)} settings asked for makes {name} what it is: "
                "they were changed together, and the effect is that of all of them."
            )


def _state(plan: CampaignPlan) -> Iterator[str]:
    if plan.restore == "vacuum":
        yield (
            "Effects free of history: the data were vacuumed and their history truncated, not "
            "brought back, so rows that were changed and bloat that stays met the next treatment."
        )
    if plan.reset is Reset.CAMPAIGN:
        yield (
            "Effects free of history: the data were not reset between visits, so what one "
            "treatment left behind (bloat, cache, credits) met the next."
        )
    elif plan.reset is Reset.BLOCK:
        yield (
            "Effects free of history within a block: the data were reset between blocks only. What "
            "one treatment leaves to the next is spread evenly by the coin, not removed."
        )
