"""``steelyard schema``: the experiment file as a JSON Schema."""

import json

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of experiment files.

    Editors with a YAML language server use it by a first line such as
    ``# yaml-language-server: $schema=experiment.schema.json``.
    """
    from steelyard.campaign.file.validation import experiment_schema

    click.echo(json.dumps(experiment_schema(), indent=2))
