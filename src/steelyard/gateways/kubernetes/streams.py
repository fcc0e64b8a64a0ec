"""Connections to a container in one WebSocket, and a port of a pod on the loopback interface.

Every message begins with the number of its channel (k8s.io/apimachinery,
`remotecommand/constants.go`, and k8s.io/apiserver, `util/wsstream`). One thread reads and writes a
connection: OpenSSL wants that.

A port is forwarded as by `kubectl port-forward`. Every local connection gets a connection of its
own to the pod and a thread, so that one that breaks takes no other with it.
"""

import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from websocket import (
    ABNF,
    WebSocket,
    WebSocketAddressException,
    WebSocketBadStatusException,
    WebSocketException,
    WebSocketTimeoutException,
)

from steelyard.core.wording import SteelyardError
from steelyard.gateways.kubernetes.api import Answered, Asked, refused
from steelyard.gateways.kubernetes.requests import Access, Patience, is_hopeless, out_of_reach

PROTOCOLS: Final = "v5.channel.k8s.io,v4.channel.k8s.io"
_HANDSHAKE_S: Final = 30.0
_WITHIN_S: Final = 60.0
_UNANSWERED: Final = 3
_QUIET_S: Final = 30.0  # balancers hang up connections that are quiet for a minute or more
_NEVER_BEGUN: Final = (ConnectionRefusedError, WebSocketAddressException)
_PASSING: Final = frozenset({429, 502, 503, 504})
LOST: Final = (WebSocketException, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where a connection goes.

    Attributes:
        path: Of the pod's part, such as ``.../exec``.
        repeatable: Whether it may be opened again where nobody knows if it was.
    """

    path: str
    query: Sequence[tuple[str, str]]
    asked: Asked
    repeatable: bool = False


class Stream:
    """An open connection."""

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
            WebSocketTimeoutException: Nobody answers pings any more.
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
        """Ask whether anybody is there after a silence.

        Raises:
            WebSocketTimeoutException: Nobody answered several times.
        """
        if self._quiet > _UNANSWERED:
            raise WebSocketTimeoutException("no answer to several pings")
        self._connection.settimeout(_WITHIN_S)
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
        operation, frame = self._connection.recv_data_frame(control_frame=True)
        if operation == ABNF.OPCODE_CLOSE:
            return None
        if operation not in {ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT} or not frame.data:
            return -1, b""
        return frame.data[0], bytes(frame.data[1:])

    def send(self, channel: int, content: bytes) -> None:
        """Send a message."""
        self._connection.settimeout(_WITHIN_S)
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
        with suppress(*LOST):
            self._connection.shutdown()


def open_stream(access: Access, door: Door, patience: Patience) -> Stream:
    """Return an open connection; what did not begin is tried again for a while.

    Raises:
        SteelyardError: It was refused, or the API does not answer.
    """
    row = patience.row()
    while True:
        try:
            stream = Stream(_connected(access, door))
        except WebSocketBadStatusException as error:
            body = error.resp_body or b""
            text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
            answered = Answered(status=error.status_code, text=text or (error.status_message or ""))
            if answered.status not in _PASSING or not row.wait():
                raise refused(answered, door.asked) from error
        except LOST as error:
            may_repeat = door.repeatable or isinstance(error, _NEVER_BEGUN)
            if is_hopeless(error) or not may_repeat or not row.wait():
                raise out_of_reach(access, error) from error
        else:
            patience.is_known = True
            return stream


def _connected(access: Access, door: Door) -> WebSocket:
    """Return a connection after its handshake, by the library's configuration."""
    connection = WebSocket(sslopt=_tls(access.configuration), enable_multithread=True)
    header = [f"{name}: {value}" for name, value in access.headers().items()]
    header.append(f"sec-websocket-protocol: {PROTOCOLS}")
    url = f"ws{access.server.removeprefix('http')}{door.path}?{urlencode(door.query)}"
    try:
        connection.connect(
            url,
            header=header,
            timeout=_HANDSHAKE_S,
            suppress_origin=True,
            redirect_limit=0,
            **_proxy(access.configuration),
        )
    except BaseException:
        connection.shutdown()
        raise
    return connection


def _tls(configuration: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's class
    """Return TLS options of a kubeconfig in the words of the WebSocket library."""
    options: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
    if configuration.verify_ssl:
        options = {"cert_reqs": ssl.CERT_REQUIRED}
        if configuration.ssl_ca_cert:
            options["ca_certs"] = configuration.ssl_ca_cert
    words = {
        "certfile": configuration.cert_file,
        "keyfile": configuration.key_file,
        "server_hostname": configuration.tls_server_name,
    }
    return options | {name: value for name, value in words.items() if value}


def _proxy(configuration: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's class
    if not configuration.proxy:
        return {}
    proxy = urlsplit(configuration.proxy)
    return {
        "http_proxy_host": proxy.hostname,
        "http_proxy_port": proxy.port,
        "proxy_type": proxy.scheme if proxy.scheme.startswith("socks") else "http",
        "http_no_proxy": [name for name in (configuration.no_proxy or "").split(",") if name],
    }


_CONTENT: Final = 0
_ERROR: Final = 1
_CHUNK_BYTES: Final = 65536


class Forward:
    """Listens while it is entered.

    Args:
        opened: Opens a connection to the pod's port.
    """

    def __init__(self, opened: Callable[[], Stream]) -> None:
        self._opened = opened
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._bridges: set[_Bridge] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> int:
        """Return the local port."""
        self._accepting.start()
        return int(self._listener.getsockname()[1])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and end every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._listener.close()
        self._accepting.join()
        with self._lock:
            bridges = set(self._bridges)
        for bridge in bridges:
            bridge.end()
        for bridge in bridges:
            bridge.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            bridge = _Bridge(client, self._opened, self._forget)
            with self._lock:
                self._bridges.add(bridge)
            bridge.start()

    def _forget(self, bridge: "_Bridge") -> None:
        with self._lock:
            self._bridges.discard(bridge)


class _Bridge(threading.Thread):
    """One local connection and its way to the pod."""

    def __init__(
        self,
        client: socket.socket,
        opened: Callable[[], Stream],
        ended: Callable[["_Bridge"], None],
    ) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._opened = opened
        self._ended = ended
        self._stream: Stream | None = None
        self._is_unwanted = False

    def run(self) -> None:
        """Carry what comes from one side to the other until one of them ends."""
        try:
            # Who connected sees that the connection ends; what libpq says of that is told.
            with suppress(SteelyardError, *LOST):
                self._stream = self._opened()
                self._carry(self._stream)
        finally:
            _end(self._client)
            self._client.close()
            if self._stream is not None:
                self._stream.close()
            self._ended(self)

    def end(self) -> None:
        """End it from another thread."""
        self._is_unwanted = True
        _end(self._client)
        if self._stream is not None:
            self._stream.hang_up()

    def _carry(self, stream: Stream) -> None:
        announced: set[int] = set()  # the first message of a channel is the number of its port
        while not self._is_unwanted:
            from_pod, from_client = stream.ready(None, self._client)
            if from_pod:
                message = stream.receive()
                if message is None:
                    return
                if message[0] in announced:
                    if message[0] == _ERROR:
                        return
                    self._client.sendall(message[1])
                announced.add(message[0])
            if from_client:
                content = self._client.recv(_CHUNK_BYTES)
                if not content:
                    return
                stream.send(_CONTENT, content)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
