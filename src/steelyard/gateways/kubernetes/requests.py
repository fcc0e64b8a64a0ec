"""Requests to a cluster's API as one account, repeated while the connection is lost.

lightkube says who we are: it makes certificates a TLS context, runs credential plugins (``exec``),
and reads the token of a pod's account again when the API does not take the old one any more.

All that is asked here may be asked twice: reads, server-side apply, merge patches, deletions,
reviews, and a creation, which finds what it made the first time. What may not, commands in
containers, goes another way (``streams``).
"""

import json
import logging
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError
from msgspec import MsgspecError

from steelyard.core.wording import InputError, PrivilegeError, SteelyardError
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.refusals import Answered, Request, refused, unreachable

_PLUGIN_HINT: Final = "Log in again, as for kubectl; `kubectl --context {context} version` tells."
_CONNECT_S: Final = 10.0
_READ_S: Final = 60.0
_PLUGIN: Final = "client.authentication.k8s.io"

for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # they write addresses, and headers too


class Credentials(httpx2.Auth):
    """What lightkube puts into a request to say who we are, with its errors as ours.

    Args:
        inner: Of lightkube; None: a certificate says it, or nothing does.
    """

    def __init__(self, context: str, inner: httpx2.Auth | None) -> None:
        self._context = context
        self._inner = inner or httpx2.Auth()

    def sync_auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Yield a request with credentials, and with renewed ones where those were refused."""
        flow = self._inner.sync_auth_flow(request)
        response = None
        while True:
            try:
                with self._told():
                    request = next(flow) if response is None else flow.send(response)
            except StopIteration:
                return
            response = yield request

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, OSError) as error:
            raise self._lacking(str(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            # Not what it says: that may quote a token.
            raise self._lacking("its plugin prints no token") from error

    def _lacking(self, why: str) -> PrivilegeError:
        message = f"no credentials for the context {self._context}: {why}"
        return PrivilegeError(message, hint=_PLUGIN_HINT.format(context=self._context))


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one cluster is reached and under which account.

    Attributes:
        server: URL of the API.
        tls: With the certificates of both sides.
        namespace: Of the context.
        server_name: What the server's certificate names, where that is not its address.
        proxy: URL; empty: what the environment says.
    """

    context: str
    server: str
    http: httpx2.Client = field(repr=False)
    credentials: Credentials = field(repr=False)
    tls: ssl.SSLContext = field(repr=False)
    namespace: str
    is_inside: bool = False
    server_name: str = ""
    proxy: str = ""

    def headers(self, *, renewed: bool = False) -> dict[str, str]:
        """Return the headers that say who we are, for what is no request of HTTP alone.

        Args:
            renewed: Those before were refused.

        Raises:
            PrivilegeError: There are no credentials.
        """
        flow = self.credentials.sync_auth_flow(httpx2.Request("GET", self.server))
        request = next(flow)
        if renewed:
            with suppress(StopIteration):  # what there is cannot be renewed
                request = flow.send(httpx2.Response(401, request=request))
        flow.close()
        value = request.headers.get("Authorization")
        return {"authorization": value} if value else {}


def by_kubeconfig(context: str, document: dict[str, Any], namespace: str) -> Access:
    """Return the access that a kubeconfig of one context gives.

    Raises:
        InputError: The library cannot use it.
    """
    with _usable(context):
        cluster = document["clusters"][0]["cluster"]
        if cluster.get("insecure-skip-tls-verify"):
            cluster.pop("certificate-authority", None)  # lightkube would believe that
        for user in document["users"]:
            _name_version(user["user"])
        config = KubeConfig.from_dict(document).get(context)
    return _access(
        config,
        namespace=namespace,
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
    )


def _name_version(user: dict[str, Any]) -> None:
    """Let lightkube run plugins of version v1: what it reads of them is that of v1beta1.

    The plugin is told the version that its kubeconfig names (KEP-541, ``KUBERNETES_EXEC_INFO``).
    """
    plugin = user.get("exec")
    if not plugin:
        return
    version = plugin["apiVersion"]
    wanted = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    words = {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(wanted)}
    plugin["env"] = [*(plugin.get("env") or ()), words]
    if version == f"{_PLUGIN}/v1":
        plugin["apiVersion"] = f"{_PLUGIN}/v1beta1"


