"""The unit of replication in words: what the interval may be generalised to."""

from steelyard.analysis.numerals import count
from steelyard.analysis.observations import Observations
from steelyard.model.experiment import Experiment
from steelyard.model.measure import Reset, SwitchCost
from steelyard.model.plan import ANEW, CampaignPlan
from steelyard.model.schedule import Mode
from steelyard.model.target import (
    AnyLocalTarget,
    CloudNativePgTarget,
    RedisKubernetesTarget,
    Target,
    is_restarted,
)

_MADE = {True: "newly made Cluster", False: "newly made server"}
_DATA = {
    Reset.VISIT: "each from the same prepared data",
    Reset.BLOCK: "with the prepared data restored before each block",
    Reset.CAMPAIGN: "on data prepared once and carried along",
}


def replication_unit(seen: Observations, plan: CampaignPlan | None, experiment: Experiment) -> str:
    """Return one sentence that says what was repeated, how often, and what was not."""
    if plan is None or not seen.blocks:
        return "nothing was replicated: there is no complete block"
    if experiment.is_single_pass:
        return (
            f"nothing was replicated: a single unrepeated pass of {count(len(seen.cells), 'run')}"
        )
    if not all(_is_ours(treatment.target) for treatment in experiment.treatments):
        return _at_endpoints(seen, plan, experiment)
    pods = experiment.is_in_kubernetes
    place = " in the Kubernetes cluster" if pods else " on this machine"
    activations = _activations(seen, experiment.baseline)
    if plan.mode is Mode.ALTERNATING:
        what = (
            f"{count(activations, 'start')} of each treatment's server{place}, up together and"
            " under load in turns"
        )
        limits = "not two machines, not two storage products"
    elif plan.mode is Mode.BACK_TO_BACK:
        what = (
            f"{count(activations, 'visit')} to one server{place}, in which each cell ran the "
            "treatments back to back"
        )
        again = plan.reset is not Reset.CAMPAIGN
        what += ", each after a restart" if again else ""
        limits = f"{'' if again else 'not restarts of it, '}not two machines"
    elif plan.switch is SwitchCost.REPROVISION:
        made = _MADE[bool(experiment.cluster_targets)]
        what = f"{count(activations, made)} per treatment{place}"
        limits = "not other nodes and disks than these" if pods else "not other machines than these"
    else:
        what = f"{count(activations, 'restart')} of one server per treatment{place}"
        limits = "not two machines, not two storage products"
        limits = _not_two(experiment) if pods else limits
    data = "each with data loaded anew" if plan.restore == ANEW else _DATA[plan.reset]
    runs = f", {plan.rounds} runs of each cell in each" if plan.rounds > 1 else ""
    return f"{what}{runs}, {data}; {limits}"


def _not_two(experiment: Experiment) -> str:
    """Return what there was one of in a cluster."""
    server = "Clusters" if experiment.cluster_targets else "servers"
    return f"not two {server}, not two volumes"


def _at_endpoints(seen: Observations, plan: CampaignPlan, experiment: Experiment) -> str:
    """Return the sentence for servers that Steelyard did not start."""
    activations = _activations(seen, experiment.baseline)
    targets = {treatment.target for treatment in experiment.treatments}
    several = len(targets) > 1
    if plan.mode is Mode.ALTERNATING:
        place = "servers that were" if several else "one server that was"
        what = f"{count(activations, 'block')} on {place} there already, under load in turns"
        limits = "not restarts of them, not two machines"
    elif plan.mode is Mode.BACK_TO_BACK:
        what = (
            f"{count(activations, 'visit')} to one server that was there already, in which each"
            " cell ran the treatments back to back"
        )
        limits = "not restarts of it, not two machines"
    elif plan.switch is SwitchCost.RESTART and all(map(is_restarted, targets)):
        what = f"{count(activations, 'visit')} per treatment to servers that were there already"
        limits = "not two machines, not two storage products"
    else:
        what = f"{count(activations, 'visit')} per treatment to servers that were there already"
        limits = "not restarts of them"
    limits += "; a difference belongs to this pair of servers" if several else ""
    data = _DATA[plan.reset] if plan.restore != "vacuum" else "on data that were only vacuumed"
    return f"{what}, {data}; {limits}"


def _is_ours(target: Target) -> bool:
    """Return whether Steelyard starts the server."""
    if isinstance(target, CloudNativePgTarget | RedisKubernetesTarget):
        return target.is_made
    return isinstance(target, AnyLocalTarget)


def _activations(seen: Observations, treatment: str) -> int:
    """Return in how many visits a treatment was measured."""
    return len(
        {
            (run.block, run.attempt, run.visit)
            for (name, _), runs in seen.runs.items()
            if name == treatment
            for run in runs
        }
    )
