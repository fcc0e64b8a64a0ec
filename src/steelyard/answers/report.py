"""From an analysis to a document, and to ``summary.json``: the answers, in a reader's order.

``ANSWERS`` registers them; whoever adds one adds a line here. ``summary.json`` is a public format
with a version. Missing values are null, never 0 or NaN; numbers are rounded to 12 significant
digits, which is far below any noise and keeps the file the same on every platform.

A list of campaigns, and one of them in full, is here, too: what was asked, where it stands, what
is left.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

from steelyard.answers import devices, findings, money, results
from steelyard.answers.attribution import (
    ATTRIBUTION,
    analyse_attribution,
    attribution_json,
    attribution_section,
    design_words,
)
from steelyard.answers.capacity.compute import OpenLoops, capacity_findings, open_loops
from steelyard.answers.capacity.section import capacity_section
from steelyard.answers.ceilings import LogRate, logs
from steelyard.answers.cells import (
    InstanceNoise,
    instance_noise,
    pass_limits,
    pass_result,
    pass_title,
)
from steelyard.answers.contract import (
    Contract,
    contract_findings,
    contract_of,
    contract_section,
    with_marks,
)
from steelyard.answers.costs import ServerCounts, campaign_ledger, cost_section, server_counts
from steelyard.answers.durability.compute import campaign_durability, measured_lags
from steelyard.answers.durability.rules import ConfigurationDurability, ReplicaLag
from steelyard.answers.durability.section import durability_section
from steelyard.answers.findings import (
    checkpoint_phases,
    explained_section,
    finding_section,
)
from steelyard.answers.gate import GATE, gate_json, gate_section
from steelyard.answers.latency.compute import LatencyAnalysis, campaign_latency
from steelyard.answers.latency.section import latency_section
from steelyard.answers.neighbours import other_programs
from steelyard.answers.noise.compute import NoiseFloor, analyse_noise, noise_findings
from steelyard.answers.noise.section import noise_section
from steelyard.answers.published import (
    PUBLISHED,
    published_json,
    rate_section,
    request_section,
)
from steelyard.answers.reasons.compute import Reasons, campaign_reasons
from steelyard.answers.reasons.section import budget_section
from steelyard.answers.result.method import (
    command_section,
    design_pairs,
    limits_section,
    method_section,
)
from steelyard.answers.result.section import compared, place_line, rankings, result_section
from steelyard.answers.results import is_interim
from steelyard.answers.scalability import (
    ScalabilityCurve,
    scalability_curves,
    scalability_section,
)
from steelyard.answers.scripts.section import script_section
from steelyard.answers.statements.compute import (
    StatementTally,
    fit_of_statements,
    tallied,
    use_section,
)
from steelyard.answers.statements.section import (
    STATEMENTS,
    TracedStatement,
    plan_section,
    statement_section,
    statements_json,
    traced,
    waits_of,
)
from steelyard.answers.sustained.compute import (
    SustainedSummary,
    WithinBurst,
    burst_findings,
    long_runs,
    within_bursts,
)
from steelyard.answers.sustained.section import burst_only, sustained_section, what_lasts
from steelyard.answers.tables import (
    cell_section,
    chart_section,
    comparison_section,
    fact_section,
    settings_section,
)
from steelyard.answers.timeline import timeline_section, timelines
from steelyard.answers.turns import DESIGN, design_of
from steelyard.answers.values import SmallestValue, smallest_values
from steelyard.core.campaign import Status
from steelyard.core.experiment import Configuration, Experiment
from steelyard.core.findings import Finding
from steelyard.core.measurement import ProviderSeries
from steelyard.core.schedule import Ceiling
from steelyard.core.wording import WorkWords, format_bytes, format_duration
from steelyard.report import document as doc
from steelyard.report.document import share
from steelyard.report.keys import Declared, Schema, keys_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question that a report answers.

    Attributes:
        compute: Returns what it says, from the record; sections and values find it with
            ``CampaignAnalysis.answer``. None: it needs only what every analysis has.
        findings: Returns what the user should know of it; an interim result asks for this, too,
            and has computed nothing then.
        sections: Returns what a report says of it; nothing where it does not arise.
        json: Returns its keys of ``summary.json``, likewise.
        declared: What makes the schema of its keys; None: the file of the schema has them.
        chapter: Of a report, that its sections belong to.
        detail: They are read by whoever asks how a result came about, not by whoever uses it.
        single_pass: True: only where nothing is repeated and compared; False: only elsewhere.
        at_looks: An interim result computes it, too, because findings and lists rest on it.
    """

    compute: results.Computing | None = None
    findings: Callable[[results.Grounds], Iterable[Finding]] = lambda _: ()
    sections: Callable[[results.CampaignAnalysis], Iterable[doc.Section]] = lambda _: ()
    json: Callable[[results.CampaignAnalysis], Mapping[str, doc.Json]] = lambda _: {}
    declared: Declared | None = None
    chapter: doc.Chapter = doc.Chapter.RESULTS
    detail: bool = False
    single_pass: bool | None = None
    at_looks: bool = False


