"""A real Cluster of somebody: used, altered by leave only, put back, also after a death."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.kubernetes import ObjectRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.undoing import undo
from steelyard.systems.existing import reached
from steelyard.systems.postgres.cloudnative_pg.existing import ExistingCluster
from steelyard.systems.postgres.cloudnative_pg.rollout import ROLLED_WITHIN_S, ClusterWait
from steelyard.systems.postgres.existing.server import undo as undo_on_server
from support.live_clusters import PROGRAM, Campaign, have_somebodys, read_ledger, said, values

_TESTS = Path(__file__).parent.parent.parent
_DATABASES = "SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY datname"


@pytest.fixture
def pg(cluster_api: KubernetesApi, own_namespace: str) -> ObjectRef:
    """Return somebody's Cluster, which goes with its namespace."""
    return have_somebodys(
        Campaign(api=cluster_api, namespace=own_namespace, campaign_id="somebody")
    )


@pytest.fixture
def campaign(
    cluster_api: KubernetesApi, own_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Campaign]:
    """Yield a campaign that uses it."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))
    campaign = Campaign(api=cluster_api, namespace=own_namespace, campaign_id="night")
    yield campaign
    campaign.close()


def test_settings_go_in_and_back_also_after_a_kill(
    campaign: Campaign, pg: ObjectRef, tmp_path: Path
) -> None:
    """By the manifest and a rollout; afterwards manifest, server and databases are as before.

    Of a campaign that SIGKILL ended with its settings in force, what it noted is enough for that.
    """
    before = said(campaign.api, pg)
    place, platform = campaign.existing(allowed=True)
    platform.require_ready()
    state = platform.prepare(PROGRAM, ["data"], lambda _: None)
    platform.restore(state, platform.means()[0])
    platform.start(state, PROGRAM, {"work_mem": "7MB", "max_connections": "50"})
    assert values(campaign, platform.address, "work_mem", "max_connections") == ["7MB", "50"]
    assert platform.is_running
    assert platform.configure({"work_mem": "8MB", "max_connections": "50"}) is False
    assert values(campaign, platform.address, "work_mem") == ["8MB"]
    platform.destroy()
    assert said(campaign.api, pg) == before
    _is_as_before(campaign, place)

    _die_with_settings(campaign, ledger := tmp_path / "ledger")
    assert values(campaign, place.entrance(), "work_mem", "max_connections") == ["9MB", "50"]
    things, placed = read_ledger(ledger)
    assert (len(things), len(placed)) == (2, 1)
    means = campaign.doors
    for thing in things:
        assert thing.inside is not None
        with reached(thing.inside, campaign.api, campaign.sql, campaign.clock) as address:
            undo_on_server(thing, means, reached=address)
    for change in placed * 2:  # a second time is no error
        undo(change, campaign.api)
    assert said(campaign.api, pg) == before
    _await_rollout(campaign, pg, place)
    _is_as_before(campaign, place)


def _is_as_before(campaign: Campaign, place: ExistingCluster) -> None:
    """Check settings and databases, as sessions see them."""
    address = place.entrance()
    assert values(campaign, address, "work_mem", "max_connections") == ["5MB", "100"]
    assert campaign.sql.rows(address, _DATABASES) == [("app",), ("postgres",)]


def _die_with_settings(campaign: Campaign, ledger: Path) -> None:
    """Let a process use the Cluster, and end by SIGKILL while its settings are in force."""
    died = subprocess.run(
        [sys.executable, "-m", "support.live_clusters", campaign.namespace, "night", str(ledger)],
        cwd=_TESTS,
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()


def _await_rollout(campaign: Campaign, pg: ObjectRef, place: ExistingCluster) -> None:
    """Wait until the operator has brought the server to what the manifest says."""

    def is_back(state: object) -> bool:
        found = values(campaign, place.entrance(), "max_connections")
        return found == ["100"]

    ClusterWait(campaign.api, campaign.clock, campaign.told.append).until(
        pg, lambda state: state.is_healthy and is_back(state), most_s=ROLLED_WITHIN_S
    )
