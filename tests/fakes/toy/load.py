"""The load generator of the toy: ``python3 load.py PORT CLIENTS SECONDS KEYS get|set``.

Prints one JSON object: how many requests were answered, in how many seconds, and how long one took.
"""

import json
import random
import socket
import sys
import threading
import time

port, clients, seconds, keys = map(int, sys.argv[1:5])
taken: list[list[float]] = [[] for _ in range(clients)]
begun = time.monotonic()


def ask(mine: list[float]) -> None:
    """Send one request after another until the time is over."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        lines = connection.makefile("rb")
        while (sent := time.monotonic()) < begun + seconds:
            key = f"key{random.randrange(keys)}"  # noqa: S311 - any key will do
            connection.sendall(f"{sys.argv[5].upper()} {key} value\n".encode())
            lines.readline()
            mine.append(time.monotonic() - sent)


threads = [threading.Thread(target=ask, args=(mine,)) for mine in taken]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
done = [each for mine in taken for each in mine]
told = {"requests": len(done), "seconds": time.monotonic() - begun, "mean_s": sum(done) / len(done)}
sys.stdout.write(json.dumps(told))
