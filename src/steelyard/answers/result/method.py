"""How the numbers came about, what they show and what they do not, and how to repeat them.

What they show and do not show is written from the design, not from the result.
"""

import re
from collections.abc import Iterator, Sequence

from steelyard.answers import results
from steelyard.answers.attribution import warnings
from steelyard.answers.cells import InstanceNoise, instance_noise
from steelyard.answers.findings import checkpoint_phases
from steelyard.answers.neighbours import BUSY_SHARE, OtherPrograms, other_programs
from steelyard.answers.turns import (
    BACKGROUND,
    block_parts,
    is_told,
    order_pairs,
    shared_pairs,
    taken_words,
    turn_pairs,
    warm_up_words,
)
from steelyard.core import campaign
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    RedisWork,
    Reset,
    SwitchCost,
    Workload,
)
from steelyard.core.findings import Verdict
from steelyard.core.measurement import Quantity, Run
from steelyard.core.places import WorkersAsked
from steelyard.core.redis import needs_restart
from steelyard.core.schedule import Mode, Pausing
from steelyard.core.target import EngineName
from steelyard.core.wording import (
    MS_PER_S,
    format_bytes,
    format_duration,
    format_log_ratio,
    format_share,
    is_empty_preload,
    redis_word,
    setting_literals,
)
from steelyard.report import document as doc
from steelyard.stats.noise import LEAST_INSTANCES
from steelyard.stats.spending import has_many_cells


