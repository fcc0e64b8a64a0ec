"""Requests to a cluster's API as one account, repeated while the connection is lost.

The library's configuration says who we are. It runs credential plugins (``exec``), renews tokens,
and reads the account of a pod. What goes wrong there it only logs; here it is heard and raised, so
that nobody is sent to the API without a name.

All that is asked here may be asked twice: reads, server-side apply, merge patches, deletions,
reviews, and a creation, which finds what it made the first time. What may not, commands in
containers, goes another way (``streams``).
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import load_kube_config_from_dict
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NameResolutionError,
    ReadTimeoutError,
)

from steelyard.core.wording import (
    InputError,
    PrivilegeError,
    SteelyardError,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import Answered, Asked, refused, unreachable

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


_CONNECT_S: Final = 10.0
_READ_S: Final = 60.0
# Guesses: an API server restarts within a minute or two; one that never answered is a wrong address
# more often than a restart; a failure of its own, as of a webhook that starts, is told sooner.
PATIENCE_S: Final = 120.0
_FIRST_PATIENCE_S: Final = 6.0
_FAILURE_PATIENCE_S: Final = 20.0
_LONGEST_WAIT_S: Final = 8.0
_WORDS: Final = (
    "connection refused",
    "connection reset",
    "network is unreachable",
    "no route to host",
    "remote end closed connection",
)
_WRONG: Final = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "doesn't match")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        query: Pairs, so that a name may come twice.
        body: JSON; None: no body.
    """

    method: str
    path: str
    asked: Asked
    query: Sequence[tuple[str, str]] = ()
    body: Mapping[str, Any] | None = field(default=None, repr=False)  # may be a Secret
    content_type: str = "application/json"

    @property
    def target(self) -> str:
        """Return path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(kw_only=True)
class Patience:
    """How long failures are borne, from the first of a row on; waits grow between tries.

    Attributes:
        is_known: Whether the API has ever answered.
    """

    clock: Clock
    is_known: bool = False

    def row(self) -> "Row":
        """Return a new row of tries."""
        return Row(patience=self)


@dataclass(kw_only=True)
class Row:
    """The tries of one request."""

    patience: Patience
    _since: float | None = field(default=None, init=False)
    _wait_s: float = field(default=0.5, init=False)

    def wait(self, *, within_s: float | None = None, asked_s: float | None = None) -> bool:
        """Wait before the next try; return False where patience is at an end.

        Args:
            within_s: Patience from the first failure on; None: that of a lost connection.
            asked_s: What the API asks to wait.
        """
        clock = self.patience.clock
        now = clock.monotonic()
        if self._since is None:
            self._since = now
        if within_s is None:
            within_s = PATIENCE_S if self.patience.is_known else _FIRST_PATIENCE_S
        wait_s = self._wait_s if asked_s is None else asked_s
        if now + wait_s > self._since + within_s:
            return False
        clock.sleep(wait_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
        return True


class Requests:
    """Sends requests as one account."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.access = access
        self.patience = Patience(clock=clock)
        # The library's own way to a pool with the certificates and the proxy of its configuration.
        self._pool = RESTClientObject(access.configuration).pool_manager

    def granted(self, request: Request) -> Answered:
        """Return an answer that does what was asked.

        Raises:
            SteelyardError: It was refused, or there is no answer.
        """
        answered = self.send(request)
        if not answered.succeeded:
            raise refused(answered, request.asked)
        return answered

    def send(self, request: Request) -> Answered:
        """Return an answer, also one that refuses; what passes is waited for.

        Raises:
            TargetError: There is no answer.
            PrivilegeError: There are no credentials.
        """
        row = self.patience.row()
        while True:
            try:
                answered = self._send_once(request)
            except (HTTPError, OSError) as error:
                if is_hopeless(error) or not row.wait():
                    raise out_of_reach(self.access, error) from error
                continue
            self.patience.is_known = True
            limit = _FAILURE_PATIENCE_S if answered.status == 500 else None
            if not answered.passes or not row.wait(within_s=limit, asked_s=answered.retry_after_s):
                return answered

    def _send_once(self, request: Request) -> Answered:
        headers = {**self.access.headers(), "Accept": "application/json, */*"}
        body = None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = json.dumps(request.body).encode()
        response = self._pool.request(
            request.method,
            self.access.server + request.target,
            body=body,
            headers=headers,
            timeout=Timeout(connect=_CONNECT_S, read=_READ_S),
            retries=False,
        )
        return Answered(
            status=response.status,
            text=response.data.decode("utf-8", "replace"),
            retry_after_s=_retry_after_s(response),
        )


def is_hopeless(error: Exception) -> bool:
    """Return whether waiting does not help: an address or a certificate is not right."""
    wrong = any(words in str(error) for words in _WRONG)
    return wrong or isinstance(error, LocationValueError)


def out_of_reach(access: Access, error: Exception) -> SteelyardError:
    """Return that the API does not answer, with the reason in few words."""
    return unreachable(access.server, access.context, _in_words(error))


def _in_words(error: Exception) -> str:
    said = str(error)
    for words in _WORDS:
        if words.lower() in said.lower():
            return words
    if isinstance(error, NameResolutionError) or "Name or service not known" in said:
        return "its name is not known"
    if "CERTIFICATE_VERIFY_FAILED" in said:
        reason = said.partition("certificate verify failed: ")[2].partition(" (")[0]
        return f"its certificate is not trusted ({reason or 'verification failed'})"
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError | TimeoutError):
        return "it does not answer in time"
    return said.rpartition(": ")[2].strip("()'") or type(error).__name__


def _retry_after_s(response: BaseHTTPResponse) -> float | None:
    """Return what the header says in seconds; a date is not used by the API."""
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdigit() else None
