"""Steelyard with everything imported, as a program: it forks for every start that it is asked for.

An interpreter that imports Steelyard takes a second of CPU time and more, and live tests start it
hundreds of times. Each start has a process of its own here, too: its directory, environment and
streams, the signals and the exit status of any program. What differs: modules are there already,
the seed of hashes is that of the others, and no charts are drawn.

The first word is the file descriptor of a socket. A request holds the directory, the arguments and
the environment, and descriptors for output, errors and the news of the process: a line with its
number, and when it has ended one with its exit status as ``os.waitpid`` returns it.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys

_LONGEST = 1 << 20  # bytes of a request
_HEAVY = (
    "steelyard.gateways.kubernetes.streams",
    "pyarrow.parquet",
    "scipy.special",
)  # imported when they are needed


def _import_all() -> None:
    from steelyard import cli  # noqa: PLC0415 - once the path is right

    found = pkgutil.walk_packages(cli.__path__, "steelyard.cli.")
    for name in (*(each.name for each in found), *_HEAVY):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a child that looks through these objects would copy their pages


def _serve(requests: socket.socket) -> None:
    """Return in a new process for every request; end with the one who asks."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(requests, _LONGEST, 3)
        if not text:
            sys.exit()
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(text), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(request: dict[str, object], out: int, err: int, news: int) -> None:
    """Return in the process of one start; in its parent tell the number and wait for the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.write(news, b"%d\n" % pid)
        os.write(news, b"%d\n" % os.waitpid(pid, 0)[1])
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, max(out, err, news) + 1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.chdir(str(request["directory"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = ["steelyard", *request["arguments"]]  # type: ignore[misc]


if __name__ == "__main__":
    del sys.path[0]  # this folder, which has a module `kubernetes` of its own
    sys.modules["altair"] = None  # type: ignore[assignment] # as in chartless.py
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for what it started
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the parents of the starts
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from steelyard.cli.main import main

    main()