def _always(
    section: Callable[[results.CampaignAnalysis], doc.Section],
) -> Callable[[results.CampaignAnalysis], Sequence[doc.Section]]:
    """Return what makes a section that no report is without."""
    return lambda analysis: (section(analysis),)


def _computed(
    compute: Callable[[results.Grounds], results.T | None],
    sections: Callable[
        [results.CampaignAnalysis, results.T], Sequence[doc.Section]
    ] = lambda *_: (),
    json: Callable[[results.T], Mapping[str, doc.Json]] | Declared = lambda _: {},
    findings: Callable[[results.Grounds], Iterable[Finding]] = lambda _: (),
    *,
    chapter: doc.Chapter = doc.Chapter.RESULTS,
    detail: bool = False,
    single_pass: bool | None = None,
    at_looks: bool = False,
) -> Answer:
    """Return an answer that is told by what it computes, and not where that is nothing."""

    def told(analysis: results.CampaignAnalysis) -> Sequence[doc.Section]:
        found = analysis.answer(compute)
        return sections(analysis, found) if found else ()

    def for_programs(analysis: results.CampaignAnalysis) -> Mapping[str, doc.Json]:
        found = analysis.answer(compute)
        return json(found) if found else {}

    return Answer(
        compute=compute,
        findings=findings,
        sections=told,
        json=for_programs,
        declared=json if isinstance(json, Declared) else None,
        chapter=chapter,
        detail=detail,
        single_pass=single_pass,
        at_looks=at_looks,
    )


