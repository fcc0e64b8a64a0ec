"""A whole campaign inside the cluster, with an account of the least rights, and everything cut."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import steelyard
from steelyard.core.kubernetes import POD, RUNNER, ObjectRef, campaign_labels
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes.job import JobPlan, record_files
from steelyard.record.directory import COPY_NOTE
from support.cluster_campaigns import evict
from support.kubernetes import left_of, until
from support.lacking import lacking
from support.limited_account import account_kubeconfig, api_port, least_rights, reloading
from support.live import Steelyard, wait_for
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

    def start(self) -> JobPlan:
        """Start the campaign, detached."""
        # It ends in minutes however slow the pods are, with whatever blocks it has.
        text = reloading(1).replace("budget: 60m", "budget: 3m")
        name = self.steelyard.experiment(text)
        words = ("run", name, "--in-cluster", "--detach", "--json", "-n", self.namespace, "--yes")
        ended = self.steelyard.run(*words)
        assert ended.returncode == 0, ended.stderr
        campaign_id = json.loads(ended.stdout)["campaign"]
        return jobs.choose(jobs.find(self.api, self.namespace), campaign_id)

    def attaching(self) -> "subprocess.Popen[str]":
        """Start to attach; what it prints goes into a file."""
        here = self.steelyard.directory
        with (here / "attach.err").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "steelyard", "attach", "-n", self.namespace, "--out", "c"],
                cwd=here,
                env={**os.environ, **self.steelyard.extra},
                stdout=subprocess.DEVNULL,
                stderr=err,
                text=True,
            )
        self.steelyard.started.append(process)
        return process

    def hears(self, text: str) -> bool:
        """Return whether what attach printed so far has a text."""
        file = self.steelyard.directory / "attach.err"
        return file.exists() and text in file.read_text()

    def evict(self, plan: JobPlan) -> str:
        """Let the cluster take the Job's pod away, as a drain does; return the pod's name."""
        now = jobs.standing(plan, self.api).pod
        assert now is not None
        evict(ObjectRef(kind=POD, name=now.pod, namespace=now.namespace))
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


def test_a_campaign_inside_survives_all_that_is_between(there: There) -> None:
    """An account of least rights starts it, the connection is cut, attach killed, the pod evicted.

    It goes on each time; what is fetched is what is on the volume, a report is made of it, and
    nothing is left in the cluster.
    """
    plan = there.start()
    first = there.attaching()
    wait_for(lambda: there.hears("  block 1 of"), first)
    there.proxy.refuse = True
    there.proxy.reset()
    gone = there.evict(plan)
    wait_for(lambda: there.hears("trying again"), first)
    there.proxy.flow()
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = there.steelyard.run("attach", plan.campaign_id, "-n", there.namespace, "--out", "c")
    assert second.returncode == 0, second.stderr
    entries = there.steelyard.journal
    assert [e["kind"] for e in entries].count("resumed") >= 1
    pods = there.api.list(POD, there.namespace, campaign_labels(plan.campaign_id, RUNNER))
    assert gone not in [pod["metadata"]["name"] for pod in pods]

    copy = there.steelyard.directory / "c"
    # The page is made anew here, where charts may be drawn in it.
    here, volume = _digests_here(copy), there.digests(plan)
    assert {**volume, "report.html": ""} == {**here, "report.html": ""}
    reported = there.steelyard.run("report", "c")
    assert reported.returncode == 0, reported.stderr
    assert "other against default" in reported.stdout

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
    """The list says what keeps the Job, and all of it can be removed."""
    missing = replace(
        there.steelyard, extra={**there.steelyard.extra, "STEELYARD_IMAGE": "localhost/none:1"}
    )
    plan = replace(there, steelyard=missing).start()

    def reason() -> str:
        listed = missing.run("attach", "--list", "--json", "-n", there.namespace)
        (entry,) = json.loads(listed.stdout)["campaigns"]
        return str(entry["reason"])

    until(lambda: "cannot be pulled" in reason(), "the list says that the image is not there")
    removed = missing.run("attach", "--remove", "--yes", "-n", there.namespace)
    assert removed.returncode == 0, removed.stderr
    until(lambda: left_of(there.api, plan.campaign_id) == [], "nothing is left of it")
