"""What an experiment file may say of servers and generators that are pods."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_texts import FACTS, SMALL, load, problems_of

from steelyard.campaign.file.files import allow_existing
from steelyard.core.experiment import Experiment
from steelyard.core.places import KubernetesPlace, PodResources
from steelyard.core.target import CloudNativePgTarget, EndpointTarget
from steelyard.core.wording import InputError
from steelyard.targets.assembly import placed

# What these keys become is in the snapshots.
EVERY_KEY = """\
version: 1
name: every key
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default:
    target:
      kind: kubernetes
      context: lab
      namespace: bench
      image: ghcr.io/cloudnative-pg/postgresql:18
      instances: 3
      storage: 20Gi
      storage_class: local-path
      wal_storage: 5Gi
      wal_storage_class: fast
      resources:
        requests: {cpu: 2, memory: 4Gi, hugepages-2Mi: 1Gi}
      synchronous: {method: first, number: 2, data_durability: preferred}
      node_selector: {disk: nvme, spot: false}
      tolerations:
        - {operator: Exists, key: db}
      affinity: {podAntiAffinityType: required}
      generators:
        image: localhost:5000/tools:1
        resources: {limits: {cpu: 500m}}
        node_selector: {role: load}
        tolerations: [{key: load, value: "1", effect: NoSchedule}]
        same_node: true
  other: {extends: default}
"""
BEHIND_A_SERVICE = """\
version: 1
name: behind a service
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default:
    target:
      kind: existing
      dbname: x
      kubernetes: {service: db, secret: s, namespace: prod, port: 5433, user_key: u}
  other: {extends: default}
"""


def on(target: str, other: str = "{extends: default}", more: str = "") -> str:
    """Return the small experiment with a target of the baseline, and another configuration."""
    return (
        SMALL.replace("default: {}", f"default:\n    target: {target}").replace(
            "other: {extends: default}", f"other: {other}"
        )
        + more
    )


def cluster(keys: str = "", other: str = "{extends: default}", more: str = "") -> str:
    """Return the small experiment on a Cluster that Steelyard makes."""
    return on("{" + ", ".join(filter(None, ["kind: kubernetes", keys])) + "}", other, more)


def service(keys: str = "service: db, secret: s", rest: str = "") -> str:
    """Return the small experiment on somebody's server in a cluster."""
    return on(
        "{" + ", ".join(filter(None, [f"kind: existing, kubernetes: {{{keys}}}", rest])) + "}"
    )


def test_the_kind_is_enough() -> None:
    """One instance on 10Gi of the default class; a generator's pod has requests and limits."""
    target = load(cluster()).experiment.configuration("default").target
    plain = CloudNativePgTarget()
    assert isinstance(target, CloudNativePgTarget)
    assert replace(target, place=plain.place) == plain
    resources = target.place.generators.resources
    assert {name for name, _ in resources.requests} == {"cpu", "memory"}
    assert resources.limits == resources.requests


def test_sections_are_inherited_by_key_and_fragments_whole() -> None:
    """A child keeps `generators`; its `resources` take the place of the parent's."""
    other = "{extends: default, target: {resources: {limits: {memory: 1Gi}}}}"
    found = (
        load(EVERY_KEY.replace("{extends: default}", other))
        .experiment.configuration("other")
        .target
    )
    assert isinstance(found, CloudNativePgTarget)
    assert found.resources == PodResources(
        requests=(("memory", "1Gi"),), limits=(("memory", "1Gi"),)
    )
    assert found.place.generators.image == "localhost:5000/tools:1"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("kind: kubernetes", "kind: local"),
        ("kind: kubernetes, cluster: a", "kind: kubernetes, cluster: b"),
        ("kind: existing, host: db", "kind: existing, kubernetes: {service: a, secret: b}"),
    ],
)
def test_what_may_stand_beside_each_other(first: str, second: str) -> None:
    """The load is a process of Steelyard, which reaches all of them."""
    assert problems_of(on(f"{{{first}}}", f"{{target: {{{second}}}}}")) == ()


@pytest.mark.parametrize(
    ("keys", "more"),
    [("", "reset: block"), ("cluster: pg, allow_existing: true", "switch: restart")],
)
def test_what_may_be_asked_of_one_cluster(keys: str, more: str) -> None:
    """Its data may be kept for a block; one that is there is restarted by who may change it."""
    assert problems_of(cluster(keys, more=f"measure: {{{more}}}\n")) == ()


