"""A cluster by its API: paths of the REST interface, no typed models, and commands in containers.

Server-side apply, discovery and strict validation need no more than JSON, and what Steelyard makes
of a Cluster's specification is a manifest anyway. Discovery says which kinds a cluster has, and
under which names its API has them.

A command whose connection is lost goes on in its container, for the container runtimes do not end
it. So it is started by a few lines of shell that notice the end of their standard input, which
stays open as long as the connection does, and then kill the process group of the command.

The libraries take half a second to import, and come with the first connection.
"""

import json
import socket
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core.outside import Completed
from steelyard.core.wording import MeasurementError, SteelyardError, TargetError
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes import refusals
from steelyard.gateways.kubernetes.refusals import Answered, Request, refused

if TYPE_CHECKING:
    from steelyard.gateways.kubernetes.requests import Access, Requests
    from steelyard.gateways.kubernetes.streams import Stream


STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
STATUS: Final = 3
_CHUNK_BYTES: Final = 32768
_SHOWN_LINES: Final = 3
# The first argument is how many bytes the command gets as its standard input; what comes after them
# is the end, which means that nobody listens any more. A runtime starts every command as the leader
# of a group of its own (setsid); where one does not, nothing is killed. The first half of the pipe
# tells the second its process id, and is ended when the command has: nothing is left to be reaped.
# What the command did not read is read before, or the end of it would never be told (seen with
# containerd 1.6, also by `kubectl exec -i`).
_GUARDED: Final = """\
exec 3<&0
count=$1; shift
{
  read -r self rest </proc/self/stat; echo "$self"
  [ "$count" = 0 ] || head -c "$count" <&3
  exec >/dev/null 2>&1
  while read -r line; do :; done <&3
  read -r self name state parent group rest </proc/self/stat
  [ "$group" = $$ ] && kill -9 0
} | {
  read -r guard
  "$@" 3<&-
  status=$?
  [ "$count" = 0 ] || cat >/dev/null
  kill -PIPE "$guard"
  exit $status
}
"""


def guarded(argv: Sequence[str], stdin: bytes = b"") -> tuple[str, ...]:
    """Return a command that dies with its connection and is given so many bytes to read."""
    return ("sh", "-c", _GUARDED, "sh", str(len(stdin)), *argv)


def _complete(
    stream: "Stream",
    *,
    where: k8s.ContainerRef,
    argv: tuple[str, ...],
    stdin: bytes,
    clock: Clock,
    timeout_s: float,
) -> Completed:
    """Return what a command printed and how it ended, while it is given its input."""
    deadline = clock.monotonic() + timeout_s
    heard: dict[int, bytearray] = defaultdict(bytearray)
    try:
        while True:
            sends = bool(stdin) and stream.is_writable()
            wait_s = 0.0 if sends else max(min(deadline - clock.monotonic(), 1.0), 0.0)
            is_ready, _ = stream.ready(wait_s)
            if is_ready:
                message = stream.receive()
                if message is None:
                    break
                heard[message[0]] += message[1]
            elif sends:
                chunk, stdin = stdin[:_CHUNK_BYTES], stdin[_CHUNK_BYTES:]
                stream.send(STDIN, chunk)
            if clock.monotonic() >= deadline:
                raise MeasurementError(
                    f"{argv[0]} in {_label(where)} did not end within {timeout_s:.0f} s and was"
                    " killed",
                    hint="Is the server hanging?",
                )
    except OSError as error:
        raise lost(argv, where) from error
    return Completed(
        argv=argv,
        exit_status=exit_status(bytes(heard[STATUS]), argv, where),
        stdout=heard[STDOUT].decode("utf-8", "replace"),
        stderr=heard[STDERR].decode("utf-8", "replace"),
    )


