"""What Steelyard asks of a Kubernetes cluster.

Every method raises a SteelyardError whose message names the object: PrivilegeError where the
account lacks a verb (named, with the role that has it), PreflightError where a quota or the object
itself is refused, TargetError where the API cannot be reached. Requests that can be repeated are,
for a while, when the connection is lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from steelyard.core.command import Completed
from steelyard.core.kubernetes import ContainerRef, Kind, Manifest, ObjectRef


class Lines(Protocol):
    """What a command in a container prints while it runs."""

    def __iter__(self) -> Iterator[str]:
        """Yield lines without their ends, until the command ends or it is closed."""
        ...

    def close(self) -> None:
        """Hang up; also from another thread."""
        ...


class Dialogue(Protocol):
    """A command in a container that is told lines and answers each with one."""

    def ask(self, line: str, *, timeout_s: float) -> str:
        """Tell it a line and return its answer.

        Raises:
            MeasurementError: There was none in time.
            TargetError: The connection was lost, or the command has ended.
        """
        ...

    def close(self) -> None:
        """Hang up: the command reads the end of its standard input."""
        ...


class KubernetesApi(Protocol):
    """One cluster under one account."""

    @property
    def context(self) -> str:
        """Return the name of the context in the kubeconfig; ``in-cluster`` inside a pod."""
        ...

    @property
    def server(self) -> str:
        """Return the URL of the API: it tells clusters apart."""
        ...

    @property
    def namespace(self) -> str:
        """Return the namespace of the context."""
        ...

    @property
    def is_inside(self) -> bool:
        """Return whether this process runs in the cluster, where services are reached directly."""
        ...

    def version(self) -> str:
        """Return the version of the API server: ``v1.34.4``."""
        ...

    def knows(self, kind: Kind) -> bool:
        """Return whether the cluster has this kind."""
        ...

    def read(self, ref: ObjectRef) -> Manifest | None:
        """Return an object, or None where it is not there."""
        ...

    def list(
        self, kind: Kind, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        """Return the objects with all of these labels; of all namespaces where none is given."""
        ...

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Make an object as it is written, or bring it to that; return it as the server has it.

        Server-side apply with strict validation: an unknown field is an InputError.
        """
        ...

    def create(self, manifest: Manifest) -> Manifest | None:
        """Make an object that is not there yet; None where one of that name is, whoever made it.

        A request whose answer was lost is repeated, so the one that is there may be this one.
        """
        ...

    def patch(self, ref: ObjectRef, patch: Manifest) -> Manifest:
        """Change an object by a JSON merge patch, strictly validated; null removes a key."""
        ...

    def delete(self, ref: ObjectRef, *, grace_s: int | None = None) -> bool:
        """Delete an object with all that it owns; return whether it was there.

        Returns at once. The object can be read until it and what it owns with
        ``blockOwnerDeletion`` are gone.
        """
        ...

    def allowed(self, verb: str, kind: Kind, namespace: str = "", part: str = "") -> bool:
        """Return whether this account may do that; ``part`` is a subresource such as ``exec``.

        Commands and forwarded ports need ``get`` of their part, and ``create`` since Kubernetes
        1.35; a role that has both fits every version.
        """
        ...

    def logs(self, where: ContainerRef, *, lines: int | None = None) -> str:
        """Return what a container printed, or its last lines."""
        ...

    def run(
        self, where: ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Run a short command in a container; it and its children die with the connection.

        What it left running in the background when it ended goes on. The container needs ``sh``
        (and ``head`` where there is ``stdin``), and a process 1 that reaps, such as a shell.

        Raises:
            MeasurementError: It did not end in time, and was killed.
            TargetError: The connection was lost, or the command could not be started; it is never
                repeated.
        """
        ...

    def lines(self, where: ContainerRef, argv: Sequence[str]) -> Lines:
        """Start a command in a container and return what it prints, line by line.

        Reading raises a TargetError where the connection is lost or the command fails.
        """
        ...

    def talk(self, where: ContainerRef, argv: Sequence[str]) -> Dialogue:
        """Start a command in a container that answers lines; its input ends with the connection."""
        ...

    def forward(self, where: ContainerRef, port: int) -> AbstractContextManager[int]:
        """Make a port of a pod reachable on the loopback interface; gives the local port."""
        ...

    def raw(self, path: str) -> str:
        """Return what the API answers at a path, such as ``/api/v1/nodes/n/proxy/configz``."""
        ...


class Kubernetes(Protocol):
    """Finds clusters as kubectl does: ``KUBECONFIG``, ``~/.kube/config``, or the pod's account."""

    def connect(self, context: str | None = None) -> KubernetesApi:
        """Return the cluster of a context; None: the current one, or the one this pod is in.

        Raises:
            PreflightError: The extra ``kubernetes`` is not installed.
            InputError: There is no such context, or no kubeconfig.
        """
        ...
