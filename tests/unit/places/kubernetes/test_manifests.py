"""Objects from templates: no value breaks out of its place, and none is forgotten."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from steelyard.places.kubernetes.manifests import render_manifest

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
