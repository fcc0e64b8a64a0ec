"""What campaigns left in Kubernetes clusters: found, shown, removed or put back, never others'."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fakes.campaigns import CAMPAIGN_ID, Stage, an_experiment
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.kubernetes_api import KINDS, FakeKubernetes, FakeKubernetesApi
from fakes.programs import FakeLedger
from steelyard.campaign.cleanup import leftovers
from steelyard.campaign.cleanup.undoing import (
    Labelled,
    look_for_labels,
    undo_all_of,
    undo_thing,
)
from steelyard.cli.main import cli
from steelyard.core import kubernetes as k8s
from steelyard.core.outside import Foreign, OnServer, ServerInCluster
from steelyard.core.wording import ExitCode, LeftBehindError, PreflightError, PrivilegeError
from steelyard.gateways import doors as doors_module
from steelyard.gateways.doors import Doors
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.record import registry
from steelyard.record.directory import COPY_NOTE, CampaignDirectory
from steelyard.targets.assembly import RegistryLedger
from support.left import left_in_clusters, left_on_servers

SPACE = "steelyard-fake-1"
PG = k8s.ObjectRef(kind=k8s.CLUSTER, name="pg", namespace="prod")
BEFORE = {"spec": {"postgresql": {"parameters": {"work_mem": "4MB"}}}}


@pytest.fixture
def api() -> FakeKubernetesApi:
    """Return a cluster with somebody's Cluster in it."""
    api = FakeKubernetesApi()
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
    api.put(
        {
            "apiVersion": k8s.CLUSTER.api_version,
            "kind": "Cluster",
            "metadata": {"name": "pg", "namespace": "prod"},
            "spec": {"postgresql": {"parameters": {"work_mem": "4MB"}}},
        }
    )
    return api


@pytest.fixture(autouse=True)
def kubernetes(api: FakeKubernetesApi, monkeypatch: pytest.MonkeyPatch) -> FakeKubernetes:
    """Return a kubeconfig with that cluster as its current context; commands have it too."""
    kubeconfig = FakeKubernetes(clusters={"lab": api})
    monkeypatch.setattr(doors_module, "system_doors", lambda: _doors(kubeconfig))
    return kubeconfig


@pytest.fixture
def dead(tmp_path: Path, api: FakeKubernetesApi) -> Path:
    """Return the record of a campaign that died with a namespace, a Secret and a change there."""
    stage = Stage.new(an_experiment(), tmp_path / "c", FakeClock())
    noted = leftovers.JournalLedger(stage.directory.journal, CAMPAIGN_ID)
    belongings = Belongings(api, noted, CAMPAIGN_ID, SPACE, clock=api.clock)
    belongings.make_namespace()
    belongings.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}})
    belongings.alter(
        PG, {"spec": {"postgresql": {"parameters": {"work_mem": "1GB"}}}}, before=BEFORE
    )
    stage.directory.close()
    assert len(left_in_clusters(stage.path)) == 4  # the anchor too
    return stage.path


def _doors(kubernetes: FakeKubernetes) -> Doors:
    return fake_doors(kubernetes=kubernetes)


def test_all_of_it_is_undone_and_noted(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """What was made is gone, what was changed is as it was, and the journal lists nothing."""
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    assert len(leftover.things) == 4
    leftovers.undo(leftover, _doors(kubernetes))
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=SPACE)) is None
    found = api.get(k8s.CLUSTER, "pg", "prod")
    assert found["spec"]["postgresql"]["parameters"]["work_mem"] == "4MB"
    assert left_in_clusters(dead) == ()
    leftovers.require_nothing_left(dead)


def test_a_context_that_means_another_cluster_is_refused(
    dead: Path, kubernetes: FakeKubernetes
) -> None:
    """Nothing is deleted in a cluster that only has the same name in the kubeconfig."""
    other = FakeKubernetesApi(server="https://elsewhere:6443")
    other.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    kubernetes.clusters["lab"] = other
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    with pytest.raises(LeftBehindError, match="means https://elsewhere:6443 now"):
        leftovers.undo(leftover, _doors(kubernetes))
    assert other.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=SPACE)) is not None
    assert len(left_in_clusters(dead)) == 4