def limits_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return what this campaign leaves open; docs/methods.md has the limits of every campaign."""
    if not analysis.blocks or analysis.plan is None:
        text = "Nothing about the configurations: no block is complete, so nothing was compared."
        return doc.Section(anchor="limits", title="Limits", blocks=(doc.Paragraph(text=text),))
    shown = doc.BulletList(lead="It shows", items=tuple(_shown(analysis, analysis.plan)))
    hidden = doc.BulletList(
        lead="It does not show", items=tuple(_not_shown(analysis, analysis.plan))
    )
    general = doc.Paragraph(text="The limits of every campaign: docs/methods.md, section 12.")
    return doc.Section(anchor="limits", title="Limits", blocks=(shown, hidden, general))


def _shown(analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan) -> Iterator[str]:
    yield f"Valid for: {analysis.unit}. The intervals cover nothing else."
    yield _stopping(analysis, plan)
    yield from _workers(analysis.runs, analysis.experiment.workers)
    if analysis.blocks_redone:
        tries = len(analysis.blocks_redone)
        yield (
            f"Thrown away and repeated: {doc.count(tries, 'block')}, as a whole, in all"
            " configurations "
            "alike. The findings say why; what a configuration itself brings about is hidden by"
            " this."
        )


def _workers(runs: Sequence[Run], workers: WorkersAsked | None) -> Iterator[str]:
    """Yield how far apart the workers of the load began, if it had some."""
    seen = [run.evidence for run in runs if run.evidence is not None]
    worst = max(seen, key=lambda one: one.level(Quantity.START_SKEW_S) or 0.0, default=None)
    if worst is None or (skew_s := worst.level(Quantity.START_SKEW_S)) is None:
        return
    doubt_s = worst.level(Quantity.START_DOUBT_S) or 0.0
    pressure_s = worst.total(Quantity.CPU_PRESSURE_S)
    waited = (
        ""
        if pressure_s is None
        else f" In that run tasks waited for a CPU for {format_share(pressure_s / worst.seconds)}"
        " of the time."
    )
    numbers = sorted({one.level(Quantity.WORKERS) or 0.0 for one in seen})
    fewest = "" if len(numbers) == 1 else f"{numbers[0]:.0f} to "
    yield (
        f"The load came from {fewest}{numbers[-1]:.0f} workers. They began and went on at"
        f" agreed instants, at most {MS_PER_S * skew_s:.1f} ms apart, of which"
        f" {MS_PER_S * doubt_s:.1f} ms are what their clocks leave in doubt.{waited}"
    )
    if workers is not None and not workers.are_here:
        yield (
            "Other processes on the machines of the workers were not watched. The validity of a"
            " run does not include the CPU time that they took from the load generators."
        )


def _stopping(analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan) -> str:
    rule = plan.stopping
    after = f"after {analysis.blocks} of at most {doc.count(rule.max_blocks, 'block')}"
    if analysis.status is campaign.Status.RUNNING:
        return f"It has not ended: these are interim results {after}."
    ended = _ENDED.get(analysis.status, "It ended")
    if not analysis.experiment.compares_throughput:
        by_budget = analysis.status is campaign.Status.BUDGET
        ended = "The budget ended it" if by_budget else ended
        return f"{ended} {after}; nothing that was measured could end it."
    if results.stopped_early(analysis):
        # A report may be shown under other conditions than the campaign ended by.
        by_verdicts = all(result.verdict.decided for result in analysis.results)
        is_gate = analysis.experiment.gate and not by_verdicts
        what = "condition of `gate`" if is_gate else "result"
        return (
            f"It stopped when every {what} was decided, {after}. The intervals allow for that;"
            " the estimates are, on average, a little too large, so quote the interval."
        )
    hold = f"The intervals hold at {doc.CONFIDENCE}"
    if analysis.status is campaign.Status.PRECISION:
        return f"It stopped when the half-widths were small enough, whatever the verdicts. {hold}."
    if rule.precision is not None:
        return (
            f"{ended} before the half-widths were small enough. {hold} unless it was stopped"
            " because of what they showed."
        )
    rule_words = "; its rule was" if analysis.status in _ENDED else ", by a rule that was"
    return f"{ended} {after}{rule_words} fixed before the first block. {hold}."


_ENDED = {
    campaign.Status.INTERRUPTED: "It was interrupted",
    campaign.Status.FAILED: "It failed",
}


def _not_shown(analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan) -> Iterator[str]:
    yield _slices(analysis.experiment, plan)
    yield from _elsewhere(analysis, plan)
    yield _untested(analysis.experiment)
    yield from filter(None, (results.one_key_label(analysis.experiment),))
    yield from _offered(analysis, plan)
    yield from _generator(analysis.experiment)
    yield from _bundles(analysis.experiment)
    yield from _unclear(analysis.experiment)
    if plan.mode is Mode.ALTERNATING and plan.pausing is Pausing.GENERATOR:
        yield BACKGROUND
    yield from _state(analysis.experiment, plan)
    if any(c.verdict is Verdict.NO_CLEAR_DIFFERENCE for c in analysis.comparisons):
        yield (
            '"No clear difference" does not mean equal: it means that this many blocks allow any '
            "effect within the interval."
        )


def _slices(experiment: Experiment, plan: campaign.CampaignPlan) -> str:
    every = f"The sustained rate: every run is {experiment.slices}"
    if plan.rounds_for is campaign.RoundsFor.CYCLE and experiment.system.has_checkpoints:
        return (
            f"{every}, and those of a start are spread over one checkpoint cycle. What vacuum or a"
            " burst credit does later is not in them."
        )
    later = "What the server does more rarely may cost more later."
    if experiment.system.has_checkpoints:
        later = "Checkpoints, full-page writes or vacuum may cost more later."
    elif experiment.engine is EngineName.REDIS:
        later = (
            "A rewrite of the AOF, a snapshot with its fork, memory that fills up or a burst credit"
            " that runs out may cost more later."
        )
    return f"{every}{' of turns' if plan.mode is Mode.ALTERNATING else ''}. {later}"


def _elsewhere(analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan) -> Iterator[str]:
    pairs = [c for c in analysis.comparisons if c.is_of_pair]
    if pairs:
        yield (
            "What makes the difference: the configurations live on different instances,"
            f" {pairs[0].instances} per side, and two equal instances differ, too. With at least"
            f" {LEAST_INSTANCES} newly made ones per side it could be said."
        )
    elif plan.switch is SwitchCost.REPROVISION and analysis.blocks < LEAST_INSTANCES:
        yield (
            f"More than these instances: with fewer than {LEAST_INSTANCES} per side a difference "
            "may belong to this pair of instances instead of the configuration."
        )


def _untested(experiment: Experiment) -> str:
    loads = doc.enumeration(tuple(results.cell_name(experiment, load) for load in experiment.loads))
    told = "; ".join(_asked(workload) for workload in experiment.workloads)
    if experiment.engine is EngineName.REDIS:
        return f"Other loads, keys or values: measured were {loads}; {told}."
    if experiment.engine is not EngineName.POSTGRES or experiment.workloads[0].command:
        return f"Other loads or data: measured were {loads}; {told}."
    used = dict.fromkeys(t.protocol or experiment.protocol for t in experiment.configurations)
    protocol = f"protocol {doc.enumeration(tuple(used))}"
    return f"Other loads or data: measured were {loads}, {protocol}; {told}."


def _asked(workload: Workload) -> str:
    if workload.redis is not None:
        return _asked_of_redis(workload, workload.redis)
    size = "" if workload.scale is None else f" at scale factor {workload.scale}"
    return f"{workload.name} is {results.what_it_runs(workload) or 'unknown'}{size}"


def _asked_of_redis(workload: Workload, work: RedisWork) -> str:
    """Return what a workload asks for: test or command, keys, what is loaded, size of values."""
    space = work.space
    what = " ".join(work.command) or workload.builtin
    keys = "one key" if space.keys == 1 else f"{space.keys:,} keys at random"
    loaded = f"{doc.count(space.loaded, 'key')} loaded" if space.loaded else "none loaded"
    size = format_bytes(space.value_bytes)
    return f"{workload.name} is {what} of redis-benchmark, {keys} ({loaded}), values of {size}"


def _offered(analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan) -> Iterator[str]:
    """Yield what the loads leave open: closed loops, rates, or rates made from a capacity."""
    experiment = analysis.experiment
    if experiment.closed_loads and any(load.is_open for load in experiment.loads):
        yield (
            "Latency at equal work in the closed loops: the number of clients was equal, and the "
            "faster server did more. The loads with a rate show it."
        )
    elif not experiment.closed_loads and not plan.capacities:
        yield (
            "The highest possible rate: the load was offered at a fixed rate to all configurations."
        )
    elif not experiment.closed_loads and experiment.contenders:
        yield (
            f"The highest possible rate of {doc.enumeration(experiment.contenders)}: the capacity"
            " is"
            f" that of {plan.capacities[0].configuration}, and all were offered shares of it."
        )


def _generator(experiment: Experiment) -> Iterator[str]:
    places = [configuration.target.home for configuration in experiment.configurations]
    if any(place is not None and place.generators.same_node for place in places):
        yield (
            "A network between client and server: pods of load generators were allowed on the"
            " database's node, where they take their share of its CPUs."
        )
    if experiment.is_all_here and experiment.generator_host is None:
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
            "That factors do not change each other's effect, where a synergy shows no"
            " clear difference: its interval is twice as wide as a main effect's."
        )


def _bundles(experiment: Experiment) -> Iterator[str]:
    if experiment.attribution is not None:
        return  # the factors are there to tell them apart
    base = {
        (s.layer, s.name): s.value for s in experiment.configuration(experiment.baseline).settings
    }
    for name in experiment.contenders:
        own = {(s.layer, s.name): s.value for s in experiment.configuration(name).settings}
        changed = [key for key in {**base, **own} if base.get(key) != own.get(key)]
        if len(changed) > 1:
            yield (
                f"Which of the {len(changed)} settings asked for makes {name} what it is: "
                "they were changed together, and the effect is that of all of them."
            )


def _state(experiment: Experiment, plan: campaign.CampaignPlan) -> Iterator[str]:
    if plan.reset is Reset.CAMPAIGN and experiment.uses_found_data:
        pass  # that is chosen where scripts only read; what stays all the same is told below
    elif "vacuum" in plan.means and experiment.uses_found_data:
        yield (
            "Effects free of history: the data were there before and nothing brought them back, so"
            " rows that scripts changed, and their bloat, met the next configuration."
        )
    elif "vacuum" in plan.means:
        yield (
            "Effects free of history: the data were vacuumed and their history truncated, not "
            "brought back, so rows that were changed and bloat that stays met the next"
            " configuration."
        )
    if plan.reset is Reset.CAMPAIGN:
        yield (
            "Effects free of history: the data were not reset between starts, so what one "
            "configuration left behind (bloat, cache, credits) met the next."
        )
    elif plan.reset is Reset.BLOCK:
        yield (
            "Effects free of history within a block: the data were reset between blocks only. What "
            "one configuration leaves to the next is spread evenly by the coin, not removed."
        )


_MODE = {
    Mode.STARTS: "for each configuration a start, a warm-up and one run per load",
    Mode.ALTERNATING: "all configurations of a block up at the same time, the load takes turns",
    Mode.BACK_TO_BACK: "back to back: in each cell all configurations one after another in one"
    " start",
}

_SUB_BLOCKS = (
    "as many configurations of a block up at the same time as fit, drawn by the seed, one sub-block"
    " after another; the baseline is in each, and each configuration is compared with the baseline"
    " beside it. A block counts when all its sub-blocks do"
)

# By whether it is a single pass.
_ORDER = {
    False: "The same seed draws the same order of the same blocks. On another machine the rates"
    " will differ, and the effects may.",
    True: "The same cells come in the same order. The rates will differ, on this machine too.",
}


def method_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return how it was measured: what METHOD.md 3.6 says must always be printed."""
    pairs = [*_execution(analysis)]
    if analysis.plan is None:
        pairs.append(("design", "not frozen: the campaign ended before its first block"))
    else:
        pairs.extend(design_pairs(analysis, analysis.plan))
    pairs.extend(_checks(analysis))
    work = doc.KeyValues(title="", pairs=tuple(_work(analysis)))
    method = doc.KeyValues(title="Method", pairs=tuple(pairs))
    more = (method, *_own_scripts(analysis.experiment))
    return doc.Section(anchor="method", title="What ran", blocks=(work,), more=more)


