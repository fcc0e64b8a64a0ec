"""The JSON Schema that editors use."""

from functools import cache
from typing import Any

import jsonschema
import pytest
import test_endpoint_targets as endpoint
import test_kubernetes_targets as kubernetes
import test_redis_in_the_file as redis
from experiment_texts import KEPT, SMALL, with_line, with_other, with_workload
from ruamel.yaml import YAML

from steelyard.campaign.file.files import preset_names, preset_text
from steelyard.campaign.file.form import experiment_schema


@cache
def validator() -> Any:
    """Return what judges a text as an editor does."""
    return jsonschema.Draft202012Validator(experiment_schema())


def errors(text: str) -> list[Any]:
    """Return what the schema finds wrong with a text."""
    return list(validator().iter_errors(YAML(typ="safe", pure=True).load(text)))


def test_it_is_a_schema_of_draft_2020_12() -> None:
    """The schema itself is valid and says which draft it follows."""
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_valid(name: str) -> None:
    """An editor finds nothing wrong with a preset."""
    assert errors(preset_text(name)) == []


@pytest.mark.parametrize(
    "text",
    [
        *KEPT,
        endpoint.EVERY_KEY,
        kubernetes.EVERY_KEY,
        kubernetes.BEHIND_A_SERVICE,
        redis.EVERY_KEY,
        redis.EVERYWHERE,
        redis.IN_PODS,
        redis.BEHIND_A_SERVICE,
    ],
)
def test_every_key_is_valid(text: str) -> None:
    """An editor accepts the design's own example, and all keys of its sections."""
    assert errors(text) == []


@pytest.mark.parametrize(
    "text",
    [
        with_line("bogus: 1"),
        with_line("measure: {reset: daily}"),
        with_workload("{name: x, builtin: tpcb}"),
        with_other("{target: {kind: cloudsql}}"),
        with_other("{profile: fited}"),
        SMALL.replace("version: 1", "version: 2"),
        SMALL.replace("loads: {clients: 1}", "loads: {clients: 0}"),
    ],
)
def test_mistakes_of_one_place_are_found(text: str) -> None:
    """Unknown keys and words and numbers out of range are marked while one types."""
    assert errors(text)


def test_every_key_has_a_description() -> None:
    """Hovering over any key says what it means."""
    schema = experiment_schema()
    sections = [schema, *schema["$defs"].values()]
    keys = [key for section in sections for key in section["properties"].items()]
    assert [name for name, key in keys if not key.get("description")] == []
