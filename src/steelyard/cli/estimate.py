"""``steelyard estimate``: what an experiment can decide, before it runs."""

import click

from steelyard.cli.completion import complete_source
from steelyard.cli.grouping import LongCommand
from steelyard.cli.options import (
    JOB_OPTIONS,
    PATH,
    experiment_options,
    output_option,
    planned_job_options,
)


@click.command(
    "estimate",
    cls=LongCommand,
    usual="budget width override target max-cost output",
)
@click.argument("source", metavar="FILE | preset:NAME", shell_complete=complete_source)
@click.option("--budget", metavar="TIME", help="Estimate for this budget, such as 20m.")
@click.option("--width", metavar="SHARE", help="Estimate for this half-width, such as 1%.")
@click.option(
    "--trial",
    type=PATH,
    metavar="DIR",
    help="Show how many workers the load needs, by this campaign of the same scripts.",
)
@experiment_options
@planned_job_options
@output_option()
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Tell what an experiment can decide, and how long it takes; nothing is started.

    The minutes to decide effects of 1, 2, 3, 5 and 10 % in the results and in single cells, how
    many of ten simulated campaigns detect `stop.detect`, also of other designs, disk, and the time
    to prepare the data. It says if a campaign will run in a cluster or here, and why.
    """
    from steelyard.cli import launching
    from steelyard.cli.attaching import JobOptions

    params = dict(context.params)
    job = JobOptions(**{name: params.pop(name) for name in JOB_OPTIONS if name in params})

    options = launching.RunOptions(
        flags=(),
        seed=None,
        out=None,
        resume=None,
        dry_run=True,
        quiet=True,
        yes=False,
        job=job,
        **params,
    )
    launching.estimate(options)
