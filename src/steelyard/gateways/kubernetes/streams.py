"""Connections to a command in a container, or to a port of a pod, each one WebSocket.

Every message begins with the number of its channel (k8s.io/apimachinery,
`remotecommand/constants.go`, and k8s.io/apiserver, `util/wsstream`). One thread reads and writes a
connection: OpenSSL wants that, and it is why lightkube's own commands are not used, which read in a
thread beside the one that writes.
"""

import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

from websocket import (
    ABNF,
    WebSocket,
    WebSocketAddressException,
    WebSocketBadStatusException,
    WebSocketException,
)

from steelyard.gateways.kubernetes.refusals import Answered, Request, refused
from steelyard.gateways.kubernetes.requests import Access, Patience, is_hopeless, out_of_reach

PROTOCOLS: Final = "v5.channel.k8s.io,v4.channel.k8s.io"
_HANDSHAKE_S: Final = 30.0
_WITHIN_S: Final = 60.0
_UNANSWERED: Final = 3
_QUIET_S: Final = 30.0  # balancers hang up connections that are quiet for a minute or more
_NEVER_BEGUN: Final = (ConnectionRefusedError, WebSocketAddressException)
_PASSING: Final = frozenset({429, 502, 503, 504})
_LOST: Final = (WebSocketException, OSError)


class Stream:
    """An open connection; an OSError is what is raised where it is lost."""

    def __init__(self, connection: WebSocket) -> None:
        self._connection = connection
        self._quiet = 0

    def ready(
        self, timeout_s: float | None, other: socket.socket | None = None
    ) -> tuple[bool, bool]:
        """Wait until there is something to read, here or from another socket.

        Returns:
            Whether there is here, and whether there is from the other; a long silence is broken by
            a ping, so that nobody on the way hangs up.

        Raises:
            TimeoutError: Nobody answers pings any more.
        """
        poll = select.poll()
        own = self._connection.fileno()
        poll.register(own, select.POLLIN)
        if other is not None:
            poll.register(other.fileno(), select.POLLIN)
        wait_s = 0.0 if self._has_decrypted else _QUIET_S if timeout_s is None else timeout_s
        found = {descriptor for descriptor, _ in poll.poll(min(wait_s, _QUIET_S) * 1000)}
        self._quiet = 0 if found else self._quiet + (wait_s >= _QUIET_S)
        if self._quiet:
            self._ask()
        is_other = other is not None and other.fileno() in found
        return own in found or self._has_decrypted, is_other

    def _ask(self) -> None:
        """Ask whether anybody is there after a silence."""
        if self._quiet > _UNANSWERED:
            raise TimeoutError("no answer to several pings")
        self._connection.settimeout(_WITHIN_S)
        with _lost():
            self._connection.ping()

    @property
    def _has_decrypted(self) -> bool:
        """Return whether the TLS layer holds what the kernel does not show any more."""
        inner = self._connection.sock
        return isinstance(inner, ssl.SSLSocket) and inner.pending() > 0

    def is_writable(self) -> bool:
        """Return whether something can be sent without waiting."""
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    def receive(self) -> tuple[int, bytes] | None:
        """Return channel and content of the next message; None when the connection was closed."""
        self._connection.settimeout(_WITHIN_S)  # a message that began goes on
        with _lost():
            operation, frame = self._connection.recv_data_frame(control_frame=True)
        if operation == ABNF.OPCODE_CLOSE:
            return None
        if operation not in {ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT} or not frame.data:
            return -1, b""
        return frame.data[0], bytes(frame.data[1:])

    def send(self, channel: int, content: bytes) -> None:
        """Send a message."""
        self._connection.settimeout(_WITHIN_S)
        with _lost():
            self._connection.send(bytes([channel]) + content, opcode=ABNF.OPCODE_BINARY)

    def hang_up(self) -> None:
        """End the connection at once, also while another thread reads from it."""
        inner = self._connection.sock
        if inner is not None:
            with suppress(OSError):
                # Not the TLS layer's: its object belongs to the thread that reads.
                socket.socket.shutdown(inner, socket.SHUT_RDWR)

    def close(self) -> None:
        """Free the connection."""
        self.hang_up()
        with suppress(*_LOST):
            self._connection.shutdown()


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except WebSocketException as error:
        raise ConnectionError(str(error)) from error


def open_stream(
    access: Access, request: Request, patience: Patience, *, repeatable: bool
) -> Stream:
    """Return an open connection; what did not begin is tried again for a while.

    Args:
        access: Of whom.
        request: Where it goes: a pod's part, such as ``.../exec``.
        patience: How long to try.
        repeatable: What it carries may begin twice.

    Raises:
        SteelyardError: It was refused, or the API does not answer.
    """
    row = patience.row()
    is_renewed = False
    while True:
        try:
            stream = Stream(_connected(access, request, access.headers(renewed=is_renewed)))
        except WebSocketBadStatusException as error:
            body = error.resp_body or b""
            text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
            answered = Answered(status=error.status_code, text=text or (error.status_message or ""))
            if answered.status == 401 and not is_renewed:
                is_renewed = True
            elif answered.status not in _PASSING or not row.wait():
                raise refused(answered, request) from error
        except _LOST as error:
            may_repeat = repeatable or isinstance(error, _NEVER_BEGUN)
            if is_hopeless(error) or not may_repeat or not row.wait():
                raise out_of_reach(access, error) from error
        else:
            patience.is_known = True
            return stream


def _connected(access: Access, request: Request, headers: Mapping[str, str]) -> WebSocket:
    """Return a connection after its handshake."""
    options: dict[str, Any] = {"context": access.tls}
    if access.server_name:
        options["server_hostname"] = access.server_name
    connection = WebSocket(sslopt=options, enable_multithread=True)
    header = [f"{name}: {value}" for name, value in headers.items()]
    header.append(f"sec-websocket-protocol: {PROTOCOLS}")
    url = f"ws{access.server.removeprefix('http')}{request.target}"
    try:
        connection.connect(
            url,
            header=header,
            timeout=_HANDSHAKE_S,
            suppress_origin=True,
            redirect_limit=0,
            **_proxy(access.proxy),
        )
    except BaseException:
        connection.shutdown()
        raise
    return connection


def _proxy(url: str) -> dict[str, Any]:
    if not url:
        return {}
    proxy = urlsplit(url)
    login = (proxy.username, proxy.password or "") if proxy.username else None
    return {
        "http_proxy_host": proxy.hostname,
        "http_proxy_port": proxy.port,
        "http_proxy_auth": login,
        "proxy_type": proxy.scheme if proxy.scheme.startswith("socks") else "http",
    }