# PostgreSQL's documentation, pgbench, "What Is the Transaction Actually Performed".
_BUILTINS = {
    "select-only": "SELECT abalance FROM pgbench_accounts WHERE aid = :aid",
    "simple-update": "BEGIN; UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid ="
    " :aid; SELECT abalance FROM pgbench_accounts WHERE aid = :aid; INSERT INTO pgbench_history"
    " (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP); END",
    "tpcb-like": "simple-update, and before its INSERT UPDATE pgbench_tellers SET tbalance ="
    " tbalance + :delta WHERE tid = :tid; UPDATE pgbench_branches SET bbalance = bbalance + :delta"
    " WHERE bid = :bid",
}


def _work(analysis: results.CampaignAnalysis) -> Iterator[tuple[str, str]]:
    """Yield what the workloads execute, and how much of it was measured."""
    for workload in analysis.experiment.workloads:
        scripts = (f"{each.name} (weight {each.weight})" for each in workload.scripts)
        ran = _BUILTINS.get(workload.builtin or "") or doc.enumeration(tuple(scripts))
        yield workload.name, ran or results.what_it_runs(workload)
    measured = format_duration(analysis.measured_s) if analysis.measured_s else "nothing"
    counted = doc.count(len(analysis.runs), "run")
    yield "measured", f"{measured} in {counted}, {format_duration(analysis.elapsed_s)} in all"


