"""The JSON Schema of experiment files, for editors with a YAML language server."""

from typing import Any

from steelyard.experiment.form import ExperimentForm


def experiment_schema() -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of the experiment file.

    It refuses what an editor can see in one place; loading a file refuses more.
    """
    schema = _without_noise(ExperimentForm.model_json_schema(mode="validation"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Steelyard experiment",
        **schema,
    }


def _without_noise(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a schema without titles made from key names and without defaults of null."""
    if isinstance(node, list):
        return [_without_noise(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _named(value) if key in ("properties", "$defs") else _without_noise(value)
        for key, value in node.items()
        if key != "title" and not (key == "default" and value is None)
    }


def _named(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return schemas by name; the names are no keywords, even when they are called `title`."""
    return {name: _without_noise(schema) for name, schema in schemas.items()}
