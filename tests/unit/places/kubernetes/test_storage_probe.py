"""The probe of a storage class: what it reads, what it refuses, and that nothing stays."""

from collections.abc import Mapping

import pytest

from fakes.belonging import CAMPAIGN_ID, ToldLedger
from fakes.clock import FakeClock
from fakes.kubernetes_answers import Said
from fakes.kubernetes_api import FakeKubernetesApi, run_pods
from fakes.kubernetes_objects import Object
from steelyard.core.findings import Fact
from steelyard.core.kubernetes import CLAIM, EVENT, POD, ROLE, STORAGE_CLASS
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.volumes import StorageQuestion, probe_manifests, probe_storage

_COPIED = "1+0 records in\n1+0 records out\n8192 bytes (8.2 kB, 8.0 KiB) copied, {} s, 40 MB/s\n"
_IS_DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def _rates(text: str) -> Mapping[str, float | None] | None:
    return {"fdatasync": float(text), "fsync_writethrough": None} if text.strip() else None


def _put_class(api: FakeKubernetesApi, name: str, annotations: dict[str, str]) -> None:
    metadata = {"name": name, "annotations": annotations}
    api.put(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": metadata,
            "provisioner": "p",
        }
    )


@pytest.fixture
def storage(api: FakeKubernetesApi) -> FakeKubernetesApi:
    """Return a cluster with two classes, whose pods run and measure."""
    _put_class(api, "slow", {})
    _put_class(api, "fast", _IS_DEFAULT)
    api.react(POD, run_pods("node2"))
    times = "".join(_COPIED.format(f"{n / 10000:.6f}") for n in range(1, 101))
    api.on_run("pg_test_fsync", said="2000.0\n")
    api.on_run("iflag=direct", said=times)
    return api


def _probe(
    belongings: Belongings, clock: FakeClock, storage_class: str | None = None
) -> dict[str, Fact]:
    question = StorageQuestion(image="i", storage_class=storage_class)
    facts = probe_storage(belongings, question, sync_rates=_rates, told=lambda _: None, clock=clock)
    return {fact.name: fact for fact in facts}


def test_what_a_volume_does_is_told(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock
) -> None:
    """Writes by method, reads by their quantiles, of the class that the cluster takes."""
    facts = _probe(belongings, clock)
    assert facts["forced writes of 8 KiB"].value == "fdatasync 2000/s, 0.50 ms"
    reads = facts["reads of 8 KiB past the page cache"].value
    assert reads.startswith("median 5.05 ms, 95 % below 9.50 ms: 100 reads of one reader")
    assert facts["probed on node"].value == "node2"
    assert {fact.subject for fact in facts.values()} == {"probe of storage class fast"}


def test_pod_and_volume_are_gone_afterwards(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock, ledger: ToldLedger
) -> None:
    """Only the campaign's anchor is left; both carried its labels."""
    _probe(belongings, clock, "slow")
    assert not storage.list(POD, "bench")
    assert not storage.list(CLAIM, "bench")
    applied = {call.label.split()[0]: call.body for call in storage.calls if call.verb == "apply"}
    for kind in ("Pod", "PersistentVolumeClaim"):
        body = applied[kind]
        assert body is not None
        assert body["metadata"]["labels"][ROLE] == "probe"
    claim = applied["PersistentVolumeClaim"]
    assert claim is not None
    assert claim["spec"]["storageClassName"] == "slow"
    assert list(ledger.now) == [f"ConfigMap bench/steelyard-{CAMPAIGN_ID} in lab"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said(exit_status=127, stderr="the image has no pg_test_fsync"), "has no pg_test_fsync"),
        (Said(stdout=" \n"), "printed no rates"),
        (Said(takes_s=100.0), "did not end within"),
    ],
)
def test_what_cannot_be_measured_says_why(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock, said: Said, why: str
) -> None:
    """The other test is taken all the same."""
    storage.on_run("pg_test_fsync", said=said)
    facts = _probe(belongings, clock)
    value = facts["forced writes of 8 KiB"].value
    assert value.startswith("not known: ")
    assert why in value
    assert facts["reads of 8 KiB past the page cache"].value.startswith("median")


def test_reads_that_a_file_system_refuses_say_so(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock
) -> None:
    """A tmpfs takes no direct reads, and its words are in the fact."""
    storage.on_run("iflag=direct", said="dd: failed to open '/v/f': Invalid argument\n")
    value = _probe(belongings, clock)["reads of 8 KiB past the page cache"].value
    assert value.startswith("not known: the reads did not work: dd: failed to open")


def test_a_class_that_is_not_there_is_refused(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock, ledger: ToldLedger
) -> None:
    """With the names of those there are, and before anything is made."""
    with pytest.raises(PreflightError, match="no storage class nvme; the cluster has fast, slow"):
        _probe(belongings, clock, "nvme")
    assert not ledger.placements


def test_a_cluster_without_a_default_wants_a_name(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock
) -> None:
    """Nobody guesses which class was meant."""
    storage.lose(STORAGE_CLASS, "fast")
    with pytest.raises(PreflightError, match="no default storage class; the cluster has slow"):
        _probe(belongings, clock)


def test_who_may_not_see_classes_is_believed(
    belongings: Belongings, storage: FakeKubernetesApi, clock: FakeClock
) -> None:
    """An account of one namespace names a class, or takes the default unseen."""
    storage.refuse("list", STORAGE_CLASS)
    facts = _probe(belongings, clock)
    assert facts["probed on node"].subject == "probe of default storage class"
    _, claim = probe_manifests(
        StorageQuestion(image="i", storage_class=None), name="n", storage_class=None
    )
    assert "storageClassName" not in claim["spec"]


def test_a_claim_that_gets_no_volume_is_told_in_the_provisioners_words(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """The pod says only that it waits; the claim's events say why."""
    _put_class(api, "slow", {})

    def wait(pod: Object) -> None:
        pod["status"] = {"phase": "Pending"}
        name = pod["metadata"]["name"]
        for number, message in enumerate(("first", "disk quota of the project is full")):
            api.put(
                {
                    "apiVersion": EVENT.api_version,
                    "kind": EVENT.name,
                    "metadata": {"name": f"e{number}", "namespace": "bench"},
                    "type": "Warning",
                    "reason": "ProvisioningFailed",
                    "message": message,
                    "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
                    "involvedObject": {"kind": "PersistentVolumeClaim", "name": name},
                }
            )

    api.react(POD, wait)
    with pytest.raises(PreflightError, match="gets no volume: ProvisioningFailed: disk quota"):
        _probe(belongings, clock, "slow")
    assert not api.list(CLAIM, "bench")


def test_the_probe_passes_the_restricted_standard() -> None:
    """It runs where generators may."""
    pod, _ = probe_manifests(
        StorageQuestion(image="i", storage_class="s"), name="n", storage_class="s"
    )
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (spec["activeDeadlineSeconds"], spec["restartPolicy"]) == (600, "Never")