class StreamedLines:
    """What a command prints, line by line."""

    def __init__(self, stream: "Stream", where: k8s.ContainerRef, argv: tuple[str, ...]) -> None:
        self._stream = stream
        self._where = where
        self._argv = argv
        self._closed = False

    def __iter__(self) -> Iterator[str]:
        """Yield lines without their ends.

        Raises:
            TargetError: The connection was lost, or the command failed.
        """
        heard: dict[int, bytes] = {STDOUT: b"", STDERR: b"", STATUS: b""}
        try:
            while (message := self._next()) is not None:
                channel, content = message
                heard[channel] = heard.get(channel, b"") + content
                if channel == STDOUT and b"\n" in content:
                    *whole, heard[STDOUT] = heard[STDOUT].split(b"\n")
                    yield from (line.decode("utf-8", "replace") for line in whole)
        except OSError as error:
            if self._closed:
                return
            raise lost(self._argv, self._where) from error
        finally:
            self._stream.close()
        if not self._closed:
            yield from self._last(heard)

    def _next(self) -> tuple[int, bytes] | None:
        while not self._stream.ready(None)[0]:
            pass
        return self._stream.receive()

    def _last(self, heard: dict[int, bytes]) -> Iterator[str]:
        """Yield the line that has no end, and raise where the command failed."""
        if heard[STDOUT]:
            yield heard[STDOUT].decode("utf-8", "replace")
        status = exit_status(heard[STATUS], self._argv, self._where)
        if status:
            said = heard[STDERR].decode("utf-8", "replace").strip().splitlines()[-_SHOWN_LINES:]
            why = f": {' '.join(said)}" if said else ""
            message = f"{self._argv[0]} in {_label(self._where)} ended with status {status}{why}"
            raise TargetError(message, hint="Was its pod stopped?")

    def close(self) -> None:
        """Hang up; the command is killed. Also from another thread."""
        self._closed = True
        self._stream.hang_up()


def exit_status(said: bytes, argv: Sequence[str], where: k8s.ContainerRef) -> int:
    """Return the exit status that the API tells at the end.

    Raises:
        TargetError: It tells none: the connection was lost, or the command was not started.
    """
    if not said:
        raise lost(argv, where)
    status = json.loads(said)
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    message = f"{argv[0]} could not be run in {_label(where)}: {status.get('message')}"
    raise TargetError(message, hint="Does the pod run, and has its image a shell?")


def lost(argv: Sequence[str], where: k8s.ContainerRef) -> TargetError:
    """Return that nobody knows how a command ended."""
    return TargetError(
        f"the connection to {_label(where)} was lost while {argv[0]} ran there",
        hint="Was the pod stopped, or the API restarted?",
    )


def _label(where: k8s.ContainerRef) -> str:
    return f"Pod {where.namespace}/{where.pod}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as the API has it.

    Attributes:
        plural: ``pods``.
        namespaced: As the cluster says.
    """

    api_version: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """Return the API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of its objects, of one of them, or of a part such as ``log``."""
        within = ("namespaces", namespace) if self.namespaced and namespace else ()
        root = group_path(self.api_version)
        return "/".join(word for word in (root, *within, self.plural, name, part) if word)


def group_path(api_version: str) -> str:
    """Return the path of a version of an API group."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Discovery:
    """What the API says of its kinds; found kinds are kept, absent ones are asked for again."""

    def __init__(self, requests: "Requests") -> None:
        self._requests = requests
        self._found: dict[tuple[str, str], Resource] = {}

    def find(self, kind: k8s.Kind) -> Resource | None:
        """Return a kind as the cluster has it; None where it has not."""
        key = (kind.api_version, kind.name)
        if key not in self._found:
            self._ask(kind.api_version)
        return self._found.get(key)

    def resource(self, kind: k8s.Kind) -> Resource:
        """Return a kind as the cluster has it.

        Raises:
            PreflightError: The cluster has no such kind.
        """
        found = self.find(kind)
        if found is None:
            raise refusals.unknown_kind(kind)
        return found

    def _ask(self, api_version: str) -> None:
        path = group_path(api_version)
        context = self._requests.access.context
        request = Request(method="GET", path=path, what=path, verb="get", context=context)
        answered = self._requests.send(request)
        if answered.status == 404:
            return
        for each in _body(answered, request).get("resources") or ():
            if "/" not in each["name"]:  # no part of another
                self._found[api_version, each["kind"]] = Resource(
                    api_version=api_version,
                    plural=each["name"],
                    namespaced=bool(each["namespaced"]),
                )