_LATENCY: Final = Declared(LatencyAnalysis, "latency", "Percentiles of logged transactions.")
_MONEY: Final = Declared(
    money.Money,
    "money",
    "Costs of transactions, if the experiment or a price list says what servers cost.",
)
_LIMITS: Final = Declared(
    tuple[Ceiling, ...], "machine_limits", "The most that the place was measured to do."
)
_BURST_ONLY: Final = Declared(
    tuple[WithinBurst, ...], "burst_only", "Results within burst credits that no run outlasted."
)
ANSWERS: Final = (
    # Others rest on these.
    _computed(
        long_runs,
        json=Declared(tuple[SustainedSummary, ...], "sustained", "Long runs after the last block."),
        at_looks=True,
    ),
    Answer(
        compute=within_bursts,
        json=lambda analysis: _BURST_ONLY.of(burst_only(analysis)),
        declared=_BURST_ONLY,
        at_looks=True,
    ),
    _computed(
        campaign_durability,
        json=Declared(
            tuple[ConfigurationDurability, ...],
            "durability",
            "Possible loss of each configuration, and the latency of its writes.",
        ),
        at_looks=True,
    ),
    Answer(compute=campaign_latency),
    Answer(compute=campaign_ledger),
    _computed(
        server_counts,
        json=Declared(
            tuple[ServerCounts, ...], "server_counts", "What PostgreSQL servers counted in runs."
        ),
    ),
    Answer(sections=_always(result_section), single_pass=False),
    Answer(sections=script_section, single_pass=False),
    _computed(
        smallest_values,
        json=Declared(
            tuple[SmallestValue, ...],
            "smallest_values",
            "The smallest of several values of a setting that is within 1 % of the best.",
        ),
        single_pass=False,
    ),
    Answer(sections=_always(pass_result), single_pass=True),
    Answer(sections=what_lasts, single_pass=True),
    Answer(sections=gate_section, json=gate_json, declared=GATE, single_pass=False),
    Answer(sections=rate_section, json=published_json, declared=PUBLISHED),
    _computed(
        analyse_noise,
        noise_section,
        Declared(NoiseFloor, "noise", "Differences that the set-up can see, from an A/A campaign."),
        lambda grounds: noise_findings(grounds.analysis),
        single_pass=False,
    ),
    _computed(
        contract_of,
        contract_section,
        Declared(
            Contract,
            "contract",
            "On what terms servers of several places were compared, as it was before the first"
            " run.",
        ),
        contract_findings,
        chapter=doc.Chapter.SETUP,
    ),
    _computed(
        instance_noise,
        json=Declared(
            tuple[InstanceNoise, ...],
            "instance_noise",
            "Noise if every start made its own server.",
        ),
    ),
    Answer(
        compute=analyse_attribution,
        sections=attribution_section,
        json=attribution_json,
        declared=ATTRIBUTION,
        single_pass=False,
    ),
    _computed(
        open_loops,
        capacity_section,
        Declared(OpenLoops),
        lambda grounds: capacity_findings(grounds.record),
        single_pass=False,
    ),
    Answer(sections=chart_section),
    Answer(sections=_always(cell_section)),
    Answer(sections=_always(comparison_section), single_pass=False, detail=True),
    Answer(sections=request_section),
    Answer(
        sections=latency_section,
        json=lambda analysis: _LATENCY.of(analysis.answer(campaign_latency)),
        declared=_LATENCY,
        chapter=doc.Chapter.LATENCY,
    ),
    _computed(
        measured_lags,
        json=Declared(
            tuple[ReplicaLag, ...], "replica_lag", "How far replicas were behind under writes."
        ),
    ),
    Answer(sections=durability_section),  # the reasons are in the files
    _computed(
        traced,
        plan_section,
        Declared(tuple[TracedStatement, ...], "plans", "Plans of the statements of scripts."),
        chapter=doc.Chapter.WHY,
    ),
    _computed(
        tallied,
        use_section,
        Declared(
            tuple[StatementTally, ...],
            "statement_uses",
            "Times of statements on the server, by pg_stat_statements; each load and comparison.",
        ),
        single_pass=False,
        chapter=doc.Chapter.WHY,
        detail=True,
    ),
    Answer(
        compute=fit_of_statements,
        sections=statement_section,
        json=statements_json,
        declared=STATEMENTS,
        chapter=doc.Chapter.WHY,
    ),
    Answer(compute=waits_of),
    Answer(sections=explained_section, chapter=doc.Chapter.WHY),
    _computed(
        campaign_reasons,
        lambda analysis, _: budget_section(analysis),
        Declared(Reasons),
        chapter=doc.Chapter.WHY,
    ),
    Answer(sections=cost_section, chapter=doc.Chapter.WHY),
    _computed(
        devices.devices_and_waits,
        devices.device_section,
        Declared(devices.DevicesAndWaits),
        chapter=doc.Chapter.WHY,
        detail=True,
    ),
    _computed(
        devices.read_figures,
        devices.read_section,
        Declared(
            tuple[devices.ReadFigures, ...],
            "read_amplification",
            "Bytes that the device of the data read for those that the server asked the operating"
            " system for, in cells with at least 16 MiB of reads that were a tenth of it or more:"
            " medians over blocks.",
        ),
        chapter=doc.Chapter.WHY,
        detail=True,
    ),
    Answer(
        compute=money.analyse_money,
        sections=money.money_section,
        json=lambda analysis: _MONEY.of(money.known(analysis)),
        declared=_MONEY,
    ),
    _computed(
        money.provider_series,
        money.provider_section,
        Declared(
            tuple[ProviderSeries, ...],
            "provider",
            "Counts of the provider of servers, one for each server and metric.",
        ),
        money.provider_findings,
        chapter=doc.Chapter.WHY,
        detail=True,
    ),
    Answer(compute=timelines, sections=timeline_section, detail=True),
    _computed(
        checkpoint_phases,
        json=Declared(
            tuple[results.CheckpointPhase, ...],
            "checkpoint_phase",
            "Phase of the checkpoint cycle in which runs began.",
        ),
    ),
    Answer(compute=other_programs),
    _computed(
        scalability_curves,
        scalability_section,
        Declared(
            tuple[ScalabilityCurve, ...],
            "scalability",
            "Throughput over clients, if 5 or more numbers of clients ran without a rate.",
        ),
        single_pass=False,
    ),
    Answer(findings=burst_findings, sections=sustained_section),
    Answer(sections=_always(finding_section), chapter=doc.Chapter.WARNINGS),
    Answer(sections=_always(settings_section), single_pass=False, chapter=doc.Chapter.SETUP),
    _computed(
        logs,
        json=Declared(
            tuple[LogRate, ...], "log_rates", "Bytes of the log, and what its device takes."
        ),
    ),
    Answer(
        sections=_always(fact_section),
        json=lambda analysis: _LIMITS.of(analysis.ceilings),
        declared=_LIMITS,
        chapter=doc.Chapter.SETUP,
        detail=True,
    ),
    Answer(sections=_always(method_section), chapter=doc.Chapter.SETUP),
    Answer(sections=_always(limits_section), single_pass=False, chapter=doc.Chapter.LIMITS),
    Answer(sections=_always(pass_limits), single_pass=True, chapter=doc.Chapter.LIMITS),
    Answer(sections=_always(command_section), chapter=doc.Chapter.REPRODUCE),
)


