"""A TCP proxy that a test can break: it cuts, resets, stalls, refuses, and works again."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_BUFFER_BYTES = 65536
_POLL_S = 0.05
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: closing sends RST


class Proxy:
    """Forwards a loopback port to another, one thread per direction.

    ``refuse`` closes every new connection at once; ``stall`` keeps all open and forwards nothing.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self.refuse = False
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Close every connection in order; return how many there were."""
        return self._end_all()

    def reset(self) -> int:
        """Break every connection with RST; return how many there were."""
        return self._end_all(_RESET)

    def stall(self) -> None:
        """Forward nothing any more, in connections that are there and in new ones."""
        self._flowing.clear()

    def flow(self) -> None:
        """Work again."""
        self.refuse = False
        self._flowing.set()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self.flow()
        # A thread in accept() keeps a closed socket listening.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _end_all(self, linger: bytes | None = None) -> int:
        ended, self._pairs = self._pairs, []
        living = [pair for pair in ended if pair[0].fileno() >= 0]
        for one in (each for pair in living for each in pair):
            _end(one, linger)
        return len(living)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.refuse:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server is down, and so is the way to it
                client.close()
                continue
            self._pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # also when the test closed it before this thread began
            source.settimeout(_POLL_S)
            while True:
                try:
                    content = source.recv(_BUFFER_BYTES)
                except TimeoutError:
                    continue
                self._flowing.wait()
                if not content:
                    break
                sink.sendall(content)
        _end(source)
        _end(sink)


def _end(one: socket.socket, linger: bytes | None = None) -> None:
    """Close a connection, also while another thread reads from it."""
    with suppress(OSError):
        if linger is None:
            one.shutdown(socket.SHUT_RDWR)
        else:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    one.close()


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Yield a proxy in front of a loopback port."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
