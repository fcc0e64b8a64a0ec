"""How the numbers came about, what they show and what they do not, and how to repeat them."""

import math

from steelyard.analysis.results import CampaignAnalysis, CheckpointPhase, InstanceNoise
from steelyard.analysis.stopping import has_many_cells
from steelyard.model.experiment import Experiment
from steelyard.model.measure import Reset
from steelyard.model.plan import ANEW, CampaignPlan, DiscardChoice, RoundsFor, StoppingRule
from steelyard.model.schedule import Mode
from steelyard.model.units import format_duration, format_percent
from steelyard.report.document import Command, KeyValues, Paragraph, Section
from steelyard.report.formats import CONFIDENCE, MISSING, count, ended, p_value, share, utc
from steelyard.report.turns import shared_pairs, taken_words, turn_pairs, warm_up_words
from steelyard.report.wording import LABEL, blocks_of_all, ending

_MODE = {
    Mode.VISITS: "a visit per treatment: activate, discard, one run per load",
    Mode.ALTERNATING: "all treatments of a block up at the same time, the load takes turns",
    Mode.BACK_TO_BACK: "back to back: in each cell all treatments one after another in one visit",
}

# By whether it is a single pass.
_ORDER = {
    False: "The same seed draws the same order of the same blocks. On another machine the rates"
    " will differ, and the effects may.",
    True: "The same cells come in the same order. The rates will differ, on this machine too.",
}


def method_section(analysis: CampaignAnalysis) -> Section:
    """Return how it was measured: what METHOD.md 3.6 says must always be printed."""
    pairs = [*_execution(analysis)]
    if analysis.plan is None:
        pairs.append(("design", "not frozen: the campaign ended before its first block"))
    else:
        pairs.extend(design_pairs(analysis, analysis.plan))
    pairs.extend(_checks(analysis))
    block = KeyValues(title="", pairs=tuple(pairs))
    return Section(anchor="method", title="Method", blocks=(block,))


def _execution(analysis: CampaignAnalysis) -> tuple[tuple[str, str], ...]:
    single = analysis.experiment.is_single_pass
    measured = format_duration(analysis.measured_s) if analysis.measured_s else "nothing"
    return (
        ("campaign", analysis.campaign_id),
        ("ended", ending(analysis)),
        ("started", utc(analysis.started_at)),
        ("took", f"{format_duration(analysis.elapsed_s)}, of which {measured} measured"),
        *(() if single else (("blocks", blocks_of_all(analysis)),)),
        ("unit of replication", analysis.unit or "nothing was replicated"),
        ("coin", _coin(analysis)),
    )


def design_pairs(analysis: CampaignAnalysis, plan: CampaignPlan) -> tuple[tuple[str, str], ...]:
    """Return run, mode, looks, error rate, discard and data of a frozen plan."""
    if analysis.experiment.is_single_pass:
        return (
            ("run", _run(analysis.experiment)),
            ("mode", f"a {LABEL}: activate, discard, every cell once in file order"),
            ("discard", _discard(plan.discard)),
            ("data", f"prepared once, by {plan.restore}; not restored between runs"),
        )
    if plan.mode is Mode.ALTERNATING:
        return _alternating_pairs(analysis, plan)
    return (
        *((("design", _design(plan)),) if plan.design_reason else ()),
        ("run", _run(analysis.experiment)),
        ("mode", f"{_MODE[plan.mode]} (switch cost: {plan.switch.value})"),
        *_rounds(plan),
        *_judging(analysis, plan),
        ("discard", _discard(plan.discard)),
        ("data", _reset(plan)),
    )


def _alternating_pairs(
    analysis: CampaignAnalysis, plan: CampaignPlan
) -> tuple[tuple[str, str], ...]:
    return (
        ("design", _design(plan)),
        ("mode", _MODE[plan.mode]),
        *turn_pairs(plan.turns, analysis.experiment.measure.slice_s),
        *shared_pairs(plan.pausing, plan.memory),
        *_judging(analysis, plan),
        ("warm-up", _warm_up(analysis, plan.discard)),
        ("data", _data_of_turns(plan)),
    )


def _data_of_turns(plan: CampaignPlan) -> str:
    if plan.reset is Reset.CAMPAIGN:
        return f"prepared once, by {plan.restore}: sessions of one server read the same data"
    return f"each treatment from a fresh copy in every block, {_means(plan)}"


def _design(plan: CampaignPlan) -> str:
    return taken_words(plan.mode, plan.design_reason, plan.switch)


def _warm_up(analysis: CampaignAnalysis, choice: DiscardChoice) -> str:
    """Return how long starts were warmed up, and from when on longer."""
    first, *longer = analysis.warm_ups_s or (choice.discard_s,)
    more = [f"then {each:g} s, because a treatment was still warming up" for each in longer]
    return "; ".join((warm_up_words(first), *more))


def _run(experiment: Experiment) -> str:
    measure = experiment.measure
    if experiment.generator.takes_time:
        return f"{measure.ramp_s:g} s ramp thrown away, then {measure.slice_s:g} s measured"
    return (
        f"as many requests as the runs before it say the server answers in {measure.slice_s:g} s;"
        f" {experiment.generator.value} takes no time, and leaves no ramp out"
    )


def _judging(analysis: CampaignAnalysis, plan: CampaignPlan) -> tuple[tuple[str, str], ...]:
    """Return looks and error rate, or that there is nothing to look at."""
    if not analysis.experiment.compares_throughput:
        return (("looks", "none: no throughput is compared, so only the budget ends it"),)
    return (
        ("looks", f"{analysis.looks} so far, {_looks(plan.stopping)}"),
        ("error rate", _alpha_rule(plan.stopping)),
        *_many_cells(analysis),
    )


