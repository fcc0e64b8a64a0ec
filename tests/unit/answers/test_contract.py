"""The contract: what differs between places, what is not known, and what `terms` makes of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment, asks
from steelyard.answers.contract import (
    NOT_KNOWN,
    Contract,
    contract,
    contract_in_brief,
    contract_of,
    require_matched,
)
from steelyard.core.experiment import EffectiveSetting, Experiment, Measure, ServerTerms
from steelyard.core.measurement import Environment, ServerEnvironment
from steelyard.core.places import PodResources, Provision
from steelyard.core.schedule import Ceiling, CeilingKind, MachineLimits
from steelyard.core.target import CloudNativePgTarget, EndpointTarget
from steelyard.core.wording import GIB, PreflightError

_HERE = Provision(cpus=2.0, memory_bytes=8 * GIB, storage="ext4 on /dev/sda")


def mixed(terms: ServerTerms | None = None) -> Experiment:
    """Return a server of this machine beside one that is there already."""
    experiment = an_experiment()
    slow, fast = experiment.configurations
    there = replace(fast, target=EndpointTarget(host="db"), settings=())
    return replace(experiment, configurations=(slow, there), terms=terms)


def server(
    name: str, *, version: str = "18.6", provision: Provision | None = _HERE, **settings: str
) -> ServerEnvironment:
    """Return a server as it was found."""
    values = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", **settings}
    return ServerEnvironment(
        configuration=name,
        version=version,
        settings=tuple(EffectiveSetting(name=n, value=v) for n, v in values.items()),
        provision=provision,
    )


def trip(name: str, seconds: float) -> Ceiling:
    """Return the round trip to a server."""
    return Ceiling(
        kind=CeilingKind.ROUND_TRIP,
        subject=name,
        latency_s=seconds,
        low_s=seconds * 0.9,
        high_s=seconds * 1.1,
        samples=500,
        configurations=(name,),
    )


def agreed(there: ServerEnvironment, *trips: Ceiling, terms: ServerTerms | None = None) -> Contract:
    """Return the contract of a server here and this one there."""
    environment = Environment(facts=(), servers=(server("slow"), there), ceilings=trips)
    found = contract(mixed(terms), environment)
    assert found is not None
    return found


def values(found: Contract) -> dict[str, tuple[str, ...]]:
    """Return the lines by name."""
    return {term.name: tuple(term.values.values()) for term in found.items}


def test_equal_servers_are_on_equal_terms() -> None:
    """Nothing is marked where all that matters is the same and known."""
    found = agreed(server("fast"), trip("slow", 5e-5), trip("fast", 5.5e-5))
    assert found.marked == ()
    assert "CPUs" not in found.unknown
    assert values(found)["round trip"][0] == "0.050 ms [0.045, 0.055], of 500"


@pytest.mark.parametrize(
    ("there", "term"),
    [
        (server("fast", provision=replace(_HERE, cpus=4.0)), "CPUs"),
        (server("fast", provision=replace(_HERE, memory_bytes=4 * GIB)), "memory"),
        (server("fast", version="17.2"), "version"),
        (server("fast", synchronous_commit="off"), "flush"),
    ],
)
def test_each_difference_is_named(there: ServerEnvironment, term: str) -> None:
    """The one that differs is marked with what it differs in; matched servers may not."""
    found = agreed(there, terms=ServerTerms.MATCHED)
    assert term in found.apart("fast")
    assert found.apart("slow") == ()
    assert found.marked == ("fast",)
    with pytest.raises(PreflightError, match=f"`fast` and `slow` differ in .*{term}"):
        require_matched(found)
    for terms in (None, ServerTerms.AS_SHIPPED):
        require_matched(replace(found, terms=terms))


def test_a_longer_way_is_marked_and_no_reason_to_refuse() -> None:
    """How far away a server is belongs to the load, not to the server."""
    found = agreed(
        server("fast"), trip("slow", 5e-5), trip("fast", 5e-4), terms=ServerTerms.MATCHED
    )
    assert found.apart("fast") == ("round trip",)
    require_matched(found)


def test_what_is_not_known_is_neither_equal_nor_different() -> None:
    """An endpoint tells of no CPUs; a round trip that was not taken says why."""
    why = Ceiling(
        kind=CeilingKind.ROUND_TRIP, subject="fast", unknown="in a pod", configurations=("fast",)
    )
    found = agreed(
        server("fast", provision=None), trip("slow", 5e-5), why, terms=ServerTerms.MATCHED
    )
    assert values(found)["CPUs"] == ("2", NOT_KNOWN)
    assert values(found)["round trip"][1] == f"{NOT_KNOWN}: in a pod"
    assert {"CPUs", "memory", "round trip"} <= set(found.unknown)
    assert found.marked == ()
    require_matched(found)


def test_round_trips_that_nobody_wanted_are_told_so() -> None:
    """Where the file turns ceilings off."""
    quiet = replace(mixed(), measure=Measure(machine_limits=MachineLimits.OFF))
    found = contract(quiet, Environment(facts=(), servers=(server("slow"), server("fast"))))
    assert found is not None
    assert values(found)["round trip"] == (f"{NOT_KNOWN}: `measure.machine_limits: off`",) * 2


def test_the_load_on_a_cluster_and_this_machine_comes_from_here() -> None:
    """One process of Steelyard puts it on both."""
    slow, fast = mixed().configurations
    beside = (slow, replace(fast, target=CloudNativePgTarget()))
    experiment = replace(mixed(), configurations=beside)
    found = contract(experiment, Environment(facts=(), servers=(server("slow"), server("fast"))))
    assert found is not None
    assert ("this machine",) * 2 in values(found).values()


def test_where_there_is_one_place_there_is_no_contract() -> None:
    """Servers that are all started here; `terms` asks for one all the same."""
    environment = Environment(facts=(), servers=(server("slow"), server("fast")))
    assert contract(an_experiment(), environment) is None
    assert contract(replace(an_experiment(), terms=ServerTerms.MATCHED), environment) is not None
    assert contract(mixed(), None) is None


def test_pods_get_what_the_file_gives_them() -> None:
    """Limits, and of what is not given nothing; of a Cluster that is there nothing is known."""
    resources = PodResources(limits=(("cpu", "1500m"), ("memory", "2Gi")))
    target = CloudNativePgTarget(resources=resources, storage="5Gi", storage_class="fast")
    assert target.provision == Provision(cpus=1.5, memory_bytes=2 * GIB, storage="5Gi on fast")
    assert CloudNativePgTarget().provision.cpus is None
    assert CloudNativePgTarget(cluster="theirs", resources=resources).provision == Provision()


def test_a_run_is_told_what_differs_and_no_more() -> None:
    """The rest by name: what is equal, and what nobody knows; the report has the whole table."""
    found = agreed(server("fast", version="17.2"))
    table = contract_in_brief(found)
    apart = [term.name for term in found.items if term.unequal]
    assert "version" in apart
    assert [row.cells[0] for row in table.rows] == apart
    for term in found.items:
        assert (term.name in table.note) is not bool(term.unequal)
    assert table.note.index("Equal:") < table.note.index("Not known of all:")
    same = contract_in_brief(
        replace(found, items=tuple(t for t in found.items if t.name == "CPUs"))
    )
    assert not same.rows
    assert "Nothing is known to differ." in same.note


def test_it_is_told_before_the_first_run_and_kept(tmp_path: Path) -> None:
    """The record holds what it is made from, and the analysis what follows."""
    stage = Stage.new(mixed(), tmp_path / "campaign")
    analysis = stage.run()
    assert stage.listener.contract is not None
    kept = analysis.answer(contract_of)
    assert kept is not None
    assert contract_in_brief(kept) == stage.listener.contract
    assert "terms-not-known" not in {each.code for each in analysis.findings}


def test_matched_servers_that_differ_are_refused_before_the_first_run(tmp_path: Path) -> None:
    """With one block nothing was measured; what is not known is a finding."""
    experiment = mixed(ServerTerms.MATCHED)
    stage = Stage.new(experiment, tmp_path / "campaign")
    assert "terms-not-known" in {each.code for each in stage.run().findings}
    slow, fast = experiment.configurations
    weak = replace(fast, target=slow.target, settings=(*slow.settings, *asks(fsync="off")))
    stage = Stage.new(replace(experiment, configurations=(slow, weak)), tmp_path / "other")
    with pytest.raises(PreflightError, match="not matched"):
        stage.run()
    assert stage.listener.runs == 0
