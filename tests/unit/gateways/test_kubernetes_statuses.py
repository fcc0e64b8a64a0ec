"""Answers of the API that refuse something, as our errors; the bodies are those of v1.34."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.wording import (
    InputError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)
from steelyard.gateways.kubernetes.api import Answered, Asked, refused

ASKED = Asked(what="Pod bench/p", verb="patch", namespace="bench", context="lab")
_USER = 'User "system:serviceaccount:bench:limited"'


def answer(code: int, message: str, **details: Any) -> Answered:
    """Return an answer with a Status."""
    status = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return Answered(status=code, text=json.dumps({**status, "details": details}))


REFUSALS: tuple[tuple[Answered, type[SteelyardError], str], ...] = (
    (
        answer(
            403,
            f'pods is forbidden: {_USER} cannot list resource "pods" in API group "" '
            'in the namespace "bench"',
        ),
        PrivilegeError,
        "the account may not list pods in the namespace bench",
    ),
    (
        answer(
            403,
            f'pods "p" is forbidden: {_USER} cannot get resource "pods/exec" in API group '
            '"" in the namespace "bench"',
        ),
        PrivilegeError,
        "the account may not get pods/exec in the namespace bench",
    ),
    (
        answer(
            403,
            f'clusters.postgresql.cnpg.io "pg" is forbidden: {_USER} cannot patch resource '
            '"clusters" in API group "postgresql.cnpg.io" in the namespace "bench"',
        ),
        PrivilegeError,
        "the account may not patch clusters.postgresql.cnpg.io in the namespace bench",
    ),
    (
        answer(
            403,
            f'nodes is forbidden: {_USER} cannot list resource "nodes" in API group "" at '
            "the cluster scope",
        ),
        PrivilegeError,
        "the account may not list nodes in the whole cluster",
    ),
    (
        answer(
            403,
            f'pods is forbidden: {_USER} cannot list resource "pods" in API group "" in '
            'the namespace "bench": RBAC: role.rbac.authorization.k8s.io "r" not found',
        ),
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
