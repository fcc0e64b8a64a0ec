"""A plan for people and for programs: what a campaign would take, and what it could say.

The form for programs is public and has a version; missing values are null.
"""

import math
from collections.abc import Iterator
from typing import Final

from steelyard.answers.money import burst_words, cost_json, cost_words
from steelyard.answers.outlook.compute import (
    MOST,
    CampaignOutlook,
    DesignOutlook,
    EffectOutlook,
    Forecast,
    GeneratorNeed,
    ScopeOutlook,
    WorkloadOutlook,
)
from steelyard.answers.results import command_pairs, contest_of, looked_for, uncompared
from steelyard.answers.turns import (
    block_parts,
    measured_words,
    plan_json,
    shared_pairs,
    taken_words,
    turn_pairs,
    turn_words,
    warm_up_words,
)
from steelyard.core.campaign import (
    FEW_EXECUTIONS,
    NoiseOrigin,
    NoiseProfile,
    Rounds,
    TurnNoise,
    WorkloadNoise,
)
from steelyard.core.experiment import Design, Experiment, Reset, SwitchCost
from steelyard.core.quantities import PERCENT, SECONDS
from steelyard.core.schedule import LONGEST_LATENCY_S, Mode
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import (
    MS_PER_S,
    US_PER_S,
    format_about,
    format_bytes,
    format_duration,
    format_share,
    quoted,
)
from steelyard.report import document as doc
from steelyard.report.texts import Texts
from steelyard.stats.planning import turn_noise

_TEXTS: Final = Texts(__name__)

ASSUMED = "assumed, not measured here: the typical profile of METHOD; `steelyard noise` measures it"
ASSUMED_TURNS = (
    "assumed: what reads varied by in turns on one busy virtual machine with 2 CPUs (METHOD 3.18),"
    " not measured here: `steelyard noise` measures it"
)
OTHER_DESIGN = {
    True: "; it was measured one by one, so that turns show no more than these parts: the assumed"
    " ones where they are smaller",
    False: "; it was measured in turns: what one run varied by against one of the next block",
}
SINGLE = "Nothing is compared, so no effect is decided."
_PART_NAMES = {"slice_sd": "runs", "restart_sd": "restarts", "drift_sd": "drift"}


def outlook_document(found: CampaignOutlook) -> doc.Document:
    """Return a plan as a document."""
    experiment = found.experiment
    document = doc.Document(
        title=f"Plan of {experiment.name}",
        subtitle=f"{contest_of(experiment)} · nothing was started",
        sections=(
            _decidable(found),
            *_minutes(found),
            *_designs(found),
            *_generators(found),
            _noise(found),
            _time_and_disk(found),
        ),
    )
    return doc.filled(document, experiment.words)


def shortfall(found: CampaignOutlook, source: str | None) -> str:
    """Return the smallest effect that the budget decides, if that is not small enough; else empty.

    A campaign stops early for a large effect, so this names the smallest one that it detects.

    Args:
        found: The outlook.
        source: The file or preset, of which more can be asked; None: there is none.
    """
    if not found.workloads or (found.decides_results and found.decides_cells):
        return ""
    experiment = found.experiment
    scope = "single cells" if found.decides_results else "the results"
    budget = format_duration(experiment.stop.budget_s)
    noise = "measured" if found.noise.origin is NoiseOrigin.MEASURED else "assumed"
    scopes = [each.cells if found.decides_results else each.pooled for each in found.workloads]
    smallest = [scope.smallest for scope in scopes if scope is not None]
    least = max((size for size in smallest if size is not None), default=math.inf)
    if None in smallest or math.isinf(least):
        fact = f"{budget} end before the first interim result on {scope}"
    else:
        fact = (
            f"at the {noise} noise {budget} detect differences of {format_share(least)} and more in"
            f" {scope} (9 of 10 campaigns)"
        )
    more = f"; see `steelyard estimate {quoted(source)}`" if source is not None else ""
    own = "" if found.decides_results else f"; {detection_words(found, found.designs[0])}"
    return f"{fact}{own}{more}"


