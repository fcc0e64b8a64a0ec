"""Objects on a real cluster: made strictly, changed, listed, and gone with what they own."""

from collections.abc import Iterator

import pytest

from steelyard.core.kubernetes import NODE, POD, Kind, ObjectRef, ref_of
from steelyard.core.wording import InputError
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import namespace_in, waiting_pod
from support.kubernetes_contract import ObjectContract, words


@pytest.fixture(scope="module")
def space(cluster_api: KubernetesApi) -> Iterator[str]:
    """Yield a namespace for all tests here, which use names of their own."""
    with namespace_in(cluster_api) as name:
        yield name


def test_the_cluster_says_what_it_is(cluster_api: KubernetesApi) -> None:
    """Version, kinds and raw answers come; a kind of nobody is not known."""
    assert cluster_api.version().startswith("v1.")
    assert cluster_api.knows(POD)
    assert not cluster_api.knows(Kind(api_version="nobody.example/v1", name="Nothing"))
    assert cluster_api.raw("/readyz") == "ok"
    assert cluster_api.list(NODE)[0]["kind"] == "Node"


def test_unknown_fields_are_refused_by_name(cluster_api: KubernetesApi, space: str) -> None:
    """Misspelled, of the wrong type, unknown in a patch: nothing is made or dropped silently."""
    pod = waiting_pod(space, "p")
    with pytest.raises(InputError, match=r"unknown field spec\.restartPolicyy"):
        cluster_api.apply({**pod, "spec": {**pod["spec"], "restartPolicyy": "Never"}})
    with pytest.raises(InputError, match=r"spec\.nodeName"):
        cluster_api.apply({**pod, "spec": {**pod["spec"], "nodeName": 3}})
    with pytest.raises(InputError, match=r"spec\.restartPolicy"):
        cluster_api.apply({**pod, "spec": {**pod["spec"], "restartPolicy": "Sometimes"}})
    assert cluster_api.read(ref_of(pod)) is None
    there = ref_of(cluster_api.apply(words(space, a="1")))
    with pytest.raises(InputError, match="unknown field dataa"):
        cluster_api.patch(there, {"dataa": {"b": "1"}})


def test_what_the_account_may_do(cluster_api: KubernetesApi, space: str) -> None:
    """The account of the tests may do all that campaigns need."""
    for verb, part in (("create", ""), ("get", "exec"), ("get", "portforward"), ("get", "log")):
        assert cluster_api.allowed(verb, POD, space, part)
    assert cluster_api.allowed("delete", POD, space)
    absent = ObjectRef(kind=POD, name="none", namespace=space)
    assert cluster_api.read(absent) is None


class TestCluster(ObjectContract):
    """A real cluster keeps the contract."""
