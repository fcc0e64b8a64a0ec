"""Comparisons of two campaigns, of any two configurations of one, and what sharing instances means.

Two campaigns are not interleaved, so time is confounded with everything: the only words are
"differs" and "no clear difference", and which of the many things that changed between the two made
a difference cannot be told. The blocks of two configurations of one campaign are interleaved, so
their contrast is paired.

Two servers differ by more than their settings: host, memory layout, age, neighbours. With one
instance per side that is all in the effect, and no number of blocks takes it out (METHOD 3.8).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.answers.attribution import analyse_attribution
from steelyard.answers.cells import (
    compare_stalls,
    differing_settings,
    shown_settings,
    without_forecasts,
)
from steelyard.answers.costs import campaign_ledger
from steelyard.answers.durability.compute import with_trades, write_rates
from steelyard.answers.findings import negative_controls, with_controls
from steelyard.answers.latency.compute import analyse_latency, campaign_latency
from steelyard.answers.latency.section import latency_section
from steelyard.answers.observations import Observations, ResultContrast, observe, result_contrasts
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.answers.result.compute import Pair, compare, terms_of
from steelyard.answers.result.section import verdicts_and_findings
from steelyard.answers.results import CampaignAnalysis, Comparison, Grounds, command_pairs, ending
from steelyard.answers.scalability import scalability_curves
from steelyard.answers.scripts.compute import script_results
from steelyard.answers.tables import comparison_section, settings_section
from steelyard.core.campaign import CampaignPlan, CampaignRecord, ScriptsInOrder
from steelyard.core.experiment import Experiment, LogPolicy, Measure, SwitchCost
from steelyard.core.findings import Estimate, Finding, Severity
from steelyard.core.measurement import Environment
from steelyard.core.quantities import INLINE, PERCENT, Computed, Named
from steelyard.core.schedule import CellKey, ConfigurationName
from steelyard.core.target import Target
from steelyard.core.wording import InputError, format_share
from steelyard.report import document as doc
from steelyard.report.keys import keys_of, row_of
from steelyard.stats.intervals import FloatArray, welch_interval
from steelyard.stats.noise import LEAST_INSTANCES

TOTAL_LEVEL = 0.05  # over all cells of a comparison, by Bonferroni
LEAST_BLOCKS = 2

Described = dict[tuple[str, str], str]  # (subject, name) to value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not the same in both campaigns."""

    subject: Annotated[
        str, Named("about"), "The subject: `machine`, `experiment`, `settings of fitted`."
    ]
    name: Annotated[str, "Name."]
    first: Annotated[str | None, "As in the first campaign; null: not recorded."]
    second: Annotated[str | None, "As in the second; null: not recorded."]


