"""A split pair of Redis: its files word for word, what holds for every one, what is refused.

``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from steelyard.core.findings import State
from steelyard.core.redis import SplitInCluster, SplitPlan, SplitRequest, SplitServer
from steelyard.core.wording import GIB, MIB, InputError, PreflightError
from steelyard.tuning.plan.redis_split import design_split, foreseen_pair, make_split
from steelyard.tuning.rules.redis import RULES
from steelyard.tuning.rules.rule import judge_by

GOLDEN = Path(__file__).parents[2] / "golden" / "redis-split"
SCENES = {
    "usual": SplitRequest(memory_bytes=4 * GIB),
    "asked": SplitRequest(
        memory_bytes=1 * GIB,
        name="sessions",
        policy="allkeys-lru",
        fsync="always",
        most_lag_s=0,
        primary=SplitServer(host="10.0.0.5", port=6380, directory="/srv/redis"),
        replica=SplitServer(host="10.0.0.6", port=6381, directory="/srv/data/redis"),
        cluster=SplitInCluster(
            namespace="web",
            image="valkey/valkey:8",
            cpus="500m",
            secret="sessions-auth",
            storage_class="longhorn-2r",
            storage_bytes=8 * GIB,
            account=1000,
        ),
    ),
}


@pytest.fixture(params=SCENES)
def plan(request: pytest.FixtureRequest) -> SplitPlan:
    """Return each plan in turn."""
    return make_split(SCENES[request.param])


@pytest.mark.parametrize("scene", SCENES)
def test_files_of_a_pair(scene: str) -> None:
    """Every file says what it said before, to the letter, and there is no other."""
    folder = GOLDEN / scene
    files = make_split(SCENES[scene]).files
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        for file in files:
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.name).write_text(file.content, encoding="utf-8")
    for file in files:
        assert file.content == (folder / file.name).read_text(encoding="utf-8")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {file.name for file in files} == there


def text_of(plan: SplitPlan, name: str) -> str:
    """Return one file of a plan."""
    return next(file.content for file in plan.files if file.name == name)


def objects_of(plan: SplitPlan) -> dict[tuple[str, str], Any]:
    """Return the objects for Kubernetes by kind and name."""
    documents = YAML(typ="safe").load_all(text_of(plan, "kubernetes/redis-split.yaml"))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


@pytest.mark.parametrize("name", ["redis/primary.conf", "redis/replica.conf"])
def test_every_line_of_a_configuration_has_its_reason(plan: SplitPlan, name: str) -> None:
    """Above each setting stands why it is so and who says that; no setting comes twice."""
    parts = text_of(plan, name).strip().split("\n\n")
    settings = [part.splitlines()[-1] for part in parts[1:]]
    for part in parts[1:]:
        *reason, setting = part.splitlines()
        assert not setting.startswith("#")
        assert "Source: " in " ".join(line.removeprefix("# ") for line in reason)
        assert all(line.startswith("# ") for line in reason)
    assert len({setting.split()[0] for setting in settings}) == len(settings)


def pods(plan: SplitPlan) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield role and pod of both StatefulSets."""
    name = plan.design.request.name
    for role in ("primary", "replica"):
        yield role, objects_of(plan)["StatefulSet", f"{name}-{role}"]["spec"]["template"]["spec"]


def test_the_fence_stands_before_every_start_of_a_process(plan: SplitPlan) -> None:
    """It is the container's own command: an init container is passed over by a restart."""
    for role, pod in pods(plan):
        (container,) = pod["containers"]
        assert container["command"] == ["sh", "/etc/redis-split/start.sh", role]
        assert "initContainers" not in pod
        assert "livenessProbe" not in container


