"""Who we are to a cluster: the client library's configuration, and what it says of credentials.

The library runs credential plugins (``exec``), renews tokens, and reads the account of a pod. What
goes wrong there it only logs; here it is heard and raised, so that nobody is sent to the API
without a name.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config_from_dict
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader

from steelyard.core.errors import InputError, PrivilegeError

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
