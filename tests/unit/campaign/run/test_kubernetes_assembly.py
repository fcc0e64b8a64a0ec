"""Assembling a campaign in a cluster: what is asked, said at once, made, and taken away."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.campaigns import an_experiment, asks
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.host import FakeHost
from fakes.kubernetes_api import FakeKubernetes, FakeKubernetesApi, Said, a_cluster
from fakes.programs import FakeLedger
from fakes.servers import FakePlatform, World
from steelyard.campaign import in_cluster
from steelyard.campaign.design.schedule import GUESSED_CLUSTER_S
from steelyard.campaign.foresee.forecast import forecast
from steelyard.campaign.in_cluster import JobAsked
from steelyard.campaign.run.session import facts_of
from steelyard.core.experiment import Configuration, Design, Experiment, Workload
from steelyard.core.kubernetes import CLUSTER, CRD, NAMESPACE, NODE, POD, SECRET
from steelyard.core.places import GeneratorPods, KubernetesPlace, PodResources
from steelyard.core.schedule import Mode, Pausing
from steelyard.core.target import CloudNativePgTarget, LocalTarget
from steelyard.core.wording import InputError, PreflightError, PrivilegeError
from steelyard.gateways.doors import Doors
from steelyard.record import registry
from steelyard.systems.postgres.cloudnative_pg.own_cluster import CloudNativePgPlatform
from steelyard.systems.postgres.engine import PostgresEngine
from steelyard.systems.postgres.factory import JoinedEngine
from steelyard.systems.postgres.server import Installation, PostgresProgram
from steelyard.targets import assembly as assembly_of
from steelyard.targets.assembly import Assembly, assemble, settled
from steelyard.targets.differences import Room
from steelyard.targets.endpoint import Asked
from steelyard.targets.kubernetes_site import PLACEHOLDER, campaign_manifests

CATALOGUE = "\n".join(
    f"{name}\t{context}\tGroup\tSTRING\t\t\t\t\t"
    for name, context in (("work_mem", "user"), ("shared_buffers", "postmaster"))
)
DEFAULT_IMAGE = "ghcr.io/cloudnative-pg/postgresql:17.5"


@pytest.fixture
def api() -> FakeKubernetesApi:
    """Return a cluster of two nodes with the operator, two classes, and images that answer."""
    api = a_cluster()
    api.on_run("sh", "find", said="/usr/lib/postgresql/15/bin\npostgres (PostgreSQL) 15.20\n")
    api.on_run("describe", said=CATALOGUE)
    api.on_run("-C", said="")
    return api


def an_experiment_on(*targets: CloudNativePgTarget, scale: int = 1, **settings: str) -> Experiment:
    """Return an experiment whose second configuration has these settings, on these Clusters."""
    one, other = targets * 2 if len(targets) == 1 else targets
    return replace(
        an_experiment(),
        baseline="default",
        workloads=(Workload(name="reads", builtin="select-only", scale=scale),),
        configurations=(
            Configuration(name="default", target=one),
            Configuration(name="more", target=other, settings=asks(**settings)),
        ),
    )


def target(**keys: Any) -> CloudNativePgTarget:
    """Return a small Cluster."""
    return replace(CloudNativePgTarget(image="pg:15", storage="1Gi"), **keys)


def doors(*contexts: FakeKubernetesApi) -> Doors:
    """Return doors to clusters; the first is the current one."""
    kubernetes = FakeKubernetes(clusters={each.context: each for each in contexts})
    return fake_doors(contexts[0].clock, kubernetes=kubernetes)


def looked(api: FakeKubernetesApi, experiment: Experiment) -> Assembly:
    """Return the assembly of a look."""
    return assemble(experiment, doors(api))


def test_a_look_leaves_nothing(api: FakeKubernetesApi) -> None:
    """One pod asks the image; then it is gone, and neither cluster nor registry knows of it."""
    assembly = looked(api, an_experiment_on(target(), work_mem="8MB"))
    assert assembly.engine.known_settings("more") == {"work_mem", "shared_buffers"}
    assert assembly.engine.label("more") == "PostgreSQL 15.20"
    (name,) = {label.split("/")[1] for label in api.labels_of("apply") if label.startswith("Pod")}
    assert api.labels_of("apply").count("Pod default/" + name) == 1
    assert api.list(POD) == ()
    assert api.list(SECRET) == ()
    assert registry.records() == []
    assert {each["metadata"]["name"] for each in api.list(NAMESPACE)} == {"default", "kube-system"}


def test_a_second_look_asks_no_image_again(api: FakeKubernetesApi) -> None:
    """The preflight and the campaign after it make one pod."""
    experiment = an_experiment_on(target(), work_mem="8MB")
    looked(api, experiment)
    pods = [label for label in api.labels_of("apply") if label.startswith("Pod")]
    looked(api, experiment)
    assert [label for label in api.labels_of("apply") if label.startswith("Pod")] == pods


def test_values_are_refused_by_the_images_own_server(api: FakeKubernetesApi) -> None:
    """What it says against a value is a complaint about that setting."""
    said = Said(exit_status=1, stderr='FATAL: invalid value for parameter "work_mem": "lots"\n')
    api.on_run("work_mem=lots", said=said)
    assembly = looked(api, an_experiment_on(target(), work_mem="lots"))
    (complaint,) = assembly.engine.complaints("more")
    assert complaint.setting == "work_mem"
    assert "invalid value" in complaint.message
    assert assembly.engine.complaints("default") == ()


def test_the_operators_own_image_is_asked_for(api: FakeKubernetesApi) -> None:
    """Without `image` it is the one that the operator fills in at a dry run."""
    apply = api.apply

    def defaulted(manifest: Any, *, dry_run: bool = False) -> Any:
        made = apply(manifest, dry_run=dry_run)
        return {**made, "spec": {"imageName": DEFAULT_IMAGE, **made["spec"]}} if dry_run else made

    api.apply = defaulted  # type: ignore[method-assign]
    assembly = looked(api, an_experiment_on(target(image=None), work_mem="8MB"))
    assert assembly.site is not None
    assert assembly.site.plan is not None
    assert assembly.site.plan.image == DEFAULT_IMAGE


def test_every_permission_that_lacks_is_said_at_once(api: FakeKubernetesApi) -> None:
    """With what it is for and how it is had; nothing is made before."""
    api.refuse("create", POD)
    api.refuse("get", POD, part="exec")
    api.refuse("patch", CLUSTER)
    with pytest.raises(PrivilegeError) as refused:
        looked(api, an_experiment_on(target(), work_mem="8MB"))
    for words in ("create pods in", "get pods/exec", "patch clusters.postgresql.cnpg.io"):
        assert words in refused.value.message
    assert "steelyard kubernetes rbac" in refused.value.hint
    assert api.labels_of("apply") == []


def test_what_only_the_record_needs_is_a_finding(api: FakeKubernetesApi) -> None:
    """Without a look at the nodes a campaign runs, and its findings say what is missing."""
    api.refuse("list", NODE)
    api.refuse("get", NODE)
    assembly = looked(api, an_experiment_on(target(), work_mem="8MB"))
    assert assembly.site is not None
    found = [
        finding for finding in assembly.site.findings() if finding.code == "permission-missing"
    ]
    assert "nodes in the whole cluster" in found[0].message


def test_a_server_that_is_there_needs_less(api: FakeKubernetesApi) -> None:
    """Nobody who measures an existing Cluster must be allowed to make or delete one."""
    for verb in ("create", "delete", "patch"):
        api.refuse(verb, CLUSTER)
        api.refuse(verb, SECRET)
    there = target(image=None, cluster="pg")
    with pytest.raises(PreflightError, match="Cluster default/pg is not there"):
        looked(api, an_experiment_on(there, work_mem="8MB"))
    allowed = replace(there, allow_existing=True)
    with pytest.raises(PrivilegeError, match="patch clusters"):
        looked(api, an_experiment_on(allowed, work_mem="8MB"))


@pytest.mark.parametrize(
    ("broken", "keys", "words"),
    [
        (lambda api: api.kinds.discard(CLUSTER), {}, "CloudNativePG is not installed"),
        (lambda _: None, {"storage_class": "fsat"}, "there is no storage class fsat"),
        (lambda _: None, {"wal_storage": "1Gi", "wal_storage_class": "x"}, "no storage class x"),
        (lambda api: api.on_run("sh", "find", said=Said(exit_status=1)), {}, "does not have"),
    ],
)
def test_what_is_known_to_fail_fails_before(
    api: FakeKubernetesApi,
    broken: Callable[[FakeKubernetesApi], None],
    keys: dict[str, Any],
    words: str,
) -> None:
    """Operator, classes, programs: each with its name, and nothing is left."""
    broken(api)
    with pytest.raises(PreflightError, match=words):
        looked(api, an_experiment_on(target(**keys), work_mem="8MB"))
    assert api.list(POD) == ()


def test_a_volume_without_room_is_refused(api: FakeKubernetesApi) -> None:
    """Data, their prepared copy and what grows must fit; a larger volume takes them."""
    with pytest.raises(PreflightError, match="the volume of 1Gi has no room"):
        looked(api, an_experiment_on(target(), scale=100, work_mem="8MB"))
    looked(api, an_experiment_on(target(storage="20Gi"), scale=100, work_mem="8MB"))


def test_an_unknown_field_is_refused_before_anything_is_made(api: FakeKubernetesApi) -> None:
    """What the definition does not know is told with its path."""
    api.put(
        {
            "apiVersion": CRD.api_version,
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "clusters.postgresql.cnpg.io"},
            "spec": {"versions": [_version()]},
        }
    )
    odd = target(affinity='{"podAntiAfinityType":"required"}')
    with pytest.raises(InputError, match="podAntiAfinityType"):
        looked(api, an_experiment_on(odd, work_mem="8MB"))


def _version() -> dict[str, Any]:
    text = {"type": "string"}
    names = (
        *("instances", "imageName", "imagePullPolicy", "enablePDB", "storage", "resources"),
        *("inheritedMetadata", "enableSuperuserAccess", "superuserSecret", "postgresql"),
        *("primaryUpdateStrategy", "primaryUpdateMethod", "smartShutdownTimeout"),
    )
    fields = {name: {"x-kubernetes-preserve-unknown-fields": True} for name in names}
    affinity = {"properties": {"podAntiAffinityType": text}}
    spec = {"properties": {**fields, "affinity": affinity}}
    return {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}


def test_a_namespace_of_others_is_told(api: FakeKubernetesApi) -> None:
    """One that is there and not Steelyard's is a finding; one of its own is none."""
    there = target(place=KubernetesPlace(namespace="default"))
    foreign = looked(api, an_experiment_on(there, work_mem="8MB")).site
    assert foreign is not None
    assert not foreign.is_own
    assert "foreign-namespace" in {finding.code for finding in foreign.findings()}
    own = looked(api, an_experiment_on(target(), work_mem="8MB")).site
    assert own is not None
    assert own.is_own
    assert "foreign-namespace" not in {finding.code for finding in own.findings()}


