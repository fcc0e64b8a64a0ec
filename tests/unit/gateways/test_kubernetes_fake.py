"""The cluster that does not exist keeps the rules that tests rely on."""

import pytest

from fakes.kubernetes_api import FakeKubernetes, FakeKubernetesApi, FakeLines, Said, run_pods
from steelyard.core.kubernetes import (
    CLUSTER,
    CONFIG_MAP,
    NAMESPACE,
    POD,
    ContainerRef,
    Manifest,
    ObjectRef,
    ref_of,
)
from steelyard.core.wording import (
    InputError,
    MeasurementError,
    PreflightError,
    PrivilegeError,
    TargetError,
)
from steelyard.gateways.kubernetes.api import Kubernetes, KubernetesApi
from support.kubernetes_contract import ObjectContract

WHERE = ContainerRef(namespace="bench", pod="p", container="c")


@pytest.fixture
def api() -> FakeKubernetesApi:
    """Return a cluster with a namespace."""
    api = FakeKubernetesApi()
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
    return api


def pod(name: str = "p", **metadata: object) -> Manifest:
    """Return the manifest of a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "bench", **metadata},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }


def settings(**words: str) -> Manifest:
    """Return the manifest of a ConfigMap."""
    metadata = {"name": "words", "namespace": "bench"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": words}


def test_it_is_what_the_protocol_says(api: FakeKubernetesApi) -> None:
    """Every method of the protocols is there, and an unknown context is an error."""
    finder = FakeKubernetes(clusters={"lab": api})
    for protocol, fake in ((KubernetesApi, api), (Kubernetes, finder)):
        asked = {name for name in vars(protocol) if not name.startswith("_")}
        assert asked <= set(dir(fake))
    assert finder.connect() is api
    with pytest.raises(InputError, match="nowhere"):
        finder.connect("nowhere")


def test_applied_objects_get_what_the_server_gives(api: FakeKubernetesApi) -> None:
    """Uid, version and time at birth; a change moves the version, the same again does not."""
    made = api.apply(settings(a="1"))
    again = api.apply(settings(a="1"))
    changed = api.apply(settings(a="2"))
    born = made["metadata"]
    assert born["uid"]
    assert born["creationTimestamp"].endswith("Z")
    assert again["metadata"] == born
    assert changed["metadata"]["uid"] == born["uid"]
    assert changed["metadata"]["resourceVersion"] != born["resourceVersion"]
    assert api.labels_of("apply") == ["ConfigMap bench/words"] * 3


def test_what_is_read_is_a_copy(api: FakeKubernetesApi) -> None:
    """Changing it does not change the cluster."""
    ref = ref_of(api.apply(settings(a="1")))
    read = api.read(ref)
    assert read is not None
    read["data"]["a"] = "2"
    assert api.get(CONFIG_MAP, "words", "bench")["data"] == {"a": "1"}


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


def test_the_cluster_reacts(api: FakeKubernetesApi) -> None:
    """Pods run when they were applied; a reaction of the test may do anything else."""
    api.react(POD, run_pods(node="node2"))
    made = api.apply(pod())
    assert made["status"]["phase"] == "Running"
    assert made["spec"]["nodeName"] == "node2"
    seen: list[dict[str, dict[str, str]]] = []
    api.react(POD, seen.append)
    api.patch(ref_of(made), {"metadata": {"labels": {"a": "b"}}})
    assert seen[0]["metadata"]["labels"] == {"a": "b"}


def test_what_is_unknown_is_refused(api: FakeKubernetesApi) -> None:
    """A kind that is not installed, and a field that a kind has not."""
    api.kinds.discard(CLUSTER)
    cluster = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster"}
    assert not api.knows(CLUSTER)
    with pytest.raises(PreflightError, match="no kind Cluster"):
        api.apply({**cluster, "metadata": {"name": "pg", "namespace": "bench"}})
    api.unknown_fields["Pod"] = {"imagee"}
    wrong = pod()
    wrong["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(InputError, match="imagee"):
        api.apply(wrong)


def test_an_account_lacks_a_verb(api: FakeKubernetesApi) -> None:
    """It is named with resource and namespace, and `allowed` says the same."""
    api.apply(pod())
    api.refuse("create", POD, namespace="bench", part="exec")
    assert not api.allowed("create", POD, "bench", "exec")
    assert api.allowed("create", POD, "bench")
    with pytest.raises(PrivilegeError, match="may not create pods/exec in the namespace bench"):
        api.run(WHERE, ["true"], timeout_s=1)
    api.refuse("delete", POD)
    with pytest.raises(PrivilegeError, match="may not delete pods"):
        api.delete(ref_of(pod()))
    api.permit()
    assert api.delete(ref_of(pod()))


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


def test_commands_in_containers(api: FakeKubernetesApi) -> None:
    """The last answer that fits is given; a slow one is not waited for; pods must be there."""
    with pytest.raises(TargetError, match="Pod bench/p is not there"):
        api.run(WHERE, ["true"], timeout_s=1)
    api.apply(pod())
    api.on_run("pgbench", said="any")
    api.on_run("pgbench", "--version", said=Said(stdout="pgbench 15", exit_status=3))
    done = api.run(WHERE, ["sh", "-c", "pgbench --version"], timeout_s=1, stdin="in")
    assert (done.stdout, done.exit_status) == ("pgbench 15", 3)
    assert api.run(WHERE, ["pgbench", "-c1"], timeout_s=1).stdout == "any"
    assert api.ran[0].stdin == "in"
    api.on_run("sleep", said=Said(takes_s=9))
    before = api.clock.monotonic()
    with pytest.raises(MeasurementError, match="sleep"):
        api.run(WHERE, ["sleep", "9"], timeout_s=5)
    assert api.clock.monotonic() - before == 5


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


def test_forwards_logs_and_raw_answers(api: FakeKubernetesApi) -> None:
    """A forward is open inside its context; logs and paths answer what was scripted."""
    api.apply(pod())
    api.ports["p", 5432] = 15432
    with api.forward(WHERE, 5432) as port, api.forward(WHERE, 1) as other:
        assert port == 15432
        assert api.open_forwards == [15432, other]
    assert api.open_forwards == []
    api.container_logs["p"] = "one\ntwo\n"
    assert api.logs(WHERE, lines=1) == "two\n"
    api.answers["/version"] = "{}"
    assert api.raw("/version") == "{}"
    with pytest.raises(TargetError, match="/nothing"):
        api.raw("/nothing")


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
