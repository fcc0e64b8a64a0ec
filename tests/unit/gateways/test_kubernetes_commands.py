"""Commands in a container, those that are told lines, and refusals of the API as our errors."""

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.kubernetes import ContainerRef
from steelyard.core.wording import (
    InputError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)
from steelyard.gateways.kubernetes import api
from steelyard.gateways.kubernetes.refusals import Answered, Request, refused

WHERE = ContainerRef(namespace="bench", pod="p")
SHELLS = [
    pytest.param(
        shell,
        marks=pytest.mark.skipif(
            shutil.which(shell[0]) is None, reason=f"{shell[0]} is not installed"
        ),
    )
    for shell in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
]


def start(
    shell: Sequence[str], argv: Sequence[str], stdin: bytes = b""
) -> "subprocess.Popen[bytes]":
    """Start a guarded command as a container's runtime does: leading a group of its own."""
    _, *rest = api.guarded(argv, stdin)
    process = subprocess.Popen(
        [*shell, *rest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    return process


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, bytes, bytes]:
    """Return how it ended while somebody listens, and what it printed."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    status = process.wait()
    assert process.stdin is not None
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    return status, out, err


def living(group: int) -> list[str]:
    """Return the names of the processes of a group that are no zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition(") ")
        except OSError:
            continue
        state, _, its_group = rest.split()[:3]
        if int(its_group) == group and state != "Z":
            found.append(name.partition("(")[2])
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_status_and_outputs_are_the_commands_own(shell: tuple[str, ...]) -> None:
    """Arguments arrive as they are, both outputs are kept apart, nothing is added or left."""
    argv = ["sh", "-c", 'printf "%s|" "$@"; echo err >&2; exit 7', "x", "a b", "", "$HOME", "'"]
    process = start(shell, argv)
    assert ended(process) == (7, b"a b||$HOME|'|", b"err\n")
    assert living(process.pid) == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("given", [b"", b"one\ntwo", b"x" * 50_000])
def test_standard_input_is_given_and_ends(shell: tuple[str, ...], given: bytes) -> None:
    """All of it, although the connection's own end is still open."""
    assert ended(start(shell, ["cat"], given)) == (0, given, b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_reads_nothing_ends_in_order(shell: tuple[str, ...]) -> None:
    """What it did not read is taken before its end is told: else some runtimes never tell it."""
    process = start(shell, ["true"], b"x" * 1_000_000)  # more than a pipe holds
    assert ended(process) == (0, b"", b"")
    assert living(process.pid) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_it_dies_when_nobody_listens(shell: tuple[str, ...]) -> None:
    """The end of the standard input ends the command and its children."""
    process = start(shell, ["sh", "-c", "echo started; sleep 600; true"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    assert len(living(process.pid)) > 1
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == -9
    deadline = time.monotonic() + 60
    while living(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


def test_it_kills_no_group_of_others() -> None:
    """Where the runtime starts no group of its own, the guard ends and kills nothing."""
    _, *rest = api.guarded(["sh", "-c", "sleep 0.5; echo survived"])
    process = subprocess.Popen(["/bin/sh", *rest], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    out, _ = process.communicate()
    assert out == b"survived\n"


def test_the_exit_status_is_what_the_api_tells() -> None:
    """Success is 0; a cause names another; no status at all means that the connection was lost."""
    failed = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
    }
    assert api.exit_status(b'{"metadata":{},"status":"Success"}', ["x"], WHERE) == 0
    assert api.exit_status(json.dumps(failed).encode(), ["x"], WHERE) == 7
    with pytest.raises(TargetError, match="connection to Pod bench/p was lost while x ran"):
        api.exit_status(b"", ["x"], WHERE)
    broken = {"status": "Failure", "message": "container not found"}
    with pytest.raises(TargetError, match="x could not be run in Pod bench/p: container not found"):
        api.exit_status(json.dumps(broken).encode(), ["x"], WHERE)


ASKED = Request(
    method="PATCH", path="/", what="Pod bench/p", verb="patch", namespace="bench", context="lab"
)
_USER = 'User "system:serviceaccount:bench:limited"'


def answer(code: int, message: str, **details: Any) -> Answered:
    """Return an answer with a Status."""
    status = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return Answered(status=code, text=json.dumps({**status, "details": details}))


def forbidden(name: str, words: str, group: str = "", scope: str = "") -> Answered:
    """Return the answer to who lacks a right, in one namespace or in the whole cluster."""
    place = scope or 'in the namespace "bench"'
    lacks = f'{_USER} cannot {words} in API group "{group}" {place}'
    return answer(403, f"{name} is forbidden: {lacks}")


_CNPG = "postgresql.cnpg.io"
_UNBOUND = ': RBAC: role.rbac.authorization.k8s.io "r" not found'
REFUSALS: tuple[tuple[Answered, type[SteelyardError], str], ...] = (
    (
        forbidden("pods", 'list resource "pods"'),
        PrivilegeError,
        "the account may not list pods in the namespace bench",
    ),
    (
        forbidden('pods "p"', 'get resource "pods/exec"'),
        PrivilegeError,
        "the account may not get pods/exec in the namespace bench",
    ),
    (
        forbidden(f'clusters.{_CNPG} "pg"', 'patch resource "clusters"', _CNPG),
        PrivilegeError,
        "the account may not patch clusters.postgresql.cnpg.io in the namespace bench",
    ),
    (
        forbidden("nodes", 'list resource "nodes"', scope="at the cluster scope"),
        PrivilegeError,
        "the account may not list nodes in the whole cluster",
    ),
    (
        forbidden("pods", 'list resource "pods"', scope=f'in the namespace "bench"{_UNBOUND}'),
        PrivilegeError,
        'in the namespace bench: RBAC: role.rbac.authorization.k8s.io "r" not found',
    ),
    (
        answer(403, f'forbidden: {_USER} cannot get path "/metrics"'),
        PrivilegeError,
        "the account may not get /metrics in the whole cluster",
    ),
    (
        answer(
            403,
            'pods "p" is forbidden: exceeded quota: small, requested: requests.cpu=2,'
            "requests.memory=1Gi, used: requests.cpu=0,requests.memory=0, limited: "
            "requests.cpu=100m,requests.memory=1Mi",
        ),
        PreflightError,
        "small: it requests requests.cpu=2,.*, in use are requests.cpu=0,.*, the limit is requests",
    ),
    (
        answer(
            403, 'pods "p" is forbidden: failed quota: small: must specify requests.cpu for: main'
        ),
        PreflightError,
        "the quota small wants Pod bench/p to say its requests.cpu",
    ),
    (
        answer(403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest": privileged'),
        PreflightError,
        "the cluster does not allow Pod bench/p: .*PodSecurity",
    ),
    (answer(401, "Unauthorized"), PrivilegeError, "credentials of the context lab: Unauthorized"),
    (
        answer(404, 'namespaces "bench" not found', name="bench", kind="namespaces"),
        PreflightError,
        "the cluster has no namespace bench",
    ),
    (answer(404, 'pods "p" not found', name="p"), TargetError, "Pod bench/p is not there"),
    (
        answer(409, "Operation cannot be fulfilled: the object has been modified"),
        TargetError,
        "Pod bench/p was changed by somebody else",
    ),
    (
        answer(
            400,
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
            'unknown field "spec.bogus", unknown field "spec.other"',
        ),
        InputError,
        "Pod bench/p was refused by the cluster: unknown field spec.bogus, spec.other",
    ),
    (
        answer(
            500,
            "failed to create typed patch object (bench/p; /v1, Kind=Pod): .spec.bogus: "
            "field not declared in schema",
        ),
        InputError,
        "unknown field spec.bogus",
    ),
    (
        answer(
            500,
            "failed to create typed patch object (bench/p; /v1, Kind=Pod): "
            ".spec.nodeName: expected string, got &value.valueUnstructured{Value:3}",
        ),
        InputError,
        r"refused by the cluster: \.spec\.nodeName: expected string",
    ),
    (
        answer(
            422,
            'Pod "p" is invalid',
            causes=[
                {"field": "spec.cpu", "message": "Invalid value: 0\n@@ -165 @@", "reason": "x"},
                {"field": "spec.a", "message": "Required value"},
            ],
        ),
        InputError,
        "refused by the cluster: `spec.cpu`: Invalid value: 0; `spec.a`: Required value",
    ),
    (answer(500, "Internal error occurred: boom"), TargetError, "status 500: Internal error"),
    (Answered(status=502, text="<html>bad gateway"), TargetError, "status 502: <html>bad gateway"),
)


@pytest.mark.parametrize(("answered", "kind", "message"), REFUSALS)
def test_each_refusal_is_told_as_what_it_is(
    answered: Answered, kind: type[SteelyardError], message: str
) -> None:
    """The kind of error gives the exit code, the message the fact, and there is a way out."""
    error = refused(answered, ASKED)
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error
    assert error.hint


def test_what_the_account_lacks_names_the_role_that_has_it() -> None:
    """The hint is the command that prints it."""
    assert "steelyard kubernetes rbac" in refused(REFUSALS[0][0], ASKED).hint


def test_only_what_passes_is_asked_again() -> None:
    """A busy or failing server may answer later; a wrong object stays wrong, also as status 500."""
    assert [answer(code, "x").passes for code in (429, 500, 502, 503, 504)] == [True] * 5
    assert [answer(code, "x").passes for code in (200, 400, 403, 404, 409, 422)] == [False] * 6
    wrong = "failed to create typed patch object (a/b; v1, Kind=C): .x: field not declared"
    assert not answer(500, wrong).passes


def test_a_missing_object_is_not_a_missing_kind() -> None:
    """The status of an object names it; that of an unknown path is mere text."""
    assert answer(404, 'pods "p" not found', name="p", kind="pods").is_absent_object
    assert not Answered(status=404, text="404 page not found").is_absent_object


@given(st.integers(min_value=300, max_value=599), st.text())
def test_any_answer_becomes_an_error(status: int, text: str) -> None:
    """Whatever a proxy on the way answers, there is a sentence of bounded length."""
    error = refused(Answered(status=status, text=text), ASKED)
    assert error.message
    assert len(error.message) < 1000