def test_a_storage_class_is_a_factor() -> None:
    """Two levels that differ by their target make configurations with two classes."""
    text = SMALL.replace(
        "configurations:\n  default: {}\n  other: {extends: default}\n",
        "configurations:\n  default: {target: {kind: kubernetes, storage: 2Gi}}\n"
        "factors:\n  storage:\n    local: {target: {storage_class: local-path}}\n"
        "    longhorn: {target: {storage_class: longhorn-1r}}\n",
    )
    experiment = load(text).experiment
    assert {
        name: (target.storage_class, target.storage)
        for name, target in experiment.targets_of(CloudNativePgTarget).items()
    } == {"default": ("local-path", "2Gi"), "storage": ("longhorn-1r", "2Gi")}


def test_threads_follow_the_pod_of_the_load() -> None:
    """`threads: auto` counts its CPUs; those of this machine where a server is on it."""
    load_line = "load: {clients: 8}"
    text = cluster("generators: {resources: {limits: {cpu: '2.5'}}}").replace(
        "load: {clients: 1, protocol: simple}", load_line
    )
    assert load(text).experiment.loads[0].threads == 2
    assert (
        load(text.replace("clients: 8", "clients: 8, generators: 4")).experiment.loads[0].threads
        == 4  # one of each process, in the one pod
    )
    small = text.replace("'2.5'", "300m")
    assert load(small).experiment.loads[0].threads == 1
    beside = small.replace("other: {extends: default}", "other: {target: {kind: local}}")
    assert load(beside).experiment.loads[0].threads == FACTS.cpus


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("kubernetes", CloudNativePgTarget()),
        ("kubernetes://pg", CloudNativePgTarget(cluster="pg")),
        (
            "kubernetes://prod/pg",
            CloudNativePgTarget(cluster="pg", place=KubernetesPlace(namespace="prod")),
        ),
    ],
)
def test_one_target_for_all(target: str, expected: CloudNativePgTarget) -> None:
    """`--target` takes the kind, or the name of a Cluster that is there."""
    experiment = load_on(target)
    for name in ("default", "other"):
        there = experiment.configuration(name).target
        assert isinstance(there, CloudNativePgTarget)
        generators = there.place.generators
        place = replace(expected.place, generators=generators)
        assert there == replace(expected, place=place)


def load_on(target: str, text: str = SMALL) -> Experiment:
    """Return an experiment whose configurations all run on one target."""
    return load(text, Path("/nonexistent"), f"target={target}").experiment


def test_room_for_clients_is_left_to_a_cluster_that_is_there() -> None:
    """`max_connections` of a preset is asked of a new Cluster and not of an existing one."""
    text = SMALL.replace("default: {}", "default: {postgres: {max_connections: 200}}")
    assert load_on("kubernetes", text).configuration("default").asked()
    assert not load_on("kubernetes://pg", text).configuration("default").asked()


def test_options_say_where() -> None:
    """`--context` and `--namespace` take the place of the file's, in all configurations."""
    there = placed(load(EVERY_KEY).experiment, context="other", namespace="mine")
    for name in ("default", "other"):
        target = there.configuration(name).target
        assert isinstance(target, CloudNativePgTarget)
        assert (target.place.context, target.place.namespace) == ("other", "mine")
        assert target.place.generators.same_node
    moved = placed(load(service()).experiment, context=None, namespace="mine")
    target = moved.configuration("other").target
    assert isinstance(target, EndpointTarget)
    assert target.inside is not None
    assert target.inside.place.namespace == "mine"
    with pytest.raises(InputError, match="--namespace are for targets in Kubernetes"):
        placed(load(SMALL).experiment, context=None, namespace="x")


def test_the_flag_allows_a_cluster_to_be_changed() -> None:
    """`--allow-existing` reaches Clusters that are there, and is no word for one that is made."""
    allowed = allow_existing(load(cluster("cluster: pg"))).experiment
    assert all(target.allow_existing for target in allowed.targets_of(CloudNativePgTarget).values())
    with pytest.raises(InputError, match="has none"):
        allow_existing(load(cluster()))


def test_fragments_of_one_meaning_are_one_target() -> None:
    """The order of keys and the way of writing make no difference between configurations."""
    text = cluster(
        "tolerations: [{key: a, operator: Exists}]",
        "{extends: default, target: {tolerations: [{operator: Exists, 'key': 'a'}]}}",
    )
    one, other = load(text).experiment.targets_of(CloudNativePgTarget).values()
    assert one == other
    assert json.loads(one.tolerations) == [{"key": "a", "operator": "Exists"}]
