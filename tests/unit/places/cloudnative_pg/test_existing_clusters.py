"""A Cluster that is there: refused where it serves others, altered by leave only, put back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fakes.programs import FakeProgram
from steelyard.core.kubernetes import CLUSTER, POD, SECRET, SERVICE, SecretRef
from steelyard.core.outside import ServerAddress
from steelyard.core.places import Provision
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import GIB, LeftBehindError, PreflightError, TargetError
from steelyard.places.kubernetes.undoing import undo
from steelyard.systems.existing import reached
from steelyard.systems.postgres.cloudnative_pg import existing
from steelyard.systems.postgres.existing.platform import EndpointOptions, EndpointPlatform
from steelyard.systems.postgres.existing.server import DatasetNeeds
from steelyard.systems.postgres.existing.server import undo as undo_on_server
from support.cluster_world import World

_PROGRAM = FakeProgram()
_PARAMETERS = {"work_mem": "5MB", "archive_timeout": "5min"}


def _put(world: World, **changes: Any) -> dict[str, Any]:
    """Have somebody's Cluster there, healthy; ``changes`` are of its spec or its annotations."""
    annotations = changes.pop("annotations", {"owner": "somebody"})
    cluster = world.api.put(
        {
            "apiVersion": CLUSTER.api_version,
            "kind": CLUSTER.name,
            "metadata": {"name": "pg", "namespace": "bench", "annotations": annotations},
            "spec": {
                "instances": 1,
                "enableSuperuserAccess": True,
                "bootstrap": {"initdb": {"database": "shop", "owner": "shop"}},
                "postgresql": {"parameters": dict(_PARAMETERS)},
                **changes,
            },
        }
    )
    for name in ("pg-superuser", "pg-app"):
        world.operator.put_secret(name, "bench")
    for _ in range(4):
        world.operator.step()
    return cluster


class _Used:
    """A Cluster as the place of an endpoint."""

    def __init__(self, world: World, *, allowed: bool = True, restarts: bool = True) -> None:
        self.world = world
        target = CloudNativePgTarget(cluster="pg", allow_existing=allowed)
        options = existing.ExistingOptions(
            target=target, namespace="bench", settings=("max_connections", "work_mem")
        )
        cluster = existing.read_cluster(options, world.means)
        secret = existing.secret_of(cluster, world.means)
        self.place = existing.ExistingCluster(options, world.means, cluster, secret)
        self.platform = EndpointPlatform(
            EndpointOptions(
                target=existing.endpoint_of(options, secret),
                entrance=ServerAddress(host="nowhere", port=1),
                campaign_id="night",
                datasets=(DatasetNeeds(name="steelyard_s1", tables=True, scripts=False),),
                settings=options.settings,
                restarts=restarts and allowed,
                clients=8,
            ),
            world.ledger,
            world.means.doors,
            self.place,
        )

    def start(self, **settings: str) -> None:
        """Prepare once and start with settings."""
        state = self.platform.prepare(_PROGRAM, ["data"], _nothing)
        self.platform.restore(state, self.platform.means()[0])
        self.platform.start(state, _PROGRAM, settings)


def _nothing(address: ServerAddress) -> None:
    assert dict(address.databases)


def _cluster(world: World) -> dict[str, Any]:
    return world.api.get(CLUSTER, "pg", "bench")


def _running(world: World) -> Mapping[str, str]:
    return world.operator.servers["pg"].running


def test_its_manifest_says_what_its_pods_get(world: World) -> None:
    """Limits, and the volume; of a Cluster without resources nothing is known."""
    _put(
        world,
        resources={"limits": {"cpu": 2, "memory": "8Gi"}, "requests": {"cpu": "500m"}},
        storage={"size": "20Gi", "storageClass": "longhorn"},
    )
    given = Provision(cpus=2.0, memory_bytes=8 * GIB, storage="20Gi on longhorn")
    assert _Used(world).platform.provision() == given


def test_a_cluster_without_resources_says_nothing_of_them(world: World) -> None:
    """The node decides, and is not asked."""
    _put(world)
    told = _Used(world).platform.provision()
    assert (told.cpus, told.memory_bytes) == (None, None)


def test_settings_are_changed_in_the_manifest_and_put_back_whole(world: World) -> None:
    """During the campaign the Cluster says what was asked; afterwards every byte that it said."""
    before = json.dumps(_put(world)["spec"], sort_keys=True)
    used = _Used(world)
    used.platform.require_ready()
    used.start(work_mem="9MB", max_connections="50")
    assert (_running(world)["work_mem"], _running(world)["max_connections"]) == ("9MB", "50")
    assert used.platform.is_running
    assert not [said for said in world.operator.executed if "ALTER SYSTEM" in said]
    used.start(work_mem="9MB")
    assert _running(world).get("max_connections") is None
    used.platform.destroy()
    assert json.dumps(_cluster(world)["spec"], sort_keys=True) == before
    assert _cluster(world)["metadata"]["annotations"] == {"owner": "somebody"}
    assert _running(world)["work_mem"] == "5MB"
    assert world.operator.databases == {}
    assert world.left == []


