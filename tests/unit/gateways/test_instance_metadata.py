"""The metadata service of a cloud: a token first, then the type; whatever else is a sentence."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from steelyard.core.wording import TargetError
from steelyard.gateways.host import free_port, instance_type

_TOKEN = "a-token"


class _Service(BaseHTTPRequestHandler):
    """Answers as Amazon's does, IMDSv2 only."""

    def do_PUT(self) -> None:
        """Hand out a token for a minute."""
        sound = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") == "60"
        self._answer(200 if sound and self.path == "/latest/api/token" else 400, _TOKEN)

    def do_GET(self) -> None:
        """Tell the type to who has the token."""
        sound = self.headers.get("X-aws-ec2-metadata-token") == _TOKEN
        self._answer(200 if sound else 401, "m6i.large\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


class _Refusing(_Service):
    """Answers, but not this question."""

    def do_PUT(self) -> None:
        """Refuse."""
        self._answer(403, "no")


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of a service on the loopback network."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_type_is_asked_with_a_token() -> None:
    """Both requests are those that the service demands."""
    with served(_Service) as address:
        assert instance_type(address) == "m6i.large"


def test_a_service_that_refuses_is_said() -> None:
    """Its status is in the sentence; its text is not taken for a type."""
    with served(_Refusing) as address, pytest.raises(TargetError, match="answered 403"):
        instance_type(address)


def test_no_service_is_said() -> None:
    """Outside of a cloud nothing answers, which is no crash."""
    with pytest.raises(TargetError, match="no metadata service answers"):
        instance_type(f"127.0.0.1:{free_port()}")
