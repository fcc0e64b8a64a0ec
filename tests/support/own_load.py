"""A load generator that logs its transactions: own_load.py CLIENTS SECONDS LOG CONFIGURATION.

Each client asks for random accounts of pgbench's tables; under the configuration ``idle`` it does
nothing for 30 % of its time. It speaks PostgreSQL's protocol itself, so that it needs nothing but
an interpreter that every account may run.
"""

import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, TextIO

CLIENTS, SECONDS, LOG, CONFIGURATION = sys.argv[1:5]
IDLE = 3 / 7 if CONFIGURATION == "idle" else 0.0  # of the time that an answer takes
# What ended it. No event of threads: a signal in `wait` finds the lock that `set` wants taken.
over: list[str] = []


def framed(kind: bytes, body: bytes) -> bytes:
    """Return a message of the protocol."""
    return kind + struct.pack("!i", len(body) + 4) + body


def await_ready(server: BinaryIO) -> None:
    """Read on until the server waits for the next statement."""
    kind = b""
    while kind != b"Z":
        kind = server.read(1)
        if kind == b"":
            sys.exit("the server is gone")
        body = server.read(struct.unpack("!i", server.read(4))[0] - 4)
        if kind == b"E":
            sys.exit(repr(body))


def connected() -> tuple[socket.socket, BinaryIO]:
    """Return a session, as libpq's variables say."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ['PGPORT']}")
    words = {"user": "PGUSER", "database": "PGDATABASE", "application_name": "PGAPPNAME"}
    told = "".join(f"{word}\0{os.environ[name]}\0" for word, name in words.items())
    connection.sendall(framed(b"", struct.pack("!i", 3 << 16) + told.encode() + b"\0"))
    server = connection.makefile("rb")
    await_ready(server)
    return connection, server


def work(log: TextIO) -> None:
    """Let one client work until all is over."""
    connection, server = connected()
    while not over:
        account = random.randint(1, 100_000)  # noqa: S311 - no secret
        begun = time.time()
        statement = f"SELECT abalance FROM pgbench_accounts WHERE aid = {account}\0"  # noqa: S608
        connection.sendall(framed(b"Q", statement.encode()))
        await_ready(server)
        ended = time.time()
        log.write(f"{ended:.6f} {1000 * (ended - begun):.3f}\n")
        if IDLE:
            time.sleep(IDLE * (time.time() - begun))


def main() -> None:
    """Let all clients work until the time is over or SIGTERM comes."""
    signal.signal(signal.SIGTERM, lambda *_: over.append("SIGTERM"))
    end = time.monotonic() + float(SECONDS)
    with Path(LOG).open("w", buffering=1) as log:
        threads = [threading.Thread(target=work, args=(log,)) for _ in range(int(CLIENTS))]
        for each in threads:
            each.start()
        # Not in one piece: a signal that another thread gets does not wake this one.
        while time.monotonic() < end and not over:
            time.sleep(0.05)
        over.append("the time")
        for each in threads:
            each.join()


if __name__ == "__main__":
    main()
