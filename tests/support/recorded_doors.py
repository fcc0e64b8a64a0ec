"""Steelyard as a program that notes what it asks of a cluster, in the words of RBAC.

Each line of the file that ``STEELYARD_TEST_ASKED`` names is a resource and a verb:
``pods/exec get``.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from steelyard.cli.main import main
from steelyard.core.kubernetes import POD, Kind, Manifest, ObjectRef, ref_of
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.places.kubernetes.permissions import plural

_FILE = Path(os.environ["STEELYARD_TEST_ASKED"])


def _note(resource: str, verb: str) -> None:
    with _FILE.open("a") as file:
        file.write(f"{resource} {verb}\n")


class RecordedApi:
    """A cluster, and what is asked of it; what needs no right is handed through."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def read(self, ref: ObjectRef) -> Manifest | None:
        """Note ``get``."""
        _note(plural(ref.kind), "get")
        return self._api.read(ref)

    def list(
        self, kind: Kind, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        """Note ``list``."""
        _note(plural(kind), "list")
        return self._api.list(kind, namespace, labels)

    def create(self, manifest: Manifest) -> Manifest | None:
        """Note ``create``."""
        _note(plural(ref_of(manifest).kind), "create")
        return self._api.create(manifest)

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Note ``patch``, and ``create`` where the object is not there yet."""
        ref = ref_of(manifest)
        _note(plural(ref.kind), "patch")
        if self._api.read(ref) is None:
            _note(plural(ref.kind), "create")
        return self._api.apply(manifest, dry_run=dry_run)

    def patch(self, ref: ObjectRef, patch: Manifest) -> Manifest:
        """Note ``patch``."""
        _note(plural(ref.kind), "patch")
        return self._api.patch(ref, patch)

    def delete(self, ref: ObjectRef, *, grace_s: int | None = None) -> bool:
        """Note ``delete``."""
        _note(plural(ref.kind), "delete")
        return self._api.delete(ref, grace_s=grace_s)

    def logs(self, *args: Any, **options: Any) -> str:
        """Note ``get`` of a log."""
        _note(f"{plural(POD)}/log", "get")
        return self._api.logs(*args, **options)

    def run(self, *args: Any, **options: Any) -> Any:
        """Note ``get`` of a session."""
        _note(f"{plural(POD)}/exec", "get")
        return self._api.run(*args, **options)

    def lines(self, *args: Any, **options: Any) -> Any:
        """Note ``get`` of a session."""
        _note(f"{plural(POD)}/exec", "get")
        return self._api.lines(*args, **options)

    def forward(self, *args: Any, **options: Any) -> AbstractContextManager[int]:
        """Note ``get`` of a forwarded port."""
        _note(f"{plural(POD)}/portforward", "get")
        return self._api.forward(*args, **options)


if __name__ == "__main__":
    connect = KubectlConfiguration.connect
    KubectlConfiguration.connect = lambda self, context=None: RecordedApi(  # type: ignore[assignment,method-assign,return-value]
        connect(self, context)
    )
    main()
