"""How much newly made servers differ, and how many runs in each would have been best."""

from steelyard.analysis.observations import Observations
from steelyard.analysis.results import InstanceNoise
from steelyard.model.experiment import Experiment
from steelyard.model.measure import SwitchCost
from steelyard.model.plan import CampaignPlan
from steelyard.stats.two_level import optimal_runs, pair_components


def instance_noise(
    seen: Observations, plan: CampaignPlan | None, experiment: Experiment
) -> tuple[InstanceNoise, ...]:
    """Return the two levels of noise by contender and workload.

    None where no servers were made anew, below two runs in each, and below six blocks.
    """
    if plan is None or plan.switch is not SwitchCost.REPROVISION or not seen.cells:
        return ()
    found = []
    for workload in experiment.workloads:
        columns = seen.columns_of(workload.name)
        for contender in experiment.contenders:
            contrasts = seen.slice_contrasts(experiment.baseline, contender)[:, :, columns]
            parts = pair_components(contrasts.mean(axis=2))
            if parts is not None:
                instance_s, round_s = _costs(seen, plan, experiment)
                best = optimal_runs(
                    instance_cost=instance_s,
                    run_cost=round_s,
                    instance_sd=parts.instance_sd,
                    run_sd=parts.run_sd,
                )
                noise = InstanceNoise(
                    treatment=contender, workload=workload.name, parts=parts, best_rounds=best
                )
                found.append(noise)
    return tuple(found)


def _costs(seen: Observations, plan: CampaignPlan, experiment: Experiment) -> tuple[float, float]:
    """Return the seconds to make a server and those of a round, from the plan's own estimate."""
    cells = len(experiment.workloads) * len(experiment.loads)
    round_s = cells * (experiment.measure.slice_s + experiment.measure.ramp_s)
    visit_s = plan.block_s / len(seen.treatments)
    return max(visit_s - plan.rounds * round_s, 0.0), round_s
