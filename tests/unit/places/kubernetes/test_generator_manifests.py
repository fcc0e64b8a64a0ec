"""Manifests of load generators: restricted, limited, mortal, and away from the database."""

import json

import pytest

from fakes.generator_pods import plan_of
from steelyard.core.kubernetes import CAMPAIGN, ROLE
from steelyard.core.target import GeneratorPods, KubernetesPlace, PodResources
from steelyard.places.kubernetes.generators import (
    agent_manifest,
    generator_manifest,
    log_bytes,
)


def _spec(user: int | None = None, **changed: object) -> dict[str, object]:
    made = generator_manifest(
        plan_of(**changed), name="g", agent="a", campaign_id="trial-0a1b2c", user=user
    )
    return dict(made["spec"])


def test_a_pod_passes_the_restricted_standard() -> None:
    """Every field that the Pod Security Standard `restricted` asks for is set."""
    spec = _spec()
    security = spec["securityContext"]
    (container,) = spec["containers"]
    assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    kinds = {next(key for key in volume if key != "name") for volume in spec["volumes"]}
    assert kinds == {"configMap", "emptyDir"}


def test_an_image_without_a_numeric_user_gets_one() -> None:
    """The image's own user is taken but where the kubelet cannot know that it is not root."""
    assert _spec(user=26)["securityContext"]["runAsUser"] == 26


def test_a_pod_ends_by_itself() -> None:
    """The dead-man's switch is the plan's, and nothing is started again."""
    spec = _spec(deadline_s=4321)
    assert (spec["activeDeadlineSeconds"], spec["restartPolicy"]) == (4321, "Never")


def test_the_password_is_never_written_down() -> None:
    """User and password come by reference to the Secret."""
    (container,) = _spec()["containers"]
    by_reference = {e["name"]: e["valueFrom"]["secretKeyRef"] for e in container["env"][:2]}
    assert by_reference == {
        "PGUSER": {"name": "user", "key": "username"},
        "PGPASSWORD": {"name": "user", "key": "password"},
    }


@pytest.mark.parametrize(
    ("asked", "requests", "limits"),
    [
        (PodResources(), {"cpu": "1", "memory": "512Mi"}, {"cpu": "1", "memory": "512Mi"}),
        (
            PodResources(requests=(("cpu", "200m"),)),
            {"cpu": "200m", "memory": "512Mi"},
            {"cpu": "200m", "memory": "512Mi"},
        ),
        (
            PodResources(limits=(("cpu", "2"), ("memory", "1Gi"))),
            {"cpu": "2", "memory": "1Gi"},
            {"cpu": "2", "memory": "1Gi"},
        ),
        (
            PodResources(requests=(("cpu", "1"),), limits=(("cpu", "2"),)),
            {"cpu": "1", "memory": "512Mi"},
            {"cpu": "2", "memory": "512Mi"},
        ),
    ],
)
def test_requests_and_limits_are_the_same_where_one_is_given(
    asked: PodResources, requests: dict[str, str], limits: dict[str, str]
) -> None:
    """A generator is Guaranteed unless the file says otherwise of both."""
    place = KubernetesPlace(generators=GeneratorPods(resources=asked))
    (container,) = _spec(place=place)["containers"]
    assert container["resources"] == {"requests": requests, "limits": limits}


def test_generators_keep_away_from_the_database() -> None:
    """Pods with the database's labels are avoided, now and when they are made later."""
    affinity = _spec(away_from={"cnpg.io/cluster": "c"})["affinity"]
    (rule,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"] == {"cnpg.io/cluster": "c"}
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_nodes_of_a_server_that_is_there_are_avoided_by_name() -> None:
    """A requirement on a node's name takes one value, so there is one for each node."""
    affinity = _spec(away_from_nodes=("n1", "n2", "n1"))["affinity"]
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert [each["values"] for each in term["matchFields"]] == [["n1"], ["n2"]]
    assert {each["operator"] for each in term["matchFields"]} == {"NotIn"}


def test_the_same_node_is_taken_only_where_it_is_asked_for() -> None:
    """With `same_node: true` nothing is avoided."""
    place = KubernetesPlace(generators=GeneratorPods(same_node=True))
    spec = _spec(place=place, away_from={"a": "b"}, away_from_nodes=("n1",))
    assert "nodeAffinity" not in spec["affinity"]
    rules = spec["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in rules


def test_generators_are_spread_where_that_is_possible() -> None:
    """Two generators prefer two nodes, and take one."""
    rules = _spec()["affinity"]["podAntiAffinity"]
    (preferred,) = rules["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = preferred["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert labels == {CAMPAIGN: "trial-0a1b2c", ROLE: "generator"}


def test_node_selector_and_tolerations_are_as_the_file_has_them() -> None:
    """Generators may have nodes of their own."""
    tolerated = [{"key": "bench", "operator": "Exists"}]
    asked = GeneratorPods(node_selector=(("pool", "load"),), tolerations=json.dumps(tolerated))
    spec = _spec(place=KubernetesPlace(generators=asked))
    assert spec["nodeSelector"] == {"pool": "load"}
    assert spec["tolerations"] == tolerated


def test_logs_lie_in_half_of_the_memory() -> None:
    """A log cannot take the memory of the generator itself."""
    asked = GeneratorPods(resources=PodResources(limits=(("memory", "1Gi"),)))
    assert log_bytes(asked.resources) == 512 * 1024 * 1024
    spec = _spec(place=KubernetesPlace(generators=asked))
    (logs,) = (volume for volume in spec["volumes"] if volume["name"] == "logs")
    assert logs["emptyDir"] == {"medium": "Memory", "sizeLimit": str(512 * 1024 * 1024)}


def test_the_agent_is_the_script_of_the_package() -> None:
    """The ConfigMap holds what the pod's command runs."""
    (name, script), *_ = agent_manifest("a")["data"].items()
    (container,) = _spec()["containers"]
    assert container["command"][1].endswith(f"/{name}")
    assert script.startswith("#!/bin/bash\n")