def build_document(analysis: results.CampaignAnalysis) -> doc.Document:
    """Return the report of a campaign, whole or partial, as a document."""
    experiment = analysis.experiment
    single = experiment.is_single_pass
    contest = results.contest_of(experiment)
    if rankings(analysis):  # they have the names
        contest = doc.versus(f"{len(experiment.contenders)} others", experiment.baseline)
    if experiment.attribution is not None:
        contest = design_words(experiment.attribution)
    in_order = sorted(ANSWERS, key=lambda answer: tuple(doc.Chapter).index(answer.chapter))
    sections = (
        _placed(section, answer)
        for answer in in_order
        if answer.single_pass in (None, single)
        for section in answer.sections(analysis)
    )
    of_pair = any(result.is_of_pair for result in analysis.results)
    many = len(experiment.configurations) > 2
    whose = "these instances" if many else "this pair of instances"
    named = f"{experiment.name}, {whose}" if of_pair else experiment.name
    document = doc.Document(
        title=pass_title(analysis) if single else named,
        subtitle=" · ".join(
            (
                *(contest, results.ending(analysis)),
                *([f"margin {doc.share(experiment.stop.margin)}"] if analysis.results else []),
                doc.utc(analysis.started_at),
            )
        ),
        description=experiment.description,
        place=place_line(analysis),
        setup=tuple(compared(analysis)),
        sections=tuple(with_marks(sections, analysis)),
    )
    return doc.filled(document, experiment.words)


def _placed(section: doc.Section, answer: Answer) -> doc.Section:
    """Return a section in its chapter, as a detail where its answer is one."""
    placed = replace(section, chapter=answer.chapter)
    return replace(placed, blocks=(), more=section.every) if answer.detail else placed