def _own_scripts(experiment: Experiment) -> Iterator[doc.Block]:
    for workload in experiment.workloads:
        for script in workload.scripts:
            yield doc.Paragraph(text=f"{workload.name}: {script.name}")
            yield doc.Command(text=script.text.rstrip(), language="sql")


def _execution(analysis: results.CampaignAnalysis) -> tuple[tuple[str, str], ...]:
    single = analysis.experiment.is_single_pass
    return (
        ("campaign", analysis.campaign_id),
        ("ended", results.ending(analysis)),
        ("started", doc.utc(analysis.started_at)),
        *(() if single else (("blocks", results.blocks_of_all(analysis)),)),
        ("unit of replication", analysis.unit or "nothing was replicated"),
        ("coin", _coin(analysis)),
    )


def design_pairs(
    analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan
) -> tuple[tuple[str, str], ...]:
    """Return run, mode, looks, error rate, warm-up and data of a frozen plan."""
    if analysis.experiment.is_single_pass:
        return (
            ("run", _run(analysis.experiment)),
            ("mode", f"a {results.LABEL}: start, warm-up, every cell once in file order"),
            ("warm-up", _chosen_warm_up(plan.warm_up)),
            ("data", _data_of_pass(analysis.experiment, plan)),
        )
    if plan.mode is Mode.ALTERNATING:
        return _alternating_pairs(analysis, plan)
    cost = f" (switch cost: {plan.switch.value})" * is_told(plan.switch, analysis.experiment)
    return (
        *((("design", _design(analysis, plan)),) if plan.design_reason else ()),
        ("run", _run(analysis.experiment)),
        ("mode", f"{_MODE[plan.mode]}{cost}"),
        *_rounds(plan),
        *order_pairs(plan.in_order),
        *block_parts(plan.short, plan.block_s, plan.copying_s),
        *_judging(analysis, plan),
        ("warm-up", _chosen_warm_up(plan.warm_up)),
        ("data", _reset(analysis.experiment, plan)),
    )


