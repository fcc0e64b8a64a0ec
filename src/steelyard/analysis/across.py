"""Two campaigns beside each other: not interleaved, so time is confounded with everything.

The only words are "differs" and "not distinguishable". Which of the many things that changed
between two campaigns made a difference cannot be told from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.analysis.observations import Observations, observe
from steelyard.analysis.settings import shown_settings
from steelyard.model.campaign import CampaignRecord
from steelyard.model.environment import Environment
from steelyard.model.errors import InputError
from steelyard.model.experiment import Experiment
from steelyard.model.latency import LogPolicy
from steelyard.model.measure import Measure
from steelyard.model.plan import CampaignPlan
from steelyard.model.schedule import CellKey
from steelyard.model.units import format_share
from steelyard.model.verdicts import Estimate
from steelyard.stats.confidence import FloatArray
from steelyard.stats.unpaired import welch_interval

TOTAL_LEVEL = 0.05  # over all cells of a comparison, by Bonferroni
LEAST_BLOCKS = 2

Described = dict[tuple[str, str], str]  # (subject, name) to value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not the same in both campaigns.

    Attributes:
        subject: What it is about: ``machine``, ``experiment``, ``settings of fitted``.
        first: As in the first campaign; None where it was not recorded.
        second: As in the second; None likewise.
    """

    subject: str
    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpairedCell:
    """One treatment in one cell, in the second campaign against the first.

    Attributes:
        effect: Relative difference in tps, with Welch's interval over blocks; bounds are None
            with fewer than two blocks on a side, all of it is without any.
        differs: The interval leaves out zero; None when there is no interval.
        level: Two-sided level of the interval.
    """

    treatment: str
    cell: CellKey
    first_blocks: int
    second_blocks: int
    effect: Estimate | None
    differs: bool | None
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPair:
    """The second campaign against the first.

    Attributes:
        ids: Of the two.
        started_at: Wall clock of the two, seconds since the epoch.
        differences: Of environment, experiment and settings: to be read before the cells.
        cells: What both measured, in the first one's order.
        left_out: A sentence for what only one measured, or both under one name but differently.
    """

    ids: tuple[str, str]
    started_at: tuple[float, float]
    differences: tuple[Difference, ...]
    cells: tuple[UnpairedCell, ...]
    left_out: tuple[str, ...]


def compare_campaigns(first: CampaignRecord, second: CampaignRecord) -> CampaignPair:
    """Return what differs between two campaigns, and the throughput of what both measured.

    Raises:
        InputError: They have no treatment under one workload and load in common.
    """
    ours, theirs = observe(first).of_closed_loops(), observe(second).of_closed_loops()
    alike = _alike_workloads(first.experiment, second.experiment)
    shared = [
        (treatment, cell)
        for cell in ours.cells
        for treatment in ours.treatments
        if cell.workload in alike and cell in theirs.cells and treatment in theirs.treatments
    ]
    if not shared:
        raise InputError(
            f"{first.campaign_id} and {second.campaign_id} have no treatment with the same"
            " workload and closed loop in common",
            hint="Compare campaigns of one experiment file; open loops complete what was asked"
            " for, so their throughput is not compared.",
        )
    level = TOTAL_LEVEL / len(shared)
    return CampaignPair(
        ids=(first.campaign_id, second.campaign_id),
        started_at=(first.started_at, second.started_at),
        differences=tuple(_differences(first, second)),
        cells=tuple(_cell(ours, theirs, treatment, cell, level) for treatment, cell in shared),
        left_out=(
            *_left_out(first.experiment, second.experiment, alike),
            *_open_loops(first.experiment, second.experiment),
        ),
    )


def _cell(
    ours: Observations, theirs: Observations, treatment: str, cell: CellKey, level: float
) -> UnpairedCell:
    before, after = _values(ours, treatment, cell), _values(theirs, treatment, cell)
    effect, differs = _weighed(before, after, level)
    return UnpairedCell(
        treatment=treatment,
        cell=cell,
        first_blocks=len(before),
        second_blocks=len(after),
        effect=effect,
        differs=differs,
        level=level,
    )


def _values(seen: Observations, treatment: str, cell: CellKey) -> FloatArray:
    return seen.log_tps[:, seen.treatments.index(treatment), seen.cells.index(cell)]


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
        names = {t.name for t in other.treatments}
        for treatment in one.treatments:
            if treatment.name not in names:
                yield f"treatment `{treatment.name}` is in the {side} campaign only"
        for load in one.closed_loads:
            if load not in other.loads:
                yield f"{load.label}, {load.threads} threads: in the {side} campaign only"
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
    in_both = {t.name for t in second.experiment.treatments}
    for treatment in first.experiment.treatments:
        if treatment.name in in_both:
            name = treatment.name
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


def _design(record: CampaignRecord) -> Described:
    experiment, plan = record.experiment, record.plan
    measure = experiment.measure
    described = {
        "design": experiment.design.value,
        "run": f"{measure.ramp_s:g} s ramp, {measure.slice_s:g} s measured",
        "prewarm": "yes" if measure.prewarm else "no",
        "transactions logged": _logging(measure),
        "generator flags": " ".join(experiment.generator_flags) or "none",
        "treatments side by side": ", ".join(t.name for t in experiment.treatments),
    }
    if plan is not None:
        described["mode"] = plan.mode.value
        described |= _turns(plan) if plan.turns else {}
        described["runs of each cell per visit"] = str(plan.rounds)
        described["data restored every"] = plan.reset.value
        described["discard"] = f"{plan.discard.discard_s:g} s"
    return {("experiment", name): value for name, value in described.items()}


def _turns(plan: CampaignPlan) -> dict[str, str]:
    """Return how turns were taken: rates in turns are not those of a server alone."""
    told = {
        f"turns of {each.workload}": f"{each.times.turn_s:g} s, {each.times.settling_s:g} s of it"
        f" settling, {each.times.reconnections} reconnections"
        for each in plan.turns
    }
    paused = "nothing" if plan.pausing is None else plan.pausing.value
    return {**told, "in pauses stands still": paused}


def _logging(measure: Measure) -> str:
    """Return what is logged and kept, since a log costs throughput."""
    if measure.log is LogPolicy.OFF:
        return "none"
    return f"{format_share(measure.log_sampling)}, {measure.log.value}"


def _asked(record: CampaignRecord, name: str) -> Described:
    treatment = record.experiment.treatment(name)
    asked = {
        "protocol": treatment.protocol or record.experiment.protocol,
        "target": treatment.target.kind,
    }
    return {(f"treatment {name}", key): value for key, value in asked.items()}


def _server(record: CampaignRecord, treatment: str) -> Described:
    servers = record.environment.servers if record.environment is not None else ()
    subject = f"settings of {treatment}"
    return {
        (subject, name): value
        for server in servers
        if server.treatment == treatment
        for name, value in {"version": server.version, **shown_settings(server)}.items()
    }
