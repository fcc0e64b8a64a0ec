"""A port of a pod on the loopback interface: kubectl forwards it, as a child process.

It ends with this process, however that ends: a few lines of shell hold the end of a pipe, and kill
kubectl when its other end is gone. (The kernel's signal at a parent's death comes when the thread
that made the child ends, and threads of a campaign end before its connections do.)
"""

import os
import queue
import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Final

from steelyard.core.kubernetes import ContainerRef
from steelyard.core.wording import PreflightError, TargetError

_BEGINS: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_BEGINS_WITHIN_S: Final = 60.0
_ENDS_WITHIN_S: Final = 10.0
_SHOWN_LINES: Final = 3
_GUARDED: Final = """\
"$@" </dev/null & forward=$!
exec >/dev/null 2>&1
read -r end
kill -9 "$forward"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """The program and how it finds the cluster.

    Attributes:
        environment: Whole: a credential plugin may need any of it.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def at(cls, context: str, environment: Mapping[str, str], *, is_inside: bool) -> "Kubectl":
        """Return kubectl for a context; inside a pod it finds the account by itself.

        Raises:
            PreflightError: It is not installed.
        """
        whole = {**os.environ, **environment}
        program = shutil.which("kubectl", path=whole.get("PATH"))
        if program is None:
            raise PreflightError(
                "a port of a pod is forwarded by kubectl, which is not on the PATH",
                hint="Install kubectl, or measure inside the cluster with `--in-cluster`.",
            )
        named = () if is_inside else ("--context", context)
        return cls(argv=(program, *named), environment=whole)


class Forward:
    """A forwarded port while it is entered; it ends by itself when the pod's connection is lost."""

    def __init__(self, kubectl: Kubectl, where: ContainerRef, port: int) -> None:
        self._label = f"port {port} of Pod {where.namespace}/{where.pod}"
        words = ("--namespace", where.namespace, "port-forward", "--address", "127.0.0.1")
        self._argv = (*kubectl.argv, *words, f"pod/{where.pod}", f":{port}")
        self._environment = kubectl.environment
        self._begun: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._said: deque[str] = deque(maxlen=_SHOWN_LINES)

    def __enter__(self) -> int:
        """Return the local port.

        Raises:
            TargetError: kubectl could not forward it.
        """
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDED, "sh", *self._argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(self._environment),
            start_new_session=True,  # Ctrl-C is for us: what is cleaned needs the connection
        )
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        self._hearing = threading.Thread(
            target=self._hear, args=(self._process.stdout,), daemon=True
        )
        self._hearing.start()
        try:
            port = self._begun.get(timeout=_BEGINS_WITHIN_S)
        except BaseException as error:
            self._end()
            if isinstance(error, queue.Empty):
                raise self._failed("kubectl did not begin in time") from error
            raise
        if port is None:
            self._end()
            raise self._failed(" ".join(self._said) or "kubectl ended")
        return port

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End kubectl, and with it every connection through it."""
        self._end()

    def _hear(self, output: IO[bytes]) -> None:
        """Read what kubectl prints to its end: it would stand still at a full pipe."""
        for content in output:
            line = content.decode("utf-8", "replace").strip()
            begins = _BEGINS.search(line)
            if begins:
                self._begun.put(int(begins[1]))
            elif line and not line.startswith("Handling connection"):
                self._said.append(line)
        self._begun.put(None)

    def _failed(self, why: str) -> TargetError:
        return TargetError(
            f"{self._label} could not be forwarded: {why}",
            hint="Does the pod run, and does `kubectl port-forward` work by hand?",
        )

    def _end(self) -> None:
        process = self._process
        assert process.stdin is not None  # noqa: S101 - pipes
        assert process.stdout is not None  # noqa: S101
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._hearing.join(_ENDS_WITHIN_S)
        process.stdout.close()
