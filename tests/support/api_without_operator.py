"""The API of the cluster as it is without CloudNativePG: a proxy that answers 404 for its kinds."""

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.kubernetes import own_user_and_cluster, write_kubeconfig

_GROUP = "postgresql.cnpg.io"
_HEADERS = ("Content-Type", "Accept")


@contextmanager
def api_without_operator(directory: Path) -> Iterator[Path]:
    """Yield a kubeconfig of it; requests go on as the account of ``KUBECONFIG``.

    A stream (exec, forward) does not get through: what wants the operator ends before one.
    """
    user, cluster = own_user_and_cluster()
    if "client-certificate-data" not in user:
        pytest.skip("the account of KUBECONFIG has no client certificate for a proxy to use")
    trusted = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
    pair = []
    for name in ("client-certificate", "client-key"):
        path = directory / name
        path.touch(mode=0o600)
        path.write_text(_text(user[f"{name}-data"]))
        pair.append(path)
    trusted.load_cert_chain(*pair)
    place = urlsplit(cluster["server"])

    class Handler(_WithoutOperator):
        def upstream(self) -> http.client.HTTPSConnection:
            return http.client.HTTPSConnection(place.netloc, context=trusted)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = {"server": f"http://127.0.0.1:{server.server_port}"}
        yield write_kubeconfig(directory / "without-operator", address, {})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


class _WithoutOperator(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def upstream(self) -> http.client.HTTPSConnection:
        """Return a connection to the real API."""
        raise NotImplementedError

    def answer(self) -> None:
        """Hand a request on, unless it is about the operator's kinds."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if _GROUP in self.path:
            self._send(404, _NOT_FOUND)
            return
        wanted = {name: self.headers[name] for name in _HEADERS if name in self.headers}
        upstream = self.upstream()
        try:
            upstream.request(self.command, self.path, body or None, wanted)
            given = upstream.getresponse()
            self._send(given.status, _without(given.read()))
        finally:
            upstream.close()

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer  # noqa: N815 - as they are looked up

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


_NOT_FOUND = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "the server could not find the requested resource",
        "reason": "NotFound",
        "code": 404,
    }
).encode()


def _without(body: bytes) -> bytes:
    """Return an answer; a list of API groups is without that of the operator."""
    try:
        answer = json.loads(body)
    except ValueError:
        return body
    if answer.get("kind") == "APIGroupList":
        answer["groups"] = [each for each in answer["groups"] if each["name"] != _GROUP]
    return json.dumps(answer).encode()
