"""An account with just what `kubernetes rbac` prints runs a campaign, and needs it all."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.permissions import Purpose, needed
from support.cluster_campaigns import HERE
from support.limited_account import account_kubeconfig, least_rights, reloading
from support.live import Steelyard
from support.live_redis_clusters import MADE

# What this campaign has no occasion for: sessions are created from Kubernetes 1.35 on; there is no
# server of others, and nothing fails that events, logs and the like would have to explain.
_NO_OCCASION = {
    ("configmaps", "patch"),  # the anchor of a session that died
    ("pods/exec", "create"),
    ("pods/portforward", "create"),
    ("services", "get"),
    ("services", "list"),
    ("events", "list"),
    ("pods/log", "get"),
    ("resourcequotas", "list"),
    ("jobs", "list"),
    ("clusters", "list"),
}
# Volumes for the probe of the storage: of a Redis no ceilings are measured. Nodes: its server is up
# alone, and only a Job's load looks for a node of its own.
_NO_OCCASION_OF_REDIS = {
    *(("persistentvolumeclaims", verb) for verb in ("create", "patch", "delete")),
    ("nodes", "list"),
}


@pytest.fixture
def limited(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard, tmp_path: Path
) -> Iterator[Steelyard]:
    """Yield Steelyard under an account that may do what is printed, and notes what it asks."""
    with least_rights(cluster_api, own_namespace, steelyard) as token:
        path = account_kubeconfig(tmp_path / "kubeconfig", token=token, namespace=own_namespace)
        extra = {
            "KUBECONFIG": str(path),
            "STEELYARD_TEST_ASKED": str(tmp_path / "asked"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        yield replace(steelyard, program=("-m", "support.recorded_doors"), extra=extra)


def _asked(directory: Path) -> set[tuple[str, ...]]:
    return {tuple(line.split()) for line in (directory / "asked").read_text().splitlines()}


def _granted(purpose: Purpose) -> set[tuple[str, ...]]:
    found = needed([purpose, Purpose.OUTSIDE])
    return {(each.resource, verb) for each in found for verb in each.verbs}


def test_the_printed_rights_are_enough_and_each_is_used(
    limited: Steelyard, own_namespace: str, tmp_path: Path
) -> None:
    """A campaign goes on with them; none is granted that it does not use, none used beyond."""
    name = limited.experiment(reloading(1, ceilings="on"))
    limited.until_blocks(
        1, "run", name, *HERE, "-n", own_namespace, "--yes", "--no-verdict", "--dir", "c"
    )
    used, granted = _asked(tmp_path), _granted(Purpose.CLUSTERS)
    assert used - granted == set()
    assert granted - used - _NO_OCCASION == set()


def test_they_are_enough_for_redis(limited: Steelyard, own_namespace: str, tmp_path: Path) -> None:
    """A server is made, restarted for each configuration, and taken away."""
    one_load = "\n".join(line for line in MADE.splitlines() if "builtin: get" not in line)
    name = limited.experiment(one_load)
    limited.until_blocks(
        1, "run", name, *HERE, "-n", own_namespace, "--yes", "--no-verdict", "--dir", "c"
    )
    used, granted = _asked(tmp_path), _granted(Purpose.REDIS)
    assert used - granted == set()
    assert granted - used - _NO_OCCASION - _NO_OCCASION_OF_REDIS == set()
