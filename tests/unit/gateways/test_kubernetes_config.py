"""Clusters are found as kubectl finds them, and what goes wrong with credentials is told."""

import base64
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from steelyard.core.wording import InputError, PrivilegeError
from steelyard.gateways.kubernetes.connecting import (
    KubectlConfiguration,
    default_paths,
    read_kubeconfig,
)

SECRET = "planted-token"


def write(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a kubeconfig."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(dict(document), file)
    return path


def config(name: str, *, current: str = "", server: str = "", **user: Any) -> dict[str, Any]:
    """Return a kubeconfig of one context."""
    cluster = {"server": server or f"https://{name}.example:6443"}
    return {
        "current-context": current,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def finder(*paths: Path, **environment: str) -> KubectlConfiguration:
    """Return what finds clusters in these files."""
    named = {"KUBECONFIG": os.pathsep.join(str(path) for path in paths)} if paths else {}
    return KubectlConfiguration(environment={**named, **environment})


def plugin(directory: Path, script: str, **words: Any) -> dict[str, Any]:
    """Return a user whose credentials a program makes."""
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(path), "args": [], **words}}


def credential(**status: str) -> str:
    """Return a script that prints a credential, another number each time."""
    said = json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
    )
    return f"echo x >> calls; echo '{said}' | sed s/NUMBER/$(wc -l < calls)/"


def python(script: str, **environment: str) -> str:
    """Return what a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


def test_several_files_are_joined_and_the_first_wins(tmp_path: Path) -> None:
    """Absent and empty files are passed over; so is a name that an earlier file has."""
    one = write(tmp_path / "one", config("a", server="https://first.example"))
    (tmp_path / "empty").write_text("")
    two = write(tmp_path / "two", config("a", current="b", server="https://second.example"))
    three = write(tmp_path / "three", config("b", current="a", token=SECRET))
    paths = (one, tmp_path / "absent", tmp_path / "empty", two, three)
    found = finder(*paths)
    assert found.connect().context == "b"
    assert found.connect("a").server == "https://first.example"
    assert read_kubeconfig(paths).files == (one, tmp_path / "empty", two, three)


def test_the_home_has_the_kubeconfig_where_none_is_named(tmp_path: Path) -> None:
    """As ``.kube/config``; its context may name a namespace."""
    document = config("a", current="a")
    document["contexts"][0]["context"]["namespace"] = "bench"
    write(tmp_path / ".kube/config", document)
    api = finder(HOME=str(tmp_path)).connect()
    assert (api.context, api.namespace, api.is_inside) == ("a", "bench", False)
    assert default_paths({"KUBECONFIG": "", "HOME": "/h"}) == (Path("/h/.kube/config"),)


def test_contexts_that_are_not_there_are_errors(tmp_path: Path) -> None:
    """No file, no current context, an unknown name beside those there are, no cluster."""
    with pytest.raises(InputError, match=r"there is no kubeconfig: .*absent does not exist"):
        finder(tmp_path / "absent").connect()
    path = write(tmp_path / "config", config("a"))
    with pytest.raises(InputError, match="has no current context"):
        finder(path).connect()
    with pytest.raises(InputError, match="no context 'b' in the kubeconfig; it has: a"):
        finder(path).connect("b")
    broken = {**config("a", current="a"), "clusters": []}
    with pytest.raises(InputError, match="context a cannot be used"):
        finder(write(path, broken)).connect()


@pytest.mark.parametrize(
    "text", [f"users: [{SECRET}", f"- {SECRET}", f"users: {SECRET}", f"users: [{{user: {SECRET}}}]"]
)
def test_a_damaged_file_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    """Its text may hold a key."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="config") as caught:
        finder(path).connect()
    assert SECRET not in caught.value.message + caught.value.hint


def test_paths_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates, keys, tokens and plugins, wherever the command is started."""
    monkeypatch.chdir("/")
    document = config("a", current="a", tokenFile="token", **{"client-key": "keys/key"})
    document["users"][0]["user"]["exec"] = {"command": "./bin/plugin"}
    document["clusters"][0]["cluster"]["certificate-authority"] = "/etc/ca.crt"
    read = read_kubeconfig((write(tmp_path / "sub/config", document),))
    user = read.named("users")[0]["user"]
    assert user["tokenFile"] == str(tmp_path / "sub/token")
    assert user["client-key"] == str(tmp_path / "sub/keys/key")
    assert Path(user["exec"]["command"]) == tmp_path / "sub/bin/plugin"
    assert read.named("clusters")[0]["cluster"]["certificate-authority"] == "/etc/ca.crt"


def test_embedded_keys_are_never_on_a_disk(tmp_path: Path) -> None:
    """They become files in memory, which have the content and end with their user."""
    coded = base64.b64encode(b"the key").decode()
    path = write(tmp_path / "config", config("a", **{"client-key-data": coded}))
    with ExitStack() as memory:
        chosen = read_kubeconfig((path,)).for_context("a", memory)
        user = chosen["users"][0]["user"]
        assert set(user) == {"client-key"}
        assert Path(user["client-key"]).read_bytes() == b"the key"
        assert "memfd" in str(Path(user["client-key"]).readlink())
    assert not Path(user["client-key"]).exists()
    damaged = write(tmp_path / "config", config("a", current="a", **{"client-key-data": "!"}))
    with pytest.raises(InputError, match="client-key-data"):
        finder(damaged).connect()


def certificate(directory: Path) -> tuple[bytes, bytes]:
    """Return a certificate that signs itself, and its key."""
    words = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a", "-keyout", "key", "-out", "ca.crt"]
    subprocess.run(
        ["/usr/bin/env", "openssl", "req", "-x509", *words],
        cwd=directory,
        capture_output=True,
        check=True,
    )
    return (directory / "ca.crt").read_bytes(), (directory / "key").read_bytes()


def _keys_in_memory() -> list[str]:
    descriptors = list(Path("/proc/self/fd").iterdir())
    named = [os.readlink(each) for each in descriptors if each.is_symlink()]  # noqa: PTH115
    return [name for name in named if "memfd:client-" in name]


def test_a_context_is_connected_to_once_and_leaves_no_key_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is read once; nothing of it stays open, and nothing was written for it."""
    pair = certificate(tmp_path)
    coded = {
        f"client-{what}-data": base64.b64encode(content).decode()
        for what, content in zip(("certificate", "key"), pair, strict=True)
    }
    path = write(tmp_path / "config", config("a", current="a", **coded))
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    found = finder(path)
    connections = [found.connect("a") for _ in range(50)]
    assert all(each is connections[0] for each in connections)
    assert _keys_in_memory() == []