# By whether the interval leaves out zero.
_WORDS: Final = {
    None: "too few blocks for an interval",
    True: "differs",
    False: "no clear difference",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpairedCell:
    """One configuration in one cell, in the second campaign against the first.

    Attributes:
        effect: With Welch's interval over blocks; bounds are None with fewer than two blocks on a
            side, all of it is without any.
        differs: The interval leaves out zero; None when there is no interval.
    """

    cell: Annotated[CellKey, INLINE]
    configuration: ConfigurationName
    blocks: Annotated[tuple[int, int], "Complete blocks of the two."]
    effect: Annotated[
        Estimate | None, PERCENT, INLINE, "Relative difference in throughput, %; may be null."
    ]
    differs: bool | None
    word: ClassVar = Computed(
        lambda cell: _WORDS[cell.differs], Annotated[str, "The strongest word that is allowed."]
    )
    level: Annotated[float, "Two-sided level of the interval."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPair:
    """The second campaign against the first."""

    ids: Annotated[tuple[str, str], Named("campaigns"), "Their ids."]
    started_at: Annotated[tuple[float, float], "Starts, seconds since 1970 (UTC)."]
    differences: Annotated[
        tuple[Difference, ...],
        "Differences of environment, experiment and settings.",
    ]
    cells: Annotated[
        tuple[UnpairedCell, ...], "Cells that both measured, in the first one's order."
    ]
    left_out: Annotated[
        tuple[str, ...],
        "Sentences on cells that only one measured, or both under one name but differently.",
    ]


def compare_campaigns(first: CampaignRecord, second: CampaignRecord) -> CampaignPair:
    """Return what differs between two campaigns, and the throughput of what both measured.

    Raises:
        InputError: They have no configuration under one workload and load in common.
    """
    ours, theirs = observe(first).of_closed_loops(), observe(second).of_closed_loops()
    alike = _alike_workloads(first.experiment, second.experiment)
    shared = [
        (configuration, cell)
        for cell in ours.cells
        for configuration in ours.configurations
        if cell.workload in alike
        and cell in theirs.cells
        and configuration in theirs.configurations
    ]
    if not shared:
        raise InputError(
            f"{first.campaign_id} and {second.campaign_id} have no configuration with the same"
            " workload and closed loop in common",
            hint="Compare campaigns of one experiment file; open loops complete what was asked"
            " for, so their throughput is not compared.",
        )
    level = TOTAL_LEVEL / len(shared)
    return CampaignPair(
        ids=(first.campaign_id, second.campaign_id),
        started_at=(first.started_at, second.started_at),
        differences=tuple(_differences(first, second)),
        cells=tuple(
            _cell(ours, theirs, configuration, cell, level) for configuration, cell in shared
        ),
        left_out=(
            *_left_out(first.experiment, second.experiment, alike),
            *_open_loops(first.experiment, second.experiment),
        ),
    )


def _cell(
    ours: Observations, theirs: Observations, configuration: str, cell: CellKey, level: float
) -> UnpairedCell:
    before, after = _values(ours, configuration, cell), _values(theirs, configuration, cell)
    effect, differs = _weighed(before, after, level)
    return UnpairedCell(
        configuration=configuration,
        cell=cell,
        blocks=(len(before), len(after)),
        effect=effect,
        differs=differs,
        level=level,
    )


def _values(seen: Observations, configuration: str, cell: CellKey) -> FloatArray:
    return seen.log_tps[:, seen.configurations.index(configuration), seen.cells.index(cell)]


def _weighed(
    before: FloatArray, after: FloatArray, level: float
) -> tuple[Estimate | None, bool | None]:
    if not len(before) or not len(after):
        return None, None
    if min(len(before), len(after)) < LEAST_BLOCKS:
        return Estimate(value=float(np.expm1(after.mean() - before.mean()))), None
    interval = welch_interval(after, before, level)
    low, high = float(np.expm1(interval.low)), float(np.expm1(interval.high))
    effect = Estimate(value=float(np.expm1(interval.estimate)), low=low, high=high)
    return effect, low > 0.0 or high < 0.0


def _alike_workloads(first: Experiment, second: Experiment) -> set[str]:
    """Return the names of workloads that ask the same in both."""
    mine = {workload.name: workload for workload in first.workloads}
    return {w.name for w in second.workloads if mine.get(w.name) == w}


def _left_out(first: Experiment, second: Experiment, alike: set[str]) -> Iterator[str]:
    sides = (("first", first, second), ("second", second, first))
    for side, one, other in sides:
        names = {t.name for t in other.configurations}
        for configuration in one.configurations:
            if configuration.name not in names:
                yield f"configuration `{configuration.name}` is in the {side} campaign only"
        for load in one.closed_loads:
            if load not in other.loads:
                yield (
                    f"{load.label}, {doc.count(load.threads, 'thread')}: in the {side} campaign"
                    " only"
                )
    shared = {w.name for w in first.workloads} & {w.name for w in second.workloads}
    for name in sorted(shared - alike):
        yield f"workload `{name}` is different work in the two"
    for name in sorted({w.name for w in (*first.workloads, *second.workloads)} - shared):
        yield f"workload `{name}` is in one of the two only"


def _open_loops(first: Experiment, second: Experiment) -> Iterator[str]:
    if open_loops := dict.fromkeys(x.label for x in (*first.loads, *second.loads) if x.is_open):
        yield f"{', '.join(open_loops)}: open loops complete what was asked for"


def _differences(first: CampaignRecord, second: CampaignRecord) -> Iterator[Difference]:
    yield from _differing(_facts(first.environment), _facts(second.environment))
    yield from _differing(_design(first), _design(second))
    in_both = {t.name for t in second.experiment.configurations}
    for configuration in first.experiment.configurations:
        if configuration.name in in_both:
            name = configuration.name
            yield from _differing(_asked(first, name), _asked(second, name))
            yield from _differing_servers(_server(first, name), _server(second, name), name)


def _differing_servers(first: Described, second: Described, name: str) -> Iterator[Difference]:
    """Compare settings in force; where one was never seen, one line says so."""
    if bool(first) is bool(second):
        yield from _differing(first, second)
        return
    told = ["recorded" if side else None for side in (first, second)]
    yield Difference(
        subject=f"settings of {name}", name="all of them", first=told[0], second=told[1]
    )


def _differing(first: Described, second: Described) -> Iterator[Difference]:
    for key in {**first, **second}:
        if first.get(key) != second.get(key):
            subject, name = key
            yield Difference(
                subject=subject, name=name, first=first.get(key), second=second.get(key)
            )


def _facts(environment: Environment | None) -> Described:
    facts = environment.facts if environment is not None else ()
    return {(fact.subject, fact.name): fact.value for fact in facts}


_PREWARM = {None: "auto", True: "yes", False: "no"}


def _design(record: CampaignRecord) -> Described:
    experiment, plan = record.experiment, record.plan
    measure = experiment.measure
    described = {
        "design": experiment.design.value,
        "run": f"{measure.discard_start_s:g} s ramp, {experiment.slices} measured",
        "prewarm": _PREWARM[measure.prewarm],
        "transactions logged": _logging(measure),
        "generator flags": " ".join(experiment.generator_flags) or "none",
        "generator host": experiment.generator_host or "none",
        "generator commands": "; ".join(text for _, text in command_pairs(experiment)) or "none",
        "configurations side by side": ", ".join(t.name for t in experiment.configurations),
    }
    if plan is not None:
        described["mode"] = plan.mode.value
        described |= _turns(plan) if plan.turns else {}
        described |= {f"scripts of {each.workload}": _order(each) for each in plan.in_order}
        described["runs of each cell per start"] = str(plan.rounds)
        described["data restored every"] = plan.reset.value
        described["warm-up"] = f"{plan.warm_up.warm_up_s:g} s"
    return {("experiment", name): value for name, value in described.items()}


def _turns(plan: CampaignPlan) -> dict[str, str]:
    """Return how turns were taken: rates in turns are not those of a server alone."""
    told = {
        f"turns of {each.workload}": f"{each.times.turn_s:g} s, {each.times.turn_discard_s:g} s of"
        f" it settling, {each.times.reconnects} reconnections"
        for each in plan.turns
    }
    paused = "nothing" if plan.pausing is None else plan.pausing.value
    return {**told, "in pauses stands still": paused}


def _order(order: ScriptsInOrder) -> str:
    """Return how scripts ran that were not drawn."""
    together = ", configurations in succession" if order.sessions else ""
    return f"in a given order, {order.rounds} rounds{together}"


def _logging(measure: Measure) -> str:
    """Return what is logged and kept, since a log costs throughput."""
    if measure.log is LogPolicy.OFF:
        return "none"
    return f"{format_share(measure.log_sampling)}, {measure.log.value}"


def _asked(record: CampaignRecord, name: str) -> Described:
    configuration = record.experiment.configuration(name)
    asked = {
        "protocol": configuration.protocol or record.experiment.protocol,
        "target": configuration.target.kind,
    }
    return {(f"configuration {name}", key): value for key, value in asked.items()}


def _server(record: CampaignRecord, configuration: str) -> Described:
    servers = record.environment.servers if record.environment is not None else ()
    subject = f"settings of {configuration}"
    return {
        (subject, name): value
        for server in servers
        if server.configuration == configuration
        for name, value in {"version": server.version, **shown_settings(server)}.items()
    }


def instances_per_side(one: Target, other: Target, plan: CampaignPlan, blocks: int) -> int | None:
    """Return how many instances of each side were compared; None where both share one.

    Servers of one machine in one directory share it, also of two versions. Another directory may
    be another disk, which making a server anew does not make anew. Servers that Steelyard did not
    start are as many instances as there are targets. Servers in a cluster that differ are made for
    each start, volumes and all: each is an instance, where both sides are made so.
    """
    if one.identity == other.identity:
        return None
    in_cluster = one.is_made and other.is_made and None not in (one.home, other.home)
    are_made_anew = plan.switch is SwitchCost.REPROVISION and in_cluster
    return blocks if are_made_anew else 1


def with_instances(
    comparisons: Sequence[Comparison], experiment: Experiment, plan: CampaignPlan
) -> tuple[Comparison, ...]:
    """Return the comparisons, each with its number of instances per side."""
    sides = {
        (asked.baseline, asked.configuration): _sides(asked, experiment)
        for asked in result_contrasts(experiment)
    }
    return tuple(
        replace(
            each, instances=_instances(*sides[each.baseline, each.configuration], plan, each.blocks)
        )
        for each in comparisons
    )


def _sides(asked: ResultContrast, experiment: Experiment) -> tuple[list[Target], list[Target]]:
    targets = [configuration.target for configuration in experiment.configurations]
    return [targets[i] for i in asked.negative], [targets[i] for i in asked.positive]


def _instances(
    ones: Sequence[Target], others: Sequence[Target], plan: CampaignPlan, blocks: int
) -> int | None:
    """Return the least number of instances per side; None where both sides live on the same.

    With factors a side is a mean over configurations: where each target is on both sides alike,
    what is peculiar to it cancels.
    """
    if Counter(one.identity for one in ones) == Counter(other.identity for other in others):
        return None
    counts = [instances_per_side(one, other, plan, blocks) for one in ones for other in others]
    return min((number for number in counts if number is not None), default=None)


def pair_findings(comparisons: Sequence[Comparison]) -> Iterator[Finding]:
    """Yield a warning for each contender whose difference may be that of its instance."""
    told = {c.configuration: c for c in comparisons if c.is_of_pair and c.blocks}
    for comparison in told.values():
        yield Finding(
            code="pair-of-instances",
            severity=Severity.WARNING,
            message=(
                f"{comparison.configuration}: it lives on another instance than"
                f" {comparison.baseline}, {doc.count(comparison.instances or 0, 'instance')} per"
                " side;"
                f" the effect is that of this pair of instances, whatever differs between them"
            ),
            remedy=(
                "Compare the settings on one server; or use targets that Steelyard makes, anew for"
                f" each start (`measure.switch: reprovision`), at least {LEAST_INSTANCES} per side."
            ),
            source="METHOD 3.8: more than half of such campaigns call equal servers different",
            subject=comparison.configuration,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """One configuration of a campaign against another, whatever its baseline.

    Attributes:
        campaign: The analysis of the campaign as far as it concerns these two.
        reference: The configuration in the baseline's place.
        configuration: The other one.
        planned: Whether the campaign's own plan compares the two; else it is an additional one.
        turned: Whether it compares them the other way round.
    """

    campaign: CampaignAnalysis
    reference: str
    configuration: str
    planned: bool
    turned: bool = False


def compare_pair(
    record: CampaignRecord, whole: CampaignAnalysis, *, reference: str, configuration: str
) -> PairComparison:
    """Return one configuration against another at the levels of the campaign's own rule.

    A repeated confidence interval holds at whatever block the campaign stopped and for whatever
    reason, so the interval of a pair that was not planned is valid taken alone. It takes no part
    in the campaign's total error.

    Args:
        record: Of the campaign.
        whole: Its analysis.
        reference: Takes the baseline's place.
        configuration: Is compared with it.

    Raises:
        InputError: There is no such configuration, both are the same, or all loads are open loops.
    """
    from steelyard.answers.campaign import analyse  # noqa: PLC0415 - it compares by this module

    _require_two(record.experiment, reference, configuration)
    if not record.experiment.closed_loads:
        raise InputError(
            "all loads of the campaign are open loops, whose throughput is what was asked for",
            hint="Its report compares their latency: steelyard report.",
        )
    two = _narrowed(record, reference, configuration)
    seen = observe(record).of_closed_loops()
    of_both = seen.narrowed([each.name for each in two.experiment.configurations])
    settings = differing_settings(two.environment, two.experiment)
    controls = negative_controls(two.experiment, settings)
    curves = whole.answer(scalability_curves) or ()
    kept = tuple(each for each in curves if each.configuration in (reference, configuration))
    others = {c.name for c in record.experiment.configurations} - {reference, configuration}
    # The campaign's findings set each configuration against its own baseline.
    own = replace(
        two,
        runs=tuple(run for run in record.runs if run.configuration not in others),
        sustained=tuple(run for run in record.sustained if run.configuration not in others),
    )
    alone = analyse(own, curves=False)
    campaign = replace(
        whole.with_answer(scalability_curves, kept)
        .with_answer(analyse_attribution, None)
        .with_answer(
            campaign_latency, analyse_latency(two, of_both, result_contrasts(two.experiment))
        ),
        experiment=two.experiment,
        comparisons=with_controls(comparisons_of(two, of_both), controls),
        cells=tuple(c for c in whole.cells if c.configuration in (reference, configuration)),
        stalls=compare_stalls(of_both, two.experiment),
        findings=tuple(each for each in alone.findings if each.subject not in others),
        settings=settings,
    )
    grounds = Grounds(record=two, seen=of_both, closed=of_both, analysis=campaign)
    campaign = campaign.with_answer(campaign_ledger, campaign_ledger(grounds))
    reasons = campaign_reasons(replace(grounds, analysis=campaign))
    campaign = campaign.with_answer(campaign_reasons, reasons)
    return PairComparison(
        campaign=campaign,
        reference=reference,
        configuration=configuration,
        planned=_plans(record.experiment, reference, configuration)
        or _plans(record.experiment, configuration, reference),
        turned=_plans(record.experiment, configuration, reference),
    )


def _plans(experiment: Experiment, reference: str, configuration: str) -> bool:
    """Return whether a result is exactly the second of two configurations minus the first."""
    places = {each.name: place for place, each in enumerate(experiment.configurations)}
    sides = (places[reference],), (places[configuration],)
    return any((c.negative, c.positive) == sides for c in result_contrasts(experiment))


def _narrowed(record: CampaignRecord, reference: str, configuration: str) -> CampaignRecord:
    """Return the record as if its experiment named these two configurations alone."""
    names = (reference, configuration)
    experiment = replace(
        record.experiment,
        baseline=reference,
        attribution=None,
        configurations=tuple(record.experiment.configuration(name) for name in names),
    )
    environment = record.environment
    if environment is not None:
        servers = tuple(s for s in environment.servers if s.configuration in names)
        environment = replace(environment, servers=servers)
    return replace(record, experiment=experiment, environment=environment)


def comparisons_of(record: CampaignRecord, seen: Observations) -> tuple[Comparison, ...]:
    """Return the results of a campaign and their cells, of what was seen of its closed loops."""
    experiment, plan = record.experiment, record.plan
    if plan is None or not experiment.compares_throughput:
        return ()
    terms = terms_of(record, plan, seen.blocks)
    compared: list[Comparison] = []
    for workload in experiment.workloads:
        columns = seen.columns_of(workload.name)
        for asked in result_contrasts(experiment):
            pair = Pair(
                baseline=asked.baseline, configuration=asked.configuration, workload=workload.name
            )
            contrasts = seen.weighted(asked.weights)[:, columns]
            result, *cells = compare(contrasts, pair, experiment.closed_loads, terms)
            scripts = script_results(record, seen, asked, workload, terms)
            compared += [replace(result, scripts=scripts), *cells]
    placed = with_instances(compared, experiment, plan)
    forecast = without_forecasts(placed, experiment, record.environment)
    return with_trades(forecast, experiment, record.environment, write_rates(seen, experiment))


def _require_two(experiment: Experiment, reference: str, configuration: str) -> None:
    names = [each.name for each in experiment.configurations]
    for name in (reference, configuration):
        if name not in names:
            raise InputError(
                f"the campaign has no configuration `{name}`",
                hint=f"It has: {', '.join(names)}.",
            )
    if reference == configuration:
        raise InputError(
            f"`{reference}` cannot be compared with itself", hint="Name two configurations."
        )


CONFOUNDED = (
    "Not interleaved: time is confounded. Whatever changed between the two campaigns (the machine,"
    " its neighbours, versions, settings, the hour) is in these ratios, and no interval covers it."
    " To compare two configurations, put both into one experiment."
)
_NOTE = (
    f"Ratio of the second campaign to the first. Welch's intervals on the log means of the blocks,"
    f" unpaired, {doc.CONFIDENCE} over all rows together (Bonferroni). They cover how blocks vary"
    " within each campaign, and nothing else."
)


def across_document(pair: CampaignPair) -> doc.Document:
    """Return two campaigns as a document: what differs first, then the ratios."""
    first, second = pair.ids
    moments = " and ".join(doc.utc(moment) for moment in pair.started_at)
    remark = doc.Paragraph(text=CONFOUNDED, tone=doc.Tone.WARNING)
    return doc.Document(
        title=f"{second} vs {first}",
        subtitle=f"two campaigns, not interleaved · {moments}",
        sections=(
            doc.Section(anchor="verdicts", title="Two campaigns", blocks=(remark,)),
            _differences_section(pair),
            _cells(pair),
            *_left_out_section(pair),
        ),
    )


def _differences_section(pair: CampaignPair) -> doc.Section:
    title = "Environment and settings that differ"
    if not pair.differences:
        none = doc.Paragraph(text="None, as far as the two records tell.")
        return doc.Section(anchor="differences", title=title, blocks=(none,))
    blocks = tuple(
        doc.KeyValues(title=subject, pairs=tuple(_told(difference) for difference in about))
        for subject, about in groupby(pair.differences, key=lambda d: d.subject)
    )
    lead = doc.Paragraph(text="The first campaign's value, then the second's.")
    return doc.Section(anchor="differences", title=title, blocks=(lead, *blocks))


def _told(difference: Difference) -> tuple[str, str]:
    first, second = (
        "not recorded" if value is None else value
        for value in (difference.first, difference.second)
    )
    return difference.name, f"{first} → {second}"


def _cells(pair: CampaignPair) -> doc.Section:
    title = "Throughput of what both measured"
    table = doc.table_of(
        pair.cells,
        ("workload", lambda each: each.cell.workload),
        ("configuration", lambda each: each.configuration),
        (doc.number_column("clients"), lambda each: str(each.cell.load.clients)),
        (doc.number_column("threads", spare=True), lambda each: str(each.cell.load.threads)),
        doc.Cells(
            doc.number_column("blocks", spare=True),
            lambda each: "{} and {}".format(*each.blocks),
            lambda each: tuple(zip(("first_blocks", "second_blocks"), each.blocks, strict=True)),
        ),
        (doc.number_column("ratio - 1"), lambda each: doc.effect_value(each.effect)),
        (
            doc.number_column(f"{doc.CONFIDENCE} interval"),
            lambda each: doc.effect_interval(each.effect),
        ),
        ("so", lambda each: each.word),
        data=row_of,
        title=title,
        note=_NOTE,
    )
    return doc.Section(anchor="unpaired", title=title, blocks=(table,))


def _left_out_section(pair: CampaignPair) -> tuple[doc.Section, ...]:
    if not pair.left_out:
        return ()
    items = doc.BulletList(lead="Not compared", items=pair.left_out)
    return (doc.Section(anchor="left-out", title="Left out", blocks=(items,)),)


def across_summary(pair: CampaignPair) -> dict[str, doc.Json]:
    """Return two campaigns for programs."""
    return {
        "format": doc.FORMAT,
        "kind": "campaigns",
        "note": CONFOUNDED,
        "interleaved": False,
        **keys_of(pair),
    }


ADDITIONAL = (
    "An additional analysis that is not in the campaign's plan: each interval holds taken alone, at"
    " the levels of the campaign's own rule, and does not share the error of its results. Who"
    " analyses of many pairs will find differences that are not there."
)
PLANNED = "This pair is in the campaign's plan; the intervals are those of its report."
TURNED = (
    "The campaign's plan compares the two the other way round; the intervals are those of its"
    " report, turned."
)


def pair_note(pair: PairComparison) -> str:
    """Return what the intervals of a pair promise, in a sentence or two."""
    if not pair.planned:
        return ADDITIONAL
    return TURNED if pair.turned else PLANNED


def pair_document(pair: PairComparison) -> doc.Document:
    """Return the comparison of two configurations as a document."""
    campaign = pair.campaign
    verdicts, found = verdicts_and_findings(campaign)
    note = doc.Paragraph(
        text=pair_note(pair), tone=doc.Tone.PLAIN if pair.planned else doc.Tone.WARNING
    )
    document = doc.Document(
        title=campaign.experiment.name,
        subtitle=f"{doc.versus(pair.configuration, pair.reference)} · {ending(campaign)}"
        f" · {doc.utc(campaign.started_at)}",
        sections=(
            replace(verdicts, blocks=(note, *verdicts.blocks)),
            comparison_section(campaign),
            *latency_section(campaign),
            settings_section(campaign),
            found,
            _unit(pair),
        ),
    )
    return doc.filled(document, campaign.experiment.words)


def _unit(pair: PairComparison) -> doc.Section:
    text = f"The unit of replication is: {pair.campaign.unit}."
    return doc.Section(anchor="unit", title="What was repeated", blocks=(doc.Paragraph(text=text),))


def pair_summary(pair: PairComparison) -> dict[str, doc.Json]:
    """Return the comparison of two configurations for programs."""
    from steelyard.answers.report import summary  # noqa: PLC0415 - all answers, see `campaign`

    return {
        **summary(pair.campaign),
        "kind": "configurations",
        "planned": pair.planned,
        "note": pair_note(pair),
    }