def _rounds(plan: CampaignPlan) -> tuple[tuple[str, str], ...]:
    """Return how often a visit runs its cells, where that is not once as always."""
    if plan.rounds_for is RoundsFor.ONE:
        return ()
    return (
        ("rounds", f"{count(plan.rounds, 'run')} of each cell per visit: {plan.rounds_reason}"),
    )


def _coin(analysis: CampaignAnalysis) -> str:
    if analysis.experiment.is_single_pass:
        return "none: the order is that of the file"
    return f"seed {analysis.experiment.seed}"


def _looks(rule: StoppingRule) -> str:
    each = "after every block" if rule.precision is None else "at the asked precision"
    return f"{each} from block {rule.first_look} (cells: {rule.cell_first_look})"


def _alpha_rule(rule: StoppingRule) -> str:
    over = f"{share(rule.alpha)} for the one headline"
    if rule.headlines > 1:
        total = share(rule.alpha * rule.headlines)
        over = f"{total} for {rule.headlines} headlines, {share(rule.alpha)} each (Bonferroni)"
    if rule.precision is not None:
        asked = f"stops at a half-width of ±{share(rule.precision)}, verdicts do not stop it"
        return f"{over}; {asked}; with a margin for that, printed as {CONFIDENCE}"
    power = f"alpha · (n/{rule.max_blocks})^{rule.spending_power:g}"
    spent = f"spent over the looks as {power}"
    return f"{over}, {spent}; with a margin for many looks, printed as {CONFIDENCE}"


def _many_cells(analysis: CampaignAnalysis) -> tuple[tuple[str, str], ...]:
    """Return the rule for cells where there are many."""
    cells = len(analysis.experiment.closed_loads)
    if not has_many_cells(cells):
        return ()
    rule = (
        f"{cells} per headline: those called different by Benjamini and Hochberg's false discovery"
        " rate at the headline's error rate and this look, with intervals of the same false"
        " coverage rate; the others by simultaneous intervals (Bonferroni)"
    )
    return (("cells", rule),)


def _discard(choice: DiscardChoice) -> str:
    how = {
        "declared": "declared in the experiment",
        "floor": "the least the method allows, not measured",
        "measured": f"measured by {count(choice.restarts, 'activation')} per treatment",
    }.get(choice.how, choice.how)
    thrown = f"{choice.discard_s:g} s after each activation, equal for all, {how}"
    return f"{thrown}. {ended(choice.risk)}".strip()


def _reset(plan: CampaignPlan) -> str:
    if plan.restore == ANEW:
        return "every visit makes its server and its data from nothing"
    return f"back to the prepared state every {plan.reset.value} {_means(plan)}"


def _means(plan: CampaignPlan) -> str:
    tried = ", ".join(f"{means} {format_duration(s)}" for means, s in plan.restore_s)
    timed = f" (tried: {tried})" if tried else ""
    return f"by {plan.restore}{timed}"


def _checks(analysis: CampaignAnalysis) -> tuple[tuple[str, str], ...]:
    pairs = []
    for check in analysis.warmup:
        slope = f"{format_percent(math.expm1(check.slope_per_position))} per place in the visit"
        text = f"{check.treatment}: the contrast changes by {slope} ({p_value(check.p_value)})"
        pairs.append(("warm-up check", text))
    if analysis.checkpoints:
        text = "; ".join(_phase(phase) for phase in analysis.checkpoints)
        pairs.append(("checkpoint phase", text))
    pairs += [("newly made servers", _instance_noise(noise)) for noise in analysis.instances]
    if analysis.blocks_redone and analysis.experiment.is_single_pass:
        text = f"{len(analysis.blocks_redone)}, the valid runs before them kept"
        pairs.append(("interruptions", f"{text}: {'; '.join(analysis.blocks_redone)}"))
    elif analysis.blocks_redone:
        thrown = f"{len(analysis.blocks_redone)} thrown away, in all treatments alike"
        text = f"{thrown}: {'; '.join(analysis.blocks_redone)}"
        pairs.append(("repeated blocks", text))
    return tuple(pairs)


def _phase(phase: CheckpointPhase) -> str:
    if phase.least_s is None or phase.median_s is None or phase.most_s is None:
        return f"{phase.treatment}: not known ({ended(phase.unknown)})"
    span = f"{format_duration(phase.least_s)} to {format_duration(phase.most_s)}"
    known = "" if phase.known == phase.runs else f", {phase.known} of them known"
    return (
        f"{phase.treatment}: runs began {span} after the last checkpoint or start, median"
        f" {format_duration(phase.median_s)} ({count(phase.runs, 'run')}{known})"
    )


def _instance_noise(noise: InstanceNoise) -> str:
    parts = noise.parts
    sd, run_sd = (
        format_percent(value, signed=False) for value in (parts.instance_sd, parts.run_sd)
    )
    ends = (parts.instance_low, parts.instance_high)
    low, high = (format_percent(value, signed=False) for value in ends)
    return (
        f"{noise.workload}, {noise.treatment}: standard deviation {sd} between servers"
        f" [{low}, {high}] (95 %, {parts.instances} per side), {run_sd} between runs of one server;"
        f" best at these: {count(noise.best_rounds, 'run')} per server"
    )


def command_section(analysis: CampaignAnalysis) -> Section:
    """Return the command that repeats the campaign."""
    if not analysis.command:
        text = f"Not recorded: the command of this campaign is unknown ({MISSING})."
        return Section(anchor="command", title="Reproduce it", blocks=(Paragraph(text=text),))
    lead = Paragraph(text=_ORDER[analysis.experiment.is_single_pass])
    return Section(
        anchor="command", title="Reproduce it", blocks=(lead, Command(text=analysis.command))
    )