def detection_words(found: CampaignOutlook, design: DesignOutlook) -> str:
    """Return how many campaigns of a design detect what is asked, within which budgets."""
    wanted, budget = doc.share(found.experiment.stop.detect), found.experiment.stop.budget_s
    of_ten = math.floor(10 * design.within_budget)
    words = f"{of_ten} of 10 campaigns detect {wanted} in {format_duration(budget)}"
    if design.within_budget >= MOST:
        return words
    if design.needed_s is None:
        return f"{words}, and no budget within reach is enough for 9 of 10"
    return f"{words}, 9 of 10 in {format_about(design.needed_s)}"


def _decidable(found: CampaignOutlook) -> doc.Section:
    title = f"Within {format_duration(found.experiment.stop.budget_s)}"
    if not found.workloads:
        remark = doc.Paragraph(text=_nothing_decided(found.experiment))
        return doc.Section(anchor="decidable", title=title, blocks=(remark,))
    items = tuple(item for each in found.workloads for item in _scope_sentences(each, found))
    tone = doc.Tone.PLAIN if found.decides_results else doc.Tone.WARNING
    wish = doc.share(found.experiment.stop.detect)
    length = "long enough" if found.decides_results else "too short"
    budget = format_duration(found.experiment.stop.budget_s)
    text = f"{budget} are {length} to detect an effect of {wish} in the results"
    text += f": {detection_words(found, found.designs[0])}."
    lead = doc.Paragraph(text=text, tone=tone)
    cells: tuple[doc.Block, ...] = ()
    if not found.decides_cells:
        number_of = len(found.experiment.closed_loads)
        alone = " that differ alone" if found.has_many_cells else ""
        text = (
            f"It is not decided in single cells{alone}: {number_of} per workload share the error."
        )
        cells = (doc.Paragraph(text=text, tone=doc.Tone.WARNING),)
    listed = doc.BulletList(lead="Detectable with 90 % power:", items=items)
    return doc.Section(anchor="decidable", title=title, blocks=(lead, *cells, listed))


def _nothing_decided(experiment: Experiment) -> str:
    """Return why no effect is decided, and what the campaign is for instead."""
    why = uncompared(experiment)
    return f"{why} Looked for is {looked_for(experiment)}." if why else SINGLE


def _scope_sentences(each: WorkloadOutlook, found: CampaignOutlook) -> list[str]:
    names = doc.enumeration(each.names)
    sentences = [f"{names}, pooled: {_reach(each.pooled)}"]
    if each.cells is not None:
        alone = " that differs alone" if found.has_many_cells else ""
        sentences.append(f"{names}, each cell{alone}: {_reach(each.cells)}")
    if each.synergies is not None:
        sentences.append(f"{names}, each synergy of two: {_reach(each.synergies)}")
    if each.precision_s is not None and found.experiment.stop.width is not None:
        asked = format_share(found.experiment.stop.width)
        when = format_duration(each.precision_s)
        sentences.append(f"{names}, pooled: ±{asked} is reached after about {when}")
    return sentences


def _reach(scope: ScopeOutlook) -> str:
    if scope.smallest is None or scope.half_width is None:
        return "nothing, the budget ends before the first interim result"
    least = format_share(scope.smallest)
    width = format_share(scope.half_width)
    open_effects = [doc.share(e.effect) for e in scope.effects if e.within_budget < 0.9]
    rest = f"; not {doc.enumeration(tuple(open_effects))}" if open_effects else ""
    return f"effects of {least} and more{rest} (interval about ±{width} at the end)"


def _minutes(found: CampaignOutlook) -> tuple[doc.Section, ...]:
    if not found.workloads:
        return ()
    tables = tuple(_table(each, found) for each in found.workloads)
    said = {
        _TEXTS.how_to_read(): True,
        _TEXTS.many_cells(): found.has_many_cells,
        _TEXTS.synergies(): any(each.synergies is not None for each in found.workloads),
        _TEXTS.precision(): found.experiment.stop.width is not None,
    }
    note = doc.Paragraph(text=" ".join(text for text, applies in said.items() if applies))
    return (doc.Section(anchor="minutes", title="Time to decide", blocks=(*tables, note)),)


