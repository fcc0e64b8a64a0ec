"""``steelyard report``: from the record alone."""

from pathlib import Path

import click

from steelyard.cli.options import campaign_argument, gate_options, output_option


@click.command("report")
@campaign_argument
@output_option("summary")
@click.option("--full", is_flag=True, help="Show every chapter with its details.")
@click.option(
    "--write", is_flag=True, help="Also write report.html, report.md, summary.json and the tables."
)
@gate_options
def command(
    directory: Path | None,
    form: str,
    *,
    full: bool,
    write: bool,
    conditions: tuple[str, ...],
    undecided: str,
    junit: Path | None,
) -> int:
    """Show the report of the campaign in DIRECTORY: its first screen.

    Without DIRECTORY that of the newest campaign below campaigns/. `-o summary` is ten lines of
    Markdown for a pull request. --write writes the files beside the record: repeated, they are
    the same to the byte. --gate sets the conditions of what is printed; the files have those of the
    run.
    """
    if full and form not in ("text", "markdown", "html"):
        raise click.UsageError(f"--full is for text, markdown and html: {form} has all or nothing.")
    from steelyard.answers.campaign import analyse
    from steelyard.cli.campaigns import Gate, ended, named_or_newest, show, unprinted, write_again
    from steelyard.record.directory import read_campaign

    path = named_or_newest(directory)
    record = read_campaign(path)
    analysis = analyse(record)
    gate = Gate(conditions=conditions, undecided=undecided, junit=junit)
    shown = gate.shown(analysis)
    trouble = write_again(record, analysis, path) if write else None
    is_written = write and trouble is None
    failed = unprinted(lambda: show(shown, path, form, full=full, is_written=is_written))
    code = gate.code(analysis)
    if trouble is not None:
        raise trouble
    return ended(code, failed)
