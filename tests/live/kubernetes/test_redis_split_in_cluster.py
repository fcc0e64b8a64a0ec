"""The objects of `steelyard redis split` as a user applies them: the fence in a cluster."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import namespace_in, until
from support.live_redis_clusters import REDIS_IMAGE

WRITTEN = 500
PASSWORD = 'it\'s "quoted" \\ $HOME'
_SMALL = ("--memory", "256MiB", "--cpus", "100m", "--storage", "1GiB")


@dataclass(frozen=True)
class Pair:
    """A pair that was applied to a namespace."""

    namespace: str

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Run kubectl in the namespace and return what it printed."""
        argv = ("kubectl", "--namespace", self.namespace, *words)
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout

    def ask(self, pod: str, *words: str, text: str | None = None) -> str:
        """Return what the server of a pod answers, nothing while it does not."""
        try:
            told = self.kubectl("exec", "-i", f"{pod}-0", "--", "redis-cli", *words, text=text)
        except subprocess.CalledProcessError:
            return ""
        return told.strip()

    def read(self, *what: str) -> dict[str, Any]:
        """Return an object."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found

    def renew(self, *pods: str) -> None:
        """Delete pods, and wait until others have their names.

        kubectl itself is not let wait: once it went on for ever after the pods were there anew.
        """
        before = {pod: self._uid(pod) for pod in pods}
        self.kubectl("delete", "pod", "--wait=false", *pods)
        until(
            lambda: all(self._uid(pod) not in {"", uid} for pod, uid in before.items()), "new pods"
        )

    def _uid(self, pod: str) -> str:
        try:
            return str(self.read("pod", pod)["metadata"]["uid"])
        except subprocess.CalledProcessError:  # there is none at the moment
            return ""

    def told(self, pod: str) -> str:
        """Return what start.sh said in the pod that is there."""
        return self.kubectl("logs", f"{pod}-0")

    def is_whole(self) -> bool:
        """Return whether the primary takes writes, and both have the data."""
        watch = self.read("deployment", "redis-watch")["status"]
        return self.serves("redis-primary") and watch.get("readyReplicas") == 1

    def serves(self, pod: str) -> bool:
        """Return whether the clients' Service sends them to this pod and no other."""
        subsets = self.read("endpoints", "redis").get("subsets") or []
        ready = [each["targetRef"]["name"] for one in subsets for each in one.get("addresses", ())]
        return ready == [f"{pod}-0"]

    def has_all(self) -> bool:
        """Return whether both servers hold what was written."""
        sizes = {self.ask(pod, "DBSIZE") for pod in ("redis-primary", "redis-replica")}
        return sizes == {str(WRITTEN)}


@pytest.fixture
def pair(cluster_api: KubernetesApi, tmp_path: Path) -> Iterator[Pair]:
    """Yield a pair with data, made by the three commands of its page."""
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    with namespace_in(cluster_api) as namespace:
        label = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": namespace, "labels": label}
        cluster_api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        pair = Pair(namespace)
        rendered = tmp_path / "pair"
        words = ("redis", "split", *_SMALL, "--image", REDIS_IMAGE, "--namespace", namespace)
        argv = (sys.executable, "-m", "steelyard", *words, "--out", str(rendered))
        subprocess.run(argv, check=True, capture_output=True)
        pair.kubectl("create", "secret", "generic", "redis-auth", f"--from-file=password={secret}")
        pair.kubectl("apply", "-f", str(rendered / "files/kubernetes/redis-split.yaml"))
        until(pair.is_whole, "the pair is whole")
        pair.ask("redis-primary", text="".join(f"SET key:{n} value\n" for n in range(WRITTEN)))
        until(pair.has_all, "both have the data")
        yield pair


def test_a_primary_that_comes_back_empty_wipes_nothing(pair: Pair) -> None:
    """Its container ends and is started again; then its pod goes, and another takes its name."""
    # Without waiting for the replica, as somebody who is killed does not.
    pair.ask("redis-primary", "SHUTDOWN", "NOSAVE", "NOW")
    until(lambda: _restarts(pair) == 1, "its container was started again")
    until(lambda: pair.is_whole() and pair.has_all(), "the pair is whole again")
    assert "the replica holds data and is promoted" in pair.told("redis-primary")
    assert "it is the primary again" in pair.told("redis-primary")
    pair.renew("redis-primary-0")
    assert pair.read("pod", "redis-replica-0")["status"]["phase"] == "Running"
    until(lambda: pair.is_whole() and pair.has_all(), "the pair is whole with a new pod")


def test_the_replica_comes_back_with_the_data_of_its_volume(pair: Pair) -> None:
    """Both pods go at once: what was written is on its volume, and the primary fetches it."""
    pair.renew("redis-primary-0", "redis-replica-0")
    until(lambda: pair.is_whole() and pair.has_all(), "the pair is whole again")


def _restarts(pair: Pair) -> int:
    (status,) = pair.read("pod", "redis-primary-0")["status"]["containerStatuses"]
    return int(status["restartCount"])