def _table(each: WorkloadOutlook, found: CampaignOutlook) -> doc.Table:
    scopes = [("pooled", each.pooled)]
    if each.cells is not None:
        scopes.append(("cell", each.cells))
    if each.synergies is not None:
        scopes.append(("synergy", each.synergies))
    budget_s = found.experiment.stop.budget_s
    columns: list[doc.Cells] = []
    for name, scope in scopes:
        columns += _scope_columns(name, scope, budget_s)
    return doc.table_of(
        enumerate(each.pooled.effects),
        doc.column(
            "true effect",
            lambda row: row[1].effect,
            doc.Form(show=doc.share, unit=PERCENT),
            key="effect",
        ),
        *columns,
        title=doc.enumeration(each.names),
        common=(("workloads", ", ".join(each.names)),),
    )


def _scope_columns(name: str, scope: ScopeOutlook, budget_s: float) -> tuple[doc.Cells, doc.Cells]:
    """Return when half of the campaigns decide an effect, and when nine in ten do."""

    def most(row: tuple[int, EffectOutlook]) -> tuple[doc.Datum, ...]:
        effect = scope.effects[row[0]]
        most, needed = doc.number(effect.most_s), doc.number(effect.needed_s)
        return ((f"{name}_most_s", most), (f"{name}_needed_s", needed))

    return (
        doc.column(
            f"{name}, median",
            lambda row: scope.effects[row[0]].half_s,
            doc.Form(show=format_duration, unit=SECONDS),
            key=f"{name}_half",
        ),
        doc.Cells(
            doc.Column(name=f"{name}, 90th percentile"),
            lambda row: _most(scope.effects[row[0]], budget_s),
            most,
        ),
    )


def _most(effect: EffectOutlook, budget_s: float) -> str:
    if effect.most_s is not None:
        return format_duration(effect.most_s)
    needed = (
        "no budget within reach does it"
        if effect.needed_s is None
        else f"needs about {format_about(effect.needed_s)}"
    )
    return f"not within {format_duration(budget_s)} ({needed})"


def _designs(found: CampaignOutlook) -> tuple[doc.Section, ...]:
    if not found.designs:
        return ()
    wanted = doc.share(found.experiment.stop.detect)
    budget = format_duration(found.experiment.stop.budget_s)
    table = doc.table_of(
        found.designs,
        doc.column("design", lambda each: each.change or "as the file has it"),
        doc.column("campaigns", lambda each: each.campaigns, doc.WHOLE),
        doc.column(
            f"detect {wanted} in {budget}",
            lambda each: each.within_budget,
            doc.Form(show=lambda share: f"{math.floor(10 * share)} of 10", unit=PERCENT),
            key="decided_within_budget",
        ),
        doc.column(
            "9 of 10 need",
            lambda each: each.needed_s,
            doc.Form(show=format_about, unit=SECONDS),
            key="needed",
        ),
        title="",
        note=_TEXTS.designs(),
    )
    return (doc.Section(anchor="designs", title="Designs", blocks=(table,)),)


def _generators(outlook: CampaignOutlook) -> Iterator[doc.Section]:
    """Yield the needs of the loads, by a trial."""
    if outlook.generators is None:
        return
    asked = 1 if outlook.experiment.workers is None else outlook.experiment.workers.number
    most = max(outlook.generators, key=lambda need: (need.workers, need.threads))
    is_short = most.workers > asked or most.threads > most.load.threads
    lead = doc.Paragraph(
        text=_TEXTS.generators(
            workers=most.workers,
            asked=asked,
            threads=most.threads,
            asked_threads=most.load.threads,
            workload=most.workload,
            load=most.load.label,
            cpus=most.cpus,
            machine_cpus=most.machine_cpus,
        ),
        tone=doc.Tone.WARNING if is_short else doc.Tone.PLAIN,
    )
    whole = doc.Form(show="{:,.0f}".format)
    table = doc.table_of(
        outlook.generators,
        doc.column("workload", lambda need: need.workload),
        doc.column("load", lambda need: need.load.label),
        doc.numbers("CPU per transaction", _cpu_words, "µs"),
        doc.column("transactions per second", lambda need: need.tps, whole, key="tps"),
        doc.column("CPUs busy", lambda need: need.cpus, doc.Form(show="{:.2g}".format)),
        doc.column("threads needed", lambda need: need.threads, doc.WHOLE),
        doc.column("workers needed", lambda need: need.workers, doc.WHOLE),
        doc.column("rate", lambda need: need.rate_from.value),
        title="",
        note=_TEXTS.generators_note(is_limit=any(need.is_limit for need in outlook.generators)),
    )
    yield doc.Section(anchor="generator", title="Load generator", blocks=(lead, table))