_STRICT: Final = (("fieldManager", "steelyard"), ("fieldValidation", "Strict"))
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_REVIEW: Final = "authorization.k8s.io/v1"


class KubernetesApi:
    """One cluster under one account; any thread may use it.

    Every method raises a SteelyardError whose message names the object: PrivilegeError where the
    account lacks a verb (named, with the role that has it), PreflightError where a quota or the
    object itself is refused, TargetError where the API cannot be reached. Requests that can be
    repeated are, for a while, when the connection is lost.

    Attributes:
        context: Name of the context in the kubeconfig; ``in-cluster`` inside a pod.
        server: URL of the API: it tells clusters apart.
        namespace: Of the context.
        is_inside: Whether this process runs in the cluster, where services are reached directly.
    """

    def __init__(self, access: "Access", *, clock: Clock) -> None:
        from steelyard.gateways.kubernetes import requests  # noqa: PLC0415 - see above

        weakref.finalize(self, access.http.close)
        self.context = access.context
        self.server = access.server
        self.namespace = access.namespace
        self.is_inside = access.is_inside
        self._access = access
        self._clock = clock
        self._requests = requests.Requests(access, clock)
        self._discovery = Discovery(self._requests)

    def version(self) -> str:
        """Return the version of the API server: ``v1.34.4``."""
        return str(self._got("/version").body["gitVersion"])

    def knows(self, kind: k8s.Kind) -> bool:
        """Return whether the cluster has this kind."""
        return self._discovery.find(kind) is not None

    def read(self, ref: k8s.ObjectRef) -> k8s.Manifest | None:
        """Return an object, or None where it is not there."""
        request = self._request(ref, "GET", "get")
        answered = self._requests.send(request)
        return None if answered.is_absent_object else _body(answered, request)

    def list(
        self, kind: k8s.Kind, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> tuple[k8s.Manifest, ...]:
        """Return the objects with all of these labels; of all namespaces where none is given."""
        chosen = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        request = Request(
            method="GET",
            path=self._discovery.resource(kind).path(namespace),
            what=f"the objects of kind {kind.name}",
            verb="list",
            namespace=namespace,
            context=self.context,
            query=(("labelSelector", chosen),) if chosen else (),
        )
        # Objects in a list do not say what they are.
        what = {"apiVersion": kind.api_version, "kind": kind.name}
        return tuple({**what, **item} for item in self._requests.granted(request).body["items"])

    def apply(self, manifest: k8s.Manifest, *, dry_run: bool = False) -> k8s.Manifest:
        """Make an object as it is written, or bring it to that; return it as the server has it.

        Server-side apply with strict validation: an unknown field is an InputError.
        """
        return self._change(
            k8s.ref_of(manifest),
            manifest,
            content_type=_APPLY,
            query=(("force", "true"), *((("dryRun", "All"),) if dry_run else ())),
        )

    def create(self, manifest: k8s.Manifest) -> k8s.Manifest | None:
        """Make an object that is not there yet; None where one of that name is, whoever made it.

        A request whose answer was lost is repeated, so the one that is there may be this one.
        """
        ref = k8s.ref_of(manifest)
        request = self._request(ref, "POST", "create", query=_STRICT, body=manifest)
        request = replace(request, path=request.path.removesuffix(f"/{ref.name}"))
        answered = self._requests.send(request)
        return None if answered.is_there_already else _body(answered, request)

    def patch(self, ref: k8s.ObjectRef, patch: k8s.Manifest) -> k8s.Manifest:
        """Change an object by a JSON merge patch, strictly validated; null removes a key."""
        return self._change(ref, patch, content_type=_MERGE)

    def delete(self, ref: k8s.ObjectRef, *, grace_s: int | None = None) -> bool:
        """Delete an object with all that it owns; return whether it was there.

        Returns at once. The object can be read until it and what it owns with
        ``blockOwnerDeletion`` are gone.
        """
        options = {"propagationPolicy": "Foreground"}
        grace = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        request = self._request(ref, "DELETE", "delete", body={**options, **grace})
        answered = self._requests.send(request)
        if answered.is_absent_object:
            return False
        _body(answered, request)
        return True

    def allowed(self, verb: str, kind: k8s.Kind, namespace: str = "", part: str = "") -> bool:
        """Return whether this account may do that; ``part`` is a subresource such as ``exec``.

        Commands and forwarded ports need ``get`` of their part, and ``create`` since Kubernetes
        1.35; a role that has both fits every version.
        """
        resource = self._discovery.resource(kind)
        # A namespace lies in itself: a role there may allow to read it (RequestInfo of the API).
        is_inside = resource.namespaced or kind.name == k8s.NAMESPACE.name
        wanted = {
            "verb": verb,
            "group": resource.group,
            "version": kind.api_version.rpartition("/")[2],
            "resource": resource.plural,
            "subresource": part,
            "namespace": namespace if is_inside else "",
        }
        request = Request(
            method="POST",
            path=f"/apis/{_REVIEW}/selfsubjectaccessreviews",
            what="what the account may do",
            verb="create",
            context=self.context,
            body={
                "apiVersion": _REVIEW,
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": wanted},
            },
        )
        return bool(self._requests.granted(request).body["status"].get("allowed"))

    def logs(self, where: k8s.ContainerRef, *, lines: int | None = None) -> str:
        """Return what a container printed, or its last lines."""
        container = (("container", where.container),) if where.container else ()
        tail = () if lines is None else (("tailLines", str(lines)),)
        request = self._request(_pod(where), "GET", "get", "log", query=(*container, *tail))
        return self._requests.granted(request).text

    def run(
        self, where: k8s.ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Run a short command in a container; it and its children die with the connection.

        What it left running in the background when it ended goes on. The container needs ``sh``
        (and ``head`` where there is ``stdin``), and a process 1 that reaps, such as a shell.

        Raises:
            MeasurementError: It did not end in time, and was killed.
            TargetError: The connection was lost, or the command could not be started; it is never
                repeated.
        """
        given = stdin.encode()
        stream = self._exec(where, guarded(argv, given))
        try:
            return _complete(
                stream,
                where=where,
                argv=tuple(argv),
                stdin=given,
                clock=self._clock,
                timeout_s=timeout_s,
            )
        finally:
            stream.close()

    def lines(self, where: k8s.ContainerRef, argv: Sequence[str]) -> StreamedLines:
        """Start a command in a container and return what it prints, line by line."""
        stream = self._exec(where, guarded(argv))
        return StreamedLines(stream, where, tuple(argv))

    def forward(self, where: k8s.ContainerRef, port: int) -> AbstractContextManager[int]:
        """Make a port of a pod reachable on the loopback interface; gives the local port.

        Raises:
            TargetError: The pod is not there.
            PrivilegeError: The account may not do that.
        """
        if self.read(_pod(where)) is None:
            raise refusals.absent(_pod(where).label)
        for verb in refusals.verbs_of_sessions(self.version()):
            if not self.allowed(verb, k8s.POD, where.namespace, "portforward"):
                raise refusals.lacks_verb(verb, "pods/portforward", where.namespace)
        query = (("ports", str(port)),)
        request = self._request(_pod(where), "GET", "get", "portforward", query=query)
        return Forward(lambda: self._open(request, repeatable=True))

    def raw(self, path: str) -> str:
        """Return what the API answers at a path, such as ``/api/v1/nodes/n/proxy/configz``."""
        return self._got(path).text

    def _got(self, path: str) -> Answered:
        request = Request(method="GET", path=path, what=path, verb="get", context=self.context)
        return self._requests.granted(request)

    def _request(
        self,
        ref: k8s.ObjectRef,
        method: str,
        verb: str,
        part: str = "",
        **more: Any,  # noqa: ANN401 - further fields
    ) -> Request:
        resource = self._discovery.resource(ref.kind)
        namespace = (ref.namespace or self.namespace) if resource.namespaced else ""
        return Request(
            method=method,
            path=resource.path(namespace, ref.name, part),
            what=ref.label,
            verb=verb,
            namespace=namespace,
            context=self.context,
            **more,
        )

    def _change(
        self,
        ref: k8s.ObjectRef,
        body: k8s.Manifest,
        *,
        content_type: str,
        query: Sequence[tuple[str, str]] = (),
    ) -> k8s.Manifest:
        request = self._request(
            ref, "PATCH", "patch", query=(*_STRICT, *query), body=body, content_type=content_type
        )
        return self._requests.granted(request).body

    def _exec(self, where: k8s.ContainerRef, argv: Sequence[str]) -> "Stream":
        words = tuple(("command", word) for word in argv)
        channels = tuple((name, "true") for name in ("stdin", "stdout", "stderr"))
        named = (("container", where.container),) if where.container else ()
        query = (*named, *channels, *words)
        return self._open(
            self._request(_pod(where), "GET", "get", "exec", query=query), repeatable=False
        )

    def _open(self, request: Request, *, repeatable: bool) -> "Stream":
        from steelyard.gateways.kubernetes.streams import open_stream  # noqa: PLC0415 - as above

        patience = self._requests.patience
        return open_stream(self._access, request, patience, repeatable=repeatable)


def _pod(where: k8s.ContainerRef) -> k8s.ObjectRef:
    return k8s.ObjectRef(kind=k8s.POD, name=where.pod, namespace=where.namespace)


def _body(answered: Answered, request: Request) -> k8s.Manifest:
    if not answered.succeeded:
        raise refused(answered, request)
    return answered.body


_CONTENT: Final = 0
_ERROR: Final = 1
_PORT_CHUNK_BYTES: Final = 65536


class Forward:
    """A port of a pod on the loopback interface, which listens while it is entered.

    Each local connection has a WebSocket of its own: `kubectl port-forward` ends as a whole when
    one of its connections is reset, which is how PostgreSQL ends each one that spoke TLS.

    Args:
        opened: Opens a connection to the pod's port.
    """

    def __init__(self, opened: Callable[[], "Stream"]) -> None:
        self._opened = opened
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._bridges: set[_Bridge] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> int:
        """Return the local port."""
        self._accepting.start()
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        """Stop listening and end every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._listener.close()
        self._accepting.join()
        with self._lock:
            bridges = set(self._bridges)
        for bridge in bridges:
            bridge.end()
        for bridge in bridges:
            bridge.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            bridge = _Bridge(client, self._opened, self._forget)
            with self._lock:
                self._bridges.add(bridge)
            bridge.start()

    def _forget(self, bridge: "_Bridge") -> None:
        with self._lock:
            self._bridges.discard(bridge)


class _Bridge(threading.Thread):
    """One local connection and its way to the pod."""

    def __init__(
        self,
        client: socket.socket,
        opened: Callable[[], "Stream"],
        ended: Callable[["_Bridge"], None],
    ) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._opened = opened
        self._ended = ended
        self._stream: Stream | None = None
        self._is_unwanted = False

    def run(self) -> None:
        """Carry what comes from one side to the other until one of them ends."""
        try:
            # Who connected sees that the connection ends; what libpq says of that is told.
            with suppress(SteelyardError, OSError):
                self._stream = self._opened()
                self._carry(self._stream)
        finally:
            _end(self._client)
            self._client.close()
            if self._stream is not None:
                self._stream.close()
            self._ended(self)

    def end(self) -> None:
        """End it from another thread."""
        self._is_unwanted = True
        _end(self._client)
        if self._stream is not None:
            self._stream.hang_up()

    def _carry(self, stream: "Stream") -> None:
        announced: set[int] = set()  # the first message of a channel is the number of its port
        while not self._is_unwanted:
            from_pod, from_client = stream.ready(None, self._client)
            if from_pod:
                message = stream.receive()
                if message is None:
                    return
                if message[0] in announced:
                    if message[0] == _ERROR:
                        return
                    self._client.sendall(message[1])
                announced.add(message[0])
            if from_client:
                content = self._client.recv(_PORT_CHUNK_BYTES)
                if not content:
                    return
                stream.send(_CONTENT, content)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
