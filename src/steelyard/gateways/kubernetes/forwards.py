"""A port of a pod on the loopback interface: each local connection has a WebSocket of its own.

`kubectl port-forward` ends as a whole when one of its connections is reset, which is how PostgreSQL
ends each one that spoke TLS.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from steelyard.core.wording import SteelyardError

if TYPE_CHECKING:
    from steelyard.gateways.kubernetes.streams import Stream

_CONTENT: Final = 0
_ERROR: Final = 1
_CHUNK_BYTES: Final = 65536


class Forward:
    """Listens while it is entered.

    Args:
        opened: Opens a connection to the pod's port.
    """

    def __init__(self, opened: Callable[[], "Stream"]) -> None:
        self._opened = opened
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._bridges: set[_Bridge] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> int:
        """Return the local port."""
        self._accepting.start()
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
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
        opened: Callable[[], "Stream"],
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
            with suppress(SteelyardError, OSError):
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

    def _carry(self, stream: "Stream") -> None:
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
