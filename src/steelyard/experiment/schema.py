"""The JSON Schema of experiment files, for editors with a YAML language server."""

from typing import Any

from steelyard.experiment.form import ExperimentForm


def experiment_schema() -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of the experiment file."""
    schema = ExperimentForm.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Steelyard experiment",
    }
