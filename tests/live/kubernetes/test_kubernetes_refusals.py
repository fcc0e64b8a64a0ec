"""What goes wrong with a real cluster, told as a fact with the way out."""

import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from steelyard.core.kubernetes import NODE, POD, ContainerRef, ref_of
from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.gateways.kubernetes import streams
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from support.kubernetes import (
    kubeconfig_of,
    own_user_and_cluster,
    start_pod,
    until,
    waiting_pod,
    write_kubeconfig,
)
from support.proxy import Proxy, proxy_to

READS_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def connected(kubeconfig: Path, context: str | None = None) -> KubernetesApi:
    """Return the cluster of a kubeconfig."""
    return KubectlConfiguration(environment={"KUBECONFIG": str(kubeconfig)}).connect(context)


def proxied(api: KubernetesApi, directory: Path, port: int) -> KubernetesApi:
    """Return the same cluster through a proxy, or skip where it is not on this machine."""
    user, cluster = own_user_and_cluster()
    if urlsplit(api.server).hostname != "127.0.0.1":
        pytest.skip("the API is not on this machine")
    server = f"https://127.0.0.1:{port}"
    return connected(write_kubeconfig(directory / "proxied", {**cluster, "server": server}, user))


@pytest.fixture
def api_port(cluster_api: KubernetesApi) -> int:
    """Return the port of the API."""
    return urlsplit(cluster_api.server).port or 443


def test_a_missing_verb_is_named(
    cluster_api: KubernetesApi, own_namespace: str, tmp_path: Path
) -> None:
    """For objects, commands and ports: verb, resource, namespace, and where the role is printed."""
    where = start_pod(cluster_api, waiting_pod(own_namespace, "p"))
    limited = connected(kubeconfig_of(cluster_api, own_namespace, [READS_PODS], tmp_path))
    assert limited.namespace == own_namespace
    within = f"in the namespace {own_namespace}"
    assert [ref_of(pod).name for pod in limited.list(POD, own_namespace)] == ["p"]
    tries = {
        f"may not patch pods {within}": lambda: limited.apply(waiting_pod(own_namespace, "q")),
        f"may not delete pods {within}": lambda: limited.delete(
            ref_of(waiting_pod(own_namespace, "p"))
        ),
        f"may not (get|create) pods/exec {within}": lambda: limited.run(
            where, ["true"], timeout_s=60
        ),
        f"may not get pods/portforward {within}": lambda: limited.forward(where, 5432),
        f"may not get pods/log {within}": lambda: limited.logs(where),
        "may not list nodes in the whole cluster": lambda: limited.list(NODE),
    }
    for message, attempt in tries.items():
        with pytest.raises(PrivilegeError, match=message) as caught:
            attempt()
        assert "steelyard kubernetes rbac" in caught.value.hint
    assert limited.allowed("list", POD, own_namespace)
    assert not limited.allowed("get", POD, own_namespace, "exec")


def test_credentials_that_are_not_accepted(cluster_api: KubernetesApi, tmp_path: Path) -> None:
    """They are named by their context, and the token is not told."""
    _, cluster = own_user_and_cluster()
    path = write_kubeconfig(tmp_path / "config", cluster, {"token": "planted-token"})
    with pytest.raises(PrivilegeError, match="credentials of the context limited") as caught:
        connected(path).list(POD, "default")
    assert "planted-token" not in str(caught.value) + caught.value.hint


def test_a_cluster_that_is_away(cluster_api: KubernetesApi, tmp_path: Path, api_port: int) -> None:
    """Nobody listens, the name is unknown, the certificate is another's: each in words."""
    user, cluster = own_user_and_cluster()
    proxy = Proxy(api_port)
    proxy.close()
    away = {
        f"https://127.0.0.1:{proxy.port}": "connection refused",
        "https://no-such-host.invalid": "its name is not known",
    }
    for server, message in away.items():
        path = write_kubeconfig(tmp_path / "config", {**cluster, "server": server}, user)
        with pytest.raises(TargetError, match=f"{server} cannot be reached: .*{message}"):
            connected(path).version()
    stranger = {name: value for name, value in cluster.items() if "authority" not in name}
    path = write_kubeconfig(tmp_path / "config", stranger, user)
    with pytest.raises(TargetError, match="its certificate is not trusted"):
        connected(path).version()


def _flow_after(proxy: Proxy, accepted: int) -> None:
    """Let the proxy work again when it has refused some connections."""
    until(lambda: proxy.accepted >= accepted, "the connection is tried again")
    proxy.flow()


def test_a_lost_connection_is_made_again(
    cluster_api: KubernetesApi, own_namespace: str, tmp_path: Path, api_port: int
) -> None:
    """Connections that are cut, reset and refused for a while cost nothing but time."""
    with proxy_to(api_port) as proxy:
        api = proxied(cluster_api, tmp_path, proxy.port)
        pod = waiting_pod(own_namespace, "p")
        assert api.version()
        proxy.cut()
        ref = ref_of(api.apply(pod))
        proxy.reset()
        assert api.read(ref) is not None
        accepted = proxy.accepted
        proxy.refuse = True
        proxy.cut()
        helper = threading.Thread(target=_flow_after, args=(proxy, accepted + 2))
        helper.start()
        assert api.delete(ref, grace_s=0)
        helper.join()
        assert proxy.accepted >= accepted + 3


def test_a_command_cut_off_is_not_repeated(
    cluster_api: KubernetesApi, waiting: ContainerRef, tmp_path: Path, api_port: int
) -> None:
    """Nobody knows how it ended: it is an error, it ran once, and it is killed."""
    with proxy_to(api_port) as proxy:
        api = proxied(cluster_api, tmp_path, proxy.port)
        lines = api.lines(waiting, ["sh", "-c", "echo there; sleep 6464"])
        each = iter(lines)
        assert next(each) == "there"
        proxy.cut()
        with pytest.raises(TargetError, match=r"connection to Pod .*waiting was lost"):
            next(each)
    script = ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]
    until(
        lambda: "sleep 6464" not in cluster_api.run(waiting, script, timeout_s=60).stdout,
        "the command is killed",
    )


def test_silence_is_told_from_an_api_that_is_away(
    cluster_api: KubernetesApi,
    waiting: ContainerRef,
    tmp_path: Path,
    api_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command that says nothing is waited for, because pings are answered; a dead way is not."""
    monkeypatch.setattr(streams, "_QUIET_S", 0.2)
    with proxy_to(api_port) as proxy:
        api = proxied(cluster_api, tmp_path, proxy.port)
        lines = iter(api.lines(waiting, ["sh", "-c", "sleep 3; echo there; sleep 600"]))
        assert next(lines) == "there"
        proxy.stall()
        with pytest.raises(TargetError, match=r"connection to Pod .*waiting was lost"):
            next(lines)
