"""What Steelyard asks of a Kubernetes cluster, and who we are to it.

Every method raises a SteelyardError whose message names the object: PrivilegeError where the
account lacks a verb (named, with the role that has it), PreflightError where a quota or the object
itself is refused, TargetError where the API cannot be reached. Requests that can be repeated are,
for a while, when the connection is lost.

The client library runs credential plugins (``exec``), renews tokens, and reads the account of a
pod. What goes wrong there it only logs; here it is heard and raised, so that nobody is sent to the
API without a name.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import urllib3
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config_from_dict
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader

from steelyard.core.command import Completed
from steelyard.core.errors import InputError, PrivilegeError
from steelyard.core.kubernetes import ContainerRef, Kind, Manifest, ObjectRef

_PLUGIN_HINT: Final = "Log in again, as for kubectl; `kubectl --context {context} version` tells."


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one cluster is reached and under which account.

    Attributes:
        configuration: The library's; it holds secrets and is never shown.
        namespace: Of the context.
    """

    context: str
    configuration: Any
    namespace: str
    is_inside: bool = False

    def __repr__(self) -> str:
        return f"Access({self.context})"

    @property
    def server(self) -> str:
        """Return the URL of the API."""
        return str(self.configuration.host).rstrip("/")

    def headers(self) -> dict[str, str]:
        """Return the headers that say who we are; a token that expired is renewed first.

        Raises:
            PrivilegeError: It cannot be renewed.
        """
        with _heard(self.context):
            settings = self.configuration.auth_settings()
        return {
            each["key"]: str(each["value"])
            for each in settings.values()
            if each["in"] == "header" and each["value"]
        }


def by_kubeconfig(context: str, document: dict[str, Any], namespace: str) -> Access:
    """Return the access that a kubeconfig of one context gives.

    Raises:
        InputError: The library cannot use it.
        PrivilegeError: A plugin gives no credentials.
    """
    configuration = Configuration()
    with _heard(context), _usable(context):
        load_kube_config_from_dict(
            document, context=context, client_configuration=configuration, persist_config=False
        )
    if not configuration.verify_ssl:
        # The kubeconfig asks for it; kubectl does not warn either.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return Access(context=context, configuration=configuration, namespace=namespace)


def by_account(context: str, directory: Path, environment: Mapping[str, str]) -> Access:
    """Return the access of the pod that this process runs in.

    Raises:
        InputError: It has no account.
    """
    configuration = Configuration()
    loader = InClusterConfigLoader(
        token_filename=str(directory / "token"),
        cert_filename=str(directory / "ca.crt"),
        environ=environment,
    )
    with _usable(context):
        loader.load_and_set(configuration)
    space = directory / "namespace"
    namespace = space.read_text().strip() if space.is_file() else "default"
    return Access(context=context, configuration=configuration, namespace=namespace, is_inside=True)


@contextmanager
def _usable(context: str) -> Iterator[None]:
    """Translate what the library says of a kubeconfig that it cannot use."""
    try:
        yield
    except ConfigException as error:
        raise InputError(f"the context {context} cannot be used: {error}") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        # Not what it says: that may quote a token.
        message = f"the context {context} cannot be used: its entries are not what kubectl takes"
        raise InputError(message, hint="`kubectl config view` shows them.") from error


class _Ear(logging.Handler):
    """Hears what one thread lets the library say about credentials."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []
        self.addFilter(_of_library)

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


def _of_library(record: logging.LogRecord) -> bool:
    return os.path.join("kubernetes", "config") in record.pathname  # noqa: PTH118 - part of a path


@contextmanager
def _heard(context: str) -> Iterator[None]:
    """Raise what the library only logs: a plugin failed, and we would be nobody."""
    ear = _Ear()
    root = logging.getLogger()
    root.addHandler(ear)
    try:
        yield
    finally:
        root.removeHandler(ear)
    if ear.heard:
        message = f"no credentials for the context {context}: {ear.heard[0]}"
        raise PrivilegeError(message, hint=_PLUGIN_HINT.format(context=context))


class Lines(Protocol):
    """What a command in a container prints while it runs."""

    def __iter__(self) -> Iterator[str]:
        """Yield lines without their ends, until the command ends or it is closed."""
        ...

    def close(self) -> None:
        """Hang up; also from another thread."""
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
