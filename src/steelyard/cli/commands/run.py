"""``steelyard run``: from an experiment to verdicts."""

from pathlib import Path

import click

from steelyard.cli.options import campaign_options, source_arguments, sourced


@click.command(
    "run", epilog="pgbench flags follow `--`: steelyard run orders.yaml -- --random-seed=7"
)
@source_arguments
@click.option("--budget", metavar="TIME", help="End after this long, such as 20m.")
@click.option("--precision", metavar="SHARE", help="Stop at this half-width, such as 1%.")
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="DIR", help="Go on with this campaign."
)
@campaign_options
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Weigh the treatments of an experiment.

    Without an argument `preset:quick`: PostgreSQL's defaults against settings fitted to this
    machine, in about six minutes. Record and reports lie in the campaign directory:
    campaigns/TIME-NAME unless --out is given.
    """
    from steelyard.cli import launching  # noqa: PLC0415 - lazy

    options = launching.RunOptions(**sourced(context.params))
    if options.resume is not None:
        launching.resume(options, given=_given(context))
    elif options.dry_run:
        launching.dry_run(options)
    else:
        launching.run(options)


def _given(context: click.Context) -> list[str]:
    """Return what stands on the command line and would change a campaign, as typed there."""
    on_command_line = click.core.ParameterSource.COMMANDLINE
    words = {
        "source": "an experiment",
        "budget": "--budget",
        "precision": "--precision",
        "seed": "--seed",
        "out": "--out",
        "overrides": "--set",
        "target": "--target",
        "flags": "pgbench flags",
        "allow_existing": "--allow-existing",
        "dry_run": "--dry-run",
    }
    return [
        word
        for name, word in words.items()
        if context.get_parameter_source(name) is on_command_line
        and context.params[name] not in (None, ())
    ]
