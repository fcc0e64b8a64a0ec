"""The cluster that does not exist keeps the rules that tests rely on."""

import pytest

from fakes.kubernetes_api import FakeKubernetes, FakeKubernetesApi, FakeLines
from steelyard.core.kubernetes import NAMESPACE, POD, ContainerRef, Manifest, ObjectRef, ref_of
from steelyard.core.wording import InputError, PreflightError, TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes_contract import ObjectContract

WHERE = ContainerRef(namespace="bench", pod="p", container="c")


@pytest.fixture
def api() -> FakeKubernetesApi:
    """Return a cluster with a namespace."""
    api = FakeKubernetesApi()
    api.put(NAMESPACE.manifest("bench"))
    return api


def pod() -> Manifest:
    """Return the manifest of a pod."""
    return POD.manifest(
        "p", namespace="bench", spec={"containers": [{"name": "c", "image": "busybox"}]}
    )


def test_it_has_what_the_real_one_has(api: FakeKubernetesApi) -> None:
    """Every method is there, and an unknown context is an error."""
    finder = FakeKubernetes(clusters={"lab": api})
    assert {name for name in vars(KubernetesApi) if not name.startswith("_")} <= set(dir(api))
    assert finder.connect() is api
    with pytest.raises(InputError, match="nowhere"):
        finder.connect("nowhere")


def test_what_is_read_is_a_copy(api: FakeKubernetesApi) -> None:
    """Changing it does not change the cluster."""
    read = api.read(ref_of(api.apply(pod())))
    assert read is not None
    read["spec"]["containers"] = []
    assert api.get(POD, "p", "bench")["spec"] == pod()["spec"]


def test_a_namespace_goes_with_all_in_it(api: FakeKubernetesApi) -> None:
    """Afterwards nothing can be made in it."""
    api.apply(pod())
    api.delete(ObjectRef(kind=NAMESPACE, name="bench"))
    assert api.list(POD) == ()
    with pytest.raises(PreflightError, match="no namespace bench"):
        api.apply(pod())


def test_a_deleted_object_may_linger(api: FakeKubernetesApi) -> None:
    """It is read as being deleted some times, then it is gone."""
    ref = ref_of(api.apply(pod()))
    api.objects.linger(POD, reads=2)
    api.delete(ref)
    for _ in range(2):
        read = api.read(ref)
        assert read is not None
        assert read["metadata"]["deletionTimestamp"]
    assert api.read(ref) is None


def test_rejections_and_lost_connections(api: FakeKubernetesApi) -> None:
    """A quota's error is raised as given; a lost connection comes back."""
    api.reject(POD, PreflightError("exceeded quota"))
    with pytest.raises(PreflightError, match="exceeded quota"):
        api.apply(pod())
    api.permit()
    api.lose_connection(times=2)
    for _ in range(2):
        with pytest.raises(TargetError, match="cannot be reached"):
            api.version()
    api.lose_connection(verb="apply")
    assert api.version() == "v1.34.4"
    with pytest.raises(TargetError, match="cannot be reached"):
        api.apply(pod())
    api.apply(pod())


def test_lines_come_until_they_end(api: FakeKubernetesApi) -> None:
    """Scripted lines, further ones, a hang-up, and a connection that breaks."""
    api.apply(pod())
    api.on_lines("tail", stream=lambda: FakeLines(["a", "b"], ends=False))
    lines = api.lines(WHERE, ["tail", "-f", "x"])
    each = iter(lines)
    assert [next(each), next(each)] == ["a", "b"]
    lines.say("c")
    lines.end(TargetError("broke"))
    assert next(each) == "c"
    with pytest.raises(TargetError, match="broke"):
        next(each)
    lines.close()
    assert list(lines) == []


class TestFake(ObjectContract):
    """The cluster in memory does what the real one does in ``tests/live/kubernetes``."""

    @pytest.fixture
    def cluster_api(self, api: FakeKubernetesApi) -> FakeKubernetesApi:
        """Return the cluster in memory."""
        return api

    @pytest.fixture
    def space(self) -> str:
        """Return its namespace."""
        return "bench"