def test_what_cannot_be_reached_is_left_behind_and_said(
    dead: Path, kubernetes: FakeKubernetes
) -> None:
    """A context that is gone ends in a sentence, a way out and the exit code of leftovers."""
    kubernetes.clusters = {"other": FakeKubernetesApi()}
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    with pytest.raises(LeftBehindError, match="is left behind: there is no context") as left:
        leftovers.undo(leftover, _doors(kubernetes))
    assert left.value.exit_code is ExitCode.LEFT_BEHIND
    assert "steelyard clean" in left.value.hint


def find_labelled(api: FakeKubernetesApi, namespace: str = "") -> tuple[Labelled, ...]:
    """Return what is found where all may be listed."""
    look = look_for_labels(api, namespace)
    assert look.unseen == ()
    return look.found


def _labelled(api: FakeKubernetesApi, campaign: str) -> Belongings:
    belongings = Belongings(api, FakeLedger(), campaign, f"ns-{campaign}", clock=api.clock)
    belongings.make_namespace()
    belongings.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}})
    return belongings


def test_labels_find_what_no_record_knows(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """Campaigns that a record here knows are left to it; others are removed when asked."""
    _labelled(api, "stranger-1")
    (found,) = find_labelled(api)
    assert found.campaign == "stranger-1"
    assert [thing.ref.kind.name for thing in found.things] == ["Secret", "ConfigMap", "Namespace"]
    assert find_labelled(api, "prod") == ()
    undo_all_of(found.things, _doors(kubernetes))
    assert find_labelled(api) == ()
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=SPACE)) is not None
    assert dead.exists()


def test_the_command_asks_for_each_and_removes_what_is_agreed(api: FakeKubernetesApi) -> None:
    """`clean --context` shows objects by campaign; an answer for one is none for the other."""
    _labelled(api, "stranger-1")
    _labelled(api, "stranger-2")
    shown = CliRunner().invoke(cli, ["clean", "--context", "lab", "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert "Secret ns-stranger-1/password" in shown.output
    assert len(find_labelled(api)) == 2
    answered = CliRunner().invoke(cli, ["clean", "--context", "lab"], input="y\nn\n")
    assert answered.output.count("Removed.") == 1
    assert [each.campaign for each in find_labelled(api)] == ["stranger-2"]
    quiet = CliRunner().invoke(cli, ["clean", "-n", "prod", "--yes"])
    assert "Nothing in prod of lab" in quiet.output


def test_kinds_that_may_not_be_listed_are_told(api: FakeKubernetesApi) -> None:
    """An account without Secrets finds the rest, and is told that it did not see all."""
    _labelled(api, "stranger-1")
    api.refuse("list", k8s.SECRET)
    look = look_for_labels(api)
    (found,) = look.found
    names = {thing.ref.kind.name for thing in found.things}
    assert names == {k8s.CONFIG_MAP.name, k8s.NAMESPACE.name}
    assert look.unseen == ("Secret",)
    shown = CliRunner().invoke(cli, ["clean", "--context", "lab", "--dry-run"])
    assert "may not list them: Secret." in shown.output


def test_an_account_that_may_list_nothing_is_no_all_clear(api: FakeKubernetesApi) -> None:
    """It ends with the exit code of missing privileges and names the way, not with "nothing"."""
    for kind in KINDS:
        api.refuse("list", kind)
    shown = CliRunner().invoke(cli, ["clean", "--context", "lab"])
    assert isinstance(shown.exception, PrivilegeError), shown.output
    assert "-n" in shown.exception.hint
    assert "Nothing in" not in shown.output


def test_one_namespace_is_cleaned_with_the_namespace_itself(
    api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """What a campaign made goes wholly; a ClusterRole of another campaign stays."""
    _labelled(api, "stranger-1")
    for campaign in ("stranger-1", "stranger-2"):
        role = {"name": campaign, "labels": {k8s.MANAGED_BY: k8s.MANAGER, k8s.CAMPAIGN: campaign}}
        api.put(
            {"apiVersion": k8s.CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": role}
        )
    (found,) = find_labelled(api, "ns-stranger-1")
    kinds = [thing.ref.kind.name for thing in found.things]
    assert kinds == ["Secret", "ClusterRole", "ConfigMap", "Namespace"]
    undo_all_of(found.things, _doors(kubernetes))
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name="ns-stranger-1")) is None
    assert api.read(k8s.ObjectRef(kind=k8s.CLUSTER_ROLE, name="stranger-2")) is not None


def test_the_record_of_a_job_is_never_removed(api: FakeKubernetesApi) -> None:
    """A finished campaign inside the cluster has its only record there: --yes leaves all of it."""
    belongings = _labelled(api, "inside-1")
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "r"}}
    belongings.make(claim, role=k8s.RUNNER)
    said = CliRunner().invoke(cli, ["clean", "--context", "lab", "--yes"])
    assert said.exit_code == 0, said.output
    command = "steelyard attach inside-1 --context lab -n ns-inside-1"
    assert f"{command} --remove" in said.output
    assert "r (its record)" in said.output
    assert "Removed." not in said.output
    (found,) = find_labelled(api)
    assert len(found.things) == 4


