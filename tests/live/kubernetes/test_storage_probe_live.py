"""What a storage class can do, measured on a volume of a real cluster."""

import re
import uuid
from collections.abc import Iterator, Mapping

import pytest

from fakes.generator_pods import ToldLedger
from steelyard.core.kubernetes import CLAIM, POD
from steelyard.core.wording import PreflightError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import SystemProcesses
from steelyard.gateways.sql import PsycopgSql
from steelyard.places.kubernetes import pods as waiting
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.volumes import StorageQuestion, probe_storage
from steelyard.systems.postgres.engine import PostgresCeilings
from support.kubernetes import IMAGE, left_of, namespace_in

# Each worker has another one: what is left of a campaign is looked for in the whole cluster.
CAMPAIGN_ID = f"storage-live-{uuid.uuid4().hex[:6]}"
_TOOLS = PostgresCeilings((), processes=SystemProcesses(), sql=PsycopgSql())


def rates(text: str) -> Mapping[str, float | None] | None:
    """Return what pg_test_fsync printed."""
    found = _TOOLS.sync_rates(text)
    return None if found is None else {each.method: each.per_s for each in found}


@pytest.fixture(scope="module")
def belongings(cluster_api: KubernetesApi) -> Iterator[Belongings]:
    """Yield what a campaign has in a namespace; afterwards nothing is left."""
    ledger = ToldLedger()
    with namespace_in(cluster_api) as namespace:
        yield (made := Belongings(cluster_api, ledger, CAMPAIGN_ID, namespace))
        assert not cluster_api.list(POD, namespace)
        assert not cluster_api.list(CLAIM, namespace)
        made.remove_all()
        assert left_of(cluster_api, CAMPAIGN_ID) == []
        assert not ledger.now


def test_a_volume_of_the_default_class_is_measured(belongings: Belongings) -> None:
    """Forced writes by each method and single reads past the cache have values."""
    told: list[str] = []
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


def test_a_class_that_is_not_there_is_told_with_those_there_are(belongings: Belongings) -> None:
    """Nothing is made for it."""
    question = StorageQuestion(image=IMAGE, storage_class="no-such-class")
    with pytest.raises(PreflightError, match="no storage class no-such-class; the cluster has"):
        probe_storage(belongings, question, sync_rates=rates, told=lambda _: None)


def test_a_claim_without_a_volume_is_told(
    belongings: Belongings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class whose provisioner is not there binds nothing, and the cluster's words say so."""
    monkeypatch.setattr(waiting, "_PASSES_S", 2.0)
    monkeypatch.setattr(waiting, "_READY_S", 60.0)
    name = belongings.name("unbound")
    belongings.make(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "namespace": ""},
            "provisioner": "example.com/nobody",
            "volumeBindingMode": "Immediate",
        }
    )
    question = StorageQuestion(image=IMAGE, storage_class=name)
    with pytest.raises(PreflightError, match="unbound immediate PersistentVolumeClaims"):
        probe_storage(belongings, question, sync_rates=rates, told=lambda _: None)