def test_sharing_a_node_is_told(api: FakeKubernetesApi) -> None:
    """`same_node` is a finding, and one node is enough then."""
    api.lose(NODE, "node2")
    place = KubernetesPlace(generators=GeneratorPods(same_node=True))
    site = looked(api, an_experiment_on(target(place=place), work_mem="8MB")).site
    assert site is not None
    assert "generator-beside-database" in {finding.code for finding in site.findings()}


def test_only_the_pod_of_a_job_needs_a_node_of_its_own(api: FakeKubernetesApi) -> None:
    """A cluster of one node takes a campaign whose load comes from here."""
    api.lose(NODE, "node2")
    site = looked(api, an_experiment_on(target(), work_mem="8MB")).site
    assert site is not None
    with pytest.raises(PreflightError, match="needs a node that is not the database's"):
        in_cluster.look(JobAsked(), site, lambda _: None)


def test_a_namespace_that_goes_away_is_waited_for_by_the_user(api: FakeKubernetesApi) -> None:
    """Nothing can be made in it."""
    api.get(NAMESPACE, "default")["status"] = {"phase": "Terminating"}
    there = target(place=KubernetesPlace(namespace="default"))
    with pytest.raises(PreflightError, match="is being removed"):
        looked(api, an_experiment_on(there, work_mem="8MB"))