def test_no_argument_holds_a_secret(plan: SplitPlan) -> None:
    """The password comes from the Secret by the environment; no command and no file names one."""
    secret = plan.design.request.cluster.secret
    for _, pod in pods(plan):
        (container,) = pod["containers"]
        (variable,) = container["env"]
        source = {"secretKeyRef": {"name": secret, "key": "password"}}
        assert variable == {"name": "REDISCLI_AUTH", "valueFrom": source}
        probe = container["readinessProbe"]["exec"]["command"]
        for word in (*container["command"], *probe):
            assert "AUTH" not in word
            assert " -a " not in word
    for file in plan.files:
        lines = [line for line in file.content.splitlines() if not line.lstrip().startswith("#")]
        assert not [
            line for line in lines if line.lstrip().startswith(("requirepass", "masterauth"))
        ]


def test_objects_fit_together(plan: SplitPlan) -> None:
    """Selectors find the pods, pods their ConfigMap, its files the names of the pods."""
    name = plan.design.request.name
    objects = objects_of(plan)
    files = objects["ConfigMap", f"{name}-split"]["data"]
    assert set(files) == {"primary.conf", "replica.conf", "start.sh"}
    assert f"PRIMARY={name}-primary-0.{name}-peers\n" in files["start.sh"]
    assert f"replicaof {name}-primary-0.{name}-peers 6379\n" in files["replica.conf"]
    assert f"replica-announce-ip {name}-primary-0.{name}-peers\n" in files["primary.conf"]
    for role in ("primary", "replica"):
        spec = objects["StatefulSet", f"{name}-{role}"]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        assert spec["serviceName"] == f"{name}-peers"
        for service in (name, f"{name}-peers"):
            selector = objects["Service", service]["spec"]["selector"]
            assert all(labels.get(key) == value for key, value in selector.items())
        volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
        assert volumes["config"]["configMap"] == {"name": f"{name}-split"}
        assert ("volumeClaimTemplates" in spec) is (role == "replica")
    assert objects["Service", f"{name}-peers"]["spec"]["clusterIP"] == "None"


def test_clients_follow_whoever_takes_writes(plan: SplitPlan) -> None:
    """The Service asks for no role, and both are ready as a master alone: no edit, no READONLY."""
    name = plan.design.request.name
    service = objects_of(plan)["Service", name]["spec"]
    assert service["selector"] == {"app.kubernetes.io/name": name}
    assert "publishNotReadyAddresses" not in service
    for _, pod in pods(plan):
        probe = pod["containers"][0]["readinessProbe"]
        assert probe["exec"]["command"][-1] == "redis-cli role | head -n 1 | grep -qx master"
        assert probe["failureThreshold"] == 1


def test_the_budget_counts_a_watch_that_no_client_finds(plan: SplitPlan) -> None:
    """It counts both servers and the watch; the watch is in no Service and keeps nobody apart."""
    name = plan.design.request.name
    objects = objects_of(plan)
    (counted,) = objects["PodDisruptionBudget", name]["spec"]["selector"]["matchExpressions"]
    watch = objects["Deployment", f"{name}-watch"]["spec"]
    labels = watch["template"]["metadata"]["labels"]
    assert watch["selector"]["matchLabels"] == labels
    assert labels == {"app.kubernetes.io/name": f"{name}-watch"}
    assert counted["key"] == "app.kubernetes.io/name"
    assert counted["operator"] == "In"
    assert counted["values"] == [name, f"{name}-watch"]
    probe = watch["template"]["spec"]["containers"][0]["readinessProbe"]["exec"]["command"][-1]
    assert f" -h {name}-replica-0.{name}-peers " in probe


def test_the_rules_say_the_same() -> None:
    """The usual plan breaks no rule; without its fence it breaks RED001."""
    plan = make_split(SCENES["usual"])
    facts = foreseen_pair(plan.design, plan.files)
    assert {judge_by(rule, facts).state for rule in RULES} <= {State.HOLDS, State.NOT_APPLICABLE}
    held = {rule.code for rule in RULES if judge_by(rule, facts).state is State.HOLDS}
    assert {"RED001", "RED003", "RED004", "RED006", "RED007"} <= held
    primary, copy = facts.redis or ()
    assert primary.auto_restart
    without = tuple(file for file in plan.files if not file.name.endswith("start.sh"))
    bare = foreseen_pair(plan.design, without)
    assert bare.redis == (replace(primary, fenced=False), copy)
    broken = {rule.code for rule in RULES if judge_by(rule, bare).state is State.VIOLATED}
    assert broken == {"RED001"}


