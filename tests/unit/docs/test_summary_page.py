"""The schema of ``summary.json`` fits every summary, describes every key, and makes the page."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from jsonschema import Draft7Validator, ValidationError

from fakes import summaries
from steelyard.answers.report import summary_schema
from steelyard.report.document import FORMAT
from support import doc_pages
from support.summary_page import PAGE, text

_KEPT = sorted(
    [
        *doc_pages.ROOT.glob("docs/examples/*/summary.json"),
        *doc_pages.ROOT.glob("tests/golden/report/*.json"),
    ]
)


def _closed(node: Any) -> Any:
    """Return the schema without room for keys that it does not describe."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    # A key of a campaign may be called `properties`; only an object of keys is closed.
    return closed | ({"additionalProperties": False} if "properties" in node else {})


CHECK = Draft7Validator(_closed(summary_schema()))


def test_the_schema_is_one() -> None:
    """A draft 7 schema, of the present format."""
    Draft7Validator.check_schema(summary_schema())
    assert summary_schema()["properties"]["format"]["const"] == FORMAT


@pytest.mark.parametrize("path", _KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_kept_summary_has_only_described_keys(path: Any) -> None:
    """A key that is new to an example or a golden report fails until it is described."""
    CHECK.validate(json.loads(path.read_text("utf-8")))


def test_summaries_that_no_example_has_fit_too() -> None:
    """Rates with a goal, a gate, plans, a suspect result."""
    seen: set[str] = set()
    for told in summaries.further():
        CHECK.validate(told)
        seen |= {*told}
    assert {"gate", "plans", "rates", "goal", "capacity"} <= seen


def test_a_new_key_and_a_wrong_type_fail() -> None:
    """At the top, in an object of a list, and below a name that the campaign gave."""
    good = json.loads((doc_pages.ROOT / "docs/examples/quick/summary.json").read_text("utf-8"))
    CHECK.validate(good)
    for change in (
        lambda told: told.update(novelty=1),
        lambda told: told["comparisons"][0].update(novelty=1),
        lambda told: next(iter(told["ledger"]["cells"][0]["costs"].values())).update(novelty=1),
        lambda told: told["comparisons"][0].update(blocks="six"),
        lambda told: told.pop("comparisons"),
        lambda told: told.update(format=FORMAT + 1),
    ):
        wrong = deepcopy(good)
        change(wrong)
        with pytest.raises(ValidationError):
            CHECK.validate(wrong)


def _keys(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for key, child in node.get("properties", {}).items():
            yield f"{path}.{key}", child
            yield from _keys(child, f"{path}.{key}")
        yield from _keys(node.get("items"), f"{path}[]")
        yield from _keys(node.get("additionalProperties"), f"{path}.*")


def test_every_key_is_described_in_a_sentence() -> None:
    """A description that says something and ends."""
    found = dict(_keys(summary_schema()))
    assert len(found) > 400
    for path, node in found.items():
        told = node.get("description", "")
        assert len(told) > 3, path
        assert told.endswith("."), path


def test_the_page_is_made_from_the_schema() -> None:
    """Whoever changes the schema makes the page anew: ``support.summary_page`` says how."""
    assert PAGE.read_text("utf-8") == text()
