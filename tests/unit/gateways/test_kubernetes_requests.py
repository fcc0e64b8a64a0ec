"""Requests to the API: what passes is waited for, what does not is told at once."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fakes.clock import FakeClock
from steelyard.core.kubernetes import CLUSTER, CONFIG_MAP, NODE, POD, ContainerRef, ObjectRef
from steelyard.core.wording import PreflightError, PrivilegeError, SteelyardError, TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.requests import by_kubeconfig
from support.proxy import Proxy, proxy_to

TOKEN = "Bearer planted-token"
VERSION = {"gitVersion": "v1.34.4"}
CORE = {
    "resources": [
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/exec", "kind": "PodExecOptions", "namespaced": True},
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "nodes", "kind": "Node", "namespaced": False},
    ]
}


@dataclass
class Api:
    """A server that answers what a test says.

    Attributes:
        answers: By path: status, body and headers, each given once; the last again and again.
        asked: Method, path, headers and body of each request.
    """

    port: int = 0
    answers: dict[str, list[tuple[int, Any, dict[str, str]]]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)

    def on(self, path: str, status: int, body: Any = "", **headers: str) -> None:
        """Answer a path, after what was said before for it."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.setdefault(path, []).append((status, body, named))

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length) or "null")
        headers = {name.title(): value for name, value in handler.headers.items()}
        self.asked.append((handler.command, handler.path, headers, body))
        said = self.answers.get(handler.path.partition("?")[0]) or [(404, "not found", {})]
        status, content, further = said.pop(0) if len(said) > 1 else said[0]
        text = content if isinstance(content, str) else json.dumps(content)
        handler.send_response(status)
        for name, value in {**further, "Content-Length": str(len(text.encode()))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def http() -> Iterator[Api]:
    """Yield a server of HTTP on a free port."""
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            api.answer(self)

        do_GET = do_PATCH = do_DELETE = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    api.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield api
    server.shutdown()
    server.server_close()


def cluster(port: int, clock: FakeClock) -> KubernetesApi:
    """Return the API at a port."""
    server = {"name": "lab", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    document = {
        "clusters": [server],
        "users": [{"name": "u", "user": {"token": TOKEN.removeprefix("Bearer ")}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "u"}}],
    }
    access = by_kubeconfig("lab", document, "bench")
    return KubernetesApi(access, clock=clock)


@pytest.fixture
def api(http: Api) -> KubernetesApi:
    """Return the API of a server that tells its kinds."""
    http.on("/api/v1", 200, CORE)
    return cluster(http.port, FakeClock())


def test_a_busy_api_is_asked_again_when_it_says(http: Api) -> None:
    """After the seconds of its header, or growing ones where it names none."""
    clock = FakeClock()
    http.on("/version", 429, "busy", Retry_After="7")
    http.on("/version", 503, "starting")
    http.on("/version", 200, VERSION)
    assert cluster(http.port, clock).version() == "v1.34.4"
    assert clock.slept[0] == 7.0
    assert 0 < clock.slept[1] < 7.0


def test_a_failing_api_is_given_up(http: Api) -> None:
    """Within a bounded time, with what it said; each time it was asked as the account."""
    clock = FakeClock()
    http.on("/version", 500, {"message": "Internal error occurred: boom"})
    with pytest.raises(TargetError, match="status 500: Internal error occurred: boom"):
        cluster(http.port, clock).version()
    assert 5.0 < sum(clock.slept) <= 20.0
    assert len(http.asked) == len(clock.slept) + 1
    assert {headers["Authorization"] for _, _, headers, _ in http.asked} == {TOKEN}


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
def test_a_refusal_is_not_asked_again(http: Api, status: int) -> None:
    """It would be refused again."""
    clock = FakeClock()
    http.on("/readyz", status, "no")
    with pytest.raises(SteelyardError):
        cluster(http.port, clock).raw("/readyz")
    assert clock.slept == []
    assert len(http.asked) == 1


def test_an_api_that_never_answered_is_given_up_soon() -> None:
    """A wrong address is told within seconds."""
    closed = Proxy(1)
    closed.close()
    clock = FakeClock()
    with pytest.raises(TargetError, match="cannot be reached: connection refused") as caught:
        cluster(closed.port, clock).version()
    assert 0 < sum(clock.slept) < 10
    assert "kubectl --context lab version" in caught.value.hint
    assert "planted" not in caught.value.message + caught.value.hint


def test_an_api_that_went_away_is_waited_for(http: Api) -> None:
    """Much longer, because it answered before; and then it is used again."""
    clock = FakeClock()
    http.on("/version", 200, VERSION)
    with proxy_to(http.port) as proxy:
        api = cluster(proxy.port, clock)
        api.version()
        proxy.cut()
        assert api.version() == "v1.34.4"
        proxy.refuse = True
        proxy.cut()
        with pytest.raises(TargetError, match="cannot be reached"):
            api.version()
        assert 60 < sum(clock.slept) <= 120
        proxy.flow()
        assert api.version() == "v1.34.4"


def test_kinds_are_asked_for_once_and_absent_ones_again(http: Api, api: KubernetesApi) -> None:
    """A kind that is installed later is found then."""
    http.on("/apis/postgresql.cnpg.io/v1", 404, "404 page not found")
    cnpg = {"resources": [{"name": "clusters", "kind": "Cluster", "namespaced": True}]}
    http.on("/apis/postgresql.cnpg.io/v1", 200, cnpg)
    assert api.knows(POD)
    assert api.knows(CONFIG_MAP)
    assert [api.knows(CLUSTER) for _ in range(3)] == [False, True, True]
    paths = [path for _, path, _, _ in http.asked]
    assert paths == ["/api/v1", *["/apis/postgresql.cnpg.io/v1"] * 2]


def test_an_absent_kind_is_no_absent_object(http: Api, api: KubernetesApi) -> None:
    """Reading an object of it is an error that names the kind; an absent object is None."""
    status = {"message": 'pods "p" not found', "details": {"name": "p", "kind": "pods"}}
    http.on("/api/v1/namespaces/bench/pods/p", 404, status)
    assert api.read(ObjectRef(kind=POD, name="p", namespace="bench")) is None
    assert not api.delete(ObjectRef(kind=POD, name="p", namespace="bench"))
    with pytest.raises(PreflightError, match=r"no kind Cluster \(postgresql\.cnpg\.io/v1\)"):
        api.read(ObjectRef(kind=CLUSTER, name="pg", namespace="bench"))


def test_objects_are_applied_strictly_and_by_name(http: Api, api: KubernetesApi) -> None:
    """As the field manager steelyard, with force; a dry run says so; a patch is a merge patch."""
    path = "/api/v1/namespaces/bench/configmaps/words"
    http.on(path, 200, {"kind": "ConfigMap"})
    metadata = {"name": "words", "namespace": "bench"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    api.apply(manifest)
    api.apply(manifest, dry_run=True)
    api.patch(ObjectRef(kind=CONFIG_MAP, name="words", namespace="bench"), {"data": None})
    applied, dry, patched = http.asked[1:]
    assert applied[:2] == (
        "PATCH",
        f"{path}?fieldManager=steelyard&fieldValidation=Strict&force=true",
    )
    assert applied[2]["Content-Type"] == "application/apply-patch+yaml"
    assert applied[3] == manifest
    assert dry[1].endswith("&dryRun=All")
    assert patched[1] == f"{path}?fieldManager=steelyard&fieldValidation=Strict"
    assert patched[2]["Content-Type"] == "application/merge-patch+json"
    assert patched[3] == {"data": None}


def test_deleting_takes_what_is_owned(http: Api, api: KubernetesApi) -> None:
    """In the foreground, with the grace that was asked for."""
    http.on("/api/v1/namespaces/bench/pods/p", 200, {})
    assert api.delete(ObjectRef(kind=POD, name="p", namespace="bench"), grace_s=0)
    assert http.asked[-1][3] == {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}


def test_lists_name_what_they_hold(http: Api, api: KubernetesApi) -> None:
    """Items of a list come without kind; all namespaces where none is given."""
    http.on("/api/v1/pods", 200, {"items": [{"metadata": {"name": "p", "namespace": "x"}}]})
    http.on("/api/v1/nodes", 200, {"items": []})
    found = api.list(POD, labels={"a": "1", "b": "2"})
    assert (found[0]["kind"], found[0]["apiVersion"]) == ("Pod", "v1")
    assert http.asked[-1][1] == "/api/v1/pods?labelSelector=a%3D1%2Cb%3D2"
    assert api.list(NODE, "ignored") == ()


def test_what_an_account_may_do_is_asked_for(http: Api, api: KubernetesApi) -> None:
    """With group, plural, part and namespace; a cluster's kind has no namespace."""
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    http.on(review, 201, {"status": {"allowed": True}})
    http.on(review, 201, {"status": {}})
    assert api.allowed("create", POD, "bench", "exec")
    assert not api.allowed("list", NODE, "bench")
    wanted = [body["spec"]["resourceAttributes"] for _, _, _, body in http.asked[1:]]
    assert wanted[0] == {
        "verb": "create",
        "group": "",
        "version": "v1",
        "resource": "pods",
        "subresource": "exec",
        "namespace": "bench",
    }
    assert wanted[1]["namespace"] == ""


@pytest.mark.parametrize(
    ("version", "lacking"), [("v1.34.4", "get"), ("v1.35.0", "create"), ("v2.0.1+x", "create")]
)
def test_a_forward_says_at_once_what_is_missing(
    http: Api, api: KubernetesApi, version: str, lacking: str
) -> None:
    """One verb before Kubernetes 1.35, another one too since then."""
    http.on("/version", 200, {"gitVersion": version})
    http.on("/api/v1/namespaces/bench/pods/p", 200, {"kind": "Pod"})
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    if lacking == "create":
        http.on(review, 201, {"status": {"allowed": True}})
    http.on(review, 201, {"status": {}})
    where = ContainerRef(namespace="bench", pod="p", container="c")
    with pytest.raises(PrivilegeError, match=f"may not {lacking} pods/portforward"):
        api.forward(where, 5432)


def test_a_refused_command_is_told_as_any_refusal(http: Api, api: KubernetesApi) -> None:
    """The handshake of a connection to a container can be refused like a request."""
    message = (
        'pods "p" is forbidden: User "u" cannot get resource "pods/exec" in API group "" in the '
        'namespace "bench"'
    )
    http.on("/api/v1/namespaces/bench/pods/p/exec", 403, {"message": message})
    where = ContainerRef(namespace="bench", pod="p", container="c")
    with pytest.raises(PrivilegeError, match="may not get pods/exec in the namespace bench"):
        api.run(where, ["true"], timeout_s=5)
    _, path, headers, _ = http.asked[-1]
    assert "container=c&stdin=true&stdout=true&stderr=true&command=sh" in path
    assert headers["Authorization"] == TOKEN


def test_a_command_that_never_began_is_tried_again(http: Api) -> None:
    """A busy API is asked again; a lost answer is not, for nobody knows whether it began."""
    clock = FakeClock()
    api = cluster(http.port, clock)
    http.on("/api/v1", 200, CORE)
    path = "/api/v1/namespaces/bench/pods/p/exec"
    http.on(path, 429, "busy")
    http.on(path, 400, {"message": "container c is not valid for pod p"})
    where = ContainerRef(namespace="bench", pod="p", container="c")
    with pytest.raises(TargetError, match="container c is not valid"):
        api.run(where, ["true"], timeout_s=5)
    assert len(clock.slept) == 1
    with proxy_to(http.port) as proxy:
        cut = cluster(proxy.port, clock)
        assert cut.knows(POD)
        proxy.refuse = True
        accepted = proxy.accepted
        with pytest.raises(TargetError, match="cannot be reached"):
            cut.run(where, ["true"], timeout_s=5)
        assert proxy.accepted == accepted + 1


def test_a_creation_tells_what_is_there_already(http: Api, api: KubernetesApi) -> None:
    """It is sent to the kind and not to the name, strictly, and takes nothing over."""
    path = "/api/v1/namespaces/bench/configmaps"
    http.on(path, 201, {"kind": "ConfigMap"})
    http.on(path, 409, {"reason": "AlreadyExists", "message": "exists"})
    http.on(path, 409, {"reason": "Conflict", "message": "changed"})
    wanted = CONFIG_MAP.manifest("a", namespace="bench")
    assert api.create(wanted) == {"kind": "ConfigMap"}
    assert api.create(wanted) is None
    with pytest.raises(TargetError, match="changed"):
        api.create(wanted)
    posted = [(asked, body) for verb, asked, _, body in http.asked if verb == "POST"]
    assert posted[0] == (f"{path}?fieldManager=steelyard&fieldValidation=Strict", wanted)
