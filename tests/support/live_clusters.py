"""A campaign's use of real Clusters, of its own and of others', and its death at a bad moment.

``python -m support.live_clusters NAMESPACE CAMPAIGN LEDGER`` uses the Cluster ``pg`` there, changes
its settings, and ends by SIGKILL while they are in force.
"""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.kubernetes import CLUSTER, Manifest, ObjectRef, SecretRef
from steelyard.core.outside import InCluster, OnServer, Outside, ServerAddress
from steelyard.core.places import PodResources
from steelyard.core.target import CloudNativePgTarget
from steelyard.gateways.doors import system_doors
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.sql import Sql
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.reaching import Reach, make_secret, sql_knock
from steelyard.systems.postgres.cloudnative_pg.existing import (
    ExistingCluster,
    ExistingOptions,
    endpoint_of,
    read_cluster,
    secret_of,
)
from steelyard.systems.postgres.cloudnative_pg.own_cluster import (
    CloudNativePgPlatform,
    ClusterOptions,
    cluster_manifest,
)
from steelyard.systems.postgres.cloudnative_pg.rollout import MADE_WITHIN_S, ClusterWait
from steelyard.systems.postgres.existing.platform import EndpointOptions, EndpointPlatform
from steelyard.systems.postgres.existing.server import DatasetNeeds
from support.kubernetes import IMAGE

PROGRAM: Final = FakeProgram()
SMALL: Final = PodResources(requests=(("cpu", "100m"), ("memory", "256Mi")))
SETTINGS: Final = ("max_connections", "random_page_cost", "work_mem")
_THINGS: Final = TypeAdapter(OnServer)
_PLACED: Final = TypeAdapter(InCluster)


@dataclass(kw_only=True)
class Campaign:
    """What a campaign has in one namespace of a real cluster."""

    api: KubernetesApi
    namespace: str
    campaign_id: str
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock, self.sql = Clock(), Sql()
        self.ledger = FakeLedger()
        self.reach = Reach(self.api, sql_knock(self.sql), self.clock)
        self.belongings = Belongings(self.api, self.ledger, self.campaign_id, self.namespace)
        self.doors = replace(system_doors(), sql=self.sql, clock=self.clock)
        self.means = MadeMeans(
            api=self.api,
            doors=self.doors,
            reach=self.reach,
            belongings=self.belongings,
            told=self.told.append,
        )

    def platform(self, target: CloudNativePgTarget) -> CloudNativePgPlatform:
        """Return the platform of a target; its superuser's Secret is made."""
        options = ClusterOptions(
            target=target,
            campaign_id=self.campaign_id,
            namespace=self.namespace,
            secret=make_secret(self.belongings),
            settings=SETTINGS,
            restarts=True,
            provisions=False,
        )
        return CloudNativePgPlatform(options, self.ledger, self.means)

    def existing(self, *, allowed: bool) -> tuple[ExistingCluster, EndpointPlatform]:
        """Return the Cluster ``pg`` as the place of an endpoint, and the platform of that."""
        options = ExistingOptions(
            target=CloudNativePgTarget(cluster="pg", allow_existing=allowed),
            namespace=self.namespace,
            settings=SETTINGS,
        )
        cluster = read_cluster(options, self.means)
        secret = secret_of(cluster, self.means)
        place = ExistingCluster(options, self.means, cluster, secret)
        used = EndpointOptions(
            target=endpoint_of(options, secret),
            entrance=place.entrance(),
            campaign_id=self.campaign_id,
            datasets=(DatasetNeeds(name="steelyard_d", tables=False, scripts=False),),
            settings=SETTINGS,
            restarts=allowed,
            clients=4,
        )
        return place, EndpointPlatform(used, self.ledger, self.doors, place)

    def close(self) -> None:
        """Remove everything that was made."""
        self.reach.close()
        self.belongings.remove_all()


def target_of(**given: object) -> CloudNativePgTarget:
    """Return a small Cluster of the image at hand."""
    small = {"image": IMAGE, "storage": "1Gi", "resources": SMALL}
    return CloudNativePgTarget(**{**small, **given})  # type: ignore[arg-type]


def nothing(address: ServerAddress) -> None:
    """Build no data."""
    assert address.service is not None


def values(campaign: Campaign, address: ServerAddress, *names: str) -> list[str]:
    """Return settings as a new session sees them."""
    asked = ", ".join(f"current_setting('{name}')" for name in names)
    return [str(each) for each in campaign.sql.rows(address, f"SELECT {asked}")[0]]


def have_somebodys(campaign: Campaign) -> ObjectRef:
    """Have a Cluster ``pg`` there that is none of the campaign's, and healthy."""
    manifest = dict(
        cluster_manifest(
            target_of(),
            name="pg",
            namespace=campaign.namespace,
            secret=SecretRef(namespace=campaign.namespace, name="none"),
            settings={"shared_buffers": "32MB", "work_mem": "5MB"},
        )
    )
    spec = {k: v for k, v in manifest["spec"].items() if k not in _OF_CAMPAIGNS}
    metadata = {"name": "pg", "namespace": campaign.namespace}
    campaign.api.apply({**manifest, "metadata": metadata, "spec": spec})
    ref = ObjectRef(kind=CLUSTER, name="pg", namespace=campaign.namespace)
    ClusterWait(campaign.api, campaign.clock, campaign.told.append).until(
        ref, lambda state: state.is_healthy, most_s=MADE_WITHIN_S
    )
    return ref


_OF_CAMPAIGNS: Final = frozenset({"superuserSecret", "inheritedMetadata"})


def said(api: KubernetesApi, ref: ObjectRef) -> Mapping[str, object]:
    """Return what a Cluster says of its settings and its restarts."""
    found: Manifest | None = api.read(ref)
    assert found is not None
    annotations = found["metadata"].get("annotations") or {}
    return {**found["spec"]["postgresql"], "restarted": str(annotations)}


def read_ledger(path: Path) -> tuple[list[OnServer], list[InCluster]]:
    """Return what a campaign noted that is dead."""
    lines = path.read_text().splitlines()
    things = [_THINGS.validate_json(line[2:]) for line in lines if line.startswith("s ")]
    placed = [_PLACED.validate_json(line[2:]) for line in lines if line.startswith("c ")]
    return things, placed


class FileLedger(FakeLedger):
    """Writes what is noted into a file, at once."""

    path: Path

    def created(self, thing: Outside) -> None:
        """Note what is about to be made or changed on a server, or in a cluster."""
        if isinstance(thing, OnServer):
            self._write("s", _THINGS.dump_json(thing).decode())
        elif isinstance(thing, InCluster):
            self._write("c", _PLACED.dump_json(thing).decode())
        else:
            super().created(thing)

    def _write(self, kind: str, text: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{kind} {text}\n")


def _die(namespace: str, campaign_id: str, ledger: Path) -> None:
    campaign = Campaign(
        api=KubectlConfiguration().connect(), namespace=namespace, campaign_id=campaign_id
    )
    noted = FileLedger()
    noted.path = ledger
    campaign.ledger = noted
    campaign.belongings._ledger = noted
    _, platform = campaign.existing(allowed=True)
    platform.require_ready()
    state = platform.prepare(PROGRAM, ["data"], lambda address: None)  # noqa: ARG005 - no data
    platform.restore(state, platform.means()[0])
    platform.start(state, PROGRAM, {"work_mem": "9MB", "max_connections": "50"})
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _die(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