def summary(analysis: results.CampaignAnalysis) -> dict[str, doc.Json]:
    """Return what ``summary.json`` holds: plain values, ready for ``json.dumps``."""
    words = analysis.experiment.words
    return {key: _worded(value, words) for key, value in _summary(analysis).items()}


def _worded(value: doc.Json, words: WorkWords) -> doc.Json:
    """Return a value with an engine's words in all its texts; its keys are the same for all."""
    if isinstance(value, str):
        return words.fill(value)
    if isinstance(value, list):
        return [_worded(each, words) for each in value]
    if isinstance(value, dict):
        return {key: _worded(each, words) for key, each in value.items()}
    return value


_CAMPAIGN: Final = Declared(results.CampaignAnalysis)
_FINDINGS: Final = Declared(
    tuple[Finding, ...], "findings", "Facts to know before relying on it, gravest first."
)
_EXPLAINED: Final = Declared(
    tuple[Finding, ...], "explained_by", "Causes of differences, each of its configuration."
)
_DECLARED: Final = (_CAMPAIGN, _FINDINGS, _EXPLAINED, DESIGN)


def summary_schema() -> Schema:
    """Return the JSON Schema of ``summary.json``, with a description of every key."""
    text = files("steelyard.answers").joinpath("summary.schema.json").read_text("utf-8")
    schema: Schema = json.loads(text)
    for declared in (*_DECLARED, *(each.declared for each in ANSWERS if each.declared)):
        schema["properties"] |= declared.properties
    return schema