def _cpu_words(need: GeneratorNeed) -> str:
    cpu = need.cpu_s
    text = f"{US_PER_S * cpu.value:.3g}"
    if cpu.low is None or cpu.high is None:
        return text
    return f"{text} [{US_PER_S * cpu.low:.3g}, {US_PER_S * cpu.high:.3g}]"


def _generator_json(need: GeneratorNeed) -> dict[str, doc.Json]:
    return {
        "workload": need.workload,
        "clients": need.load.clients,
        "load": need.load.label,
        "cpu_per_transaction_s": doc.interval(need.cpu_s),
        "tps": doc.number(need.tps),
        "rate": need.rate_from.name.lower(),
        "generator_was_limit": need.is_limit,
        "cpus": doc.number(need.cpus),
        "cpus_per_worker": doc.number(need.machine_cpus),
        "threads_needed": need.threads,
        "workers_needed": need.workers,
    }


def _noise(found: CampaignOutlook) -> doc.Section:
    in_turns = found.expected.mode is Mode.ALTERNATING
    pairs = [("noise", noise_origin(found.noise, in_turns=in_turns))]
    for each in found.workloads:
        name = doc.enumeration(each.names)
        parts = _turn_parts(each.noise) if in_turns else _parts(each.noise)
        pairs.append((f"parts, {name}", parts + _not_measured(each, found.noise)))
        deviations = [format_share(each.pooled.contrast_sd) + " pooled"]
        if each.cells is not None:
            deviations.append(format_share(each.cells.contrast_sd) + " per cell")
        pairs.append((f"one block varies by, {name}", ", ".join(deviations)))
    listed = doc.KeyValues(title="", pairs=tuple(pairs))
    return doc.Section(anchor="noise", title="Noise", blocks=(listed,))


def noise_origin(noise: NoiseProfile, *, in_turns: bool = False) -> str:
    """Return where the noise comes from, in words."""
    if noise.origin is NoiseOrigin.ASSUMED:
        return ASSUMED_TURNS if in_turns else ASSUMED
    when = f", {doc.utc(noise.measured_at)}" if noise.measured_at is not None else ""
    place = f" on {noise.place}" if noise.place else ""
    other = "" if noise.is_of_turns is in_turns else OTHER_DESIGN[in_turns]
    return (
        f"measured{place} by {noise.campaign_id}, {doc.count(noise.blocks, 'block')}{when}{other}"
    )


def _parts(noise: WorkloadNoise) -> str:
    return (
        f"seconds {format_share(noise.second_sd)} (autocorrelation {noise.autocorrelation:.2g}),"
        f" runs {format_share(noise.slice_sd)}, restarts {format_share(noise.restart_sd)},"
        f" drift {format_share(noise.drift_sd)} per hour (standard deviations)"
    )


def _turn_parts(noise: WorkloadNoise) -> str:
    turns = turn_noise(noise)
    drawn = turns.connection_sd
    connections = "in them" if drawn is None else format_share(drawn)
    return (
        f"starts {format_share(turns.start_sd)}, connections {connections}, one second of turns"
        f" {format_share(turns.second_sd)} (standard deviations)"
    )


def _not_measured(each: WorkloadOutlook, noise: NoiseProfile) -> str:
    """Return what of a measured profile is not this workload's own measurement."""
    if noise.origin is NoiseOrigin.ASSUMED:
        return ""
    assumed = tuple(_PART_NAMES[name] for name in each.noise.assumed)
    measured = {own.workload for own in noise.workloads}
    others = [name for name in each.names if name not in measured]
    parts = f"; of these assumed or halved: {doc.enumeration(assumed)}" if assumed else ""
    taken = (
        f"; {doc.enumeration(tuple(others))} was not measured: the noisiest one's" if others else ""
    )
    return parts + taken


