"""Any two treatments of one campaign: their blocks are interleaved, so the contrast is paired."""

from dataclasses import dataclass, replace

from steelyard.analysis.comparisons import Pair, Terms, compare
from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.durability import with_trades
from steelyard.analysis.latency import analyse_latency
from steelyard.analysis.observations import Observations, observe
from steelyard.analysis.places import with_instances
from steelyard.analysis.results import CampaignAnalysis, Comparison
from steelyard.analysis.settings import differing_settings, without_forecasts
from steelyard.analysis.stalls import compare_stalls
from steelyard.model.campaign import CampaignRecord
from steelyard.model.errors import InputError
from steelyard.model.experiment import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """One treatment of a campaign against another, whatever its baseline.

    Attributes:
        campaign: The analysis of the campaign as far as it concerns these two.
        reference: The treatment in the baseline's place.
        treatment: The other one.
        planned: Whether the campaign's own plan compares the two; else this is an additional look.
        turned: Whether it compares them the other way round.
    """

    campaign: CampaignAnalysis
    reference: str
    treatment: str
    planned: bool
    turned: bool = False


def compare_pair(
    record: CampaignRecord, whole: CampaignAnalysis, *, reference: str, treatment: str
) -> PairComparison:
    """Return one treatment against another at the levels of the campaign's own rule.

    A repeated confidence interval holds at whatever block the campaign stopped and for whatever
    reason, so the interval of a pair that was not planned is valid taken alone. It takes no part
    in the campaign's total error.

    Args:
        record: Of the campaign.
        whole: Its analysis.
        reference: Takes the baseline's place.
        treatment: Is compared with it.

    Raises:
        InputError: There is no such treatment, both are the same, or all loads are open loops.
    """
    _require_two(record.experiment, reference, treatment)
    if not record.experiment.closed_loads:
        raise InputError(
            "all loads of the campaign are open loops, whose throughput is what was asked for",
            hint="Its report compares their latency: steelyard report.",
        )
    two = _narrowed(record, reference, treatment)
    seen = observe(record).of_closed_loops()
    campaign = replace(
        whole,
        experiment=two.experiment,
        attribution=None,
        comparisons=_compared(two, seen),
        cells=tuple(c for c in whole.cells if c.treatment in (reference, treatment)),
        stalls=compare_stalls(seen, two.experiment),
        settings=differing_settings(two.environment, two.experiment),
        scalability=tuple(c for c in whole.scalability if c.treatment in (reference, treatment)),
        latency=analyse_latency(
            two,
            seen.narrowed([each.name for each in two.experiment.treatments]),
            headline_contrasts(two.experiment),
        ),
    )
    return PairComparison(
        campaign=campaign,
        reference=reference,
        treatment=treatment,
        planned=_plans(record.experiment, reference, treatment)
        or _plans(record.experiment, treatment, reference),
        turned=_plans(record.experiment, treatment, reference),
    )


def _plans(experiment: Experiment, reference: str, treatment: str) -> bool:
    """Return whether a headline is exactly the second of two treatments minus the first."""
    places = {each.name: place for place, each in enumerate(experiment.treatments)}
    sides = (places[reference],), (places[treatment],)
    return any((c.negative, c.positive) == sides for c in headline_contrasts(experiment))


def _narrowed(record: CampaignRecord, reference: str, treatment: str) -> CampaignRecord:
    """Return the record as if its experiment named these two treatments alone."""
    names = (reference, treatment)
    experiment = replace(
        record.experiment,
        baseline=reference,
        attribution=None,
        treatments=tuple(record.experiment.treatment(name) for name in names),
    )
    environment = record.environment
    if environment is not None:
        servers = tuple(s for s in environment.servers if s.treatment in names)
        environment = replace(environment, servers=servers)
    return replace(record, experiment=experiment, environment=environment)


def _compared(two: CampaignRecord, seen: Observations) -> tuple[Comparison, ...]:
    experiment, plan = two.experiment, two.plan
    if plan is None or not experiment.compares_throughput:
        return ()
    terms = Terms(
        rule=plan.stopping,
        margin=experiment.stop.equivalence,
        decide=experiment.stop.decide,
        block_s=plan.block_s,
    )
    reference, (treatment,) = experiment.baseline, experiment.contenders
    contrasts = seen.contrasts(reference, treatment)
    compared = [
        comparison
        for workload in experiment.workloads
        for comparison in compare(
            contrasts[:, seen.columns_of(workload.name)],
            Pair(baseline=reference, treatment=treatment, workload=workload.name),
            experiment.closed_loads,
            terms,
        )
    ]
    placed = with_instances(compared, experiment, plan)
    forecast = without_forecasts(placed, experiment, two.environment)
    return with_trades(forecast, experiment, two.environment)


def _require_two(experiment: Experiment, reference: str, treatment: str) -> None:
    names = [each.name for each in experiment.treatments]
    for name in (reference, treatment):
        if name not in names:
            raise InputError(
                f"the campaign has no treatment `{name}`",
                hint=f"It has: {', '.join(names)}.",
            )
    if reference == treatment:
        raise InputError(
            f"`{reference}` cannot be compared with itself", hint="Name two treatments."
        )
