"""A forwarded port is a child process, which never outlives its user."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.core.kubernetes import ContainerRef
from steelyard.core.wording import PreflightError, TargetError
from steelyard.gateways.kubernetes.forwards import Forward, Kubectl

WHERE = ContainerRef(namespace="bench", pod="p")
_STAYS = """
echo $$ > "$(dirname "$0")/pid"
echo "$@" > "$(dirname "$0")/argv"
echo "Forwarding from 127.0.0.1:40123 -> 5432"
exec sleep 600
"""
_USER = """
import sys
from steelyard.core.kubernetes import ContainerRef
from steelyard.gateways.kubernetes.forwards import Forward, Kubectl
kubectl = Kubectl(argv=(sys.argv[1],), environment={})
with Forward(kubectl, ContainerRef(namespace="bench", pod="p"), 5432) as port:
    print(port, flush=True)
    input()
"""


def program(directory: Path, script: str) -> Path:
    """Return a kubectl that does what a script says."""
    path = directory / "kubectl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def wait_for_end(pid: int) -> None:
    """Wait until a process is gone, or a zombie of nobody's."""
    deadline = time.monotonic() + 30
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and ") Z" not in stat.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_port_is_what_kubectl_says(tmp_path: Path) -> None:
    """By context, namespace, pod and port, on the loopback interface; leaving it ends kubectl."""
    program(tmp_path, _STAYS)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    kubectl = Kubectl.at("lab", environment, is_inside=False)
    with Forward(kubectl, WHERE, 5432) as port:
        assert port == 40123
    wait_for_end(int((tmp_path / "pid").read_text()))
    assert (tmp_path / "argv").read_text().split() == [
        *("--context", "lab", "--namespace", "bench", "port-forward"),
        *("--address", "127.0.0.1", "pod/p", ":5432"),
    ]


def test_kubectl_ends_when_its_user_is_killed(tmp_path: Path) -> None:
    """Also by kill -9, which lets nobody clean up."""
    path = program(tmp_path, _STAYS)
    user = subprocess.Popen(
        [sys.executable, "-c", _USER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"40123\n"
        user.send_signal(signal.SIGKILL)
    wait_for_end(int((tmp_path / "pid").read_text()))


def test_what_kubectl_says_when_it_fails_is_told(tmp_path: Path) -> None:
    """As the reason, with the port and the pod."""
    path = program(tmp_path, "echo 'error: no such pod' >&2; exit 1")
    forward = Forward(Kubectl(argv=(str(path),), environment={}), WHERE, 5432)
    with pytest.raises(TargetError, match=r"port 5432 of Pod bench/p .*: error: no such pod"):
        forward.__enter__()


def test_without_kubectl_the_way_out_is_told(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(PreflightError, match="kubectl, which is not on the PATH"):
        Kubectl.at("lab", {"PATH": str(tmp_path)}, is_inside=False)