def _time_and_disk(found: CampaignOutlook) -> doc.Section:
    experiment, expected = found.experiment, found.expected
    pairs = [
        *block_pairs(experiment, expected),
        ("preparation", _preparation(experiment, expected)),
    ]
    if found.workloads:
        first = f"after {expected.stopping.first_look} blocks, at about"
        first += f" {format_duration(expected.first_look_s)}"
        pairs.append(("first interim result", first))
    if expected.sustained_s:
        most = format_duration(expected.sustained_most_s)
        is_late = expected.sustained_most_s > expected.sustained_s
        late = f", up to {most} where they fall near their ends" if is_late else ""
        pairs.append(("long runs", f"about {format_duration(expected.sustained_s)} on top{late}"))
    pairs.append(("disk", disk_words(expected)))
    most_s = expected.most_s(experiment)
    pairs += [("burst", each) for each in burst_words(experiment, most_s)]
    if told := cost_words(experiment, most_s):
        pairs.append(("cost", told))
    listed = doc.KeyValues(title="", pairs=tuple(pairs))
    return doc.Section(anchor="time", title="Time and disk", blocks=(listed,))


def block_pairs(experiment: Experiment, expected: Forecast) -> Iterator[tuple[str, str]]:
    """Yield how blocks are made, how many there are, and what ends them."""
    cells = len(experiment.workloads) * len(experiment.loads)
    block = format_duration(expected.block_s)
    if experiment.is_single_pass:
        yield "design", "a single unrepeated pass in file order: no interval, no verdict"
        yield "pass", f"{cells} runs, about {block}"
        yield from command_pairs(experiment)
        return
    taken = taken_words(
        experiment, expected.mode, expected.design_reason, expected.switch, expected.memory
    )
    yield "design", f"{taken}; {_data(experiment, expected)}"
    yield from command_pairs(experiment)
    yield from unmeasured_warm_up(expected)
    if expected.mode is Mode.ALTERNATING:
        words = f"{turn_words(experiment.measure.turns)}; {measured_words(experiment)}"
        known = turn_pairs(experiment, expected.turns)
        yield from known if expected.turns else [("turns", words)]
        if condition := condition_words(expected, experiment):
            yield "if slow", condition
        yield "warm-up", warm_up_words(expected.warm_up_s, experiment)
        yield from shared_pairs(expected.pausing, expected.memory)
    arms = doc.count(len(experiment.configurations), "configuration")
    rounds = f" x {expected.rounds.number} rounds" if expected.rounds.number > 1 else ""
    yield "block", f"{arms} x {doc.count(cells, 'cell')}{rounds}, about {block}"
    yield from block_parts(expected.short, expected.block_s, expected.copying_s)
    if why := uncompared(experiment):
        yield "looks for", f"{looked_for(experiment)}. {why}"
    yield from _rounds(expected.rounds, experiment.stop.detect)
    budget = format_duration(experiment.stop.budget_s)
    yield "blocks", f"about {expected.max_blocks} within {budget}{_goal(experiment)}"


def _goal(experiment: Experiment) -> str:
    """Return what ends a campaign before its budget."""
    stop = experiment.stop
    if not experiment.compares_throughput or stop.blocks is not None or experiment.twin_of:
        return ""
    if stop.width is not None:
        return f", or until a half-width of {doc.share(stop.width)}"
    decided = "every condition of `gate`" if experiment.gate else "every workload"
    return f", or until {decided} is decided"


def _data(experiment: Experiment, expected: Forecast) -> str:
    if experiment.uses_found_data:
        return _found_data(experiment, expected)
    if expected.mode is Mode.ALTERNATING and expected.reset is Reset.CAMPAIGN:
        return f"sessions of one server, which read {experiment.data_read_together}"
    if expected.mode is Mode.ALTERNATING:
        return "each configuration from fresh data in every block"
    if expected.switch is SwitchCost.REPROVISION:
        return "every start makes its server and data anew"
    if any(target.allow_existing for target in experiment.targets_of(EndpointTarget).values()):
        return f"pgbench's tables vacuumed per {expected.reset}, in a database that is there"
    return f"data restored per {expected.reset}"


def _found_data(experiment: Experiment, expected: Forecast) -> str:
    """Return what becomes of data that were there before."""
    if {each.name for each in experiment.workloads} <= set(expected.reading):
        return "the data that are there, which the scripts only read"
    if all(target.reset_command for target in experiment.targets_of(EndpointTarget).values()):
        return f"the data that are there, brought back by your command per {expected.reset}"
    return "the data that are there: what the scripts change stays changed"


