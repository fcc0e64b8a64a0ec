"""``steelyard schema``: the experiment file, or ``summary.json``, as a JSON Schema."""

import json

import click


@click.command("schema")
@click.option("--summary", is_flag=True, help="Print that of summary.json instead.")
def command(*, summary: bool) -> None:
    """Print the JSON Schema of experiment files, or of summary.json.

    Editors with a YAML language server use it by a first line such as
    ``# yaml-language-server: $schema=experiment.schema.json``.
    """
    if summary:
        from steelyard.answers.report import summary_schema

        click.echo(json.dumps(summary_schema(), indent=2))
        return
    from steelyard.campaign.file.form import experiment_schema

    click.echo(json.dumps(experiment_schema(), indent=2))