def _alternating_pairs(
    analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan
) -> tuple[tuple[str, str], ...]:
    return (
        ("design", _design(analysis, plan)),
        ("mode", _MODE[plan.mode] if plan.at_once is None else _SUB_BLOCKS),
        *turn_pairs(analysis.experiment, plan.turns),
        *order_pairs(plan.in_order),
        *shared_pairs(plan.pausing, plan.memory),
        *block_parts(plan.short, plan.block_s, plan.copying_s),
        *_judging(analysis, plan),
        ("warm-up", _warm_up(analysis, plan.warm_up)),
        ("data", _data_of_turns(analysis.experiment, plan)),
    )


def _data_of_pass(experiment: Experiment, plan: campaign.CampaignPlan) -> str:
    if experiment.uses_found_data and plan.restore == "vacuum":
        return f"{_FOUND}; not restored between runs"
    return f"prepared once, by {_by(plan)}; not restored between runs"


_FOUND = "were there before: Steelyard prepared nothing"


def _data_of_turns(experiment: Experiment, plan: campaign.CampaignPlan) -> str:
    if experiment.uses_found_data and plan.reset is Reset.CAMPAIGN:
        return f"{_FOUND}; sessions of one server read the same data"
    if experiment.uses_found_data and plan.restore == "vacuum":
        return f"{_FOUND}, and what the scripts changed stayed changed"
    if plan.reset is Reset.CAMPAIGN:
        what = f"sessions of one server read {experiment.data_read_together}"
        return f"prepared once, by {_by(plan)}: {what}"
    return f"each configuration from a fresh copy in every block, {_means(plan)}"


def _design(analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan) -> str:
    return taken_words(analysis.experiment, plan.mode, plan.design_reason, plan.switch, plan.memory)