def unmeasured_warm_up(expected: Forecast) -> Iterator[tuple[str, str]]:
    """Yield the warm-up of the method and why it stays; nothing for any other one."""
    if expected.starts_to_shorten is None:
        return
    starts = f"{float(f'{expected.starts_to_shorten:.2g}'):,.0f}"
    words = (
        f"{expected.warm_up_s:g} s under load after each start, equal for all; to show that less"
    )
    words += f" is enough takes about {starts} starts of each configuration, and there are about"
    yield "warm-up", f"{words} {expected.max_blocks}; `measure: {{warm_up: 5s}}` declares less"


def condition_words(expected: Forecast, experiment: Experiment) -> str:
    """Return what a run in turns depends on, which it times itself; empty if it does not."""
    other, insists = expected.otherwise, experiment.design is Design.ALTERNATING
    is_open = expected.mode is Mode.ALTERNATING and not expected.turns
    if not is_open or (other is None and not insists):
        return ""
    words = f"over {LONGEST_LATENCY_S * MS_PER_S:g} ms a transaction under the largest load, which"
    words += " the run times first: "
    if any(workload.scripts for workload in experiment.workloads):
        words = (
            f"scripts of which a run holds fewer than {FEW_EXECUTIONS} go in a given order; {words}"
        )
    if other is None:
        return f"{words}the run ends, since the file asks for turns"
    words += f"one by one, about {other.max_blocks} blocks of {format_duration(other.block_s)}"
    if not experiment.compares_throughput:
        return words
    words += f", first interim result after {other.stopping.first_look} at about"
    late = ", after the budget" if other.first_look_s > experiment.stop.budget_s else ""
    return f"{words} {format_duration(other.first_look_s)}{late}"


def _rounds(rounds: Rounds, detect: float) -> Iterator[tuple[str, str]]:
    """Yield why a start has several rounds, or what a single one will not see."""
    if rounds.early_only:
        limit = "only the early phase of the checkpoint cycle is measured, and the effect of"
        changes = f"{', '.join(rounds.early_only)} changes over it"
        yield "rounds", f"{rounds.number}: {limit} {changes}"
    elif rounds.reason:
        yield "rounds", f"{rounds.number} per start: {rounds.reason}"
        if rounds.least_instances is not None:
            least = f"at least {rounds.least_instances} per configuration"
            yield "instances", f"{least} to find {doc.share(detect)}, at these deviations"


def _preparation(experiment: Experiment, expected: Forecast) -> str:
    arms = len(experiment.configurations)
    cached = "; all data are in the cache" if expected.cached == arms else ""
    capacity = f" (of them {format_duration(expected.capacity_s)} for the capacity)"
    asked = capacity if expected.capacity_s else ""
    preparation = format_duration(expected.preparation_s)
    return f"about {preparation} for data and first starts{asked}{cached}"


def disk_words(expected: Forecast) -> str:
    """Return the disk that a campaign needs and what is free, by directory."""
    if not expected.disk_bytes:
        return "the servers' own, which is not visible from here"
    parts = [
        f"{format_bytes(needed)} in {directory} ({format_bytes(free)} free)"
        + (": too little" if needed > free else "")
        for directory, (needed, free) in expected.disk_bytes.items()
    ]
    return f"at most {'; '.join(parts)}"


def outlook_json(found: CampaignOutlook) -> dict[str, doc.Json]:
    """Return a plan for programs; units are in the names."""
    experiment, expected = found.experiment, found.expected
    condition = condition_words(expected, experiment)
    has_cells = any(each.cells is not None for each in found.workloads)
    return {
        **forecast_json(experiment, expected),
        "kind": "estimate",
        "baseline": experiment.baseline,
        **({"condition": condition} if condition else {}),
        "detect_percent": doc.percent(experiment.stop.detect),
        "width_percent": doc.percent(experiment.stop.width),
        "decides_results": found.decides_results if found.workloads else None,
        "cells_differ_alone": found.has_many_cells,
        "decides_cells": found.decides_cells if has_cells else None,
        "noise": _noise_json(found.noise),
        "workloads": [
            _workload_json(each, name) for each in found.workloads for name in each.names
        ],
        "designs": [
            {
                "change": each.change or None,
                "campaigns": each.campaigns,
                "decided_within_budget": doc.number(round(each.within_budget, 3)),
                "needed_s": _seconds(each.needed_s),
            }
            for each in found.designs
        ],
        "generators": None
        if found.generators is None
        else [_generator_json(need) for need in found.generators],
    }