def by_account(context: str, directory: Path, environment: Mapping[str, str]) -> Access:
    """Return the access of the pod that this process runs in.

    Raises:
        InputError: It has no account.
    """
    host = environment["KUBERNETES_SERVICE_HOST"]
    place = f"[{host}]" if ":" in host else host
    config = KubeConfig.from_one(
        cluster=Cluster(
            server=f"https://{place}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
            certificate_auth=str(directory / "ca.crt"),
        ),
        # The kubelet writes a new one every hour or so.
        user=User(token_file=str(directory / "token")),
        context_name=context,
    ).get()
    space = directory / "namespace"
    namespace = space.read_text().strip() if space.is_file() else "default"
    return _access(config, namespace=namespace, is_inside=True)


def _access(config: SingleConfig | None, *, proxy: str = "", **more: Any) -> Access:  # noqa: ANN401 - further fields
    assert config is not None  # noqa: S101 - it was named
    config = config._replace(user=config.user or User())
    timeout = httpx2.Timeout(_READ_S, connect=_CONNECT_S)
    with _usable(config.context_name):
        settings = ConnectionParams(timeout=timeout, proxy=proxy or None).httpx_params(config)
        credentials = Credentials(config.context_name, settings.pop("auth"))
        http = httpx2.Client(**settings, auth=credentials)
    return Access(
        context=config.context_name,
        server=config.cluster.server.rstrip("/"),
        http=http,
        credentials=credentials,
        tls=settings["verify"],
        proxy=proxy,
        **more,
    )


@contextmanager
def _usable(context: str) -> Iterator[None]:
    """Translate what the library says of a kubeconfig that it cannot use."""
    try:
        yield
    except ConfigError as error:
        hint = "Use a plugin (`exec`) or a token." if "auth-provider" in str(error) else ""
        raise InputError(f"the context {context} cannot be used: {error}", hint=hint) from error
    except (OSError, LookupError, AttributeError, TypeError, ValueError, MsgspecError) as error:
        # Not what it says: that may quote a token.
        message = f"the context {context} cannot be used: its entries are not what kubectl takes"
        raise InputError(message, hint="`kubectl config view` shows them.") from error


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
    "server disconnected",
)
_WRONG: Final = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "doesn't match")


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

    def granted(self, request: Request) -> Answered:
        """Return an answer that does what was asked.

        Raises:
            SteelyardError: It was refused, or there is no answer.
        """
        answered = self.send(request)
        if not answered.succeeded:
            raise refused(answered, request)
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
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                if is_hopeless(error) or not row.wait():
                    raise out_of_reach(self.access, error) from error
                continue
            self.patience.is_known = True
            limit = _FAILURE_PATIENCE_S if answered.status == 500 else None
            if not answered.passes or not row.wait(within_s=limit, asked_s=answered.retry_after_s):
                return answered

    def _send_once(self, request: Request) -> Answered:
        headers = {"Accept": "application/json, */*"}
        body = None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = json.dumps(request.body).encode()
        name = self.access.server_name
        response = self.access.http.request(
            request.method,
            self.access.server + request.target,
            content=body,
            headers=headers,
            extensions={"sni_hostname": name} if name else None,
        )
        said = response.headers.get("Retry-After", "")  # of the API never a date
        return Answered(
            status=response.status_code,
            text=response.content.decode("utf-8", "replace"),
            retry_after_s=float(said) if said.isdigit() else None,
        )


def is_hopeless(error: Exception) -> bool:
    """Return whether waiting does not help: an address or a certificate is not right."""
    wrong = any(words in str(error) for words in _WRONG)
    return wrong or isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol)


def out_of_reach(access: Access, error: Exception) -> SteelyardError:
    """Return that the API does not answer, with the reason in few words."""
    return unreachable(access.server, access.context, _in_words(error))


def _in_words(error: Exception) -> str:
    said = str(error)
    for words in _WORDS:
        if words.lower() in said.lower():
            return words
    if "Name or service not known" in said or "name resolution" in said:
        return "its name is not known"
    if "CERTIFICATE_VERIFY_FAILED" in said:
        reason = said.partition("certificate verify failed: ")[2].partition(" (")[0]
        return f"its certificate is not trusted ({reason or 'verification failed'})"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "it does not answer in time"
    return said.rpartition(": ")[2].strip("()'") or type(error).__name__