def _warm_up(analysis: results.CampaignAnalysis, choice: campaign.WarmUpChoice) -> str:
    """Return how long starts were warmed up, and from when on longer."""
    first, *longer = analysis.warm_ups_s or (choice.warm_up_s,)
    more = [f"then {each:g} s, because a configuration was still warming up" for each in longer]
    return "; ".join((warm_up_words(first, analysis.experiment), *more))


def _run(experiment: Experiment) -> str:
    measure = experiment.measure
    if experiment.system.takes_time:
        return f"{measure.discard_start_s:g} s ramp thrown away, then {experiment.slices} measured"
    return (
        f"as many requests as the runs before it say the server answers in {experiment.slices};"
        f" {experiment.generator.value} takes no time, and leaves no ramp out"
    )


def _judging(
    analysis: results.CampaignAnalysis, plan: campaign.CampaignPlan
) -> tuple[tuple[str, str], ...]:
    """Return interim results and error rate, or that there is nothing to look at."""
    if not analysis.experiment.compares_throughput:
        return (("interim results", "none: no throughput is compared, so only the budget ends it"),)
    return (
        ("interim results", f"{analysis.looks} so far, {_looks(plan.stopping)}"),
        ("error rate", _alpha_rule(plan.stopping)),
        *_many_cells(analysis),
    )


def _rounds(plan: campaign.CampaignPlan) -> tuple[tuple[str, str], ...]:
    """Return how often a start runs its cells, where that is not once as always."""
    if plan.rounds_for is campaign.RoundsFor.ONE:
        return ()
    return (
        ("rounds", f"{doc.count(plan.rounds, 'run')} of each cell per start: {plan.rounds_reason}"),
    )


def _coin(analysis: results.CampaignAnalysis) -> str:
    if analysis.experiment.is_single_pass:
        return "none: the order is that of the file"
    return f"seed {analysis.experiment.seed}"


def _looks(rule: campaign.StoppingRule) -> str:
    if rule.is_fixed:
        return f"one, after block {rule.max_blocks}: so many were asked for"
    each = "after every block" if rule.precision is None else "at the asked precision"
    return f"{each} from block {rule.first_look} (cells: {rule.cell_first_look})"


def _alpha_rule(rule: campaign.StoppingRule) -> str:
    over = f"{doc.share(rule.alpha)} for the one result"
    if rule.results > 1:
        total = doc.share(rule.alpha * rule.results)
        over = f"{total} for {rule.results} results, {doc.share(rule.alpha)} each (Bonferroni)"
    if rule.is_fixed:
        by = (
            f"t interval over {doc.count(rule.max_blocks, 'block')}, {rule.max_blocks - 1}"
            " degrees of"
        )
        return (
            f"{over}, at one look; {by} freedom, which takes log ratios for normal: not the coin's"
            f" interval; printed as {doc.CONFIDENCE}"
        )
    if rule.precision is not None:
        asked = f"stops at a half-width of ±{doc.share(rule.precision)}, verdicts do not stop it"
        return f"{over}; {asked}; with a margin for that, printed as {doc.CONFIDENCE}"
    power = f"alpha · (n/{rule.max_blocks})^{rule.spending_power:g}"
    spent = f"spent over the interim results as {power}"
    return f"{over}, {spent}; with a margin for many interim results, printed as {doc.CONFIDENCE}"


def _many_cells(analysis: results.CampaignAnalysis) -> tuple[tuple[str, str], ...]:
    """Return the rule for cells where there are many."""
    cells = len(analysis.experiment.closed_loads)
    if not has_many_cells(cells):
        return ()
    rule = (
        f"{cells} per result: those called different by Benjamini and Hochberg's false discovery"
        " rate at the result's error rate and this interim result, with intervals of the same false"
        " coverage rate; the others by simultaneous intervals (Bonferroni)"
    )
    return (("cells", rule),)