@pytest.mark.parametrize("kind", [k8s.POD, k8s.JOB])
def test_what_runs_is_removed_only_when_asked_for(api: FakeKubernetesApi, kind: k8s.Kind) -> None:
    """A colleague's campaign is not taken by --yes; its owner who says y has it removed."""
    belongings = _labelled(api, "living-1")
    belongings.make({"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "x"}})
    api.get(kind, "x", "ns-living-1")["status"] = {"phase": "Running", "active": 1}
    _labelled(api, "dead-1")
    said = CliRunner().invoke(cli, ["clean", "--context", "lab", "--yes"])
    assert [each.campaign for each in find_labelled(api)] == ["living-1"], said.output
    asked = CliRunner().invoke(cli, ["clean", "--context", "lab"], input="y\n")
    assert find_labelled(api) == (), asked.output


def test_one_campaign_that_cannot_be_removed_keeps_no_other(api: FakeKubernetesApi) -> None:
    """A verb that is missing in one namespace is told at the end, after all were tried."""
    _labelled(api, "a-1")
    _labelled(api, "b-1")
    api.refuse("delete", k8s.SECRET, namespace="ns-a-1")
    api.refuse("delete", k8s.CONFIG_MAP, namespace="ns-a-1")
    said = CliRunner().invoke(cli, ["clean", "--context", "lab", "--yes"])
    assert isinstance(said.exception, LeftBehindError), said.output
    assert "may not delete secrets" in said.exception.message
    assert "ns-b-1" not in {each["metadata"]["name"] for each in api.list(k8s.NAMESPACE)}


def test_a_fetched_copy_is_refused(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """The campaign of a copy may be alive in the cluster: nothing of it is looked at from here."""
    (dead / COPY_NOTE).write_text("{}")
    with pytest.raises(PreflightError, match="is a copy of a record") as refused:
        leftovers.find_leftovers(_doors(kubernetes), [dead])
    assert "steelyard attach --remove" in refused.value.hint
    assert leftovers.find_leftovers(_doors(kubernetes)) == ()
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=SPACE)) is not None


def _on_server(inside: ServerInCluster) -> OnServer:
    return OnServer(
        resource=Foreign.DATABASE,
        host="pg-rw.prod.svc",
        port=5432,
        user="app",
        database="steelyard_1",
        entrance="postgres",
        mark="m",
        inside=inside,
    )


def _inside(api: FakeKubernetesApi, service: str) -> ServerInCluster:
    secret = k8s.SecretRef(namespace="prod", name="pg-app")
    return ServerInCluster(
        context="lab", server=api.server, namespace="prod", service=service, secret=secret
    )


def _with_server(dead: Path, api: FakeKubernetesApi, service: str) -> None:
    directory = CampaignDirectory.reopen(dead, api.clock)
    noted = leftovers.JournalLedger(directory.journal, CAMPAIGN_ID)
    noted.created(_on_server(_inside(api, service)))
    directory.close()


def test_a_server_that_is_gone_took_its_databases_with_it(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """A Cluster that its owner deleted keeps nothing from being cleaned, now or later."""
    _with_server(dead, api, "pg-rw")
    api.lose(k8s.CLUSTER, "pg", "prod")
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    leftovers.undo(leftover, _doors(kubernetes))
    leftovers.require_nothing_left(dead)


def test_a_server_that_cannot_be_reached_keeps_nothing_else(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """What is in the cluster goes; the way out speaks of the Service and not of ~/.pgpass."""
    _with_server(dead, api, "pg-rw")
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    with pytest.raises(LeftBehindError, match=r"steelyard_1 .* is left behind") as left:
        leftovers.undo(leftover, _doors(kubernetes))
    assert "pgpass" not in left.value.hint
    assert "the Service pg-rw in prod" in left.value.hint
    assert left_in_clusters(dead) == ()
    assert [thing.database for thing in left_on_servers(dead)] == ["steelyard_1"]


def test_a_service_that_is_gone_alone_is_not_taken_for_its_server(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """The StatefulSet behind it may be there; with its user's Secret gone, too, it is believed."""
    secret = {"name": "pg-app", "namespace": "prod"}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    _with_server(dead, api, "db")
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    with pytest.raises(LeftBehindError, match="Service prod/db is not there"):
        leftovers.undo(leftover, _doors(kubernetes))
    api.lose(k8s.SECRET, "pg-app", "prod")
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    leftovers.undo(leftover, _doors(kubernetes))
    assert left_on_servers(dead) == ()


def test_a_record_from_inside_is_not_cleaned_in_the_wrong_cluster(
    api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """The URL inside is every cluster's: the uid of kube-system tells, and nothing is noted."""
    api.is_inside = True
    told = FakeLedger()
    made = Belongings(api, told, "inside-1", "prod", clock=api.clock)
    made.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}})
    api.is_inside = False
    other = FakeKubernetesApi()
    for _ in range(3):
        other.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
    other.lose(k8s.NAMESPACE, "kube-system")
    other.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    for _, thing in told.in_cluster:
        kubernetes.clusters = {"other": other}
        with pytest.raises(LeftBehindError, match="is in another cluster"):
            undo_thing(thing, _doors(kubernetes))
        with pytest.raises(LeftBehindError, match="cannot be told"):
            undo_thing(replace(thing, cluster=""), _doors(kubernetes))
        kubernetes.clusters = {"lab": api}
        undo_thing(thing, _doors(kubernetes))
    assert not api.list(k8s.SECRET, "prod")


def test_what_went_with_its_operator_is_gone(
    dead: Path, api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """Without the kind there are no Clusters: a campaign's list does not keep them for ever."""
    api.kinds.discard(k8s.CLUSTER)
    (leftover,) = leftovers.find_leftovers(_doors(kubernetes), [dead])
    leftovers.undo(leftover, _doors(kubernetes))
    assert left_in_clusters(dead) == ()


def test_a_clusters_volumes_are_waited_for(
    api: FakeKubernetesApi, kubernetes: FakeKubernetes
) -> None:
    """A claim that stays when its Cluster is gone is told, and is not called removed."""
    told = FakeLedger()
    made = Belongings(api, told, "own-1", "prod", clock=api.clock)
    made.make(
        {"apiVersion": k8s.CLUSTER.api_version, "kind": "Cluster", "metadata": {"name": "own"}}
    )
    labels = {k8s.CAMPAIGN: "own-1", "cnpg.io/cluster": "own"}
    claim = {"name": "own-1", "namespace": "prod", "labels": labels}
    api.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim})
    with pytest.raises(LeftBehindError, match="PersistentVolumeClaim prod/own-1 of Cluster"):
        undo_thing(told.in_cluster[-1][1], _doors(kubernetes))
    api.lose(k8s.CLAIM, "own-1", "prod")
    undo_thing(told.in_cluster[-1][1], _doors(kubernetes))


def test_a_look_that_failed_is_forgotten_when_nothing_of_it_is_left(api: FakeKubernetesApi) -> None:
    """Its pod is gone, so `clean` does not list it; what is still there stays noted."""
    look = RegistryLedger()
    made = Belongings(api, look, look.campaign_id, "prod", clock=api.clock)
    made.make({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    made.remove(k8s.ObjectRef(kind=k8s.POD, name="p", namespace="prod"))
    assert [name for name, _ in registry.records()] == [look.campaign_id]  # the anchor
    made.remove_all()
    assert registry.records() == []
