"""Whose difference it is: the configurations', or that of the instances they live on."""

from dataclasses import replace

import pytest
from made_records import an_experiment, compared

from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_pair
from steelyard.campaign.design.schedule import stopping_for
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import SwitchCost
from steelyard.core.findings import Severity, Verdict
from steelyard.core.places import ClusterService
from steelyard.core.target import CloudNativePgTarget, EndpointTarget, LocalTarget, Target
from steelyard.stats.noise import LEAST_INSTANCES

ONE, OTHER = EndpointTarget(host="one"), EndpointTarget(host="other")


def between(
    one: Target, other: Target, *, switch: SwitchCost = SwitchCost.RESTART, blocks: int = 9
) -> CampaignRecord:
    """Return a campaign with a clear effect between servers at two places."""
    experiment = an_experiment(loads=1)
    first, second = experiment.configurations
    configurations = (replace(first, target=one), replace(second, target=other))
    return compared(
        blocks, 0.2, experiment=replace(experiment, configurations=configurations), switch=switch
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ONE, OTHER),
        (EndpointTarget(uri="postgresql://a"), EndpointTarget(uri="postgresql://b")),
        (EndpointTarget(service="a"), EndpointTarget(service="b")),
        (EndpointTarget(host="a", port=1), EndpointTarget(host="a", port=2)),
        (LocalTarget(), LocalTarget(directory="/mnt/other")),
        (LocalTarget(directory="/mnt/one"), LocalTarget(directory="/mnt/other")),
    ],
)
def test_one_instance_per_side_allows_no_cause(one: Target, other: Target) -> None:
    """The verdict stays, as a fact about this pair, and a warning says so."""
    analysis = analyse(between(one, other))
    (result,) = analysis.results
    assert result.verdict is Verdict.FASTER
    assert result.instances == 1
    assert all(comparison.is_of_pair for comparison in analysis.comparisons)
    (finding,) = (f for f in analysis.findings if f.code == "pair-of-instances")
    assert finding.severity is Severity.WARNING
    assert "1 instance per side" in finding.message
    assert f"at least {LEAST_INSTANCES} per side" in finding.remedy


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ONE, ONE),
        (ONE, replace(ONE, restore="vacuum")),
        (LocalTarget(), LocalTarget(server="15")),
        (LocalTarget(port=5444), LocalTarget(connection="tcp")),
        (LocalTarget(directory="/mnt/one"), LocalTarget(directory="/mnt/one", server="15")),
    ],
)
def test_what_shares_an_instance_is_not_asked(one: Target, other: Target) -> None:
    """One server, or two versions on one machine and disk: nothing new is said of them."""
    analysis = analyse(between(one, other))
    assert {comparison.instances for comparison in analysis.comparisons} == {None}
    assert not any(f.code == "pair-of-instances" for f in analysis.findings)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LocalTarget(), LocalTarget(directory="/x")),
        (LocalTarget(), CloudNativePgTarget()),
        (CloudNativePgTarget(), ONE),
    ],
)
def test_what_is_not_made_anew_is_one_instance(one: Target, other: Target) -> None:
    """The disk of this machine stays, and so does a server that is there, whatever others are."""
    record = between(one, other, switch=SwitchCost.REPROVISION)
    assert analyse(record).results[0].instances == 1


def test_no_verdict_comes_before_there_are_enough_instances() -> None:
    """Where each start makes a new server, the first look has as many as a cause needs."""
    experiment = an_experiment()
    rules = {switch: stopping_for(experiment, switch, 30).first_look for switch in SwitchCost}
    assert rules.pop(SwitchCost.REPROVISION) >= LEAST_INSTANCES
    assert set(rules.values()) == {4}


def _cluster(**keys: str) -> CloudNativePgTarget:
    return CloudNativePgTarget(**keys)  # type: ignore[arg-type]


def test_clusters_made_for_each_start_are_instances() -> None:
    """Two storage classes: each start's Cluster counts, from six on for a cause, and has a name."""
    sides = _cluster(storage_class="fast"), _cluster(storage_class="slow")
    few = analyse(between(*sides, switch=SwitchCost.REPROVISION, blocks=5))
    assert all(comparison.is_of_pair for comparison in few.comparisons)
    assert any("5 instances per side" in f.message for f in few.findings)
    enough = analyse(between(*sides, switch=SwitchCost.REPROVISION, blocks=6))
    assert {c.instances for c in enough.comparisons} == {6}
    assert not any(f.code == "pair-of-instances" for f in enough.findings)
    assert "6 newly made Clusters per configuration in the Kubernetes cluster" in enough.unit
    named = {each.name: each.values for each in enough.settings}
    assert named["target: storage_class"] == {"t0": "fast", "t1": "slow"}
    assert "target: storage" not in named


def test_existing_clusters_are_one_instance_each() -> None:
    """Two names are two servers; one name is one, whether it may be changed or not."""
    apart = analyse(between(_cluster(cluster="a"), _cluster(cluster="b")))
    assert {c.instances for c in apart.comparisons} == {1}
    assert "there already" in apart.unit
    one = CloudNativePgTarget(cluster="a")
    shared = analyse(between(one, replace(one, allow_existing=True)))
    assert {c.instances for c in shared.comparisons} == {None}


def test_services_in_a_cluster_are_told_apart() -> None:
    """Endpoints by Service have no host: their Services are what tells them apart."""
    a, b = (EndpointTarget(inside=ClusterService(service=n, secret="s")) for n in ("a", "b"))
    assert {c.instances for c in analyse(between(a, b)).comparisons} == {1}


def test_an_unplanned_pair_knows_it_too() -> None:
    """`compare` of two configurations says no more than the report."""
    record = between(ONE, OTHER)
    pair = compare_pair(record, analyse(record), reference="t1", configuration="t0")
    assert all(comparison.instances == 1 for comparison in pair.campaign.comparisons)


def test_the_unit_names_both_places() -> None:
    """A server of this machine beside a Cluster that is made."""
    unit = analyse(between(LocalTarget(), CloudNativePgTarget())).unit
    assert "per configuration on this machine and in the Kubernetes cluster" in unit