def _chosen_warm_up(choice: campaign.WarmUpChoice) -> str:
    how = {
        "declared": "declared in the experiment",
        "floor": "the least the method allows, not measured",
        "measured": f"measured by {doc.count(choice.restarts, 'start')} per configuration",
    }.get(choice.how, choice.how)
    thrown = f"{choice.warm_up_s:g} s after each start, equal for all, {how}"
    return f"{thrown}. {doc.ended(choice.risk)}".strip()


def _reset(experiment: Experiment, plan: campaign.CampaignPlan) -> str:
    if experiment.uses_found_data and plan.restore == "vacuum":
        return f"{_FOUND} and brought nothing back"
    if plan.restore == campaign.ANEW:
        return "every start makes its server and its data from nothing"
    return f"back to the prepared state every {plan.reset.value} {_means(plan)}"


def _means(plan: campaign.CampaignPlan) -> str:
    tried = ", ".join(f"{means} {format_duration(s)}" for means, s in plan.restore_s)
    timed = f" (tried: {tried})" if tried else ""
    return f"by {_by(plan)}{timed}"


def _by(plan: campaign.CampaignPlan) -> str:
    """Return the means of restoring; of places that have another one, which those are."""
    others = (f"{configuration} by {means}" for configuration, means in plan.restores)
    return "; ".join((plan.restore, *others))


def _checks(analysis: results.CampaignAnalysis) -> tuple[tuple[str, str], ...]:
    pairs = []
    for check in analysis.warmup:
        slope = f"{format_log_ratio(check.slope_per_position)} per place in the start"
        text = (
            f"{check.configuration}: the contrast changes by {slope} ({doc.p_value(check.p_value)})"
        )
        pairs.append(("warm-up check", text))
    if phases := analysis.answer(checkpoint_phases):
        text = "; ".join(map(_phase, phases))
        pairs.append(("checkpoint phase", text))
    found = analysis.answer(instance_noise) or ()
    pairs += [("newly made servers", _instance_noise(noise)) for noise in found]
    if (others := analysis.answer(other_programs)) is not None:
        pairs.append(("other processes", "; ".join(_others(others))))
    if analysis.blocks_redone and analysis.experiment.is_single_pass:
        text = f"{len(analysis.blocks_redone)}, the valid runs before them kept"
        pairs.append(("interruptions", f"{text}: {'; '.join(analysis.blocks_redone)}"))
    elif analysis.blocks_redone:
        thrown = f"{len(analysis.blocks_redone)} thrown away, in all configurations alike"
        text = f"{thrown}: {'; '.join(analysis.blocks_redone)}"
        pairs.append(("repeated blocks", text))
    return tuple(pairs)


def _others(others: OtherPrograms) -> Iterator[str]:
    if others.busy is not None:
        share = format_share(others.busy) if others.busy else "none"
        yield f"took more than {doc.share(BUSY_SHARE)} of the CPUs in {share} of the measured time"
    for result, times in others.wider:
        yield (
            f"the interval of {result.configuration} under {result.workload} is {times:.2g} times"
            " as wide as the stored noise profile of this place foretells"
        )


def _phase(phase: results.CheckpointPhase) -> str:
    if phase.least_s is None or phase.median_s is None or phase.most_s is None:
        return f"{phase.configuration}: not known ({doc.ended(phase.unknown)})"
    span = f"{format_duration(phase.least_s)} to {format_duration(phase.most_s)}"
    known = "" if phase.known == phase.runs else f", {phase.known} of them known"
    return (
        f"{phase.configuration}: runs began {span} after the last checkpoint or start, median"
        f" {format_duration(phase.median_s)} ({doc.count(phase.runs, 'run')}{known})"
    )


def _instance_noise(noise: InstanceNoise) -> str:
    parts = noise.parts
    sd, run_sd = (format_share(value) for value in (parts.instance_sd, parts.run_sd))
    ends = (parts.instance_low, parts.instance_high)
    low, high = (format_share(value) for value in ends)
    return (
        f"{noise.workload}, {noise.configuration}: standard deviation {sd} between servers"
        f" [{low}, {high}] (95 %, {parts.instances} per side), {run_sd} between runs of one server;"
        f" best at these: {doc.count(noise.best_rounds, 'run')} per server"
    )


