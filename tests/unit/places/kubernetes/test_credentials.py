"""Passwords live in Secrets."""

import base64

import pytest

from fakes.belonging import ToldLedger
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.kubernetes import SECRET, SecretRef
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.reaching import make_secret, read_secret


def test_a_secret_is_made_that_the_operator_takes(
    belongings: Belongings, api: FakeKubernetesApi
) -> None:
    """It is basic-auth for postgres, and what is read is what was made."""
    ref = make_secret(belongings)
    assert api.get(SECRET, ref.name, ref.namespace)["type"] == "kubernetes.io/basic-auth"
    user, password = read_secret(api, ref)
    assert user == "postgres"
    assert len(password) >= 32


def test_two_campaigns_have_two_passwords(belongings: Belongings, api: FakeKubernetesApi) -> None:
    """A password is made, not derived."""
    ref = make_secret(belongings)
    first = read_secret(api, ref)
    belongings.remove_all()
    assert read_secret(api, make_secret(belongings)) != first


def test_the_ledger_never_hears_the_password(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """The record carries no secrets."""
    _, password = read_secret(api, make_secret(belongings))
    assert password not in repr(ledger)
    assert base64.b64encode(password.encode()).decode() not in repr(ledger)


def test_a_secret_that_is_not_there_is_named(api: FakeKubernetesApi) -> None:
    """The error says which, and where."""
    with pytest.raises(PreflightError, match="Secret bench/none is not there"):
        read_secret(api, SecretRef(namespace="bench", name="none"))


def test_a_missing_key_is_told_with_those_there_are(api: FakeKubernetesApi) -> None:
    """Other operators call their keys otherwise."""
    _put(api, {"user": "YQ=="})
    with pytest.raises(PreflightError, match="no key username; it has user") as caught:
        read_secret(api, SecretRef(namespace="bench", name="s"))
    assert "user_key" in caught.value.hint


def test_what_is_no_text_is_refused(api: FakeKubernetesApi) -> None:
    """A key that holds bytes is no password."""
    _put(api, {"username": "YQ==", "password": base64.b64encode(b"\xff").decode()})
    with pytest.raises(PreflightError, match="holds no text"):
        read_secret(api, SecretRef(namespace="bench", name="s"))


def _put(api: FakeKubernetesApi, values: dict[str, str]) -> None:
    api.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "bench"},
            "data": values,
        }
    )