def test_what_was_there_is_in_the_ledger_before_the_first_change(world: World) -> None:
    """The merge patch that puts back names every setting of the campaign, null where none was."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB")
    (change,) = [thing for verb, thing in world.ledger.in_cluster if verb == "placed"]
    assert json.loads(change.before) == {
        "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": None}},
        "spec": {
            "postgresql": {
                "parameters": {"max_connections": None, "steelyard.change": None, "work_mem": "5MB"}
            }
        },
    }
    used.platform.destroy()


def test_after_a_death_the_ledger_is_enough(world: World) -> None:
    """Databases go by a way that is found anew, and the manifest by the patch of the ledger."""
    before = json.dumps(_put(world)["spec"], sort_keys=True)
    used = _Used(world)
    used.start(work_mem="9MB", max_connections="50")
    world.means.reach.close()  # the process is dead, and its forwards with it
    means = world.means.doors
    world.api.put(_service())
    for _, thing in world.ledger.things:
        assert thing.inside is not None
        assert (thing.host, thing.port) == ("pg-rw.bench.svc", 5432)
        with reached(thing.inside, world.api, world.operator, world.clock) as address:
            undo_on_server(thing, means, reached=address)
            undo_on_server(thing, means, reached=address)  # a second time is no error
    for thing in world.left:
        undo(thing, world.api, clock=world.clock)
        undo(thing, world.api, clock=world.clock)
    assert world.operator.databases == {}
    assert json.dumps(_cluster(world)["spec"], sort_keys=True) == before


def _service() -> dict[str, Any]:
    """Return the Service of the primary."""
    return SERVICE.manifest(
        "pg-rw",
        namespace="bench",
        spec={"ports": [{"port": 5432}], "selector": {"cnpg.io/cluster": "pg"}},
    )


def test_settings_of_a_dead_campaign_are_no_baseline(world: World) -> None:
    """What another campaign left is refused by its name, at the start and before a change."""
    _put(world)
    early = _Used(world)
    _cluster(world)["spec"]["postgresql"]["parameters"]["steelyard.change"] = (
        "steelyard-old-run-12-7"
    )
    with pytest.raises(PreflightError, match=r"still runs: steelyard-old-run \(") as caught:
        _Used(world).platform.require_ready()
    assert "steelyard clean" in (caught.value.hint or "")
    with pytest.raises(PreflightError, match="steelyard-old-run"):
        early.start(work_mem="9MB")
    assert [verb for verb, _ in world.ledger.in_cluster] == []


def test_what_goes_back_is_what_stood_there_at_the_first_change(world: World) -> None:
    """A value that its owner set while the data were prepared is not undone."""
    _put(world)
    used = _Used(world)
    _cluster(world)["spec"]["postgresql"]["parameters"]["work_mem"] = "6MB"
    used.start(max_connections="50")
    assert _running(world)["work_mem"] == "6MB"
    used.platform.destroy()
    assert _cluster(world)["spec"]["postgresql"]["parameters"] == {**_PARAMETERS, "work_mem": "6MB"}


def test_what_somebody_corrected_meanwhile_stays_and_is_told(world: World) -> None:
    """A value that is neither the campaign's nor the former one is left; the others go back."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB", max_connections="50")
    _cluster(world)["spec"]["postgresql"]["parameters"]["work_mem"] = "7MB"
    used.platform.destroy()
    assert _cluster(world)["spec"]["postgresql"]["parameters"] == {**_PARAMETERS, "work_mem": "7MB"}
    assert _cluster(world)["metadata"]["annotations"] == {"owner": "somebody"}
    (told,) = [each for each in world.told if "somebody has changed" in each]
    assert "spec.postgresql.parameters.work_mem of Cluster bench/pg" in told
    assert world.left == []


def test_a_death_before_somebodys_correction_leaves_it(world: World) -> None:
    """Undoing by the ledger tells of it once; the second time nothing is ours any more."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB", max_connections="50")
    _cluster(world)["spec"]["postgresql"]["parameters"]["work_mem"] = "7MB"
    (change,) = world.left
    with pytest.raises(LeftBehindError, match=r"parameters\.work_mem of Cluster bench/pg"):
        undo(change, world.api, clock=world.clock)
    undo(change, world.api, clock=world.clock)
    assert _cluster(world)["spec"]["postgresql"]["parameters"] == {**_PARAMETERS, "work_mem": "7MB"}


def test_a_successor_of_the_cluster_is_left_alone(world: World) -> None:
    """One that was made anew under the name has nothing of the campaign, whatever it says."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB")
    (change,) = world.left
    assert change.uid == _cluster(world)["metadata"]["uid"]
    successor = _cluster(world)
    successor["metadata"]["uid"] = "another"
    before = json.dumps(successor, sort_keys=True)
    undo(change, world.api, clock=world.clock)
    assert json.dumps(_cluster(world), sort_keys=True) == before