def _summary(analysis: results.CampaignAnalysis) -> dict[str, doc.Json]:
    weakening, explaining = findings.split_by_weight(analysis)
    return {
        "format": doc.FORMAT,
        **_CAMPAIGN(analysis),
        **_FINDINGS(weakening),
        **(_EXPLAINED(explaining) if explaining else {}),
        **DESIGN(design_of(analysis)),
        **{key: value for answer in ANSWERS for key, value in answer.json(analysis).items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One campaign's directory with what is in it.

    Attributes:
        directory: As given or found.
        size_bytes: Of the whole record on disk.
        held: A living Steelyard writes it.
        analysis: None when the record cannot be read.
        problem: Why not; empty otherwise.
        left: Directories and the like outside the record that are not removed.
        is_large: It was not read, because that takes long; ``problem`` says so.
    """

    directory: str
    size_bytes: int
    held: bool = False
    analysis: results.CampaignAnalysis | None = None
    problem: str = ""
    left: tuple[str, ...] = ()
    is_large: bool = False


def state(listed: Listed) -> str:
    """Return where a campaign stands; one that nobody writes any more has died."""
    if listed.analysis is None:
        return "not read" if listed.is_large else "damaged"
    status = listed.analysis.status
    if status is Status.RUNNING:
        return "running" if listed.held else "died, can be resumed"
    return status.value


_TOLD_EACH: Final = 4  # results; more fill a screen of a list with one campaign


def short_verdicts(analysis: results.CampaignAnalysis) -> str:
    """Return every result in a word or two: ``reads fitted: faster; writes fitted: slower``.

    Of many, those of a workload that are alike are told together: ``reads slower: one, two``.
    """
    if analysis.experiment.is_single_pass:
        return f"none: {results.LABEL}"
    margin = analysis.experiment.stop.margin
    words = [
        (c.workload, c.configuration, results.verdict_word(c, margin)) for c in analysis.results
    ]
    if len(words) <= _TOLD_EACH:
        told = [f"{workload} {name}: {word}" for workload, name, word in words]
    else:
        alike: dict[tuple[str, str], list[str]] = {}
        for workload, name, word in words:
            alike.setdefault((workload, word), []).append(name)
        of_workload = Counter(workload for workload, _, _ in words)
        told = [
            f"{workload} {word}: "
            + (f"all {len(names)}" if len(names) == of_workload[workload] > 1 else ", ".join(names))
            for (workload, word), names in alike.items()
        ]
    when = "interim: " if words and is_interim(analysis) else ""
    return f"{when}{'; '.join(told) or 'none'}"


def listing_document(campaigns: tuple[Listed, ...], places: str) -> doc.Document:
    """Return the table of campaigns, oldest first."""
    columns = (
        doc.Column(name="started"),
        doc.Column(name="directory"),
        doc.Column(name="name", spare=True),
        doc.Column(name="status"),
        doc.Column(name="blocks", align=doc.Align.RIGHT, spare=True),
        doc.Column(name="size", align=doc.Align.RIGHT, spare=True),
        doc.Column(name="verdicts"),
    )
    block: doc.Block = doc.Paragraph(text=f"No campaign is below {places}.")
    if campaigns:
        rows = tuple(map(listing_row, campaigns))
        block = doc.Table(title="Campaigns", columns=columns, rows=rows, tone_column=3)
    return doc.Document(
        title=doc.count(len(campaigns), "campaign"),
        subtitle=f"below {places}",
        sections=(doc.Section(anchor="campaigns", title="Campaigns", blocks=(block,)),),
    )


def listing_row(listed: Listed) -> doc.Row:
    """Return a campaign's line in a list."""
    analysis = listed.analysis
    size = format_bytes(listed.size_bytes)
    if analysis is None:
        cells = (
            doc.MISSING,
            listed.directory,
            doc.MISSING,
            state(listed),
            doc.MISSING,
            size,
            listed.problem,
        )
        return doc.Row(cells=cells, tone=doc.Tone.PLAIN if listed.is_large else doc.Tone.ERROR)
    most = doc.MISSING if analysis.plan is None else f"{analysis.plan.stopping.max_blocks}"
    cells = (
        doc.utc(analysis.started_at),
        listed.directory,
        analysis.experiment.name,
        state(listed),
        f"{analysis.blocks} of {most}",
        size,
        short_verdicts(analysis),
    )
    return doc.Row(cells=cells)


def listing_json(campaigns: tuple[Listed, ...]) -> dict[str, doc.Json]:
    """Return the list for programs."""
    return {"format": doc.FORMAT, "campaigns": [_listed_json(listed) for listed in campaigns]}


def _listed_json(listed: Listed) -> dict[str, doc.Json]:
    analysis = listed.analysis
    head: dict[str, doc.Json] = {
        "directory": listed.directory,
        "status": state(listed),
        "size_bytes": listed.size_bytes,
        "problem": listed.problem or None,
        "left_behind": list(listed.left),
    }
    if analysis is None:
        return head
    plan = analysis.plan
    return {
        **head,
        "campaign": analysis.campaign_id,
        "name": analysis.experiment.name,
        **doc.attributes(analysis, "started_at", "elapsed_s", "blocks"),
        "max_blocks": None if plan is None else plan.stopping.max_blocks,
        "verdicts": [
            {
                **doc.attributes(c, "workload", "configuration", "verdict"),
                **({} if c.instances is None else {"claims_cause": not c.is_of_pair}),
                **({"durability_traded": [keys_of(t) for t in c.trades]} if c.trades else {}),
            }
            for c in analysis.results
        ],
    }


def campaign_document(listed: Listed, analysis: results.CampaignAnalysis) -> doc.Document:
    """Return one campaign in full: experiment, plan, position, environment, what is left."""
    document = doc.Document(
        title=analysis.experiment.name,
        subtitle=f"{analysis.campaign_id} · {state(listed)} · {doc.utc(analysis.started_at)}",
        description=analysis.experiment.description,
        sections=(
            _position(listed, analysis),
            _experiment(analysis.experiment),
            _plan(analysis),
            settings_section(analysis),
            fact_section(analysis),
            _left(listed),
        ),
    )
    return doc.filled(document, analysis.experiment.words)


def _position(listed: Listed, analysis: results.CampaignAnalysis) -> doc.Section:
    experiment, plan = analysis.experiment, analysis.plan
    most = "not planned yet" if plan is None else f"of at most {plan.stopping.max_blocks}"
    budget = format_duration(experiment.stop.budget_s)
    pairs = [
        ("directory", listed.directory),
        ("size", format_bytes(listed.size_bytes)),
        ("status", state(listed)),
        ("blocks", f"{analysis.blocks} complete, {most}"),
        (_lost(experiment), str(len(analysis.blocks_redone))),
        ("time", f"{format_duration(analysis.elapsed_s)} of {budget}"),
        *(("verdict", results.verdict_sentence(analysis, result)) for result in analysis.results),
    ]
    blocks: list[doc.Block] = [doc.KeyValues(title="", pairs=tuple(pairs))]
    if analysis.command:
        blocks.append(doc.Command(text=analysis.command))
    return doc.Section(anchor="position", title="Where it stands", blocks=tuple(blocks))


def _lost(experiment: Experiment) -> str:
    return "interruptions" if experiment.is_single_pass else "tries thrown away"


def _experiment(experiment: Experiment) -> doc.Section:
    goal = results.LABEL if experiment.is_single_pass else _goal(experiment)
    pairs = [
        ("baseline", experiment.baseline),
        *_factors(experiment),
        *((f"configuration {t.name}", _asked(t)) for t in experiment.configurations),
        *((f"workload {w.name}", results.what_it_runs(w)) for w in experiment.workloads),
        ("loads", "; ".join(results.cell_name(experiment, load) for load in experiment.loads)),
        ("goal", goal),
        ("seed", str(experiment.seed)),
    ]
    block = doc.KeyValues(title="", pairs=tuple(pairs))
    return doc.Section(anchor="experiment", title="Experiment", blocks=(block,))


def _factors(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """Return what the configurations stand for, where factors were varied."""
    design = experiment.attribution
    return () if design is None else (("factors", design_words(design)),)


def _goal(experiment: Experiment) -> str:
    stop = experiment.stop
    if experiment.twin_of is not None:
        return f"the noise of {experiment.twin_of.name}, until the budget ends"
    if not experiment.compares_throughput:
        is_open = any(load.is_open for load in experiment.loads)
        return results.looked_for(experiment) if is_open else "the rates of one configuration"
    if stop.width is not None:
        return f"a half-width of {share(stop.width)}"
    if stop.blocks is not None:
        return f"a verdict in every workload after {doc.count(stop.blocks, 'block')}"
    if experiment.gate:
        return f"a gate: {'; '.join(map(str, experiment.gate))}"
    return f"a verdict in every workload (worth deciding: {share(stop.detect)})"


def _asked(configuration: Configuration) -> str:
    settings = ", ".join(f"{s.label} = {s.value or '(empty)'}" for s in configuration.settings)
    profiles = f" (profile {', '.join(configuration.profiles)})" if configuration.profiles else ""
    return f"target {configuration.target.kind}; {settings or 'no settings'}{profiles}"


def _plan(analysis: results.CampaignAnalysis) -> doc.Section:
    if analysis.plan is None:
        text = "Not frozen yet: the first block has not begun."
        return doc.Section(anchor="plan", title="Plan", blocks=(doc.Paragraph(text=text),))
    block = doc.KeyValues(title="", pairs=design_pairs(analysis, analysis.plan))
    return doc.Section(anchor="plan", title="Plan", blocks=(block,))


def _left(listed: Listed) -> doc.Section:
    title = "Left behind outside the record"
    if not listed.left:
        return doc.Section(anchor="left", title=title, blocks=(doc.Paragraph(text="Nothing."),))
    whose = "in use by the running campaign" if listed.held else "`steelyard clean` removes it"
    pairs = doc.KeyValues(title=whose, pairs=tuple(("left", name) for name in listed.left))
    return doc.Section(anchor="left", title=title, blocks=(pairs,))


def campaign_json(listed: Listed, analysis: results.CampaignAnalysis) -> dict[str, doc.Json]:
    """Return one campaign in full for programs."""
    return {
        **summary(analysis),
        **_listed_json(listed),
        "facts": [doc.attributes(fact, "subject", "name", "value") for fact in analysis.facts],
    }