def test_the_context_of_the_day_is_settled(api: FakeKubernetesApi) -> None:
    """A campaign names its context, so that a resume tomorrow finds the same cluster."""
    experiment = an_experiment_on(target(), work_mem="8MB")
    named = settled(experiment, looked(api, experiment))
    assert {t.place.context for t in named.targets_of(CloudNativePgTarget).values()} == {"lab"}
    api.is_inside = True
    inside = settled(experiment, looked(api, experiment))
    assert {t.place.context for t in inside.targets_of(CloudNativePgTarget).values()} == {None}


def test_facts_are_those_of_the_cluster(api: FakeKubernetesApi) -> None:
    """Of this machine nothing is told: neither server nor generator runs on it."""
    experiment = an_experiment_on(target(), work_mem="8MB")
    found = facts_of(experiment, looked(api, experiment), doors(api))
    assert {fact.subject for fact in found} == {"Kubernetes", "tools"}
    values = {fact.name: fact.value for fact in found}
    assert values["API server"] == api.server
    assert values["pgbench"] == "15.20"


def test_manifests_are_complete_and_hold_no_password(api: FakeKubernetesApi) -> None:
    """A dry run prints namespace, anchor, Secret and Clusters."""
    experiment = an_experiment_on(target(), target(storage_class="slow"), work_mem="8MB")
    made = list(campaign_manifests(experiment, "night-1", namespace=None))
    kinds = ["Namespace", "ConfigMap", "Secret", "Cluster", "Cluster"]
    assert [each["kind"] for each in made] == kinds
    clusters = [each for each in made if each["kind"] == "Cluster"]
    assert [each["spec"]["storage"].get("storageClass") for each in clusters] == [None, "slow"]
    assert len({each["metadata"]["name"] for each in clusters}) == 2
    secret = made[2]
    assert secret["stringData"]["password"] == PLACEHOLDER
    assert clusters[0]["spec"]["superuserSecret"]["name"] == secret["metadata"]["name"]
    assert all(each["metadata"]["labels"]["steelyard/campaign"] == "night-1" for each in made)
    for each in made[1:]:
        assert each["metadata"]["namespace"] == made[0]["metadata"]["name"]
    there = list(campaign_manifests(experiment, "night-1", namespace="bench"))
    assert [each["kind"] for each in there] == kinds[1:]