def test_databases_go_after_a_primary_that_restarts_is_back(world: World) -> None:
    """An end in the midst of a rollout puts the settings back, waits, and then drops."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB")
    world.api.lose(POD, "pg-1", "bench")
    used.platform.destroy()
    assert world.operator.databases == {}
    assert _running(world)["work_mem"] == "5MB"


def test_a_database_that_stays_is_tried_once_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that refused for a moment keeps nothing; one that goes on refusing is told."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB")
    execute, refusals = world.operator.execute, [1, 0, 0]

    def refuse(address: ServerAddress, statements: Sequence[str]) -> None:
        if any("DROP" in each for each in statements) and refusals and refusals.pop():
            raise TargetError("the server is starting up")
        execute(address, statements)

    monkeypatch.setattr(world.operator, "execute", refuse)
    used.platform.destroy()
    assert world.operator.databases == {}
    used = _Used(world)
    used.start()
    refusals[:] = [1] * 100
    with pytest.raises(TargetError, match="starting up"):
        used.platform.destroy()


def test_a_switchover_by_a_rollout_is_told(world: World) -> None:
    """A primary that runs on another node than before is a finding, with what prevents it."""
    _put(world, instances=2)
    used = _Used(world)
    used.platform.require_ready()
    assert "database-moved" not in [each.code for each in used.platform.findings()]
    world.operator.moves = True
    used.start(work_mem="9MB")
    (moved,) = [each for each in used.platform.findings() if each.code == "database-moved"]
    assert "node1, node2" in moved.message
    assert "primaryUpdateMethod: restart" in (moved.remedy or "")
    used.platform.destroy()


def test_another_cluster_under_the_same_context_is_left_alone(world: World) -> None:
    """Where the context means another API now, nothing is undone there."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB")
    inside = world.ledger.things[0][1].inside
    assert inside is not None
    world.api.server = "https://elsewhere:6443"
    with (
        pytest.raises(LeftBehindError, match="means https://elsewhere:6443 now"),
        reached(inside, world.api, world.operator, world.clock),
    ):
        pytest.fail("it went there")


def test_without_leave_nothing_of_the_cluster_is_changed(world: World) -> None:
    """Settings are of own sessions then, though the user is a superuser."""
    _put(world)
    generation = _cluster(world)["metadata"]["generation"]
    used = _Used(world, allowed=False)
    used.platform.require_ready()
    used.start(work_mem="9MB")
    assert "-c work_mem=9MB" in dict(used.platform.address.parameters)["options"]
    assert _cluster(world)["metadata"]["generation"] == generation
    assert not [said for said in world.operator.executed if "ALTER SYSTEM" in said]
    used.platform.destroy()
    assert world.ledger.in_cluster == []


def test_a_refused_setting_leaves_the_cluster_running(world: World) -> None:
    """What the server does not start with goes back at once, to what the Cluster said before."""
    _put(world)
    used = _Used(world)
    world.operator.refused = {"9999"}
    with pytest.raises(TargetError, match="does not take max_connections = 9999"):
        used.start(max_connections="9999")
    assert _running(world).get("max_connections") is None
    used.platform.destroy()
    assert _cluster(world)["spec"]["postgresql"]["parameters"] == _PARAMETERS


def test_reloads_are_waited_for(world: World) -> None:
    """Without restarts a change is in force when it returns, and the server is the same."""
    _put(world)
    used = _Used(world, restarts=False)
    used.start(work_mem="8MB")
    assert used.platform.configure({"work_mem": "9MB"}) is False
    assert _running(world)["work_mem"] == "9MB"
    assert used.platform.is_running
    used.platform.destroy()


_BUSY = {
    "a database of others": ({"databases": {"crm": None}}, "it has the databases crm"),
    "tables in the operator's": ({"tables": {"shop": 7}}, "database shop has 7 tables"),
    "tables in postgres": ({"tables": {"postgres": 1}}, "database postgres has 1 tables"),
    "clients": ({"clients": [("shop", 3)]}, r"clients are connected \(3 of shop\)"),
}


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(("state", "said"), _BUSY.values(), ids=_BUSY)
def test_a_cluster_that_serves_others_is_refused(
    world: World, state: Mapping[str, object], said: str, *, allowed: bool
) -> None:
    """Other databases, tables and clients are each a reason, whatever is allowed."""
    _put(world)
    for name, value in state.items():
        setattr(world.operator, name, value)
    with pytest.raises(PreflightError, match=said):
        _Used(world, allowed=allowed).platform.require_ready()
    assert (world.ledger.things, world.ledger.in_cluster) == ([], [])


_UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "hibernated": ({"annotations": {"cnpg.io/hibernation": "on"}}, "is hibernated"),
    "fenced": ({"annotations": {"cnpg.io/fencedInstances": '["*"]'}}, "has fenced instances"),
    "replica": ({"replica": {"enabled": True, "source": "a"}}, "is a replica cluster"),
    "distributed replica": ({"replica": {"primary": "other"}}, "is a replica cluster"),
    "supervised": ({"primaryUpdateStrategy": "supervised"}, "only its user restart"),
}


@pytest.mark.parametrize(("changes", "said"), _UNFIT.values(), ids=_UNFIT)
def test_a_cluster_that_takes_no_load_is_refused(
    world: World, changes: dict[str, Any], said: str
) -> None:
    """Replica clusters, hibernated, fenced and supervised ones are refused with the way out."""
    _put(world, **changes)
    with pytest.raises(PreflightError, match=said) as caught:
        _Used(world).platform.require_ready()
    assert caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"annotations": {"cnpg.io/hibernation": "off"}},
        {"annotations": {"cnpg.io/fencedInstances": "[]"}},
        {"replica": {"enabled": False, "source": "a"}},
        {"replica": {"primary": "pg"}},
    ],
)
def test_a_cluster_that_could_be_such_and_is_not_is_taken(
    world: World, changes: dict[str, Any]
) -> None:
    """An annotation that is off and a replica that is the primary are no reason."""
    _put(world, **changes)
    _Used(world).platform.require_ready()


def test_only_a_superuser_may_alter(world: World) -> None:
    """Who cannot see whether the server took a setting does not change it."""
    _put(world, enableSuperuserAccess=False)
    world.operator.superuser = False
    with pytest.raises(PreflightError, match="may not see whether the server took them"):
        _Used(world).platform.require_ready()
    _Used(world, allowed=False).platform.require_ready()


def test_an_unhealthy_cluster_is_refused(world: World) -> None:
    """A Cluster in motion is not measured; what it is doing is told."""
    _put(world)["status"]["phase"] = "Failing over"
    with pytest.raises(PreflightError, match="is not healthy: Failing over"):
        _Used(world).platform.require_ready()


def test_an_absent_cluster_is_refused_with_those_that_are_there(world: World) -> None:
    """The message lists the Clusters of the namespace."""
    _put(world)
    options = existing.ExistingOptions(
        target=CloudNativePgTarget(cluster="gp"), namespace="bench", settings=()
    )
    with pytest.raises(PreflightError, match=r"bench/gp is not there; the namespace has pg"):
        existing.read_cluster(options, world.means)


def test_the_superusers_secret_comes_first(world: World) -> None:
    """Without access for a superuser, or without its Secret, it is the application's."""
    cluster = _put(world)
    assert existing.secret_of(cluster, world.means) == SecretRef(
        namespace="bench", name="pg-superuser"
    )
    world.api.lose(SECRET, "pg-superuser", "bench")
    assert existing.secret_of(cluster, world.means).name == "pg-app"
    cluster["spec"]["bootstrap"]["initdb"]["secret"] = {"name": "given"}
    assert existing.secret_of(cluster, world.means).name == "given"


def test_the_operators_own_database_is_known() -> None:
    """Its name comes from whichever way the Cluster was made, and is `app` by default."""
    for bootstrap, name in (
        ({}, "app"),
        ({"initdb": {"database": "shop"}}, "shop"),
        ({"recovery": {"source": "a", "database": "old"}}, "old"),
    ):
        assert existing.app_database({"spec": {"bootstrap": bootstrap}}) == name


def test_a_tool_that_keeps_the_cluster_is_a_finding(world: World) -> None:
    """Something that synchronises manifests may undo settings while they are measured."""
    _put(world, annotations={"argocd.argoproj.io/tracking-id": "x"})
    codes = [each.code for each in _Used(world).platform.findings()]
    assert "cluster-kept-elsewhere" in codes
    assert "endpoint-unseen" not in codes
    still = [each.code for each in _Used(world, allowed=False).platform.findings()]
    assert "cluster-kept-elsewhere" not in still


def test_facts_and_sight_are_of_the_primary(world: World) -> None:
    """How settings are changed, where it is, and which container to watch."""
    _put(world)
    used = _Used(world)
    used.start(work_mem="9MB")
    facts = {fact.name: fact.value for fact in used.platform.facts()}
    assert facts["settings"] == "by the Cluster's manifest"
    assert facts["address"] == "Cluster bench/pg"
    assert facts["node of the primary"] == "node1"
    sight = used.platform.sight()
    assert sight is not None
    assert sight.database.pod == "pg-1"
    used.platform.destroy()