def command_section(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return the command that repeats the campaign."""
    if not analysis.command:
        text = f"Not recorded: the command of this campaign is unknown ({doc.MISSING})."
        return doc.Section(anchor="command", title="Reproduce", blocks=(doc.Paragraph(text=text),))
    lead = doc.Paragraph(text=_ORDER[analysis.experiment.is_single_pass])
    command = doc.Command(text=analysis.command)
    blocks = (lead, command, *_winner(analysis))
    return doc.Section(anchor="command", title="Reproduce", blocks=blocks)


def _winner(analysis: results.CampaignAnalysis) -> Iterator[doc.Block]:
    """Yield the settings of what is faster and nowhere slower, to be copied into a server."""
    experiment = analysis.experiment
    if experiment.attribution is not None:
        return  # results are of factors
    # At one load or with one of several scripts, too.
    slower = (c for c in analysis.comparisons if c.verdict is Verdict.SLOWER or c.is_mixed)
    lost = {c.configuration for c in slower}
    won = [c for c in analysis.results if c.verdict is Verdict.FASTER and not c.is_suspect]
    won = [c for c in won if c.configuration not in lost]
    best = max(won, key=lambda c: c.effect.value if c.effect else 0.0, default=None)
    if best is None:
        return
    own = experiment.configuration(best.configuration)
    before = experiment.configuration(experiment.baseline).asked()
    changed = {name: value for name, value in own.asked().items() if before.get(name) != value}
    if not changed:
        return
    price = results.durability_clause(best)
    further = "".join(f", {each}" for each in _not_copied(experiment, own))
    text = f"{best.configuration} is the baseline with these settings{further}"
    tone = doc.Tone.WARNING if price else doc.Tone.PLAIN
    yield doc.Paragraph(text=f"{text}, {price}:" if price else f"{text}:", tone=tone)
    if experiment.engine is not EngineName.REDIS:
        lines = [
            f"-- in postgresql.conf: {name} = ''"
            if is_empty_preload(name, value)
            else f"ALTER SYSTEM SET {name} = {setting_literals(name, value)};"
            for name, value in changed.items()
        ]
        yield doc.Command(text="\n".join(lines), language="sql")
        return
    words = {name: f"{name} {_redis_word(value)}" for name, value in changed.items()}
    if running := [f"CONFIG SET {words[name]}" for name in words if not needs_restart(name)]:
        yield doc.Command(text="\n".join(running), language="text")
    if at_start := [words[name] for name in words if needs_restart(name)]:
        yield doc.Paragraph(text="In redis.conf, for Redis takes it only at its start:")
        yield doc.Command(text="\n".join(at_start), language="text")


def _not_copied(experiment: Experiment, own: Configuration) -> Iterator[str]:
    """Yield in what else a configuration differs from the baseline, which no statement sets."""
    base, default = experiment.configuration(experiment.baseline), experiment.protocol
    before, after = ({s.label: s for s in each.settings} for each in (base, own))
    yield from (f"without {label}" for label in before if label not in after)
    for label, setting in after.items():
        if setting.layer is not own.server_layer and before.get(label) != setting:
            yield f"with {label} = {setting.value}"
    others = {
        "another server": base.target != own.target,
        "other scripts": base.scripts != own.scripts,
        "other preparing scripts": base.prepare != own.prepare,
        "another protocol": (base.protocol or default) != (own.protocol or default),
    }
    yield from (f"with {name}" for name, differs in others.items() if differs)


def _redis_word(value: str) -> str:
    """Return a value as redis-cli takes it: in quotation marks where it needs them."""
    if value and not re.search(r"[\s\"'\\]", value):
        return value
    return redis_word(value)