def _of_size(cpu: str, memory: str = "1Gi") -> PodResources:
    return PodResources(requests=(("cpu", cpu), ("memory", memory)))


def _sized(api: FakeKubernetesApi, cpu: str) -> None:
    for node in ("node1", "node2"):
        api.get(NODE, node)["status"]["allocatable"] = {"cpu": cpu, "memory": "16Gi"}


@pytest.mark.parametrize(
    ("cpu", "fits"),
    [("4", ""), ("3500m", "the nodes have room for 1 more of the 2 Clusters that would be up")],
)
def test_clusters_take_turns_where_the_nodes_have_room(
    api: FakeKubernetesApi, cpu: str, fits: str
) -> None:
    """A Cluster each, on what other pods leave free; a pod that has ended takes nothing."""
    _sized(api, cpu)
    for name, phase in (("busy", "Running"), ("over", "Succeeded")):
        api.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "nodeName": "node1",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
                },
                "status": {"phase": phase},
            }
        )
    experiment = an_experiment_on(target(resources=_of_size("2")), shared_buffers="1GB")
    room = looked(api, experiment).room
    assert (room.pausing is Pausing.GENERATOR) is not bool(fits)
    if fits:
        assert fits in room.unable


def test_who_may_not_see_the_nodes_takes_turns(api: FakeKubernetesApi) -> None:
    """Then the scheduler says whether there is room."""
    _sized(api, "1")
    experiment = an_experiment_on(target(resources=_of_size("2")), shared_buffers="1GB")
    api.refuse("list", NODE)
    assert looked(api, experiment).room.pausing is Pausing.GENERATOR


