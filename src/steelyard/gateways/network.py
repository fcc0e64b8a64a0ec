"""The only door to sockets of our own."""

import socket
from contextlib import closing

from steelyard.model.errors import PreflightError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on just now."""
    with closing(socket.socket()) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int) -> None:
    """Raise when somebody listens on a port.

    Raises:
        PreflightError: The port is taken or may not be used.
    """
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise PreflightError(
                f"port {port} on {LOOPBACK} cannot be used: {error.strerror}",
                hint="Leave `port:` out to get a free one.",
            ) from error