def test_a_pod_uses_its_account(tmp_path: Path) -> None:
    """Without a kubeconfig; with one, that is used, as kubectl does."""
    certificate(tmp_path)
    for name, text in (("token", SECRET), ("namespace", "bench\n")):
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    inside = KubectlConfiguration(environment=environment, account=tmp_path)
    for context in (None, "", "in-cluster"):
        api = inside.connect(context)
        assert (api.context, api.namespace, api.is_inside) == ("in-cluster", "bench", True)
        assert api.server == "https://10.96.0.1:443"
    path = write(tmp_path / "config", config("a", current="a"))
    outside = KubectlConfiguration(
        environment={**environment, "KUBECONFIG": str(path)}, account=tmp_path
    )
    assert outside.connect().context == "a"
    assert outside.connect("in-cluster").is_inside


def test_a_plugin_gives_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run once, told the version of its kubeconfig, and again when the token is refused."""
    from steelyard.gateways.kubernetes.requests import by_kubeconfig  # noqa: PLC0415 - the extra

    monkeypatch.chdir(tmp_path)
    script = f'echo "$KUBERNETES_EXEC_INFO" > wanted; {credential(token="token-NUMBER")}'
    access = by_kubeconfig("a", config("a", **plugin(tmp_path, script)), "default")
    assert access.headers() == access.headers() == {"authorization": "Bearer token-1"}
    wanted = json.loads((tmp_path / "wanted").read_text())
    assert wanted["apiVersion"] == "client.authentication.k8s.io/v1"
    assert access.headers(renewed=True) == {"authorization": "Bearer token-2"}
    assert "token-2" not in repr(access)


def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    """The kubelet writes the token of a pod's account anew every hour or so."""
    from steelyard.gateways.kubernetes.requests import by_kubeconfig  # noqa: PLC0415 - the extra

    file = tmp_path / "token"
    file.write_text("first")
    access = by_kubeconfig("a", config("a", tokenFile=str(file)), "default")
    assert access.headers() == {"authorization": "Bearer first"}
    file.write_text("second")
    assert access.headers(renewed=True) == access.headers() == {"authorization": "Bearer second"}


@pytest.mark.parametrize(
    ("script", "message"),
    [("echo log in first >&2; exit 1", "log in first"), ("echo nonsense", "prints no token")],
)
def test_a_plugin_that_fails_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, message: str
) -> None:
    """Not as a request of nobody, and the library prints nothing by itself."""
    path = write(tmp_path / "config", config("a", current="a", **plugin(tmp_path, script)))
    handlers = list(logging.getLogger().handlers)
    with pytest.raises(PrivilegeError, match=f"no credentials for the context a: .*{message}"):
        finder(path).connect().version()
    out, err = capfd.readouterr()
    assert out + err == ""
    assert logging.getLogger().handlers == handlers
    user = plugin(tmp_path, "", command="no-such-plugin-anywhere")
    with pytest.raises(PrivilegeError, match="no-such-plugin-anywhere"):
        finder(write(path, config("a", current="a", **user))).connect().version()


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path) -> None:
    """As an error before anything was started."""
    path = write(tmp_path / "config", config("a", current="a"))
    script = (
        "import sys; sys.modules['lightkube'] = None\n"
        "from steelyard.gateways.kubernetes.connecting import KubectlConfiguration\n"
        "from steelyard.core.wording import PreflightError\n"
        "try: KubectlConfiguration().connect()\n"
        "except PreflightError as error: print(error.message, error.hint)"
    )
    said = python(script, KUBECONFIG=str(path))
    assert "needs the extra `kubernetes`, which is not installed" in said
    assert "pip install lightkube" in said


def test_nobody_pays_for_the_library_who_does_not_use_it() -> None:
    """The doors name the gateway without importing the library or what comes with it."""
    script = (
        "import sys, steelyard.gateways.doors as doors; doors.system_doors();"
        "print(*{'lightkube', 'httpx2', 'websocket', 'msgspec'} & set(sys.modules))"
    )
    assert python(script) == ""


@pytest.mark.parametrize(
    "user", [{"exec": "text"}, {"exec": {}}, {"auth-provider": {"name": "oidc", "config": {}}}]
)
def test_entries_of_another_form_are_our_errors(tmp_path: Path, user: dict[str, Any]) -> None:
    """What the library does not expect does not end in a traceback."""
    path = write(tmp_path / "config", config("a", current="a", **user))
    with pytest.raises((InputError, PrivilegeError), match="context a"):
        finder(path).connect()