def test_what_was_asked_against_a_rule_is_told() -> None:
    """Flushes at every write and writes without a replica are the user's choice, and said."""
    plan = make_split(SCENES["asked"])
    assert [text.partition(":")[0] for text in plan.left] == ["RED003", "RED007"]
    assert make_split(SCENES["usual"]).left == ()


def test_memory_adds_up(plan: SplitPlan) -> None:
    """What is taken away leaves maxmemory, which the configurations have."""
    *lines, total = plan.design.arithmetic
    assert sum(line.amount_bytes for line in lines) == total.amount_bytes
    for role in ("primary", "replica"):
        assert f"\nmaxmemory {total.amount_bytes // MIB}mb\n" in text_of(plan, f"redis/{role}.conf")


def test_the_replica_writes_without_its_primary() -> None:
    """Promoted it serves alone: only the primary is told to refuse writes."""
    plan = make_split(SCENES["usual"])
    assert "\nmin-replicas-to-write 1\n" in text_of(plan, "redis/primary.conf")
    assert "min-replicas" not in text_of(plan, "redis/replica.conf")
    assert "min-replicas" not in text_of(make_split(SCENES["asked"]), "redis/primary.conf")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": "Redis"}, "a name of objects"),
        ({"name": "x" * 50}, "a name of objects"),
        ({"primary": SplitServer(host="a; rm -rf b")}, "a host"),
        ({"replica": SplitServer(host="$(id)")}, "a host"),
        ({"replica": SplitServer(host="")}, "a host"),
        ({"primary": SplitServer(host="a", directory="/a b")}, "a directory"),
        ({"primary": SplitServer(host="a", directory="relative")}, "a directory"),
        ({"primary": SplitServer(host="redis-replica")}, "are both redis-replica:6379"),
        ({"policy": "newest"}, "maxmemory-policy"),
    ],
)
def test_what_cannot_be_written_is_refused(changed: dict[str, Any], told: str) -> None:
    """Nothing that a shell or redis-server would read otherwise gets into a file."""
    with pytest.raises(InputError) as caught:
        design_split(replace(SCENES["usual"], **changed))
    assert told in caught.value.message
    assert caught.value.hint


def test_a_volume_that_fills_up_is_refused_and_what_would_do_is_accepted() -> None:
    """The hint names a size; with that the plan is made."""
    asked = replace(SCENES["usual"], cluster=SplitInCluster(storage_bytes=9 * GIB))
    with pytest.raises(PreflightError, match=r"a volume of 9\.0 GiB") as caught:
        design_split(asked)
    assert "Ask for 10.0 GiB" in (caught.value.hint or "")
    enough = replace(SCENES["usual"], cluster=SplitInCluster(storage_bytes=10 * GIB))
    assert design_split(enough).storage_bytes == design_split(SCENES["usual"]).storage_bytes


def test_too_little_memory_is_refused() -> None:
    """Below the least nothing is left beside the buffers; at the least a plan is made."""
    with pytest.raises(PreflightError, match="too little"):
        design_split(replace(SCENES["usual"], memory_bytes=128 * MIB - 1))
    assert design_split(replace(SCENES["usual"], memory_bytes=128 * MIB)).arithmetic


def test_on_one_machine_nothing_is_open_to_others() -> None:
    """Two servers on the loopback interface are bound to it; on two machines to all."""
    here = replace(
        SCENES["usual"],
        primary=SplitServer(host="127.0.0.1", port=7001),
        replica=SplitServer(host="localhost", port=7002),
    )
    assert "\nbind 127.0.0.1 -::1\n" in text_of(make_split(here), "redis/primary.conf")
    assert "\nbind * -::*\n" in text_of(make_split(SCENES["usual"]), "redis/primary.conf")
