"""A second storage class of the lab, on a disk whose flushes take longer.

It is the local-path provisioner's, in a directory of its own below that of the other volumes. A
slow disk is mounted there in the mount namespace of every kubelet that runs on this machine.

``python -m support.lab_storage NAME SECONDS COMMAND...`` has such a class while a command runs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.core.kubernetes import CONFIG_MAP, LOCAL_PATH, NODE, STORAGE_CLASS, VOLUME, ObjectRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from support.kubernetes import no_cluster
from support.slow_disk import slow_directory

_CONFIGURATION = ObjectRef(
    kind=CONFIG_MAP, name="local-path-config", namespace="local-path-storage"
)
_SIZE = 6 << 30


@contextmanager
def slow_class(api: KubernetesApi, name: str, *, below: Path, flush_s: float) -> Iterator[str]:
    """Have a storage class of this name, slower by so much for each flush, while this lasts."""
    target = _place(api) / name
    ref = ObjectRef(kind=STORAGE_CLASS, name=name)
    manifest = STORAGE_CLASS.manifest(
        name,
        provisioner=LOCAL_PATH,
        reclaimPolicy="Delete",
        volumeBindingMode="WaitForFirstConsumer",
        parameters={"pathPattern": f"{name}/{{{{ .PVName }}}}"},
    )
    with slow_directory(
        target, below=below, flush_s=flush_s, size=_SIZE, namespaces=_kubelets(api)
    ):
        api.apply(manifest)
        try:
            yield name
        finally:
            api.delete(ref)
            _wait_until_unused(api, name)


def _wait_until_unused(api: KubernetesApi, name: str) -> None:
    """Return when the provisioner has removed the last volume; it does so after its claim."""
    for _ in range(120):
        if not [each for each in api.list(VOLUME) if each["spec"].get("storageClassName") == name]:
            return
        time.sleep(1.0)
    pytest.fail(f"volumes of {name} are still there")


def _place(api: KubernetesApi) -> Path:
    """Return where the provisioner keeps its volumes on every node."""
    held = api.read(_CONFIGURATION)
    if held is None:
        no_cluster("the cluster has no local-path provisioner to make a second class of")
    (paths,) = json.loads(held["data"]["config.json"])["nodePathMap"]
    return Path(paths["paths"][0])


def _kubelets(api: KubernetesApi) -> list[int]:
    """Return the kubelets of this machine, which must be those of all nodes."""
    if os.geteuid():
        no_cluster("only root can mount a slow disk on the nodes")
    found = [
        int(place.parent.name)
        for place in Path("/proc").glob("[0-9]*/comm")
        if _text(place).strip() == "kubelet"
    ]
    if len(found) != len(api.list(NODE)):
        no_cluster("the nodes of the cluster are not namespaces of this machine")
    return found


def _text(place: Path) -> str:
    try:
        return place.read_text()
    except OSError:  # it has ended meanwhile
        return ""


def _main(name: str, flush_s: str, *command: str) -> int:
    api = KubectlConfiguration().connect()
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as below,
        slow_class(api, name, below=Path(below), flush_s=float(flush_s)),
    ):
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
