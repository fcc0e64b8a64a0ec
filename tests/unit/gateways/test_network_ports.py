"""Ports: a free one is free, a taken one is refused with the way out."""

import socket
from contextlib import closing

import pytest

from steelyard.core.wording import ExitCode, PreflightError
from steelyard.gateways.host import LOOPBACK, free_port, require_free_port


def test_a_free_port_can_be_used() -> None:
    """What was found free passes the check."""
    port = free_port()
    assert 1024 < port < 65536
    require_free_port(port)


def test_a_taken_port_is_refused() -> None:
    """The sentence names the port; the hint says how to get a free one."""
    with closing(socket.socket()) as holder:
        holder.bind((LOOPBACK, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(PreflightError, match=f"port {port} on 127.0.0.1") as caught:
            require_free_port(port)
    assert "port:" in caught.value.hint
    assert caught.value.exit_code is ExitCode.REFUSED
