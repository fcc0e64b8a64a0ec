"""Objects of a campaign in a cluster: templates, names, Secrets, and findings of their place."""

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from fakes.belonging import ToldLedger
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.findings import Severity
from steelyard.core.kubernetes import (
    CAMPAIGN,
    SECRET,
    VOLUME,
    ObjectRef,
    SecretRef,
    campaign_labels,
    campaign_value,
)
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.belongings import LONGEST, Belongings, object_name
from steelyard.places.kubernetes.made_server import moved, stays
from steelyard.places.kubernetes.manifests import render_manifest
from steelyard.places.kubernetes.reaching import make_secret, read_secret
from steelyard.places.kubernetes.undoing import Held

_OWNER = "steelyard.places.kubernetes"
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def _claim(**values: object) -> dict[str, Any]:
    return render_manifest(_OWNER, "claim", **{"name": "n", "size": "1Gi", **values})


@given(_TEXT.filter(bool), st.dictionaries(_TEXT, _TEXT))
def test_any_text_arrives_as_it_is(text: str, labels: dict[str, str]) -> None:
    """Quotes, lines, braces and what YAML takes for something else stay text."""
    made = _claim(storage_class=text, labels=labels)
    assert made["spec"]["storageClassName"] == text
    assert made["metadata"] == {"name": "n", "labels": labels}


@pytest.mark.parametrize(
    "text", ["on", "2", "null", "{{ 7 * 7 }}", "a: b", "x\n---\ny", "\x85", "#"]
)
def test_words_that_yaml_reads_otherwise_stay_text(text: str) -> None:
    """A template language and a document's end are text, too."""
    assert _claim(storage_class=text)["spec"]["storageClassName"] == text


def test_what_is_none_is_left_out() -> None:
    """A claim without a class names none, so that the cluster's default is taken."""
    assert "storageClassName" not in _claim(storage_class=None)["spec"]


def test_a_value_that_is_lacking_is_an_error() -> None:
    """It is named, and nothing is written in its place."""
    with pytest.raises(UndefinedError, match="storage_class"):
        _claim()


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
    api.put(SECRET.manifest("s", namespace="bench", data=values))


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_IDS = st.from_regex(r"[A-Za-z0-9_-]{1,120}-[0-9a-f]{6}", fullmatch=True)


def test_a_plain_id_is_found_in_the_name() -> None:
    """What `kubectl get` shows leads back to the campaign."""
    assert object_name("disks-0a1b2c", "generator-0") == "steelyard-disks-0a1b2c-generator-0"


def test_the_longest_name_is_one_that_the_operator_takes() -> None:
    """A Cluster's name of more than 50 characters is refused by CloudNativePG."""
    assert len(object_name("x" * 200, "generator-12")) <= LONGEST == 50


def test_names_that_differ_in_case_only_stay_two() -> None:
    """Small letters alone would make two campaigns one."""
    assert object_name("Disks-0a1b2c") != object_name("disks-0a1b2c")


@given(campaign_id=_IDS, suffix=st.sampled_from(["", "agent", "generator-0", "generator-117"]))
def test_every_id_gives_a_name_that_kubernetes_takes(campaign_id: str, suffix: str) -> None:
    """Capitals, underscores and length of an id never make an invalid name."""
    name = object_name(campaign_id, suffix)
    assert _LABEL.fullmatch(name)
    assert len(name) <= LONGEST
    assert name == object_name(campaign_id, suffix)
    assert name.endswith(suffix)


@given(campaign_id=_IDS)
def test_every_id_gives_a_label_that_kubernetes_takes(campaign_id: str) -> None:
    """A long id, or one that begins with an underscore, is still a label, and always the same."""
    value = campaign_labels(campaign_id)[CAMPAIGN]
    assert _VALUE.fullmatch(value)
    assert campaign_value(value) == value


@given(ids=st.lists(_IDS, min_size=2, max_size=2, unique=True))
def test_two_ids_never_share_a_label(ids: list[str]) -> None:
    """What belongs to one campaign is never removed as another's."""
    assert campaign_value(ids[0]) != campaign_value(ids[1])
    assert object_name(ids[0]) != object_name(ids[1])


@pytest.mark.parametrize(
    ("storage_class", "words"),
    [("slow", "its class slow retains volumes"), ("", "its class retains volumes")],
)
def test_a_volume_that_stays_is_told_with_its_class(storage_class: str, words: str) -> None:
    """A volume that names no class, as one made by hand, is told without one."""
    volume = ObjectRef(kind=VOLUME, name="pvc-1")
    finding = stays(Held(ref=volume, storage_class=storage_class, stays=True))
    assert words in finding.message
    assert finding.severity is Severity.INFO


def test_only_more_than_one_node_is_worth_a_word() -> None:
    """A server that stayed where it was gives no finding."""
    assert not list(moved("server", ["one"]))
    (finding,) = moved("server", ["one", "two"])
    assert "the server ran on several nodes: one, two" in finding.message