def forecast_json(experiment: Experiment, expected: Forecast) -> dict[str, doc.Json]:
    """Return a forecast for programs; units are in the names."""
    compared = experiment.compares_throughput
    capacity = {"capacity_s": _seconds(expected.capacity_s)} if expected.capacity_s else {}
    return {
        "format": doc.FORMAT,
        "name": experiment.name,
        "configurations": [configuration.name for configuration in experiment.configurations],
        "mode": expected.mode.value,
        "switch": expected.switch.value,
        "design_reason": expected.design_reason or None,
        **plan_json(expected.mode, experiment, expected.pausing, expected.memory),
        "budget_s": doc.number(experiment.stop.budget_s),
        "preparation_s": _seconds(expected.preparation_s),
        **capacity,
        "warm_up_s": doc.number(expected.warm_up_s),
        "block_s": _seconds(expected.block_s),
        "runs_per_start": expected.rounds.number,
        "max_blocks": expected.max_blocks,
        "first_interim_result_blocks": expected.stopping.first_look if compared else None,
        "first_interim_result_s": _seconds(expected.first_look_s) if compared else None,
        "sustained_s": _seconds(expected.sustained_s),
        "sustained_most_s": _seconds(expected.sustained_most_s),
        **cost_json(experiment, expected.most_s(experiment)),
        "disk": [
            {"directory": str(directory), "needed_bytes": needed, "free_bytes": free}
            for directory, (needed, free) in expected.disk_bytes.items()
        ],
    }


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else doc.number(round(seconds, 1))


def _noise_json(noise: NoiseProfile) -> dict[str, doc.Json]:
    return {
        "origin": noise.origin.value,
        "campaign": noise.campaign_id or None,
        "blocks": noise.blocks,
        "measured_at": doc.number(noise.measured_at),
        "place": noise.place or None,
        "mode": None if noise.mode is None else noise.mode.value,
        "block_s": doc.number(noise.block_s),
    }


def _workload_json(each: WorkloadOutlook, name: str) -> dict[str, doc.Json]:
    noise = each.noise
    return {
        "workload": name,
        "noise": {
            "second_sd": doc.number(noise.second_sd),
            "autocorrelation": doc.number(noise.autocorrelation),
            "run_sd": doc.number(noise.slice_sd),
            "restart_sd": doc.number(noise.restart_sd),
            "drift_sd_per_sqrt_h": doc.number(noise.drift_sd),
            "trend_per_h": doc.number(noise.trend_per_h),
            "assumed": list(noise.assumed),
            **_turns_json(noise.turns),
        },
        "width_reached_s": _seconds(each.precision_s),
        "pooled": _scope_json(each.pooled),
        "cell": None if each.cells is None else _scope_json(each.cells),
        "synergy": None if each.synergies is None else _scope_json(each.synergies),
    }


def _turns_json(turns: TurnNoise | None) -> dict[str, doc.Json]:
    if turns is None:
        return {}
    return {
        "turns": {
            "start_sd": doc.number(turns.start_sd),
            "connection_sd": doc.number(turns.connection_sd),
            "second_sd": doc.number(turns.second_sd),
        }
    }


def _scope_json(scope: ScopeOutlook) -> dict[str, doc.Json]:
    return {
        "contrast_sd": doc.number(scope.contrast_sd),
        "half_width_percent": doc.percent(scope.half_width),
        "smallest_effect_percent": doc.percent(scope.smallest),
        "effects": [
            {
                "effect_percent": doc.percent(effect.effect),
                "half_decided_s": _seconds(effect.half_s),
                "most_decided_s": _seconds(effect.most_s),
                "decided_within_budget": doc.number(round(effect.within_budget, 3)),
                "needed_s": _seconds(effect.needed_s),
            }
            for effect in scope.effects
        ],
    }