def test_each_slot_has_clusters_of_its_own(api: FakeKubernetesApi) -> None:
    """The first is the one that there is already; names do not meet."""
    assembly = looked(api, an_experiment_on(target(), shared_buffers="1GB"))
    assert assembly.slots is not None
    first, second, third = assembly.slots(3)
    assert first == assembly.platforms
    names = {
        platform.manifest(1)["metadata"]["name"]  # type: ignore[attr-defined]
        for slot in (first, second, third)
        for platform in slot.values()
    }
    assert len(names) == 3
    for slot in (second, third):
        assert slot["default"] is slot["more"]
        assert slot["more"].standstill.kind is Pausing.GENERATOR


def test_a_forecast_knows_that_each_configuration_gets_a_cluster(api: FakeKubernetesApi) -> None:
    """In turns one more is made before the first block; a block has no warm-up of 20 s twice."""
    experiment = an_experiment_on(target(), shared_buffers="1GB")
    together = forecast(experiment, looked(api, experiment))
    asked = replace(experiment, design=Design.ONE_BY_ONE)
    apart = forecast(asked, looked(api, asked))
    assert together.mode is Mode.ALTERNATING
    assert apart.mode is Mode.STARTS
    assert together.preparation_s - apart.preparation_s >= GUESSED_CLUSTER_S
    assert together.block_s < apart.block_s


def _beside_this_machine(cluster: CloudNativePgTarget) -> Experiment:
    """Return the experiment with its baseline, and one more, on servers of this machine."""
    experiment = an_experiment_on(target(), cluster)
    here, there = experiment.configurations
    one = replace(here, target=LocalTarget())
    more = replace(one, name="buffers", settings=asks(shared_buffers="1GB"))
    return replace(experiment, configurations=(one, more, there))


def _here(asked: Asked) -> Assembly:
    """Return the servers of this machine, under an old pgbench that is on it."""
    programs = Path("/programs")
    old = Installation(programs=programs, root=programs, version="14.1")
    sql = asked.doors.sql
    program = PostgresProgram(installation=old, initdb=(), sql=sql)
    names = ("default", "buffers")
    engine = PostgresEngine(
        asked.experiment,
        dict.fromkeys(names, program),
        {name: {} for name in names},
        asked.doors,
    )
    world = World(clock=FakeClock(), experiment=asked.experiment)
    seats = dict.fromkeys(names, FakePlatform(world, FakeLedger(), Path("/here")))
    room = Room(pausing=Pausing.GENERATOR, memory_bytes=8 << 30)
    return Assembly(engine=engine, platforms=seats, room=room, slots=lambda _: (seats,))


def test_a_cluster_beside_this_machine(
    api: FakeKubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part serves its own; one pgbench drives both, and both tell of their place."""
    monkeypatch.setattr(assembly_of, "_here", _here)
    experiment = _beside_this_machine(target())
    found = looked(api, experiment)
    assert set(found.platforms) == {"default", "buffers", "more"}
    assert isinstance(found.platforms["more"], CloudNativePgPlatform)
    assert found.platforms["more"]._options.restarts
    assert isinstance(found.engine, JoinedEngine)
    assert found.engine.label("default") == "PostgreSQL 14.1"
    assert found.engine.label("more") == "PostgreSQL 15.20"
    parts = (found.engine, *found.engine._parts)
    assert {part.generator.version for part in parts} == {"14.1"}  # the image's is not here
    assert found.room.pausing is Pausing.GENERATOR
    assert found.slots is not None
    assert [set(slot) for slot in found.slots(3)] == [{"default", "buffers"}, {"more"}]
    host = FakeHost(files={"/proc/meminfo": "MemTotal: 8388608 kB\n", "/proc/cpuinfo": ""})
    facts = facts_of(experiment, found, replace(doors(api), host=host))
    assert {fact.subject for fact in facts} == {"Kubernetes", "tools", "machine"}
    assert found.site is not None
    assert "load-from-outside" in {each.code for each in found.site.findings()}
    kinds = [each["kind"] for each in campaign_manifests(experiment, "night-1", namespace=None)]
    assert kinds.count("Cluster") == 1
