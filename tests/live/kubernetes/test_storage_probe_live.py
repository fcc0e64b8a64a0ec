"""What a storage class can do, measured on a volume of a real cluster."""

import re
import uuid
from collections.abc import Mapping

from fakes.belonging import ToldLedger
from steelyard.core.kubernetes import CLAIM, POD
from steelyard.gateways.doors import system_doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.volumes import StorageQuestion, probe_storage
from steelyard.systems.postgres.engine import PostgresCeilings
from support.kubernetes import IMAGE, left_of

# Each worker has another one: what is left of a campaign is looked for in the whole cluster.
CAMPAIGN_ID = f"storage-live-{uuid.uuid4().hex[:6]}"
_TOOLS = PostgresCeilings((), system_doors())


def rates(text: str) -> Mapping[str, float | None] | None:
    """Return what pg_test_fsync printed."""
    found = _TOOLS.sync_rates(text)
    return None if found is None else {each.method: each.per_s for each in found}


def test_a_volume_of_the_default_class_is_measured(
    cluster_api: KubernetesApi, own_namespace: str
) -> None:
    """Forced writes by each method and single reads past the cache have values.

    Pod, claim and volume are gone afterwards.
    """
    told: list[str] = []
    ledger = ToldLedger()
    belongings = Belongings(cluster_api, ledger, CAMPAIGN_ID, own_namespace)
    facts = probe_storage(
        belongings,
        StorageQuestion(image=IMAGE, storage_class=None),
        sync_rates=rates,
        told=told.append,
    )
    values = {fact.name: fact.value for fact in facts}
    assert re.search(r"fdatasync \d+/s, \d+\.\d\d ms; fsync", values["forced writes of 8 KiB"])
    reads = values["reads of 8 KiB past the page cache"]
    assert re.match(r"median \d+\.\d\d ms, 95 % below \d+\.\d\d ms: \d+ reads", reads)
    assert values["probed on node"]
    assert len({fact.subject for fact in facts}) == 1
    assert told[0].startswith("measuring what a volume of the storage class ")
    assert not cluster_api.list(POD, own_namespace)
    assert not cluster_api.list(CLAIM, own_namespace)
    belongings.remove_all()
    assert left_of(cluster_api, CAMPAIGN_ID) == []
    assert not ledger.now
