"""A line-based key-value server: ``python3 server.py DIRECTORY``.

Lines are ``SET KEY VALUE``, ``GET KEY``, ``COUNT``, ``SAVE`` and ``SETTINGS``; each gets one line.
The directory has ``toy.conf`` with ``port`` and ``delay_ms`` (how long each GET and SET sleeps)
and, once it was saved, the data.
"""

import json
import socketserver
import sys
import time
from pathlib import Path

HOME = Path(sys.argv[1])
SETTINGS = dict(line.split("=") for line in (HOME / "toy.conf").read_text().split())
SAVED = HOME / "data.json"
DATA = json.loads(SAVED.read_text()) if SAVED.exists() else {}
DELAY_S = float(SETTINGS.get("delay_ms", "0")) / 1000
served = [0]


def answer(verb: str, *words: str) -> str:
    """Return the answer to one line."""
    if verb in ("GET", "SET"):
        served[0] += 1
        time.sleep(DELAY_S)
    if verb == "SET":
        DATA[words[0]] = words[1]
    if verb == "SAVE":
        SAVED.write_text(json.dumps(DATA))
    told = {"GET": lambda: DATA.get(words[0], ""), "SETTINGS": lambda: json.dumps(SETTINGS)}
    told["COUNT"] = lambda: f"{len(DATA)} {served[0]}"
    return told.get(verb, lambda: "OK")()


class Session(socketserver.StreamRequestHandler):
    """One client."""

    def handle(self) -> None:
        """Answer every line until the client goes."""
        for line in self.rfile:
            self.wfile.write(f"{answer(*line.decode().split())}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    """A thread for each client."""

    daemon_threads = True
    allow_reuse_address = True


Server(("127.0.0.1", int(SETTINGS["port"])), Session).serve_forever()
