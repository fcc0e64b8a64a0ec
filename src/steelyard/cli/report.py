"""``steelyard report``: from the record alone."""

from pathlib import Path

import click

from steelyard.cli.completion import complete_campaign
from steelyard.cli.options import gate_options


@click.command("report")
@click.argument("directory", type=click.Path(path_type=Path), shell_complete=complete_campaign)
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "markdown", "summary", "html", "json"]),
    help="Print this form and write nothing; summary is ten lines of Markdown for a pull request.",
)
@click.option("--full", is_flag=True, help="Show tables and findings, too (terminal only).")
@gate_options
def command(
    directory: Path,
    form: str | None,
    *,
    full: bool,
    fail_if: tuple[str, ...],
    undecided: str,
    junit: Path | None,
) -> int:
    """Show the report of the campaign in DIRECTORY: its first screen.

    Without --format the files beside the record (report.html, report.md, summary.json and the
    tables) are written anew as well. Repeated, they are the same to the byte. --format terminal
    shows the same and writes nothing. --fail-if sets the conditions of what is printed; the files
    have those of the run.
    """
    if full and form not in (None, "terminal"):
        raise click.UsageError(f"--full is for the terminal: {form} has a length of its own.")
    from steelyard.answers.campaign import analyse
    from steelyard.cli.campaigns import Gate, rendered, show, write_again
    from steelyard.record.directory import read_campaign

    record = read_campaign(directory)
    analysis = analyse(record)
    gate = Gate(fail_if=fail_if, undecided=undecided, junit=junit)
    shown = gate.shown(analysis)
    if form not in (None, "terminal"):
        click.echo(rendered(shown, form), nl=False)
        return gate.code(analysis)
    trouble = write_again(record, analysis, directory) if form is None else None
    show(shown, directory, full=full, is_written=form is None and trouble is None)
    code = gate.code(analysis)
    if trouble is not None:
        raise trouble
    return code
